"""Searches that DP-GIBO is compared with in figures: noisy descent, GP-UCB, GIBO without privacy.

They ask the same Curator as dpfast.tune, by the claims G1 (descent), G4 and G6 (GP-UCB).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from dpfast.arguments import Array
from dpfast.bayesopt import RBF, SearchSettings
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import resolve_settings
from dpfast.bayesopt.space import Box, spread_unit
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.optimize.schedules import Uniform
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["global_search", "noisy_descent", "nonprivate_gibo"]


#: Points at which the confidence bound is compared, all over the box and around the best one.
CANDIDATES = 2000


class Walk(NamedTuple):
    """What a search went through, and its answer."""

    iterates: Array
    theta: Array


def nonprivate_gibo(
    losses: Callable[[Any], Any], bounds: Any, *, n_records: int, steps: int, search: SearchSettings
) -> Walk:
    """What ``dpfast.tune`` would do with exact, unclipped gradients (Mueller et al. 2021)."""
    settings = resolve_settings(bounds, 1.0, steps, search)
    run = Search(settings)
    told = np.empty((0, n_records))
    for _ in range(settings.steps):
        points = run.batch()
        told = np.vstack([told, [losses(theta) for theta in settings.box.from_unit(points)]])
        run.add(points)
        weights = run.weights()
        run.move(weights.T @ told.mean(axis=1), 0.0, weights)
    return Walk(settings.box.from_unit(np.array(run.iterates)), run.recommendation())


def noisy_descent(
    gradients: Callable[[Array], Array],
    start: Array,
    *,
    mu: float,
    n_records: int,
    clip: float,
    steps: int,
    step_size: float,
    bounds: Any,
    noise: NoiseSource,
) -> Array:
    """Gradient descent with clipped, noisy means of records' gradients, in a box (appendix E.4).

    The paper's ``B = 1`` there is no bound on its gradients, whose norm reaches sqrt(2): here they
    are clipped.
    """
    box, ledger, path = Box(bounds, "theta"), Ledger(GDP(mu)), [start]
    for each in Uniform().step_mus(mu, steps):
        told = RecordValues(n_records, ledger, noise)
        told.append(gradients(path[-1]).T, len(start))
        gradient = told.mean(np.eye(len(start)), clip, each).value
        path.append(box.project(path[-1] - step_size * gradient))
    return np.array(path)


def global_search(
    losses: Callable[[Array], Array],
    bounds: Any,
    *,
    mu: float,
    n_records: int,
    loss_range: tuple[float, float],
    evaluations: int,
    start: Array,
    noise: NoiseSource,
) -> Array:
    """The point with the least posterior mean among those that a confidence bound chose (GP-UCB).

    In the manner of Kusner et al. (2015), with noise for the worst case over losses in a public
    range: the original adds it once at the end, for a sensitivity that holds only if the losses of
    neighbouring data sets are close.
    """
    box, (low, high) = Box(bounds), loss_range
    d, deviations = box.dimension, 2.0
    covariance = RBF(0.25 * d**0.5, 0.25)
    values = RecordValues(n_records, Ledger(GDP(mu)), noise)
    places, grid, scores = box.to_unit(start)[None, :], spread_unit(CANDIDATES, d), []
    for k, each in enumerate(Uniform().step_mus(mu, evaluations)):
        values.append(losses(box.from_unit(places[-1])))
        answer = values.mean_loss(k, low, high, each)
        scores.append(float(answer.value[0]))
        known = (np.array(scores) - 0.5 * (low + high)) / (high - low)
        variance = (answer.noise_scale / (high - low)) ** 2
        mean, _ = _posterior(covariance, places, known, variance, places)
        centre = places[int(np.argmin(mean))]
        around = np.clip(centre + 0.2 * (grid[: CANDIDATES // 4] - 0.5), 0.0, 1.0)
        candidates = np.vstack((grid, around))
        mean, deviation = _posterior(covariance, places, known, variance, candidates)
        chosen = candidates[int(np.argmin(mean - deviations * deviation))]
        places = np.vstack((places, chosen))
    return box.from_unit(centre)


def _posterior(
    covariance: RBF, places: Array, scores: Array, variance: float, at: Array
) -> tuple[Array, Array]:
    """Posterior mean and standard deviation, with an unknown constant mean taken as the average."""
    level = float(scores.mean())
    gram = covariance.values(places, places)
    gram[np.diag_indices_from(gram)] += variance + 1e-8 * covariance.output_scale**2
    factor = cho_factor(gram, lower=True, check_finite=False)
    cross = covariance.values(at, places)
    mean = level + cross @ cho_solve(factor, scores - level, check_finite=False)
    half = solve_triangular(factor[0], cross.T, lower=True, check_finite=False)
    prior = covariance.output_scale**2
    return mean, np.sqrt(np.maximum(prior - np.sum(half * half, axis=0), 0.0))
