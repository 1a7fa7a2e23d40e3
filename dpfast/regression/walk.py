"""One fit of a request: checked before the charge, run after it, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.front.partial import UNFINISHED
from dpfast.front.progress import Progress
from dpfast.front.request import Request, checked_start
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import Covariance, covariance_or_reason
from dpfast.models import Objective
from dpfast.optimize.protocol import answers_only, checked_run
from dpfast.privacy.ledger import Ledger
from dpfast.regression.decisions import Recipe
from dpfast.regression.purchase import BoughtUnits
from dpfast.regression.scarce import SHRUNK, shrunk

__all__ = ["Found", "Walk"]

Array = NDArray[np.float64]


class Found(NamedTuple):
    """What a run released: estimate and path, covariance or why there is none."""

    theta: Array
    iterates: Sequence[Array]
    covariance: Covariance | None = None
    missing: str = ""
    predictor: Array | None = None


class Walk:
    """A planned run of an optimiser; making it refuses what it would be refused for, for free.

    Parameters
    ----------
    request : Request
    planned : callable
        The recipe at a residual scale.
    scales : sequence
        With which everything is checked; the last one is planned with.
    ledger : Ledger
        That pays.

    Privacy
    -------
    Checking costs nothing; :meth:`run` charges the ledger for each answer.
    """

    def __init__(
        self,
        request: Request,
        planned: Callable[[Any], Recipe],
        scales: Sequence[Any],
        ledger: Ledger,
    ) -> None:
        self._request, self._ledger = request, ledger
        self._bought: BoughtUnits | None = None
        self._answered: list[Array] = []
        for scale in scales:
            self._recipe = recipe = planned(scale)
            self.budgets, self._optimiser = recipe.budgets, recipe.optimiser
            start = self._optimiser.start
            self._start = checked_start(start, request.dimension, self.objective.ridge)
            if start is None:
                self._start = self.objective.origin()
            curator = request.curator(self.objective, ledger)
            # refuses an impossible budget while nothing is spent
            for budget in self.budgets:
                curator.plan(budget)
            self._answers = answers_only(curator, self.budgets, self._answered)
            self._optimiser.check(self._answers, self.budgets)

    @property
    def objective(self) -> Objective:
        return self._recipe.objective

    def go_on_with(self, recipe: Recipe, bought: BoughtUnits) -> None:
        """The same in units that were bought since."""
        self._recipe, self._bought = recipe, bought
        if self._optimiser.start is None:
            self._start = bought.start_of(self.objective, self._start)
        curator = self._request.curator(self.objective, self._ledger)
        self._answers = answers_only(curator, self.budgets, self._answered)

    def run(self, inference: bool, report: Progress | None) -> Found:
        """Spend the budgets."""
        objective, optimiser = self.objective, self._optimiser
        theta = self._start
        if (free := objective.free_scale) is not None:
            theta = np.append(theta, free.start / free.factor)
        found = optimiser.run(self._answers, theta, self.budgets, report)
        trajectory = checked_run(found, objective.dimension)
        covariance, missing, predictor = None, "", None
        if inference:
            covariance, missing = covariance_or_reason(
                optimiser, trajectory, self._request.n_units, objective.ridge
            )
        theta, bought = trajectory.theta, self._bought
        if bought is not None and covariance is not None:
            kept, predictor = shrunk(theta, covariance, objective, trajectory.iterates[0])
            if kept < 1.0:
                remarks = (*covariance.remarks, SHRUNK.format(kept=kept))
                covariance = covariance._replace(remarks=remarks)
        return Found(theta, trajectory.iterates, covariance, missing, predictor)

    def so_far(self, error: str) -> Found | None:
        """What was released before an error of this name, if anything."""
        if not self._answered:
            return None
        return Found(self._answered[-1], self._answered, missing=UNFINISHED % error)

    def result(self, found: Found, privacy: Guarantee) -> Fit:
        """A fit, in the units of the columns as they came."""
        fitted = self._request.fit(
            found.theta,
            self.objective,
            model=self._recipe.model,
            method=self._recipe.method,
            privacy=privacy,
            iterates=found.iterates,
            covariance=found.covariance,
            missing=found.missing,
            predictor=found.predictor,
        )
        if self._bought is None:
            return fitted
        fitted.units = self._bought.units
        return fitted.natural
