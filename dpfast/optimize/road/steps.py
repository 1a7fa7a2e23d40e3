"""Full steps of the road, from a start in whitened coordinates to where all records lead.

Small products are by ``dot``, which calls for less than half of what ``@`` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from dpfast.curator import Answer
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries, RowClipping
from dpfast.kernels.linalg import eigh
from dpfast.models.losses import MASSES, NODES

Array = NDArray[np.float64]

#: Steps at most; those after the first, which goes from the start to where they can begin, count in
#: the result.  Once one of them has arrived, the next is the last, and has all that is left.
MAX_STEPS = 6

#: Deviations of noise from which on a score, or what it changed by, says something.
SIGNAL_SDS = 2.0

#: Of the way to a plane beyond which no least is: a step of more than this goes half of it.
CUTTING_PLANE_PART = 0.75

#: Of a curvature that is learnt, or expected: the least of a direction as a part of the largest.
MIN_CONDITION = 1e-3

#: Least and largest curvature of a record like the mean one: rows cannot be whitened with less, and
#: radii must be numbers that weights can have.
MIN_CURVATURE, MAX_CURVATURE = 1e-12, 1e60

SQUARES = NODES**2

#: Farthest that predictors may be moved by the slopes of a start, or by a round: log odds or logs.
TRUST_REGION = 1.5

#: Slopes without their part in the constant, their square, curvature across them and along.
GaussianCurvature = tuple[Array, float, float, float]

#: Columns along which a curvature is 1; parts of it that scores tell; what they vary by there, the
#: noise of that, and the unit in which it is taken.
InformationBound = tuple[Array, Array, Array, float, float]

#: How scores vary, and its noise.
NoisyMeat = tuple[Array, float]

#: How often scores seem to point somewhere still where steps have arrived.
FALSE_ALARM = 1e-3

#: What steps may leave, as a part of noise, and of the standard error of sampling.
SLIGHT, OF_SAMPLING = 0.3, 0.03

#: Instead of nothing below a division bar.
TINY = 1e-300


class NoisyScore(NamedTuple):
    """Where a score was asked for, the score, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float

    @property
    def debiased_squared_norm(self) -> tuple[float, float]:
        """Squared length of the score without its noise's, and that of the noise."""
        error = self.score.size * self.noise**2
        square = float(self.score.dot(self.score)) - error
        return square if square > 0.0 else 0.0, error


#: From tuples, without the frame of the generated constructors.
at_of, reserved_cost = partial(tuple.__new__, Linearization), partial(tuple.__new__, NoisyScore)


def bfgs_update(curvature: Array | None, before: NoisyScore, here: NoisyScore) -> Array | None:
    """A curvature that between two points is what the score changed by, where noise allows."""
    step, change = here.theta - before.theta, before.score - here.score
    turned, size = step if curvature is None else curvature.dot(step), math.hypot(*step.tolist())
    was, between = float(step.dot(turned)), float(step.dot(change))
    doubt = SIGNAL_SDS * math.hypot(here.noise, before.noise) * size + step.size * before.noise**2
    if not (abs(between - was) > doubt and was > 0.0 and between > 0.0):
        return curvature
    found = np.eye(step.size) if curvature is None else curvature
    found = found - turned[:, None] * turned / was + change[:, None] * change / between
    if not np.isfinite(found).all():
        return curvature
    values = eigh(found)[0]
    return found if values[0] > MIN_CONDITION * values[-1] else curvature


def cutting_plane_step(step: Array, asked: list[NoisyScore]) -> float:
    """Part of a step from the last point that leads nowhere an earlier score points away from."""
    part, here = 1.0, asked[-1].theta
    for one in asked[:-1]:
        along = -float(one.score.dot(step))
        if along > 0.0:
            away = here - one.theta
            to_plane = float(one.score.dot(away))
            far = along > CUTTING_PLANE_PART * to_plane > 0.0
            if far and to_plane > SIGNAL_SDS * one.noise * math.hypot(*away.tolist()):
                part = min(part, 0.5 * to_plane / along)
    return part


def typical_curvature(away: Array, variance: float, level: float, along: float) -> float:
    """The median of what directions curve by."""
    p = away.size  # p - 1 of them are the same
    return bounded_curvature(level + (along - level) / p) if p < 3 else level


def gaussian_design_hessian(away: Array, variance: float, level: float, along: float) -> Array:
    """A curvature that is another one along the slopes than across them."""
    found = (along - level) / variance * (away[:, None] * away)
    found.flat[:: away.size + 1] += level
    return found


def gaussian_design_curvature(
    at: Linearization, one: Array | None, mean: float = 0.0, spread: float = 0.0
) -> GaussianCurvature:
    """Slopes, and the curvature where rows with second moments 1 lie, beside such offsets."""
    away = at.theta
    if one is not None:
        level = float(one.dot(at.theta)) / float(one.dot(one))
        mean, away = mean + level, at.theta - level * one
    variance = float(away.dot(away))
    curved = at.loss._expected_curvature(mean + math.sqrt(variance + spread * spread) * NODES)
    level, along = bounded_curvature(float(MASSES.dot(curved))), float(MASSES.dot(curved * SQUARES))
    if spread:  # offsets go with no slope
        along = level + variance / (variance + spread * spread) * (along - level)
    along = max(MIN_CONDITION * level, min(MAX_CURVATURE, along)) if variance > TINY else level
    return away, max(variance, TINY), level, along


def trust_region_factor(step: Array, variance: float) -> float:
    """Part of a step that moves predictors no farther than that, or half as far as slopes have."""
    return min(
        1.0, max(TRUST_REGION, 0.5 * math.sqrt(variance)) / max(math.hypot(*step.tolist()), TINY)
    )


def median_of_sorted(values: Array) -> float:
    """The median of numbers that increase."""
    return 0.5 * float(values[(values.size - 1) // 2] + values[values.size // 2])


def bounded_curvature(curvature: float) -> float:
    return (
        curvature
        if MIN_CURVATURE < curvature < MAX_CURVATURE
        else min(max(MIN_CURVATURE, curvature), MAX_CURVATURE)
    )


def inverse_variance_weights(
    asked: list[NoisyScore], curvature: Array | None, curved: list[GaussianCurvature]
) -> Array:
    """Weights of scores by their noise, and by what is curved otherwise between there and here."""
    squares, here = [one.noise**2 for one in asked], asked[-1].theta
    for k, (_, _, level, along) in enumerate(curved[:-1]):
        away = here - asked[k].theta
        change = max(abs(level / curved[-1][2] - 1.0), abs(along / curved[-1][3] - 1.0))
        size = math.hypot(*(away if curvature is None else curvature.dot(away)).tolist())
        squares[k] += (0.5 * change * size) ** 2
    weights: Array = 1.0 / np.array(squares)
    return weights / np.add.reduce(weights)


def averaged_newton_point(
    asked: list[NoisyScore],
    weights: Array | None,
    curvature: Array | None,
    seen: InformationBound | None = None,
) -> Array:
    """Where steps of this curvature lead from the points that were asked about, in the mean."""
    where, scores = asked[-1][:2]
    if weights is not None:
        *both, _ = zip(*asked, strict=True)
        where, scores = weights.dot(np.array(both))
    if seen:
        return where + seen[0].dot(seen[0].T.dot(scores) / seen[1])
    return where + (scores if curvature is None else np.linalg.solve(curvature, scores))


def pooled_mean(mean: NoisyMeat | None, answer: Answer) -> NoisyMeat:
    """A mean by precision with one more answer in it, and its noise."""
    value, noise, _ = answer
    if mean is None:
        return value, noise
    both = 1.0 / math.hypot(1.0 / mean[1], 1.0 / noise)
    return (both / mean[1]) ** 2 * mean[0] + (both / noise) ** 2 * value, both


def nonconvergence_direction(asked: list[NoisyScore]) -> Array | None:
    """Where scores of steps' ends still point on the whole, if noise does not explain it."""
    if len(asked) < 3:
        return None
    precise = np.array([one.noise**-2 for one in asked])
    weights, before = precise[1:] / precise[1:].sum(), np.cumsum(precise)[:-1]
    parts = np.append(0.0, weights)  # of each score's noise in their mean
    for k in range(len(weights)):
        parts[: k + 1] -= weights[k] * precise[: k + 1] / before[k]
    mean: Array = weights.dot([one.score for one in asked[1:]])
    found = float(mean.dot(mean)) / float((parts**2).dot(1.0 / precise))
    return mean if chdtrc(len(mean), found) < FALSE_ALARM else None


class CurvatureModel(NamedTuple):
    """A loss whose curvature is another one elsewhere."""

    whiten: Array
    back: Array
    at: Linearization
    constant_and_offsets: tuple[Array | None, float, float]
    min_score_variation: float
    start: GaussianCurvature | None = None
    #: How surely there is no curvature along a coordinate.
    undetermined: Array | None = None

    def halfway(
        self, step: Array, theta: Array, curvature: Array | None, now: GaussianCurvature
    ) -> Array:
        """A step by what is curved halfway, where a score that falls off is met in the mean."""
        half = (
            self.expected(theta + 0.5 * trust_region_factor(self.whiten.dot(step), now[1]) * step)
            or now
        )
        change = step if curvature is None else curvature.dot(step)
        return np.asarray(np.linalg.solve(self.transported(curvature, now, half), change))

    def expected(
        self, theta: Array, known: GaussianCurvature | None = None
    ) -> GaussianCurvature | None:
        """Curvature that is to be expected, at most as much along the slopes, if rows decide it."""
        if self.at.loss.link == "identity":
            return None
        at = at_of((self.whiten.dot(theta), *self.at[1:]))
        away, variance, level, along = known or gaussian_design_curvature(
            at, *self.constant_and_offsets
        )
        return away, variance, level, min(level, along) if level > MIN_CURVATURE else level

    def transported(
        self, curvature: Array | None, was: GaussianCurvature, here: GaussianCurvature
    ) -> Array:
        """A curvature as it is elsewhere: along the slopes it changes more than across them."""
        (new, size, level, along), (old, before, first, steep) = here, was
        # square roots of both curvatures, the second one's inverse
        more, less = (along**0.5 - level**0.5) / size, (steep**-0.5 - first**-0.5) / before
        both, twice = np.array([new, old]), more * new.dot(old) * less
        core = np.array([[more * first**-0.5, twice], [0.0, less * level**0.5]])
        turn = both.dot(self.whiten).T.dot(core).dot(both.dot(self.back.T))
        turn.flat[:: len(turn) + 1] += (level / first) ** 0.5
        return turn.dot(turn.T) if curvature is None else turn.dot(curvature).dot(turn.T)

    def bfgs_update(
        self, curvature: Array | None, now: GaussianCurvature, before: NoisyScore, here: NoisyScore
    ) -> Array | None:
        """The same as :func:`bent` does: a score changes by what is curved halfway."""
        half = self.expected(0.5 * (before.theta + here.theta)) or now
        there = self.transported(curvature, now, half)
        found = bfgs_update(there, before, here)
        return curvature if found is there or found is None else self.transported(found, half, now)


class StoppingRule(NamedTuple):
    """How far steps in whitened coordinates, where curvatures should be 1, may be from arriving."""

    whitening_error: float
    curvature_change: float
    score_mean_square: float

    def converged(
        self,
        step: NoisyScore,
        before: tuple[float, float] | None,
        mus: tuple[float, ...],
        counts: bool,
        n: int,
    ) -> bool:
        """Whether one further step, with all that is left, is as good as many."""
        square, error = step.debiased_squared_norm
        length, whole = math.sqrt(square), math.hypot(counts * mus[0], *mus[1:])
        part = self.whitening_error + self.curvature_change * length
        if before is not None:
            explained = before[1] * (1.0 + SIGNAL_SDS * math.sqrt(2.0 / step.score.size))
            if square > explained:
                part = max(part, math.sqrt((square - explained) / max(before[0], TINY)))
        own = (counts * mus[0] / whole) ** 2
        stays = own * part * length + (1.0 - own) * part * math.hypot(part * length, error**0.5)
        noise = error**0.5 * mus[0] / whole
        return stays <= math.hypot(
            SLIGHT * noise, OF_SAMPLING * math.sqrt(self.score_mean_square / n)
        )


def information_bound(
    known: Array, meat: Array, noise: float, factor: float, blank: Any
) -> InformationBound:
    """Of a curvature no more than scores vary by, in units of what they do along most columns;
    but where none was seen: columns that go together have none, nor do their scores vary.
    """
    values, vectors = eigh(known)
    white = vectors / np.sqrt(values)
    values, turned = eigh(white.T.dot(meat).dot(white))
    values = np.maximum(values, 0.0)
    unit = max(factor, median_of_sorted(values), TINY)
    doubt = noise * math.sqrt(2.0 / len(white)) * float(np.vdot(white, white))
    told, columns = np.minimum(unit, values + doubt) / unit, white.dot(turned)
    if blank is not None:
        told += (1.0 - told) * (blank.dot(columns**2) / np.add.reduce(columns**2))
    return columns, told, values, doubt, unit


def apply_information_bound(
    curvature: Array, columns: Array, told: Array, values: Array, doubt: float, unit: float
) -> tuple[Array, Array, int]:
    """The parts that scores tell; what they vary by where it is less; along how many none is."""
    back, least = curvature.dot(columns), unit * np.where(told < 1.0, told, 0.0)
    few = int(np.count_nonzero((values < doubt) & (SIGNAL_SDS * told < 1.0)))
    return (back * told).dot(back.T), (back * least).dot(back.T), few


class NewtonSteps(NamedTuple):
    """Where steps led, and what they saw on the way."""

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
    held: RowClipping,
    mus: tuple[float, ...],
    came: NoisyScore | None,
    inference: bool,
    rough: StoppingRule,
    bends: CurvatureModel | None,
    report: Callable[[Array, int], None],
    first: NoisyScore | None = None,
) -> NewtonSteps:
    """Spend all of ``mus`` on steps of clipped scores; the first is made where one ``came``, and
    has been asked for where there is a ``first``.
    """
    theta, identity = start.theta, np.eye(start.theta.size)
    counted, done = 0, int(came is not None)
    since, near = done, came is not None and rough.converged(came, None, mus, False, rows.n)
    expected = begun = bends.expected(theta, bends.start) if bends else None
    curvature: Array | None = None  # the identity
    asked: list[NoisyScore] = []
    curved: list[GaussianCurvature] = []
    varied: NoisyMeat | None = None
    left = (math.hypot(*mus[1:]),) if near else mus[since:]

    def seen(curvature: Array | None) -> InformationBound | None:
        if varied and bends and bends.min_score_variation < math.inf:
            known = identity if curvature is None else curvature
            return information_bound(known, *varied, bends.min_score_variation, bends.undetermined)
        return None

    while left:
        counts = done > 0
        mu_step, left = left[0], left[1:]
        # the meat is free up to half of the gradient's mu (claim C17)
        mu_meat = 0.5 * mu_step if inference and counts else 0.0
        if first and not asked:
            asked.append(first)
        else:
            answer = rows.clipped(at_of((theta, *start[1:])), bound, mu_step, mu_meat, held)
            asked.append(reserved_cost((theta, *answer.gradient[:2])))
        if expected:
            curved.append(expected)
        if counts:
            if inference:
                varied = pooled_mean(varied, answer.meat)
            counted += 1
        if done > since:
            steeper = bfgs_update(curvature, *asked[-2:])
            if bends and expected and steeper is not curvature:
                steeper = bends.bfgs_update(curvature, expected, *asked[-2:])
            if steeper is not curvature:  # what was asked far from here is of no use
                curvature, counted = steeper, counted if near else 1
        some = asked[-counted:]
        weights = (
            inverse_variance_weights(some, curvature, curved[-counted:]) if counted > 1 else None
        )
        step = averaged_newton_point(some, weights, curvature, seen(curvature)) - theta
        if bends and expected:
            step = bends.halfway(step, theta, curvature, expected)
        part = cutting_plane_step(step, asked)
        if bends:
            part = min(
                part, trust_region_factor(bends.whiten.dot(step), expected[1] if expected else 0.0)
            )
        theta = theta + part * step
        if bends and expected and (here := bends.expected(theta)):
            curvature, expected = bends.transported(curvature, expected, here), here
        if part < 1.0:  # the curvature is another one there
            counted, near = 0, False
        elif left:
            earlier = asked[-2].debiased_squared_norm if done > since else None
            near = rough.converged(asked[-1], earlier, (mu_step, *left), counts, rows.n)
            left = (math.hypot(*left),) if near else left
        done += 1
        report(theta, done if left else MAX_STEPS)
    spread = asked[-1].noise
    if counted > 1 and weights is not None:
        spread = math.hypot(*(weights * [one.noise for one in some]).tolist())
    if bends and expected and begun:  # nothing that was released says that it is larger
        level, along = map(min, begun[2:], expected[2:])
        if (level, along) != expected[2:]:
            curvature = bends.transported(curvature, expected, (*expected[:2], level, along))
    least, hidden = None, 0
    if vary := seen(curvature):
        known = identity if curvature is None else curvature
        curvature, least, hidden = apply_information_bound(known, *vary)
    pointing = None if bends else nonconvergence_direction(asked[-max(counted, 1) :])
    noises = [one.noise for one in asked[1 - since :]]
    return NewtonSteps(
        theta, curvature, least, hidden, spread, varied, noises, done, pointing, asked
    )
