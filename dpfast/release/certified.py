"""Test and release, as in paper 3: a certificate, then the release that it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dpfast.arguments import Array, number_in, one_of
from dpfast.curator.release.kinds import Kind, kind_of
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import (
    FunctionalTerms,
    Terms,
    functional_terms,
    largest_scale,
    parameter_terms,
)
from dpfast.errors import InvalidBudget, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account
from dpfast.inference.composition import composition_of
from dpfast.models import Domain, Loss, Objective
from dpfast.privacy.budget import ApproxDP, Budget, PureDP, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.release.calibration import smallest
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.sensitivity import MIN_CHANGE, largest_bound
from dpfast.release.request import ReleaseRequest, approximate
from dpfast.release.results import Certificate, NotCertified, ParameterRelease, ReleaseGuarantee

WHICH = ("smallest", "both")

#: Half of delta covers a failing certificate; the other half is for the release itself.
FAILURE_SHARE = 0.5


def make_terms(
    what: str, total: ApproxDP, certificate_share: float, count: int = 1, certificates: int = 1
) -> Terms:
    """Divide the total between certificate and release; the remainder is rounded down."""
    epsilon1 = number_in(certificate_share, "certificate_share", "(0, 1)") * total.epsilon
    delta1 = FAILURE_SHARE * total.delta
    return Terms(what, total.epsilon, total.delta, epsilon1, delta1, count, certificates)


class CertifiedSession:
    """Certified release whose certificate is paid for, with its refusal (claim R35)."""

    def __init__(
        self,
        request: ReleaseRequest,
        terms: Terms,
        kind: type[Kind],
        what: str,
        privacy: PureDP | ApproxDP,
        ledger: Ledger | None,
    ) -> None:
        self.request = request
        self.terms = terms
        self.privacy = privacy
        self.own_ledger = Ledger(terms.budget)
        curator = request.curator(self.own_ledger)
        self.query = CertifiedRelease(curator, terms, kind(curator, request.domain))
        self.kind = self.query.kind
        self._shared_ledger = ledger
        self._label = request.label(what)
        self._count: int | None = None
        self._smallest = 0.0
        self._largest: float | None = None
        Account(privacy, ledger, privacy).refuse_unpayable(self._label)
        # every refusal is above this line: nothing was charged yet
        if terms.what == "nothing":
            self._charge(privacy, privacy, "", request.memory_bytes)
        else:
            self._charge(terms.opening, terms.opening, ": certificate", request.memory_bytes)

    def _charge(self, spend: Any, promised: Any, part: str, memory_bytes: int = 0) -> None:
        Account(spend, self._shared_ledger, spend).charge(self._label + part, memory_bytes)
        # at once: after an interrupt the guarantee must not state less than was charged
        self.promised = promised

    def pay_rest(self) -> None:
        """Charge the part of the total after the certificate; if refused, nothing more is drawn."""
        self._charge(self.remaining, self.privacy, ": release")

    @property
    def remaining(self) -> ApproxDP:
        """Part of the total for the release that follows the certificate."""
        return self.terms.rest

    def so_far(self, error: str, keeping: KeepReleased) -> Certificate | None:
        """Return the certificate if it was released; later answers are not handed back."""
        return None if self._count is None else self._certificate()

    def certificate(self) -> Certificate:
        """Release the lower bound, and an upper bound of the largest eigenvalue where requested."""
        terms = self.terms
        count = self.query.certificate().value
        self._count, self._smallest = count, self.kind.lower_bound(count, terms.tail())
        if terms.certificates > 1:
            scale = largest_scale(self.kind.plan, self._smallest)
            if scale is not None:  # fails with the lower bound's probability (claim R28)
                count = self.query.largest(scale).value
                self._largest = largest_bound(count, terms.tail(), scale)
        return self._certificate()

    def _certificate(self) -> Certificate:
        plan = self.kind.plan
        assert self._count is not None
        return Certificate(
            lower_bound=self._smallest,
            estimate=self.kind.estimate(self._count),
            step=plan.step,
            floor=plan.floor,
            failure=self.terms.delta1,
            privacy=self.guarantee(),
            largest_bound=self._largest,
        )

    def guarantee(self, *entries: str) -> ReleaseGuarantee:
        """Return the guarantee for the charges so far."""
        total = self.promised
        delta = total.delta if isinstance(total, ApproxDP) else 0.0
        tested = "the certificate"
        if self.terms.certificates > 1:
            tested = "the certificates of the smallest and the largest eigenvalue"
        return self.request.guarantee(
            total.epsilon, delta, (tested, *entries), composition_of(self.own_ledger)
        )

    def refusal(self, certificate: Certificate, allows: Callable[[float], bool]) -> NotCertified:
        """Report which bound, and how many records, would have been enough."""
        count = self._count
        step = self.kind.plan.step
        assert count is not None
        needed = smallest(allows, 0.1 * step, 1e6 * step, precision=0.01)
        tail = self.terms.tail()
        records = self.kind.records_needed(needed, count, tail)
        least = self.kind.least_records(needed, count, tail)
        return NotCertified(
            certificate=certificate,
            lower_bound_needed=needed,
            records_needed=math.ceil(records) if records < math.inf else records,
            least_records=math.ceil(least) if least < math.inf else least,
            left=self.remaining,
            privacy=self.guarantee(),
        )


class CertifiedFunctionals(NamedTuple):
    """Functionals released after a certificate."""

    values: Array
    terms: tuple[FunctionalTerms, ...]
    certificate: Certificate
    privacy: ReleaseGuarantee


def certified_functionals(
    request: ReleaseRequest,
    rows: Array,
    total: ApproxDP,
    ledger: Ledger | None,
    certificate: str,
    share: float,
) -> CertifiedFunctionals | NotCertified:
    """Release functionals by algorithm 5: both eigenvalues, then noise in proportion to Delta."""
    kind = kind_of(certificate, "functional", "largest eigenvalue")
    terms = make_terms("functional", total, share, len(rows), 2)
    terms.multiplier(MIN_CHANGE)  # refuses an impossible budget while nothing is spent
    session = CertifiedSession(request, terms, kind, "release_functional", total, ledger)
    plan: MinimiserPlan = session.kind.plan

    def allowed(l0: float, largest: float) -> tuple[FunctionalTerms, ...] | None:
        return functional_terms(plan, terms, l0, largest, request.domain, rows)

    with KeepReleased(session.so_far):
        verdict = session.certificate()
        largest = verdict.largest_bound
        chosen = None if largest is None else allowed(verdict.lower_bound, largest)
        if chosen is None:
            # more records like these keep the condition number; a public one bounds it
            condition = verdict.condition_number or plan.largest / max(verdict.estimate, plan.step)
            return session.refusal(verdict, lambda l0: allowed(l0, condition * l0) is not None)
        session.pay_rest()
        values = session.query.functionals(rows, chosen)
        privacy = session.guarantee(f"{len(rows)} functional(s)")
        return CertifiedFunctionals(values, chosen, verdict, privacy)


def certify(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget,
    domain: Domain,
    certificate: str = "global",
    which: str = "smallest",
    failure: float = 1e-6,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Certificate:
    """Release a lower bound of the curvature at the minimiser, by default its smallest eigenvalue.

    Algorithms 2, 4 and 6 of paper 3 (Asi, Duchi and Talwar 2025).

    When one record is replaced, the eigenvalue moves by at most ``2 c B1 radius^2/n`` for every
    data set.  This is theorem A of the formulas page, which replaces algorithms 2 and 6 of paper
    3, so one Laplace release is enough.  With ``which="both"`` half of the budget goes to an upper
    bound of the largest eigenvalue (algorithm 4, corrected), and so of the condition number.  The
    lower bound limits how far the logarithm of the largest eigenvalue moves.  Its bound is
    therefore released where ``lower_bound`` is at least two steps, and is None elsewhere.

    Parameters
    ----------
    X, y, domain, ledger, noise
        As for :func:`dpfast.release_functional`; a certificate needs a domain.
    loss : {"log-cosh", "pseudo-huber", "logistic"}, Loss or Objective
        Self-concordant losses; with ``certificate="smooth"`` any convex one with a bounded third
        derivative, such as ``dpfast.models.SmoothedHuber``.  All but the logistic need the scale of
        a :class:`dpfast.Objective`, whose ridge is part of the Hessian.
    privacy : PureDP, or ApproxDP for both eigenvalues
        What the certificate costs.  The privacy of the second bound rests on the first, which may
        fail: that is what delta is for.
    certificate : {"global", "recursive", "smooth"}
        One release whose step is the same everywhere (theorem A), or the paper's recursion with
        its corrected constants, which certifies later; "smooth" is the recursion of algorithm 7,
        which needs bounds of three derivatives only and certifies later still.
    which : {"smallest", "both"}
        Eigenvalues to be bounded; "both" with "global" or "recursive" only.
    failure : float
        Probability with which a bound may be wrong; less if twice delta is.

    Privacy
    -------
    ``privacy`` under replacement of one record, n public (claims R3, R5, R20 and R28 of
    ``PROOFS-release.md``; with ``certificate="smooth"`` R25 and R26).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> objective = dpfast.Objective("log-cosh", scale=1.0)
    >>> budget, box = dpfast.PureDP(1.0), dpfast.models.Box(1.0)
    >>> answer = dpfast.release.certify(X, 0.5 * X[:, 0], objective, privacy=budget, domain=box)
    >>> type(answer).__name__
    'Certificate'
    """
    which = one_of(which, WHICH, "which")
    requested, privacy = privacy, as_budget(privacy)
    both_eigenvalues = which == "both"
    failure = number_in(failure, "failure", "(0, 1)")
    kind = kind_of(certificate, *["largest eigenvalue"] * both_eigenvalues)
    if not both_eigenvalues and not isinstance(privacy, PureDP):
        raise InvalidBudget(
            "a certificate is pure DP. Pass privacy=dpfast.PureDP(epsilon); received "
            f"{described(requested)}."
        )
    if both_eigenvalues and not isinstance(privacy, ApproxDP):
        raise InvalidBudget(
            "the largest eigenvalue needs a bound of the smallest first, which may fail. "
            f"Pass privacy=dpfast.ApproxDP(epsilon, delta); received {described(requested)}."
        )
    assert isinstance(privacy, PureDP | ApproxDP)
    request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    epsilon, delta = privacy.epsilon, 0.0
    # each bound fails with half of the probability, and the first may fail with delta at most
    if isinstance(privacy, ApproxDP):
        delta = privacy.delta
        failure = min(failure, 2.0 * delta)
    terms = Terms("nothing", epsilon, delta, epsilon, failure, certificates=1 + both_eigenvalues)
    session = CertifiedSession(request, terms, kind, "certify", privacy, ledger)
    with KeepReleased(session.so_far):
        return session.certificate()


def release_parameter(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget,
    domain: Domain,
    certificate: str = "global",
    certificate_share: float = 0.25,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> ParameterRelease | NotCertified:
    """Release all coefficients of a regression with noise that a certificate calibrates.

    Algorithms 3 and 7 of paper 3 (Asi, Duchi and Talwar 2025).

    The algorithms are corrected (formulas page, section II.4).  A private lower bound of the
    Hessian's smallest eigenvalue limits how far one record can move the minimiser.  The minimiser
    is then released with normal noise.  For standard errors use :func:`dpfast.fit`.

    Parameters
    ----------
    X, y, loss, domain, ledger, noise
        As for :func:`dpfast.release_functional`.
    privacy : ApproxDP
        The **total** (epsilon, delta).
    certificate : {"global", "recursive", "smooth"}
        As for :func:`certify`; "smooth" is algorithm 7 of the paper, corrected:
        for every convex loss with a bounded third derivative, such as
        ``dpfast.models.SmoothedHuber``.  It needs more records than theorem A, which
        self-concordant losses allow.
    certificate_share : float
        Part of epsilon for the certificate.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims R2 to R5, R20, R21
    and R35 of ``PROOFS-release.md``; with ``certificate="smooth"`` R25 to R27 in place of R2 to R4,
    R20 and R21).  Where nothing is certified only the certificate is charged.  Running time is not
    protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> objective = dpfast.Objective("log-cosh", scale=1.0)
    >>> budget, box = dpfast.ApproxDP(1.0, 1e-6), dpfast.models.Box(1.0)
    >>> answer = dpfast.release_parameter(X, 0.5 * X[:, 0], objective, privacy=budget, domain=box)
    >>> type(answer).__name__
    'NotCertified'
    """
    total, kind = approximate(privacy), kind_of(certificate)
    request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    terms = make_terms("parameter", total, certificate_share)
    terms.scale(1.0, request.dimension)  # refuses an impossible budget, free of charge
    session = CertifiedSession(request, terms, kind, "release_parameter", total, ledger)
    plan = session.kind.plan

    with KeepReleased(session.so_far):
        verdict = session.certificate()
        allowed = parameter_terms(plan, terms, verdict.lower_bound)
        if allowed is None:
            return session.refusal(verdict, lambda l0: plan.shift(l0) < math.inf)
        session.pay_rest()
        return ParameterRelease(
            params=session.query.parameter(allowed),
            names=request.names,
            noise_scale=allowed.noise_scale,
            certificate=verdict,
            method=f"{certificate} certificate",
            privacy=session.guarantee("the parameter"),
        )
