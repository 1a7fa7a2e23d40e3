"""What a public table wins: errors, widths and coverage of fits with it, and without

Of each table random halves are private and public.  Then the private rows have the smaller half
of the first covariate, and the public ones the larger half: such a table does not match, and the
last column says how often that is noticed.  Errors are those of coefficients beside the exact ones
in the private rows, root mean square in their standard errors, the median over runs; intervals
should cover the coefficients of all rows that are private or could be.  Pairs are a fit without,
and with the public table; mu = 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.study import Block, study
from dpfast.errors import InvalidBudget, InvalidInput, NotConverged

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


def compared(X: Any, y: Any, loss: str, base: Any, others: Any, n: int, runs: int) -> Any:
    """Fits without and with a public table, run by run."""
    truth = dpfast.nonprivate_fit(X[base], y[base], loss).params
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        private = rng.permutation(base)[:n]
        public = rng.permutation(np.setdiff1d(others, private))[: max(1000, min(n, 20_000))]
        try:
            exact = dpfast.nonprivate_fit(X[private], y[private], loss)
            like = dpfast.regression.like(X[public], y[public])
            yield [
                one_fit(X[private], y[private], loss, table, seed, exact, truth)
                for table in (None, like)
            ]
        except (NotConverged, InvalidInput):
            continue


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for loss, group in (("least-squares", "linear"), ("logistic", "logistic")):
        for table in available([t for t in tables(group) if t.name in NAMES], asked.only):
            X, y = read(table)
            p, low = X.shape[1] + 1, X[:, 0] <= np.median(X[:, 0])
            everyone, halves = np.arange(len(y)), (np.flatnonzero(low), np.flatnonzero(~low))
            for strength in STRENGTHS[: 2 if asked.quick else None]:
                n = int(strength * p**1.5)
                for rows, base, others in (("half", everyone, everyone), ("other", *halves)):
                    small = n <= len(y) // 3 and n <= len(base) // 2
                    if not small or not X[base].std(axis=0).all():
                        continue
                    seen = np.array([*compared(X, y, loss, base, others, n, asked.runs)])
                    if not len(seen):
                        continue
                    without, with_it = np.nanmedian(seen, axis=0)
                    pairs = [f"{a:.2f} / {b:.2f}" for a, b in zip(without, with_it, strict=True)]
                    held = " / ".join(f"{share:.2f}" for share in np.nanmean(seen[:, :, 1], axis=0))
                    yield {
                        "table": table.name, "public rows": rows, "n": n, "n mu / p^1.5": strength,
                        "error": pairs[0], "width": pairs[2], "mu^2 in steps": pairs[3],
                        "coverage": held, "noticed": seen[:, 1, 4].mean(),
                    }  # fmt: skip


main = study("like", measured, __doc__, runs=20)
