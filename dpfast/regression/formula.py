"""Records of a formula: its terms in a table, with or without a schema of public facts."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpfast.data.coding import Design
from dpfast.data.columns import column, library
from dpfast.data.files.headers import is_paths, is_text_or_whole
from dpfast.data.files.lazy import LazyTable, lazy_table, values_of_terms
from dpfast.data.files.tables import read_columns_of_formula
from dpfast.data.formula import Terms, terms_of
from dpfast.data.record_weights.columns_given import DASK
from dpfast.data.records import Records
from dpfast.data.scaling.declared import DeclaredUnits, declared_units
from dpfast.data.scaling.units import in_units
from dpfast.data.schema import Schema
from dpfast.data.source import Source, source_of
from dpfast.errors import InvalidInput
from dpfast.fit_requests.request import hide_row_details
from dpfast.fit_requests.rows import rows_of_formula, with_offset
from dpfast.inference.results import Fit
from dpfast.models import Loss, Objective, resolve_loss
from dpfast.models.objective import terms_of as objective_terms
from dpfast.scaling.like import Like

#: Refusal of weights, which refer to coded columns, where nothing says how columns are coded.
NO_UNITS = (
    "weights limit the length of rows in declared units, and a term or the response of this "
    "formula has no finite range over the declared ones. Declare all of its columns (a logarithm "
    "needs a range above 0, such as Numeric(0.1, 100)), or pass standardize=True."
)


class FormulaRecords(NamedTuple):
    """Records of a formula's terms: in public units where all their ranges are declared."""

    terms: Terms
    source: Source
    loss: str | Loss | Objective
    schema: Schema | None
    has_units: bool
    offset: Any
    formula: str

    def standardize(self, asked: Any) -> Any:
        """Say whether units are estimated; by default where neither a schema nor a scale is given.

        A public scale declares that the columns' own units are right.  A public table is read by
        the same formula.
        """
        if isinstance(asked, Like):
            return Like(read_formula(self.formula, asked.source, self.schema, self.loss).source)
        if self.has_units or asked is not None:
            return asked
        objective = objective_terms(self.loss)
        if self.schema is not None and objective.weights is not None:
            raise InvalidInput(NO_UNITS)
        return None if objective.scale is not None else True

    def rows_of(self, result: Fit) -> Fit:
        """Make a fit read new rows of the formula's columns."""
        return with_offset(rows_of_formula(result, self.terms.coding), self.offset)


def read_formula(
    formula: Any,
    data: Any,
    schema: Schema | None,
    loss: str | Loss | Objective = "least-squares",
    *,
    own_units: bool = False,
) -> FormulaRecords:
    """Evaluate a formula's terms in a table, a file or a data frame of a cluster.

    Parameters
    ----------
    formula, data, schema, loss
        As for :func:`dpfast.fit`; the loss has the formula's intercept, or none.
    own_units : bool
        Keep the columns' own units, as of a declared domain.
    """
    source = table_source(data)
    offset = source.offset
    terms, source, names = term_records(formula, source, schema)
    units = None
    if schema is not None and not own_units:
        kind = resolve_loss(objective_terms(loss).loss, unbounded=True)
        centred = source.effects is None and terms.coding.fit_intercept
        units = declared_units(terms, names, linked=kind.link != "identity", centred=centred)
    if units is not None:
        source = source.but(**_in_units(source, names, units), names=None)
    loss = with_intercept(loss, terms.coding.fit_intercept)
    return FormulaRecords(terms, source, loss, schema, units is not None, offset, formula)


def _in_units(source: Source, names: tuple[str, ...], units: DeclaredUnits) -> dict[str, Any]:
    """Express covariates and response in public units; arrays, which are new, in their place."""
    X, y = source.covariates, source.response
    if isinstance(X, Records):
        return {"covariates": in_units(X, units.scales, units.coding)}
    units.scales.code_in_place(X, y)
    coding = units.coding
    design = Design(X, y, names, units.bounds, coding, coding.fit_intercept)
    return {"covariates": design, "response": None}


def table_source(data: Any) -> Source:
    """Join what belongs to a table that a formula reads; refuse what is no such table."""
    if data is None:
        raise InvalidInput("a formula needs a table: dpfast.fit('y ~ x', table, privacy=...).")
    source = source_of(data, None)
    if source.response is not None or source.names is not None:
        raise InvalidInput("the formula names response and covariates: pass neither y nor names.")
    if isinstance(source.covariates, Records):
        raise InvalidInput(
            "a formula reads a table, or a file by its path: dpfast.fit('y ~ x', "
            "'file.parquet', ...). Of records that are open already dpfast.open_parquet(path, "
            "covariates=[...], response=...) has the columns: dpfast.fit(opened, loss=...)."
        )
    return source


def term_records(
    formula: str, source: Source, schema: Schema | None
) -> tuple[Terms, Source, tuple[str, ...]]:
    """Evaluate a formula in a file, a data frame of a cluster or a table in memory.

    Returns
    -------
    terms, source, names : Terms, Source, tuple of str
        The source has records or arrays of the terms' values, in the columns' own units.
    """
    data = source.covariates
    records: Records
    if is_text_or_whole(data):
        return of_table(formula, with_columns(_read_whole(formula, source, schema)), schema)
    if is_paths(data):
        from dpfast.data.files.parquet import open_formula

        terms, records = open_formula(data, formula, schema)
    elif (lazy := lazy_table(data)) is not None:
        return _of_lazy(formula, source, schema, lazy)
    else:
        source = with_columns(source)
        if library(data) not in DASK:
            return of_table(formula, source, schema)
        from dpfast.data.cluster import coded_frame

        terms, records = coded_frame(formula, data, schema)
    assert records.names is not None
    return terms, source.but(covariates=records, terms=terms.coding), records.names


def _special(source: Source) -> dict[str, str]:
    """Return the names of the columns of weights, offsets and persons, by their arguments."""
    arguments = {what: getattr(source, what) for what in ("sample_weight", "offset", "group")}
    return {what: name for what, name in arguments.items() if isinstance(name, str)}


def _read_whole(formula: str, source: Source, schema: Schema | None) -> Source:
    """Read the columns of a file that is not read in blocks: text, Feather, NPZ."""
    special = _special(source)
    labels = [special.pop("group")] if "group" in special else []
    table = read_columns_of_formula(
        source.covariates, formula, schema, numbers=[*special.values()], labels=labels
    )
    return source.but(covariates=table)


def _of_lazy(
    formula: str, source: Source, schema: Schema | None, table: LazyTable
) -> tuple[Terms, Source, tuple[str, ...]]:
    """Evaluate a formula in a table that is evaluated when it is read."""
    special = _special(source)
    found = values_of_terms(formula, schema, table, list(dict.fromkeys(special.values())))
    columns = {what: found.others[name] for what, name in special.items()}
    values = {"covariates": found.X, "response": found.y, "names": found.names}
    return found.terms, source.but(**values, **columns, terms=found.terms.coding), found.names


def with_columns(source: Source) -> Source:
    """Replace the names of special columns by the columns of the table."""
    columns = {what: column(source.covariates, name) for what, name in _special(source).items()}
    return source.but(**columns)


def of_table(
    formula: str, source: Source, schema: Schema | None
) -> tuple[Terms, Source, tuple[str, ...]]:
    """Evaluate a formula in a table in memory."""
    data = source.covariates
    with hide_row_details(source.each):
        terms = terms_of(formula, schema, data)
        design, y = terms.coding.design(data), terms.left.design(data).X[:, 0]
    values = {"covariates": design.X, "response": y, "names": design.names}
    return terms, source.but(**values, terms=terms.coding), design.names


def with_intercept(loss: str | Loss | Objective, intercept: bool) -> str | Loss | Objective:
    """Return the loss with or without an intercept, as the formula says."""
    terms = objective_terms(loss)
    if intercept and not terms.fit_intercept:
        raise InvalidInput("the formula says whether there is an intercept: '- 1' drops it.")
    if intercept or not terms.fit_intercept:
        return loss
    return Objective(**terms._replace(fit_intercept=False)._asdict())
