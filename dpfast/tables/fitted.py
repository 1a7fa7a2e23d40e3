"""Fits by level: a table of their coefficients, and tests of equality."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.plain import plain_fields
from dpfast.inference.degrees import coverage
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.table import Summary
from dpfast.inference.results import Fit
from dpfast.inference.summary import cells_of, headings, render_table
from dpfast.regression.standardise import cell_remarks
from dpfast.tables.results import TOO_SMALL

Array = NDArray[np.float64]

#: Degrees of freedom that stand for infinitely many.
MANY = 1e9


class SubgroupFits(NamedTuple):
    """The same regression in each level of a grouping.  Holds no records.

    Attributes
    ----------
    by, loss : str
    levels, names : tuple
        Declared levels, a row of every table for each; names of the coefficients.
    fits : tuple of Fit or None
        None for a level that was too small to fit.
    counts, count_noise : ndarray of shape (levels,), float
        Records in each level, as released, and the standard deviation of the noise in it.
    least : float
        Levels whose count was below it were not fitted.
    warnings : tuple of str
        Of the fits, each with its level, and whether few records are in any level.
    n_records : int
    privacy : Guarantee
        Of everything together: what each fit says of itself is a part of it.
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
    >>> found = dpfast.tables.fits("y ~ x", table, "sex", schema=schema, privacy=1.0)
    >>> found.bse.shape, found.conf_int("x").shape
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of each level's fit, and whether few records are in any level."""
        few = cell_remarks(self.counts, self.count_noise, self.n_records, (self.by,))
        each = {
            f"{own}: {said}"
            for own, one in zip(self.levels, self.fits, strict=True)
            for said in (() if one is None else one.warnings)
        }
        return (*few, *sorted(each))

    @property
    def params(self) -> Array:
        """Coefficients, shape (levels, p); NaN where a level is too small to fit."""
        return self._each("params")

    @property
    def bse(self) -> Array:
        """Standard errors, shape (levels, p), sampling and privacy noise together."""
        return self._each("bse")

    def conf_int(self, name: str, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Confidence intervals of one coefficient, a row for each level, shape (levels, 2).

        Parameters
        ----------
        name : str
            One of ``names``.
        """
        level, j = coverage(level, alpha), self._place(name)
        nothing = np.full(2, np.nan)
        rows = [nothing if one is None else one.conf_int(level)[j] for one in self.fits]
        return np.array(rows, dtype=np.float64)

    def equality(self) -> dict[str, tuple[float, float]]:
        """For each coefficient, the test that it is the same in all levels that were fitted.

        Welch's (1951): estimates of disjoint records are independent, of unequal variances, each
        known with its own degrees of freedom.

        Returns
        -------
        dict of str to (float, float)
            F statistic and p value; NaN with fewer than two fitted levels.
        """
        fitted = [one for one in self.fits if one is not None]
        if len(fitted) < 2:
            return dict.fromkeys(self.names, (float("nan"), float("nan")))
        params, errors = self.params, self.bse
        kept = ~np.isnan(params[:, 0])
        degrees = np.array([one.degrees_of_freedom for one in fitted])
        return {
            name: _welch(params[kept, j], errors[kept, j], degrees[:, j])
            for j, name in enumerate(self.names)
        }

    def to_frame(self, level: float = 0.95, *, alpha: float | None = None) -> Any:
        """One row for each level and coefficient.

        Returns
        -------
        pandas.DataFrame
            The level, ``count``, ``name``, ``coef``, ``std_err``, ``low`` and ``high``.
        """
        from pandas import DataFrame

        level, p = coverage(level, alpha), len(self.names)
        ends = np.stack([self.conf_int(name, level) for name in self.names], axis=1)
        return DataFrame(
            {
                self.by: [one for one in self.levels for _ in range(p)],
                "count": np.repeat(self.counts, p),
                "name": list(self.names) * len(self.levels),
                "coef": self.params.ravel(),
                "std_err": self.bse.ravel(),
                "low": ends[..., 0].ravel(),
                "high": ends[..., 1].ravel(),
            }
        )

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """The coefficients of every level, tests of equality, and what it cost."""
        level = coverage(level, alpha)
        each = [None if one is None else cells_of(one, level) for one in self.fits]
        hidden = (TOO_SMALL, *[""] * 5)
        rows = [
            (f"{own}: {name}", hidden if cells is None else cells[j])
            for j, name in enumerate(self.names)
            for own, cells in zip(self.levels, each, strict=True)
        ]
        counts = ", ".join(
            f"{own} {count:.0f}" if count >= self.least else f"{own} {TOO_SMALL}"
            for own, count in zip(self.levels, self.counts, strict=True)
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
            self.warnings,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Everything published, as plain Python values (for JSON)."""
        told = self._asdict()
        del told["unfinished"]
        return plain_fields(told | {"equality": self.equality()})

    def _each(self, what: str) -> Array:
        nothing = np.full(len(self.names), np.nan)
        return np.array([nothing if one is None else getattr(one, what) for one in self.fits])

    def _place(self, name: Any) -> int:
        if not isinstance(name, str) or name not in self.names:
            raise InvalidInput(
                f"name must be one of {list(self.names)}; received {described(name)}."
            )
        return self.names.index(name)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return f"<SubgroupFits by {self.by}, {len(self.levels)} levels; {self.privacy.headline}>"


def _welch(params: Array, errors: Array, degrees: Array) -> tuple[float, float]:
    k = len(params)
    with np.errstate(all="ignore"):
        weights = 1.0 / errors**2
        whole = weights.sum()
        centre = (weights * params).sum() / whole
        spread = (weights * (params - centre) ** 2).sum() / (k - 1)
        unsure = ((1.0 - weights / whole) ** 2 / np.minimum(degrees, MANY)).sum()
        statistic = spread / (1.0 + 2.0 * (k - 2) / (k * k - 1.0) * unsure)
        freedom = (k * k - 1.0) / (3.0 * unsure)
        return float(statistic), float(fdtrc(k - 1.0, min(freedom, MANY), statistic))
