"""The result of a fit: released numbers, their standard errors, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.errors import InferenceUnavailable, InvalidInput, described
from dpfast.inference.contrasts import Combination, by_name
from dpfast.inference.degrees import t_half_widths, t_pvalues
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.hypotheses import (
    Contrast,
    WaldTest,
    confidence_ellipse,
    coverage,
    t_test,
    wald_test,
)
from dpfast.inference.rows import Coded, RowReader
from dpfast.inference.sandwich import Covariance

__all__ = ["Fit"]


class Fit:
    """A fitted model.  Holds no records and nothing about them that was not paid for.

    Attributes
    ----------
    params : ndarray of shape (p,)
        Estimated coefficients, the intercept first; a free scale last, under the name "scale".
    names : tuple of str
        Names of the coefficients.
    privacy : Guarantee
    model : str
        Loss, weighting and scale, as text.
    method : str
        Optimiser, its settings and why it was chosen, as text.
    n_records : int
    iterates : ndarray of shape (K + 1, p)
        Released path of the optimiser, the start first.
    coding : Coding or None
        The public facts by which a schema or formula turned a table into covariates and response:
        coefficients are of the coded columns, predictions take and return the table's own units.
    warnings : tuple of str
        What makes the intervals unreliable, from released numbers only.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, "log-cosh", privacy=2.0, scale=1.0)
    >>> fit.names, fit.conf_int().shape, fit.predict([[0.5]]).shape
    (('intercept', 'x1'), (2, 2), (1,))
    """

    def __init__(
        self,
        *,
        params: NDArray[np.float64],
        names: tuple[str, ...],
        n_records: int,
        model: str,
        method: str,
        privacy: Guarantee,
        covariance: Covariance | None,
        iterates: NDArray[np.float64],
        binary_response: bool = False,
        fit_intercept: bool = True,
        free_scale: bool = False,
        rows: RowReader,
    ) -> None:
        self.params = params
        self.names = names
        self.n_records = n_records
        self.model = model
        self.method = method
        self.privacy = privacy
        self.iterates = iterates
        self._covariance = covariance
        self._binary_response = binary_response
        self._fit_intercept = fit_intercept
        self._free_scale = free_scale
        self._new_rows = rows

    @property
    def coding(self) -> Coded | None:
        return self._new_rows.coding

    def cov_params(self) -> NDArray[np.float64]:
        """Covariance of the coefficients, sampling and privacy noise together, shape (p, p)."""
        if self._covariance is None:
            raise InferenceUnavailable(
                "no covariance was released with this result: its budget went to the estimate. "
                "dpfast.fit(..., inference=True), its default, buys one wherever loss and weights "
                "have a Hessian."
            )
        return self._covariance.matrix

    @property
    def bse(self) -> NDArray[np.float64]:
        """Standard errors, shape (p,); they include the privacy noise."""
        return np.sqrt(self.cov_params().diagonal())

    @property
    def zvalues(self) -> NDArray[np.float64]:
        """``params / bse``."""
        with np.errstate(all="ignore"):
            return self.params / self.bse

    @property
    def pvalues(self) -> NDArray[np.float64]:
        """Two-sided p values of each coefficient being zero (see :meth:`conf_int`)."""
        return t_pvalues(self.zvalues, self.degrees_of_freedom)

    @property
    def degrees_of_freedom(self) -> NDArray[np.float64]:
        """How well each standard error is known, shape (p,): those of the t distribution used.

        ``2 / r^2`` where the privacy noise in a released variance has the relative standard
        deviation r; infinite where nothing is known of it.
        """
        return self._degrees(np.eye(len(self.params)))

    def _degrees(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Degrees of freedom of the variances of linear combinations, shape (k,)."""
        self.cov_params()  # refuses where there is none
        assert self._covariance is not None
        return self._covariance.degrees_of_freedom(rows)

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> NDArray[np.float64]:
        """Confidence intervals, shape (p, 2).

        Parameters
        ----------
        level : float in [0.5, 1)
            Nominal coverage.
        alpha : float, optional
            ``1 - level``, in its place, as statsmodels has it; by name only.

        Notes
        -----
        Standard errors are themselves released with noise, so the intervals are those of a t
        distribution whose degrees of freedom follow from the noise scales; with a generous budget
        it is the normal.  The interval of a free scale is symmetric on the logarithm, so it is
        always positive.
        """
        widths = t_half_widths(coverage(level, alpha), self.degrees_of_freedom)
        with np.errstate(all="ignore"):
            half = widths * self.bse
            interval = np.column_stack([self.params - half, self.params + half])
            if self._free_scale:
                factor = np.exp(half[-1] / self.params[-1])
                interval[-1] = self.params[-1] / factor, self.params[-1] * factor
        return interval

    def t_test(
        self, contrast: ArrayLike | Combination | Sequence[Combination], value: ArrayLike = 0.0
    ) -> Contrast:
        """Estimate, standard error and p value of linear combinations of the coefficients.

        Parameters
        ----------
        contrast : str, mapping of str to float, list of these, or array-like
            By name, ``"educ - 2 exper"`` or ``{"educ": 1.0, "exper": -2.0}``; or weights of shape
            (p,) or (k, p).
        value : array-like, broadcast to shape (k,)
            Hypothesised values.
        """
        rows = by_name(contrast, self.names)
        return t_test(self.params, self.cov_params(), rows, value, self._degrees)

    def wald_test(
        self, restriction: ArrayLike | Combination | Sequence[Combination], value: ArrayLike = 0.0
    ) -> WaldTest:
        """Wald test that ``restriction @ params == value``, all rows together.

        Parameters
        ----------
        restriction : str, mapping of str to float, list of these, or array-like
            By name, as for :meth:`t_test`, or of shape (k, p) or (p,); linearly independent.
        value : array-like, broadcast to shape (k,)
        """
        rows = by_name(restriction, self.names)
        return wald_test(self.params, self.cov_params(), rows, value, self._degrees)

    def confidence_ellipse(
        self,
        first: int | str,
        second: int | str,
        level: float = 0.95,
        n_points: int = 200,
        *,
        alpha: float | None = None,
    ) -> NDArray[np.float64]:
        """Boundary of the joint confidence region of two coefficients, shape (n_points, 2).

        Parameters
        ----------
        first, second : int or str
            Position or name of two coefficients.
        level : float
            Joint confidence level.
        n_points : int
            Points on the boundary.
        alpha : float, optional
            ``1 - level``, in its place.
        """
        level = coverage(level, alpha)
        chosen = [self._index(first), self._index(second)]
        covariance = self.cov_params()[np.ix_(chosen, chosen)]
        degrees = float(self._degrees(np.eye(len(self.params))[chosen]).min())
        return confidence_ellipse(self.params[chosen], covariance, level, n_points, degrees)

    def _index(self, name: int | str) -> int:
        if isinstance(name, str):
            if name in self.names:
                return self.names.index(name)
        elif isinstance(name, (int, np.integer)) and 0 <= name < len(self.params):
            return int(name)
        raise InvalidInput(
            f"a coefficient is one of {list(self.names)} or its position; received "
            f"{described(name, text=True)}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        covariance = self._covariance
        if covariance is None:
            return ()
        found = list(covariance.remarks)
        if covariance.n_floored:
            found.append(
                f"{covariance.n_floored} of {len(self.params)} curvature directions are hidden "
                "by the privacy noise; intervals along them are not reliable. Use more records, "
                "a larger budget, or fewer or better scaled covariates."
            )
        with np.errstate(all="ignore"):
            ratios = covariance.unfinished / (1.96 * self.bse)
        if covariance.unfinished.any() and not (ratios <= 1.0).all():
            worst = int(np.argmax(np.nan_to_num(ratios, nan=np.inf)))
            found.append(
                f"the optimiser had not finished: an estimated {ratios[worst]:.2g} half-widths of "
                f"error may remain in {self.names[worst]!r}. Use more records, a larger budget, or "
                "a start nearer the solution; leave out covariates that hardly vary."
            )
        return tuple(found)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Mean response (logistic: probability) for new rows, shape (m,).

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            After a fit from a schema or formula: a table (data frame, Arrow table or mapping) with
            the columns it names, in their own units and any order; others are ignored.  After a
            fit from a data frame: one with the same columns, in any order, or an array in the
            fit's order.  Otherwise an array.

        Notes
        -----
        In the response's own units.  As in the fit, values outside a declared range are clipped to
        it, and a row with a missing value or an undeclared label has no prediction: NaN.
        """
        return self._response(self._rows(X) @ self._coefficients())

    def predict_interval(
        self, X: Any, level: float = 0.95, *, alpha: float | None = None
    ) -> NDArray[np.float64]:
        """Confidence interval of the mean response for new rows, shape (m, 2).

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            As for :meth:`predict`.
        level : float in [0.5, 1)
            Nominal coverage, one row at a time.
        alpha : float, optional
            ``1 - level``, in its place.
        """
        level = coverage(level, alpha)
        rows = self._rows(X)
        q = rows.shape[1]
        padded = np.pad(rows, ((0, 0), (0, len(self.params) - q)))
        width = t_half_widths(level, self._degrees(padded))
        variance = np.einsum("ij,jk,ik->i", rows, self.cov_params()[:q, :q], rows)
        half = width * np.sqrt(variance)
        t = rows @ self._coefficients()
        return self._response(np.column_stack([t - half, t + half]))

    @property
    def scale(self) -> float:
        """The estimated residual scale, of a fit with ``scale=dpfast.FreeScale(...)``.

        In the response's own units.
        """
        if not self._free_scale:
            raise InferenceUnavailable(
                "the scale of this fit was not estimated. "
                "dpfast.fit(..., scale=dpfast.FreeScale(low, high)) estimates it."
            )
        return float(self.params[-1])

    def _coefficients(self) -> NDArray[np.float64]:
        return self.params[:-1] if self._free_scale else self.params

    def _rows(self, X: Any) -> NDArray[np.float64]:
        """Design rows, the intercept's ones included."""
        X = self._new_rows.covariates(X)
        q = len(self._coefficients()) - int(self._fit_intercept)
        if X.ndim != 2 or X.shape[1] != q:
            raise InvalidInput(f"X must have shape (m, {q}); received {X.shape}.")
        return np.column_stack([np.ones(len(X)), X]) if self._fit_intercept else X

    def _response(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._binary_response:
            from scipy.special import expit

            return np.asarray(expit(t))
        if self.coding is None:
            return t
        location, spread = self.coding.response_units()
        return location + spread * t

    def summary(self) -> str:
        """Coefficient table with a privacy block, as text."""
        from dpfast.inference.summary import summary_text

        return summary_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything published by this fit, as plain Python values (for JSON)."""
        table: dict[str, Any] = {
            "names": list(self.names),
            "params": self.params.tolist(),
            "n_records": self.n_records,
            "model": self.model,
            "method": self.method,
            "warnings": list(self.warnings),
            "privacy": self.privacy.to_dict(),
        }
        if self._covariance is not None:
            table["bse"] = self.bse.tolist()
            table["cov_params"] = self.cov_params().tolist()
        return table

    def __repr__(self) -> str:
        terms = ", ".join(
            f"{name}={value:.4g}" for name, value in zip(self.names, self.params, strict=True)
        )
        return f"<Fit {terms}; {self.privacy.headline}>"
