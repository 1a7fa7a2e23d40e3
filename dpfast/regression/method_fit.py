"""Fits by a method that was asked for: checked before the charge, run after it, what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import check_constant
from dpfast.errors import InvalidInput
from dpfast.fit_requests.partial import UNFINISHED, KeepReleased
from dpfast.fit_requests.progress import Progress, checked_progress, progress_after
from dpfast.fit_requests.request import FitRequest, checked_start
from dpfast.inference.degrees import Covariance
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import covariance_or_reason
from dpfast.models import FreeScale, Loss, Objective, resolve_loss
from dpfast.optimize.protocol import answers_only, checked_run
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.decisions import Recipe, recipe_of
from dpfast.regression.scaling_budget import FARTHEST, ScalingBudget
from dpfast.regression.shared import plan_scaling
from dpfast.regression.standardise import CODED, GivenScaling, PrivateScaling, Standardized

Array = NDArray[np.float64]
Result = TypeVar("Result")

#: Where the residual scale is looked for, in spreads of the response: it is at most about one of
#: them, and a heavy-tailed response has the spread of its bulk.
SCALES = FreeScale(1e-3, 10.0, 1.0)

NO_SCALE = (
    "the scale of this fit cannot be estimated: pass scale=<public residual scale>, leave weights, "
    "ridge and method out, or take log-cosh, huber or pseudo-huber (and single rows)."
)

#: What is not proved of persons who count with the mean of their rows (claim C72).
ROBUST = (
    'each="person" has no free scale, whose bounds were proved for single rows. Leave scale out, '
    "pass a number, or keep a public number of rows of each person with group_size=..."
)


class MethodResult(NamedTuple):
    """What a run released: estimate and path, covariance or why there is none."""

    theta: Array
    iterates: Sequence[Array]
    covariance: Covariance | None = None
    missing: str = ""


class MethodFit:
    """A planned run of an optimiser; making it refuses what it would be refused for, for free."""

    def __init__(
        self,
        request: FitRequest,
        planned: Callable[[Any], Recipe],
        scales: Sequence[Any],
    ) -> None:
        self._request = request
        self._bought: ScalingForMethod | None = None
        self._answered: list[Array] = []
        for scale in scales:
            self._recipe = recipe = planned(scale)
            self.budgets, self._optimiser = recipe.budgets, recipe.optimiser
            start = self._optimiser.start
            self._start = checked_start(start, request.dimension, self.objective.ridge)
            if start is None:
                self._start = self.objective.origin()
            curator = request.curator(self.objective)
            # refuses an impossible budget while nothing is spent
            for budget in self.budgets:
                curator.plan(budget)
            self._answers = answers_only(curator, self.budgets, self._answered)
            self._optimiser.check(self._answers, self.budgets)

    @property
    def objective(self) -> Objective:
        return self._recipe.objective

    def go_on_with(self, recipe: Recipe, bought: ScalingForMethod) -> None:
        """The same in units that were bought since."""
        self._recipe, self._bought = recipe, bought
        curator = self._request.curator(self.objective)
        self._answers = answers_only(curator, self.budgets, self._answered)

    def run(self, inference: bool, report: Progress | None) -> MethodResult:
        """Spend the budgets."""
        objective, optimiser = self.objective, self._optimiser
        theta = self._start
        if (free := objective.free_scale) is not None:
            theta = np.append(theta, free.start / free.factor)
        found = optimiser.run(self._answers, theta, self.budgets, report)
        trajectory = checked_run(found, objective.dimension)
        covariance, missing = None, ""
        if inference:
            covariance, missing = covariance_or_reason(
                optimiser, trajectory, self._request.n_units, objective.ridge
            )
        return MethodResult(trajectory.theta, trajectory.iterates, covariance, missing)

    def so_far(self, error: str) -> MethodResult | None:
        """What was released before an error of this name, if anything."""
        if not self._answered:
            return None
        return MethodResult(self._answered[-1], self._answered, missing=UNFINISHED % error)

    def result(self, found: MethodResult, privacy: Guarantee) -> Fit:
        """A fit, in the units of the columns as they came."""
        fitted = self._request.make_result(
            found.theta,
            self.objective,
            model=self._recipe.model,
            method=self._recipe.method,
            privacy=privacy,
            iterates=found.iterates,
            covariance=found.covariance,
            missing=found.missing,
        )
        if self._bought is None:
            return fitted
        fitted.units = self._bought.units
        return fitted.natural


class ScalingForMethod:
    """Standardisation inside a fit, within its total."""

    def __init__(
        self,
        request: FitRequest,
        scale: Any,
        loss: Loss,
        given: Standardized | None = None,
    ) -> None:
        response = loss.link == "identity"
        self._request, self._scale, self._response = request, scale, response
        self._purchase: PrivateScaling | GivenScaling
        if given is None:
            self._purchase, rest = plan_scaling(
                request, request.mu, response=response, labels=loss.binary_response,
                responses=loss.responses,
            )  # fmt: skip
        else:
            self._purchase, rest = GivenScaling(request, given, response=response), request.mu
        self.rest = rest * (1.0 - ROUNDING_SUM)

    @property
    def planned_scales(self) -> list[Any]:
        """Scales to check with before anything is known; the last one is planned with."""
        if self._scale is None:
            return [SCALES if self._response else None]
        start = _start(self._scale)
        return [self._in_spreads(start / part) for part in (*FARTHEST, 1.0)]

    def _in_spreads(self, spread: float) -> Any:
        """The scale that was given, in spreads of the response or what is as far as allowed."""
        scale, start = self._scale, _start(self._scale)
        nearest = min(max(start / spread, FARTHEST[0]), FARTHEST[1])
        if nearest != start / spread:
            spread = start / nearest
        if isinstance(scale, FreeScale):
            return FreeScale(scale.low / spread, scale.high / spread, scale.start / spread)
        return nearest

    @property
    def units(self) -> Standardized | None:
        """The units, once they were bought."""
        return self._purchase.released

    def run(self) -> Any:
        """Buy the units, put the request's records into them; the scale in these."""
        self._purchase.in_place()
        if self._scale is None:
            return self.planned_scales[-1]
        coding = self._request.coding
        assert coding is not None
        return self._in_spreads(coding.response_units()[1])


def _start(scale: Any) -> float:
    """A scale, checked, or where the search for it starts."""
    if isinstance(scale, FreeScale):
        return scale.start
    return check_constant(scale, "scale", "public residual scale, in the units of y")


def scaling_for_method(
    request: FitRequest,
    loss: str | Loss,
    scale: Any,
    weights: Any,
    standardize: Any,
) -> ScalingForMethod | None:
    """What is to be bought, by public arguments alone; None if nothing is."""
    free = isinstance(scale, FreeScale)  # says nothing of columns
    declared = weights is not None or request.coding is not None
    if standardize is None and (declared or (scale is not None and not free)):
        return None
    kind = resolve_loss(loss)
    # of persons no scale can be estimated: that was proved for single rows
    complete = kind.link != "identity" or (kind.scale_part is not None and not request.means)
    if standardize is None:
        columns = request.n_covariates + 1
        standardize = complete and request.n_covariates > 0
        standardize = standardize and not (
            free and ScalingBudget(request.n, columns, request.mu).hidden()
        )
    if not standardize:
        return None
    if request.coding is not None:
        raise InvalidInput(CODED)
    if scale is None and not complete:
        raise InvalidInput(NO_SCALE)
    given = standardize if isinstance(standardize, Standardized) else None
    return ScalingForMethod(request, scale, kind, given)


def _automatic(method: Any) -> bool:
    return isinstance(method, str) and method == "auto"


class MethodFits:
    """The fits of a request by a method, one for each loss; making it refuses what can be refused.

    Privacy
    -------
    The request's total for everything: units that are bought (claims D1 to D6), each answer (C9).
    """

    def __init__(
        self,
        request: FitRequest,
        losses: Sequence[str | Loss],
        options: dict[str, Any],
        *,
        standardize: bool | Standardized | None,
        inference: bool,
        part: float = 1.0,
    ) -> None:
        scale, weights = options["scale"], options["weights"]
        if request.means and isinstance(scale, FreeScale):
            raise InvalidInput(ROBUST)
        self._request, self._inference = request, inference
        asked = standardize
        if asked is None and isinstance(scale, FreeScale) and not _automatic(options["method"]):
            asked = False  # a method may say where it starts, in the columns' own units
        bought = scaling_for_method(request, losses[0], scale, weights, asked)
        mu = (request.mu if bought is None else bought.rest) * part

        def planned(loss: str | Loss) -> Callable[[Any], Recipe]:
            n, q, intercept = request.n, request.n_covariates, request.fit_intercept
            ridge, method = options["ridge"], options["method"]
            return lambda scale: recipe_of(
                n, q, mu, intercept, loss, scale, weights, ridge, method, inference, request.means
            )

        self._bought, self._planned = bought, [planned(loss) for loss in losses]
        scales = [request.coded_scale(scale)] if bought is None else bought.planned_scales
        self._walks = [MethodFit(request, one, scales) for one in self._planned]

    @property
    def loss(self) -> Loss:
        """The first one."""
        return self._walks[0].objective.loss

    def run(
        self,
        progress: Callable[[int, int], None] | None,
        label: str,
        together: Callable[[list[Fit], Guarantee], Result],
    ) -> Result:
        """Charge, fit, and put the fits together; also those that an error leaves."""
        request, bought, walks = self._request, self._bought, self._walks
        steps = [walk.budgets.most_steps for walk in walks]
        report = checked_progress(progress, sum(steps))
        found: list[MethodResult] = []

        def results(found: list[MethodResult]) -> Result:
            paid = request.guarantee()
            pairs = zip(walks, found, strict=False)
            return together([walk.result(one, paid) for walk, one in pairs], paid)

        def so_far(error: str) -> Result | None:
            begun = [walk.so_far(error) for walk in walks[len(found) : len(found) + 1]]
            known = [*found, *[one for one in begun if one is not None]]
            return results(known) if known else None

        def units() -> Standardized | None:
            return None if bought is None else bought.units

        # whatever the optimiser, perhaps the caller's own, does: what is paid for must arrive
        with KeepReleased(so_far, privacy=request.guarantee, scales=units):
            request.account.charge(label, request.memory_bytes(0 if bought is None else 1))
            if bought is not None:
                scale = bought.run()
                for walk, planned in zip(walks, self._planned, strict=True):
                    walk.go_on_with(planned(scale), bought)
            for k, walk in enumerate(walks):
                found.append(
                    walk.run(self._inference, progress_after(report, sum(steps[:k]), sum(steps)))
                )
            return results(found)
