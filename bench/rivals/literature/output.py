"""Output perturbation: the exact minimiser of a ridge-penalised objective plus noise."""

from __future__ import annotations

from typing import Any

from bench.rivals.literature.asking import answered, asked
from bench.rivals.literature.minimiser import minimiser_receipt, ridge_minimiser
from dpfast.errors import InvalidInput
from dpfast.fit_requests.request import Account
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource


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
    X, y, privacy, ledger, noise
        As for :func:`clipped_gradient_descent`.
    loss : Objective
        Of a loss with a bounded score and a ridge penalty of all coefficients, to which the noise
        is inversely proportional; weights by default ``Mallows(sqrt(p))``.

    Returns
    -------
    Fit

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims B4 and B5 of
    ``PROOFS-rivals.md``).  The tolerance of the solver, a millionth of the
    sensitivity or what rounding allows, is part of the sensitivity; it is met for every data set,
    so there is no failure to hide.  The running time depends on the data and is not protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("huber", scale=1.0, ridge=0.5)
    >>> literature.output_perturbation(X, y, objective, privacy=1.0).names
    ('intercept', 'x1')
    """
    account = Account(privacy, ledger)
    request, objective = asked(X, y, loss, account, noise, None)
    name = objective.loss.name
    if not objective.loss.has_bound:
        raise InvalidInput(
            f"{name} has no bound on one record's score, so its minimiser has no "
            'sensitivity bound. Use "huber" with a corner c and scale known from outside these '
            "data, or sufficient_statistics with x_bound and y_bound."
        )
    curator, mu = request.curator(objective), account.total.mu
    receipt = minimiser_receipt(curator, mu)  # refuses what is impossible

    def answer() -> tuple[Any, str]:
        found = ridge_minimiser(curator, mu).value
        return found, f"output perturbation, noise scale {receipt.noise_scale:.4g}"

    label = request.label("output_perturbation", name)
    return answered(request, curator, request.guarantee, label, answer)
