"""The covariance of the estimate: variance of scores with what clipping removed, and bias."""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.solvers.pcn.clipping import ASYMMETRY, clipped_in_rare_direction
from dpfast.solvers.pcn.information import median_of_sorted
from dpfast.solvers.pcn.local import LocalCurvature, LocalWhitening
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.rounds import Run
from dpfast.solvers.pcn.score_norms import ScoreClipping
from dpfast.solvers.pcn.steps import NewtonSolution


def score_covariance(
    run: Run,
    local: LocalCurvature,
    whitening: LocalWhitening,
    exponent: float,
    clipping: ScoreClipping,
    solution: NewtonSolution,
) -> tuple[Array, float]:
    """Estimate the covariance of the scores, with the variance that clipping removed.

    Returns
    -------
    meat : ndarray of shape (p, p)
        Zero without inference.
    noise : float
        Noise of an entry.
    """
    p = solution.theta.size
    if not solution.meat:
        return np.zeros((p, p)), 0.0
    mean, noise = solution.meat
    variances, vectors = eigh(mean)
    variances = np.maximum(variances, 0.0)
    removed = _removed_variance(run, local, whitening, exponent, clipping, variances)
    meat = with_removed_variance(variances, vectors, removed, run.setting.clips_one_side)
    if solution.min_meat is not None and solution.min_meat.any():
        meat = meat + floor_eigenvalues(solution.min_meat - meat, 0.0)[0]
    return meat, noise


def with_removed_variance(
    variances: Array, vectors: Array, removed: float, one_sided: bool
) -> Array:
    """Add the variance that clipping removed to a covariance of scores, by its eigenvalues."""
    if one_sided:  # long scores are of large responses, in every direction
        variances = variances + removed / variances.size
    else:
        variances = np.maximum(variances, water_level(variances, removed))
    return np.asarray((vectors * variances) @ vectors.T)


def _removed_variance(
    run: Run,
    local: LocalCurvature,
    whitening: LocalWhitening,
    exponent: float,
    clipping: ScoreClipping,
    variances: Array,
) -> float:
    """Estimate the sum over directions of the score variance that clipping removed."""
    bound, unit = clipping.bound, local.unit
    spread = float(np.add.reduce(variances) / variances.size) ** 0.5
    if run.setting.loss.curvature_varies:
        removed = clipping.norms.clipped_square(bound, run.rows.n)
    else:  # rows are not clipped, and fewer than a histogram shows may matter
        removed = local.norms.rescaled(unit).clipped_off(
            spread, whitening.radius / unit, exponent, bound
        )
    # clipping removes variance almost only along directions of few long rows, where the
    # variance could not be known to be smaller
    if run.setting.min_score_variation == math.inf:
        values, floor = whitening.values, whitening.floor
        size = values[0] if values[0] > floor else floor
        rare = clipped_in_rare_direction(local.norms.longest / (unit * size**0.5), spread, bound)
        missing = np.add.reduce(np.maximum(median_of_sorted(variances) - variances, 0.0))
        removed = max(removed, min(removed + rare, missing))
    return removed


def slope_signal(theta: Array, intercept: Array | None) -> float:
    """Return the squared norm of whitened coefficients without their part in the intercept."""
    signal = float(theta @ theta)
    if intercept is None:
        return signal
    along = float(theta @ intercept)
    # a product overflows to infinity, where a power raises
    return max(0.0, signal - along * along / float(intercept @ intercept))


def bias_variance(
    known: Array,
    noises: list[float],
    signal: float,
    pilot_variance: Array,
    clipping_bias: float,
) -> Array:
    """Return the mean square of the bias along each whitened direction.

    It has two parts: the pilot's error that steps did not remove, where the curvature is partly
    noise, and the bias of clipping.  ``signal`` is the squared norm of the slopes.
    """
    p = known.size
    pilot_error = np.minimum(signal / p, pilot_variance + (1.0 - known) ** 2 * signal / p)
    remaining = remaining_error(known, noises) ** 2 * pilot_error
    return np.asarray(remaining + (ASYMMETRY * clipping_bias) ** 2 / p)


def one_sided_bias(clipping_bias: float, intercept: Array, theta: Array) -> Array:
    """Return the bias of clipping where all clipped scores have one sign, in two directions.

    Norms of clipped scores then add up along the intercept, and along the slopes, since larger
    expected responses vary more.  A row has 1/p of its squared norm in each direction.
    """
    p = theta.size
    constant = intercept / max(math.hypot(*intercept), TINY)
    slopes = theta - (theta @ constant) * constant
    slopes = slopes / max(math.hypot(*slopes), TINY)
    size = clipping_bias * math.sqrt((1.0 - ASYMMETRY**2) / p)
    return np.asarray(size * np.column_stack([constant, slopes]))


def remaining_error(curvatures: Array, noises: list[float]) -> Array:
    """Compute the part of the pilot's error that remains after the steps, per direction."""
    remaining, precise = (1.0 - curvatures).tolist(), [noise**-2 for noise in noises]
    for k, initial in enumerate(remaining):
        current, weighted, total_precision = initial, 0.0, 0.0
        for precision in precise:
            total_precision += precision
            weighted += precision * initial * current
            current = weighted / total_precision
        remaining[k] = current
    return np.array(remaining)


def water_level(values: Array, amount: float) -> float:
    """Return the level of increasing values after water-filling with an amount.

    Cover and Thomas (2006), section 9.4: the smallest values rise to one level.
    """
    return float(((amount + values.cumsum()) / np.arange(1.0, len(values) + 1.0)).min())
