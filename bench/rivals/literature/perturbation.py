"""Objective perturbation: the exact minimiser of a randomly tilted objective."""

from __future__ import annotations

from typing import Any

from bench.rivals.literature.asking import answered, asked
from dpfast.curator.release.perturbation import perturbation_terms, perturbed_minimiser
from dpfast.errors import InvalidBudget, described
from dpfast.fit_requests.request import Account
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Bounded, Loss, Objective
from dpfast.privacy.budget import ApproxDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource


def objective_perturbation(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget,
    radius: float,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Minimise a ridge-penalised objective with a random linear term.

    Equation (15) of paper 3 (Asi, Duchi and Talwar 2025).

    Chaudhuri, Monteleoni and Sarwate (2011) and Kifer, Smith and Thakurta (2012) with the noise
    that generalised linear models need under replacement of a record (formulas page, section
    II.6; eq. (15) of paper 3 is wrong as printed).  The minimiser is found to the
    last digits, and a little noise on the output covers what is left.  Coefficients longer than
    ``8/(c radius)`` (c is 1 for the logistic loss) are released by the logarithm of their length.

    Parameters
    ----------
    X, y, ledger, noise
        As for :func:`clipped_gradient_descent`.
    loss : Objective
        Of a self-concordant loss ("log-cosh", "pseudo-huber", "logistic") and a ridge penalty of
        all coefficients, which must exceed about ``curvature_bound/(n epsilon)``.
    privacy : ApproxDP
        The total to spend.
    radius : float
        Rows, intercept included, are projected onto the ball of this radius.

    Returns
    -------
    Fit

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims R10, R20, R21, R23,
    R37 and R38 of ``PROOFS-release.md``).  Running time is not protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("log-cosh", scale=1.0, ridge=0.5)
    >>> literature.objective_perturbation(
    ...     X, y, objective, privacy=dpfast.ApproxDP(1.0, 1e-6), radius=2.0
    ... ).names
    ('intercept', 'x1')
    """
    privacy = as_budget(privacy)
    if not isinstance(privacy, ApproxDP):
        raise InvalidBudget(
            "objective perturbation is (epsilon, delta)-DP and nothing else. Pass "
            f"privacy=dpfast.ApproxDP(epsilon, delta); received {described(privacy)}."
        )
    request, objective = asked(
        X, y, loss, Account(privacy, ledger, privacy), noise, Bounded(radius)
    )
    curator = request.curator(objective)
    terms = perturbation_terms(curator, objective.weighting.radius, privacy)

    def spent() -> Guarantee:
        expression = composition_of(curator.ledger)
        return Guarantee.of(privacy, request.noise, request.n, expression=expression)

    def answer() -> tuple[Any, str]:
        found = perturbed_minimiser(curator, terms).value
        return found, f"objective perturbation, scale of the linear term {terms.tilt_scale:.4g}"

    label = request.label("objective_perturbation", objective.loss.name)
    return answered(request, curator, spent, label, answer)
