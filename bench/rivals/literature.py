"""What the literature compares with: simulations, with the noise that each method's promise needs.

Neighbours differ by the replacement of one record, n is public.  Records, bounds and settings are
told to a method for nothing, sums are floats and the noise is NumPy's: these are benchmarks and no
releases.  Objective perturbation alone is a release by the library's own Curator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

import dpfast
from dpfast.arguments import Array
from dpfast.curator.release.perturbation import perturbation_terms, perturbed_minimiser
from dpfast.errors import InvalidBudget
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.kernels.records import GRADIENT, RecordKernel
from dpfast.models import Bounded, Clip, Objective, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.optimize.schedules import Geometric, Uniform

__all__ = [
    "adassp",
    "clipped_gradient_descent",
    "dp_sgd",
    "noise_multiplier",
    "objective_perturbation",
    "output_perturbation",
    "random_search",
    "statistics_mu",
    "sufficient_statistics",
]


def mu_of(privacy: Any) -> float:
    """mu that a budget covers."""
    return dpfast.GDP.within(privacy).mu


# ---- gradients -----------------------------------------------------------------------------------


def _gradient(loss: Any, clip: float, X: Array) -> tuple[Callable[..., Array], int]:
    """Return the sum of clipped gradients of records, and the number of coefficients."""
    terms = terms_of(loss)
    kind, with_one = resolve_loss(terms.loss, unbounded=True), terms.fit_intercept
    objective = Objective(kind, Clip(clip), X.shape[1], fit_intercept=with_one, scale=terms.scale)
    kernel = RecordKernel(*objective.kernel_arguments())

    def total(theta: Array, X: Array, y: Array) -> Array:
        found, _, _ = kernel.sums(X, y, theta, GRADIENT, 1.0, 1)
        return np.asarray(found)

    return total, objective.dimension


def _descend(
    step: Callable[[Array, int], Array], dimension: int, steps: int, size: float, average: float
) -> Array:
    """Descent from zero; the last steps are averaged."""
    path = [np.zeros(dimension)]
    for k in range(steps):
        path.append(path[-1] - size * step(path[-1], k))
    return np.asarray(np.mean(path[-max(1, round(average * steps)) :], axis=0))


def clipped_gradient_descent(
    X: Array, y: Array, loss: Any, *, clip: float, privacy: Any, seed: int, steps: int,
    step_size: float, average: float = 0.0, uniform: bool = False,
) -> Array:  # fmt: skip
    """Descend by noisy means of clipped gradients, whole batches (paper 1, appendix H.1).

    A mean of vectors of norm at most ``clip`` moves by ``2 clip / n``.  The budgets of steps grow
    to the end, or are equal.
    """
    total, dimension = _gradient(loss, clip, X)
    rng, n = np.random.default_rng(seed), len(y)
    mus = (Uniform() if uniform else Geometric(1.1, 0.3)).step_mus(mu_of(privacy), steps)

    def step(theta: Array, k: int) -> Array:
        noise = 2.0 * clip / (n * mus[k]) * rng.normal(size=dimension)
        return total(theta, X, y) / n + noise

    return _descend(step, dimension, steps, step_size, average)


def dp_sgd(
    X: Array, y: Array, loss: Any, *, clip: float, privacy: dpfast.ApproxDP, seed: int, steps: int,
    step_size: float, average: float = 0.5, sampling_rate: float = 0.1,
) -> Array:  # fmt: skip
    """Descend by clipped gradients of Poisson samples (Abadi et al. 2016)."""
    total, dimension = _gradient(loss, clip, X)
    rng, expected = np.random.default_rng(seed), sampling_rate * len(y)
    deviation = noise_multiplier(privacy, sampling_rate, steps) * clip / expected

    def step(theta: Array, _: int) -> Array:
        chosen = rng.random(len(y)) < sampling_rate
        noise = deviation * rng.normal(size=dimension)
        return total(theta, X[chosen], y[chosen]) / expected + noise

    return _descend(step, dimension, steps, step_size, average)


@cache
def noise_multiplier(privacy: dpfast.ApproxDP, sampling_rate: float, steps: int) -> float:
    """Noise of sampled steps over the clip, by dp-accounting, within a thousandth.

    Under replacement the worst pair is ``(1-q) N(0, s^2) + q N(1, s^2)`` against
    ``(1-q) N(0, s^2) + q N(-1, s^2)``; the library's default, removal of a record, would say less.
    """
    library: Any = import_module("dp_accounting.pld.privacy_loss_distribution")
    relation = import_module("dp_accounting").NeighboringRelation.REPLACE_ONE
    finest = min(1e-2, 1e-3 * privacy.epsilon)

    def excess(log_multiplier: float) -> float:
        """Logarithm of epsilon over what is allowed."""
        multiplier = math.exp(log_multiplier)
        reach = 9.0 / multiplier + 0.5 / multiplier**2
        one = library.from_gaussian_mechanism(
            multiplier, value_discretization_interval=max(finest, 1e-5 * reach),
            sampling_prob=sampling_rate, neighboring_relation=relation,
        )  # fmt: skip
        found = one.self_compose(steps).get_epsilon_for_delta(privacy.delta)
        return math.log(max(found, 1e-3) / privacy.epsilon)

    high = math.log(2.002 * math.sqrt(steps) / mu_of(privacy))  # enough without sampling
    low = high - math.log(2.0)
    while low > math.log(0.05) and excess(low) <= 0.0:
        low, high = low - math.log(2.0), low
    found = brentq(excess, low, high, xtol=5e-4) if excess(low) > 0.0 else low
    while excess(found) > 0.0:
        found += 5e-4
    return math.exp(found)


# ---- minimisers ----------------------------------------------------------------------------------


def output_perturbation(X: Array, y: Array, loss: Objective, *, privacy: Any, seed: int) -> Array:
    """Add noise to the minimiser with a ridge r (Chaudhuri, Monteleoni and Sarwate 2011).

    The objective is r-strongly convex: the minimiser moves by the scores' diameter over ``n r``.
    """
    terms = terms_of(loss)
    bound = Objective(
        resolve_loss(terms.loss), terms.weights, X.shape[1], fit_intercept=terms.fit_intercept,
        scale=terms.scale, ridge=terms.ridge,
    )  # fmt: skip
    scale = bound.score_diameter / (len(y) * bound.ridge * mu_of(privacy))
    exact = dpfast.nonprivate_fit(X, y, loss).params
    return exact + scale * np.random.default_rng(seed).normal(size=len(exact))


def objective_perturbation(
    X: Any, y: Any, loss: Any, *, privacy: Any, radius: float, noise: Any = None
) -> dpfast.Fit:
    """Minimise a ridge-penalised objective with a random linear term (paper 3, equation (15)).

    Rows, intercept included, are projected onto the ball of this radius; claims R10, R20, R21, R23,
    R37 and R38 of ``PROOFS-release.md``.
    """
    if not isinstance(privacy, dpfast.ApproxDP):
        raise InvalidBudget(f"objective perturbation needs an ApproxDP; received {privacy!r}.")
    terms = terms_of(loss)
    account = Account(privacy, None, privacy)
    request = FitRequest(X, y, account, fit_intercept=terms.fit_intercept, noise=noise)
    objective = request.objective(
        resolve_loss(terms.loss), scale=request.coded_scale(terms.scale), weights=Bounded(radius),
        ridge=terms.ridge,
    )  # fmt: skip
    curator = request.curator(objective)
    asked = perturbation_terms(curator, radius, privacy)
    return request.make_result(
        perturbed_minimiser(curator, asked).value, objective, method="objective perturbation",
        privacy=Guarantee.of(privacy, request.noise, request.n),
    )  # fmt: skip


# ---- sufficient statistics -----------------------------------------------------------------------


def statistics_mu(gram: float, moment: float) -> float:
    """Price of ``mean xx'`` and ``mean xy`` together.

    For unit bounds, with ``a = gram^2``, ``b = moment^2`` and ``w`` the cosine of two rows, the
    squared distance over the noise is ``b/2 (1 + w) + a (1 - w^2)``, largest at
    ``w = min(1, b/(4a))``.
    """
    a, b = gram**2, moment**2
    return math.sqrt(b if b >= 4.0 * a else a + 0.5 * b + b * b / (16.0 * a))


def _statistics(
    X: Array, y: Array, bounds: tuple[float, float], mu: float, rng: Any, with_one: bool
) -> tuple[Array, Array, float]:
    """Noisy ``mean xx'`` and ``mean xy`` of projected rows, and the scale of the former's noise.

    With responses as large as predictors the error is smallest near ``moment^2 = 2 gram^2``.
    """
    room = math.sqrt(bounds[0] ** 2 - 1.0) if with_one else bounds[0]
    rows = X * np.minimum(1.0, room / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    rows = np.column_stack([np.ones(len(y)), rows]) if with_one else rows
    n, p = rows.shape
    gram = mu / statistics_mu(1.0, math.sqrt(2.0))
    scale = math.sqrt(2.0) * bounds[0] ** 2 / (n * gram)
    noise = rng.normal(size=(p, p))
    moment = 2.0 * bounds[0] * bounds[1] / (n * gram * math.sqrt(2.0))
    found = rows.T @ np.clip(y, -bounds[1], bounds[1]) / n + moment * rng.normal(size=p)
    return rows.T @ rows / n + 0.5 * scale * (noise + noise.T), found, scale


def _solved(gram: Array, moment: Array, floor: float) -> Array:
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors @ (vectors.T @ moment / np.maximum(values, floor)))


def sufficient_statistics(
    X: Array, y: Array, *, x_bound: float, y_bound: float, privacy: Any, seed: int,
    fit_intercept: bool = True,
) -> Array:  # fmt: skip
    """Least squares of noisy statistics, eigenvalues at least at the noise (paper 1, H.2).

    The printed calibration is under-noised, 1.125 mu where mu is claimed.
    """
    rng, bounds = np.random.default_rng(seed), (x_bound, y_bound)
    gram, moment, scale = _statistics(X, y, bounds, mu_of(privacy), rng, fit_intercept)
    return _solved(gram, moment, 2.0 * scale * math.sqrt(len(moment)))


def adassp(X: Array, y: Array, *, x_bound: float, y_bound: float, privacy: Any, seed: int) -> Array:
    """Least squares of noisy statistics with an adaptive ridge (Wang 2018, algorithm 2).

    A tenth of mu^2 is for the least eigenvalue of ``mean xx'``, which moves by ``x_bound^2/n``.
    The ridge makes the matrix positive but with probability .05.
    """
    rng, mu, part, failure = np.random.default_rng(seed), mu_of(privacy), 0.1, 0.05
    bounds = (x_bound, y_bound)
    gram, moment, scale = _statistics(X, y, bounds, mu * math.sqrt(1.0 - part), rng, True)
    exact, _, _ = _statistics(X, y, bounds, 1e12, rng, True)
    own = x_bound**2 / (len(y) * mu * math.sqrt(part))
    quantile = math.sqrt(-2.0 * math.log(0.5 * failure))
    least = float(np.linalg.eigvalsh(exact)[0]) + own * (rng.normal() - quantile)
    level = scale * (math.sqrt(2.0 * len(moment)) + quantile)
    ridge = max(0.0, level - max(0.0, least))
    return _solved(gram + ridge * np.eye(len(moment)), moment, scale)


# ---- black boxes ---------------------------------------------------------------------------------


def random_search(
    losses: Callable[[Array], Any], bounds: Any, *, privacy: float, loss_range: tuple[float, float],
    seed: int, mean_trials: float = 100.0,
) -> Array:  # fmt: skip
    """Return the best of a secret, geometric number of random points, by noisy losses.

    Liu and Talwar (2019), Papernot and Steinke (2022): epsilon-DP trials cost ``3 epsilon``
    together, however many there are on average.
    """
    rng, (low, high) = np.random.default_rng(seed), loss_range
    epsilon = math.log(ndtr(0.5 * privacy) / ndtr(-0.5 * privacy)) / 3.0
    lower, upper = np.asarray(bounds, dtype=float).T
    best = math.inf, lower
    for _ in range(rng.geometric(1.0 / mean_trials)):
        theta = rng.uniform(lower, upper)
        clipped = np.clip(losses(theta), low, high)
        score = clipped.mean() + rng.laplace(scale=(high - low) / (len(clipped) * epsilon))
        best = min(best, (float(score), theta), key=lambda pair: pair[0])
    return np.asarray(best[1])
