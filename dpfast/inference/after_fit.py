"""The questions a fit answers afterwards, by the names of its coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import Array, flag, names_given
from dpfast.errors import InvalidInput, described
from dpfast.inference.base import Result
from dpfast.inference.degrees import coverage
from dpfast.inference.named import Named
from dpfast.inference.refused import Refused

if TYPE_CHECKING:
    from dpfast.inference.contrasts import Combination
    from dpfast.inference.hypotheses import Contrast, Ratios, WaldTest
    from dpfast.inference.margins import MarginalEffects
    from dpfast.inference.rendering.table import Summary


class AfterFit(Refused, Result):
    """Tests, ratios, effects and joint intervals of released coefficients and their covariance.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> fit.t_test("x1 = 0.5").pvalues.shape, fit.wald_test("x1 = 0.5, intercept = 0").df
    ((1,), 2)
    >>> fit.ratios("x1").interval.shape, fit.marginal_effects([[0.0]]).estimate.shape
    ((1, 2), (1, 1))
    >>> fit.confidence_ellipse("intercept", "x1", n_points=50).shape
    (50, 2)
    """

    names: tuple[str, ...]
    n_records: int
    params: Any
    zvalues: Any
    cov_params: Any
    _degrees: Any
    _covariance: Any

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Summarise coefficients, facts and privacy in a table: text, HTML, LaTeX, Markdown."""
        from dpfast.inference.summary import summary_of

        return summary_of(self, coverage(level, alpha))  # type: ignore[arg-type]

    def _page(self, level: float) -> tuple[dict[str, Any], str]:
        from dpfast.inference.rendering.page import page
        from dpfast.inference.rendering.transcript import transcript

        content = transcript(self, level)  # type: ignore[arg-type]
        return content, page(content)

    def _columns(self, level: float) -> dict[str, Any]:
        fit: Any = self
        columns = {"term": self.names, "estimate": np.asarray(fit.params)}
        if self._covariance is None:
            return columns
        low, high = np.asarray(fit.conf_int(level)).T
        return columns | {
            "std_error": np.asarray(fit.bse), "statistic": np.asarray(fit.zvalues),
            "p_value": np.asarray(fit.pvalues), "conf_low": low, "conf_high": high,
        }  # fmt: skip

    @property
    def tvalues(self) -> Named:
        """The same as :attr:`zvalues`, under the name statsmodels has, shape (p,)."""
        return self.zvalues

    @property
    def nobs(self) -> int:
        """The same as :attr:`n_records`, under the name statsmodels has."""
        return self.n_records

    @property
    def fvalue(self) -> float:
        """The F statistic of all slopes together, by their Wald test; costs nothing."""
        return self._slopes_test().statistic / self._slopes_test().df

    @property
    def f_pvalue(self) -> float:
        """The p value of :attr:`fvalue`."""
        return self._slopes_test().pvalue

    def _slopes_test(self) -> WaldTest:
        """Test that all slopes are zero."""
        from dpfast.inference.hypotheses import wald_test

        fit: Any = self
        first, last = int(fit._fit_intercept), len(fit.params) - int(fit._free_scale)
        rows = np.eye(len(fit.params))[first:last]
        return wald_test(self, rows[~np.isnan(np.asarray(fit.bse))[first:last]], 0.0)

    def t_test(
        self, contrast: ArrayLike | Combination | Sequence[Combination], value: ArrayLike = 0.0
    ) -> Contrast:
        """Test linear combinations of the coefficients, one at a time.

        Parameters
        ----------
        contrast : str, mapping of str to float, list of these, or array-like
            By name, ``"educ - 2 exper"`` or ``{"educ": 1.0, "exper": -2.0}``; equations,
            ``"2*educ + exper = 1"``, several with commas between; or weights of shape (p,) or
            (k, p).
        value : array-like, broadcast to shape (k,)
            Hypothesised values of combinations that are no equations.

        Returns
        -------
        Contrast
            Four arrays of shape (k,).

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
        >>> half = fit.t_test("x1", 0.5)
        >>> bool(half.estimate[0] == fit.params[1]), half.pvalues.shape
        (True, (1,))
        >>> bool(fit.t_test("x1 = 0.5").pvalues == half.pvalues)
        True
        """
        from dpfast.inference.contrasts import by_name
        from dpfast.inference.hypotheses import t_test

        rows, value = by_name(contrast, self.names, value)
        return t_test(self, rows, value)

    def wald_test(
        self, restriction: ArrayLike | Combination | Sequence[Combination], value: ArrayLike = 0.0
    ) -> WaldTest:
        """Test ``restriction @ params == value``, all rows together, by the Wald test.

        Parameters
        ----------
        restriction : str, mapping of str to float, list of these, or array-like
            By name or as equations, as for :meth:`t_test`, or of shape (k, p) or (p,); linearly
            independent.
        value : array-like, broadcast to shape (k,)
            Hypothesised values of combinations that are no equations.

        Returns
        -------
        WaldTest
            Statistic, degrees of freedom and p value.
        """
        from dpfast.inference.contrasts import by_name
        from dpfast.inference.hypotheses import wald_test

        rows, value = by_name(restriction, self.names, value)
        return wald_test(self, rows, value)

    def confidence_ellipse(
        self,
        first: int | str,
        second: int | str,
        level: float = 0.95,
        n_points: int = 200,
        *,
        alpha: float | None = None,
    ) -> NDArray[np.float64]:
        """Compute the boundary of the joint confidence region of two coefficients.

        Parameters
        ----------
        first, second : int or str
            Position or name of two coefficients.
        n_points : int
            Points on the boundary.

        Returns
        -------
        ndarray of shape (n_points, 2)
            In order around the ellipse, the first point again at the end.
        """
        from dpfast.inference.hypotheses import confidence_ellipse

        level = coverage(level, alpha)
        chosen = [self._index(first), self._index(second)]
        covariance = self.cov_params()[np.ix_(chosen, chosen)]
        degrees = float(self._degrees(np.eye(len(self.params))[chosen]).min())
        return confidence_ellipse(self.params[chosen], covariance, level, n_points, degrees)

    def ratios(
        self,
        contrast: ArrayLike | Combination | Sequence[Combination] | None = None,
        level: float = 0.95,
        *,
        alpha: float | None = None,
    ) -> Ratios:
        """Compute odds ratios or rate ratios: exponentials of coefficients or their combinations.

        Parameters
        ----------
        contrast : str, mapping of str to float, list of these, or array-like, optional
            As for :meth:`t_test`, without equations; by default every coefficient.
        """
        from dpfast.inference.hypotheses import ratios

        rows, _ = self._combinations(contrast)
        return ratios(self, rows, coverage(level, alpha))

    def marginal_effects(
        self,
        X: Any = "centre",
        level: float = 0.95,
        *,
        alpha: float | None = None,
        average: bool = False,
        contrasts: str | Sequence[str] = (),
    ) -> MarginalEffects:
        """Compute effects of each variable on the mean at public rows, by the delta method.

        The effect of a variable is the derivative of the prediction by it, through all terms that
        contain it: powers, products, splines, logarithms.  Where the model is not linear in it, it
        depends on where it is taken.  Slopes that are shrunk for predictions are not shrunk here.

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            Public rows, as for :meth:`dpfast.Fit.predict`.  By default one row: the declared or
            privately estimated centre of the columns, levels at their reference.  The result says
            where that is.  Not "overall" or "mean": averages over the records, or at their means,
            are queries about them.
        average : bool
            Whether effects are averaged over the rows of X, such as a public grid.
        contrasts : str or sequence of str
            Numeric columns of zeros and ones: their effect is the difference of the means at 1 and
            at 0, not the derivative.

        Privacy
        -------
        Costs nothing for public rows, and at the centre.  The effect at a private row reveals
        something about that row.

        Notes
        -----
        The effect is a derivative, unless ``contrasts`` names the column: that it has zeros and
        ones is not public.  For a declared level and a binary column it is the difference from the
        reference.  After a schema it is for the
        coded unit of a column, and for the column's own unit with ``fit.natural``.  Beyond the
        range to which a column is clipped predictions are constant, so the effect is 0.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> fit = dpfast.fit(X, X[:, 0] > 0.0, "logistic", privacy=2.0, standardize=False)
        >>> at_zero = fit.marginal_effects([[0.0]])
        >>> p = 1.0 / (1.0 + np.exp(-fit.params[0]))
        >>> bool(abs(at_zero.estimate[0, 0] - p * (1.0 - p) * fit.params[1]) < 1e-12)
        True
        """
        from dpfast.inference.margins import marginal_effects

        level, average = coverage(level, alpha), flag(average, "average")
        return marginal_effects(self, X, level, names_given(contrasts, "contrasts"), average)

    def _combinations(self, contrast: Any) -> tuple[Array, Array]:
        """Return rows of weights, those of single coefficients by default, and their values."""
        if contrast is None:
            return np.eye(len(self.params)), self.params
        from dpfast.inference.contrasts import by_name
        from dpfast.inference.hypotheses import combinations

        matrix, value = by_name(contrast, self.names)
        if np.any(value):
            raise InvalidInput(
                "an interval is of combinations, and an equation has a value: leave it out, or "
                "test it with t_test."
            )
        rows = combinations(matrix, len(self.params))
        return rows, rows @ self.params

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
