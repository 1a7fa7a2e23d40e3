"""The trusted curator: holds the records, charges the ledger, answers with noise.

Optimisers and inference are written against its answers only, so their privacy is a theorem
about this folder and ``dpfast/privacy``, not about every loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, JointAnswer, Receipt, StepBudget
from dpfast.curator.observer import OBSERVER, Release
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
from dpfast.privacy.mechanisms import gaussian_scale, release_symmetric, release_vector
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.sensitivity import joint_mu, mean_rank_one, mean_score

__all__ = ["Curator"]


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
        self._noise = noise
        self._threads = threads
        self._kernel = RecordKernel(*objective.kernel_arguments())
        self._sensitivities: dict[int, float] = {}

    @property
    def guarantee(self) -> str:
        """What the noise source promises: "GDP" or "none (simulation)"."""
        return self._noise.guarantee

    def joint(
        self, theta: NDArray[np.float64], budget: StepBudget, *, majorize: bool = False
    ) -> JointAnswer:
        """Release mean score, mean Hessian and mean score covariance at one parameter.

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Public (or released) parameter.
        budget : StepBudget
            Gaussian-DP parameter of each quantity; 0 leaves it out.
        majorize : bool
            Release the majorising curvature ``psi(r)/r`` instead of the Hessian ``psi'(r)``.

        Privacy
        -------
        Charges ``joint_mu`` (claims C17 to C19 of PROOFS.md): at most, and often below, the composition
        of the three budgets.  Replacement of one record, n public.
        """
        objective = self.objective
        coupling = objective.majorizer_coupling if majorize else objective.coupling
        mu = joint_mu(coupling, budget.gradient, budget.hessian, budget.meat)
        curvature = MAJORIZER if majorize else HESSIAN
        curvature_name = "majorizer" if majorize else "hessian"
        want = (
            GRADIENT
            | (curvature if budget.hessian else 0)
            | (MEAT if budget.meat else 0)
        )
        label = "gradient"
        if budget.hessian:
            label += " + " + curvature_name
        if budget.meat:
            label += " + meat"
        self.ledger.charge(GDP(mu), label)
        gradient, hessian, meat = self._sums(theta, want)
        question = (label, mu, theta)
        answers = [self._release(question, "gradient", GRADIENT, gradient, budget.gradient)]
        for query, quantity, value, part in (
            (curvature_name, HESSIAN, hessian, budget.hessian),
            ("meat", MEAT, meat, budget.meat),
        ):
            answers.append(self._release(question, query, quantity, value, part) if part else NONE)
        return JointAnswer(*answers, mu)

    def _release(
        self,
        question: tuple[Any, ...],
        query: str,
        quantity: int,
        value: NDArray[np.float64],
        mu: float,
    ) -> Answer:
        """Add noise to one mean and write its receipt.  Every answer goes through here."""
        p = self.objective.dimension
        draw = release_vector if quantity == GRADIENT else release_symmetric
        coordinates = p if quantity == GRADIENT else p * (p + 1) // 2
        sensitivity = self._sensitivity(quantity)
        scale = gaussian_scale(sensitivity, mu, coordinates)
        claim = CLAIMS[quantity]
        observer = OBSERVER.get()
        if observer is None:
            noisy = draw(value, scale, self._noise)
        else:
            release = Release(query, claim, value, mu, sensitivity, scale)
            noisy = observer.release(question, release, lambda: draw(value, scale, self._noise))
        return Answer(noisy, scale, Receipt(query, claim, mu, sensitivity, scale))

    def nonprivate_sums(
        self, theta: NDArray[np.float64], *, majorize: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Exact mean score, Hessian and score covariance: not private, for comparison only."""
        return self._sums(theta, GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT)

    def nonprivate_loss(self, theta: NDArray[np.float64]) -> float:
        """Exact mean loss: not private, for comparison only."""
        total = 0.0
        for X, y in self._records.blocks():
            total += self._kernel.loss(X, y, theta, float(self.n), self._threads)
        return total

    def _sums(
        self, theta: NDArray[np.float64], want: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        parts = [
            self._kernel.sums(X, y, theta, want, float(self.n), self._threads)
            for X, y in self._records.blocks()
        ]
        if len(parts) == 1:
            return parts[0]
        totals = [
            None if first is None else sum((part[i] for part in parts[1:]), first)
            for i, first in enumerate(parts[0])
        ]
        return totals[0], totals[1], totals[2]

    def _sensitivity(self, quantity: int) -> float:
        """Replacement sensitivity of one mean, the rounding of its summation included."""
        known = self._sensitivities.get(quantity)
        if known is None:
            objective, n, p = self.objective, self.n, self.objective.dimension
            depth = summation_depth(n, p, quantity)
            if quantity == GRADIENT:
                known = mean_score(objective.score_diameter, n, depth=depth)
            elif quantity == HESSIAN:
                known = mean_rank_one(objective.curvature_bound, n, p, depth=depth)
            else:
                known = mean_rank_one(objective.meat_bound, n, p, depth=depth)
            self._sensitivities[quantity] = known
        return known


#: Claims of PROOFS.md that bound the sensitivity of each mean.
CLAIMS = {GRADIENT: "C13", HESSIAN: "C14", MEAT: "C14"}

NONE = Answer(np.empty(0), 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))
