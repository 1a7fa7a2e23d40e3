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
        self._noise = noise
        self._threads = threads
        self._kernel = RecordKernel(*objective.kernel_arguments())
        self._sensitivities: dict[tuple[str, int], float] = {}

    @property
    def guarantee(self) -> str:
        """What the noise source promises: "GDP" or "none (simulation)"."""
        return self._noise.guarantee

    def joint(
        self, theta: Array, budget: StepBudget, *, majorize: bool = False
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
        Charges ``joint_mu`` (claims C17 to C19 of PROOFS.md): at most, and often below, the
        composition of the three budgets.  Replacement of one record, n public.
        """
        objective = self.objective
        coupling = objective.majorizer_coupling if majorize else objective.coupling
        mu = joint_mu(coupling, budget.gradient, budget.hessian, budget.meat)
        curvature = "majorizer" if majorize else "hessian"
        queries = ["gradient"]
        queries += [curvature] if budget.hessian else []
        queries += ["meat"] if budget.meat else []
        label = " + ".join(queries)
        self.ledger.charge(GDP(mu), label)
        want = sum(WANTED[query] for query in queries)
        depth = summation_depth(self.n, objective.dimension, want) + self._records.n_blocks - 1
        sums = self._sums(theta, want)

        def answer(query: str, value: Array, part: float) -> Answer:
            return self._release((label, mu, theta), query, value, part, depth)

        return JointAnswer(
            gradient=answer("gradient", sums[0], budget.gradient),
            hessian=answer(curvature, sums[1], budget.hessian) if budget.hessian else NONE,
            meat=answer("meat", sums[2], budget.meat) if budget.meat else NONE,
            mu=mu,
        )

    def _release(
        self, question: tuple[Any, ...], query: str, value: Array, mu: float, depth: int
    ) -> Answer:
        """Add noise to one mean and write its receipt.  Every answer goes through here."""
        p = self.objective.dimension
        draw = release_vector if value.ndim == 1 else release_symmetric
        coordinates = p if value.ndim == 1 else p * (p + 1) // 2
        sensitivity = self._sensitivity(query, depth)
        scale = gaussian_scale(sensitivity, mu, coordinates)
        observer = OBSERVER.get()
        if observer is None:
            noisy = draw(value, scale, self._noise)
        else:
            release = Release(query, CLAIMS[query], value, mu, sensitivity, scale)
            noisy = observer.release(question, release, lambda: draw(value, scale, self._noise))
        return Answer(noisy, scale, Receipt(query, CLAIMS[query], mu, sensitivity, scale))

    def nonprivate_sums(
        self, theta: Array, *, majorize: bool = False
    ) -> tuple[Array, Array, Array]:
        """Exact mean score, Hessian and score covariance: not private, for comparison only."""
        return self._sums(theta, GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT)

    def nonprivate_loss(self, theta: Array) -> float:
        """Exact mean loss: not private, for comparison only."""
        total = 0.0
        for X, y in self._records.blocks():
            total += self._kernel.loss(X, y, theta, float(self.n), self._threads)
        return total

    def _sums(self, theta: Array, want: int) -> tuple[Array, Array, Array]:
        """Exact means of the wanted quantities; what is not wanted is an empty array."""
        blocks = self._records.blocks()
        n, threads = float(self.n), self._threads
        X, y = next(blocks)
        totals = self._kernel.sums(X, y, theta, want, n, threads)
        for X, y in blocks:
            parts = self._kernel.sums(X, y, theta, want, n, threads)
            for total, part in zip(totals, parts, strict=True):
                if total is not None and part is not None:
                    total += part
        gradient, curvature, meat = (EMPTY if total is None else total for total in totals)
        return gradient, curvature, meat

    def _sensitivity(self, query: str, depth: int) -> float:
        """Replacement sensitivity of one mean, the rounding of its summation included."""
        known = self._sensitivities.get((query, depth))
        if known is None:
            objective, n, p = self.objective, self.n, self.objective.dimension
            if query == "gradient":
                known = mean_score(objective.score_diameter, n, depth=depth)
            elif query == "meat":
                known = mean_rank_one(objective.meat_bound, n, p, depth=depth)
            else:
                known = mean_rank_one(objective.curvature_bound, n, p, depth=depth)
            self._sensitivities[query, depth] = known
        return known


#: What the kernels call each query.
WANTED = {"gradient": GRADIENT, "hessian": HESSIAN, "majorizer": MAJORIZER, "meat": MEAT}

#: Claims of PROOFS.md that bound the sensitivity of each mean.
CLAIMS = {"gradient": "C13", "hessian": "C14", "majorizer": "C14", "meat": "C14"}

EMPTY = np.empty(0)
NONE = Answer(EMPTY, 0.0, Receipt("none", "none", 0.0, 0.0, 0.0))
