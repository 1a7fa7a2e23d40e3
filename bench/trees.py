"""Gradient boosting tuned by value at mu = 1 against random search, without privacy and with it

Income above 50K in adult, five parameters of scikit-learn's histogram boosting trained on 1,000
records.  Every replication draws n validation records of the 20,000 that are held out, gives
``dpfast.tune`` its defaults, and random search as many trials, of which it takes the one with the
fewest errors in the same validation records, or one by the exponential mechanism at the same mu.
All are judged on the other held-out records; replications are paired.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import dpfast
from bench.public_tables import data_folder, frame
from bench.study import Block, study
from dpfast.bayesopt import Integer, private_choice

BOUNDS: dict[str, Any] = {
    "learning_rate": (0.005, 1.0, "log"),
    "max_iter": Integer(5, 80, log=True),
    "max_leaf_nodes": Integer(2, 64, log=True),
    "min_samples_leaf": Integer(1, 200, log=True),
    "l2_regularization": (1e-3, 100.0, "log"),
}
SIZES, TRAINING, HELD_OUT = (500, 1500, 5000), 1000, 20_000

#: Trials that random searches draw theirs from, without replacement.
POOL = 250


class Trees:
    """Errors of every held-out record, by parameters; each is trained once."""

    def __init__(self, training: int) -> None:
        columns = frame("adult.csv.gz")
        self._y = columns.pop("income").str.strip().str.startswith(">50K").to_numpy()
        codes = [
            c
            if c.dtype.kind in "if"
            else np.unique(c.fillna("").to_numpy(str), return_inverse=True)[1]
            for _, c in columns.items()
        ]
        self._X = np.column_stack(codes).astype(float)
        order = np.random.default_rng(1).permutation(len(self._y))
        self._training = order[:training]
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
    common: dict[str, Any] = {"privacy": 1.0, "n_records": n}

    def losses(parameters: Any) -> np.ndarray:
        return trees(parameters)[validation]

    found = dpfast.tune(losses, BOUNDS, noise=dpfast.SeededNoise(seed), **common)
    tried = [pool[k] for k in rng.choice(len(pool), found.n_evaluations, replace=False)]
    best = min(tried, key=lambda parameters: losses(parameters).mean())
    noise = dpfast.SeededNoise(seed)
    chosen = private_choice(losses, tried, loss_range=(0.0, 1.0), noise=noise, **common)
    each = found.best_params, best, tried[chosen]
    return [*[trees(one)[others].mean() for one in each], found.n_evaluations]


def _difference(values: np.ndarray) -> str:
    return f"{values.mean():+.4f} +- {values.std(ddof=1) / len(values) ** 0.5:.4f}"


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    if data_folder() is None:
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    trees, rng = Trees(TRAINING // 4 if asked.quick else TRAINING), np.random.default_rng(2)
    pool = [drawn(rng) for _ in range(POOL // 2 if asked.quick else POOL)]
    for n in SIZES[: 1 if asked.quick else None]:
        found = np.array([one(trees, pool, n, seed) for seed in range(asked.runs)])
        ours, theirs, private, trials = found.T
        yield {
            "n": n, "trials": trials.mean(), "tune, error": f"{ours.mean():.4f}",
            "random search without privacy": f"{theirs.mean():.4f}",
            "difference": _difference(ours - theirs),
            "exponential mechanism over the same": f"{private.mean():.4f}",
            "its difference": _difference(ours - private),
        }  # fmt: skip
    low, middle = np.quantile([trees(each).mean() for each in pool], [0.0, 0.5])
    yield f"One trial has {middle:.4f} in the median; the best of {len(pool)} has {low:.4f}."


main = study("trees", measured, __doc__, runs=8, quick=2)
