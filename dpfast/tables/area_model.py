"""Hierarchical linear model of areas, fitted to noisy Gram matrices: empirical Bayes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.regression.forecast import evenly

#: Rounds of variances within areas, each of which follows a fit of the hierarchical model.
VARIANCE_ROUNDS = 4

#: Iterations of the EM algorithm at most, and the relative change of the covariance that ends it.
MAX_ITERATIONS, TOLERANCE = 200, 1e-5

#: Least eigenvalue of an area's Gram matrix, in records of the area, as of whitened rows.
MIN_EIGENVALUE = 0.1

#: Points without random numbers, over which the effect of clipping is averaged.
POINTS = 4096

#: Least variance within an area, as part of the average one.
MIN_VARIANCE = 0.1


class Released(NamedTuple):
    """Released Gram matrices of the rows ``(x, r)`` of areas, with residuals r from a centre.

    ``noise`` is the standard deviation of the noise in an entry beside the diagonal; entries of the
    diagonal have ``sqrt(2)`` times as much.
    """

    matrices: Array
    noise: float

    @property
    def total(self) -> Array:
        """Return the sum over areas."""
        return np.asarray(self.matrices.sum(axis=0))


class Prior(NamedTuple):
    """Distribution of coefficients between areas: mean, its covariance, and covariance."""

    mean: Array
    mean_covariance: Array
    covariance: Array


class Posterior(NamedTuple):
    """Coefficients of areas, their covariances, residual variances, and the prior."""

    params: Array
    covariances: Array
    variances: Array
    prior: Prior


class Correction(NamedTuple):
    """What clipping did to all areas: a shift of coefficients, its variance, and of variances."""

    shift: Array
    shift_variance: float
    variance_ratio: float


def unpacked(triangles: Array, size: int, squared_radius: float) -> Array:
    """Make symmetric matrices of this size of released lower triangles, in natural units."""
    rows, columns = np.tril_indices(size)
    weights = np.where(rows == columns, 1.0, math.sqrt(0.5)) * squared_radius
    entries = triangles.reshape(-1, len(rows)) * weights
    matrices = np.empty((len(entries), size, size))
    matrices[:, rows, columns] = matrices[:, columns, rows] = entries
    return matrices


def positive(matrices: Array, least: Array) -> Array:
    """Raise the eigenvalues of symmetric matrices to at least these."""
    values, vectors = np.linalg.eigh(matrices)
    raised = np.maximum(values, least[..., None])
    return np.asarray((vectors * raised[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def pooled_line(gram: Array) -> tuple[Array, float]:
    """Return least-squares coefficients and residual variance of one Gram matrix of rows."""
    d = len(gram) - 1
    count = max(float(gram[0, 0]), 1.0)
    square = positive(gram[:d, :d], np.array(1e-6 * count))
    slopes = np.linalg.solve(square, gram[:d, d])
    return np.asarray(slopes), max(float(gram[d, d] - gram[:d, d] @ slopes) / count, 1e-12)


def shrunk_grams(released: Released) -> tuple[Array, Array]:
    """Return Gram matrices of the covariates and numbers of records, with less noise.

    Numbers of records are shrunk to their mean, and matrices of a record to those of all, each by
    the share of its spread between areas that noise explains.
    """
    d = released.matrices.shape[-1] - 1
    raw, noise = released.matrices[:, :d, :d], released.noise
    first = raw[:, 0, 0]
    average = max(float(first.mean()), noise / math.sqrt(len(first)), 1.0)
    kept = _signal_share(float(((first - average) ** 2).mean()), 2.0 * noise**2)
    least = max(noise * math.sqrt(2.0 * kept), 0.02 * average)
    counts = np.maximum(average + kept * (first - average), least)
    common = raw.sum(axis=0) / (len(first) * average)
    difference = raw / counts[:, None, None] - common
    entry_variance, entries = (noise / counts) ** 2, d * d + d
    excess = (difference**2).sum(axis=(1, 2)) - entry_variance * entries
    between = max(float(excess @ counts**2) / float(counts @ counts) / entries, 0.0)
    shares = between / (between + entry_variance)
    grams = counts[:, None, None] * (common + shares[:, None, None] * difference)
    return positive(grams, MIN_EIGENVALUE * counts), counts


def clipped_sampling(constant: Array, squared_radius: float) -> Array:
    """Return the root of what clipping leaves of the sampling variance of sums of row times error.

    For rows and errors that are normal, beside ``constant``, the direction of the intercept.
    Clipped rows vary less than residual variance times their Gram matrix says.
    """
    from scipy.special import ndtri

    d = len(constant)
    normal = ndtri(evenly(POINTS, d))
    squares = 1.0 + (normal**2).sum(axis=1)
    kept = np.minimum(1.0, squared_radius / squares)  # what is left of a squared row
    error = (kept * normal[:, -1]) ** 2
    of_constant = float(error.mean() / kept.mean())
    of_slopes = of_constant
    if d > 1:
        slope = normal[:, 0] ** 2
        of_slopes = float((error * slope).mean() / (kept * slope).mean())
    along = constant / np.linalg.norm(constant)
    root = math.sqrt(of_slopes) * np.eye(d)
    root += (math.sqrt(of_constant) - math.sqrt(of_slopes)) * np.outer(along, along)
    return np.asarray(root)


def posterior_of(
    released: Released, centres: Array, spreads: Array, correction: Correction, root: Array
) -> Posterior:
    """Fit the hierarchical model; return coefficients that are shrunk to their mean over areas.

    In an area, sums of row times residual from ``centres``, over ``spreads``, have the mean
    ``G (b - centre) / spread``.  Their variance is that of sampling, ``h G`` for a residual
    variance h, less what clipping took (``root``), and that of the noise.  Noise of G counts by how
    far b is from its centre.
    """
    d = centres.shape[1]
    moments, squares = released.matrices[:, :d, d], released.matrices[:, d, d]
    grams, counts = shrunk_grams(released)
    scale, ratio = spreads[:, None, None], correction.variance_ratio
    variances = np.full(len(counts), ratio * pooled_line(released.total)[1])
    shifted = moments + grams @ correction.shift
    distances = np.zeros(len(counts))
    for _ in range(VARIANCE_ROUNDS):
        noise = released.noise**2 * (1.0 + distances)
        weighted, precision = _precision(grams, root, variances, noise, scale)
        linear = np.einsum("kji,kj->ki", weighted, shifted) / spreads[:, None]
        linear += np.einsum("kij,kj->ki", precision, centres)
        params, covariances, prior = hierarchical(precision, linear)
        moved = (params - centres) / spreads[:, None] - correction.shift
        spread = covariances / scale**2
        distances = (moved**2).sum(axis=1) + np.trace(spread, axis1=1, axis2=2)
        left = squares - 2.0 * (moved * moments).sum(axis=1)
        left += np.einsum("ki,kij,kj->k", moved, grams, moved)
        left += np.einsum("kij,kji->k", grams, spread)
        variances = _shrunk_variances(ratio * left, counts, ratio * released.noise)
    # clipping also moves the coefficients of areas whose rows are longer than those of others;
    # nothing is known of it, and errors allow for it by all of the sampling variance
    whole = _precision(grams, np.eye(d), variances, noise, scale)[1]
    covariances = np.linalg.inv(whole + np.linalg.inv(prior.covariance))
    common = correction.shift_variance * scale**2 * np.eye(d)
    pulled = covariances @ np.linalg.inv(prior.covariance)
    of_mean = pulled @ prior.mean_covariance @ np.swapaxes(pulled, 1, 2)
    return Posterior(params, covariances + of_mean + common, variances, prior)


def _precision(
    grams: Array, root: Array, variances: Array, noise: Array, scale: Array
) -> tuple[Array, Array]:
    """Return sums by area weighted by their variance, and the precision of its coefficients."""
    sampling = variances[:, None, None] * (root @ grams @ root)
    sampling = sampling + noise[:, None, None] * np.eye(len(root))
    weighted = np.asarray(np.linalg.solve(sampling, grams), dtype=np.float64)
    precision = np.swapaxes(grams, 1, 2) @ weighted / scale**2
    return weighted, 0.5 * (precision + np.swapaxes(precision, 1, 2))


def hierarchical(precision: Array, linear: Array) -> tuple[Array, Array, Prior]:
    """Fit ``b_j ~ N(m, T)`` to Gaussian likelihoods of b_j by EM (Dempster, Laird and Rubin 1977).

    Parameters
    ----------
    precision, linear : ndarray of shape (areas, d, d) and (areas, d)
        The likelihood of b in an area is ``exp(linear'b - b'precision b / 2)``.
    """
    areas, d = linear.shape
    start = positive(precision.mean(axis=0), np.array(1e-12))
    mean, prior = np.linalg.solve(start, linear.mean(axis=0)), np.linalg.inv(start)
    # the likelihood of an average area is as wide as this; so is the first guess of what varies
    for _ in range(MAX_ITERATIONS):
        inverse = np.linalg.inv(prior)
        covariances = np.linalg.inv(precision + inverse)
        params = np.einsum("kij,kj->ki", covariances, linear + inverse @ mean)
        mean = params.mean(axis=0)
        deviations = params - mean
        spread = (covariances.sum(axis=0) + deviations.T @ deviations) / areas
        before, prior = prior, positive(spread, np.array(1e-9 * np.trace(spread)))
        if np.abs(prior - before).max() <= TOLERANCE * np.abs(before).max():
            break
    # of an area's likelihood around the mean: inverse(precision)^-1 + T, without inverting it
    marginal = np.linalg.solve(np.eye(d) + precision @ prior, precision)
    of_mean = np.linalg.inv(marginal.sum(axis=0))
    symmetric: Array = np.asarray(0.5 * (of_mean + of_mean.T), dtype=np.float64)
    return params, np.asarray(covariances), Prior(np.asarray(mean), symmetric, np.asarray(prior))


def _shrunk_variances(squares: Array, counts: Array, noise: float) -> Array:
    """Return residual variances of areas, shrunk to the average by their sampling and noise."""
    average = max(float(squares.sum() / counts.sum()), 1e-12)
    raw = squares / counts
    error = 2.0 * (noise / counts) ** 2 + 2.0 * average**2 / counts
    weights = counts**2 / float(counts @ counts)
    between = max(float(weights @ ((raw - average) ** 2 - error)), 0.0)
    shrunk = average + between / (between + error) * (raw - average)
    return np.maximum(shrunk, MIN_VARIANCE * average)


def _signal_share(variance: float, noise_variance: float) -> float:
    """Return the share of a variance that noise does not explain."""
    return max(1.0 - noise_variance / max(variance, 1e-300), 0.0)
