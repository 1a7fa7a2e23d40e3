"""Newton's method that spends its budget where the released answers show it is needed.

Few reads of the records: a released start of the intercept, early steps that only have to get
near, then full answers until the path has arrived, all of which count in the result.  Where there
are many records the early steps read disjoint random blocks of them, which are paid for once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.curator.answers import NOTHING
from dpfast.kernels.linalg import (
    congruence,
    eigh,
    floor_eigenvalues,
    measured_step,
    noise_of_step,
    weighted_mean,
)
from dpfast.models import Objective
from dpfast.optimize.adaptive.hidden import FloorOfStep, Hidden, hidden_directions
from dpfast.optimize.adaptive.shares import (
    BLOCKS,
    EARLY,
    FEWEST_EARLY,
    FULL,
    FULL_ANSWERS,
    MOST_EARLY,
    MOST_FULL_ANSWERS,
    START,
    meat_share,
)
from dpfast.optimize.adaptive.start import released_intercept, share_of_location
from dpfast.optimize.adaptive.steps import Arrival, FullAnswer, Step, step_of
from dpfast.optimize.budgets import divided, hessian_costs
from dpfast.optimize.protocol import Answers, Blocks
from dpfast.optimize.trajectory import Trajectory, with_ridge
from dpfast.privacy.rounding import MARGIN_SHARES

Array = NDArray[np.float64]

#: Part of the way that majorising steps may leave along the direction that noise hides most.
UNDONE = 0.003

#: The smallest eigenvalue of the noise in a curvature is about -1.4 noise scales times the root of
#: p, this part of the floor.
SMALLEST_NOISE = 0.7

#: ``mu^2`` of a Hessian that is not free (Huber's), relative to the gradient's: by how far noise of
#: the largest share hides the weakest direction seen, from the second to a run's own largest.
SHARE_OF_HESSIAN, LEAST_SHARE = 0.1, 0.05

#: Full answers after blocks, at most.
MOST_AFTER_BLOCKS = 5

#: Steps there can be, the last answer's included.
MOST_STEPS = MOST_EARLY + MOST_FULL_ANSWERS + 1

#: Least share of ``mu^2`` that is left for the last answer.
LAST = 0.12

#: Standard deviations of counts whose mean is half the cap, up to which they may be clipped; and
#: variances in means, from which on it is said.
CLIPPED, DISPERSED = 3.0, 1.5

#: Records of an early block, in p^1.5 / mu: the noise of its curvature is half of it where 0.5% of
#: the responses are ones, and 1% where half of them are.
EARLY_BLOCK = 300.0

#: Records of all blocks, in those of the largest of the early ones, where they are kept.
ALL_BLOCKS = 4.5

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


class Run:
    """One run: what is left of the budget, where it is, what it has learned."""

    #: Share of ``mu^2`` that the start may take.
    start_share = START

    #: Largest share of a Hessian that is not free.
    most_share = 0.5

    def __init__(
        self, source: Answers, start: Array, mu: float, progress: Callable[[int, int], None] | None
    ) -> None:
        self.source = source
        self.objective: Objective = source.objective
        self.constants = self.objective.constants() or self.objective
        self.linked = self.objective.loss.link != "identity"
        if not self.linked:
            self.start_share = share_of_location(source.n * mu)
        self.mu = mu
        self.left = 1.0 - 8.0 * MARGIN_SHARES  # of mu^2
        self.progress = progress
        self.theta = start
        self.iterates = [start]
        self.root_p = len(start) ** 0.5
        self.answers: list[FullAnswer] = []
        self.cuts: list[bool] = []
        self.yardstick: Answer | None = None
        self._measure: Array | None = None
        self.mean_weight = self.objective.scale * self.objective.loss.mean_curvature
        self.unit = 1.0 if self.linked else self.objective.scale  # scores' variance per curvature
        self.dealing: Blocks | None = None
        self.block_curvature: Answer | None = None
        self.block_size = self.block_mu = 0.0
        self.alone = self.arrived = False
        self.meat = self.last_gradient = NOTHING
        self.undone = 1.0
        self.early_floors: list[float] = []  # of steps that count in what is left undone
        self.hessian_share: float | None = None  # of an answer, by default the best known

    # ---- the way there --------------------------------------------------------------------------

    def begin(self, source: Answers, mu: float) -> float:
        """The start of the intercept, unless the caller has one; the part of ``mu^2`` spent."""
        if not self.objective.fit_intercept or (self.theta != self.objective.origin()).any():
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
        share = self.start_share
        self.left -= share * self.begin(everyone, self.mu * share**0.5)
        if self.linked and self.starts_far():
            self.measure_at_zero(everyone, self.pay(EARLY))
        near = False
        for k in range(MOST_EARLY):
            last = k >= FEWEST_EARLY - 1
            hessian = self.linked or (near and last)
            step = self.walk(everyone, self.pay(EARLY), hessian)
            near = step.length <= NEAR and (self.linked or not step.hides)
            if near and last and hessian:
                break

    def early_in_blocks(self) -> None:
        """Steps on disjoint random blocks, each larger than the one before."""
        n, p = self.source.n, len(self.theta)
        self.block_mu = mu = self.pay(BLOCKS)
        self.dealing = self.source.deal(mu)
        n_slots = self.dealing.n_slots
        large = min(0.04, self.dealing.room / n_slots / ALL_BLOCKS) * n
        size = min(0.15 * n, max(EARLY_BLOCK * p**1.5 / mu, LEAST_BLOCK, large))
        self.block_size = size
        last = max(size, LEAST_BLOCK, LAST_BLOCK * p)
        ahead = 2.75 * size + last + 6.0 * n / n_slots  # in whole slots
        self.begin(self.block(min(0.05 * n, LEAST_BLOCK), ahead), mu)
        if self.linked and self.starts_far():
            self.measure_at_zero(self.block(size / 4), mu)
        for part, steps in ((4, 5), (2, 3), (1, 2)):
            block = self.block(size / part)
            for _ in range(steps):
                step = self.walk(block, mu / steps**0.5, self.linked or part == 1)
                if step.length <= NEAR and not step.hides:
                    break
        self.block_curvature, _ = self.curvature(self.block(size), self.theta, mu)
        if not self.linked:
            self.measure_by(self.block_curvature)

    def block(self, size: float, ahead: float = 0.0) -> Answers:
        """The next block, of at least about so many records; so many more are read with it."""
        assert self.dealing is not None
        width, further = [
            math.ceil(records * self.dealing.n_slots / self.source.n) for records in (size, ahead)
        ]
        return self.dealing.block(max(1, width), further)

    def curvature(
        self, source: Answers, theta: Array, mu: float, meat: float = 0.0
    ) -> tuple[Answer, Answer]:
        """The curvature without the gradient, and the meat if asked for."""
        budget = divided(self.constants, mu, "hessian", gradient=0.0, meat=meat)
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
        return (
            self.block(size)
            if size <= self.source.n * self.dealing.left / self.dealing.n_slots
            else None
        )

    def walk(self, source: Answers, mu: float, hessian: bool) -> Step:
        """One early step."""
        kind = "hessian" if hessian else "majorizer"
        answer = source.joint(self.theta, divided(self.constants, mu, kind))
        if not self.linked or self.yardstick is None:
            self.measure_by(answer.hessian)
        gradient, curvature = self.penalised(answer.gradient, answer.hessian)
        scales = answer.gradient.noise_scale, answer.hessian.noise_scale
        own = answer.hessian is self.yardstick
        longest = LONGEST if hessian else math.inf
        step = self.step(self.theta, gradient, curvature, *scales, longest, own)
        step = self.refined(step, answer, hessian)
        self.move(step)
        return step

    def refined(self, step: Step, answer: JointAnswer, hessian: bool) -> Step:
        """An early step, where something of it is known better."""
        if self.linked:
            return step
        self.early_floors.append(self.floor(answer.hessian.noise_scale))
        if not step.hides:
            self.undone = 0.0
            return step
        return step._replace(hides=self.creeps(answer.hessian))

    def creeps(self, curvature: Answer) -> bool:
        """Whether, where noise hides a direction, steps have left much of the way along it.

        A step goes only as far as the floor lets it.
        """
        floor = self.floor(curvature.noise_scale)
        smallest = float(eigh(curvature.value)[0][0]) / floor + SMALLEST_NOISE
        self.undone *= min(1.0, max(0.0, 1.0 - smallest))
        return self.undone > UNDONE

    def move(self, step: Step) -> None:
        self.theta = self.theta - step.direction
        self.moved()

    def moved(self) -> None:
        """Note where it is."""
        self.iterates.append(self.theta)
        if self.progress is not None:
            self.progress(len(self.iterates) - 1, MOST_STEPS)

    def starts_far(self) -> bool:
        """Whether the start's curvature is too small a part of ``E w x x'`` to measure lengths by.

        Of log odds: lengths are the changes they make, and the curvature at the start is about
        ``mean_weight`` of what measures them.  Where events are rare it would call any step short.
        Of logs of means the curvature at the start is the mean count, whatever that is.
        """
        if self.objective.loss.link == "log":
            self.mean_weight = math.exp(self.theta[0]) if self.objective.fit_intercept else 1.0
            return False
        odds = math.exp(-abs(self.theta[0])) if self.objective.fit_intercept else 1.0
        self.mean_weight = odds / (1.0 + odds) ** 2
        return odds < math.exp(-FAR_START)

    def measure_at_zero(self, source: Answers, mu: float) -> None:
        """Measure lengths by the curvature at zero, a quarter of ``E w x x'``."""
        curvature, _ = self.curvature(source, np.zeros(len(self.theta)), mu)
        self.measure_by(curvature)
        self.mean_weight = 0.25

    # ---- full answers ---------------------------------------------------------------------------

    def until_arrived(self) -> None:
        """Gradients of all records, until one asks for a short step only."""
        if hessian_costs(self.objective):
            self.hessian_share = self.needed_share()
        fewest, most = 1, MOST_AFTER_BLOCKS
        if self.block_curvature is None:
            fewest, most = FULL_ANSWERS, MOST_FULL_ANSWERS
        arrived = False
        while len(self.answers) < most and not (arrived and len(self.answers) >= fewest):
            if self.left - FULL < LAST:
                break
            mu, curvature = self.pay(FULL), self.block_curvature
            if curvature is not None and not self.answers:
                answer = self.source.joint(self.theta, divided(self.constants, mu, None))
            else:
                answer = self.source.joint(self.theta, self.budget(mu))
                curvature = answer.hessian
                if not self.linked:
                    self.measure_by(curvature)
            step = self.answered(answer.gradient, curvature)
            arrived = step.length <= ARRIVED
            if self.dealing is not None:
                arrived = arrived and not step.hides and self.as_blocks_leave_it(step)
            self.move(step)
        self.arrived = arrived

    def needed_share(self) -> float:
        """As much for a Hessian that is not free as the weakest direction seen needs."""
        assert self.yardstick is not None
        self.hessian_share = self.most_share
        plan = self.source.plan(self.budget(self.mu * FULL**0.5))  # at the largest scale
        noise = self.floor(plan.receipts[1].noise_scale) * self.objective.scale / self.unit
        weakest = float(eigh(self.yardstick.value)[0][0])
        if SHARE_OF_HESSIAN * noise < self.most_share * weakest:
            return max(SHARE_OF_HESSIAN * noise / weakest, LEAST_SHARE)
        return self.most_share

    def budget(self, mu: float, meat: float = 0.0) -> StepBudget:
        """That of a full answer."""
        return divided(self.constants, mu, "hessian", meat=meat, share=self.hessian_share)

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
        if self.dealing is None:
            return False
        reach = self.objective.weighting.radius * float(np.linalg.norm(direction))
        return not reach <= self.unit

    def last(self, inference: bool) -> None:
        """Spend what is left on one more answer."""
        mu, meat = self.mu * self.left**0.5, meat_share(self.objective) if inference else 0.0
        fresh = self.fresh_block()
        self.alone = fresh is not None
        if fresh is None:
            answer = self.source.joint(self.theta, self.budget(mu, meat))
            gradient, curvature, self.meat, _ = answer
        else:
            half = MEAT_OF_BLOCK if inference else 0.0
            curvature, self.meat = self.curvature(fresh, self.theta, self.block_mu, half)
            gradient = self.source.joint(self.theta, divided(self.constants, mu, None)).gradient
        self.last_gradient = gradient
        self.answered(gradient, curvature)

    def answered(self, gradient: Answer, curvature: Answer) -> Step:
        """Remember a full answer; the step it asks for."""
        slope, hessian = self.penalised(gradient, curvature)
        scales = gradient.noise_scale, curvature.noise_scale
        self.answers.append(FullAnswer(self.theta, slope, scales[0], hessian, scales[1], curvature))
        own = curvature is self.yardstick
        step = self.step(self.theta, slope, hessian, *scales, LONGEST, own)
        self.cuts.append(step.length == math.inf)
        return step

    # ---- what the answers say together ----------------------------------------------------------

    def combined(self, inference: bool) -> Trajectory:
        """Average where each full answer would have gone, by precision."""
        answers, p = self.answers, len(self.theta)
        end = answers[-1]
        near = self.near_the_end()
        precisions = [answer.hessian_scale**-2.0 for answer in near]
        hessian = weighted_mean([answer.hessian for answer in near], precisions)
        scale = sum(precisions) ** -0.5
        ends = []
        for answer in answers[:-1]:  # the mean of both curvatures: right to third order
            between = weighted_mean((answer.hessian, hessian), (0.5, 0.5))
            both = 0.5 * math.hypot(answer.hessian_scale, scale)
            own, slope = answer.gradient_scale, answer.gradient
            step = self.step(answer.theta, slope, between, own, both, LONGEST)
            ends.append(answer.theta - step.direction)
        final = self.step(end.theta, end.gradient, hessian, end.gradient_scale, scale, LONGEST)
        direction, inverse = final.direction, final.inverse
        ends.append(end.theta - direction)
        meat = floor_eigenvalues(self.meat.value, 0.0)[0] if inference else np.zeros((p, p))
        weights = self.weights(ends, inverse, meat)
        counted = self.counted(end.theta)
        weights = [w * own for w, own in zip(weights, counted, strict=True)]
        theta = self.bounded(weighted_mean(ends, weights))
        self.iterates.append(theta)
        if self.progress is not None:
            self.progress(MOST_STEPS, MOST_STEPS)
        # noise of the gradients, and of the curvature, at which the mean error is this
        scales = [w * a.gradient_scale for w, a in zip(weights, answers, strict=True)]
        own = (math.hypot(*scales) / sum(weights)) ** 2
        noise = noise_of_step(inverse, end.theta - theta, own, scale**2)
        total = noise + congruence(inverse, meat) / self.source.n
        hidden = self.hidden(hessian, scale, theta, weights)
        late = self.dealing is not None and (
            not self.arrived
            or self.bends(direction)
            or not self.explained(direction, inverse, self.source.n)
        )
        spread_out = math.sqrt(max(0.0, float(np.vdot(self.measure, total)) / self.mean_weight))
        long = final.length > LATE and (final.hides or final.length > 3.0 * spread_out)
        found = Arrival(noise, np.zeros(p), bool(long or any(self.cuts[-2:]) or late))
        if hidden is not None:
            found = found.beside(hidden, total)
        if inference:
            clipped = self.clips_many(inverse, meat)
            found = found._replace(outside=self.outside(), clipped=clipped)
        curvatures = [answer.curvature for answer in near]
        asked_last = JointAnswer(self.last_gradient, end.curvature, self.meat, self.mu)
        return Trajectory(theta, self.iterates, asked_last, curvatures, found)

    def clips_many(self, inverse: Array, meat: Array) -> bool:
        """Whether counts vary by so much more than Poisson's that clipping them must tell."""
        if self.objective.loss.link != "log":
            return False
        dispersion = float(np.vdot(inverse, meat)) / len(inverse)
        variance = dispersion * 0.5 * self.objective.loss.psi_prime_bound
        most = self.objective.loss.psi_bound
        return dispersion > DISPERSED and most < CLIPPED * math.sqrt(variance)

    def near_the_end(self) -> list[FullAnswer]:
        """The answers whose curvatures are that at the end but for their noise, the last first."""
        *before, end = self.answers
        near, measure, most = [end], self.measure, ARRIVED**2 * self.mean_weight
        for answer in () if self.alone else reversed(before):
            apart = answer.theta - end.theta
            if not (apart.dot(measure).dot(apart) > most or self.bends(apart)):
                near.append(answer)
        return near

    def weights(self, ends: list[Array], inverse: Array, meat: Array) -> list[float]:
        """Weights of where the answers would have gone, by precision.

        After blocks the first answers are further from the end than their noise alone explains.
        """
        variances = [answer.gradient_scale**2 for answer in self.answers]
        if self.block_curvature is not None:
            p, squared = len(inverse), inverse @ inverse
            middle = meat / self.source.n + variances[-1] * np.eye(p)
            precision = np.linalg.pinv(inverse @ middle @ inverse, hermitian=True)
            own = float((precision * squared).sum())
            apart = [float((end - ends[-1]) @ precision @ (end - ends[-1])) for end in ends]
            seen = [far - variances[-1] * own for far in apart]
            variances = [max(v * own, s) for v, s in zip(variances, seen, strict=True)]
        return [1.0 / variance for variance in variances]

    def counted(self, end: Array) -> list[bool]:
        """Which answers are near enough to the last one for where they would have gone to count."""
        return [True] * len(self.answers)

    def outside(self) -> bool:
        """Whether something that is estimated is beyond what is public of it."""
        return False

    def hidden(
        self, hessian: Array, scale: float, theta: Array, weights: list[float]
    ) -> Hidden | None:
        """What noise hides of a curvature with this noise; None where no step felt a floor."""
        floors = [self.floor(answer.hessian_scale) for answer in self.answers]
        ends = [
            self.floor(0.5 * math.hypot(answer.hessian_scale, scale))
            for answer in self.answers[:-1]
        ]
        smallest = float(eigh(hessian)[0][0]) - 2.0 * scale
        if smallest >= max(floors + self.early_floors):
            return None
        seen = [
            FloorOfStep(*of) for of in zip(floors, [*ends, self.floor(scale)], weights, strict=True)
        ]
        gradients = [(answer.gradient, answer.gradient_scale) for answer in self.answers]
        travelled = theta - self.iterates[0]
        return hidden_directions(
            (hessian, scale), self.floor(scale), self.early_floors, seen, travelled, gradients
        )

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
        self,
        theta: Array,
        gradient: Array,
        hessian: Array,
        scale: float,
        hessian_scale: float,
        longest: float,
        own: bool = False,
    ) -> Step:
        """The step that an answer at a parameter asks for, no longer than ``longest``.

        ``own`` says that its curvature is what measures lengths.
        """
        floor = self.floor(hessian_scale)
        measure = None if own and not self.objective.ridge else self.measure
        unit = self.mean_weight
        direction, length, lowest, inverse = measured_step(
            hessian, gradient, floor, measure, unit, scale, longest
        )
        return step_of((direction, length, not lowest > floor, inverse))

    def measure_by(self, curvature: Answer) -> None:
        """Measure lengths by a curvature from now on."""
        self.yardstick, self._measure = curvature, None

    @property
    def measure(self) -> Array:
        """The squared length of d is ``d' measure d / mean_weight``."""
        if self._measure is None:
            assert self.yardstick is not None
            self._measure = self.floored(self.yardstick)
        return self._measure

    def bounded(self, theta: Array) -> Array:
        """A parameter, within what is public of it."""
        return theta

    def length_of(self, direction: Array) -> float:
        """How far it changes the linear predictor, root mean square."""
        squared = float(direction.dot(self.measure).dot(direction)) / self.mean_weight
        return math.sqrt(max(0.0, squared))


def arrive(
    source: Answers,
    start: Array,
    mu: float,
    inference: bool,
    blocks: bool,
    progress: Callable[[int, int], None] | None = None,
    kind: type[Run] = Run,
) -> Trajectory:
    """Spend ``mu`` on the way from ``start`` to the estimate.

    Post-processing of the answers, which charge their ledger; the budgets depend on released
    answers and add up to the total whatever these are (claim C9).
    """
    run = kind(source, start, mu, progress)
    early = run.early_in_blocks if blocks else run.early
    early()
    run.until_arrived()
    run.last(inference)
    return run.combined(inference)
