"""Records in released units: each column minus a centre, over a spread (claim D5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding, Column, Encoded, Main
from dpfast.data.records import Covariates, Records, Wrapped
from dpfast.data.scaling.maps import CHUNK

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Released(Column):
    """A number in released units: ``(x - centre) / spread``, without a declared range."""

    centre: float
    unit: float
    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "released"

    @property
    def location(self) -> float:
        return self.centre

    @property
    def spread(self) -> float:
        return self.unit

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        from dpfast.data.columns import numbers

        with np.errstate(all="ignore"):
            held = np.clip(numbers(values, name), self.low, self.high)
            coded = (held - self.centre) / self.unit
        return coded[:, None], [name], np.array([[-math.inf, math.inf]])


class ReleasedScales(NamedTuple):
    """Released centres and spreads of the covariates and of the response."""

    centres: Array
    spreads: Array
    response: tuple[float, float]

    def coded(self, X: Covariates, y: Array) -> tuple[Covariates, Array]:
        """Covariates and responses in these units, as they were stored: one copy of them."""
        Z = np.empty_like(X, subok=False)
        with np.errstate(all="ignore"):
            for first in range(0, len(X), CHUNK):
                some = slice(first, first + CHUNK)
                wide = np.subtract(X[some], self.centres, dtype=np.float64)
                Z[some] = np.divide(wide, self.spreads, out=wide)
            return Z, self._coded_response(y)

    def _coded_response(self, y: Array) -> Array:
        """Weights beside responses stay, and so do offsets, which are then of log odds."""
        if y.ndim == 1:
            return (y - self.response[0]) / self.response[1]
        coded = y.copy()
        coded[:, 0] = (y[:, 0] - self.response[0]) / self.response[1]
        return coded


def released_coding(
    units: ReleasedScales,
    ranges: Array,
    names: Sequence[str],
    *,
    by_name: bool,
    fit_intercept: bool,
) -> Coding:
    """The coding of columns of these names, and of arrays of them unless they came ``by_name``."""
    response = "y"
    while response in names:
        response += "_"
    columns = {
        name: Released(centre, spread, low, high)
        for name, centre, spread, (low, high) in zip(
            names, units.centres.tolist(), units.spreads.tolist(), ranges.tolist(), strict=True
        )
    }
    terms = tuple((Main(name),) for name in names)
    columns[response] = Released(*units.response)
    return Coding(columns, terms, response, fit_intercept, arrays=not by_name)


class CodedRecords(Records):
    """Arrays in units: a coded copy, made for the first who asks for it."""

    def __init__(self, records: Records, units: ReleasedScales, coding: Coding) -> None:
        self.n, self.n_covariates = records.n, records.n_covariates
        self.names = records.names or tuple(coding.covariate_columns)
        self.block_sizes, self.together = records.block_sizes, records.together
        self._raw, self._units, self.coding = records, units, coding
        self._copy: tuple[Covariates, Array] | None = None

    in_memory = True

    @property
    def uncoded(self) -> tuple[Records, ReleasedScales]:
        """As they came, and the units they are in."""
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


class InPieces(Records):
    """Rows of persons in arrays, some at a time, so that no copy of all of them is made."""

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """As many rows at a time as persons have theirs summed."""
        from dpfast.data.persons.means import ROWS_AT_A_TIME

        for first in range(0, self.n, ROWS_AT_A_TIME):
            some = slice(first, first + ROWS_AT_A_TIME)
            yield self.X[some], self.y[some]


class CodedBlocks(Wrapped):
    """Records that are coded again for every query, block by block, wherever they are kept."""

    def __init__(self, records: Records, units: ReleasedScales, coding: Coding) -> None:
        super().__init__(records)
        self.names = records.names or tuple(coding.covariate_columns)
        self._units, self.coding = units, coding

    @property
    def additions(self) -> int:
        return self._raw.additions

    @property
    def uncoded(self) -> tuple[Records, ReleasedScales]:
        """As they came, and the units they are in."""
        return self._raw, self._units

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        return (self._units.coded(X, y) for X, y in self._raw.blocks())

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._raw.total(partial(_of_coded, function, self._units), *arguments)

    def random_partition(self, keys: Any, scatter: Callable[..., Any], n_slots: int) -> Any:
        """Random parts of records that are elsewhere."""
        raw: Any = self._raw
        return _DealtInUnits(raw.random_partition(keys, scatter, n_slots), self._units, self.coding)


class _DealtInUnits:
    """Random parts of records on a cluster, coded there."""

    def __init__(self, parts: Any, units: ReleasedScales, coding: Coding | None) -> None:
        self._parts, self._units, self._coding = parts, units, coding

    def part(self, low: int, high: int, n: int) -> Records:
        assert self._coding is not None
        return CodedBlocks(self._parts.part(low, high, n), self._units, self._coding)


def _of_coded(
    function: Callable[..., Any], units: ReleasedScales, X: Covariates, y: Array, *arguments: Any
) -> Any:
    """What a function makes of coded records."""
    return function(*units.coded(X, y), *arguments)
