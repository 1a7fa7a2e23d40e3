"""Fallback where records are too few for slopes: the private mean of the response."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpfast.curator.scaling.columns import Columns
from dpfast.errors import InvalidBudget
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.progress import checked_progress
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.locations import ScaleSearch
from dpfast.regression.standardise import MAX_COUNT_NOISE, complete_remarks

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


def fit_intercept_only(
    request: FitRequest, objective: Objective, progress: Callable[[int, int], None] | None
) -> Fit:
    """Estimate the private mean of the response, or its share of ones, and say why.

    Privacy
    -------
    The total of the request, for the location of one column (claims D1 to D4, D6).
    """
    n, q, mu = request.n, request.n_covariates, request.mu
    if request.record_weights is not None and request.record_weights.weighted:
        raise InvalidBudget(UNWEIGHTED.format(strength=n * mu, q=q))
    columns = Columns(request.single, request.ledger, request.noise)
    loss = objective.loss
    request.check_response(loss)
    highest = loss._highest
    search = ScaleSearch(columns, [q], mu * (1.0 - ROUNDING_SUM))
    if highest is not None:
        columns.moments_receipt(1, mu)
    elif search.noise > MAX_COUNT_NOISE * n:
        raise InvalidBudget(
            f"n = {n} records at mu = {mu:.3g} are too few to find the scales of columns, even "
            f"that of the response alone. Needed is mu of at least "
            f"{mu * search.noise / (MAX_COUNT_NOISE * n):.3g}. Declare ranges in a schema."
        )
    report = checked_progress(progress, 1)

    with KeepReleased(privacy=request.guarantee):
        request.account.charge(request.label("fit", loss.name), request.memory_bytes())
        if highest is not None:
            half = np.full(1, 0.5 * highest)
            share = 0.5 + 0.5 * float(columns.moments([q], half, half, mu).value[0])
            share = min(max(share, 1.0 / (n + 1)), n / (n + 1))
            intercept = loss._link(share * highest)
        else:
            column_scale = search.run()[0]
            intercept, spread = column_scale.centre, column_scale.spread
            if loss.link != "identity":
                intercept = loss._predictor(max(intercept, spread / n))
            counted, names = search.counted, request.column_names
            request.remarks = complete_remarks(counted, request.n_units, names)
        if report is not None:
            report(1, 1)
        params = np.full(objective.dimension, np.nan)
        predictor = np.zeros(objective.dimension)
        params[0] = predictor[0] = intercept
        fit = request.make_result(
            params,
            objective,
            model=f"the mean of the response alone; requested: {loss.name}",
            method=_how(loss, highest),
            iterates=[np.zeros(len(predictor)), predictor],
            predictor=predictor,
            missing=INTERCEPT_ONLY.format(strength=n * mu, q=q),
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
