"""The public surface, enumerated: what the sweeps of all public functions have to cover."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import dpfast

#: Rooms of public functions.  `errors` holds exceptions only.
ROOMS = ("audit", "baselines", "bayesopt", "datasets", "estimators", "plots")

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


def public() -> dict[str, Any]:
    """Every public callable, by the name users write after `dpfast.`; each once."""
    found: dict[str, Any] = {}
    for name in ("", *ROOMS):
        for key in exported(name):
            thing = getattr(room(name), key)
            if callable(thing) and thing not in found.values():
                found[f"{name}.{key}".lstrip(".")] = thing
    return found


def classes() -> dict[str, type]:
    return {
        name: thing
        for name, thing in public().items()
        if inspect.isclass(thing) and not issubclass(thing, BaseException)
    }


def methods() -> Iterator[tuple[str, str, Any]]:
    """Class, name and function of every public method or property, its inherited ones included."""
    for owner, kind in classes().items():
        for key in sorted(dir(kind)):
            if key.startswith("_") and key not in SIGNS:
                continue
            member = inspect.getattr_static(kind, key)
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(function) and function.__module__.startswith("dpfast."):
                yield owner, key, function


def parameters_of(thing: Any) -> list[str]:
    """Names of the arguments a caller passes one by one."""
    found = inspect.signature(thing).parameters.values()
    kept = [p.name for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return [name for name in kept if name not in ("self", "cls")]
