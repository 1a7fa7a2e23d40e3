"""The kernel of linear algebra, loaded with SciPy's pointers to BLAS and LAPACK alone.

Import this module before any other that uses the kernel: the package of the pointers takes longer
than all other imports of a first fit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

#: SciPy's packages, whose own imports the modules within do not need.
PACKAGES = ("scipy", "scipy._lib", "scipy.linalg", "scipy.special")

#: Seconds that another thread waits for its package, in case that it has what is loaded meanwhile.
MOST_SECONDS = 5.0


@contextmanager
def without_packages(*names: str) -> Iterator[None]:
    """Load modules of SciPy without their packages, whose import takes half of a first fit.

    Afterwards they are forgotten: a later import of the packages loads and binds them as usual.
    """
    before, loaded = set(sys.modules), threading.Event()
    standing_in = _stand_in(loaded)
    try:
        for name in names:
            import_module(name)
    except Exception:  # then who needs them imports the packages
        _forget(before, standing_in)
    try:
        yield
    finally:
        _forget(before, standing_in)
        loaded.set()


def _stand_in(loaded: threading.Event) -> list[str]:
    """Put empty packages in the place of those that are not loaded; return their names."""
    found = PathFinder.find_spec("scipy")
    folders = [] if found is None else list(found.submodule_search_locations or ())
    absent = [name for name in PACKAGES if folders and name not in sys.modules]
    for name in absent:
        inner = name.split(".")[1:]
        sys.modules[name] = package = ModuleType(name)
        package.__path__ = [os.path.join(folder, *inner) for folder in folders]
        package.__getattr__ = _of_package(name, loaded)  # type: ignore[method-assign]
    return absent


def _of_package(name: str, loaded: threading.Event) -> Any:
    """Make the ``__getattr__`` of an empty package, which another thread may have imported.

    That thread waits until the package itself can be imported.
    """
    loader = threading.get_ident()

    def attribute(asked: str) -> Any:
        if asked[:2] != "__" and threading.get_ident() != loader:
            loaded.wait(MOST_SECONDS)
        if asked[:2] == "__" or vars(sys.modules.get(name, sys)).get("__getattr__") is attribute:
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        return getattr(import_module(name), asked)

    return attribute


def _forget(before: set[str], standing_in: list[str]) -> None:
    """Remove empty packages, and what was loaded within them but for what another thread loads."""
    within = tuple([f"{name}." for name in standing_in])
    for name, module in [*sys.modules.items()]:
        is_loading = getattr(getattr(module, "__spec__", None), "_initializing", False)
        new = name not in before and name.startswith(within) and not is_loading
        if name in standing_in or new:
            sys.modules.pop(name, None)
    standing_in.clear()


with without_packages("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
    from dpfast.kernels import linalg as linalg
