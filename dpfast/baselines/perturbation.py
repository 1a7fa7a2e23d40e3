"""Objective perturbation: the exact minimiser of a randomly tilted objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpfast.curator.release.perturbation import perturbation_terms, perturbed_minimiser
from dpfast.errors import InvalidBudget, described
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import Request, charge_shared
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Bounded, Loss
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["objective_perturbation"]


def objective_perturbation(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    ridge: float,
    privacy: Budget,
    radius: float,
    scale: float | None = None,
    fit_intercept: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
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
    X : array-like of shape (n, q)
        Covariates, without a column of ones; any values.
    y : array-like of shape (n,)
    loss : {"log-cosh", "pseudo-huber", "logistic"} or Loss
        Self-concordant losses.
    ridge : float
        Public ridge penalty, of all coefficients; it must exceed about
        ``curvature_bound/(n epsilon)``.
    privacy : ApproxDP
        The total to spend.
    radius : float
        Rows, intercept included, are projected onto the ball of this radius.
    scale : float
        Public residual scale; required by all losses but the logistic.
    fit_intercept : bool
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
    ``privacy`` in total under replacement of one record, n public (claims R10, R20, R21, R23,
    R37 and R38 of ``PROOFS-release.md``).  Running time is not protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.baselines.objective_perturbation(
    ...     X, y, "log-cosh", ridge=0.5, privacy=dpfast.ApproxDP(1.0, 1e-6), radius=2.0, scale=1.0
    ... ).names
    ('intercept', 'x1')
    """
    if not isinstance(privacy, ApproxDP):
        raise InvalidBudget(
            "objective perturbation is (epsilon, delta)-DP and nothing else. Pass "
            f"privacy=dpfast.ApproxDP(epsilon, delta); received {described(privacy)}."
        )
    request = Request(X, y, fit_intercept=fit_intercept, noise=noise, threads=threads, names=names)
    objective = request.objective(
        loss, scale=request.coded_scale(scale), weights=Bounded(radius), ridge=ridge
    )
    curator = request.curator(objective, Ledger(privacy))
    terms = perturbation_terms(curator, objective.weighting.radius, privacy)
    label = request.label("objective_perturbation", objective.loss.name)

    def spent() -> Guarantee:
        expression = composition_of(curator.ledger)
        return Guarantee.of(privacy, request.noise, request.n, expression=expression)

    with KeepingPaid(privacy=spent):
        charge_shared(ledger, privacy, privacy, label, request.room())
        answer = perturbed_minimiser(curator, terms)
        return request.fit(
            answer.value,
            objective,
            method=f"objective perturbation, scale of the linear term {terms.tilt_scale:.4g}",
            privacy=spent(),
        )
