"""Fits by an explicit method: checked before the charge, run after it, turned into results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, check_constant
from dpfast.errors import InvalidInput
from dpfast.fit_requests.partial import UNFINISHED
from dpfast.fit_requests.planned_run import Progress
from dpfast.fit_requests.request import FitRequest, checked_start
from dpfast.inference.degrees import Covariance
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import covariance_or_reason
from dpfast.models import FreeScale, Loss, Objective, resolve_loss
from dpfast.optimize.protocol import answers_only, checked_run
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.decisions import Recipe, recipe_of
from dpfast.scaling.budget import FARTHEST, ScalingBudget
from dpfast.scaling.private import PrivateScaling, plan_scaling
from dpfast.scaling.standardize import CODED, refuse_like
from dpfast.scaling.standardized import GivenScaling, Standardized

#: Range of the residual scale, in spreads of the response.  It is at most about one of them; a
#: heavy-tailed response has the spread of its bulk, hence the margin above.
SCALES = FreeScale(1e-3, 10.0, 1.0)

NO_SCALE = (
    "the scale of this fit cannot be estimated: pass scale=<public residual scale>, leave weights, "
    "ridge and method out, or use log-cosh, huber or pseudo-huber (with single rows)."
)

#: Refusal of a free scale for persons' means: its bounds are not proved for them (claim C72).
ROBUST = (
    'each="person" has no free scale: its bounds are proved for single rows only. Leave scale out, '
    "pass a number, or keep a public number of rows of each person with group_size=..."
)


class MethodResult(NamedTuple):
    """Released results of a run: estimate, path, and covariance or the reason for its absence."""

    theta: Array
    iterates: Sequence[Array]
    covariance: Covariance | None = None
    missing: str = ""


class MethodFit:
    """Planned run of an optimiser; its constructor refuses invalid plans before any charge."""

    def __init__(
        self,
        request: FitRequest,
        planned: Callable[[Any], Recipe],
        scales: Sequence[Any],
    ) -> None:
        self._request = request
        self._scaling: ScalingForMethod | None = None
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

    def rescale(self, recipe: Recipe, scaling: ScalingForMethod) -> None:
        """Replace the plan by the same one in private units that are now known."""
        self._recipe, self._scaling = recipe, scaling
        curator = self._request.curator(self.objective)
        self._answers = answers_only(curator, self.budgets, self._answered)

    def run(self, inference: bool, report: Progress | None) -> MethodResult:
        """Spend the budgets."""
        objective, optimiser = self.objective, self._optimiser
        theta = self._start
        if (free := objective.free_scale) is not None:
            theta = np.append(theta, free.start / free.factor)
        output = optimiser.run(self._answers, theta, self.budgets, report)
        trajectory = checked_run(output, objective.dimension)
        covariance, missing = None, ""
        if inference:
            covariance, missing = covariance_or_reason(
                optimiser, trajectory, self._request.n_units, objective.ridge
            )
        return MethodResult(trajectory.theta, trajectory.iterates, covariance, missing)

    def unfinished(self, error: str) -> MethodResult | None:
        """Return the results released before an error of this name, if any."""
        if not self._answered:
            return None
        return MethodResult(self._answered[-1], self._answered, missing=UNFINISHED % error)

    def result(self, output: MethodResult, privacy: Guarantee) -> Fit:
        """Make the fit, in the columns' original units."""
        fitted = self._request.make_result(
            output.theta,
            self.objective,
            model=self._recipe.model,
            method=self._recipe.method,
            privacy=privacy,
            iterates=output.iterates,
            covariance=output.covariance,
            missing=output.missing,
        )
        if self._scaling is not None:
            fitted.units = self._scaling.units
        return fitted.natural


class ScalingForMethod:
    """Standardisation inside a fit, within its total."""

    def __init__(
        self,
        request: FitRequest,
        scale: Any,
        loss: Loss,
        given_units: Standardized | None = None,
    ) -> None:
        response = loss.link == "identity"
        self._request, self._scale, self._response = request, scale, response
        self._scaling: PrivateScaling | GivenScaling
        if given_units is None:
            self._scaling, rest = plan_scaling(
                request, request.mu, response=response, labels=loss.binary_response,
                responses=loss.responses,
            )  # fmt: skip
        else:
            self._scaling, rest = GivenScaling(request, given_units, response=response), request.mu
        self.rest = rest * (1.0 - ROUNDING_SUM)

    @property
    def planned_scales(self) -> list[Any]:
        """Scales to check with before anything is known; the last one is planned with."""
        if self._scale is None:
            return [SCALES if self._response else None]
        start = _start(self._scale)
        return [self._in_spreads(start / part) for part in (*FARTHEST, 1.0)]

    def _in_spreads(self, spread: float) -> Any:
        """Express the given scale in spreads of the response, within the allowed range."""
        scale, start = self._scale, _start(self._scale)
        nearest = min(max(start / spread, FARTHEST[0]), FARTHEST[1])
        if nearest != start / spread:
            spread = start / nearest
        if isinstance(scale, FreeScale):
            return FreeScale(scale.low / spread, scale.high / spread, scale.start / spread)
        return nearest

    @property
    def units(self) -> Standardized | None:
        """Private units, once they were estimated."""
        return self._scaling.released

    def run(self) -> Any:
        """Estimate the units, rescale the request's records, and return the scale in them."""
        self._scaling.in_place()
        if self._scale is None:
            return self.planned_scales[-1]
        coding = self._request.coding
        assert coding is not None
        return self._in_spreads(coding.response_units()[1])


def _start(scale: Any) -> float:
    """Check a scale; return it, or where the search for it starts."""
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
    """Decide by public arguments alone which units are estimated; None if none are."""
    refuse_like(standardize, "weights, a ridge, a method or a free scale")
    free = isinstance(scale, FreeScale)  # it declares nothing about columns
    declared = weights is not None or request.coding is not None
    if standardize is None and (declared or (scale is not None and not free)):
        return None
    kind = resolve_loss(loss)
    # a scale can only be estimated from single rows (claim C72)
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
    given_units = standardize if isinstance(standardize, Standardized) else None
    return ScalingForMethod(request, scale, kind, given_units)


def _automatic(method: Any) -> bool:
    return isinstance(method, str) and method == "auto"


class MethodFits:
    """Fits of a request by a method, one for each loss; its constructor refuses invalid requests.

    Privacy
    -------
    The request's total for everything: private units (claims D1 to D6), each answer (C9).
    """

    #: A method may be the caller's own code, which need not end by released values.
    returns_unused = False

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
        self.request, self._inference = request, inference
        automatic = _automatic(options["method"])
        if standardize is None and isinstance(scale, FreeScale) and not automatic:
            standardize = False  # a method's start is in the columns' own units
        scaling = scaling_for_method(request, losses[0], scale, weights, standardize)
        mu = (request.mu if scaling is None else scaling.rest) * part

        def planned(loss: str | Loss) -> Callable[[Any], Recipe]:
            n, q, intercept = request.n, request.n_covariates, request.fit_intercept
            ridge, method = options["ridge"], options["method"]
            return lambda scale: recipe_of(
                n, q, mu, intercept, loss, scale, weights, ridge, method, inference, request.means
            )

        self._scaling, self._recipes = scaling, [planned(loss) for loss in losses]
        scales = [request.coded_scale(scale)] if scaling is None else scaling.planned_scales
        self._fits = [MethodFit(request, recipe, scales) for recipe in self._recipes]
        self.steps = [method_fit.budgets.most_steps for method_fit in self._fits]

    @property
    def loss(self) -> Loss:
        """First loss."""
        return self._fits[0].objective.loss

    @property
    def units(self) -> Standardized | None:
        """Private units, once they were estimated; None without any."""
        return None if self._scaling is None else self._scaling.units

    def memory_bytes(self) -> int:
        """Return the bytes needed after the charge: public."""
        return self.request.memory_bytes(0 if self._scaling is None else 1)

    def begin(self) -> None:
        """Estimate the private units, and express the plans in them."""
        if self._scaling is not None:
            scale = self._scaling.run()
            for method_fit, recipe in zip(self._fits, self._recipes, strict=True):
                method_fit.rescale(recipe(scale), self._scaling)

    def solve(self, k: int, report: Progress | None) -> MethodResult:
        """Run the optimiser for one loss."""
        return self._fits[k].run(self._inference, report)

    def unfinished(self, k: int, error: str) -> MethodResult | None:
        """Return what one loss has released before an error of this name, if anything."""
        return self._fits[k].unfinished(error)

    def result(self, k: int, output: MethodResult, guarantee: Guarantee) -> Fit:
        """Make the fit of one loss."""
        return self._fits[k].result(output, guarantee)
