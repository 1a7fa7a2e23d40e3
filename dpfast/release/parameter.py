"""``release_parameter``: all coefficients of a regression, with one noise scale."""

from __future__ import annotations

from typing import Any

from dpfast.curator.release.kinds import kind_of
from dpfast.curator.release.terms import parameter_multiplier
from dpfast.front.partial import KeepingPaid
from dpfast.models import Domain, Loss, Objective
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.release.request import ReleaseRequest, approximate
from dpfast.release.results import NotCertified, ParameterRelease
from dpfast.release.session import Session, make_terms


def release_parameter(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    *,
    privacy: Budget,
    domain: Domain,
    certificate: str = "global",
    certificate_share: float = 0.25,
    fallback: str | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> ParameterRelease | NotCertified:
    """Release all coefficients of a regression with noise that a certificate calibrates.

    Algorithms 3 and 7 of paper 3 (Asi, Duchi and Talwar 2025).

    Algorithm 3 of paper 3, corrected (formulas page, section II.4): a private lower bound of the
    smallest eigenvalue of the Hessian bounds how far one record can move the minimiser, which is
    then released with normal noise.  For standard errors use :func:`dpfast.fit`.

    Parameters
    ----------
    X, y, loss, domain, ledger, noise
        As for :func:`dpfast.release_functional`.
    privacy : ApproxDP
        The **total** (epsilon, delta).
    certificate : {"global", "recursive", "smooth"}
        As for :class:`dpfast.release.Certified`; "smooth" is algorithm 7 of the paper, corrected:
        for every convex loss with a bounded third derivative, such as
        ``dpfast.models.SmoothedHuber``.  It needs more records than theorem A, which
        self-concordant losses allow.
    certificate_share : float
        Part of epsilon for the certificate.
    fallback : {None, "objective-perturbation"}
        What to do if the curvature cannot be certified; needs a self-concordant loss.

    Returns
    -------
    ParameterRelease or NotCertified

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims R2 to R5, R8, R20 and
    R21 of ``PROOFS-release.md``; with ``certificate="smooth"`` R25 to R27 in place
    of R2 to R4, R20 and R21).  Running time is not protected.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("log-cosh", scale=1.0)
    >>> budget, box = dpfast.ApproxDP(1.0, 1e-6), dpfast.models.Box(1.0)
    >>> answer = dpfast.release_parameter(X, y, objective, privacy=budget, domain=box)
    >>> type(answer).__name__
    'NotCertified'
    """
    total = approximate(privacy)
    kind = kind_of(certificate, "parameter")
    request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    terms = make_terms("parameter", total, certificate_share, fallback, noise="gaussian", count=1)
    parameter_multiplier(terms, request.dimension)  # refuses an impossible budget, free of charge
    session = Session(request, terms, kind, "release_parameter", total, ledger)

    with KeepingPaid(session.so_far):
        found = session.certificate()
        choice = session.kind.parameter(terms, found.lower_bound)
        if choice is None:
            return session.refusal(found)
        return ParameterRelease(
            params=session.query.parameter(choice),
            names=request.names,
            noise_scale=choice.noise_scale,
            certificate=found,
            method=f"{certificate} certificate",
            privacy=session.guarantee(session.tests, "the parameter"),
        )
