"""Result of fits by level: a table of coefficients, and tests of equality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import fdtrc

from dpfast.arguments import Array
from dpfast.errors import InvalidInput, described
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.arrays import plain_fields
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import cells_of, headings, render_table
from dpfast.scaling.remarks import cell_remarks
from dpfast.tables.by_cell import TOO_SMALL

#: Stands for infinite degrees of freedom, which the F distribution does not take.
MAX_DEGREES = 1e9


@dataclass(frozen=True, eq=False, repr=False)
class SubgroupFits(Result):
    """Regression fitted in each level of a grouping.  Holds no records.

    Attributes
    ----------
    by, loss : str
    levels, names : tuple
        Declared levels, a row of every table for each; names of the coefficients.
    fits : tuple of Fit or None
        None for a level that was too small to fit.
    counts, count_noise : ndarray of shape (levels,), float
        Noisy number of records in each level, and the standard deviation of its noise.
    least : float
        Levels with a count below it were not fitted.
    warnings : tuple of str
        Warnings of the fits, each with its level, and one if few records are in any level.
    n_records : int
    privacy : Guarantee
        Joint guarantee; each fit's own is a part of it.
    stopped : str
        Why no level was fitted, if the call ended after its counts; empty otherwise.
    unfinished : object or None
        What was released of a fit that an exception ended; None otherwise.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, sex = rng.normal(size=6000), np.tile(["F", "M"], 3000)
    >>> table = {"x": x, "sex": sex, "y": 2.0 * x + rng.normal(size=6000)}
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> by_sex = dpfast.tables.fits("y ~ x", table, "sex", schema=schema, privacy=1.0)
    >>> by_sex.bse.shape, by_sex.conf_int("x").shape
    ((2, 2), (2, 2))
    """

    by: str
    levels: tuple[Any, ...]
    names: tuple[str, ...]
    loss: str
    fits: tuple[Fit | None, ...]
    counts: Array
    count_noise: float
    least: float
    n_records: int
    privacy: Guarantee
    unfinished: Any = None
    stopped: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of each level's fit, and one if few records are in any level."""
        if self.stopped:
            return (self.stopped,)
        counts_warning = cell_remarks(self.counts, self.count_noise, self.n_records, (self.by,))
        by_level = {
            f"{level_name}: {warning}"
            for level_name, level_fit in zip(self.levels, self.fits, strict=True)
            for warning in (() if level_fit is None else level_fit.warnings)
        }
        return (*counts_warning, *sorted(by_level))

    @property
    def params(self) -> Array:
        """Coefficients, shape (levels, p); NaN where a level is too small to fit."""
        return self._each("params")

    @property
    def bse(self) -> Array:
        """Standard errors, shape (levels, p), sampling and privacy noise together."""
        return self._each("bse")

    def conf_int(self, name: str, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return confidence intervals of one coefficient, a row for each level, shape (levels, 2).

        Parameters
        ----------
        name : str
            One of ``names``.
        """
        level, j = coverage(level, alpha), place_of(name, self.names)
        missing = np.full(2, np.nan)
        rows = [missing if fit is None else fit.conf_int(level)[j] for fit in self.fits]
        return np.array(rows, dtype=np.float64)

    def equality(self) -> dict[str, tuple[float, float]]:
        """Test for each coefficient whether it is the same in all fitted levels (Welch 1951).

        Estimates from disjoint records are independent, with unequal variances.  Each variance has
        its own degrees of freedom.

        Returns
        -------
        dict of str to (float, float)
            F statistic and p value; NaN with fewer than two fitted levels.
        """
        fitted = [fit for fit in self.fits if fit is not None]
        if len(fitted) < 2:
            return dict.fromkeys(self.names, (float("nan"), float("nan")))
        params, errors = self.params, self.bse
        is_fitted = ~np.isnan(params[:, 0])
        degrees = np.array([fit.degrees_of_freedom for fit in fitted])
        return {
            name: _welch(params[is_fitted, j], errors[is_fitted, j], degrees[:, j])
            for j, name in enumerate(self.names)
        }

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each level and coefficient."""
        return coefficients_by_level(self, level)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return a table of all coefficients, tests of equality, and the budget spent."""
        level = coverage(level, alpha)
        cells_by_level = [None if fit is None else cells_of(fit, level) for fit in self.fits]
        too_small = (TOO_SMALL, *[""] * 5)
        rows = [
            (f"{level_name}: {name}", too_small if cells is None else cells[j])
            for j, name in enumerate(self.names)
            for level_name, cells in zip(self.levels, cells_by_level, strict=True)
        ]
        pvalues = [
            (float("nan") if fit is None else float(fit.pvalues[j]),)
            for j in range(len(self.names))
            for fit in self.fits
        ]
        counts = ", ".join(
            f"{level_name} {count:.0f}" if count >= self.least else f"{level_name} {TOO_SMALL}"
            for level_name, count in zip(self.levels, self.counts, strict=True)
        )
        tests = "; ".join(f"{name} p = {p:.3g}" for name, (_, p) in self.equality().items())
        facts = (
            ("Loss", self.loss),
            ("Levels", f"{self.by}: {counts}"),
            ("Records", str(self.n_records)),
            ("Equality", f"the same in all levels: {tests}"),
        )
        return render_table(
            "dpfast: private fits by level", facts, headings(level), rows, self.privacy,
            self.warnings, pvalues=tuple(pvalues),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything published, as plain Python values (for JSON)."""
        fields = super().to_dict()
        del fields["unfinished"]
        return fields | {"equality": plain_fields(self.equality())}

    def _each(self, field: str) -> Array:
        """Stack one attribute of the fits, NaN where a level was not fitted."""
        missing = np.full(len(self.names), np.nan)
        return np.array([missing if fit is None else getattr(fit, field) for fit in self.fits])


def coefficients_by_level(table: Any, level: float) -> dict[str, Any]:
    """Return the columns of a frame, with a row for each level and coefficient of a table."""
    p = len(table.names)
    ends = np.stack([table.conf_int(name, level) for name in table.names], axis=1)
    return {
        table.by: [value for value in table.levels for _ in range(p)],
        "count": np.repeat(table.counts, p),
        "term": list(table.names) * len(table.levels),
        "estimate": table.params.ravel(),
        "std_error": table.bse.ravel(),
        "conf_low": ends[..., 0].ravel(),
        "conf_high": ends[..., 1].ravel(),
    }


def place_of(name: Any, names: tuple[str, ...]) -> int:
    """Return the position of a coefficient; refuse other names."""
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(f"name must be one of {list(names)}; received {described(name)}.")
    return names.index(name)


def _welch(params: Array, errors: Array, degrees: Array) -> tuple[float, float]:
    """Test equal means of independent groups with unequal variances (Welch 1951)."""
    k = len(params)
    with np.errstate(all="ignore"):
        weights = 1.0 / errors**2
        total = weights.sum()
        centre = (weights * params).sum() / total
        between = (weights * (params - centre) ** 2).sum() / (k - 1)
        correction = ((1.0 - weights / total) ** 2 / np.minimum(degrees, MAX_DEGREES)).sum()
        statistic = between / (1.0 + 2.0 * (k - 2) / (k * k - 1.0) * correction)
        freedom = (k * k - 1.0) / (3.0 * correction)
        return float(statistic), float(fdtrc(k - 1.0, min(freedom, MAX_DEGREES), statistic))
