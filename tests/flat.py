"""Calls from tables of keywords: each goes into the object that it belongs to."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import dpfast
from dpfast.data.source import records
from dpfast.models.objective import Objective

__all__ = ["flat", "weighted_fit"]

OF_RECORDS = frozenset(inspect.signature(records).parameters) - {"X", "y"}
OF_OBJECTIVE = frozenset({"scale", "weights", "ridge", "fit_intercept"})
OF_DESCENT = frozenset({"steps", "step_size", "average", "schedule", "start"})
OF_CERTIFICATE = frozenset({"certificate", "certificate_share"})


@cache
def flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes what belongs to records, objective and method beside its own."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        def taken(names: frozenset[str]) -> dict[str, Any]:
            own = names - set(signature.parameters)
            return {name: options.pop(name) for name in own & set(options)}

        def given(*names: str) -> str | None:
            return next((name for name in names if name in signature.parameters), None)

        beside, terms, steps = taken(OF_RECORDS), taken(OF_OBJECTIVE), {}
        loss, X = given("loss", "objective"), given("X", "data", "public_X")
        bandwidth = taken(frozenset({"bandwidth"})) if loss else {}
        if "method" in signature.parameters and given("clip"):
            steps = taken(OF_DESCENT)
        certified = taken(OF_CERTIFICATE) if given("direction") else {}
        bound = signature.bind_partial(*args, **options).arguments
        if beside and X is not None:
            y = [bound.pop("y")] if "y" in bound else []
            bound[X] = records(bound[X], *y, **beside)
            if "y" in signature.parameters:
                bound["y"] = None
        if bandwidth:
            from dpfast.models.quantile import Quantile

            bound["loss"] = Quantile(0.5, **bandwidth)
        if terms and loss is not None and not _plain(terms):
            kind = bound.get(loss, signature.parameters[loss].default)
            bound[loss] = Objective(kind, **terms)
        if steps:
            from dpfast.optimize import GradientDescent

            average = {"average": 0.5} if "sampling_rate" in signature.parameters else {}
            bound["method"] = GradientDescent(**average | steps)
        if certified and bound.get("method", "paper") == "paper":
            from dpfast.release.functional import Certified

            bound["method"] = Certified(**certified)
        return function(**bound)

    known = signature.parameters
    more = [
        *sorted(OF_RECORDS if {"X", "data"} & set(known) else ()),
        *sorted(OF_OBJECTIVE if {"loss", "objective"} & set(known) and len(known) > 2 else ()),
        *sorted(OF_DESCENT if {"clip", "method"} <= set(known) and "loss" in known else ()),
        *sorted(OF_CERTIFICATE if "direction" in known else ()),
    ]
    flattened = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in more
        if name not in known
    ]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*known.values(), *flattened]
    )
    return call


def _plain(terms: dict[str, Any]) -> bool:
    """Whether an objective would say nothing but its loss."""
    plain = {"scale": None, "weights": None, "ridge": 0.0, "fit_intercept": True}
    return all(
        type(value) is type(plain[name]) and value == plain[name] for name, value in terms.items()
    )


def weighted_fit(X, y, loss, scale=None):
    """Without privacy what methods of the papers fit: rows weighted as `Mallows(sqrt(p))` says."""
    weights = dpfast.Mallows((1 + X.shape[1]) ** 0.5)
    return dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=weights, scale=scale))
