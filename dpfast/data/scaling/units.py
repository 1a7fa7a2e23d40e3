"""Records in released units: each column minus a centre, over a spread (claim D5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.data.coding import Coding, Column, Encoded, Main
from dpfast.data.records import Covariates, Mapped, Records
from dpfast.data.scaling.maps import CHUNK


@dataclass(frozen=True)
class Released(Column):
    """Number in released units: ``(x - centre) / spread``, without a declared range."""

    centre: float
    unit: float
    low: float = -math.inf
    high: float = math.inf
    #: Where centre and unit are from, if not from the budget of the fit: a public fact.
    origin: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = "released"

    @property
    def location(self) -> float:
        return self.centre

    @property
    def spread(self) -> float:
        return self.unit

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        from dpfast.data.columns import shared_numbers

        coded = shared_numbers(values, name)
        with np.errstate(all="ignore"):
            if math.isfinite(self.low) or math.isfinite(self.high):
                coded = np.clip(coded, self.low, self.high)
            if (self.centre, self.unit) != (0.0, 1.0):  # else its own units: no copy
                coded = (coded - self.centre) / self.unit
        return coded[:, None], [name], np.array([[-math.inf, math.inf]])


class ReleasedScales(NamedTuple):
    """Released centres and spreads of the covariates and of the response."""

    centres: Array
    spreads: Array
    response: tuple[float, float]

    def coded(self, X: Covariates, y: Array) -> tuple[Covariates, Array]:
        """Code covariates and responses in these units, as one copy of the stored type."""
        Z = np.empty_like(X, subok=False)
        with np.errstate(all="ignore"):
            for first in range(0, len(X), CHUNK):
                rows = slice(first, first + CHUNK)
                centred = np.subtract(X[rows], self.centres, dtype=np.float64)
                Z[rows] = np.divide(centred, self.spreads, out=centred)
            return Z, self._coded_response(y)

    def code_in_place(self, X: Array, y: Array) -> None:
        """Code arrays of covariates and responses in these units, which nobody else has."""
        with np.errstate(all="ignore"):
            X -= self.centres
            X /= self.spreads
            y -= self.response[0]
            y /= self.response[1]

    def _coded_response(self, y: Array) -> Array:
        """Code the responses; weights stay, and so do offsets, which are then of log odds."""
        if y.ndim == 1:
            return (y - self.response[0]) / self.response[1]
        coded = y.copy()
        coded[:, 0] = (y[:, 0] - self.response[0]) / self.response[1]
        return coded


def released_coding(
    scales: ReleasedScales,
    ranges: Array,
    names: Sequence[str],
    *,
    by_name: bool,
    fit_intercept: bool,
) -> Coding:
    """Make the coding of named columns, and of arrays of them unless they are read ``by_name``."""
    response = "y"
    while response in names:
        response += "_"
    columns = ReleasedColumns(scales, ranges, (*names, response))
    return Coding(columns, _main_terms(tuple(names)), response, fit_intercept, arrays=not by_name)


class ReleasedColumns(Mapping[str, Released]):
    """Declarations of columns by released scales, the response last; made when one is read."""

    def __init__(self, scales: ReleasedScales, ranges: Array, names: tuple[str, ...]) -> None:
        #: Copies: a caller may write on the arrays that a result shows.
        self.scales = ReleasedScales(scales.centres.copy(), scales.spreads.copy(), scales.response)
        self._ranges, self._names = ranges, names
        self._declared: dict[str, Released] = {}

    def __getitem__(self, name: str) -> Released:
        if not self._declared:
            centres, spreads, response = self.scales
            numbers = zip(centres.tolist(), spreads.tolist(), self._ranges.tolist(), strict=True)
            columns = [Released(centre, spread, *ends) for centre, spread, ends in numbers]
            self._declared = dict(zip(self._names, [*columns, Released(*response)], strict=True))
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@lru_cache(maxsize=64)
def _main_terms(names: tuple[str, ...]) -> tuple[tuple[Main, ...], ...]:
    """Return a term for each column."""
    return tuple([(Main(name),) for name in names])


def from_elsewhere(coding: Coding, origin: str) -> Coding:
    """Return a coding of released columns that says where its centres and scales are from."""
    columns = {
        name: replace(declared, origin=origin)  # type: ignore[type-var]
        for name, declared in coding.columns.items()
    }
    return replace(coding, columns=columns)


class CodedRecords(Records):
    """Arrays in released units: one coded copy, made when it is first needed."""

    def __init__(self, records: Records, scales: ReleasedScales, coding: Coding) -> None:
        self.n = records.n
        self.n_covariates = records.n_covariates
        self.names = records.names or tuple(coding.covariate_columns)
        self.block_sizes = records.block_sizes
        self.rows_per_unit = records.rows_per_unit
        self._raw = records
        self._units = scales
        self.coding = coding
        self._copy: tuple[Covariates, Array] | None = None

    in_memory = True

    @property
    def uncoded(self) -> tuple[Records, ReleasedScales]:
        """Records before coding, and their units."""
        return self._raw, self._units

    def _coded(self) -> tuple[Covariates, Array]:
        if self._copy is None:
            self._copy = self._units.coded(self._raw.X, self._raw.y)
        return self._copy

    @property
    def X(self) -> Covariates:  # type: ignore[override]
        return self._coded()[0]

    @property
    def y(self) -> Array:  # type: ignore[override]
        return self._coded()[1]


def coded_blocks(records: Records, scales: ReleasedScales, coding: Coding) -> Records:
    """Code records again for every query, block by block, and where they are."""
    names = records.names or tuple(coding.covariate_columns)
    facts: dict[str, Any] = {"names": names, "coding": coding, "of_terms": records.of_terms}
    return Mapped(records, scales.coded, units=scales, **facts)


def in_units(records: Records, scales: ReleasedScales, coding: Coding) -> Records:
    """Return the records in released units, with the coding that documents them."""
    if records.means:
        persons: Any = records
        return persons._in_units(scales, coding)
    if records.in_memory:
        return CodedRecords(records, scales, coding)
    if hasattr(records, "X"):
        from dpfast.data.streams import memmap_records

        records = memmap_records(records.X, records.y, records.names)
    return coded_blocks(records, scales, coding)
