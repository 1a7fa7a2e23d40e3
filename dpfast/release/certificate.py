"""``certify``: private bounds of the curvature at the minimiser."""

from __future__ import annotations

from typing import Any

from dpfast.arguments import number_in, one_of
from dpfast.curator.release.kinds import kind_of
from dpfast.curator.release.terms import Terms
from dpfast.errors import InvalidBudget, described
from dpfast.front.partial import KeepingPaid
from dpfast.models import Domain, Loss, Objective
from dpfast.privacy.budget import ApproxDP, Budget, PureDP, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.release.request import ReleaseRequest
from dpfast.release.results import Certificate
from dpfast.release.session import Session

WHICH = ("smallest", "both")


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

    The eigenvalue moves by at most ``2 c B1 radius^2/n`` when one record is replaced, whatever the
    data (theorem A of the formulas page, which replaces algorithms 2 and 6 of paper 3), so one
    Laplace release is enough.  With ``which="both"`` half of the budget goes to an upper bound of
    the largest eigenvalue (algorithm 4, corrected), which gives one of the condition number.  Its
    logarithm moves by as much as the lower bound allows, so it is counted where ``lower_bound`` is
    at least two steps, and is None elsewhere.

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
    certificate : {"global", "leverage", "recursive", "smooth"}
        One release whose step is the same everywhere (theorem A), or the paper's recursion with
        its corrected constants, which certifies later; "leverage" bounds ``1/sup x'H^-1 x`` over
        the declared rows in place of the eigenvalue (see :class:`dpfast.release.Certified`);
        "smooth" is the recursion of algorithm 7, which needs bounds of three derivatives only and
        certifies later still.
    which : {"smallest", "both"}
        Eigenvalues to be bounded; "both" with "global" or "recursive" only.
    failure : float
        Probability with which a bound may be wrong; less if twice delta is.

    Returns
    -------
    Certificate

    Privacy
    -------
    ``privacy`` under replacement of one record, n public (claims R3, R5, R20, R28 and R31 of
    ``PROOFS-release.md``; with ``certificate="smooth"`` R25 and R26).

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("log-cosh", scale=1.0)
    >>> budget, box = dpfast.PureDP(1.0), dpfast.models.Box(1.0)
    >>> answer = dpfast.release.certify(X, y, objective, privacy=budget, domain=box)
    >>> type(answer).__name__
    'Certificate'
    """
    which = one_of(which, WHICH, "which")
    spoken, privacy = privacy, as_budget(privacy)
    both, share = which == "both", number_in(failure, "failure", "(0, 1)")
    kind = kind_of(certificate, *["largest eigenvalue"] * both)
    if not both and not isinstance(privacy, PureDP):
        raise InvalidBudget(
            "a certificate is pure DP. Pass privacy=dpfast.PureDP(epsilon); received "
            f"{described(spoken)}."
        )
    if both and not isinstance(privacy, ApproxDP):
        raise InvalidBudget(
            "the largest eigenvalue is released by way of a bound of the smallest, which may "
            f"fail. Pass privacy=dpfast.ApproxDP(epsilon, delta); received {described(spoken)}."
        )
    assert isinstance(privacy, PureDP | ApproxDP)
    request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    delta = 0.0
    if isinstance(privacy, ApproxDP):  # each bound fails with half, and the first with delta
        delta = privacy.delta
        share = min(share, 2.0 * delta)
    epsilon = privacy.epsilon
    terms = Terms("nothing", epsilon, delta, epsilon, share, certificates=1 + both)
    session = Session(request, terms, kind, "certify", privacy, ledger)
    with KeepingPaid(session.so_far):
        found = session.certificate()
        return session.with_largest(found) if both else found
