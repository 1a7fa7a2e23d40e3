"""``treatment_effect``: the average effect of a treatment, doubly robust, cross-fitted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in, one_of, positive
from dpfast.curator.effects import FOLDS, PseudoOutcomes, Trial
from dpfast.data.columns import numbers, refuse_other_rows
from dpfast.data.source import source_of
from dpfast.effects.nuisances import Budgets, budgets, fold_nuisance, fold_recipe, refuse
from dpfast.effects.results import TreatmentEffect
from dpfast.errors import InvalidInput
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import Request, charge_shared
from dpfast.inference.guarantees import Guarantee
from dpfast.optimize.road.histogram import (
    CANCELS,
    Lengths,
    best_bound,
    tops_of_cells,
)
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import MARGIN_8000
from dpfast.regression.purchase import units_share
from dpfast.regression.standardise import (
    CODED,
    Handed,
    Purchase,
    Standardized,
    checked_standardize,
    refuse_boundless,
    refuse_no_columns,
)

__all__ = ["treatment_effect"]

Array = NDArray[np.float64]

#: Whether the propensity, and the outcomes, are adjusted for covariates.
METHODS = {
    "aipw": (True, True),
    "regression": (False, True),
    "difference": (False, False),
}

DESCRIBED = {
    "aipw": "augmented inverse propensity weighting, propensity and outcomes on covariates",
    "regression": "regression adjustment, treatment taken as randomised",
    "difference": "difference in means, treatment taken as randomised",
}

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

#: Copies of the covariates that there are at a time at most: in units, complete, of a fold, of both
#: arms, mapped, and what they are made of.
COPIES = 6

#: Least share of complete records that divides a sum.
LEAST_SHARE = 0.05


def treatment_effect(
    X: Any,
    treatment: Any,
    y: Any = None,
    *,
    privacy: Budget | float | tuple[float, float],
    method: str = "aipw",
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
    is one query about all records.

    Parameters
    ----------
    X : array-like of shape (n, q), data frame, Design or Source
        Covariates that were known before the treatment, without a column of ones, in memory; or a
        design (``schema.encode(table, response=...)``), which holds its outcome, with ``y=None``.
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
    overlap : float in (0, 0.5)
        Public bound: propensities are held to ``[overlap, 1 - overlap]``.
    clip : float, optional
        Public bound on deviations of pseudo-outcomes from the effect, in the units of y: about four
        of their standard deviations, ``4 sd sqrt(1/e + 1/(1 - e))``.  Smaller is more precise and
        biased.  By default it is bought.
    standardize : bool or Standardized, optional
        Buy centres and spreads of covariates and outcome, within ``privacy``; by default unless a
        schema coded them.  Those that were bought before are passed for True, and cost nothing.
        Without, both are taken to be about 0 and of unit size.
    ledger : Ledger, optional
        A budget shared by several analyses; the total is charged to it at once.
    noise : NoiseSource, optional
        ``SeededNoise`` is for simulation and voids the guarantee.

    Returns
    -------
    TreatmentEffect

    Raises
    ------
    InvalidInput, InvalidBudget
        On a wrong shape, dtype, option or budget, before anything is spent.  Never because of a
        value in the data.
    BudgetExceeded
        If the shared ledger cannot pay, before the data are touched.
    Exception
        Ctrl-C and whatever else ends a run has the answers so far, and the units if they are
        complete, in its attribute ``partial_result``.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims C78 and C79 of
    ``dpfast/privacy/PROOFS.md``): the nuisances of the two folds cost as much as those of one
    (C55), all else is about all records, and both add up.  Units are claims D1 to D6.

    Notes
    -----
    The effect is causal if nothing but X moves both treatment and outcome.  Intervals allow for
    sampling and for all privacy noise; where propensities or deviations were clipped so often that
    the effect of other records is estimated, :attr:`TreatmentEffect.warnings` says so.

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
    total = GDP.within(privacy)
    method = one_of(method, tuple(METHODS), "method")
    overlap = number_in(overlap, "overlap", "(0, 0.5)")
    if clip is not None:
        clip = positive(clip, "clip")
    standardize = checked_standardize(standardize)
    source = source_of(X, y)
    request = Request(source, None, fit_intercept=True, noise=noise)
    treated = _treated(source.covariates, treatment, request)
    if request.n < FOLDS:
        raise InvalidInput(
            f"records are dealt into {FOLDS} folds; received {request.n}. Pass at least {FOLDS}."
        )
    analysis = _Analysis(request, treated, total.mu, METHODS[method], overlap, clip, standardize)

    def spent() -> Guarantee:
        return request.guarantee(total, analysis.ledger)

    with KeepingPaid(privacy=spent, units=analysis.units), np.errstate(all="ignore"):
        label = request.label("treatment_effect", method)
        charge_shared(ledger, privacy, total, label, request.room(COPIES, whole=True))
        return TreatmentEffect(
            **analysis.run(spent)._asdict(),
            method=f"{DESCRIBED[method]}; {FOLDS} folds, propensities within [{overlap:g}, "
            f"{1.0 - overlap:g}]",
            n_records=request.n,
            privacy=spent(),
        )


def _treated(X: Any, treatment: Any, request: Request) -> Array:
    """The treatment as numbers; of a right shape, whatever its values."""
    if not hasattr(request.records, "X"):
        raise InvalidInput(
            "treatment_effect needs records in memory: an array, a data frame or a design of one. "
            f"Received {type(X).__name__}."
        )
    refuse_other_rows(X, treatment, "treatment")
    found = numbers(treatment, "treatment")
    if found.shape != (request.n,):
        raise InvalidInput(
            f"treatment must have one entry for each of the {request.n} records; received shape "
            f"{found.shape}."
        )
    return found


class _Found(NamedTuple):
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
        request: Request,
        treated: Array,
        mu: float,
        adjusted: tuple[bool, bool],
        overlap: float,
        clip: float | None,
        standardize: bool | Standardized | None,
    ) -> None:
        self.ledger = Ledger(GDP(mu))
        self._request, self._treated = request, treated
        self._adjusted, self._overlap, self._clip = adjusted, overlap, clip
        self._purchase: Purchase | Handed | None = None
        refuse_boundless(mu)
        if standardize and request.coding is not None:
            raise InvalidInput(CODED)
        if isinstance(standardize, Standardized):
            self._purchase = Handed(request, standardize)
        elif request.coding is None if standardize is None else standardize:
            refuse_no_columns(request)
            share = units_share(request.n, request.n_covariates + 1, mu)
            self._purchase = Purchase(request, mu * math.sqrt(share), self.ledger, whole=mu)
            mu *= math.sqrt(1.0 - share)
        self._budget = budgets(mu * (1.0 - MARGIN_8000), measured=clip is None)
        trial = self._planned()
        covariates = request.n_covariates * int(adjusted[0])
        self._recipes = [
            fold_recipe(size, covariates, self._budget.propensity) for size in trial.sizes
        ]
        for fold, recipe in enumerate(self._recipes):
            refuse(trial, fold, recipe, self._budget)
        pooled = self._budget
        trial.refuse_pooled(
            pooled.overlap, pooled.lengths, pooled.steps, len(tops_of_cells(PER_OCTAVE))
        )

    def _planned(self) -> Trial:
        """A trial of the same shape and of folds of the same sizes, without a record."""
        request, n = self._request, self._request.n
        nothing = np.broadcast_to(np.nan, (n, request.n_covariates + 2))
        settings = np.arange(n) % FOLDS, request.noise, request.threads, self._adjusted
        return Trial(nothing[:, 2:], nothing[:, 0], nothing[:, 1], *settings)

    def _trial(self, folds: NDArray[np.intp]) -> Trial:
        request = self._request
        return Trial.of(
            request.records,
            self._treated,
            folds,
            request.noise,
            request.threads,
            self._adjusted,
        )

    def units(self) -> Standardized | None:
        """Units of covariates and outcome, once they were bought."""
        return None if self._purchase is None else self._purchase.released

    def run(self, spent: Callable[[], Guarantee]) -> _Found:
        """Pay and estimate; ``spent`` is the guarantee of the whole."""
        if self._purchase is not None:
            self._purchase.in_place(spent)
        coding = self._request.coding
        unit = 1.0 if coding is None else coding.response_units()[1]
        budget = self._budget
        spend = GDP(budget.nuisances)
        self.ledger.charge(spend, "random folds")
        trial = self._trial(Trial.dealt(self._request.n, self._request.noise))
        ledgers = [Ledger(spend) for _ in range(FOLDS)]
        self.ledger.parts.append(Part("random folds", spend, ledgers, disjoint=True))
        folds = [
            fold_nuisance(trial, fold, recipe, budget, ledgers[fold])
            for fold, recipe in enumerate(self._recipes)
        ]
        nuisances = [nuisance for nuisance, _ in folds]
        pseudo = trial.pseudo_outcomes(nuisances, self._overlap, self.ledger)
        edges = np.array([self._overlap, 1.0 - self._overlap])
        shares = pseudo.overlap(edges, budget.overlap)
        centre = float(np.mean([arms[1, 0] - arms[0, 0] for _, arms in nuisances]))
        clip, cut = self._bound(pseudo, centre, unit)
        product = sum(product for _, product in folds) / FOLDS**2
        found = _located(pseudo, centre, clip, product, budget, _complete(shares), trial.n)
        seen = None if self._clip is not None else CANCELS * cut
        told = _remarks(found, seen, shares.value, shares.noise_scale, self._overlap)
        return _Found(
            found.estimate * unit,
            found.error * unit,
            found.degrees,
            clip * unit,
            found.noise * unit,
            tuple(np.clip(shares.value, 0.0, 1.0).tolist()),
            (*self._request.remarks, *told),
        )

    def _bound(self, pseudo: PseudoOutcomes, centre: float, unit: float) -> tuple[float, float]:
        """The bound on deviations, and the mean length of what it cuts off, as far as is seen."""
        if self._clip is not None:
            return min(max(self._clip / unit, 1.0 / FARTHEST), FARTHEST), 0.0
        budget = self._budget
        edges = tops_of_cells(PER_OCTAVE)
        answer = pseudo.lengths(centre, edges[:-1], budget.lengths)
        lengths = Lengths.visible(answer.value, answer.noise_scale, PER_OCTAVE)
        return best_bound(lengths, 2.0 / (self._request.n * budget.steps[1]), 1)


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
    product: float,
    budget: Budgets,
    complete: float,
    n: int,
) -> _Located:
    """Two steps, each the mean of clipped deviations, and the variance at the second."""
    first, _ = pseudo.location(centre, clip, budget.steps[0])
    centre += float(first.value[0]) / complete
    last, square = pseudo.location(centre, clip, budget.steps[1], square=True)
    assert square is not None
    step, noise = float(last.value[0]) / complete, last.noise_scale / complete
    mean_square = float(square.value[0]) / complete
    unsure = square.noise_scale / complete
    sampling = max(mean_square - step * step, unsure) / (n * complete)
    variance = sampling + noise * noise + product
    relative = unsure / (n * complete) / variance
    degrees = max(2.0, 2.0 / (relative * relative)) if relative > 0.0 else math.inf
    return _Located(centre + step, math.sqrt(variance), degrees, noise, clip, mean_square)


def _remarks(
    found: _Located, cut: float | None, shares: Array, noise: float, overlap: float
) -> Sequence[str]:
    """What makes an interval unreliable, from released numbers.

    What a bound that was bought cuts off was seen beside it (``cut``).  Of one that was given only
    the mean square tells, which of outcomes of 0 and 1 is near the bound although none is cut.
    """
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
    outside = min(float(shares[0] + shares[2]), 1.0)
    if outside > POOR + SEEN * noise * math.sqrt(2.0):
        told.append(
            f"propensities of about {outside:.0%} of the records are outside of [{overlap:g}, "
            f"{1.0 - overlap:g}]: overlap is poor, and the effect on those records is not "
            "identified well. Leave out records that are hardly ever (or nearly always) treated, "
            "by a public rule."
        )
    return told
