"""Files as this version writes them, to be opened by every later one of the same major number.

python -m tests.packaging.written     writes those of an untagged version anew; a tag's stay
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dpfast
from dpfast.bayesopt import Tuner
from tests.twins.searches import settled

HERE = Path(__file__).resolve().parent / "written"

N = 600
RNG = np.random.default_rng(7)
TABLE = {"educ": RNG.uniform(6.0, 20.0, N), "region": np.array(["north", "south"] * (N // 2))}
TABLE["wage"] = np.exp(1.0 + 0.1 * TABLE["educ"] + 0.3 * RNG.normal(size=N))
FORMULA = "log(wage) ~ educ + I(educ**2) + C(region, levels=['north', 'south'])"
ROWS = {"educ": [8.0, 16.0], "region": ["north", "south"]}


def searching(path: Path) -> Tuner:
    """The search that was half done; it has files, and goes on."""
    options = {
        "bounds": [(-2.0, 2.0)] * 2, "privacy": 1.0, "n_records": N, "clip": 8.0, "steps": 4,
        "path": path, "noise": dpfast.SeededNoise(3),
    }  # fmt: skip
    return Tuner(**settled(options))


def step(search: Tuner) -> None:
    """One step of it, with losses that are made up."""
    centres = np.linspace(-1.0, 1.0, N)
    search.tell([(centres - theta.sum()) ** 2 for theta in search.ask()])


def write(folder: Path) -> None:
    """One file of each format, and what belongs to it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    fit = dpfast.fit(FORMULA, TABLE, privacy=1.0, noise=dpfast.SeededNoise(1))
    dpfast.saved.save(fit, folder / "fit.json")
    fit.report(folder / "report.html")
    test = fit.t_test("region, educ = 0.1")
    test.save(folder / "result.json")
    test.report(folder / "result.html")
    book = dpfast.Ledger.open(folder / "ledger.json", (2.0, 1e-6), apart=(1.5, 5e-7))
    book.charge((0.5, 1e-7), "a pair")
    book.charge(dpfast.GDP(0.1), "a number")
    study = dpfast.Study(TABLE, privacy=1.0, noise=dpfast.SeededNoise(2))
    study.answer({"analysis": "fit", "formula": "wage ~ educ", "mu": 0.5})
    study.report(folder / "study.html")
    search = searching(folder / "search")
    step(search)
    step(search)


if __name__ == "__main__":
    write(HERE / dpfast.__version__)
