"""Where the columns of a table lie: a quantile by noisy bisection, then a histogram of distances.

Post-processing of a curator's answers (claim D4 of ``dpfast/privacy/scaling/PROOFS-scaling.md``).
Keys are the doubles in numeric order, as integers: no range has to be declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer
from dpfast.optimize.road.histogram import NEIGHBOUR_SDS, SINGLE_BIN_SDS
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.scaling.sensitivity import complete_weight, query_mu

#: Counts that are planned for each column; twice as many may be where the budget is ample.
COUNTS = 14

#: Parts of mu^2: for counts at most, and for looking once more at columns whose spread was not
#: seen.  The histogram has the rest, and what the counts leave.
COUNT_SHARE, LOOK_SHARE = 0.4, 0.25

#: Of a count, whose noise on a grid costs less than a fifth of it.
MIN_MU = 1e-5

#: Noise of a count, as a part of n, that is little enough to tell about where a median is.
_ENOUGH = 0.03

_BINADE = 1 << 52
#: Interval of keys, 1e-9 of a number, below which it is a tie: many records have the same value.
_TIE_KEYS = 1 << 22
#: The quantile that is looked for, above the median: half of the records are below zero in a column
#: that is centred there, and of nothing does the gap between the halves tell the scale.
_ABOVE = 0.1
#: It is known well enough when its interval holds this part of the records.
_INSIDE = 0.2
#: After so many answers that it is below, the lower end is tried for a tie, with intervals
#: of these powers of two.
_PATIENCE, _TRIED = 2, (40, 22)
#: Around a tie at zero, of which nothing tells the scale, this is no distance.
_AT_ZERO = 2.0**-50
#: Cells times powers of two are sums of distances that are too large by so much, in the middle.
_FIRST = 1.06
#: Keys of 0 and of 1, and the next ones that a count can be asked for.
_OF_LABELS = (0, 1 << 16, 1023 * _BINADE, 1023 * _BINADE + (1 << 16))
#: Above a centre, and below it.
_SIDES = np.array([[1.0], [-1.0]]) / _FIRST
_LARGEST = 1e300
_SMALLEST = 1e-290

Array = NDArray[np.float64]


class ColumnAnswers(Protocol):
    """What is asked of the curator of the columns."""

    @property
    def n(self) -> int: ...

    def below(self, asked: Sequence[Any], mu: float, later: Sequence[Any]) -> Answer: ...

    def distances(
        self, columns: Sequence[int], centres: Array, nearest: Array, mu: float
    ) -> Answer: ...


class ColumnScale(NamedTuple):
    """Released facts about one column."""

    centre: float
    spread: float
    low: float
    high: float
    detected: bool = True


class _Quantile:
    """The interval of keys in which a quantile of a column lies."""

    __slots__ = ("above", "below", "high", "low", "patience")

    def __init__(self) -> None:
        self.low, self.high = -2047 * _BINADE, 2047 * _BINADE
        #: Counts at the ends, minus three fifths of the records; and answers that it is below.
        self.below, self.above, self.patience = -math.inf, math.inf, 0


class _Distances(NamedTuple):
    """A released histogram of the distances of one column: above and below a centre."""

    centre: float
    nearest: float
    cells: Array
    noise: float

    def joined(self, other: _Distances | None) -> _Distances:
        """With what an earlier one of the same distances says, each by its precision."""
        if other is None or other[:2] != self[:2]:
            return self
        own, theirs = self.noise**-2, other.noise**-2
        cells = (own * self.cells + theirs * other.cells) / (own + theirs)
        return self._replace(cells=cells, noise=float(own + theirs) ** -0.5)


location_of, distances_of = partial(tuple.__new__, ColumnScale), partial(tuple.__new__, _Distances)


def _locations(found: Sequence[_Distances], complete: float) -> list[ColumnScale]:
    """Means and spreads of all that is not beyond the farthest cells that stand out."""
    cells, noise = np.array([one.cells for one in found]), np.array([one.noise for one in found])
    ends = _farthest(cells / noise[:, None, None]) + 1  # of the cells that are added up
    tops, octaves = ends.max(axis=1), np.arange(cells.shape[2])
    steps = np.exp2(octaves - np.maximum(tops, 1.0)[:, None])[:, None]
    steps = np.where(octaves < ends[:, :, None], steps, 0.0)
    first, second = steps * _SIDES, steps * steps
    means, squares = (np.add.reduce(part * cells, (1, 2)) / complete for part in (first, second))
    second -= 2.0 * means[:, None, None] * first
    errors = noise * np.sqrt(np.add.reduce(second * second, (1, 2))) / complete
    least = np.sqrt(np.maximum(squares - means * means, 2.0 * errors))
    # so far in units of each column's farthest cell; the first one ends at a power of two
    powers = np.frexp([one.nearest for one in found])[1] - 1
    units = np.ldexp(1.0, np.minimum(powers + np.array([*ends.T, tops]), 1000))
    numbers = np.array([*units, means * units[2], least * units[2], tops]).T.tolist()
    locations = []
    for (centre, *_), (above, below, _, mean, spread, top) in zip(found, numbers, strict=True):
        if not top:
            locations.append(location_of((centre, 1.0, centre, centre, False)))
            continue
        low, high = max(centre - below, -_LARGEST), min(centre + above, _LARGEST)
        middle = min(max(centre + mean, low), high)
        spread = min(max(spread, _SMALLEST), _LARGEST)
        locations.append(location_of((middle, spread, low, high, True)))
    return locations


def _farthest(cells: Array) -> NDArray[np.intp]:
    """The farthest cell on each side that stands out of its noise, or -1; in units of the noise."""
    alone, beside, octaves = (
        cells > SINGLE_BIN_SDS,
        cells > NEIGHBOUR_SDS,
        np.arange(cells.shape[2]),
    )
    near = np.logical_or.reduce(alone, axis=1)  # and what is beside it: on the other side, or
    last = np.maximum.accumulate(np.where(near, octaves, -1), axis=1)  # farther out, and so on
    gap = np.maximum.accumulate(np.where(beside.any(axis=1), -1, octaves), axis=1)
    near[:, 1:] |= (last > gap)[:, :-1]
    return np.where(alone | (beside & near[:, None]), octaves, -1).max(axis=2)


class ScaleSearch:
    """Buys the locations of some columns within a plan."""

    def __init__(
        self,
        answers: ColumnAnswers,
        columns: Sequence[int],
        mu: float,
        labels: int | None = None,
        every: ColumnAnswers | None = None,
        outside: tuple[int, int] | None = None,
    ) -> None:
        self._answers, self._every = answers, every or answers
        self.columns = list(columns)
        self._of_labels = [] if labels is None else [(labels, key) for key in _OF_LABELS]
        self._labelled = 0.0, 0.0
        #: A response, with the key below which no model of it has any; how many are, and the noise.
        self._outside, self.outside = outside, (0.0, 0.0)
        self._total = mu
        self.noise = math.sqrt(COUNTS * len(self.columns) / COUNT_SHARE) / mu
        self._spent = 0.0  # squares of mu
        self._complete, self._precision = 0.0, 0.0
        self._quantiles = {column: _Quantile() for column in self.columns}
        self._known: dict[int, _Distances] = {}
        #: Of every column, once all were measured; what is asked after that makes them better.
        self.found: dict[int, ColumnScale] = {}

    def count_extremes(self) -> list[tuple[int, float]]:
        """How many counts, and at what mu, may be asked for at once: the extremes."""
        q = len(self.columns)
        planned, total = self._plan(q, COUNT_SHARE * LOOK_SHARE)
        found = [(m, mu) for m in {1, q} for mu in (query_mu(total, planned, 1), self._total)]
        if self._of_labels:
            found.append((len(_OF_LABELS), self._price_of_labels()))
        if self._outside is not None:
            found.append((1, self._price_of_labels()))
        return found + [one for again in self._again() for one in again.count_extremes()]

    def _again(self) -> list[ScaleSearch]:
        """The search of all records that may follow one of a sample, at the least it may have."""
        if self._every is self._answers:
            return []
        least = self._total * math.sqrt(LOOK_SHARE) * (1.0 - ROUNDING_SUM)
        return [ScaleSearch(self._every, self.columns, least)]

    @property
    def counted(self) -> tuple[float, float]:
        """About how many records are complete, with a label if there are; the noise (claim D2)."""
        if self._of_labels:
            return self._labelled
        return self._complete, max(self._precision, 1e-300) ** -0.5

    def tied(self, column: int) -> bool:
        """Whether a fifth of the records, about, have the same entry, or zero, in a column."""
        one = self._quantiles[column]
        same = _is_tie(one.low, one.high)
        return same and one.above - one.below > _INSIDE * max(self._complete, 1.0)

    def distance_extremes(self) -> list[tuple[int, float]]:
        """Of how many columns a histogram may be asked for, and at what mu: the extremes."""
        least = self._total * math.sqrt(LOOK_SHARE * (1.0 - COUNT_SHARE)) * (1.0 - ROUNDING_SUM)
        found = [(m, mu) for m in {1, len(self.columns)} for mu in (least, self._total)]
        return found + [one for again in self._again() for one in again.distance_extremes()]

    def run(self, spend: bool = True) -> list[ColumnScale]:
        """The locations, in the order of the columns."""
        self._bisect(self.columns, COUNT_SHARE)
        self._count_labels()
        self._count_outside()
        self.found = found = self._measure(self.columns, LOOK_SHARE)
        unseen = [column for column in self.columns if not found[column].detected]
        if spend and not unseen:
            found |= self._measure(self.columns, 0.0)
        elif unseen and self._every is not self._answers:
            again = ScaleSearch(self._every, unseen, self._left(0.0))
            found |= dict(zip(unseen, again.run(), strict=True))
        elif unseen:
            vague = [column for column, _ in self._asking(unseen)]
            if vague:
                self._bisect(vague, COUNT_SHARE * LOOK_SHARE)
            found |= self._measure(unseen, 0.0)
        return [found[column] for column in self.columns]

    def _plan(self, columns: int, share: float) -> tuple[int, float]:
        """How many counts of so many columns there may be, and what all of them may cost."""
        square = share * self._total**2
        each = max(1.0 / (_ENOUGH * self._answers.n), MIN_MU) ** 2
        planned = int(min(max(square / each, COUNTS * columns), 2 * COUNTS * columns))
        return planned, math.sqrt(min(square, planned * each))

    def _left(self, kept: float) -> float:
        """What may be spent if this part of mu^2 is kept."""
        rest = (1.0 - kept) * self._total**2 - self._spent
        return math.sqrt(max(0.0, rest)) * (1.0 - ROUNDING_SUM)

    # -- counts

    def _bisect(self, columns: Sequence[int], share: float) -> None:
        """Narrow the intervals of these columns, for at most this part of mu^2."""
        planned, total = self._plan(len(columns), share)
        left = planned
        while asked := self._next(columns)[:left]:
            left -= len(asked)
            mu = query_mu(total, planned, len(asked))
            self._spent += mu * mu
            counts = self._counts(self._answers.below(asked, mu, self._of_labels))
            for (column, key), count in zip(asked, counts, strict=True):
                one = self._quantiles[column]
                if count < 0.0:
                    one.low, one.below, one.patience = key, count, 0
                else:
                    one.high, one.above = key, count
                    one.patience += 1

    def _count_labels(self) -> None:
        """In how many complete records the response is 0 or 1."""
        if not self._of_labels:
            return
        mu = self._price_of_labels()
        self._spent += mu * mu
        answer = self._answers.below(self._of_labels, mu, ())
        below_0, to_0, below_1, to_1 = self._counts(answer)
        self._labelled = to_0 - below_0 + to_1 - below_1, 2.0 * answer.noise_scale

    def _count_outside(self) -> None:
        """In how many complete records the response is below what the model has."""
        if self._outside is None:
            return
        price = self._price_of_labels()
        self._spent += price**2
        answer = self._answers.below([self._outside], price, ())
        (count,) = self._counts(answer)
        half = 0.5 + _ABOVE  # at which counts are centred
        noise = math.hypot(answer.noise_scale, half * self.counted[1])
        self.outside = count + half * self._complete, noise

    def _price_of_labels(self) -> float:
        """That of as many counts of columns."""
        planned, total = self._plan(len(self.columns), COUNT_SHARE)
        return query_mu(total, planned, len(_OF_LABELS))

    def _counts(self, answer: Answer) -> list[float]:
        """Counts, centred at the quantile; each tells more of how many records are complete."""
        *values, last = answer.value.tolist()
        weight = complete_weight(len(values))
        precision = (weight / answer.noise_scale) ** 2
        self._precision += precision
        self._complete += precision / self._precision * (last / weight - self._complete)
        above = _ABOVE * self._complete
        return [value - above for value in values]

    def _asking(self, columns: Iterable[int]) -> list[tuple[int, _Quantile]]:
        """Of which another count helps: more than enough records are inside, and it is no tie."""
        return [
            (column, one)
            for column in columns
            if not (one := self._quantiles[column]).above - one.below < _INSIDE * self._complete
            and not _is_tie(one.low, one.high)
        ]

    def _next(self, columns: Iterable[int]) -> list[tuple[int, int]]:
        """The next thresholds: of the coarsest cells first, so that few passes serve all."""
        coarsest = 0
        asked: list[tuple[int, int]] = []
        for column, one in self._asking(columns):
            key, level = _next_key(one.low, one.high, one.patience >= _PATIENCE)
            if level > coarsest:
                asked, coarsest = [], level
            if level == coarsest:
                asked += [(column, key)]
        return asked

    # -- distances

    def _measure(self, columns: Sequence[int], kept: float) -> dict[int, ColumnScale]:
        """What a histogram of distances, for all but this part of mu^2, says of these columns."""
        ends = [self._quantiles[column] for column in columns]
        keys = [(one.low, one.high) for one in ends]
        places = [_place(*k, *pair) for k, pair in zip(keys, value_of(keys).tolist(), strict=True)]
        centres, nearest = np.array(places).T
        mu = self._left(kept)
        answer = self._answers.distances(columns, centres, nearest, mu)
        self._spent += mu * mu
        for column, end, place, cells in zip(columns, ends, places, answer.value, strict=True):
            if cells[0, -1] + cells[1, -1] > 0.5 * self._complete:  # counts were led astray
                end.low, end.high, cells = 0, _BINADE, np.zeros_like(cells)
            one = distances_of((*place, cells, answer.noise_scale))
            self._known[column] = one.joined(self._known.get(column))
        known = [self._known[column] for column in columns]
        return dict(zip(columns, _locations(known, max(self._complete, 1.0)), strict=True))


# ---- keys


def value_of(keys: Any) -> Array:
    """The doubles with these keys, within the range in which differences do not overflow."""
    keys = np.asarray(keys, dtype=np.int64)
    values = np.minimum(np.abs(keys).view(np.float64), _LARGEST)  # beyond the largest: infinity
    return np.copysign(values, keys)


def _place(first: int, last: int, low: float, high: float) -> tuple[float, float]:
    """About a quantile, a tie's own value, and how far away an entry is told from it."""
    if (first, last) == (0, _BINADE):
        return 0.0, _AT_ZERO
    if last - first <= _TIE_KEYS:
        return low, max(high - low, _SMALLEST)
    return 0.5 * low + 0.5 * high, max(0.5 * high - 0.5 * low, _SMALLEST)


@lru_cache(maxsize=1024)
def _is_tie(low: int, high: int) -> bool:
    """Whether so many records have the same value, or zero, that no count tells more."""
    return high - low <= _TIE_KEYS or (low, high) == (0, _BINADE)


@lru_cache(maxsize=1024)
def _next_key(low: int, high: int, patient: bool) -> tuple[int, int]:
    """A threshold between the ends of an interval, and of which cells it is the end."""
    key, width = _threshold(low, high), high - low
    if width <= _BINADE:
        shift = (low ^ (high - 1)).bit_length() - 1  # the roundest number inside
        key = (high - 1) >> shift << shift
        tried = [shift for shift in _TRIED if patient and 2 << shift < width]
        key = low + (1 << tried[0]) if tried else key
    return key, _level(key)


@lru_cache(maxsize=1024)
def _threshold(low: int, high: int) -> int:
    """Median of a public prior on keys (a tenth at zero, Cauchy in ``log2 |x|``) between two."""
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
