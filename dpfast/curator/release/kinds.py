"""Kinds of certificates: their counts, and their lower bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dpfast.arguments import one_of
from dpfast.curator.release.certified import Minimiser, certified_minimiser, certified_plan
from dpfast.curator.release.recursion import RecursiveCertificate
from dpfast.curator.release.smooth import smooth_minimiser, smooth_plan
from dpfast.errors import InvalidInput
from dpfast.models import Domain, release_constants
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import lower_bound_from_release, scaled_count

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


#: Part of the tail of a count's noise, which is exceeded with a failure's probability, within which
#: the noise is in 19 of 20 releases: ``log(20)/log(1/(2 delta1))`` at delta1 = 5e-7.
LIKELY = 0.22


class Kind:
    """Certificate of the smallest eigenvalue by theorem A; base of the other kinds."""

    #: What cannot be asked for beside it ("functional", "largest eigenvalue"), and what to do
    #: instead.
    excludes: ClassVar[Mapping[str, str]] = {}

    #: Step and threshold fall like this root of the number of records.
    root: ClassVar[int] = 1

    #: How the minimiser is found and how far it can move.
    plan: Any

    def __init__(self, curator: Curator, domain: Domain) -> None:
        self.domain = domain
        self.plan = certified_plan(curator, domain.radius)

    @classmethod
    def refuse(cls, *wanted: str) -> None:
        """Refuse requests that this kind of certificate excludes."""
        for what in wanted:
            if what in cls.excludes:
                raise InvalidInput(cls.excludes[what])

    def minimiser(self, curator: Curator) -> Minimiser:
        """Search for the minimiser; secret."""
        return certified_minimiser(curator, self.plan)

    def count(self, eigenvalue: float) -> int:
        """Compute the secret integer; one record changes it by ``COUNT`` at most."""
        plan = self.plan
        return scaled_count(eigenvalue, plan.step, plan.eta, largest=plan.largest)

    def lower_bound(self, count: int, tail: int) -> float:
        """Compute the certified lower bound; valid unless the count's noise exceeds ``tail``."""
        plan = self.plan
        return lower_bound_from_release(count, tail, plan.step, plan.eta, lreg=plan.floor)

    def estimate(self, count: int) -> float:
        """Estimate the eigenvalue by its released count."""
        plan = self.plan
        return float(plan.step + max(count, 0) * (plan.step + 2.0 * plan.eta) / COUNT)

    def records_needed(self, bound: float, count: int, tail: int) -> float:
        """Estimate how many such records certify ``bound``; infinity if that is unknown."""
        if not (count > tail / 4 and bound < math.inf):
            return math.inf
        return self._records(bound, count, tail)

    def least_records(self, bound: float, count: int, tail: int) -> float:
        """Estimate below how many records ``bound`` is not certified, given the count's noise."""
        if not bound < math.inf:
            return math.inf
        return max(self._records(bound, max(count, 0) + LIKELY * tail, tail), float(self.plan.n))

    def _records(self, bound: float, count: float, tail: int) -> float:
        target = self.estimate(self.count(bound) + tail)
        return float(self.plan.n * (target / self.estimate(math.ceil(count))) ** self.root)


class RecursiveKind(Kind):
    """Certificate by the paper's recursion for the smallest eigenvalue, corrected (R12 and R13)."""

    def __init__(self, curator: Curator, domain: Domain) -> None:
        super().__init__(curator, domain)
        plan, objective = self.plan, curator.objective
        curvature = release_constants(objective.loss, objective.scale).curvature
        self.recursion = RecursiveCertificate.linear_model(
            plan.c, plan.slope, curvature, plan.radius, plan.n, plan.ridge, eta=plan.eta
        )

    def count(self, eigenvalue: float) -> int:
        return self.recursion.count(eigenvalue)

    def lower_bound(self, count: int, tail: int) -> float:
        return float(max(self.plan.floor, self.recursion.lower_bound(count, tail)))

    def estimate(self, count: int) -> float:
        return self.recursion.lower_bound(count, 0)


class SmoothKind(RecursiveKind):
    """Certificate for losses that are convex and smooth only (claims R25 to R27)."""

    excludes: ClassVar[Mapping[str, str]] = {
        "functional": (
            "certificate='smooth' bounds how far the minimiser moves, not how the noise of one "
            "functional changes with the data, which needs self-concordance. Use "
            "release_parameter, or certificate='global' with a self-concordant loss."
        ),
        "largest eigenvalue": (
            'which="both" needs a self-concordant loss: pass certificate="global" or "recursive".'
        ),
    }
    root = 2

    def __init__(self, curator: Curator, domain: Domain) -> None:
        self.domain = domain
        self.plan = smooth_plan(curator, domain.radius)
        self.recursion = RecursiveCertificate.of_plan(self.plan)

    def minimiser(self, curator: Curator) -> Minimiser:
        return smooth_minimiser(curator, self.plan)


KINDS: dict[str, type[Kind]] = {
    "global": Kind,
    "recursive": RecursiveKind,
    "smooth": SmoothKind,
}


def kind_of(certificate: str, *wanted: str) -> type[Kind]:
    """Find the kind of this name; refuse one that excludes a request."""
    kind = KINDS[one_of(certificate, tuple(KINDS), "certificate")]
    kind.refuse(*wanted)
    return kind
