"""How the default number of steps and budget schedule were chosen, on eight designs

Total mu = 1, intervals bought.  For each design and setting (steps, ratio, uniform share): root
mean square distance of the private estimate from the non-private one, relative to the one-shot
reference ``(2B/(n mu)) ||H^-1||_F``, all the budget on one gradient at the solution.  *Worst* is
the largest ratio to the best setting of a design.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator

import numpy as np

import dpfast
from bench.study import Block, pooled, study
from dpfast.models import Mallows, Objective, resolve_loss
from dpfast.optimize import Geometric, Newton

#: name -> (p with intercept, n, correlation of neighbours, heavy tails, loss, intercept)
DESIGNS = {
    "linear p=2 n=500": (2, 500, 0.0, False, "log-cosh", 0.5),
    "linear p=4 n=500": (4, 500, 0.0, False, "log-cosh", 0.5),
    "linear p=10 n=2000, correlated": (10, 2000, 0.8, False, "log-cosh", 0.5),
    "linear p=10 n=2000, heavy tails": (10, 2000, 0.0, True, "log-cosh", 0.5),
    "linear p=50 n=20000": (50, 20_000, 0.0, False, "log-cosh", 0.5),
    "logistic p=4 n=1000": (4, 1000, 0.0, False, "logistic", 0.5),
    "logistic p=10 n=10000, rare event": (10, 10_000, 0.0, False, "logistic", -3.0),
    "logistic p=20 n=20000, correlated": (20, 20_000, 0.8, False, "logistic", 0.5),
}
SETTINGS = [None, *itertools.product((6, 8, 10, 12), (2.0, 5.0, 10.0), (0.1, 0.3))]


def simulate(design: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One data set of a design."""
    p, n, correlation, heavy, loss, intercept = DESIGNS[design]
    rng = np.random.default_rng([seed, p, n])
    q = p - 1
    X = rng.standard_t(3, size=(n, q)) if heavy else rng.normal(size=(n, q))
    if correlation:
        lags = np.abs(np.subtract.outer(np.arange(q), np.arange(q)))
        X = X @ np.linalg.cholesky(correlation**lags).T
    t = intercept + X @ np.where(np.arange(q) % 2, -0.5, 0.5)
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(float)
    return X, t + (rng.standard_t(3, size=n) if heavy else rng.normal(size=n))


def distances(design: str, runs: int) -> np.ndarray:
    """Root mean square distances by setting, in units of the one-shot reference."""
    p, n, _, _, loss, _ = DESIGNS[design]
    scale = None if loss == "logistic" else 1.0
    objective = Objective(resolve_loss(loss), Mallows(p**0.5), p - 1, scale=scale)
    asked = Objective(loss, Mallows(p**0.5), scale=scale)
    rows = []
    for seed in range(runs):
        X, y = simulate(design, seed)
        plain = dpfast.nonprivate_fit(X, y, asked)
        A = np.column_stack([np.ones(n), X])
        t = A @ plain.params
        weight = np.minimum(1.0, p / (A**2).sum(axis=1))
        curvature = objective.loss.psi_prime(t if loss == "logistic" else y - t)
        inverse = np.linalg.inv((A.T * (weight * curvature)) @ A / n)
        reference = 2.0 * objective.score_bound / n * np.linalg.norm(inverse)
        records, row = dpfast.records(X, y, threads=1), []
        for one in SETTINGS:
            method = Newton() if one is None else Newton(steps=one[0], schedule=Geometric(*one[1:]))
            fit = dpfast.fit(
                records, None, asked, privacy=1.0, method=method, standardize=False,
                noise=dpfast.SeededNoise(seed),
            )  # fmt: skip
            row.append(float(((fit.params - plain.params) ** 2).sum()) / reference**2)
        rows.append(row)
    return np.sqrt(np.mean(rows, axis=0))


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    designs = [design for design in DESIGNS if asked.only in design]
    designs = designs[:2] if asked.quick else designs
    ratios = np.array([*pooled(distances, [(design, asked.runs) for design in designs])])
    worst = (ratios / ratios.min(axis=1, keepdims=True)).max(axis=0)
    for i in np.argsort(worst):
        name = "**default**" if SETTINGS[i] is None else ", ".join(map(str, SETTINGS[i]))
        cells = dict(zip(designs, ratios[:, i], strict=True))
        yield {"steps, ratio, uniform share": name} | cells | {"worst": worst[i]}


main = study("schedules", measured, __doc__, runs=60, quick=2)
