"""What a public table wins: errors, widths and coverage of fits with it, and without.

    python -m bench.like [--data FOLDER] [--runs 20] [--store]

Of each table random halves are private and public.  Then the private rows have the smaller half
of the first covariate, and the public ones the larger half: such a table does not match, and the
last column says how often that is noticed.  Errors are those of coefficients beside the exact ones
in the private rows, root mean square in their standard errors, the median over runs; intervals
should cover the coefficients of all rows that are private or could be.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import dpfast
from bench.figures.runner import data_folder
from bench.rivals.tables import LOGISTIC_TABLES, TABLES, read
from bench.stored import keep
from dpfast.errors import InvalidBudget

RESULT = Path(__file__).parent / "results" / "like.md"
NAMES = (
    "CPS 2024, log wage", "King County, log price", "California, value", "BRFSS, BMI",
    "adult, income", "HealthInsurance", "CPS 1988, log wage",
)  # fmt: skip

#: Values of n mu, in p^1.5.
STRENGTHS = (10, 20, 40, 200, 1000)


def one_fit(X: Any, y: Any, loss: str, like: Any, seed: int, exact: Any, truth: Any) -> list[float]:
    """Fit with mu = 1; return error, coverage, width, share of mu^2 in steps, and the warning."""
    try:
        fit = dpfast.fit(X, y, loss, privacy=1.0, standardize=like, noise=dpfast.SeededNoise(seed))
    except InvalidBudget:
        return [np.nan] * 5
    noticed = float(any("regression.like" in warning for warning in fit.warnings))
    if np.isnan(fit.params).any():
        return [np.nan] * 4 + [noticed]
    steps = sum(mu**2 for query, mu in fit.privacy.entries if query == "gradient + meat")
    error = np.sqrt(np.mean(np.square((fit.params - exact.params) / exact.bse)))
    held = np.mean(np.abs(fit.params - truth) <= 1.96 * fit.bse)
    return [error, held, np.median(fit.bse / exact.bse), steps, noticed]


def rows_of(name: str, X: Any, y: Any, loss: str, runs: int) -> list[str]:
    """Compare the fits of one table."""
    p, found = X.shape[1] + 1, []
    low = X[:, 0] <= np.median(X[:, 0])
    for strength in STRENGTHS:
        n = int(strength * p**1.5)
        if n > len(y) // 3:
            continue
        for matches in (True, False):
            base = np.arange(len(y)) if matches else np.flatnonzero(low)
            others = np.arange(len(y)) if matches else np.flatnonzero(~low)
            if n > len(base) // 2 or not X[base].std(axis=0).all():
                continue
            truth = dpfast.nonprivate_fit(X[base], y[base], loss).params
            seen: tuple[list[list[float]], ...] = [], []
            for seed in range(runs):
                rng = np.random.default_rng(seed)
                private = rng.permutation(base)[:n]
                public = rng.permutation(np.setdiff1d(others, private))[: max(1000, min(n, 20_000))]
                try:
                    exact = dpfast.nonprivate_fit(X[private], y[private], loss)
                    like = dpfast.regression.like(X[public], y[public])
                    for values, table in zip(seen, (None, like), strict=True):
                        values += [one_fit(X[private], y[private], loss, table, seed, exact, truth)]
                except (dpfast.errors.NotConverged, dpfast.errors.InvalidInput):
                    continue
            if not seen[0]:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                default, with_like = (np.nanmedian(values, axis=0) for values in seen)
                covered = [np.nanmean(np.array(values)[:, 1]) for values in seen]
            noticed = np.mean(np.array(seen[1])[:, 4])
            pairs = zip(default[[0, 2, 3]], with_like[[0, 2, 3]], strict=True)
            cells = [
                name, "half" if matches else "other", f"{n:,}", f"{strength}",
                *(f"{a:.2f} / {b:.2f}" for a, b in pairs),
                f"{covered[0]:.2f} / {covered[1]:.2f}", f"{noticed:.2f}",
            ]  # fmt: skip
            found.append("| " + " | ".join(cells).replace("nan", "-") + " |")
            print(found[-1], flush=True)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    lines: list[str] = []
    for tables, loss in ((TABLES, "least-squares"), (LOGISTIC_TABLES, "logistic")):
        for table in tables:
            if table.name not in NAMES or options.only not in table.name:
                continue
            data = read(table, options.data)
            if data is None:
                print(f"{table.name} is not here", file=sys.stderr)
                continue
            lines += rows_of(table.name, *data, loss, options.runs)
    columns = (
        "table", "public rows", "n", "n mu / p^1.5", "error", "width", "mu^2 in steps", "coverage",
        "noticed",
    )  # fmt: skip
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    words = "# What a public table wins\n\n" + (__doc__ or "").split("\n\n", 2)[2]
    pairs = f"Pairs are a fit without, and with the public table; mu = 1, {options.runs} runs each."
    if options.store:
        keep(RESULT, f"{words}\n{pairs}\n\n{head}" + "\n".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
