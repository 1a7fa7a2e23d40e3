"""``fit_formula``: a fit straight from a table, a formula and a schema of public facts."""

from __future__ import annotations

from typing import Any

from dpfast.data.formula import coding_from_formula
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, described
from dpfast.inference.results import Fit
from dpfast.models import Loss
from dpfast.privacy.budget import Budget
from dpfast.regression.fit import fit

__all__ = ["fit_formula"]


def fit_formula(
    formula: str,
    data: Any,
    loss: str | Loss = "log-cosh",
    *,
    schema: Schema,
    privacy: Budget | float,
    **options: Any,
) -> Fit:
    """Fit the regression a formula describes, with the public facts of a schema.

    Parameters
    ----------
    formula : str
        Such as ``"log_wage ~ education + I(experience**2) + C(state)"``.  Numeric names stand for
        the columns as scaled by the schema, the response too, and categorical ones for indicators
        of their declared levels by the full-rank rule of formulaic and patsy.
    data : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
    loss : str or Loss
    schema : Schema
        Ranges, scaling and levels; there is no other source for them.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total to spend.
    **options
        Passed to :func:`dpfast.fit`.  ``scale`` (and the bounds of a ``FreeScale``) is in the
        response's own units, as are predictions and an estimated scale; ``start``, ``ridge``,
        ``weights`` and the coefficients are of the coded columns and response.

    Returns
    -------
    Fit
        Its ``predict`` takes tables with the columns of the formula.

    Raises
    ------
    ImportError
        Without the formulaic package (``pip install 'dpfast[tables]'``).
    InvalidInput
        For a term that would have to look at more than one record, or an undeclared column.

    Privacy
    -------
    Encoding maps each record on its own by public facts and spends nothing; the fit spends
    ``privacy`` (see :func:`dpfast.fit`).

    Examples
    --------
    >>> schema = dpfast.Schema({"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(-1, 1)})
    >>> data = {"x": np.linspace(-1.0, 1.0, 200), "y": np.linspace(-0.5, 0.5, 200)}
    >>> dpfast.fit_formula("y ~ x", data, schema=schema, privacy=1.0, scale=0.5).names
    ('intercept', 'x')
    """
    coding = coding_from_formula(formula, schema)
    if coding.response is None:
        raise InvalidInput(
            f"formula {described(formula, text=True)} has no response: write 'response ~ terms'."
        )
    return fit(coding.design(data), None, loss, privacy=privacy, **options)
