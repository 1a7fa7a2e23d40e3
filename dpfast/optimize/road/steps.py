"""Averaged Newton steps of clipped scores in whitened coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from dpfast.curator import Answer
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries, RowClipping
from dpfast.kernels.linalg import eigh
from dpfast.models.losses import MASSES, NODES

Array = NDArray[np.float64]

#: Largest number of steps.  Those after the first, which only reaches the region of convergence,
#: count in the result.  After convergence there is one more step, with the rest of the budget.
MAX_STEPS = 6

#: Standard deviations of noise above which a score, or its change, is information.
SIGNAL_SDS = 2.0

#: Part of the way to a cutting plane above which a step is shortened, to half of the way: no
#: minimum lies beyond the plane.
CUTTING_PLANE_PART = 0.75

#: Smallest ratio of eigenvalues of an updated or expected curvature.
MIN_CONDITION = 1e-3

#: Smallest and largest curvature of an average record: with less rows cannot be whitened, and with
#: more radii are not finite.
MIN_CURVATURE, MAX_CURVATURE = 1e-12, 1e60

SQUARES = NODES**2

#: Largest move of predictors by the slopes of a start, or by a round, in log odds or logs.
TRUST_REGION = 1.5

#: Slopes without their part in the intercept, their square, curvature across them and along.
GaussianCurvature = tuple[Array, float, float, float]

#: Columns along which a curvature is 1; parts of it that scores determine; score variances there,
#: their noise, and the unit of the parts.
InformationBound = tuple[Array, Array, Array, float, float]

#: Covariance of the scores, and its noise.
NoisyMeat = tuple[Array, float]

#: Level of the test that scores still point one way.  Larger, fits that converged warn.
FALSE_ALARM = 1e-3

#: Largest error that steps may leave, as a part of their noise, and of the sampling error.  Larger,
#: fits are biased; smaller, the budget is divided among more steps.
SLIGHT, OF_SAMPLING = 0.3, 0.03

#: Replacement of zero in denominators.
TINY = 1e-300


class NoisyScore(NamedTuple):
    """A point, the score released there, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float

    @property
    def debiased_squared_norm(self) -> tuple[float, float]:
        """Squared norm of the score without its noise's part, and the noise's part."""
        error = self.score.size * self.noise**2
        square = float(self.score @ self.score) - error
        return square if square > 0.0 else 0.0, error


def bfgs_update(curvature: Array | None, before: NoisyScore, here: NoisyScore) -> Array | None:
    """Update the Hessian by BFGS, skipped where the change is below the noise.

    Nocedal and Wright (2006), section 6.1.  It is also skipped where the update would not be
    positive definite.
    """
    step, change = here.theta - before.theta, before.score - here.score
    hessian_step = step if curvature is None else curvature @ step
    size = math.hypot(*step.tolist())
    predicted, observed = float(step @ hessian_step), float(step @ change)
    doubt = SIGNAL_SDS * math.hypot(here.noise, before.noise) * size + step.size * before.noise**2
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
    values = eigh(updated)[0]
    return updated if values[0] > MIN_CONDITION * values[-1] else curvature


def cutting_plane_step(step: Array, scores: list[NoisyScore]) -> float:
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


def typical_curvature(slopes: Array, variance: float, across: float, along: float) -> float:
    """Return the median of the curvatures along directions."""
    p = slopes.size  # p - 1 of them are the same
    return bounded_curvature(across + (along - across) / p) if p < 3 else across


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
    level, along = bounded_curvature(float(MASSES @ values)), float(MASSES @ (values * SQUARES))
    if spread:  # offsets go with no slope
        along = level + variance / (variance + spread * spread) * (along - level)
    along = max(MIN_CONDITION * level, min(MAX_CURVATURE, along)) if variance > TINY else level
    return slopes, max(variance, TINY), level, along


def trust_region_factor(step: Array, variance: float) -> float:
    """Return the factor that keeps a step in its trust region (Nocedal and Wright 2006, ch. 4).

    Predictors move by at most a constant, or by half of the slopes' spread.
    """
    return min(
        1.0, max(TRUST_REGION, 0.5 * math.sqrt(variance)) / max(math.hypot(*step.tolist()), TINY)
    )


def median_of_sorted(values: Array) -> float:
    """Return the median of increasing numbers."""
    return 0.5 * float(values[(values.size - 1) // 2] + values[values.size // 2])


def bounded_curvature(curvature: float) -> float:
    return (
        curvature
        if MIN_CURVATURE < curvature < MAX_CURVATURE
        else min(max(MIN_CURVATURE, curvature), MAX_CURVATURE)
    )


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


def pooled_mean(mean: NoisyMeat | None, answer: Answer) -> NoisyMeat:
    """Pool a mean with one more answer, weighted by precision; return it with its noise."""
    value, noise, _ = answer
    if mean is None:
        return value, noise
    pooled_noise = 1.0 / math.hypot(1.0 / mean[1], 1.0 / noise)
    pooled = (pooled_noise / mean[1]) ** 2 * mean[0] + (pooled_noise / noise) ** 2 * value
    return pooled, pooled_noise


def nonconvergence_direction(answers: list[NoisyScore]) -> Array | None:
    """Test whether later scores still point one way on average; return the direction if so.

    The test is of chi-squared form, with the noise's exact variance.
    """
    if len(answers) < 3:
        return None
    precisions = np.array([answer.noise**-2 for answer in answers])
    weights, cumulative = precisions[1:] / precisions[1:].sum(), np.cumsum(precisions)[:-1]
    parts = np.append(0.0, weights)  # of each score's noise in their mean
    for k in range(len(weights)):
        parts[: k + 1] -= weights[k] * precisions[: k + 1] / cumulative[k]
    mean: Array = weights @ np.array([answer.score for answer in answers[1:]])
    statistic = float(mean @ mean) / float((parts**2) @ (1.0 / precisions))
    return mean if chdtrc(len(mean), statistic) < FALSE_ALARM else None


class CurvatureModel(NamedTuple):
    """Model of a curvature that changes with the parameter."""

    whiten: Array
    back: Array
    at: Linearization
    constant_and_offsets: tuple[Array | None, float, float]
    min_score_variation: float
    start: GaussianCurvature | None = None
    #: Probability that a coordinate has no determined curvature.
    undetermined: Array | None = None

    def halfway(
        self, step: Array, theta: Array, curvature: Array | None, now: GaussianCurvature
    ) -> Array:
        """Recompute a step with the curvature at its midpoint."""
        half = (
            self.expected(theta + 0.5 * trust_region_factor(self.whiten @ step, now[1]) * step)
            or now
        )
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


class StoppingRule(NamedTuple):
    """Stopping rule: bounds on the relative error of steps in whitened coordinates."""

    whitening_error: float
    curvature_change: float
    score_mean_square: float

    def converged(
        self,
        step: NoisyScore,
        before: tuple[float, float] | None,
        mus: tuple[float, ...],
        averages: bool,
        n: int,
    ) -> bool:
        """Return True if one further step, with all of the rest, is as good as several."""
        square, error = step.debiased_squared_norm
        length, total_mu = math.sqrt(square), math.hypot(averages * mus[0], *mus[1:])
        rate = self.whitening_error + self.curvature_change * length
        if before is not None:
            explained = before[1] * (1.0 + SIGNAL_SDS * math.sqrt(2.0 / step.score.size))
            if square > explained:
                rate = max(rate, math.sqrt((square - explained) / max(before[0], TINY)))
        share = (averages * mus[0] / total_mu) ** 2
        averaged_error = rate * math.hypot(rate * length, error**0.5)
        error_left = share * rate * length + (1.0 - share) * averaged_error
        noise = error**0.5 * mus[0] / total_mu
        return error_left <= math.hypot(
            SLIGHT * noise, OF_SAMPLING * math.sqrt(self.score_mean_square / n)
        )


def information_bound(
    known: Array, meat: Array, noise: float, factor: float, undetermined: Any
) -> InformationBound:
    """Compute a bound of the Hessian by the variance of the scores (White 1982).

    By the information equality both are equal in most directions, up to a common unit.  Columns
    without determined curvature have no bound: their scores do not vary.
    """
    values, vectors = eigh(known)
    white = vectors / np.sqrt(values)
    values, rotation = eigh(white.T @ meat @ white)
    values = np.maximum(values, 0.0)
    reference = max(factor, median_of_sorted(values), TINY)
    doubt = noise * math.sqrt(2.0 / len(white)) * float(np.vdot(white, white))
    shares, columns = np.minimum(reference, values + doubt) / reference, white @ rotation
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


class NewtonSteps(NamedTuple):
    """Result of :func:`newton_steps`."""

    theta: Array
    curvature: Array | None
    least_meat: Array | None
    hidden: int
    noise: float
    meat: NoisyMeat | None
    noises: list[float]
    steps: int
    nonconvergence: Array | None
    asked: list[NoisyScore]


def newton_steps(
    rows: PreconditionedQueries,
    start: Linearization,
    bound: float,
    row_clipping: RowClipping,
    mus: tuple[float, ...],
    first_score: NoisyScore | None,
    inference: bool,
    stopping_rule: StoppingRule,
    model: CurvatureModel | None,
    report: Callable[[Array, int], None],
    first: NoisyScore | None = None,
) -> NewtonSteps:
    """Spend all of ``mus`` on steps of clipped scores.

    The first step has been taken already where there is a ``first_score``.  Its score has been
    released already where there is a ``first``.
    """
    theta, identity = start.theta, np.eye(start.theta.size)
    counted, done = 0, int(first_score is not None)
    n_before = done
    converged = first_score is not None and stopping_rule.converged(
        first_score, None, mus, False, rows.n
    )
    expected = start_curvature = model.expected(theta, model.start) if model else None
    curvature: Array | None = None  # the identity
    answers: list[NoisyScore] = []
    curvatures: list[GaussianCurvature] = []
    pooled_meat: NoisyMeat | None = None
    remaining = (math.hypot(*mus[1:]),) if converged else mus[n_before:]

    def information(curvature: Array | None) -> InformationBound | None:
        if pooled_meat and model and model.min_score_variation < math.inf:
            known = identity if curvature is None else curvature
            return information_bound(
                known, *pooled_meat, model.min_score_variation, model.undetermined
            )
        return None

    while remaining:
        counts = done > 0
        mu_step, remaining = remaining[0], remaining[1:]
        # the meat is free up to half of the gradient's mu (claim C17)
        mu_meat = 0.5 * mu_step if inference and counts else 0.0
        if first and not answers:
            answers.append(first)
        else:
            answer = rows.clipped(
                start._replace(theta=theta), bound, mu_step, mu_meat, row_clipping
            )
            answers.append(NoisyScore(theta, *answer.gradient[:2]))
        if expected:
            curvatures.append(expected)
        if counts:
            if inference:
                pooled_meat = pooled_mean(pooled_meat, answer.meat)
            counted += 1
        if done > n_before:
            steeper = bfgs_update(curvature, *answers[-2:])
            if model and expected and steeper is not curvature:
                steeper = model.bfgs_update(curvature, expected, *answers[-2:])
            if steeper is not curvature:  # earlier scores are from too far away
                curvature, counted = steeper, counted if converged else 1
        recent = answers[-counted:]
        weights = (
            inverse_variance_weights(recent, curvature, curvatures[-counted:])
            if counted > 1
            else None
        )
        step = averaged_newton_point(recent, weights, curvature, information(curvature)) - theta
        if model and expected:
            step = model.halfway(step, theta, curvature, expected)
        part = cutting_plane_step(step, answers)
        if model:
            part = min(
                part, trust_region_factor(model.whiten @ step, expected[1] if expected else 0.0)
            )
        theta = theta + part * step
        if model and expected and (here := model.expected(theta)):
            curvature, expected = model.transported(curvature, expected, here), here
        if part < 1.0:  # the curvature is a different one there
            counted, converged = 0, False
        elif remaining:
            earlier = answers[-2].debiased_squared_norm if done > n_before else None
            converged = stopping_rule.converged(
                answers[-1], earlier, (mu_step, *remaining), counts, rows.n
            )
            remaining = (math.hypot(*remaining),) if converged else remaining
        done += 1
        report(theta, done if remaining else MAX_STEPS)
    noise = answers[-1].noise
    if counted > 1 and weights is not None:
        noise = math.hypot(*(weights * [score.noise for score in recent]).tolist())
    if model and expected and start_curvature:  # no released number shows a larger one
        level, along_slopes = map(min, start_curvature[2:], expected[2:])
        if (level, along_slopes) != expected[2:]:
            curvature = model.transported(curvature, expected, (*expected[:2], level, along_slopes))
    min_meat, hidden = None, 0
    if bound_parts := information(curvature):
        known = identity if curvature is None else curvature
        curvature, min_meat, hidden = apply_information_bound(known, *bound_parts)
    nonconvergence = None if model else nonconvergence_direction(answers[-max(counted, 1) :])
    noises = [score.noise for score in answers[1 - n_before :]]
    return NewtonSteps(
        theta,
        curvature,
        min_meat,
        hidden,
        noise,
        pooled_meat,
        noises,
        done,
        nonconvergence,
        answers,
    )
