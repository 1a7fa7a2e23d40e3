"""Predictions from few records: what a fit with nothing declared gains on a private mean

Each run draws so many records of a table that n mu is what is asked for.  Median and worst gain of
R^2 of predictions for the table on that of the private mean (the same budget spent on the response
alone), which is averaged over the runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.study import Block, study
from dpfast.arguments import Array

STRENGTHS, LOSSES = (100, 200, 400, 800, 1600), ("least-squares", "log-cosh")

#: Records of the table that predictions are made for, at most; loss of R^2 that counts as worse.
JUDGES, WORSE = 20_000, 0.05


def gains(X: Array, y: Array, loss: str, mu: float, strength: int, runs: int) -> Array:
    n = round(strength / mu)
    judges = np.random.default_rng(0).permutation(len(X))[:JUDGES]
    Z, v = X[judges], y[judges]
    found, alone = [], []
    for run in range(runs):
        sample = np.random.default_rng(run).integers(0, len(X), n)
        fit = dpfast.fit(X[sample], y[sample], loss, privacy=mu, noise=dpfast.SeededNoise(run))
        alone.append(np.mean((v - private_mean(y[sample], mu, run)) ** 2) / np.var(v))
        found.append(np.mean((v - fit.predict(Z)) ** 2) / np.var(v))
    return float(np.mean(alone)) - np.array(found)


def private_mean(y: Array, mu: float, seed: int) -> float:
    """The response's location alone, for all of the budget."""
    noise = dpfast.SeededNoise(1000 + seed)
    found = dpfast.standardize(y[:, None], 0.0 * y, response=False, privacy=mu, noise=noise)
    return float(found.centres[0])


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    known: dict[str, list[Array]] = {loss: [] for loss in LOSSES}
    for table in [*available(tables("linear"), asked.only)][: 1 if asked.quick else None]:
        X, y = read(table)
        rows = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
        left = y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
        for loss, mu in product(LOSSES, asked.budgets):
            cells: dict[str, Any] = {"table": table.name, "p": X.shape[1] + 1, "loss": loss}
            cells["mu"] = mu
            for s in STRENGTHS:
                g = gains(X, y, loss, mu, s, asked.runs) if s / mu <= len(X) else None
                cells[f"n mu = {s}"] = "" if g is None else f"{np.median(g):.2f}, {g.min():.3g}"
                known[loss] += [] if g is None else [g]
            yield cells | {"OLS": f"{1.0 - np.var(left) / np.var(y):.2f}"}
    for loss, each in known.items():
        runs, means = np.concatenate(each), [float(g.mean()) for g in each]
        yield (
            f"{loss}: {int(np.sum(~(runs >= -WORSE)))} of {len(runs)} runs are worse than the "
            f"private mean by more than {WORSE}, the worst by {-runs.min():.3g}; the worst mean of "
            f"a cell is {min(means):.3f}."
        )


main = study("scarce", measured, __doc__, runs=20, quick=2, budgets=(1.0, 0.237))
