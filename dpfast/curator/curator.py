"""Trusted curator: holds the records, charges the ledger, answers with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpfast.arguments import Array
from dpfast.curator.answers import (
    NOTHING,
    Answer,
    JointAnswer,
    Receipt,
    StepBudget,
)
from dpfast.curator.joint import Layout, Plan, make_plan, shared_planner
from dpfast.curator.noisy_release import (
    charge,
    for_observers,
    release_jointly_with_noise,
    release_with_noise,
    source_of_noise,
)
from dpfast.data import Records
from dpfast.errors import InvalidInput
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER, MEAT, RecordKernel
from dpfast.models import Constants, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

#: Kernel and constants of an objective, which depend on it alone.
Prepared = tuple[RecordKernel, Constants | None]


def prepare(objective: Objective) -> Prepared:
    """Compute kernel and constants of an objective."""
    return RecordKernel(*objective.kernel_arguments()), objective.constants()


class Curator:
    """Typed queries about one objective on one data set."""

    def __init__(
        self,
        records: Records,
        objective: Objective,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int = 0,
        prepared: Prepared | None = None,
    ) -> None:
        if records.n_covariates != objective.n_covariates:
            raise InvalidInput(
                f"the objective is for {objective.n_covariates} covariates and the records have "
                f"{records.n_covariates}."
            )
        self.objective = objective
        self.n = records.n
        self.ledger = ledger
        self._records = records
        #: Released and public numbers from which the records were computed, for observers.
        self._made_with: tuple[Any, ...] = ()
        self._noise = source_of_noise(noise)
        self._threads = threads
        self._kernel, constants = prepared or prepare(objective)
        self._layout = Layout(*records._summed(objective.n_coefficients))
        self._shared_plan = None if constants is None else shared_planner(constants, self._layout)

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Release mean score, mean Hessian and mean score covariance (claims C17 to C19, C37)."""
        shared = self._shared_plan
        plan = self.plan(budget, theta) if shared is None else shared(budget)
        charge(self.ledger, plan.cost, plan.label)
        sums = self._sums(theta, plan.want)
        mu = plan.cost.mu
        question = (plan.label, mu, theta, *for_observers(self._made_with))
        gradient, hessian, meat = release_jointly_with_noise(
            self._noise, question, plan.receipts, plan.grids, sums
        )
        return JointAnswer(gradient, hessian, meat, mu)

    def plan(self, budget: StepBudget, theta: Array | None = None) -> Plan:
        """Plan the cost, receipts and noise of :meth:`joint`; costs nothing."""
        if self._shared_plan is not None:
            return self._shared_plan(budget)
        return make_plan(self.objective, self._layout, budget, theta)

    def receipts(self, budget: StepBudget, theta: Array | None = None) -> list[Receipt]:
        """Return the receipts of :meth:`joint` without reading records; costs nothing."""
        receipts = self.plan(budget, theta).receipts
        return [receipt for receipt in receipts if receipt is not NOTHING.receipt]

    def _beside(self, records: Records, objective: Objective, ledger: Ledger) -> Curator:
        """Make a curator of other records or for another objective, with the same noise source."""
        return Curator(records, objective, ledger, self._noise, self._threads)

    def _release(self, question: tuple[Any, ...], receipt: Receipt, value: Array) -> Answer:
        """Add noise to one mean."""
        return release_with_noise(self._noise, question, receipt, value)

    def depth(self, want: int) -> int:
        """Most sequential roundings of a mean of what the kernels call ``want`` (claim C11)."""
        if self._layout.excess != 1:
            raise InvalidInput("about a sample there are joint answers only.")
        return self._layout.depth(want)

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Release the mean loss at ``new`` minus that at ``old``, shape (1,) (claim C21)."""
        from dpfast.curator.steps import loss_difference

        return loss_difference(self, new, old, mu)

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Release the least or largest eigenvalue of the mean Hessian, shape (1,) (claim C20)."""
        from dpfast.curator.steps import extreme_eigenvalue

        return extreme_eigenvalue(self, theta, mu, largest=largest)

    def largest_curvature(self, mu: float) -> Answer:
        """Release the largest eigenvalue the mean Hessian has anywhere, shape (1,) (claim C20)."""
        from dpfast.curator.steps import largest_curvature

        return largest_curvature(self, mu)

    def nonprivate_sums(
        self, theta: Array, *, majorize: bool = False
    ) -> tuple[Array, Array, Array]:
        """Exact mean score, Hessian and score covariance: not private, for comparison only."""
        curvature = MAJORIZER if majorize else HESSIAN
        sums: tuple[Array, Array, Array] = self._sums(theta, GRADIENT | curvature | MEAT)
        return sums

    def nonprivate_loss(self, theta: Array) -> float:
        """Exact mean loss: not private, for comparison only."""
        return self._total(self._kernel.loss, theta)

    def _loss_difference(self, new: Array, old: Array) -> float:
        return self._total(self._kernel.loss_difference, new, old)

    def _sums(self, theta: Array, want: int) -> Any:
        """Compute exact means of gradient, curvature and meat; None for those not requested."""
        kernel, threads = self._kernel, self._threads
        records: Any = self._records
        if want & MEAT and records.means:
            from dpfast.curator.persons import person_sums

            return person_sums(records, kernel, theta, want, threads, self.objective.meat_bound)
        return records.total(kernel.sums, theta, want, float(self.n), threads)

    def _total(self, losses: Callable[..., float], *parameters: Array) -> float:
        return float(self._records.total(losses, *parameters, float(self.n), self._threads))
