"""``treatment_effect``: the average effect of a treatment, doubly robust, cross-fitted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in, one_of, positive
from dpfast.curator.effects import FOLDS, Aim, PseudoOutcomes, Trial, refuse_pooled
from dpfast.data.columns import numbers, refuse_column_of, refuse_other_rows
from dpfast.data.source import source_of
from dpfast.effects.nuisances import (
    RESIDUAL_VARIANCE,
    Budgets,
    Fold,
    Weighed,
    budgets,
    fold_nuisance,
    fold_recipe,
    level,
    refuse,
)
from dpfast.effects.results import TreatmentEffect
from dpfast.errors import InvalidBudget, InvalidInput, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest, hide_row_details
from dpfast.inference.degrees import UNCOUNTED
from dpfast.optimize.road.histogram import ASYMMETRY, NormHistogram, bin_edges
from dpfast.optimize.road.run import DETECTED_SDS
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import part_sizes
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.incomplete import OTHERWISE
from dpfast.regression.road import subsample_size
from dpfast.regression.scaling_budget import MIN_RECORDS_FACTOR
from dpfast.regression.shared import plan_scaling
from dpfast.regression.standardise import (
    CODED,
    MAX_MISSING,
    GivenScaling,
    PrivateScaling,
    Standardized,
    checked_standardize,
    refuse_no_columns,
)

Array = NDArray[np.float64]

#: Whether the propensity, and the outcomes, are adjusted for covariates.
METHODS = {
    "aipw": (True, True),
    "regression": (False, True),
    "difference": (False, False),
}

DESCRIBED = {
    (True, True): "augmented inverse propensity weighting, propensity and outcomes on covariates",
    (False, True): "regression adjustment, treatment taken as randomised",
    (False, False): "difference in means, treatment taken as randomised",
}

#: Whose effect is averaged.
ESTIMANDS = ("all", "treated")

#: ``n mu^2`` from which on outcomes of a trial are adjusted: below, the noise of the mean is about
#: as large as its standard error, and nothing is left for covariates.
ENOUGH = 100.0

#: Part of the variance that the errors of both nuisances leave from which on it is told; noise of
#: how much the records count, as a part of it, that is told.
MOST_PRODUCT, MOST_UNSURE = 0.5, 0.15

#: Standard deviation of an effect of which nothing is known, in those of outcomes.
UNKNOWN = 0.5

#: Cells of propensities, beside the bounds on them.
EDGES = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98)

#: Cells to a factor 2 in the histogram of deviations.
PER_OCTAVE = 1

#: Deviations have a mean square below that of a given bound over this, or too many are clipped.
BITES = 2.5

#: What may be cut off them, in standard errors, from which on it is told.
CUT = 1.0

#: Share of the records outside of the bounds on propensities from which on it is told, and the
#: standard deviations by which a share has to stand out.
POOR, SEEN = 0.02, 3.0

#: A bound that was given is within this many units of the outcome: what is bought never makes a run
#: refuse that was paid for.
FARTHEST = 1e30

#: Copies of the covariates that there are at a time at most: in units, in folds, of one row of each
#: person, and what they are made of.
COPIES = 4

NUISANCES_UNKNOWN = (
    "who was treated and what outcomes depend on are so badly known that the interval is mostly "
    "theirs, and may be a rough one: too few records, too small a budget, or hardly anybody of one "
    "arm among some of the covariates. Use fewer covariates, more records or a larger budget; of a "
    "trial, pass its propensity."
)

INCOMPLETE = (
    "about {:.0%} of the records have 0 or 1 in the treatment, and numbers in all that is used "
    "beside it; the others counted for nothing." + OTHERWISE.format("treatment", "")
)

#: Least share of complete records that divides a sum.
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
    standardize: bool | Standardized | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> TreatmentEffect:
    """The average effect of a treatment of 0 or 1 on an outcome, with a confidence interval.

    The mean of doubly robust pseudo-outcomes (Robins, Rotnitzky and Zhao 1994): propensity and
    outcomes are fitted on one half of the records, dealt at random, and used on the other
    (Chernozhukov et al. 2018).  Deviations of pseudo-outcomes are held to a bound, and their mean
    is one query about all records.  The effect is causal if nothing but X moves both treatment and
    outcome.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design or Source
        Covariates that were known before the treatment, without a column of ones, in memory; or a
        design (``schema.encode(table, response=...)``), which holds its outcome, with ``y=None``.
        Of :func:`dpfast.records` sampling weights, and persons with ``each="person"``, who count
        with the mean of their rows' pseudo-outcomes; treatment then has an entry for each row.
    treatment : array-like of shape (n,)
        0 or 1; a record with anything else contributes zero and counts in n, as does one with an
        entry of X or y that is not finite.
    y : array-like of shape (n,), optional
        Outcome, of any kind of number.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The **total** to spend, interval included; a float is mu of Gaussian DP.
    method : {"aipw", "regression", "difference"}
        "aipw" adjusts both for who was treated and for what was to be expected.  Where treatment
        was randomised with one probability, "regression" adjusts outcomes only (more precise where
        covariates predict them), and "difference" compares the means of the arms.
    propensity : float or array-like of shape (n,), optional
        Known probability of treatment, as of a trial: nothing is spent on it, and the interval
        holds whatever outcomes depend on.  A float is public, and one for all; then "aipw"
        adjusts outcomes where n and the budget pay for that, and compares means elsewhere.
        Entries of an array are private.
    average : {"all", "treated"}
        Whose effect is averaged: all records' (ATE) or the treated ones' (ATT).
    overlap : float in (0, 0.5)
        Public bound: propensities that are not one for all are held to ``[overlap, 1 - overlap]``.
    clip : float, optional
        Public bound on deviations of pseudo-outcomes from the effect, in the units of y: about four
        of their standard deviations, ``4 sd sqrt(1/e + 1/(1 - e))``.  Smaller is more precise and
        biased.  By default it is bought.
    standardize : bool or Standardized, optional
        Buy centres and spreads of covariates and outcome, within ``privacy``; by default unless a
        schema coded them.  Those that were bought before are passed for True, and cost nothing.
        Without, both are taken to be about 0 and of unit size.
    ledger, noise
        As of :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims C78 and C79 of
    ``dpfast/privacy/PROOFS.md``): the nuisances of the two folds cost as much as those of one
    (C55), all else is about all records, and both add up.  Units are claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> T = rng.random(5000) < 1 / (1 + np.exp(-0.5 * X[:, 0]))
    >>> y = X @ [1.0, -0.5] + 2.0 * T + rng.normal(size=5000)
    >>> effect = dpfast.effects.treatment_effect(X, T, y, privacy=1.0)
    >>> bool(abs(effect.estimate - 2.0) < 0.3)
    True
    """
    account = Account(privacy, ledger)
    method = one_of(method, tuple(METHODS), "method")
    average = one_of(average, ESTIMANDS, "average")
    overlap = number_in(overlap, "overlap", "(0, 0.5)")
    if clip is not None:
        clip = positive(clip, "clip")
    standardize = checked_standardize(standardize)
    source = source_of(X, y)
    takes = ("group", "each", "sample_weight")
    with hide_row_details(source.each):
        request = FitRequest(source, None, account, fit_intercept=True, noise=noise, takes=takes)
        if request.group_size > 1 or (source.group_size is not None and not request.means):
            raise InvalidInput(
                'of persons with several rows the mean counts: pass each="person", and no '
                "group_size."
            )
        refuse_column_of(source.covariates, treatment, "treatment")
        if treatment is not None and treatment is source.response:
            raise InvalidInput("treatment and y are one and the same. Pass the outcome as y.")
        treated = _one_each(source.covariates, treatment, request, "treatment")
        known: Any = None
        if propensity is not None:
            try:
                known = number_in(propensity, "propensity", "(0, 1)")
            except InvalidInput:
                if not hasattr(propensity, "__len__"):
                    raise
                known = _one_each(source.covariates, propensity, request, "propensity")
    if request.n < FOLDS:
        raise InvalidInput(
            f"records are dealt into {FOLDS} folds; received {request.n}. Pass at least {FOLDS}."
        )
    mu = account.total.mu
    aim = _aim(method, known, average == "treated", request.n, request.dimension, mu)
    analysis = _Analysis(request, treated, known, mu, aim, overlap, clip, standardize)
    held = "" if aim.known is not None else f", propensities within [{overlap:g}, {1 - overlap:g}]"
    how = DESCRIBED[aim[:2]]
    if known is not None:
        how = f"{'regression adjustment' if aim.outcomes else 'difference in means'}, propensity "
        how += f"known to be {aim.known:g}" if aim.known is not None else "known"

    with KeepReleased(privacy=request.guarantee, scales=analysis.units):
        label = request.label("treatment_effect", method)
        account.charge(label, request.memory_bytes(COPIES, include_arrays=True))
        return TreatmentEffect(
            **analysis.run()._asdict(),
            method=f"{how}; {'' if analysis.level else f'{FOLDS} folds'}{held}"
            f"{', on the treated' * aim.treated}",
            n_records=request.n,
            privacy=request.guarantee(),
        )


def _aim(method: str, known: Any, treated: bool, n: int, p: int, mu: float) -> Aim:
    """How it is adjusted: public."""
    of_propensity, outcomes = METHODS[method]
    if known is None:
        return Aim(of_propensity, outcomes, treated)
    constant = known if isinstance(known, float) else None
    if method == "aipw" and constant is not None:
        told = 2.0 * min(constant, 1.0 - constant) * n * mu  # of the smaller arm
        outcomes = told * mu >= ENOUGH and told >= MIN_RECORDS_FACTOR * (2 * p) ** 1.5
    return Aim(False, outcomes, treated, constant)


def _one_each(X: Any, values: Any, request: FitRequest, name: str) -> Array:
    """A column beside the records, as numbers; of a right shape, whatever its values."""
    rows = request.rows
    if not hasattr(rows, "X"):
        raise InvalidInput(
            "treatment_effect needs records in memory: an array, a data frame or a design of one. "
            f"Received {type(X).__name__}."
        )
    refuse_other_rows(X, values, name)
    found = numbers(values, name)
    if found.shape != (rows.n,):
        raise InvalidInput(
            f"{name} must have one entry for each of the {rows.n} records; received shape "
            f"{found.shape}."
            if not request.means
            else f"{name} must have one entry for each row."
        )
    return found


class EffectEstimate(NamedTuple):
    """What is released, in the outcome's own units."""

    estimate: float
    bse: float
    degrees_of_freedom: float
    clip: float
    noise: float
    overlap: tuple[float, ...]
    warnings: tuple[str, ...]


class _Analysis:
    """Everything that is decided before the charge, and the run after it."""

    def __init__(
        self,
        request: FitRequest,
        treated: Array,
        known: Any,
        mu: float,
        aim: Aim,
        overlap: float,
        clip: float | None,
        standardize: bool | Standardized | None,
    ) -> None:
        self._request, self._treated = request, treated
        self._aim, self._overlap, self._clip = aim, overlap, clip
        self._known = known if isinstance(known, np.ndarray) else None
        self._purchase: PrivateScaling | GivenScaling | None = None
        self._counted = aim.treated or request.means or request.record_weights is not None
        self.level = aim.known is not None and not aim.outcomes
        needed = MIN_RECORDS_FACTOR * (2.0 * (request.dimension if aim.outcomes else 1)) ** 1.5
        self._few = not self.level and request.n * mu < needed
        if standardize and request.coding is not None:
            raise InvalidInput(CODED)
        if isinstance(standardize, Standardized):
            self._purchase = GivenScaling(request, standardize)
        elif request.coding is None if standardize is None else standardize:
            refuse_no_columns(request)
            if not (aim.propensity or aim.outcomes):
                request.drop_covariates()
            request.draw_subsample(subsample_size(request.n, request.dimension, mu))
            self._purchase, mu = plan_scaling(request, mu)
        mu *= 1.0 - ROUNDING_SUM
        fitted = known is None
        self._budget = budgets(mu, aim, clip is None, not fitted, self._counted)
        if aim.outcomes and request.n * mu < (
            needed := MIN_RECORDS_FACTOR * request.dimension**1.5
        ):
            raise InvalidBudget(
                f"n mu = {request.n * mu:.3g} is below 20 p^1.5 = {needed:.3g} for p = "
                f"{request.dimension} coefficients: what outcomes depend on would be noise. Use "
                "fewer covariates, more records or a larger budget; of a trial, pass its "
                'propensity, or method="difference".'
            )
        covariates = request.n_covariates * int(aim.propensity)
        p, sizes = 1 + request.n_covariates * int(aim.outcomes), part_sizes(request.n, FOLDS)
        recipes = {
            size: fold_recipe(size, covariates, self._budget.propensity) if fitted else None
            for size in sizes
        }
        self._recipes = [recipes[size] for size in sizes]
        for size, recipe in recipes.items():
            refuse(size, p, recipe, self._budget, request.noise)
        asked = self._budget.overlap, self._budget.lengths, self._budget.counted
        cells = len(bin_edges(PER_OCTAVE))
        refuse_pooled(request.n, asked, self._budget.steps, cells, request.noise)

    def _trial(self, folds: NDArray[np.intp]) -> Trial:
        request = self._request
        settings = request.noise, request.threads, self._aim, self._known
        return Trial.of(request.records, self._treated, folds, *settings)

    def units(self) -> Standardized | None:
        """Units of covariates and outcome, once they were bought."""
        return None if self._purchase is None else self._purchase.released

    def run(self) -> EffectEstimate:
        """Pay and estimate."""
        if self._purchase is not None:
            self._purchase.in_place()
        coding = self._request.coding
        unit = 1.0 if coding is None else coding.response_units()[1]
        budget, aim = self._budget, self._aim
        if self.level:  # in either fold the same, whoever is in it
            trial = self._trial(np.arange(self._request.n) % FOLDS)
            folds = [level(0.0, UNKNOWN, aim)] * FOLDS
        else:
            trial, folds = self._nuisances()
        arms = np.mean([fold.nuisance.arms for fold in folds], axis=0)
        centre = float(arms[1, 0] - arms[0, 0])

        def pseudo() -> PseudoOutcomes:
            told = [fold.nuisance for fold in folds]
            return trial.pseudo_outcomes(told, self._overlap, self._request.ledger)

        found = pseudo()
        edges = np.unique([*EDGES, self._overlap, 1.0 - self._overlap])
        answer = found.overlap(edges, budget.overlap)
        complete, told = _complete(answer), None
        if self._known is not None:
            middles = 0.5 * (np.append(0.0, edges) + np.append(edges, 1.0))
            told = middles, answer.value
        inside = np.flatnonzero((edges == self._overlap) | (edges == 1.0 - self._overlap)) + 1
        shares = np.array([float(some.sum()) for some in np.split(answer.value, inside)])
        counts, unsure = complete, 0.0
        if self._counted:
            share = found.share(budget.counted)
            unsure = share.noise_scale
            counts = max(float(share.value[0]) + 0.5, unsure, 1.0 / trial.n)
        weighed = Weighed(folds, self._overlap, aim, told)
        clip, spread, cut = self._bound(found, weighed, centre, unit)
        first, _ = found.location(centre, clip, budget.steps[0])
        centre += float(first.value[0]) / counts
        if self.level:
            folds = [level(centre, first.noise_scale / counts, aim)] * FOLDS
            found, weighed = pseudo(), Weighed(folds, self._overlap, aim, told)
        over = float(weighed.cut(np.array([clip]), spread)[0])
        left = weighed.product(clip, spread) + (ASYMMETRY * over) ** 2
        located = _located(found, centre, clip, left, budget, counts, trial.n)
        seen = None if self._clip is not None else ASYMMETRY * cut / counts
        poor = POOR + SEEN * math.sqrt(2.0) * answer.noise_scale
        poor += weighed.outside_error(self._overlap)
        remarks = _remarks(located, seen, shares, poor, self._overlap, aim)
        if complete < MAX_MISSING:
            remarks.append(INCOMPLETE.format(complete))
        nobody = self._request.few_complete or no_shares(answer)
        if nobody:
            remarks.append(UNCOUNTED)
        if self._few or left > MOST_PRODUCT * (located.error * counts) ** 2:
            remarks.append(NUISANCES_UNKNOWN)
        if unsure > MOST_UNSURE * counts:
            remarks.append(
                f"about {counts:.0%} of the records count in the mean (treated, or by weight), and "
                f"the noise of that is {unsure:.0%}: the effect is known up to such a factor. Use "
                "more records or a larger budget."
            )
        return EffectEstimate(
            located.estimate * unit,
            math.nan if nobody else located.error * unit,
            located.degrees,
            clip * unit,
            located.noise * unit,
            tuple(np.clip(shares, 0.0, 1.0).tolist()),
            (*self._request.remarks, *remarks),
        )

    def _nuisances(self) -> tuple[Trial, list[Fold]]:
        """Folds that are dealt once they are paid for, and the nuisances of either."""
        spend = GDP(self._budget.nuisances)
        self._request.ledger.charge(spend, "random folds")
        trial = self._trial(Trial.folds(self._request.n, self._request.noise))
        ledgers = [Ledger(spend) for _ in range(FOLDS)]
        self._request.ledger.parts.append(Part("random folds", spend, ledgers, disjoint=True))
        return trial, [
            fold_nuisance(trial, fold, recipe, self._budget, ledgers[fold])
            for fold, recipe in enumerate(self._recipes)
        ]

    def _bound(
        self, pseudo: PseudoOutcomes, weighed: Weighed, centre: float, unit: float
    ) -> tuple[float, float, float]:
        """The bound on deviations, the residuals' spread, the mean length of what is cut off."""
        if self._clip is not None:
            clip = min(max(self._clip / unit, 1.0 / FARTHEST), FARTHEST)
            return clip, math.sqrt(RESIDUAL_VARIANCE), 0.0
        budget = self._budget
        edges = bin_edges(PER_OCTAVE)
        answer = pseudo.distance_histogram(centre, edges[:-1], budget.lengths)
        lengths = NormHistogram.from_noisy_shares(answer.value, answer.noise_scale, PER_OCTAVE)
        spread = weighed.residuals(lengths)
        noise = 2.0 / (self._request.n * budget.steps[1])
        candidates = 2.0 * lengths.longest * np.exp2(-np.arange(-24, 25) / 4.0)
        over = np.maximum(lengths.midpoints - candidates[:, None], 0.0) @ lengths.shares
        foreseen = weighed.cut(candidates, spread)
        cut = ASYMMETRY * np.maximum(over, foreseen)
        costs = (noise * candidates) ** 2 + cut**2
        best, least = 0, math.inf
        for i in np.argsort(costs, kind="stable").tolist():
            if costs[i] >= least:  # what is left of both nuisances only adds to it
                break
            cost = costs[i] + weighed.product(float(candidates[i]), spread)
            best, least = (i, cost) if cost < least else (best, least)
        return float(candidates[best]), spread, float(over[best] - foreseen[best])


def no_shares(shares: Any) -> bool:
    """Whether all shares together are within their noise of zero."""
    return float(np.sum(shares.value)) < DETECTED_SDS * shares.noise_scale * math.sqrt(
        len(shares.value)
    )


def _complete(shares: Any) -> float:
    """Share of the complete records; 1 unless it is seen to be less."""
    found = float(np.sum(shares.value))
    noise = shares.noise_scale * math.sqrt(len(shares.value))
    return 1.0 if found > 1.0 - SEEN * noise else max(found, LEAST_SHARE)


class _Located(NamedTuple):
    """Mean of the pseudo-outcomes, in the coded outcome's units."""

    estimate: float
    error: float
    degrees: float
    noise: float
    clip: float
    square: float


def _located(
    pseudo: PseudoOutcomes,
    centre: float,
    clip: float,
    left: float,
    budget: Budgets,
    counts: float,
    n: int,
) -> _Located:
    """The second step, the mean of clipped deviations, and their variance."""
    last, square = pseudo.location(centre, clip, budget.steps[1], square=True)
    assert square is not None
    step, unsure = float(last.value[0]), square.noise_scale
    sampling = max(float(square.value[0]) - step * step / counts, unsure) / n
    variance = sampling + last.noise_scale**2 + left
    relative = unsure / n / variance
    degrees = max(2.0, 2.0 / (relative * relative)) if relative > 0.0 else math.inf
    return _Located(
        centre + step / counts,
        math.sqrt(variance) / counts,
        degrees,
        last.noise_scale / counts,
        clip,
        float(square.value[0]) / counts,
    )


def _remarks(
    found: _Located, cut: float | None, shares: Array, poor: float, overlap: float, aim: Aim
) -> list[str]:
    """What makes an interval unreliable, from released numbers."""
    told = []
    if cut is None:
        clipped = found.square > (found.clip / BITES) ** 2
    else:
        clipped = cut > CUT * found.error
    if clipped:
        told.append(
            "deviations of pseudo-outcomes are clipped often: the interval may be too narrow and "
            "not cover. Pass a larger clip, or use the logarithm of an outcome that spans orders "
            "of magnitude."
        )
    outside = min(float(shares[0] * (not aim.treated) + shares[2]), 1.0)
    if aim.known is None and outside > poor:
        told.append(
            f"propensities of about {outside:.0%} of the records are outside of [{overlap:g}, "
            f"{1.0 - overlap:g}]: overlap is poor, and the effect on those records is not "
            "identified well. Leave out records that are hardly ever (or nearly always) treated, "
            "by a public rule."
        )
    return told
