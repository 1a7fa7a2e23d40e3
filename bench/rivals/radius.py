"""How far logistic regression in bought units is from the MLE, by the radius of its weights.

    python -m bench.rivals.radius [--data FOLDER] [--runs 12] [--only adult] [--store]

Weights discount rows longer than the radius: a short one moves the target away from the maximum of
the likelihood, a long one costs noise.  Distances are of the table's MLE, in its sandwich standard
errors, root mean square over the coefficients of standardised columns; medians over the runs.
Between the radii that are tried the logarithm is interpolated: what a rule of n mu and p would give
is read off, the rule that is shipped among them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.peers import standardised
from bench.rivals.tables import LOGISTIC_TABLES, available, options, read, store

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "logistic_radius.md"

BUDGETS = (1.0, 0.237)

#: n mu below which the columns of some table would not be found.
LEAST = 500.0

#: Radii in sqrt(p).
MULTIPLES = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6)

Rule = Callable[[int, int, float], float]


def likely_radius(n: int, p: int, mu: float) -> float:
    """Radius of Mallows weights that logistic fits of raw columns had before they took the road."""
    return math.sqrt(max(p, 2)) * max(1.0, 1.7 * (n * mu / 5000.0) ** 0.17)


def power_rule(least: float, power: float) -> Rule:
    """``max(1, least (n mu / 5000)^power)``, in sqrt(p)."""
    return lambda n, p, mu: max(1.0, least * (n * mu / 5000.0) ** power)


RULES: dict[str, Rule] = {
    "sqrt(p)": lambda n, p, mu: 1.0,
    "2 sqrt(p)": lambda n, p, mu: 2.0,
    "1.5 (n mu/5000)^.12": power_rule(1.5, 0.12),
    "1.5 (n mu/5000)^.17": power_rule(1.5, 0.17),
    "1.5 (n mu/5000)^.25": power_rule(1.5, 0.25),
    "1.7 (n mu/5000)^.17": power_rule(1.7, 0.17),
    "2 (n mu/5000)^.17": power_rule(2.0, 0.17),
    "1.8 (n mu/5000)^.25": power_rule(1.8, 0.25),
    "2.2 (n mu/5000)^.12": power_rule(2.2, 0.12),
    "that of dpfast": lambda n, p, mu: likely_radius(n, p, mu) / p**0.5,
}


class Cell(NamedTuple):
    """Distances of one table and budget, by multiple."""

    table: str
    n: int
    p: int
    mu: float
    distances: tuple[float, ...]

    def at(self, multiple: float) -> float:
        return float(np.exp(np.interp(np.log(multiple), np.log(MULTIPLES), np.log(self.distances))))


def likeliest(Z: Array, y: Array) -> tuple[Array, Array]:
    """MLE of rows with a constant and its sandwich standard errors, by Newton's steps."""
    theta = np.zeros(Z.shape[1])
    for _ in range(40):
        mean = 1.0 / (1.0 + np.exp(-Z @ theta))
        inverse = np.linalg.inv((Z * (mean * (1.0 - mean))[:, None]).T @ Z)
        step = inverse @ (Z.T @ (y - mean))
        theta = theta + step / max(1.0, float(np.abs(step).max()))
    scores = Z * (y - mean)[:, None]
    return theta, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def measured(X: Array, y: Array, mu: float, runs: int) -> tuple[float, ...]:
    p = X.shape[1] + 1
    Z, _ = standardised(X, y)
    theta, errors = likeliest(np.column_stack([np.ones(len(Z)), Z]), y)
    found = []
    for multiple in MULTIPLES:
        distances = []
        for run in range(runs):
            fit = dpfast.fit(
                X,
                y,
                dpfast.Objective("logistic", weights=dpfast.Mallows(multiple * p**0.5)),
                privacy=mu,
                standardize=True,
                noise=dpfast.SeededNoise(run),
            )
            slopes = fit.params[1:] * X.std(axis=0)
            coded = np.concatenate([[fit.params[0] + X.mean(axis=0) @ fit.params[1:]], slopes])
            distances.append(np.sqrt(np.mean(((coded - theta) / errors) ** 2)))
        found.append(float(np.median(distances)))
    return tuple(found)


def report(cells: list[Cell]) -> list[str]:
    lines = [
        "| table | n, p | mu | " + " | ".join(f"{m:g} sqrt(p)" for m in MULTIPLES) + " | dpfast |",
        "|" + "---|" * (len(MULTIPLES) + 4),
    ]
    for cell in cells:
        best = min(cell.distances)
        shown = " | ".join(
            f"**{d:.2f}**" if d <= 1.1 * best else f"{d:.2f}" for d in cell.distances
        )
        shipped = RULES["that of dpfast"](cell.n, cell.p, cell.mu)
        lines.append(
            f"| {cell.table} | {cell.n}, {cell.p} | {cell.mu:g} | {shown} "
            f"| {shipped:.2f}: {cell.at(shipped):.2f} |"
        )
    lines += ["", "| rule, in sqrt(p) | error over the best of the cell: geometric mean | worst |"]
    lines.append("|---|---|---|")
    for name, rule in RULES.items():
        ratios = [c.at(rule(c.n, c.p, c.mu)) / min(c.distances) for c in cells]
        mean, worst = np.exp(np.mean(np.log(ratios))), max(ratios)
        lines.append(f"| {name} | {mean:.2f} | {worst:.2f} |")
    return lines


def main(argv: list[str] | None = None) -> int:
    asked = options("bench.rivals.radius", __doc__, 12, BUDGETS).parse_args(argv)
    cells = []
    for table in available(LOGISTIC_TABLES, asked.data, asked.only):
        X, y = read(table, asked.data)
        for mu in asked.budgets:
            if len(X) * mu < LEAST:
                continue
            distances = measured(X, y, mu, asked.runs)
            cells.append(Cell(table.name, len(X), X.shape[1] + 1, mu, distances))
            print(report(cells[-1:])[2], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    store("bench.rivals.radius", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
