"""Private location and scale of columns: noisy bisection, then a histogram of distances.

Post-processing of a curator's answers (claim D4 of ``dpfast/privacy/scaling/PROOFS-scaling.md``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer
from dpfast.curator.scaling.columns import Bisection, Quantile, connect_bisection
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.scaling.sensitivity import query_mu
from dpfast.scaling.distances import ColumnScale
from dpfast.scaling.thresholds import (
    BINADE,
    INDICATOR,
    INDICATOR_OCTAVES,
    LABEL_KEYS,
    OCTAVES_OF_SCALE,
)

#: Counts planned for each column.  Fewer do not find a column of any magnitude; with an ample
#: budget twice as many are allowed.
COUNTS = 14

#: Parts of mu^2: for counts at most, and for a second look at columns that look constant.  The
#: histogram has the rest, and what the counts leave.
COUNT_SHARE, LOOK_SHARE = 0.4, 0.25

#: Least part of mu^2 for a histogram: that of a second look, with the counts before it.
MIN_HISTOGRAM_SHARE = LOOK_SHARE * (1.0 - COUNT_SHARE)

#: Standard deviations by which a count must be below the least that makes sense to end a call.
#: Of 1,000 calls with just enough records at most one ends: some 28 counts are looked at.
STOP_SDS = 4.0

#: Smallest mu of a count: below it the rounding to a grid costs more than a fifth of it.
MIN_MU = 1e-5

#: Noise of a count, as a part of n, below which more budget barely improves a median.
_MIN_COUNT_NOISE = 0.03

#: Distance of the searched quantile above the median.  In a column centred at zero half of the
#: records lie below zero, where no scale could be seen.
_ABOVE = 0.1
#: Part of the records in the interval at which the bisection stops.
_INSIDE = 0.2
#: After so many answers that the quantile is lower, the lower end is tried for a tie.
_PATIENCE = 2

#: Intervals of keys that a search starts from.
AT_ZERO, ALL_KEYS = (0, BINADE), (-2047 * BINADE, 2047 * BINADE)

connect_bisection(
    query_mu, _ABOVE, _INSIDE, STOP_SDS, _PATIENCE, ROUNDING_SUM, INDICATOR,
    (INDICATOR_OCTAVES, OCTAVES_OF_SCALE),
)  # fmt: skip


class ColumnAnswers(Protocol):
    """Queries that the search sends to the curator of the columns."""

    @property
    def n(self) -> int: ...

    def below(self, asked: Sequence[Any], mu: float, later: Sequence[Any]) -> Answer: ...

    def distances(
        self,
        columns: Sequence[int],
        centres: Array,
        nearest: Array,
        octaves: Sequence[int],
        mu: float,
    ) -> Answer: ...


class ScaleSearch(Bisection):
    """Private search for the location and scale of some columns, within a planned budget.

    The base, compiled, narrows the intervals of keys by counts, and measures distances from there.
    """

    def __init__(
        self,
        answers: ColumnAnswers,
        columns: Sequence[int],
        mu: float,
        labels: int | None = None,
        all_answers: ColumnAnswers | None = None,
        below_range: tuple[int, int] | None = None,
        indicators: Sequence[int] = (),
        around_zero: Iterable[int] = (),
    ) -> None:
        self._answers, self._every = answers, all_answers or answers
        self.columns = list(columns)
        #: Columns that are 0 or 1 by declaration: their centre, 0, is public.
        self._indicators = list(indicators)
        #: Share of ones in each of them, and its noise.
        self.shares, self.share_noise = np.zeros(0), 0.0
        self._of_labels = [] if labels is None else [(labels, key) for key in LABEL_KEYS]
        self._labelled = 0.0, 0.0
        #: Number of complete records whose response is 1, once asked.
        self.ones = 0.0
        #: Number of complete records with a response from 0 to 1, where it was asked; its noise.
        self._within = math.inf, 0.0
        #: Response and the key below which it is out of range; number of such records, and noise.
        self._outside, self.outside = below_range, (0.0, 0.0)
        self._total = mu
        around_zero = frozenset(around_zero)
        #: Columns whose centre is searched by counts; the others are measured around zero.
        self._counted = [column for column in self.columns if column not in around_zero]
        self.noise = math.sqrt(COUNTS * len(self._counted) / COUNT_SHARE) / mu
        self._spent = 0.0  # squares of mu
        self._complete, self._precision = 0.0, 0.0
        #: Complete records below which a search makes no sense, and stops after its counts.
        self.least = 0.0
        self._quantiles = {
            column: Quantile(*(AT_ZERO if column in around_zero else ALL_KEYS))
            for column in self.columns
        }
        #: Scales of all columns, once measured; later queries improve them.
        self.found: dict[int, ColumnScale] = {}

    def count_extremes(self) -> list[tuple[int, float]]:
        """Return the smallest and largest numbers of counts per query, each with its mu."""
        q = len(self._counted)
        planned, total = self._plan(q, COUNT_SHARE * LOOK_SHARE)
        least = query_mu(total, planned, 1)
        extremes = [(m, mu) for m in {1, max(q, 1)} for mu in (least, self._total)]
        if self._of_labels:
            extremes.append((len(LABEL_KEYS), self._price_of_labels()))
            extremes += [(2, mu) for mu in (least, self._total)]
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

    def distance_extremes(self) -> list[tuple[int, float]]:
        """Return the smallest and largest numbers of columns per histogram, each with its mu."""
        min_mu = self._total * math.sqrt(MIN_HISTOGRAM_SHARE) * (1.0 - ROUNDING_SUM)
        most = max(len(self.columns) + len(self._indicators), 1)
        extremes = [(m, mu) for m in {1, most} for mu in (min_mu, self._total)]
        for search in self._again():
            extremes += search.distance_extremes()
        return extremes

    def run(self, spend: bool = True) -> list[ColumnScale]:
        """Run the search; return locations in the order of the columns."""
        self.ask_counts()
        self.found = locations = self._measure(self.columns, LOOK_SHARE, self._indicators)
        unclear = [
            column
            for column in self.columns
            if not locations[column].detected or self._quantiles[column].far
        ]
        if spend and not unclear:
            locations |= self._measure(self.columns, 0.0)
        elif unclear and self._every is not self._answers:
            search = ScaleSearch(self._every, unclear, self._left(0.0))
            locations |= dict(zip(unclear, search.run(), strict=True))
        elif unclear:
            uncertain = self._asking(unclear)
            if uncertain:
                quantiles = [self._quantiles[column] for column in uncertain]
                ends = [(quantile.low, quantile.high) for quantile in quantiles]
                self._bisect(uncertain, COUNT_SHARE * LOOK_SHARE)
                for quantile, end in zip(quantiles, ends, strict=True):
                    quantile.far |= (quantile.low, quantile.high) != end
            locations |= self._measure(unclear, 0.0)
        return [locations[column] for column in self.columns]

    def ask_counts(self) -> None:
        """Ask the counts, which come first; they end where too few records are complete."""
        if self._precision:
            return
        self._bisect(self._counted, COUNT_SHARE)
        if self._counted:
            self._ask_again([(self._counted[0], 0)])
        if self.too_few:
            return
        self._count_labels()
        if self._of_labels and (answer := self._ask_again(self._of_labels[::3])):
            below, up_to = answer.value[:2].tolist()
            self._within = up_to - below, math.sqrt(2.0) * answer.noise_scale
        if not self.too_few:
            self._count_outside()

    def _ask_again(self, thresholds: Sequence[tuple[int, int]]) -> Answer | None:
        """Ask a count once more where the complete records may be too few, if it can be paid.

        The histogram keeps its least, and the counts that are still to come their price.
        """
        later = (self._of_labels != [] and not self.labels_counted) + (self._outside is not None)
        square = (1.0 - LOOK_SHARE - MIN_HISTOGRAM_SHARE) * self._total**2
        square -= self._spent + later * self._price_of_labels() ** 2
        mu = math.sqrt(max(square, 0.0)) * (1.0 - ROUNDING_SUM)
        planned, total = self._plan(len(self._counted), COUNT_SHARE)
        in_doubt = not self.too_few and self._is_below(*self.counted, -1.0)
        if not in_doubt or mu < query_mu(total, planned, 1):
            return None
        self._spent += mu * mu
        answer = self._answers.below(thresholds, mu, ())
        self._counts(answer)  # refine the number of complete records
        return answer

    def _plan(self, columns: int, share: float) -> tuple[int, float]:
        """Return how many counts are planned, and the total mu that they may cost."""
        return _planned(self._total, self._answers.n, columns, share)

    # -- counts

    def _bisect(self, columns: Sequence[int], share: float) -> None:
        """Narrow the intervals of these columns, for at most this part of mu^2."""
        self._narrow(columns, *self._plan(len(columns), share))

    def _count_labels(self) -> None:
        """Count the complete records whose response is 0 or 1."""
        if not self._of_labels:
            return
        mu = self._price_of_labels()
        self._spent += mu * mu
        answer = self._answers.below(self._of_labels, mu, ())
        below_0, to_0, below_1, to_1 = self._counts(answer)
        self._labelled = to_0 - below_0 + to_1 - below_1, 2.0 * answer.noise_scale
        self.ones = to_1 - below_1

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
        planned, total = self._plan(len(self._counted), COUNT_SHARE)
        return query_mu(total, planned, len(LABEL_KEYS))


@lru_cache(maxsize=256)
def _planned(total: float, n: int, columns: int, share: float) -> tuple[int, float]:
    """Plan counts of n records for this part of a total mu; see :meth:`ScaleSearch._plan`."""
    square, columns = share * total**2, max(columns, 1)  # none: labels are counted
    per_count = max(1.0 / (_MIN_COUNT_NOISE * n), MIN_MU) ** 2
    planned = int(min(max(square / per_count, COUNTS * columns), 2 * COUNTS * columns))
    return planned, math.sqrt(min(square, planned * per_count))
