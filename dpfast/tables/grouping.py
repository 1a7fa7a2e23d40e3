"""Declared cells of a table and the columns summed in them, coded by public facts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data import Records
from dpfast.data.cell_records import CellRecords, belonging
from dpfast.data.columns import column, numbers
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.data.source import Source
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]

#: Cells of a table at most.  Larger tables would be read by nobody, and take long.
MAX_CELLS = 100_000


class Grouping(NamedTuple):
    """Cells and summed columns of a table, as the schema declares them."""

    by: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    columns: tuple[str, ...]
    middles: Array
    halves: Array
    squared: tuple[bool, ...]
    schema: Schema

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels."""
        return tuple([len(names) for names in self.levels])

    @property
    def n_cells(self) -> int:
        """The product of the numbers of levels; 1 without groupings."""
        return math.prod(self.shape)

    def records(self, table: Any) -> Records | CellRecords:
        """Code the columns and find the cell of each record; no value is refused."""
        belongs = belonging(table) if isinstance(table, Source) else None
        if isinstance(table, Source):
            table = table.covariates
        codes = [declared_levels(self.schema, name, table) for name in self.by]
        values = [
            _values(self.schema[name], column(table, name), name, middle, half)
            for name, middle, half in zip(self.columns, self.middles, self.halves, strict=True)
        ]
        lengths = {len(entries) for entries in (*codes, *values)}
        if len(lengths) != 1:
            raise InvalidInput(f"columns must be of one length; received {sorted(lengths)}.")
        (n,) = lengths
        if n == 0:
            raise InvalidInput("the table is empty; at least one record is needed.")
        cells, missing = np.zeros(n), np.zeros(n, dtype=bool)
        for code, size in zip(codes, self.shape, strict=True):
            cells = cells * size + code
            missing |= code < 0
        cells[missing] = np.nan
        X = np.array(values).T if values else np.empty((n, 0))
        return Records(X, cells, None) if belongs is None else belongs.records(X, cells)


def grouping_of(schema: Any, by: Any, columns: Any, what: str = "columns") -> Grouping:
    """Check groupings and columns against the schema; no table is read."""
    if not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a dpfast.Schema; received {described(schema)}.")
    names = _listed(schema, () if by is None else by, "by")
    levels = tuple([_levels(schema, name)[0] for name in names])
    if (n_cells := math.prod(map(len, levels))) > MAX_CELLS:
        raise InvalidInput(
            f"the groupings have {n_cells} cells; a table has at most {MAX_CELLS}. Declare "
            "coarser levels."
        )
    summed = _listed(schema, columns, what)
    ends = [_range(schema, name) for name in summed]
    refuse_within(names, [summed])
    middles = np.array([0.5 * low + 0.5 * high for low, high in ends])
    halves = np.array([0.5 * high - 0.5 * low for low, high in ends])
    if not (halves > 0.0).all():
        name = summed[int(np.argmin(halves))]
        raise InvalidInput(
            f"the declared range of column {described(name, text=True)} is too short to be divided "
            "by. Declare it in other units."
        )
    squared = tuple([isinstance(schema[name], Numeric) for name in summed])
    return Grouping(tuple(names), levels, tuple(summed), middles, halves, squared, schema)


def one_grouping(schema: Any, by: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the column that groups records, and its declared levels; refuse several columns."""
    grouping = grouping_of(schema, by, ())
    if len(grouping.by) != 1:
        raise InvalidInput(f"by must name one grouping; received {described(by)}.")
    return grouping.by[0], grouping.levels[0]


def refuse_within(by: Sequence[str], terms: Iterable[Collection[str]]) -> None:
    """Refuse terms that read a grouping column, which is constant within each of its levels."""
    for names in terms:
        if own_columns := [name for name in names if name in by]:
            raise InvalidInput(
                f"column {described(own_columns[0], text=True)} is constant within each of its own "
                "levels, so it has no coefficient there. Leave it out, or group by another column."
            )


def _listed(schema: Schema, names: Any, argument: str) -> list[str]:
    listed = schema.declared([names] if isinstance(names, str) else names, argument)
    if len(set(listed)) < len(listed):
        raise InvalidInput(f"{argument} names a column twice; received {list(listed)}.")
    return listed


def _levels(schema: Schema, name: str) -> tuple[tuple[Any, ...], Categorical]:
    """Return the levels of a grouping, and the declaration that codes them."""
    declared = schema[name]
    if isinstance(declared, Categorical):
        return declared.levels, declared
    if isinstance(declared, Binary):
        pair = (declared.negative, declared.positive)
        return pair, Categorical(pair)
    raise InvalidInput(
        f"column {described(name, text=True)} is declared {declared.kind}; records are grouped by "
        "Categorical or Binary columns. Cut numbers into bands by public bounds before."
    )


def declared_levels(schema: Schema, name: str, table: Any) -> NDArray[np.int64]:
    """Return the position of each record's level, -1 where it is not declared."""
    return _levels(schema, name)[1].codes(column(table, name), name)


def levels_beside(schema: Schema, name: str, table: Any, response: Array) -> NDArray[np.int64]:
    """Return the position of each record's level; refuse another length than the response's."""
    codes = declared_levels(schema, name, table)
    if len(codes) != len(response):
        raise InvalidInput(
            f"columns must be of one length; received {sorted({len(codes), len(response)})}."
        )
    return codes


def _range(schema: Schema, name: str) -> tuple[float, float]:
    declared = schema[name]
    if isinstance(declared, Numeric):
        return float(declared.low), float(declared.high)
    if isinstance(declared, Binary):
        return 0.0, 1.0
    raise InvalidInput(
        f"column {described(name, text=True)} is declared {declared.kind}; means and quantiles are "
        "of Numeric columns, and of Binary ones, whose means are shares. Count the levels of "
        "others by grouping."
    )


def _values(declared: Any, values: Any, name: str, middle: float, half: float) -> Array:
    """Scale a column to [-1, 1]; NaN where a value is not as declared."""
    with np.errstate(all="ignore"):
        if isinstance(declared, Binary):
            return np.asarray(2.0 * declared.encode(values, name)[0][:, 0] - 1.0)
        converted = numbers(values, name)
        clipped = np.clip(converted, declared.low, declared.high)
        return np.where(np.isfinite(converted), (clipped - middle) / half, np.nan)
