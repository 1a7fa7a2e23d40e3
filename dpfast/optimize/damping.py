"""Step rules: the length of a step along a noisy Newton direction, from released numbers only."""

from __future__ import annotations

import math
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in, whole_number
from dpfast.curator.steps import curvature_receipt, difference_receipt
from dpfast.errors import InvalidInput, described
from dpfast.models import Bounded, Objective, Schweppe
from dpfast.optimize.protocol import Answers
from dpfast.privacy.rounding import ROUNDING_SUM


class Situation(NamedTuple):
    """State that a rule may use; all of it is released or public."""

    answers: Answers
    theta: NDArray[np.float64]
    gradient: NDArray[np.float64]
    direction: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    gradient_scale: float
    step: int = 0
    n_steps: int = 1


class StepRule:
    """Base of the rules.

    One object describes the rule; :meth:`start` begins a run of it.
    """

    #: Part of the total ``mu^2`` the rule spends on queries of its own.
    share: float = 0.0

    #: Needs of its own queries, as of :class:`~dpfast.optimize.Method`.
    needs: frozenset[str] = frozenset()

    #: Whether sizes depend on released numbers; otherwise :meth:`planned` returns all of them.
    adaptive: bool = True

    def start(self, objective: Objective, mu: float) -> StepRule:
        """Return a fresh copy for one run, with ``mu`` for the rule's own queries."""
        return self

    def check(self, answers: Answers) -> None:
        """Refuse, from public numbers, a run whose queries would be refused; free."""

    def step_size(self, situation: Situation) -> float:
        """Return the step size, in (0, 1]."""
        return self.planned(situation.n_steps)[situation.step]

    def tail(self, n_steps: int) -> int:
        """Return the number of last steps that only average noise."""
        return 0

    def planned(self, n_steps: int) -> list[float]:
        """Return the step sizes as far as they are known in advance, for forecasts."""
        return [1.0] * n_steps

    def _settings(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings()})"


class FullSteps(StepRule):
    """Pure Newton: every step has size one."""

    adaptive = False


class Damped(StepRule):
    """A fixed step size.

    Section 4.4.1 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).
    """

    adaptive = False

    def __init__(self, step_size: float) -> None:
        self._step_size = number_in(step_size, "step_size", "(0, 1]")

    def planned(self, n_steps: int) -> list[float]:
        return [self._step_size] * n_steps

    def _settings(self) -> str:
        return f"{self._step_size:g}"


class AveragingTail(StepRule):
    """Full steps, then damped ones that average the noise of their gradients.

    After a full step only its own noise remains, so nearly all of the budget would have to go to
    the last one.  A tail of steps of size ``s`` weighs the noise of the step j before the last by
    ``s (1 - s)^j``.  With budgets that grow by ``1/(1 - s)`` per step, the result has the noise of
    the whole budget spent at once (formulas page, section 2.1).  The error after the full steps is
    multiplied by ``(1 - s)^length``.

    Parameters
    ----------
    step_size : float in (0, 1)
        ``s``.
    length : int, optional
        Number of damped steps at the end, at most a third of the steps.  By default
        ``(1 - s)^length`` is just below 2%.
    """

    adaptive = False

    def __init__(self, step_size: float = 0.6, length: int | None = None) -> None:
        step_size = number_in(step_size, "step_size", "(0, 1)")
        if length is None:
            length = math.ceil(math.log(0.02) / math.log1p(-step_size))
        if length < 1:
            raise InvalidInput(f"length must be at least 1; received {described(length)}.")
        self.tail_step_size = step_size
        self.length = length

    def tail(self, n_steps: int) -> int:
        return min(self.length, n_steps // 3)

    def planned(self, n_steps: int) -> list[float]:
        tail = self.tail(n_steps)
        return [1.0] * (n_steps - tail) + [self.tail_step_size] * tail

    def _settings(self) -> str:
        return f"{self.tail_step_size:g}, {self.length}"


def _self_concordance(objective: Objective) -> float:
    """Return the self-concordance constant, or refuse an objective without one."""
    gamma = objective.self_concordance
    if gamma == math.inf:
        raise InvalidInput(
            f"{described(objective)} has no public self-concordance constant: Mallows weights "
            "bound ||x||^2 w, not ||x||, and Huber's losses have none. Use "
            "weights=dpfast.models.Schweppe(radius) or dpfast.Bounded(radius) and a "
            "self-concordant loss."
        )
    return gamma


class SelfConcordant(StepRule):
    """Adaptive damping ``log(1 + b)/b`` with ``b = gamma ||H^-1 G||``.

    Section 4.4.2 of paper 1 (Avella-Medina, Bradshaw and Loh 2023).
    """

    needs = frozenset({"known scale"})
    _gamma = math.inf

    def start(self, objective: Objective, mu: float) -> StepRule:
        run = copy(self)
        run._gamma = _self_concordance(objective)
        return run

    def step_size(self, situation: Situation) -> float:
        b = self._gamma * float(np.linalg.norm(situation.direction))
        return math.log1p(b) / b if b > 1e-8 else 1.0


class _Switch(StepRule):
    """Damped steps until a released test says that pure ones are safe, or the last third begins."""

    def __init__(self, step_size: float = 0.5) -> None:
        self._step_size = number_in(step_size, "step_size", "(0, 1]")
        self._pure = False

    def step_size(self, situation: Situation) -> float:
        n_steps = situation.n_steps
        self._pure = self._pure or situation.step >= n_steps - n_steps // 3 or self._near(situation)
        return 1.0 if self._pure else self._step_size

    def _near(self, situation: Situation) -> bool:
        """Return True if full steps will converge, from released numbers."""
        raise NotImplementedError

    def _settings(self) -> str:
        return f"{self._step_size:g}"


class DecrementSwitch(_Switch):
    """Damped steps until the noisy Newton decrement is small.

    Section 4.4.2 of paper 1 (Avella-Medina, Bradshaw and Loh 2023), its self-concordant case.

    The decrement of a noisy gradient is inflated by ``s^2 tr(H^-1)``, a public amount that is
    subtracted.  Then ``lambda_min^(-1/2) * decrement <= 1 / (16 gamma)`` is tested (formulas page,
    section 8).  The last third of the steps is full in any case: the paper's condition is far from
    necessary.  A run that ends before it holds keeps a part of the start's error.

    Parameters
    ----------
    step_size : float in (0, 1]
        Of the damped steps.
    """

    needs = frozenset({"known scale"})
    _gamma = math.inf

    def start(self, objective: Objective, mu: float) -> StepRule:
        run = copy(self)
        run._gamma = _self_concordance(objective)
        return run

    def _near(self, situation: Situation) -> bool:
        inflation = situation.gradient_scale**2 * float((1.0 / situation.eigenvalues).sum())
        squared = float(situation.gradient @ situation.direction) - inflation
        smallest = float(situation.eigenvalues[0])
        return math.sqrt(max(squared, 0.0) / smallest) <= 1.0 / (16.0 * self._gamma)


class GradientSwitch(_Switch):
    """Damped steps until the gradient is short.

    Section 4.4.2 of paper 1 (Avella-Medina, Bradshaw and Loh 2023), its strongly convex case.

    The norm of a noisy gradient, without the noise's part, is compared with ``tau^2 / L``.  Here
    tau is half of the noisy Hessian's smallest eigenvalue.  ``L`` bounds the rate at which the
    Hessian changes: ``sup |psi''| / psi'(0) * R / scale`` times a noisy upper bound of the largest
    curvature at any parameter.  (Rows have length R at most; the paper weights rows by
    ``||x||^-3``.)  From such a point pure Newton converges by Kantorovich's theorem (1948), which
    needs ``||H^-1 g|| L / lambda_min <= 1/2``; the test asks for 1/4.  The loss need not be
    self-concordant.  The last third of the steps is full in any case.

    Parameters
    ----------
    step_size : float in (0, 1]
        Of the damped steps.
    share : float in (0, 1)
        Part of the total ``mu^2`` for the largest curvature.
    """

    needs = frozenset({"curvature", "known scale"})

    def __init__(self, step_size: float = 0.5, *, share: float = 0.02) -> None:
        super().__init__(step_size)
        self.share = number_in(share, "share", "(0, 1)")
        self._mu = 0.0
        self._change = math.inf
        self._threshold = math.nan

    def start(self, objective: Objective, mu: float) -> StepRule:
        run = copy(self)
        run._mu = mu
        run._change = _curvature_change(objective)
        return run

    def check(self, answers: Answers) -> None:
        curvature_receipt(answers, self._mu)

    def _near(self, situation: Situation) -> bool:
        if math.isnan(self._threshold):  # estimated once
            answer = situation.answers.largest_curvature(self._mu)
            largest = max(float(answer.value[0]), 0.0) + 2.0 * answer.noise_scale
            self._threshold = 0.25 / (self._change * largest)
        square = float(situation.gradient @ situation.gradient)
        square -= len(situation.gradient) * situation.gradient_scale**2
        return math.sqrt(max(square, 0.0)) <= float(situation.eigenvalues[0]) ** 2 * self._threshold

    def _settings(self) -> str:
        return f"{self._step_size:g}, share={self.share:g}"


def _curvature_change(objective: Objective) -> float:
    """Bound the rate of change of a Hessian, relative to its largest size."""
    loss = objective.loss
    weighting = objective.weighting
    if not (isinstance(weighting, (Bounded, Schweppe)) and loss.psi_second_bound < math.inf):
        raise InvalidInput(
            f"{described(objective)} has no public bound on how fast its curvature changes: rows "
            "must have a bound themselves, and psi' may not jump. Use "
            "weights=dpfast.models.Schweppe(radius) or dpfast.Bounded(radius), and a loss such as "
            "SmoothedHuber or log-cosh."
        )
    radius = weighting.radius
    return float(loss.psi_second_bound / loss.psi_prime_bound * radius / objective.scale)


class Backtracking(StepRule):
    """Private backtracking line search: ``evaluations`` tests over all iterations.

    Appendix G of paper 1 (Avella-Medina, Bradshaw and Loh 2023); the test is Armijo's (1966).

    Each test asks for one difference of losses with fresh noise.  When the evaluations are used
    up, or once a full step has been accepted, the step size is constant.

    Parameters
    ----------
    evaluations : int
    share : float in (0, 1)
        Part of the total ``mu^2`` for all evaluations together.
    slope : float in (0, 1/2)
        Required decrease relative to ``step_size * G'H^-1 G``.  (The paper prints the range
        (1, 1/2).)
    shrink : float in (0, 1)
    """

    needs = frozenset({"loss difference"})

    def __init__(
        self,
        evaluations: int = 10,
        *,
        share: float = 0.2,
        slope: float = 0.25,
        shrink: float = 0.5,
    ) -> None:
        self.evaluations = whole_number(evaluations, "evaluations", 1, 10_000)
        self.share = number_in(share, "share", "(0, 1)")
        self.slope = number_in(slope, "slope", "(0, 0.5)")
        self.shrink = number_in(shrink, "shrink", "(0, 1)")
        self._mu = 0.0
        self._evaluations_left = 0
        self._current = 1.0
        self._settled = False

    def start(self, objective: Objective, mu: float) -> StepRule:
        run = copy(self)
        run._mu = mu / self.evaluations**0.5
        run._evaluations_left = self.evaluations
        return run

    def _settings(self) -> str:
        return f"{self.evaluations}, share={self.share:g}"

    def check(self, answers: Answers) -> None:
        # a margin for the rounding of distances, whose ratio to the noise decides
        difference_receipt(answers, 1.0, self._mu * (1.0 + ROUNDING_SUM))

    def step_size(self, situation: Situation) -> float:
        if self._settled:
            return self._current
        self._current = 1.0
        decrease = self.slope * float(situation.gradient @ situation.direction)
        while self._evaluations_left:
            self._evaluations_left -= 1
            new = situation.theta - self._current * situation.direction
            change = situation.answers.loss_difference(new, situation.theta, self._mu)
            if float(change.value[0]) <= -self._current * decrease:
                self._settled = self._current == 1.0
                return self._current
            self._current *= self.shrink
        self._settled = True
        return self._current
