"""Strength of instruments, and tests that allow for weak ones: post-processing of an estimate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpfast.arguments import Array

if TYPE_CHECKING:
    from dpfast.effects.moment_conditions import Columns, FirstStage, IVEstimate

#: Floor on the variance of residuals at any coefficient, relative to that at the estimate.  The
#: released moments may suggest less, or a negative one.
MIN_INFLATION = 0.05

#: Entries of the matrices in memory at once, which bounds the memory of the grid.
MAX_ENTRIES = 1_000_000

#: Distances from the estimate that the Anderson-Rubin test is inverted at, in standard errors.
GRID = np.concatenate([-np.geomspace(1e4, 1e-3, 4000), [0.0], np.geomspace(1e-3, 1e4, 4000)])


def first_stage_f(stage: FirstStage, columns: Columns, n: int, variation: float) -> float:
    """Compute the least F statistic of the excluded instruments over the endogenous regressors.

    With several endogenous regressors it is conditional: each is taken net of what the instruments
    predict of the others (Sanderson and Windmeijer 2016).  Their correction of the residual degrees
    of freedom is left out.  ``variation`` is the mean square of weights over their squared mean.
    """
    triangle, k = stage.triangle, columns.n_instruments
    n_ends = len(columns.endogenous)
    # rows of the factor: net of the exogenous columns, then of all instruments
    first, left_over = triangle[len(columns.exogenous) : k, k:], triangle[k:, k:]
    statistics = []
    for j in range(n_ends):
        contrast = np.zeros(n_ends)
        others = [i for i in range(n_ends) if i != j]
        contrast[j] = 1.0
        contrast[others] = -np.linalg.lstsq(first[:, others], first[:, j], rcond=None)[0]
        explained = float(np.sum((first @ contrast) ** 2))
        unexplained = max(float(np.sum((left_over @ contrast) ** 2)), 1e-12) * variation
        # the noise is that of whitened rows; back in units of the unwhitened regressor
        noise = stage.noise**2 * float(np.sum((triangle[:, k:] @ contrast) ** 2))
        freedom = len(columns.excluded) - len(others)
        statistics.append(explained / (freedom * (unexplained / n + noise)))
    return min(statistics)


def overidentification(estimate: IVEstimate, columns: Columns) -> tuple[float, int]:
    """Compute Hansen's J (1982), from moments that no coefficients can set to zero."""
    freedom = columns.n_surplus
    if freedom == 0:
        return math.nan, 0
    root = np.linalg.cholesky(estimate.solution.variance)
    derivative = np.linalg.solve(root, estimate.stage.jacobian)
    moment = np.linalg.solve(root, estimate.moment)
    residual = moment - derivative @ np.linalg.lstsq(derivative, moment, rcond=None)[0]
    return float(residual @ residual), freedom


def no_curve() -> tuple[float, float, tuple[Array, Array, int]]:
    """Return the curve of an estimate that there is not: every coefficient is rejected."""
    return math.nan, math.nan, (GRID, np.full(len(GRID), np.nan), 1)


def anderson_rubin(
    estimate: IVEstimate, columns: Columns, variation: float | None
) -> tuple[Array, Array, int]:
    """Compute the Anderson-Rubin statistic (1949) along a grid of distances from the estimate.

    Moments at a coefficient are the scores released at ``place``, minus the released first stage
    times the step from there.  Their variance has three parts.  One is sampling, with the residuals
    at that coefficient.  One is the noise in scores, with the allowance for clipped scores.  The
    third, along the step, is the noise ``E`` in the first stage.  Its Gram matrix is ``back' (. +
    E) back``: ``cov(E v) = s^2 (|v|^2 I + v v') / 2``.
    """
    distances = GRID * math.sqrt(float(estimate.covariance[-1, -1]))
    n_exogenous, stage = len(columns.exogenous), estimate.stage
    jacobian = stage.jacobian
    # the directions of moments that no exogenous coefficient moves
    free = np.linalg.qr(jacobian[:, :n_exogenous], mode="complete")[0][:, n_exogenous:]
    moment = (estimate.moment - np.outer(distances, jacobian[:, -1])) @ free
    steps = _steps_from_place(estimate, columns, distances)
    through = free.T @ stage.whiten.T @ stage.back[:, : columns.n_instruments].T
    projected, squared_steps = steps @ through.T, (steps**2).sum(axis=1)
    noise = (estimate.noise**2 + estimate.clipping) * np.eye(len(columns.excluded))
    gram_noise = 0.5 * stage.noise**2
    inflation, sampling = _inflation(estimate, distances, variation), _sampling(estimate, free)
    statistics = np.empty(len(distances))
    for part in np.array_split(
        np.arange(len(distances)), 1 + len(distances) * len(sampling) ** 2 // MAX_ENTRIES
    ):
        variance = (
            inflation[part, None, None] * sampling
            + noise
            + gram_noise * squared_steps[part, None, None] * (through @ through.T)
            + gram_noise * projected[part, :, None] * projected[part, None, :]
        )
        weighted_moments = np.linalg.solve(variance, moment[part, :, None])[:, :, 0]
        statistics[part] = (moment[part] * weighted_moments).sum(axis=1)
    return distances, statistics, len(columns.excluded)


def _steps_from_place(estimate: IVEstimate, columns: Columns, distances: Array) -> Array:
    """Return the whitened steps from ``place`` to the coefficients at each distance.

    The exogenous coefficients are those that solve their moments there.
    """
    n_exogenous, x = len(columns.exogenous), columns.regressors
    exogenous, last = np.split(estimate.stage.jacobian[:, [*range(n_exogenous), -1]], [-1], axis=1)
    pair = np.column_stack([estimate.moment, -last])
    slopes = np.linalg.lstsq(exogenous, pair, rcond=None)[0]
    start, direction = (estimate.params - estimate.place)[x], np.append(slopes[:, 1], 1.0)
    start[:n_exogenous] += slopes[:, 0]
    return np.asarray((start + np.outer(distances, direction)) @ estimate.stage.back[:, x].T)


def _inflation(estimate: IVEstimate, distances: Array, variation: float | None) -> Array:
    """Return the variance of scores at each distance, relative to that at the estimate.

    ``variation`` is the mean square of weights over their squared mean.  It is None of persons,
    whose scores are means of rows that go together as nobody knows: then an upper bound, by the
    triangle inequality.
    """
    square = float(estimate.stage.triangle[-1, -1] ** 2)
    if variation is None:
        return np.asarray((1.0 + np.abs(distances) * math.sqrt(square) / estimate.spread) ** 2)
    change = distances * (distances * square - 2.0 * estimate.mixed)
    return np.maximum(1.0 + variation * change / estimate.spread**2, MIN_INFLATION)


def _sampling(estimate: IVEstimate, free: Array) -> Array:
    """Return the sampling variance of moments along some directions, corrected for its noise."""
    (meat, unsure), n, noise = estimate.solution.meat, estimate.n, estimate.noise**2
    values, vectors = np.linalg.eigh(free.T @ meat @ free / n)
    values = np.maximum(values, 0.0) + noise
    # the mean of a noisy inverse is too large: to second order, by E V^-1 E for noise E in V
    values += 0.5 * (unsure / n) ** 2 * (len(values) + 1) / values
    return np.asarray((vectors * (values - noise)) @ vectors.T)
