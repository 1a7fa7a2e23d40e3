"""Noisy Newton's method (eq. (9), Avella-Medina et al. 2023), safe from any start.

Unlike the paper's, early steps use the *majorising* curvature ``psi(r)/r``.  Its full steps
decrease the loss from any start (Huber 1981, section 7.8; Boehning and Lindsay 1988).  The budget
goes mostly to the last steps, which are damped.
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

#: Length of a last step, in log odds or residual scales, above which a fit warns: the curvature
#: changes within such a step.  Measured on 200 logistic designs: the step was longer, or a
#: direction too noisy, in 97% of the fits that missed in designs that under-cover.  It was so in 3%
#: of the fits in designs that cover.
LONGEST = 0.4

#: Standard deviations of its noise above which a coefficient's last step counts as an error that
#: is left; below, it may be noise.
SIGNIFICANT_SDS = 3.5

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

#: Bound on residuals, in standard deviations of counts whose mean is half the cap, below which
#: clipping biases their means.
MIN_BOUND_SDS = 3.0

#: Variance over mean of the counts above which a fit warns of that bias: Poisson counts have 1.
OVERDISPERSED = 1.5


class Steps(NamedTuple):
    """Details of a run; each list has one entry per step, in their order."""

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
    """Return the spectral norm of a Hessian's noise for the whole mu, relative to ``Bbar / p``."""
    return float(2.0 * objective.dimension**1.5 / (n * mu))


@dataclass(eq=False, repr=False, kw_only=True)
class Newton(Method):
    """Settings of the noisy Newton method; all public.

    Equation (9) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    newton_steps : int, optional
        Number of last steps that use the Hessian itself; default: :meth:`hessian_steps`, from
        public numbers.  The paper's method uses it in all steps.  The majorising curvature suffers
        less from noise and has the same fixed point, but converges slowly where events are rare.
    gradient_steps : int
        Number of first steps that are gradient descent with step size ``1 / smoothness``
        (Remark 7 of the paper).  The steps in between majorise.
    step : StepRule, optional
        Rule for the step size; :class:`~dpfast.optimize.damping.AveragingTail` by default.
    floor : float
        Public floor on the eigenvalues of the noisy Hessian.  The floor actually used is never
        below the noise level ``2 * noise_scale * sqrt(p)``.
    max_step : float, optional
        Public cap on the length of a step (trust region).  The default ``1e3 * scale`` only keeps
        iterates finite.  For losses with a link it is ``max(sqrt(p), 0.05/l)/R``, with the radius R
        of the weighting and the noise level ``l = 2 p^1.5/(n mu)``.  Where a noisy Hessian is poor,
        longer steps are noise.  They change the log odds, or log means, of rows with covariates of
        about ``R/sqrt(p)`` by much more than 1.
    early_ridge : float
        Public ridge penalty of the first steps (two-phase method).  The Hessian's steps, the tail
        and the full step before it have none.
    stop : float
        End early, as for figure 6 of the paper: after a released gradient that is shorter than this
        many expected norms of its noise, the next step is the last.  It has the budget of the steps
        left out.  0, the default, takes all steps.
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
    stop: float = 0.0

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
        self.stop = positive(self.stop, "stop", or_zero=True)

    @property
    def needs(self) -> frozenset[str]:
        """A Hessian, and the needs of the step rule."""
        return frozenset({"curvature"}) | self.step.needs

    @property
    def steering_share(self) -> float:
        """Part of the total ``mu^2`` that the step rule spends on queries of its own."""
        return self.step.share

    def hessian_steps(self, objective: Objective, n: int, mu: float) -> int:
        """Choose the number of last steps with the Hessian, from public constants: 2, 4 or 8.

        Majorising steps of a logistic regression shrink the error of rare events by a few percent
        each, so that only the Hessian's steps converge.  Noisy Hessians cost a little instead.  The
        limits are those at which error and coverage were best, for p = 2 to 12.  The designs were
        logistic with 50% to 0.5% of ones (steep, correlated, with dummies), and robust with far
        intercepts.
        """
        if not isinstance(self.step, AveragingTail):
            return 2
        if not objective.loss.binary_response:
            # majorising steps of counts are short
            return 8 if objective.loss.link == "log" else 4
        level = curvature_noise(objective, n, mu)
        if level <= 0.001:
            return 8
        return 4 if level <= 0.005 or objective.dimension >= 8 else 2

    def curvatures(self, objective: Objective, n: int, mu: float, n_steps: int) -> tuple[str, ...]:
        """Choose the curvature each step releases: "none", "majorizer" or "hessian"."""
        if self.newton_steps is None:  # at most two thirds: majorising steps have to come first
            automatic = self.hessian_steps(objective, n, mu)
            newton = max(min(2, n_steps), min(automatic, 2 * n_steps // 3))
        else:
            newton = min(self.newton_steps, n_steps)
        gradient = min(self.gradient_steps, n_steps - newton)
        majorizing = n_steps - gradient - newton
        return ("none",) * gradient + ("majorizer",) * majorizing + ("hessian",) * newton

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Choose the number of steps and the schedule, from public constants only.

        With more coefficients the weakest direction of correlated covariates is weaker.  More early
        steps are then needed, and more of the budget for them.  Chosen on the designs of
        bench/schedules.py and bench/coverage.py.
        """
        if isinstance(self.step, AveragingTail):
            p = objective.dimension
            tail = self.step.length
            early = 30 if p >= 35 else 17 if p >= 8 else 8  # steps before the tail
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
        """Refuse, from public numbers, a run that would be refused; costs nothing."""
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
        run = _NewtonRun(self, answers, budgets)
        start = run.objective.project(start)
        iterates, received, taken = run_steps(
            answers, start, budgets, progress, run.step, self.stop
        )
        hessians = _hessians(received)
        details = Steps(
            step_sizes=[run.step_sizes[k] for k in taken],
            gradient_scales=[answer.gradient.noise_scale for answer in received],
            hessians=hessians,
            inverses=run.inverses,
            early_ridges=[run.early_ridges[k] for k in taken],
            curvature_change=_curvature_change(received, run.smallest_eigenvalue),
            yardstick=_yardstick(run.objective, received, iterates[-2]),
            objective=run.objective,
            n=answers.n,
        )
        pooled = hessians[: _settled(details.step_sizes)]
        return Trajectory(iterates[-1], iterates, received[-1], pooled, details)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """Propagate the noise through the very matrices the steps used; warn by the last step.

        The start's error that the steps did not remove is not noise.  It is unknown all the same,
        and counts as variance along its one direction.
        """
        run: Steps = trajectory.details
        ridge = curvature.ridge
        noise = _replayed_noise(run, curvature.floored(), ridge)
        unfinished, remarks = _last_step(trajectory, noise, ridge)
        if clips_many(run.objective, run.inverses[-1], trajectory.final.meat.value):
            remarks += (CLIPPED,)
        if outside(run.objective, run.n, trajectory.iterates, trajectory.final):
            remarks += (OUTSIDE,)
        start_error = _start_left(trajectory, curvature.floored(), ridge)
        noise = noise + np.outer(start_error, start_error)
        if LONG_STEP in remarks:  # the next step may be as long, along the same direction
            last_step = trajectory.iterates[-1] - trajectory.iterates[-2]
            noise += np.outer(last_step, last_step)
        return PrivacyNoise(noise, unfinished, remarks)

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
        if self.stop:
            parts.append(f"stop={self.stop:g}")
        return parts


class _NewtonRun:
    """Steps of one run; each is computed from an answer, and its size and inverse are recorded."""

    def __init__(self, method: Newton, answers: Answers, budgets: Budgets) -> None:
        objective: Objective = answers.objective
        self.answers = answers
        self.objective = objective
        self.budgets = budgets
        self.rule = method.step.start(objective, budgets.steering_mu)
        self.floor = method.floor
        self.max_step = method.max_step or _default_max_step(objective, answers.n, budgets)
        self.step_sizes = self.rule.planned(len(budgets))
        self.early_ridges = _early_ridges(method.early_ridge, budgets, self.rule)
        self.inverses: list[Array] = []
        self.smallest_eigenvalue = 1.0  # of the last curvature

    def step(self, k: int, theta: Array, answer: JointAnswer) -> Array:
        """Return the iterate after step k."""
        early_ridge = self.early_ridges[k]
        ridge = self.objective.ridge + early_ridge
        gradient = answer.gradient.value
        if ridge:
            gradient = gradient + ridge * theta
        if self.budgets[k].hessian:
            direction = self._newton_direction(k, theta, gradient, answer)
        else:
            self.step_sizes[k] = 1.0
            direction = gradient / (self.objective.smoothness_at(theta) + early_ridge)
        if self.objective.free_scale is not None:
            return moved(self.objective, theta, self.step_sizes[k] * direction, self.max_step)
        return capped_step(theta, direction, self.step_sizes[k], self.max_step)

    def _newton_direction(
        self, k: int, theta: Array, gradient: Array, answer: JointAnswer
    ) -> Array:
        """Solve for the direction, and record the curvature's inverse and the step size."""
        objective = self.objective
        hessian = with_ridge(answer.hessian.value, objective.ridge + self.early_ridges[k])
        floor = max(self.floor, 2.0 * answer.hessian.noise_scale * len(theta) ** 0.5)
        if objective.free_scale is None:
            solution = floored_step(hessian, gradient, floor)
        elif self.budgets[k].majorize:
            solution = majorized(objective, theta, gradient, answer, self.floor)
        else:
            solution = within(objective, theta, gradient, hessian, floor)
        direction, eigenvalues, inverse = solution
        self.inverses.append(inverse)
        self.smallest_eigenvalue = float(eigenvalues[0])
        if self.rule.adaptive:
            situation = Situation(
                answers=self.answers,
                theta=theta,
                gradient=gradient,
                direction=direction,
                eigenvalues=eigenvalues,
                gradient_scale=answer.gradient.noise_scale,
                step=k,
                n_steps=len(self.budgets),
            )
            self.step_sizes[k] = self.rule.step_size(situation)
        return np.asarray(direction)


def _early_ridges(ridge: float, budgets: Budgets, rule: StepRule) -> list[float]:
    """Return the extra ridge of each step: none for Hessians, the tail and the step before it."""
    n_steps = len(budgets)
    newton_steps = sum(1 for budget in budgets if budget.hessian and not budget.majorize)
    n_early = max(0, n_steps - max(newton_steps, rule.tail(n_steps) + 1))
    return [ridge] * n_early + [0.0] * (n_steps - n_early)


def _default_max_step(objective: Objective, n: int, budgets: Sequence[StepBudget]) -> float:
    """Choose the cap on a step's length; see the parameter ``max_step``."""
    if objective.loss.link == "identity":
        return 1e3 * objective.scale
    spent = math.hypot(*[budget.gradient for budget in budgets])
    log_odds = max(objective.dimension**0.5, 0.05 / curvature_noise(objective, n, spent))
    return log_odds / objective.weighting.radius


def _yardstick(objective: Objective, answers: list[JointAnswer], theta: Array) -> Array:
    """Estimate ``E w x x'``: in this norm a step's squared length is its change of the log odds."""
    if objective.loss.link == "log":
        released = (answer.hessian for answer in answers if answer.hessian.noise_scale)
        return next(released, answers[-1].hessian).value / objective.loss.psi_prime_bound
    if objective.loss.binary_response:
        released = (answer.hessian for answer in answers if answer.hessian.noise_scale)
        return 4.0 * next(released, answers[-1].hessian).value
    return answers[-1].hessian.value / objective.scale_at(theta)


def clips_many(objective: Objective, inverse: Array, meat: Array) -> bool:
    """Test whether counts are so overdispersed that clipping their residuals biases the means."""
    if objective.loss.link != "log" or not meat.size:  # where no intervals were asked for
        return False
    dispersion = float(np.vdot(inverse, meat)) / len(inverse)
    variance = dispersion * 0.5 * objective.loss.psi_prime_bound
    return dispersion > OVERDISPERSED and objective.loss.psi_bound < MIN_BOUND_SDS * variance**0.5


def _curvature_change(answers: list[JointAnswer], smallest: float) -> float:
    """Estimate the part of an error that the last step left: its Hessian's relative error."""
    if len(answers) < 2 or answers[-2].hessian.noise_scale == 0.0:
        return 1.0
    previous, last = answers[-2].hessian, answers[-1].hessian
    p = last.value.shape[0]
    squared_change = float(((last.value - previous.value) ** 2).sum())
    previous_noise = previous.noise_scale * previous.noise_scale * p * (p + 1) / 2
    last_noise = last.noise_scale * last.noise_scale * p * (p + 1) / 2
    return float(max(squared_change - previous_noise, last_noise) ** 0.5 / smallest)


def _hessians(answers: Sequence[JointAnswer]) -> list[Answer]:
    """Return the Hessians of the last steps, after majorising ones; the final one comes first."""
    hessians = [answers[-1].hessian]
    for answer in reversed(answers[:-1]):
        if answer.hessian.receipt.query != "hessian":
            break
        hessians.append(answer.hessian)
    return hessians


def _settled(step_sizes: list[float]) -> int:
    """Return the number of last steps in the damped tail, where the path had converged."""
    damped = 0
    for size in reversed(step_sizes):
        if size == 1.0:
            break
        damped += 1
    return max(2, min(damped, len(step_sizes) // 3))


def _used(run: Steps, inverses: list[Array], hessian: Matrix, ridge: float) -> list[Matrix]:
    """Estimate the Hessian at each step; for majorising steps, at most their own curvature."""
    first = len(run.step_sizes) - len(inverses)  # after steps along the gradient
    majorised = len(inverses) - len(run.hessians)
    used = [_below(inverse, hessian) for inverse in inverses[:majorised]]
    used += [with_ridge(released.value, ridge) for released in reversed(run.hessians)]
    if any(run.early_ridges):
        extra_ridges = run.early_ridges[first:]
        used = [with_ridge(matrix, extra) for matrix, extra in zip(used, extra_ridges, strict=True)]
    return used


def _below(inverse: Matrix, hessian: Matrix) -> Matrix:
    """Bound a Hessian by the majorising curvature whose inverse is given."""
    values, vectors = eigh(inverse)
    root = vectors * np.sqrt(values)
    ratios, rotation = eigh(root.T @ hessian @ root)
    if ratios[-1] <= 1.0:
        return hessian
    basis = vectors / np.sqrt(values) @ rotation
    return np.asarray((basis * np.minimum(ratios, 1.0)) @ basis.T)


def _start_left(trajectory: Trajectory, hessian: Matrix, ridge: float) -> Array:
    """Estimate the start's error that remains: ``M e``, where ``(I - M) e`` was travelled."""
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
    """Compute the covariance of the privacy noise, through the very matrices the steps used."""
    first = len(run.step_sizes) - len(run.inverses)  # after steps along the gradient
    majorised = len(run.inverses) - len(run.hessians)
    scales = [0.0] * majorised + [released.noise_scale for released in reversed(run.hessians)]
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
    """Estimate the error that the last step left, and warn where it was long.

    Returns
    -------
    unfinished : ndarray of shape (p,)
    remarks : tuple of str
    """
    run: Steps = trajectory.details
    inverse = run.inverses[-1]
    gradient = trajectory.final.gradient
    theta = trajectory.iterates[-2]
    size = run.step_sizes[-1]
    full_step = inverse @ (gradient.value + ridge * theta)
    step = theta - trajectory.theta
    # Variance of the step: of this answer's noise, and of the iterate it started from.  The
    # variance of the reported iterate is made of both.
    step_variance = gradient.noise_scale**2 * (inverse**2).sum(axis=1)
    earlier = np.maximum(noise.diagonal() - size**2 * step_variance, 0.0)
    start_variance = earlier / max(1.0 - size, 0.1) ** 2
    significant = np.abs(full_step) > SIGNIFICANT_SDS * np.sqrt(step_variance + start_variance)
    error = np.abs(full_step - step) + min(1.0, run.curvature_change) * np.abs(step)
    squared_length = float(full_step @ run.yardstick @ full_step)
    return significant * error, () if squared_length <= LONGEST**2 else (LONG_STEP,)
