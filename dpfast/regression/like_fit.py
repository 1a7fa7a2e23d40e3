"""Default fits whose units, whitening and start are those of a public table: they cost nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpfast.errors import InvalidInput
from dpfast.fit_requests.request import FitRequest
from dpfast.models import Loss
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit, Solution
from dpfast.regression.design_basis import main_columns
from dpfast.scaling.like import UNLIMITED, Like, PublicScaling, of_like
from dpfast.scaling.remarks import stopped_after
from dpfast.solvers.pcn.histogram import N_FINE_BINS
from dpfast.solvers.pcn.like import OTHER_CURVATURE, PublicStart, public_start, step_budgets
from dpfast.solvers.pcn.plan import BudgetAllocation

OTHER_SIZE = (
    "the public table of regression.like is not like this one. Scores are {ratio:.2g} times as "
    "long as its own, of {complete:.0%} as many complete rows. Nothing was estimated. Check units, "
    "levels and missing values of the columns, or leave the public table out."
)

OTHER_ROWS = (
    "scores vary otherwise than those of the public table of regression.like, mainly along "
    "{columns}: standard errors may be wrong by a third or more. Leave the table out, or take "
    "one that is more like this one."
)

OTHER_STEPS = (
    "scores vary {ratio:.2g} times as much as those of the public table of regression.like along "
    "{columns}: coefficients there, which were reached with its curvature, and their standard "
    "errors may be far off. Check the units of these columns, or leave the table out."
)


class LikeFit(DefaultFit):
    """Default fits of a checked request, with a public table.

    Privacy
    -------
    The request's total for a histogram of norms (C60) and clipped scores (C13, C17) of each loss,
    of rows under maps that are functions of the public table (C107).
    """

    #: At half of n mu errors on the tables of ``bench/like.py`` are below those of other fits.
    least_strength = 0.5 * DefaultFit.least_strength

    def __init__(self, request: FitRequest, losses: Sequence[str | Loss], **options: Any) -> None:
        super().__init__(request, losses, **options)
        self._starts = self._public_starts()
        #: Warnings that the public table is not like this one, of each loss.
        self._unlike: list[list[str]] = [[] for _ in losses]

    def _plan_units(self, standardize: Like) -> float:
        """Take the units of the public table; nothing is spent on them."""
        request = self.request
        request.subsample = request.larger_subsample = None
        with of_like():
            public = standardize.request(request, self.losses[0].link != "identity")
            units = None if public.coding is not None else True
            self._public = fits = DefaultFit(
                public, self.losses, scale=self._scale, standardize=units, inference=False
            )
            fits.begin()
            if fits._stopped:
                raise InvalidInput("almost no row has a number in each column.")
            self._weight_unit = fits._weight_unit
            scaling = fits._scaling
            if scaling is not None and scaling.released is not None:
                self._scaling = PublicScaling(request, scaling.released, inner=scaling.inner)
        return self._mu

    def _refuse_budgets(self, min_mu: float) -> None:
        """Refuse what the histogram and the steps would refuse."""
        rows = self.rows_for()
        budgets = step_budgets(self._allocation(rows.n, rows.dimension))
        steps = (*budgets.steps, math.hypot(*budgets.steps[1:]))
        rows.refuse((), (), (budgets.histogram,), steps, cells=N_FINE_BINS)

    def _public_starts(self) -> list[PublicStart]:
        """Prepare the steps of each loss on the public rows."""
        released = None if self._scaling is None else self._scaling.released
        settings = {} if released is None else released._settings
        setting = self.setting._replace(scale=self._coded_scale(), **settings)
        rows = self._public.rows_for(Ledger(UNLIMITED))
        allocation = self._allocation(self.request.n, rows.dimension)
        with of_like():
            return [
                public_start(rows, setting._replace(loss=loss), allocation) for loss in self.losses
            ]

    def _allocation(self, n: int, p: int) -> BudgetAllocation:
        """Allocate what each loss may spend."""
        return BudgetAllocation(n, p, self._mu * self._part * (1.0 - ROUNDING_SUM))

    def _estimate_initial(self) -> None:
        """Estimate nothing: each loss starts where the public rows lead to."""

    def solve(self, k: int, report: Callable[[int, int], None] | None) -> Solution:
        """Take the steps of one loss; none if the public table is not like the private one."""
        rows, iterates = self.rows_for(), self._iterates[k]
        allocation = self._allocation(rows.n, rows.dimension)
        steps = self._starts[k].steps(rows, allocation, self._inference, iterates, report)
        if steps.result is None:
            spent = stopped_after(self.request.spent_share())
            self._stopped = spent + OTHER_SIZE.format(**steps._asdict())
            return Solution([np.full(rows.dimension, np.nan)], None, self._stopped)
        if steps.other is not None:
            direction, ratio = steps.other
            direction = direction if self.basis is None else self.basis @ direction
            alike = 1.0 / OTHER_CURVATURE < ratio < OTHER_CURVATURE
            columns = main_columns(direction, self.request._coefficient_names())
            text = OTHER_ROWS if alike else OTHER_STEPS
            self._unlike[k].append(text.format(columns=columns, ratio=ratio))
        return Solution(iterates, steps.result)

    def _further_remarks(self, k: int) -> list[str]:
        """Return warnings that the public table is not like this one."""
        return self._unlike[k]
