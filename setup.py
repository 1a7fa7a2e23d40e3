"""The list of compiled extensions; everything else about the package is in pyproject.toml."""

from __future__ import annotations

import os
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

# -fno-math-errno and -fno-trapping-math only drop errno and floating-point *traps*; they keep
# IEEE values, NaN comparisons and evaluation order.  -ffast-math would delete the NaN guards
# that privacy rests on, so it never appears here (tests/packaging checks the built flags).
# -g0: debug information would be most of a wheel.
COMPILE_ARGS = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-pthread", "-g0"]
LINK_ARGS = ["-pthread"]
# The environment may add flags of its own; these would break the guarantee without a word.
UNSAFE_FLAGS = {"-ffast-math", "-Ofast", "-ffinite-math-only", "-funsafe-math-optimizations"}
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]


for variable in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "CC"):
    unsafe = UNSAFE_FLAGS.intersection(os.environ.get(variable, "").split())
    if unsafe:
        raise SystemExit(
            f"{variable} contains {' '.join(sorted(unsafe))}, which deletes the NaN checks that "
            f"privacy rests on. Unset it and build again."
        )


def extension(name: str, sources: list[str], depends: list[str]) -> Extension:
    return Extension(
        f"dpfast.kernels.{name}",
        sources=[f"csrc/{source}" for source in sources],
        depends=[f"csrc/{header}" for header in depends],
        include_dirs=["csrc", "csrc/machine", numpy.get_include()],
        define_macros=MACROS,
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
    )


def headers(folder: str) -> list[str]:
    """The headers in a folder of csrc, relative to it."""
    return sorted(f"{folder}/{path.name}" for path in Path("csrc", folder).glob("*.h"))


def parts(folder: str) -> list[str]:
    """The parts of a Cython source in a folder of csrc, relative to it."""
    return sorted(f"{folder}/{path.name}" for path in Path("csrc", folder).glob("*.pxi"))


EXTENSIONS = [
    extension(
        "records",
        ["records.pyx", "records_base.c", "records_avx2.c", "records_avx512.c", "machine/pool.c"],
        [
            "records.h",
            "vectors.h",
            "records/faults.pxi",
            "records/view.pxi",
            *headers("losses"),
            *headers("records"),
            *headers("machine"),
        ],
    ),
    extension("linalg", ["linalg.pyx"], parts("linalg")),
    extension("decisions", ["decisions.pyx"], ["linalg/arguments.pxi", *parts("decisions")]),
    extension(
        "acquisition",
        [
            "acquisition.pyx",
            "acquisition/acquisition_base.c",
            "acquisition/acquisition_avx2.c",
            "acquisition/acquisition_avx512.c",
            "acquisition/minimiser.c",
        ],
        ["vectors.h", "machine/isa.h", *headers("acquisition")],
    ),
    extension(
        "sampler",
        ["sampler.pyx", "sampler/sampler_core.c", "sampler/entropy.c"],
        headers("sampler"),
    ),
    extension("session", ["session.pyx"], parts("session")),
    extension("keys", ["keys.pyx"], [*headers("keys"), "machine/isa.h"]),
    extension(
        "certificates",
        ["certificates.pyx", "certificates/certificates_core.c"],
        headers("certificates"),
    ),
]

setup(
    # One compiler for each processor: the kernels' three instruction sets are half of the build.
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
    ext_modules=cythonize(
        EXTENSIONS,
        include_path=["."],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            # Importing them does not switch the GIL on where the interpreter can do without:
            # what changes after construction is locked (samplers, acquisitions, the pool).
            "freethreading_compatible": True,
        },
    ),
)
