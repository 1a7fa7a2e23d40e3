"""Default fits: their private units, refusals before the charge, and the text of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, check_constant, detached
from dpfast.curator.curator import Prepared, prepare
from dpfast.curator.joint import Layout
from dpfast.curator.preconditioned import (
    PreconditionedQueries,
    _extremes,
    _histogram_receipt,
    _refuse,
)
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.fit_requests.partial import UNFINISHED
from dpfast.fit_requests.planned_run import Fits, run, single
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.results import Fit
from dpfast.models import (
    FreeScale,
    LeastSquares,
    Loss,
    Mallows,
    Objective,
    resolve_loss,
)
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression import few_records
from dpfast.regression.default_result import DefaultResult
from dpfast.regression.design_basis import design_basis
from dpfast.scaling.budget import FARTHEST, LEAST_FOR_ROUNDS, MIN_RECORDS_FACTOR, ScalingBudget
from dpfast.scaling.private import PrivateScaling, farthest, n_searched
from dpfast.scaling.standardize import CODED
from dpfast.scaling.standardized import GivenScaling, Standardized
from dpfast.solvers.pcn.engine import fit_pcn
from dpfast.solvers.pcn.histogram import N_FINE_BINS
from dpfast.solvers.pcn.initial import (
    FIRST_PART,
    InitialEstimate,
    initial_estimate,
    predictor_of_mean,
)
from dpfast.solvers.pcn.local import SUBSAMPLE_PART
from dpfast.solvers.pcn.plan import MAX_STEPS, BudgetAllocation, QueryCounts, Setting, prices
from dpfast.solvers.pcn.result import SolverResult

#: Records, and n mu, that are enough for units, pilot and first steps of eight coefficients.  The
#: number grows with the square root of p; twice as many are taken if they are a quarter of all.
SUBSAMPLE_SIZE = 20_000.0

#: Defaults of the options that select another fit when they are set.
DEFAULTS = {"scale": None, "weights": None, "ridge": 0.0, "method": "auto"}

WITHOUT_SIZE = (
    "these private scales lack the size of counts or the centre of offsets: they were estimated "
    "for another kind of fit. Leave standardize out."
)

UNKNOWN_SCALES = (
    "n mu = {strength:.3g} is too small for the {loss} loss with {q} columns of unknown scale. Use "
    "more records, a larger budget or fewer columns, or declare their ranges in a schema and pass "
    "dpfast.Objective(loss, scale=<public residual scale>)."
)


def uses_default_fit(loss: Any, options: dict[str, Any]) -> bool:
    """Say whether a fit is a default fit, by public arguments alone."""
    kind = resolve_loss(loss, unbounded=True)
    changed = [name for name in DEFAULTS if not _is_default(options[name], DEFAULTS[name])]
    if changed and not kind.has_bound:
        name = changed[0]
        robust = "use a robust loss"
        if kind.link == "identity":
            with_option = f'dpfast.Objective("log-cosh", {name}=...)'
            typed = 'loss="log-cosh"' if name == "method" else with_option
            robust = f"name a robust loss: {typed}"
        raise InvalidInput(
            f"{name} is not an option of {kind.name}, which estimates its own weights, scale "
            f"and steps; received a {type(options[name]).__name__}. Leave it out, or {robust}."
        )
    known_scale = changed == ["scale"] and not isinstance(options["scale"], FreeScale)
    return (not changed or known_scale) and kind.supports_default_fit


def subsample_size(n: int, p: int, strength: float) -> float:
    """Return how many of n records are enough for preliminary estimates at this mu: public."""
    size = SUBSAMPLE_SIZE * math.sqrt(p / 8.0) / min(1.0, strength)
    return min(2.0 * size, max(size, SUBSAMPLE_PART * n))


class Solution(NamedTuple):
    """Released results for one loss: path, solution, or the reason for its absence."""

    iterates: list[Array]
    solution: SolverResult | None
    missing: str = ""


class DefaultFit:
    """Default fits of a checked request, one for each loss: checked and planned.

    The constructor refuses all that can be refused before the charge.

    Privacy
    -------
    The request's total for everything: locations and scales (claims D1 to D5), Grams (claim C14),
    histograms of norms (C60) and clipped scores (C13, C17), of rows under released maps (C80).
    """

    returns_unused = True
    #: Budget in ``p^1.5 / n`` below which a result says that coefficients are mostly noise.
    least_strength = MIN_RECORDS_FACTOR

    def __init__(
        self,
        request: FitRequest,
        losses: Sequence[str | Loss],
        *,
        scale: float | FreeScale | None,
        standardize: bool | Standardized | PrivateScaling | None,
        inference: bool,
    ) -> None:
        n, p = request.n, request.dimension
        if p >= n:
            raise InvalidInput(
                f"p = {p} coefficients need more than n = {n} records. Use fewer covariates, or a "
                "robust loss with a public penalty, dpfast.Objective(loss, ridge=...)."
            )
        assert request.group_size == 1  # a person with rows counts with their mean (claim C81)
        mu = request.mu
        self._part = math.sqrt(1.0 / len(losses)) * (1.0 - ROUNDING_SUM * (len(losses) > 1))
        mu_per_loss = mu * self._part
        declared = [resolve_loss(loss, unbounded=True) for loss in losses]
        self.losses = [
            loss._adapted_to_sample(loss._for_records(n, p, mu_per_loss), n) for loss in declared
        ]
        loss = self.losses[0]
        if scale is not None:  # its units may not be known yet
            assert not isinstance(scale, FreeScale)
            scale = check_constant(scale, "scale", "public residual scale, in the units of y")
        self.request, self._scale, self._inference = request, scale, inference
        self._mu = mu
        #: Points on the way of each loss.
        self._iterates: list[list[Array]] = [[] for _ in losses]
        self.steps = [MAX_STEPS] * len(losses)
        self.only_mean = False
        #: Whether slopes are for predictions alone.
        self.few_records = False
        #: Why the call ended after its counts, if it did.
        self._stopped = ""
        self._scaling: PrivateScaling | GivenScaling | None = None
        self._initial: InitialEstimate | None = None
        #: Map from the rows' coordinates to coefficients: without columns that look constant, and
        #: with powers and products of centred columns.  None is the identity.
        self.basis: Array | None = None
        request.check_response(loss)
        if scale is not None:  # refuse it if the loss has none
            request.objective(loss._bounded, scale=scale, weights=Mallows(1.0), ridge=0.0)
        weighted = request.record_weights is not None and request.record_weights.weight is not None
        self.setting = Setting(
            loss,
            self._coded_scale(),
            request.fit_intercept,
            persons=request.means,
            alone=not (request.means or request.group_size > 1 or weighted),
        )
        self._draw_subsample()
        self._weight_unit = None
        if weighted:
            from dpfast.scaling.weight_unit import planned_weight_unit

            self._weight_unit = planned_weight_unit(request, mu)
        min_mu = self._plan_units(standardize)
        if not self.only_mean:
            self._refuse_budgets(min_mu)

    def of_records(self, request: FitRequest, standardize: Any) -> DefaultFit:
        """Copy the plan for other records of the same columns, public sizes and budget.

        What can be refused, and was not, depends on these alone.
        """
        assert (request.n, request.dimension, request.mu) == (
            self.request.n, self.request.dimension, self._mu
        )  # fmt: skip
        plan = detached(self)
        plan.request, plan._iterates = request, [[] for _ in self.losses]
        plan._draw_subsample()
        if isinstance(self._scaling, PrivateScaling):
            plan._scaling = self._scaling.of_records(request)
        else:
            plan._plan_units(standardize)
        return plan

    def _draw_subsample(self) -> None:
        """Prepare a subsample for preliminary estimates, where all records are more than enough."""
        n, p = self.request.n, self.request.dimension
        size = subsample_size(n, p, self._mu * self._part)
        self.request.draw_subsample(size, SUBSAMPLE_PART)

    def _refuse_budgets(self, min_mu: float) -> None:
        """Refuse what later queries would refuse, for any budget from ``min_mu`` on."""
        if self._weight_unit:
            min_mu = self._weight_unit.refuse(self.rows_for(), min_mu)
        if self.few_records:
            steps = [few_records.step_mu(mu) for mu in (min_mu, self._mu)]
            return self.rows_for().refuse((), steps=steps)
        # the number of steps, and what the units leave, are not known before the charge
        counts = tuple([self.setting._replace(loss=loss).query_counts for loss in self.losses])
        refuse_queries(self._layouts(), (min_mu, self._mu), self._part, counts)

    def _layouts(self) -> tuple[tuple[Layout, Layout], ...]:
        """Return the layouts of sums of rows and of scores, of all records and of each sample."""
        request, columns = self.request, self.request.dimension
        if request.means:
            return (self.rows_for().layouts,)
        asked = [request.records, request.subsample, request.larger_subsample]
        layouts = [Layout(*records._summed(columns)) for records in asked if records is not None]
        return tuple([(layout, layout) for layout in layouts])

    def _plan_units(self, standardize: Any) -> float:
        """Plan private units; return the mu left if they cost as much as they may."""
        request, loss, mu = self.request, self.losses[0], self._mu
        linked = loss.link != "identity"
        bounded = loss.largest_response is not None
        own_units = standardize is False
        coded = request.coding is not None
        offset = (
            linked
            and request.record_weights is not None
            and request.record_weights.offset is not None
        )
        n_columns = request.n_covariates * (not own_units) + int(not bounded) + offset
        if coded and standardize:
            raise InvalidInput(CODED)
        if standardize is None:
            have_units = self._released
        else:
            have_units = coded or isinstance(standardize, PrivateScaling)
        if isinstance(standardize, Standardized):
            self._scaling = GivenScaling(request, standardize, response=not linked)
            settings = standardize._settings
            if (linked and not bounded and "size" not in settings) or (
                offset and "offset" not in settings
            ):
                raise InvalidInput(WITHOUT_SIZE)
            return mu
        if have_units or not n_columns:
            return mu
        if not own_units:
            n_columns += n_searched(request) - request.n_covariates
        budget = ScalingBudget(request.n, max(n_columns, 1), mu)
        slopes = request.fit_intercept and request.n_covariates > 0 and not own_units
        least = LEAST_FOR_ROUNDS * loss.curvature_varies * request.dimension**1.5
        too_few = slopes and request.n * mu < least
        too_noisy = (slopes or own_units) and budget.hidden()
        if too_few or too_noisy:
            # a scale or a coding declares by itself that the columns' units are right
            declared = self._scale is not None or coded
            if own_units or (standardize is None and declared):
                return mu
            if not loss.of_mean:
                raise InvalidBudget(
                    UNKNOWN_SCALES.format(
                        strength=request.n * mu, loss=loss.name, q=request.n_covariates
                    )
                )
            weighted = request.record_weights is not None and request.record_weights.weighted
            self.few_records = (
                slopes
                and len(self.losses) == 1
                and not (weighted or coded)
                and few_records.predicts(loss, request.n, request.n_covariates, mu)
            )
            self.only_mean = not self.few_records
            if self.only_mean:
                return mu
            self.steps = [few_records.STEPS]
        few = self.few_records
        share = few_records.scales_share(loss) if few else budget.share()
        self._scaling = PrivateScaling(
            request, mu * share**0.5, covariates=not own_units,
            response=not bounded, linked=linked, labels=loss.binary_response, whole=mu,
            inner=coded or own_units, offset=offset,
            responses=loss.responses, least=0.0 if few else budget.least_records(),
            around_zero=few,
        )  # fmt: skip
        return mu * (1.0 - share) ** 0.5

    def _coded_scale(self) -> float | None:
        """Return the given scale in units of the response, which may be private."""
        scale: float | None = self.request.coded_scale(self._scale)
        if scale is None:
            return None
        return min(max(scale / self._inner_spread, FARTHEST[0]), FARTHEST[1])

    def rows_for(self, ledger: Ledger | None = None) -> PreconditionedQueries:
        """Return queries of the rows in private units; ``ledger`` replaces the request's."""
        rows = preconditioned_rows(self.request, ledger)
        if self._weight_unit:
            rows = self._weight_unit.weighted(rows)
        return rows if self.basis is None else rows.mapped(self.basis)

    @property
    def units(self) -> Standardized | None:
        """Private units of the result, once estimated; None if a schema's units are used."""
        scaling = self._scaling
        return None if scaling is None or scaling.inner else scaling.released

    @property
    def _released(self) -> bool:
        """True if the records are in private units of an earlier call."""
        coding = self.request.coding
        return coding is not None and bool(coding.released_units())

    @property
    def _inner(self) -> Standardized | None:
        """Private units inside a schema's: results are in the schema's."""
        scaling = self._scaling
        return scaling.released if scaling is not None and scaling.inner else None

    @property
    def _inner_spread(self) -> float:
        return 1.0 if self._inner is None else self._inner.response[1]

    def begin(self) -> None:
        """Estimate the private units, and the pilot that several losses share."""
        if isinstance(self._scaling, PrivateScaling):
            self._stopped = self._scaling.too_few()
            if self._stopped:
                return
        if self._scaling is not None:
            self._scaling.in_place(spend=False)  # the rest is for the fit
            released = self._scaling.released
            assert released is not None
            self.setting = self.setting._replace(scale=self._coded_scale(), **released._settings)
            self.basis = design_basis(self.request, released, self._inner is not None)
            if self.request.subsample is not None:
                self._choose_subsample(farthest(released._locations), self.setting)
        else:
            self.basis = design_basis(self.request, None)
        if self._weight_unit:
            self._weight_unit.estimate_unit(self.rows_for())
        if len(self.losses) > 1:
            self._estimate_initial()
        self._mu_per_loss = self.request.mu_left(self._mu) * self._part

    def _estimate_initial(self) -> None:
        """Estimate the pilot that several losses share."""
        rows = self.rows_for()
        allocation = BudgetAllocation(rows.n, rows.dimension, self.request.mu_left(self._mu))
        budgets = allocation.budgets(self.setting.query_counts, 1)
        self._initial = initial_estimate(rows, self.setting, budgets)

    def _choose_subsample(self, max_distance: float, setting: Setting) -> None:
        """Choose the smallest sample that shows rows this far out; all records if none does."""
        request, p = self.request, self.request.dimension
        for sample in filter(None, (request.subsample, request.larger_subsample)):
            budgets = BudgetAllocation(sample.n, p, self.request.mu_left(self._mu)).budgets(
                setting.query_counts, 1
            )
            # later steps use all records, and correct a pilot from a small sample
            later_steps = setting.query_counts[0] and sample.n <= SUBSAMPLE_PART * request.n
            radius = budgets.longest_radius(sample.n, p) * (1.0 if later_steps else FIRST_PART)
            if max_distance <= radius:
                request.subsample = sample
                return
        request.subsample = None

    def memory_bytes(self) -> int:
        """Return the bytes needed after the charge, finished fits included: public."""
        finished = 32 * (len(self.losses) - 1) * self.request.dimension**2
        return self.request.default_fit_bytes() + finished

    def fit(self, progress: Callable[[int, int], None] | bool | None = None) -> Fit:
        """Charge, and fit the single loss; only its mean if records are too few for slopes."""
        request = self.request
        if self.only_mean:
            from dpfast.regression.intercept_only import InterceptOnly

            return InterceptOnly(request, self.losses[0]).fit(progress)
        label = request.label("fit", self.losses[0].name)
        return run(Fits(self, single), label, self.memory_bytes(), progress)

    def solve(self, k: int, report: Callable[[int, int], None] | None) -> Solution:
        """Run the solver for one loss; no coefficient is estimated where the call stopped."""
        if self._stopped:
            nothing = np.full(self.request.dimension, np.nan)
            return Solution([nothing], None, self._stopped)
        setting = self.setting._replace(loss=self.losses[k])
        rows = self.rows_for()
        budget = BudgetAllocation(rows.n, rows.dimension, self._mu_per_loss)
        iterates = self._iterates[k]
        if self.few_records:
            return self._descent(rows, iterates, report)
        return Solution(
            iterates,
            fit_pcn(rows, setting, budget, self._inference, iterates, report, self._initial),
        )

    def _descent(
        self,
        rows: PreconditionedQueries,
        iterates: list[Array],
        report: Callable[[int, int], None] | None,
    ) -> Solution:
        """Estimate slopes for predictions; the intercept alone if no column's scale was found."""
        released = self._scaling.released if isinstance(self._scaling, PrivateScaling) else None
        if released is not None and len(released.unseen) == self.request.n_covariates:
            self.basis = np.eye(self.request.dimension)[:, :1]
            rows = preconditioned_rows(self.request).mapped(self.basis)
        mu, loss, start = self._mu_per_loss, self.losses[0], np.zeros(rows.dimension)
        if loss.binary_response and isinstance(self._scaling, PrivateScaling):
            share = self._scaling.share_of_ones
            start[0] = predictor_of_mean(*share, self.setting, 1.0, self.request.n)
        few_records.descent(rows, loss, mu, start, iterates, report)
        strength = self.request.n * self._mu
        text = few_records.FEW_RECORDS.format(strength=strength, q=self.request.n_covariates)
        return Solution(iterates, None, text)

    def unfinished(self, k: int, error: str) -> Solution | None:
        """Return what one loss has released before an error of this name, if anything."""
        return Solution(self._iterates[k], None, UNFINISHED % error) if self._iterates[k] else None

    def result(self, k: int, solution: Solution, guarantee: Guarantee) -> Fit:
        """Make the fit of one loss, in the columns' original units."""
        scaling, setting = self._scaling, self.setting
        return DefaultResult(
            self.request.facts(),
            self.losses[k],
            solution,
            guarantee,
            self.basis,
            None if scaling is None else scaling.released,
            scaling is not None and scaling.inner,
            self._inference,
            self._scale is not None,
            setting.alone,
            setting.offset,
            0.0 if solution.solution is None else self._mu_per_loss,
            self.least_strength,
            self.few_records,
            self._stopped,
            self._further_remarks(k),
        ).fit()

    def _further_remarks(self, k: int) -> list[str]:
        """Return warnings of what intervals may not cover, beside those of every default fit."""
        return []


@lru_cache(maxsize=256)
def refuse_queries(
    layouts: tuple[tuple[Layout, Layout], ...],
    totals: tuple[float, float],
    part: float,
    kinds: tuple[QueryCounts, ...],
) -> None:
    """Refuse totals, the least first, that a query would refuse: public; others are remembered.

    The first layouts are those of all records.  The total is divided as in :func:`prices`.
    """
    layout, _ = layouts[0]
    # the shares of a tiny total are rounded to zero
    _histogram_receipt(layout.n, layout.excess, 1, totals[0])
    queries = prices(layout.n, layout.row, totals, part, kinds, len(layouts) > 1)
    extremes = [_extremes(mus) for mus in queries]
    for of_rows, of_scores in layouts:
        _refuse(of_rows, of_scores, *extremes, N_FINE_BINS)


def preconditioned_rows(request: FitRequest, ledger: Ledger | None = None) -> PreconditionedQueries:
    """Return queries about a request's rows; ``ledger`` replaces the request's."""
    # only the rows matter here: queries have objectives of their own
    objective, prepared = _squares(request.n_covariates, request.fit_intercept)
    subsample = None
    if request.subsample is not None:
        subsample = request.curator(objective, prepared, ledger=ledger, from_subsample=True)
    curator = request.curator(objective, prepared, ledger=ledger)
    return PreconditionedQueries(curator, subsample=subsample)


@lru_cache(maxsize=64)
def _squares(q: int, fit_intercept: bool) -> tuple[Objective, Prepared]:
    """Return least squares for q columns, with its prepared kernels."""
    objective = Objective(LeastSquares(), Mallows(1.0), q, fit_intercept=fit_intercept)
    return objective, prepare(objective)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, type(default)) and bool(value == default))
