"""``absorbed``: least squares with fixed effects of declared levels, which are never released."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from dpfast.curator.effects import planned_rows
from dpfast.curator.tables.levels import Levels, in_any_level, levels_receipt
from dpfast.data.formula import parts_at, refuse_terms_of, terms_of
from dpfast.data.schema import Schema
from dpfast.data.source import records
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.degrees import Covariance, nothing_known
from dpfast.inference.results import Fit
from dpfast.models import LeastSquares
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit
from dpfast.regression.formula import table_source, with_columns
from dpfast.scaling.budget import records_needed, refuse_too_few_records
from dpfast.scaling.private import plan_scaling, refuse_no_columns
from dpfast.scaling.remarks import ENDED, in_level
from dpfast.tables.grouping import grouping_of, levels_beside

Array = NDArray[np.float64]

#: Shares of mu^2 left by the column scales: of each round of sums by level, and of the Gram matrix
#: after each round.  Least squares on the centred records has the rest.
SUM_SHARES, GRAM_SHARE = (0.05, 0.05, 0.05, 0.14), 0.025

#: Norms to which rows are clipped, in units of the root of their number of columns: in each round
#: of sums, and in the Gram matrices.  The first round is wider, for its rows hold the levels'
#: means.
SUM_RADII, GRAM_RADIUS = (2.5, 2.0, 2.0, 1.5), 1.5

#: Variance of the noise in a level's mean, relative to the variance within levels, above which the
#: level is dropped: beyond it the noise would be most of what the centred records vary by.
MAX_MEAN_NOISE = 0.5

#: A direction of the regressors is dropped if less than this part of its variance within levels is
#: its own (the rest is noise of the means), or if its eigenvalue is below this many times the
#: largest that noise alone gives.
MIN_OWN_SHARE, MIN_EIGENVALUE = 0.3, 4.0

#: How far a level's mean moves in the last round, in units of the clipping norm: above the first,
#: its spread is taken from the Gram matrix as one between levels; above the second it is dropped.
MAX_MOVE, MAX_KEPT_MOVE = 0.5, 0.8

#: Share of the records in dropped levels above which the result warns.
MIN_WARNED_SHARE = 0.02

ABSORBED = (
    "it is constant within the absorbed levels, and has no coefficient. Leave it out; a product "
    "with another column ('x:z') may stay."
)

INSTEAD = (
    "Sums by level are of records that count alike. dpfast.fit takes weights and persons with the "
    "levels as regressors, C(state, levels=[...]); where persons are the levels, pass effects="
    '"person" with each="person" there.'
)

#: Copies of the records in memory at the same time, at most.
COPIES = 8


def absorbed(
    formula: str,
    table: Any,
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Fit:
    """Fit least squares with fixed effects of many levels, which are never released.

    Estimates the slopes of ``y ~ x + C(state)``, for up to thousands of states, by the within
    estimator.  Each level's noisy mean is subtracted from its records, in four rounds.  Slopes and
    intervals are corrected for the noise of these means.  Levels with so few records that noise
    would dominate their means are dropped, by released counts, and a warning says how many.
    Regressors that do not vary enough within levels are dropped, too: their coefficients are NaN.

    Parameters
    ----------
    formula : str
        ``"y ~ x + C(year, levels=[2001, 2002]) | state"``: terms as for :func:`dpfast.fit`,
        and after the bar the column whose levels are absorbed.
    table
        As for :func:`dpfast.tables.counts`: an incomplete record contributes zero.
        :func:`dpfast.records` adds offsets, which are subtracted from the response.
    schema : Schema
        Declares that column as Categorical: its levels are public.  Other columns that it declares
        are clipped to their ranges, or have its levels.
    privacy, ledger, noise
        As for :func:`dpfast.fit`: the **total**, column scales and intervals included.

    Returns
    -------
    Fit
        The slopes, in original units, without an intercept.  Standard errors allow for unequal
        variances, but not for correlation between records of a level.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T8); column scales are
    claims D1 to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.integers(0, 20, 20_000)
    >>> level = rng.normal(size=20)[state]
    >>> x = level + rng.normal(size=20_000)
    >>> table = {"x": x, "state": state, "y": 2.0 * x + 5.0 * level + rng.normal(size=20_000)}
    >>> schema = dpfast.Schema({"state": dpfast.Categorical(list(range(20)))})
    >>> fit = dpfast.tables.absorbed("y ~ x | state", table, schema=schema, privacy=1.0)
    >>> fit.names, bool(abs(fit.params["x"] - 2.0) < 0.1)
    (('x',), True)
    """
    account = Account(privacy, ledger)
    analysis = _Absorbed(formula, table, schema, account, noise)
    request = analysis.request
    label = request.label("tables.absorbed", f"levels={analysis.n_levels}")
    return run(analysis, label, request.memory_bytes(COPIES, include_arrays=True))


def parts_of(formula: Any) -> tuple[str, str]:
    """Split a formula into the regression and the absorbed column."""
    parts = parts_at("|", formula) if type(formula) is str else []
    if len(parts) < 2:
        raise InvalidInput(
            "formula must be text with a bar, 'y ~ x | state': regressors, and after the bar the "
            f"column whose levels are absorbed; received {described(formula)}."
        )
    regression, name = "|".join(parts[:-1]), parts[-1].strip()
    if len(quoted := name.split("`")) == 3 and not quoted[0] + quoted[2] and quoted[1]:
        return regression, quoted[1]
    if "~" in name or "+" in name or not name:
        raise InvalidInput(
            "after the bar of 'y ~ x | state' stands one column, which the schema declares "
            f"Categorical; received {described(name)}. Of two groupings absorb that with more "
            "levels and write the other as C(year, levels=[...]). Instruments are for "
            "dpfast.effects.two_stage."
        )
    return regression, name


class _Round(NamedTuple):
    """Released numbers after a round of sums.

    ``matrix``, ``slopes`` and ``spread`` whiten the regressors and scale the residuals;
    ``residual_means`` are the means of the whitened rows that the round found and removed.
    """

    matrix: Array
    slopes: Array
    spread: float
    means: Array
    residual_means: Array
    counts: Array
    variances: Array


class _Within(NamedTuple):
    """Regressors that vary within levels, and the whitened rows in which they are fitted.

    ``noise_map`` maps the noise of the means, of unit variance in the rows of the last round, to
    these rows.  ``noise`` is its mean variance over records; ``noise_square`` says how unequal it
    is between levels.
    """

    regressors: NDArray[np.intp]
    state: _Round
    row_map: Array
    kept: NDArray[np.bool_]
    n_far: int
    noise_map: Array
    noise: float
    noise_square: float


class _Estimate(NamedTuple):
    """Least squares on the centred records, None without a regressor; what they were made of."""

    fit: Fit | None
    within: _Within


class _Absorbed(Analysis[Fit]):
    """Fixed effects: public decisions before the charge, and the rounds after it."""

    returns_unused = True

    def __init__(
        self, formula: Any, table: Any, schema: Any, account: Account, noise: NoiseSource | None
    ) -> None:
        regression, self._by = parts_of(formula)
        grouping = grouping_of(schema, self._by, ())
        self.n_levels, total = grouping.n_cells, account.total
        source = with_columns(table_source(table))
        table = source.covariates
        coding, response, _ = terms_of(regression, schema, table)
        if not coding.fit_intercept:
            raise InvalidInput("absorbed levels include the intercept: leave '- 1' out.")
        refuse_terms_of(coding, [self._by], ABSORBED)
        refuse_terms_of(response, [self._by], ABSORBED)
        design, y = coding.design(table), response.covariates(table)[:, 0]
        self._codes = levels_beside(schema, self._by, table, y)
        self.names = tuple(design.names)
        y = in_any_level(y, self._codes)
        source = source.but(covariates=design.X, response=y, names=self.names, terms=coding)
        self.request = request = FitRequest(
            source, None, account, fit_intercept=True, noise=noise, takes=("offset",),
            instead=INSTEAD,
        )  # fmt: skip
        refuse_no_columns(request)
        n, q, mu = request.n, request.n_covariates, total.mu * (1.0 - ROUNDING_SUM)
        least = records_needed(request.dimension, mu)
        self._scaling, rest = plan_scaling(request, mu, least=least, also=in_level(self._by))
        self._sums = [rest * math.sqrt(part) for part in SUM_SHARES]
        self._gram = rest * math.sqrt(GRAM_SHARE)
        used = sum(SUM_SHARES) + GRAM_SHARE * len(SUM_SHARES)
        self._fit = GDP(rest * math.sqrt(1.0 - used) * (1.0 - ROUNDING_SUM))
        refuse_too_few_records(n, request.dimension, self._fit.mu, ": slopes", "regressors")
        min_count = self.min_count
        if n < 0.5 * self.n_levels * min_count:
            raise InvalidBudget(
                f"{self.n_levels} levels of {n / self.n_levels:.3g} records on average are too "
                f"small: at this budget a level's means need {min_count:.0f}. Use coarser levels, "
                "more records or a larger budget."
            )
        for part in self._sums:
            levels_receipt(n, self.n_levels, q + 1, part)
        rows = planned_rows(n, q + 1, request.noise)
        rows.refuse((self._gram,))
        # refuses, before the charge, what the least-squares fit would refuse
        self._least_squares(request.with_account(Account(self._fit)))

    @property
    def min_count(self) -> float:
        """Number of records that a level needs for its mean to exceed the noise; public."""
        radius = SUM_RADII[-1] * math.sqrt(self.request.n_covariates + 1)
        return 2.0 * radius / (self._sums[-1] * math.sqrt(MAX_MEAN_NOISE))

    def too_few(self) -> str:
        """Ask the counts of complete records."""
        return self._scaling.too_few()

    def nothing(self, remark: str) -> Fit:
        """Report that no slope was estimated."""
        p = len(self.names)
        return self._result(np.full(p, np.nan), nothing_known(p, remark), ENDED, ())

    def query(self, report: Progress | None) -> _Estimate:
        """Release column scales and level means, and fit the centred records."""
        self._scaling.in_place()
        request = self.request
        levels = Levels(
            request.records, self._codes, self.n_levels, request.ledger, request.noise,
            request.threads,
        )  # fmt: skip
        p = levels.columns - 1
        start = np.zeros((self.n_levels, p + 1))
        zeros = np.zeros(self.n_levels)
        state = _Round(np.eye(p), np.zeros(p), 1.0, start, start, zeros, zeros)
        for k in range(len(SUM_SHARES)):
            if k:
                state = _whitened(self._noisy_gram(levels, state), state)
            state = self._round(levels, state, k)
        within = self._within(levels, state)
        if not within.regressors.size:
            return _Estimate(None, within)
        rows = levels.mapped(state.means, within.kept, within.row_map)
        names = [self.names[j] for j in within.regressors]
        part = Account(self._fit, request.ledger)
        centred = records(rows[:, :-1], rows[:, -1], names=names)
        inner = FitRequest(centred, None, part, fit_intercept=True, noise=request.noise)
        return _Estimate(self._least_squares(inner).fit(), within)

    def _least_squares(self, request: FitRequest) -> DefaultFit:
        """Plan least squares in the released column scales."""
        return DefaultFit(
            request, [LeastSquares()], scale=None, standardize=self._scaling,
            inference=True,
        )  # fmt: skip

    def _noisy_gram(
        self, levels: Levels, state: _Round, kept: NDArray[np.bool_] | None = None
    ) -> tuple[Array, float]:
        """Release the Gram matrix within levels; return it and the largest eigenvalue of noise."""
        radius = GRAM_RADIUS * math.sqrt(levels.columns)
        answer = levels.gram(state.means, _map(state), radius, self._gram, kept)
        return answer.value, math.sqrt(2.0 * levels.columns) * answer.noise_scale

    def _within(self, levels: Levels, state: _Round) -> _Within:
        """Find the regressors that vary within levels by more than noise, and whiten their rows.

        A level far from all others is clipped, so its mean still moves by about the clipping norm
        in the last round.  What is left of it is spread between levels, taken from the Gram matrix.
        """
        p = levels.columns - 1
        kept = (state.variances <= MAX_MEAN_NOISE) & (state.counts > 0.0)
        gram, floor = self._noisy_gram(levels, state, kept)
        weights = np.where(kept, state.counts, 0.0)
        weights = weights / max(float(weights.sum()), 1e-300)
        variances = np.where(kept, state.variances, 0.0)
        noise = float(weights @ variances)
        clip, margin = SUM_RADII[-1] * math.sqrt(p + 1), 3.0 * np.sqrt(variances)
        moves = state.residual_means
        moved = kept & (np.linalg.norm(moves, axis=1) > MAX_MOVE * clip + margin)
        between = moves[moved].T * weights[moved] @ moves[moved]
        own = (gram - noise * np.eye(p + 1) - between)[:p, :p]
        values, vectors = np.linalg.eigh(own)
        with_noise = np.einsum("ji,jk,ki->i", vectors, gram[:p, :p], vectors)
        lost = values < np.maximum(MIN_EIGENVALUE * floor, MIN_OWN_SHARE * with_noise)
        pivots = np.arange(p)
        if lost.any():  # SciPy 1.11 refuses to factor a matrix without rows
            # QR with column pivoting: drop one regressor, the largest, for each lost direction
            pivots = qr((state.matrix @ vectors[:, lost]).T, mode="r", pivoting=True)[1]
        regressors = np.sort(pivots[int(lost.sum()) :])
        varying = np.pad(vectors[:, ~lost], ((0, 1), (0, 0)))
        distance = np.hypot(np.linalg.norm(moves @ varying, axis=1), moves[:, p])
        far = kept & (distance > MAX_KEPT_MOVE * clip + margin)
        final = _whitened((gram, floor), state, regressors)
        columns = np.append(regressors, p)
        row_map = np.zeros((p + 1, len(columns)))
        row_map[columns] = _map(final)
        noise_map = np.asarray(np.linalg.inv(_map(state)) @ row_map, dtype=np.float64)
        noise_square = float(weights**2 @ variances**2)
        n_far = int(np.count_nonzero(far))
        return _Within(
            regressors, final, row_map, kept & ~far, n_far, noise_map, noise, noise_square
        )

    def _round(self, levels: Levels, state: _Round, k: int) -> _Round:
        """Update the means of levels by noisy sums of the centred, whitened rows."""
        radius = SUM_RADII[k] * math.sqrt(levels.columns)
        answer = levels.sums(state.means, _map(state), radius, self._sums[k])
        noise, sums = answer.noise_scale, answer.value.reshape(self.n_levels, -1)
        counts = np.maximum(sums[:, -1], noise)
        variances = (radius * noise / counts) ** 2
        residual_means = radius * sums[:, :-1] / counts[:, None]
        residual_means[variances > 1.0] = 0.0  # the update would be noise
        means = state.means + residual_means @ np.linalg.inv(_map(state))
        positive = np.where(sums[:, -1] > noise, sums[:, -1], 0.0)
        return state._replace(
            means=means, residual_means=residual_means, counts=positive, variances=variances
        )

    def report(self, answers: _Estimate) -> Fit:
        """Correct the slopes for the noise of the means, and report them in original units.

        Noise in the means acts as measurement error in regressors and response.  Its known
        covariance is subtracted (Fuller 1987, *Measurement Error Models*, section 2.2).
        """
        inner, within = answers
        request, regressors = self.request, within.regressors
        p = len(self.names)
        params, matrix = np.full(p, np.nan), np.full((p, p), np.nan)
        unfinished, remarks, spread = np.zeros(p), [*self._warnings(within)], None
        method = "no regressor varies within levels"
        if inner is not None:
            corrected = _Corrected.of(inner, within)
            known = inner._covariance
            assert known is not None and known.spread is not None and known.spread.units is not None
            scales, unit = _units(request)
            state = within.state
            to_own = (unit / scales[regressors])[:, None] * state.spread * state.matrix
            through = to_own @ corrected.inverse
            variance = through @ known.matrix[1:, 1:] @ through.T
            variance += within.noise_square * through @ corrected.noise @ through.T
            params[regressors] = unit / scales[regressors] * state.slopes
            params[regressors] += to_own @ corrected.slopes
            matrix[np.ix_(regressors, regressors)] = 0.5 * (variance + variance.T)
            unfinished[regressors] = np.abs(through) @ known.unfinished[1:]
            units = np.zeros((p, known.spread.units.shape[1]))
            units[regressors] = through @ known.spread.units[1:]
            spread = known.spread._replace(units=units)
            remarks = [*known.remarks, *remarks]
            method, _, _ = inner.method.partition(". Predictions keep")  # there are none
        covariance = Covariance(matrix, 0, unfinished, tuple(remarks), spread)
        method = f"noisy means of levels in {len(SUM_SHARES)} rounds; {method}"
        return self._result(params, covariance, method, request.remarks)

    def _result(
        self, params: Array, covariance: Covariance, method: str, remarks: tuple[str, ...]
    ) -> Fit:
        model = (
            "LeastSquares(), target: the coefficients of ordinary least squares within the "
            f"{self.n_levels} levels of {self._by}"
        )
        return self.request.fit_of_slopes(params, covariance, model, method, remarks)

    def _warnings(self, within: _Within) -> Iterator[str]:
        """Warn of dropped levels and regressors, from released numbers."""
        counts, kept = within.state.counts, within.kept
        dropped = 1.0 - float(counts[kept].sum()) / max(float(counts.sum()), 1e-300)
        if dropped > MIN_WARNED_SHARE or within.n_far:
            n_small = int(np.count_nonzero(~kept)) - within.n_far
            small = f"{n_small} are too small for their means to exceed the noise"
            far = f"{within.n_far} lie too far from the others for their means to be estimated"
            reasons = " and ".join([small] * bool(n_small) + [far] * bool(within.n_far))
            yield (
                f"of {self.n_levels} levels {reasons}; they were dropped, with about {dropped:.1%} "
                "of the records. Use coarser levels, logarithms of columns that span orders of "
                "magnitude, or a larger budget."
            )
        lost = [name for j, name in enumerate(self.names) if j not in within.regressors]
        if lost:
            yield (
                f"within levels {lost} barely {'varies' if len(lost) == 1 else 'vary'} beyond the "
                "noise, or depend on the other regressors: their coefficients are not estimable "
                "(NaN), and the others are those of a model without them. Leave them out, or use "
                "coarser levels or a larger budget."
            )


class _Corrected(NamedTuple):
    """Slopes in whitened units, corrected for the noise of the means, and how they depend on it."""

    slopes: Array
    inverse: Array
    noise: Array

    @staticmethod
    def of(fit: Fit, within: _Within) -> _Corrected:
        """Subtract the covariance of the noise from the moments of the fit."""
        k = len(within.regressors)
        regressors, response = within.noise_map[:, :k], within.noise_map[:, k]
        square = regressors.T @ regressors
        values, vectors = np.linalg.eigh(np.eye(k) - within.noise * regressors.T @ regressors)
        inverse = vectors / np.maximum(values, MIN_OWN_SHARE) @ vectors.T
        slopes = inverse @ (fit.params[1:] - within.noise * regressors.T @ response)
        residual = response - regressors @ slopes
        cross = regressors.T @ residual
        noise = float(residual @ residual) * square + np.outer(cross, cross)
        return _Corrected(slopes, inverse, noise)


def _whitened(noisy_gram: tuple[Array, float], state: _Round, regressors: Any = None) -> _Round:
    """Recompute slopes, residual spread and whitening from a Gram matrix of some regressors."""
    (gram, floor), back = noisy_gram, np.linalg.inv(_map(state))
    chosen = slice(None) if regressors is None else regressors
    values, vectors = np.linalg.eigh(gram)
    gram = back.T @ (vectors * np.maximum(values, floor)) @ vectors.T @ back
    square, moments, total = gram[:-1, :-1][chosen][:, chosen], gram[:-1, -1][chosen], gram[-1, -1]
    slopes = np.linalg.solve(square, moments)
    residual = max(float(total) - float(moments @ slopes), 1e-12 * float(total), 1e-300)
    values, vectors = np.linalg.eigh(square)
    matrix = vectors / np.sqrt(np.maximum(values, 1e-300)) @ vectors.T
    return state._replace(matrix=matrix, slopes=slopes, spread=math.sqrt(residual))


def _map(state: _Round) -> Array:
    """Return the map from columns and response to whitened rows and scaled residuals."""
    p = len(state.slopes)
    row_map = np.zeros((p + 1, p + 1))
    row_map[:p, :p] = state.matrix
    row_map[:p, p], row_map[p, p] = -state.slopes / state.spread, 1.0 / state.spread
    return row_map


def _units(request: FitRequest) -> tuple[Array, float]:
    """Return the scales of the columns and of the response."""
    assert request.coding is not None
    coded = [request.coding.columns[name].spread for name in request.column_names]
    return np.array(coded), request.coding.response_units()[1]
