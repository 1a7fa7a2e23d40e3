"""The privacy unit is a person with several rows.

Either each person fills a fixed number of slots, or a person counts with the mean of their rows,
however many these are; then their number is as private as what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import one_of, whole_number
from dpfast.data.columns import labels
from dpfast.data.records import Covariates, Records
from dpfast.data.reduction import additions
from dpfast.errors import InvalidInput, described

__all__ = ["EACH", "PersonMeans", "averaged", "checked_group_size", "grouped"]

#: What is counted once: each row, of which a person has so many at most, or each person.
EACH = ("row", "person")

#: Rows of persons that are summed at a time, and more than there ever are: how deep their sum is
#: must not depend on how many there are (claim C72).
ROWS_AT_A_TIME, MOST_ROWS = 1 << 16, 1 << 36


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


class PersonMeans(Records):
    """Rows of n persons, each with one over the number of a person's usable rows as its weight.

    Sums of scores and curvatures over the rows are then sums of persons' means, and n counts
    persons.  Nothing public depends on the number of rows.

    Parameters
    ----------
    X : ndarray of shape (rows, q)
    y : ndarray of shape (rows, 3)
        Response, weight and offset of each row.
    ends : ndarray of intp, shape (n,)
        The row after the last of each person's, which stand together.
    names : tuple of str or None
    """

    __slots__ = ("ends",)

    can_be_dealt = False

    def __init__(
        self,
        X: Covariates,
        y: NDArray[np.float64],
        ends: NDArray[np.intp],
        names: tuple[str, ...] | None,
    ) -> None:
        super().__init__(X, y, names)
        self.ends = ends
        self.n = len(ends)
        self.block_sizes = (ROWS_AT_A_TIME,)

    @property
    def additions(self) -> int:
        """Of as many blocks as there are at most, because their number is private."""
        return additions(MOST_ROWS // ROWS_AT_A_TIME)

    def blocks(self) -> Iterator[tuple[Covariates, NDArray[np.float64]]]:
        """The rows, some at a time."""
        for first in range(0, len(self.y), ROWS_AT_A_TIME):
            some = slice(first, first + ROWS_AT_A_TIME)
            yield self.X[some], self.y[some]

    def without_covariates(self) -> PersonMeans:
        """The same persons with their responses alone; of rows that are usable."""
        return PersonMeans(self.X[:, :0], self.y, self.ends, None)


def checked_group_size(group: Any, group_size: Any, each: str = "row") -> int:
    """Public bound m on rows per person; 1 without groups, or where each person counts once."""
    if one_of(each, EACH, "each") == "person":
        if group is None or group_size is not None:
            raise InvalidInput(
                'each="person" needs group (the person of each row) and no group_size: a person '
                "counts with the mean of their rows, however many they are."
            )
        return 1
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
    slots, persons = _slots(_persons(found, positions), group_size)
    kept = slots >= 0
    n = persons * group_size
    X = np.full((n, records.n_covariates), np.nan)
    y = np.full((n, *records.y.shape[1:]), np.nan)
    X[slots[kept]] = records.X[kept]
    y[slots[kept]] = records.y[kept]
    return Persons(X, y, records.names, group_size)


def averaged(records: Records, group: Any) -> PersonMeans:
    """Records of persons, each of whom counts with the mean of what their rows contribute.

    Rows without a usable label are one person, as in :func:`grouped`.  A row with a cell that is
    not finite, or with no response, is not counted among its person's; a person without any other
    contributes zero.

    Parameters
    ----------
    records : Records
        The rows; with offsets or without.
    group : array-like
        Label of the person of each row.  The number of persons is public, that of rows is not.
    """
    if not hasattr(records, "X"):
        raise InvalidInput(
            'each="person" needs arrays in memory, where all rows of a person can be found; '
            f"received {described(records)}. Load the rows, or keep a public number of rows of "
            "each person with group_size=..."
        )
    found, positions = labels(group, "group")
    if len(positions) != len(records.y):
        raise InvalidInput(
            "group must have one label for each row of X."
        )  # their number is private
    numbers: dict[Any, int] = {}
    of_row = [numbers.setdefault(person, len(numbers)) for person in _persons(found, positions)]
    persons = np.asarray(of_row, dtype=np.intp)
    order = np.argsort(persons, kind="stable")
    X, y = records.X[order], np.zeros((len(order), 3))
    y[:, 0] = (records.y if records.y.ndim == 1 else records.y[:, 0])[order]
    if records.y.ndim == 2:
        y[:, 2] = records.y[order, 2]
    persons = persons[order]
    usable = np.isfinite(X).all(axis=1) & np.isfinite(y[:, 0]) & np.isfinite(y[:, 2])
    counts = np.bincount(persons[usable], minlength=len(numbers))
    # rounded down, so that the weights of a person's rows add up to at most 1 (claim C72)
    y[:, 1] = np.nextafter(1.0 / np.maximum(counts, 1), 0.0)[persons]
    # of rows that do not count also where a query puts another response in the place of theirs
    y[~usable, :2] = np.nan, 0.0
    ends = np.cumsum(np.bincount(persons, minlength=len(numbers)), dtype=np.intp)
    return PersonMeans(X, y, ends, records.names)


def _persons(found: Any, positions: NDArray[Any]) -> list[Any]:
    """The person of each row, from the labels that occur and where."""
    persons_of = [*map(_person, found), None]  # -1, a missing label, is the last
    return [persons_of[position] for position in positions.tolist()]


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
