"""Special functions of SciPy, as ``scipy.special`` has them, loaded without that package.

The package takes ten times as long as the functions, and longer than the fit that is printed.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from dpfast.kernels.pointers import without_packages


@cache
def _functions() -> Any:
    """Load the module of functions; the package where that does not go."""
    name = "scipy.special._ufuncs"
    with without_packages(name):
        functions = sys.modules.get(name)
    return import_module("scipy.special") if functions is None else functions


def __getattr__(name: str) -> Any:
    if name[:1] == "_":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_functions(), name)
