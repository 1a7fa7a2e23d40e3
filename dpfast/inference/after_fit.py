"""The questions a fit answers afterwards, by the names of its coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.errors import InferenceUnavailable, InvalidInput, described
from dpfast.inference.degrees import coverage, t_intervals, t_pvalues, variances
from dpfast.inference.named import named
from dpfast.inference.rendering.methods import Shown

if TYPE_CHECKING:
    from dpfast.inference.contrasts import Combination
    from dpfast.inference.hypotheses import Contrast, WaldTest

Array = NDArray[np.float64]

AVERAGES = (
    "an average of effects over the records is a query about them, which a fit does not pay for: "
    "its interval needs the mean gradient of their effects. Pass the public rows at which effects "
    "are wanted, such as fit.marginal_effects([[0.0, 1.0]]) or a table, or nothing for effects at "
    "the centre of the columns, declared or estimated; received {received}."
)

NO_CENTRE = (
    "effects depend on where they are taken, and no centre of {which} was declared or estimated. "
    "Pass the public rows at which effects are wanted, such as a table of one row."
)


class Ratios(NamedTuple):
    """Exponentials of linear combinations of coefficients; fields have shape (k,).

    They are odds ratios of a logistic fit, and ratios of means of a log link. Where the response is
    a logarithm they are ratios of its geometric means.

    Attributes
    ----------
    estimate : ndarray of shape (k,)
    interval : ndarray of shape (k, 2)
        Exponentials of the ends of the combination's interval.
    pvalues : ndarray of shape (k,)
        Two-sided, of the ratio being 1.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    estimate: Array
    interval: Array
    pvalues: Array

    def __repr__(self) -> str:
        names = getattr(self.estimate, "_names", None) or [""] * len(self.estimate)
        rows = zip(names, self.estimate, self.interval, self.pvalues, strict=True)
        return "\n".join(
            f"{name} {e:.4g} [{a:.4g}, {b:.4g}], P = {p:.3g}" for name, e, (a, b), p in rows
        )


class MarginalEffects(NamedTuple):
    """Effects of variables on the mean response at public rows; of shape (m, v) unless noted.

    Attributes
    ----------
    names : tuple of str
        The v variables: columns that the model reads, levels but the reference one by one.  A
        variable counts once, with all terms that contain it.
    estimate : ndarray of shape (m, v)
        Derivative of the mean response, in its own units, by the variable; of a declared level the
        difference from the reference.
    bse : ndarray of shape (m, v)
        Standard errors by the delta method; they include the privacy noise.
    pvalues : ndarray of shape (m, v)
        Two-sided.
    interval : ndarray of shape (m, v, 2)
    at : dict of str to float or level, or None
        The centre at which the effects are taken where no rows were given.

    Privacy
    -------
    Post-processing of a released fit: costs nothing for public rows.
    """

    names: tuple[str, ...]
    estimate: Array
    bse: Array
    pvalues: Array
    interval: Array
    at: dict[str, Any] | None = None

    def __repr__(self) -> str:
        lines = [] if self.at is None else [f"at the centre, {_written(self.at)}"]
        for i, rows in enumerate(zip(self.estimate, self.interval, strict=True)):
            lines += [f"row {i}"] * (len(self.estimate) > 1)
            lines += [
                f"{name} {e:.4g} [{a:.4g}, {b:.4g}]"
                for name, e, (a, b) in zip(self.names, *rows, strict=True)
            ]
        return "\n".join(lines)


def _written(at: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in at.items()
    )


class AfterFit(Shown):
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
        from dpfast.inference.hypotheses import t_test

        level = coverage(level, alpha)
        rows, _ = self._combinations(contrast)
        test = t_test(self, rows, 0.0)
        with np.errstate(all="ignore"):  # of released numbers, in whatever units
            ends = np.exp(t_intervals(level, test.estimate, test.bse, self._degrees(rows)))
            found = Ratios(np.exp(test.estimate), ends, test.pvalues)
        if contrast is not None:
            return found
        pair = ("low", "high")
        return Ratios(*[named(field, self.names, pair) for field in found])

    def marginal_effects(
        self, X: Any = "centre", level: float = 0.95, *, alpha: float | None = None
    ) -> MarginalEffects:
        """Compute effects of each variable on the mean at public rows, by the delta method.

        The effect of a variable is the derivative of the prediction by it, through all terms that
        contain it: powers, products, splines, logarithms.  Where the model is not linear in it, it
        depends on where it is taken.

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            Public rows, as for :meth:`dpfast.Fit.predict`.  By default one row: the declared or
            privately estimated centre of the columns, levels at their reference.  The result says
            where that is.  Not "overall" or "mean": averages over the records, or at their means,
            are queries about them.

        Privacy
        -------
        Costs nothing for public rows, and at the centre.  The effect at a private row reveals
        something about that row.

        Notes
        -----
        The effect is a derivative, also for a column of zeros and ones.  For a declared level and
        a binary column it is the difference from the reference.  After a schema it is for the
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
        level, at = coverage(level, alpha), None
        if isinstance(X, str) and X == "centre":
            at, X = self._centre()
        if X is None or isinstance(X, str):
            raise InferenceUnavailable(AVERAGES.format(received=described(X, text=True)))
        rows = self._rows(X)
        width, first = rows.shape[1], int(self._fit_intercept)
        changes = self._new_rows.changes(X, self.names[first:width])
        estimate = np.empty((len(rows), len(changes)))
        gradients = np.zeros((*estimate.shape, len(self.params)))
        with np.errstate(all="ignore"):  # of released numbers, in whatever units
            once, twice = self._mean_slopes(rows @ self.params[:width] + self._offsets(X))
            for j, change in enumerate(changes):
                if change.slopes is not None:
                    slopes = np.pad(change.unit * change.slopes, ((0, 0), (first, 0)))
                    predictor_slope = slopes @ self.params[:width]
                    estimate[:, j] = once * predictor_slope
                    gradient = (twice * predictor_slope)[:, None] * rows + once[:, None] * slopes
                else:
                    assert change.levels is not None
                    (at_reference, at_reference_gradient), (at_level, at_level_gradient) = [
                        self._mean_and_gradient(x) for x in change.levels
                    ]
                    estimate[:, j], gradient = (
                        at_level - at_reference,
                        at_level_gradient - at_reference_gradient,
                    )
                gradients[:, j, :width] = gradient
            flat = gradients.reshape(-1, len(self.params))
            bse = np.sqrt(variances(flat, self.cov_params())).reshape(estimate.shape)
            degrees = self._degrees(flat).reshape(estimate.shape)
            pvalues = t_pvalues(estimate / bse, degrees)
        ends = t_intervals(level, estimate, bse, degrees)
        names = tuple([change.name for change in changes])
        return MarginalEffects(names, estimate, bse, pvalues, ends, at)

    def _mean_and_gradient(self, covariates: Array) -> tuple[Array, Array]:
        """Compute the mean response at rows without the intercept's ones, and its gradient."""
        ones = np.ones((len(covariates), int(self._fit_intercept)))
        rows = np.column_stack([ones, covariates])
        t = rows @ self.params[: rows.shape[1]]
        return self._response(t), self._mean_slopes(t)[0][:, None] * rows

    def _centre(self) -> tuple[dict[str, Any], Any]:
        """Return the declared or estimated centre of the columns, by name and as a row."""
        centres = self._new_rows.centres()
        lack = [] if centres is None else [name for name, value in centres if value is None]
        if centres is None or lack:
            which = " and ".join(map(repr, lack)) or "the columns"
            raise InferenceUnavailable(NO_CENTRE.format(which=which))
        return dict(centres), self._new_rows.row([value for _, value in centres])

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
