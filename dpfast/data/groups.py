"""The privacy unit is a person with several rows: each person fills a fixed number of slots."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import whole_number
from dpfast.data.columns import labels
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, described

__all__ = ["checked_group_size", "grouped"]


class Persons(Records):
    """Records of which as many as a person has slots are one person's."""

    __slots__ = ("together",)

    def __init__(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        names: tuple[str, ...] | None,
        together: int,
    ) -> None:
        super().__init__(X, y, names)
        self.together = together


def checked_group_size(group: Any, group_size: Any) -> int:
    """The public bound m on rows per person; 1 without groups."""
    if (group is None) != (group_size is None):
        raise InvalidInput(
            "group (the person of each row) and group_size (the public bound on rows per person) "
            "go together; received only one of them."
        )
    if group is None:
        return 1
    return whole_number(group_size, "group_size", 1, 10_000)


def grouped(records: Records, group: Any, group_size: int) -> Records:
    """Records with ``group_size`` slots for each person, in order of first appearance.

    A person's first ``group_size`` rows fill the slots; further rows are left out, and missing
    ones are records that contribute exactly zero.  So replacing a person replaces at most
    ``group_size`` records, and n counts persons times slots.

    All rows without a usable label (None, NaN, ``pd.NA``, text that is no Unicode, whatever is no
    text, bytes, number, date or time) are **one** person, and at most ``group_size`` are used.
    Two of them may be the same person's, and if each were a person of its own, one with many such
    rows would move many records.  Label them before, as persons of their own, if they are.

    Parameters
    ----------
    records : Records
    group : array-like of shape (n,)
        Label of the person each row belongs to.  Their number is public, like n.
    group_size : int
    """
    if not hasattr(records, "X"):
        raise InvalidInput(
            f"group=... needs arrays in memory; received {described(records)}. Keep at most "
            "group_size rows of each person when the data are prepared, and ask for a budget of "
            "privacy/group_size."
        )
    found, positions = labels(group, "group")
    if len(positions) != records.n:
        raise InvalidInput(
            f"group must have one label for each of the {records.n} rows; received "
            f"{len(positions)}."
        )
    persons_of = [*map(_person, found), None]  # -1, a missing label, is the last
    slots, persons = _slots([persons_of[position] for position in positions.tolist()], group_size)
    kept = slots >= 0
    n = persons * group_size
    X = np.full((n, records.n_covariates), np.nan)
    y = np.full(n, np.nan)
    X[slots[kept]] = records.X[kept]
    y[slots[kept]] = records.y[kept]
    return Persons(X, y, records.names, group_size)


def _person(label: Any) -> Any:
    """The label as a key; None for whatever is not equal to itself or cannot be a key."""
    try:
        key = _key(label)
        return key if bool(label == label) else None
    except Exception:
        return None


def _key(label: Any) -> Any:
    """What stands for a label, of a type whose comparisons with the others never raise or warn."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, int):
        return int.__int__(label)
    if isinstance(label, float):
        return float.__float__(label)
    if isinstance(label, Decimal):
        hash(label)  # raises for one that signals
        return Decimal(label)
    if isinstance(label, bytes):
        return "bytes", bytes(memoryview(label))  # b"1" == "1" may warn
    if isinstance(label, datetime):
        aware = label.utcoffset() is not None
        return "time", aware, (label.astimezone(UTC) if aware else label).isoformat()
    if isinstance(label, date):
        return "date", label.isoformat()
    raise TypeError


def _slots(labels: list[Any], group_size: int) -> tuple[NDArray[np.int64], int]:
    """Slot of each row, -1 for rows beyond the bound; and the number of persons."""
    seen: dict[Any, list[int]] = {}
    slots = np.full(len(labels), -1, dtype=np.int64)
    for i, label in enumerate(labels):
        person = seen.setdefault(label, [len(seen), 0])
        if person[1] < group_size:
            slots[i] = person[0] * group_size + person[1]
            person[1] += 1
    return slots, len(seen)
