"""dpfast beside what others have published, and beside packages that are installed.

    python -m bench.rivals.published [--data FOLDER] [--runs 20] [--only cps] [--store]

Each row names its rival, where the rival's figure comes from ("published", or "run here"), and the
command that makes ours.  Budgets of others are taken as they are written: ours protects replacement
of a record, so that where theirs is about one that is added or removed, ours is the stronger
promise.  Their pure epsilon is (epsilon, 1e-6) here: Gaussian noise gives none.

diffprivlib needs scikit-learn below 1.6, so that its rows are made in an environment of the extra
``rivals``, and left out elsewhere; OpenDP, Opacus and packages without privacy are beside it in
``bench.rivals.packages``.  The simulated line and the logistic slope are designs of ours, like
those of the papers as far as these say what theirs are: widths compare in their order of magnitude.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.__main__ import ordinary
from bench.rivals.peers import standardised
from bench.rivals.radius import likeliest
from bench.rivals.tables import LOGISTIC_TABLES, TABLES, options, read, store

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals_published.md"

DELTA = 1e-6

#: Published standard errors of a private OLS library over those of OLS, by epsilon: CPS wages, with
#: declared bounds education [0, 22], experience [0, 50], log wage [0, 15].
CPS = {10.0: 300.0, 50.0: 70.0, 100.0: 37.0, 500.0: 8.0, 1000.0: 4.0}
BOUNDS = ([0.0, 0.0, 0.0, 0.0], [22.0, 50.0, 2500.0, 1.0]), (0.0, 15.0)

#: The same of a simulation of theirs at epsilon 1, by n; its design is not known here.
SIMULATED = {1000: 54.0, 10_000: 18.0, 100_000: 6.0}

#: Widths of 90% intervals of a logistic slope at mu = 1 over those without privacy, by n: the
#: bootstrap of others, and their interval of private empirical risk minimisation.
BOOTSTRAP = {1000: (9.7, 3.0), 10_000: (3.2, 1.36), 100_000: (1.24, 1.07)}

#: Steps of the double-noise method, of which it gets the best for nothing.
STEPS = (10, 30, 100)


class Row(NamedTuple):
    """One comparison, as text."""

    task: str
    rival: str
    figure: str
    source: str
    ours: str
    seconds: float


def pair(epsilon: float) -> dpfast.ApproxDP:
    return dpfast.ApproxDP(epsilon, DELTA)


def wages(folder: Path | None, runs: int) -> Iterator[Row]:
    """Standard errors of the wage equation over those of OLS."""
    X, y = read(TABLES[0], folder)
    beta, errors = ordinary(X, y)
    for epsilon, theirs in CPS.items():
        start, ratios, off = time.perf_counter(), [], []
        for run in range(min(runs, 5)):
            noise = dpfast.SeededNoise(run)
            fit = dpfast.fit(X, y, "least-squares", privacy=pair(epsilon), noise=noise)
            ratios.append(float(np.median(fit.bse / errors)))
            off.append(float(np.sqrt(np.mean(((fit.params - beta) / errors) ** 2))))
        taken = (time.perf_counter() - start) / len(ratios)
        ours = f"{np.median(ratios):.2f}; coefficients {np.median(off):.2f} standard errors away"
        task = f"CPS 2024 wages, epsilon {epsilon:g}: standard errors over those of OLS"
        yield Row(task, "private OLS library", f"{theirs:g}", "published", ours, taken)


def simulated(runs: int) -> Iterator[Row]:
    """One normal covariate, normal errors, nothing declared, at epsilon 1."""
    for n, theirs in SIMULATED.items():
        start, ratios = time.perf_counter(), []
        for run in range(runs):
            rng = np.random.default_rng(run)
            x = rng.normal(size=n)
            y = 1.0 + x + rng.normal(size=n)
            noise = dpfast.SeededNoise(run)
            fit = dpfast.fit(x[:, None], y, "least-squares", privacy=pair(1.0), noise=noise)
            ratios.append(float(fit.bse[1] / ordinary(x[:, None], y)[1][1]))
        taken = (time.perf_counter() - start) / runs
        task = f"simulated line (a design of ours), n = {n:,}, epsilon 1: the same"
        ours = f"{np.median(ratios):.2f}"
        yield Row(task, "private OLS library", f"{theirs:g}", "published", ours, taken)


def bootstrap(runs: int) -> Iterator[Row]:
    """90% intervals of a logistic slope, one covariate in the unit ball, ridge 1/n, mu = 1."""
    slope = 1.0
    for n, (resampled, tilted) in BOOTSTRAP.items():
        start, ratios, hits = time.perf_counter(), [], []
        for run in range(5 * runs if n < 50_000 else runs):
            rng = np.random.default_rng(run)
            x = rng.uniform(-1.0, 1.0, size=n)
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 - slope * x))) * 1.0
            noise = dpfast.SeededNoise(run)
            weights = dpfast.Bounded(math.sqrt(2.0))  # rows are no longer: nothing is moved
            fit = dpfast.fit(
                x[:, None],
                y,
                dpfast.Objective("logistic", weights=weights, ridge=1.0 / n),
                privacy=1.0,
                noise=noise,
            )
            low, high = fit.conf_int(level=0.9)[1]
            error = likeliest(np.column_stack([np.ones(n), x]), y)[1][1]
            ratios.append((high - low) / (2.0 * 1.6449 * error))
            hits.append(low <= slope <= high)
        taken = (time.perf_counter() - start) / len(ratios)
        task = f"logistic slope, n = {n:,}, mu = 1: width over that without privacy"
        ours = f"{np.median(ratios):.2f}; covers in {np.mean(hits):.0%} of {len(hits)} (90%)"
        yield Row(task, "private bootstrap", f"{resampled:g}", "published", ours, taken)
        yield Row(task, "intervals of private ERM", f"{tilted:g}", "published", ours, taken)


def double_noise(rows: Array, y: Array, radius: float, mu: float, steps: int, seed: int) -> Array:
    """Simulation of the double-noise Newton method, with weights ``min(1, R^2/||x||^2)``.

    Noise on the mean score, and on ``(H + l)^-1`` times what was released of it, which moves by
    ``b ||g|| / (n l^2 + b l)``, b the bound of a Hessian; thirty percent of mu^2 for these.
    """
    rng, (n, p) = np.random.default_rng(seed), rows.shape
    held = np.minimum(1.0, radius**2 / np.einsum("ij,ij->i", rows, rows))
    bound = 0.25 * radius**2
    damping = bound * max(2.0 / p, 10.0 * p**0.5 / (n * mu))
    mu_score, mu_direction = (mu * math.sqrt(part / steps) for part in (0.7, 0.3))
    theta = np.zeros(p)
    for _ in range(steps):
        chance = 1.0 / (1.0 + np.exp(-np.clip(rows @ theta, -40.0, 40.0)))
        score = (held * (chance - y)) @ rows / n
        score += rng.normal(size=p) * 2.0 * radius / (n * mu_score)
        hessian = (rows * (held * chance * (1.0 - chance))[:, None]).T @ rows / n
        moved = bound * np.linalg.norm(score) / (n * damping**2 + bound * damping)
        direction = np.linalg.solve(hessian + damping * np.eye(p), score)
        theta = theta - direction - rng.normal(size=p) * moved / mu_direction
    return theta


def second_order(folder: Path | None, runs: int) -> Iterator[Row]:
    """Excess logistic loss of Newton's method and of its double-noise rival."""
    X, y = read(LOGISTIC_TABLES[0], folder)
    Z = standardised(X, y)[0]
    rows = np.column_stack([np.ones(len(Z)), Z])
    signs = 1.0 - 2.0 * y

    def loss(theta: Array) -> float:
        return float(np.mean(np.logaddexp(0.0, signs * (rows @ theta))))

    best = loss(likeliest(rows, y)[0])
    weights = dpfast.Mallows(2.0 * math.sqrt(rows.shape[1]))
    for epsilon in (0.1, 1.0, 10.0):
        start = time.perf_counter()
        fits = [
            dpfast.fit(
                Z,
                y,
                dpfast.Objective("logistic", weights=weights),
                privacy=pair(epsilon),
                inference=False,
                noise=dpfast.SeededNoise(run),
            )
            for run in range(runs)
        ]
        ours = float(np.median([loss(fit.params) - best for fit in fits]))
        taken = (time.perf_counter() - start) / runs
        mu = dpfast.GDP.within(pair(epsilon)).mu
        found = {
            k: [double_noise(rows, y, weights.radius, mu, k, run) for run in range(runs)]
            for k in STEPS
        }
        theirs, steps = min(
            (float(np.median([loss(theta) - best for theta in thetas])), k)
            for k, thetas in found.items()
        )
        task = f"adult income, logistic, epsilon {epsilon:g}: excess loss"
        rival = f"double noise of Ganesh et al. 2023, the best of {STEPS} steps: {steps}"
        yield Row(task, rival, f"{theirs:.2e}", "run here", f"{ours:.2e}", taken)


def packages(folder: Path | None, runs: int) -> Iterator[Row]:
    """Regressions of diffprivlib, told public bounds or the rows' 99% quantile."""
    if not find_spec("diffprivlib"):
        return
    models = import_module("diffprivlib.models")
    X, y = read(TABLES[0], folder)
    beta, errors = ordinary(X, y)

    def linear(epsilon: float, run: int) -> Array:
        (low, high), bounds = BOUNDS
        fit = models.LinearRegression(
            epsilon=epsilon, bounds_X=(np.array(low), np.array(high)), bounds_y=bounds,
            random_state=run,
        ).fit(X, y)  # fmt: skip
        return np.concatenate([np.atleast_1d(fit.intercept_), np.ravel(fit.coef_)])

    def least(epsilon: float, run: int) -> Array:
        noise = dpfast.SeededNoise(run)
        return dpfast.fit(X, y, "least-squares", privacy=pair(epsilon), noise=noise).params

    yield from against("CPS 2024 wages", "LinearRegression", linear, least, beta, errors, runs)
    Z, labels = read(LOGISTIC_TABLES[0], folder)
    Z = standardised(Z, labels)[0]
    theta, deviations = likeliest(np.column_stack([np.ones(len(Z)), Z]), labels)
    longest = float(np.quantile(np.sqrt(np.sum(Z * Z, axis=1)), 0.99))

    def logistic(epsilon: float, run: int) -> Array:
        fit = models.LogisticRegression(
            epsilon=epsilon, data_norm=longest, C=1e3, max_iter=1000, random_state=run
        ).fit(Z, labels)
        return np.concatenate([np.ravel(fit.intercept_), np.ravel(fit.coef_)])

    def whitened(epsilon: float, run: int) -> Array:
        noise = dpfast.SeededNoise(run)
        return dpfast.fit(
            Z, labels, "logistic", privacy=pair(epsilon), standardize=True, noise=noise
        ).params

    yield from against(
        "adult income, logistic", "LogisticRegression", logistic, whitened, theta, deviations, runs
    )


def against(
    table: str,
    model: str,
    theirs: Callable[[float, int], Array],
    ours: Callable[[float, int], Array],
    target: Array,
    errors: Array,
    runs: int,
) -> Iterator[Row]:
    """Distances from the fit without privacy, in its standard errors."""
    for epsilon in (1.0, 10.0):
        found, seconds = [], []
        for fit in (theirs, ours):
            start = time.perf_counter()
            distances = []
            for run in range(min(runs, 5)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    away = (fit(epsilon, run) - target) / errors
                distances.append(float(np.sqrt(np.mean(away**2))))
            found.append(float(np.median(distances)))
            seconds.append((time.perf_counter() - start) / len(distances))
        yield Row(
            f"{table}, epsilon {epsilon:g}: distance in standard errors",
            f"diffprivlib {model}",
            f"{found[0]:.3g} ({seconds[0]:.2g} s)",
            "run here",
            f"{found[1]:.2f}",
            seconds[1],
        )


def report(rows: list[Row]) -> Iterator[str]:
    yield "| task | rival | its figure | where from | dpfast | seconds a fit |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row.task} | {row.rival} | {row.figure} | {row.source} | {row.ours} "
            f"| {row.seconds:.2g} |"
        )


def main(argv: list[str] | None = None) -> int:
    asked = options("bench.rivals.published", __doc__, 20, None).parse_args(argv)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "simulated": lambda: simulated(asked.runs),
        "bootstrap": lambda: bootstrap(asked.runs),
    }
    if asked.data is not None:
        parts["cps"] = lambda: wages(asked.data, asked.runs)
        parts["newton"] = lambda: second_order(asked.data, asked.runs)
        parts["packages"] = lambda: packages(asked.data, asked.runs)
    rows: list[Row] = []
    for name, part in parts.items():
        if asked.only in name:
            for row in part():
                rows.append(row)
                print(row, file=sys.stderr, flush=True)
    text = "\n".join(report(rows))
    print(text)
    store("bench.rivals.published", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
