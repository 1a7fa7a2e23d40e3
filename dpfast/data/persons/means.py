"""Records that are persons, each of whom counts once, with what their rows contribute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding
from dpfast.data.columns import library
from dpfast.data.parts import WithoutCovariates
from dpfast.data.persons.numbering import LabelEncoder
from dpfast.data.record_weights.columns_given import DASK
from dpfast.data.records import Covariates, Records
from dpfast.data.reduction import additions
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]

#: Rows that are summed at a time, and more than there ever are: how deep a sum is must not depend
#: on how many there are (claim C72).
ROWS_AT_A_TIME, MOST_ROWS = 1 << 16, 1 << 42


class PersonMeans(Records):
    """Rows of n persons, each with one over the number of a person's usable rows as its weight."""

    can_be_partitioned, means = False, True

    def __init__(
        self, rows: Records, whose: PersonIndex, counts: NDArray[np.int64], most: int | None = None
    ) -> None:
        self.n, self.n_covariates = len(counts), rows.n_covariates
        self.names, self.coding, self.read_again = rows.names, rows.coding, rows.read_again
        self.block_sizes = (ROWS_AT_A_TIME,)
        self._rows, self._whose, self.counts, self._most = rows, whose, counts, most
        shares = np.maximum(counts, 1) if most is None else np.full(len(counts), most)
        # rounded down, so that the weights of a person's rows add up to at most 1 (claim C72)
        self._weights = np.nextafter(1.0 / shares, 0.0)
        self._kept: list[tuple[Covariates, Array, Numbers]] | None = None

    @property
    def rows(self) -> Records:
        """Of all persons, as they came."""
        return self._rows

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        return self._rows.reads

    @property
    def additions(self) -> int:
        """Of as many blocks as there are at most, because their number is private."""
        return additions(MOST_ROWS // ROWS_AT_A_TIME)

    @cached_property
    def uncoded(self) -> tuple[PersonMeans, Any]:
        """Of rows as they came, and the units they are in."""
        rows, units = self._rows.uncoded
        return (self if rows is self._rows else self.mapped(lambda _: rows)), units

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The rows, some at a time."""
        return ((X, y) for X, y, _ in self.pieces())

    def pieces(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        """The rows, some at a time: covariates, (response, weight, offset), and whose they are."""
        if self._rows.in_memory:
            self._kept = self._kept or list(self._pieces())
        return self._pieces() if self._kept is None else iter(self._kept)

    def _pieces(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        for X, y, persons in _pieces(self._rows, self._whose):
            beside = np.zeros((len(y), 3))
            beside[:, 0] = y if y.ndim == 1 else y[:, 0]
            beside[:, 1] = self._weights[persons]
            if y.ndim == 2:
                beside[:, 1] *= np.clip(y[:, 1], 0.0, 1.0)
                beside[:, 2] = y[:, 2]
            idle = (persons < 0) | ~np.isfinite(beside[:, ::2]).all(axis=1)
            beside[idle, :2] = np.nan, 0.0
            yield X, beside, persons

    def usable_rows(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        """Covariates, responses as they are and persons of the usable rows, some at a time."""
        for X, y, persons in _pieces(self._rows, self._whose):
            usable = (persons >= 0) & _usable(X, y)
            yield (X, y, persons) if usable.all() else (X[usable], y[usable], persons[usable])

    def without_covariates(self) -> PersonMeans:
        """The same persons with the responses of their usable rows alone."""
        return self.mapped(WithoutCovariates)

    def _in_units(self, units: Any, coding: Coding) -> PersonMeans:
        """Of rows in released units; those in memory are coded some at a time."""
        from dpfast.data.scaling.units import CodedBlocks, InPieces

        def coded(rows: Records) -> Records:
            if not rows.in_memory:
                return rows._in_units(units, coding)
            return CodedBlocks(InPieces(rows.X, rows.y, rows.names), units, coding)

        return self.mapped(coded)

    def mapped(self, of_rows: Callable[[Records], Records]) -> PersonMeans:
        """The same persons with what a function makes of their rows, each on its own."""
        return PersonMeans(of_rows(self._rows), self._whose, self.counts, self._most)


class PersonIndex:
    """The person of each row."""

    def __init__(self, rows: Records, group: Any) -> None:
        self._numbering = LabelEncoder()
        self._read = group if callable(group) else None
        self._seen = False
        self._all: Numbers | None = None
        if self._read is None:
            self._all = self._numbering.of(group)
            if len(self._all) != rows.n:
                raise InvalidInput(
                    "group must have one label for each row of X."
                )  # their number is private

    def of_block(self, k: int, start: int, size: int) -> Numbers:
        """Of the rows of block k, which begins with row ``start``."""
        if self._all is not None:
            return self._all[start : start + size]
        assert self._read is not None
        found, positions = self._read(k)[0]
        return self._numbering.of_labels(found, positions, grow=not self._seen)

    def counts(self, rows: Records) -> NDArray[np.int64]:
        """How many usable rows each person has, from one pass; nobody is new from then on."""
        found = np.zeros(len(self._numbering), dtype=np.int64)
        start = 0
        for k, (X, y) in enumerate(rows.blocks()):
            persons = self.of_block(k, start, len(y))
            start += len(y)
            for first in range(0, len(y), ROWS_AT_A_TIME):
                some = slice(first, first + ROWS_AT_A_TIME)
                usable = _usable(X[some], y[some])
                of_some = np.bincount(persons[some][usable], minlength=len(self._numbering))
                of_some[: len(found)] += found
                found = of_some
                if self._all is not None:
                    persons[some][~usable] = -1  # for good, whatever becomes of the row
        self._seen = True
        return found


def person_means(records: Records, group: Any) -> PersonMeans:
    """Records of persons, each of whom counts with the mean of what their rows contribute."""
    refuse_cluster(records)
    whose = PersonIndex(records, group)
    return PersonMeans(records, whose, whose.counts(records))


def of_slots(slots: Records, most: int) -> PersonMeans:
    """Persons who count with the sum of what their rows contribute over a public number of rows."""
    whose = PersonIndex(slots, np.repeat(np.arange(slots.n // most), most))
    return PersonMeans(slots, whose, whose.counts(slots), most)


def refuse_cluster(X: Any) -> None:
    """Refuse what is on a cluster, whose scheduler sees chunks and tasks: they follow the rows."""
    if library(X) in DASK or getattr(X, "elsewhere", False):
        raise InvalidInput(
            f'each="person" does not read records of Dask; received {described(X)}. Sizes of '
            "chunks and tasks are seen by its scheduler, and follow the number of rows, which is "
            "private here. Write Parquet files and pass dpfast.open_parquet(...), or load the rows "
            "(X.compute())."
        )


def _usable(X: Any, y: Any) -> NDArray[np.bool_]:
    """Which rows have finite covariates, responses and offsets."""
    with np.errstate(all="ignore"):
        found: NDArray[np.bool_] = np.isfinite(X @ np.ones(X.shape[1], X.dtype))
    doubtful = np.flatnonzero(~found)  # a sum of finite numbers may overflow
    found[doubtful] = np.isfinite(X[doubtful]).all(axis=1)
    return found & (np.isfinite(y) if y.ndim == 1 else np.isfinite(y).all(axis=1))


def _pieces(rows: Records, whose: PersonIndex) -> Iterator[tuple[Any, Any, Numbers]]:
    """Covariates, responses and persons of ROWS_AT_A_TIME rows each, but the last."""
    parts: list[tuple[Any, Any, Numbers]] = []
    held = start = 0
    for k, (X, y) in enumerate(rows.blocks()):
        persons = whose.of_block(k, start, len(y))
        start += len(y)
        done = 0
        while done < len(y):
            some = slice(done, done + ROWS_AT_A_TIME - held)
            parts.append((X[some], y[some], persons[some]))
            done = min(some.stop, len(y))
            held += len(parts[-1][1])
            if held == ROWS_AT_A_TIME:
                yield _together(parts)
                parts, held = [], 0
    if parts:
        yield _together(parts)


def _together(parts: list[tuple[Any, Any, Numbers]]) -> tuple[Any, Any, Numbers]:
    X, y, persons = [
        found[0] if len(found) == 1 else np.concatenate(found) for found in zip(*parts, strict=True)
    ]
    return X, y, persons
