"""``release_functional``: one coefficient, or any linear functional, of a regression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, number_in, one_of
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account
from dpfast.inference.composition import Prepaid, Sum, composition_of
from dpfast.models import Domain, Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.fit import NO_FORMULA
from dpfast.regression.formula import read_formula
from dpfast.release.certified import certified_functionals
from dpfast.release.pilot import PlannedRun, divided, plan_sandwich, sampling_errors
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
    Public settings only; :func:`dpfast.release_functional` states the cost.

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
    schema: Schema | None = None,
    domain: Domain | None = None,
    method: str | Certified = "auto",
    inference: float | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> FunctionalRelease | NotCertified:
    """Release a linear functional of a regression's coefficients under differential privacy.

    Algorithm 5 of paper 3 (Asi, Duchi and Talwar 2025).

    One coefficient can need far less noise than all of them.  By default a pilot fit with its
    Hessian H is followed by one Newton step along ``H^-1 w``; one record moves that step by a
    public amount.  With few records, or many functionals, a fit or objective perturbation has the
    smaller error and replaces it; public numbers decide.

    Parameters
    ----------
    X : str, array-like of shape (n, q), data frame, Design, Records or Source
        A formula of a table in the place of y.  Or covariates, without a column of ones; rows
        outside of the domain are projected onto it.
    y : array-like of shape (n,) or None
        Response; in {0, 1} for the logistic loss.
    loss : {"log-cosh", "pseudo-huber", "logistic"}, Loss or Objective
        Loss with a bounded, differentiable slope; certificates and objective perturbation need a
        self-concordant one.  With a domain all but the logistic need the scale of a
        :class:`dpfast.Objective`, which may have a ridge.
    direction : str, sequence of str, or array-like of shape (p,) or (k, p)
        Names of coefficients, or weights (the intercept first, if the domain has one).  Several
        directions share one pilot, or one certificate, and the rest of the budget equally.
    privacy : ApproxDP
        The **total** (epsilon, delta), inference included.
    schema : Schema, optional
        Ranges and levels of a formula's columns.
    domain : Domain, optional
        Set that contains the rows: ``Ball``, ``LpBall``, ``Box`` or ``Product`` of
        ``dpfast.models``, with or without an intercept.  Without a domain the columns may have any
        units.  The pilot is then a default :func:`dpfast.fit` with an intercept and standard
        errors, for any loss that it takes without weights (also "least-squares").  Scores along the
        step are clipped at a quantile that is estimated with part of the budget.
    method : {"auto", "one-shot", "fit", "objective-perturbation", "paper"}
        "one-shot" is a pilot and one Newton step.  "fit" is :func:`dpfast.fit` with
        ``weights=Bounded(radius)``.  "objective-perturbation" solves a ridge-penalised problem, for
        any curvature.  "auto" chooses among these three by n, p, the budget and the number of
        functionals.  "paper" is algorithm 5 of paper 3 with corrected constants.  It releases
        bounds of both eigenvalues of the Hessian.  Normal noise then follows how far one record
        can move the value in *these* data, if the condition number is small enough.  No table or
        design is known where it has the least error.  A :class:`dpfast.release.Certified` in
        place of the word gives its settings.
    inference : float, optional
        Share of the budget for a private sandwich covariance, which :meth:`~dpfast.release.
        FunctionalRelease.conf_int` needs; not with ``method="paper"``.
    ledger : Ledger, optional
        Budget shared by several analyses.  It must have the total left, and is charged at once.
        With ``method="paper"`` the certificates are charged first (``certificate_share`` of
        epsilon, half of delta).  The rest is charged before anything else is drawn, and only if
        the release is certified.
    noise : NoiseSource, optional
        Default: operating-system entropy.

    Returns
    -------
    FunctionalRelease or NotCertified
        The result is private.  ``NotCertified`` is possible with ``method="paper"`` only.

    Raises
    ------
    Exception
        An error that ends a run early is raised unchanged.  Its attribute ``partial_result`` has
        the released answers: a certificate, a pilot, or its parts.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: of a pilot and a step claims C9
    to C19 and R39 of ``PROOFS-release.md``, without a domain R40, of objective perturbation R10,
    R23, R37 and R38.  With ``method="paper"`` claims R2 to R7, R20 to R22, R28, R29 and R35;
    where nothing is certified only the certificates are charged.  Its noise scale is secret, and a
    public bound of it is returned.  Its objective includes the public penalty of claim R20, as
    strong as a fraction of one record.  Running time is not protected.

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
    way = "paper"
    if not isinstance(method, Certified):
        way = one_of(method, METHODS, "method", otherwise=", or a dpfast.release.Certified")
    request: RawRequest | ReleaseRequest
    if isinstance(X, str):
        read = read_formula(X, y, schema, loss, own_units=domain is not None)
        X, y, loss = read.source, None, read.loss
        if domain is not None and read.terms.coding.fit_intercept != domain.intercept:
            raise InvalidInput(INTERCEPTS)
    elif schema is not None:
        raise InvalidInput(NO_FORMULA)
    if domain is None:
        _refuse_without_domain(way, loss, inference)
        request = RawRequest(X, y, loss, noise=noise)
    else:
        request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    directions = _Directions(request, *request.direction(direction))
    if way == "paper":
        settings = method if isinstance(method, Certified) else Certified()
        return _certified_release(directions, total, inference, ledger, settings)
    request.account = Account(total, ledger, total)
    analysis = _Release(directions, way, total, inference)
    return run(analysis, request.label("release_functional"), request.memory_bytes)


INTERCEPTS = (
    "the formula and the domain must agree about the intercept: pass the domain with "
    "intercept=True, or drop the formula's with '- 1'."
)


class _Directions(NamedTuple):
    """Directions of one call, and the request that they belong to."""

    request: RawRequest | ReleaseRequest
    rows: Array
    single: bool
    names: tuple[str, ...]

    def result(self, values: Array, errors: Array | None, **fields: Any) -> FunctionalRelease:
        """Make the result from released values, their sampling errors and further fields."""
        return FunctionalRelease(
            value=float(values[0]) if self.single else values,
            directions=self.rows,
            names=self.names,
            target=self.request.target(fields["method"]),
            _sampling_error=errors,
            **fields,
        )


def _certified_release(
    directions: _Directions,
    total: ApproxDP,
    inference: float | None,
    ledger: Ledger | None,
    settings: Certified,
) -> FunctionalRelease | NotCertified:
    """Release functionals by algorithm 5 of paper 3."""
    if inference is not None:
        raise InvalidInput("method='paper' has no standard errors. Leave inference out.")
    assert isinstance(directions.request, ReleaseRequest)
    answer = certified_functionals(directions.request, directions.rows, total, ledger, *settings)
    if isinstance(answer, NotCertified):
        return answer
    return directions.result(
        answer.values,
        None,
        _scale_bounds=np.array([terms.scale_bound for terms in answer.terms]),
        beyond=np.zeros(len(directions.rows)),
        noise_law="gaussian",
        certificate=answer.certificate,
        method=f"{settings.certificate} certificate, the paper's procedure",
        warnings=(),
        privacy=answer.privacy,
    )


class _Inference(NamedTuple):
    """Planned sandwich covariance, and its part of the budget."""

    budget: ApproxDP
    sandwich: PlannedRun


class _Release(Analysis[FunctionalRelease]):
    """Release without a certificate: the total is divided and each part planned."""

    def __init__(
        self, directions: _Directions, way: str, total: ApproxDP, share: float | None
    ) -> None:
        self.request = request = directions.request
        self._directions, self._total = directions, total
        main, self._inference = total, None
        if share is not None:
            assert isinstance(request, ReleaseRequest)
            main, rest = divided(total, number_in(share, "inference", "(0, 1)"))
            self._inference = _Inference(rest, plan_sandwich(request, rest))
        chosen = route(way, request, main, len(directions.rows))
        self._plan = planned_route(chosen, request, main, directions.rows)

    def query(self, report: Progress | None) -> Functionals:
        """Spend the budget, standard errors last."""
        released = self._plan.run()
        if self._inference is None:
            return released
        errors = sampling_errors(self._inference.sandwich, self._directions.rows)
        return released._replace(sampling=errors)

    def so_far(self, error: str, keeping: KeepReleased) -> FunctionalRelease | None:
        """Return the result of a run that ended early, if it has released values."""
        released = self._plan.so_far()
        return None if released is None else self.report(released)

    def guarantee(self) -> ReleaseGuarantee:
        """Return the guarantee for the whole call."""
        spent = self._plan.spent()
        entries = [f"{len(self._directions.rows)} functional(s)"]
        if self._inference is not None:
            entries.append("a private sandwich covariance")
            ledger = self._inference.sandwich.curator.ledger
            part = Prepaid(entries[1], self._inference.budget, composition_of(ledger))
            spent = Sum((spent, part))
        epsilon, delta = self._total.values()
        return self.request.guarantee(epsilon, delta, tuple(entries), spent)

    def report(self, answers: Functionals) -> FunctionalRelease:
        """Make the result from released values and their errors."""
        return self._directions.result(
            answers.values,
            answers.sampling,
            _scale_bounds=answers.scales,
            beyond=answers.beyond,
            noise_law=answers.law,
            certificate=None,
            method=self._plan.description + answers.description,
            warnings=answers.warnings,
            privacy=self.guarantee(),
        )


def _refuse_without_domain(method: str, loss: Any, inference: Any) -> None:
    if method not in ("auto", "one-shot", "fit"):
        raise InvalidInput(
            f"method={method!r} needs the domain of the rows. Pass domain=dpfast.models.Box(...), "
            "or method='auto'."
        )
    if terms_of(loss).ridge:
        raise InvalidInput(
            "without a domain the units of the columns are estimated, so a ridge has no fixed "
            "meaning. Leave ridge out, or pass domain=dpfast.models.Box(...)."
        )
    if inference is not None:
        raise InvalidInput(
            "without a domain the pilot has standard errors at no cost. Leave inference out."
        )
