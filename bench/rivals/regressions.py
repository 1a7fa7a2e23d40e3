"""How far private regressions are from exact ones on public tables, beside their rivals

Each run draws the records of a table with replacement.  Distances are of that sample's OLS or
logistic MLE, in its HC1 or sandwich standard errors, root mean square over the coefficients of
standardised columns; medians over the runs.  Coverage is of the table's own coefficients.  A fit
that was refused, or whose test failed, is infinitely far.  Bold: within 10% of the nearest that was
not tuned on the data.  dpfast buys the units; all others get columns that were standardised by
their exact means and deviations.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.public_tables import Table, available, read, tables
from bench.rivals.peers import (
    JUDGED,
    PEERS,
    TUNED,
    Array,
    Settings,
    Units,
    best_settings,
    descent,
    exact,
)
from bench.study import Block, holds, pooled, study
from dpfast.errors import InferenceUnavailable, InvalidBudget

#: mu of 1-GDP, and of (3, 1e-5), (ln 3, 1e-5) and (1, 1e-6).
BUDGETS = (1.0, 0.719, 0.292, 0.237)

#: n mu from which on cells are judged; how near is near.
ENOUGH, NEAR = 2000.0, 1.1

#: n mu below which the columns of some table would not be found.
LEAST = {"least-squares": 0.0, "logistic": 500.0}

#: How often runs are drawn again, and which share of dissent leaves a cell open.
REDRAWN, SETTLED = 400, 0.05

#: By what was known when the constants of the default were chosen; of all linear ones it is alike.
GROUPS = {
    "least-squares": {"": "linear"},
    "logistic": {
        "Tables by which constants were chosen": "logistic",
        "Others that were looked at then": "logistic, looked at",
        "Tables that were not": "logistic, unseen",
    },
}


class Cell(NamedTuple):
    """What one table and budget gave: distances by peer and run."""

    group: str
    table: str
    n: int
    p: int
    mu: float
    distance: dict[str, Array]
    coverage: float
    worst: float
    width: float
    warned: float


def ours(X: Array, y: Array, loss: str, mu: float, seed: int) -> tuple[Array, Array, Array, bool]:
    """Coefficients, errors and intervals with nothing declared; NaN where there are none."""
    missing = np.full(X.shape[1] + 1, np.nan)
    none = np.column_stack([missing, missing])
    try:
        fit = dpfast.fit(X, y, loss, privacy=mu, noise=dpfast.SeededNoise(seed))
    except InvalidBudget:  # too few records to find where the columns lie
        return missing, missing, none, True
    try:
        return fit.params, fit.bse, fit.conf_int(), bool(fit.warnings)
    except InferenceUnavailable:  # the mean of the response alone
        return np.nan_to_num(fit.params), missing, none, True


def measured(group: str, table: Table, loss: str, mu: float, runs: int, tuned: bool) -> Cell:
    """One cell; seeded by run."""
    X, y = read(table)
    units = Units.of(X, y, loss)
    whole = units.to_raw(exact(*units.coded(X, y), loss)[0])
    found: dict[str, list[float]] = defaultdict(list)
    hits, widths, warned = [], [], []
    settings: Settings | None = None
    for run in range(runs):
        sample = np.random.default_rng(run).integers(0, len(X), len(X))
        x, own = X[sample], y[sample]
        units = Units.of(x, own, loss)
        Z, v = units.coded(x, own)
        theta, errors = exact(Z, v, loss)

        def distance(params: Array, theta: Array = theta, errors: Array = errors) -> float:
            return float(np.sqrt(np.mean(((params - theta) / errors) ** 2)))

        params, bse, interval, warns = ours(x, own, loss, mu, run)
        found[JUDGED].append(distance(units.from_raw(params)))
        for name, peer in PEERS[loss].items():
            found[name].append(distance(peer(Z, v, mu, run)))
        if tuned:
            settings = settings or best_settings(Z, v, loss, mu, distance)
            found[TUNED].append(distance(descent(Z, v, loss, mu, run, settings)))
        hits.append(holds(interval, whole))
        widths.append(np.median(bse[1:] * units.spreads / units.unit / errors[1:]))
        warned.append(warns)
    with np.errstate(all="ignore"):
        covered = np.nanmean(hits, axis=0)
        return Cell(
            group, table.name, len(X), X.shape[1] + 1, mu,
            # what failed is as far away as can be
            {name: np.nan_to_num(each, nan=np.inf, posinf=np.inf) for name, each in found.items()},
            float(np.mean(covered)), float(covered.min()), float(np.nanmedian(widths)),
            float(np.mean(warned)),
        )  # fmt: skip


def row(cell: Cell) -> dict[str, Any]:
    """Medians; bold are those within 10% of the nearest that is fair."""
    medians = {name: float(np.median(each)) for name, each in cell.distance.items()}
    nearest = min(each for name, each in medians.items() if name != TUNED)
    texts = {}
    for name, each in medians.items():
        text = f"{each:.2f}" if np.isfinite(each) else "fails"
        texts[name] = f"**{text}**" if each <= NEAR * nearest and name != TUNED else text
    return {
        "table": cell.table, "n, p": f"{cell.n}, {cell.p}", "mu": cell.mu, **texts,
        "coverage (worst)": f"{cell.coverage:.3f} ({cell.worst:.2f})", "width": cell.width,
        "warned": f"{cell.warned:.0%}",
    }  # fmt: skip


def _near(distance: dict[str, Array], rivals: Sequence[str], runs: Any = slice(None)) -> bool:
    nearest = min(float(np.median(distance[name][runs])) for name in rivals)
    return float(np.median(distance[JUDGED][runs])) <= NEAR * nearest


def verdict(cells: list[Cell], rivals: Sequence[str]) -> Iterator[str]:
    """How often the judged is nearest, which cells so few runs do not settle, and coverage."""
    strong = [cell for cell in cells if cell.n * cell.mu >= ENOUGH]
    if strong:
        labels = np.array([f"{cell.table} {cell.mu:g}" for cell in strong])
        won = np.array([_near(cell.distance, rivals) for cell in strong])
        yield (
            f"* Nearest, or within {NEAR - 1.0:.0%} of the nearest fair rival, in "
            f"{won.mean():.0%} of the {len(won)} cells with n mu of {ENOUGH:,.0f} and more. Lost: "
            f"{'; '.join(labels[~won]) or 'none'}."
        )
        if all(TUNED in cell.distance for cell in strong):
            tuned = np.mean([_near(cell.distance, [TUNED]) for cell in strong])
            yield f"* Against the descent that was tuned on the data, in {tuned:.0%} of them."
        rng, runs = np.random.default_rng(0), len(strong[0].distance[JUDGED])
        again = [
            np.mean(
                [_near(c.distance, rivals, rng.integers(0, runs, runs)) for _ in range(REDRAWN)]
            )
            for c in strong
        ]
        unsettled = labels[[SETTLED < share < 1.0 - SETTLED for share in again]]
        yield (
            f"* Cells that {runs} runs do not settle (of the runs drawn again, {SETTLED:.0%} or "
            f"more say otherwise), where 50 are needed: {'; '.join(unsettled) or 'none'}."
        )
    quiet = [cell for cell in cells if cell.warned < 0.5]
    if quiet:
        each = [cell.coverage for cell in quiet]
        low = [f"{c.table} {c.mu:g}: {c.coverage:.3f}" for c in quiet if c.coverage < 0.9]
        yield (
            f"* Coverage in the {len(quiet)} cells where most fits do not warn: {min(each):.3f} to "
            f"{max(each):.3f}, mean {np.mean(each):.3f}; below .90: {'; '.join(low) or 'none'}."
        )


def compared(loss: str, asked: argparse.Namespace) -> Iterator[Block]:
    """Measure all tables of a loss."""
    cells = [
        (title, table, loss, mu, asked.runs, bool(asked.tuned))
        for title, group in GROUPS[loss].items()
        for table in [*available(tables(group), asked.only)][: 1 if asked.quick else None]
        for mu in asked.budgets[: 1 if asked.quick else None]
    ]
    found = []
    for cell in pooled(measured, cells):
        if cell.n * cell.mu >= LEAST[loss]:
            found.append(cell)
            yield row(cell)
    large = [np.median(c.distance[JUDGED]) for c in found if c.n >= 20_000 and c.mu == 1.0]
    if large:
        yield (
            f"* Median distance at mu = 1 over {len(large)} tables of 20,000 and more: "
            f"{np.median(large):.2f} standard errors."
        )
    for title in GROUPS[loss]:
        some = [cell for cell in found if cell.group == title]
        yield from [title] * bool(title and some)
        yield from verdict(some, tuple(PEERS[loss])[1:])


def linear(asked: argparse.Namespace) -> Iterator[Block]:
    return compared("least-squares", asked)


def logistic(asked: argparse.Namespace) -> Iterator[Block]:
    return compared("logistic", asked)


main = study("rivals", linear, __doc__, runs=10, budgets=BUDGETS, tuned=1)
main_logistic = study("rivals_logistic", logistic, __doc__, runs=10, budgets=BUDGETS, tuned=0)
