"""A package of somebody else's that uses the compiled kernels of dpfast.

Nothing but an installed dpfast is needed: neither its sources nor NumPy's headers.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    name="embedding",
    ext_modules=cythonize(
        [
            Extension(name, [f"{name}.pyx"], extra_compile_args=["-O1", "-g0"])
            for name in ("embedding", "others", "steps")
        ],
        language_level=3,
    ),
)
