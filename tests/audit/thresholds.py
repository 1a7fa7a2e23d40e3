"""Neighbours at thresholds: one record more or less, and an exact number passes a limit.

A result that depends on records through its answers alone is the same for both, given the answers.
One that decides something by an exact number of records, or by the largest of their values, is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

__all__ = ["Pairs", "Table", "alone", "complete", "counted", "ends", "with_one"]

Table = dict[str, Any]

#: What a pair is called, and both tables, which differ in record 0.
Pairs = Iterator[tuple[str, Table, Table]]


def with_one(table: Table, **cells: Any) -> Table:
    """The same table with other cells in record 0."""
    found = {name: column.copy() for name, column in table.items()}
    for name, cell in cells.items():
        found[name][0] = cell
    return found


def counted(
    table: Table, name: str, inside: Any, outside: tuple[Any, ...], counts: Iterable[int]
) -> Pairs:
    """Columns in which so many records have a value, and one fewer."""
    for k in counts:
        column = table[name].copy()
        column[:k], column[k:] = inside, outside[0]
        full = table | {name: column}
        for other in outside:
            yield f"{k} with {name} = {inside}, or {other}", full, with_one(full, **{name: other})


def complete(table: Table, name: str, counts: Iterable[int]) -> Pairs:
    """Columns in which so many records have a number, and one fewer."""
    places = np.arange(len(table[name]))
    for k in counts:
        full = table | {name: np.where(places < k, table[name], np.nan)}
        yield f"{k} with a number in {name}", full, with_one(full, **{name: np.nan})


def ends(table: Table, names: Iterable[str]) -> Pairs:
    """Columns whose largest or smallest value one record has."""
    for name in names:
        width = np.ptp(table[name])
        for side, of in ((1.0, "largest"), (-1.0, "smallest")):
            end = np.median(table[name]) + side * width
            yield f"{of} {name}", table, with_one(table, **{name: end})


def alone(table: Table, names: Iterable[str]) -> Pairs:
    """Columns that one record alone keeps from being constant."""
    for name in names:
        same = table | {name: np.full_like(table[name], np.median(table[name]))}
        yield f"only other {name}", same, with_one(same, **{name: same[name][0] + 1.0})
