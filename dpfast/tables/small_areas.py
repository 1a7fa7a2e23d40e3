"""``small_areas``: regressions of thousands of areas, by a hierarchical model of released sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, positive as positive_number
from dpfast.curator.tables.areas import Areas, grams_receipt
from dpfast.curator.tables.levels import in_any_level
from dpfast.data.formula import terms_of
from dpfast.data.schema import Schema
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.fit_requests.planned_run import Analysis, Progress, run
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.inference.degrees import Covariance, are_representable
from dpfast.inference.natural import NaturalMap, natural_map
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.formula import table_source, with_columns
from dpfast.scaling.budget import records_needed, refuse_too_few_records
from dpfast.scaling.private import plan_scaling, refuse_no_columns
from dpfast.scaling.remarks import in_level
from dpfast.tables.area_model import (
    Correction,
    Posterior,
    Released,
    clipped_sampling,
    pooled_line,
    positive,
    posterior_of,
    unpacked,
)
from dpfast.tables.areas import SmallAreas
from dpfast.tables.grouping import levels_beside, one_grouping, refuse_within

#: Shares of mu^2 left by the column scales: of the Gram matrices of areas around one line, of those
#: around each area's own line, and of one of all areas that clips almost nothing.
FIRST_SHARE, SECOND_SHARE, POOLED_SHARE = 0.18, 0.72, 0.1

#: Squared clipping norms, in units of the number of columns with the response: of the first
#: matrices, and the range of those of the second, which grow with the records of an area.
FIRST_RADIUS, SECOND_RADII, MAX_POOLED_RADIUS = 2.5, (2.0, 8.0), 100.0

#: Noise of an area's sums in units of their sampling error up to which the second norm grows, and
#: of the matrix of all areas in standard errors of one area.
SECOND_NOISE, POOLED_NOISE = 0.3, 0.2

#: Noise of an entry of an average area's matrix, in records of it: above the first, intervals may
#: cover less than they say; above the second the call is refused.
MAX_GRAM_NOISE, REFUSED_GRAM_NOISE = 0.1, 0.25

#: Fewest areas: of fewer, what varies between areas is not known well enough.
MIN_AREAS = 10

SMALL = (
    "areas have about {records:.0f} records on average, and noise in their covariates' sums is "
    "{noise:.0%} of these: intervals may cover less than they say. Use coarser areas, fewer "
    "covariates or a larger budget."
)

#: Error of an estimated variance between areas, as part of it, above which the result warns.
MAX_BETWEEN_ERROR = 0.5

VARIES_LITTLE = (
    "what varies between areas in {names} is not clearly different from zero. Intervals of areas "
    "take its variance as known, and may cover less than they say. Use more areas or a larger "
    "budget, or one coefficient for all areas: dpfast.fit with the areas as levels."
)

INSTEAD = (
    "Sums by area are of records that count alike. dpfast.tables.fits takes weights, of up to 200 "
    "levels; dpfast.fit takes persons, with C(area, levels=[...]) as a factor."
)

#: Copies of the records in memory at the same time, at most.
COPIES = 8


def small_areas(
    formula: str,
    table: Any,
    by: str,
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> SmallAreas:
    """Fit a regression in each of thousands of declared areas, by a hierarchical linear model.

    Each area has coefficients of its own, which vary around a mean with a covariance that is
    estimated, too.  Coefficients are empirical Bayes estimates (Fay and Herriot 1979): the less an
    area's records say, the nearer they are to the mean.  The sums of an area have the noise of an
    analysis with all of the budget, however many areas there are.

    Parameters
    ----------
    formula : str
        ``"y ~ x"``, as for :func:`dpfast.fit`, with an intercept; least squares.
    table
        As for :func:`dpfast.tables.counts`: an incomplete record contributes zero.
        :func:`dpfast.records` adds offsets, which are subtracted from the response.
    by : str
        A column that the schema declares categorical, with at least 10 levels.
    least : float
        Public: areas with fewer records, by a released count, are suppressed.
    schema, privacy, ledger, noise
        As for :func:`dpfast.tables.fits`.

    Returns
    -------
    SmallAreas
        Intervals cover .95 **on average over areas**, and not of every single one.  An area far
        from all others is pulled to them.

    Raises
    ------
    InvalidInput, InvalidBudget
        If an argument is not as described, or areas are too small for the budget; before the
        charge.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T11); column scales are
    claims D1 to D6.  The hierarchical model is made of released numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> area, x = np.arange(40_000) % 100, rng.normal(size=40_000)
    >>> slopes = 1.0 + 0.5 * rng.normal(size=100)
    >>> table = {"x": x, "area": area, "y": slopes[area] * x + rng.normal(size=40_000)}
    >>> schema = dpfast.Schema({"area": dpfast.Categorical(list(range(100)))})
    >>> found = dpfast.tables.small_areas("y ~ x", table, "area", schema=schema, privacy=1.0)
    >>> found.params.shape, bool(np.corrcoef(found.params[:, 1], slopes)[0, 1] > 0.95)
    ((100, 2), True)
    """
    account = Account(privacy, ledger)
    analysis = _SmallAreas(formula, table, by, schema, account, least, noise)
    request = analysis.request
    label = request.label("tables.small_areas", f"areas={len(analysis.levels)}")
    return run(analysis, label, request.memory_bytes(COPIES, include_arrays=True))


class _SmallAreas(Analysis[SmallAreas]):
    """Regressions by area: public decisions before the charge, and three releases after it."""

    returns_unused = True

    def __init__(
        self,
        formula: Any,
        table: Any,
        by: Any,
        schema: Any,
        account: Account,
        least: Any,
        noise: NoiseSource | None,
    ) -> None:
        self.by, self.levels = one_grouping(schema, by)
        if len(self.levels) < MIN_AREAS:
            raise InvalidInput(
                f"{self.by!r} has {len(self.levels)} levels; a model of what varies between areas "
                f"needs at least {MIN_AREAS}. Fit each by itself: dpfast.tables.fits(...)."
            )
        self.least = positive_number(least, "least", or_zero=True)
        source = with_columns(table_source(table))
        table = source.covariates
        terms = terms_of(formula, schema, table)
        refuse_within([self.by], [terms.columns])
        if not terms.coding.fit_intercept:
            raise InvalidInput("each area has an intercept of its own: leave '- 1' out.")
        design, y = terms.coding.design(table), terms.left.design(table).X[:, 0]
        self._codes = levels_beside(schema, self.by, table, y)
        y = in_any_level(y, self._codes)
        source = source.but(
            covariates=design.X, response=y, names=tuple(design.names), terms=terms.coding
        )
        self.request = request = FitRequest(
            source, None, account, fit_intercept=True, noise=noise, takes=("offset",),
            instead=INSTEAD,
        )  # fmt: skip
        refuse_no_columns(request)
        self.names = ("intercept", *request.column_names)
        self._plan(account.total.mu * (1.0 - ROUNDING_SUM))

    def _plan(self, mu: float) -> None:
        """Divide the budget, choose the clipping norms from public numbers, and refuse."""
        request, columns = self.request, len(self.names) + 1
        n, areas = request.n, len(self.levels)
        enough = records_needed(columns, mu)
        self._scaling, rest = plan_scaling(request, mu, least=enough, also=in_level(self.by))
        shares = (FIRST_SHARE, SECOND_SHARE, POOLED_SHARE)
        self._mu = [rest * math.sqrt(share) * (1.0 - ROUNDING_SUM) for share in shares]
        refuse_too_few_records(n, columns, rest, ": coefficients of areas", "covariates")
        size = n / areas
        second = _second_radius(self._mu[1], size, columns)
        pooled = POOLED_NOISE * self._mu[2] * n / math.sqrt(size)
        pooled = min(max(pooled, second), MAX_POOLED_RADIUS * columns)
        self._squared_radii = [FIRST_RADIUS * columns, second, pooled]
        self._gram_noise = _gram_noise(self._mu[1], size, columns)
        if self._gram_noise > REFUSED_GRAM_NOISE:
            records = _times_needed(lambda k: _gram_noise(self._mu[1], k * size, columns))
            budgets = _times_needed(lambda k: _gram_noise(k * self._mu[1], size, columns))
            raise InvalidBudget(
                f"{areas} areas of {size:.3g} records on average are too small: at this budget "
                f"{records:.1f} times as many records an area are needed, or {budgets:.1f} times "
                "mu. Use coarser areas or fewer covariates."
            )
        for part, cells in zip(self._mu, (areas, areas, 1), strict=True):
            grams_receipt(n, cells, columns, part)

    def too_few(self) -> str:
        """Ask the counts of complete records in declared areas."""
        return self._scaling.too_few()

    def nothing(self, remark: str) -> SmallAreas:
        """Report that no area was estimated."""
        areas, d = len(self.levels), len(self.names)
        rows, square = np.full((areas, d), np.nan), np.full((d, d), np.nan)
        return self._result(rows, rows, square[0], square, square, rows[:, 0], math.nan, (remark,))

    def query(self, report: Progress | None) -> Posterior:
        """Release column scales and Gram matrices, and fit the hierarchical model to these."""
        self._scaling.in_place()
        request, d, n_areas = self.request, len(self.names), len(self.levels)
        areas = Areas(
            request.records, self._codes, n_areas, request.ledger, request.noise, request.threads
        )
        spreads, centres = np.ones(n_areas), np.zeros((n_areas, d))
        none = Correction(np.zeros(d), 0.0, 1.0)
        self._map, undetected = np.eye(d), request.undetected
        # a column that looks constant is left out: of the others nothing is clipped for it
        self._kept = np.array([float(name not in undetected) for name in self.names])
        first = self._released(areas, centres, spreads, 0)
        found = posterior_of(first, centres, spreads, none, self._root(0))
        whitening, back = _whitening(first.total[:d, :d])
        self._map, centres, spreads = whitening, found.params @ back, np.sqrt(found.variances)
        second = self._released(areas, centres, spreads, 1)
        pooled = self._released(areas, centres, spreads, 2)
        self._counted = self._counts(second, pooled)
        correction = self._correction(second.total, pooled)
        return posterior_of(second, centres, spreads, correction, self._root(1))

    def _root(self, k: int) -> Array:
        """Return what the k-th clipping leaves of sampling; centred rows begin with the map's."""
        return clipped_sampling(self._map[0], self._squared_radii[k])

    def _released(self, areas: Areas, centres: Array, spreads: Array, k: int) -> Released:
        """Release the Gram matrices of the k-th query."""
        squared_radius = self._squared_radii[k]
        answer = areas.grams(
            self._kept[:, None] * self._map,
            centres,
            spreads,
            math.sqrt(squared_radius),
            self._mu[k],
            pooled=k == 2,
        )
        noise = answer.noise_scale * squared_radius * math.sqrt(0.5)
        size = len(self.names) + 1
        matrices = unpacked(answer.value, size, squared_radius)
        left_out = np.flatnonzero(self._kept == 0.0)  # now as white columns, without their noise
        matrices[:, left_out], matrices[:, :, left_out] = 0.0, 0.0
        matrices[:, left_out, left_out] = matrices[:, :1, 0]
        return Released(matrices, noise)

    def _correction(self, clipped: Array, pooled: Released) -> Correction:
        """Compare sums over all areas with sums that clip almost nothing."""
        whole = pooled.total
        slopes, variance = pooled_line(whole)
        clipped_slopes, clipped_variance = pooled_line(clipped)
        noise = pooled.noise / max(float(whole[0, 0]), 1.0)
        ratio = max(variance / clipped_variance, 1.0)
        return Correction(slopes - clipped_slopes, noise**2, ratio)

    def _counts(self, second: Released, pooled: Released) -> tuple[Array, float]:
        """Return noisy numbers of records by area, and the standard deviation of their noise.

        ``(1, 0, ...)`` is the mapped row times ``ones``.  Clipped records count by their weight,
        which is made up for on average.
        """
        d = len(self.names)
        ones = np.linalg.solve(self._map, np.eye(d)[0])
        square = second.matrices[:, :d, :d]
        counts = np.einsum("i,kij,j->k", ones, square, ones)
        total = float(ones @ pooled.total[:d, :d] @ ones)
        up = max(total / max(float(counts.sum()), 1.0), 1.0)
        return up * counts, up * second.noise * math.sqrt(2.0) * float(ones @ ones)

    def report(self, answers: Posterior) -> SmallAreas:
        """Make the result, in original units."""
        request = self.request
        assert request.coding is not None
        units = natural_map(request.coding, True, False)
        dropped = self._kept == 0.0
        to_own = NaturalMap(units.matrix @ (self._kept[:, None] * self._map), units.constant)
        counts, count_noise = self._counted
        covariances = to_own.matrix @ answers.covariances @ to_own.matrix.T
        prior = answers.prior
        small = SMALL.format(records=request.n / len(self.levels), noise=self._gram_noise)
        suppressed = (counts < self.least) & (self.least > 0.0)  # without a rule all are shown
        params, mean = to_own.params(answers.params), to_own.params(prior.mean)
        params[:, dropped], mean[dropped] = np.nan, np.nan
        of_mean = to_own.matrix @ prior.mean_covariance @ to_own.matrix.T
        between = to_own.matrix @ prior.covariance @ to_own.matrix.T
        little = _varying_little(between.diagonal(), _diagonals(covariances)) & ~dropped
        named = ", ".join([name for name, said in zip(self.names, little, strict=True) if said])
        remarks = (
            *request.remarks,
            *[small] * (self._gram_noise > MAX_GRAM_NOISE),
            *[VARIES_LITTLE.format(names=named)] * bool(named),
        )
        variances = np.stack([of_mean.diagonal(), between.diagonal(), *_diagonals(covariances)])
        known = request.released_covariance(
            Covariance(of_mean, 0, np.zeros(len(mean)), remarks), self.names
        )
        held = are_representable(variances, np.stack([mean, mean, *params])).all(axis=0)
        known = known.without_unrepresentable(~held & ~dropped, self.names)
        lost = np.isnan(known.matrix.diagonal())
        bse = np.sqrt(np.where(lost, np.nan, _diagonals(covariances)))
        params[suppressed], bse[suppressed] = np.nan, np.nan
        between = np.where(lost | lost[:, None], np.nan, between)
        return self._result(
            params, bse, mean, known.matrix, between, counts, count_noise, known.remarks
        )

    def _result(
        self,
        params: Array,
        bse: Array,
        mean: Array,
        mean_covariance: Array,
        between: Array,
        counts: Array,
        count_noise: float,
        remarks: tuple[str, ...],
    ) -> SmallAreas:
        return SmallAreas(
            by=self.by,
            levels=self.levels,
            names=self.names,
            params=params,
            bse=bse,
            mean=mean,
            mean_covariance=mean_covariance,
            between=between,
            counts=counts,
            count_noise=count_noise,
            least=self.least,
            n_records=self.request.n,
            privacy=self.request.guarantee(),
            remarks=remarks,
        )


def _second_radius(mu: float, size: float, columns: int) -> float:
    """Return the squared norm of the second matrices, by public numbers of an average area."""
    per_column = SECOND_NOISE * mu * math.sqrt(size) / columns
    return columns * min(max(per_column, SECOND_RADII[0]), SECOND_RADII[1])


def _gram_noise(mu: float, size: float, columns: int) -> float:
    """Return the noise of an entry of an average area's matrix, in records of it."""
    return _second_radius(mu, size, columns) / mu / size


def _times_needed(noise: Callable[[float], float]) -> float:
    """Return a multiple, in tenths, at which this noise, which never grows, is small enough.

    The norm grows with the budget, so that over a range more of it leaves the noise as it is.
    """
    tenths = 10
    while noise(0.1 * tenths) > REFUSED_GRAM_NOISE:
        tenths += max(1, tenths // 20)
    return 0.1 * tenths


def _varying_little(between: Array, posterior: Array) -> NDArray[np.bool_]:
    """Say whose variance T between areas has an error of more than a half of it.

    The information about T is ``sum 1 / (T + v)^2 / 2`` (Datta and Lahiri 2000) for areas whose own
    estimates have the variance v; ``T / (T + v)`` is their reliability.
    """
    with np.errstate(all="ignore"):
        reliability = np.clip(1.0 - posterior / between, 0.0, 1.0)
    return np.asarray(MAX_BETWEEN_ERROR**2 * (reliability**2).sum(axis=0) < 2.0)


def _diagonals(matrices: Array) -> Array:
    """Return the diagonals of matrices."""
    return np.einsum("kii->ki", matrices)


def _whitening(gram: Array) -> tuple[Array, Array]:
    """Return the map that whitens rows on average, and the transpose of its inverse."""
    average = gram / max(float(gram[0, 0]), 1.0)
    values, vectors = np.linalg.eigh(positive(average, np.array(1e-3)))
    roots = np.sqrt(values)
    return vectors / roots @ vectors.T, vectors * roots @ vectors.T
