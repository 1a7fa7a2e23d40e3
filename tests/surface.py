"""The public surface, enumerated: what the sweeps of all public functions have to cover."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any

import dpfast
from dpfast.data.source import records
from dpfast.models.objective import Objective
from dpfast.release.functional import Certified
from dpfast.studies.methods import Price, Weighted

#: Rooms of public functions.  `errors` holds exceptions only.
ROOMS = (
    "audit", "bayesopt", "datasets", "effects", "estimators", "plots", "studies",
    "tables",
)  # fmt: skip

#: Rooms of which no name is another's: these are called by their last name here.
PLAIN = (
    "inference", "models", "nonconvex", "optimize", "papers", "privacy", "quantiles", "regression",
    "release",
)  # fmt: skip

#: What users derive from, or are handed, and do not call.
BASES = {
    "Budget", "Domain", "Loss", "NoiseSource", "ReleasePlan", "TestAndRelease",
}  # fmt: skip

#: What users are handed, or derive from, without calling it by name.
HANDED = (
    "curator.answers.Released", "fit_requests.partial.PartialResult",
    "bayesopt.estimator_losses.SklearnLosses", "bayesopt.updates.Update", "data.coding.Coding",
    "data.coding.Design", "data.streams.StreamedRecords", "inference.guarantees.Guarantee",
    "effects.iv.TwoStage", "effects.results.TreatmentEffect",
    "inference.base.Result", "inference.margins.MarginalEffects", "inference.hypotheses.Ratios",
    "inference.hypotheses.Contrast", "inference.hypotheses.WaldTest", "inference.named.Named",
    "inference.rendering.compare.Comparison", "inference.rendering.table.Summary",
    "inference.rendering.table.Table", "inference.rendering.verification.ReportCheck",
    "nonconvex.kl.KLEstimate", "optimize.protocol.Answers",
    "optimize.budgets.Budgets", "optimize.propagation.Curvature",
    "optimize.propagation.PrivacyNoise", "optimize.protocol.Method",
    "optimize.schedules.Schedule", "optimize.trajectory.Trajectory",
    "privacy.ledger.Entry", "scaling.standardized.Standardized",
    "release.results.Certificate", "release.results.FunctionalRelease",
    "release.results.NotCertified", "release.results.ParameterRelease",
    "release.results.ReleaseGuarantee",
    "studies.plans.PlannedRequest", "studies.plans.StudyPlan", "studies.quotes.Quote",
    "tables.fitted.SubgroupFits", "tables.planning.CellPlan", "tables.results.CellTable",
    "tables.results.QuantileTable",
)  # fmt: skip


def without_paths(message: object, folder: object) -> str:
    """A message without a public path, in which a search for secrets would find letters."""
    return str(message).replace(str(folder), "folder")


#: Methods of Python itself that users call by a sign: `schema[name]`, `loss(theta)`.
SIGNS = ("__call__", "__getitem__")


def room(name: str) -> Any:
    return dpfast if name == "" else importlib.import_module(f"dpfast.{name}")


def exported(name: str) -> list[str]:
    """Public names of a room."""
    module = room(name)
    if name == "":
        return [key for key in module.__all__ if not key.startswith("_")]
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = vars(module).items()
    return [
        key
        for key, thing in own
        if callable(thing)
        and not key.startswith("_")
        and getattr(thing, "__module__", "") == module.__name__
    ]


@cache
def public() -> dict[str, Any]:
    """Every public callable that users call, by what they write after `dpfast.`; each once."""
    found: dict[str, Any] = {}
    handed_out = [name.rpartition(".")[2] for name in HANDED]
    for name in ("", *PLAIN, *ROOMS):
        for key in exported(name):
            thing = getattr(room(name), key)
            if name in PLAIN and (key in BASES or key in handed_out):
                continue
            if callable(thing) and thing not in found.values():
                found[key if name in PLAIN else f"{name}.{key}".lstrip(".")] = thing
    return found


OF_RECORDS = frozenset(inspect.signature(records).parameters) - {"X", "y"}
OF_OBJECTIVE = frozenset({"scale", "weights", "ridge", "fit_intercept"})
OF_CERTIFICATE = frozenset({"certificate", "certificate_share"})
PLAIN_TERMS = {"scale": None, "weights": None, "ridge": 0.0, "fit_intercept": True}


@cache
def flat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes what belongs to records, objective and certificate beside its own.

    Sweeps over every keyword need one table of keywords for a call; users write the objects.
    """
    signature = inspect.signature(function)
    known = signature.parameters
    loss = next((name for name in ("loss", "objective") if name in known), None)
    rows = next((name for name in ("X", "data", "public_X") if name in known), None)
    more = [
        *sorted(OF_RECORDS if {"X", "data"} & set(known) else ()),
        *sorted(OF_OBJECTIVE if loss and len(known) > 2 else ()),
        *sorted(OF_CERTIFICATE if "direction" in known else ()),
    ]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        def taken(names: frozenset[str]) -> dict[str, Any]:
            return {name: options.pop(name) for name in (names - set(known)) & set(options)}

        beside, terms = taken(OF_RECORDS), taken(OF_OBJECTIVE)
        certified = taken(OF_CERTIFICATE) if "direction" in known else {}
        bound = signature.bind_partial(*args, **options).arguments
        if beside and rows is not None:
            y = [bound.pop("y")] if "y" in bound else []
            bound[rows] = records(bound[rows], *y, **beside)
            if "y" in known:
                bound["y"] = None
        if loss is not None and not all(
            type(value) is type(PLAIN_TERMS[name]) and value == PLAIN_TERMS[name]
            for name, value in terms.items()
        ):
            bound[loss] = Objective(bound.get(loss, known[loss].default), **terms)
        if certified and bound.get("method", "paper") == "paper":
            bound["method"] = Certified(**certified)
        return function(**bound)

    beside = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in more
        if name not in known
    ]
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*known.values(), *beside]
    )
    return call


def flat_public() -> dict[str, Any]:
    """The same, whose functions also take what belongs to records and objective by keyword."""
    return {
        name: flat(thing) if inspect.isfunction(thing) else thing
        for name, thing in public().items()
    }


def classes() -> dict[str, type]:
    return {
        name: thing
        for name, thing in public().items()
        if inspect.isclass(thing) and not issubclass(thing, BaseException)
    }


@cache
def handed() -> dict[str, type]:
    """Classes of what is handed out, by the place where they are defined."""
    return {
        name: getattr(room(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in HANDED
    }


def members() -> Iterator[tuple[type, str, Any]]:
    """Class, name and function of each method or property users meet; each where it is defined."""
    seen = set()
    for kind in (*classes().values(), *handed().values()):
        for key in dir(kind):
            home = next((base for base in kind.__mro__ if key in vars(base)), object)
            if key.startswith("_") or (home, key) in seen:
                continue
            seen.add((home, key))
            function = function_of(home, key)
            if inspect.isfunction(function) and function.__module__.startswith("dpfast."):
                yield home, key, function


def function_of(kind: type, key: str) -> Any:
    """What is behind a method, static or not, or a property."""
    member = inspect.getattr_static(kind, key)
    return getattr(member, "__func__", getattr(member, "fget", member))


def methods() -> Iterator[tuple[str, str, Any]]:
    """Class, name and function of every public method or property, its inherited ones included."""
    for owner, kind in classes().items():
        for key in sorted(dir(kind)):
            if key.startswith("_") and key not in SIGNS:
                continue
            function = function_of(kind, key)
            if inspect.isfunction(function) and function.__module__.startswith("dpfast."):
                yield owner, key, function


def parameters_of(thing: Any) -> list[str]:
    """Names of the arguments a caller passes one by one."""
    found = inspect.signature(thing).parameters.values()
    kept = [p.name for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    options = {"Unpack[Price]": Price, "Unpack[Weighted]": Weighted}
    typed = [options[p.annotation] for p in found if p.annotation in options]
    named = typed[0].__annotations__ if typed else ()
    return [name for name in (*kept, *named) if name not in ("self", "cls")]
