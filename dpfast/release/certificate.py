"""``certify``: a private lower bound of the curvature at the minimiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpfast.curator.releases import CertifiedRelease
from dpfast.curator.terms import Terms
from dpfast.errors import InvalidBudget
from dpfast.inference.request import in_unit
from dpfast.models import Domain, Loss
from dpfast.privacy.budget import Budget, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.release.request import ReleaseRequest
from dpfast.release.results import Certificate

__all__ = ["certify"]


def certify(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    privacy: Budget,
    domain: Domain,
    scale: float | None = None,
    ridge: float = 0.0,
    certificate: str = "global",
    failure: float = 1e-6,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
) -> Certificate:
    """Release a lower bound of the curvature at the minimiser, by default its smallest eigenvalue.

    The eigenvalue moves by at most ``2 c B1 radius^2/n`` when one record is replaced, whatever the
    data (theorem A of the formulas page, which replaces algorithms 2 and 6 of paper 3), so one
    Laplace release is enough.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones; rows outside of the domain are projected onto it.
    y : array-like of shape (n,)
    loss : {"log-cosh", "pseudo-huber", "logistic"} or Loss
        Self-concordant losses; with ``certificate="smooth"`` any convex one with a bounded third
        derivative, such as ``dpfast.SmoothedHuber``.
    privacy : PureDP
        What the certificate costs.
    domain : Domain
        Where rows are: ``dpfast.Ball``, ``Box``, ``LpBall`` or ``Product``; it also says whether
        there is an intercept.
    scale : float
        Public residual scale; required by all losses but the logistic.
    ridge : float
        Public penalty, part of the Hessian.
    certificate : {"global", "leverage", "recursive", "smooth"}
        One release whose step is the same everywhere (theorem A), or the paper's recursion with
        its corrected constants, which certifies later; "leverage" bounds ``1/sup x'H^-1 x`` over
        the declared rows in place of the eigenvalue (see :func:`dpfast.release_functional`);
        "smooth" is the recursion of algorithm 7, which needs bounds of three derivatives only and
        certifies later still.
    failure : float
        Probability with which the lower bound may be wrong.
    ledger, noise, threads, names
        As for :func:`dpfast.fit`.

    Returns
    -------
    Certificate

    Privacy
    -------
    ``privacy``: pure DP under replacement of one record, n public (claims R3, R5, R20 and R31 of
    ``dpfast/privacy/PROOFS-release.md``; with ``certificate="smooth"`` R25 and R26).
    """
    if not isinstance(privacy, PureDP):
        raise InvalidBudget(
            f"a certificate is pure DP. Pass privacy=dpfast.PureDP(epsilon); received {privacy!r}."
        )
    request = ReleaseRequest(
        X, y, loss, domain=domain, scale=scale, ridge=ridge, noise=noise, threads=threads,
        names=names,
    )  # fmt: skip
    epsilon = privacy.epsilon
    terms = Terms("nothing", epsilon, 0.0, epsilon, in_unit(failure, "failure"))
    curator = request.curator(Ledger(privacy))
    plan = request.plan(curator, certificate)
    recursion = request.recursion(certificate, plan)
    leverage = request.leverage(certificate, plan)
    request.charge(ledger, privacy, "certify")
    query = CertifiedRelease(curator, request.domain, terms, recursion, leverage, plan)
    count = query.certificate().value
    guarantee = request.guarantee(epsilon, 0.0, ("the certificate",))
    return request.certificate(query.measure, terms, count, recursion, guarantee)
