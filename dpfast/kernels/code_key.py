"""A name for the machine code of functions: equal names only where the code would be the same.

What a compiled function computes depends on its bytecode and constants, on its defaults, on the
values it closes over, on the globals and attributes of modules that it reads, on the functions it
calls, and on the compiler.  All of it goes into the key.  Anything of which this module does not
know that it is all of it makes the functions unknown, and they get no key.
"""

from __future__ import annotations

import builtins
import dis
import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

__all__ = ["code_key", "is_helper"]

#: Whose functions are known by name and version.
LIBRARIES: tuple[ModuleType, ...] = (builtins, math, np)
#: What makes machine code of Python functions here, besides Numba.
OWN_SOURCES = ("user_loss.py", "scalar_math.py", "machine_code.py", "code_key.py")
#: Settings of Numba that have nothing to do with the code.
IRRELEVANT = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}


class _UnknownError(Exception):
    """Something that the machine code may depend on cannot be described completely."""


def code_key(functions: tuple[Callable[..., Any], ...]) -> str | None:
    """SHA-256, in hexadecimal digits, of all that the machine code of the functions depends on.

    Parameters
    ----------
    functions : tuple of callable
        Python functions.

    Returns
    -------
    str or None
        None if that is not known for certain.
    """
    try:
        described = ascii((_compiler(), tuple(_function(f, ()) for f in functions)))
    except (_UnknownError, OSError, PackageNotFoundError):
        return None
    return hashlib.sha256(described.encode()).hexdigest()


def is_helper(value: Any) -> bool:
    """Whether this is a function under Numba's decorator without anything special about it."""
    if "numba" not in sys.modules:
        return False
    from numba.core.compiler import Compiler
    from numba.core.registry import CPUDispatcher

    kind: Any = type(value)
    return (
        kind is CPUDispatcher
        and value._can_compile  # no fixed signatures, to which arguments would be converted
        and not value.locals
        and value._compiler.pipeline_class is Compiler
    )


def _compiler() -> tuple[object, ...]:
    settings = {k: v for k, v in os.environ.items() if k.startswith("NUMBA_")}
    return (
        *_installation(),
        sys.flags.optimize,
        sorted((k, v) for k, v in settings.items() if k not in IRRELEVANT),
    )


@cache
def _installation() -> tuple[object, ...]:
    from dpfast.kernels.machine_code import target

    here = Path(__file__).parent
    sources = tuple(hashlib.sha256((here / name).read_bytes()).digest() for name in OWN_SOURCES)
    packages = tuple(version(name) for name in ("numba", "llvmlite", "numpy"))
    return (sources, packages, sys.version, sys.implementation.cache_tag, sys.abiflags, target())


def _function(function: Callable[..., Any], callers: tuple[object, ...]) -> tuple[object, ...]:
    if type(function) is not FunctionType or function in callers:
        raise _UnknownError
    code = function.__code__
    if code.co_cellvars:
        raise _UnknownError  # functions within the function
    return (
        code.co_code,
        code.co_exceptiontable,
        code.co_flags,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        (code.co_names, code.co_varnames, code.co_freevars),
        _value(code.co_consts),
        _value(function.__defaults__),
        _value(tuple(sorted((function.__kwdefaults__ or {}).items()))),
        tuple(_value(value, (*callers, function)) for value in _read_outside(function)),
    )


def _read_outside(function: FunctionType) -> Iterator[object]:
    """Every value the bytecode takes from outside the function, attributes of modules resolved."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    module: ModuleType | None = None  # on top of the stack
    for step in dis.get_instructions(function.__code__):
        if step.opname == "EXTENDED_ARG":
            continue
        attribute = step.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if module is not None and not attribute:
            raise _UnknownError  # a module that goes who knows where
        try:
            if step.opname == "LOAD_GLOBAL":
                value = _global(function, step.argval)
            elif step.opcode in dis.hasfree and step.opname == "LOAD_DEREF":
                value = cells[step.argval].cell_contents
            elif attribute and module is not None and not step.is_jump_target:
                value = getattr(module, step.argval)
                if is_helper(value):
                    raise _UnknownError  # may have been compiled when it was another
            elif step.opcode in dis.hasname or step.opcode in dis.hasfree:
                raise _UnknownError  # a method or attribute of a value, an import, an assignment
            else:
                continue
        except (KeyError, ValueError, AttributeError) as error:
            raise _UnknownError from error
        module = value if type(value) is ModuleType else None
        if module is None:
            yield value


def _global(function: FunctionType, name: str) -> object:
    if name in function.__globals__:
        return function.__globals__[name]
    return function.__builtins__[name]  # type: ignore[attr-defined,no-any-return,unused-ignore]


def _value(value: Any, callers: tuple[object, ...] = ()) -> tuple[object, ...]:
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        return (kind.__name__, value)
    if isinstance(value, float) and kind is float:
        return ("float", value.hex())
    if isinstance(value, tuple) and kind is tuple:
        return ("tuple", *(_value(entry, callers) for entry in value))
    if isinstance(value, (np.number, np.bool_)):
        return ("numpy", value.dtype.str, value.tobytes())
    if is_helper(value):
        options = tuple(sorted(value.targetoptions.items()))
        return ("helper", _value(options), _function(value.py_func, callers))
    name = getattr(value, "__name__", None)
    for library in LIBRARIES:
        if isinstance(name, str) and getattr(library, name, None) is value:
            if _replaced(value):
                break
            return ("library", library.__name__, name)
    raise _UnknownError


def _replaced(function: object) -> bool:
    """Whether somebody but Numba itself has told Numba what the function does."""
    if "numba" not in sys.modules:
        return False
    from numba.core.typing.templates import builtin_registry

    return any(
        _is_foreign(template)
        for known, kind in builtin_registry.globals
        if known is function
        for template in getattr(kind, "templates", ())
    )


def _is_foreign(template: Any) -> bool:
    maker = getattr(template, "_overload_func", None) or vars(template).get("generic") or template
    module = maker.__module__  # None if made from a signature
    return module is not None and not module.startswith("numba.")
