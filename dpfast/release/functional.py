"""``release_functional``: one coefficient, or any linear functional, of a regression."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import flag, number_in, one_of
from dpfast.curator.release.kinds import kind_of
from dpfast.curator.release.terms import functional_noises
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import charge_shared
from dpfast.inference.composition import Prepaid, Sum, composition_of
from dpfast.models import Domain, Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import ApproxDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.release.scaled import LAWS
from dpfast.release.request import Asking, RawRequest, ReleaseRequest, approximate
from dpfast.release.results import (
    FunctionalRelease,
    NotCertified,
    ParameterRelease,
    ReleaseGuarantee,
)
from dpfast.release.routes import CERTIFIED, METHODS, Functionals, planned_route, route
from dpfast.release.sampling import divided, plan_sandwich, sampling_errors
from dpfast.release.session import Session, make_terms

Array = NDArray[np.float64]


class Certified(NamedTuple):
    """Settings of a release that certifies the curvature first, for ``method=``.

    Parameters
    ----------
    certificate : {"auto", "leverage", "global", "recursive"}
        What is certified; "auto" is "leverage", and "global" for the paper's procedure.  The
        smallest eigenvalue of the Hessian, by one release whose step is the
        same everywhere (theorem A), or by the paper's recursion with its corrected constants,
        which certifies later; or the largest leverage ``x'H^-1 x`` of the declared rows, which
        depends on neither units nor origins of the columns (the public penalty does: keep them of
        about unit size).  It never certifies later than "global", from a third of the records for
        one-hot blocks, and its secret noise is smaller or about the same; but the announced bound
        of the noise can be larger, by 1.6 for centred and scaled columns, for which "global" is as
        good, and the only one for the paper's procedure.
    noise_law : {"auto", "laplace", "student", "gaussian"}
        Law of the noise.  "auto" takes the one with the least standard deviation after the
        certificate is seen, which costs nothing (claim R35): "laplace" far above the records that
        certify, "student" (three degrees of freedom), which tolerates the most change of scale,
        near them, "gaussian" (the paper's) for many numbers.
    certificate_share : float
        Part of epsilon for the certificate; for both, if there are two.
    fallback : {None, "objective-perturbation"}
        What to do if the curvature cannot be certified: return :class:`NotCertified`, or release
        the parameter of a ridge-penalised problem by objective perturbation, with all that the
        certificate leaves.
    max_noise : float, optional
        Largest standard deviation of the noise that is of use, by its public bound: a release
        above it is answered as one that is not certified.  By default what a fit would have with
        this budget by the same bound of the curvature, for each of the functionals.  ``math.inf``
        takes any.
    paper : bool
        Algorithm 5 of paper 3 with corrected constants, in place of 5*.

    Privacy
    -------
    Settings only, all of them public: :func:`dpfast.release_functional` says what is spent.

    Examples
    --------
    >>> dpfast.release.Certified(noise_law="student").certificate
    'auto'
    """

    certificate: str = "auto"
    noise_law: str = "auto"
    certificate_share: float = 0.25
    fallback: str | None = None
    max_noise: float | None = None
    paper: bool = False


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
) -> FunctionalRelease | ParameterRelease | NotCertified:
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
        directions share one pilot, or one certificate, and one budget.
    privacy : ApproxDP
        The **total** (epsilon, delta), inference included.
    domain : Domain, optional
        Where rows are: ``dpfast.models.Ball``, ``Box``, ``LpBall`` or ``Product``; it also says
        whether there is an intercept.  Without one the columns may come in any units: the pilot is
        a default :func:`dpfast.fit` with an intercept, of any loss that :func:`dpfast.fit` takes
        without weights (also "least-squares"), a quantile of the records' scores along the step is
        bought with it, scores are held to that, and standard errors come along.
    method : {"auto", "one-shot", "fit", "objective-perturbation", "certified", "paper"}
        "one-shot" is a pilot and one Newton step.  "fit" is what :func:`dpfast.fit` does with
        ``weights=Bounded(radius)``.  "objective-perturbation" answers for a ridge-penalised
        problem, whatever the curvature.  "auto" chooses among these three by n, p, the budget and
        the number of functionals.  "certified" is algorithm 5* (formulas page, section II.4): a
        private lower bound of the curvature, then noise in proportion to how far *these* data let
        one record move the value.  "paper" is algorithm 5 of paper 3 with corrected constants: a
        second certificate, of the largest eigenvalue, and noise in proportion to that distance
        alone, if the condition number bounds its change tightly enough.  No table or design is
        known where these two have the least error (``bench/results/release_defaults.md``).
        Their settings are those of a :class:`dpfast.release.Certified` in place of the word.
    inference : float, optional
        Share of the budget for a private sandwich covariance, which :meth:`~dpfast.release.
        FunctionalRelease.conf_int` needs.
    ledger : Ledger, optional
        A budget shared by several analyses, which has to have the total, and is charged at once.
        Of a certified release the certificate is charged first (``certificate_share`` of epsilon,
        half of delta), the rest before anything else is drawn, and not at all where nothing is
        certified.
    noise : NoiseSource, optional
        Default: operating-system entropy.

    Returns
    -------
    FunctionalRelease, NotCertified or ParameterRelease (the fallback)
        What is returned is itself private.  The last two of a certified release only.

    Raises
    ------
    Exception
        What ends a run early comes out as it is, with what was released until then (a certificate,
        a pilot, or its answers) in the attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: of a pilot and a step claims C9
    to C19 and R39 of ``PROOFS-release.md``, of objective perturbation R10, R23, R37 and R38.  Of a
    certified release claims R2 to R9, R20 to R24 and R28 to R36, or what the certificate costs
    where nothing is released; the scale of its noise is a secret, of which a public bound is
    returned, and the public penalty of claim R20, whose force is that of a fraction of one record,
    is part of its objective.  Running time is not protected.

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
    if isinstance(method, Certified):
        way, certified = "certified", method
    else:
        way = one_of(method, METHODS, "method", otherwise=", or a dpfast.release.Certified")
        certified = Certified(paper=way == "paper")
    if domain is None:
        _refuse_without_domain(way, loss, inference)
        raw = RawRequest(X, y, loss, noise=noise)
        asked = Question(raw, *raw.direction(direction), total, None, ledger)
        return _without_certificate(asked, way)
    request = ReleaseRequest(X, y, loss, domain=domain, noise=noise)
    rows, single, labels = request.direction(direction)
    asked = Question(request, rows, single, labels, total, inference, ledger)
    if way in CERTIFIED:
        return _with_certificate(asked, certified)
    return _without_certificate(asked, way)


class Question:
    """What is asked for, however it is released, with the part of the budget for inference."""

    def __init__(
        self,
        request: Asking,
        rows: Array,
        single: bool,
        labels: tuple[str, ...],
        total: ApproxDP,
        inference: float | None,
        ledger: Ledger | None,
    ) -> None:
        self.request, self.rows, self.ledger = request, rows, ledger
        self.main = self.total = total
        self.aside: tuple[ApproxDP, Ledger] | None = None
        self.extra: tuple[str, ...] = ()
        self._single, self._labels, self._sandwich = single, labels, None
        if inference is not None:
            assert isinstance(request, ReleaseRequest)
            part = number_in(inference, "inference", "(0, 1)")
            self.main, rest = divided(total, part)
            sandwich = plan_sandwich(request, rest)
            self._sandwich = sandwich
            self.aside = rest, sandwich.curator.ledger
            self.extra = ("a private sandwich covariance",)

    def sampling_errors(self) -> Array | None:
        """Buy standard errors, if they are paid for."""
        return None if self._sandwich is None else sampling_errors(self._sandwich, self.rows)

    def result(self, values: Array, errors: Array | None, **told: Any) -> FunctionalRelease:
        return FunctionalRelease(
            value=float(values[0]) if self._single else values,
            directions=self.rows,
            names=self._labels,
            _sampling_error=errors,
            **told,
        )


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


def _without_certificate(asked: Question, method: str) -> FunctionalRelease:
    """By the mechanism that public numbers choose, or the one asked for; charged at once."""
    request: Any = asked.request
    rows = asked.rows
    chosen = route(method, request, asked.main, len(rows))
    way = planned_route(chosen, request, asked.main, rows, asked.total)
    whole = asked.total

    def guarantee() -> ReleaseGuarantee:
        spent, entries = way.spent(), (f"{len(rows)} functional(s)", *asked.extra)
        if asked.aside is not None:
            part, ledger = asked.aside
            spent = Sum((spent, Prepaid(asked.extra[0], part, composition_of(ledger))))
        return request.guarantee(*whole.values(), entries, spent)

    def told(found: Functionals, errors: Array | None) -> FunctionalRelease:
        return asked.result(
            found.values,
            errors,
            _scale_bounds=found.scales,
            noise_law=found.law,
            certificate=None,
            method=way.told,
            privacy=guarantee(),
            beyond=found.beyond,
        )

    def so_far(error: str) -> FunctionalRelease | None:
        found = way.so_far()
        return None if found is None else told(found, found.sampling)

    with KeepingPaid(so_far, privacy=guarantee):
        label = request.label("release_functional")
        charge_shared(asked.ledger, whole, whole, label, request.room)
        found = way.run()
        bought = asked.sampling_errors() if found.sampling is None else found.sampling
        return told(found, bought)


def _with_certificate(
    asked: Question, settings: Certified
) -> FunctionalRelease | ParameterRelease | NotCertified:
    """By test and release: with one certificate, or with those of both eigenvalues."""
    request: Any = asked.request
    rows, total = asked.rows, asked.total
    certificate, noise_law, share, fallback, max_noise, twice = settings
    twice, noise_law = flag(twice, "paper"), one_of(noise_law, ("auto", *LAWS), "noise_law")
    limit = None if max_noise is None else number_in(max_noise, "max_noise", "(0, inf]")
    if isinstance(certificate, str) and certificate == "auto":
        certificate = "global" if twice else "leverage"
    kind = kind_of(certificate, "functional", *["largest eigenvalue"] * twice)
    terms = make_terms(
        "functional", asked.main, share, fallback, noise=noise_law, count=len(rows),
        certificates=1 + twice, whole=total,
    )  # fmt: skip
    functional_noises(terms)  # refuses an impossible budget while nothing is spent
    session = Session(
        request, terms, kind, "release_functional", total, asked.ledger, asked.extra, rows,
        asked.aside, limit,
    )  # fmt: skip

    with KeepingPaid(session.so_far):
        found = session.certificate()
        if twice:
            found = session.with_largest(found)
        choices = session.choices(found)
        if choices is None:
            return session.refusal(found)
        session.pay_rest(total, "release")
        values = session.query.functionals(rows, choices)
        return asked.result(
            values,
            asked.sampling_errors(),
            _scale_bounds=np.array([choice.scale_bound for choice in choices]),
            beyond=np.zeros(len(rows)),
            noise_law=choices[0].law,
            certificate=found,
            method=f"{certificate} certificate" + ", the paper's procedure" * twice,
            privacy=session.guarantee(session.tests, f"{len(rows)} functional(s)"),
        )
