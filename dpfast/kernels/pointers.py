"""The kernel of linear algebra, loaded with SciPy's pointers to BLAS and LAPACK alone.

Import this module before any other that uses the kernel: the package of the pointers takes half of
the time of a first fit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

#: SciPy's modules of pointers to BLAS and LAPACK, which ``dpfast.kernels.linalg`` reads.
POINTERS = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")


@contextmanager
def pointers_alone() -> Iterator[None]:
    """Load modules of pointers without their package, whose import takes half of a first fit.

    Afterwards they are forgotten: a later import of the package loads and binds them as usual.
    """
    loaded = []
    if "scipy.linalg" not in sys.modules:
        import scipy

        folders = [str(Path(folder) / "linalg") for folder in scipy.__path__]
        for name in POINTERS:
            with suppress(Exception):  # then the kernel imports the package
                spec = PathFinder.find_spec(name, folders)
                assert spec is not None and spec.loader is not None
                module = module_from_spec(spec)
                sys.modules[name] = module
                loaded.append(name)
                spec.loader.exec_module(module)
    try:
        yield
    finally:
        for name in loaded:
            sys.modules.pop(name, None)


with pointers_alone():
    from dpfast.kernels import linalg as linalg
