"""The result of a default fit: coefficients, covariance, warnings and texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidInput
from dpfast.inference.degrees import LARGEST, SMALLEST, Covariance, VarianceNoise, nothing_known
from dpfast.inference.natural import NaturalMap, natural_map
from dpfast.inference.results import Fit
from dpfast.kernels.linalg import variance_bounds
from dpfast.models import Loss, Quantile
from dpfast.regression import few_records
from dpfast.regression.design_basis import main_columns
from dpfast.regression.shrinkage import shrunken_coefficients, standard_error
from dpfast.solvers.pcn.clipping import may_bias
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.result import SolverResult

if TYPE_CHECKING:
    from dpfast.fit_requests.request import ResultFacts
    from dpfast.inference.guarantees import Guarantee
    from dpfast.regression.default_fit import Solution
    from dpfast.scaling.standardized import Standardized

#: Part of the rows' squares that down-weighting removes, from which on a fit warns.
MAX_DOWNWEIGHTED = 0.1

MODEL = "LeastSquares(), target: the coefficients of ordinary least squares"

CLIPPING_BIAS = (
    "gradients were clipped at {bound:.3g}, which may move coefficients by up to {bias:.2g} "
    "standard errors together: intervals may not cover the coefficients of {target}. "
    "Use {remedy}the logarithm of a response or covariate that spans orders of magnitude."
)

DOWN_WEIGHTED = (
    "rows far from the others were down-weighted (leverage weights to the power {power:g}), so "
    "they influence the estimate less than {target}. Use the logarithm of covariates that span "
    "orders of magnitude, or a larger budget."
)

OVERSTATED_CURVATURE = (
    "scores vary by less than half of the curvature in a direction, mainly of {columns}: almost no "
    "response differs there from what the model expects, or those that do are clipped. Standard "
    "errors may be wrong by a factor up to 2. Use a larger budget, or merge levels of few records."
)

HIGH_LEVERAGE = (
    "rows far from the others decide: along {columns} scores vary {ratio:.2g} times as much as in "
    "other directions. Either residuals grow there, or some rows lie off the line (bad leverage "
    "points). Intervals are for {target}, with all rows. Look for wrong records, use logarithms, "
    'or compare a fit that limits such rows: dpfast.Objective("log-cosh", '
    "scale=dpfast.FreeScale(low, high), weights=dpfast.Mallows(1.4)) with standardize=True."
)

NOT_CONVERGED = (
    "the coefficients of {columns} depend on records whose gradients are clipped at {bound:.3g}, "
    "and the Newton steps have not converged: intervals may not cover those of {target}. Use a "
    "larger budget, or a robust loss."
)

#: Variances that float64 surely represents, however their sums are rounded, and how far apart the
#: largest and the smallest may be: rounding changes p terms by parts of 1e-16 each.
SMALLEST_SURE, LARGEST_SURE, ROUNDING_RANGE = SMALLEST * 1e20, LARGEST * 1e-20, 1e10

#: Density of residuals at a quantile over that around it, from which on a fit warns of a point
#: mass: for the median, and at most.  Errors of one side are dense at their end without one.
MIN_MASS_DENSITY, MAX_MASS_DENSITY = 1.5, 1.9

POINT_MASS = (
    "many records have the same response, or lie on the fitted line ({how}): neighbouring "
    "quantiles cannot be distinguished there, and intervals may not cover those of {target}. Fit "
    'the mean ("least-squares"), or two parts: whether the response has that value, and '
    "the other responses."
)

TOO_FEW = (
    "n mu = {strength:.3g} is below {factor:g} p^1.5 = {needed:.3g}: coefficients are mostly "
    "noise. Use more records, a larger budget, or fewer covariates."
)


class DefaultResult(NamedTuple):
    """Released numbers of one loss, and public facts, from which the fit is made; no records."""

    facts: ResultFacts
    loss: Loss
    solution: Solution
    guarantee: Guarantee
    basis: Array | None
    #: Private units, and whether they are inside those of a schema.
    released: Standardized | None
    inner: bool
    inference: bool
    #: Whether the residual scale was given.
    scaled: bool
    #: Whether rows are single records without weights; mean and spread of their offsets.
    alone: bool
    offset: tuple[float, float]
    #: What the loss could spend.
    mu: float
    least_strength: float
    few_records: bool
    #: Why the call ended after its counts, if it did.
    stopped: str
    further_remarks: list[str]

    def fit(self) -> Fit:
        """Make the fit: its coefficients and warnings at once, the rest when it is first read."""
        facts, result = self.facts, self.solution.solution
        plain = self.basis is None and not (self.inner or self.few_records or facts.few_complete)
        if result is None or result.n_hidden or not (plain and result.records_detected):
            return self._made(None)
        params, to_natural = self.solution.iterates[-1], None
        if facts.coding is not None:
            to_natural = natural_map(facts.coding, facts.fit_intercept, False)
            params = to_natural.params(params)
        remarks = self._remarks(result, to_natural) if self.inference else []
        finite = all(map(math.isfinite, params.tolist()))
        if not (finite and self._is_representable(result, to_natural)):
            return self._made(remarks)
        return Fit._read_later(
            lambda: self._made(remarks), params, facts.names, facts.n, self.guarantee,
            (*facts.remarks, *remarks),
        )  # fmt: skip

    def _is_representable(self, result: SolverResult, to_natural: NaturalMap | None) -> bool:
        """Say whether float64 surely represents each variance, without computing them."""
        smallest, largest = variance_bounds(
            result.mapping, result.meat, result.residual_bias_var, result.bias_directions,
            result.noise, None if to_natural is None else to_natural.matrix,
        )  # fmt: skip
        return smallest > SMALLEST_SURE and largest < min(LARGEST_SURE, ROUNDING_RANGE * smallest)

    def _made(self, remarks: list[str] | None) -> Fit:
        """Make the whole fit, in the columns' original units; None: remarks are not known yet."""
        with np.errstate(all="ignore"):  # of released numbers, in whatever units
            return self._coded(remarks).natural

    def _coded(self, remarks: list[str] | None) -> Fit:
        """Make the fit of coded columns."""
        facts, loss, solution = self.facts, self.loss, self.solution
        iterates, result, missing = solution
        covariance, predictor = None, None
        method = "standardised covariates, clipped gradients"
        if self.basis is not None:
            iterates = [self.basis @ iterate for iterate in iterates]
            result = result and result.in_columns(self.basis)
        if result is not None:
            shrinkage = 1.0
            if facts.fit_intercept and len(facts.names) > 1 and loss.of_mean:
                shrinkage, predictor = shrunken_coefficients(result, loss, facts.n_units)
            method = _method_text(result, facts.n, shrinkage, self.inference)
            if self.inference:
                covariance = self._covariance(
                    result, self._remarks(result) if remarks is None else remarks
                )
        elif self.stopped and self.inference:
            covariance, missing = nothing_known(len(facts.names), missing), ""
        if self._inner_units is not None:
            back = natural_map(self._inner_units._coding, facts.fit_intercept, False)
            iterates = [back.params(iterate) for iterate in iterates]
            covariance = covariance and back.covariance(covariance)
            predictor = None if predictor is None else back.params(predictor)
        spread = self._response_spread
        params, model = iterates[-1], _model_text(loss, result, spread, len(facts.names))
        if self.few_records:
            predictor, params = params, np.full(params.shape, np.nan)
            model = few_records.MODEL.format(name=loss.name)
            method = few_records.described(len(solution.iterates[-1]))
        fit = facts.make_result(
            params,
            loss._bounded,
            model=model,
            method=method,
            privacy=self.guarantee,
            iterates=iterates,
            covariance=covariance,
            missing=missing,
            predictor=predictor,
        )
        fit.units = None if self.inner else self.released
        if result is not None and not self.scaled and loss.needs_scale:
            fit._scale = result.scale * spread
        elif self.few_records and loss.needs_scale:
            fit._scale = spread
        elif result is not None and loss.of_mean and not loss.curvature_varies:
            fit._scale = self._residual_deviation(result)
        return fit

    def _residual_deviation(self, result: SolverResult) -> float | None:
        """Return the standard deviation of residuals: the scores' variance in the intercept."""
        if not (self.inference and self.facts.fit_intercept and result.records_detected):
            return None
        of_intercept = result.unmapping[:, 0]
        variance = max(0.0, float(of_intercept @ result.meat @ of_intercept))
        return math.sqrt(variance) * self._response_spread

    def _covariance(self, result: SolverResult, remarks: list[str]) -> Covariance:
        """Sum the variances of sampling, noise and bias; add the warnings of the fit."""
        n, p = self.facts.n_units, result.mapping.shape[1]
        mapping = result.mapping
        variance = result.meat / max(1, n - p)
        variance.flat[:: p + 1] += result.noise**2 + result.residual_bias_var
        if result.bias_directions is not None:
            variance = variance + result.bias_directions @ result.bias_directions.T
        matrix = mapping @ variance @ mapping.T
        matrix = 0.5 * (matrix + matrix.T)
        if result.n_hidden:
            from dpfast.inference.rendering.targets import hidden_directions

            bias_share = mapping * mapping @ result.residual_bias_var
            bias_share /= np.maximum(matrix.diagonal(), TINY)
            columns = main_columns(bias_share, self.facts.names)
            remarks = [*remarks, hidden_directions(result.n_hidden, len(mapping), columns)]
        if self.basis is not None:
            dropped = ~self.basis.any(axis=1)
            matrix[dropped], matrix[:, dropped] = np.nan, np.nan
        covariance = Covariance(
            matrix,
            0,
            np.zeros(len(mapping)),  # the variance of the bias is in the matrix
            tuple(remarks),
            VarianceNoise(None, 0.0, result.meat, result.meat_scale, n, mapping),
        )
        return covariance if result.records_detected else covariance.uncounted()

    def _remarks(self, result: SolverResult, to_natural: NaturalMap | None = None) -> list[str]:
        """Return warnings of what intervals may not cover, from released numbers.

        ``to_natural`` is the map to the columns' own units, where it is known.
        """
        names, loss, p = self.facts.names, self.loss, result.mapping.shape[1]
        remarks = []
        target = (
            f"a {loss.name} fit without privacy"
            if loss.curvature_varies
            else "ordinary least squares"
        )
        strength = self.facts.n * self.mu
        needed = self.least_strength * p**1.5
        if strength < needed:
            remarks.append(
                TOO_FEW.format(strength=strength, needed=needed, factor=self.least_strength)
            )
        error = standard_error(result, self.facts.n_units)
        if may_bias(result.clipping_bias, error, p):
            bias = result.clipping_bias / error
            robust = "" if loss.curvature_varies else "a robust loss, "
            remedy = f"a larger budget, {robust}or "
            remarks.append(
                CLIPPING_BIAS.format(bound=result.bound, bias=bias, target=target, remedy=remedy)
            )
        if result.downweighted_share > MAX_DOWNWEIGHTED:
            remarks.append(DOWN_WEIGHTED.format(power=result.weight_exponent, target=target))
        if result.nonconvergence is not None:
            columns = main_columns(result.nonconvergence, names)
            remarks.append(NOT_CONVERGED.format(bound=result.bound, columns=columns, target=target))
        if result.overstated is not None:
            columns = main_columns(result.overstated, names)
            remarks.append(OVERSTATED_CURVATURE.format(columns=columns))
        if result.excess_variation is not None:
            columns = main_columns(result.excess_variation, names)
            ratio = result.variance_ratio
            remarks.append(HIGH_LEVERAGE.format(columns=columns, ratio=ratio, target=target))
        remarks += self._separated(result, to_natural) + self._point_mass(result, target)
        return remarks + self.further_remarks

    def _point_mass(self, result: SolverResult, target: str) -> list[str]:
        """Warn of a quantile where many responses are equal."""
        loss, how = self.loss, []
        if not isinstance(loss, Quantile):
            return []
        if result.denser > min(MAX_MASS_DENSITY, MIN_MASS_DENSITY + 1.6 * abs(loss.tau - 0.5)):
            how.append(f"{result.denser:.2g} times as many as around it")
        if self.released is not None and self.released._tied:
            how.append("about a fifth of them or more have one value")
        return [POINT_MASS.format(how=", and ".join(how), target=target)] if how else []

    def _separated(self, result: SolverResult, known: NaturalMap | None) -> list[str]:
        """Warn of levels in which all responses seem equal."""
        facts, loss = self.facts, self.loss
        counts_records = self.alone and facts.fit_intercept
        if not (loss.may_separate and counts_records and result.scores is not None):
            return []
        from dpfast.regression.separation import separated

        to_natural = np.eye(len(facts.names)) if known is None else known.matrix
        codings: list[Any] = [] if known is not None else [facts.coding]
        if known is None and self._inner_units is not None:
            codings.insert(0, self._inner_units.coding)
        try:
            for coding in codings:
                if coding is not None:
                    to_natural = natural_map(coding, True, False).matrix @ to_natural
        except InvalidInput:  # functions of columns that a schema codes: keep its units
            pass
        try:
            with np.errstate(all="ignore"):
                natural = np.ascontiguousarray(np.linalg.inv(to_natural).T)
        except np.linalg.LinAlgError:  # units too small for float64
            return []
        return separated(
            result.scores, loss, natural, facts.names[1:], self.offset, facts.n, self.mu
        )

    @property
    def _inner_units(self) -> Standardized | None:
        """Private units inside a schema's: results are in the schema's."""
        return self.released if self.inner else None

    @property
    def _response_spread(self) -> float:
        """Unit of the coded response, in the response's own units."""
        coding, inner = self.facts.coding, self._inner_units
        return (1.0 if inner is None else inner.response[1]) * (
            1.0 if coding is None else coding.response_units()[1]
        )


def _model_text(loss: Loss, result: SolverResult | None, spread: float, p: int) -> str:
    if not loss.curvature_varies:
        return f"{MODEL}, dimension={p}"
    text = f"{loss!r}, dimension={p}"
    if result is not None and loss.needs_scale:
        scale = result.scale * spread
        text += f", residual scale {scale:.4g}{loss._target(scale)}"
    return text


def _method_text(result: SolverResult, n: int, shrinkage: float, inference: bool) -> str:
    """Describe the method: one sentence for a summary, then those for the details."""
    undetected = min(result.max_undetected, n)
    power = result.weight_exponent
    sentences = [
        f"{result.steps} noisy Newton steps on standardised{', down-weighted' * (power > 0.0)} "
        f"covariates; gradients clipped at {result.bound:.4g}, "
        f"about {100.0 * result.clipped_share:.2g}% clipped",
        f"Up to {undetected:.0f} more clipped records may be hidden by the noise of that share",
    ]
    if inference:
        pull = undetected * result.bound / (n * max(standard_error(result, n), TINY))
        sentences.append(
            f"Clipped, they move coefficients by at most {pull:.2g} standard errors together; "
            "without clipping there would be no limit"
        )
    if power > 0.0:
        sentences.append(f"Rows far from the others have leverage weights to the power {power:g}")
    if shrinkage < 1.0:
        sentences.append(f"Predictions keep {shrinkage:.2g} of the slopes")
    return ". ".join(sentences)
