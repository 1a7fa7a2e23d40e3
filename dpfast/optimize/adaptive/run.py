"""Newton's method that spends its budget where the released answers show it is needed.

Few reads of the records: a released start of the intercept, early steps that only have to get
near, then full answers until the path has arrived, all of which count in the result.  Where there
are many records the early steps read disjoint random blocks of them, which are paid for once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.curator.answers import NOTHING
from dpfast.kernels.linalg import eigh, floor_eigenvalues, floored_step
from dpfast.models import Objective
from dpfast.optimize.adaptive.start import released_intercept
from dpfast.optimize.budgets import divided
from dpfast.optimize.protocol import Answers, Blocks
from dpfast.optimize.schedules import ROUNDING_MARGIN
from dpfast.optimize.trajectory import Trajectory, with_ridge
from dpfast.privacy.dealing import SLOTS

__all__ = ["EARLY", "MEAT", "MOST_STEPS", "Arrival", "arrive", "expected_shares"]

Array = NDArray[np.float64]

#: Shares of the total ``mu^2``: start of the intercept, one early step, all blocks side by side,
#: one full answer.
START, EARLY, BLOCKS, FULL = 0.02, 0.02, 0.2, 0.12

#: Steps over all records before the first full answer.
FEWEST_EARLY, MOST_EARLY = 4, 14

#: From this number of coefficients on majorising steps go on while noise hides a direction, along
#: which they creep; with fewer, the budget is better spent on full answers.
MANY = 8

#: Full answers before the last one: over all records the noise of their curvatures averages.
FULL_ANSWERS, MOST_FULL_ANSWERS = 4, 5
MOST_AFTER_BLOCKS = 5

#: Steps there can be, the last answer's included.
MOST_STEPS = MOST_EARLY + MOST_FULL_ANSWERS + 1

#: Least share of ``mu^2`` that is left for the last answer.
LAST = 0.12

#: Gaussian-DP parameter of the meat relative to the gradient's in the last answer.
MEAT = 0.35

#: Records of an early block, in p^1.5 / mu: the noise of its curvature is half of it where 0.5% of
#: the responses are ones, and 1% where half of them are.
EARLY_BLOCK = 300.0

#: Records of the last block: at least so many, and so many for each coefficient (sampling error of
#: the covariance), and enough for this ratio of its noise to its weakest direction.
LEAST_BLOCK, LAST_BLOCK, LAST_NOISE = 20_000.0, 2_000.0, 0.1

#: Budgets of the curvature and of the meat released beside it, relative to each other's root sum of
#: squares: what is left for the curvature.
MEAT_OF_BLOCK = 0.5
WITH_MEAT = 1.0 / math.hypot(1.0, MEAT_OF_BLOCK)

#: Standard deviations, of a block's sampling error and an answer's noise together, by which a
#: coefficient's first step may exceed zero.
EXPLAINED = 3.5

#: Log odds of the start from which on the first curvature is too small a part of that at zero.
FAR_START = 1.5

#: Lengths of steps, root mean square changes of the linear predictor in log odds or scales: none
#: is longer than the first; within the second curvatures change little, so the path has arrived;
#: below the third early steps have done their part; above the fourth a last step comes too late.
LONGEST, ARRIVED, NEAR, LATE = 2.5, 0.4, 0.3, 0.5

#: Standard deviations by which a gradient stands out of its noise.
REMAINS = 2.5


class Answered(NamedTuple):
    """A full answer at one parameter, penalty included, and the curvature as it was released."""

    theta: Array
    gradient: Array
    gradient_scale: float
    hessian: Array
    hessian_scale: float
    curvature: Answer


class Step(NamedTuple):
    """A step that an answer asks for: taken, it is subtracted.

    ``length`` is that of the signal in it, without its own noise; infinite where it was cut.
    ``hides`` says whether noise hides a direction of the curvature.
    """

    direction: Array
    length: float
    hides: bool
    inverse: Array


def arrive(
    source: Answers,
    start: Array,
    mu: float,
    inference: bool,
    blocks: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Trajectory:
    """Spend ``mu`` on the way from ``start`` to the estimate.

    Privacy
    -------
    Post-processing of the answers, which charge their ledger; the budgets depend on released
    answers and add up to the total whatever these are (claim C9).
    """
    run = _Run(source, start, mu, progress)
    early = run.early_in_blocks if blocks else run.early
    early()
    run.until_arrived()
    run.last(inference)
    return run.combined(inference)


class Arrival(NamedTuple):
    """What the answers of a run say of its result.

    Attributes
    ----------
    noise : ndarray of shape (p, p)
        Covariance of the privacy noise in the estimate.
    unfinished : ndarray of shape (p,)
        Estimated error left along directions that noise hides, per coefficient.
    n_hidden : int
        Number of such directions.
    unsettled, stuck : bool
        Whether the last steps say that the path has not arrived; whether a gradient remains along
        directions that steps cannot follow.
    """

    noise: Array
    unfinished: Array
    n_hidden: int
    unsettled: bool
    stuck: bool


def expected_shares(blocks: bool) -> tuple[list[float], float]:
    """Shares of ``mu^2`` of the full answers of an easy run, and of the last one."""
    if blocks:
        return [FULL], 1.0 - BLOCKS - FULL
    return [FULL] * FULL_ANSWERS, 1.0 - START - FEWEST_EARLY * EARLY - FULL_ANSWERS * FULL


class _Run:
    """One run: what is left of the budget, where it is, what it has learned."""

    def __init__(
        self,
        source: Answers,
        start: Array,
        mu: float,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.source = source
        self.objective: Objective = source.objective
        self.binary = self.objective.loss.binary_response
        self.mu = mu
        self.left = 1.0 - 8.0 * ROUNDING_MARGIN  # of mu^2
        self.progress = progress
        self.theta = start
        self.iterates = [start]
        self.root_p = len(start) ** 0.5
        self.answers: list[Answered] = []
        self.cuts: list[bool] = []
        self.measure: Array | None = None
        self.mean_weight = self.objective.scale
        self.unit = 1.0 if self.binary else self.objective.scale  # scores' variance per curvature
        self.dealing: Blocks | None = None
        self.block_curvature: Answer | None = None
        self.block_size = self.block_mu = 0.0
        self.alone = self.arrived = False
        self.meat = self.last_gradient = NOTHING

    # ---- the way there --------------------------------------------------------------------------

    def begin(self, source: Answers, mu: float) -> float:
        """The start of the intercept, unless the caller has one; the part of ``mu^2`` spent."""
        if not self.objective.fit_intercept or self.theta.any():
            return 0.0
        self.theta = self.theta.copy()
        self.theta[0], spent = released_intercept(source, mu)
        self.iterates = [self.theta]
        return spent

    def pay(self, share: float) -> float:
        """Take a share of ``mu^2`` from what is left; as ``mu``."""
        self.left -= share
        return self.mu * share**0.5

    def early(self) -> None:
        """Steps on all records, until one is short and sees every direction."""
        everyone = self.source
        self.left -= START * self.begin(everyone, self.mu * START**0.5)
        if self.binary and self.starts_far():
            self.measure_at_zero(everyone, self.pay(EARLY))
        near, patient = False, not self.binary and len(self.theta) >= MANY
        for k in range(MOST_EARLY):
            last = k >= FEWEST_EARLY - 1
            hessian = self.binary or (near and last)
            step = self.walk(everyone, self.pay(EARLY), hessian)
            near = step.length <= NEAR and not (step.hides and patient)
            if near and last and hessian:
                break

    def early_in_blocks(self) -> None:
        """Steps on disjoint random blocks, each larger than the one before."""
        n, p = self.source.n, len(self.theta)
        self.block_mu = mu = self.pay(BLOCKS)
        size = min(0.15 * n, max(EARLY_BLOCK * p**1.5 / mu, LEAST_BLOCK, 0.04 * n))
        self.block_size = size
        self.dealing = self.source.deal(mu)
        self.begin(self.block(min(0.05 * n, LEAST_BLOCK)), mu)
        if self.binary and self.starts_far():
            self.measure_at_zero(self.block(size / 4), mu)
        for part, steps in ((4, 5), (2, 3), (1, 2)):
            block = self.block(size / part)
            for _ in range(steps):
                step = self.walk(block, mu / steps**0.5, self.binary or part == 1)
                if step.length <= NEAR and not step.hides:
                    break
        self.block_curvature, _ = self.curvature(self.block(size), self.theta, mu)
        if not self.binary:
            self.measure = self.floored(self.block_curvature) / self.mean_weight

    def block(self, size: float) -> Answers:
        """The next block, of at least about so many records."""
        assert self.dealing is not None
        return self.dealing.block(max(1, math.ceil(size * SLOTS / self.source.n)))

    def curvature(
        self, source: Answers, theta: Array, mu: float, meat: float = 0.0
    ) -> tuple[Answer, Answer]:
        """The curvature without the gradient, and the meat if asked for."""
        budget = divided(self.objective, mu, "hessian", gradient=0.0, meat=meat)
        answer = source.joint(theta, budget)
        return answer.hessian, answer.meat

    def fresh_block(self) -> Answers | None:
        """A block for the last curvature and meat; None where all records serve better.

        As large as the released curvature says that it has to be for the noise of its own to be
        small beside its weakest direction, on which the intervals rest.
        """
        near = self.block_curvature
        if near is None or self.dealing is None:
            return None
        weakest = max(float(eigh(self.answers[-1].hessian)[0][0]), near.noise_scale)
        noise = self.floor(near.noise_scale) / WITH_MEAT
        size = max(self.block_size * noise / (LAST_NOISE * weakest), LEAST_BLOCK)
        size = max(size, LAST_BLOCK * len(self.theta))
        return self.block(size) if size <= self.source.n * self.dealing.left / SLOTS else None

    def walk(self, source: Answers, mu: float, hessian: bool) -> Step:
        """One early step."""
        kind = "hessian" if hessian else "majorizer"
        answer = source.joint(self.theta, divided(self.objective, mu, kind))
        if not self.binary or self.measure is None:
            self.measure = self.floored(answer.hessian) / self.mean_weight
        gradient, curvature = self.penalised(answer.gradient, answer.hessian)
        scales = answer.gradient.noise_scale, answer.hessian.noise_scale
        step = self.step(gradient, curvature, *scales, LONGEST if hessian else math.inf)
        self.move(step)
        return step

    def move(self, step: Step) -> None:
        self.theta = self.theta - step.direction
        self.iterates.append(self.theta)
        if self.progress is not None:
            self.progress(len(self.iterates) - 1, MOST_STEPS)

    def starts_far(self) -> bool:
        """Whether the start's curvature is too small a part of ``E w x x'`` to measure lengths by.

        Of log odds: lengths are the changes they make, and the curvature at the start is about
        ``mean_weight`` of what measures them.  Where events are rare it would call any step short.
        """
        odds = math.exp(-abs(self.theta[0])) if self.objective.fit_intercept else 1.0
        self.mean_weight = odds / (1.0 + odds) ** 2
        return odds < math.exp(-FAR_START)

    def measure_at_zero(self, source: Answers, mu: float) -> None:
        """Measure lengths by the curvature at zero, a quarter of ``E w x x'``."""
        curvature, _ = self.curvature(source, np.zeros(len(self.theta)), mu)
        self.measure = 4.0 * self.floored(curvature)

    # ---- full answers ---------------------------------------------------------------------------

    def until_arrived(self) -> None:
        """Gradients of all records, until one asks for a short step only."""
        fewest, most = 1, MOST_AFTER_BLOCKS
        if self.block_curvature is None:
            fewest, most = FULL_ANSWERS, MOST_FULL_ANSWERS
        arrived = False
        while len(self.answers) < most and not (arrived and len(self.answers) >= fewest):
            if self.left - FULL < LAST:
                break
            mu, curvature = self.pay(FULL), self.block_curvature
            if curvature is not None and not self.answers:
                answer = self.source.joint(self.theta, divided(self.objective, mu, None))
            else:
                answer = self.source.joint(self.theta, divided(self.objective, mu, "hessian"))
                curvature = answer.hessian
                if not self.binary:
                    self.measure = self.floored(curvature) / self.mean_weight
            step = self.answered(answer.gradient, curvature)
            arrived = step.length <= ARRIVED
            if self.dealing is not None:
                arrived = arrived and not step.hides and self.as_blocks_leave_it(step)
            self.move(step)
        self.arrived = arrived

    def as_blocks_leave_it(self, step: Step) -> bool:
        """Whether every coefficient moves by no more than the sampling error of a block explains.

        A coefficient of a rare dummy can be far off without the linear predictor noticing, and a
        block has few records that tell: the curvature of all of them has to finish.
        """
        explained = self.explained(step.direction, step.inverse, self.block_size)
        return explained and not self.bends(step.direction)

    def explained(self, direction: Array, inverse: Array, n: float) -> bool:
        """Whether each coefficient's step is what n records' sampling and noise account for."""
        sampling = self.unit * inverse.diagonal() / n
        scales = [answer.gradient_scale for answer in self.answers[-2:]]
        noise = math.fsum(scale**2 for scale in scales) * np.square(inverse).sum(axis=1)
        return bool((np.square(direction) <= EXPLAINED**2 * (sampling + noise)).all())

    def bends(self, direction: Array) -> bool:
        """Whether, after blocks, some record's curvature may change within a step.

        The root mean square over records does not see a few that change by much; a record with
        covariates as long as the weights' radius bounds them all.
        """
        reach = self.objective.weighting.radius * float(np.linalg.norm(direction))
        return self.dealing is not None and not reach <= self.unit

    def last(self, inference: bool) -> None:
        """Spend what is left on one more answer."""
        mu, meat = self.mu * self.left**0.5, MEAT if inference else 0.0
        fresh = self.fresh_block()
        self.alone = fresh is not None
        if fresh is None:
            budget = divided(self.objective, mu, "hessian", meat=meat)
            gradient, curvature, self.meat, _ = self.source.joint(self.theta, budget)
        else:
            half = MEAT_OF_BLOCK if inference else 0.0
            curvature, self.meat = self.curvature(fresh, self.theta, self.block_mu, half)
            gradient = self.source.joint(self.theta, divided(self.objective, mu, None)).gradient
        self.last_gradient = gradient
        self.answered(gradient, curvature)

    def answered(self, gradient: Answer, curvature: Answer) -> Step:
        """Remember a full answer; the step it asks for."""
        slope, hessian = self.penalised(gradient, curvature)
        scales = gradient.noise_scale, curvature.noise_scale
        self.answers.append(Answered(self.theta, slope, scales[0], hessian, scales[1], curvature))
        step = self.step(slope, hessian, *scales, LONGEST)
        self.cuts.append(step.length == math.inf)
        return step

    # ---- what the answers say together ----------------------------------------------------------

    def combined(self, inference: bool) -> Trajectory:
        """Average where each full answer would have gone, by precision."""
        answers, measure, p = self.answers, self.measure, len(self.theta)
        assert measure is not None
        end = answers[-1]
        near = self.near_the_end()
        precisions = np.array([answer.hessian_scale**-2.0 for answer in near])
        total_precision = float(precisions.sum())
        scale = total_precision**-0.5
        pooled = np.tensordot(precisions, [answer.hessian for answer in near], 1)
        hessian = pooled / total_precision
        ends = []
        for answer in answers[:-1]:  # the mean of both curvatures: right to third order
            between = 0.5 * (answer.hessian + hessian)
            noise = 0.5 * math.hypot(answer.hessian_scale, scale)
            direction, _, _ = floored_step(between, answer.gradient, self.floor(noise))
            ends.append(answer.theta - self.shortened(direction, LONGEST)[0])
        final = self.step(end.gradient, hessian, end.gradient_scale, scale, LONGEST)
        direction, inverse = final.direction, final.inverse
        ends.append(end.theta - direction)
        squared = inverse @ inverse
        meat = np.zeros((p, p))
        if inference:
            meat = floor_eigenvalues(self.meat.value, 0.0)[0]
        weights = self.weights(ends, inverse, meat)
        theta = weights @ np.array(ends)
        self.iterates.append(theta)
        if self.progress is not None:
            self.progress(MOST_STEPS, MOST_STEPS)
        error = end.theta - theta
        spread = 0.5 * scale**2 * (np.outer(error, error) + error @ error * np.eye(p))
        own = float(weights**2 @ [answer.gradient_scale**2 for answer in answers])
        noise_covariance = inverse @ spread @ inverse + own * squared
        total = noise_covariance + inverse @ meat @ inverse / self.source.n
        hidden, stuck, unfinished = self.hidden(hessian, scale, theta)
        late = self.dealing is not None and (
            not self.arrived
            or self.bends(direction)
            or not self.explained(direction, inverse, self.source.n)
        )
        spread_out = math.sqrt(max(0.0, float(np.sum(measure * total))))
        long = final.length > LATE and (hidden > 0 or final.length > 3.0 * spread_out)
        found = Arrival(
            noise=0.5 * (noise_covariance + noise_covariance.T),
            unfinished=unfinished,
            n_hidden=hidden,
            unsettled=bool(long or any(self.cuts[-2:]) or late),
            stuck=stuck,
        )
        curvatures = [answer.curvature for answer in near]
        asked_last = JointAnswer(self.last_gradient, end.curvature, self.meat, self.mu)
        return Trajectory(theta, self.iterates, asked_last, curvatures, found)

    def near_the_end(self) -> list[Answered]:
        """The answers whose curvatures are that at the end but for their noise, the last first."""
        end = self.answers[-1]
        if self.alone:
            return [end]
        apart = [self.length_of(answer.theta - end.theta) for answer in self.answers]
        near = [
            answer
            for answer, far in zip(self.answers, apart, strict=True)
            if far <= ARRIVED and not self.bends(answer.theta - end.theta)
        ]
        return near[::-1]

    def weights(self, ends: list[Array], inverse: Array, meat: Array) -> Array:
        """Weights of where the answers would have gone, by precision.

        After blocks the first answers are further from the end than their noise alone explains.
        """
        variances = np.array([answer.gradient_scale**2 for answer in self.answers])
        if self.block_curvature is not None:
            p, squared = len(inverse), inverse @ inverse
            middle = meat / self.source.n + variances[-1] * np.eye(p)
            precision = np.linalg.pinv(inverse @ middle @ inverse, hermitian=True)
            own = float((precision * squared).sum())
            apart = [(end - ends[-1]) @ precision @ (end - ends[-1]) for end in ends]
            seen = np.array(apart) - variances[-1] * own
            variances = np.maximum(variances * own, seen)
        weights: Array = 1.0 / variances
        return weights / weights.sum()

    def hidden(self, hessian: Array, scale: float, theta: Array) -> tuple[int, bool, Array]:
        """Directions whose curvature noise hides: how many, and what that leaves undone.

        Along them a step goes only as far as the floor lets it.  The curvature may be as small as
        the released one less two noise scales; the steps then left at least this part of the way
        undone, of which only the rest shows in the distance travelled.  And a gradient that still
        stands out of its noise there says so without any assumption.
        """
        values, vectors = eigh(hessian)
        count = int(np.count_nonzero(~(values >= self.floor(scale))))
        unfinished = np.zeros(len(theta))
        if not count:
            return 0, False, unfinished
        hidden = vectors[:, :count]  # ascending
        smallest = np.maximum(values[:count] - 2.0 * scale, 1e-9 * scale)
        left = np.ones(count)
        for answer in self.answers:
            left *= np.maximum(0.0, 1.0 - smallest / self.floor(answer.hessian_scale))
        unseen = left / np.maximum(1.0 - left, 1e-9)
        travelled = hidden.T @ (theta - self.iterates[0])
        unfinished = np.abs(hidden) @ np.abs(unseen * travelled)
        precisions = np.array([answer.gradient_scale**-2.0 for answer in self.answers])
        gradient = precisions @ np.array([answer.gradient for answer in self.answers])
        remaining = np.abs(hidden.T @ gradient).max() / precisions.sum() ** 0.5
        return count, bool(remaining > REMAINS), unfinished

    # ---- steps ----------------------------------------------------------------------------------

    def penalised(self, gradient: Answer, curvature: Answer) -> tuple[Array, Array]:
        """Gradient and curvature with those of the public penalty."""
        ridge = self.objective.ridge
        if not ridge:
            return gradient.value, curvature.value
        return gradient.value + ridge * self.theta, with_ridge(curvature.value, ridge)

    def floor(self, scale: float) -> float:
        """Below it an eigenvalue of a curvature with this noise is noise."""
        return 2.0 * scale * self.root_p

    def floored(self, curvature: Answer) -> Array:
        floored: Array = floor_eigenvalues(curvature.value, self.floor(curvature.noise_scale))[0]
        return floored

    def step(
        self, gradient: Array, hessian: Array, scale: float, hessian_scale: float, longest: float
    ) -> Step:
        """The step that an answer asks for, no longer than ``longest``."""
        floor, measure = self.floor(hessian_scale), self.measure
        assert measure is not None
        direction, values, inverse = floored_step(hessian, gradient, floor)
        hides = not values[0] > floor  # ascending
        direction, whole = self.shortened(direction, longest)
        if whole > longest:
            return Step(direction, math.inf, hides, inverse)
        noise = scale**2 * float(np.vdot(measure @ inverse, inverse))  # s^2 tr(M P P)
        return Step(direction, math.sqrt(max(0.0, whole**2 - noise)), hides, inverse)

    def length_of(self, direction: Array) -> float:
        """How far it changes the linear predictor, root mean square."""
        assert self.measure is not None
        return math.sqrt(max(0.0, float(direction @ self.measure @ direction)))

    def shortened(self, direction: Array, longest: float) -> tuple[Array, float]:
        """A direction no longer than ``longest``, and how long it was."""
        length = self.length_of(direction)
        return direction * (longest / length) if length > longest else direction, length
