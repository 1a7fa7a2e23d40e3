"""What an optimiser is: it declares what it needs, sees answers only, and knows its own noise.

An optimiser asks an :class:`Answers` object, which has no records and no method that is not paid
for, so whatever it computes is post-processing: a wrong optimiser gives a wrong estimate, never a
wrong guarantee.  One that asks for more than the total is refused by the ledger, before the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, Curator, JointAnswer, StepBudget
from dpfast.curator.blocks import Dealing
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.propagation import Curvature, PrivacyNoise
from dpfast.optimize.schedules import Schedule
from dpfast.optimize.trajectory import Trajectory

__all__ = [
    "Answers",
    "Blocks",
    "Method",
    "answers_only",
    "checked_run",
    "own_noise",
    "public_copy",
    "refuse_unmet_needs",
]

Array = NDArray[np.float64]

FLOAT = np.dtype(np.float64)


class Answers(Protocol):
    """What an optimiser or a step rule may ask; each answer is charged before it is drawn.

    As :class:`~dpfast.curator.Curator`, without what is not private.
    """

    @property
    def objective(self) -> Objective:
        """Loss, weighting and their public constants."""

    @property
    def n(self) -> int:
        """Number of records (public)."""

    def depth(self, want: int) -> int:
        """Most sequential roundings of a mean; public."""

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Gradient and, where their budgets are not 0, Hessian (or majoriser) and meat."""

    def plan(self, budget: StepBudget) -> Any:
        """What :meth:`joint` would charge and release, or its refusal; costs nothing."""

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Mean loss at ``new`` minus that at ``old``, shape (1,)."""

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Smallest or largest eigenvalue of the mean Hessian, shape (1,)."""

    def largest_curvature(self, mu: float) -> Answer:
        """Largest eigenvalue the mean Hessian has at any parameter, shape (1,)."""

    def damped_direction(
        self, theta: Array, gradient: Array, damping: float, mu: float, *, majorize: bool = False
    ) -> Answer:
        """``(H + damping I)^-1 gradient``, shape (p,), for a released gradient."""

    @property
    def can_deal(self) -> bool:
        """Whether :meth:`deal` can be asked for; public."""

    def deal(self, mu: float) -> Blocks:
        """Random disjoint blocks of the records, all of which together cost ``mu``."""

    def constant_term(self, scale: float | None) -> Answers:
        """Answers about a model of a constant alone, charged to the same ledger."""


class Blocks(Protocol):
    """What a dealing hands out; paid for as a whole (claim C55)."""

    @property
    def left(self) -> int:
        """Number of slots that are in no block yet, of 256."""

    def block(self, width: int) -> Answers:
        """Joint answers about the records in ``width`` further slots."""


class Method:
    """Base of the optimisers of :func:`dpfast.fit`, and of your own.

    A class of your own defines :meth:`defaults` and :meth:`run`, and :meth:`noise_covariance` for
    intervals; pass an instance as ``dpfast.fit(..., method=Mine())``.

    Attributes
    ----------
    name : str
    needs : frozenset of str
        Of "curvature" (a Hessian with a bound), "known scale", "free scale" and "loss difference".
        Where an objective lacks one, the fit is refused by name while nothing is spent.
    steering_share : float in [0, 1)
        Part of the total ``mu^2`` kept for queries beside those of the steps' budgets.

    Privacy
    -------
    Post-processing of the answers it asks for, which are charged to a ledger of the fit's total.
    """

    name: ClassVar[str] = "own"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    @property
    def steering_share(self) -> float:
        return 0.0

    def settled(self, objective: Objective, n: int, mu: float) -> Method:
        """The optimiser as it will run, all decided from public numbers."""
        return self

    def curvatures(self, n_steps: int) -> tuple[str, ...]:
        """What each step releases beside the gradient: "none", "majorizer" or "hessian"."""
        return ("none",) * n_steps

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Number of steps and schedule, from public constants only."""
        raise NotImplementedError

    def most_steps(self, n_steps: int) -> int:
        """How many steps there can be, of which ``progress`` is told; public."""
        return n_steps

    def described(self, n_steps: int, schedule: Schedule) -> str:
        """What it is going to do, for the result."""
        return f"{self!r}, {n_steps} steps, {schedule!r}"

    def check(self, answers: Answers, n_steps: int, steering_mu: float) -> None:
        """Refuse, from public numbers, what :meth:`run` would be refused for; costs nothing."""

    def run(
        self,
        answers: Answers,
        start: Array,
        budgets: Sequence[StepBudget],
        progress: Callable[[int, int], None] | None = None,
        steering_mu: float = 0.0,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the Hessian and the meat.

        Parameters
        ----------
        answers : Answers
        start : ndarray of shape (p,)
        budgets : sequence of StepBudget
            What each ``answers.joint(theta, budget)`` costs.
        progress : callable, optional
            To be called as ``progress(step, n_steps)`` after each step.
        steering_mu : float
            What may be spent on other queries together.
        """
        raise NotImplementedError

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """Covariance of the privacy noise in the estimate of a run, from released numbers."""
        raise NotImplementedError


#: What each need is, for the error.
NEEDS = {
    "curvature": lambda objective: objective.has_curvature,
    "known scale": lambda objective: objective.free_scale is None,
    "free scale": lambda objective: objective.free_scale is not None,
    "loss difference": lambda objective: (
        objective.weighting.has_loss and objective.free_scale is None
    ),
}


def refuse_unmet_needs(method: Method, objective: Objective) -> None:
    """The one error for an objective that lacks what an optimiser needs."""
    needs, who = method.needs, described(method, text=True)
    if not needs <= NEEDS.keys():
        raise InvalidInput(
            f"an optimiser's needs are of {sorted(NEEDS)}; received {described(needs)}."
        )
    for need in ("known scale", "free scale", "loss difference", "curvature"):
        if need not in needs or NEEDS[need](objective):
            continue
        if need == "curvature":
            lossy = objective.loss.has_curvature
            remedy = " or weights=dpfast.Mallows(radius)" if lossy else ""
            raise InvalidInput(
                f"{objective.curvature_refusal()}, which {who} needs. Use "
                f'method="gradient-descent"{remedy}.'
            )
        raise InvalidInput(
            f"{who} needs a {need}, which {described(objective)} does not have. Use "
            'method="newton", which picks dpfast.Newton for a known scale and dpfast.JointNewton '
            'for scale=dpfast.FreeScale(...), or method="gradient-descent".'
        )


def public_copy(objective: Objective) -> Objective:
    """An objective for an optimiser to read: what it writes there, no curator sees."""
    shown: Objective = _copy(objective)
    shown.loss, shown.weighting = _copy(objective.loss), _copy(objective.weighting)
    return shown


def _copy(thing: Any) -> Any:
    """``copy.copy`` of an object with attributes, without its detour through pickling."""
    other = object.__new__(type(thing))
    other.__dict__ = thing.__dict__.copy()
    return other


def answers_only(curator: Curator, budgets: Sequence[StepBudget] = ()) -> Answers:
    """The curator's paid answers, and nothing else of it.

    Parameters and budgets are copied into plain numbers on the way in, so that no object of a
    caller's own kind reaches the code that charges and draws.

    Parameters
    ----------
    curator : Curator
    budgets : sequence of StepBudget
        Those the library planned itself: they are plain already, and recognised as they come back.
    """
    objective = curator.objective
    p = objective.dimension
    ask, shape = curator.joint, (p,)
    planned = {id(budget): budget for budget in budgets}

    def joint(theta: Array, budget: StepBudget) -> JointAnswer:
        plain = planned.get(id(budget))
        if plain is None:
            plain = _plain(budget)
        if type(theta) is np.ndarray and theta.dtype is FLOAT and theta.shape == shape:
            return ask(theta.copy(), plain)
        return ask(_point(theta, p), plain)

    def depth(want: int) -> int:
        return curator.depth(want)

    def loss_difference(new: Array, old: Array, mu: float) -> Answer:
        return curator.loss_difference(_point(new, p), _point(old, p), float(mu))

    def extreme_eigenvalue(theta: Array, mu: float, *, largest: bool) -> Answer:
        return curator.extreme_eigenvalue(_point(theta, p), float(mu), largest=bool(largest))

    def largest_curvature(mu: float) -> Answer:
        return curator.largest_curvature(float(mu))

    def damped_direction(
        theta: Array, gradient: Array, damping: float, mu: float, *, majorize: bool = False
    ) -> Answer:
        points = _point(theta, p), _point(gradient, p)
        return curator.damped_direction(*points, float(damping), float(mu), majorize=bool(majorize))

    def plan(budget: StepBudget) -> Any:
        return curator.plan(_plain(budget))

    def deal(mu: float) -> Blocks:
        return _Blocks(curator.deal(float(mu)))

    def constant_term(scale: float | None) -> Answers:
        return answers_only(curator.constant_term(None if scale is None else float(scale)))

    offered = SimpleNamespace(
        objective=public_copy(objective),
        n=curator.n,
        depth=depth,
        joint=joint,
        plan=plan,
        loss_difference=loss_difference,
        extreme_eigenvalue=extreme_eigenvalue,
        largest_curvature=largest_curvature,
        damped_direction=damped_direction,
        can_deal=curator.can_deal,
        deal=deal,
        constant_term=constant_term,
    )
    return cast(Answers, offered)


def _plain(budget: StepBudget) -> StepBudget:
    gradient, hessian, meat, majorize = budget
    return StepBudget(float(gradient), float(hessian), float(meat), bool(majorize))


class _Blocks:
    """A dealing of which only the answers are shown."""

    __slots__ = ("block", "left")

    def __init__(self, dealing: Dealing) -> None:
        self.left = dealing.left

        def block(width: int) -> Answers:
            answers = answers_only(dealing.block(int(width)))
            self.left = dealing.left
            return answers

        self.block = block


def _point(theta: Any, p: int) -> Array:
    """A parameter as an array of its own; its values are public and may be anything."""
    try:
        point = np.array(theta, dtype=FLOAT)
    except (TypeError, ValueError):
        point = np.empty(0)
    if point.shape != (p,):
        raise InvalidInput(
            f"an optimiser asked at something other than {p} numbers. Nothing was spent on that "
            "question."
        )
    return point


def checked_run(trajectory: Any, p: int, inference: bool) -> Trajectory:
    """What an optimiser returned, or a refusal that says what it should have been."""
    if not isinstance(trajectory, Trajectory) or not isinstance(trajectory.final, JointAnswer):
        raise InvalidInput(
            "an optimiser's run returns a dpfast.optimize.Trajectory whose final is the answer to "
            f"its last question; received {type(trajectory).__name__}."
        )
    shape = (p,)
    for point in (trajectory.theta, *trajectory.iterates):
        if type(point) is not np.ndarray or point.shape != shape or point.dtype != FLOAT:
            raise InvalidInput(
                f"an optimiser's theta and iterates are float64 arrays of shape ({p},)."
            )
    if inference:
        square = (p, p)
        for answer in (trajectory.final.hessian, trajectory.final.meat, *trajectory.hessians):
            if not isinstance(answer, Answer) or answer.value.shape != square:
                raise InvalidInput(
                    "intervals need the Hessian and the meat that the last budget buys: an "
                    "optimiser's final is answers.joint(theta, budgets[-1])."
                )
    return trajectory


def own_noise(method: Method, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
    """The privacy noise of a run as its optimiser knows it, of the right shape."""
    p = len(curvature.matrix)
    noise = method.noise_covariance(trajectory, curvature)
    if (
        not isinstance(noise, PrivacyNoise)
        or np.shape(noise.covariance) != (p, p)
        or np.shape(noise.unfinished) != (p,)
    ):
        raise InvalidInput(
            "an optimiser's noise_covariance returns dpfast.optimize.PrivacyNoise(covariance of "
            f"shape ({p}, {p}), unfinished of shape ({p},))."
        )
    return noise
