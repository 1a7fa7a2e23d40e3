"""What a default fit of each loss loads: real fits in fresh interpreters, by `sys.modules`.

The figures are printed, and may only fall: a module that a default fit does not need is loaded
where it is asked for.
"""

from __future__ import annotations

import ast
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
    "dpfast.optimize.answers",
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

#: Most that any of the six loads, as measured.
MODULES = 107

#: Named numbers of the modules that decide what a default fit does; the aim is 60.
DECIDING = ("solvers.pcn", "scaling", "regression", "models", "inference.degrees")


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


@cache
def tree_and_lines(path: Path) -> tuple[ast.Module, int]:
    """Lines that are neither blank nor comment nor docstring; of compiled modules none."""
    if path.suffix != ".py":
        return ast.Module([], []), 0
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    told = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return tree, sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in told
        for number, line in lines
    )


def constants(tree: ast.Module) -> list[str]:
    """Names of numbers at the top of a module."""
    found = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or any(
            isinstance(part, (ast.Call, ast.JoinedStr)) for part in ast.walk(node.value)
        ):
            continue
        numbers = [part for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
        if any(isinstance(n.value, (int, float)) and type(n.value) is not bool for n in numbers):
            names = [part.id for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)]
            found += [name for name in names if name.isupper()]
    return found


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.one_in(3)
def test_a_default_fit_loads_nothing_of_the_old_road(loss):
    names = loaded(loss)
    assert "dpfast.solvers.pcn.engine" in names
    found = [name for name in names for old in OLD if name == old or name.startswith(f"{old}.")]
    assert not found, f"{loss} loads {found}"


def test_what_a_default_fit_loads_only_falls(capsys):
    """AST nodes beside lines: neither is made fewer by writing longer lines alone."""
    worst = [0, 0]
    for loss in LOSSES:
        files = loaded(loss)
        trees = {name: tree_and_lines(path) for name, path in files.items()}
        lines = sum(count for _, count in trees.values())
        nodes = sum(sum(1 for _ in ast.walk(tree)) for tree, _ in trees.values())
        numbers = [
            f"{name}.{constant}"
            for name, (tree, _) in trees.items()
            if any(f"{name}.".startswith(f"dpfast.{room}.") for room in DECIDING)
            for constant in constants(tree)
        ]
        with capsys.disabled():
            print(
                f"\n{loss}: {len(files)} modules, {lines:,} code lines, {nodes:,} nodes, "
                f"{len(numbers)} constants",
                end="",
            )
        worst = [max(worst[0], len(files)), max(worst[1], lines)]
    assert worst[0] <= MODULES, worst
    assert worst[0] > 0.8 * MODULES, "let the limits fall"


def test_explicit_choices_load_what_they_name():
    """So that the list above is no list of modules that nobody has any more."""
    names = set(loaded("explicit"))
    papers = {"dpfast.optimize.newton", "dpfast.regression.method_fit", "dpfast.inference.sandwich"}
    assert papers <= names
    for name in OLD:
        path = Path(ROOT, *name.split("."))
        assert path.is_dir() or path.with_suffix(".py").exists(), name
