"""``cox``: proportional hazards, of one record a person."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive
from dpfast.curator.answers import Answer
from dpfast.curator.effects import planned_rows
from dpfast.curator.instruments.risk import AtRisk
from dpfast.data.columns import number_columns
from dpfast.data.formula import codings_of_table
from dpfast.data.source import records
from dpfast.effects.instrumental import PER_OCTAVE, inverse_root, whitening_and_gram
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.fit_requests.rows import NewRows
from dpfast.inference.degrees import Covariance
from dpfast.inference.results import Fit
from dpfast.optimize.road.histogram import NormHistogram, bin_edges, choose_clipping_norm
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.incomplete import OTHERWISE
from dpfast.regression.shared import plan_scaling, refuse_too_few_records
from dpfast.regression.standardise import complete_remarks, refuse_no_columns

Array = NDArray[np.float64]

#: Shares of mu^2, of what units leave: of times at risk, of events at the cuts themselves (where no
#: unit is declared), of two Grams of events with the lengths that the first whitens, and of the
#: lengths of scores.  The steps have the rest.
SHARES = {
    "risk": 0.02, "ties": 0.005, "gram": 0.06, "lengths": 0.01, "second": 0.14, "scores": 0.03,
}  # fmt: skip

#: Of the steps, of which the last two are averaged.
STEPS = (0.1, 0.15, 0.25, 0.5)

#: In a coefficient of released units, or in the logarithm of a hazard: from further away curvatures
#: would be others.
LONGEST_STEP = 1.0

#: Intervals at most.
MOST_INTERVALS = 50

COPIES = 8

#: Times the norm that noise and what is seen of the tail choose: times at risk are exponential, so
#: scores that too few share to be seen are longer still, and all of one sign.  As far as the
#: variance of the noise stays below a part of that of the estimate without.
BEYOND, SPARE = 2.0, 0.2

#: Mean of what is cut off scores, in standard errors, from which on it is told.
CUT = 2.0

#: Standard deviations of its noise by which the share of events at cuts is above zero, and part of
#: a standard error by which half a unit then moves a ratio, from which on it is told.
CLEAR, MOVES = 4.5, 0.25

TIES = (
    "events lie at the cuts themselves: times seem to be recorded in whole units, and ratios lean "
    "towards 0. Say so, cox(..., unit=1.0) for whole weeks rounded up; of times rounded down add a "
    "unit, 'I(weeks + 1) ~ ...'; of times to the nearest unit move the cuts by half of one."
)

HIDDEN = (
    "{} of {} directions of intervals and covariates are hidden by the privacy noise: intervals "
    "with hardly an event, or covariates that hardly vary among persons with one. Use fewer cuts, "
    "leave such covariates out, or use a larger budget."
)

CUT_OFF = (
    "what is cut off the longest scores may move the ratios by more than a standard error. Use "
    "logarithms of covariates that span orders of magnitude, or a larger budget."
)

NO_EVENT = (
    "records whose event is neither 0 nor 1 are among those that counted for nothing."
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
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Proportional hazards: log hazard ratios of persons who are followed until an event.

    The hazard at covariates of zero is a constant within each of some declared intervals, which
    with a dozen of them is Cox's regression (Friedman 1982).  These constants and the ratios are
    found together, so that what is not known of the former is in the intervals of the latter.
    Whole weeks as if they were exact pull ratios towards 0, as do ties in the manner of Breslow:
    declare their unit.

    Parameters
    ----------
    formula : str
        ``"weeks ~ drug + age + C(stage, levels=[1, 2, 3])"``: how long a person was followed, from
        0 on, and terms as in :func:`dpfast.fit` without a schema.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        One row for each person.  One that is incomplete contributes zero and counts in n.
    event : str
        The column that is 1 where the event came at that time, and 0 where the person was followed
        no longer.
    cuts : sequence of float
        Public, increasing, and above 0: where intervals end, the study with the last one.  Who is
        followed for longer is so until then.
    unit : float, optional
        Public: times are whole units of it, rounded up, so that an event came within the unit that
        ends at its time; its likelihood is that of an event between the two.  Without an event a
        person was followed until the end of the unit.  Of times rounded down, add a unit.
    privacy, ledger, noise
        As of :func:`dpfast.fit`: the **total**, units and intervals included.

    Returns
    -------
    Fit
        Of the log hazard ratios, in the columns' own units.  Standard errors take the model for
        true, as is usual of this regression.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T7: a person's score is a
    function of their own record and of what was released); units are claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> drug, ends = rng.integers(0, 2, 10_000), rng.uniform(0.0, 3.0, 10_000)
    >>> weeks = rng.exponential(np.exp(0.7 * drug))
    >>> table = {"weeks": np.minimum(weeks, ends), "died": 1.0 * (weeks <= ends), "drug": drug}
    >>> what = {"event": "died", "cuts": [0.5, 1.0, 2.0, 3.0], "privacy": 1.0}
    >>> found = dpfast.effects.cox("weeks ~ drug", table, **what)
    >>> found.names, bool(abs(found.params["drug"] + 0.7) < 0.2)
    (('drug',), True)
    """
    account = Account(privacy, ledger)
    plan = _Plan(formula, table, event, cuts, unit, account, noise)
    with KeepReleased(privacy=plan.request.guarantee):
        label = plan.request.label("cox", f"intervals={plan.intervals}")
        account.charge(label, plan.request.memory_bytes(COPIES, include_arrays=True))
        return plan.run()


def checked_cuts(cuts: Any) -> Array:
    """Where intervals begin and end, with zero."""
    flat = isinstance(cuts, np.ndarray) and type(cuts) is np.ndarray and cuts.ndim == 1
    given = list(cuts) if flat or isinstance(cuts, list | tuple) else []
    if not 0 < len(given) <= MOST_INTERVALS:
        raise InvalidInput(
            f"cuts must be 1 to {MOST_INTERVALS} increasing numbers above 0, at which intervals "
            f"end; received {described(cuts)}."
        )
    found = np.array([0.0, *[positive(one, f"cuts[{i}]") for i, one in enumerate(given)]])
    with np.errstate(all="ignore"):
        if not np.all(np.diff(found) > 1e-9 * found[1:]):
            raise InvalidInput(f"cuts must increase; received {described(cuts)}.")
    return found


def checked_unit(unit: Any, cuts: Array) -> float | None:
    """The unit of times, no longer than what they are cut into altogether."""
    if unit is None:
        return None
    found = positive(unit, "unit")
    if found > cuts[-1]:
        raise InvalidInput(
            "unit must be at most the last of cuts: times are whole units of it; received a larger "
            "number."
        )
    return found


class _Plan:
    """Everything that is decided before the charge, and the run after it."""

    def __init__(
        self,
        formula: Any,
        table: Any,
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
        coding, response = codings_of_table(formula, table)
        if not coding.fit_intercept:
            raise InvalidInput("hazards of intervals hold the intercept: leave '- 1' out.")
        if event in coding.columns or event in response.columns:
            raise InvalidInput(
                f"event = {described(event, text=True)} is a column of the formula, too: that is "
                "what the regression explains, and cannot explain it. Leave it out there."
            )
        design, times = coding.design(table), response.covariates(table)[:, 0]
        self._event = came = number_columns(table, [event])[:, 0]
        if len(came) != len(times):
            raise InvalidInput(
                f"columns must be of one length; received {sorted({len(came), len(times)})}."
            )
        with np.errstate(all="ignore"):
            times = np.where((came == 0.0) | (came == 1.0), times, np.nan)
        source = records(design.X, times, names=tuple(design.names))
        self.request = request = FitRequest(source, None, account, fit_intercept=True, noise=noise)
        refuse_no_columns(request)
        n, q, mu = request.n, request.n_covariates, total.mu * (1.0 - ROUNDING_SUM)
        p = q + self.intervals
        self._purchase, rest = plan_scaling(request, mu, response=False)
        estimates = f" for {q} covariates and {self.intervals} intervals: ratios"
        refuse_too_few_records(n, p, mu, estimates, "of either")
        shares = {name: part for name, part in SHARES.items() if unit is None or name != "ties"}
        self._mu = {name: rest * math.sqrt(part) for name, part in shares.items()}
        steps = rest * math.sqrt(1.0 - sum(shares.values()))
        self._steps = [steps * math.sqrt(part) for part in STEPS]
        grams, lengths = [self._mu[k] for k in ("gram", "second")], ("lengths", "scores")
        few = min(self._mu["risk"], self._mu.get("ties", math.inf))
        planned_rows(n, p, request.noise).refuse(
            grams, (), [self._mu[k] for k in lengths], (few, *self._steps),
            cells=len(bin_edges(PER_OCTAVE)),
        )  # fmt: skip

    def run(self) -> Fit:
        """Buy units, times at risk and events, and step from what these say."""
        self._purchase.in_place()
        request, K, mu = self.request, self.intervals, self._mu
        stages = AtRisk(
            request.records, self._event, self._cuts, request.ledger, request.noise,
            request.threads, self._unit,
        )  # fmt: skip
        n, p = stages.n, stages.dimension
        risk = stages.exposures(mu["risk"])
        self._within = self._of_a_unit(stages, risk)
        # of events: what the curvature of the likelihood is at the truth
        first = whitening_and_gram(stages, mu)
        gram, self._hidden = first.gram, first.hidden
        came = gram.diagonal()[:K]
        params = np.zeros(p)
        params[:K] = np.log(np.maximum(came, 1.0 / n) / np.maximum(risk.value, risk.noise_scale))
        matrix = inverse_root(gram, 1e-12)
        edges = bin_edges(PER_OCTAVE)
        asked = stages.score_norm_histogram(matrix, params, edges[:-1], mu["scores"])
        lengths = NormHistogram.from_noisy_shares(asked.value, asked.noise_scale, PER_OCTAVE)
        effective = math.hypot(*self._steps[-2:])
        least, _ = choose_clipping_norm(lengths, 2.0 / (n * effective), p, leaves=1.0)
        spare = math.sqrt(SPARE * n) * effective / 2.0
        bound = max(least, min(BEYOND * least, spare))
        cut = float(lengths.tail(np.array([bound]))[0])
        points, noises = [], []
        for part in self._steps:
            score = stages.scores(matrix, params, bound, part).gradient
            step = matrix @ score.value
            params = params + step * min(1.0, LONGEST_STEP / float(np.abs(step).max()))
            points.append(params)
            noises.append(score.noise_scale)
        precise = np.array(noises[-2:]) ** -2.0
        params = precise @ np.array(points[-2:]) / precise.sum()
        return self._natural(params, matrix, float(precise.sum()) ** -0.5, cut)

    def _of_a_unit(self, stages: AtRisk, risk: Answer) -> float:
        """Part of those at risk that has an event in one unit, if events at cuts tell of units."""
        if self._unit is not None:
            return 0.0
        asked = stages.ties(self._mu["ties"])
        share, noise = float(asked.value[0]), asked.noise_scale
        if not share > CLEAR * noise:
            return 0.0
        reached = np.append(risk.value, 0.0)
        at_cuts = float(np.sum(0.5 * (reached[:-1] + reached[1:])))
        return share / max(at_cuts, share)

    def _natural(self, params: Array, matrix: Array, noise: float, cut: float) -> Fit:
        """The ratios in the columns' own units: those of intervals are used and left out."""
        request, K = self.request, self.intervals
        assert request.coding is not None
        scales = np.array([request.coding.columns[k].spread for k in request.column_names])
        own = matrix[K:] / scales[:, None]
        covariance = (1.0 / request.n + noise**2) * own @ own.T
        told = []
        if self._hidden:
            told.append(HIDDEN.format(self._hidden, len(matrix)))
        if complete_remarks(self._purchase._counted(), request.n, ()):
            told.append(NO_EVENT)
        if cut > CUT * math.sqrt(1.0 / request.n + noise**2):
            told.append(CUT_OFF)
        slopes = params[K:] / scales
        # of events half a unit too late
        leans = 0.5 * self._within * np.abs(slopes)
        if (leans > MOVES * np.sqrt(covariance.diagonal())).any():
            told.append(TIES)
        known = Covariance(covariance, 0, np.zeros(len(slopes)), tuple(told))
        return Fit(
            params=slopes,
            names=request.column_names,
            n_records=request.n,
            model=f"proportional hazards with {K} intervals until {self._cuts[-1]:g}, target: log "
            "hazard ratios",
            method=f"{len(STEPS)} Newton steps on held scores of persons",
            privacy=request.guarantee(),
            covariance=request.released_covariance(known, request.column_names),
            iterates=np.array([np.zeros(len(slopes)), slopes]),
            fit_intercept=False,
            rows=NewRows(),
            remarks=request.remarks,
        )
