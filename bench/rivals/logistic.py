"""How far private logistic regression is from the MLE on public tables, beside its rivals.

    python -m bench.rivals.logistic [--data FOLDER] [--runs 10] [--only adult] [--store]

Each run draws the records of a table with replacement.  Distances are of that sample's MLE, in its
sandwich standard errors, root mean square over the coefficients of standardised columns; medians
over the runs.  Coverage is of the table's MLE.  dpfast buys the units; all others get columns that
were standardised by their exact means and deviations.  A descent that is tuned on the data costs
most of the time.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals import literature
from bench.rivals.__main__ import BUDGETS, ENOUGH, intervals, quiet_coverage, shown, verdict
from bench.rivals.descent import Settings, best_settings, descent
from bench.rivals.peers import (
    JUDGED,
    TUNED,
    likeliest,
    pair_of,
    sgd_settings,
    standardised,
    tilted,
)
from bench.rivals.tables import (
    LOGISTIC_TABLES,
    OTHER_LOGISTIC_TABLES,
    UNSEEN_LOGISTIC_TABLES,
    available,
    options,
    read,
    store,
)
from dpfast.errors import InferenceUnavailable

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals_logistic.md"

#: n mu below which the columns of some table would not be found.
LEAST = 500.0

#: A logistic loss has a quarter of the squared loss's curvature: its steps are so much longer.
LONGER = 4.0

#: By what was known when the constants of the default were chosen.
GROUPS = {
    "Tables by which constants were chosen": LOGISTIC_TABLES,
    "Others that were looked at then": OTHER_LOGISTIC_TABLES,
    "Tables that were not": UNSEEN_LOGISTIC_TABLES,
}

Peer = Callable[[Array, Array, float, int], Array]


def units_told(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """dpfast in declared units."""
    noise = dpfast.SeededNoise(seed)
    return dpfast.fit(Z, y, "logistic", privacy=mu, standardize=False, noise=noise).params


def perturbed_objective(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """Objective perturbation, told the 99% quantile of the rows' lengths."""
    return tilted(Z, y, "logistic", mu, seed, 0.25, None).params


def dp_sgd(Z: Array, y: Array, mu: float, seed: int) -> Array:
    """DP-SGD with public settings."""
    settings = sgd_settings(Z, 0.2 * LONGER)
    noise = dpfast.SeededNoise(seed)
    fit = literature.dp_sgd(Z, y, "logistic", privacy=pair_of(mu), noise=noise, **settings)
    return fit.params


PEERS: dict[str, Peer] = {
    "units told": units_told,
    "objective pert., told": perturbed_objective,
    "DP-SGD": dp_sgd,
}


class Cell(NamedTuple):
    """Distances of one table and budget, by peer and run, and the intervals of the judged."""

    table: str
    n: int
    p: int
    mu: float
    distance: dict[str, Array]
    coverage: float
    worst: float
    width: float
    warned: float


def measured(name: str, X: Array, y: Array, mu: float, runs: int, tuned: bool) -> Cell:
    """One cell; seeded by run, which draws the records of the table with replacement."""
    whole, _ = likeliest(*_coded(X, y))
    whole = _raw(whole, X)
    found: dict[str, list[float]] = defaultdict(list)
    hits, widths, warned = [], [], []
    settings: Settings | None = None
    for run in range(runs):
        sample = np.random.default_rng(run).integers(0, len(X), len(X))
        x, labels = X[sample], y[sample]
        Z = standardised(x, labels)[0]
        theta, errors = likeliest(*_coded(x, labels))

        def distance(params: Array, theta: Array = theta, errors: Array = errors) -> float:
            return float(np.sqrt(np.mean(((params - theta) / errors) ** 2)))

        if tuned and settings is None:
            settings = best_settings(Z, labels, "logistic", mu, LONGER, distance)
        noise = dpfast.SeededNoise(run)
        fit = dpfast.fit(x, labels, "logistic", privacy=mu, standardize=True, noise=noise)
        found[JUDGED].append(distance(np.concatenate([_level(fit.params, x), _slopes(fit, x)])))
        for peer, answer in PEERS.items():
            found[peer].append(distance(answer(Z, labels, mu, run)))
        if settings is not None:
            found[TUNED].append(distance(descent(Z, labels, "logistic", mu, run, settings)))
        warned.append(bool(fit.warnings))
        try:
            low, high = fit.conf_int().T
        except InferenceUnavailable:  # the share of ones alone
            continue
        hits.append((low <= whole) & (whole <= high))
        widths.append(np.median(fit.bse[1:] * x.std(axis=0) / errors[1:]))
    covered = np.array(hits) if hits else np.full((1, 1), np.nan)
    return Cell(
        name,
        len(X),
        X.shape[1] + 1,
        mu,
        {peer: np.nan_to_num(each, nan=np.inf, posinf=np.inf) for peer, each in found.items()},
        float(np.mean(covered)),
        float(np.mean(covered, axis=0).min()),
        float(np.median(widths)) if widths else np.nan,
        float(np.mean(warned)),
    )


def _coded(X: Array, y: Array) -> tuple[Array, Array]:
    return np.column_stack([np.ones(len(X)), standardised(X, y)[0]]), y


def _raw(theta: Array, X: Array) -> Array:
    """Coefficients of standardised columns in the units of the columns."""
    slopes = theta[1:] / X.std(axis=0)
    return np.concatenate([[theta[0] - X.mean(axis=0) @ slopes], slopes])


def _level(beta: Array, X: Array) -> Array:
    return np.array([beta[0] + X.mean(axis=0) @ beta[1:]])


def _slopes(fit: dpfast.Fit, X: Array) -> Array:
    return np.asarray(fit.params[1:] * X.std(axis=0))


def report(cells: list[Cell]) -> Iterator[str]:
    names = [name for name in (JUDGED, *PEERS, TUNED) if any(name in c.distance for c in cells)]
    yield f"| table | n, p | mu | {' | '.join(names)} | coverage (worst) | width | warned |"
    yield "|" + "---|" * (len(names) + 6)
    for c in cells:
        yield (
            f"| {c.table} | {c.n}, {c.p} | {c.mu:g} | {shown(c.distance, names)} "
            f"| {intervals(c)} | {c.warned:.0%} |"
        )
    for group, tables in GROUPS.items():
        known = {table.name for table in tables}
        strong = [c for c in cells if c.table in known and c.n * c.mu >= ENOUGH]
        if not strong:
            continue
        yield f"\n{group}:\n"
        labels = [f"{c.table} {c.mu:g}" for c in strong]
        yield from verdict([c.distance for c in strong], labels, tuple(PEERS)[1:])
        yield quiet_coverage(strong)


def main(argv: list[str] | None = None) -> int:
    parser = options("bench.rivals.logistic", __doc__, 10, BUDGETS)
    parser.add_argument("--tuned", action="store_true", help="a descent tuned on the data, too")
    asked = parser.parse_args(argv)
    cells = []
    tables = [table for group in GROUPS.values() for table in group]
    first = LOGISTIC_TABLES if asked.tuned else ()
    for table in available(tables, asked.data, asked.only):
        X, y = read(table, asked.data)
        for mu in asked.budgets:
            if len(X) * mu < LEAST:
                continue
            cells.append(measured(table.name, X, y, mu, asked.runs, table in first))
            print(list(report(cells[-1:]))[2], file=sys.stderr, flush=True)
    text = "\n".join(report(cells))
    print(text)
    store("bench.rivals.logistic", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
