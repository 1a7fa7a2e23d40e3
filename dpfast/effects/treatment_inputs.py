"""Records, treatment and propensity of an effect, refused by their shapes and roles alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpfast.arguments import Array, number_in
from dpfast.curator.effects import FOLDS, Aim
from dpfast.data.columns import column, numbers, refuse_column_of, refuse_other_rows
from dpfast.data.schema import Binary, Schema
from dpfast.data.source import Source
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import Account, FitRequest, hide_row_details
from dpfast.privacy.noise import NoiseSource
from dpfast.regression.formula import read_formula, table_source
from dpfast.scaling.budget import MIN_RECORDS_FACTOR

#: Whether the propensity and the outcomes are modelled on covariates, for each method.
METHODS = {
    "aipw": (True, True),
    "regression": (False, True),
    "difference": (False, False),
}

DESCRIBED = {
    (True, True): "augmented inverse propensity weighting, propensity and outcomes on covariates",
    (False, True): "regression adjustment, treatment taken as randomised",
    (False, False): "difference in means, treatment taken as randomised",
}

#: ``n mu^2`` above which outcomes of a randomised trial are adjusted for covariates.  Below it the
#: noise of the mean is about as large as its standard error, and models of outcomes cost too much.
MIN_ADJUSTED = 100.0

INSTEAD = (
    "A known part of the outcome is subtracted from it: pass y - offset as the outcome. Persons' "
    'rows count with their mean: each="person".'
)

WITHOUT_FORMULA = (
    "a schema declares the columns of a formula: treatment_effect('y ~ age', 'treated', table, "
    "schema=schema, privacy=...). Without a formula pass schema.encode(table, covariates, "
    "response) as X."
)


class Inputs(NamedTuple):
    """The request, the treatment, and the propensity: a public number, a column, or None."""

    request: FitRequest
    treated: Array
    propensity: Any


def read_inputs(
    source: Source,
    treatment: Any,
    propensity: Any,
    schema: Schema | None,
    account: Account,
    noise: NoiseSource | None,
) -> Inputs:
    """Read records, treatment and propensity, and refuse wrong shapes and roles."""
    if isinstance(source.covariates, str):
        source, treatment, propensity = _by_formula(source, treatment, propensity, schema)
    elif schema is not None:
        raise InvalidInput(WITHOUT_FORMULA)
    takes = ("group", "each", "sample_weight")
    with hide_row_details(source.each):
        request = FitRequest(
            source, None, account, fit_intercept=True, noise=noise, takes=takes, instead=INSTEAD
        )
        if request.group_size > 1 or (source.group_size is not None and not request.means):
            raise InvalidInput(
                'of persons with several rows the mean counts: pass each="person", and no '
                "group_size."
            )
        refuse_column_of(source.covariates, treatment, "treatment")
        if treatment is not None and treatment is source.response:
            raise InvalidInput("treatment and y are one and the same. Pass the outcome as y.")
        treated = _column_beside(source.covariates, treatment, request, "treatment")
        known: Any = None
        if propensity is not None:
            try:
                known = number_in(propensity, "propensity", "(0, 1)")
            except InvalidInput:
                if not hasattr(propensity, "__len__"):
                    raise
                known = _column_beside(source.covariates, propensity, request, "propensity")
    if request.n < FOLDS:
        raise InvalidInput(
            f"records are split at random into {FOLDS} folds; received {request.n}. Pass at least "
            f"{FOLDS}."
        )
    return Inputs(request, treated, known)


def _by_formula(
    source: Source, treatment: Any, propensity: Any, schema: Schema | None
) -> tuple[Source, Any, Any]:
    """Evaluate a formula, and take treatment and propensity from the columns of its table."""
    if source.response is None:
        raise InvalidInput(
            "a formula comes with the treatment's name and a table: treatment_effect('y ~ age', "
            "'treated', table, privacy=...)."
        )
    read = read_formula(source.covariates, source.response, schema, own_units=True)
    if not read.terms.coding.fit_intercept:
        raise InvalidInput("effects are of models with an intercept: leave '- 1' out.")
    table = table_source(source.response).covariates
    columns = []
    for name, value in (("treatment", treatment), ("propensity", propensity)):
        if not isinstance(value, str):
            columns.append(value)
            continue
        if value in read.terms.columns:
            raise InvalidInput(
                f"{name} is the column {described(value, text=True)} of the formula, too. Leave "
                "it out there."
            )
        columns.append(_declared_column(table, value, schema))
    return read.source, *columns


def _declared_column(table: Any, name: str, schema: Schema | None) -> Any:
    """Return a column of a table, encoded where the schema declares it binary."""
    if schema is None or not isinstance(schema.columns.get(name), Binary):
        return column(table, name)
    return schema.encode(table, [name]).X[:, 0]


def description(aim: Aim, known: Any, overlap: float, constant: bool) -> str:
    """Describe the adjustment in words; ``constant``: one public propensity and no models."""
    if known is None:
        adjustment = DESCRIBED[aim[:2]]
    else:
        adjustment = "regression adjustment" if aim.outcomes else "difference in means"
        adjustment += ", propensity known"
        adjustment += "" if aim.known is None else f" to be {aim.known:g}"
    folds = "" if constant else f"{FOLDS} folds"
    bounds = f", propensities within [{overlap:g}, {1 - overlap:g}]" if aim.known is None else ""
    return f"{adjustment}; {folds}{bounds}{', on the treated' * aim.treated}"


def aim_of(method: str, known: Any, treated: bool, n: int, p: int, mu: float) -> Aim:
    """Choose which models are fitted, from public numbers."""
    of_propensity, outcomes = METHODS[method]
    if known is None:
        return Aim(of_propensity, outcomes, treated)
    constant = known if isinstance(known, float) else None
    if method == "aipw" and constant is not None:
        smaller_arm = 2.0 * min(constant, 1.0 - constant) * n * mu
        outcomes = smaller_arm * mu >= MIN_ADJUSTED
        outcomes = outcomes and smaller_arm >= MIN_RECORDS_FACTOR * (2 * p) ** 1.5
    return Aim(False, outcomes, treated, constant)


def _column_beside(X: Any, values: Any, request: FitRequest, name: str) -> Array:
    """Convert a column beside the records to numbers; refused by shape, never by value."""
    rows = request.rows
    if not hasattr(rows, "X"):
        raise InvalidInput(
            "treatment_effect needs records in memory: an array, a data frame or a design of one. "
            f"Received {type(X).__name__}."
        )
    refuse_other_rows(X, values, name)
    column = numbers(values, name)
    if column.shape != (rows.n,):
        raise InvalidInput(
            f"{name} must have one entry for each of the {rows.n} records; received shape "
            f"{column.shape}."
            if not request.means
            else f"{name} must have one entry for each row."
        )
    return column
