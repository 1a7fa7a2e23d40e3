"""``absorbed``: least squares within declared levels, whose own coefficients are never released."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from dpfast.curator.effects import planned_rows
from dpfast.curator.tables.levels import Levels, levels_receipt
from dpfast.data.formula import codings_of_table, parts_at, refuse_terms_of
from dpfast.data.schema import Schema
from dpfast.data.source import records
from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.fit_requests.rows import NewRows
from dpfast.inference.degrees import Covariance
from dpfast.inference.results import Fit
from dpfast.models import LeastSquares
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.road import DefaultFit
from dpfast.regression.shared import plan_scaling, refuse_too_few_records
from dpfast.regression.standardise import cell_remarks, refuse_no_columns
from dpfast.tables.grouping import declared_levels, grouping_of

Array = NDArray[np.float64]

#: Shares of mu^2, of what units leave: of each round of sums by level, and of the Gram after each.
#: Least squares of what is left has the rest.
SUMS, GRAM = (0.05, 0.05, 0.05, 0.14), 0.025

#: Norms to which rows are held, in the root of their number of columns: of the first round, whose
#: rows have levels in them, and of the others; and of the Grams.
RADII, GRAM_RADIUS = (2.5, 2.0, 2.0, 1.5), 1.5

#: Variance of the noise in a level's mean, in that within levels, beyond which it is left out.
LOUD = 0.5

#: Part of a direction's variance within levels that is its own, and not that of the levels' noise,
#: and the same in what noise alone does to the least eigenvalue of a Gram: below either, nothing is
#: told of it.
LEAST_OWN, LEAST_SEEN = 0.3, 4.0

#: Of the norm that rows are held to, how far the mean of a level moves in the last round if what is
#: left of it is between levels, and from where on the level is left out.
STILL_MOVES, STILL_FAR = 0.5, 0.8

#: Share of the records in levels that are left out from which on it is told.
LEFT_OUT = 0.02

ABSORBED = (
    "within the levels that are absorbed it is a constant, and has no coefficient. Leave it out; a "
    "product with another column ('x:z') may stay."
)

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
    """Least squares with a coefficient for each of many levels, of which none is released.

    The slopes of ``y ~ x + C(state)``, for up to thousands of states: means of a level are released
    with noise and taken from its records, twice more of what these leave, and what the noise does
    to the slopes is corrected and in their intervals.  Levels with so few records that the noise of
    their means would be most of what is left of them are left out, by released counts; a warning
    says how many.  So are regressors that hardly vary within levels: their coefficients are NaN.

    Parameters
    ----------
    formula : str
        ``"y ~ x + C(year, levels=[2001, 2002]) | state"``: terms as in :func:`dpfast.fit` without
        a schema, and after the bar the column whose levels are absorbed.
    table
        As of :func:`dpfast.tables.counts`: an incomplete record contributes zero.
    schema : Schema
        Declares that column, Categorical: its levels are public.  Nothing else of it is used.
    privacy, ledger, noise
        As of :func:`dpfast.fit`: the **total**, units and intervals included.

    Returns
    -------
    Fit
        Of the slopes, in the columns' own units, without an intercept; standard errors are robust
        to unequal variances and not to records of a level that go together.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T8); units are claims D1
    to D6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.integers(0, 20, 20_000)
    >>> level = rng.normal(size=20)[state]
    >>> x = level + rng.normal(size=20_000)
    >>> table = {"x": x, "state": state, "y": 2.0 * x + 5.0 * level + rng.normal(size=20_000)}
    >>> schema = dpfast.Schema({"state": dpfast.Categorical(list(range(20)))})
    >>> found = dpfast.tables.absorbed("y ~ x | state", table, schema=schema, privacy=1.0)
    >>> found.names, bool(abs(found.params["x"] - 2.0) < 0.1)
    (('x',), True)
    """
    account = Account(privacy, ledger)
    plan = _Plan(formula, table, schema, account, noise)
    with KeepReleased(privacy=plan.request.guarantee):
        label = plan.request.label("tables.absorbed", f"levels={plan.n_levels}")
        account.charge(label, plan.request.memory_bytes(COPIES, include_arrays=True))
        return plan.run()


def parts_of(formula: Any) -> tuple[str, str]:
    """The regression, and what is absorbed."""
    parts = parts_at("|", formula) if type(formula) is str else []
    if len(parts) < 2:
        raise InvalidInput(
            "formula must be text with a bar, 'y ~ x | state': regressors, and after the bar the "
            f"column whose levels are absorbed; received {described(formula)}."
        )
    left, name = "|".join(parts[:-1]), parts[-1].strip()
    if len(quoted := name.split("`")) == 3 and not quoted[0] + quoted[2] and quoted[1]:
        return left, quoted[1]
    if "~" in name or "+" in name or not name:
        raise InvalidInput(
            "after the bar of 'y ~ x | state' stands one column, which the schema declares "
            f"Categorical; received {described(name)}. Of two groupings absorb that with more "
            "levels and write the other as C(year, levels=[...]). Instruments are for "
            "dpfast.effects.two_stage."
        )
    return left, name


class _Round(NamedTuple):
    """Released numbers after a round of sums."""

    matrix: Array
    slopes: Array
    spread: float
    means: Array
    left: Array
    counts: Array
    variances: Array


class _Within(NamedTuple):
    """What varies within levels: regressors that are told, and the rows in which they are fitted.

    ``turned`` says how the noise of the means, of unit variance where these were asked for, is in
    such rows; ``varies`` how much of it there is in a record, and how unequal that is.
    """

    told: NDArray[np.intp]
    now: _Round
    map: Array
    kept: NDArray[np.bool_]
    far: int
    turned: Array
    varies: tuple[float, float]


class _Plan:
    """Everything that is decided before the charge, and the run after it."""

    def __init__(
        self, formula: Any, table: Any, schema: Any, account: Account, noise: NoiseSource | None
    ) -> None:
        left, self._by = parts_of(formula)
        grouping = grouping_of(schema, self._by, ())
        self.n_levels, total = grouping.n_cells, account.total
        coding, response = codings_of_table(left, table)
        if not coding.fit_intercept:
            raise InvalidInput("levels that are absorbed hold the intercept: leave '- 1' out.")
        refuse_terms_of(coding, [self._by], ABSORBED)
        refuse_terms_of(response, [self._by], ABSORBED)
        design, y = coding.design(table), response.covariates(table)[:, 0]
        self._codes = declared_levels(schema, self._by, table)
        if len(self._codes) != len(y):
            raise InvalidInput(
                f"columns must be of one length; received {sorted({len(self._codes), len(y)})}."
            )
        self.names = tuple(design.names)
        source = records(design.X, y, names=self.names)
        self.request = request = FitRequest(source, None, account, fit_intercept=True, noise=noise)
        refuse_no_columns(request)
        n, q, mu = request.n, request.n_covariates, total.mu * (1.0 - ROUNDING_SUM)
        self._purchase, rest = plan_scaling(request, mu)
        self._sums = [rest * math.sqrt(part) for part in SUMS]
        self._gram = rest * math.sqrt(GRAM)
        used = sum(SUMS) + GRAM * len(SUMS)
        self._fit = GDP(rest * math.sqrt(1.0 - used) * (1.0 - ROUNDING_SUM))
        refuse_too_few_records(n, request.dimension, self._fit.mu, ": slopes", "regressors")
        least = self.least
        if n < 0.5 * self.n_levels * least:
            raise InvalidBudget(
                f"{self.n_levels} levels of {n / self.n_levels:.3g} records on average are too "
                f"small: at this budget a level's means take {least:.0f}. Use coarser levels, more "
                "records or a larger budget."
            )
        for part in self._sums:
            levels_receipt(n, self.n_levels, q + 1, part)
        rows = planned_rows(n, q + 1, request.noise)
        rows.refuse((self._gram,))
        # refuses what an answer would be refused for
        self._planned(request.with_account(Account(self._fit)))

    @property
    def least(self) -> float:
        """Records of a level of which a mean is told from noise; public."""
        radius = RADII[-1] * math.sqrt(self.request.n_covariates + 1)
        return 2.0 * radius / (self._sums[-1] * math.sqrt(LOUD))

    def run(self) -> Fit:
        """Buy units, take means from the records, and fit what is left."""
        self._purchase.in_place()
        request = self.request
        levels = Levels(
            request.records, self._codes, self.n_levels, request.ledger, request.noise,
            request.threads,
        )  # fmt: skip
        p = levels.columns - 1
        start = np.zeros((self.n_levels, p + 1))
        nothing = np.zeros(self.n_levels)
        now = _Round(np.eye(p), np.zeros(p), 1.0, start, start, nothing, nothing)
        for k in range(len(SUMS)):
            if k:
                now = _whitened(self._asked(levels, now), now)
            now = self._round(levels, now, k)
        within = self._within(levels, now)
        if not within.told.size:
            return self._natural(None, within)
        rows = levels.mapped(now.means, within.kept, within.map)
        names = [self.names[j] for j in within.told]
        part = Account(self._fit, request.ledger)
        inner = records(rows[:, :-1], rows[:, -1], names=names)
        left = FitRequest(inner, None, part, fit_intercept=True, noise=request.noise)
        return self._natural(self._planned(left).fit(None), within)

    def _planned(self, request: FitRequest) -> DefaultFit:
        """Least squares in the units that are bought before."""
        return DefaultFit(
            request, [LeastSquares()], scale=None, standardize=self._purchase,
            inference=True,
        )  # fmt: skip

    def _asked(
        self, levels: Levels, now: _Round, kept: NDArray[np.bool_] | None = None
    ) -> tuple[Array, float]:
        """Mean products of the columns and the response within levels, and what noise does."""
        radius = GRAM_RADIUS * math.sqrt(levels.columns)
        answer = levels.gram(now.means, _map(now), radius, self._gram, kept)
        return answer.value, math.sqrt(2.0 * levels.columns) * answer.noise_scale

    def _within(self, levels: Levels, now: _Round) -> _Within:
        """Which regressors vary within levels by more than noise, and their whitened rows.

        A level whose mean still moves by most of the norm that rows are held to, as one far from
        all others does, is between levels what is left of it: that is taken from the Gram.
        """
        p = levels.columns - 1
        kept = (now.variances <= LOUD) & (now.counts > 0.0)
        gram, floor = self._asked(levels, now, kept)
        weights = np.where(kept, now.counts, 0.0)
        weights = weights / max(float(weights.sum()), 1e-300)
        loud = np.where(kept, now.variances, 0.0)
        noise = float(weights @ loud)
        held, sure = RADII[-1] * math.sqrt(p + 1), 3.0 * np.sqrt(loud)
        moved = kept & (np.linalg.norm(now.left, axis=1) > STILL_MOVES * held + sure)
        apart = now.left[moved].T * weights[moved] @ now.left[moved]
        own = (gram - noise * np.eye(p + 1) - apart)[:p, :p]
        values, vectors = np.linalg.eigh(own)
        whole = np.einsum("ji,jk,ki->i", vectors, gram[:p, :p], vectors)
        lost = values < np.maximum(LEAST_SEEN * floor, LEAST_OWN * whole)
        taken = np.arange(p)
        if lost.any():  # SciPy 1.11 refuses to factor what has no rows
            # of each such direction one regressor, that has most of it
            taken = qr((now.matrix @ vectors[:, lost]).T, mode="r", pivoting=True)[1]
        told = np.sort(taken[int(lost.sum()) :])
        seen = np.linalg.norm(now.left @ np.pad(vectors[:, ~lost], ((0, 1), (0, 0))), axis=1)
        far = kept & (np.hypot(seen, now.left[:, p]) > STILL_FAR * held + sure)
        after = _whitened((gram, floor), now, told)
        columns = np.append(told, p)
        mapped = np.zeros((p + 1, len(columns)))
        mapped[columns] = _map(after)
        turned = np.asarray(np.linalg.inv(_map(now)) @ mapped, dtype=np.float64)
        varies = noise, float(weights**2 @ loud**2)
        few = int(np.count_nonzero(far))
        return _Within(told, after, mapped, kept & ~far, few, turned, varies)

    def _round(self, levels: Levels, now: _Round, k: int) -> _Round:
        """Take from the means what the sums by level of centred rows say is left of them."""
        radius = RADII[k] * math.sqrt(levels.columns)
        answer = levels.sums(now.means, _map(now), radius, self._sums[k])
        noise, sums = answer.noise_scale, answer.value.reshape(self.n_levels, -1)
        self._counted = sums[:, -1], noise
        counts = np.maximum(sums[:, -1], noise)
        variances = (radius * noise / counts) ** 2
        left = radius * sums[:, :-1] / counts[:, None]
        left[variances > 1.0] = 0.0  # would be noise
        means = now.means + left @ np.linalg.inv(_map(now))
        seen = np.where(sums[:, -1] > noise, sums[:, -1], 0.0)
        return now._replace(means=means, left=left, counts=seen, variances=variances)

    def _natural(self, inner: Fit | None, within: _Within) -> Fit:
        """The slopes in their own units, without what the noise of means does to them."""
        request, now, told = self.request, within.now, within.told
        p, k = len(self.names), len(told)
        params, matrix = np.full(p, np.nan), np.full((p, p), np.nan)
        unfinished, remarks, spread = np.zeros(p), [*self._said(within)], None
        how = "nothing was told within levels"
        if inner is not None:
            noise, varies = within.varies
            regressors, response = within.turned[:, :k], within.turned[:, k]
            values, vectors = np.linalg.eigh(np.eye(k) - noise * regressors.T @ regressors)
            inverse = vectors / np.maximum(values, LEAST_OWN) @ vectors.T
            slopes = inverse @ (inner.params[1:] - noise * regressors.T @ response)
            left = response - regressors @ slopes
            both = regressors.T @ left
            known = inner._covariance
            assert known is not None and known.spread is not None and known.spread.units is not None
            scales, unit = _units(request)
            to_own = (unit / scales[told])[:, None] * now.spread * now.matrix
            through = to_own @ inverse
            found = through @ known.matrix[1:, 1:] @ through.T
            moved = float(left @ left) * regressors.T @ regressors + np.outer(both, both)
            found += varies * through @ moved @ through.T
            params[told] = unit / scales[told] * now.slopes + to_own @ slopes
            matrix[np.ix_(told, told)] = 0.5 * (found + found.T)
            unfinished[told] = np.abs(through) @ known.unfinished[1:]
            units = np.zeros((p, known.spread.units.shape[1]))
            units[told] = through @ known.spread.units[1:]
            spread = known.spread._replace(units=units)
            remarks = [*known.remarks, *remarks]
            how, _, _ = inner.method.partition("; predictions keep")  # there are none
        covariance = Covariance(matrix, 0, unfinished, tuple(remarks), spread)
        return Fit(
            params=params,
            names=self.names,
            n_records=request.n,
            model=f"LeastSquares(), target: the coefficients of ordinary least squares within the "
            f"{self.n_levels} levels of {self._by}",
            method=f"released means of levels, {len(SUMS)} rounds; {how}",
            privacy=request.guarantee(),
            covariance=request.released_covariance(covariance, self.names),
            iterates=np.array([np.zeros(p), params]),
            fit_intercept=False,
            rows=NewRows(),
            remarks=request.remarks,
        )

    def _said(self, within: _Within) -> Iterator[str]:
        """What is left out, from released numbers."""
        yield from cell_remarks(*self._counted, self.request.n, (*self.names, self._by))
        counts, kept = within.now.counts, within.kept
        out = 1.0 - float(counts[kept].sum()) / max(float(counts.sum()), 1e-300)
        if out > LEFT_OUT or within.far:
            few = int(np.count_nonzero(~kept)) - within.far
            small = f"{few} are too small for their means to be told from noise"
            far = f"{within.far} lie too far from the others for their means to be found"
            what = " and ".join([small] * bool(few) + [far] * bool(within.far))
            yield (
                f"of {self.n_levels} levels {what}: with about {out:.1%} of the records they were "
                "left out. Use coarser levels, logarithms of columns that span orders of "
                "magnitude, or a larger budget."
            )
        lost = [name for j, name in enumerate(self.names) if j not in within.told]
        if lost:
            yield (
                f"within levels {lost} hardly {'varies' if len(lost) == 1 else 'vary'} beyond the "
                "noise, or go with the other regressors: their coefficients are not estimable "
                "(NaN), and the others are those of a model without them. Leave them out, or use "
                "coarser levels or a larger budget."
            )


def _whitened(seen: tuple[Array, float], now: _Round, told: Any = slice(None)) -> _Round:
    """With the map, slopes and spread that a Gram of all columns tells, of these regressors."""
    (gram, floor), back = seen, np.linalg.inv(_map(now))
    values, vectors = np.linalg.eigh(gram)
    gram = back.T @ (vectors * np.maximum(values, floor)) @ vectors.T @ back
    inner, moments, whole = gram[:-1, :-1][told][:, told], gram[:-1, -1][told], float(gram[-1, -1])
    slopes = np.linalg.solve(inner, moments)
    left = max(whole - float(moments @ slopes), 1e-12 * whole, 1e-300)
    values, vectors = np.linalg.eigh(inner)
    matrix = vectors / np.sqrt(np.maximum(values, 1e-300)) @ vectors.T
    return now._replace(matrix=matrix, slopes=slopes, spread=math.sqrt(left))


def _map(now: _Round) -> Array:
    """From columns, the response last, to whitened rows and what slopes leave, in spreads."""
    p = len(now.slopes)
    found = np.zeros((p + 1, p + 1))
    found[:p, :p] = now.matrix
    found[:p, p], found[p, p] = -now.slopes / now.spread, 1.0 / now.spread
    return found


def _units(request: FitRequest) -> tuple[Array, float]:
    """Spreads of the columns and of the response."""
    assert request.coding is not None
    coded = [request.coding.columns[name].spread for name in request.column_names]
    return np.array(coded), request.coding.response_units()[1]
