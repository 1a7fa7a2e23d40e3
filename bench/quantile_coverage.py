"""Do intervals of private quantile regression cover the quantile itself?  Over a grid of designs

mu = 1; half as many data sets at n = 20,000; intercept and slopes.  ``bandwidth`` is that of the
score, in scales; with two bandwidths (claim C73) the curvature's is three times as wide.
Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import dpfast
from bench.study import Block, holds, study

SIZES, LEVELS = (500, 1000, 5000, 20_000), (0.1, 0.25, 0.5, 0.75, 0.9)
BALL, NORMAL = {"scale": 1.0, "weights": dpfast.Bounded(2.0**0.5)}, stats.norm()


class Design(NamedTuple):
    """Covariates, errors, how much these widen with the first covariate, and what is declared."""

    covariates: int
    errors: Any
    fan: float
    terms: dict[str, Any]


DESIGNS = {
    "one covariate in the unit ball": Design(1, NORMAL, 0.0, BALL),
    "the same, spread growing from .5 to 1.5": Design(1, NORMAL, 0.5, BALL),
    "two, default weights": Design(2, NORMAL, 0.0, {"scale": 1.0}),
    "two, default weights, t(3) errors": Design(2, stats.t(3, scale=1 / 1.1), 0.0, {"scale": 1.0}),
    "two, default weights, chi2(3) errors": Design(
        2, stats.chi2(3, loc=-1.0, scale=1 / 2.2), 0.0, {"scale": 1.0}
    ),
    "two, nothing declared": Design(2, NORMAL, 0.0, {}),
}


def covered(design: Design, n: int, tau: float, fits: int) -> tuple[dict[str, Any], float]:
    """A row of the table without the design's name, and its smallest coverage of nominal 90%."""
    slopes = np.array([2.0] if design.covariates == 1 else [0.5, -0.3])
    quantile = float(design.errors.ppf(tau))
    truth = np.array([1.0 + quantile, *slopes])
    truth[1] += design.fan * quantile
    found, warned, model = [], 0, ""
    for seed in range(fits):
        rng = np.random.default_rng([seed, n, 7])
        one = design.covariates == 1
        X = rng.uniform(-1.0, 1.0, (n, 1)) if one else rng.normal(size=(n, 2))
        errors = design.errors.rvs(n, random_state=rng)
        y = 1.0 + X @ slopes + (1.0 + design.fan * X[:, 0]) * errors
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1), None,
            dpfast.Objective(dpfast.Quantile(tau), **design.terms), privacy=1.0,
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        ends = [np.asarray(fit.conf_int(level)) for level in (0.9, 0.95)]
        found.append([*(holds(one, truth) for one in ends), np.ptp(ends[0], axis=1)])
        warned, model = warned + bool(fit.warnings), fit.model
    values = np.array(found)
    at_90, at_95 = values[:, :2].mean(axis=0)
    bandwidth = model.split("bandwidth ")[1].replace(" scales =", " scales,").split(",")[0]
    row = {
        "n": n, "tau": tau, "bandwidth": bandwidth.split()[0],
        "bandwidths": "two" if "curvature with" in model else "one", "covers at 90%": at_90,
        "at 95%": at_95, "width (90%)": np.median(values[:, 2], axis=0), "warned": warned / fits,
    }  # fmt: skip
    return row, float(at_90.min())


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    smallest = []
    for name, n, tau in product(DESIGNS, SIZES[: 1 if asked.quick else None], LEVELS):
        if asked.only in name:
            fits = asked.runs if n < 20_000 else -(-asked.runs // 2)
            row, least = covered(DESIGNS[name], n, tau, fits)
            smallest.append(least)
            yield {"design": name} | row
    yield (
        f"Coverage of some coefficient is below .85 at 90% in {sum(v < 0.85 for v in smallest)} of "
        f"{len(smallest)} rows; the smallest is {min(smallest):.3f}.  A coverage of .9 has a Monte "
        f"Carlo error of {(0.09 / asked.runs) ** 0.5:.3f}."
    )


main = study("quantile-coverage", measured, __doc__, runs=400, quick=3)
