"""Records that are persons, each with the mean contribution of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding
from dpfast.data.columns import library
from dpfast.data.parts import pieces, without_covariates
from dpfast.data.persons.numbering import LabelEncoder
from dpfast.data.record_weights.columns_given import DASK
from dpfast.data.records import Covariates, Records, Wrapped
from dpfast.data.reduction import additions
from dpfast.data.scaling.units import coded_blocks, in_units
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]
Numbers = NDArray[np.intp]

#: Rows that are summed at a time.
ROWS_AT_A_TIME = 1 << 16

#: Public bound on the number of rows: the depth of a sum must not depend on how many there are
#: (claim C72).
MAX_ROWS = 1 << 42


class PersonMeans(Records):
    """Rows of n persons, each weighted by one over its person's number of usable rows."""

    can_be_partitioned = False
    means = True

    def __init__(
        self,
        rows: Records,
        person_index: PersonIndex,
        counts: NDArray[np.int64],
        max_rows: int | None = None,
    ) -> None:
        self.n = len(counts)
        self.n_covariates = rows.n_covariates
        self.names = rows.names
        self.coding = rows.coding
        self.read_again = rows.read_again
        self.block_sizes = (ROWS_AT_A_TIME,)
        self._rows = rows
        self._person_index = person_index
        self.counts = counts
        self._max_rows = max_rows
        shares = np.maximum(counts, 1) if max_rows is None else np.full(len(counts), max_rows)
        # rounded down, so that the weights of a person's rows add up to at most 1 (claim C72)
        self._weights = np.nextafter(1.0 / shares, 0.0)
        self._cached_pieces: list[tuple[Covariates, Array, Numbers]] | None = None

    @property
    def rows(self) -> Records:
        """Persons' rows, unchanged."""
        return self._rows

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        return self._rows.reads

    @property
    def additions(self) -> int:
        """Additions for the largest number of blocks, because their number is private."""
        return additions(MAX_ROWS // ROWS_AT_A_TIME)

    @cached_property
    def uncoded(self) -> tuple[PersonMeans, Any]:
        """Persons' rows before coding, and the units that they are coded in."""
        rows, scales = self._rows.uncoded
        return (self if rows is self._rows else self.mapped(lambda _: rows)), scales

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield the rows piece by piece."""
        return ((X, y) for X, y, _ in self.pieces())

    def pieces(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        """Yield the rows piece by piece: covariates, (response, weight, offset), and persons."""
        if self._rows.in_memory:
            self._cached_pieces = self._cached_pieces or list(self._pieces())
        return self._pieces() if self._cached_pieces is None else iter(self._cached_pieces)

    def _pieces(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        for X, y, persons in _pieces(self._rows, self._person_index):
            columns = np.zeros((len(y), 3))
            columns[:, 0] = y if y.ndim == 1 else y[:, 0]
            columns[:, 1] = self._weights[persons]
            if y.ndim == 2:
                columns[:, 1] *= np.clip(y[:, 1], 0.0, 1.0)
                columns[:, 2] = y[:, 2]
            unused = (persons < 0) | ~np.isfinite(columns[:, ::2]).all(axis=1)
            columns[unused, :2] = np.nan, 0.0
            yield X, columns, persons

    def usable_rows(self) -> Iterator[tuple[Covariates, Array, Numbers]]:
        """Yield covariates, raw responses and persons of the usable rows, piece by piece."""
        for X, y, persons in _pieces(self._rows, self._person_index):
            usable = (persons >= 0) & _usable(X, y)
            yield (X, y, persons) if usable.all() else (X[usable], y[usable], persons[usable])

    def without_covariates(self) -> PersonMeans:
        """Return the same persons with the responses of their usable rows only."""
        return self.mapped(without_covariates)

    def _in_units(self, scales: Any, coding: Coding) -> PersonMeans:
        """Return the persons in released units; rows in memory are coded piece by piece."""

        def coded(rows: Records) -> Records:
            if not rows.in_memory:
                return in_units(rows, scales, coding)
            in_pieces = partial(pieces, rows.X, rows.y, ROWS_AT_A_TIME)
            raw = Wrapped(rows, in_pieces, X=rows.X, y=rows.y)
            return coded_blocks(raw, scales, coding)

        return self.mapped(coded)

    def mapped(self, of_rows: Callable[[Records], Records]) -> PersonMeans:
        """Apply a function to the rows, each on its own, for the same persons."""
        return PersonMeans(of_rows(self._rows), self._person_index, self.counts, self._max_rows)


class PersonIndex:
    """Person of each row."""

    def __init__(self, rows: Records, group: Any) -> None:
        self._encoder = LabelEncoder()
        self._read_labels = group if callable(group) else None
        self._is_complete = False
        self._persons: Numbers | None = None
        if self._read_labels is None:
            self._persons = self._encoder.of(group)
            if len(self._persons) != rows.n:
                # without their number, which is private
                raise InvalidInput("group must have one label for each row of X.")

    def of_block(self, k: int, start: int, size: int) -> Numbers:
        """Return the persons of the rows in block k, which begins with row ``start``."""
        if self._persons is not None:
            return self._persons[start : start + size]
        assert self._read_labels is not None
        distinct, positions = self._read_labels(k)[0]
        return self._encoder.of_labels(distinct, positions, grow=not self._is_complete)

    def counts(self, rows: Records) -> NDArray[np.int64]:
        """Count each person's usable rows in one pass; later passes accept no new person."""
        totals = np.zeros(len(self._encoder), dtype=np.int64)
        start = 0
        for k, (X, y) in enumerate(rows.blocks()):
            persons = self.of_block(k, start, len(y))
            start += len(y)
            for first in range(0, len(y), ROWS_AT_A_TIME):
                piece = slice(first, first + ROWS_AT_A_TIME)
                usable = _usable(X[piece], y[piece])
                piece_counts = np.bincount(persons[piece][usable], minlength=len(self._encoder))
                piece_counts[: len(totals)] += totals
                totals = piece_counts
                if self._persons is not None:
                    persons[piece][~usable] = -1  # not usable in later passes either
        self._is_complete = True
        return totals


def person_means(records: Records, group: Any) -> PersonMeans:
    """Make records of persons, each with the mean contribution of their rows."""
    refuse_cluster(records)
    person_index = PersonIndex(records, group)
    return PersonMeans(records, person_index, person_index.counts(records))


def of_slots(slots: Records, n_slots: int) -> PersonMeans:
    """Make records of persons, each with the summed contribution of a public number of rows."""
    person_index = PersonIndex(slots, np.repeat(np.arange(slots.n // n_slots), n_slots))
    return PersonMeans(slots, person_index, person_index.counts(slots), n_slots)


def refuse_cluster(X: Any) -> None:
    """Refuse data on a cluster, whose scheduler sees sizes that follow the number of rows."""
    if library(X) in DASK or getattr(X, "is_remote", False):
        raise InvalidInput(
            f'each="person" does not read records of Dask; received {described(X)}. Sizes of '
            "chunks and tasks are seen by its scheduler, and follow the number of rows, which is "
            "private here. Write Parquet files and pass dpfast.open_parquet(...), or load the rows "
            "(X.compute())."
        )


def _usable(X: Any, y: Any) -> NDArray[np.bool_]:
    """Test each row for finite covariates, response and offset."""
    with np.errstate(all="ignore"):
        usable: NDArray[np.bool_] = np.isfinite(X @ np.ones(X.shape[1], X.dtype))
    not_finite = np.flatnonzero(~usable)  # a sum of finite numbers may overflow
    usable[not_finite] = np.isfinite(X[not_finite]).all(axis=1)
    return usable & (np.isfinite(y) if y.ndim == 1 else np.isfinite(y).all(axis=1))


def _pieces(rows: Records, person_index: PersonIndex) -> Iterator[tuple[Any, Any, Numbers]]:
    """Yield covariates, responses and persons of ROWS_AT_A_TIME rows; the last piece is shorter."""
    parts: list[tuple[Any, Any, Numbers]] = []
    filled = start = 0
    for k, (X, y) in enumerate(rows.blocks()):
        persons = person_index.of_block(k, start, len(y))
        start += len(y)
        done = 0
        while done < len(y):
            rows_here = slice(done, done + ROWS_AT_A_TIME - filled)
            parts.append((X[rows_here], y[rows_here], persons[rows_here]))
            done = min(rows_here.stop, len(y))
            filled += len(parts[-1][1])
            if filled == ROWS_AT_A_TIME:
                yield _concatenate(parts)
                parts = []
                filled = 0
    if parts:
        yield _concatenate(parts)


def _concatenate(parts: list[tuple[Any, Any, Numbers]]) -> tuple[Any, Any, Numbers]:
    X, y, persons = [
        arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        for arrays in zip(*parts, strict=True)
    ]
    return X, y, persons


def within_persons(records: Records, group: Any) -> Records:
    """Subtract from covariates and responses the means over their person's usable rows."""
    if callable(group) or not hasattr(records, "X") or records.coding is not None:
        raise InvalidInput(
            'effects="person" takes rows in memory, in the columns\' own units; received '
            f"{described(records)}. Leave the schema out, or load the rows."
        )
    rows = np.column_stack([np.asarray(records.X, dtype=np.float64), records.y])
    with np.errstate(all="ignore"):
        numbering = LabelEncoder()
        persons = numbering.of(group)
        usable = np.isfinite(rows).all(axis=1)
        count = np.bincount(persons[usable], minlength=len(numbering))
        for j, column in enumerate(rows.T):
            means = np.bincount(persons[usable], column[usable], len(numbering)) / count
            rows[:, j] = np.where(usable, column - means[persons], np.nan)
    return Records(rows[:, :-1], rows[:, -1].copy(), records.names)
