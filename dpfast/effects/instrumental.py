"""``two_stage``: two-stage least squares with instruments."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data.instruments import Equations, Roles, equations_of, roles_of
from dpfast.data.schema import Schema
from dpfast.data.source import EVERYTHING
from dpfast.effects.iv import TwoStage
from dpfast.effects.weak_instruments import anderson_rubin, first_stage_f, overidentification
from dpfast.errors import understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest, hide_row_details
from dpfast.inference.degrees import MIN_DEGREES, Covariance
from dpfast.inference.natural import natural_map
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.models import LeastSquares
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.centred_powers import basis_of_terms
from dpfast.regression.default_fit import preconditioned_rows, subsample_size
from dpfast.regression.formula import table_source, term_records
from dpfast.scaling.budget import refuse_too_few_records
from dpfast.scaling.private import plan_scaling
from dpfast.scaling.weight_unit import planned_weight_unit
from dpfast.solvers.pcn.averaging import (
    averaged_newton_point,
    averaged_noise,
    inverse_variance_weights,
)
from dpfast.solvers.pcn.clipping import (
    ASYMMETRY,
    choose_clipping_norm,
    may_bias,
    noise_per_bound,
)
from dpfast.solvers.pcn.histogram import FINE, N_FINE_BINS, released_norms
from dpfast.solvers.pcn.initial import PILOT_CAP
from dpfast.solvers.pcn.local import SUBSAMPLE_PART
from dpfast.solvers.pcn.plan import Budgets
from dpfast.solvers.pcn.scores import NoisyScore, pooled_mean
from dpfast.solvers.pcn.second_moments import SecondMoments, second_moments

Array = NDArray[np.float64]

#: Shares of mu^2 left by the column scales: of the first Gram matrix, of the pilot's moments and of
#: each histogram.  The steps have the rest.  With the shares of a default fit, errors at n mu = 600
#: are 1.3 times as large, and more instruments look weak.
SHARES = {"matrix": 0.06, "vector": 0.10, "histogram": 0.03}

#: Share of the second Gram matrix, relative to the first.  No later query corrects the first stage.
SECOND = 3.0

#: Shares of the Newton steps; all but the first are averaged.
STEPS = (0.1, 0.3, 0.6)

#: First-stage F below which instruments are called weak (Staiger and Stock 1997).
WEAK = 10.0

WEAK_ALONE = (
    "instruments are weak (first-stage F = {:.1f}): estimates are biased towards least squares, "
    "and their intervals may not cover. Use anderson_rubin(), which allows for both weakness and "
    "noise of the first stage."
)

WEAK_TOGETHER = (
    "instruments are weak: they barely move one endogenous regressor apart from the others "
    "(conditional first-stage F = {:.1f}). Estimates are biased towards least squares, "
    "and their intervals may not cover. Use instruments that move them apart, or one endogenous "
    "regressor."
)

CLIPPED = (
    "scores were clipped at a norm of {:.3g}, which may bias the estimate by more than a standard "
    "error. Use the logarithm of a response that spans orders of magnitude, or a larger budget."
)


@understood
def two_stage(
    formula: str,
    table: Any,
    *,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> TwoStage:
    """Fit two-stage least squares: effects of endogenous regressors, by instruments.

    The moments of both stages come from one noisy Gram matrix.  Three Newton steps then solve the
    moment conditions of whitened instruments and residuals, clipped at an estimated norm.  A noisy
    first stage costs precision, not validity.

    Parameters
    ----------
    formula : str
        ``"y ~ x + w | z + w"``: regressors, and after the bar the instruments, which include the
        exogenous regressors (as in ivreg and AER).  Terms are those of :func:`dpfast.fit`:
        ``log(wage)``, ``I(age**2)``, ``C(region, levels=["north", "south"])``, products.
    table : DataFrame of pandas, polars or Dask, Arrow table, mapping to arrays, path or Source
        As for a formula of :func:`dpfast.fit`; a record with an entry that is not finite
        contributes zero and counts in n.  :func:`dpfast.records` adds weights, persons and
        offsets, which are subtracted from the response.  With ``effects="person"`` coefficients of
        persons take the place of the intercept.
    schema : Schema, optional
        Ranges, to which columns are clipped, and levels.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total**; scales, first stage and intervals included.

    Returns
    -------
    TwoStage
        With the first stage's F, an Anderson-Rubin interval that is valid for weak instruments, and
        a test of over-identifying restrictions.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T7); of one person with
    all their rows where records have persons (C81).  Column scales are claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 8000))
    >>> x = z + u + rng.normal(size=8000)
    >>> table = {"z": z, "x": x, "y": 2.0 * x + 3.0 * u + rng.normal(size=8000)}
    >>> fit = dpfast.effects.two_stage("y ~ x | z", table, privacy=1.0)
    >>> bool(abs(fit.params[1] - 2.0) < 0.5), bool(fit.first_stage_f > 100.0), fit.instruments
    (True, True, ('z',))
    """
    plan = _Plan(equations_of(formula), table, schema, Account(privacy, ledger), noise)
    label = plan.request.label("two_stage", f"instruments={len(plan.columns.excluded)}")
    return run(plan, label, plan.request.default_fit_bytes())


class Columns(NamedTuple):
    """Positions of columns among the design's coefficients, in the order of an analysis.

    Exogenous ones come first (the constant among them), then excluded instruments, then the
    endogenous ones.
    """

    exogenous: list[int]
    excluded: list[int]
    endogenous: list[int]

    @property
    def all(self) -> list[int]:
        """Positions of all columns."""
        return [*self.exogenous, *self.excluded, *self.endogenous]

    @property
    def n_instruments(self) -> int:
        """Number of instruments, the exogenous columns included."""
        return len(self.exogenous) + len(self.excluded)

    @property
    def regressors(self) -> list[int]:
        """Places of the regressors in the order of an analysis."""
        return [*range(len(self.exogenous)), *range(self.n_instruments, len(self.all))]

    def without(self, positions: set[int]) -> Columns:
        """Leave out exogenous columns, and excluded instruments if enough are left."""
        exogenous = [j for j in self.exogenous if j not in positions]
        excluded = [j for j in self.excluded if j not in positions]
        enough = len(excluded) >= len(self.endogenous)
        return Columns(exogenous, excluded if enough else self.excluded, self.endogenous)


class _Plan(Analysis[TwoStage]):
    """Two-stage least squares, planned: public decisions, then queries and a report."""

    def __init__(
        self,
        equations: Equations,
        table: Any,
        schema: Schema | None,
        account: Account,
        noise: NoiseSource | None,
    ) -> None:
        source = table_source(table)
        self._response = equations.response
        with hide_row_details(source.each):
            terms, source, _ = term_records(equations.formula, source, schema)
            roles = roles_of(terms.coding, equations)
            self.request = request = FitRequest(
                source, None, account, fit_intercept=True, noise=noise, takes=EVERYTHING,
                per_person=True,
            )  # fmt: skip
        n, p, mu = request.n, request.dimension, request.mu * (1.0 - ROUNDING_SUM)
        self._mu, self._weight_unit = mu, planned_weight_unit(request, mu)
        self.columns = _positions(roles, request.fit_intercept)
        request.draw_subsample(subsample_size(n, p, mu), SUBSAMPLE_PART)
        self._scaling, rest = plan_scaling(request, mu)
        refuse_too_few_records(n, p, mu, f" for p = {p} columns: estimates", "columns")
        if self._weight_unit:
            rest = self._weight_unit.refuse(preconditioned_rows(self.request), rest)
        for left in (rest, mu):
            self._refuse(_budgets(left))

    def _refuse(self, budget: Budgets) -> None:
        """Refuse budgets that an answer would refuse; costs nothing."""
        rows, histograms = preconditioned_rows(self.request), (budget.histogram,)
        grams = budget.matrix, budget.matrix * SECOND**0.5
        rows.refuse(grams, (budget.vector,), histograms, cells=N_FINE_BINS)
        instruments = rows.mapped(np.eye(rows.dimension)[:, : self.columns.n_instruments])
        instruments.refuse((), (), histograms, budget.steps, cells=N_FINE_BINS)

    @property
    def units(self) -> Any:
        """Released scales of the columns, if any yet."""
        return self._scaling.released

    def query(self, report: Progress | None) -> Answers:
        """Release column scales and moments, and estimate."""
        self._scaling.in_place(spend=False)  # the rest is for the steps
        request, variation = self.request, 1.0
        rows = preconditioned_rows(request)
        if self._weight_unit:
            self._weight_unit.estimate_unit(rows)
            rows, variation = self._weight_unit.weighted(rows), self._weight_unit.variation
        names = request._coefficient_names()
        columns = self.columns.without({
            j for j, name in enumerate(names) if name in request.undetected
        })  # fmt: skip
        basis = self._basis(columns)
        mu = request.mu_left(self._mu)
        budget = _budgets(mu)
        moments = second_moments(rows.mapped(basis), budget, SECOND)
        return Answers(_solve(rows, basis, columns, moments, budget), columns, basis, variation)

    def _basis(self, columns: Columns) -> Array:
        """Return the map to an analysis's columns in order, with centred powers and products.

        It is that of positions alone where centring would mix instruments with regressors.
        """
        request, units = self.request, self.units
        basis = None
        if request.fit_intercept and request.terms is not None:
            used = np.isin(np.arange(1, request.dimension), columns.all)
            basis = basis_of_terms(request.terms, units.centres, units.spreads, used)
        exogenous, excluded, endogenous = columns
        if (
            basis is None
            or basis[np.ix_(excluded, [*exogenous, *endogenous])].any()
            or basis[np.ix_(endogenous, [*exogenous, *excluded])].any()
        ):
            basis = np.eye(request.dimension)
        return basis[:, columns.all]

    def report(self, answers: Answers) -> TwoStage:
        """Report the estimate and its tests in original units."""
        estimate, columns, basis, variation = answers
        request, names = self.request, self.request._coefficient_names()
        assert request.coding is not None
        shown = [*self.columns.exogenous, *self.columns.endogenous]  # also those left out
        back = natural_map(request.coding, request.fit_intercept, False)
        matrix = (back.matrix @ basis[:, columns.regressors])[shown]
        params = back.constant[shown] + matrix @ estimate.params[columns.regressors]
        # degrees are those of the estimate that an error mainly comes from
        main = np.argmax(np.abs(matrix) * np.sqrt(estimate.covariance.diagonal()), axis=1)
        f = first_stage_f(estimate, columns, request.n, variation)
        known = Covariance(
            matrix @ estimate.covariance @ matrix.T, 0, np.zeros(len(params)),
            (*request.remarks, *_warnings(estimate, f, len(columns.endogenous))),
        )  # fmt: skip
        shown_names = tuple([names[j] for j in shown])
        known = request.released_covariance(known, shown_names).representable(params, shown_names)
        return TwoStage(
            params=params,
            bse=np.sqrt(known.matrix.diagonal()),
            degrees_of_freedom=estimate.degrees[main],
            names=shown_names,
            response=self._response,
            endogenous=tuple([names[j] for j in columns.endogenous]),
            instruments=tuple([names[j] for j in self.columns.excluded]),
            covariance=known.matrix,
            first_stage_f=f,
            overidentification=overidentification(estimate, columns),
            n_records=request.n,
            privacy=request.guarantee(),
            warnings=known.remarks,
            curve=_curve(answers, request, float(matrix[-1, -1])),
        )


def _positions(roles: Roles, fit_intercept: bool) -> Columns:
    """Return the positions of coefficients: an intercept comes first, and is exogenous."""
    first = int(fit_intercept)
    exogenous, excluded, endogenous = [[first + j for j in role] for role in roles]
    return Columns([*range(first), *exogenous], excluded, endogenous)


def _budgets(rest: float) -> Budgets:
    """Divide a mu over the queries of each kind, and over the steps."""
    shares = SHARES["matrix"] * (1.0 + SECOND), SHARES["vector"], 2.0 * SHARES["histogram"]
    steps = 1.0 - sum(shares)
    matrix, vector, histogram = [rest * math.sqrt(share) for share in SHARES.values()]
    parts = [rest * math.sqrt(steps * part) for part in STEPS]
    return Budgets(matrix, vector, histogram, tuple(parts))


class IVEstimate(NamedTuple):
    """Estimate in coded units, the moments it solves, and their errors.

    Moments are means of scores of whitened instruments; ``jacobian`` is minus their derivative, and
    ``place`` the average of the points where they were released.  ``triangle`` is a factor of the
    second moments of all columns.
    """

    params: Array
    covariance: Array
    degrees: Array
    moment: Array
    variance: Array
    jacobian: Array
    noise: float
    place: Array
    unsure: float
    bound: float
    #: Mean norm of scores that clipping removes.
    bias: float
    #: Variance of the moments in any direction that allows for the bias of clipping.
    clipping: float
    #: Standard deviation of a score, and the mean product of the residual and the last column.
    spread: float
    mixed: float
    triangle: Array
    #: Whitening of instruments; inverse of the map of the Gram matrix's release, and its noise.
    whiten: Array
    back: Array
    gram_noise: float


class Answers(NamedTuple):
    """Estimate of an analysis, its columns and their map, and the variation of weights."""

    estimate: IVEstimate
    columns: Columns
    basis: Array
    variation: float


def _solve(
    rows: PreconditionedQueries,
    basis: Array,
    columns: Columns,
    moments: SecondMoments,
    budget: Budgets,
) -> IVEstimate:
    """Solve the moment conditions by Newton steps from a pilot estimate, averaged but the first."""
    k, x = columns.n_instruments, columns.regressors
    triangle: Array = np.linalg.qr(moments.factor, mode="complete")[1]
    whiten = np.asarray(np.linalg.inv(triangle[:k, :k]), dtype=np.float64)
    jacobian = triangle[:k, x]
    step = np.linalg.pinv(jacobian)
    pilot = rows.mapped(basis @ moments.first).moment(moments.radius, PILOT_CAP, budget.vector)
    response = moments.unfirst.T @ pilot.value
    params = np.zeros(len(triangle))
    params[x] = step @ (whiten.T @ response[:k])
    instruments = rows.mapped(basis[:, :k] @ whiten)

    def at(params: Array) -> Linearization:
        return Linearization(basis @ params, LeastSquares(), raw=True)

    bound, cut = _clipping_norm(instruments, at(params), budget)
    asked, places, pooled = list[NoisyScore](), list[Array](), None
    for i, mu in enumerate(budget.steps):
        # the meat is free up to half of the score's mu (claim C17)
        released = instruments.clipped(at(params), bound, mu, 0.5 * mu if i else 0.0)
        pooled = pooled_mean(pooled, released.meat) if i else None
        asked.append(NoisyScore(params[x], *released.gradient[:2]))
        places.append(params)
        params = params.copy()
        params[x] += step @ released.gradient.value
    asked, places = asked[1:], places[1:]  # the first step only reaches the neighbourhood
    weights = inverse_variance_weights(asked, None, [])
    place, score = weights @ np.array(places), weights @ np.array([one.score for one in asked])
    params = place.copy()
    params[x] = averaged_newton_point(
        [one._replace(score=step @ one.score) for one in asked], weights, None
    )
    assert pooled is not None
    noise, n, (meat, meat_noise) = averaged_noise(asked, weights), rows.n, pooled
    variance = floor_eigenvalues(meat / n + noise**2 * np.eye(k), noise**2)[0]
    clipping = (ASYMMETRY * cut) ** 2 / k
    covariance = step @ (variance + clipping * np.eye(k)) @ step.T
    unsure = meat_noise * (step**2).sum(axis=1) / n
    return IVEstimate(
        params=params,
        covariance=covariance,
        degrees=np.maximum(MIN_DEGREES, 2.0 / (unsure / covariance.diagonal()) ** 2),
        moment=score - jacobian @ (params - place)[x],
        variance=variance,
        jacobian=jacobian,
        noise=noise,
        place=place,
        unsure=meat_noise / n,
        bound=bound,
        bias=cut,
        clipping=clipping,
        spread=math.sqrt(max(float(np.trace(meat)) / k, noise**2)),
        mixed=float(response[-1] - triangle[:, -1] @ (triangle @ params)),
        triangle=triangle,
        whiten=whiten,
        back=moments.unfirst,
        gram_noise=moments.noise,
    )


def _clipping_norm(
    instruments: PreconditionedQueries, at: Linearization, budget: Budgets
) -> tuple[float, float]:
    """Release the norms of scores; return the norm that they are clipped at, and its bias."""
    norms = released_norms(instruments, budget.histogram, at, "score", FINE)
    n, k = instruments.n, instruments.dimension
    return choose_clipping_norm(norms, noise_per_bound(n, budget.steps[1:]), k, n=n)


def _curve(answers: Answers, request: FitRequest, unit: float) -> tuple[float, float, Any] | None:
    """Return the Anderson-Rubin curve of one endogenous coefficient; None for several."""
    estimate, columns, _, variation = answers
    if len(columns.endogenous) > 1:
        return None
    distances, statistics, freedom = anderson_rubin(
        estimate, columns, None if request.means else variation
    )
    if request.few_complete:  # no coefficient is released
        statistics = np.full_like(statistics, np.nan)
    return float(estimate.params[-1]) * unit, unit, (distances, statistics, freedom)


def _warnings(estimate: IVEstimate, f: float, n_endogenous: int) -> list[str]:
    """Return the warnings that released numbers give rise to."""
    remarks = []
    if f < WEAK:
        remarks.append((WEAK_ALONE if n_endogenous == 1 else WEAK_TOGETHER).format(f))
    k = len(estimate.moment)
    if may_bias(estimate.bias, math.sqrt(float(np.trace(estimate.variance)) / k), k):
        remarks.append(CLIPPED.format(estimate.bound))
    return remarks
