"""``fit_many``: one design, fitted with many responses, noises or resamples."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import flag
from dpfast.data import Records, as_records
from dpfast.data.coding import Design
from dpfast.data.columns import column, column_names, is_table
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.planned_run import quietly, warn_of
from dpfast.fit_requests.request import Account, FitRequest, most_occurrences
from dpfast.fit_requests.rows import rows_of_formula
from dpfast.inference.composition import amounts
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective, resolve_loss
from dpfast.models.objective import terms_of
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.decimals import root_to_float
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.regression.default_fit import DefaultFit, uses_default_fit
from dpfast.regression.fit import refuse_no_own_units
from dpfast.regression.formula import of_table, table_source, with_intercept
from dpfast.scaling.standardize import checked_standardize, refuse_like
from dpfast.scaling.standardized import Standardized

#: Fits of one call, at most; each is kept until the end.
MAX_FITS = 100_000

ROBUST_ONLY = (
    "fit_many takes losses of the default fit, without weights, a ridge or a free scale. Call "
    "dpfast.fit for each of the others."
)

MEMORY_ONLY = (
    "fit_many reads arrays and tables in memory, with one row for each person and no weights or "
    "offsets. Call dpfast.fit for each fit of other records."
)

RESAMPLE = (
    "each resample must be row numbers from 0 to n - 1 = {last}, an array of integers of one "
    "dimension that is not empty; number {place} is a {received}, which is no such array."
)


@understood
def fit_many(
    X: Any,
    y: Any,
    loss: str | Loss | Objective = "least-squares",
    *,
    privacy_each: Budget | float | tuple[float, float],
    resamples: Sequence[Any] | None = None,
    standardize: bool | Standardized | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | Sequence[NoiseSource] | None = None,
) -> ManyFits:
    """Fit one design with many responses, many noises or many resamples, each with its own charge.

    For multivariate regressions, simulation studies, and the resamples of a bootstrap or jackknife.
    The design is read and checked once.  Each fit is the default one of :func:`dpfast.fit`.

    Parameters
    ----------
    X : str, array-like of shape (n, q) or data frame
        Covariates.  Or a formula with one or several responses, ``"cbind(log(wage), hours) ~ educ +
        C(region)"``, of a table in the place of y.  Or, with ``y=None``, :func:`dpfast.records` or
        a design, which hold their response.
    y : array-like of shape (n,) or (n, K), or data frame
        One response for all fits, or a column for each fit.
    loss : str, Loss or Objective
        As for :func:`dpfast.fit`, without weights, ridge or free scale.
    privacy_each : float, (float, float), GDP, ZCDP or ApproxDP
        What **each** fit spends.  K fits together spend ``sqrt(K)`` times the mu of one.
    resamples : list of K arrays of int, or array of shape (K, N), optional
        Row numbers of the records that each fit uses: public, and drawn without looking at the
        records.  Where a record occurs up to m times, the noise is that of ``mu / m``.  A subsample
        or a fold has m = 1; a bootstrap sample of 1,000 records has m = 5 or 6.
    standardize : bool or Standardized, optional
        By default each fit estimates centres and scales with a part of its own budget.  With those
        of :func:`dpfast.standardize`, which were paid for once, no fit does.
    inference : bool
        Estimate standard errors and intervals with part of each budget.
    ledger : Ledger, optional
        A shared budget.  It has a line for each fit, and pays for all of them or for none: what it
        cannot pay is refused before the first.
    noise : NoiseSource, or sequence of K NoiseSource, optional
        Default: operating-system entropy.  A sequence has one source for each fit.

    Returns
    -------
    ManyFits
        A sequence of fits, in the order of the responses, resamples or sources.

    Raises
    ------
    Exception
        What ends a run early, such as Ctrl-C, has the finished fits as ``partial_result``.

    Privacy
    -------
    Each fit is ``privacy_each``-DP under replacement of one record with n public.  K fits are
    ``sqrt(K) mu``-GDP together (claims C9 and C96 of ``dpfast/privacy/PROOFS.md``).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> Y = X @ rng.normal(size=(2, 3)) + rng.normal(size=(2000, 3))
    >>> fits = dpfast.fit_many(X, Y, privacy_each=1.0)
    >>> fits.params.shape, fits[0].privacy.total, round(fits.privacy.total.mu, 3)
    ((3, 3), GDP(mu=1.0), 1.732)
    >>> halves = [np.arange(1000), np.arange(1000, 2000)]
    >>> len(dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, resamples=halves))
    2
    """
    account = Account(privacy_each, ledger)
    design = _read(X, y)
    terms = terms_of(with_intercept(loss, design.coding.fit_intercept) if design.coding else loss)
    resolved = resolve_loss(terms.loss, unbounded=True)
    if not uses_default_fit(resolved, terms._asdict() | {"method": "auto"}):
        raise InvalidInput(ROBUST_ONLY)
    standardize = checked_standardize(standardize)
    refuse_like(standardize, "many fits of one table")
    sources = [*map(_source_of_fit, noise if isinstance(noise, list | tuple) else [noise])]
    base = FitRequest(
        design.source, None, account, fit_intercept=terms.fit_intercept, noise=None,
        per_person=True, bound_to=terms.n_covariates, of_predictor=resolved.link != "identity",
        instead=MEMORY_ONLY,
    )  # fmt: skip
    if type(base.records) is not Records:
        raise InvalidInput(MEMORY_ONLY)
    records = [base.records, *(as_records(base.records.X, one) for one in design.others)]
    rows = _checked_rows(resamples, base.n)
    several: dict[str, list[Any]] = {"responses": records, "resamples": rows, "noise": sources}
    count = _common_length(several)
    refuse_no_own_units(base)
    account.warn_if_weak(base.n_units)
    settings: dict[str, Any] = {
        "scale": terms.scale,
        "standardize": True if design.coding and standardize is None else standardize,
        "inference": flag(inference, "inference"),
    }

    sizes = [() if one is None else (len(one), most_occurrences(one)) for one in rows]
    plans: dict[Any, DefaultFit] = {}

    def planned(k: int) -> DefaultFit:
        of_fit, picked, source = [part[k % len(part)] for part in several.values()]
        own = Account(privacy_each, ledger, account.total)
        request = base.resampled(picked, of_fit).with_account(own)
        request.noise, request.part = source, f"{k + 1} of {count}"
        plan = plans.get(sizes[k % len(sizes)])
        if plan is None:
            return DefaultFit(request, [resolved], **settings)
        return plan.of_records(request, settings["standardize"])

    for k, size in enumerate(sizes):  # fits of one size are alike in all that is public
        plans[size] = plans.get(size) or planned(k)
    account.refuse_unpayable(f"{count} fits, each", count)
    return _run_all(map(planned, range(count)), design.coding)


@dataclass(frozen=True, repr=False, eq=False)
class ManyFits(Sequence[Fit]):
    """Fits of one design, in their order (:func:`dpfast.fit_many`).  A sequence of :class:`Fit`.

    Attributes
    ----------
    fits : tuple of Fit
        Each with its own guarantee.
    privacy : Guarantee
        Guarantee for all fits together: the squares of their mu add up.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing, however often.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2000, 1))
    >>> found = dpfast.fit_many(X, np.column_stack([X, 2.0 * X]), privacy_each=1.0)
    >>> len(found), found.params.shape, round(found.privacy.total.mu, 3)
    (2, (2, 2), 1.414)
    """

    fits: tuple[Any, ...]
    privacy: Guarantee

    @classmethod
    def of(cls, fits: Sequence[Any]) -> ManyFits:
        """Join fits, the last of which may be unfinished."""
        promises: list[Guarantee] = [fit.privacy for fit in fits]
        totals: list[Any] = [promise.total for promise in promises]
        squares = sum((amounts(total, GDP)[0] for total in totals), Fraction(0))
        total = GDP(root_to_float(squares.numerator, squares.denominator, up=True))
        entries = [(f"fit {k + 1}", spent.mu) for k, spent in enumerate(totals)]
        genuine = all(promise.genuine for promise in promises)
        vouched = tuple(dict.fromkeys(text for one in promises for text in one.vouched))
        first = promises[0]
        return cls(
            tuple(fits),
            Guarantee(
                total, first.relation, first.n, tuple(entries), genuine, total.mu, vouched
            ),
        )  # fmt: skip

    @property
    def params(self) -> NDArray[np.float64]:
        """A row of coefficients for each fit, shape (K, p)."""
        return np.array([fit.params for fit in self.fits])

    @property
    def bse(self) -> NDArray[np.float64]:
        """Standard errors, shape (K, p); they include the privacy noise."""
        return np.array([fit.bse for fit in self.fits])

    @property
    def warnings(self) -> tuple[str, ...]:
        """How many fits have warnings, and the first of them; a tuple of at most one text."""
        noted = [(k, fit.warnings) for k, fit in enumerate(self.fits) if fit.warnings]
        if not noted:
            return ()
        k, (first, *_) = noted[0]
        return (
            f"{len(noted)} of {len(self.fits)} fits have warnings, which their attribute warnings "
            f"shows. The first of fit {k + 1}: {first}",
        )

    def __len__(self) -> int:
        return len(self.fits)

    def __getitem__(self, place: Any) -> Any:
        return self.fits[place]

    def __repr__(self) -> str:
        return f"ManyFits({len(self.fits)} fits, {self.privacy.total!r} together)"


def _run_all(plans: Iterator[DefaultFit], coding: Any) -> ManyFits:
    """Run one fit after the other; an error has the finished ones."""
    fits: list[Any] = []

    def so_far(error: str, keeping: KeepReleased) -> ManyFits | None:
        last = keeping.last(error)
        found = fits if last is None else [*fits, last]
        return ManyFits.of(found) if found else None

    with KeepReleased(so_far, adopts_inner=True) as kept, quietly():
        for plan in plans:
            fits.append(plan.fit())
            kept.taken()
    if coding is not None:
        fits = [rows_of_formula(fit, coding) for fit in fits]
    result = ManyFits.of(fits)
    warn_of(result)
    return result


class _Design(NamedTuple):
    """Covariates with a first response, the others, and the coding of a formula."""

    source: Source
    others: list[Any]
    coding: Any


def _read(X: Any, y: Any) -> _Design:
    """Read the design, and each response."""
    if isinstance(X, str):
        return _read_formula(X, y)
    source = source_of(X, None)
    if isinstance(source.covariates, Design) and source.response is None and y is None:
        return _Design(source, [], None)
    if isinstance(source.covariates, Records) or (source.response is None) == (y is None):
        raise InvalidInput(
            "fit_many(X, y, ...) takes the covariates as X and the responses as y, in memory, or a "
            f"formula and a table; received {type(X).__name__} and {type(y).__name__}."
        )
    first, *others = _columns_of(source.response if y is None else y)
    return _Design(source.but(response=first), others, None)


def _columns_of(y: Any) -> list[Any]:
    """List the responses, each of them an array or a column."""
    if is_table(y):
        columns = [column(y, name) for name in column_names(y)]
    elif getattr(y, "ndim", 1) == 2:
        columns = [*np.ascontiguousarray(np.asarray(y).T)]
    else:
        columns = [y]
    if not 1 <= len(columns) <= MAX_FITS:
        raise InvalidInput(f"y must have 1 to {MAX_FITS} columns; received {len(columns)}.")
    return columns


def _read_formula(formula: str, table: Any) -> _Design:
    """Evaluate the design of a formula once, and each of its responses."""
    source = table_source(table)
    if not is_table(source.covariates):
        raise InvalidInput(MEMORY_ONLY)
    first, *others = _formulas_of(formula)
    terms, read, _ = of_table(first, source, None)
    responses = [of_response(other, source.covariates) for other in others]
    return _Design(read, responses, terms.coding)


def of_response(formula: str, table: Any) -> Any:
    """Evaluate the response of a formula."""
    from dpfast.data.formula import terms_of as terms_of_formula

    return terms_of_formula(formula, None, table).left.design(table).X[:, 0]


def _formulas_of(formula: str) -> list[str]:
    """Write a formula with ``cbind(a, b)`` on its left side as one formula for each response."""
    left, tilde, right = formula.partition("~")
    left = left.strip()
    if not (tilde and left.startswith("cbind(")):
        return [formula]
    try:
        (call,) = ast.parse(left).body
        responses = [ast.unparse(part) for part in call.value.args]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError):
        responses = []
    if not responses:
        raise InvalidInput(
            f"the left side of formula {formula!r} could not be read: several responses are "
            "'cbind(y1, log(y2)) ~ x1 + x2'."
        )
    return [f"{response} ~ {right}" for response in responses]


def _source_of_fit(noise: Any) -> NoiseSource:
    """Check one source of a list, without showing what a private column in its place has."""
    if noise is None or isinstance(noise, NoiseSource):
        return checked_noise(noise)
    raise InvalidInput(
        "noise must be a noise source, such as dpfast.SeededNoise(0), or a list of them; received "
        f"an object of type {type(noise).__name__}."
    )


def _checked_rows(resamples: Any, n: int) -> list[NDArray[np.int64] | None]:
    """Check the public row numbers of each resample; None stands for all rows."""
    if resamples is None:
        return [None]
    several = isinstance(resamples, list | tuple) or getattr(resamples, "ndim", 0) == 2
    if not several or not 1 <= len(resamples) <= MAX_FITS:
        raise InvalidInput(
            f"resamples must be a list of 1 to {MAX_FITS} arrays of row numbers; received "
            f"{described(resamples)}."
        )
    checked: list[NDArray[np.int64] | None] = []
    for place, one in enumerate(resamples):
        rows = np.asarray(one)
        good = rows.ndim == 1 and rows.size > 0 and rows.dtype.kind in "iu"
        if not (good and int(rows.min()) >= 0 and int(rows.max()) < n):
            raise InvalidInput(
                RESAMPLE.format(last=n - 1, received=type(one).__name__, place=place + 1)
            )
        checked.append(rows.astype(np.int64))
    return checked


def _common_length(several: dict[str, list[Any]]) -> int:
    """Return the number of fits: responses, resamples and sources are one, or that many."""
    count = max(map(len, several.values()))
    for what, parts in several.items():
        if len(parts) not in (1, count):
            raise InvalidInput(
                f"{what}: pass one for all fits or one for each; received {len(parts)} for "
                f"{count} fits."
            )
    return count
