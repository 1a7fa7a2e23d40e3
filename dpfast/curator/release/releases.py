"""Test and release: a certificate of the curvature, then what it allows.

A :class:`CertifiedRelease` answers its questions once each: the certificate, an integer with
discrete Laplace noise, one more for the largest eigenvalue if the terms say so, and then
functionals of the minimiser, or all of it.  Opening it charges the certificate, functionals are
charged when they are asked for (claim R35); the cost of a certificate and of a whole parameter is
not a sum (claim R8), and charged at once.  The scale of a functional's noise follows from the
records: it is drawn from and forgotten here (claim R22).
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from scipy.linalg import cho_factor, cho_solve

from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.door import hand_out_count, hand_out_scaled
from dpfast.curator.release.certified import Minimiser
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.one_step import exact_product
from dpfast.curator.release.perturbation import PerturbationTerms, paid_minimiser
from dpfast.curator.release.terms import FunctionalTerms, ParameterTerms, Terms
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.privacy.budget import PureDP
from dpfast.privacy.ledger.paid import PaidAnswers
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.condition import LogScale, largest_count

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


class CountAnswer(NamedTuple):
    """The released integer of a certificate."""

    value: int
    receipt: Receipt


class CertifiedRelease(PaidAnswers):
    """A certificate and one release.

    Opening charges ``terms.opening`` before any record is touched, functionals and their fallback
    charge ``terms.rest`` before they are drawn (claims R5 to R8, R20 to R27, R35 and R36 of
    ``PROOFS-release.md``).  Every part is released once, by this object alone: a
    copy or a forked process cannot (claim C48).  How long the search for the minimiser takes
    depends on the records and is not protected.
    """

    def __init__(self, curator: Curator, terms: Terms, kind: Kind) -> None:
        second = ["largest eigenvalue"] * (terms.certificates - 1)
        kind.refuse(terms.what, *second)
        self.rate = laplace_rate(COUNT, terms.count_epsilon)
        self.terms = terms
        self.kind = kind
        self.measure = kind.measure
        self._curator = curator
        self._minimiser: Minimiser | None = None
        self._searching = threading.Lock()
        fallback = ["fallback"] if terms.fallback else []
        curator.ledger.charge(terms.opening, terms.label)
        super().__init__(
            ["certificate", *second, terms.what, *fallback],
            "it was not paid for, is used, or was asked before the certificate. Open "
            "another CertifiedRelease.",
        )

    def certificate(self) -> CountAnswer:
        """Release the count of steps with discrete Laplace noise (claims R5, R31 and R36)."""
        self._take("certificate")
        count = self.kind.count(self._found())
        return self._count("certificate", self.kind.claim, (), count)

    def largest(self, scale: LogScale) -> CountAnswer:
        """Release the count of the largest eigenvalue with discrete Laplace noise (claim R28)."""
        self._take("largest eigenvalue", after="certificate")
        count = largest_count(self._found().largest, scale)
        return self._count("largest eigenvalue", "R28", (scale,), count)

    def _count(
        self, query: str, claim: str, parameters: tuple[Any, ...], count: int
    ) -> CountAnswer:
        """An integer of sensitivity ``COUNT``, released."""
        noise_scale = math.sqrt(2.0) * self.rate[1] / self.rate[0]
        terms, mu = self.terms, COUNT / noise_scale  # a Gaussian-DP reading, for audits
        if terms.delta == 0.0:
            mu = PureDP(terms.epsilon1).as_gdp().mu
        receipt = Receipt(query, claim, mu, float(COUNT), noise_scale)
        question = (query, mu, *parameters)
        noise = self._curator._noise
        value = hand_out_count(noise, question, receipt, count, self.rate, self.terms.cap)
        return CountAnswer(value, receipt)

    def functionals(self, directions: Array, choices: tuple[FunctionalTerms, ...]) -> Array:
        """Release linear functionals of the minimiser, each with its secret scale (claim R6)."""
        if not self.kind.covers(directions):
            raise InvalidInput(
                "a leverage certificate bounds the noise of the directions it was opened with only."
            )
        if not len(directions) == len(choices) == self.terms.n_functionals:
            raise BudgetExceeded(
                f"{self.terms.n_functionals} functional(s) were paid for; received "
                f"{len(directions)}. Nothing was released: ask for as many."
            )
        self._take_paid("functional", "functional", forgo="fallback")
        found = self._found()
        values = [exact_product(w, found.theta) for w in directions]
        scales = [self._scale(found, w, t) for w, t in zip(directions, choices, strict=True)]
        bounds = [choice.scale_bound for choice in choices]
        # the public bound, not the secret scale: what is announced may be published
        sensitivity = math.hypot(*(choice.shift_bound for choice in choices))
        receipt = Receipt("functional", "R6", sensitivity / min(bounds), sensitivity, min(bounds))
        question = (receipt.query, receipt.mu, directions, choices)
        return hand_out_scaled(
            self._curator._noise, question, receipt, values, scales, bounds, choices[0].law
        )

    def parameter(self, choice: ParameterTerms) -> Array:
        """Release the minimiser with normal noise of a public scale (claim R4)."""
        self._take_paid("parameter", "parameter", forgo="fallback")
        shift, scale = choice.shift, choice.noise_scale
        receipt = Receipt("parameter", self.kind.plan.claim, shift / scale, shift, scale)
        question = ("parameter", receipt.mu, choice)
        return self._curator._release(question, receipt, self._found().theta).value

    def _scale(self, found: Minimiser, direction: Array, choice: FunctionalTerms) -> float:
        """Secret scale of one functional's noise (claims R6 and R33)."""
        plan: MinimiserPlan = self.kind.plan
        factor = cho_factor(found.hessian, check_finite=False)
        p = cho_solve(factor, direction, check_finite=False)
        unit = 2.0 * plan.slope / plan.n
        delta = unit * self.kind.domain.support(p)
        # never negative: the computed Hessian is positive definite by claim R20
        length = math.sqrt(max(float(direction @ p), 0.0))
        psi = unit * self.measure.radius / math.sqrt(choice.l0) * length
        scale: float = choice.multiplier * (choice.factors.A * delta + choice.factors.Bc * psi)
        return scale

    def fallback(self, curator: Curator, terms: PerturbationTerms) -> Answer:
        """Release the perturbed minimiser in place of what was not certified (claim R24)."""
        kept = self.terms.for_fallback
        if not (terms.budget.epsilon <= kept.epsilon and terms.budget.delta <= kept.delta):
            raise BudgetExceeded(
                f"the fallback costs {terms.budget!r} and {kept!r} was kept for it. Nothing was "
                "released. Plan it with what was kept."
            )
        self._take_paid("fallback", "perturbed minimiser", forgo=self.terms.what)
        return paid_minimiser(curator, terms)

    def _take_paid(self, answer: str, label: str, *, forgo: str) -> None:
        """Mark what follows the certificate as given, and charge it if opening did not."""
        terms, ledger = self.terms, self._curator.ledger
        if terms.later:  # refused, it is still there to be asked for
            ledger.check(terms.rest, label)
        self._take(answer, after="certificate", forgo=forgo)
        if terms.later:
            ledger.charge(terms.rest, label)

    def _found(self) -> Minimiser:
        with self._searching:  # two threads would search twice
            if self._minimiser is None:
                self._minimiser = self.kind.minimiser(self._curator)
            return self._minimiser
