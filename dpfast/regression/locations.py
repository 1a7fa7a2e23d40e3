"""Private location and scale of columns: noisy bisection, then a histogram of distances.

Post-processing of a curator's answers (claim D4 of ``dpfast/privacy/scaling/PROOFS-scaling.md``).
Keys are the doubles in numeric order, as integers, so that no range has to be declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.scaling.sensitivity import complete_weight, query_mu
from dpfast.solvers.pcn.histogram import NEIGHBOUR_SDS, SINGLE_BIN_SDS

#: Counts planned for each column.  Fewer do not find a column of any magnitude; with an ample
#: budget twice as many are allowed.
COUNTS = 14

#: Parts of mu^2: for counts at most, and for a second look at columns that look constant.  The
#: histogram has the rest, and what the counts leave.
COUNT_SHARE, LOOK_SHARE = 0.4, 0.25

#: Smallest mu of a count: below it the rounding to a grid costs more than a fifth of it.
MIN_MU = 1e-5

#: Noise of a count, as a part of n, below which more budget barely improves a median.
_MIN_COUNT_NOISE = 0.03

_BINADE = 1 << 52
#: Width of an interval of keys, 1e-9 of a number, below which it is a tie: one value is frequent.
_TIE_KEYS = 1 << 22
#: Distance of the searched quantile above the median.  In a column centred at zero half of the
#: records lie below zero, where no scale could be seen.
_ABOVE = 0.1
#: Part of the records in the interval at which the bisection stops.
_INSIDE = 0.2
#: After so many answers that the quantile is lower, the lower end is tried for a tie, with
#: intervals of these powers of two.
_PATIENCE, _TIE_SHIFTS = 2, (40, 22)
#: Smallest distance from a tie at zero, where no scale is known.
_MIN_AT_ZERO = 2.0**-50
#: Mean distance in a cell over the power of two that stands for it, about.
_CELL_MEAN = 1.06
#: Keys of 0 and of 1, each with the next one that a count can use.
_LABEL_KEYS = (0, 1 << 16, 1023 * _BINADE, 1023 * _BINADE + (1 << 16))
#: Signs of distances above and below a centre.
_SIDES = np.array([[1.0], [-1.0]]) / _CELL_MEAN
_LARGEST = 1e300
_SMALLEST = 1e-290

Array = NDArray[np.float64]


class ColumnAnswers(Protocol):
    """Queries that the search sends to the curator of the columns."""

    @property
    def n(self) -> int: ...

    def below(self, asked: Sequence[Any], mu: float, later: Sequence[Any]) -> Answer: ...

    def distances(
        self, columns: Sequence[int], centres: Array, nearest: Array, mu: float
    ) -> Answer: ...


class ColumnScale(NamedTuple):
    """Released location and scale of one column."""

    centre: float
    spread: float
    low: float
    high: float
    detected: bool = True


class _Quantile:
    """Interval of keys that contains a quantile of a column."""

    __slots__ = ("above", "below", "high", "low", "patience")

    def __init__(self) -> None:
        self.low, self.high = -2047 * _BINADE, 2047 * _BINADE
        #: Counts at the ends, minus three fifths of the records.
        self.below, self.above = -math.inf, math.inf
        #: Answers in a row that the quantile is lower.
        self.patience = 0


class _Distances(NamedTuple):
    """Released histogram of the distances of one column, above and below a centre."""

    centre: float
    nearest: float
    cells: Array
    noise: float

    def joined(self, earlier: _Distances | None) -> _Distances:
        """Pool with an earlier histogram of the same distances, by inverse variances."""
        if earlier is None or earlier[:2] != self[:2]:
            return self
        weight, earlier_weight = self.noise**-2, earlier.noise**-2
        cells = (weight * self.cells + earlier_weight * earlier.cells) / (weight + earlier_weight)
        return self._replace(cells=cells, noise=float(weight + earlier_weight) ** -0.5)


def _locations(histograms: Sequence[_Distances], complete: float) -> list[ColumnScale]:
    """Return mean and spread of each column, up to the farthest cells above their noise."""
    cells = np.array([histogram.cells for histogram in histograms])
    noise = np.array([histogram.noise for histogram in histograms])
    ends = _farthest(cells / noise[:, None, None]) + 1  # the cells below are summed
    last_cells, octaves = ends.max(axis=1), np.arange(cells.shape[2])
    steps = np.exp2(octaves - np.maximum(last_cells, 1.0)[:, None])[:, None]
    steps = np.where(octaves < ends[:, :, None], steps, 0.0)
    first, second = steps * _SIDES, steps * steps
    means, squares = (np.add.reduce(part * cells, (1, 2)) / complete for part in (first, second))
    second -= 2.0 * means[:, None, None] * first
    errors = noise * np.sqrt(np.add.reduce(second * second, (1, 2))) / complete
    spreads = np.sqrt(np.maximum(squares - means * means, 2.0 * errors))
    # so far in units of each column's farthest cell; the first one ends at a power of two
    powers = np.frexp([histogram.nearest for histogram in histograms])[1] - 1
    scales = np.ldexp(1.0, np.minimum(powers + np.array([*ends.T, last_cells]), 1000))
    numbers = np.array([*scales, means * scales[2], spreads * scales[2], last_cells]).T.tolist()
    locations = []
    for (centre, *_), (above, below, _, mean, spread, top) in zip(histograms, numbers, strict=True):
        if not top:
            locations.append(ColumnScale(centre, 1.0, centre, centre, False))
            continue
        low, high = max(centre - below, -_LARGEST), min(centre + above, _LARGEST)
        middle = min(max(centre + mean, low), high)
        spread = min(max(spread, _SMALLEST), _LARGEST)
        locations.append(ColumnScale(middle, spread, low, high))
    return locations


def _farthest(cells: Array) -> NDArray[np.intp]:
    """Return the farthest cell on each side that exceeds its noise, or -1.

    ``cells`` are in units of their noise.
    """
    above_single, above_neighbour, octaves = (
        cells > SINGLE_BIN_SDS,
        cells > NEIGHBOUR_SDS,
        np.arange(cells.shape[2]),
    )
    connected = np.logical_or.reduce(
        above_single, axis=1
    )  # and what is beside it: on the other side, or
    last = np.maximum.accumulate(np.where(connected, octaves, -1), axis=1)  # farther out, and so on
    gap = np.maximum.accumulate(np.where(above_neighbour.any(axis=1), -1, octaves), axis=1)
    connected[:, 1:] |= (last > gap)[:, :-1]
    return np.where(above_single | (above_neighbour & connected[:, None]), octaves, -1).max(axis=2)


class ScaleSearch:
    """Private search for the location and scale of some columns, within a planned budget."""

    def __init__(
        self,
        answers: ColumnAnswers,
        columns: Sequence[int],
        mu: float,
        labels: int | None = None,
        all_answers: ColumnAnswers | None = None,
        below_range: tuple[int, int] | None = None,
    ) -> None:
        self._answers, self._every = answers, all_answers or answers
        self.columns = list(columns)
        self._of_labels = [] if labels is None else [(labels, key) for key in _LABEL_KEYS]
        self._labelled = 0.0, 0.0
        #: Response and the key below which it is out of range; number of such records, and noise.
        self._outside, self.outside = below_range, (0.0, 0.0)
        self._total = mu
        self.noise = math.sqrt(COUNTS * len(self.columns) / COUNT_SHARE) / mu
        self._spent = 0.0  # squares of mu
        self._complete, self._precision = 0.0, 0.0
        self._quantiles = {column: _Quantile() for column in self.columns}
        self._known: dict[int, _Distances] = {}
        #: Scales of all columns, once measured; later queries improve them.
        self.found: dict[int, ColumnScale] = {}

    def count_extremes(self) -> list[tuple[int, float]]:
        """Return the smallest and largest numbers of counts per query, each with its mu."""
        q = len(self.columns)
        planned, total = self._plan(q, COUNT_SHARE * LOOK_SHARE)
        extremes = [(m, mu) for m in {1, q} for mu in (query_mu(total, planned, 1), self._total)]
        if self._of_labels:
            extremes.append((len(_LABEL_KEYS), self._price_of_labels()))
        if self._outside is not None:
            extremes.append((1, self._price_of_labels()))
        for search in self._again():
            extremes += search.count_extremes()
        return extremes

    def _again(self) -> list[ScaleSearch]:
        """Return the later search with all records, at its least budget, if a subsample is used."""
        if self._every is self._answers:
            return []
        min_mu = self._total * math.sqrt(LOOK_SHARE) * (1.0 - ROUNDING_SUM)
        return [ScaleSearch(self._every, self.columns, min_mu)]

    @property
    def counted(self) -> tuple[float, float]:
        """Estimated number of complete records, with a valid label if any; its noise (claim D2)."""
        if self._of_labels:
            return self._labelled
        return self._complete, max(self._precision, 1e-300) ** -0.5

    def tied(self, column: int) -> bool:
        """Say whether about a fifth of the records have the same entry, or zero, in a column."""
        quantile = self._quantiles[column]
        same = _is_tie(quantile.low, quantile.high)
        return same and quantile.above - quantile.below > _INSIDE * max(self._complete, 1.0)

    def distance_extremes(self) -> list[tuple[int, float]]:
        """Return the smallest and largest numbers of columns per histogram, each with its mu."""
        min_mu = self._total * math.sqrt(LOOK_SHARE * (1.0 - COUNT_SHARE)) * (1.0 - ROUNDING_SUM)
        extremes = [(m, mu) for m in {1, len(self.columns)} for mu in (min_mu, self._total)]
        for search in self._again():
            extremes += search.distance_extremes()
        return extremes

    def run(self, spend: bool = True) -> list[ColumnScale]:
        """Run the search; return locations in the order of the columns."""
        self._bisect(self.columns, COUNT_SHARE)
        self._count_labels()
        self._count_outside()
        self.found = locations = self._measure(self.columns, LOOK_SHARE)
        constant = [column for column in self.columns if not locations[column].detected]
        if spend and not constant:
            locations |= self._measure(self.columns, 0.0)
        elif constant and self._every is not self._answers:
            search = ScaleSearch(self._every, constant, self._left(0.0))
            locations |= dict(zip(constant, search.run(), strict=True))
        elif constant:
            uncertain = [column for column, _ in self._asking(constant)]
            if uncertain:
                self._bisect(uncertain, COUNT_SHARE * LOOK_SHARE)
            locations |= self._measure(constant, 0.0)
        return [locations[column] for column in self.columns]

    def _plan(self, columns: int, share: float) -> tuple[int, float]:
        """Return how many counts are planned, and the total mu that they may cost."""
        square = share * self._total**2
        per_count = max(1.0 / (_MIN_COUNT_NOISE * self._answers.n), MIN_MU) ** 2
        planned = int(min(max(square / per_count, COUNTS * columns), 2 * COUNTS * columns))
        return planned, math.sqrt(min(square, planned * per_count))

    def _left(self, reserved: float) -> float:
        """Return the mu that may be spent while this part of mu^2 is reserved."""
        rest = (1.0 - reserved) * self._total**2 - self._spent
        return math.sqrt(max(0.0, rest)) * (1.0 - ROUNDING_SUM)

    # -- counts

    def _bisect(self, columns: Sequence[int], share: float) -> None:
        """Narrow the intervals of these columns, for at most this part of mu^2."""
        planned, total = self._plan(len(columns), share)
        remaining = planned
        while thresholds := self._next(columns)[:remaining]:
            remaining -= len(thresholds)
            mu = query_mu(total, planned, len(thresholds))
            self._spent += mu * mu
            counts = self._counts(self._answers.below(thresholds, mu, self._of_labels))
            for (column, key), count in zip(thresholds, counts, strict=True):
                quantile = self._quantiles[column]
                if count < 0.0:
                    quantile.low, quantile.below, quantile.patience = key, count, 0
                else:
                    quantile.high, quantile.above = key, count
                    quantile.patience += 1

    def _count_labels(self) -> None:
        """Count the complete records whose response is 0 or 1."""
        if not self._of_labels:
            return
        mu = self._price_of_labels()
        self._spent += mu * mu
        answer = self._answers.below(self._of_labels, mu, ())
        below_0, to_0, below_1, to_1 = self._counts(answer)
        self._labelled = to_0 - below_0 + to_1 - below_1, 2.0 * answer.noise_scale

    def _count_outside(self) -> None:
        """Count the complete records whose response is below the model's range."""
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
        """Return the mu of a query of as many counts as labels need."""
        planned, total = self._plan(len(self.columns), COUNT_SHARE)
        return query_mu(total, planned, len(_LABEL_KEYS))

    def _counts(self, answer: Answer) -> list[float]:
        """Return counts centred at the quantile; refine the number of complete records."""
        *values, last = answer.value.tolist()
        weight = complete_weight(len(values))
        precision = (weight / answer.noise_scale) ** 2
        self._precision += precision
        self._complete += precision / self._precision * (last / weight - self._complete)
        above = _ABOVE * self._complete
        return [value - above for value in values]

    def _asking(self, columns: Iterable[int]) -> list[tuple[int, _Quantile]]:
        """Return the columns for which another count helps: wide intervals that are not ties."""
        return [
            (column, quantile)
            for column in columns
            if not (quantile := self._quantiles[column]).above - quantile.below
            < _INSIDE * self._complete
            and not _is_tie(quantile.low, quantile.high)
        ]

    def _next(self, columns: Iterable[int]) -> list[tuple[int, int]]:
        """Return the next thresholds, of the coarsest cells first: few passes then serve all."""
        coarsest = 0
        thresholds: list[tuple[int, int]] = []
        for column, quantile in self._asking(columns):
            key, level = _next_key(quantile.low, quantile.high, quantile.patience >= _PATIENCE)
            if level > coarsest:
                thresholds, coarsest = [], level
            if level == coarsest:
                thresholds += [(column, key)]
        return thresholds

    # -- distances

    def _measure(self, columns: Sequence[int], reserved: float) -> dict[int, ColumnScale]:
        """Measure these columns by a histogram of distances; reserve this part of mu^2."""
        quantiles = [self._quantiles[column] for column in columns]
        keys = [(quantile.low, quantile.high) for quantile in quantiles]
        places = [_place(*k, *pair) for k, pair in zip(keys, value_of(keys).tolist(), strict=True)]
        centres, nearest = np.array(places).T
        mu = self._left(reserved)
        answer = self._answers.distances(columns, centres, nearest, mu)
        self._spent += mu * mu
        for column, quantile, place, cells in zip(
            columns, quantiles, places, answer.value, strict=True
        ):
            if cells[0, -1] + cells[1, -1] > 0.5 * self._complete:  # the bisection went wrong
                quantile.low, quantile.high = 0, _BINADE
                cells = np.zeros_like(cells)
            measured = _Distances(*place, cells, answer.noise_scale)
            self._known[column] = measured.joined(self._known.get(column))
        histograms = [self._known[column] for column in columns]
        return dict(zip(columns, _locations(histograms, max(self._complete, 1.0)), strict=True))


# ---- keys


def value_of(keys: Any) -> Array:
    """Return the doubles with these keys, in a range whose differences do not overflow."""
    keys = np.asarray(keys, dtype=np.int64)
    values = np.minimum(np.abs(keys).view(np.float64), _LARGEST)  # beyond the largest: infinity
    return np.copysign(values, keys)


def _place(first: int, last: int, low: float, high: float) -> tuple[float, float]:
    """Return a centre, at a tie its own value, and the smallest distance resolved from it."""
    if (first, last) == (0, _BINADE):
        return 0.0, _MIN_AT_ZERO
    if last - first <= _TIE_KEYS:
        return low, max(high - low, _SMALLEST)
    return 0.5 * low + 0.5 * high, max(0.5 * high - 0.5 * low, _SMALLEST)


@lru_cache(maxsize=1024)
def _is_tie(low: int, high: int) -> bool:
    """Say whether so many records have one value, or zero, that more counts do not help."""
    return high - low <= _TIE_KEYS or (low, high) == (0, _BINADE)


@lru_cache(maxsize=1024)
def _next_key(low: int, high: int, patient: bool) -> tuple[int, int]:
    """Return a threshold inside an interval, and the level of the cells that it ends."""
    key, width = _threshold(low, high), high - low
    if width <= _BINADE:
        shift = (low ^ (high - 1)).bit_length() - 1  # the roundest number inside
        key = (high - 1) >> shift << shift
        tried = [shift for shift in _TIE_SHIFTS if patient and 2 << shift < width]
        key = low + (1 << tried[0]) if tried else key
    return key, _level(key)


@lru_cache(maxsize=1024)
def _threshold(low: int, high: int) -> int:
    """Return the median of a public prior on keys between two of them.

    The prior has a tenth at zero and is Cauchy in ``log2 |x|``.
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
    """Return the prior mass of the keys below ``binade * 2^52``."""
    if binade == 0:
        return 0.45
    tail = 0.5 + math.atan((abs(binade) - 1023 - 4.0) / 6.0) / math.pi
    return 0.55 + 0.45 * tail if binade > 0 else 0.45 * (1.0 - tail)


def _level(key: int) -> int:
    """Return the level of the cells that a threshold ends, by 12 bits of its powers of two."""
    for shift in (52, 40, 28):
        if key % (1 << shift) == 0:
            return shift
    return 16
