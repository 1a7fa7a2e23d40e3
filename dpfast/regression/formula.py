"""``fit_formula``: a fit straight from a table, a formula and a schema of public facts."""

from __future__ import annotations

from typing import Any

from dpfast.data.columns import column, number_columns
from dpfast.data.formula import coding_from_formula, columns_of_formula
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, described
from dpfast.front.request import rows_unseen
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.privacy.budget import Budget
from dpfast.regression.fit import fit

__all__ = ["fit_formula"]


def fit_formula(
    formula: str,
    data: Any,
    loss: str | Loss | Objective = "log-cosh",
    *,
    schema: Schema | None = None,
    privacy: Budget | float,
    **options: Any,
) -> Fit:
    """Fit the regression a formula describes, with the public facts of a schema or with none.

    Parameters
    ----------
    formula : str
        Such as ``"log_wage ~ education + I(experience**2) + C(state)"``.  Numeric names stand for
        the columns as scaled by the schema, the response too, and categorical ones for indicators
        of their declared levels by the full-rank rule of formulaic and patsy.
    data : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
    loss : str, Loss or Objective
    schema : Schema, optional
        Ranges, scaling and levels.  Without one each term is a numeric column, and where it lies
        and how much it varies is bought inside the total (``standardize`` of :func:`dpfast.fit`,
        True by default here); coefficients are in the columns' own units.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total to spend.
    **options
        Passed to :func:`dpfast.fit`; ``sample_weight``, ``offset``, ``group`` may name columns of
        the table, declared or not.  ``scale`` (and the bounds of a ``FreeScale``) is in the
        response's own units, as are ``offset``, predictions and an estimated scale; ``ridge``,
        ``weights``, a method's ``start`` and coefficients are of the coded columns and response.
        Without a schema everything is as in :func:`dpfast.fit` for a table's columns.

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
    ``privacy`` (see :func:`dpfast.fit`), what is bought without a schema included.

    Examples
    --------
    >>> schema = dpfast.Schema({"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(-1, 1)})
    >>> data = {"x": np.linspace(-1.0, 1.0, 200), "y": np.linspace(-0.5, 0.5, 200)}
    >>> dpfast.fit_formula("y ~ x", data, schema=schema, privacy=1.0, scale=0.5).names
    ('intercept', 'x')
    """
    for what in ("sample_weight", "offset", "group"):
        if isinstance(options.get(what), str):
            options[what] = column(data, options[what])
    if schema is None:
        return _raw(formula, data, loss, privacy=privacy, **options)
    coding = coding_from_formula(formula, schema)
    if coding.response is None:
        raise InvalidInput(
            f"formula {described(formula, text=True)} has no response: write 'response ~ terms'."
        )
    with rows_unseen(options.get("each", "row")):
        design = coding.design(data)
    return fit(design, None, loss, privacy=privacy, **options)


def _raw(formula: str, data: Any, loss: Any, **options: Any) -> Fit:
    """A fit to columns as they come, whose units are bought."""
    response, names, intercept = columns_of_formula(formula)
    if "fit_intercept" in options:
        raise InvalidInput("the formula says whether there is an intercept: '- 1' drops it.")
    with rows_unseen(options.get("each", "row")):
        found = number_columns(data, [*names, response])
    # robust losses buy what they lack by themselves; a declared scale says that columns are coded
    if options.get("standardize") is None and options.get("scale") is None:
        options["standardize"] = True
    return fit(found[:, :-1], found[:, -1], loss, fit_intercept=intercept, names=names, **options)
