"""``fit_formula``: a fit straight from a table, a formula and a schema of public facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dpfast.data.coding import Coding, Design
from dpfast.data.columns import column, library
from dpfast.data.formula import terms_of_table
from dpfast.data.record_weights.columns_given import DASK
from dpfast.data.records import Records
from dpfast.data.schema import Schema
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput, understood
from dpfast.fit_requests.request import hide_row_details
from dpfast.fit_requests.rows import FormulaRows, with_offset
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective
from dpfast.models.objective import terms_of
from dpfast.optimize.protocol import Method
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.fit import fit
from dpfast.scaling.standardized import Standardized


@understood
def fit_formula(
    formula: str,
    data: Any,
    loss: str | Loss | Objective = "least-squares",
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
    """Fit the regression of a formula, with or without the public facts of a schema.

    Parameters
    ----------
    formula : str
        Such as ``"log_wage ~ education + I(experience**2) + C(state)"``.  Numeric names stand for
        the columns, and the response, as scaled by the schema.  Categorical names stand for
        indicators of their declared levels, by the full-rank rule of formulaic and patsy.  Splines
        are ``bs(age, knots=[30, 45], lower_bound=18, upper_bound=90)``, ``cr`` (natural) and
        ``ns``.  Their knots and ends are public, in the column's own units; a declared range gives
        the ends, at which values are clipped.
    data : DataFrame of pandas, polars or Dask, Arrow table, mapping to arrays, path or Source
        A Dask data frame stays where it is, and a Parquet file or folder, by its path, is read
        block by block: their terms are evaluated there.
        :func:`dpfast.records` of a table adds persons, weights and offsets, by column names.
    loss : str, Loss or Objective
        ``scale`` (and the bounds of a ``FreeScale``) is in the response's own units, as are
        offsets, predictions and an estimated scale; ``ridge``, ``weights``, a method's ``start``
        and coefficients are of the coded columns and response.  The formula says whether there is
        an intercept: ``- 1`` drops it.
    privacy : float, (float, float), GDP, ZCDP or ApproxDP
        The total to spend.
    schema : Schema, optional
        Ranges, scaling and levels.  Without one terms are evaluated in the columns' own units,
        record by record (``log(wage)``, ``I(age**2)``, ``age:hours``).  Their centres and spreads
        are estimated with part of the total (``standardize`` of :func:`dpfast.fit`, True by default
        here); coefficients are in the original units.  Levels are public facts: list them,
        ``C(region, levels=["north", "south"])``, or have a column whose type does.  Declared
        levels are never dropped as constant.  One with too few records has a wide interval.
    method, standardize, inference, ledger, noise, progress
        As for :func:`dpfast.fit`; without a schema everything is as there for a table's columns.

    Returns
    -------
    Fit
        Its ``predict`` takes tables with the columns of the formula.

    Privacy
    -------
    Encoding maps each record on its own by public facts and spends nothing.  The fit spends
    ``privacy`` (see :func:`dpfast.fit`), with the private units it needs without a schema.

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
    source = table_source(data)
    named_offset = source.offset
    coding, source = coded_source(formula, source, schema)
    options: dict[str, Any] = {
        "privacy": privacy, "method": method, "standardize": standardize, "inference": inference,
        "ledger": ledger, "noise": noise, "progress": progress,
    }  # fmt: skip
    if schema is None and options["standardize"] is None and terms_of(loss).scale is None:
        # a public scale declares that columns are coded already
        options["standardize"] = True
    if not isinstance(source.covariates, Design):
        loss = with_intercept(loss, coding.fit_intercept)
    result = fit(source, None, loss, **options)
    if schema is None:
        versions = [result] if result.coded is result else [result, result.coded]
        for version in versions:
            version._new_rows = FormulaRows(coding, version._new_rows)
    return with_offset(result, named_offset)


def table_source(data: Any) -> Source:
    """Join what belongs to a table that a formula reads; refuse what is no such table."""
    if data is None:
        raise InvalidInput("a formula needs a table: dpfast.fit('y ~ x', table, privacy=...).")
    source = source_of(data, None)
    if source.response is not None or source.names is not None:
        raise InvalidInput("the formula names response and covariates: pass neither y nor names.")
    if isinstance(source.covariates, Records):
        raise InvalidInput(
            "a formula reads a table, or a Parquet file by its path: dpfast.fit('y ~ x', "
            "'file.parquet', ...). Of records that are open already dpfast.open_parquet(path, "
            "covariates=[...], response=...) has the columns: dpfast.fit(opened, loss=...)."
        )
    return source


def coded_source(formula: str, source: Source, schema: Schema | None) -> tuple[Coding, Source]:
    """Code a file, a data frame of a cluster or a table in memory by a formula."""
    data = source.covariates
    coding: Coding
    records: Records
    if isinstance(data, str | os.PathLike):
        from dpfast.data.files.parquet import open_formula

        coding, records = open_formula(data, formula, schema)
        return coding, source.but(covariates=records, terms=coding)
    source = with_columns(source)
    if library(data) in DASK:
        from dpfast.data.cluster import coded_frame

        coding, records = coded_frame(formula, data, schema)
        return coding, source.but(covariates=records, terms=coding)
    return of_table(formula, source, schema)


def with_columns(source: Source) -> Source:
    """Replace the names of special columns by the columns of the table."""
    names = {what: getattr(source, what) for what in ("sample_weight", "offset", "group")}
    columns = {
        what: column(source.covariates, name)
        for what, name in names.items()
        if isinstance(name, str)
    }
    return source.but(**columns)


def of_table(formula: str, source: Source, schema: Schema | None) -> tuple[Coding, Source]:
    """Code a table in memory by a formula; return the coding and the coded source."""
    data = source.covariates
    with hide_row_details(source.each):
        terms = terms_of_table(formula, data, schema)
        coding, design = terms.coding, terms.coding.design(data)
        if terms.left is None:
            return coding, source.but(covariates=design)
        y = terms.left.covariates(data)[:, 0]
        values = {"covariates": design.X, "response": y, "names": design.names}
        return coding, source.but(**values, terms=coding)


def with_intercept(loss: str | Loss | Objective, intercept: bool) -> str | Loss | Objective:
    """Return the loss with or without an intercept, as the formula says."""
    terms = terms_of(loss)
    if intercept and not terms.fit_intercept:
        raise InvalidInput("the formula says whether there is an intercept: '- 1' drops it.")
    if intercept or not terms.fit_intercept:
        return loss
    return Objective(**terms._replace(fit_intercept=False)._asdict())
