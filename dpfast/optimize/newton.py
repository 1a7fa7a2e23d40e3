"""Noisy Newton's method (eq. (9), Avella-Medina et al. 2023), safe from any start.

Unlike the paper's, early steps use the *majorising* curvature ``psi(r)/r``, whose full steps
decrease the loss from any start; the budget goes mostly to the last steps, which are damped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive, whole_number
from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.kernels.linalg import capped_step, eigh, floored_step, noise_after_steps
from dpfast.models import Objective
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.damping import AveragingTail, Situation, StepRule
from dpfast.optimize.propagation import Curvature, Matrix, PrivacyNoise
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.scale_steps import OUTSIDE, majorized, moved, outside, within
from dpfast.optimize.schedules import Geometric, Schedule
from dpfast.optimize.trajectory import Trajectory, run_steps, with_ridge

Array = NDArray[np.float64]

#: Length of a last step, in log odds or scales, above which curvatures change within it.  Measured:
#: of 200 logistic designs, 97% of the fits that missed in those that under-cover were longer or
#: had a hidden direction, and 3% of the fits in those that cover.
LONGEST = 0.4

#: Standard deviations by which a coefficient of the last step must stand out of its noise.
VISIBLE = 3.5

LONG_STEP = (
    "the last step would still have moved the linear predictor by more than 0.4 (log odds, or "
    "residual scales): the estimate has not settled and the intervals may not cover. Use more "
    "records, a larger budget, or a start nearer the solution."
)

CLIPPED = (
    "the counts vary by much more than Poisson ones with these means, and residuals are clipped "
    "where many of them are: means are estimated too low, the intercept above all. Pass a larger "
    "largest_residual, about five standard deviations of the most variable counts."
)

#: Standard deviations of counts whose mean is half the cap, up to which they may be clipped; and
#: variances in means, from which on it is said.
FEW_DEVIATIONS, DISPERSED = 3.0, 1.5


class Steps(NamedTuple):
    """A run; what stands for each step comes in their order."""

    step_sizes: list[float]
    gradient_scales: list[float]
    hessians: list[Answer]
    inverses: list[Array]
    early_ridges: list[float]
    curvature_change: float
    yardstick: Array
    objective: Objective
    n: int


def curvature_noise(objective: Objective, n: int, mu: float) -> float:
    """Spectral norm of a Hessian's noise at the whole budget, relative to ``Bbar / p``."""
    return float(2.0 * objective.dimension**1.5 / (n * mu))


@dataclass(eq=False, repr=False, kw_only=True)
class Newton(Method):
    """Settings of the noisy Newton method; all public.

    Equation (9) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    newton_steps : int, optional
        How many of the last steps use the Hessian itself; default: :meth:`hessian_steps`, from
        public numbers.  The paper's method uses it in all.  The majorising curvature suffers less
        from noise and has the same fixed point, but creeps towards it where events are rare.
    gradient_steps : int
        How many of the first steps are gradient descent with step size ``1 / smoothness``
        (Remark 7 of the paper).  The steps in between majorise.
    step : StepRule, optional
        How far to go along each direction; :class:`~dpfast.optimize.damping.AveragingTail` by
        default.
    floor : float
        Public floor on the eigenvalues of the noisy Hessian.  The floor actually used is never
        below the noise level ``2 * noise_scale * sqrt(p)``.
    max_step : float, optional
        Public cap on the length of a step (trust region).  Default: ``1e3 * scale``, which
        only keeps iterates finite; for losses with a link ``max(sqrt(p), 0.05/l)/R``, with the
        radius R of the weighting and the noise level ``l = 2 p^1.5/(n mu)``: where a noisy Hessian
        is poor, steps that change log odds, or logs of means, of rows with covariates of about
        ``R/sqrt(p)`` by much more than 1 are noise.
    early_ridge : float
        Public ridge penalty of the first steps (two-phase method): of all but the Hessian's,
        the tail and the full step before it.
    steps, schedule, start
        As for :class:`dpfast.optimize.Method`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective, method = dpfast.Objective("log-cosh", scale=1.0), dpfast.optimize.Newton()
    >>> dpfast.fit(X, y, objective, privacy=2.0, method=method).names
    ('intercept', 'x1')
    """

    name = "newton"

    newton_steps: int | None = None
    gradient_steps: int = 0
    step: StepRule = field(default_factory=AveragingTail)
    floor: float = 0.0
    max_step: float | None = None
    early_ridge: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.newton_steps is not None:
            self.newton_steps = whole_number(
                self.newton_steps, "newton_steps", otherwise=", or None"
            )
        if self.max_step is not None:
            self.max_step = positive(self.max_step, "max_step")
        self.gradient_steps = whole_number(self.gradient_steps, "gradient_steps")
        self.floor = positive(self.floor, "floor", or_zero=True)
        self.early_ridge = positive(self.early_ridge, "early_ridge", or_zero=True)

    @property
    def needs(self) -> frozenset[str]:
        """A Hessian, and what the step rule needs."""
        return frozenset({"curvature"}) | self.step.needs

    @property
    def steering_share(self) -> float:
        """Part of the total ``mu^2`` that the step rule spends on queries of its own."""
        return self.step.share

    def hessian_steps(self, objective: Objective, n: int, mu: float) -> int:
        """How many of the last steps use the Hessian by default, from public constants: 2, 4 or 8.

        Majorising steps of a logistic regression shrink the error of rare events by a few percent
        each, and only the Hessian's arrive; noisy Hessians cost a little instead.  The limits are
        those at which error and coverage were best on logistic designs with 50% to 0.5% of ones,
        steep, correlated and with dummies, and robust ones with far intercepts, p = 2 to 12.
        """
        if not isinstance(self.step, AveragingTail):
            return 2
        if not objective.loss.binary_response:
            return 8 if objective.loss.link == "log" else 4  # whose majorising steps are short
        level = curvature_noise(objective, n, mu)
        if level <= 0.001:
            return 8
        return 4 if level <= 0.005 or objective.dimension >= 8 else 2

    def curvatures(self, objective: Objective, n: int, mu: float, n_steps: int) -> tuple[str, ...]:
        """What each step releases beside the gradient: "none", "majorizer" or "hessian"."""
        if self.newton_steps is None:  # and never so many that few steps are left to get near
            automatic = self.hessian_steps(objective, n, mu)
            newton = max(min(2, n_steps), min(automatic, 2 * n_steps // 3))
        else:
            newton = min(self.newton_steps, n_steps)
        gradient = min(self.gradient_steps, n_steps - newton)
        majorizing = n_steps - gradient - newton
        return ("none",) * gradient + ("majorizer",) * majorizing + ("hessian",) * newton

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Number of steps and schedule, from public constants only.

        The more coefficients, the weaker the weakest direction of correlated covariates, the more
        early steps it takes to get near, and the more of the budget they need.  Chosen on the
        designs of bench/schedules.py and bench/divergence.py.
        """
        if isinstance(self.step, AveragingTail):
            p, tail = objective.dimension, self.step.length
            early = 30 if p >= 35 else 17 if p >= 8 else 8
            ratio = min(10.0, 1.0 / (1.0 - self.step.tail_step_size))
            share = 0.1 if early == 8 else 0.25
        else:
            early, tail, share = 6, 2, 0.1
            level = curvature_noise(objective, n, mu)
            if objective.loss.binary_response:
                level *= 2.0  # p(1 - p) is well below its bound of 1/4 almost everywhere
            ratio = min(10.0, max(2.0, 0.16 / level))
        return early + tail + self.gradient_steps, Geometric(ratio=ratio, uniform_share=share)

    def check(self, answers: Answers, budgets: Budgets) -> None:
        """Refuse, from public numbers, what :meth:`run` would be refused for; costs nothing."""
        self.step.start(answers.objective, budgets.steering_mu).check(answers)

    def run(
        self,
        answers: Answers,
        start: Array,
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the meat.

        Privacy
        -------
        Post-processing of the curator's answers, which charge their own ledger.
        """
        objective: Objective = answers.objective
        rule = self.step.start(objective, budgets.steering_mu)
        max_step = self.max_step
        if max_step is None:
            max_step = _default_max_step(objective, answers.n, budgets)
        inverses: list[Array] = []
        n_steps, root_p, smallest_floor = len(budgets), len(start) ** 0.5, self.floor
        newton_steps = sum(1 for budget in budgets if budget.hessian and not budget.majorize)
        phase_one = max(0, n_steps - max(newton_steps, rule.tail(n_steps) + 1))
        early_ridges = [self.early_ridge] * phase_one + [0.0] * (n_steps - phase_one)
        step_sizes, public_ridge = rule.planned(n_steps), objective.ridge
        free = objective.free_scale is not None
        smallest = 1.0  # eigenvalue of the last curvature

        def step(k: int, theta: Array, answer: JointAnswer) -> Array:
            nonlocal smallest
            (slope, noise_scale, _), (hessian, curvature_scale, _), _, _ = answer
            ridge = public_ridge + early_ridges[k]
            if ridge:
                slope = slope + ridge * theta
            if not budgets[k].hessian:
                step_sizes[k] = 1.0
                direction = slope / (objective.smoothness_at(theta) + early_ridges[k])
            else:
                floor = max(smallest_floor, 2.0 * curvature_scale * root_p)
                if ridge:
                    hessian = with_ridge(hessian, ridge)
                if not free:
                    taken = floored_step(hessian, slope, floor)
                elif budgets[k].majorize:
                    taken = majorized(objective, theta, slope, answer, smallest_floor)
                else:
                    taken = within(objective, theta, slope, hessian, floor)
                direction, eigenvalues, inverse = taken
                inverses.append(inverse)
                smallest = float(eigenvalues[0])
                if rule.adaptive:
                    seen = (theta, slope, direction, eigenvalues, noise_scale, k, n_steps)
                    step_sizes[k] = rule.step_size(Situation(answers, *seen))
            if free:
                return moved(objective, theta, step_sizes[k] * direction, max_step)
            return capped_step(theta, direction, step_sizes[k], max_step)

        start = objective.project(start)
        iterates, received = run_steps(answers, start, budgets, progress, step)
        hessians = _hessians(received)
        details = Steps(
            step_sizes=step_sizes,
            gradient_scales=[answer.gradient.noise_scale for answer in received],
            hessians=hessians,
            inverses=inverses,
            early_ridges=early_ridges,
            curvature_change=_curvature_change(received, smallest),
            yardstick=_yardstick(objective, received, iterates[-2]),
            objective=objective,
            n=answers.n,
        )
        pooled = hessians[: _settled(step_sizes)]
        return Trajectory(iterates[-1], iterates, received[-1], pooled, details)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """Through the very matrices the steps used; what the last step says is remarked on.

        What steps have left of the start's error is not noise, but as little can be told from it:
        it counts as variance, along the one direction it has.
        """
        run, ridge = trajectory.details, curvature.ridge
        noise = _replayed_noise(run, curvature.floored(), ridge)
        unfinished, said = _last_step(trajectory, noise, ridge)
        if clips_many(run.objective, run.inverses[-1], trajectory.final.meat.value):
            said += (CLIPPED,)
        if outside(run.objective, run.n, trajectory.iterates, trajectory.final):
            said += (OUTSIDE,)
        left = _start_left(trajectory, curvature.floored(), ridge)
        noise = noise + np.outer(left, left)
        if LONG_STEP in said:  # as much again may be left, along the direction that it has
            last = trajectory.iterates[-1] - trajectory.iterates[-2]
            noise += np.outer(last, last)
        return PrivacyNoise(noise, unfinished, said)

    def _description(self, curvatures: Sequence[str], schedule: Schedule) -> str:
        decided = copy(self)
        decided.newton_steps = curvatures.count("hessian")
        return Method._description(decided, curvatures, schedule)

    def settings(self) -> list[str]:
        parts = [] if self.newton_steps is None else [f"newton_steps={self.newton_steps}"]
        if self.gradient_steps:
            parts.append(f"gradient_steps={self.gradient_steps}")
        parts.append(f"step={self.step!r}")
        if self.early_ridge:
            parts.append(f"early_ridge={self.early_ridge:g}")
        return parts


def _default_max_step(objective: Objective, n: int, budgets: Sequence[StepBudget]) -> float:
    if objective.loss.link == "identity":
        return 1e3 * objective.scale
    spent = math.hypot(*[budget.gradient for budget in budgets])
    room = max(objective.dimension**0.5, 0.05 / curvature_noise(objective, n, spent))
    return room / objective.weighting.radius


def _yardstick(objective: Objective, answers: list[JointAnswer], theta: Array) -> Array:
    """``E w x x'``, in which the squared length of a step is what it changes the log odds by."""
    if objective.loss.link == "log":
        released = (answer.hessian for answer in answers if answer.hessian.noise_scale)
        return next(released, answers[-1].hessian).value / objective.loss.psi_prime_bound
    if objective.loss.binary_response:
        released = (answer.hessian for answer in answers if answer.hessian.noise_scale)
        return 4.0 * next(released, answers[-1].hessian).value
    return answers[-1].hessian.value / objective.scale_at(theta)


def clips_many(objective: Objective, inverse: Array, meat: Array) -> bool:
    """Whether counts vary by so much more than Poisson's that clipping them must tell."""
    if objective.loss.link != "log" or not meat.size:  # where no intervals were asked for
        return False
    dispersion = float(np.vdot(inverse, meat)) / len(inverse)
    variance = dispersion * 0.5 * objective.loss.psi_prime_bound
    return dispersion > DISPERSED and objective.loss.psi_bound < FEW_DEVIATIONS * variance**0.5


def _curvature_change(answers: list[JointAnswer], smallest: float) -> float:
    """Part of an error that the last step left: relative error of the Hessian it used."""
    if len(answers) < 2 or answers[-2].hessian.noise_scale == 0.0:
        return 1.0
    previous, last = answers[-2].hessian, answers[-1].hessian
    p = last.value.shape[0]
    total = float(((last.value - previous.value) ** 2).sum())
    noise_of_previous = previous.noise_scale * previous.noise_scale * p * (p + 1) / 2
    own_noise = last.noise_scale * last.noise_scale * p * (p + 1) / 2
    return float(max(total - noise_of_previous, own_noise) ** 0.5 / smallest)


def _hessians(answers: Sequence[JointAnswer]) -> list[Answer]:
    """The Hessians of the last steps, after majorising ones; the final one comes first."""
    found = [answers[-1].hessian]
    for answer in reversed(answers[:-1]):
        if answer.hessian.receipt.query != "hessian":
            break
        found.append(answer.hessian)
    return found


def _settled(step_sizes: list[float]) -> int:
    """How many of the last steps were taken where the path had settled: the damped tail."""
    damped = 0
    for size in reversed(step_sizes):
        if size == 1.0:
            break
        damped += 1
    return max(2, min(damped, len(step_sizes) // 3))


def _used(run: Steps, inverses: list[Array], hessian: Matrix, ridge: float) -> list[Matrix]:
    """The curvature that each step met: of majorising ones, whose own is above it, the last."""
    first = len(run.step_sizes) - len(inverses)  # after steps along the gradient
    majorised = len(inverses) - len(run.hessians)
    used = [_below(inverse, hessian) for inverse in inverses[:majorised]]
    used += [with_ridge(own.value, ridge) for own in reversed(run.hessians)]
    if any(run.early_ridges):
        early = run.early_ridges[first:]
        used = [with_ridge(matrix, more) for matrix, more in zip(used, early, strict=True)]
    return used


def _below(inverse: Matrix, hessian: Matrix) -> Matrix:
    """A curvature, no larger than the one whose inverse this is, as it was where that was asked."""
    values, vectors = eigh(inverse)
    root = vectors * np.sqrt(values)
    inner, turned = eigh(root.T @ hessian @ root)
    if inner[-1] <= 1.0:
        return hessian
    back = vectors / np.sqrt(values) @ turned
    return np.asarray((back * np.minimum(inner, 1.0)) @ back.T)


def _start_left(trajectory: Trajectory, hessian: Matrix, ridge: float) -> Array:
    """What is left of the start's error e: ``M e`` of ``(I - M) e`` travelled."""
    run: Steps = trajectory.details
    first = len(run.step_sizes) - len(run.inverses)
    sizes = run.step_sizes[first:]
    p = len(trajectory.theta)
    if not sizes:
        return np.zeros(p)
    majorised = len(sizes) - len(run.hessians)
    inverses = run.inverses[majorised - 1 : majorised] * majorised + run.inverses[majorised:]
    remaining = np.eye(p)
    for size, inverse, used in zip(
        sizes, inverses, _used(run, inverses, hessian, ridge), strict=True
    ):
        remaining -= size * inverse @ (used @ remaining)
    with np.errstate(all="ignore"):
        travelled = trajectory.iterates[first] - trajectory.theta
        error = np.linalg.lstsq(np.eye(p) - remaining, travelled, rcond=None)[0]
        return np.asarray(remaining @ error)


def _replayed_noise(run: Steps, hessian: Matrix, ridge: float) -> Matrix:
    """Covariance of the privacy noise, through the very matrices the steps used."""
    first = len(run.step_sizes) - len(run.inverses)  # after steps along the gradient
    majorised = len(run.inverses) - len(run.hessians)
    scales = [0.0] * majorised + [own.noise_scale for own in reversed(run.hessians)]
    return noise_after_steps(
        run.inverses,
        _used(run, run.inverses, hessian, ridge),
        run.step_sizes[first:],
        run.gradient_scales[first:],
        scales,
    )


def _last_step(
    trajectory: Trajectory, noise: Matrix, ridge: float
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """What the last step left undone, and what it says about the intervals."""
    inverse, answer = trajectory.details.inverses[-1], trajectory.final.gradient
    theta, size = trajectory.iterates[-2], trajectory.details.step_sizes[-1]
    step = inverse @ (answer.value + ridge * theta)
    taken = theta - trajectory.theta
    # Variance of the step: of this answer's noise, and of the iterate it started from, which is
    # what the reported one was made of.
    own = answer.noise_scale**2 * (inverse**2).sum(axis=1)
    before = np.maximum(noise.diagonal() - size**2 * own, 0.0) / max(1.0 - size, 0.1) ** 2
    visible = np.abs(step) > VISIBLE * np.sqrt(own + before)
    left = np.abs(step - taken) + min(1.0, trajectory.details.curvature_change) * np.abs(taken)
    length = float(step @ trajectory.details.yardstick @ step)
    return visible * left, (LONG_STEP,) if not length <= LONGEST**2 else ()
