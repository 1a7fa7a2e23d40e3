"""Least squares from noisy sufficient statistics: SSP and AdaSSP."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.rivals.literature.asking import answered
from bench.rivals.literature.sensitivity import statistics_mu, symmetric_noise_bound
from bench.rivals.literature.sums import (
    StatisticsAnswer,
    smallest_eigenvalue as release_smallest_eigenvalue,
    smallest_eigenvalue_receipt,
    statistics_receipts,
    sufficient_statistics as release_statistics,
)
from dpfast.arguments import number_in, real_number
from dpfast.curator.answers import Answer
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.results import Fit
from dpfast.kernels.linalg import newton_direction
from dpfast.models import Bounded, Huber, Objective
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM

#: ``mu_moment^2 / mu_gram^2``: with responses of the size ``x_bound ||theta||`` the error
#: ``4 p / b + (p + 1) / a`` at a fixed joint cost is smallest near ``b = 2 a``.
MOMENT_RATIO = 2.0
RATIOS = "[1e-6, 1e6]"


def sufficient_statistics(
    X: Any,
    y: Any,
    *,
    x_bound: float,
    y_bound: float,
    privacy: Budget | float,
    fit_intercept: bool = True,
    ridge: float = 0.0,
    moment_ratio: float = MOMENT_RATIO,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Least squares from noisy ``X'X`` and ``X'y`` (sufficient-statistics perturbation).

    Appendix H.2 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    ``theta = (mean xx' + W + ridge I)^-1 (mean xy + Z)`` with symmetric normal ``W``, normal
    ``Z``, and the eigenvalues of the matrix floored at the noise level.  The calibration printed
    in appendix H.2 of Avella-Medina et al. (2023) is under-noised (1.125 mu where mu is claimed)
    and is not offered.

    Parameters
    ----------
    X, y, privacy, ledger, noise
        As for :func:`clipped_gradient_descent`.
    x_bound : float
        Public bound on the norm of a row, intercept included (above 1 with an intercept).  Rows
        outside are projected: only the covariates are scaled.
    y_bound : float
        Public bound on ``|y|``; responses are clipped to it.
    fit_intercept : bool
    ridge : float
        Public ridge penalty ``ridge/2 ||theta||^2`` beside the mean of ``r^2 / 2``.
    moment_ratio : float
        ``mu^2`` of ``X'y`` relative to that of ``X'X``; public.

    Returns
    -------
    Fit

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: the two statistics are charged
    together (claims B1 and B2 of ``PROOFS-rivals.md``); the solution is
    post-processing.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> literature.sufficient_statistics(X, y, x_bound=1.5, y_bound=1.0, privacy=1.0).names
    ('intercept', 'x1')
    """

    def solve(objective: Objective, answer: StatisticsAnswer, _: Any) -> tuple[Any, str]:
        p = objective.dimension
        floor = 2.0 * answer.gram.noise_scale * math.sqrt(p)
        gram = answer.gram.value + objective.ridge * np.eye(p)
        theta, _, n_floored = newton_direction(gram, answer.moment.value, floor)
        return theta, (
            f"sufficient-statistics perturbation, moment_ratio={moment_ratio:g}; "
            f"{n_floored} of {p} eigenvalues floored at the noise level"
        )

    moment_ratio = number_in(moment_ratio, "moment_ratio", RATIOS)
    account = Account(privacy, ledger)
    request = FitRequest(X, y, account, fit_intercept=fit_intercept, noise=noise)
    objective = _least_squares(request, x_bound, y_bound, ridge)
    return _from_statistics(request, objective, "sufficient_statistics", moment_ratio, 0.0, solve)


def adassp(
    X: Any,
    y: Any,
    *,
    x_bound: float,
    y_bound: float,
    privacy: Budget | float,
    fit_intercept: bool = True,
    eigenvalue_share: float = 0.1,
    failure: float = 0.05,
    moment_ratio: float = MOMENT_RATIO,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Least squares from noisy statistics with an adaptive ridge (AdaSSP, Wang 2018).

    Algorithm 2 of Wang (2018) in Gaussian DP and under replacement: the smallest eigenvalue of
    ``mean xx'`` is released first, and the ridge is what it lacks to lie above the noise of the
    matrix, ``max(0, level of the noise - lower bound of the eigenvalue)``.

    Parameters
    ----------
    X, y, privacy, ledger, noise
        As for :func:`clipped_gradient_descent`.
    x_bound, y_bound, fit_intercept, moment_ratio
        As for :func:`sufficient_statistics`.
    eigenvalue_share : float in (0, 1)
        Share of ``mu^2`` for the smallest eigenvalue.  (Wang spends a third of epsilon.)
    failure : float in (0, 1)
        Probability, over the noise, that the ridged matrix is allowed not to be positive.
        Concerns accuracy only.

    Returns
    -------
    Fit

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: the smallest eigenvalue (claim
    C20) and the joint release of the statistics (claims B1 and B2) compose; choice of the ridge
    (claim B3) and solution are post-processing.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> literature.adassp(
    ...     X, y, x_bound=1.5, y_bound=1.0, privacy=dpfast.ApproxDP(1.0, 1e-6)
    ... ).names
    ('intercept', 'x1')
    """
    share = number_in(eigenvalue_share, "eigenvalue_share", "(0, 1)")
    failure = number_in(failure, "failure", "(0, 1)")
    moment_ratio = number_in(moment_ratio, "moment_ratio", RATIOS)

    def solve(objective: Objective, answer: StatisticsAnswer, smallest: Any) -> tuple[Any, str]:
        p, scale = objective.dimension, answer.gram.noise_scale
        # One-sided normal bound below the eigenvalue, with half of the failure probability each.
        quantile = math.sqrt(-2.0 * math.log(0.5 * failure))
        lower = max(0.0, float(smallest.value[0]) - quantile * smallest.noise_scale)
        ridge = max(0.0, symmetric_noise_bound(scale, p, 0.5 * failure) - lower)
        # The floor only acts with the failure probability.
        gram = answer.gram.value + ridge * np.eye(p)
        theta, _, _ = newton_direction(gram, answer.moment.value, scale)
        return theta, (
            f"AdaSSP, eigenvalue_share={share:g}, failure={failure:g}, "
            f"moment_ratio={moment_ratio:g}; adaptive ridge {ridge:.4g}"
        )

    account = Account(privacy, ledger)
    request = FitRequest(X, y, account, fit_intercept=fit_intercept, noise=noise)
    objective = _least_squares(request, x_bound, y_bound, 0.0)
    return _from_statistics(request, objective, "adassp", moment_ratio, share, solve)


def _from_statistics(
    request: FitRequest,
    objective: Objective,
    name: str,
    moment_ratio: float,
    share: float,
    solve: Callable[[Objective, StatisticsAnswer, Answer | None], tuple[Any, str]],
) -> Fit:
    """Buy the statistics, before them with a share the smallest eigenvalue, and solve."""
    total, curator = request.account.total, request.curator(objective)
    mu_eigenvalue = total.mu * math.sqrt(share) * (1.0 - ROUNDING_SUM)
    mus = _split(total.mu * math.sqrt(1.0 - share), moment_ratio)
    if share:
        smallest_eigenvalue_receipt(curator, mu_eigenvalue)  # refuses an impossible budget
    statistics_receipts(curator, *mus)

    def answer() -> tuple[Any, str]:
        smallest = release_smallest_eigenvalue(curator, mu_eigenvalue) if share else None
        return solve(objective, release_statistics(curator, *mus), smallest)

    model = _model(objective)
    return answered(request, curator, request.guarantee, request.label(name), answer, model)


def _least_squares(request: FitRequest, x_bound: float, y_bound: float, ridge: float) -> Objective:
    """Huber's loss with corner ``y_bound``: its score at zero is ``-clip(y) x``."""
    for name, value in (("x_bound", x_bound), ("y_bound", y_bound)):
        if not 0.0 < real_number(value, name) < np.inf:
            raise InvalidInput(
                f"{name} must be a positive public number; received {described(value)}. It is "
                "never estimated from the data: pass a bound known from outside them."
            )
    return Objective(
        Huber(c=float(y_bound)),
        Bounded(x_bound),
        request.n_covariates,
        fit_intercept=request.fit_intercept,
        scale=1.0,
        ridge=ridge,
    )


def _split(mu: float, moment_ratio: float) -> tuple[float, float]:
    """``(mu_gram, mu_moment)`` that together cost ``mu``; the joint cost is homogeneous."""
    mu_gram = mu * (1.0 - ROUNDING_SUM) / statistics_mu(1.0, math.sqrt(moment_ratio))
    return mu_gram, mu_gram * math.sqrt(moment_ratio)


def _model(objective: Objective) -> str:
    penalty = f", ridge={objective.ridge:g}" if objective.ridge else ""
    x_bound, y_bound = objective.weighting.radius, objective.loss.psi_bound
    return f"least squares, rows of norm at most {x_bound:g}, |y| at most {y_bound:g}{penalty}"
