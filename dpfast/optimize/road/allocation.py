"""Division of a total over the queries of a default fit: public numbers only."""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from dpfast.curator.preconditioned import NO_CLIPPING, RowClipping
from dpfast.optimize.road.steps import MAX_STEPS, TINY
from dpfast.privacy.rounding import ROUNDING_SHARES

#: Shares of ``mu^2`` of a matrix, a vector and a histogram where records are many; where they are
#: few each is larger by so many times itself.  The steps have the rest.
SHARES = {"matrix": 0.05, "vector": 0.02, "histogram": 0.02}

SMALL_SAMPLE_EXTRA = 1.0

#: Of these, what a round spends on one of each: its curvature, its score and the scores' lengths;
#: the score of the last is the first step's, and has its share.
ROUND = 0.25

#: Rounds at most; the last is one whose score is hardly told from noise.
MAX_ROUNDS = 6

#: Peaks of a curvature over its mean beyond which that of a larger scale is asked for: a rare level
#: would have hardly any record in the window.
EVEN_PEAK = 3.0

#: Few: n mu below this for eight coefficients, growing with their square root.
SMALL_SAMPLE = 3000.0

#: Share of what the steps have that the first one gets.
FIRST = 0.05

#: Largest noise of the second Gram, as ``sqrt(2 p)`` times its scale; its radius is the longest
#: that keeps it.
GRAM_NOISE = 0.3

#: Sizes of responses are held to this and its inverse.
LARGEST = 1e60

#: What a run asks for; see :attr:`Setting.query_counts`.
QueryCounts = tuple[bool, int, bool]


class Setting(NamedTuple):
    """What a run is told; all of it public or released."""

    loss: Any
    scale: float | None
    intercept: bool
    size: float = 1.0
    persons: bool = False
    alone: bool = True
    offset: tuple[float, float] = (0.0, 0.0)

    @property
    def min_score_variation(self) -> float:
        """Least of what scores vary by over what the loss curves; infinite without a factor."""
        if not self.alone or self.loss.link == "identity":
            return math.inf
        return 0.0 if self.loss.largest_response is None else 1.0

    @property
    def score_unit(self) -> float:
        """About the length of a score."""
        return float(self.loss._score_scale(self.bounded_size))

    @property
    def bounded_size(self) -> float:
        """The size, within what a radius may be."""
        return min(max(self.size, 1.0 / LARGEST), LARGEST)

    @property
    def downweights_by_score_bound(self) -> bool:
        """Whether what is foreseen of a score says which rows are discounted: not of a mean."""
        return self.loss.score_bound_ratio is not None and not self.persons

    @property
    def score_bound_ratio(self) -> float:
        """Bound on a score over what is foreseen of it, times the scale."""
        return (
            (self.loss.score_bound_ratio or math.inf)
            if self.downweights_by_score_bound
            else math.inf
        )

    def short_enough(self, bound: float, scale: float) -> RowClipping:
        """Rows of which no score is longer, so that it is not their responses that decide."""
        return (
            RowClipping(max_leverage=bound / (scale * self.score_bound_ratio))
            if self.score_bound_ratio < math.inf
            else NO_CLIPPING
        )

    @property
    def query_counts(self) -> QueryCounts:
        """Whether in rounds, for how many lengths besides, and for the residuals' scale."""
        more = self.downweights_by_score_bound + (self.loss.peakedness > EVEN_PEAK)
        return bool(self.loss.curvature_varies), more, bool(self.loss.needs_scale)


class Budgets(NamedTuple):
    """Gaussian-DP parameters of whatever is asked of one kind, and of each step's scores."""

    matrix: float
    vector: float
    histogram: float
    steps: tuple[float, ...] = ()

    @property
    def round(self) -> Budgets:
        """Of what a round asks."""
        return Budgets(*[mu * ROUND**0.5 for mu in self[:3]])

    def longest_radius(self, n: int, p: int) -> float:
        """At which the noise of a Gram is as large as it may be."""
        return (0.5 * GRAM_NOISE * n * self.matrix) ** 0.5 * p**-0.25

    def initial_cost(self, asks: QueryCounts) -> float:
        """Of all that :func:`begin` asks."""
        return math.hypot(self.matrix, self.vector, asks[2] * self.histogram)


class BudgetAllocation(NamedTuple):
    """What may be spent on p coefficients of n records: public."""

    n: int
    p: int
    mu: float

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def small_sample_factor(self) -> float:
        """How few the records are, from 0 to 1."""
        return min(1.0, SMALL_SAMPLE * math.sqrt(self.p / 8.0) / max(self.n * self.mu, TINY))

    def max_rounds(self, bends: bool) -> int:
        """How many rounds there may be."""
        if not bends:
            return 0
        return max(
            1,
            min(MAX_ROUNDS, int(1.0 + (MAX_ROUNDS - 1) * 1.2 * (1.0 - self.small_sample_factor()))),
        )

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def budgets(
        self, asks: QueryCounts, rounds: int, begun: bool = False, sampled: bool | None = None
    ) -> Budgets:
        """How it is divided if there are so many rounds.

        ``sampled``: whether a sample tells the curvature, or not; None where none is asked.
        """
        mu, (bends, besides, sees_scale) = self.mu, asks
        times, first = 1.0 + SMALL_SAMPLE_EXTRA * self.small_sample_factor(), not begun
        part = [share * times for share in SHARES.values()]
        in_rounds, last = ROUND * rounds, ROUND * bends
        asked = (
            1 + first + in_rounds + (0.0 if sampled else last),
            first + in_rounds,
            2 + besides + first * sees_scale + in_rounds + (ROUND if sampled else last),
        )
        left = 1.0 - 32.0 * ROUNDING_SHARES - sum(map(operator.mul, asked, part))
        left -= part[2] * (sampled is False)
        shares = [FIRST * left] + [(1.0 - FIRST) * left / (MAX_STEPS - 1)] * (MAX_STEPS - 1)
        steps = tuple([mu * math.sqrt(share) for share in shares])
        return Budgets(mu * part[0] ** 0.5, mu * part[1] ** 0.5, mu * part[2] ** 0.5, steps)


@lru_cache(maxsize=256)
def prices(
    n: int,
    p: int,
    totals: tuple[float, ...],
    part: float,
    kinds: tuple[QueryCounts, ...],
    sampled: bool,
) -> tuple[tuple[float, ...], ...]:
    """Whatever may be paid for a Gram, a moment, a histogram and a step: public, and remembered.

    By fits of these kinds together, each with a part of what the beginning leaves of a total,
    however many rounds there are; a sample may be given up before it is asked.
    """
    grams: set[float] = set()
    moments, histograms, steps = set(grams), set(grams), set(grams)
    begun = len(kinds) > 1
    for mu, asks in product(totals, kinds):
        shared = 0.0
        if begun:
            first = BudgetAllocation(n, p, mu).budgets(kinds[0], 1)
            grams.add(first.matrix)
            moments.add(first.vector)
            histograms.add(first.histogram)
            shared = first.initial_cost(kinds[0])
        each = BudgetAllocation(n, p, math.sqrt(mu**2 - shared**2) * part)
        most = each.max_rounds(asks[0])
        for rounds, told in product({min(1, most), most}, (None, True, False)[: 1 + 2 * sampled]):
            asked = each.budgets(asks, rounds, begun, told)
            last = math.hypot(*asked.steps[1:])  # if the one before it has arrived
            moments.add(asked.vector)
            steps.update(asked.steps, (last,), (asked.round.vector,) * (most > 0))
            for one in (asked, asked.round) if most or told else (asked,):
                grams.add(one.matrix)
                histograms.add(one.histogram)
    return tuple(grams), tuple(moments), tuple(histograms), tuple(steps)
