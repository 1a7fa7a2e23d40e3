"""Where the columns of a table lie, by noisy bisection over the keys of floating-point numbers.

Every threshold, and how many are asked for, follows from public and released numbers: all of this
is post-processing of a curator's answers (claim D4 of ``dpfast/privacy/bought/PROOFS-bought.md``).

Keys are the doubles in numeric order, as integers; no range has to be declared, because a range of
factors of two is one of integers.  Two quantiles of each column are looked for: while both lie in
one interval of keys, one count serves both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer
from dpfast.privacy.bought.sensitivity import SQUARE_WEIGHT, complete_weight, query_mu
from dpfast.privacy.rounding import MARGIN_8000

__all__ = ["BINARY", "COUNTS", "NUMBER", "SPIKE", "ColumnAnswers", "Location", "Search"]

#: Counts that are planned for each column.
COUNTS = 28

#: Part of mu^2 that goes to counts.
COUNT_SHARE = 0.8

#: Kinds of columns, as far as released numbers tell.
BINARY, NUMBER, SPIKE = "binary", "number", "spike"

_BINADE = 1 << 52
#: Interval of keys, 1e-9 of a number, below which two quantiles count as one.
_SPIKE_KEYS = 1 << 22
#: An end is known well enough when its interval is this part of the distance of the two.
_NARROW = 1.0 / 8.0
#: The range that is not clipped, in half distances of the two quantiles.
_REACH = 1.5
_LARGEST = 1e300
_SMALLEST = 1e-290
_RESOLUTION = 2.0**-40

Interval = tuple[int, int]


class ColumnAnswers(Protocol):
    """What is asked of the curator of the columns."""

    @property
    def n(self) -> int: ...

    def not_binary(self, columns: Sequence[int], mu: float) -> Answer: ...

    def below(self, asked: Sequence[tuple[int, int]], mu: float) -> Answer: ...

    def moments(
        self,
        columns: Sequence[int],
        middles: NDArray[np.float64],
        halves: NDArray[np.float64],
        mu: float,
    ) -> Answer: ...


class Location(NamedTuple):
    """Released facts about one column.

    Attributes
    ----------
    kind : {"binary", "number", "spike"}
        A spike: nearly all records have the same value, as far as the budget can see.
    centre, spread : float
        About the mean and standard deviation, after clipping to 1.5 times the range between two
        quantiles.
    low, high : float
        That range.
    """

    kind: str
    centre: float
    spread: float
    low: float
    high: float


class _Pair:
    """Intervals of keys of a column in which its lower and its upper quantile lie."""

    def __init__(self) -> None:
        everything = (-2047 * _BINADE, 2047 * _BINADE)
        self.ends: list[Interval] = [everything, everything]

    @property
    def together(self) -> bool:
        return self.ends[0] == self.ends[1]

    @property
    def is_spike(self) -> bool:
        low, high = self.ends[0]
        return self.together and (high - low <= _SPIKE_KEYS or (low, high) == (0, _BINADE))

    def open_ends(self) -> list[int]:
        """Which ends need another count; the first stands for both while they are together."""
        if self.is_spike:
            return []
        if self.together:
            return [0]
        (_, first), (second, _) = self.ends
        enough = _NARROW * (value_of(second) - value_of(first))
        return [
            i
            for i, (low, high) in enumerate(self.ends)
            if high - low > _SPIKE_KEYS and value_of(high) - value_of(low) > enough
        ]

    def answer(self, threshold: int, is_below: Sequence[bool]) -> None:
        """Take, for each quantile, whether it is below the threshold, which may be in both."""
        for i, below in enumerate(is_below):
            low, high = self.ends[i]
            if low < threshold < high:
                self.ends[i] = (low, threshold) if below else (threshold, high)


class Search:
    """Buys the locations of some columns within a plan.

    Parameters
    ----------
    answers : ColumnAnswers
    columns : sequence of int
    mu : float
        What everything together may cost.

    Attributes
    ----------
    columns : list of int
    planned : int
        Most counts that are asked for.
    counts_mu, moments_mu : float
        What all of them may cost, and what is left for the moments at least.
    noise : float
        About the standard deviation of each count, in records.
    """

    def __init__(self, answers: ColumnAnswers, columns: Sequence[int], mu: float) -> None:
        self._answers = answers
        self.columns = list(columns)
        self._total = mu
        self.planned = COUNTS * len(self.columns)
        self.counts_mu = mu * math.sqrt(COUNT_SHARE)
        self.moments_mu = mu * math.sqrt(1.0 - COUNT_SHARE)
        self.noise = math.sqrt(self.planned) / self.counts_mu
        self._used = 0
        self._complete, self._precision = 0.0, 0.0

    def run(self) -> list[Location]:
        """The locations, in the order of the columns."""
        binary = self._binary()
        pairs = {c: _Pair() for c in self.columns if c not in binary}
        share = self._share()
        while asked := self._next(pairs):
            below = self._ask_below(asked)
            for (column, key), count in zip(asked, below, strict=True):
                targets = [share * self._complete, (1.0 - share) * self._complete]
                pairs[column].answer(key, [count >= target for target in targets])
        ranges = [_range_of(pairs.get(column)) for column in self.columns]
        return self._moments(ranges)

    # -- counts

    def _mu_of(self, m: int) -> float:
        self._used += m
        return query_mu(self.counts_mu, self.planned, m)

    def _counts(self, answer: Answer) -> NDArray[np.float64]:
        """Noisy counts; what is known of the number of complete records grows with each."""
        weight = complete_weight(len(answer.value) - 1)
        precision = weight * weight
        self._precision += precision
        found = float(answer.value[-1]) / weight
        self._complete += precision / self._precision * (found - self._complete)
        return np.asarray(answer.value[:-1] + 0.5 * self._complete)

    def _binary(self) -> set[int]:
        """Columns in which hardly a record is neither 0 nor 1."""
        answer = self._answers.not_binary(self.columns, self._mu_of(len(self.columns)))
        others = self._counts(answer)
        most = max(0.01 * self._complete, 4.0 * self.noise)
        return {c for c, other in zip(self.columns, others, strict=True) if other < most}

    def _ask_below(self, asked: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
        return self._counts(self._answers.below(asked, self._mu_of(len(asked))))

    def _share(self) -> float:
        """Which quantiles: as far out as the noise lets them be seen."""
        known = max(self._complete, 1.0)
        return min(max(4.0 * self.noise / known, 0.02), 0.25)

    def _next(self, pairs: dict[int, _Pair]) -> list[tuple[int, int]]:
        """The next thresholds: of the coarsest cells first, so that few passes serve all."""
        asked = [
            (column, _threshold(*pair.ends[i]))
            for column, pair in pairs.items()
            for i in pair.open_ends()
        ]
        coarsest = max((_level(key) for _, key in asked), default=0)
        asked = [(column, key) for column, key in asked if _level(key) == coarsest]
        return asked[: self.planned - self._used]

    # -- moments

    def _moments(self, ranges: Sequence[tuple[str, float, float]]) -> list[Location]:
        """Centres and spreads; all that is left is spent on them."""
        middles = np.array([middle for _, middle, _ in ranges])
        halves = np.array([half for _, _, half in ranges])
        spent = query_mu(self.counts_mu, self.planned, self._used) if self._used else 0.0
        rest = math.sqrt(max(0.0, self._total**2 - spent**2)) * (1.0 - MARGIN_8000)
        answer = self._answers.moments(self.columns, middles, halves, rest)
        part = self._answers.n / max(self._complete, 1.0)
        first, second = np.split(answer.value, 2)
        means = np.clip(part * first, -1.0, 1.0)
        squares = np.clip(part * second / SQUARE_WEIGHT, 0.0, 1.0)
        noise = part * answer.noise_scale
        return [
            _location(*found, float(mean), float(square), noise)
            for found, mean, square in zip(ranges, means, squares, strict=True)
        ]


def _location(
    kind: str, middle: float, half: float, mean: float, square: float, noise: float
) -> Location:
    if kind == BINARY:  # every square is 1
        variance, error = 1.0 - mean * mean, 2.0 * abs(mean) * noise
    else:
        variance = square - mean * mean
        error = math.hypot(noise / SQUARE_WEIGHT, 2.0 * mean * noise)
    spread = half * math.sqrt(min(1.0, max(variance, 2.0 * error)))
    return Location(kind, middle + half * mean, spread, middle - half, middle + half)


def _range_of(pair: _Pair | None) -> tuple[str, float, float]:
    """Kind, middle and half length of the range that is not clipped."""
    if pair is None:
        return BINARY, 0.5, 0.5
    low, high = (0.5 * value_of(a) + 0.5 * value_of(b) for a, b in pair.ends)
    middle = 0.5 * low + 0.5 * high
    if pair.is_spike:
        zero = pair.ends[0] == (0, _BINADE)
        return SPIKE, 0.0 if zero else middle, 1.0 if zero else max(abs(middle), _SMALLEST)
    half = _REACH * (0.5 * high - 0.5 * low)
    if pair.open_ends():  # the plan was used up: whatever may belong to the range
        low, high = value_of(pair.ends[0][0]), value_of(pair.ends[1][1])
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    least = max(_SMALLEST, _RESOLUTION * abs(middle))
    return NUMBER, middle, min(max(half, least), _LARGEST)


# ---- keys


def value_of(key: int) -> float:
    """The double with this key, within the range in which differences do not overflow."""
    (value,) = struct.unpack("<d", struct.pack("<q", abs(key)))
    return math.copysign(min(value, _LARGEST), key)  # beyond the largest: infinity


def _threshold(low: int, high: int) -> int:
    """The median of a public prior on keys, among those between the ends of an interval.

    A tenth of its mass is at zero; of the rest ``log2 |x|`` is Cauchy about 4 with scale 6.  Within
    a factor of two it is flat.
    """
    if high - low <= _BINADE:
        return (low + high) // 2
    first, last = low // _BINADE + 1, high // _BINADE - 1
    half = 0.5 * (_mass_below(low // _BINADE) + _mass_below(high // _BINADE))
    while first < last:
        middle = (first + last) // 2
        if _mass_below(middle) < half:
            first = middle + 1
        else:
            last = middle
    if first > low // _BINADE + 1 and (half - _mass_below(first - 1) < _mass_below(first) - half):
        first -= 1
    return first * _BINADE


def _mass_below(binade: int) -> float:
    """Prior mass of the keys below ``binade * 2^52``."""
    if binade == 0:
        return 0.45
    tail = 0.5 + math.atan((abs(binade) - 1023 - 4.0) / 6.0) / math.pi
    return 0.55 + 0.45 * tail if binade > 0 else 0.45 * (1.0 - tail)


def _level(key: int) -> int:
    """Of the cells a threshold ends: the largest power of two that divides it, by 12 bits."""
    for shift in (52, 40, 28):
        if key % (1 << shift) == 0:
            return shift
    return 16
