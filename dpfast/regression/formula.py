"""``fit_formula``: a fit straight from a table, a formula and a schema of public facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dpfast.arguments import understood
from dpfast.data.beside.given import DASK
from dpfast.data.columns import column, library
from dpfast.data.formula import coding_from_formula, codings_of_table, columns_of_formula
from dpfast.data.records import Records
from dpfast.data.schema import Schema
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput, described
from dpfast.front.request import rows_unseen
from dpfast.front.rows import FormulaRows
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.optimize.protocol import Method
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.fit import fit
from dpfast.regression.standardise import Standardized

__all__ = ["fit_formula"]


@understood
def fit_formula(
    formula: str,
    data: Any,
    loss: str | Loss | Objective = "log-cosh",
    *,
    privacy: Budget | float | tuple[float, float],
    schema: Schema | None = None,
    method: str | Method = "auto",
    standardize: bool | Standardized | None = None,
    inference: bool = True,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Fit the regression a formula describes, with the public facts of a schema or with none.

    Parameters
    ----------
    formula : str
        Such as ``"log_wage ~ education + I(experience**2) + C(state)"``.  Numeric names stand for
        the columns as scaled by the schema, the response too, and categorical ones for indicators
        of their declared levels by the full-rank rule of formulaic and patsy.
    data : DataFrame of pandas, polars or Dask, Arrow table, mapping to arrays, path or Source
        Without a schema a Dask data frame stays where it is.
        The path of a Parquet file or folder is read block by block, by terms that are its columns.
        :func:`dpfast.records` of a table has persons, weights and offsets, which may be names of
        its columns, declared or not.
    loss : str, Loss or Objective
        ``scale`` (and the bounds of a ``FreeScale``) is in the response's own units, as are
        offsets, predictions and an estimated scale; ``ridge``, ``weights``, a method's ``start``
        and coefficients are of the coded columns and response.  The formula says whether there is
        an intercept: ``- 1`` drops it.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The total to spend.
    schema : Schema, optional
        Ranges, scaling and levels.  Without one terms are evaluated in the columns' own units,
        record by record (``log(wage)``, ``I(age**2)``, ``age:hours``), and where each lies and how
        much it varies is bought inside the total (``standardize`` of :func:`dpfast.fit`, True by
        default here); coefficients are in these units.  Levels are public facts: list them,
        ``C(region, levels=["north", "south"])``, or have a column whose type does.
    method, standardize, inference, ledger, noise, progress
        As for :func:`dpfast.fit`; without a schema everything is as there for a table's columns.

    Returns
    -------
    Fit
        Its ``predict`` takes tables with the columns of the formula.

    Raises
    ------
    ImportError
        Without the formulaic package (``pip install 'dpfast[tables]'``).

    Privacy
    -------
    Encoding maps each record on its own by public facts and spends nothing; the fit spends
    ``privacy`` (see :func:`dpfast.fit`), what is bought without a schema included.

    Examples
    --------
    >>> schema = dpfast.Schema({"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(-1, 1)})
    >>> data = {"x": np.linspace(-1.0, 1.0, 200), "y": np.linspace(-0.5, 0.5, 200)}
    >>> dpfast.fit_formula("y ~ x", data, schema=schema, privacy=2.0).names
    ('intercept', 'x')
    >>> dpfast.fit_formula("y ~ x + I(x**2)", data, privacy=2.0).names  # nothing is declared
    ('intercept', 'x', 'I(x ** 2)')
    """
    if isinstance(data, str) and not isinstance(formula, str):
        raise InvalidInput("the formula comes first: fit_formula('y ~ x', table, privacy=...).")
    if data is None:
        raise InvalidInput("a formula needs a table: dpfast.fit('y ~ x', table, privacy=...).")
    source = source_of(data, None)
    if source.response is not None or source.names is not None:
        raise InvalidInput("the formula names response and covariates: pass neither y nor names.")
    data = source.covariates
    on_disk = isinstance(data, str | os.PathLike)
    if isinstance(data, Records) or (on_disk and schema is not None):
        raise InvalidInput(
            "a formula reads a table, or a Parquet file by its path, without a schema: "
            "dpfast.fit('y ~ x', 'file.parquet', ...). Of records that are open already "
            "dpfast.open_parquet(path, covariates=[...], response=...) has the columns: "
            "dpfast.fit(opened, loss=...)."
        )
    named = ("sample_weight", "offset", "group")
    given = {what: getattr(source, what) for what in named}
    source = source.but(
        **{what: column(data, name) for what, name in given.items() if isinstance(name, str)}
    )
    options: dict[str, Any] = {
        "privacy": privacy, "method": method, "standardize": standardize, "inference": inference,
        "ledger": ledger, "noise": noise, "progress": progress,
    }  # fmt: skip
    if on_disk:
        from dpfast.data.files.parquet import open_parquet

        response, names, intercept = columns_of_formula(formula)
        opened = open_parquet(data, covariates=names, response=response)
        loss = _with_intercept(loss, intercept, options)
        return fit(source.but(covariates=opened), None, loss, **options)
    if schema is None:
        return _raw(formula, source, loss, options)
    coding = coding_from_formula(formula, schema)
    if coding.response is None:
        raise InvalidInput(
            f"formula {described(formula, text=True)} has no response: write 'response ~ terms'."
        )
    with rows_unseen(source.each):
        design = coding.design(data)
    return fit(source.but(covariates=design), None, loss, **options)


def _raw(
    formula: str, source: Source, loss: str | Loss | Objective, options: dict[str, Any]
) -> Fit:
    """A fit to terms of columns as they come, whose units are bought."""
    table = source.covariates
    if library(table) in DASK:
        from dpfast.data.cluster import coded_frame

        coding, names, X, y = coded_frame(formula, table)
    else:
        with rows_unseen(source.each):
            coding, response = codings_of_table(formula, table)
            design = coding.design(table)
            names, X, y = design.names, design.X, response.covariates(table)[:, 0]
    loss = _with_intercept(loss, coding.fit_intercept, options)
    found = fit(source.but(covariates=X, response=y, names=names), None, loss, **options)
    for told in {id(each): each for each in (found, found.coded)}.values():
        told._new_rows = FormulaRows(coding, told._new_rows)
    return found


def _with_intercept(
    loss: str | Loss | Objective, intercept: bool, options: dict[str, Any]
) -> str | Loss | Objective:
    """The loss or objective of columns as they come, with or without an intercept."""
    terms = terms_of(loss)
    if intercept and not terms.fit_intercept:
        raise InvalidInput("the formula says whether there is an intercept: '- 1' drops it.")
    # robust losses buy what they lack by themselves; a declared scale says that columns are coded
    if options["standardize"] is None and terms.scale is None:
        options["standardize"] = True
    if intercept or not terms.fit_intercept:
        return loss
    return Objective(**terms._replace(fit_intercept=False)._asdict())
