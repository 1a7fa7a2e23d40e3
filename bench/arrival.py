"""Where fits arrive, where they do not, and whether those say so.

    python -m bench.arrival [--fits 200] [--only logistic] [--store]

Designs nobody tuned the optimisers to beside those somebody did: rare events, steep slopes, rare
dummies, correlated and heavy-tailed covariates, far starts, wrong public scales.  Each cell has
fits with the default method and with Newton's fixed steps on the same data, beside the exact fit;
errors are in its standard errors.  Warned fits may miss; others have to cover.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

import dpfast
from dpfast.errors import NotConverged

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent / "results" / "arrival.md"

#: About (1, 1e-6).
SMALL = 0.2387


class Cell(NamedTuple):
    """One design; ``options`` are those of :func:`simulate`."""

    name: str
    loss: str
    n: int
    p: int
    mu: float = 1.0
    scale: float = 1.0
    options: tuple[tuple[str, Any], ...] = ()


def covariates(rng: np.random.Generator, n: int, q: int, kind: str) -> Array:
    X = rng.normal(size=(n, q))
    if kind.startswith("correlated "):
        r = float(kind.split()[1])
        return math.sqrt(1.0 - r) * X + math.sqrt(r) * rng.normal(size=(n, 1))
    if kind.startswith("dummies "):  # half of the columns
        k = max(1, q // 2)
        X[:, :k] = rng.random((n, k)) < float(kind.split()[1])
    if kind == "t3":
        X = rng.standard_t(3, size=(n, q)) / math.sqrt(3.0)
    if kind == "lognormal":
        X = (np.exp(X) - math.exp(0.5)) / math.sqrt((math.e - 1.0) * math.e)
    if kind == "uneven":
        X = X * np.geomspace(0.2, 3.0, q)
    return X


@lru_cache(maxsize=64)
def _intercept(ones: float, q: int, kind: str, slopes: float) -> float:
    t = covariates(np.random.default_rng(1), 200_000, q, kind) @ _slopes(q, slopes)
    return float(brentq(lambda b: expit(b + t).mean() - ones, -30.0, 30.0))


def _slopes(q: int, size: float) -> Array:
    return size * np.where(np.arange(q) % 2, -1.0, 1.0)


def simulate(
    rng: np.random.Generator,
    cell: Cell,
    *,
    kind: str = "normal",
    slopes: float | None = None,
    ones: float = 0.5,
    far: float = 0.0,
    heavy: bool = False,
) -> tuple[Array, Array, Array]:
    """Covariates, response and true coefficients."""
    n, q = cell.n, cell.p - 1
    X = covariates(rng, n, q, kind)
    if cell.loss == "logistic":
        size = 0.5 if slopes is None else slopes
        b0 = 0.0 if ones == 0.5 else _intercept(ones, q, kind, size)
        beta = _slopes(q, size)
        y = (rng.random(n) < expit(b0 + X @ beta)).astype(float)
    else:
        b0, beta = 1.0 + far, _slopes(q, 1.0 if slopes is None else slopes)
        noise = rng.standard_t(3, size=n) if heavy else rng.normal(size=n)
        y = b0 + X @ beta + noise
    return X, y, np.append(b0, beta)


def cells() -> Iterator[Cell]:
    """Those that were looked at while the method was made, and others."""

    def cell(
        name: str, loss: str, n: int, p: int, mu: float = 1.0, scale: float = 1.0, **o: Any
    ) -> Cell:
        return Cell(name, loss, n, p, mu, scale, tuple(sorted(o.items())))

    for n, p in ((1_000, 4), (1_000, 10), (5_000, 4), (5_000, 10), (20_000, 4), (60_000, 6)):
        yield cell("linear", "log-cosh", n, p)
        yield cell("half are ones", "logistic", n, p)
        for ones in (0.03, 0.005):
            yield cell(f"{100 * ones:g}% are ones", "logistic", n, p, ones=ones)
        for slopes in (2.0, 4.0):
            yield cell(f"slopes of {slopes:g}", "logistic", n, p, slopes=slopes)
        yield cell("correlated .95", "log-cosh", n, p, kind="correlated 0.95")
        yield cell("dummies 1%", "log-cosh", n, p, kind="dummies 0.01")
        yield cell("dummies 5%", "logistic", n, p, kind="dummies 0.05")
        yield cell("t3, both", "huber", n, p, kind="t3", heavy=True)
    for n, p in ((200, 2), (1_000, 2), (1_000, 20), (3_000, 7), (5_000, 20), (10_000, 6)):
        yield cell("linear", "log-cosh", n, p, 0.5)
        yield cell("half are ones", "logistic", n, p, 0.5)
        yield cell("3% are ones", "logistic", n, p, 0.5, ones=0.03)
        yield cell("slopes of 3", "logistic", n, p, slopes=3.0)
        yield cell("correlated .8", "huber", n, p, 0.5, kind="correlated 0.8")
        yield cell("lognormal", "log-cosh", n, p, kind="lognormal")
        yield cell("uneven", "logistic", n, p, kind="uneven")
        yield cell("small budget", "logistic", n, p, SMALL)
        yield cell("30 scales away", "huber", n, p, far=30.0)
        yield cell("scale / 10", "log-cosh", n, p, scale=0.1)
        yield cell("scale x 10", "log-cosh", n, p, scale=10.0)


class Outcome(NamedTuple):
    """Of one method: errors, coverage, warnings and time."""

    noise: float
    total: float
    intercept: float
    slopes: float
    warned: float
    n_unwarned: int
    unwarned_intercept: float
    unwarned_slopes: float
    milliseconds: float


def run(cell: Cell, fits: int) -> dict[str, Outcome]:
    """Both methods on the same data."""
    found: dict[str, list[tuple[Array, Array, Array, bool, float]]] = {"auto": [], "newton": []}
    exact_errors = []
    scale = None if cell.loss == "logistic" else cell.scale
    for seed in range(fits):
        X, y, truth = simulate(
            np.random.default_rng([seed, cell.n, cell.p]), cell, **dict(cell.options)
        )
        try:
            exact = dpfast.nonprivate_fit(X, y, cell.loss, scale=scale)
        except NotConverged:
            continue
        if not (exact.bse < 1e3).all():
            continue
        exact_errors.append((exact.params - truth) / exact.bse)
        for method, rows in found.items():
            noise = dpfast.SeededNoise(seed)
            start = time.process_time()
            fit = dpfast.fit(
                X, y, cell.loss, privacy=cell.mu, scale=scale, noise=noise, threads=1, method=method
            )
            spent = time.process_time() - start
            interval = fit.conf_int()
            covered = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
            noise_error = (fit.params - exact.params) / exact.bse
            error = (fit.params - truth) / exact.bse
            rows.append((noise_error, error, covered, bool(fit.warnings), spent))
    if not exact_errors:
        return {}
    own = float(np.mean(np.square(exact_errors)))
    return {method: _outcome(rows, own) for method, rows in found.items()}


def _outcome(rows: list[tuple[Array, Array, Array, bool, float]], own: float) -> Outcome:
    noise, error, covered, warned, spent = (np.array(column) for column in zip(*rows, strict=True))
    silent = covered[~warned]
    return Outcome(
        noise=float(np.sqrt(np.mean(noise**2))),
        total=float(np.sqrt(np.mean(error**2) / own)),
        intercept=float(covered[:, 0].mean()),
        slopes=float(covered[:, 1:].mean()),
        warned=float(warned.mean()),
        n_unwarned=len(silent),
        unwarned_intercept=float(silent[:, 0].mean()) if len(silent) else math.nan,
        unwarned_slopes=float(silent[:, 1:].mean()) if len(silent) else math.nan,
        milliseconds=1e3 * float(np.median(spent)),
    )


HEAD = (
    "| design | loss | n | p | mu | noise (SE), Newton -> default | total "
    "| coverage intercept / slopes | warned | unwarned cover | ms |\n" + 11 * "|---" + "|"
)


def line(cell: Cell, found: dict[str, Outcome]) -> str:
    """A row of the table."""
    head = f"| {cell.name} | {cell.loss} | {cell.n:,} | {cell.p} | {cell.mu:.3g} "
    if not found:
        return head + "| the exact fit does not exist | | | | | |"
    old, new = found["newton"], found["auto"]
    silent = "none"
    if new.n_unwarned:
        silent = f"{new.unwarned_intercept:.2f} / {new.unwarned_slopes:.2f} of {new.n_unwarned}"
    return head + (
        f"| {old.noise:.2f} -> {new.noise:.2f} | {old.total:.2f} -> {new.total:.2f} "
        f"| {old.intercept:.2f} / {old.slopes:.2f} -> {new.intercept:.2f} / {new.slopes:.2f} "
        f"| {old.warned:.2f} -> {new.warned:.2f} | {silent} "
        f"| {old.milliseconds:.1f} -> {new.milliseconds:.1f} |"
    )


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--only", default="", help="cells whose name or loss contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [c for c in cells() if options.only in f"{c.name} {c.loss}"]
    lines = [HEAD]
    print(HEAD, flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(run, chosen, [options.fits] * len(chosen))
        for cell, outcome in zip(chosen, found, strict=True):
            lines.append(line(cell, outcome))
            print(lines[-1], flush=True)
    if options.store:
        said = (
            f"# Where fits arrive\n\n`python -m bench.arrival --fits {options.fits} --store`: "
            f"{options.fits} fits a cell; a coverage of .95 has a Monte Carlo error of "
            f"{math.sqrt(0.95 * 0.05 / options.fits):.3f} (intercept). Errors in standard "
            "errors of the exact fit, root mean square; total: about the truth, over that of the "
            "exact fit. Warned fits have said that their intervals may not cover.\n\n"
        )
        RESULTS.write_text(said + "\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
