"""Too few records for the coefficients: the private mean of the response is the answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.bought.columns import Columns
from dpfast.errors import InvalidBudget
from dpfast.front.progress import watched
from dpfast.front.request import Request, charge_shared
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import Covariance
from dpfast.models import FreeScale, Loss, Objective
from dpfast.models.special_losses import Poisson
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.locations import Search
from dpfast.regression.standardise import MOST_NOISE, units_are_hidden

__all__ = ["LEVEL", "SCARCE", "SHRUNK", "fit_mean_alone", "kept_part", "only_the_mean", "shrunk"]

Array = NDArray[np.float64]

#: Budget below which p coefficients are told from noise badly: ``n mu`` in ``p^1.5``.
SCARCE = 20.0

#: Noise of the predictions, as a part of what they explain, up to which nothing is shrunk; and, as
#: a part of the response's variance, from which on nothing is kept.
QUIET, LOUD = 0.05, 0.3

#: Variance of a fit's mean response, in those units, from which on its bought centre is nearer.
LEVEL = 0.01

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

#: Variance of the logistic distribution: of a response of 0 and 1, the units of ``kept_part``.
LOGISTIC_VARIANCE = math.pi**2 / 3.0


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
    ``privacy`` in total, for the location of one column (claims D1 to D4).

    Notes
    -----
    A free scale is the response's spread, within its interval if one was given (``known``).
    """
    n, q, mu = request.n, request.n_covariates, request.per_record(total).mu
    if request.beside is not None and request.beside.weighted:
        raise InvalidBudget(UNWEIGHTED.format(strength=n * mu, q=q))
    own = Ledger(GDP(mu))
    columns = Columns(request.single, own, request.noise)
    request.check_response(objective.loss)
    highest = _highest(objective.loss)
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
    charge_shared(ledger, privacy, total, request.label("fit", objective.loss.name))
    if highest is not None:
        half = np.full(1, 0.5 * highest)
        share = 0.5 + 0.5 * float(columns.moments([q], half, half, mu).value[0])
        share = min(max(share, 1.0 / (n + 1)), n / (n + 1))
        of_ones = objective.loss.binary_response
        found = [math.log(share / (1.0 - share) if of_ones else share * highest)]
    else:
        where = search.run()[0]
        found = [where.centre, where.spread]
    if report is not None:
        report(1, 1)
    params = np.zeros(objective.dimension)
    params[0] = found[0]
    if objective.free_scale is not None:
        scale = found[1] if known is None else min(max(found[1], known.low), known.high)
        params[-1] = scale / objective.free_scale.factor
    return request.fit(
        params,
        objective,
        model=f"the mean of the response alone; asked for: {objective!r}",
        method=_how(objective.loss, highest),
        privacy=request.guarantee(total, own),
        iterates=[np.zeros(len(params)), params],
        missing=ALONE.format(strength=n * mu, q=q),
    )


def _highest(loss: Loss) -> float | None:
    """The largest response there is or that counts, where that is public; the least is zero."""
    if isinstance(loss, Poisson):
        return 2.0 * loss.largest_mean
    return 1.0 if loss.binary_response else None


def _how(loss: Loss, highest: float | None) -> str:
    if highest is None:
        return "clipped mean, its range found by counts"
    return "share of ones" if loss.binary_response else f"mean of counts held to {highest:g}"


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
    return max(0.0, 1.0 - 2.0 * noise / explained) / math.sqrt(max(explained, 1.0))


def shrunk(
    theta: Array, covariance: Covariance, objective: Objective
) -> tuple[float, Array | None]:
    """Part of the slopes that predictions keep, and their coefficients unless that is all.

    Parameters
    ----------
    theta : ndarray
        Of standardised columns and response, or of log odds.
    covariance : Covariance
    objective : Objective
        Without an intercept there is nothing to lean to; nor is the mean of the response what a
        quantile of it would lean to.  Of counts nobody knows what slopes explain.
    """
    if objective.loss.scale_by_pilot or objective.loss.link == "log":
        return 1.0, None
    p = objective.dimension - int(objective.free_scale is not None)
    if not objective.fit_intercept or p == 1:
        return 1.0, None
    unit = LOGISTIC_VARIANCE if objective.loss.binary_response else 1.0
    variances = covariance.matrix.diagonal()
    left = covariance.unfinished**2
    variances = variances + np.where(left > 4.0 * variances, left, 0.0)  # what a fit warns of
    noise = float(np.sum(variances[1:p])) / unit
    kept = kept_part(float(theta[1:p] @ theta[1:p]) / unit, noise)
    if kept == 1.0:
        return 1.0, None
    level = theta[0] if variances[0] <= LEVEL * unit else 0.0
    return kept, np.concatenate([[level], kept * theta[1:p], theta[p:]])
