"""``cox``: proportional hazards, one record for each person."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive
from dpfast.curator.answers import Answer, JointAnswer
from dpfast.curator.effects import planned_rows
from dpfast.curator.hazards import AtRisk, score_of_rows
from dpfast.data.columns import number_columns
from dpfast.data.formula import terms_of
from dpfast.data.schema import Schema
from dpfast.data.source import records
from dpfast.effects.second_moments import PER_OCTAVE, second_moments
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.fit_requests.rows import NewRows
from dpfast.inference.degrees import Covariance
from dpfast.inference.results import Fit
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.scaling.budget import refuse_too_few_records
from dpfast.scaling.private import plan_scaling, refuse_no_columns
from dpfast.scaling.remarks import OTHERWISE, complete_remarks
from dpfast.solvers.pcn.clipping import choose_clipping_norm, noise_per_bound
from dpfast.solvers.pcn.fixed import N_AVERAGED, fixed_hessian_steps
from dpfast.solvers.pcn.histogram import bin_edges, released_norms

Array = NDArray[np.float64]

#: Shares of mu^2 left by the column scales: of times at risk, of events at the cuts (where no unit
#: is declared), of two Gram matrices of events with the norms that the first whitens, and of the
#: norms of scores.  The Newton steps have the rest.
SHARES = {
    "risk": 0.02, "ties": 0.005, "gram": 0.06, "lengths": 0.01, "second": 0.14, "scores": 0.03,
}  # fmt: skip

#: Shares of the Newton steps; the last two are averaged.
STEPS = (0.1, 0.15, 0.25, 0.5)

#: Longest step in a coefficient of a standardised column, or in the logarithm of a hazard.  Beyond
#: it the curvature of the likelihood may differ too much from the one released.
LONGEST_STEP = 1.0

#: Intervals at most; with more, some would hold too few events.
MAX_INTERVALS = 50

#: Copies of the records in memory at the same time, at most.
COPIES = 8

#: Factor on the clipping norm that the noisy histogram of scores suggests.  Times at risk are
#: exponential, so rare scores are longer than the histogram can show, all with one sign.  The norm
#: grows only while the variance of the noise is below the second part of the sampling variance.
BEYOND, SPARE = 2.0, 0.2

#: Bias by clipping, in standard errors, above which the result warns.
MAX_CLIPPING_BIAS = 2.0

#: The result warns of whole units if the share of events at cuts is so many standard deviations of
#: its noise above zero, and half a unit moves a ratio by more than this part of a standard error.
DETECTED, MAX_UNIT_BIAS = 4.5, 0.25

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

NO_EVENT = (
    "records whose event is neither 0 nor 1 are among those that were ignored."
    + OTHERWISE.format("event", "")
)


@understood
def cox(
    formula: str,
    table: Any,
    *,
    event: str,
    cuts: Any,
    unit: float | None = None,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Fit Cox's proportional hazards: log hazard ratios for the time until an event.

    The baseline hazard is constant within declared intervals; with about a dozen of them this is
    Cox's regression (Friedman 1982).  Baseline and ratios are estimated together, so the intervals
    of the ratios allow for errors of the baseline.  Times in whole weeks, used as if exact, pull
    ratios towards 0, as Breslow's treatment of ties does: declare their unit.

    Parameters
    ----------
    formula : str
        ``"weeks ~ drug + age + C(stage, levels=[1, 2, 3])"``: how long a person was followed, from
        0 on, and terms as for :func:`dpfast.fit`.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        One row for each person.  An incomplete row contributes zero and counts in n.
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
    schema : Schema, optional
        Ranges, to which columns are clipped, and levels.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total**, column scales and intervals included.

    Returns
    -------
    Fit
        The log hazard ratios, in the columns' own units.  Standard errors assume that the model is
        true, as is usual for this regression.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public.  A person's score is a
    function of their own record and of released numbers (claim T7).  Column scales are claims D1 to
    D6.

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
    analysis = _Hazards(formula, table, schema, event, cuts, unit, account, noise)
    request = analysis.request
    label = request.label("cox", f"intervals={analysis.intervals}")
    return run(analysis, label, request.memory_bytes(COPIES, include_arrays=True))


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


class _PersonScores(NamedTuple):
    """Mean scores of persons at risk, whitened by a released matrix."""

    persons: AtRisk
    matrix: Array

    @property
    def n(self) -> int:
        return self.persons.n

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Release the mean score, clipped for each person: costs ``mu`` (claim T7)."""
        rows = self.persons.scores(theta).mapped(self.matrix)
        return rows.clipped(score_of_rows(rows), bound, mu, mu_meat)


class _Estimate(NamedTuple):
    """Log hazards and log hazard ratios of standardised columns, and their errors.

    ``params`` and ``matrix`` are of intervals and covariates; ``cut`` is the mean length that
    clipping removes.  ``hidden`` directions are too noisy; ``within`` is the share with an event in
    one unit of time.
    """

    params: Array
    matrix: Array
    noise: float
    cut: float
    hidden: int
    within: float


class _Hazards(Analysis[Fit]):
    """Proportional hazards: public decisions before the charge, and the steps after it."""

    def __init__(
        self,
        formula: Any,
        table: Any,
        schema: Any,
        event: Any,
        cuts: Any,
        unit: Any,
        account: Account,
        noise: NoiseSource | None,
    ) -> None:
        if type(formula) is not str or type(event) is not str:
            wrong = formula if type(formula) is not str else event
            raise InvalidInput(
                "formula must be text, 'weeks ~ drug + age', and event the name of the column that "
                f"is 1 where the event came; received {described(wrong)}."
            )
        self._cuts, total = checked_cuts(cuts), account.total
        self.intervals = len(self._cuts) - 1
        self._unit = checked_unit(unit, self._cuts)
        coding, response, _ = terms_of(formula, schema, table)
        if not coding.fit_intercept:
            raise InvalidInput("hazards of intervals include the intercept: leave '- 1' out.")
        if event in coding.columns or event in response.columns:
            raise InvalidInput(
                f"event = {described(event, text=True)} is a column of the formula, too: the "
                "outcome cannot be a regressor. Leave it out there."
            )
        design, times = coding.design(table), response.covariates(table)[:, 0]
        self._event = events = number_columns(table, [event])[:, 0]
        if len(events) != len(times):
            raise InvalidInput(
                f"columns must be of one length; received {sorted({len(events), len(times)})}."
            )
        with np.errstate(all="ignore"):
            times = np.where((events == 0.0) | (events == 1.0), times, np.nan)
        source = records(design.X, times, names=tuple(design.names))
        self.request = request = FitRequest(source, None, account, fit_intercept=True, noise=noise)
        refuse_no_columns(request)
        n, q, mu = request.n, request.n_covariates, total.mu * (1.0 - ROUNDING_SUM)
        p = q + self.intervals
        self._scaling, rest = plan_scaling(request, mu, response=False)
        estimates = f" for {q} covariates and {self.intervals} intervals: ratios"
        refuse_too_few_records(n, p, mu, estimates, "of either")
        shares = {name: part for name, part in SHARES.items() if unit is None or name != "ties"}
        self._mu = {name: rest * math.sqrt(part) for name, part in shares.items()}
        steps = rest * math.sqrt(1.0 - sum(shares.values()))
        self._steps = [steps * math.sqrt(part) for part in STEPS]
        grams, histograms = [self._mu[k] for k in ("gram", "second")], ("lengths", "scores")
        mu_counts = min(self._mu["risk"], self._mu.get("ties", math.inf))
        planned_rows(n, p, request.noise).refuse(
            grams, (), [self._mu[k] for k in histograms], (mu_counts, *self._steps),
            cells=len(bin_edges(PER_OCTAVE)),
        )  # fmt: skip

    def query(self, report: Progress | None) -> _Estimate:
        """Release column scales, times at risk and events, then take Newton steps."""
        self._scaling.in_place()
        request, K, mu = self.request, self.intervals, self._mu
        persons = AtRisk(
            request.records, self._event, self._cuts, request.ledger, request.noise,
            request.threads, self._unit,
        )  # fmt: skip
        n, p = request.n, K + request.n_covariates
        risk = persons.exposures(mu["risk"])
        within = self._of_a_unit(persons, risk)
        # the mean outer product of events' rows is the Hessian of the likelihood at the truth
        information = second_moments(persons.events(), mu)
        matrix = information.whiten
        event_shares = (information.factor[:, :K] ** 2).sum(axis=0)
        params = np.zeros(p)
        params[:K] = np.log(
            np.maximum(event_shares, 1.0 / n) / np.maximum(risk.value, risk.noise_scale)
        )
        rows = persons.scores(params).mapped(matrix)
        norms = released_norms(rows, mu["scores"], score_of_rows(rows), "score", PER_OCTAVE)
        noise = noise_per_bound(n, self._steps[-N_AVERAGED:])
        smallest, _ = choose_clipping_norm(norms, noise, p, asymmetry=1.0)
        largest = math.sqrt(SPARE / n) / noise
        bound = max(smallest, min(BEYOND * smallest, largest))
        cut = float(norms.tail(np.array([bound]))[0])
        problem = _PersonScores(persons, matrix)
        params, noise = fixed_hessian_steps(
            problem, params, matrix, bound, self._steps, LONGEST_STEP
        )
        return _Estimate(params, matrix, noise, cut, information.hidden, within)

    def _of_a_unit(self, persons: AtRisk, risk: Answer) -> float:
        """Estimate the share with an event in one unit, of persons at risk; 0 without ties."""
        if self._unit is not None:
            return 0.0
        answer = persons.ties(self._mu["ties"])
        share, noise = float(answer.value[0]), answer.noise_scale
        if not share > DETECTED * noise:
            return 0.0
        reached = np.append(risk.value, 0.0)
        at_cuts = float(np.sum(0.5 * (reached[:-1] + reached[1:])))
        return share / max(at_cuts, share)

    def report(self, answers: _Estimate) -> Fit:
        """Report the ratios in original units, without the baseline hazards."""
        request, K = self.request, self.intervals
        params, matrix, noise, cut, hidden, within = answers
        assert request.coding is not None
        scales = np.array([request.coding.columns[k].spread for k in request.column_names])
        to_own = matrix[K:] / scales[:, None]
        covariance = (1.0 / request.n + noise**2) * to_own @ to_own.T
        remarks = []
        if hidden:
            remarks.append(HIDDEN.format(hidden, len(matrix)))
        if complete_remarks(self._scaling._counted(), request.n, ()):
            remarks.append(NO_EVENT)
        if cut > MAX_CLIPPING_BIAS * math.sqrt(1.0 / request.n + noise**2):
            remarks.append(CUT_OFF)
        slopes = params[K:] / scales
        # bias if events are recorded half a unit too late
        shifts = 0.5 * within * np.abs(slopes)
        if (shifts > MAX_UNIT_BIAS * np.sqrt(covariance.diagonal())).any():
            remarks.append(TIES)
        known = Covariance(covariance, 0, np.zeros(len(slopes)), tuple(remarks))
        return Fit(
            params=slopes,
            names=request.column_names,
            n_records=request.n,
            model=f"proportional hazards with {K} intervals until {self._cuts[-1]:g}, target: log "
            "hazard ratios",
            method=f"{len(STEPS)} Newton steps on clipped scores of persons",
            privacy=request.guarantee(),
            covariance=request.released_covariance(known, request.column_names),
            iterates=np.array([np.zeros(len(slopes)), slopes]),
            fit_intercept=False,
            rows=NewRows(),
            remarks=request.remarks,
        )
