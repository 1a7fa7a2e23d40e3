"""Base of the optimisers: one declares its needs, sees only answers, and knows its own noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from dpfast.arguments import Array, detached, real_array
from dpfast.curator import Answer, Curator, JointAnswer, StepBudget
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.budgets import Budgets, step_budgets
from dpfast.optimize.propagation import Curvature, PrivacyNoise
from dpfast.optimize.schedules import Schedule, Uniform, checked_steps, resolve_schedule
from dpfast.optimize.trajectory import Trajectory


class Answers(Protocol):
    """Questions for optimisers and step rules; each answer is charged before it is drawn.

    It has the methods of :class:`~dpfast.curator.Curator` that are private.  The recipes of the
    documentation have an optimiser that uses it.

    Other Parameters
    ----------------
    theta, new, old : ndarray of shape (p,)
        Of methods: public, or made of earlier answers.
    budget : StepBudget
        The mu of each quantity.
    mu : float
        Budget of the answer.

    Privacy
    -------
    Every method with a budget or a ``mu`` among its arguments spends it, from the fit's total.
    It raises ``BudgetExceeded`` where too little is left.  The rest is public and costs nothing.
    """

    @property
    def objective(self) -> Objective:
        """Loss, weighting and their public constants; a copy."""

    @property
    def n(self) -> int:
        """Number of records (public)."""

    def depth(self, want: int) -> int:
        """Return the largest number of sequential roundings of a mean; public.

        Parameters
        ----------
        want : int
            The quantities that are averaged, as the kernels number them.
        """

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Release the gradient and, if paid for, the Hessian (or majoriser) and the meat.

        They are means over the records, of shapes (p,), (p, p) and (p, p), without the ridge.
        """

    def plan(self, budget: StepBudget) -> Any:
        """Return the charges and releases that :meth:`joint` would make, or refuse; costs nothing.

        Returns
        -------
        Plan
            With ``receipts``, one for each quantity: its label, price and noise scale.
        """

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Release the mean loss at ``new`` minus that at ``old``, shape (1,)."""

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Release the smallest or largest eigenvalue of the mean Hessian, shape (1,).

        Parameters
        ----------
        largest : bool
            Whether the largest eigenvalue is released, and not the smallest.
        """

    def largest_curvature(self, mu: float) -> Answer:
        """Release the largest eigenvalue the mean Hessian has at any parameter, shape (1,)."""


__all__ = [
    "Answers",
    "Method",
    "answers_only",
    "checked_run",
    "own_noise",
    "planned",
    "public_copy",
    "refuse_unmet_needs",
    "refuse_without_matrices",
]

FLOAT = np.dtype(np.float64)


@dataclass(eq=False, repr=False, kw_only=True)
class Method:
    """Base of the optimisers of :func:`dpfast.fit`, and of your own.

    A class of your own defines :meth:`defaults` and :meth:`run`, and :meth:`noise_covariance` for
    intervals; pass an instance as ``dpfast.fit(..., method=Mine())``.  An instance is settings,
    which a fit reads and does not change.

    Parameters
    ----------
    steps : int, optional
        Number of steps, fixed in advance; the default is that of :meth:`defaults`.
    schedule : {"geometric", "uniform"} or Schedule, optional
        Division of the budget among the steps; the default is that of :meth:`defaults`.
    start : sequence of float, optional
        Public starting point of the coefficients, default zero.  It must not be computed from
        the data of the fit.

    Other Parameters
    ----------------
    objective : Objective
        Of methods: loss, weighting and their public constants.
    n : int
        Number of records, public.
    mu : float
        The total.
    n_steps : int
        Number of steps.
    inference : bool
        Whether the last answer is to include the Hessian and the meat.
    answers : Answers
        Questions that may be asked about the records.
    budgets : Budgets
        Result of :meth:`plan`: a sequence of the cost of each ``answers.joint(theta, budget)``,
        with ``budgets.steering_mu`` for other queries.

    Attributes
    ----------
    name : str
    steps, schedule, start
    needs : frozenset of str
        Of "curvature" (a Hessian with a bound), "known scale", "free scale" and "loss difference".
        Where an objective lacks one, the fit is refused by name while nothing is spent.
    steering_share : float in [0, 1)
        Part of the total ``mu^2`` kept for queries other than the steps' own.

    Privacy
    -------
    Post-processing of the answers it asks for, which are charged to a ledger of the fit's total.
    """

    name: ClassVar[str] = "own"
    steps: int | None = None
    schedule: str | Schedule | None = None
    start: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            self.steps = checked_steps(self.steps)
        resolve_schedule(self.schedule, Uniform())
        if self.start is not None:
            point = real_array(self.start, "start")
            if point.ndim != 1 or not np.isfinite(point).all():
                raise InvalidInput(
                    "start must be finite numbers, one for each coefficient (the intercept first, "
                    f"if any); received shape {point.shape}."
                )
            self.start = tuple(point.tolist())

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    @property
    def steering_share(self) -> float:
        return 0.0

    def settings(self) -> list[str]:
        """Return its own settings as text, ``name=value`` each, without the shared ones."""
        return []

    def __repr__(self) -> str:
        options = self.settings()
        for name in ("steps", "schedule"):
            value = getattr(self, name)
            if value is not None:
                options.append(f"{name}={value!r}")
        if self.start is not None:
            options.append(f"start=<{len(self.start)} numbers>")
        return f"{type(self).__name__}({', '.join(options)})"

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Choose the number of steps and the schedule, from public constants only.

        Returns
        -------
        n_steps : int
        schedule : Schedule
        """
        raise NotImplementedError

    def curvatures(self, objective: Objective, n: int, mu: float, n_steps: int) -> tuple[str, ...]:
        """Choose the curvature each step releases: "none", "majorizer" or "hessian".

        Returns
        -------
        tuple of str
            As long as there are steps.
        """
        return ("none",) * n_steps

    def plan(self, objective: Objective, n: int, mu: float, inference: bool) -> Budgets:
        """Plan the budget of each step, from public facts only.

        A method that decides on released answers what to ask next returns no budgets but the total.
        """
        n_steps, schedule = self.defaults(objective, n, mu)
        n_steps = checked_steps(n_steps if self.steps is None else self.steps)
        if not isinstance(schedule, Schedule):
            raise InvalidInput(
                "an optimiser's defaults are a number of steps and a dpfast.optimize.Geometric or "
                f"another Schedule; received {described(schedule)}."
            )
        schedule = resolve_schedule(self.schedule, schedule)
        curvatures = tuple(self.curvatures(objective, n, mu, n_steps))
        known = {"none", "majorizer", "hessian"}
        if len(curvatures) != n_steps or not known.issuperset(curvatures):
            raise InvalidInput(
                "an optimiser's curvatures(objective, n, mu, n_steps) are n_steps of "
                '"none", "majorizer" and "hessian".'
            )
        return step_budgets(
            objective,
            mu,
            schedule,
            curvatures,
            inference,
            steering_share=self.steering_share,
            description=self._description(curvatures, schedule),
        )

    def _description(self, curvatures: Sequence[str], schedule: Schedule) -> str:
        """Describe the planned run, for the result."""
        name = f"{type(self).__name__}({', '.join(self.settings())})"
        return f"{name}, {len(curvatures)} steps, {schedule!r}"

    def check(self, answers: Answers, budgets: Budgets) -> None:
        """Refuse, from public numbers, a run that would be refused; costs nothing.

        Privacy
        -------
        Must ask for plans only (``answers.plan``): an answer would be charged.
        """

    def run(
        self,
        answers: Answers,
        start: Array,
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the Hessian and the meat.

        Parameters
        ----------
        start : ndarray of shape (p,)
            Public starting point.
        progress : callable, optional
            To be called as ``progress(step, n_steps)`` after each step.

        Raises
        ------
        BudgetExceeded
            If it asks for more than the total.

        Privacy
        -------
        Post-processing of the answers, each of which is charged before it is drawn.
        """
        raise NotImplementedError

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """Compute the covariance of the privacy noise in an estimate, from released numbers.

        Parameters
        ----------
        trajectory : Trajectory
            Result of :meth:`run`.
        curvature : Curvature
            The released Hessian that intervals are made with.

        Raises
        ------
        NotImplementedError
            If a class of your own does not define it; its fits take ``inference=False``.
        """
        raise NotImplementedError


def planned(method: Method, objective: Objective, n: int, mu: float, inference: bool) -> Budgets:
    """Plan the spending of an optimiser, as plain numbers whoever wrote it."""
    budgets = method.plan(objective, n, mu, inference)
    try:
        return Budgets(
            [_plain(budget) for budget in budgets],
            mu,
            inference=inference,
            steering_mu=float(budgets.steering_mu),
            most_steps=int(budgets.most_steps),
            description=str(budgets.description),
        )
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise InvalidInput(
            "an optimiser's plan returns dpfast.optimize.Budgets of numbers; received "
            f"{type(budgets).__name__}."
        ) from None


#: Test of each need, for the error.
NEEDS = {
    "curvature": lambda objective: objective.has_curvature,
    "known scale": lambda objective: objective.free_scale is None,
    "free scale": lambda objective: objective.free_scale is not None,
    "loss difference": lambda objective: (
        objective.weighting.has_loss and objective.free_scale is None
    ),
}


def refuse_unmet_needs(method: Method, objective: Objective) -> None:
    """Refuse an objective that lacks something an optimiser needs."""
    needs = method.needs
    name = described(method, text=True)
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
                f"{objective.curvature_refusal()}, which {name} needs. Use "
                f'method="gradient-descent"{remedy}.'
            )
        raise InvalidInput(
            f"{name} needs a {need}, which {described(objective)} does not have. Use "
            'method="newton" or method="gradient-descent".'
        )


def public_copy(objective: Objective) -> Objective:
    """Copy an objective for an optimiser, so that no curator sees writes to it."""
    copied: Objective = detached(objective)
    copied.loss = detached(objective.loss)
    copied.weighting = detached(objective.weighting)
    return copied


def answers_only(
    curator: Curator, budgets: Sequence[StepBudget] = (), answered: list[Array] | None = None
) -> Answers:
    """Wrap a curator so that only its paid answers can be reached."""
    objective = curator.objective
    p = objective.dimension
    shape = (p,)
    planned = {id(budget): budget for budget in budgets}

    def joint(theta: Array, budget: StepBudget) -> JointAnswer:
        plain = planned.get(id(budget))
        if plain is None:
            plain = _plain(budget)
        if type(theta) is np.ndarray and theta.dtype is FLOAT and theta.shape == shape:
            point = theta.copy()
        else:
            point = _point(theta, p)
        answer = curator.joint(point, plain)
        if answered is not None:
            answered.append(point)
        return answer

    def depth(want: int) -> int:
        return curator.depth(want)

    def loss_difference(new: Array, old: Array, mu: float) -> Answer:
        return curator.loss_difference(_point(new, p), _point(old, p), float(mu))

    def extreme_eigenvalue(theta: Array, mu: float, *, largest: bool) -> Answer:
        return curator.extreme_eigenvalue(_point(theta, p), float(mu), largest=bool(largest))

    def largest_curvature(mu: float) -> Answer:
        return curator.largest_curvature(float(mu))

    def plan(budget: StepBudget) -> Any:
        return curator.plan(_plain(budget))

    answers = SimpleNamespace(
        objective=public_copy(objective),
        n=curator.n,
        depth=depth,
        joint=joint,
        plan=plan,
        loss_difference=loss_difference,
        extreme_eigenvalue=extreme_eigenvalue,
        largest_curvature=largest_curvature,
    )
    return cast(Answers, answers)


def _plain(budget: StepBudget) -> StepBudget:
    """Convert a budget to plain floats, so that no caller's kind of number reaches the ledger."""
    gradient, hessian, meat, majorize = budget
    if (
        type(budget) is StepBudget
        and type(gradient) is type(hessian) is type(meat) is float
        and type(majorize) is bool
    ):
        return budget  # immutable
    return StepBudget(float(gradient), float(hessian), float(meat), bool(majorize))


def _point(theta: Any, p: int) -> Array:
    """Copy a parameter into an array; its values are public and may be anything."""
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


def checked_run(trajectory: Any, p: int) -> Trajectory:
    """Check the result of an optimiser's run, and refuse one of another kind."""
    if not isinstance(trajectory, Trajectory) or not isinstance(trajectory.final, JointAnswer):
        raise InvalidInput(
            "an optimiser's run returns a dpfast.optimize.Trajectory whose final is the answer to "
            f"its last question; received {type(trajectory).__name__}."
        )
    shape = (p,)
    iterates = trajectory.iterates
    path = iterates if isinstance(iterates, (list, tuple, np.ndarray)) else [None]
    for point in (trajectory.theta, *path):
        if type(point) is not np.ndarray or point.shape != shape or point.dtype != FLOAT:
            raise InvalidInput(
                f"an optimiser's theta and iterates are float64 arrays of shape ({p},)."
            )
    return trajectory


def refuse_without_matrices(trajectory: Trajectory, p: int) -> None:
    """Refuse intervals for a run that did not keep the matrices they need."""
    square = (p, p)
    for answer in (trajectory.final.hessian, trajectory.final.meat, *trajectory.hessians):
        if not isinstance(answer, Answer) or answer.value.shape != square:
            raise InvalidInput(
                "intervals need the Hessian and the meat that the last budget buys: an "
                "optimiser's final is answers.joint(theta, budgets[-1])."
            )


def own_noise(method: Method, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
    """Ask an optimiser for the privacy noise of its run, and check the shapes."""
    p = len(curvature.matrix)
    noise = method.noise_covariance(trajectory, curvature)
    if isinstance(noise, PrivacyNoise):
        covariance = real_array(noise.covariance, "covariance")
        unfinished = real_array(noise.unfinished, "unfinished")
        remarks = noise.remarks
        if (
            (covariance.shape, unfinished.shape) == ((p, p), (p,))
            and isinstance(remarks, (list, tuple))
            and all(isinstance(remark, str) for remark in remarks)
        ):
            return PrivacyNoise(covariance, unfinished, tuple(remarks))
    raise InvalidInput(
        "an optimiser's noise_covariance returns dpfast.optimize.PrivacyNoise(covariance of shape "
        f"({p}, {p}), unfinished of shape ({p},), remarks as text)."
    )
