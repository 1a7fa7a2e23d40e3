"""The result of a fit: released numbers, their standard errors, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import Array, flag
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.inference.after_fit import AfterFit
from dpfast.inference.degrees import Covariance, coverage, t_intervals, t_pvalues, variances
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.named import Named, named
from dpfast.inference.natural import NaturalRows, natural_map
from dpfast.models.names import kind_of

if TYPE_CHECKING:
    from dpfast.inference.baseline import Baseline
    from dpfast.inference.rows import Coded, RowReader


class Fit(AfterFit):
    """A fitted model, which holds released numbers and no records.

    Attributes
    ----------
    params : Named, an ndarray of shape (p,)
        Estimated coefficients, the intercept first; a free scale last, under the name "scale".
        ``params["age"]`` is the same as ``params[k]`` where ``names[k] == "age"``; so for ``bse``,
        ``zvalues``, ``pvalues``, ``conf_int()`` and, in rows and columns, ``cov_params()``.
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
    units : Standardized or None
        Private centres and scales that the fit estimated or was given.  ``dpfast.fit(...,
        standardize=fit.units)`` uses them again at no cost.
    reads : int or None
        Passes over the records where every query reads them again: Parquet files and other blocks
        that are decoded, chunks of Dask.  None for arrays.
    warnings : tuple of str
        What makes the intervals unreliable, from released numbers only.

    Privacy
    -------
    Made of released and public numbers: its methods and properties cost nothing, however often.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=2.0)
    >>> fit.names, fit.conf_int().shape, fit.predict([[0.5]]).shape
    (('intercept', 'x1'), (2, 2), (1,))
    """

    units: Any
    reads: int | None
    _coded: Fit | None
    _covariance: Covariance | None
    _missing: str
    _why_none: str  # why none was asked for: without a warning, since it is as it should be
    _of_units: tuple[str, ...]
    _predictor: Array | None
    _linked: str
    _largest_mean: float
    _scale: float | None
    _baseline: Baseline | None

    def __init__(
        self,
        *,
        params: Array,
        names: tuple[str, ...],
        n_records: int,
        model: str,
        method: str,
        privacy: Guarantee,
        covariance: Covariance | None,
        iterates: Array,
        linked: str = "",
        fit_intercept: bool = True,
        free_scale: bool = False,
        rows: RowReader,
        missing: str = "",
        remarks: tuple[str, ...] = (),
        predictor: Array | None = None,
        largest_mean: float = math.inf,
        reads: int | None = None,
    ) -> None:
        self.params, self.reads = params, reads
        self.names = names
        self.n_records = n_records
        self.model = model
        self.method = method
        self.privacy = privacy
        self.iterates = iterates
        self._covariance = covariance and covariance.representable(params, names)
        self._predictor = predictor  # coefficients of predictions, if they are shrunk
        self._of_units = remarks  # of what was estimated before
        self._missing = missing  # why there is no covariance although it was asked for
        self._linked, self._largest_mean = linked, largest_mean  # the loss's name, if it has a link
        self._fit_intercept = fit_intercept
        self._free_scale = free_scale
        self._new_rows = rows
        self.units = self._coded = self._scale = self._baseline = None
        self._why_none = ""

    @classmethod
    def _read_later(
        cls,
        make: Callable[[], Fit],
        params: Array,
        names: tuple[str, ...],
        n_records: int,
        privacy: Guarantee,
        warnings: tuple[str, ...],
    ) -> Fit:
        """Make a fit with these parts; :func:`make` makes the others when one is first read."""
        fit = object.__new__(cls)
        vars(fit).update(
            params=params, names=names, n_records=n_records, privacy=privacy,
            _warnings=warnings, _make=make,
        )  # fmt: skip
        return fit

    def _complete(self) -> None:
        """Make the parts that nobody has read yet."""
        own = vars(self)
        make = own.get("_make")
        if make is not None:
            own.update(vars(make()) | own)  # a thread that does it at the same time finds the same
            own.pop("_make", None)
            own.pop("_warnings", None)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            self._complete()
            return vars(self)[name] if name in vars(self) else super().__getattr__(name)

    def __getstate__(self) -> dict[str, Any]:
        self._complete()
        return vars(self)

    @property
    def params(self) -> Named:
        """Estimated coefficients."""
        return named(vars(self)["params"], self.names)

    @params.setter
    def params(self, values: Array) -> None:
        vars(self)["params"] = np.asarray(values)

    @property
    def coding(self) -> Coded | None:
        return self._new_rows.coding

    @property
    def natural(self) -> Fit:
        """This fit with its coefficients in the original units of the columns.

        It is computed from released numbers by exact linear algebra.  A coefficient is the change
        of the response, in its own units, for one unit of the column.  The intercept is the
        response at zero.  Covariances, intervals and contrasts follow.  Predictions are the same,
        clipping to declared ranges included.  A fit of columns that were not coded is returned
        unchanged.

        Raises
        ------
        InferenceUnavailable
            Without an intercept, if columns were centred.

        Privacy
        -------
        Free: post-processing of what was released (claim D5).

        Examples
        --------
        >>> schema = dpfast.Schema({"age": dpfast.Numeric(20, 80), "pay": dpfast.Numeric(0, 100)})
        >>> ages = np.linspace(20.0, 80.0, 2000)
        >>> design = schema.encode({"age": ages, "pay": 10.0 + ages}, response="pay")
        >>> fit = dpfast.fit(design, None, dpfast.Objective("log-cosh", scale=5.0), privacy=3.0)
        >>> bool(abs(fit.natural.params[1] - 1.0) < 0.2)  # per year, not per 30 years
        True
        """
        if self.coding is None:
            return self
        with np.errstate(all="ignore"):  # of released numbers, in whatever units
            return self._in_original_units(self.coding)

    def _in_original_units(self, coding: Coded) -> Fit:
        """Convert coefficients, covariance and rows by the units of a coding."""
        to_natural = natural_map(coding, self._fit_intercept, self._free_scale)
        scaling = "coded"
        if coding.released:
            scaling = "standardised" if coding.origin else "privately standardised"
        converted = object.__new__(type(self))
        vars(converted).update(vars(self))
        converted.params = to_natural.params(vars(self)["params"])
        converted.iterates = to_natural.params(self.iterates)
        converted.model += f", fitted on {scaling} columns, reported in original units"
        if self._covariance is not None:
            before = self._covariance.matrix.diagonal()
            moved = to_natural.covariance(self._covariance)
            converted._covariance = moved.representable(converted.params, self.names, before)
        if self._predictor is not None:
            converted._predictor = to_natural.params(self._predictor)
        assert to_natural.units is not None
        converted._new_rows = NaturalRows(self._new_rows, *to_natural.units)
        converted._coded = self
        return converted

    @property
    def coded(self) -> Fit:
        """The fit of the coded columns that this one is the :attr:`natural` one of; or itself."""
        return self if self._coded is None else self._coded

    def released_units(self) -> list[tuple[str, tuple[float, float]]]:
        """List the centre and scale of each column that were estimated.

        Returns
        -------
        list of (str, (float, float))
            Name, centre and scale; empty where everything was declared.

        Privacy
        -------
        Free: these numbers were released.
        """
        coding = self.coded.coding
        return [] if coding is None else coding.released_units()

    def cov_params(self) -> Named:
        """Return the covariance of sampling and privacy noise together, shape (p, p).

        Raises :class:`~dpfast.errors.InferenceUnavailable` without one (``inference=False``).
        """
        if self._covariance is None:
            raise InferenceUnavailable(
                self._missing
                or self._why_none
                or "no covariance was released with this result: its budget went to the estimate. "
                "dpfast.fit(..., inference=True), its default, estimates one wherever loss and "
                "weights have a Hessian."
            )
        return named(self._covariance.matrix, self.names, self.names)

    @property
    def bse(self) -> Named:
        """Standard errors, shape (p,); they include the privacy noise."""
        with np.errstate(all="ignore"):  # of a covariance that an optimiser of one's own made
            return named(np.sqrt(self.cov_params().diagonal()), self.names)

    @property
    def zvalues(self) -> Named:
        """``params / bse``, shape (p,)."""
        with np.errstate(all="ignore"):
            return named(self.params / self.bse, self.names)

    @property
    def pvalues(self) -> Named:
        """Two-sided p values of each coefficient being zero, shape (p,) (see :meth:`conf_int`)."""
        return named(t_pvalues(self.zvalues, self.degrees_of_freedom), self.names)

    @property
    def degrees_of_freedom(self) -> Array:
        """Degrees of freedom of the t distribution used, shape (p,).

        ``2 / r^2`` where the privacy noise in a released variance has the relative standard
        deviation r; infinite where nothing is known of it.
        """
        return self._degrees(np.eye(len(self.params)))

    def _degrees(self, rows: Array) -> Array:
        """Compute degrees of freedom of the variances of linear combinations, shape (k,)."""
        self.cov_params()  # refuses where there is none
        assert self._covariance is not None
        return self._covariance.degrees_of_freedom(rows)

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Named:
        """Compute confidence intervals, shape (p, 2).

        Returns
        -------
        ndarray of shape (p, 2)
            Lower and upper ends, in the units of the coefficients; ``conf_int()["age"]`` is a row.

        Notes
        -----
        Standard errors are themselves released with noise.  So intervals use a t distribution,
        whose degrees of freedom follow from the noise scales.  With a large budget it is the
        normal.  The interval of a free scale is symmetric on the logarithm, so it is always
        positive.
        """
        level, known = coverage(level, alpha), self.degrees_of_freedom
        interval = t_intervals(level, self.params, self.bse, known, self._free_scale)
        return named(interval, self.names, ("low", "high"))

    @property
    def warnings(self) -> tuple[str, ...]:
        known: tuple[str, ...] | None = vars(self).get("_warnings")
        if known is not None:
            return known
        covariance = self._covariance
        if covariance is None:
            return (*self._of_units, self._missing) if self._missing else self._of_units
        remarks = [*self._of_units, *covariance.remarks]
        if not (covariance.n_floored or covariance.unfinished.any()):
            return tuple(remarks)
        with np.errstate(all="ignore"):
            ratios = covariance.unfinished / (1.96 * self.bse)
            ratios[covariance.unfinished == 0.0] = 0.0  # of what was left out, too
        worst = int(np.argmax(np.nan_to_num(ratios, nan=np.inf)))
        if covariance.n_floored:
            column = self.names[worst] if ratios[worst] > 0.0 else ""
            from dpfast.inference.rendering.targets import hidden_directions

            remarks.append(hidden_directions(covariance.n_floored, len(self.params), column))
        if covariance.unfinished.any() and not (ratios <= 1.0).all():
            remarks.append(
                f"the optimiser had not finished: an estimated {ratios[worst]:.2g} half-widths of "
                f"error may remain in {self.names[worst]!r}. Use more records, a larger budget, or "
                "a start nearer the solution; leave out covariates that barely vary."
            )
        return tuple(remarks)

    def predict(self, X: Any) -> Array:
        """Predict the mean response (a probability, a mean count) of new rows, shape (m,).

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            After a fit from a schema or formula: a table (data frame, Arrow table or mapping) with
            the columns it names, in their own units and any order; others are ignored.  After a
            fit from a data frame: one with the same columns, in any order, or an array in the
            fit's order.  Otherwise an array.  Where the fit named the column of its offset, a
            table that has the column has the offsets of its rows; elsewhere they are zero.

        Returns
        -------
        ndarray of shape (m,)
            In the response's own units.

        Privacy
        -------
        Costs nothing for public rows.  The prediction for a private row reveals something about
        that row.

        Notes
        -----
        As in the fit, values outside a declared range are clipped to it.  A row with a missing
        value or an undeclared label has no prediction: NaN.  Columns with a private centre and
        scale are clipped at five scales about the centre.  Where noise is a large part of what
        the slopes explain, predictions shrink the slopes (James and Stein 1961), and the method
        says by how much.  ``params`` and :meth:`predict_interval` are not shrunk.

        Examples
        --------
        >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> loss = dpfast.Objective("log-cosh", scale=1.0)
        >>> fit = dpfast.fit(X, 0.5 * X[:, 0], loss, privacy=50.0)
        >>> bool(np.allclose(fit.predict([[0.0], [1.0]]), [fit.params[0], fit.params.sum()]))
        True
        """
        return self._response(self._line(X) + self._offsets(X))

    def _offsets(self, X: Any) -> Array | float:
        """Read the offsets of new rows, in the units of the linear predictor."""
        rows: Any = self._new_rows
        while rows is not None and not hasattr(rows, "offsets"):
            rows = getattr(rows, "inner", getattr(rows, "coded", None))
        predictor_offsets: Array | float = 0.0 if rows is None else rows.offsets(X)
        coding = None if self._linked else self.coding
        return (
            predictor_offsets if coding is None else predictor_offsets / coding.response_units()[1]
        )

    def _line(self, X: Any) -> Array:
        """Compute the linear predictor of new rows, with slopes shrunk if the fit says so."""
        line = self._coefficients()
        if self._predictor is not None:
            line = self._predictor[: len(line)]
        return self._rows(X) @ line

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        *,
        alpha: float | None = None,
        new_response: bool = False,
    ) -> Array:
        """Compute intervals of the mean response, or of a new response, at new rows, shape (m, 2).

        Parameters
        ----------
        X : table, or array-like of shape (m, q)
            As for :meth:`predict`.
        new_response : bool
            Whether the interval is for a response that is drawn at the row (a prediction interval):
            with the released residual scale beside the error of the estimate, for normal errors of
            one variance.  Least squares and robust losses have one.

        Returns
        -------
        ndarray of shape (m, 2)
            Lower and upper ends, in the response's own units.

        Privacy
        -------
        As for :meth:`predict`.
        """
        level = coverage(level, alpha)
        rows = self._rows(X)
        q = rows.shape[1]
        padded = np.pad(rows, ((0, 0), (0, len(self.params) - q)))
        errors = np.sqrt(variances(padded, self.cov_params()))
        line = rows @ self._coefficients() + self._offsets(X)
        degrees = self._degrees(padded)
        if flag(new_response, "new_response"):
            scale = self._residual_scale()
            with np.errstate(all="ignore"):  # of released numbers, in whatever units
                total = np.hypot(errors, scale)
                # Satterthwaite (1946): the variance of residuals has n - p degrees of freedom
                known = degrees * (total / errors) ** 4
                degrees = np.fmin(known, max(1, self.n_records - len(self.params)))
            errors = total
        return self._response(t_intervals(level, line, errors, degrees))

    def _residual_scale(self) -> float:
        """Return the residual standard deviation in units of the linear predictor."""
        kind = None if self._linked else self.model
        if kind is None or kind.startswith("Quantile("):
            raise InferenceUnavailable(
                "an interval of a new response needs a standard deviation of residuals, which "
                "least squares and robust losses have. Fit the ends by quantiles: "
                "dpfast.fit_quantiles(X, y, [0.025, 0.975], privacy=1.0)."
            )
        location_and_spread = (0.0, 1.0) if self.coding is None else self.coding.response_units()
        return self.scale / location_and_spread[1]

    @property
    def scale(self) -> float:
        """Residual scale of least squares, a robust fit or a quantile, in the response's own units.

        Of a fit that estimated it, or with ``scale=dpfast.FreeScale(...)``, whose last parameter
        it is.  Of least squares it is the standard deviation of residuals, part of the released
        covariance of scores.
        """
        if self._scale is not None:
            return self._scale
        if not self._free_scale:
            raise InferenceUnavailable(
                "the scale of this fit was not estimated. "
                "dpfast.Objective(loss, scale=dpfast.FreeScale(low, high)) has it estimated."
            )
        return float(self.params[-1])

    def survival(
        self, at: Any = None, level: float = 0.95, *, alpha: float | None = None
    ) -> dict[str, Any]:
        """Estimate the survival curve of a fit of :func:`dpfast.effects.cox` at some covariates.

        Parameters
        ----------
        at : mapping of str to float, optional
            Values of covariates, by the names of their coefficients, in the columns' own units.
            The others are at their centres, which the fit released.

        Returns
        -------
        dict of str to ndarray
            Columns of a table with a row for each cut (of each ``stratum``): ``time``,
            ``cumulative_hazard``, ``survival``, ``conf_low`` and ``conf_high``.  The intervals are
            of survival, symmetric for the logarithm of the cumulative hazard, which is linear
            between cuts.  NaN where too few events were before a cut.

        Raises
        ------
        InferenceUnavailable
            For a fit without a baseline hazard.

        Privacy
        -------
        Free: post-processing of what was released (claim T13).

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> weeks, ends = rng.exponential(1.0, 9_000), rng.uniform(0.0, 3.0, 9_000)
        >>> table = {"weeks": np.minimum(weeks, ends), "died": 1.0 * (weeks <= ends)}
        >>> table["drug"] = rng.integers(0, 2, 9_000)
        >>> options = {"event": "died", "cuts": [0.5, 1.0, 2.0, 3.0], "privacy": 1.0}
        >>> curve = dpfast.effects.cox("weeks ~ drug", table, **options).survival({"drug": 1})
        >>> bool(abs(curve["survival"][1] - np.exp(-1.0)) < 0.1)
        True
        """
        if self._baseline is None:
            raise InferenceUnavailable(
                "only a fit of dpfast.effects.cox that estimated something has a baseline hazard. "
                "Curves by group without covariates are "
                "dpfast.tables.distribution(...).survival(event)."
            )
        return self._baseline.survival(self.names, self.params, at, coverage(level, alpha))

    def _coefficients(self) -> Array:
        return self.params[:-1] if self._free_scale else self.params

    def _rows(self, X: Any) -> Array:
        """Build design rows, the intercept's ones included."""
        X = self._new_rows.covariates(X)
        q = len(self._coefficients()) - int(self._fit_intercept)
        if X.ndim != 2 or X.shape[1] != q:
            raise InvalidInput(f"X must have shape (m, {q}); received {X.shape}.")
        return np.column_stack([np.ones(len(X)), X]) if self._fit_intercept else X

    def _response(self, t: Array) -> Array:
        return self._means(t)[0]

    def _mean_slopes(self, t: Array) -> tuple[Array, Array]:
        """Compute first and second derivative of :meth:`_response`."""
        return self._means(t)[1:]

    def _means(self, t: Array) -> tuple[Array, Array, Array]:
        """Compute means with two derivatives; without a link in the response's own units."""
        if self._linked:
            kind = kind_of(self._linked)
            assert kind is not None
            return kind._means(t, self._largest_mean)
        location, spread = (0.0, 1.0) if self.coding is None else self.coding.response_units()
        return location + spread * t, np.full(t.shape, spread), np.zeros(t.shape)

    def to_dict(self) -> dict[str, Any]:
        """Convert everything published by this fit to plain Python values (for JSON)."""
        table: dict[str, Any] = {
            "names": list(self.names),
            "params": self.params.tolist(),
            "n_records": self.n_records,
            "model": self.model,
            "method": self.method,
            "warnings": list(self.warnings),
            "privacy": self.privacy.to_dict(),
        }
        if scales := self.released_units():
            table["released_units"] = {name: {"centre": c, "unit": u} for name, (c, u) in scales}
        if self._covariance is not None:
            table["bse"] = self.bse.tolist()
            table["cov_params"] = self.cov_params().tolist()
        return table
