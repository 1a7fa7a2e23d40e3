"""Intervals of private quantile regression: coverage of both targets, width and time beside peers.

    python -m bench.quantile [--fits 1000] [--processes 2] [--quick]

Stored as ``bench/results/quantile.md``.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

import dpfast
from bench.provenance import keep
from dpfast.models import Loss
from tests.flat import flat

RESULTS = Path(__file__).parent / "results"
MU, LEVEL = 1.0, 0.9
SIZES, LEVELS = (1000, 10_000), (0.5, 0.75, 0.9)
WEIGHTS = dpfast.Bounded(2.0**0.5)

#: Standardised by the scale that is declared.
ERRORS = {
    "normal": stats.norm(),
    "t(3)": stats.t(3, scale=1.0 / 1.1),
    "chi2(3)": stats.chi2(3, loc=-1.0, scale=1.0 / 2.2),
}


class Cell(NamedTuple):
    """What is measured in one row of the table."""

    errors: str
    n: int
    tau: float


class Outcome(NamedTuple):
    """Of one data set: widths and whether targets were covered, (intercept, slope)."""

    widths: np.ndarray  # private, non-private with the same smoothing, QuantReg; shape (3, 2)
    covered: np.ndarray  # smoothed target, true quantile, QuantReg's of the latter; shape (3, 2)
    seconds: np.ndarray  # private, QuantReg
    warned: bool


@lru_cache
def smoothed_quantile(loss: Loss, name: str) -> float:
    """Minimiser of the expected smoothed loss."""
    errors = ERRORS[name]

    def score(t: float) -> float:
        points = [t + k * loss.c for k in (-6.0, -2.0, 0.0, 2.0, 6.0)]
        low, high = errors.ppf(1e-9), errors.ppf(1.0 - 1e-9)
        ends = sorted({low, high, *[p for p in points if low < p < high]})
        return sum(
            quad(lambda e: errors.pdf(e) * float(loss.psi(e - t)), a, b, limit=200)[0]
            for a, b in pairwise(ends)
        )

    q = float(errors.ppf(loss.h))
    return float(brentq(score, q - 2.0, q + 2.0, xtol=1e-9))


def chosen(cell: Cell) -> dpfast.Quantile:
    """The loss whose score the private fit solves for."""
    declared = dpfast.Quantile(cell.tau)
    rule = declared.for_records(cell.n, 2, MU)
    return dpfast.Quantile(cell.tau, declared._narrowed(rule, cell.n).bandwidth)


def outcomes(cell: Cell, seeds: range, peer: int) -> list[Outcome]:
    """Fits of these data sets; QuantReg's of the first ``peer`` of all seeds only."""
    errors = ERRORS[cell.errors]
    loss = chosen(cell)
    smoothed = np.array([1.0 + smoothed_quantile(loss, cell.errors), 2.0])
    true = np.array([1.0 + float(errors.ppf(cell.tau)), 2.0])
    options = {"scale": 1.0, "weights": WEIGHTS}
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, cell.n])
        X = rng.uniform(-1.0, 1.0, (cell.n, 1))
        y = 1.0 + 2.0 * X[:, 0] + errors.rvs(cell.n, random_state=rng)
        began = time.perf_counter()
        fit = flat(dpfast.fit)(
            X, y, dpfast.Quantile(cell.tau), privacy=MU, noise=dpfast.SeededNoise(seed),
            threads=1, **options,
        )  # fmt: skip
        own = time.perf_counter() - began
        plain = flat(dpfast.nonprivate_fit)(X, y, loss, **options)
        interval = np.asarray(fit.conf_int(LEVEL))
        intervals = [interval, np.asarray(plain.conf_int(LEVEL)), np.full((2, 2), np.nan)]
        seconds = np.array([own, np.nan])
        if seed < peer:
            seconds[1], intervals[2] = quant_reg(X, y, cell.tau)
        inside = [
            (i[:, 0] <= t) & (t <= i[:, 1])
            for i, t in zip((interval, interval, intervals[2]), (smoothed, true, true), strict=True)
        ]
        widths = np.array([i[:, 1] - i[:, 0] for i in intervals])
        found.append(Outcome(widths, np.array(inside), seconds, bool(fit.warnings)))
    return found


def quant_reg(X: np.ndarray, y: np.ndarray, tau: float) -> tuple[float, np.ndarray]:
    """Seconds and intervals of statsmodels."""
    import statsmodels.api as sm

    began = time.perf_counter()
    model = sm.QuantReg(y, sm.add_constant(X)).fit(q=tau, max_iter=2000)
    return time.perf_counter() - began, np.asarray(model.conf_int(1.0 - LEVEL))


def row(cell: Cell, found: list[Outcome]) -> str:
    """One line of the table."""
    widths = np.array([one.widths for one in found])
    covered = np.array([one.covered for one in found]).mean(axis=0)
    with_peer = ~np.isnan(widths[:, 2, 0])
    ratio = np.median(widths[:, 0] / widths[:, 1], axis=0)
    cells = [cell.errors, f"{cell.n:,}", f"{cell.tau:g}"]
    cells.append(f"{chosen(cell).bandwidth:.3f}")
    cells += [_pair(ratio), _pair(covered[0]), _pair(covered[1])]
    if with_peer.any():
        beside = widths[with_peer]
        theirs = np.array([one.covered[2] for one in found])[with_peer].mean(axis=0)
        seconds = np.array([one.seconds for one in found])[with_peer]
        cells += [_pair(np.median(beside[:, 0] / beside[:, 2], axis=0)), _pair(theirs)]
        cells.append(f"{np.median(seconds[:, 1] / seconds[:, 0]):.1f}")
    else:
        cells += ["-"] * 3
    cells.append(f"{np.mean([one.warned for one in found]):.3f}")
    return "| " + " | ".join(cells) + " |"


def _pair(values: np.ndarray) -> str:
    return "/".join(f"{value:.3f}" for value in values)


def measured(
    pool: ProcessPoolExecutor, cell: Cell, fits: int, peer: int, processes: int
) -> list[Outcome]:
    """Outcomes of so many data sets, in the order of their seeds."""
    chunk = max(1, -(-fits // (4 * processes)))
    chunks = [range(a, min(a + chunk, fits)) for a in range(0, fits, chunk)]
    call: Callable[..., list[Outcome]] = outcomes
    parts = pool.map(call, [cell] * len(chunks), chunks, [peer] * len(chunks))
    return [one for part in parts for one in part]


HEADINGS = (
    "errors", "n", "tau", "bandwidth", "width/non-private", "covers smoothed", "covers quantile",
    "width/QuantReg", "QuantReg covers", "times as fast", "warned",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="10 fits, one size, nothing stored")
    options = parser.parse_args(arguments)
    fits = 10 if options.quick else options.fits
    peer = min(25, fits)
    lines = [
        "# Quantile regression",
        "",
        f"`python -m bench.quantile`: one covariate, uniform on [-1, 1], and an intercept, "
        f"`Bounded(sqrt 2)` weights, scale 1 declared, mu = {MU:g}, {100 * LEVEL:g}% intervals, "
        "the bandwidth of the rule (of the score, which decides the target); "
        f"{fits} data sets of normal errors, {max(10, fits // 2)} of "
        "others. Pairs are intercept/slope; widths are median ratios. `width/non-private` is "
        "beside the same smoothed loss without privacy, `QuantReg` statsmodels' with its own "
        f"(kernel) errors, on the first {peer} data sets; `times as fast` is the median ratio of "
        "its time to that of a private fit on one thread. A coverage of 0.9 has a Monte Carlo "
        f"error of {(0.09 / fits) ** 0.5:.3f} (normal errors).",
        "",
        "Two targets: the smoothed one, which intervals are for, and the quantile itself. Slopes "
        "of a model of location are the same in both; the intercept of a level other than the "
        "median's is moved by the smoothing.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|---" * len(HEADINGS) + "|",
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        for errors in ERRORS:
            for n in SIZES[:1] if options.quick else SIZES:
                for tau in LEVELS:
                    cell = Cell(errors, n, tau)
                    count = fits if errors == "normal" else max(10, fits // 2)
                    found = measured(pool, cell, count, peer, options.processes)
                    lines.append(row(cell, found))
                    print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick:
        keep(RESULTS / "quantile.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
