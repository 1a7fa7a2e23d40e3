"""How far private logistic regression is from the MLE on public tables, beside its rivals.

    python -m bench.rivals.logistic [--data FOLDER] [--runs 10] [--only adult] [--store]

Distances are of the table's MLE, in its sandwich standard errors, root mean square over the
coefficients of standardised columns; medians over the runs, which differ in their noise.  dpfast
buys the units; all others get columns that were standardised by their exact means and deviations.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.__main__ import BUDGETS, ENOUGH, shown, verdict
from bench.rivals.descent import best_settings, descent
from bench.rivals.peers import JUDGED, TUNED, pair_of, sgd_settings, standardised, tilted
from bench.rivals.radius import LEAST, likeliest
from bench.rivals.tables import LOGISTIC_TABLES, available, read
from dpfast import baselines

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals_logistic.md"

#: A logistic loss has a quarter of the squared loss's curvature: its steps are so much longer.
LONGER = 4.0

Peer = Callable[[Array, Array, float, int], Array]


def units_told(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """dpfast's default weights for declared units."""
    return dpfast.fit(Z, y, "logistic", privacy=mu, noise=dpfast.SeededNoise(seed)).params


def perturbed_objective(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """Objective perturbation, told the 99% quantile of the rows' lengths."""
    return tilted(Z, y, "logistic", mu, seed, 0.25, None).params


def dp_sgd(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """DP-SGD with public settings."""
    settings = sgd_settings(Z)
    settings["step_size"] *= LONGER
    noise = dpfast.SeededNoise(seed)
    fit = baselines.dp_sgd(Z, y, "logistic", privacy=pair_of(mu), noise=noise, **settings)
    return fit.params


PEERS: dict[str, Peer] = {
    "units told": units_told,
    "objective pert., told": perturbed_objective,
    "DP-SGD": dp_sgd,
}


class Cell(NamedTuple):
    """Distances of one table and budget, by peer and run."""

    table: str
    n: int
    p: int
    mu: float
    distance: dict[str, Array]


def measured(name: str, X: Array, y: Array, mu: float, runs: int) -> Cell:
    p = X.shape[1] + 1
    Z, _ = standardised(X, y)
    theta, errors = likeliest(np.column_stack([np.ones(len(Z)), Z]), y)

    def distance(params: Array) -> float:
        return float(np.sqrt(np.mean(((params - theta) / errors) ** 2)))

    found: dict[str, list[float]] = defaultdict(list)
    settings = best_settings(Z, y, "logistic", mu, LONGER, distance)
    for run in range(runs):
        noise = dpfast.SeededNoise(run)
        beta = dpfast.fit(X, y, "logistic", privacy=mu, standardize=True, noise=noise).params
        coded = np.concatenate([[beta[0] + X.mean(axis=0) @ beta[1:]], beta[1:] * X.std(axis=0)])
        found[JUDGED].append(distance(coded))
        for peer, answer in PEERS.items():
            found[peer].append(distance(answer(Z, y, mu, run)))
        found[TUNED].append(distance(descent(Z, y, "logistic", mu, run, settings)))
    whole = {peer: np.nan_to_num(each, nan=np.inf, posinf=np.inf) for peer, each in found.items()}
    return Cell(name, len(X), p, mu, whole)


def report(cells: list[Cell]) -> Iterator[str]:
    names = (JUDGED, *PEERS, TUNED)
    yield f"| table | n, p | mu | {' | '.join(names)} |"
    yield "|" + "---|" * (len(names) + 3)
    for c in cells:
        yield f"| {c.table} | {c.n}, {c.p} | {c.mu:g} | {shown(c.distance, names)} |"
    yield ""
    strong = [cell for cell in cells if cell.n * cell.mu >= ENOUGH]
    yield from verdict(
        [c.distance for c in strong], [f"{c.table} {c.mu:g}" for c in strong], tuple(PEERS)[1:]
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.rivals.logistic")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args(argv)
    cells = []
    for table in available(LOGISTIC_TABLES, asked.data, asked.only):
        X, y = read(table, asked.data)
        for mu in asked.budgets:
            if len(X) * mu < LEAST:
                continue
            cells.append(measured(table.name, X, y, mu, asked.runs))
            print(list(report(cells[-1:]))[2], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    if asked.store:
        budgets = " ".join(f"{mu:g}" for mu in asked.budgets)
        command = f"`python -m bench.rivals.logistic --runs {asked.runs} --budgets {budgets}`"
        RESULTS.write_text(f"{command}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
