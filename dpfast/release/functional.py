"""``release_functional``: one coefficient, or any linear functional, of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpfast.arguments import number_in, one_of
from dpfast.curator.release.kinds import kind_of
from dpfast.curator.release.terms import functional_noises
from dpfast.front.partial import KeepingPaid
from dpfast.models import Domain, Loss, Objective
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.release.scaled import LAWS
from dpfast.release.request import ReleaseRequest, approximate
from dpfast.release.results import FunctionalRelease, NotCertified, ParameterRelease
from dpfast.release.sampling import divided, plan_sandwich, sampling_errors
from dpfast.release.session import Session, make_terms

__all__ = ["release_functional"]

#: One certificate and noise that also covers how Delta may change (algorithm 5*), or two and noise
#: in proportion to Delta (the paper's algorithm 5, corrected).
PROCEDURES = ("direct", "paper")


def release_functional(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    direction: Any,
    *,
    privacy: Budget,
    domain: Domain,
    scale: float | None = None,
    ridge: float = 0.0,
    procedure: str = "direct",
    noise_law: str = "auto",
    certificate: str = "auto",
    certificate_share: float = 0.25,
    fallback: str | None = None,
    max_noise: float | None = None,
    inference: float | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
) -> FunctionalRelease | ParameterRelease | NotCertified:
    """Release a linear functional of a regression's coefficients under differential privacy.

    Algorithm 5* (formulas page, section II.4): a private lower bound of the curvature, then
    ``w'theta`` with noise in proportion to how far *these* data let one record move it, which for
    one coefficient is far less than how far it can move all of them.

    Parameters
    ----------
    X : array-like of shape (n, q)
        Covariates, without a column of ones; rows outside of the domain are projected onto it.
    y : array-like of shape (n,)
        Response; in {0, 1} for the logistic loss.
    loss : {"log-cosh", "pseudo-huber", "logistic"}, Loss or Objective
        Self-concordant losses.
    direction : str, sequence of str, or array-like of shape (p,) or (k, p)
        Names of coefficients, or weights (the intercept first, if the domain has one).  Several
        directions share one certificate and one budget, in which their losses are added up exactly.
    privacy : ApproxDP
        The **total** (epsilon, delta): certificate, release, fallback and inference.
    domain : Domain
        Where rows are: ``dpfast.Ball``, ``Box``, ``LpBall`` or ``Product``; it also says whether
        there is an intercept.
    scale : float
        Public residual scale; required by all losses but the logistic.
    ridge : float
        Public penalty ``ridge/2 ||theta||^2``.
    procedure : {"direct", "paper"}
        How the noise is fitted to these data.  "direct" (algorithm 5*) needs the smallest
        eigenvalue only; its noise also covers by how much one record can change that fit.
        "paper" is algorithm 5 of paper 3 with corrected constants: a second certificate, of the
        largest eigenvalue, and noise in proportion to the fit itself, if the condition number
        bounds its change tightly enough.  It certifies with about four times as many records;
        with more than that its noise is smaller (``docs/releases.md``).
    noise_law : {"auto", "laplace", "student", "gaussian"}
        Law of the noise.  "auto" takes the one with the least standard deviation after the
        certificate is seen, which costs nothing (claim R35): "laplace" far above the records that
        certify, "student" (three degrees of freedom), which tolerates the most change of scale,
        near them, "gaussian" (the paper's) for many numbers.
    certificate : {"auto", "leverage", "global", "recursive"}
        What is certified; "auto" is "leverage", and "global" for the paper's procedure.  The
        smallest eigenvalue of the Hessian, by one release whose step is the
        same everywhere (theorem A), or by the paper's recursion with its corrected constants,
        which certifies later; or the largest leverage ``x'H^-1 x`` of the declared rows, which
        depends on neither units nor origins of the columns (the public penalty does: keep them of
        about unit size).  It never certifies later than "global", from a third of the records for
        one-hot blocks, and its secret noise is smaller or about the same; but the announced bound
        of the noise can be larger, by 1.6 for centred and scaled columns, for which "global" is as
        good.  Not with ``procedure="paper"``.
    certificate_share : float
        Part of epsilon for the certificate; for both, if there are two.
    fallback : {None, "objective-perturbation"}
        What to do if the curvature cannot be certified: return :class:`NotCertified`, or release
        the parameter of a ridge-penalised problem by objective perturbation, with all that the
        certificate leaves.  It also takes the place of a release that is certified so barely that,
        by the released curvature, its noise would be larger.
    max_noise : float, optional
        Largest standard deviation of the noise that is of use, by its public bound: a release
        above it is answered as one that is not certified.  By default, without a fallback,
        twice what :func:`dpfast.fit` would give with this budget by the same bound of the
        curvature, for each of the functionals: of one that was above, errors were 4 to 30 times
        those of ``fit``.  ``math.inf`` takes any.
    inference : float, optional
        Share of the budget for a private sandwich covariance, which :meth:`~dpfast.release.
        FunctionalRelease.conf_int` needs.
    ledger : Ledger, optional
        A budget shared by several analyses, which has to have the total.  The certificate is
        charged at once (``certificate_share`` of epsilon, half of delta), the rest before anything
        else is drawn, and not at all where nothing is certified.
    noise : NoiseSource, optional
        Default: operating-system entropy.
    threads : int, optional
    names : sequence of str, optional
        Names of the q covariates.

    Returns
    -------
    FunctionalRelease, NotCertified or ParameterRelease (the fallback)
        What is returned is itself private.

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong shape, dtype, option or budget, before anything is spent.
    BudgetExceeded
        If the shared ledger cannot pay, before the data are touched.  If another analysis has
        spent the rest meanwhile, the certificate is in the attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total, or what the certificate costs where nothing is released, under
    replacement of one record, n public (claims R2 to R9, R20 to R24 and R28 to R36 of
    ``PROOFS-release.md``).  The scale of the noise is a secret: only a public bound of it is
    returned.  The public penalty of claim R20 is part of the objective; its force is that of a
    fraction of one record.  Running time is not protected.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 3))
    >>> y = X @ [1.0, 0.5, 0.0] + rng.laplace(size=20000)
    >>> result = dpfast.release_functional(
    ...     X, y, "log-cosh", "x1", scale=1.0,
    ...     privacy=dpfast.ApproxDP(1.0, 1e-6), domain=dpfast.Box(1.0),
    ... )
    >>> result.certified
    True
    """
    total = approximate(privacy)
    request = ReleaseRequest(
        X, y, loss, domain=domain, scale=scale, ridge=ridge, noise=noise, threads=threads,
        names=names,
    )  # fmt: skip
    rows, single, labels = request.direction(direction)
    noise_law = one_of(noise_law, ("auto", *LAWS), "noise_law")
    procedure = one_of(procedure, PROCEDURES, "procedure")
    twice = procedure == "paper"
    limit = None if max_noise is None else number_in(max_noise, "max_noise", "(0, inf]")
    if isinstance(certificate, str) and certificate == "auto":
        certificate = "global" if twice else "leverage"
    kind = kind_of(certificate, "functional", *["largest eigenvalue"] * twice)
    main, sandwich = total, None
    extra: tuple[str, ...] = ()
    aside: tuple[ApproxDP, Ledger] | None = None
    if inference is not None:
        part = number_in(inference, "inference", "(0, 1)")
        main, rest = divided(total, part)
        sandwich = plan_sandwich(request, rest)
        aside = rest, sandwich.curator.ledger
        extra = ("a private sandwich covariance",)
    terms = make_terms(
        "functional", main, certificate_share, fallback, noise=noise_law, count=len(rows),
        certificates=1 + twice, whole=total,
    )  # fmt: skip
    functional_noises(terms)  # refuses an impossible budget while nothing is spent
    session = Session(
        request, terms, kind, "release_functional", total, ledger, extra, rows, aside, limit
    )  # fmt: skip

    with KeepingPaid(session.so_far):
        found = session.certificate()
        if twice:
            found = session.with_largest(found)
        choices = session.choices(found)
        if choices is None:
            return session.refusal(found)
        session.pay_rest(total, "release")
        value = session.query.functionals(rows, choices)
        errors = None if sandwich is None else sampling_errors(sandwich, rows)
        return FunctionalRelease(
            value=float(value[0]) if single else value,
            directions=rows,
            names=labels,
            scale_bounds=np.array([choice.scale_bound for choice in choices]),
            noise_law=choices[0].law,
            certificate=found,
            method=f"{certificate} certificate" + ", the paper's procedure" * twice,
            privacy=session.guarantee(session.tests, f"{len(rows)} functional(s)"),
            sampling_error=errors,
        )
