"""``release_functional``: one coefficient, or any linear functional, of a regression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, one_of
from dpfast.errors import InvalidInput
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account
from dpfast.inference.composition import Prepaid, Sum, composition_of
from dpfast.models import Domain, Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.release.certified import certified_functionals
from dpfast.release.pilot import divided, plan_sandwich, sampling_errors
from dpfast.release.request import RawRequest, ReleaseRequest, approximate
from dpfast.release.results import FunctionalRelease, NotCertified, ReleaseGuarantee
from dpfast.release.routes import METHODS, Functionals, planned_route, route


class Certified(NamedTuple):
    """Settings of algorithm 5 of paper 3, for ``method=``.

    Parameters
    ----------
    certificate : {"global", "recursive"}
        As for :func:`dpfast.release.certify`.
    certificate_share : float
        Part of epsilon for the certificates of both eigenvalues.

    Privacy
    -------
    Settings only, all of them public: :func:`dpfast.release_functional` says what is spent.

    Examples
    --------
    >>> dpfast.release.Certified("recursive").certificate_share
    0.25
    """

    certificate: str = "global"
    certificate_share: float = 0.25


def release_functional(
    X: Any,
    y: Any,
    loss: str | Loss | Objective,
    direction: Any,
    *,
    privacy: Budget,
    domain: Domain | None = None,
    method: str | Certified = "auto",
    inference: float | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> FunctionalRelease | NotCertified:
    """Release a linear functional of a regression's coefficients under differential privacy.

    Algorithm 5 of paper 3 (Asi, Duchi and Talwar 2025).

    For one coefficient noise can be far less than for all of them.  By default a pilot fit, whose
    Hessian H comes with it, is followed by a single Newton step along ``H^-1 w``: that moves with
    one record by a public amount.  With few records, or many functionals, a fit or objective
    perturbation has the smaller error and takes its place; public numbers decide.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design, Records or Source
        Covariates, without a column of ones; rows outside of the domain are projected onto it.
    y : array-like of shape (n,) or None
        Response; in {0, 1} for the logistic loss.
    loss : {"log-cosh", "pseudo-huber", "logistic"}, Loss or Objective
        One whose slope is bounded and has a derivative; certificates and objective perturbation
        need a self-concordant one.  With a domain all but the logistic need the scale of a
        :class:`dpfast.Objective`, which may have a ridge.
    direction : str, sequence of str, or array-like of shape (p,) or (k, p)
        Names of coefficients, or weights (the intercept first, if the domain has one).  Several
        directions share one pilot, or one certificate, and the rest of the budget equally.
    privacy : ApproxDP
        The **total** (epsilon, delta), inference included.
    domain : Domain, optional
        Where rows are: ``dpfast.models.Ball``, ``Box`` or ``Product``; it also says
        whether there is an intercept.  Without one the columns may come in any units: the pilot is
        a default :func:`dpfast.fit` with an intercept, of any loss that :func:`dpfast.fit` takes
        without weights (also "least-squares"), a quantile of the records' scores along the step is
        bought with it, scores are held to that, and standard errors come along.
    method : {"auto", "one-shot", "fit", "objective-perturbation", "paper"}
        "one-shot" is a pilot and one Newton step.  "fit" is what :func:`dpfast.fit` does with
        ``weights=Bounded(radius)``.  "objective-perturbation" answers for a ridge-penalised
        problem, whatever the curvature.  "auto" chooses among these three by n, p, the budget and
        the number of functionals.  "paper" is algorithm 5 of paper 3 with corrected constants:
        private bounds of both eigenvalues of the Hessian, then normal noise in proportion to how
        far *these* data let one record move the value, if the condition number bounds its change
        tightly enough.  No table or design is known where it has the least error.  Its settings are
        those of a :class:`dpfast.release.Certified` in place of the word.
    inference : float, optional
        Share of the budget for a private sandwich covariance, which :meth:`~dpfast.release.
        FunctionalRelease.conf_int` needs; not with ``method="paper"``.
    ledger : Ledger, optional
        A budget shared by several analyses, which has to have the total, and is charged at once.
        With ``method="paper"`` the certificates are charged first (``certificate_share`` of
        epsilon, half of delta), the rest before anything else is drawn, and not at all where
        nothing is certified.
    noise : NoiseSource, optional
        Default: operating-system entropy.

    Returns
    -------
    FunctionalRelease or NotCertified
        What is returned is itself private.  The second with ``method="paper"`` only.

    Raises
    ------
    Exception
        What ends a run early comes out as it is, with what was released until then (a certificate,
        a pilot, or its answers) in the attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: of a pilot and a step claims C9
    to C19 and R39 of ``PROOFS-release.md``, without a domain R40, of objective perturbation R10,
    R23, R37 and R38.  With ``method="paper"`` claims R2 to R7, R20 to R22, R28, R29 and R35, or
    what the certificates cost where nothing is released; the scale of its noise is a secret, of
    which a public bound is returned, and the public penalty of claim R20, whose force is that of a
    fraction of one record, is part of its objective.  Running time is not protected.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 3))
    >>> y = X @ [1.0, 0.5, 0.0] + rng.laplace(size=20000)
    >>> objective = dpfast.Objective("log-cosh", scale=1.0)
    >>> budget, box = dpfast.ApproxDP(1.0, 1e-6), dpfast.models.Box(1.0)
    >>> result = dpfast.release_functional(X, y, objective, "x1", privacy=budget, domain=box)
    >>> abs(result.value - 1.0) < 0.1
    True
    """
    total = approximate(privacy)
    settings = method if isinstance(method, Certified) else Certified()
    way = "paper"
    if not isinstance(method, Certified):
        way = one_of(method, METHODS, "method", otherwise=", or a dpfast.release.Certified")
    request: Any
    if domain is None:
        _refuse_without_domain(way, loss, inference)
        request = RawRequest(X, y, loss, noise=noise)
    else:
        request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    rows, single, names = request.direction(direction)

    def result(values: Array, errors: Array | None, **told: Any) -> FunctionalRelease:
        value = float(values[0]) if single else values
        return FunctionalRelease(
            value=value, directions=rows, names=names, _sampling_error=errors,
            target=request.target(told["method"]), **told,
        )  # fmt: skip

    if way == "paper":
        if inference is not None:
            raise InvalidInput("method='paper' buys no standard errors. Leave inference out.")
        answer = certified_functionals(request, rows, total, ledger, *settings)
        if isinstance(answer, NotCertified):
            return answer
        values, choices, found, privacy_of = answer
        return result(
            values, None, _scale_bounds=np.array([choice.scale_bound for choice in choices]),
            beyond=np.zeros(len(rows)), noise_law="gaussian", certificate=found,
            method=f"{settings.certificate} certificate, the paper's procedure",
            warnings=(), privacy=privacy_of,
        )  # fmt: skip

    main, sandwich = total, None
    if inference is not None:
        main, rest = divided(total, number_in(inference, "inference", "(0, 1)"))
        sandwich = plan_sandwich(request, rest)
    chosen = route(way, request, main, len(rows))
    plan = planned_route(chosen, request, main, rows)

    def guarantee() -> ReleaseGuarantee:
        spent, entries = plan.spent(), [f"{len(rows)} functional(s)"]
        if sandwich is not None:
            entries.append("a private sandwich covariance")
            part = Prepaid(entries[1], rest, composition_of(sandwich.curator.ledger))
            spent = Sum((spent, part))
        return request.guarantee(*total.values(), tuple(entries), spent)

    def told(found: Functionals, errors: Array | None) -> FunctionalRelease:
        return result(
            found.values, errors, _scale_bounds=found.scales, noise_law=found.law,
            certificate=None, method=plan.told + found.told, warnings=found.warnings,
            privacy=guarantee(), beyond=found.beyond,
        )  # fmt: skip

    def so_far(error: str) -> FunctionalRelease | None:
        found = plan.so_far()
        return None if found is None else told(found, found.sampling)

    with KeepReleased(so_far, privacy=guarantee):
        label = request.label("release_functional")
        Account(total, ledger, total).charge(label, request.memory_bytes)
        released = plan.run()
        errors = released.sampling
        if sandwich is not None:
            errors = sampling_errors(sandwich, rows)
        return told(released, errors)


def _refuse_without_domain(method: str, loss: Any, inference: Any) -> None:
    if method not in ("auto", "one-shot", "fit"):
        raise InvalidInput(
            f"method={method!r} needs to know where rows are. Pass domain=dpfast.models.Box(...), "
            "or method='auto'."
        )
    if terms_of(loss).ridge:
        raise InvalidInput(
            "without a domain columns are put into units that are not known before, of which a "
            "ridge would be. Leave ridge out, or pass domain=dpfast.models.Box(...)."
        )
    if inference is not None:
        raise InvalidInput(
            "without a domain standard errors come with the pilot and cost nothing. Leave "
            "inference out."
        )
