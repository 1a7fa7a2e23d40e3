"""Builds the compiled arithmetic of a fit, and makes the plan it follows."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpfast.curator.joint import Layout, Plan, make_plan
from dpfast.data import Records
from dpfast.models import LogCosh, Mallows, Objective
from dpfast.optimize import Newton

HERE = Path(__file__).resolve().parent

#: Standard errors to either side; a fit has more where the noise leaves few degrees of freedom.
NORMAL = 1.959963984540054

SETUP = """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
root, here = {root!r}, {here!r}
flags = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-g0"]
extension = Extension(
    "arithmetic",
    [here + "/arithmetic.pyx", root + "/csrc/sampler/sampler_core.c"],
    include_dirs=[numpy.get_include(), root + "/csrc"],
    library_dirs=[numpy.get_include() + "/../../random/lib"],
    libraries=["npyrandom"],
    extra_compile_args=flags,
)
setup(
    name="arithmetic",
    ext_modules=cythonize([extension], include_path=[root], build_dir="build"),
)
"""


@cache
def arithmetic() -> Any:
    """The module, built once a process in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dpfast-bench-"))
    (folder / "setup.py").write_text(SETUP.format(root=str(HERE.parents[1]), here=str(HERE)))
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "."]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if built.returncode:
        raise RuntimeError(built.stdout + built.stderr)
    (library,) = folder.glob("arithmetic*.so")
    spec = importlib.util.spec_from_file_location("arithmetic", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CompiledFit:
    """The arithmetic of ``dpfast.fit(X, y, "log-cosh", ..., method="newton", threads=1)``.

    Everything that depends on public numbers alone is worked out here; a call does the rest.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, *, scale: float, mu: float) -> None:
        module = arithmetic()
        n, q = X.shape
        p = q + 1
        objective = Objective(LogCosh(), Mallows(p**0.5), q, scale=scale)
        method = Newton()
        budgets = method.plan(objective, n, mu, inference=True)
        n_steps = len(budgets)
        layout = Layout(*Records(X, y, None)._summed(p))
        plan = np.zeros(n_steps, module.STEP)
        for k, (budget, size) in enumerate(zip(budgets, method.step.planned(n_steps), strict=True)):
            plan[k] = _step(make_plan(objective, layout, budget), size, p)
        self._fit = module.fit
        self._arguments = (
            X, y, objective.weighting.radius, objective.loss.c, scale, 1e3 * scale,
            NORMAL, plan,
        )  # fmt: skip

    def __call__(self, bit_generator: Any = None) -> tuple[np.ndarray, np.ndarray]:
        theta, interval = self._fit(*self._arguments, bit_generator)
        return theta, interval


def _step(plan: Plan, size: float, p: int) -> tuple[Any, ...]:
    parts = [(0.0, 0.0, 0.0, 0)] * 3
    for k, (receipt, steps) in enumerate(zip(plan.receipts, plan.grids.steps, strict=True)):
        if steps is not None:
            bits, grid, grid_off = steps
            parts[k] = (receipt.noise_scale, grid, grid_off, bits)
    floor = 2.0 * parts[1][0] * p**0.5
    return (plan.want, size, floor, *parts)
