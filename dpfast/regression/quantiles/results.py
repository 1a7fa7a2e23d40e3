"""Several fitted quantiles of one response, in order, each of them a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidInput, described
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import by_error, short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import coded_of, headings, render_table


@dataclass(frozen=True, eq=False, repr=False)
class QuantileFits(Result):
    """Fits of several quantile levels under one total (:func:`dpfast.fit_quantiles`).

    Attributes
    ----------
    taus : tuple of float
        The levels, ascending.
    fits : tuple of Fit
        One for each level; ``privacy`` of each is the guarantee for them together.
    privacy : Guarantee
        Guarantee for the levels together, with their private units.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing, however often.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (2000, 1))
    >>> y = X[:, 0] + rng.normal(size=2000)
    >>> found = dpfast.fit_quantiles(
    ...     X, y, [0.25, 0.75], privacy=2.0, loss=dpfast.Objective("quantile", scale=1.0)
    ... )
    >>> found.params.shape, found.predict([[0.0], [0.5]]).shape
    ((2, 2), (2, 2))
    """

    taus: tuple[float, ...]
    fits: tuple[Fit, ...]
    privacy: Guarantee

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.fits[0].names

    @property
    def params(self) -> Array:
        """A row of coefficients for each level, shape (K, p)."""
        return np.array([fit.params for fit in self.fits])

    @property
    def n_records(self) -> int:
        """Number of records, public."""
        return self.fits[0].n_records

    @property
    def bse(self) -> Array:
        """Standard errors, shape (K, p); they include the privacy noise."""
        return np.array([fit.bse for fit in self.fits])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of every level; those that differ between levels name theirs."""
        first, *others = (fit.warnings for fit in self.fits)
        common = [
            warning
            for warning in first
            if all(warning in level_warnings for level_warnings in others)
        ]
        return (*common, *[
            f"tau = {tau:g}: {warning}"
            for tau, fit in zip(self.taus, self.fits, strict=True)
            for warning in fit.warnings
            if warning not in common
        ])  # fmt: skip

    def conf_int(
        self, level: float = 0.95, *, alpha: float | None = None, simultaneous: bool = False
    ) -> Array:
        """Confidence intervals of every coefficient at every level, shape (K, p, 2).

        Parameters
        ----------
        simultaneous : bool
            All intervals hold together (Bonferroni); one at a time by default.
        """
        level_each = coverage(level, alpha)
        if simultaneous:
            level_each = 1.0 - (1.0 - level_each) / self.params.size
        return np.array([fit.conf_int(level_each) for fit in self.fits])

    def predict(self, X: Any) -> Array:
        """Quantiles of the response for new rows, shape (m, K), none above the next.

        The fitted lines may cross, so predictions are sorted in each row.  This rearrangement never
        increases their distance from the true quantiles (Chernozhukov, Fernandez-Val and Galichon
        2010).

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            As for :meth:`Fit.predict`.

        Returns
        -------
        ndarray of shape (m, K)
            In the response's own units; NaN for a row without a prediction.

        Privacy
        -------
        Costs nothing for public rows.  The prediction for a private row tells of that row.
        """
        return np.sort(np.column_stack([fit.predict(X) for fit in self.fits]), axis=1)

    def predict_interval(self, X: Any, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Intervals of the quantiles of new rows, shape (m, K, 2).

        At one row the K intervals hold together (Bonferroni); their ends are in order like the
        predictions.

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            As for :meth:`predict`.

        Privacy
        -------
        As for :meth:`predict`.
        """
        level_each = 1.0 - (1.0 - coverage(level, alpha)) / len(self.fits)
        ends = np.stack([fit.predict_interval(X, level_each) for fit in self.fits], axis=1)
        return np.sort(ends, axis=1)

    def fit_of(self, tau: float) -> Fit:
        """Return the fit of one level.

        Parameters
        ----------
        tau : float
            One of :attr:`taus`.
        """
        for level, fit in zip(self.taus, self.fits, strict=True):
            if level == tau:
                return fit
        raise InvalidInput(
            f"tau must be one of the levels {list(self.taus)}; received {described(tau)}."
        )

    def summary(
        self, level: float = 0.95, *, alpha: float | None = None, simultaneous: bool = True
    ) -> Summary:
        """Return one table of the levels and their intervals, with the privacy block.

        Parameters
        ----------
        simultaneous : bool
            Whether all intervals hold together (default) or one at a time.
        """
        level = coverage(level, alpha)
        has_errors = all(fit._covariance is not None for fit in self.fits)
        joint_note = "all hold together" if simultaneous else "one at a time"
        rows: list[tuple[str, tuple[str, ...]]] = []
        limits = self.conf_int(level, simultaneous=simultaneous) if has_errors else None
        for k, (tau, fit) in enumerate(zip(self.taus, self.fits, strict=True)):
            for j, name in enumerate(self.names):
                cells: tuple[str, ...] = (short_number(float(fit.params[j])),)
                if limits is not None:
                    numbers = [float(fit.params[j]), float(fit.bse[j]), *limits[k, j].tolist()]
                    cells = tuple(by_error(numbers, numbers[1]))
                rows.append((f"{tau:<5.4g} {name}", cells))
        pairs = zip(self.taus, self.fits, strict=True)
        models = [("Model", f"{tau:.4g}: {fit.model}") for tau, fit in pairs]
        columns = headings(level)
        coding = coded_of(self.fits[0])
        coded = [("Coded", coding)] if coding else []
        return render_table(
            "dpfast: private quantile regression",
            (("Records", str(self.n_records)), *coded, *models),
            (*columns[:2], *columns[4:]) if has_errors else columns[:1],
            rows,
            self.privacy,
            self.warnings,
            f"Intervals: {100 * level:g}%, {joint_note}." if has_errors else "no standard errors",
        )

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each level and coefficient."""
        p, has_errors = len(self.names), all(fit._covariance is not None for fit in self.fits)
        columns = {
            "tau": np.repeat(self.taus, p),
            "term": list(self.names) * len(self.taus),
            "estimate": self.params.ravel(),
        }
        if not has_errors:
            return columns
        low, high = self.conf_int(level).reshape(-1, 2).T
        return columns | {"std_error": self.bse.ravel(), "conf_low": low, "conf_high": high}

    def to_dict(self) -> dict[str, Any]:
        """Everything published, as plain Python values (for JSON)."""
        fits = [fit.to_dict() for fit in self.fits]
        for entry in fits:
            del entry["privacy"]  # it is the same for all levels
        return {"taus": list(self.taus), "fits": fits, "privacy": self.privacy.to_dict()}
