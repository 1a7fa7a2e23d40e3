"""Gradient boosting tuned by value at mu = 1 against random search, without privacy and with it.

    python -m bench.trees [--replications 20] [--quick]

Income above 50K in adult, five parameters of scikit-learn's histogram boosting trained on 1,000
records.  Every replication draws n validation records of the 20,000 that are held out, gives
``dpfast.tune`` its defaults, and random search as many trials, of which it takes the one with the
fewest errors in the same validation records, or one by the exponential mechanism at the same mu.
All are judged on the other held-out records.
Prints the table and stores it as ``bench/results/trees.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dpfast
from bench.figures.paper3.survey import table
from bench.figures.runner import data_folder
from bench.stored import keep
from dpfast.bayesopt import Integer, Tuning, private_choice
from dpfast.cli import ProgressBar

RESULTS = Path(__file__).parent / "results"

BOUNDS: dict[str, Any] = {
    "learning_rate": (0.005, 1.0, "log"),
    "max_iter": Integer(5, 80, log=True),
    "max_leaf_nodes": Integer(2, 64, log=True),
    "min_samples_leaf": Integer(1, 200, log=True),
    "l2_regularization": (1e-3, 100.0, "log"),
}
SIZES = (500, 1500, 5000)
TRAINING, HELD_OUT = 1000, 20_000

#: Trials that random searches draw theirs from, without replacement.
POOL = 250


class Trees:
    """Errors of every held-out record, by parameters; each is trained once."""

    def __init__(self, folder: Path, quick: bool) -> None:
        columns = table(folder / "adult.csv.gz")
        self._y = np.array([value.strip().startswith(">50K") for value in columns.pop("income")])
        self._X = np.column_stack([_numbers(column) for column in columns.values()])
        order = np.random.default_rng(1).permutation(len(self._y))
        self._training = order[: TRAINING // 4 if quick else TRAINING]
        self._held_out = order[TRAINING : TRAINING + HELD_OUT]
        self._known: dict[tuple[Any, ...], np.ndarray] = {}

    def __call__(self, parameters: dict[str, Any]) -> np.ndarray:
        from sklearn.ensemble import HistGradientBoostingClassifier

        key = tuple(parameters.values())
        if key not in self._known:
            model = HistGradientBoostingClassifier(
                early_stopping=False, random_state=0, **parameters
            ).fit(self._X[self._training], self._y[self._training])
            self._known[key] = model.predict(self._X[self._held_out]) != self._y[self._held_out]
        return self._known[key]


def _numbers(column: list[str]) -> np.ndarray:
    try:
        return np.array(column, dtype=float)
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(float)


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """One trial of random search: uniform on the scales of the bounds."""
    found: dict[str, Any] = {}
    for name, given in BOUNDS.items():
        whole = isinstance(given, Integer)
        low, high = (given.low, given.high) if whole else given[:2]
        value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        found[name] = round(value) if whole else value
    return found


def one(trees: Trees, pool: list[dict[str, Any]], n: int, seed: int) -> list[float]:
    """Errors among the other records of what each search found, and the number of trials."""
    rng = np.random.default_rng([n, seed])
    validation = rng.permutation(HELD_OUT)[:n]
    others = np.ones(HELD_OUT, dtype=bool)
    others[validation] = False
    found: Tuning = dpfast.tune(
        lambda parameters: trees(parameters)[validation], BOUNDS,
        privacy=1.0, n_records=n, noise=dpfast.SeededNoise(seed),
    )  # fmt: skip
    tried = [pool[k] for k in rng.choice(len(pool), found.n_evaluations, replace=False)]
    best = min(tried, key=lambda parameters: trees(parameters)[validation].mean())
    chosen = private_choice(
        lambda parameters: trees(parameters)[validation], tried, loss_range=(0.0, 1.0),
        privacy=1.0, n_records=n, noise=dpfast.SeededNoise(seed),
    )  # fmt: skip
    each = found.best_params, best, tried[chosen]
    return [*[trees(one)[others].mean() for one in each], found.n_evaluations]


def shown(rows: dict[int, np.ndarray], all_pool: np.ndarray) -> str:
    """The table: means with standard errors of the replications, which are paired."""
    lines = [
        "Gradient boosting tuned at mu = 1 on n validation records of adult: "
        f"`python -m bench.trees --replications {len(next(iter(rows.values())))}`",
        "",
        "| n | trials | tune, error | random search without privacy | difference "
        "| exponential mechanism over the same | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for n, found in rows.items():
        ours, theirs, private, trials = found.T
        lines.append(
            f"| {n:,} | {trials.mean():.0f} | {ours.mean():.4f} | {theirs.mean():.4f} | "
            f"{(ours - theirs).mean():+.4f} +- {_error(ours - theirs):.4f} | "
            f"{private.mean():.4f} | "
            f"{(ours - private).mean():+.4f} +- {_error(ours - private):.4f} |"
        )
    low, middle = np.quantile(all_pool, [0.0, 0.5])
    lines += ["", f"One trial has {middle:.4f} in the median; the best of {POOL} has {low:.4f}."]
    return "\n".join(lines) + "\n"


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trees", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two replications, nothing stored")
    arguments = parser.parse_args()
    folder = data_folder()
    if folder is None:
        print("the table is not here: set DPFAST_DATA to its folder")
        return 1
    os.environ["OMP_NUM_THREADS"] = "1"
    trees, rng = Trees(folder, arguments.quick), np.random.default_rng(2)
    pool = [drawn(rng) for _ in range(POOL)]
    count = 2 if arguments.quick else arguments.replications
    sizes, bar = SIZES[:1] if arguments.quick else SIZES, ProgressBar("searches")
    rows: dict[int, np.ndarray] = {}
    for n in sizes:
        rows[n] = np.array([one(trees, pool, n, seed) for seed in range(count)])
        bar(len(rows), len(sizes))
    text = shown(rows, np.array([trees(parameters).mean() for parameters in pool]))
    print(text)
    if not arguments.quick:
        keep(RESULTS / "trees.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
