"""Tests of linear hypotheses, ratios and joint confidence regions: post-processing of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, real_array
from dpfast.errors import InvalidInput
from dpfast.inference.base import FixedLevel, Result
from dpfast.inference.degrees import (
    DEFAULT_LEVEL,
    NORMAL,
    coverage,
    estimable,
    t_intervals,
    t_pvalues,
    variances,
)
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.named import Named, named

if TYPE_CHECKING:
    from dpfast.inference.rendering.table import Summary


@dataclass(frozen=True, eq=False, repr=False)
class Contrast(Result):
    """Linear combinations of coefficients, each with its test; arrays have shape (k,).

    Attributes
    ----------
    estimate : ndarray of shape (k,)
        The combinations themselves; the hypothesised values are not subtracted.
    bse : ndarray of shape (k,)
        Standard errors; they include the privacy noise.
    zvalues : ndarray of shape (k,)
        ``(estimate - value) / bse``.
    pvalues : ndarray of shape (k,)
        Two-sided, of the t distribution of :attr:`degrees_of_freedom`.
    degrees_of_freedom, value : ndarray of shape (k,)
        As of :attr:`dpfast.Fit.degrees_of_freedom`, and the hypothesised values.
    names : tuple of str
        The combinations, as text.
    n_records, privacy, warnings
        Those of the fit.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    estimate: Array
    bse: Array
    zvalues: Array
    pvalues: Array
    degrees_of_freedom: Array
    value: Array
    names: tuple[str, ...]
    n_records: int
    privacy: Guarantee
    warnings: tuple[str, ...]

    def conf_int(self, level: float = DEFAULT_LEVEL, *, alpha: float | None = None) -> Array:
        """Return confidence intervals of the combinations, shape (k, 2)."""
        level = coverage(level, alpha)
        return t_intervals(level, self.estimate, self.bse, self.degrees_of_freedom)

    def _labels(self) -> list[str]:
        """Write the combinations, with the values that are not zero."""
        pairs = zip(self.names, self.value, strict=True)
        return [f"{name} = {value:.6g}" if value else name for name, value in pairs]

    def summary(self, level: float = DEFAULT_LEVEL, *, alpha: float | None = None) -> Summary:
        """Summarise estimates, tests and privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.summary import headings, of_first_cells, render_table, row_of

        level = coverage(level, alpha)
        columns = (self.estimate, self.bse, self.zvalues, self.pvalues, *self.conf_int(level).T)
        cells = [row_of(*map(float, row)) for row in zip(*columns, strict=True)]
        return render_table(
            "dpfast: tests of linear combinations",
            (("Records", str(self.n_records)), ("Tested", "each against the value behind =, or 0")),
            headings(level, known=self.degrees_of_freedom),
            zip(self._labels(), cells, strict=True),
            self.privacy,
            self.warnings,
            pvalues=of_first_cells(self.pvalues),
        )

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.conf_int(level).T
        return {
            "term": self.names, "estimate": self.estimate, "std_error": self.bse,
            "statistic": self.zvalues, "p_value": self.pvalues, "conf_low": low,
            "conf_high": high, "value": self.value,
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class WaldTest(Result):
    """A joint test: chi-squared statistic, its degrees of freedom and p value.

    Attributes
    ----------
    statistic : float
        The quadratic form of the differences in the inverse of their covariance.
    df : int
        Number of combinations tested together.
    pvalue : float
        Of the F distribution with the degrees of freedom of the variance that is known least.
    hypotheses : tuple of str
        The equations that were tested, as text.
    n_records, privacy, warnings
        Those of the fit.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    statistic: float
    df: int
    pvalue: float
    hypotheses: tuple[str, ...]
    n_records: int
    privacy: Guarantee
    warnings: tuple[str, ...]

    def summary(self, level: float = DEFAULT_LEVEL, *, alpha: float | None = None) -> Summary:
        """Summarise the test and its privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.rendering.digits import short_number
        from dpfast.inference.summary import render_table

        pvalue = "<0.001" if self.pvalue < 0.001 else f"{self.pvalue:.3f}"
        return render_table(
            "dpfast: Wald test",
            (("Records", str(self.n_records)), ("Hypothesis", "all equations hold together")),
            ("statistic", "df", "P"),
            [(", ".join(self.hypotheses), (short_number(self.statistic), str(self.df), pvalue))],
            self.privacy,
            self.warnings,
        )

    def _columns(self, level: float) -> dict[str, Any]:
        return {
            "term": [", ".join(self.hypotheses)], "statistic": [self.statistic], "df": [self.df],
            "p_value": [self.pvalue],
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Ratios(FixedLevel):
    """Exponentials of linear combinations of coefficients; fields have shape (k,).

    They are odds ratios of a logistic fit, and ratios of means of a log link. Where the response is
    a logarithm they are ratios of its geometric means.

    Attributes
    ----------
    estimate : ndarray of shape (k,)
    interval : ndarray of shape (k, 2)
        Exponentials of the ends of the combination's interval, at the level that was asked for.
    pvalues : ndarray of shape (k,)
        Two-sided, of the ratio being 1.
    names : tuple of str
    level : float
    n_records, privacy, warnings
        Those of the fit.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    _headed = ("Records", "Persons", "Of")

    estimate: Named
    interval: Named
    pvalues: Named
    names: tuple[str, ...]
    level: float
    n_records: int
    privacy: Guarantee
    warnings: tuple[str, ...]

    def summary(self) -> Summary:  # type: ignore[override]
        """Summarise ratios, intervals and privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.rendering.digits import short_number
        from dpfast.inference.summary import end_headings, of_first_cells, render_table

        cells = [
            (
                *map(short_number, (estimate, low, high)),
                "<0.001" if p < 0.001 else f"{p:.3f}",
            )
            for estimate, (low, high), p in zip(
                self.estimate.tolist(), self.interval.tolist(), self.pvalues.tolist(), strict=True
            )
        ]
        return render_table(
            "dpfast: ratios",
            (
                ("Records", str(self.n_records)),
                ("Of", "one unit more of a column, in its own units"),
            ),
            ("ratio", *end_headings(self.level), "P"),
            zip(self.names, cells, strict=True),
            self.privacy,
            self.warnings,
            pvalues=of_first_cells(self.pvalues),
        )

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = np.asarray(self.interval).T
        return {
            "term": self.names, "estimate": np.asarray(self.estimate),
            "p_value": np.asarray(self.pvalues), "conf_low": low, "conf_high": high,
        }  # fmt: skip


def combinations(restriction: ArrayLike, p: int) -> Array:
    """Check rows of weights, shape (k, p)."""
    rows = np.atleast_2d(real_array(restriction, "a restriction"))
    if rows.ndim != 2 or rows.shape[1] != p or not np.isfinite(rows).all():
        raise InvalidInput(
            f"a restriction must be finite and have shape ({p},) or (k, {p}); received shape "
            f"{rows.shape}."
        )
    return rows


def t_test(fit: Any, contrast: ArrayLike, value: ArrayLike) -> Contrast:
    """Test each row of ``contrast`` by a t test."""
    from dpfast.inference.contrasts import written

    rows = combinations(contrast, len(fit.params))
    estimate = rows @ fit.params
    bse, known = np.sqrt(variances(rows, fit.cov_params())), fit._degrees(rows)
    values = np.array(np.broadcast_to(real_array(value, "value"), estimate.shape))
    with np.errstate(all="ignore"):
        z = (estimate - values) / bse
    names = tuple([written(row, fit.names) for row in rows])
    return Contrast(
        estimate, bse, z, t_pvalues(z, known), known, values, names, fit.n_records, fit.privacy,
        fit.warnings,
    )  # fmt: skip


def ratios(fit: Any, rows: Array, level: float) -> Ratios:
    """Exponentiate combinations and the ends of their intervals."""
    test = t_test(fit, rows, 0.0)
    names = test.names
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        ends = np.exp(test.conf_int(level))
        estimate = np.exp(test.estimate)
    return Ratios(
        named(estimate, names), named(ends, names, ("low", "high")), named(test.pvalues, names),
        names, level, fit.n_records, fit.privacy, fit.warnings,
    )  # fmt: skip


def wald_test(fit: Any, restriction: ArrayLike, value: ArrayLike) -> WaldTest:
    """Test all rows of ``restriction`` together by a Wald test."""
    from dpfast.inference.contrasts import written
    from dpfast.kernels.special import chdtrc, fdtrc

    rows = combinations(restriction, len(fit.params))
    df = rows.shape[0]
    if np.linalg.matrix_rank(rows) < df:
        raise InvalidInput("the rows of a restriction must be linearly independent.")
    values = np.broadcast_to(real_array(value, "value"), df)
    difference = rows @ fit.params - values
    estimated, lost = estimable(rows, fit.cov_params())
    inverse = np.linalg.pinv(rows @ estimated @ rows.T, hermitian=True)
    statistic = math.nan if lost.any() else float(difference @ inverse @ difference)
    known = float(fit._degrees(rows).min())
    pvalue = chdtrc(df, statistic) if known > NORMAL else fdtrc(df, known, statistic / df)
    hypotheses = [
        f"{written(row, fit.names)} = {target:.6g}"
        for row, target in zip(rows, values, strict=True)
    ]
    return WaldTest(
        statistic, df, float(pvalue), tuple(hypotheses), fit.n_records, fit.privacy, fit.warnings
    )


def confidence_ellipse(
    centre: Array,
    covariance: Array,
    level: float,
    n_points: int,
    degrees: float,
) -> Array:
    """Compute points on the boundary of the joint confidence region of two coefficients."""
    # the quantile of F(2, d) times 2; of the chi-squared distribution as d grows
    error = -np.log1p(-level)
    if degrees <= NORMAL:
        error = degrees / 2.0 * np.expm1(2.0 / degrees * error)
    radius = np.sqrt(2.0 * error)
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, n_points)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return centre + radius * (circle * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
