"""One certified release from the budget to the result: shared by functionals and parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.release.perturbation import PerturbationTerms, perturbation_terms
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import Measure, Size, Terms, largest_scale
from dpfast.errors import InvalidInput, described
from dpfast.models import release_constants
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.condition import LogScale
from dpfast.privacy.release.sensitivity import COUNT
from dpfast.privacy.release.smooth_minimiser import SmoothPlan
from dpfast.release.combinator import TestAndRelease
from dpfast.release.recursion import RecursiveCertificate
from dpfast.release.request import ReleaseRequest
from dpfast.release.results import Certificate, NotCertified, ParameterRelease, ReleaseGuarantee

__all__ = ["FALLBACKS", "Session", "fallback_ridge", "make_terms"]

FALLBACKS = (None, "objective-perturbation")

#: Part of delta for the certificate's failure, and of the rest for a fallback.
FAILURE_SHARE = 0.5
RESERVE_SHARE = 0.1

Array = NDArray[np.float64]

Allowed = TypeVar("Allowed")
Released = TypeVar("Released")


def make_terms(
    what: str,
    total: ApproxDP,
    share: float,
    fallback: str | None,
    *,
    noise: str,
    count: int,
    certificates: int = 1,
) -> Terms:
    """Divide the total between certificate, release and fallback."""
    if fallback not in FALLBACKS:
        raise InvalidInput(
            f"fallback must be one of {FALLBACKS}; received {described(fallback, text=True)}."
        )
    reserve = total.delta * RESERVE_SHARE if fallback else 0.0
    failure = (total.delta - reserve) * FAILURE_SHARE
    return Terms(
        what, total.epsilon, total.delta, total.epsilon * share, failure, noise, count, reserve,
        certificates,
    )  # fmt: skip


def fallback_ridge(request: ReleaseRequest, epsilon: float) -> float:
    """Public ridge of the fallback: four times what objective perturbation needs at least."""
    constants = release_constants(request.loss, request.objective().scale)
    curvature = constants.curvature * request.domain.radius**2
    return max(request.ridge, 4.0 * curvature / (request.n * epsilon))


Refusal = ParameterRelease | NotCertified


class _Fallback(NamedTuple):
    ridge: float
    terms: PerturbationTerms


class Session:
    """Opens a certified release and runs it.

    Parameters
    ----------
    request : ReleaseRequest
    terms : Terms
    what : str
        Name of the public function, for the shared ledger.
    privacy : Budget
        The total, all of it: ``extra`` and what ``terms`` divide.
    ledger : Ledger or None
        Shared; charged at once.
    certificate : str
        "global", "leverage", "recursive" or "smooth".
    extra : tuple of str
        What else the total pays for.
    directions : ndarray of shape (k, p), optional
        Whose functionals will be released.

    Attributes
    ----------
    plan : MinimiserPlan or SmoothPlan
        Of the search for the minimiser.
    measure : MinimiserPlan, SmoothPlan or LeveragePlan
        Of what is certified.
    leverage : Leverage or None
    """

    def __init__(
        self,
        request: ReleaseRequest,
        terms: Terms,
        what: str,
        privacy: ApproxDP,
        ledger: Ledger | None,
        certificate: str,
        extra: tuple[str, ...] = (),
        directions: Array | None = None,
    ) -> None:
        self.request = request
        self.terms = terms
        self.privacy = privacy
        self.extra = extra
        curator = request.curator(Ledger(terms.budget))
        self.plan: MinimiserPlan | SmoothPlan = request.plan(curator, certificate)
        self.recursion = request.recursion(certificate, self.plan)
        self.leverage = request.leverage(certificate, self.plan, directions)
        self.measure: Measure = self.plan if self.leverage is None else self.leverage.plan
        self.fallback = self._plan_fallback() if terms.reserve else None
        self.query = CertifiedRelease(
            curator, request.domain, terms, self.recursion, self.leverage, self.plan
        )
        request.charge(ledger, privacy, what)  # everything that can be refused was

    def run(
        self,
        allow: Callable[[float], Allowed | None],
        release: Callable[[Allowed, Certificate], Released],
        refuse: Callable[[Certificate], Refusal] | None = None,
    ) -> Released | Refusal:
        """Certificate, decision, release or refusal.

        Parameters
        ----------
        allow : callable
            From the released lower bound to how the release is made, or None.
        release : callable
        refuse : callable, optional
            Default: :meth:`refusal`, with what ``allow`` says of a lower bound.
        """
        if refuse is None:
            refuse = partial(self.refusal, least=lambda l0: allow(l0) is not None)
        certificates: list[Certificate] = []

        def test() -> float:
            count = self.query.certificate().value
            guarantee = self.guarantee(self.tests)
            found = self.request.certificate(
                self.measure, self.terms, count, self.recursion, guarantee
            )
            certificates.append(found)
            return found.lower_bound

        steps: TestAndRelease[float, Allowed, Released, Refusal]
        steps = TestAndRelease(
            test,
            allow,
            lambda allowed: release(allowed, certificates[0]),
            lambda _: refuse(certificates[0]),
        )
        return steps.run()

    def sizes(self, directions: Array) -> list[Size]:
        """Of each direction, what ``functional_terms`` asks for."""
        if self.leverage is not None:
            lengths, alignments = self.leverage.lengths, self.leverage.alignments
            return [
                Size(float(t), None, float(a)) for t, a in zip(lengths, alignments, strict=True)
            ]
        domain = self.request.domain
        return [Size(float(np.linalg.norm(w)), domain.support(w)) for w in directions]

    def run_with_condition(
        self,
        allow: Callable[[float, float], Allowed | None],
        release: Callable[[Allowed, Certificate], Released],
    ) -> Released | Refusal:
        """The same with a second certificate, of the largest eigenvalue, inside of the first.

        Parameters
        ----------
        allow : callable
            From both released bounds to how the release is made, or None.
        release : callable
        """
        plan = self.plan
        assert isinstance(plan, MinimiserPlan)

        def refuse(found: Certificate) -> Refusal:
            # records like these keep the condition number; the public one is not exceeded
            condition = found.condition_number or plan.largest / max(found.estimate, plan.step)
            return self.refusal(
                found,
                lambda l0: allow(l0, condition * l0) is not None,
                lambda ridge: allow(ridge, plan.largest + ridge) is not None,
            )

        def again(scale: LogScale, found: Certificate) -> Released | Refusal:
            def test() -> Certificate:
                count = self.query.largest(scale).value
                return found.with_largest(self.terms.upper_bound(count, scale))

            def choose(both: Certificate) -> tuple[Allowed, Certificate] | None:
                assert both.largest_bound is not None
                allowed = allow(both.lower_bound, both.largest_bound)
                return None if allowed is None else (allowed, both)

            steps: TestAndRelease[Certificate, tuple[Allowed, Certificate], Released, Refusal] = (
                TestAndRelease(test, choose, lambda chosen: release(*chosen), refuse)
            )
            return steps.run()

        return self.run(lambda l0: largest_scale(plan, l0), again, refuse)

    @property
    def tests(self) -> str:
        """What the certificate consists of, for a guarantee."""
        if self.terms.certificates == 1:
            return "the certificate"
        return "the certificates of the smallest and the largest eigenvalue"

    def guarantee(self, *entries: str) -> ReleaseGuarantee:
        total = self.privacy
        return self.request.guarantee(total.epsilon, total.delta, (*entries, *self.extra))

    def _plan_fallback(self) -> _Fallback:
        terms = self.terms
        rest: Budget = ApproxDP(terms.epsilon - terms.epsilon1, terms.reserve)
        assert isinstance(rest, ApproxDP)
        ridge = fallback_ridge(self.request, rest.epsilon)
        curator = self.request.curator(Ledger(rest), ridge)
        return _Fallback(ridge, perturbation_terms(curator, self.request.domain.radius, rest))

    def _fall_back(self, certificate: Certificate, fallback: _Fallback) -> ParameterRelease:
        curator = self.request.curator(Ledger(self.terms.budget), fallback.ridge)
        answer = self.query.fallback(curator, fallback.terms)
        scale = fallback.terms.tilt_scale
        return ParameterRelease(
            params=answer.value,
            names=self.request.names,
            noise_scale=scale / fallback.ridge,
            certificate=certificate,
            method=f"not certified; objective perturbation with ridge {fallback.ridge:.4g} instead "
            "(the scale of the noise is at most what is stated)",
            privacy=self.guarantee(self.tests, "objective perturbation"),
        )

    def refusal(
        self,
        certificate: Certificate,
        least: Callable[[float], bool],
        by_ridge: Callable[[float], bool] | None = None,
    ) -> Refusal:
        """The fallback, or what would be enough.

        Parameters
        ----------
        certificate : Certificate
        least : callable
            Whether a lower bound would be enough; increasing.
        by_ridge : callable, optional
            Whether a ridge penalty would be, if that is not the same.
        """
        if self.fallback is not None:
            return self._fall_back(certificate, self.fallback)
        plan, terms = self.measure, self.terms
        high = self._smallest(least)
        if isinstance(plan, SmoothPlan):
            records = _smooth_records(plan, certificate.estimate, terms.tail())
        else:
            tail = terms.tail() * (plan.step + 2.0 * plan.eta) / COUNT
            records = math.inf
            if certificate.estimate > 3.0 * plan.step + tail / 4.0:
                records = plan.n * (high + tail) / certificate.estimate
        return NotCertified(
            certificate=certificate,
            lower_bound_needed=high,
            records_needed=math.ceil(records) if records < math.inf else records,
            # a ridge is an eigenvalue of the Hessian
            ridge_needed=high * (self.plan.radius / plan.radius) ** 2
            if by_ridge is None
            else self._smallest(by_ridge),
            privacy=self.guarantee(self.tests),
        )

    def _smallest(self, enough: Callable[[float], bool]) -> float:
        """Smallest bound that is enough, up to one percent; infinity if there is none."""
        low, high = 0.1 * self.measure.step, self.measure.step * 1e6
        if not enough(high):
            return math.inf
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


def _smooth_records(plan: SmoothPlan, estimate: float, tail: int) -> float:
    """Number of records for which a count of this eigenvalue, less its noise, certifies."""
    if RecursiveCertificate.of_plan(plan).count(estimate) <= tail / 4.0:
        return math.inf

    def certifies(n: float) -> bool:
        larger = plan.of_size(math.ceil(n))
        recursion = RecursiveCertificate.of_plan(larger)
        bound = recursion.lower_bound(recursion.count(estimate), tail)
        return larger.shift(bound) < math.inf

    low = high = float(plan.n)
    try:
        while not certifies(high):
            low, high = high, 2.0 * high
    except InvalidInput:  # more than rounding allows
        return math.inf
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if certifies(middle) else (middle, high)
    return high
