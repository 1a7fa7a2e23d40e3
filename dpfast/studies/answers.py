"""Dispatch of requests to the public functions that answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpfast.data.columns import column, number_columns, numbers
from dpfast.data.schema import Binary, Schema
from dpfast.data.source import records
from dpfast.effects import cox, treatment_effect, two_stage
from dpfast.errors import InferenceUnavailable
from dpfast.inference.rendering.arrays import plain
from dpfast.inference.rendering.table import Summary
from dpfast.models import Objective
from dpfast.regression.fit import fit
from dpfast.studies.requests import ANALYSES, StudyRequest, loss_of
from dpfast.tables import absorbed, counts, fits, means, quantiles

Options = dict[str, Any]


#: Functions whose arguments are named as the request's fields.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "two_stage": two_stage,
    "absorbed": absorbed,
    "cox": cox,
    "counts": counts,
    "means": means,
    "quantiles": quantiles,
    "fits": fits,
}


class Persons(NamedTuple):
    """Persons whom a study protects, as :func:`dpfast.records` takes them."""

    group: str
    group_size: int | None
    each: str


def answered(
    request: StudyRequest, table: Any, schema: Any, persons: Persons | None = None, **options: Any
) -> Any:
    """Answer a request; ``options`` are ``privacy``, ``ledger`` and ``noise``."""
    analysis, given = request.analysis, request.arguments
    if analysis == "effect":
        return _effect(request, table, schema, persons, options)
    beside = {} if persons is None else persons._asdict()
    if given.get("weights") is not None:
        beside |= {"sample_weight": given["weights"]}
        beside |= {"largest_weight": given.get("largest_weight")}
    table = records(table, **beside) if beside else table
    if analysis == "fit":
        return fit(given["formula"], table, loss_of(given["loss"]), schema=schema, **options)
    options |= {name: given[name] for name in ANALYSES[analysis] if name in given}
    if analysis != "quantiles":  # only quantiles need the level before they are computed
        del options["level"]
    for name in ("weights", "largest_weight"):
        options.pop(name, None)
    return FUNCTIONS[analysis](table=table, schema=schema, **options)


def objective_of(request: StudyRequest) -> Objective:
    """Return the objective of a request for a fit."""
    return Objective(loss_of(request.arguments["loss"]), fit_intercept=request.reads.intercept)


def _effect(
    request: StudyRequest, table: Any, schema: Schema, persons: Persons | None, options: Options
) -> Any:
    fields = request.arguments
    response, name, covariates = fields["response"], fields["treatment"], fields["covariates"]
    X: Any
    y: Any = None
    if response in request.reads.declared:
        X = schema.encode(table, covariates, response)
    else:
        columns = number_columns(table, [*covariates, response])
        X, y = columns[:, :-1], columns[:, -1]
    treatment = column(table, name)
    declared = schema[name] if name in request.reads.declared else None
    if isinstance(declared, Binary):
        treatment = declared.encode(treatment, name)[0][:, 0]
    else:
        treatment = numbers(treatment, name)
    beside: Options = {}
    if persons is not None:
        beside = persons._asdict() | {"group": column(table, persons.group)}
    if fields["weights"] is not None:
        weights = numbers(column(table, fields["weights"]), fields["weights"])
        beside |= {"sample_weight": weights, "largest_weight": fields["largest_weight"]}
    if beside:
        X, y = records(X, y, **beside), None
    options |= {name: fields[name] for name in ("method", "propensity", "average")}
    return treatment_effect(X, treatment, y, **options)


def summary_of(request: StudyRequest, result: Any) -> Summary:
    """Summarise an answer as a table, at the level of the request."""
    summary: Summary = result._summary_at(request.arguments["level"])
    return summary


def ends_of(request: StudyRequest, result: Any) -> dict[str, Any]:
    """Return the ends of the intervals of an answer by name; empty where there are none."""
    level = request.arguments["level"]
    if request.analysis == "quantiles":
        return {request.arguments["column"]: np.stack([result.low, result.high], axis=-1)}
    if request.analysis in ("counts", "means"):
        names = result.columns or (None,)
        return {name or "count": result.conf_int(name, level) for name in names}
    if request.analysis == "fits":
        return {name: result.conf_int(name, level) for name in result.names}
    if request.analysis == "effect":
        return {"effect": result.conf_int(level)}
    try:
        return dict(zip(result.names, result.conf_int(level), strict=True))
    except InferenceUnavailable:  # too few records for intervals: the answer arrives without them
        return {}


def told_of(request: StudyRequest, result: Any) -> dict[str, Any]:
    """Return an answer with its request, intervals and summary, in plain values for JSON."""
    fields = {"request": request.to_dict(), "digest": request.digest}
    fields |= {"answer": result.to_dict(), "conf_int": ends_of(request, result)}
    told: dict[str, Any] = plain(fields | {"summary": str(summary_of(request, result))})
    return told
