"""Output perturbation: the exact minimiser of a ridge-penalised objective plus noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpfast.baselines.squared import loss_and_scale
from dpfast.curator.baselines.minimiser import minimiser_receipt, ridge_minimiser
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import Request, charge_shared
from dpfast.inference.results import Fit
from dpfast.models import (
    Bounded,
    Clip,
    Loss,
    Mallows,
    Objective,
    resolve_weighting,
)
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["output_perturbation"]


def output_perturbation(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    ridge: float,
    privacy: Budget | float,
    scale: float | None = None,
    fit_intercept: bool = True,
    weights: Mallows | Bounded | Clip | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
) -> Fit:
    """Minimise a ridge-penalised objective exactly and add noise to the minimiser.

    Chaudhuri, Monteleoni and Sarwate (2011) with Gaussian noise: the minimiser of
    ``mean_i L_i(theta) + ridge/2 ||theta||^2`` moves by at most ``2 B / (n ridge)`` when a record
    is replaced, with ``B`` the bound on one record's score.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,)
    loss : {"huber", "log-cosh", "pseudo-huber", "logistic"} or Loss
        Losses with a bounded score; the squared loss has none.
    ridge : float
        Public ridge penalty, of all coefficients.  The noise is inversely proportional to it.
    privacy : GDP, ZCDP, ApproxDP or float
        The total to spend; a float is ``mu`` of Gaussian DP.
    scale : float
        Public residual scale; required by all losses but the logistic.
    fit_intercept : bool
    weights : Mallows or Bounded, optional
        How a record's covariates are bounded; default ``Mallows(sqrt(p))``.
    ledger : Ledger, optional
        A budget shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
    threads : int, optional
    names : sequence of str, optional

    Returns
    -------
    Fit

    Raises
    ------
    InvalidInput
        If an argument is refused, before anything is charged.
    BudgetExceeded
        If the ledger cannot pay; nothing is spent then.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims B4 and B5 of
    ``PROOFS-baselines.md``).  The tolerance of the solver, a millionth of the
    sensitivity or what rounding allows, is part of the sensitivity; it is met for every data set,
    so there is no failure to hide.  The running time depends on the data and is not protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.baselines.output_perturbation(X, y, "huber", ridge=0.5, privacy=1.0, scale=1.0).names
    ('intercept', 'x1')
    """
    total = GDP.within(privacy)
    request = Request(X, y, fit_intercept=fit_intercept, noise=noise, threads=threads, names=names)
    resolved, scale = loss_and_scale(loss, request.coded_scale(scale))
    if not resolved.has_bound:
        raise InvalidInput(
            "the squared loss has no bound on one record's score, so its minimiser has no "
            'sensitivity bound. Use "huber" with a corner c and scale known from outside these '
            "data, or sufficient_statistics with x_bound and y_bound."
        )
    objective = Objective(
        request.loss(resolved),
        resolve_weighting(weights, request.dimension),
        request.n_covariates,
        fit_intercept=fit_intercept,
        scale=scale,
        ridge=ridge,
    )
    curator = request.curator(objective, Ledger(total))
    receipt = minimiser_receipt(curator, total.mu)  # refuses what is impossible
    with KeepingPaid(privacy=lambda: request.guarantee(total, curator.ledger)):
        label = request.label("output_perturbation", resolved.name)
        charge_shared(ledger, privacy, total, label, request.room())
        answer = ridge_minimiser(curator, total.mu)
        return request.fit(
            answer.value,
            objective,
            method=f"output perturbation, noise scale {receipt.noise_scale:.4g}",
            privacy=request.guarantee(total, curator.ledger),
        )
