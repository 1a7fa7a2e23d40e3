"""The trusted curator: holds the records, charges the ledger, answers with noise.

Optimisers and inference are written against its answers only, so their privacy is a theorem
about this folder and ``dpfast/privacy``, not about every loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import steps
from dpfast.curator.accounting import joint_cost, record_bounds
from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.observer import hand_out, source_of_noise
from dpfast.data import Records
from dpfast.errors import InvalidInput
from dpfast.kernels.records import (
    GRADIENT,
    HESSIAN,
    MAJORIZER,
    MEAT,
    RecordKernel,
    summation_depth,
)
from dpfast.models import Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import (
    check_grid_range,
    gaussian_scale,
)
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.sensitivity import mean_rank_one, mean_score

__all__ = ["Curator"]

Array = NDArray[np.float64]


class Curator:
    """Answers typed queries about one objective on one data set.

    Parameters
    ----------
    records : Records
    objective : Objective
    ledger : Ledger
        Charged before any noise is drawn; refuses before the records are touched.
    noise : NoiseSource
    threads : int
        Threads of the compiled kernels, 0 for the default.  Answers do not depend on it.

    Attributes
    ----------
    objective : Objective
    n : int
        Number of records (public).
    """

    def __init__(
        self,
        records: Records,
        objective: Objective,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int = 0,
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
        self._noise = source_of_noise(noise)
        self._threads = threads
        self._kernel = RecordKernel(*objective.kernel_arguments())
        self._known: dict[StepBudget, list[Receipt]] = {}

    @property
    def guarantee(self) -> str:
        """What the noise source promises: "GDP" or "none (simulation)"."""
        return self._noise.guarantee

    def joint(self, theta: Array, budget: StepBudget) -> JointAnswer:
        """Release mean score, mean Hessian and mean score covariance at one parameter.

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Public (or released) parameter.
        budget : StepBudget
            Gaussian-DP parameter of each quantity; 0 leaves it out.

        Privacy
        -------
        Charges ``joint_cost`` (claims C17 to C19 of PROOFS.md, C37 with a free scale): at most,
        and often below, the composition of the three budgets.  Replacement of one record, n public.
        """
        mu = joint_cost(self.objective, budget)
        receipts = self.receipts(budget, theta)
        label = " + ".join([receipt.query for receipt in receipts])
        self.ledger.charge(GDP(mu), label)
        sums = self._sums(theta, sum([WANTED[receipt.query] for receipt in receipts]))
        question = (label, mu, theta)
        answers = {"gradient": NONE, "hessian": NONE, "meat": NONE}
        for receipt in receipts:
            slot = "hessian" if receipt.query == "majorizer" else receipt.query
            answers[slot] = self._release(question, receipt, sums[SLOTS.index(slot)])
        return JointAnswer(**answers, mu=mu)

    def receipts(self, budget: StepBudget, theta: Array | None = None) -> list[Receipt]:
        """What :meth:`joint` would release and with which noise; touches nothing, costs nothing.

        The noise of a curvature depends on the parameter if the scale is free; without one it is
        that at the largest scale.

        Raises
        ------
        InvalidBudget
            If a part of the budget is too small, or so large that the release grid would be finer
            than floating point resolves.
        """
        known = self._known.get(budget)
        if known is not None:
            return known
        wanted = [("gradient", budget.gradient)]
        if budget.hessian:
            wanted.append(("majorizer" if budget.majorize else "hessian", budget.hessian))
        if budget.meat:
            wanted.append(("meat", budget.meat))
        want = sum([WANTED[query] for query, _ in wanted])
        found = [self._receipt(query, mu, want, theta) for query, mu in wanted]
        if self.objective.free_scale is None:  # then they do not depend on theta
            self._known[budget] = found
        return found

    def _receipt(self, query: str, mu: float, want: int, theta: Array | None) -> Receipt:
        bound, diameter = record_bounds(self.objective, query, theta)
        p = self.objective.dimension
        claims = CLAIMS if self.objective.free_scale is None else SCALE_CLAIMS
        return _receipt(query, claims[query], bound, diameter, self.n, p, self.depth(want), mu)

    def _release(self, question: tuple[Any, ...], receipt: Receipt, value: Array) -> Answer:
        """Add noise to one mean."""
        return hand_out(self._noise, question, receipt, value)

    def depth(self, want: int) -> int:
        """Most sequential roundings of a mean of what the kernels call ``want`` (claim C11).

        Those of the largest block (deeper than smaller ones), and those of adding the blocks.
        """
        sizes, additions = self._records.block_sizes, self._records.additions
        row = self.objective.n_coefficients
        return summation_depth(max(sizes), row, want) + additions

    def loss_difference(self, new: Array, old: Array, mu: float) -> Answer:
        """Release the mean loss at ``new`` minus that at ``old``, shape (1,); costs ``mu``.

        Privacy: claim C21.
        """
        return steps.loss_difference(self, new, old, mu)

    def extreme_eigenvalue(self, theta: Array, mu: float, *, largest: bool) -> Answer:
        """Release the smallest or largest eigenvalue of the mean Hessian, shape (1,).

        Privacy: costs ``mu`` (claim C20).
        """
        return steps.extreme_eigenvalue(self, theta, mu, largest=largest)

    def largest_curvature(self, mu: float) -> Answer:
        """Release the largest eigenvalue the mean Hessian has at any parameter, shape (1,).

        Privacy: costs ``mu`` (claim C20).
        """
        return steps.largest_curvature(self, mu)

    def damped_direction(
        self,
        theta: Array,
        gradient: Array,
        damping: float,
        mu: float,
        *,
        majorize: bool = False,
    ) -> Answer:
        """Release ``(H + damping I)^-1 gradient``, shape (p,), for a released gradient.

        Privacy: costs ``mu`` (claim C25).
        """
        return steps.damped_direction(self, theta, gradient, damping, mu, majorize=majorize)

    def nonprivate_sums(
        self, theta: Array, *, majorize: bool = False
    ) -> tuple[Array, Array, Array]:
        """Exact mean score, Hessian and score covariance: not private, for comparison only."""
        return self._sums(theta, GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT)

    def nonprivate_loss(self, theta: Array) -> float:
        """Exact mean loss: not private, for comparison only."""
        return self._total(self._kernel.loss, theta)

    def _loss_difference(self, new: Array, old: Array) -> float:
        return self._total(self._kernel.loss_difference, new, old)

    def _sums(self, theta: Array, want: int) -> tuple[Array, Array, Array]:
        """Exact means of the wanted quantities; what is not wanted is an empty array."""
        totals = self._records.total(self._kernel.sums, theta, want, float(self.n), self._threads)
        gradient, curvature, meat = (EMPTY if total is None else total for total in totals)
        return gradient, curvature, meat

    def _total(self, losses: Callable[..., float], *parameters: Array) -> float:
        return float(self._records.total(losses, *parameters, float(self.n), self._threads))


@lru_cache(maxsize=1024)
def _receipt(
    query: str, claim: str, bound: float, diameter: float, n: int, p: int, depth: int, mu: float
) -> Receipt:
    """Sensitivity and noise of one mean: a function of public numbers, so simulations share it."""
    if query == "gradient":
        coordinates = p
        sensitivity = mean_score(diameter, n, depth=depth)
    else:
        coordinates = p * (p + 1) // 2
        sensitivity = mean_rank_one(bound, n, p, depth=depth)
    scale = gaussian_scale(sensitivity, mu, coordinates)
    check_grid_range(bound, scale, coordinates)
    return Receipt(query, claim, mu, sensitivity, scale)


#: Order of the kernels' answers.
SLOTS = ("gradient", "hessian", "meat")

#: What the kernels call each query.
WANTED = {"gradient": GRADIENT, "hessian": HESSIAN, "majorizer": MAJORIZER, "meat": MEAT}

#: Claims of PROOFS.md that bound the sensitivity of each mean.
CLAIMS = {"gradient": "C13", "hessian": "C14", "majorizer": "C14", "meat": "C14"}
SCALE_CLAIMS = {"gradient": "C34", "hessian": "C35", "majorizer": "C35", "meat": "C36"}

EMPTY = np.empty(0)
NONE = Answer(EMPTY, 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))
