"""The recipe for an optimiser, followed to the letter in a copy of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import dpfast

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(dpfast.__file__).parent

FIT = """
import numpy as np
import dpfast
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 2))
known = dpfast.Objective("log-cosh", scale=1.0)
y = X @ [0.5, -0.3] + rng.normal(size=5000)
fit = dpfast.fit(X, y, known, privacy=1.0, method="heavy-ball", noise=dpfast.SeededNoise(0))
assert (abs(fit.params - [0.0, 0.5, -0.3]) < 5.0 * fit.bse).all()
assert dpfast.optimize.HeavyBall.__name__ in fit.method
try:
    dpfast.fit(X, y, known, privacy=1.0, method="heavy")
except dpfast.errors.InvalidInput as error:
    assert '"heavy-ball"' in str(error)
print(dpfast.__file__)
"""


def put(path: Path, before: str, new: str) -> None:
    """Lines of the recipe, before a line that is there once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    path.write_text(text.replace(before, new + before), encoding="utf-8")


def test_an_optimiser_takes_a_module_a_line_of_names_and_a_public_name(tmp_path):
    """Three files: what the recipe shows, word for word, fits by its name."""
    recipe = (ROOT / "docs/recipes.md").read_text(encoding="utf-8").split("## Add an optimiser")[1]
    shown = re.findall(r"```python\n(.*?)```", recipe, flags=re.S)[0]
    shutil.copytree(PACKAGE, tmp_path / "dpfast", ignore=shutil.ignore_patterns("__pycache__"))
    room = tmp_path / "dpfast" / "optimize"
    (room / "heavy_ball.py").write_text(shown, encoding="utf-8")
    home = "from dpfast.optimize.heavy_ball import HeavyBall\n"
    planning, names = room / "planning.py", room / "__init__.pyi"
    put(planning, "from dpfast.optimize.newton import Newton, curvature_noise\n", home)
    put(planning, '    "newton": Newton', '    "heavy-ball": HeavyBall,\n')
    public = "from .heavy_ball import HeavyBall as HeavyBall\n"
    put(names, "from .newton import Newton as Newton\n", public)
    command = [sys.executable, "-W", "ignore", "-c", FIT]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).is_relative_to(tmp_path)
