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
from dpfast.optimize.adaptive.steps import Arrival
from dpfast.optimize.protocol import answers_only, checked_run
from dpfast.optimize.trajectory import Trajectory
from dpfast.privacy.ledger import Ledger
from dpfast.regression.decisions import Recipe
from dpfast.regression.purchase import BoughtUnits
from dpfast.regression.scarce import SHRUNK, shrunk
from dpfast.regression.unweighted.combined import nearer, with_discounts

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
        theta = trajectory.theta
        iterates: Sequence[Array] = trajectory.iterates
        bought = self._bought
        back = None if bought is None else bought.back
        if bought is not None and back is not None:
            theta, covariance = self._without_weights(trajectory, covariance, bought)
            iterates = [*iterates, theta]
        if bought is not None and covariance is not None:
            kept, predictor = shrunk(theta, covariance, objective, iterates[0])
            remarks = (*bought.remarks, *covariance.remarks)
            if kept < 1.0:
                remarks = (*remarks, SHRUNK.format(kept=kept))
            covariance = covariance._replace(remarks=remarks)
            if back is not None:
                covariance = back.covariance(covariance)
                predictor = None if predictor is None else back.params(predictor)
        estimate, iterates = self._back(theta, iterates)
        return Found(estimate, iterates, covariance, missing, predictor)

    def _without_weights(
        self, found: Trajectory, covariance: Covariance | None, bought: BoughtUnits
    ) -> tuple[Array, Covariance | None]:
        """Nearer to what rows say whose weights take most from them, or with a remark."""
        theta, held = found.theta, bought.held
        if held is not None and isinstance(found.details, Arrival):
            n, radius = self._request.n_units, self.objective.weighting.radius
            theta, covariance = nearer(found, covariance, held.answer, n, radius)
        if covariance is not None:
            covariance = with_discounts(covariance, bought.missed, held is not None)
        return theta, covariance

    def _back(self, theta: Array, iterates: Sequence[Array]) -> tuple[Array, Sequence[Array]]:
        """In released units, where rows were turned since."""
        if self._bought is None or (back := self._bought.back) is None:
            return theta, iterates
        return back.params(theta), [back.params(iterate) for iterate in iterates]

    def so_far(self, error: str) -> Found | None:
        """What was released before an error of this name, if anything."""
        if not self._answered:
            return None
        theta, iterates = self._back(self._answered[-1], self._answered)
        return Found(theta, iterates, missing=UNFINISHED % error)

    @property
    def _of_rows(self) -> str:
        turned = self._bought is not None and self._bought.back is not None
        return ", weights of whitened rows" if turned else ""

    def result(self, found: Found, privacy: Guarantee) -> Fit:
        """A fit, in the units of the columns as they came."""
        fitted = self._request.fit(
            found.theta,
            self.objective,
            model=self._recipe.model + self._of_rows,
            method=self._recipe.method,
            privacy=privacy,
            iterates=found.iterates,
            covariance=found.covariance,
            missing=found.missing,
            predictor=found.predictor,
        )
        return fitted if self._bought is None else fitted.natural
