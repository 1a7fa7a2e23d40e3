"""``cox``: proportional hazards, one record for each person."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, positive
from dpfast.curator.answers import JointAnswer
from dpfast.curator.hazards import LARGEST, AtRisk, FollowUp, score_of_rows
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.data.columns import library, number_columns
from dpfast.data.files.headers import is_paths, is_text_or_whole
from dpfast.data.files.lazy import lazy_table
from dpfast.data.formula import refuse_terms_of
from dpfast.data.record_weights.columns_given import DASK
from dpfast.data.schema import Schema
from dpfast.data.source import Source
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import (
    PERSON_COPIES,
    PERSON_MEANS_NOTE,
    Account,
    FitRequest,
    hide_row_details,
)
from dpfast.inference.baseline import Baseline, part_of
from dpfast.inference.degrees import Covariance, VarianceNoise, nothing_known
from dpfast.inference.results import Fit
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import preconditioned_rows, subsample_size
from dpfast.regression.design_basis import design_basis
from dpfast.regression.formula import of_table, table_source, with_columns
from dpfast.scaling.budget import records_needed, refuse_too_few_records
from dpfast.scaling.private import plan_scaling, refuse_no_columns
from dpfast.scaling.remarks import ENDED, zero_or_one
from dpfast.scaling.weight_unit import planned_weight_unit
from dpfast.solvers.pcn.clipping import may_bias
from dpfast.solvers.pcn.histogram import NormHistogram, released_norms
from dpfast.solvers.pcn.local import SUBSAMPLE_PART
from dpfast.solvers.pcn.plan import TINY, BudgetAllocation
from dpfast.solvers.pcn.score_equations import ScoreQueries, ScoreSolution, solve_scores
from dpfast.solvers.pcn.second_moments import second_moments

#: Longest step in a coefficient of a standardised column, or in the logarithm of a hazard.  Beyond
#: it the curvature of the likelihood may differ too much from the one released.
LONGEST_STEP = 1.0

#: Intervals of all strata at most; with more, some would hold too few events.
MAX_INTERVALS = 50

#: What belongs to records and has a meaning here.
TAKES = ("group", "each", "sample_weight", "offset")

#: The result warns of whole units if the share of events at cuts is so many standard deviations of
#: its noise above zero, and half a unit moves a ratio by more than this part of a standard error.
DETECTED, MAX_UNIT_BIAS = 4.5, 0.25

#: The result warns of directions in which the Hessian is noise if they have more than this part of
#: the variance of a ratio (up to it intervals cover .96), and of scores that still point one way if
#: a step along them would move a ratio by more than so many standard errors.
MAX_HIDDEN, MAX_DRIFT = 0.1, 1.0

STRATUM = (
    "it is constant within a stratum, whose baseline hazard takes its place. Leave it out; a "
    "product with another column ('x:z') may stay."
)

TIES = (
    "events lie at the cuts themselves: times seem to be recorded in whole units, which biases "
    "ratios towards 0. Declare the unit, cox(..., unit=1.0) for whole weeks rounded up; of times "
    "rounded down add a unit, 'I(weeks + 1) ~ ...'; of times to the nearest unit move the cuts by "
    "half of one."
)

HIDDEN = (
    "{} of {} directions of intervals and covariates are too noisy: intervals with almost no "
    "event, or covariates that barely vary among persons with one. Use fewer cuts, leave such "
    "covariates out, or use a larger budget."
)

CUT_OFF = (
    "clipping of the longest scores may bias the ratios by more than a standard error. Use "
    "logarithms of covariates that span orders of magnitude, or a larger budget."
)

NOT_CONVERGED = (
    "the Newton steps have not converged with gradients clipped at {:.3g}: intervals may not cover "
    "the ratios. Use a larger budget, fewer cuts, or logarithms of covariates."
)


@understood
def cox(
    formula: str,
    table: Any,
    *,
    event: str,
    cuts: Any,
    unit: float | None = None,
    entry: str | None = None,
    strata: str | None = None,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Fit Cox's proportional hazards: log hazard ratios for the time until an event.

    The baseline hazard is constant within declared intervals; with about a dozen of them this is
    Cox's regression (Friedman 1982).  Baseline and ratios are estimated together, so the intervals
    of the ratios allow for errors of the baseline; :meth:`dpfast.Fit.survival` gives its curve.
    Times in whole weeks, used as if exact, pull ratios towards 0, as Breslow's treatment of ties
    does: declare their unit.

    Parameters
    ----------
    formula : str
        ``"weeks ~ drug + age + C(stage, levels=[1, 2, 3])"``: how long a person was followed, from
        0 on, and terms as for :func:`dpfast.fit`.
    table : pandas or polars DataFrame, Arrow table, mapping of names to arrays, or Source
        One row for each person.  An incomplete row contributes zero and counts in n.
        :func:`dpfast.records` adds weights, persons with several rows, and offsets of log hazards.
    event : str
        The column that is 1 if the event happened at that time, and 0 if follow-up ended
        (censored).
    cuts : sequence of float
        Public, increasing, and above 0: where intervals end; the last one ends the study.  Longer
        times are censored there.
    unit : float, optional
        Public: times are whole units, rounded up, so an event happened within the unit that
        ends at its time.  The likelihood is that of interval censoring.  A person without an event
        was followed until the end of the unit.  If times are rounded down, add a unit.
    entry : str, optional
        The column of times at which persons came under observation (left truncation, or delayed
        entry): before it they are not at risk.  The default is 0 for all.
    strata : str, optional
        A column whose levels have a baseline hazard each, with common ratios.  The schema declares
        it Categorical or Binary: levels are public.  Strata times intervals are at most 50.
    schema : Schema, optional
        Ranges, to which columns are clipped, and levels.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total**, column scales and intervals included.

    Returns
    -------
    Fit
        The log hazard ratios, in the columns' own units.  Standard errors are robust (Lin and Wei
        1989), and those of clusters where persons have several rows.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public; of one person with all their
    rows where records have persons (C81).  A score is a function of its own record and of released
    numbers (claim T13).  Column scales are claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> drug, ends = rng.integers(0, 2, 10_000), rng.uniform(0.0, 3.0, 10_000)
    >>> weeks = rng.exponential(np.exp(0.7 * drug))
    >>> table = {"weeks": np.minimum(weeks, ends), "died": 1.0 * (weeks <= ends), "drug": drug}
    >>> options = {"event": "died", "cuts": [0.5, 1.0, 2.0, 3.0], "privacy": 1.0}
    >>> fit = dpfast.effects.cox("weeks ~ drug", table, **options)
    >>> fit.names, bool(abs(fit.params["drug"] + 0.7) < 0.2)
    (('drug',), True)
    """
    account = Account(privacy, ledger)
    columns = event, entry, strata
    analysis = _Hazards(formula, table, schema, columns, cuts, unit, account, noise)
    request = analysis.request
    label = request.label("cox", f"intervals={analysis.intervals}")
    return run(analysis, label, request.memory_bytes(PERSON_COPIES, include_arrays=True))


def checked_cuts(cuts: Any) -> Array:
    """Check the cuts, and return them with 0 in front."""
    flat = isinstance(cuts, np.ndarray) and type(cuts) is np.ndarray and cuts.ndim == 1
    listed = list(cuts) if flat or isinstance(cuts, list | tuple) else []
    if not 0 < len(listed) <= MAX_INTERVALS:
        raise InvalidInput(
            f"cuts must be 1 to {MAX_INTERVALS} increasing numbers above 0, at which intervals "
            f"end; received {described(cuts)}."
        )
    ends = np.array([0.0, *[positive(value, f"cuts[{i}]") for i, value in enumerate(listed)]])
    with np.errstate(all="ignore"):
        if not np.all(np.diff(ends) > 1e-9 * ends[1:]):
            raise InvalidInput(f"cuts must increase; received {described(cuts)}.")
    return ends


def checked_unit(unit: Any, cuts: Array) -> float | None:
    """Check the unit of times: positive, and at most the last cut."""
    if unit is None:
        return None
    length = positive(unit, "unit")
    if length > cuts[-1]:
        raise InvalidInput(
            "unit must be at most the last of cuts: times are whole units of it; received a larger "
            "number."
        )
    return length


class _Columns(NamedTuple):
    """Names of the columns beside the formula's, and the public levels of strata."""

    event: str
    entry: str | None
    strata: str | None
    levels: tuple[Any, ...]

    @staticmethod
    def checked(names: tuple[Any, Any, Any], schema: Any) -> _Columns:
        """Check names of columns, and find the declared levels of strata."""
        event, entry, strata = names
        for name, argument in ((event, "event"), (entry, "entry"), (strata, "strata")):
            if type(name) is not str and not (name is None and argument != "event"):
                raise InvalidInput(
                    f"{argument} must be the name of a column of the table; received "
                    f"{described(name)}."
                )
        if strata is None:
            return _Columns(event, entry, None, ())
        from dpfast.tables.grouping import one_grouping

        return _Columns(event, entry, *one_grouping(schema, strata))


def _read(
    formula: str, schema: Schema | None, table: Any, columns: _Columns
) -> tuple[Source, FollowUp]:
    """Read the covariates of a table, and times; responses are numbers of rows."""
    source = table_source(table)
    data = source.covariates
    in_files = is_paths(data) or is_text_or_whole(data) or lazy_table(data) is not None
    if in_files or library(data) in DASK:
        raise InvalidInput(
            f"cox reads a table in memory; received {described(data)}. Load its columns first: "
            "pandas.read_parquet(path, columns=[...]), or table.compute() of Dask."
        )
    with hide_row_details(source.each):
        terms, coded, _ = of_table(formula, with_columns(source), schema)
        if not terms.coding.fit_intercept:
            raise InvalidInput("hazards of intervals include the intercept: leave '- 1' out.")
        if columns.event in terms.columns:
            raise InvalidInput(
                f"event = {described(columns.event, text=True)} is a column of the formula, too: "
                "the outcome cannot be a regressor. Leave it out there."
            )
        times, stratum = coded.response, None
        names = [columns.event] if columns.entry is None else [columns.event, columns.entry]
        beside = number_columns(data, names)
        if len(beside) != len(times):
            raise InvalidInput(
                "columns must be of one length; received lengths: "
                f"{sorted({len(beside), len(times)})}."
            )
        if columns.strata is not None:
            from dpfast.tables.grouping import levels_beside

            assert schema is not None
            refuse_terms_of(terms.coding, [columns.strata], STRATUM)
            stratum = levels_beside(schema, columns.strata, data, times)
    entries = None if columns.entry is None else beside[:, 1]
    people = FollowUp.of(times, beside[:, 0], entries, stratum, max(1, len(columns.levels)))
    return coded.but(response=people.responses), people


class _PersonScores(NamedTuple):
    """Mean scores of persons at risk, of whitened columns of a basis."""

    persons: AtRisk
    basis: Array
    whiten: Array

    @property
    def mapping(self) -> Array:
        """Map of whitened coefficients to those of intervals and covariates."""
        return self.basis @ self.whiten

    @property
    def n(self) -> int:
        return self.persons.n

    def sample(self) -> _PersonScores:
        """Return the scores of a secret sample if there are many persons."""
        return self._replace(persons=self.persons.sample())

    def rows(self, theta: Array) -> PreconditionedQueries:
        """Make queries about scores at whitened coefficients."""
        return self.persons.scores(self.mapping @ theta).mapped(self.mapping)

    def norms(self, theta: Array, mu: float) -> NormHistogram:
        """Release the norms of scores; costs ``mu`` (claim C60)."""
        rows = self.rows(theta)
        return released_norms(rows, mu, score_of_rows(rows), "score")

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Release the mean score, clipped for each person: costs ``mu`` (claim T13)."""
        rows = self.rows(theta)
        return rows.clipped(score_of_rows(rows), bound, mu, mu_meat)

    def trusted_part(self, step: Array) -> float:
        """Limit the move of each column's coefficient and of the logarithm of each hazard."""
        return min(1.0, LONGEST_STEP / max(float(np.abs(self.whiten @ step).max()), TINY))


class _Estimate(NamedTuple):
    """Released solution in whitened coefficients, which ``mapping`` maps to standardised columns.

    ``within`` is the share with an event in one unit of time.
    """

    solution: ScoreSolution
    mapping: Array
    within: float


class _Hazards(Analysis[Fit]):
    """Proportional hazards: public decisions before the charge, and the steps after it."""

    returns_unused = True

    def __init__(
        self,
        formula: Any,
        table: Any,
        schema: Any,
        columns: tuple[Any, Any, Any],
        cuts: Any,
        unit: Any,
        account: Account,
        noise: NoiseSource | None,
    ) -> None:
        if type(formula) is not str:
            raise InvalidInput(
                f"formula must be text, 'weeks ~ drug + age'; received {described(formula)}."
            )
        self._columns = _Columns.checked(columns, schema)
        self._cuts = checked_cuts(cuts)
        self.n_strata = max(1, len(self._columns.levels))
        self.intervals = (len(self._cuts) - 1) * self.n_strata
        if self.intervals > MAX_INTERVALS:
            raise InvalidInput(
                f"{self.n_strata} strata of {len(self._cuts) - 1} intervals have "
                f"{self.intervals} hazards; at most {MAX_INTERVALS} are estimated. Use fewer cuts, "
                "or coarser strata."
            )
        self._unit = checked_unit(unit, self._cuts)
        source, self._people = _read(formula, schema, table, self._columns)
        with hide_row_details(source.each):
            self.request = request = FitRequest(
                source, None, account, fit_intercept=True, noise=noise, takes=TAKES,
                per_person=True, of_predictor=True,
            )  # fmt: skip
        refuse_no_columns(request)
        n, q, mu = request.n, request.n_covariates, request.mu * (1.0 - ROUNDING_SUM)
        self._mu, p = mu, q + self.intervals
        weights = request.record_weights
        self._weight_unit = planned_weight_unit(request, mu)
        request.draw_subsample(subsample_size(n, p, mu), SUBSAMPLE_PART)
        offset = weights is not None and weights.offset is not None
        self._scaling, rest = plan_scaling(
            request, mu, least=records_needed(p, mu), response=False, offset=offset,
            also=zero_or_one("event"),
        )  # fmt: skip
        estimates = f" for {q} covariates and {self.intervals} intervals: ratios"
        refuse_too_few_records(n, p, mu, estimates, "of either")
        if self._weight_unit:
            rest = self._weight_unit.refuse(preconditioned_rows(request), rest)
        for left in (rest, mu):
            persons = self._persons(0.0)
            for queried in (persons, persons.sample()):
                self._queries(left).refuse(queried.events())

    def _queries(self, mu: float) -> ScoreQueries:
        p = self.request.n_covariates + self.intervals
        return ScoreQueries(BudgetAllocation(self.request.n, p, mu))

    def _persons(self, weigh: float) -> AtRisk:
        request = self.request
        return AtRisk(
            request.records, request.subsample, self._people, self._cuts, request.ledger,
            request.noise, request.threads, self._unit, weigh,
        )  # fmt: skip

    @property
    def units(self) -> Any:
        """Released scales of the columns, if any yet."""
        return self._scaling.released

    def too_few(self) -> str:
        """Ask the counts of complete records."""
        return self._scaling.too_few()

    def nothing(self, remark: str) -> Fit:
        """Report that no ratio was estimated."""
        q = self.request.n_covariates
        return self._fit(np.full(q, np.nan), nothing_known(q, remark), ENDED, ())

    def query(self, report: Progress | None) -> _Estimate:
        """Release column scales, times at risk and events, then take Newton steps."""
        self._scaling.in_place(spend=False)  # the rest is for the steps
        weigh, variation = 0.0, 1.0
        if self._weight_unit:
            self._weight_unit.estimate_unit(preconditioned_rows(self.request))
            assert self._weight_unit.unit is not None
            weigh, variation = 1.0 / self._weight_unit.unit, self._weight_unit.variation
        persons, queries = self._persons(weigh), self._queries(self.request.mu_left(self._mu))
        budget = queries.budgets(0)
        K = self.intervals
        risk, within = self._exposures(persons, variation, budget.vector)
        # the mean outer product of events' rows is the Hessian of the likelihood at the truth
        basis = self._basis()
        information = second_moments(persons.events().mapped(basis), budget)
        event_shares = (information.factor[:, :K] ** 2).sum(axis=0)
        hazards = self._start(risk, event_shares)
        problem = _PersonScores(persons, basis, information.whiten)
        start = information.factor[:, :K] @ hazards
        constant = information.factor[:, :K].sum(axis=1)
        solution = solve_scores(problem, start, constant, information, queries)
        return _Estimate(solution, problem.mapping, within)

    def _basis(self) -> Array:
        """Return the map of columns for :func:`design_basis`, of intervals and covariates."""
        K, q = self.intervals, self.request.n_covariates
        basis = design_basis(self.request, self._scaling.released)
        if basis is None:
            return np.eye(K + q)
        columns = basis[:, basis[1:].any(axis=0)]  # in place of the intercept there are hazards
        own = np.vstack([np.eye(K), np.zeros((q, K))])
        return np.hstack([own, np.vstack([np.tile(columns[0], (K, 1)), columns[1:]])])

    def _start(self, risk: Array, event_shares: Array) -> Array:
        """Return the logarithms of events by time at risk, of records with an average offset."""
        assert self.units is not None
        mean, spread = self.units._settings.get("offset", (0.0, 0.0))
        events = np.maximum(event_shares, 1.0 / self.request.n)
        hazards = np.log(events / risk)
        return np.clip(hazards - mean - 0.5 * spread**2, -LARGEST, LARGEST)

    def _exposures(self, persons: AtRisk, variation: float, mu: float) -> tuple[Array, float]:
        """Release parts at risk, and estimate the share of them with an event in one unit.

        The share is 0 where times are not tied to the cuts.  An event at a cut counts as much as
        all parts at risk, which makes the noise of either that of a query of its own.
        """
        length = len(self._cuts) - 1
        tie = math.sqrt(length) if self._unit is None else 0.0
        bound = math.sqrt(length + tie**2) * variation
        answer = persons.exposures(bound, tie, mu)
        risk, noise = answer.value[: self.intervals], answer.noise_scale
        share = answer.value[-1] / tie if tie else 0.0
        within = 0.0
        if tie and share > DETECTED * noise / tie:
            reached = np.pad(risk.reshape(self.n_strata, length), ((0, 0), (0, 1)))
            at_cuts = float(np.sum(0.5 * (reached[:, :-1] + reached[:, 1:])))
            within = float(share) / max(at_cuts, float(share))
        return np.maximum(risk, noise), within

    def report(self, answers: _Estimate) -> Fit:
        """Report ratios in original units, and the baseline at the centres of the covariates."""
        request, K = self.request, self.intervals
        assert request.coding is not None
        columns = [request.coding.columns[k] for k in request.column_names]
        scales = np.array([1.0] * K + [column.spread for column in columns])
        solution, mapping, within = answers
        all_to_own = mapping @ solution.back / scales[:, None]
        params = mapping @ solution.theta / scales
        joint = all_to_own @ solution.variance @ all_to_own.T
        to_own, slopes, covariance, remarks = all_to_own[K:], params[K:], joint[K:, K:], []
        errors = np.sqrt(covariance.diagonal())
        parts = mapping[:, solution.hidden], mapping[:, ~solution.hidden]
        if (part_of(*[part[K:] for part in parts]) > MAX_HIDDEN).any():
            hidden = int(np.count_nonzero(solution.hidden))
            remarks.append(HIDDEN.format(hidden, len(solution.theta)))
        if solution.nonconvergence is not None:
            drift = np.abs(to_own @ solution.nonconvergence)
            if (drift > MAX_DRIFT * errors).any():
                remarks.append(NOT_CONVERGED.format(solution.bound))
        if may_bias(solution.clipping_bias, solution.standard_error, len(solution.theta)):
            remarks.append(CUT_OFF)
        # bias if events are recorded half a unit too late
        shifts = 0.5 * within * np.abs(slopes)
        if (shifts > MAX_UNIT_BIAS * errors).any():
            remarks.append(TIES)
        spread = VarianceNoise(None, 0.0, *solution.meat, request.n, to_own)
        known = Covariance(covariance, 0, np.zeros(len(slopes)), tuple(remarks), spread)
        method = f"{solution.steps} noisy Newton steps on clipped scores of persons"
        fit = self._fit(slopes, known, method, request.remarks)
        fit._baseline = Baseline(
            self._cuts[1:], self._columns.levels, params[:K],
            np.array([column.centre for column in columns]),
            parts[0] / scales[:, None], parts[1] / scales[:, None],
            request.released_covariance(
                Covariance(joint, 0, np.zeros(len(params)), (), spread._replace(units=all_to_own))
            ),
        )  # fmt: skip
        return fit

    def _fit(
        self, slopes: Array, covariance: Covariance, method: str, remarks: tuple[str, ...]
    ) -> Fit:
        request, weights = self.request, self.request.record_weights
        strata = "" if self._columns.strata is None else f" in {self.n_strata} strata"
        model = (
            f"proportional hazards with {self.intervals} intervals until {self._cuts[-1]:g}{strata}"
            + (", from the time of entry" if self._columns.entry is not None else "")
            + ("" if weights is None else weights.description)
            + PERSON_MEANS_NOTE * (request.means and request.max_rows is None)
            + ", target: log hazard ratios"
        )
        return request.fit_of_slopes(slopes, covariance, model, method, remarks)
