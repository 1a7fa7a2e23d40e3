"""One certified release: opened, then asked step by step, and charged as far as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, one_of
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.perturbation import PerturbationTerms, perturbation_terms
from dpfast.curator.release.terms import FunctionalTerms, Terms, difference, in_units, largest_scale
from dpfast.front.request import charge_shared, refuse_unpayable
from dpfast.inference.composition import Prepaid, Sum, composition_of
from dpfast.models import release_constants
from dpfast.privacy.budget import GDP, ApproxDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.condition import largest_bound
from dpfast.privacy.release.sensitivity import tail_count
from dpfast.privacy.sensitivity import mean_score
from dpfast.release.request import ReleaseRequest
from dpfast.release.results import Certificate, NotCertified, ParameterRelease, ReleaseGuarantee

FALLBACKS = (None, "objective-perturbation")

#: Part of delta for the certificate's failure.
FAILURE_SHARE = 0.5

#: Announced noise that is wanted of one functional, in that of a fit by the same bound: no release
#: within it had more than a fit's error (bench/results/release_defaults.md).
TIMES_FIT = 1.0

#: Records beyond which the ridge of a fallback does not fall.
MOST_RECORDS = 1 << 20


def make_terms(
    what: str,
    total: ApproxDP,
    certificate_share: float,
    fallback: str | None,
    *,
    noise: str,
    count: int,
    certificates: int = 1,
    whole: ApproxDP | None = None,
) -> Terms:
    """Divide the total between certificate, release and fallback, in units of the whole."""
    whole = total if whole is None else whole
    share = number_in(certificate_share, "certificate_share", "(0, 1)")
    fallback = one_of(fallback, FALLBACKS, "fallback")
    terms = Terms(
        what, total.epsilon, total.delta, in_units(total.epsilon * share, whole.epsilon), 0.0,
        noise, count, fallback is not None, certificates,
    )  # fmt: skip
    failure = (total.delta - terms.reserve) * FAILURE_SHARE
    return terms._replace(delta1=in_units(failure, whole.delta))


def fallback_ridge(request: ReleaseRequest, epsilon: float) -> float:
    """Public ridge of the fallback: four times what objective perturbation needs at least.

    Not smaller for more records than a million, where the noise that covers rounding, divided by
    the ridge, would grow beyond what the tilt does.
    """
    constants = release_constants(request.loss, request.objective().scale)
    curvature = constants.curvature * request.domain.radius**2
    return max(request.ridge, 4.0 * curvature / (min(request.n, MOST_RECORDS) * epsilon))


class _Fallback(NamedTuple):
    ridge: float
    terms: PerturbationTerms


class Session:
    """A certified release whose certificate was charged, and what a refusal returns.

    A shared ledger is refused at once if it cannot pay for all; the certificate is charged at once,
    and before functionals or their fallback are drawn the rest (claim R35).
    """

    _count: int | None = None
    _largest: float | None = None

    def __init__(
        self,
        request: ReleaseRequest,
        terms: Terms,
        kind: type[Kind],
        what: str,
        privacy: PureDP | ApproxDP,
        ledger: Ledger | None,
        extra: tuple[str, ...] = (),
        directions: Array | None = None,
        aside: tuple[ApproxDP, Ledger] | None = None,
        max_noise: float | None = None,
    ) -> None:
        self.max_noise = math.inf if max_noise is None else max_noise
        self._unwanted: tuple[float, float] | None = None
        self.request = request
        self.terms = terms
        self.directions = directions
        self.privacy = privacy
        self.extra = extra
        self.aside = aside
        self.own_ledger = Ledger(terms.budget)
        self.tests = (
            "the certificate"
            if terms.certificates == 1 or terms.what == "nothing"
            else "the certificates of the smallest and the largest eigenvalue"
        )
        self.query = request.open(terms, kind, self.own_ledger, directions)
        self.kind = self.query.kind
        self.instead = self._plan_fallback() if terms.fallback else None
        by_fit = max_noise is None and directions is not None
        self._fit_noise = self._noise_of_fit() if by_fit else None
        self._shared, self._label = ledger, request.label(what)
        refuse_unpayable(ledger, privacy, privacy, self._label)
        # everything that can be refused was
        self._charge(terms.opening if terms.later else privacy, "certificate", request.room)

    def pay_rest(self, total: PureDP | ApproxDP, part: str) -> None:
        """Charge what of this total follows the certificate; refused, nothing of it is drawn."""
        if self.terms.later:
            self._charge(self._beyond_opening(total), part)
            self.promised = total

    def _beyond_opening(self, total: PureDP | ApproxDP) -> ApproxDP:
        opening = self.terms.opening
        assert isinstance(total, ApproxDP) and isinstance(opening, ApproxDP)
        return difference(total, opening)

    def _charge(self, spend: PureDP | ApproxDP, part: str, room: int = 0) -> None:
        label = f"{self._label}: {part}" if self.terms.later else self._label
        charge_shared(self._shared, spend, spend, label, room)
        self.promised = spend

    def so_far(self, error: str) -> Certificate | None:
        """The certificate, if it was released: of what follows nothing is handed back."""
        return None if self._count is None else self._certificate()

    def certificate(self) -> Certificate:
        """Release the lower bound."""
        self._count = self.query.certificate().value
        return self._certificate()

    def _certificate(self) -> Certificate:
        kind, terms, count = self.kind, self.terms, self._count
        assert count is not None
        found = Certificate(
            quantity=kind.quantity,
            lower_bound=kind.lower_bound(count, terms.tail()),
            estimate=kind.estimate(count),
            step=kind.measure.step,
            floor=kind.measure.floor,
            failure=terms.failure,
            privacy=self.guarantee(self.tests),
        )
        return found if self._largest is None else found.with_largest(self._largest)

    def with_largest(self, found: Certificate) -> Certificate:
        """Release an upper bound of the largest eigenvalue, too, if the lower one allows it."""
        plan = self.kind.plan
        assert isinstance(plan, MinimiserPlan)
        scale = largest_scale(plan, found.lower_bound)
        if scale is None:
            return found
        # wrong as often as the lower bound (claim R28)
        self._largest = largest_bound(self.query.largest(scale).value, self.terms.tail(), scale)
        return found.with_largest(self._largest)

    def guarantee(self, *entries: str) -> ReleaseGuarantee:
        total = self.promised
        delta = total.delta if isinstance(total, ApproxDP) else 0.0
        spent = composition_of(self.own_ledger)
        if self.aside is not None and total == self.privacy:
            part, ledger = self.aside
            spent = Sum((spent, Prepaid(self.extra[0], part, composition_of(ledger))))
            entries = (*entries, *self.extra)
        return self.request.guarantee(total.epsilon, delta, entries, spent)

    def choices(self, found: Certificate) -> tuple[FunctionalTerms, ...] | None:
        """How functionals are released, or None for what :meth:`refusal` returns."""
        choices, self._unwanted = self._offered(found.lower_bound, found.largest_bound)
        return choices

    def _offered(
        self, l0: float, largest: float | None
    ) -> tuple[tuple[FunctionalTerms, ...] | None, tuple[float, float] | None]:
        """How functionals are released, or None, and the noise that is most above what is wanted.

        Of that the deviation, and what it would have to be.
        """
        choices = self.kind.functionals(self.terms, l0, largest)
        if choices is None:
            return None, None
        pairs = zip((choice.deviation for choice in choices), self._wanted(l0), strict=True)
        above = [(noise / most, noise, most) for noise, most in pairs if noise > most]
        return (choices, None) if not above else (None, max(above)[1:])

    def _wanted(self, l0: float) -> list[float]:
        """Largest announced noise of each functional that is wanted; from released numbers.

        By default some times that of a fit with this budget, by the same bound of the curvature,
        for each of the functionals, which share the budget.
        """
        assert self.directions is not None
        if self._fit_noise is None:
            return [self.max_noise] * len(self.directions)
        return list(TIMES_FIT * len(self.directions) * self._fit_noise / np.array(self._along(l0)))

    def _noise_of_fit(self) -> Array:
        """Deviations along the directions of the last step of a fit, times the curvature there."""
        objective, total = self.request.objective(), GDP.within(self.terms.budget).mu
        sensitivity = mean_score(objective.score_diameter, self.request.n)
        score = gaussian_scale(sensitivity, total, self.request.dimension)
        assert self.directions is not None
        return np.asarray(score * np.linalg.norm(self.directions, axis=1))

    def _allows(self, l0: float, largest: float | None = None) -> bool:
        if self.terms.what == "parameter":
            return self.kind.parameter(self.terms, l0) is not None
        return self._offered(l0, largest)[0] is not None

    def _along(self, curvature: float) -> list[float]:
        """The Hessian's curvature along each direction, which is what releases were forecast by."""
        kind = self.kind
        assert self.directions is not None
        eigenvalue = curvature / kind.measure.spread
        return [
            max((float(np.linalg.norm(direction)) / size.norm) ** 2 * curvature, eigenvalue)
            for direction, size in zip(self.directions, kind.sizes, strict=True)
        ]

    def refusal(self, found: Certificate) -> ParameterRelease | NotCertified:
        """The fallback, or what would have been enough."""
        if self.instead is not None:
            return self._fall_back(found, self.instead)
        kind, terms = self.kind, self.terms
        plan, measure = kind.plan, kind.measure
        if terms.certificates == 1:
            needed = self._smallest(self._allows)
            ridge = needed * (plan.radius / measure.radius) ** 2  # an eigenvalue of the Hessian
        else:
            assert isinstance(plan, MinimiserPlan)
            largest = plan.largest
            # records like these keep the condition number; the public one is not exceeded
            condition = found.condition_number or largest / max(found.estimate, plan.step)
            needed = self._smallest(lambda bound: self._allows(bound, condition * bound))
            ridge = self._smallest(lambda bound: self._allows(bound, largest + bound))
        tail = terms.tail()
        assert self._count is not None
        # the released count is within this of the exact one in nine of ten cases
        off = tail_count(terms.count_epsilon, 0.05)
        records, fewest, most = (
            kind.records_needed(needed, kind.estimate(count), tail)
            for count in (self._count, self._count + off, self._count - off)
        )
        eigenvalue = found.estimate / getattr(measure, "spread", 1.0)
        return NotCertified(
            certificate=found,
            lower_bound_needed=needed,
            records_needed=math.ceil(records) if records < math.inf else records,
            records_range=(max(fewest, float(self.request.n)), most),
            ridge_needed=ridge,
            shrinkage=ridge / (ridge + eigenvalue) if ridge < math.inf else 1.0,
            left=self._beyond_opening(self.privacy) if terms.later else None,
            unwanted=self._unwanted,
            privacy=self.guarantee(self.tests),
        )

    def _plan_fallback(self) -> _Fallback:
        rest = self.terms.for_fallback
        ridge = fallback_ridge(self.request, rest.epsilon)
        curator = self.request.curator(Ledger(rest), ridge)
        return _Fallback(ridge, perturbation_terms(curator, self.request.domain.radius, rest))

    def _fall_back(self, certificate: Certificate, fallback: _Fallback) -> ParameterRelease:
        self.pay_rest(self.terms.budget, "fallback")  # standard errors are not bought
        curator = self.request.curator(Ledger(self.terms.budget), fallback.ridge)
        answer = self.query.fallback(curator, fallback.terms)
        return ParameterRelease(
            params=answer.value,
            names=self.request.names,
            noise_scale=fallback.terms.deviation,
            certificate=certificate,
            method=f"not certified; objective perturbation with ridge {fallback.ridge:.4g} instead "
            "(the scale of the noise is at most what is stated)",
            privacy=self.guarantee(self.tests, "objective perturbation"),
        )

    def _smallest(self, enough: Callable[[float], bool]) -> float:
        """Smallest bound that is enough, up to one percent; infinity if there is none."""
        low, high = 0.1 * self.kind.measure.step, self.kind.measure.step * 1e6
        if not enough(high):
            return math.inf
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high
