"""Predictions from few records: what least squares with nothing declared gains on a private mean.

    python -m bench.rivals.scarce [--data FOLDER] [--runs 20] [--only adult] [--store]

Each run draws so many records of a table that n mu is what is asked for.  R^2 of predictions for
the table, minus that of the private mean (the same budget spent on the response alone), which is
averaged over the runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import TABLES, available, options, read, store

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "scarce.md"

STRENGTHS = (100, 200, 400, 800, 1600)

BUDGETS = (1.0, 0.237)

LOSSES = ("least-squares", "log-cosh")

#: Records of the table that predictions are made for, at most.
JUDGES = 20_000

#: Loss of R^2 against the private mean from which on a run counts as worse.
WORSE = 0.05


class Cell(NamedTuple):
    """One table, loss and budget: gains of the runs by n mu, and what OLS of all records gains."""

    table: str
    p: int
    loss: str
    mu: float
    gains: dict[int, Array]
    ols: float


def measured(X: Array, y: Array, loss: str, mu: float, strength: int, runs: int) -> Array:
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


def report(cells: list[Cell]) -> list[str]:
    lines = [
        "Median and worst gain of R^2 on the private mean.",
        "",
        "| table | p | loss | mu | " + " | ".join(f"n mu = {s}" for s in STRENGTHS) + " | OLS |",
        "|" + "---|" * (len(STRENGTHS) + 5),
    ]
    for cell in cells:
        shown = [
            f"{np.median(g):.2f}, {g.min():.3g}" if s in cell.gains else ""
            for s in STRENGTHS
            for g in [cell.gains.get(s, np.zeros(1))]
        ]
        lines.append(
            f"| {cell.table} | {cell.p} | {cell.loss} | {cell.mu:g} | "
            + " | ".join(shown)
            + f" | {cell.ols:.2f} |"
        )
    for loss in dict.fromkeys(cell.loss for cell in cells):
        gains = [g for c in cells if c.loss == loss for g in c.gains.values()]
        runs, means = np.concatenate(gains), [float(g.mean()) for g in gains]
        lines.append("")
        lines.append(
            f"{loss}: {int(np.sum(~(runs >= -WORSE)))} of {len(runs)} runs are worse than the "
            f"private mean by more than {WORSE}, the worst by {-runs.min():.3g}; the worst mean of "
            f"a cell is {min(means):.3f}."
        )
    return lines


def main(argv: list[str] | None = None) -> int:
    parser = options("bench.rivals.scarce", __doc__, 20, BUDGETS)
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    asked = parser.parse_args(argv)
    cells = []
    for table in available(TABLES, asked.data, asked.only):
        X, y = read(table, asked.data)
        rows = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
        left = y - rows @ np.linalg.lstsq(rows, y, rcond=None)[0]
        for loss in asked.losses:
            for mu in asked.budgets:
                gains = {
                    s: measured(X, y, loss, mu, s, asked.runs)
                    for s in STRENGTHS
                    if s / mu <= len(X)
                }
                ols = 1.0 - float(np.var(left) / np.var(y))
                cells.append(Cell(table.name, X.shape[1] + 1, loss, mu, gains, ols))
                print(report(cells[-1:])[4], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    store("bench.rivals.scarce", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
