"""What a default fit of each loss loads: real fits in fresh interpreters, by `sys.modules`.

A module that a default fit does not need is loaded where it is asked for.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import dpfast
import dpfast.models
import dpfast.optimize

ROOT = Path(dpfast.__file__).parents[1]

LOSSES = ("least-squares", "log-cosh", "huber", "quantile", "logistic", "poisson")

FIT = """
import sys
import numpy as np
import dpfast
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 3))
eta = X @ [0.5, -0.3, 0.1]
y = {{
    "logistic": lambda: (rng.random(2000) < 1.0 / (1.0 + np.exp(-eta))) * 1.0,
    "poisson": lambda: rng.poisson(np.exp(eta)) * 1.0,
}}.get({loss!r}, lambda: eta + rng.normal(size=2000))()
fit = dpfast.fit(X, y, {loss!r}, privacy=1.0)
assert np.isfinite(fit.params).all() and np.isfinite(fit.conf_int()).all()
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "dpfast":
        print(name, module.__file__)
"""

#: What was the default before, and is an explicit choice now; and what a default fit asks nothing.
OLD = (
    "dpfast.optimize.budgets",
    "dpfast.optimize.damping",
    "dpfast.optimize.gradient_descent",
    "dpfast.optimize.scale_steps",
    "dpfast.optimize.newton",
    "dpfast.optimize.nonconvex",
    "dpfast.optimize.planning",
    "dpfast.optimize.propagation",
    "dpfast.optimize.protocol",
    "dpfast.optimize.schedules",
    "dpfast.optimize.trajectory",
    "dpfast.curator.blocks",
    "dpfast.curator.nonconvex",
    "dpfast.curator.steps",
    "dpfast.data.encoding",
    "dpfast.data.files",
    "dpfast.data.streams",
    "dpfast.fit_requests.persons",
    "dpfast.inference.sandwich",
    "dpfast.models.custom",
    "dpfast.models.joint_scale",
    "dpfast.models.nonconvex",
    "dpfast.models.special_losses",
    "dpfast.privacy.conversions",
    "dpfast.privacy.sensitivity_scale",
    "dpfast.privacy.sensitivity_sides",
    "dpfast.regression.decisions",
    "dpfast.regression.intercept_only",
    "dpfast.regression.method_fit",
)

#: Children of one interpreter that has not seen dpfast, only what takes long to load.
CHILDREN = """
import os, sys
import numpy, scipy.special
for code in sys.argv[1:]:
    child = os.fork()
    if not child:
        exec(code, {"__name__": "fit"})
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("a fit failed")
    print("end of a fit", flush=True)
"""


def of_fits(*codes: str) -> list[dict[str, Path]]:
    """Modules of this library in interpreters that made one fit each."""
    command = [sys.executable, "-W", "error", "-c", CHILDREN, *codes]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = []
    for told in run.stdout.split("end of a fit\n")[:-1]:
        pairs = [line.split(maxsplit=1) for line in told.splitlines()]
        found.append({name: Path(file) for name, file in pairs})
    assert len(found) == len(codes)
    return found


@cache
def all_loaded() -> dict[str, dict[str, Path]]:
    """Those of a default fit, and of one by a method of the papers."""
    explicit = FIT.format(loss="log-cosh").replace("privacy=1.0", 'privacy=1.0, method="newton"')
    fits = of_fits(*(FIT.format(loss=loss) for loss in LOSSES), explicit)
    return dict(zip((*LOSSES, "explicit"), fits, strict=True))


def loaded(loss: str) -> dict[str, Path]:
    return all_loaded()[loss]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.one_in(3)
def test_a_default_fit_loads_nothing_of_the_old_road(loss):
    names = loaded(loss)
    assert "dpfast.solvers.pcn.engine" in names
    found = [name for name in names for old in OLD if name == old or name.startswith(f"{old}.")]
    assert not found, f"{loss} loads {found}"


def test_explicit_choices_load_what_they_name():
    """So that the list above is no list of modules that nobody has any more."""
    names = set(loaded("explicit"))
    papers = {"dpfast.optimize.newton", "dpfast.regression.method_fit", "dpfast.inference.sandwich"}
    assert papers <= names
    for name in OLD:
        path = Path(ROOT, *name.split("."))
        assert path.is_dir() or path.with_suffix(".py").exists(), name
