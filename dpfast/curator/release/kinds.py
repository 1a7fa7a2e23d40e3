"""The kinds of certificates: what each measures and counts, and what its lower bound allows.

A kind is one class.  Everything in it but :meth:`Kind.minimiser` and :meth:`Kind.count`, which see
secrets and release nothing, is a function of public constants and released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpfast.arguments import Array, one_of
from dpfast.curator.release.certified import Minimiser, certified_minimiser, certified_plan
from dpfast.curator.release.leverage import Leverage
from dpfast.curator.release.recursion import RecursiveCertificate
from dpfast.curator.release.smooth import smooth_minimiser, smooth_plan
from dpfast.curator.release.terms import (
    FunctionalTerms,
    Measure,
    ParameterTerms,
    Size,
    Terms,
    functional_terms,
    parameter_terms,
    proportional_terms,
)
from dpfast.errors import InvalidInput
from dpfast.models import Domain, release_constants
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.leverage import LeveragePlan
from dpfast.privacy.release.sensitivity import (
    lower_bound_from_release,
    scaled_count,
)
from dpfast.privacy.release.smooth_minimiser import SmoothPlan

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


NEEDS_EIGENVALUE = (
    'which="both" and method="paper" need the smallest eigenvalue and a self-concordant loss: '
    'pass certificate="global" or "recursive".'
)


class Kind:
    """One kind of certificate, by itself the smallest eigenvalue by theorem A.

    Its step is the same everywhere.
    """

    #: Where the sensitivity of the count is proved.
    claim: ClassVar[str] = "R5"
    #: What is bounded from below, in words.
    quantity: ClassVar[str] = "smallest eigenvalue of the Hessian"
    #: What cannot be asked for beside it ("functional", "parameter", "largest eigenvalue"), and
    #: what to do instead.
    excludes: ClassVar[Mapping[str, str]] = {}

    #: How the minimiser is found and how far it can move.
    plan: Any
    #: Step, error and range of what is certified.
    measure: Any

    def __init__(self, curator: Curator, domain: Domain, directions: Array | None = None) -> None:
        self.domain = domain
        self.plan = self.measure = certified_plan(curator, domain.radius)
        rows = () if directions is None else directions
        self.sizes = [Size(float(np.linalg.norm(w)), domain.support(w)) for w in rows]

    @classmethod
    def refuse(cls, *wanted: str) -> None:
        """Refuse what it excludes."""
        for what in wanted:
            if what in cls.excludes:
                raise InvalidInput(cls.excludes[what])

    def minimiser(self, curator: Curator) -> Minimiser:
        """Search for the minimiser; secret."""
        return certified_minimiser(curator, self.plan)

    def count(self, found: Minimiser) -> int:
        """Integer that one record changes by ``COUNT`` at most; secret."""
        plan = self.plan
        return scaled_count(found.eigenvalue, plan.step, plan.eta, largest=plan.largest)

    def covers(self, directions: Array) -> bool:
        """Whether its bound holds for the noise of these functionals."""
        return True

    def lower_bound(self, count: int, tail: int) -> float:
        """At most what is certified, unless the noise of the released count exceeds ``tail``."""
        kept = self.measure
        return lower_bound_from_release(count, tail, kept.step, kept.eta, lreg=kept.floor)

    def estimate(self, count: int) -> float:
        """What is certified, by its released count."""
        kept: Measure = self.measure
        return kept.step + max(count, 0) * (kept.step + 2.0 * kept.eta) / COUNT

    def functionals(
        self, terms: Terms, l0: float, largest: float | None = None
    ) -> tuple[FunctionalTerms, ...] | None:
        """How functionals are released, or None if these bounds do not allow it."""
        if terms.certificates == 1:
            return functional_terms(self.measure, terms, l0, self.sizes)
        if largest is None:
            return None
        inner = self.domain.inner_radius
        return proportional_terms(self.plan, terms, l0, largest, inner, self.sizes)

    def parameter(self, terms: Terms, l0: float) -> ParameterTerms | None:
        """How the parameter is released, or None if this bound does not allow it."""
        return parameter_terms(self.plan, terms, l0)

    def records_needed(self, bound: float, estimate: float, tail: int) -> float:
        """About how many records like these certify ``bound``; infinity if that is not known."""
        kept: Measure = self.measure
        noise = tail * (kept.step + 2.0 * kept.eta) / COUNT
        if not estimate > 3.0 * kept.step + noise / 4.0:
            return math.inf
        return kept.n * (bound + noise) / estimate


class LeverageKind(Kind):
    """The inverse of the largest leverage over the declared rows (claims R31 to R33)."""

    claim = "R31"
    quantity = "inverse of the largest leverage x'H^-1 x"
    excludes: ClassVar[Mapping[str, str]] = {
        "parameter": (
            'certificate="leverage" bounds functionals of the parameter, not its length. Pass '
            '"global", "recursive" or "smooth", or use dpfast.release_functional with directions.'
        ),
        "largest eigenvalue": NEEDS_EIGENVALUE,
    }

    def __init__(self, curator: Curator, domain: Domain, directions: Array | None = None) -> None:
        super().__init__(curator, domain)
        self.leverage = Leverage(self.plan, domain, directions)
        self.measure = self.leverage.plan
        lengths, alignments = self.leverage.lengths, self.leverage.alignments
        self.sizes = [
            Size(float(t), None, float(a)) for t, a in zip(lengths, alignments, strict=True)
        ]

    def count(self, found: Minimiser) -> int:
        kept: LeveragePlan = self.measure
        value = self.leverage.value(found.hessian)
        return scaled_count(value, kept.step, kept.eta, largest=kept.ceiling)

    def covers(self, directions: Array) -> bool:
        return np.array_equal(directions, self.leverage.directions)


class RecursiveKind(Kind):
    """The smallest eigenvalue by the paper's recursion for linear models, corrected.

    A count of steps that depend on the eigenvalue (claims R12 and R13).
    """

    def __init__(self, curator: Curator, domain: Domain, directions: Array | None = None) -> None:
        super().__init__(curator, domain, directions)
        plan, objective = self.plan, curator.objective
        curvature = release_constants(objective.loss, objective.scale).curvature
        self.recursion = RecursiveCertificate.linear_model(
            plan.c, plan.slope, curvature, plan.radius, plan.n, plan.ridge, eta=plan.eta
        )

    def count(self, found: Minimiser) -> int:
        return self.recursion.count(found.eigenvalue)

    def lower_bound(self, count: int, tail: int) -> float:
        floor: float = self.plan.floor
        return max(floor, self.recursion.lower_bound(count, tail))

    def estimate(self, count: int) -> float:
        return self.recursion.lower_bound(count, 0)


class SmoothKind(RecursiveKind):
    """The smallest eigenvalue for losses that are convex and smooth only (claims R25 to R27)."""

    excludes: ClassVar[Mapping[str, str]] = {
        "functional": (
            "certificate='smooth' bounds how far the minimiser moves, not how the noise of one "
            "functional changes with the data, which needs self-concordance. Use "
            "release_parameter, or certificate='global' with a self-concordant loss."
        ),
        "largest eigenvalue": NEEDS_EIGENVALUE,
    }

    def __init__(self, curator: Curator, domain: Domain, directions: Array | None = None) -> None:
        self.domain = domain
        self.plan = self.measure = smooth_plan(curator, domain.radius)
        self.recursion = RecursiveCertificate.of_plan(self.plan)

    def minimiser(self, curator: Curator) -> Minimiser:
        return smooth_minimiser(curator, self.plan)

    def records_needed(self, bound: float, estimate: float, tail: int) -> float:
        if self.recursion.count(estimate) <= tail / 4.0:
            return math.inf

        def certifies(n: float) -> bool:
            larger: SmoothPlan = self.plan.of_size(math.ceil(n))
            recursion = RecursiveCertificate.of_plan(larger)
            found = recursion.lower_bound(recursion.count(estimate), tail)
            return larger.shift(found) < math.inf

        low = high = float(self.plan.n)
        try:
            while not certifies(high):
                low, high = high, 2.0 * high
        except InvalidInput:  # more than rounding allows
            return math.inf
        while high - low > 0.01 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if certifies(middle) else (middle, high)
        return high


KINDS: dict[str, type[Kind]] = {
    "global": Kind,
    "leverage": LeverageKind,
    "recursive": RecursiveKind,
    "smooth": SmoothKind,
}


def kind_of(certificate: str, *wanted: str) -> type[Kind]:
    """The kind of this name; refuses one that excludes what is wanted of it."""
    kind = KINDS[one_of(certificate, tuple(KINDS), "certificate")]
    kind.refuse(*wanted)
    return kind
