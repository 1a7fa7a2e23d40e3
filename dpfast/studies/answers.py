"""What answers each kind of request: the functions that anybody calls, with what was read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.data.columns import column, number_columns, numbers
from dpfast.data.schema import Binary, Schema
from dpfast.data.source import records
from dpfast.effects import cox, treatment_effect, two_stage
from dpfast.errors import InferenceUnavailable
from dpfast.inference.rendering.table import Summary
from dpfast.models import Objective
from dpfast.regression.formula import fit_formula
from dpfast.studies.requests import ANALYSES, StudyRequest, loss_of
from dpfast.tables import absorbed, counts, fits, means, quantiles

Options = dict[str, Any]


#: Functions whose arguments have the names of the request's fields, and those without a schema.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "two_stage": two_stage,
    "absorbed": absorbed,
    "cox": cox,
    "counts": counts,
    "means": means,
    "quantiles": quantiles,
    "fits": fits,
}
UNDECLARED = ("two_stage", "cox")


def answered(request: StudyRequest, table: Any, schema: Any, **options: Any) -> Any:
    """Ask it; ``options`` are ``privacy``, ``ledger`` and ``noise``."""
    analysis = request.analysis
    if analysis == "fit":
        return _fit(request, table, schema, options)
    if analysis == "effect":
        return _effect(request, table, schema, options)
    options |= {name: request.arguments[name] for name in ANALYSES[analysis]}
    if analysis != "quantiles":  # the level of other intervals is chosen afterwards
        del options["level"]
    if analysis not in UNDECLARED:
        options["schema"] = schema
    return FUNCTIONS[analysis](table=table, **options)


def objective_of(request: StudyRequest) -> Objective:
    """Of a request for a fit."""
    return Objective(loss_of(request.arguments["loss"]), fit_intercept=request.reads.intercept)


def _fit(request: StudyRequest, table: Any, schema: Schema | None, options: Options) -> Any:
    known = schema if request.reads.declared else None
    loss = loss_of(request.arguments["loss"])
    return fit_formula(request.arguments["formula"], table, loss, schema=known, **options)


def _effect(request: StudyRequest, table: Any, schema: Schema, options: Options) -> Any:
    asked = request.arguments
    response, name, covariates = asked["response"], asked["treatment"], asked["covariates"]
    X: Any
    y: Any = None
    if response in request.reads.declared:
        X = schema.encode(table, covariates, response)
    else:
        found = number_columns(table, [*covariates, response])
        X, y = found[:, :-1], found[:, -1]
    treatment = column(table, name)
    declared = schema[name] if name in request.reads.declared else None
    if isinstance(declared, Binary):
        treatment = declared.encode(treatment, name)[0][:, 0]
    else:
        treatment = numbers(treatment, name)
    if asked["weights"] is not None:
        weights = numbers(column(table, asked["weights"]), asked["weights"])
        most = asked["largest_weight"]
        X, y = records(X, y, sample_weight=weights, largest_weight=most), None
    options |= {name: asked[name] for name in ("method", "propensity", "average")}
    return treatment_effect(X, treatment, y, **options)


def summary_of(request: StudyRequest, result: Any) -> Summary:
    """An answer as a table, at the level that was asked for."""
    chosen_before = request.analysis == "quantiles"
    found: Summary = result.summary(*[] if chosen_before else [request.arguments["level"]])
    return found


def ends_of(request: StudyRequest, result: Any) -> dict[str, Any]:
    """The ends of the intervals of an answer, by what they are of; none where it has none."""
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
    except InferenceUnavailable:  # of too few records: what was paid for arrives without
        return {}
