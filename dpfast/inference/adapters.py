"""Fits as models of the package marginaleffects: released numbers and public rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.inference.results import Fit

#: Name of the response where the fit knows none.
RESPONSE = "response"


def marginaleffects_model(fit: Fit, rows: Any) -> Any:
    """Make a model for the package marginaleffects (0.6 and later) from a fit and public rows.

    Its functions then work with the fit's released coefficients and covariance: ``slopes``,
    ``predictions``, ``comparisons`` and their averages, which are over these rows.  Their
    intervals are normal; those of :meth:`Fit.marginal_effects` allow for the noise in standard
    errors, too.

    Parameters
    ----------
    fit : Fit
        With standard errors.
    rows : pandas or polars DataFrame, or mapping of str to array
        Public rows, with the columns that the fit reads.  A column of zeros and ones in them is
        taken to be binary.

    Returns
    -------
    marginaleffects.classes.ModelAbstract

    Privacy
    -------
    Costs nothing for public rows: it holds released numbers only.

    Examples
    --------
    >>> age = np.linspace(20.0, 60.0, 2000)
    >>> table = {"age": age, "pay": 10.0 + 0.1 * age}
    >>> fit = dpfast.fit("pay ~ age", table, "least-squares", privacy=1.0)
    >>> model = dpfast.inference.marginaleffects_model(fit, {"age": [30.0, 40.0]})  # doctest: +SKIP
    >>> marginaleffects.avg_slopes(model)  # doctest: +SKIP
    """
    if not isinstance(fit, Fit):
        raise InvalidInput(f"fit must be a fit of dpfast.fit; received {described(fit)}.")
    try:
        import polars
        from marginaleffects.classes import ModelAbstract, ModelVault
    except ImportError as error:
        raise ImportError(
            "the adapter needs marginaleffects 0.6 or later: pip install marginaleffects. Without "
            "it there is fit.marginal_effects(rows, average=True)."
        ) from error
    table = polars.DataFrame(
        rows if isinstance(rows, polars.DataFrame) else {name: list(rows[name]) for name in rows}
    )
    width = fit._rows(table).shape[1]

    class Model(ModelAbstract):
        """Predictions of the fit with other coefficients, as its standard errors need them."""

        def get_exog(self, newdata: Any) -> Any:
            return _design(fit, newdata)

        def get_predict(self, params: Any, newdata: Any) -> Any:
            design = newdata if isinstance(newdata, np.ndarray) else _design(fit, newdata)
            line = design[:, :width] @ np.asarray(params) + design[:, width]
            numbers = {"rowid": np.arange(len(design), dtype=np.int32)}
            return polars.DataFrame(numbers | {"estimate": fit._response(line)})

    vault = ModelVault(
        coef=np.asarray(fit.params)[:width],
        coefnames=np.array(fit.names[:width]),
        formula=lambda data: (None, _design(fit, data)),
        modeldata=table.with_columns(polars.lit(0.0).alias(RESPONSE)),
        vcov=np.asarray(fit.cov_params())[:width, :width],
        package="dpfast",
        variable_names=[RESPONSE, *table.columns],
    )
    return Model(fit, vault)


def _design(fit: Fit, rows: Any) -> np.ndarray[Any, Any]:
    """Return design rows, with their offsets as the last column."""
    design = fit._rows(rows)
    offsets = np.broadcast_to(np.asarray(fit._offsets(rows)), len(design))
    return np.column_stack([design, offsets])
