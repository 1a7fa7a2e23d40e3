"""Budget for private scales, and limits below which records are too few: public."""

from __future__ import annotations

import math
from functools import lru_cache

from dpfast.errors import InvalidBudget
from dpfast.scaling.search import COUNT_SHARE, COUNTS
from dpfast.solvers.pcn.plan import BudgetAllocation

#: A given scale is clipped to this range of spreads of the response: an estimated spread never
#: makes a fit refuse that was paid for.
FARTHEST = (1e-30, 1e30)

#: Share of ``mu^2`` for units where records are many, and what is added where they are few.
SCALING_SHARE, SCALING_SHARE_OF_FEW = 0.02, 0.05

#: Largest noise of a count, as a part of n, at which a bisection finds the median of a column of
#: any magnitude.  On 24 tables none was lost at this noise, and one in a hundred at 0.2.
MAX_COUNT_NOISE = 0.14

#: Most that is spent on units, of mu^2; and the noise of a count, as a part of n, to spend it for.
MOST, ENOUGH = 0.25, 0.05

#: Budget below which p coefficients are told from noise badly: ``n mu`` in ``p^1.5``.
MIN_RECORDS_FACTOR = 20.0

#: The same, below which steps do not converge where the curvature varies: slopes predict worse than
#: the mean response.  Shrunken least-squares slopes never do, where the columns' units are found.
LEAST_FOR_ROUNDS = 14.0


class ScalingBudget(BudgetAllocation):
    """Allocation of the budget between the units of p columns and the later queries."""

    __slots__ = ()

    @lru_cache(maxsize=512)  # noqa: B019  (a tuple of numbers)
    def share(self) -> float:
        """Return the part of mu^2 for units: two percent where records are many, more where few."""
        min_share, strength = (
            SCALING_SHARE + SCALING_SHARE_OF_FEW * self.small_sample_factor(),
            ENOUGH * self.n * self.mu,
        )
        if not 1e-100 < strength < 1e100:  # its square would leave float64
            return MOST if strength < 1.0 else min_share
        needed = COUNTS * self.p / (COUNT_SHARE * strength**2)
        return min(MOST, max(min_share, needed))

    def least_records(self) -> float:
        """Return the number of records below which the noise of counts hides locations."""
        mu = self.mu * MOST**0.5
        return math.sqrt(COUNTS * self.p / COUNT_SHARE) / (MAX_COUNT_NOISE * mu)

    def hidden(self) -> bool:
        """Say whether the noise of counts would hide the locations of so many columns."""
        mu = self.mu * self.share() ** 0.5
        return math.sqrt(COUNTS * self.p / COUNT_SHARE) > MAX_COUNT_NOISE * self.n * mu


def records_needed(p: int, mu: float) -> float:
    """Return the number of records below which p coefficients would be mostly noise."""
    return MIN_RECORDS_FACTOR * p**1.5 / mu


def refuse_too_few_records(n: int, p: int, mu: float, estimates: str, fewer: str) -> None:
    """Refuse a budget at which the estimates would be mostly noise."""
    if n * mu < (needed := MIN_RECORDS_FACTOR * p**1.5):
        raise InvalidBudget(
            f"n mu = {n * mu:.3g} is below 20 p^1.5 = {needed:.3g}{estimates} would be noise. Use "
            f"more records, a larger budget, or fewer {fewer}."
        )
