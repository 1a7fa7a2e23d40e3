"""``fit(..., "least-squares")``: the coefficients of ordinary least squares, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.whitened import Whitened
from dpfast.errors import InvalidInput, described
from dpfast.front.partial import UNFINISHED, KeepingPaid
from dpfast.front.progress import watched
from dpfast.front.request import Request, charge_shared
from dpfast.inference.degrees import VarianceNoise
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import Covariance
from dpfast.kernels.linalg import congruence
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.optimize.least_squares.run import MOST_CELLS, STEPS, Found, budgets, least_squares
from dpfast.optimize.propagation import Curvature
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.purchase import units_share
from dpfast.regression.scarce import (
    LEVEL,
    SCARCE,
    SHRUNK,
    fit_mean_alone,
    kept_part,
    only_the_mean,
)
from dpfast.regression.standardise import Purchase

__all__ = ["fit_least_squares"]

#: Estimated mean length of what is cut off the scores, in standard errors, from which on it is
#: told: tables whose intervals cover the least squares coefficients stay below, by bench.rivals.
BIASED = 1.8

#: Instead of nothing below a division bar.
LEAST = 1e-300

MODEL = "LeastSquares(), target: the coefficients of ordinary least squares"

CUT = (
    "scores were held to a norm of {bound:.3g}, and longer ones may move coefficients by up to "
    "{bias:.2g} standard errors together: intervals may not cover the coefficients of ordinary "
    "least squares. Use the logarithm of a response or covariate that spans orders of magnitude, "
    "a larger budget, or a robust loss."
)

LONG = (
    "rows far from the others were discounted (weights to the power {power:g}), so the estimate "
    "leans less on them than ordinary least squares does. Use the logarithm of covariates that "
    "span orders of magnitude, or a larger budget."
)

FEW_TELL = (
    "hardly more than {tellers:.0f} records, far from the others, tell the coefficients of "
    "{columns} apart from the rest: their intervals may not cover those of ordinary least squares. "
    "Leave out rare levels and columns that are nearly constant or follow from others, or use a "
    "larger budget."
)

GREW = (
    "the last step was longer than the one before: the estimate has not settled and the intervals "
    "may not cover. Use more records, a larger budget, or fewer covariates."
)

FEW = (
    "n mu = {strength:.3g} is below 20 p^1.5 = {needed:.3g}: coefficients are mostly noise. Use "
    "more records, a larger budget, or fewer covariates."
)


def fit_least_squares(
    request: Request,
    privacy: Budget | float,
    total: GDP,
    *,
    standardize: bool | None,
    inference: bool,
    ledger: Ledger | None,
    progress: Callable[[int, int], None] | None,
    refused: dict[str, Any],
) -> Fit:
    """The fit of a checked request; ``refused`` are options it has no use for, with their defaults.

    Columns that nobody coded are put into units that are bought, and the result is in their own.

    Privacy
    -------
    ``privacy`` in total: locations and scales (claims D1 to D5), Grams (claim C14), histograms of
    lengths (C60) and clipped scores (C13, C17) of rows under released maps.
    """
    for name, (given, default) in refused.items():
        if given is not default and given != default:
            raise InvalidInput(
                f"{name} is not an option of least squares, which finds its own weights, scale and "
                f"steps; received {described(given)}. Leave it out, or use a robust loss."
            )
    n, p = request.n, request.dimension
    if p >= n:
        raise InvalidInput(
            f"p = {p} coefficients of least squares need more than n = {n} records. Use fewer "
            "covariates, or a robust loss with ridge=... (a public penalty)."
        )
    objective = Objective(
        LeastSquares(), Mallows(1.0), request.n_covariates, fit_intercept=request.fit_intercept
    )
    mu = request.per_record(total).mu
    spent = Ledger(GDP(mu))
    purchase, least = None, mu
    if request.coding is None if standardize is None else standardize:
        columns = request.n_covariates + 1
        share = units_share(n, columns, mu)
        if only_the_mean(request, share, columns, mu):
            return fit_mean_alone(request, privacy, total, objective, ledger, progress)
        purchase = Purchase(request, mu * share**0.5, spent, whole=mu)
        least = mu * (1.0 - share) ** 0.5
    rows = Whitened(request.curator(objective, spent))
    for part in (least, mu):  # how much is left is not known before
        rows.refuse(*budgets(n, p, part), cells=MOST_CELLS)
    report = watched(progress, STEPS)
    charge_shared(ledger, privacy, total, request.label("fit", objective.loss.name))
    iterates: list[NDArray[np.float64]] = []
    remarks: tuple[str, ...] = ()

    def result(found: Found | None, missing: str = "") -> Fit:
        covariance = None
        if found is not None and inference:
            covariance = _covariance(found, request, mu, remarks)
        fit = request.fit(
            iterates[-1],
            objective,
            model=f"{MODEL}, dimension={p}",
            method="whitened rows, clipped scores" if found is None else _described(found, n),
            privacy=request.guarantee(total, spent),
            iterates=iterates,
            covariance=covariance,
            missing=missing,
            predictor=None if found is None else _predictor(found, request)[1],
        )
        return fit if purchase is None else fit.natural

    def so_far(error: str) -> Fit | None:
        return result(None, UNFINISHED % error) if iterates else None

    with KeepingPaid(so_far), np.errstate(all="ignore"):  # what is paid for must arrive
        if purchase is not None:
            remarks = purchase.in_place()
            rows = Whitened(request.curator(objective, spent))
            mu = max(least, (mu**2 - spent.spent.mu**2) ** 0.5 * (1.0 - MARGIN_8000))
        return result(least_squares(rows, mu, inference, iterates, report))


def _predictor(found: Found, request: Request) -> tuple[float, NDArray[np.float64] | None]:
    """Part of the slopes that predictions keep, and their coefficients unless that is all.

    Of released numbers only.  They lean to the mean of the response, or, where that is noise, to
    its centre.
    """
    p = request.dimension
    if not request.fit_intercept or p == 1:
        return 1.0, None
    rows = found.unmapping.T @ found.unmapping  # mean of the rows' outer products
    mean = rows[0] / max(rows[0, 0], LEAST)
    slopes = found.theta[1:]
    inner = rows[1:, 1:] - np.outer(rows[0, 1:], mean[1:])
    noise = max(1.0, float(np.trace(found.meat)) / p) / request.n_units + found.noise**2
    kept = kept_part(float(slopes @ inner @ slopes), (p - 1) * noise)
    if kept == 1.0:
        return 1.0, None
    level = float(mean @ found.theta) if noise <= LEVEL else 0.0
    return kept, np.concatenate([[level - kept * mean[1:] @ slopes], kept * slopes])


def _described(found: Found, n: int) -> str:
    return (
        f"whitened rows, discounted to the power {found.power:g}; scores held to a norm of "
        f"{found.bound:.4g} (seen beyond it: {found.beyond:.2%} of the records; not seen, "
        f"however far: {min(found.unseen, n):.0f} or fewer); {STEPS} steps"
    )


def _covariance(found: Found, request: Request, mu: float, known: tuple[str, ...]) -> Covariance:
    """Sampling, noise, and what clipping and hidden directions may have left undone."""
    n, p = request.n_units, request.dimension
    W, identity = found.mapping, np.eye(p)
    sampling = found.meat / max(1, n - p)
    undone = np.diag(found.undone)
    size = np.sqrt(np.trace(sampling) / p + found.noise**2)
    bias, strength = found.cut / size, request.n * mu
    remarks = [*known]
    kept, _ = _predictor(found, request)
    if kept < 1.0:
        remarks.append(SHRUNK.format(kept=kept))
    if strength < SCARCE * p**1.5:
        remarks.append(FEW.format(strength=strength, needed=SCARCE * p**1.5))
    if bias > BIASED:
        remarks.append(CUT.format(bound=found.bound, bias=bias))
    if found.power:
        remarks.append(LONG.format(power=found.power))
    if found.tellers < np.inf:
        sizes = np.abs(found.thin)
        columns = ", ".join(
            name
            for name, size in zip(request._coefficient_names(), sizes, strict=True)
            if size >= 0.5 * sizes.max()
        )
        remarks.append(FEW_TELL.format(tellers=max(1.0, found.tellers), columns=columns))
    if found.grew:
        remarks.append(GREW)
    whole = sampling + found.noise**2 * identity + undone
    return Covariance(
        congruence(W, whole),
        found.n_hidden,
        np.sqrt(np.einsum("ij,j,ij->i", W, found.undone, W)),
        tuple(remarks),
        VarianceNoise(Curvature(identity, 0.0, 0, 0.0), 0.0, found.meat, found.meat_scale, n, W),
    )
