"""The kernel of linear algebra, loaded with SciPy's pointers to BLAS and LAPACK alone.

Import this module before any other that uses the kernel: the package of the pointers takes longer
than all other imports of a first fit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

#: SciPy's modules of pointers to BLAS and LAPACK, which ``dpfast.kernels.linalg`` reads.
POINTERS = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")


@contextmanager
def pointers_alone() -> Iterator[None]:
    """Load modules of pointers without their package, whose import takes half of a first fit.

    Afterwards they are forgotten: a later import of the package loads and binds them as usual.
    """
    loaded: list[str] = []
    if "scipy.linalg" not in sys.modules:
        try:
            _load(loaded)
        except Exception:  # then the kernel imports the package
            _forget(loaded)
    try:
        yield
    finally:
        _forget(loaded)


def _load(loaded: list[str]) -> None:
    """Load the modules from their files, and note their names."""
    import scipy

    folders = [os.path.join(folder, "linalg") for folder in scipy.__path__]
    for name in POINTERS:
        spec = PathFinder.find_spec(name, folders)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = module_from_spec(spec)
        loaded.append(name)
        spec.loader.exec_module(module)


def _forget(loaded: list[str]) -> None:
    for name in loaded:
        sys.modules.pop(name, None)
    loaded.clear()


with pointers_alone():
    from dpfast.kernels import linalg as linalg
