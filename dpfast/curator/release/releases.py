"""Test and release: a certificate of the curvature, then a release (claims R35, R22)."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from scipy.linalg import cho_factor, cho_solve

from dpfast.arguments import Array
from dpfast.curator.answers import Receipt
from dpfast.curator.noisy_release import release_count_with_noise, release_scaled_with_noise
from dpfast.curator.release.certified import Minimiser
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.one_step import exact_product
from dpfast.curator.release.terms import FunctionalTerms, ParameterTerms, Terms
from dpfast.errors import BudgetExceeded
from dpfast.privacy.budget import PureDP
from dpfast.privacy.ledger.paid import ChargedAnswers
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import LogScale, largest_count

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


class CountAnswer(NamedTuple):
    """Released integer of a certificate."""

    value: int
    receipt: Receipt


class CertifiedRelease(ChargedAnswers):
    """Certificate and one release, charged before (claims R5 to R7, R20 to R29, R35, C48)."""

    def __init__(self, curator: Curator, terms: Terms, kind: Kind) -> None:
        second = ["largest eigenvalue"] * (terms.certificates - 1)
        kind.refuse(terms.what, *second)
        self.rate = laplace_rate(COUNT, terms.count_epsilon)
        self.terms, self.kind = terms, kind
        self._curator = curator
        self._minimiser: Minimiser | None = None
        self._searching = threading.Lock()
        curator.ledger.charge(terms.opening, " + ".join(["certificate", *second]))
        super().__init__(
            ["certificate", *second, terms.what],
            "it was not paid for, is used, or was asked before the certificate. Open "
            "another CertifiedRelease.",
        )

    def certificate(self) -> CountAnswer:
        """Release the count of steps with discrete Laplace noise (claim R5)."""
        self._take("certificate")
        return self._count("certificate", "R5", (), self.kind.count(self._search().eigenvalue))

    def largest(self, scale: LogScale) -> CountAnswer:
        """Release the count of the largest eigenvalue with discrete Laplace noise (claim R28)."""
        self._take("largest eigenvalue", after="certificate")
        count = largest_count(self._search().largest, scale)
        return self._count("largest eigenvalue", "R28", (scale,), count)

    def _count(
        self, query: str, claim: str, parameters: tuple[Any, ...], count: int
    ) -> CountAnswer:
        """Release an integer of sensitivity ``COUNT``."""
        noise_scale = math.sqrt(2.0) * self.rate[1] / self.rate[0]
        terms, mu = self.terms, COUNT / noise_scale  # a Gaussian-DP reading, for audits
        if terms.delta == 0.0:
            mu = PureDP(terms.epsilon1).as_gdp().mu
        receipt = Receipt(query, claim, mu, float(COUNT), noise_scale)
        question = (query, mu, *parameters)
        value = release_count_with_noise(self._curator._noise, question, receipt, count, self.rate)
        return CountAnswer(value, receipt)

    def functionals(self, directions: Array, choices: tuple[FunctionalTerms, ...]) -> Array:
        """Release linear functionals of the minimiser, each with its secret scale (claim R29)."""
        if not len(directions) == len(choices) == self.terms.n_functionals:
            raise BudgetExceeded(
                f"{self.terms.n_functionals} functional(s) were paid for; received "
                f"{len(directions)}. Nothing was released: ask for as many."
            )
        self._take_paid("functional")
        search = self._search()
        values = [exact_product(w, search.theta) for w in directions]
        scales = [self._scale(search, w, t) for w, t in zip(directions, choices, strict=True)]
        bounds = [choice.scale_bound for choice in choices]
        # the public bound, not the secret scale: what is announced may be published
        sensitivity = math.hypot(*(choice.shift_bound for choice in choices))
        receipt = Receipt("functional", "R29", sensitivity / min(bounds), sensitivity, min(bounds))
        question = (receipt.query, receipt.mu, directions, choices)
        return release_scaled_with_noise(
            self._curator._noise, question, receipt, values, scales, bounds
        )

    def parameter(self, choice: ParameterTerms) -> Array:
        """Release the minimiser with normal noise of a public scale (claims R4 and R26)."""
        self._take_paid("parameter")
        shift, scale = choice.shift, choice.noise_scale
        receipt = Receipt("parameter", self.kind.plan.claim, shift / scale, shift, scale)
        question = ("parameter", receipt.mu, choice)
        return self._curator._release(question, receipt, self._search().theta).value

    def _scale(self, minimiser: Minimiser, direction: Array, choice: FunctionalTerms) -> float:
        """Compute the secret scale of one functional's noise (claim R29)."""
        factor = cho_factor(minimiser.hessian, check_finite=False)
        step = cho_solve(factor, direction, check_finite=False)
        delta = 2.0 * self.kind.plan.slope / self.kind.plan.n * self.kind.domain.support(step)
        return float(choice.multiplier * choice.factor * delta)

    def _take_paid(self, answer: str) -> None:
        """Mark the release after the certificate as used, and charge it."""
        terms, ledger = self.terms, self._curator.ledger
        ledger.check(terms.rest, answer)  # refused, it is still there to be asked for
        self._take(answer, after="certificate")
        ledger.charge(terms.rest, answer)

    def _search(self) -> Minimiser:
        with self._searching:  # two threads would search twice
            if self._minimiser is None:
                self._minimiser = self.kind.minimiser(self._curator)
            return self._minimiser
