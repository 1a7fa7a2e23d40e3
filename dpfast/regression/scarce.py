"""Too few records for the coefficients: the private mean of the response is the answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.bought.columns import Columns
from dpfast.errors import InvalidBudget
from dpfast.front.partial import KeepingPaid
from dpfast.front.progress import watched
from dpfast.front.request import Request, charge_shared
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import Covariance
from dpfast.kernels.linalg import eigh
from dpfast.models import FreeScale, Loss, Objective
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.locations import Search
from dpfast.regression.standardise import MOST_NOISE, complete_remarks, units_are_hidden

__all__ = ["LEVEL", "SCARCE", "SHRUNK", "fit_mean_alone", "kept_part", "only_the_mean", "shrunk"]

Array = NDArray[np.float64]

#: Budget below which p coefficients are told from noise badly: ``n mu`` in ``p^1.5``.
SCARCE = 20.0

#: Noise of the predictions, as a part of what they explain, up to which nothing is shrunk; and, as
#: a part of the response's variance, from which on nothing is kept.
QUIET, LOUD = 0.05, 0.3

#: Variance of a fit's mean response, in those units, from which on its bought centre is nearer.
LEVEL = 0.01

#: Instead of nothing below a division bar.
LEAST = 1e-300

ALONE = (
    "n mu = {strength:.3g} is too little to estimate {q} slopes of columns whose units nobody "
    "declared: all of the budget went to the mean of the response, which is the intercept, and the "
    "slopes are zero, not estimated. There are no standard errors. Use more records, a larger "
    "budget or fewer columns, or declare their ranges in a schema."
)

UNWEIGHTED = (
    "n mu = {strength:.3g} is too little to estimate {q} slopes of columns whose units nobody "
    "declared, and the mean of the response, which is the answer then, would be one without these "
    "weights and offsets. Use more records, a larger budget or fewer columns, declare ranges in a "
    "schema, or leave sample_weight and offset out."
)

SHRUNK = (
    "predictions keep {kept:.2g} of the slopes and lean to the mean of the response otherwise, "
    "because noise is a large part of what the slopes explain; coefficients and intervals are not "
    "shrunk. Use more records, a larger budget, or fewer covariates."
)


def only_the_mean(request: Request, share: float, columns: int, mu: float) -> bool:
    """Whether p coefficients of columns in units to be bought are out of reach: public.

    Parameters
    ----------
    request : Request
        A model without an intercept has no mean to answer with.
    share : float
        Part of mu^2 that the units of so many columns would get.
    columns : int
    mu : float
    """
    if not request.fit_intercept or request.n_covariates == 0:
        return False
    scarce = request.n * mu < SCARCE * request.dimension**1.5
    return scarce or units_are_hidden(request.n, columns, mu * share**0.5)


def fit_mean_alone(
    request: Request,
    privacy: Budget | float,
    total: GDP,
    objective: Objective,
    ledger: Ledger | None,
    progress: Callable[[int, int], None] | None,
    known: FreeScale | None = None,
) -> Fit:
    """A fit that is the private mean of the response, or its share of ones, and says why.

    Privacy
    -------
    ``privacy`` in total, for the location of one column (claims D1 to D4, D6).

    Notes
    -----
    A free scale is the response's spread, within its interval if one was given (``known``).
    """
    n, q, mu = request.n, request.n_covariates, request.per_record(total).mu
    if request.beside is not None and request.beside.weighted:
        raise InvalidBudget(UNWEIGHTED.format(strength=n * mu, q=q))
    own = Ledger(GDP(mu))
    columns = Columns(request.single, own, request.noise)
    loss = objective.loss
    request.check_response(loss)
    highest = loss._highest
    search = Search(columns, [q], mu * (1.0 - MARGIN_8000))
    if highest is not None:
        columns.moments_receipt(1, mu)
    elif search.noise > MOST_NOISE * n:
        raise InvalidBudget(
            f"n = {n} records at mu = {mu:.3g} are too few to find where columns lie, even that of "
            f"the response alone. Needed is mu of at least "
            f"{mu * search.noise / (MOST_NOISE * n):.3g}. Declare ranges in a schema."
        )
    report = watched(progress, 1)

    def spent() -> Guarantee:
        return request.guarantee(total, own)

    with KeepingPaid(privacy=spent):
        label = request.label("fit", objective.loss.name)
        charge_shared(ledger, privacy, total, label, request.room())
        if highest is not None:
            half = np.full(1, 0.5 * highest)
            share = 0.5 + 0.5 * float(columns.moments([q], half, half, mu).value[0])
            share = min(max(share, 1.0 / (n + 1)), n / (n + 1))
            found = [loss._link(share * highest)]
        else:
            where = search.run()[0]
            found = [where.centre, where.spread]
            if loss.link != "identity":
                found = [loss._predictor(max(where.centre, 1.0 / n))]
            counted, names = search.counted, request.column_names
            request.remarks = complete_remarks(counted, request.n_units, names)
        if report is not None:
            report(1, 1)
        params = np.zeros(objective.dimension)
        params[0] = found[0]
        if objective.free_scale is not None:
            scale = found[1] if known is None else min(max(found[1], known.low), known.high)
            params[-1] = scale / objective.free_scale.factor
        fit = request.fit(
            params,
            objective,
            model=f"the mean of the response alone; asked for: {objective!r}",
            method=_how(objective.loss, highest),
            privacy=spent(),
            iterates=[np.zeros(len(params)), params],
            missing=ALONE.format(strength=n * mu, q=q),
        )
        if objective.loss.needs_scale:
            free = objective.free_scale
            fit._scale = found[1] if free is None else float(params[-1]) * free.factor
        return fit


def _how(loss: Loss, highest: float | None) -> str:
    if highest is None:
        return "clipped mean, its range found by counts"
    return loss.noun if loss.largest_response == highest else f"{loss.noun} held to {highest:g}"


def kept_part(explained: float, noise: float) -> float:
    """Part of the slopes that predictions keep: Stein's, with twice the noise.

    Parameters
    ----------
    explained : float
        Mean square of the centred predictions, in variances of the response, noise included.
    noise : float
        What sampling and privacy noise of the slopes add to it.
    """
    if not noise <= LOUD:
        return 0.0
    if noise <= QUIET * explained and explained <= 1.0 + LOUD:
        return 1.0
    return max(0.0, 1.0 - 2.0 * noise / max(explained, LEAST)) / math.sqrt(max(explained, 1.0))


def shrunk(
    theta: Array, covariance: Covariance, objective: Objective, start: Array
) -> tuple[float, Array | None]:
    """Part of the slopes that predictions keep, and their coefficients unless that is all.

    Parameters
    ----------
    theta : ndarray
        Of standardised columns and response; of log odds, of columns in any units.
    covariance : Covariance
    objective : Objective
        Without an intercept there is nothing to lean to; nor is the mean of the response what a
        quantile of it would lean to.  Of counts nobody knows what slopes explain.
    start : ndarray
        Where the run began: without slopes, at the log odds of all records together.
    """
    p = objective.dimension - int(objective.free_scale is not None)
    if not objective.loss.of_mean or objective.loss.link == "log":
        return 1.0, None
    if not objective.fit_intercept or p == 1:
        return 1.0, None
    if objective.loss.binary_response:
        return _shrunk_odds(theta, covariance, start)
    rows = np.eye(p - 1)
    if covariance.spread is not None:  # the covariates' mean outer product, as far as it is told
        rows = covariance.spread.curvature.floored()[1:p, 1:p]
        rows = rows * ((p - 1) / max(float(np.trace(rows)), LEAST))
    explained = float(theta[1:p] @ rows @ theta[1:p])
    whole = covariance.matrix + np.diag(_unfinished(covariance))
    kept = kept_part(explained, float(np.vdot(rows, whole[1:p, 1:p])))
    if kept == 1.0:
        return 1.0, None
    level = theta[0] if whole[0, 0] <= LEVEL else 0.0
    return kept, np.concatenate([[level], kept * theta[1:p], theta[p:]])


def _shrunk_odds(theta: Array, covariance: Covariance, start: Array) -> tuple[float, Array | None]:
    """Log odds lean to those of all records, in each direction by its own noise.

    Lengths are the curvature's, which counts a change of log odds by what it does to a share of
    ones.  Log odds may explain any multiple of the response's variance.
    """
    if covariance.spread is None:
        return 1.0, None
    if start[1:].any() or not start[0]:  # nobody asked how many ones there are
        start = np.concatenate([theta[:1], np.zeros(len(theta) - 1)])
    values, vectors = eigh(covariance.spread.curvature.floored())
    root = vectors * np.sqrt(np.maximum(values, LEAST))
    noise, own = eigh(root.T @ (covariance.matrix + np.diag(_unfinished(covariance))) @ root)
    found = (theta - start) @ root @ own
    explained = float(found @ found)
    if float(noise.sum()) <= QUIET * explained:
        return 1.0, None
    parts = np.maximum(0.0, 1.0 - noise / np.maximum(found * found, LEAST))
    predictor = start + np.linalg.solve(root.T, own @ (parts * found))
    return float(np.linalg.norm(parts * found)) / math.sqrt(explained), predictor


def _unfinished(covariance: Covariance) -> Array:
    """Squares of what a fit warns of, where they are more than its variances."""
    left, variances = covariance.unfinished**2, covariance.matrix.diagonal()
    return np.asarray(np.where(left > 4.0 * variances, left, 0.0))
