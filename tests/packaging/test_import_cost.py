"""What importing and fitting loads.  Modules are counted here; `python -m bench imports` times."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpfast
from tests.loops import each

DEFAULT = """
import warnings
import numpy as np
import dpfast
warnings.simplefilter("ignore")  # of the result, not of an import
fitted = dpfast.fit(np.linspace(-1.0, 1.0, 800).reshape(400, 2), np.arange(400.0), privacy=9.0)
"""

FIT = """
import numpy as np
import dpfast
X = np.linspace(-1.0, 1.0, 400).reshape(200, 2)
y = X[:, 0] + 0.5
fit = dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0)
fit.summary()
"""


def loaded_by(code: str) -> set[str]:
    """Modules a fresh interpreter holds after `code`."""
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return set(output.splitlines()[-1].split())


def test_import_loads_neither_numpy_nor_scipy():
    extra = loaded_by("import dpfast") - loaded_by("pass")
    # typing alone costs 8 ms, more than the whole target
    assert not {"numpy", "scipy", "typing", "inspect", "dataclasses", "re"} & extra
    assert {name for name in extra if name.startswith("dpfast")} == {"dpfast", "dpfast.lazy"}
    assert len(extra) <= 30, sorted(extra)


def test_fitting_loads_nothing_heavy():
    loaded = loaded_by(FIT)
    heavy = {"scipy.optimize", "scipy.stats", "scipy.sparse.linalg", "numba", "matplotlib",
             "pandas", "sklearn", "statsmodels"}  # fmt: skip
    heavy -= loaded_by("import scipy.special")  # SciPy 1.11 loads one of them with its functions
    assert not heavy & loaded


PRINTED = DEFAULT + "\nprint(fitted, fitted.conf_int(), fitted.pvalues)\n"


@each("script", [DEFAULT, PRINTED], ids=["fitted", "printed"])
def test_a_default_fit_loads_no_package_of_scipy(script):
    """They take longer than the fit; what imports them afterwards finds them whole."""
    assert not {"scipy", "scipy.linalg", "scipy.special"} & loaded_by(script)
    whole = """
import scipy
assert scipy.__version__ and scipy.special.expit(0.0) == 0.5
import scipy.linalg, scipy.stats, scipy.special.cython_special
assert scipy.linalg.cython_lapack and scipy.stats.norm.cdf(0.0) == 0.5
"""
    assert "scipy.linalg.cython_blas" in loaded_by(script + whole)
    assert "scipy.linalg.cython_blas" in loaded_by("import scipy.linalg, scipy.special" + script)
    same = "\nfrom dpfast.kernels.special import stdtrit\nassert stdtrit is scipy.special.stdtrit"
    assert loaded_by(script + whole + same)


def test_packages_that_another_thread_imports_meanwhile_are_whole():
    script = """
from dpfast.kernels import pointers
stood_in = []
def loading(name):
    import scipy.special
    from scipy import special
    stood_in.extend([scipy, special])
    return load(name)
load, pointers.import_module = pointers.import_module, loading
from dpfast.kernels.special import ndtr
pointers.import_module = load
import scipy
package, inner = stood_in
assert package is not scipy and package.version is scipy.version
assert inner is not scipy.special and inner.expit(0.0) == 0.5 and inner.ndtr is ndtr
assert not hasattr(package, "no_such_name")
"""
    assert "scipy.special" in loaded_by(script)


def test_a_thread_that_asks_an_empty_package_waits_for_the_whole_one():
    script = """
import threading
from dpfast.kernels import pointers
found, asked = [], threading.Event()
def user():
    import scipy.special
    asked.set()
    found.append(scipy.special.expit(0.0))
def loading(name):
    thread = threading.Thread(target=user)
    found.append(thread)
    thread.start()
    asked.wait()
    return load(name)
load, pointers.import_module = pointers.import_module, loading
from dpfast.kernels.special import ndtr
pointers.import_module = load
found[0].join()
assert found[1:] == [0.5], found
"""
    assert "scipy.special" in loaded_by(script)


def test_a_default_fit_of_arrays_loads_no_modules_of_tables_and_no_hints():
    loaded = loaded_by(DEFAULT)
    tables = {"arithmetic", "columns", "indicators", "schema", "formula"}
    assert not {f"dpfast.data.{name}" for name in tables} & loaded
    # `from package import module` once wrote the hint of a name that the package lacks
    assert not {"dpfast.hints", "difflib", "pathlib", "statistics"} & loaded - loaded_by(
        "import numpy.random, scipy"
    )


def test_without_files_of_pointers_their_package_is_loaded():
    script = """
import sys
from importlib.machinery import ExtensionFileLoader
load = ExtensionFileLoader.exec_module
def failing(self, module):
    whole = hasattr(sys.modules.get("scipy.linalg"), "__file__")
    if module.__name__ == "scipy.linalg.cython_lapack" and not whole:
        raise ImportError("as where a library of SciPy is found by its package only")
    load(self, module)
ExtensionFileLoader.exec_module = failing
"""
    assert "scipy.linalg" in loaded_by(script + DEFAULT)


def test_command_line_help_needs_no_numpy():
    loaded = loaded_by("import dpfast.cli; dpfast.cli.make_parser().format_help()")
    assert "numpy" not in loaded


@each("name", dpfast.__all__)
def test_every_public_name_loads(name):
    assert getattr(dpfast, name) is not None


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = dpfast.no_such_thing


def test_public_names_are_listed():
    assert set(dpfast.__all__) <= set(dir(dpfast))
