"""Decisions about released numbers in plain NumPy: twins of ``csrc/decisions.pyx``.

Each function has the name of one of ``dpfast.solvers.pcn``, whose docstring says what it is for,
and its constants.  The tests compare the two; the twin of a whole fit uses these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from dpfast.curator import Answer
from dpfast.curator.preconditioned import Linearization
from dpfast.kernels.linalg import eigh
from dpfast.models.losses import MASSES, NODES
from dpfast.scaling.distances import CELL_MEAN, ColumnScale
from dpfast.scaling.thresholds import LARGEST, SMALLEST
from dpfast.solvers.pcn import curvature as curved
from dpfast.solvers.pcn.curvature import (
    MAX_CURVATURE,
    MIN_CONDITION,
    MIN_CURVATURE,
    UPDATE_SDS,
    GaussianCurvature,
    bounded_curvature,
)
from dpfast.solvers.pcn.information import MIN_VARIATION
from dpfast.solvers.pcn.initial import OVERSTATED, predictor_of_mean
from dpfast.solvers.pcn.plan import TINY, Setting
from dpfast.solvers.pcn.precondition import Preconditioner
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore
from dpfast.solvers.pcn.search import CUTTING_PLANE_PART, TRUST_REGION

Array = NDArray[np.float64]

#: Columns along which a curvature is 1; parts of it that scores determine; score variances there,
#: their noise, and the unit of the parts.
InformationBound = tuple[Array, Array, Array, float, float]

#: Constants of compiled histograms, which their source explains.
LOWEST, HIGHEST, TAIL_OCTAVES, FINER, RUN_LENGTH = -6, 20, 6, 8, 4
RATIOS = np.exp2(-np.linspace(0.8, 6.0, 12))
ACCELERATIONS = np.exp2(-np.linspace(0.0, 3.0, 7))
MISFIT, NEIGHBOUR_SDS, SINGLE_BIN_SDS, SQUARES_PART = 0.2, 3.0, 5.5, 0.9
EVENLY = (np.arange(FINER) + 0.5) / FINER
BEYOND = np.exp2(np.arange(TAIL_OCTAVES)[:, None] + EVENLY).ravel()
TRIED_PARTS = np.exp2(-np.arange(104) / 8.0)
NO_TAIL = np.zeros(TAIL_OCTAVES + 2)
ASYMMETRY, UNDETECTED_VARIATION, DOUBT_PART, NO_REASON = 0.4, 3.0, 0.5, 0.05


def bin_edges(per_octave: int) -> Array:
    """Return the upper edges of the bins, so many to a factor 2; the last bin has no upper end."""
    return np.exp2(np.arange(LOWEST * per_octave, HIGHEST * per_octave + 1) / per_octave)


def _grid() -> tuple[Array, Array]:
    """Return shares by octave, relative to the last detected one, and profiles of an octave."""
    ratio, change = (axis.ravel()[:, None] for axis in np.meshgrid(RATIOS, ACCELERATIONS))
    octave = np.arange(-1.0, TAIL_OCTAVES + 1.0)
    profile = ratio**EVENLY
    shares = ratio**octave * change ** (octave * (octave - 1.0) / 2.0)
    return shares, profile / profile.sum(axis=1, keepdims=True)


class DistanceHistogram(NamedTuple):
    """Released histogram of the distances of one column, above and below a centre."""

    centre: float
    nearest: float
    #: Number of cells on a side; the last has all that is farther away.
    octaves: int
    cells: Array
    noise: float

    @property
    def ends_too_early(self) -> bool:
        """Whether records are in the last cell, though more cells are possible."""
        last, threshold = self.octaves - 1, SINGLE_BIN_SDS * self.noise
        above, below = self.cells
        return last + 1 < len(above) and bool(above[last] > threshold or below[last] > threshold)

    def joined(self, earlier: DistanceHistogram | None) -> DistanceHistogram:
        """Pool with an earlier histogram of the same distances, by inverse variances."""
        if earlier is None or earlier[:3] != self[:3]:
            return self
        weight, earlier_weight = self.noise**-2, earlier.noise**-2
        cells = (weight * self.cells + earlier_weight * earlier.cells) / (weight + earlier_weight)
        return self._replace(cells=cells, noise=float(weight + earlier_weight) ** -0.5)


class Tail(NamedTuple):
    """Posterior means and standard deviations of the shares at the points of a tail."""

    mean: Array
    deviation: Array


def tail_posterior(octaves: Array, noise: float, n: float, before_mode: bool) -> Tail:
    """Compute the posterior of a tail.

    Parameters
    ----------
    octaves : ndarray of shape (TAIL_OCTAVES + 2,)
        Noisy shares of the last two detected octaves, and of those beyond.
    noise : float
        Standard deviation of each.
    n : float
        Number of records; infinite for shares of a population.
    before_mode : bool
        True if the first octave is no part of the tail.
    """
    shapes, profiles = _grid()
    shares = max(float(octaves[1]), 1e-300) * shapes
    spread = shares / n + (MISFIT * shares) ** 2
    variance = np.maximum(spread + noise**2, 1e-300)
    likelihood = (-0.5 * ((octaves - shares) ** 2 / variance + np.log(variance)))[:, before_mode:]
    log_weights = likelihood.sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    # an octave deviates from its tail as far as its noisy share shows
    part = (spread / variance)[:, 2:]
    means = np.maximum(shares[:, 2:] + part * (octaves - shares)[:, 2:], 0.0)
    mean, square = weights @ means, weights @ (means**2 + part * noise**2)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    profile = weights @ profiles
    return Tail(np.outer(mean, profile).ravel(), np.outer(deviation, profile).ravel())


def mean_excess_over(bounds: Array, norms: Array, shares: Array) -> Array:
    """Compute means of ``(norm - bound)^+`` for increasing norms: linear between them."""
    knots, means = np.zeros(norms.size + 1), np.zeros(norms.size + 1)
    knots[1:] = norms
    means[-2::-1] = (shares[::-1].cumsum() * (norms - knots[:-1])[::-1]).cumsum()
    return np.interp(bounds, knots, means)


def _sums(shares: NDArray[Any]) -> Array:
    """Sum every run of neighbouring bins."""
    return np.correlate(shares, np.ones(RUN_LENGTH), "valid")


def _last_octaves(shares: Array, last: int, per_octave: int) -> Array:
    """Sum bins to the octave of the last detected bin, the one before, and those beyond."""
    before, beyond = np.zeros(2 * per_octave), np.zeros(TAIL_OCTAVES * per_octave)
    padded = np.concatenate([before, shares, beyond])
    octaves = padded[last + 1 : last + 1 + (TAIL_OCTAVES + 2) * per_octave]
    return np.asarray(octaves.reshape(-1, per_octave).sum(axis=1))


class NormHistogram(NamedTuple):
    """Bins of a noisy histogram of norms, with methods in NumPy."""

    shares: Array
    upper: Array
    midpoints: Array
    max_undetected: float
    octaves: Array = NO_TAIL
    octave_noise: float = 0.0
    before_mode: bool = True
    counted: tuple[float, float] = (1.0, 0.0)

    @staticmethod
    def from_noisy_shares(
        shares: Array, noise_scale: float, per_octave: int, unit: float = 1.0
    ) -> NormHistogram:
        """Detect the bins above their noise: single ones, and runs around the mode."""
        counted = float(shares.sum()), noise_scale * len(shares) ** 0.5
        mode, fine, detected = (
            int(shares.argmax()),
            per_octave > 1,
            shares > SINGLE_BIN_SDS * noise_scale,
        )
        detected[mode] = True
        if fine:  # a run around the mode; and several bins by their sum, whose noise is smaller
            gaps = (shares <= NEIGHBOUR_SDS * noise_scale).nonzero()[0]
            gaps = gaps[gaps != mode]
            k = int(gaps.searchsorted(mode))
            detected[gaps[k - 1] + 1 if k else 0 : gaps[k] if k < len(gaps) else len(shares)] = True
            sums, undetected = _sums(shares), _sums(detected) < 0.5
            for first in (
                undetected & (sums > SINGLE_BIN_SDS * noise_scale * RUN_LENGTH**0.5)
            ).nonzero()[0]:
                some = slice(first, first + RUN_LENGTH)
                detected[some] |= shares[some] > noise_scale
        last = int(detected.nonzero()[0][-1])
        octaves = _last_octaves(shares, last, per_octave)
        edges, shares = unit * bin_edges(per_octave)[detected], np.maximum(shares[detected], 0.0)
        midpoints = edges * 2.0 ** (-0.5 / per_octave)
        return NormHistogram(
            shares,
            edges,
            midpoints,
            SINGLE_BIN_SDS * noise_scale,
            octaves,
            noise_scale * per_octave**0.5,
            mode > last - per_octave,
            counted,
        )

    @property
    def longest(self) -> float:
        return float(self.upper[-1])

    def density_ratio(
        self, shares: Array, noise_scale: float, per_octave: int, times: float
    ) -> float:
        """Estimate the ratio of densities in a window so many times narrower and in this one.

        Densities are mean squares of norms per window.  The ratio is shrunk to 1 by its noise.
        """
        squares = np.maximum((self.shares * self.midpoints**2).cumsum() / times, 1e-300)
        last = min(int(squares.searchsorted(SQUARES_PART * squares[-1])), len(squares) - 1)
        edges, reference = bin_edges(per_octave), float(squares[last])
        squared_edges = edges[edges <= self.upper[last]] ** 2 * 2.0 ** (-1.0 / per_octave)
        excess = (
            min(max(0.0, float(shares[: squared_edges.size] @ squared_edges)) / reference, times)
            - 1.0
        )
        noise = noise_scale * float(squared_edges @ squared_edges) ** 0.5 / reference
        return max(1.0 + excess**3 / max(excess**2 + noise * noise, 1e-300), 1.0 / times)

    def rescaled(self, unit: float) -> NormHistogram:
        """Return the histogram in another unit of length."""
        return self._replace(upper=self.upper / unit, midpoints=self.midpoints / unit)

    def median(self) -> float:
        """Return the norm that half of the detected records exceed."""
        passed = self.shares.cumsum() / max(float(np.add.reduce(self.shares)), 1e-300)
        return float(np.exp2(np.interp(0.5, passed, np.log2(self.upper))))

    def undetected_square(self) -> float:
        """Return a likely largest mean of squared norms beyond the last detected octave."""
        norms, shares, deviations = self.extrapolate_tail()
        undetected = norms > self.longest
        return float((norms[undetected] ** 2) @ (shares + deviations)[undetected])

    def share_beyond(self, bound: float) -> float:
        """Return the share of longer norms."""
        return float(self.shares[self.midpoints > bound].sum())

    def mean_square(self, bound: float) -> float:
        """Return the mean square of norms clipped at a bound."""
        return float(self.shares @ (np.minimum(self.midpoints, bound) ** 2))

    def mean_of_squares(self) -> float:
        """Return the mean norm, weighted by the squared norms."""
        squares = self.shares * self.midpoints**2
        return float(squares @ self.midpoints / max(float(np.add.reduce(squares)), 1e-300))

    def mean_excess(self, radius: float, exponent: float) -> float:
        """Compute the mean ``(radius^2e a^(2-2e) - radius^2)^+``, with e the exponent."""
        discounted = radius ** (2.0 * exponent) * self.midpoints ** (2.0 - 2.0 * exponent)
        over = self.shares @ np.maximum(discounted - radius**2, 0.0)
        return float(over / max(np.add.reduce(self.shares), 1e-300))

    def choose_weight_radius(self, p: int, typical: float, noise: float) -> float:
        """Choose the radius with the smallest sum of relative excess and noise."""
        candidates = self.upper[-1] * TRIED_PARTS[:64]
        squares = mean_excess_over(candidates**2, self.upper**2, self.shares)
        excess = squares / (p * typical * float(np.add.reduce(self.shares)))
        return float(candidates[(excess + noise * candidates**2).argmin()])

    def tail(self, bounds: Array, n: float = math.inf) -> Array:
        """Compute means of ``(norm - bound)^+``, with the expected tail."""
        norms, shares, _ = self.extrapolate_tail(n)
        return mean_excess_over(bounds, norms, shares)

    def clipped_square(self, bound: float, n: float = math.inf) -> float:
        """Compute the mean ``(norm^2 - bound^2)^+``, with the expected tail."""
        norms, shares, _ = self.extrapolate_tail(n)
        return float(shares @ np.maximum(norms**2 - bound**2, 0.0))

    def extrapolate_tail(self, n: float = math.inf) -> tuple[Array, Array, Array]:
        """Add the tail of n records' norms; shares are spread evenly over points of the bins.

        Returns
        -------
        norms : ndarray of shape (m,)
            Increasing.
        shares, deviations : ndarray of shape (m,)
            Posterior means and standard deviations, which are zero in detected bins.
        """
        tail = tail_posterior(self.octaves, self.octave_noise, n, self.before_mode)
        detected = (self.shares / FINER).repeat(FINER)
        width = (self.midpoints[-1] / self.longest) ** 2
        norms = (self.upper[:, None] * width ** EVENLY[::-1]).ravel()  # they increase
        return (
            np.concatenate([norms, self.longest * BEYOND]),
            np.concatenate([detected, tail.mean]),
            np.concatenate([np.zeros(detected.size), tail.deviation]),
        )

    def downweighted_share(self, radius: float, power: float) -> float:
        """Return the part of these squared norms that weights with this radius and power remove."""
        squares = self.shares * self.midpoints**2
        remaining = squares @ (np.minimum(1.0, radius / self.midpoints) ** (2.0 * power))
        return 1.0 - float(remaining) / max(float(np.add.reduce(squares)), 1e-300)

    def clipped_off(self, spread: float, radius: float, power: float, bound: float) -> float:
        """Compute the mean ``(|s|^2 - bound^2)^+`` of these rows' scores for normal residuals."""
        discounts = np.minimum(1.0, (radius / self.midpoints) ** 2) ** power
        sizes = np.maximum(spread * discounts * self.midpoints, 1e-300)
        at = np.minimum(bound / sizes, 40.0)
        return float(self.shares @ (sizes**2 * np.maximum(normal_excess(at), 0.0)))


def normal_excess(at: Any) -> Any:
    """Compute the mean of ``(z^2 - at^2)^+`` for a standard normal z."""
    density = np.exp(-0.5 * at**2) / math.sqrt(2.0 * math.pi)
    return 2.0 * (at * density + (1.0 - at**2) * ndtr(-at))


def chi_squared_tail(degrees: int, statistic: float) -> float:
    """Compute the probability that a chi-squared variable exceeds a statistic."""
    return float(chdtrc(degrees, statistic))


def _undetected_excess(
    rows: NormHistogram, scores: NormHistogram, score_variance: float, longest: float, bounds: Array
) -> Array:
    """Compute means of ``(norm - bound)^+`` over possible scores that were not detected."""
    norms = np.minimum(rows.midpoints, longest)
    longer = norms > scores.longest
    shares, norms = rows.shares[longer], norms[longer]
    probability = scores.longest / norms
    # where all of them may be undetected in the octaves up to theirs, none is known to be short
    probability[shares <= np.ceil(np.log2(1.0 / probability)) * scores.max_undetected] = 1.0
    hidden = np.minimum(shares * probability, scores.max_undetected)
    hidden = np.minimum(hidden, score_variance / norms**2)
    return mean_excess_over(bounds, norms, hidden)


def choose_clipping_norm(
    scores: NormHistogram,
    noise: float,
    p: int,
    longest: float = math.inf,
    asymmetry: float = ASYMMETRY,
    foreseen: NormHistogram | None = None,
    n: float = math.inf,
) -> tuple[float, float]:
    """Choose the clipping norm of scores by bias plus noise, and return its bias.

    ``noise`` is that of :func:`noise_per_bound`.  Bias and noise are weighed as squares: the sum is
    the mean squared error.
    """
    # Undetected scores may have a third moment half as large as the others'.  Clipping removes at
    # most 4/27 of it over the squared bound: a shorter bound saves less noise than its bias.
    undetected_bias = 2.0 / 27.0 * ASYMMETRY * (scores.shares @ (scores.midpoints**3))
    square = float(scores.shares @ (scores.midpoints**2))
    min_norm = math.sqrt(NO_REASON / n * square / p) / noise
    min_norm = min(min_norm, (2.0 / p) ** (1 / 6) * (undetected_bias / noise) ** (1 / 3))
    largest = max(2.0 * scores.upper[-1], (foreseen or scores).upper[-1], min_norm)
    candidates = min(largest, longest) * TRIED_PARTS
    norms, shares, deviations = scores.extrapolate_tail(n)
    norms = np.minimum(norms, longest)
    excess = mean_excess_over(candidates, norms, shares)
    if foreseen:
        excess += _undetected_excess(
            foreseen, scores, UNDETECTED_VARIATION * square / p, longest, candidates
        )
    errors = (p**0.5 * noise * np.maximum(candidates, min_norm)) ** 2
    best = int((errors + (asymmetry * excess) ** 2).argmin())
    doubt = DOUBT_PART * float(np.maximum(norms - candidates[best], 0.0) @ deviations)
    bias = math.hypot(float(excess[best]), doubt)
    return float(min(max(candidates[best], min_norm), longest)), bias


def precondition(
    gram: Answer,
    expected: GaussianCurvature | None = None,
    times: float = 1.0,
    shrinks: bool = False,
) -> Preconditioner:
    """Compute ``U (max(L, floor))^-1/2`` of a released matrix over ``times``, and its inverse.

    The matrix is shrunk to the Hessian that is expected.  Otherwise an eigenvalue within noise is
    as expected, if that is smaller.
    """
    matrix, noise = gram.value / times, gram.noise_scale / times
    p, trace, hessian = len(matrix), float(matrix.trace()), None
    if expected is not None:
        hessian = gaussian_design_hessian(*expected)
        if shrinks:
            matrix, hessian = shrink(matrix, noise, hessian), None
    # eigenvectors have no signs of their own, and noise is added in their coordinates
    (values, vectors), floor = eigh(matrix), math.sqrt(2.0 * p) * noise
    floors = floor if hessian is None else np.minimum(floor, (hessian @ vectors * vectors).sum(0))
    roots = np.sqrt(np.maximum(values, floors))
    return Preconditioner(vectors / roots, (vectors * roots).T, values, floor, noise, trace)


def shrink(matrix: Array, noise: float, target: Array) -> Array:
    """Shrink a released matrix to a target, by the noise's part in their squared distance.

    James and Stein (1961); for covariance matrices Ledoit and Wolf (2004).
    """
    difference, p = matrix - target, len(target)
    noise = noise**2 * p * (p + 1) / 2.0
    weight = max(0.0, 1.0 - noise / max(float(np.vdot(difference, difference)), TINY))
    return target + weight * difference


def round_step(
    score: NoisyScore, whitening: Preconditioner, variance: float
) -> tuple[Array, Array]:
    """Compute the step of a round, and its score in the coordinates before whitening."""
    square, error = score.debiased_squared_norm
    step = square / (square + error) * (whitening.whiten @ score.score)
    return step * trust_region(step, variance), whitening.unwhiten.T @ score.score


def shrunken_coefficients(moment: Any, whitening: Preconditioner) -> tuple[Array, Array]:
    """Estimate whitened coefficients from a moment, shrunk by its noise, with their variances."""
    whiten = whitening.whiten
    noise = np.add.reduce(whiten * whiten) * moment.noise_scale**2
    # whitened coefficients of a standardised response have mean square below 1/p
    shrinkage = 1.0 / (1.0 + len(whiten) * noise)
    return shrinkage * (whiten.T @ moment.value), noise * shrinkage


def coefficients_through_link(
    moment: Any, whitening: Preconditioner, setting: Setting, cap: float, n: int
) -> tuple[Array, Array]:
    """Estimate whitened coefficients of a link from a moment, with their variances."""
    loss, whiten = setting.loss, whitening.whiten
    noise = np.add.reduce(whiten * whiten) * moment.noise_scale**2
    moments = whiten.T @ moment.value
    level, theta = 0.0, np.zeros(len(moments))
    if setting.intercept:
        intercept = whitening.unwhiten[:, 0]
        size = math.sqrt(intercept @ intercept)
        direction = intercept / size
        mean = 0.5 * cap + float(direction @ moments) / size
        at_one = whiten @ direction
        error = moment.noise_scale * (math.sqrt(at_one @ at_one) / size)
        level = predictor_of_mean(mean, error, setting, cap, n)
        theta, moments = level * intercept, moments - direction @ moments * direction
    eta = level + setting.offset[0] + setting.offset[1] * NODES
    flat = bounded_curvature(float(MASSES @ loss._means(eta, loss.largest_mean)[1]))
    size = float(moments @ moments)
    shrinkage = max(size - float(noise.sum()), 0.0) / max(size, TINY) / flat
    shrinkage *= OVERSTATED if loss.link == "log" else 1.0
    length = shrinkage * math.sqrt(size)
    return theta + min(1.0, TRUST_REGION / max(length, TINY)) * shrinkage * moments, noise / flat**2


def gaussian_design_hessian(slopes: Array, variance: float, across: float, along: float) -> Array:
    """Compute the expected Hessian for Gaussian covariates, curved otherwise along slopes."""
    hessian = (along - across) / variance * (slopes[:, None] * slopes)
    hessian.flat[:: slopes.size + 1] += across
    return hessian


def gaussian_design_curvature(
    at: Linearization, intercept: Array | None, mean: float = 0.0, spread: float = 0.0
) -> GaussianCurvature:
    """Compute the expected curvatures for Gaussian covariates and offsets (Stein 1981)."""
    slopes = at.theta
    if intercept is not None:
        level = float(intercept @ at.theta) / float(intercept @ intercept)
        mean, slopes = mean + level, at.theta - level * intercept
    variance = float(slopes @ slopes)
    values = at.loss._expected_curvature(mean + math.sqrt(variance + spread * spread) * NODES)
    level, along = bounded_curvature(float(MASSES @ values)), float(MASSES @ (values * NODES**2))
    if spread:  # offsets go with no slope
        along = level + variance / max(variance + spread * spread, TINY) * (along - level)
    along = max(MIN_CONDITION * level, min(MAX_CURVATURE, along)) if variance > TINY else level
    return slopes, max(variance, TINY), level, along


def bfgs_update(curvature: Array | None, before: NoisyScore, here: NoisyScore) -> Array | None:
    """Update the Hessian by BFGS, skipped where the change is below the noise.

    Nocedal and Wright (2006), section 6.1.  It is also skipped where the update would not be
    positive definite.
    """
    step, change = here.theta - before.theta, before.score - here.score
    hessian_step = step if curvature is None else curvature @ step
    size = math.hypot(*step.tolist())
    predicted, observed = float(step @ hessian_step), float(step @ change)
    doubt = UPDATE_SDS * math.hypot(here.noise, before.noise) * size + step.size * before.noise**2
    if not (abs(observed - predicted) > doubt and predicted > 0.0 and observed > 0.0):
        return curvature
    updated = np.eye(step.size) if curvature is None else curvature
    updated = (
        updated
        - hessian_step[:, None] * hessian_step / predicted
        + change[:, None] * change / observed
    )
    if not np.isfinite(updated).all():
        return curvature
    values = np.linalg.eigh(updated)[0]
    return updated if values[0] > MIN_CONDITION * values[-1] else curvature


class CurvatureModel(curved.CurvatureModel):
    """Model of a curvature that changes with the parameter, in NumPy."""

    __slots__ = ()

    def halfway(
        self, step: Array, theta: Array, curvature: Array | None, now: GaussianCurvature
    ) -> Array:
        """Recompute a step with the curvature at its midpoint."""
        half = self.expected(theta + 0.5 * trust_region(self.whiten @ step, now[1]) * step) or now
        change = step if curvature is None else curvature @ step
        return np.asarray(np.linalg.solve(self.transported(curvature, now, half), change))

    def expected(
        self, theta: Array, known: GaussianCurvature | None = None
    ) -> GaussianCurvature | None:
        """Compute the expected curvature, along slopes at most that across; None for a mean."""
        if self.at.loss.link == "identity":
            return None
        at = self.at._replace(theta=self.whiten @ theta)
        slope, variance, across, along_slopes = known or gaussian_design_curvature(
            at, *self.constant_and_offsets
        )
        along_slopes = min(across, along_slopes) if across > MIN_CURVATURE else across
        return slope, variance, across, along_slopes

    def transported(
        self, curvature: Array | None, was: GaussianCurvature, here: GaussianCurvature
    ) -> Array:
        """Transport a curvature to another point, by the ratio of the expected curvatures."""
        (new, size, new_across, new_along), (old, before, old_across, old_along) = here, was
        # square roots of both curvatures, the second one's inverse
        to_root = (new_along**0.5 - new_across**0.5) / size
        from_inverse_root = (old_along**-0.5 - old_across**-0.5) / before
        slopes = np.array([new, old])
        cross = to_root * (new @ old) * from_inverse_root
        core = np.array(
            [[to_root * old_across**-0.5, cross], [0.0, from_inverse_root * new_across**0.5]]
        )
        turn = (slopes @ self.whiten).T @ core @ (slopes @ self.back.T)
        turn.flat[:: len(turn) + 1] += (new_across / old_across) ** 0.5
        return turn @ turn.T if curvature is None else turn @ curvature @ turn.T

    def bfgs_update(
        self, curvature: Array | None, now: GaussianCurvature, before: NoisyScore, here: NoisyScore
    ) -> Array | None:
        """Update by :func:`bfgs_update` with the curvature at the midpoint of the two scores."""
        half = self.expected(0.5 * (before.theta + here.theta)) or now
        transported_there = self.transported(curvature, now, half)
        updated = bfgs_update(transported_there, before, here)
        if updated is transported_there or updated is None:
            return curvature
        return self.transported(updated, half, now)


def relative_variances(curvature: Array, meat: Array, noise: float) -> tuple[Array, Array, float]:
    """Compute the variances of scores along columns of curvature 1, in which they do not covary.

    Returns
    -------
    values : ndarray of shape (p,)
        Increasing.
    columns : ndarray of shape (p, p)
    noise : float
        Noise of an entry, summed over the directions.
    """
    values, vectors = np.linalg.eigh(curvature)
    white = vectors / np.sqrt(np.maximum(values, TINY))
    values, rotation = np.linalg.eigh(white.T @ meat @ white)
    return values, white @ rotation, noise * float(np.vdot(white, white))


def information_bound(
    known: Array, meat: Array, noise: float, factor: float, undetermined: Any, of_step: bool = False
) -> InformationBound:
    """Compute a bound of the Hessian by the variance of the scores (White 1982).

    By the information equality both are equal in most directions, up to a common unit: at least
    ``factor``.  Where that is known, the bound of a step is twice the variance: the model may be
    wrong.  Columns without determined curvature have no bound: their scores do not vary.
    """
    values, columns, noise_in_all = relative_variances(known, meat, noise)
    values = np.maximum(values, 0.0)
    reference = max(factor, float(np.median(values)), TINY)
    doubt = math.sqrt(2.0 / len(columns)) * noise_in_all
    shares = np.minimum(reference, values + doubt) / reference
    if of_step and factor > 0.0:
        shares = np.minimum(shares / MIN_VARIATION, 1.0)
    if undetermined is not None:
        shares += (1.0 - shares) * (undetermined @ (columns**2) / np.add.reduce(columns**2))
    return columns, shares, values, doubt, reference


def apply_information_bound(
    curvature: Array, columns: Array, shares: Array, values: Array, doubt: float, reference: float
) -> tuple[Array, Array, int]:
    """Apply the bound to a Hessian.

    Returns
    -------
    curvature : ndarray of shape (p, p)
        The part that the scores determine.
    min_meat : ndarray of shape (p, p)
        The smallest score variance where the bound applies.
    n_hidden : int
        Number of directions that are too noisy.
    """
    dual, minima = curvature @ columns, reference * np.where(shares < 1.0, shares, 0.0)
    n_hidden = int(np.count_nonzero((values < doubt) & (SIGNAL_SDS * shares < 1.0)))
    return (dual * shares) @ dual.T, (dual * minima) @ dual.T, n_hidden


def inverse_variance_weights(
    answers: list[NoisyScore], curvature: Array | None, curvatures: list[GaussianCurvature]
) -> Array:
    """Weight scores by the inverse variance of their noise and of their curvature's change."""
    squares, here = [score.noise**2 for score in answers], answers[-1].theta
    for k, (_, _, level, along) in enumerate(curvatures[:-1]):
        difference = here - answers[k].theta
        change = max(abs(level / curvatures[-1][2] - 1.0), abs(along / curvatures[-1][3] - 1.0))
        size = math.hypot(*(difference if curvature is None else curvature @ difference).tolist())
        squares[k] += (0.5 * change * size) ** 2
    weights: Array = 1.0 / np.array(squares)
    return weights / np.add.reduce(weights)


def averaged_newton_point(
    answers: list[NoisyScore],
    weights: Array | None,
    curvature: Array | None,
    bound: InformationBound | None = None,
) -> Array:
    """Average the Newton steps from the points where scores were released."""
    point, scores = answers[-1][:2]
    if weights is not None:
        points = [answer.theta for answer in answers]
        steps = [answer.score for answer in answers]
        point, scores = np.dot(weights, np.array([points, steps]))
    if bound:
        return point + bound[0] @ (bound[0].T @ scores / bound[1])
    return point + (scores if curvature is None else np.linalg.solve(curvature, scores))


def cutting_plane(step: Array, scores: Sequence[NoisyScore]) -> float:
    """Shorten a step that crosses a cutting plane: an earlier score's (Kelley 1960).

    A step that would go too far beyond a plane ends halfway to it.  Planes within noise are
    ignored.
    """
    part, here = 1.0, scores[-1].theta
    for previous in scores[:-1]:
        slope = -float(previous.score @ step)
        if slope > 0.0:
            difference = here - previous.theta
            to_plane = float(previous.score @ difference)
            beyond = slope > CUTTING_PLANE_PART * to_plane > 0.0
            if beyond and to_plane > SIGNAL_SDS * previous.noise * math.hypot(*difference.tolist()):
                part = min(part, 0.5 * to_plane / slope)
    return part


def trust_region(step: Array, variance: float) -> float:
    """Return the factor that keeps a step in its trust region (Nocedal and Wright 2006, ch. 4).

    Predictors move by at most a constant, or by half of the slopes' spread.
    """
    return min(
        1.0, max(TRUST_REGION, 0.5 * math.sqrt(variance)) / max(math.hypot(*step.tolist()), TINY)
    )


def mean_response(loss: Any, level: float, spread: float) -> tuple[float, float]:
    """Average the mean response, and its derivative, over normal predictors."""
    mean, slope, _ = loss._means(level + spread * NODES, loss.largest_mean)
    return float(MASSES @ mean), float(MASSES @ slope)


def moved_mean(scores: list[NoisyScore]) -> tuple[Array, float]:
    """Average the scores after the first, and compute the variance of its noise.

    A score at the average of the Newton points before it holds minus the average of their noise.
    """
    precision = np.array([score.noise for score in scores]) ** -2.0
    weights = precision[1:] / precision[1:].sum()
    noises = np.eye(len(scores))[1:]  # of each score, in terms of the noises of all
    for k in range(len(weights)):
        noises[k, : k + 1] -= precision[: k + 1] / precision[: k + 1].sum()
    parts = weights @ noises
    return weights @ np.array([score.score for score in scores[1:]]), parts**2 @ (1.0 / precision)


def water_level(values: Array, amount: float) -> float:
    """Return the level of increasing values after water-filling with an amount."""
    return float(((amount + values.cumsum()) / np.arange(1.0, len(values) + 1.0)).min())


def with_removed_variance(mean: Array, removed: float, one_sided: bool) -> Array:
    """Add the variance that clipping removed to a covariance of scores."""
    values, vectors = np.linalg.eigh(0.5 * (mean + mean.T))
    values = np.maximum(values, 0.0)
    if one_sided:
        return np.asarray((vectors * (values + removed / values.size)) @ vectors.T)
    return np.asarray((vectors * np.maximum(values, water_level(values, removed))) @ vectors.T)


def slope_moments(theta: Array, intercept: Array | None) -> tuple[float, float, float]:
    """Compute the mean of a predictor, its squared slopes, and the intercept's squared norm."""
    if intercept is None:
        return 0.0, float(theta @ theta), 1.0
    size = float(intercept @ intercept)
    mean = float(theta @ intercept) / size
    return mean, float(np.sum((theta - mean * intercept) ** 2)), size


def predictor_moments(theta: Array, intercept: Array | None, unmapping: Array) -> Any:
    """Compute mean and standard deviation of a predictor over rows with second moments 1."""
    mean, signal, size = slope_moments(unmapping @ theta, intercept)
    return mean, math.sqrt(signal / size)


def step_coordinates(
    theta: Array,
    root: Array | None,
    mapping: Array,
    unmapping: Array,
    unwhiten: Array,
    intercept: Array | None,
) -> tuple[Array, Array, Array, Array, Array | None, Array]:
    """Map an estimate to coordinates in which a Newton step is the score."""
    H, rows = np.eye(theta.size) if root is None else root, unwhiten @ unmapping
    one = None if intercept is None else H @ unwhiten @ intercept
    return H @ theta, mapping @ theta, mapping @ np.linalg.inv(H).T, H @ rows, one, rows


def known_part(values: Array, noise: Any, floor: float) -> Array:
    """Compute the part of each direction's curvature that is not noise."""
    return np.asarray(np.maximum(values - noise, 0.0) / np.maximum(values, floor))


def excess_variation(
    curvature: Array | None, meat: Array, noise: float, most: float
) -> tuple[float, Array] | None:
    """Return how much more scores vary along a direction than along others; None if not clearly."""
    p = len(meat)
    if p < 2:
        return None
    H = np.eye(p) if curvature is None else curvature
    values, columns, noise_in_all = relative_variances(H, meat, noise)
    doubt = (math.sqrt(2.0 * p) + SIGNAL_SDS) * noise_in_all / p
    others = np.maximum(values[:-1], 0.0).mean()
    ratio = float((values[-1] - doubt) / max(others, noise, TINY))
    return (ratio, columns[:, -1]) if ratio > most else None


def bias_variance(
    known: Array, noises: list[float], signal: float, pilot: Array, clipping_bias: float
) -> Array:
    """Compute the mean square of the bias along each direction."""
    p, first = known.size, 1.0 - known
    remaining, precise = first, np.array(noises) ** -2.0
    left = []
    for k in range(len(precise)):
        left.append(first * remaining)
        remaining = precise[: k + 1] @ np.array(left) / precise[: k + 1].sum()
    pilot_error = np.minimum(signal / p, pilot + first**2 * signal / p)
    return np.asarray(remaining**2 * pilot_error + clipping_bias**2 / p)


def explained_by_slopes(rows: Array, theta: Array) -> tuple[float, float, float]:
    """Compute the variance of a predictor, its mean, and the part of slopes in the mean."""
    moments = rows.T @ rows
    mean = moments[0] / moments[0, 0]
    centred = moments[1:, 1:] - np.outer(moments[0, 1:], mean[1:])
    of_slopes = float(mean[1:] @ theta[1:])
    return float(theta[1:] @ centred @ theta[1:]), float(mean @ theta), of_slopes


def indicators(
    moments: Array, natural: Array, tolerance: float
) -> tuple[list[int], list[float], float]:
    """Find columns of 0 and 1 by their released moments."""
    constant, columns = natural[0], natural[1:]
    shares, known = columns @ moments @ constant, float(constant @ moments @ constant)
    deviations = np.abs(np.einsum("ij,ij->i", columns @ moments, columns) - shares)
    larger, smaller = np.maximum(shares, known - shares), np.minimum(shares, known - shares)
    is_one = (smaller > 0.0) & (deviations < tolerance * np.minimum(larger, 2.0 * smaller))
    found = np.flatnonzero(is_one & np.isfinite(columns).all(axis=1))
    return found.tolist(), shares[found].tolist(), known


def column_scales(histograms: Sequence[DistanceHistogram], complete: float) -> list[ColumnScale]:
    """Return mean and spread of each column, up to the farthest cells above their noise."""
    cells = np.array([histogram.cells for histogram in histograms])
    noise = np.array([histogram.noise for histogram in histograms])
    ends = _farthest(cells / noise[:, None, None]) + 1  # the cells below are summed
    last_cells, octaves = ends.max(axis=1), np.arange(cells.shape[2])
    steps = np.exp2(octaves - np.maximum(last_cells, 1.0)[:, None])[:, None]
    steps = np.where(octaves < ends[:, :, None], steps, 0.0)
    first, second = steps * (np.array([[1.0], [-1.0]]) / CELL_MEAN), steps * steps
    means, squares = (np.add.reduce(part * cells, (1, 2)) / complete for part in (first, second))
    second -= 2.0 * means[:, None, None] * first
    errors = noise * np.sqrt(np.add.reduce(second * second, (1, 2))) / complete
    spreads = np.sqrt(np.maximum(squares - means * means, 2.0 * errors))
    # so far in units of each column's farthest cell; the first one ends at a power of two
    powers = np.frexp([histogram.nearest for histogram in histograms])[1] - 1
    scales = np.ldexp(1.0, np.minimum(powers + np.array([*ends.T, last_cells]), 1000))
    numbers = np.array([*scales, means * scales[2], spreads * scales[2], last_cells]).T.tolist()
    locations = []
    for (centre, *_), (above, below, _, mean, spread, top) in zip(histograms, numbers, strict=True):
        if not top:
            locations.append(ColumnScale(centre, 1.0, centre, centre, False))
            continue
        low, high = max(centre - below, -LARGEST), min(centre + above, LARGEST)
        middle = min(max(centre + mean, low), high)
        spread = min(max(spread, SMALLEST), LARGEST)
        locations.append(ColumnScale(middle, spread, low, high))
    return locations


def _farthest(cells: Array) -> NDArray[np.intp]:
    """Return the farthest cell on each side that exceeds its noise, or -1.

    ``cells`` are in units of their noise.
    """
    above_single, above_neighbour, octaves = (
        cells > SINGLE_BIN_SDS,
        cells > NEIGHBOUR_SDS,
        np.arange(cells.shape[2]),
    )
    connected = np.logical_or.reduce(
        above_single, axis=1
    )  # and what is beside it: on the other side, or
    last = np.maximum.accumulate(np.where(connected, octaves, -1), axis=1)  # farther out, and so on
    gap = np.maximum.accumulate(np.where(above_neighbour.any(axis=1), -1, octaves), axis=1)
    connected[:, 1:] |= (last > gap)[:, :-1]
    return np.where(above_single | (above_neighbour & connected[:, None]), octaves, -1).max(axis=2)
