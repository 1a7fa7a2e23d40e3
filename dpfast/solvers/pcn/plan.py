"""Division of a total over the queries of a default fit: public numbers only."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from dpfast.curator.preconditioned import NO_CLIPPING, RowClipping
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.privacy.sensitivity import joint_mu

#: Largest number of steps.  Those after the first, which only reaches the region of convergence,
#: count in the result.  After convergence there is one more step, with the rest of the budget.
#: Four estimate as well, but notice fewer directions that have not converged; six gain nothing.
MAX_STEPS = 5

#: Shares of ``mu^2`` of a matrix, a vector and a histogram in large samples.  The steps have the
#: rest.  With a smaller matrix, levels of 1% have wider intervals where responses are counts.
SHARES = {"matrix": 0.05, "vector": 0.012, "histogram": 0.012}

#: The same in the smallest samples, where their noise matters most.
SHARES_OF_FEW = {"matrix": 0.1, "vector": 0.04, "histogram": 0.04}

#: Part of these shares that one round spends: on its curvature, its score and a histogram of
#: norms.  The score of the last round is the first step's, and has its share.
ROUND = 0.25

#: Largest number of Grams after the first that whiten rows again.
MAX_WHITENINGS = 3

#: Parts of a matrix's share for each of them, and for the one that checks them, whose rows are
#: short; and the largest sum of these parts.
WHITENING, CHECK = 0.5, 0.1
MAX_LATER = MAX_WHITENINGS * WHITENING + CHECK

#: Largest number of rounds: in small samples there are fewer, because each has its noise.
MAX_ROUNDS = 6

#: Ratio of a curvature's peak to its mean above which a larger scale is used: the narrow window
#: would contain almost no record of a rare level.
EVEN_PEAK = 3.0

#: Value of n mu below which samples of eight coefficients are small; it grows with the square root
#: of their number.  Three times as large, logistic fits with n mu of 2,000 to 20,000 are a tenth
#: farther from the exact ones; half as large, fits with n mu of 1,000 are as much farther.
SMALL_SAMPLE = 1000.0

#: Part of the steps' budget for the first step, whose score counts in no average.
FIRST = 0.05

#: Largest noise of the second Gram, as ``sqrt(2 p)`` times its scale.  Its radius is the longest
#: with this noise: longer, eigenvalues are lost in noise; shorter, long rows count in part.
GRAM_NOISE = 0.3

#: Largest size of responses, and the inverse of the smallest; keeps radii finite.  Also the
#: largest offset that a start allows for: squares stay finite.
LARGEST = 1e60

#: Replacement of zero in denominators.
TINY = 1e-300

#: Queries of a run; see :attr:`Setting.query_counts`.
QueryCounts = tuple[bool, int, bool]


class Setting(NamedTuple):
    """Settings of a run; all of them public or released."""

    loss: Any
    scale: float | None
    intercept: bool
    size: float = 1.0
    persons: bool = False
    alone: bool = True
    offset: tuple[float, float] = (0.0, 0.0)

    @property
    def min_score_variation(self) -> float:
        """Smallest ratio of the scores' variance to the curvature; infinite without a factor."""
        if not self.alone or self.loss.link == "identity":
            return math.inf
        return 0.0 if self.loss.largest_response is None else 1.0

    @property
    def compares_variances(self) -> bool:
        """Flag: scores of errors of one variance vary in proportion to the curvature."""
        return bool(self.alone and self.loss.link == "identity" and self.loss.of_mean)

    @property
    def score_unit(self) -> float:
        """Typical norm of a score."""
        return float(self.loss._score_scale(self.bounded_size))

    @property
    def bounded_size(self) -> float:
        """The size, in the range of possible radii."""
        return min(max(self.size, 1.0 / LARGEST), LARGEST)

    @property
    def downweights_by_score_bound(self) -> bool:
        """Flag: rows are down-weighted by the bound of their score (never means of persons)."""
        return self.loss.score_bound_ratio is not None and not self.persons

    @property
    def score_bound_ratio(self) -> float:
        """Bound of a score over its bound given the linear predictor, times the scale."""
        return (
            (self.loss.score_bound_ratio or math.inf)
            if self.downweights_by_score_bound
            else math.inf
        )

    def short_enough(self, bound: float, scale: float) -> RowClipping:
        """Limit rows so that no score exceeds the bound, for any response."""
        ratio = self.score_bound_ratio
        return RowClipping(None, bound / (scale * ratio)) if ratio < math.inf else NO_CLIPPING

    @property
    def clips_one_side(self) -> bool:
        """Flag: long scores are those of large responses, and of no small ones."""
        return bool(self.loss.link == "log" and self.intercept)

    @property
    def query_counts(self) -> QueryCounts:
        """Flag of rounds, number of further histograms, and flag of an estimated scale."""
        n_histograms = self.downweights_by_score_bound + (self.loss.peakedness > EVEN_PEAK)
        return bool(self.loss.curvature_varies), n_histograms, bool(self.loss.needs_scale)


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each kind of query, and of each step's scores."""

    matrix: float
    vector: float
    histogram: float
    steps: tuple[float, ...] = ()

    @property
    def round(self) -> Budgets:
        """Budgets of one round."""
        part = ROUND**0.5
        return Budgets(self.matrix * part, self.vector * part, self.histogram * part)

    @property
    def whitening(self) -> float:
        """Budget of a Gram after the first one."""
        return self.matrix * WHITENING**0.5

    @property
    def check(self) -> float:
        """Budget of the Gram that checks later ones."""
        return self.matrix * CHECK**0.5

    def longest_radius(self, n: int, p: int) -> float:
        """Return the radius at which the noise of a Gram is as large as allowed."""
        return (0.5 * GRAM_NOISE * n * self.matrix) ** 0.5 * p**-0.25

    def initial_cost(self, counts: QueryCounts, later: float) -> float:
        """Return the cost of all queries of :func:`initial_estimate`."""
        first = gram_and_moment_mu(counts, self.matrix, self.vector)
        return math.hypot(first, self.matrix * later**0.5, counts[2] * self.histogram)


def gram_and_moment_mu(counts: QueryCounts, matrix: float, vector: float) -> float:
    """Return the cost of the first Gram and moment; losses without a scale release them jointly."""
    if counts[2]:
        return math.hypot(matrix, vector)
    return joint_mu("independent", vector, matrix)


class BudgetAllocation(NamedTuple):
    """Allocation of a budget for p coefficients of n records: public."""

    n: int
    p: int
    mu: float

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def small_sample_factor(self) -> float:
        """Return 1 for the smallest samples, falling to 0 with n, mu and 1/sqrt(p)."""
        return min(1.0, SMALL_SAMPLE * math.sqrt(self.p / 8.0) / max(self.n * self.mu, TINY))

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def max_rounds(self, curvature_varies: bool) -> int:
        """Return the largest number of rounds."""
        if not curvature_varies:
            return 0
        return max(
            1,
            min(MAX_ROUNDS, int(1.0 + (MAX_ROUNDS - 1) * 1.2 * (1.0 - self.small_sample_factor()))),
        )

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def budgets(
        self,
        counts: QueryCounts,
        rounds: int,
        has_start: bool = False,
        sampled: bool | None = None,
        later: float = 0.0,
        again: bool = True,
    ) -> Budgets:
        """Divide the total for this number of rounds.

        ``later`` is the cost of Grams after the first, in shares of a matrix.  ``sampled`` says
        whether a subsample gives the curvature; it is None where none is drawn.  ``again`` says
        whether a Gram whitens the rows again for the steps.
        """
        curvature_varies, extra_histograms, needs_scale = counts
        first, in_rounds, last = not has_start, ROUND * rounds, ROUND * curvature_varies
        histograms = 2 + extra_histograms + first * needs_scale + (sampled is False)
        return self.divided(
            again + first * (1.0 + later) + in_rounds + (0.0 if sampled else last),
            first + in_rounds,
            histograms + in_rounds + (ROUND if sampled else last),
            counts if first else None,
        )

    def divided(
        self,
        matrices: float,
        vectors: float,
        histograms: float,
        initial: QueryCounts | None = None,
    ) -> Budgets:
        """Divide the total over so many queries of each kind; the steps have the rest.

        With ``initial`` counts a matrix and a vector of them are of one read.
        """
        mu, small = self.mu, self.small_sample_factor()
        matrix, vector, histogram = [
            share + small * (SHARES_OF_FEW[kind] - share) for kind, share in SHARES.items()
        ]
        used = matrices * matrix + vectors * vector + histograms * histogram
        if initial:
            together = gram_and_moment_mu(initial, matrix**0.5, vector**0.5)
            used += together**2 - matrix - vector
        remaining = 1.0 - 32.0 * ROUNDING_SHARES - used
        later_share = (1.0 - FIRST) * remaining / (MAX_STEPS - 1)
        later = (mu * math.sqrt(later_share),) * (MAX_STEPS - 1)
        steps = mu * math.sqrt(FIRST * remaining), *later
        return Budgets(mu * matrix**0.5, mu * vector**0.5, mu * histogram**0.5, steps)


@lru_cache(maxsize=256)
def prices(
    n: int,
    p: int,
    totals: tuple[float, ...],
    part: float,
    kinds: tuple[QueryCounts, ...],
    sampled: bool,
) -> tuple[tuple[float, ...], ...]:
    """List every possible cost of a Gram, a moment, a histogram and a step: public, and cached.

    Fits of these kinds run together, each with a part of the total after the initial estimate.
    The numbers of rounds and of Grams may be any; a subsample may be given up before it is
    queried.
    """
    grams: set[float] = set()
    moments, histograms, steps = set(grams), set(grams), set(grams)
    shares_start = len(kinds) > 1
    for mu, counts, later in product(totals, kinds, (0.0, MAX_LATER)):
        start_cost = 0.0
        if shares_start:
            first = BudgetAllocation(n, p, mu).budgets(kinds[0], 1)
            grams.update((first.matrix, first.whitening, first.check))
            moments.add(first.vector)
            histograms.add(first.histogram)
            start_cost = first.initial_cost(kinds[0], later)
        allocation = BudgetAllocation(n, p, math.sqrt(mu**2 - start_cost**2) * part)
        max_rounds = allocation.max_rounds(counts[0])
        for rounds, by_sample in product(
            {min(1, max_rounds), max_rounds}, (None, True, False)[: 1 + 2 * sampled]
        ):
            budgets = allocation.budgets(counts, rounds, shares_start, by_sample, later)
            moments.add(budgets.vector)
            steps.update((budgets.round.vector,) * (max_rounds > 0))
            for again in (True, counts[0]):
                own = allocation.budgets(counts, rounds, shares_start, by_sample, later, again)
                all_steps = math.hypot(*own.steps[1:])  # if the one before it has arrived
                steps.update(own.steps, (all_steps,))
            for spent in (budgets, budgets.round) if max_rounds or by_sample else (budgets,):
                grams.update((spent.matrix, spent.whitening, spent.check))
                histograms.add(spent.histogram)
    return tuple(grams), tuple(moments), tuple(histograms), tuple(steps)
