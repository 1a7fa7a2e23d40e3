"""Average treatment effect by cross-fitted, doubly robust estimation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, number_in, one_of, positive
from dpfast.curator.answers import Answer
from dpfast.curator.effects import (
    FOLDS,
    Aim,
    PseudoOutcomes,
    Trial,
    refuse_pooled,
    without_other_treatments,
)
from dpfast.data.schema import Schema
from dpfast.data.source import source_of
from dpfast.effects.nuisances import (
    RESIDUAL_VARIANCE,
    Budgets,
    Fold,
    Weighed,
    budgets,
    fold_nuisance,
    level,
    refuse,
)
from dpfast.effects.results import TreatmentEffect
from dpfast.effects.treatment_inputs import METHODS, Inputs, aim_of, description, read_inputs
from dpfast.errors import InvalidBudget, InvalidInput, understood
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account
from dpfast.inference.degrees import UNCOUNTED
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import part_sizes
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import subsample_size
from dpfast.scaling.budget import MIN_RECORDS_FACTOR, records_needed
from dpfast.scaling.private import PrivateScaling, plan_scaling, refuse_no_columns
from dpfast.scaling.remarks import ENDED, MAX_MISSING, OTHERWISE, zero_or_one
from dpfast.scaling.standardize import CODED, checked_standardize
from dpfast.scaling.standardized import GivenScaling, Standardized
from dpfast.solvers.pcn.clipping import (
    ASYMMETRY,
    may_bias,
    noise_per_bound,
)
from dpfast.solvers.pcn.histogram import NormHistogram, bin_edges
from dpfast.solvers.pcn.precondition import DETECTED_SDS

#: Populations over which effects are averaged.
ESTIMANDS = ("all", "treated")

#: The interval is called unreliable if the errors of both models make up more than the first part
#: of its variance, or if the noise of the mean weight is more than the second part of that weight.
MAX_NUISANCE_SHARE, MAX_WEIGHT_ERROR = 0.5, 0.15

#: Prior standard deviation of an effect, in those of the outcome, before anything is released.
PRIOR_SD = 0.5

#: Edges of the histogram of propensities; the bounds on propensities are added to them.
EDGES = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98)

#: Bins for each factor of 2 in the histogram of deviations.
PER_OCTAVE = 1

#: Bias of clipping, relative to the mean length clipped off beyond that of normal deviations: that
#: of house prices.  The arm with fewer records has longer deviations, so tails of outcomes on one
#: side do not cancel.
ONE_SIDED = 0.75

#: A declared bound clips too many deviations if their mean square exceeds that of the bound divided
#: by this: about the bound of four standard deviations that the documentation asks for, with room.
MIN_CLIP_SDS = 2.5

#: Share of the records outside the bounds on propensities above which the result warns, and the
#: standard deviations of noise by which a share must exceed its threshold.
MAX_OUTSIDE, DETECTED = 0.02, 3.0

#: A declared bound is clipped to within this factor of the outcome's unit, so that a paid run is
#: never refused for the released unit.
MAX_CLIP = 1e30

#: Copies of the covariates in memory at the same time, at most: as given, scaled, in folds, and one
#: row of each person.
COPIES = 4

NUISANCES_UNKNOWN = (
    "the propensity and outcome models are too imprecise and dominate the interval, which may be "
    "unreliable: too few records, too small a budget, or almost nobody in one arm among some of "
    "the covariates. Use fewer covariates, more records or a larger budget; for a trial, pass its "
    "propensity."
)

#: What records need beside numbers.
AS_TREATMENT = zero_or_one("treatment")

INCOMPLETE = (
    "about {:.0%} of the records have 0 or 1 as treatment, and numbers in all other columns used; "
    "the others were ignored." + OTHERWISE.format("treatment", "")
)

OTHER_SHARE = (
    "about {:.0%} of the records are treated, where the propensities that were passed mean some "
    "{:.0%}: they are not those of this treatment, and the interval need not cover. Pass those of "
    "its design, or none, so that they are estimated."
)

#: Largest noise of a total, as a part of n in :data:`DETECTED` standard deviations, at which a
#: histogram has cells for either arm: with more, records could not be told from none.
MAX_TOTAL_NOISE = 0.5

#: Standard deviations by which a share must differ from what known propensities explain.
WRONG_SDS = 4.0

#: Least share of complete records by which a sum is divided; smaller ones are mostly noise.
LEAST_SHARE = 0.05


@understood
def treatment_effect(
    X: Any,
    treatment: Any,
    y: Any = None,
    *,
    privacy: Budget | float | tuple[float, float],
    method: str = "aipw",
    propensity: Any = None,
    average: str = "all",
    overlap: float = 0.05,
    clip: float | None = None,
    schema: Schema | None = None,
    standardize: bool | Standardized | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> TreatmentEffect:
    """Estimate the average effect of a binary treatment on an outcome, with a confidence interval.

    The estimate is the mean of doubly robust pseudo-outcomes (Robins, Rotnitzky and Zhao 1994).
    Propensity and outcome models are fitted on one random half of the records and used on the other
    (cross-fitting, Chernozhukov et al. 2018).  Deviations of pseudo-outcomes are clipped, and their
    mean is one query about all records.  The effect is causal if no other variable than X affects
    both treatment and outcome.

    Parameters
    ----------
    X : str, array-like of shape (n, q), data frame, Design or Source
        Covariates known before the treatment, without a column of ones, in memory.  Or a formula,
        ``"log(wage) ~ educ + I(age**2)"``, of a table in the place of y; treatment and propensity
        may then be names of its columns.  Or a design (``schema.encode(table, response=...)``),
        which holds its outcome, with ``y=None``.  :func:`dpfast.records` adds sampling weights, and
        persons by ``each="person"``.  A person then counts with the mean of their rows'
        pseudo-outcomes, and treatment has an entry for each row.
    treatment : array-like of shape (n,) or str
        0 or 1.  A record with another value contributes zero and counts in n; so does one whose X
        or y is not finite.
    y : array-like of shape (n,), optional
        Outcome, of any kind of number.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The **total** to spend, interval included; a float is mu of Gaussian DP.
    method : {"aipw", "regression", "difference"}
        "aipw" models both treatment and outcome on covariates.  Where treatment was randomised with
        one probability, "regression" models outcomes only, which is more precise where covariates
        predict them.  "difference" compares the means of the arms.
    propensity : float or array-like of shape (n,), optional
        Known probability of treatment, as in a trial.  Nothing is spent on it, and the interval is
        valid for any dependence of outcomes.  A float is public, and the same for all; then "aipw"
        models outcomes where n and the budget are large enough, and compares means elsewhere.
        Entries of an array are private.
    average : {"all", "treated"}
        The population: all records (ATE) or the treated ones (ATT).
    overlap : float in (0, 0.5)
        Public bound: propensities that differ between records are clipped to
        ``[overlap, 1 - overlap]``.
    clip : float, optional
        Public bound on deviations of pseudo-outcomes from the effect, in the units of y: about four
        of their standard deviations, ``4 sd sqrt(1/e + 1/(1 - e))``.  Smaller is more precise and
        biased.  By default it is estimated with part of the budget.
    schema : Schema, optional
        Of a formula: ranges, to which columns are clipped, and levels.  It also encodes the
        treatment, if that is the name of a column that it declares binary.
    standardize : bool or Standardized, optional
        Estimate centres and scales of covariates and outcome within ``privacy``; by default unless
        a schema coded them.  Pass earlier ones in place of True: they cost nothing. With False,
        columns and outcome are assumed to be about 0 and of unit size.
    ledger, noise
        As for :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims C78 and C79 of
    ``dpfast/privacy/PROOFS.md``).  The models of the two folds cost as much as those of one
    (C55).  All other queries are about all records, and both add up.  Scales are claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> T = rng.random(5000) < 1 / (1 + np.exp(-0.5 * X[:, 0]))
    >>> y = X @ [1.0, -0.5] + 2.0 * T + rng.normal(size=5000)
    >>> effect = dpfast.effects.treatment_effect(X, T, y, privacy=1.0)
    >>> bool(abs(effect.estimate - 2.0) < 0.3)
    True
    >>> table = {"y": y, "drug": 1.0 * T, "age": X[:, 0]}
    >>> effect = dpfast.effects.treatment_effect("y ~ age + I(age**2)", "drug", table, privacy=1.0)
    >>> bool(abs(effect.estimate - 2.0) < 0.5)
    True
    """
    account = Account(privacy, ledger)
    method = one_of(method, tuple(METHODS), "method")
    average = one_of(average, ESTIMANDS, "average")
    overlap = number_in(overlap, "overlap", "(0, 0.5)")
    if clip is not None:
        clip = positive(clip, "clip")
    standardize = checked_standardize(standardize)
    inputs = read_inputs(source_of(X, y), treatment, propensity, schema, account, noise)
    request, mu = inputs.request, account.total.mu
    treated = average == "treated"
    aim = aim_of(method, inputs.propensity, treated, request.n, request.dimension, mu)
    analysis = _Treatment(inputs, mu, aim, overlap, clip, standardize)
    label = request.label("treatment_effect", method)
    return run(analysis, label, request.memory_bytes(COPIES, include_arrays=True))


class _Overlap(NamedTuple):
    """Noisy histogram of propensities.

    ``complete`` is the share of complete records, ``shares`` those below, within and above the
    bounds.  ``known`` is the histogram (midpoints, shares) of propensities that were passed.
    """

    histogram: Answer
    complete: float
    shares: Array
    known: tuple[Array, Array] | None
    #: Why propensities that were passed cannot be right, if they cannot.
    wrong: str


class _MeanWeight(NamedTuple):
    """Mean weight of a record in the effect, and the noise in it."""

    value: float
    noise: float


class _Bound(NamedTuple):
    """Clipping bound on deviations, spread of residuals, and allowance for the bias of clipping.

    ``beyond_normal`` is the part of the allowance that normal residuals do not explain.
    """

    clip: float
    spread: float
    allowance: float
    beyond_normal: float


class _Estimate(NamedTuple):
    """Released numbers of an effect, in the coded outcome's units."""

    located: _Located
    overlap: _Overlap
    weight: _MeanWeight
    weighed: Weighed
    bound: _Bound


class _Treatment(Analysis[TreatmentEffect]):
    """Average effect: public decisions before the charge, and the estimate after it."""

    returns_unused = True

    def __init__(
        self,
        inputs: Inputs,
        mu: float,
        aim: Aim,
        overlap: float,
        clip: float | None,
        standardize: bool | Standardized | None,
    ) -> None:
        self.request = request = inputs.request
        self._treated, known = inputs.treated, inputs.propensity
        self._aim, self._overlap, self._clip = aim, overlap, clip
        self._propensity = known
        self._known = known if isinstance(known, np.ndarray) else None
        self._scaling: PrivateScaling | GivenScaling | None = None
        self._counted = aim.treated or request.means or request.record_weights is not None
        self.level = aim.known is not None and not aim.outcomes
        needed = MIN_RECORDS_FACTOR * (2.0 * (request.dimension if aim.outcomes else 1)) ** 1.5
        self._few = not self.level and request.n * mu < needed
        if standardize and request.coding is not None:
            raise InvalidInput(CODED)
        if isinstance(standardize, Standardized):
            self._scaling = GivenScaling(request, standardize)
        elif request.coding is None if standardize is None else standardize:
            refuse_no_columns(request)
            if not (aim.propensity or aim.outcomes):
                request.drop_covariates()
            if request.single is request.records:
                request.records = without_other_treatments(request.records, inputs.treated)
                request.single = request.records
            request.draw_subsample(subsample_size(request.n, request.dimension, mu))
            least = records_needed(request.dimension if aim.outcomes else 1, mu)
            self._scaling, mu = plan_scaling(request, mu, least=least, also=AS_TREATMENT)
        mu *= 1.0 - ROUNDING_SUM
        self._budget = budgets(mu, aim, clip is None, known is not None, self._counted)
        needed = MIN_RECORDS_FACTOR * request.dimension**1.5
        if aim.outcomes and request.n * mu < needed:
            raise InvalidBudget(
                f"n mu = {request.n * mu:.3g} is below 20 p^1.5 = {needed:.3g} for p = "
                f"{request.dimension} coefficients: the model of outcomes would be noise. Use "
                "fewer covariates, more records or a larger budget; of a trial, pass its "
                'propensity, or method="difference".'
            )
        self._plan()

    def _plan(self) -> None:
        """Plan every release, and refuse what would be refused after the charge."""
        request, aim, budget = self.request, self._aim, self._budget
        for size in part_sizes(request.n, FOLDS):
            refuse(size, aim, request.n_covariates, budget)
        pooled = budget.overlap, budget.lengths, budget.counted
        cells = len(bin_edges(PER_OCTAVE))
        refuse_pooled(request.n, pooled, budget.steps, cells)

    def _trial(self, folds: NDArray[np.intp]) -> Trial:
        request = self.request
        settings = request.noise, request.threads, self._aim, self._known
        return Trial.of(request.records, self._treated, folds, *settings)

    @property
    def units(self) -> Standardized | None:
        """Return the released scales of covariates and outcome, if any."""
        return None if self._scaling is None else self._scaling.released

    def too_few(self) -> str:
        """Ask the counts of complete records."""
        return self._scaling.too_few() if isinstance(self._scaling, PrivateScaling) else ""

    def nothing(self, remark: str) -> TreatmentEffect:
        """Report that no effect was estimated."""
        return TreatmentEffect(
            estimate=math.nan, bse=math.nan, degrees_of_freedom=math.nan, clip=math.nan,
            noise=math.nan, overlap=(math.nan,) * 3, warnings=(remark,), method=ENDED,
            n_records=self.request.n, privacy=self.request.guarantee(),
        )  # fmt: skip

    def query(self, report: Progress | None) -> _Estimate:
        """Release column scales and nuisances, then estimate the effect in two Newton steps."""
        if self._scaling is not None:
            self._scaling.in_place()
        budget, aim = self._budget, self._aim
        if self.level:  # both folds have the same model, so the dealing does not matter
            trial = self._trial(np.arange(self.request.n) % FOLDS)
            folds = [level(0.0, PRIOR_SD, aim)] * FOLDS
        else:
            trial, folds = self._nuisances()
        arms = np.mean([fold.nuisance.arms for fold in folds], axis=0)
        centre = float(arms[1, 0] - arms[0, 0])
        pseudo = self._pseudo_outcomes(trial, folds)
        overlap = self._release_overlap(pseudo)
        weight = self._mean_weight(pseudo, overlap.complete, trial.n)
        weighed = Weighed(folds, self._overlap, aim, overlap.known)
        bound = self._bound(pseudo, weighed, centre, self._unit)
        first, _ = pseudo.location(centre, bound.clip, budget.steps[0])
        centre += float(first.value[0]) / weight.value
        if self.level:
            folds = [level(centre, first.noise_scale / weight.value, aim)] * FOLDS
            pseudo = self._pseudo_outcomes(trial, folds)
            weighed = Weighed(folds, self._overlap, aim, overlap.known)
        product = weighed.product(np.array([bound.clip]), bound.spread)
        nuisances = float(product[0]) + bound.allowance**2
        located = _located(pseudo, centre, bound.clip, nuisances, budget, weight.value, trial.n)
        return _Estimate(located, overlap, weight, weighed, bound)

    def report(self, answers: _Estimate) -> TreatmentEffect:
        """Report the effect in the outcome's own units, with warnings."""
        located, overlap, weight, weighed, bound = answers
        request, unit = self.request, self._unit
        nobody = request.few_complete or no_shares(overlap.histogram)
        remarks = self._warnings(overlap, weight, weighed, bound.beyond_normal, located)
        return TreatmentEffect(
            estimate=located.estimate * unit,
            bse=math.nan if nobody else located.error * unit,
            degrees_of_freedom=located.degrees,
            clip=bound.clip * unit,
            noise=located.noise * unit,
            overlap=tuple(np.clip(overlap.shares, 0.0, 1.0).tolist()),
            warnings=(*request.remarks, *remarks, *self._weight_warnings(weight)),
            method=description(self._aim, self._propensity, self._overlap, self.level),
            n_records=request.n,
            privacy=request.guarantee(),
        )

    @property
    def _unit(self) -> float:
        """Unit of the coded outcome."""
        coding = self.request.coding
        return 1.0 if coding is None else coding.response_units()[1]

    def _pseudo_outcomes(self, trial: Trial, folds: list[Fold]) -> PseudoOutcomes:
        nuisances = [fold.nuisance for fold in folds]
        return trial.pseudo_outcomes(nuisances, self._overlap, self.request.ledger)

    def _release_overlap(self, pseudo: PseudoOutcomes) -> _Overlap:
        """Release the histogram of propensities, and the shares outside of their bounds."""
        mu, wrong, known = self._budget.overlap, "", None
        if self._aim.known is not None:  # one propensity: two cells, of the treated and of others
            answer = pseudo.overlap(np.empty(0), mu, by_arm=True)
            ends = np.full(1, self._aim.known)
            wrong = wrong_propensities(answer, ends, ends, pseudo.n)
            shares = np.array([0.0, float(answer.value.sum()), 0.0])
            return _Overlap(answer, _complete(answer), shares, None, wrong)
        edges = np.unique([*EDGES, self._overlap, 1.0 - self._overlap])
        cells = 2 * (len(edges) + 1)
        clear = math.sqrt(2.0 * cells) * DETECTED < MAX_TOTAL_NOISE * pseudo.n * mu
        by_arm = self._known is not None and clear
        answer = pseudo.overlap(edges, mu, by_arm)
        lows, highs = np.append(0.0, edges), np.append(edges, 1.0)
        if by_arm:
            wrong = wrong_propensities(answer, lows, highs, pseudo.n)
            both = answer.value.reshape(2, -1).sum(axis=0)
            answer = answer._replace(value=both, noise_scale=math.sqrt(2.0) * answer.noise_scale)
        if self._known is not None:
            known = 0.5 * (lows + highs), answer.value
        inside = np.flatnonzero((edges == self._overlap) | (edges == 1.0 - self._overlap)) + 1
        shares = np.array([float(part.sum()) for part in np.split(answer.value, inside)])
        return _Overlap(answer, _complete(answer), shares, known, wrong)

    def _mean_weight(self, pseudo: PseudoOutcomes, complete: float, n: int) -> _MeanWeight:
        """Return the mean weight of a record: released where weights differ, else public."""
        if not self._counted:
            return _MeanWeight(complete, 0.0)
        share = pseudo.share(self._budget.counted)
        value = max(float(share.value[0]) + 0.5, share.noise_scale, 1.0 / n)
        return _MeanWeight(value, share.noise_scale)

    def _warnings(
        self,
        overlap: _Overlap,
        weight: _MeanWeight,
        weighed: Weighed,
        allowance: float,
        located: _Located,
    ) -> list[str]:
        """Warn of what makes the interval unreliable, from released numbers."""
        bias = allowance / ASYMMETRY / weight.value
        clipping_bias = None if self._clip is not None else bias
        poor = MAX_OUTSIDE + DETECTED * math.sqrt(2.0) * overlap.histogram.noise_scale
        poor += weighed.outside_error(self._overlap)
        remarks = _remarks(located, clipping_bias, overlap.shares, poor, self._overlap, self._aim)
        remarks += [overlap.wrong] * (overlap.wrong != "")
        complete = overlap.complete
        told = any(AS_TREATMENT.has in remark for remark in self.request.remarks)
        if complete < MAX_MISSING and not told:
            remarks.append(INCOMPLETE.format(complete))
        if self.request.few_complete or no_shares(overlap.histogram):
            remarks.append(UNCOUNTED)
        variance = (located.error * weight.value) ** 2
        if self._few or located.nuisances > MAX_NUISANCE_SHARE * variance:
            remarks.append(NUISANCES_UNKNOWN)
        return remarks

    def _weight_warnings(self, weight: _MeanWeight) -> list[str]:
        """Warn if the mean weight, which divides the effect, is mostly noise."""
        if not weight.noise > MAX_WEIGHT_ERROR * weight.value:
            return []
        return [
            f"about {weight.value:.0%} of the records count in the mean (treated, or by weight), "
            f"and the noise of that is {weight.noise:.0%}: the effect is known up to such a "
            "factor. Use more records or a larger budget."
        ]

    def _nuisances(self) -> tuple[Trial, list[Fold]]:
        """Split the records into random folds, after the charge, and fit both folds' models."""
        spend = GDP(self._budget.nuisances)
        self.request.ledger.charge(spend, "random folds")
        trial = self._trial(Trial.folds(self.request.n, self.request.noise))
        ledgers = [Ledger(spend) for _ in range(FOLDS)]
        self.request.ledger.parts.append(Part("random folds", spend, ledgers, disjoint=True))
        return trial, [
            fold_nuisance(trial, fold, self._budget, ledgers[fold]) for fold in range(FOLDS)
        ]

    def _bound(
        self, pseudo: PseudoOutcomes, weighed: Weighed, centre: float, unit: float
    ) -> _Bound:
        """Choose the clipping bound that minimises the noise, bias and model errors expected."""
        if self._clip is not None:
            clip = min(max(self._clip / unit, 1.0 / MAX_CLIP), MAX_CLIP)
            spread = math.sqrt(RESIDUAL_VARIANCE)
            beyond = float(weighed.cut(np.array([clip]), spread)[0])
            return _Bound(clip, spread, ASYMMETRY * beyond, 0.0)
        budget = self._budget
        edges = bin_edges(PER_OCTAVE)
        answer = pseudo.distance_histogram(centre, edges[:-1], budget.lengths)
        lengths = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
        spread = weighed.residuals(lengths)
        noise = noise_per_bound(self.request.n, budget.steps[1:])
        candidates = 2.0 * lengths.longest * np.exp2(-np.arange(-24, 25) / 4.0)
        over = lengths.tail(np.sort(candidates), self.request.n)[::-1]  # also beyond the detected
        expected = weighed.cut(candidates, spread)
        beyond_normal = ONE_SIDED * np.maximum(over - expected, 0.0)
        allowance = ASYMMETRY * expected + beyond_normal
        costs = (noise * candidates) ** 2 + allowance**2
        # errors of the models only add to them: those above one that is complete are not the least
        least = costs.argmin()
        complete = costs[least] + weighed.product(candidates[least : least + 1], spread)
        able = np.flatnonzero(~(costs > complete))  # all where a budget leaves no finite cost
        costs = costs[able] + weighed.product(candidates[able], spread)
        best = able[np.where(np.isnan(costs), math.inf, costs).argmin()]
        chosen = candidates[best], spread, allowance[best], beyond_normal[best]
        return _Bound(*map(float, chosen))


def wrong_propensities(histogram: Answer, lows: Any, highs: Any, n: int) -> str:
    """Say so if the share of the treated is none that propensities between these ends explain."""
    control, treated = histogram.value.reshape(2, -1)
    all_records, share = control + treated, float(treated.sum())
    low, high = (float(np.sum(ends * all_records)) for ends in (lows, highs))
    noise = math.hypot(histogram.noise_scale * math.sqrt(control.size), 0.5 / math.sqrt(n))
    if low - WRONG_SDS * noise <= share <= high + WRONG_SDS * noise:
        return ""
    total = max(float(all_records.sum()), LEAST_SHARE)
    return OTHER_SHARE.format(share / total, 0.5 * (low + high) / total)


def no_shares(histogram: Any) -> bool:
    """Return whether the total of a noisy histogram is within its noise of zero."""
    return float(np.sum(histogram.value)) < DETECTED_SDS * histogram.noise_scale * math.sqrt(
        len(histogram.value)
    )


def _complete(histogram: Any) -> float:
    """Estimate the share of complete records; 1 unless it is clearly less."""
    share = float(np.sum(histogram.value))
    noise = histogram.noise_scale * math.sqrt(len(histogram.value))
    return 1.0 if share > 1.0 - DETECTED * noise else max(share, LEAST_SHARE)


class _Located(NamedTuple):
    """Mean of the pseudo-outcomes, in the coded outcome's units.

    ``nuisances`` is the part of the variance from errors of the models, before the division by the
    mean weight; ``square`` the mean square of the clipped deviations.
    """

    estimate: float
    error: float
    degrees: float
    noise: float
    clip: float
    square: float
    nuisances: float


def _located(
    pseudo: PseudoOutcomes,
    centre: float,
    clip: float,
    nuisances: float,
    budget: Budgets,
    mean_weight: float,
    n: int,
) -> _Located:
    """Take the second Newton step on clipped deviations, and estimate its variance."""
    last, square = pseudo.location(centre, clip, budget.steps[1], square=True)
    assert square is not None
    step, square_noise = float(last.value[0]), square.noise_scale
    sampling = max(float(square.value[0]) - step * step / mean_weight, square_noise) / n
    variance = sampling + last.noise_scale**2 + nuisances
    relative = square_noise / n / variance
    degrees = max(2.0, 2.0 / (relative * relative)) if relative > 0.0 else math.inf
    return _Located(
        centre + step / mean_weight,
        math.sqrt(variance) / mean_weight,
        degrees,
        last.noise_scale / mean_weight,
        clip,
        float(square.value[0]) / mean_weight,
        nuisances,
    )


def _remarks(
    located: _Located,
    clipping_bias: float | None,
    shares: Array,
    poor: float,
    overlap: float,
    aim: Aim,
) -> list[str]:
    """Warn of clipping and of poor overlap, from released numbers."""
    remarks = []
    if clipping_bias is None:
        clipped = located.square > (located.clip / MIN_CLIP_SDS) ** 2
    else:
        clipped = may_bias(clipping_bias, located.error, 1)
    if clipped:
        remarks.append(
            "deviations of pseudo-outcomes are clipped often: the interval may be too narrow and "
            "not cover. Pass a larger clip, or use the logarithm of an outcome that spans orders "
            "of magnitude."
        )
    outside = min(float(shares[0] * (not aim.treated) + shares[2]), 1.0)
    if aim.known is None and outside > poor:
        remarks.append(
            f"propensities of about {outside:.0%} of the records are outside of [{overlap:g}, "
            f"{1.0 - overlap:g}]: overlap is poor, and the effect on those records is not "
            "identified well. Exclude records that are almost never (or almost always) treated, "
            "by a public rule."
        )
    return remarks
