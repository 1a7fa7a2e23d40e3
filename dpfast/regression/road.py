"""Fits that take the road: what is bought, what may be refused, and what the result says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import check_constant
from dpfast.curator.curator import Prepared, prepare
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.partial import UNFINISHED, KeepReleased
from dpfast.fit_requests.request import FitRequest
from dpfast.inference.degrees import Covariance, VarianceNoise
from dpfast.inference.natural import natural_map
from dpfast.inference.results import Fit
from dpfast.models import (
    FreeScale,
    LeastSquares,
    Loss,
    Mallows,
    Objective,
    Quantile,
    resolve_loss,
)
from dpfast.optimize.road.allocation import (
    BudgetAllocation,
    Setting,
    prices,
)
from dpfast.optimize.road.run import (
    FIRST_PART,
    MAX_STEPS,
    N_FINE_BINS,
    SUBSAMPLE_PART,
    TINY,
    InitialEstimate,
    SolverResult,
    clipped_newton,
    initial_estimate,
)
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.scaling_budget import (
    FARTHEST,
    MIN_RECORDS_FACTOR,
    ScalingBudget,
    shrinkage_factor,
)
from dpfast.regression.standardise import (
    CODED,
    GivenScaling,
    PrivateScaling,
    Standardized,
    farthest,
)

Array = NDArray[np.float64]

#: Part of the rows' squares that discounts take, from which on it is told.
LEANS = 0.1

MODEL = "LeastSquares(), target: the coefficients of ordinary least squares"

CUT = (
    "scores were held to a norm of {bound:.3g}, and longer ones may move coefficients by up to "
    "{bias:.2g} standard errors together: intervals may not cover the coefficients of {target}. "
    "Use {remedy}the logarithm of a response or covariate that spans orders of magnitude."
)

LONG = (
    "rows far from the others were discounted (weights to the power {power:g}), so the estimate "
    "leans less on them than {target} does. Use the logarithm of covariates that "
    "span orders of magnitude, or a larger budget."
)

SHORT = (
    "records whose scores are held to a norm of {bound:.3g} tell the coefficients of {columns}, "
    "and steps have not arrived: intervals may not cover those of {target}. Use a larger budget, "
    "or a robust loss."
)

#: Records per width in a quantile's own window, over those around it, from which on many of them
#: have one value: of the median, and at most, as errors of one side are dense at their end.
DENSE, DENSER = 1.5, 1.9

#: Records, and n mu, for eight coefficients that are enough for units, a start and rounds, growing
#: with their square root; twice as many are asked if they are a quarter of all.
ENOUGH = 20_000.0

#: Options that the road has no use for, as they are by default.
PLAIN = {"scale": None, "weights": None, "ridge": 0.0, "method": "auto"}

UNTOLD = (
    "how large counts are, or where offsets lie, is not known in these units, which were not "
    "bought for such a fit. Leave standardize out."
)

UNLOCATED = (
    "n mu = {strength:.3g} is too little for the {loss} loss with {q} columns whose units nobody "
    "declared. Use more records, a larger budget or fewer columns, or declare their ranges in a "
    "schema and pass dpfast.Objective(loss, scale=<public residual scale>)."
)

MASS = (
    "many records have the same response, or lie on the fitted line ({how}): there a quantile of "
    "theirs is not told from its neighbours', and intervals may not cover those of {target}. Fit "
    'the mean ("least-squares"), or in two parts: whether the response is that value, and the '
    "others."
)

FEW = (
    "n mu = {strength:.3g} is below 20 p^1.5 = {needed:.3g}: coefficients are mostly noise. Use "
    "more records, a larger budget, or fewer covariates."
)


def uses_default_fit(loss: Any, options: dict[str, Any]) -> bool:
    """Whether a fit takes the road, by public arguments alone."""
    kind = resolve_loss(loss, unbounded=True)
    told = [name for name in PLAIN if not _is_plain(options[name], PLAIN[name])]
    if told and not kind.has_bound:
        raise InvalidInput(
            f"{told[0]} is not an option of {kind.name}, which finds its own weights, scale and "
            f"steps; received {described(options[told[0]])}. Leave it out, or use a robust loss."
        )
    plain = not told or (told == ["scale"] and not isinstance(options["scale"], FreeScale))
    return plain and kind.supports_default_fit


def subsample_size(n: int, p: int, strength: float) -> float:
    """How many of n records tell what is bought of few at a mu of so much: public."""
    least = ENOUGH * math.sqrt(p / 8.0) / min(1.0, strength)
    return min(2.0 * least, max(least, SUBSAMPLE_PART * n))


class DefaultFit:
    """Fits of a checked request that take the road together: planned, charged for, then run.

    Making it refuses whatever can be refused.

    Privacy
    -------
    The request's total for everything: locations and scales (claims D1 to D5), Grams (claim C14),
    histograms of lengths (C60) and clipped scores (C13, C17) of what is seen of rows under
    released maps (C80).
    """

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
        each = mu * self._part
        declared = [resolve_loss(loss, unbounded=True) for loss in losses]
        self.losses = [
            loss._adapted_to_sample(loss._for_records(n, p, each), n) for loss in declared
        ]
        if scale is not None:  # in whatever units, which are not known yet
            assert not isinstance(scale, FreeScale)
            scale = check_constant(scale, "scale", "public residual scale, in the units of y")
        self.request, self._scale, self._inference = request, scale, inference
        self._mu, self.only_mean = mu, False
        self._purchase: PrivateScaling | GivenScaling | None = None
        self._begun: InitialEstimate | None = None
        self.kept: Array | None = None  # the design's columns that are not left out
        loss = self.losses[0]
        request.check_response(loss)
        if scale is not None:  # refused where the loss has none
            request.objective(loss._bounded, scale=scale, weights=Mallows(1.0), ridge=0.0)
        weighted = request.record_weights is not None and request.record_weights.weight is not None
        self.setting = Setting(
            loss,
            self._coded_scale(),
            request.fit_intercept,
            persons=request.means,
            alone=not (request.means or request.group_size > 1 or weighted),
        )
        request.draw_subsample(subsample_size(n, p, each), SUBSAMPLE_PART)
        self._weighing = None
        if weighted and not request.means:
            from dpfast.regression.weight_unit import WeightUnit

            self._weighing = WeightUnit(mu)
        least = self._plan_units(standardize)
        if self.only_mean:
            return
        rows = self.rows_for()
        if self._weighing:
            least = self._weighing.refuse(rows, least)
        # however many rounds there are, and whatever the units leave, which is not known before
        kinds, few = (
            [self.setting._replace(loss=loss).query_counts for loss in self.losses],
            rows.subsample(),
        )
        asked = prices(n, p, (least, mu), self._part, tuple(kinds), few is not rows)
        rows.refuse(*asked, cells=N_FINE_BINS)
        if request.larger_subsample is not None:
            drawn, request.subsample = request.subsample, request.larger_subsample
            self.rows_for().refuse(*asked, cells=N_FINE_BINS)
            request.subsample = drawn

    def _plan_units(self, standardize: Any) -> float:
        """What is left if the units cost as much as they may."""
        request, loss, mu = self.request, self.losses[0], self._mu
        n, linked, bounded = request.n, loss.link != "identity", loss.largest_response is not None
        own, inner = standardize is False, request.coding is not None
        offset = (
            linked
            and request.record_weights is not None
            and request.record_weights.offset is not None
        )
        columns = request.n_covariates * (not own) + int(not bounded) + offset
        if inner and standardize:
            raise InvalidInput(CODED)
        had = (
            self._released
            if standardize is None
            else inner or isinstance(standardize, PrivateScaling)
        )
        if isinstance(standardize, Standardized):
            self._purchase = GivenScaling(request, standardize, response=not linked)
            has = standardize._told
            if (linked and not bounded and "size" not in has) or (offset and "offset" not in has):
                raise InvalidInput(UNTOLD)
        elif columns and not had:
            purse = ScalingBudget(n, columns, mu)
            share = purse.share()
            slopes = request.fit_intercept and request.n_covariates > 0 and not own
            scarce = slopes and n * mu < MIN_RECORDS_FACTOR * request.dimension**1.5
            hidden = (slopes or own) and purse.hidden()
            told = self._scale is not None or inner  # as if it said that units are right
            if (scarce or hidden) and (own or (standardize is None and told)):
                return mu
            self.only_mean = scarce or hidden
            if self.only_mean and not loss.of_mean:
                raise InvalidBudget(
                    UNLOCATED.format(strength=n * mu, loss=loss.name, q=request.n_covariates)
                )
            if not self.only_mean:
                self._purchase = PrivateScaling(
                    request, mu * share**0.5, covariates=not own,
                    response=not bounded, linked=linked, labels=loss.binary_response, whole=mu,
                    inner=inner or own, offset=offset,
                    responses=loss.responses,
                )  # fmt: skip
                return mu * (1.0 - share) ** 0.5
        return mu

    def _coded_scale(self) -> float | None:
        """The scale that was told, in units of the response that may be bought."""
        found: float | None = self.request.coded_scale(self._scale)
        found = found and found / self._inner_spread
        return None if found is None else min(max(found, FARTHEST[0]), FARTHEST[1])

    def rows_for(self, ledger: Ledger | None = None) -> PreconditionedQueries:
        """The rows, in the units that were bought; this ledger pays, or the request's."""
        request = self.request
        # of the records as they are: what is asked about has an objective of its own
        objective, prepared = _squares(request.n_covariates, request.fit_intercept)
        about = objective, prepared
        few = (
            None
            if request.subsample is None
            else request.curator(*about, ledger=ledger, from_subsample=True)
        )
        rows = PreconditionedQueries(request.curator(*about, ledger=ledger), few=few)
        rows = self._weighing.weighted(rows) if self._weighing else rows
        return rows if self.kept is None else rows.mapped(self.kept)

    @property
    def units(self) -> Standardized | None:
        """The units, once they were bought, unless a schema's are the results'."""
        bought = self._purchase
        return None if bought is None or bought.inner else bought.released

    @property
    def _released(self) -> bool:
        """Whether the records are in units that were bought before."""
        coding = self.request.coding
        return coding is not None and bool(coding.released_units())

    @property
    def _inner(self) -> Standardized | None:
        """Units that were bought beside a schema's."""
        bought = self._purchase
        return bought.released if bought is not None and bought.inner else None

    @property
    def _inner_spread(self) -> float:
        return 1.0 if self._inner is None else self._inner.response[1]

    def begin(self) -> None:
        """Buy the units, and what several losses share."""
        setting = self.setting
        if self._purchase is not None:
            self._purchase.in_place(spend=False)  # the rest is for the fit
            released = self._purchase.released
            assert released is not None
            setting = setting._replace(scale=self._coded_scale(), **released._told)
            self._leave_out(released.unseen)
            if self.request.subsample is not None:
                self._sample_for(farthest(released._found), setting)
        self.setting = setting
        if self._weighing:
            self._weighing.estimate_unit(self.rows_for())
        if len(self.losses) > 1:
            rows = self.rows_for()
            asked = BudgetAllocation(rows.n, rows.dimension, self._left()).budgets(
                setting.query_counts, 1
            )
            self._begun = initial_estimate(rows, setting, asked)
        self._each = self._left() * self._part

    def _sample_for(self, far: float, setting: Setting) -> None:
        """Few tell nothing of a level that is rarer than they reach: a larger sample, or all."""
        request, p = self.request, self.request.dimension
        for few in filter(None, (request.subsample, request.larger_subsample)):
            asked = BudgetAllocation(few.n, p, self._left()).budgets(setting.query_counts, 1)
            rounds = (
                setting.query_counts[0] and few.n <= SUBSAMPLE_PART * request.n
            )  # go on from the pilot
            if far <= asked.longest_radius(few.n, p) * (1.0 if rounds else FIRST_PART):
                request.subsample = few
                return
        request.subsample = None

    def _leave_out(self, unseen: Sequence[str]) -> None:
        """Go on without the columns of which no spread was seen; never without any."""
        names = self.request._coefficient_names()
        kept = np.array([name not in unseen for name in names])
        if not kept.all() and kept.any():
            self.kept = np.eye(len(names))[:, kept]

    def _left(self) -> float:
        spent = math.fsum([spend.mu**2 for _, spend, _ in self.request.ledger._entries])
        return math.sqrt(self._mu**2 - spent) * (1.0 - ROUNDING_SUM)

    def fit(self, progress: Callable[[int, int], None] | None) -> Fit:
        """Charge, and fit the one loss; where coefficients are out of reach, its mean alone."""
        request, loss = self.request, self.losses[0]
        if self.only_mean:
            from dpfast.regression.intercept_only import fit_intercept_only

            request.charge_rows_separately()
            scale = 1.0 if loss.needs_scale else None
            shown = request.objective(loss._bounded, scale=scale, weights=Mallows(1.0), ridge=0.0)
            return fit_intercept_only(request, shown, progress)
        report = None
        if progress is not None:
            from dpfast.fit_requests.progress import checked_progress

            report = checked_progress(progress, MAX_STEPS)
        iterates: list[Array] = []

        def so_far(error: str) -> Fit | None:
            return self.result(0, iterates, None, UNFINISHED % error) if iterates else None

        # what is paid for must arrive
        with KeepReleased(so_far, privacy=request.guarantee, scales=lambda: self.units):
            label = request.label("fit", loss.name)
            request.account.charge(label, request.default_fit_bytes())
            self.begin()
            return self.result(0, iterates, self.run(0, iterates, report))

    def run(
        self, k: int, iterates: list[Array], report: Callable[[int, int], None] | None
    ) -> SolverResult:
        """Spend what one loss has; points on the way are added to ``iterates``."""
        setting = self.setting._replace(loss=self.losses[k])
        rows = self.rows_for()
        purse = BudgetAllocation(rows.n, rows.dimension, self._each)
        return clipped_newton(rows, setting, purse, self._inference, iterates, report, self._begun)

    def result(
        self, k: int, iterates: list[Array], found: SolverResult | None, missing: str = ""
    ) -> Fit:
        """What a loss's run says, in the units of the columns as they came."""
        request, loss = self.request, self.losses[k]
        covariance, predictor = None, None
        if self.kept is not None:
            iterates = [self.kept @ iterate for iterate in iterates]
            found = found and found.with_columns(self.kept)
        if found is not None:
            kept, predictor = self._predictor(found, loss)
            if self._inference:
                covariance = self._covariance(found, loss)
        if self._inner is not None:
            back = natural_map(self._inner._coding, request.fit_intercept, False)
            iterates = [back.params(iterate) for iterate in iterates]
            covariance = covariance and back.covariance(covariance)
            predictor = None if predictor is None else back.params(predictor)
        fit = request.make_result(
            iterates[-1],
            loss._bounded,
            model=_model(loss, found, self._response_spread, request.dimension),
            method="standardised covariates, clipped gradients"
            if found is None
            else _described(found, request.n, kept, self._inference),
            iterates=iterates,
            covariance=covariance,
            missing=missing,
            predictor=predictor,
        )
        fit.units = self.units
        if found is not None and self._scale is None and loss.needs_scale:
            fit._scale = found.scale * self._response_spread
        return fit if self.units is None else fit.natural

    def _predictor(self, found: SolverResult, loss: Loss) -> tuple[float, Array | None]:
        """Part of the slopes that predictions keep, and their coefficients unless that is all."""
        request, p = self.request, self.request.dimension
        if not request.fit_intercept or p == 1 or loss.link != "identity" or not loss.of_mean:
            return 1.0, None
        rows = found.unmapping.T @ found.unmapping  # mean of the rows' outer products
        mean = rows[0] / max(rows[0, 0], TINY)
        slopes = found.theta[1:]
        inner = rows[1:, 1:] - np.outer(rows[0, 1:], mean[1:])
        noise = (p - 1) * _size(found, request.n_units) ** 2
        kept = shrinkage_factor(float(slopes @ inner @ slopes), noise)
        if kept == 1.0:
            return 1.0, None
        level = mean @ found.theta - kept * (mean[1:] @ slopes)
        return kept, np.concatenate([[level], kept * slopes])

    def _covariance(self, found: SolverResult, loss: Loss) -> Covariance:
        """Sampling, noise, and what clipping and hidden directions may have left undone."""
        request, p = self.request, found.mapping.shape[1]
        n = request.n_units
        W, whole = found.mapping, found.meat / max(1, n - p)
        whole.flat[:: p + 1] += found.noise**2 + found.residual_bias_var
        bias, strength = found.clipping_bias / _size(found, n), request.n * self._each
        target = f"the {loss.name} fit" if loss.curvature_varies else "ordinary least squares"
        needed = MIN_RECORDS_FACTOR * p**1.5
        remarks = [FEW.format(strength=strength, needed=needed)] if strength < needed else []
        if bias > p**0.5:  # a coefficient's is moved by more than one
            remedy = (
                "a larger budget, or "
                if loss.curvature_varies
                else "a larger budget, a robust loss, or "
            )
            remarks.append(CUT.format(bound=found.bound, bias=bias, target=target, remedy=remedy))
        if found.downweighted_share > LEANS:
            remarks.append(LONG.format(power=found.weight_exponent, target=target))
        if found.nonconvergence is not None:
            columns = _most_of(found.nonconvergence, request)
            remarks.append(SHORT.format(bound=found.bound, columns=columns, target=target))
        remarks += self._separated(found, loss) + self._massed(found, loss, target)
        matrix = W @ whole @ W.T
        matrix = 0.5 * (matrix + matrix.T)
        if found.n_hidden:
            from dpfast.inference.rendering.targets import hidden_directions

            part = W * W @ found.residual_bias_var / np.maximum(matrix.diagonal(), TINY)
            remarks.append(hidden_directions(found.n_hidden, len(W), _most_of(part, request)))
        if self.kept is not None:  # others are not estimable
            out = ~self.kept.any(axis=1)
            matrix[out], matrix[:, out] = np.nan, np.nan
        covariance = Covariance(
            matrix,
            0,
            np.zeros(len(W)),  # what is undone is in the matrix
            tuple(remarks),
            VarianceNoise(None, 0.0, found.meat, found.meat_scale, n, W),
        )
        return covariance if found.records_detected else covariance.uncounted()

    def _massed(self, found: SolverResult, loss: Loss, target: str) -> list[str]:
        """What is said of a quantile where many responses are alike."""
        if not isinstance(loss, Quantile):
            return []
        bought, how = self._purchase, []
        if found.denser > min(DENSER, DENSE + 1.6 * abs(loss.tau - 0.5)):
            how.append(f"{found.denser:.2g} times as many as around it")
        if bought is not None and bought.released is not None and bought.released._tied:
            how.append("about a fifth of them or more have one value")
        return [MASS.format(how=", and ".join(how), target=target)] if how else []

    def _separated(self, found: SolverResult, loss: Loss) -> list[str]:
        """What is said of levels in which all responses are alike."""
        request = self.request
        whole = self.setting.alone and request.fit_intercept
        if not (loss.may_separate and whole and found.scores is not None):
            return []
        from dpfast.regression.separation import separated

        to_own = np.eye(request.dimension)
        codings: list[Any] = [request.coding]
        if self._inner is not None:
            codings.insert(0, self._inner.coding)
        try:
            for coding in codings:
                if coding is not None:
                    to_own = natural_map(coding, True, False).matrix @ to_own
        except InvalidInput:  # functions of columns, which a schema codes: its units are theirs
            pass
        try:
            with np.errstate(all="ignore"):
                own = np.asarray(np.linalg.inv(to_own).T, np.float64)
        except np.linalg.LinAlgError:  # units that float64 does not tell from none
            return []
        told = request.column_names, self.setting.offset, request.n, self._each
        return separated(found.scores, loss, own, *told)

    @property
    def _response_spread(self) -> float:
        """What a 1 of the response is worth in its own units."""
        coding = self.request.coding
        return self._inner_spread * (1.0 if coding is None else coding.response_units()[1])


@lru_cache(maxsize=64)
def _squares(q: int, fit_intercept: bool) -> tuple[Objective, Prepared]:
    """Least squares of so many columns, remembered with what kernels are asked."""
    objective = Objective(LeastSquares(), Mallows(1.0), q, fit_intercept=fit_intercept)
    return objective, prepare(objective)


def _is_plain(given: Any, default: Any) -> bool:
    return given is default or (isinstance(given, type(default)) and bool(given == default))


def _model(loss: Loss, found: SolverResult | None, spread: float, p: int) -> str:
    if not loss.curvature_varies:
        return f"{MODEL}, dimension={p}"
    told = f"{loss!r}, dimension={p}"
    if found is not None and loss.needs_scale:
        scale = found.scale * spread
        told += f", residual scale {scale:.4g}{loss._target(scale)}"
    return told


def _size(found: SolverResult, n: int) -> float:
    """A whitened coefficient's standard error of sampling and noise."""
    p = found.mapping.shape[1]
    return float(found.meat.trace() / (p * max(1, n - p)) + found.noise**2) ** 0.5


def _described(found: SolverResult, n: int, kept: float, inference: bool) -> str:
    """One sentence for a summary, then others for who asks for the details."""
    unseen = min(found.max_undetected, n)
    weights = found.weight_exponent
    said = [
        f"{found.steps} noisy Newton steps on standardised{', down-weighted' * (weights > 0.0)} "
        f"covariates; gradients clipped at {found.bound:.4g}, "
        f"about {100.0 * found.clipped_share:.2g}% clipped",
        f"Up to {unseen:.0f} more clipped records may be hidden by the noise of that share",
    ]
    if inference:
        far = unseen * found.bound / (n * max(_size(found, n), TINY))
        said.append(
            f"Clipped, they move coefficients by at most {far:.2g} standard errors together; "
            "without clipping there would be no limit"
        )
    if weights > 0.0:
        said.append(f"Rows far from the others have leverage weights to the power {weights:g}")
    if kept < 1.0:
        said.append(f"Predictions keep {kept:.2g} of the slopes")
    return ". ".join(said)


def _most_of(direction: Array, request: FitRequest) -> str:
    """Names of the columns that most of a direction is of."""
    sizes = np.abs(direction)
    names = zip(request._coefficient_names(), sizes, strict=True)
    return ", ".join(name for name, size in names if size >= 0.5 * sizes.max())
