"""The covariance of the estimate: variance of scores with what clipping removed, and bias."""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.solvers.pcn.clipping import ASYMMETRY, clipped_in_rare_direction
from dpfast.solvers.pcn.local import LocalCurvature, LocalWhitening
from dpfast.solvers.pcn.many_columns import MANY, shrink_within_noise
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
    if p >= MANY:
        typical = max(float(np.median(mean.diagonal())), 0.0)
        mean, noise = shrink_within_noise(mean, noise, typical * np.eye(p))
    variances, vectors, average, missing = decisions.score_variances(mean)
    removed = _removed_variance(run, local, whitening, exponent, clipping, average, missing)
    meat = with_removed_variance(variances, vectors, removed, run.setting.clips_one_side)
    if solution.min_meat is not None and solution.min_meat.any():
        meat = meat + floor_eigenvalues(solution.min_meat - meat, 0.0)[0]
    return meat, noise


def with_removed_variance(
    variances: Array, vectors: Array, removed: float, one_sided: bool
) -> Array:
    """Add the variance that clipping removed to a covariance of scores, by its eigenvalues.

    One-sided long scores are of large responses, in every direction.  Others are along the
    directions of the smallest variances, as far as is known: by water-filling (Cover and Thomas
    2006, section 9.4).  ``vectors`` are rows.
    """
    return np.asarray(decisions.with_removed_variance(variances, vectors, removed, one_sided))


def _removed_variance(
    run: Run,
    local: LocalCurvature,
    whitening: LocalWhitening,
    exponent: float,
    clipping: ScoreClipping,
    average: float,
    missing: float,
) -> float:
    """Estimate the sum over directions of the score variance that clipping removed.

    ``average`` is that of the clipped scores, and ``missing`` by how much the variances of some
    directions are below the median.
    """
    bound, unit = clipping.bound, local.unit
    spread = average**0.5
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
        removed = max(removed, min(removed + rare, missing))
    return removed


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
    return np.asarray(
        decisions.bias_variance(known, noises, signal, pilot_variance, ASYMMETRY * clipping_bias)
    )


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
