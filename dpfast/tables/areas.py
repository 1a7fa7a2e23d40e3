"""Result of regressions by area: empirical Bayes coefficients with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage, t_intervals
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import end_headings, render_table
from dpfast.tables.by_cell import estimate_shown, normal_half_width
from dpfast.tables.fitted import coefficients_by_level, place_of


@dataclass(frozen=True, eq=False, repr=False)
class SmallAreas(Result):
    """Regression coefficients of areas, shrunk to their mean.  Holds no records.

    Attributes
    ----------
    by : str
    levels, names : tuple
        Areas, a row of every table for each; names of the coefficients.
    params, bse : ndarray of shape (areas, p)
        Empirical Bayes estimates and their standard errors: sampling, privacy noise, and what
        varies between areas.  NaN where suppressed, and for columns that look constant.
    mean, mean_covariance : ndarray of shape (p,) and (p, p)
        Mean of the coefficients over areas, and the covariance of its error.
    between : ndarray of shape (p, p)
        Estimated covariance of coefficients between areas.
    counts, count_noise : ndarray of shape (areas,), float
        Noisy number of records in each area, and the standard deviation of its noise.
    least : float
        Areas with a count below it are suppressed.
    remarks, warnings : tuple of str
    n_records : int
    privacy : Guarantee

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> area, x = np.arange(40_000) % 100, rng.normal(size=40_000)
    >>> table = {"x": x, "area": area, "y": 0.1 * area * x + rng.normal(size=40_000)}
    >>> schema = dpfast.Schema({"area": dpfast.Categorical(list(range(100)))})
    >>> found = dpfast.tables.small_areas("y ~ x", table, "area", schema=schema, privacy=1.0)
    >>> found.conf_int("x").shape, found.reliability.shape
    ((100, 2), (100, 2))
    """

    by: str
    levels: tuple[Any, ...]
    names: tuple[str, ...]
    params: Array
    bse: Array
    mean: Array
    mean_covariance: Array
    between: Array
    counts: Array
    count_noise: float
    least: float
    n_records: int
    privacy: Guarantee
    remarks: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of column scales, of few records in declared areas, and of small areas."""
        return self.remarks

    @property
    def reliability(self) -> Array:
        """Part of the variance between areas that an area's own records resolve, in [0, 1]."""
        between = np.diag(self.between)
        with np.errstate(all="ignore"):
            return np.clip(1.0 - self.bse**2 / between, 0.0, 1.0)

    def conf_int(self, name: str, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return intervals of one coefficient, a row for each area, shape (areas, 2).

        They cover on average over areas, and not of every single one.

        Parameters
        ----------
        name : str
            One of ``names``.
        """
        level, j = coverage(level, alpha), place_of(name, self.names)
        return t_intervals(level, self.params[:, j], self.bse[:, j], np.array(np.inf))

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each area and coefficient."""
        return coefficients_by_level(self, level)

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return a table of the means over areas and of all areas, and the budget spent."""
        level = coverage(level, alpha)
        half = normal_half_width(level)
        errors = np.vstack([np.sqrt(np.diag(self.mean_covariance)), self.bse])
        params = np.vstack([self.mean, self.params])
        areas = ("mean of areas", *map(str, self.levels))
        low, high = params - half * errors, params + half * errors
        rows = [
            (
                f"{area}: {name}",
                estimate_shown(params[k, j], errors[k, j], low[k, j], high[k, j]),
            )
            for j, name in enumerate(self.names)
            for k, area in enumerate(areas)
        ]
        spread = zip(self.names, np.sqrt(np.diag(self.between)).tolist(), strict=True)
        facts = (
            ("Areas", f"{self.by} ({len(self.levels)})"),
            ("Records", str(self.n_records)),
            ("Between", "SD " + ", ".join(f"{name} {short_number(sd)}" for name, sd in spread)),
            ("Intervals", "cover on average over areas (empirical Bayes)"),
        )
        columns = ("estimate", "std err", *end_headings(level))
        title = "dpfast: private regressions of small areas"
        return render_table(title, facts, columns, rows, self.privacy, self.warnings)
