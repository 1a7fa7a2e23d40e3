"""``two_stage``: two-stage least squares with instruments."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.data.instruments import Equations, Roles, equations_of, roles_of
from dpfast.data.schema import Schema
from dpfast.data.source import EVERYTHING
from dpfast.effects.iv import TwoStage
from dpfast.effects.moment_conditions import (
    Columns,
    IVEstimate,
    IVQueries,
    solve_moments,
)
from dpfast.effects.weak_instruments import (
    anderson_rubin,
    first_stage_f,
    no_curve,
    overidentification,
)
from dpfast.errors import understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest, hide_row_details
from dpfast.inference.degrees import Covariance, VarianceNoise, nothing_known
from dpfast.inference.natural import natural_map
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.centred_powers import basis_of_terms
from dpfast.regression.default_fit import preconditioned_rows, subsample_size
from dpfast.regression.design_basis import with_contrasts
from dpfast.regression.formula import table_source, term_records
from dpfast.scaling.budget import refuse_too_few_records
from dpfast.scaling.private import plan_scaling
from dpfast.scaling.remarks import STOPPED
from dpfast.scaling.weight_unit import planned_weight_unit
from dpfast.solvers.pcn.clipping import may_bias
from dpfast.solvers.pcn.local import SUBSAMPLE_PART

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

#: First-stage F above which the bias of one instrument is below 5% of that of least squares
#: (Montiel Olea and Pflueger 2013), and part of a standard error by which the Anderson-Rubin
#: statistic may reach beyond the interval.  Of six tables (`bench.instruments`) one covers .80 with
#: F = 17: it warns in 90% of samples.  One that covers .97 with F = 31 does in 23%, and stronger
#: instruments in none.
STRONG, BEYOND = 37.4, 0.25

NEARLY_WEAK = (
    "the Anderson-Rubin statistic reaches beyond conf_int() by {:.2g} standard errors: instruments "
    "are not strong enough (first-stage F = {:.1f}) for standard errors, and conf_int() may not "
    "cover. Use anderson_rubin()."
)

CLIPPED = (
    "scores were clipped at a norm of {:.3g}, which may bias the estimate by more than a standard "
    "error. Use the logarithm of a response that spans orders of magnitude, or a larger budget."
)

UNIDENTIFIED = (
    "{}{:.2g}% of the budget: {} cannot be told from a constant at this budget, so that no effect "
    "is identified. Nearly all records seem to have one value there. Use other instruments or "
    "regressors, or a larger budget."
)

NOT_CONVERGED = (
    "the Newton steps have not converged with scores clipped at {:.3g}: intervals may not cover. "
    "Use a larger budget, or stronger instruments."
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

    The moments of both stages come from one noisy Gram matrix.  Averaged Newton steps then solve
    the moment conditions of whitened instruments and residuals, clipped at an estimated norm.  A
    noisy first stage costs precision, not validity.

    Parameters
    ----------
    formula : str
        ``"y ~ x + w | z + w"``: regressors, and after the bar the instruments, which include the
        exogenous regressors (as in ivreg and AER).  Terms are those of :func:`dpfast.fit`:
        ``log(wage)``, ``I(age**2)``, ``C(region, levels=["north", "south"])``, products.  Fixed
        effects are levels in both parts: of 100 levels, 60,000 records at mu = 1.
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


class _Plan(Analysis[TwoStage]):
    """Two-stage least squares, planned: public decisions, then queries and a report."""

    returns_unused = True

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
        self._scaling, rest = plan_scaling(request, mu, least=0.0)
        refuse_too_few_records(n, p, mu, f" for p = {p} columns: estimates", "columns")
        if self._weight_unit:
            rest = self._weight_unit.refuse(preconditioned_rows(self.request), rest)
        for left in (rest, mu):
            queries = IVQueries.planned(n, p, left)
            queries.refuse_all(preconditioned_rows(request), self.columns.n_instruments)

    @property
    def units(self) -> Any:
        """Released scales of the columns, if any yet."""
        return self._scaling.released

    def query(self, report: Progress | None) -> Answers | str:
        """Release column scales and moments, and estimate; or say why the call ended early."""
        if ended := self._scaling.too_few():
            return ended
        self._scaling.in_place(spend=False)  # the rest is for the steps
        if ended := self._unidentified():
            return ended
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
        queries = IVQueries.planned(rows.n, len(columns.all), request.mu_left(self._mu))
        estimate = solve_moments(rows, basis, columns, queries)
        return Answers(estimate, columns, basis, variation)

    def _unidentified(self) -> str:
        """Say so if too few instruments, or no endogenous regressor, seem to vary."""
        names, undetected = self.request._coefficient_names(), self.request.undetected
        moving, moved = (
            [names[j] for j in columns if names[j] not in undetected]
            for columns in (self.columns.excluded, self.columns.endogenous)
        )
        if moved and len(moving) >= len(moved):
            return ""
        share = 100.0 * self.request.spent_share()
        return UNIDENTIFIED.format(STOPPED, share, ", ".join(undetected))

    def _basis(self, columns: Columns) -> Array:
        """Return the map to an analysis's columns in order, with centred powers and products.

        It is that of positions alone where centring would mix instruments with regressors.
        """
        request, units = self.request, self.units
        basis = None
        if request.fit_intercept and request.terms is not None:
            used = np.isin(np.arange(1, request.dimension), columns.all)
            basis = basis_of_terms(request.terms, units.centres, units.spreads, used)
            basis = with_contrasts(request, basis, units)
        exogenous, excluded, endogenous = columns
        if (
            basis is None
            or basis[np.ix_(excluded, [*exogenous, *endogenous])].any()
            or basis[np.ix_(endogenous, [*exogenous, *excluded])].any()
        ):
            basis = np.eye(request.dimension)
        return basis[:, columns.all]

    def report(self, answers: Answers | str) -> TwoStage:
        """Report the estimate and its tests in original units."""
        request = self.request
        names = request._coefficient_names()
        shown = [*self.columns.exogenous, *self.columns.endogenous]  # also those left out
        shown_names = tuple([names[j] for j in shown])
        if isinstance(answers, str):
            params, known = np.full(len(shown), np.nan), nothing_known(len(shown), answers)
            tests = math.nan, (math.nan, self.columns.n_surplus)
            curve = no_curve() if len(self.columns.endogenous) == 1 else None
        else:
            params, known, matrix = self._natural(answers, shown)
            known = request.released_covariance(known, shown_names)
            known = known.representable(params, shown_names)
            tests = answers.tests(request.n)
            curve = _curve(answers, request, float(matrix[-1, -1]))
        result = TwoStage(
            params=params,
            bse=np.sqrt(known.matrix.diagonal()),
            degrees_of_freedom=known.degrees_of_freedom(np.eye(len(shown))),
            names=shown_names,
            response=self._response,
            endogenous=tuple([names[j] for j in self.columns.endogenous]),
            instruments=tuple([names[j] for j in self.columns.excluded]),
            covariance=known.matrix,
            first_stage_f=tests[0],
            overidentification=tests[1],
            n_records=request.n,
            privacy=request.guarantee(),
            warnings=known.remarks,
            curve=curve,
        )
        return replace(result, warnings=(*result.warnings, *_nearly_weak(result)))

    def _natural(self, answers: Answers, shown: list[int]) -> tuple[Array, Covariance, Array]:
        """Map the regressors' coefficients to original units; return them and the map."""
        estimate, columns, basis, _ = answers
        request = self.request
        assert request.coding is not None
        back = natural_map(request.coding, request.fit_intercept, False)
        matrix = (back.matrix @ basis[:, columns.regressors])[shown]
        params = back.constant[shown] + matrix @ estimate.params[columns.regressors]
        meat = estimate.solution.meat
        spread = VarianceNoise(None, 0.0, *meat, estimate.n, matrix @ estimate.step)
        remarks = *request.remarks, *_warnings(answers, request.n)
        covariance = matrix @ estimate.covariance @ matrix.T
        known = Covariance(covariance, 0, np.zeros(len(params)), remarks, spread)
        return params, known, matrix


def _nearly_weak(result: TwoStage) -> list[str]:
    """Warn if the Anderson-Rubin interval shows that standard errors are too small."""
    if not WEAK <= result.first_stage_f < STRONG or not (beyond := result._beyond()) > BEYOND:
        return []
    return [NEARLY_WEAK.format(beyond, result.first_stage_f)]


def _positions(roles: Roles, fit_intercept: bool) -> Columns:
    """Return the positions of coefficients: an intercept comes first, and is exogenous."""
    first = int(fit_intercept)
    exogenous, excluded, endogenous = [[first + j for j in role] for role in roles]
    return Columns([*range(first), *exogenous], excluded, endogenous)


class Answers(NamedTuple):
    """Estimate of an analysis, its columns and their map, and the variation of weights."""

    estimate: IVEstimate
    columns: Columns
    basis: Array
    variation: float

    def tests(self, n: int) -> tuple[float, tuple[float, int]]:
        """Return the first stage's F, and the test of over-identifying restrictions."""
        f = first_stage_f(self.estimate.stage, self.columns, n, self.variation)
        return f, overidentification(self.estimate, self.columns)


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


def _warnings(answers: Answers, n: int) -> list[str]:
    """Return the warnings that released numbers give rise to."""
    remarks, solution = [], answers.estimate.solution
    f, _ = answers.tests(n)
    if f < WEAK:
        alone = len(answers.columns.endogenous) == 1
        remarks.append((WEAK_ALONE if alone else WEAK_TOGETHER).format(f))
    if solution.nonconvergence is not None:
        remarks.append(NOT_CONVERGED.format(solution.bound))
    if may_bias(solution.clipping_bias, solution.standard_error, len(solution.theta)):
        remarks.append(CLIPPED.format(solution.bound))
    return remarks
