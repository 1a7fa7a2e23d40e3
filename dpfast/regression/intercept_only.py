"""Fallback where records are too few for slopes: the private mean of the response."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpfast.curator.scaling.columns import Columns
from dpfast.errors import InvalidBudget
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.results import Fit
from dpfast.models import Loss, Mallows
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.scaling.budget import MAX_COUNT_NOISE
from dpfast.scaling.remarks import complete_remarks
from dpfast.scaling.search import ScaleSearch

INTERCEPT_ONLY = (
    "n mu = {strength:.3g} is too small to estimate {q} slopes of columns of unknown scale. All of "
    "the budget went to the mean of the response, which is the intercept; slopes are not "
    "estimated (NaN), and predictions are that mean. There are no standard errors. Use "
    "more records, a larger budget or fewer columns, or declare their ranges in a schema."
)

UNWEIGHTED = (
    "n mu = {strength:.3g} is too small to estimate {q} slopes of columns of unknown scale, and "
    "the mean of the response, the answer in that case, ignores weights and offsets. Use more "
    "records, a larger budget or fewer columns, declare ranges in a schema, or leave "
    "sample_weight and offset out."
)


class InterceptOnly(Analysis[Fit]):
    """Private mean of the response, or its share of ones, with the reason for it.

    Privacy
    -------
    The total of the request, for the location of one column (claims D1 to D4, D6).
    """

    def __init__(self, request: FitRequest, loss: Loss) -> None:
        request.charge_rows_separately()
        self.request = request
        scale = 1.0 if loss.needs_scale else None
        self._objective = request.objective(
            loss._bounded, scale=scale, weights=Mallows(1.0), ridge=0.0
        )
        self._loss = loss = self._objective.loss
        n, q, mu = request.n, request.n_covariates, request.mu
        if request.record_weights is not None and request.record_weights.weighted:
            raise InvalidBudget(UNWEIGHTED.format(strength=n * mu, q=q))
        self._columns = columns = Columns(request.single, request.ledger, request.noise)
        request.check_response(loss)
        self._search = search = ScaleSearch(columns, [q], mu * (1.0 - ROUNDING_SUM))
        if loss._highest is not None:
            columns.moments_receipt(1, mu)
        elif search.noise > MAX_COUNT_NOISE * n:
            raise InvalidBudget(
                f"n = {n} records at mu = {mu:.3g} are too few to find the scales of columns, even "
                f"that of the response alone. Needed is mu of at least "
                f"{mu * search.noise / (MAX_COUNT_NOISE * n):.3g}. Declare ranges in a schema."
            )

    def fit(self, progress: Callable[[int, int], None] | bool | None) -> Fit:
        """Charge, and estimate the mean."""
        request = self.request
        return run(self, request.label("fit", self._loss.name), request.memory_bytes(), progress)

    def query(self, report: Progress | None) -> tuple[float, float | None]:
        """Release the mean of the response, and the spread of one without a bound."""
        request, highest = self.request, self._loss._highest
        spread = None
        if highest is None:
            mean, spread = self._search.run()[0][:2]
            counted, names = self._search.counted, request.column_names
            request.remarks = complete_remarks(counted, request.n_units, names)
        else:
            half, n = np.full(1, 0.5 * highest), request.n
            moments = self._columns.moments([request.n_covariates], half, half, request.mu)
            share = 0.5 + 0.5 * float(moments.value[0])
            mean = min(max(share, 1.0 / (n + 1)), n / (n + 1)) * highest
        if report is not None:
            report(1, 1)
        return mean, spread

    def report(self, answers: tuple[float, float | None]) -> Fit:
        """Make a fit whose intercept is the mean, through the link, and whose slopes are NaN."""
        request, loss, objective = self.request, self._loss, self._objective
        intercept, spread = answers
        if spread is None:
            intercept = loss._link(intercept)
        elif loss.link != "identity":
            intercept = loss._predictor(max(intercept, spread / request.n))
        params = np.full(objective.dimension, np.nan)
        predictor = np.zeros(objective.dimension)
        params[0] = predictor[0] = intercept
        strength, q = request.n * request.mu, request.n_covariates
        fit = request.make_result(
            params,
            objective,
            model=f"the mean of the response alone; requested: {loss.name}",
            method=_how(loss, loss._highest),
            iterates=[np.zeros(len(predictor)), predictor],
            predictor=predictor,
            missing=INTERCEPT_ONLY.format(strength=strength, q=q),
        )
        if loss.needs_scale:
            fit._scale = spread
        return fit


def _how(loss: Loss, highest: float | None) -> str:
    if highest is None:
        return "clipped mean within a range estimated by noisy counts"
    return (
        loss.mean_label
        if loss.largest_response == highest
        else f"{loss.mean_label} clipped at {highest:g}"
    )
