"""Output perturbation: the exact minimiser of a ridge-penalised objective plus noise."""

from __future__ import annotations

from typing import Any

from dpfast.baselines.clipping import perhaps_unbounded
from dpfast.curator.baselines.minimiser import minimiser_receipt, ridge_minimiser
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import Request, charge_shared
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["output_perturbation"]


def output_perturbation(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget | float,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Minimise a ridge-penalised objective exactly and add noise to the minimiser.

    Chaudhuri, Monteleoni and Sarwate (2011) with Gaussian noise: the minimiser of
    ``mean_i L_i(theta) + ridge/2 ||theta||^2`` moves by at most ``2 B / (n ridge)`` when a record
    is replaced, with ``B`` the bound on one record's score.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design, Records or Source
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,) or None
    loss : Objective
        Of a loss with a bounded score and a ridge penalty of all coefficients, to which the noise
        is inversely proportional; weights by default ``Mallows(sqrt(p))``.
    privacy : GDP, ZCDP, ApproxDP or float
        The total to spend; a float is ``mu`` of Gaussian DP.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    Fit

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
    >>> objective = dpfast.Objective("huber", scale=1.0, ridge=0.5)
    >>> dpfast.baselines.output_perturbation(X, y, objective, privacy=1.0).names
    ('intercept', 'x1')
    """
    total = GDP.within(privacy)
    given = terms_of(loss)
    request = Request(
        X, y, fit_intercept=given.fit_intercept, noise=noise, bound_to=given.n_covariates
    )
    resolved = perhaps_unbounded(given.loss)
    if not resolved.has_bound:
        raise InvalidInput(
            f"{resolved.name} has no bound on one record's score, so its minimiser has no "
            'sensitivity bound. Use "huber" with a corner c and scale known from outside these '
            "data, or sufficient_statistics with x_bound and y_bound."
        )
    scale = request.coded_scale(given.scale)
    objective = request.objective(resolved, scale=scale, weights=given.weights, ridge=given.ridge)
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
