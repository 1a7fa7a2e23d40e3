"""Poisson regression with clipped residuals: widths over PPML, coverage, and where to clip

Two covariates evenly spread in the unit disc, one slope 0.5 and one zero; counts are Poisson or
negative binomial with variance ``m + m^2/2``.  ``cap`` is largest_mean in largest means of the
design; mu = 1; 95% intervals of intercept and slopes.  PPML is the exact maximum of the quasi
likelihood, with HC0 errors.  *Bias*: of the exact clipped fit against PPML, in its errors.
Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.study import Block, holds, study

SLOPES = np.array([0.5, 0.0])
NORMAL, ALPHA = 1.959963984540054, 0.5
UNCLIPPED = dpfast.Poisson(largest_mean=1e6, largest_residual=1e8)
KINDS, MEANS, CLIPS = (
    {"Poisson": False, "negative binomial": True},
    (0.5, 2.0, 10.0),
    (2, 3, 4, 5, 6, 8),
)


class Design(NamedTuple):
    """Counts of one kind: their mean at zero, the cap as a multiple of the largest mean."""

    n: int
    mean: float
    dispersed: bool
    cap: float = 2.0

    @property
    def largest_mean(self) -> float:
        return self.cap * self.mean * math.exp(float(np.linalg.norm(SLOPES)))

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, self.n])
        angle, radius = 2.0 * np.pi * rng.random(self.n), np.sqrt(rng.random(self.n))
        X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        means = self.mean * np.exp(X @ SLOPES)
        if self.dispersed:
            means = means * rng.gamma(1.0 / ALPHA, ALPHA, self.n)
        return X, rng.poisson(means).astype(float)


def found(design: Design, runs: int, clip: float | None = None) -> dict[str, Any]:
    """Fit simulated data sets; ``clip`` in standard deviations sqrt(M), default as shipped."""
    residual = None if clip is None else clip * math.sqrt(design.largest_mean)
    loss = dpfast.Poisson(design.largest_mean, residual)
    truth, far = np.array([math.log(design.mean), *SLOPES]), dpfast.Mallows(1e3)
    rows, warned = [], 0
    for seed in range(runs):
        X, y = design.draw(seed)
        disc = dpfast.Objective(loss, weights=dpfast.Bounded(math.sqrt(2.0)))
        fit = dpfast.fit(X, y, disc, privacy=1.0, noise=dpfast.SeededNoise(seed))
        exact, clipped = (
            dpfast.nonprivate_fit(X, y, dpfast.Objective(kind, weights=far))
            for kind in (UNCLIPPED, loss)
        )
        interval = np.asarray(fit.conf_int(0.95))
        rows.append([
            np.ptp(interval, axis=1), 2.0 * NORMAL * exact.bse, holds(interval, truth),
            np.abs(exact.params - truth) <= NORMAL * exact.bse,
            (clipped.params - exact.params) / exact.bse,
            np.square(fit.params - truth), np.square(exact.params - truth),
        ])  # fmt: skip
        warned += bool(fit.warnings)
    width, plain, covered, plain_covered, bias, error, plain_error = np.mean(rows, axis=0)
    return {
        "width over PPML": width / plain, "coverage": covered, "PPML's": plain_covered,
        "bias of clipping": bias,
        "error over PPML's": math.sqrt(error[1:].mean() / plain_error[1:].mean()),
        "warned": warned / runs,
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    small, large = asked.runs, max(3, asked.runs // 4)
    designs = [(n, kind, mean, 2.0) for n in (5_000, 50_000) for kind in KINDS for mean in MEANS]
    for n, kind, mean, cap in [*designs, *((n, "Poisson", 2.0, 1.2) for n in (5_000, 50_000))]:
        runs = small if n == 5_000 else large
        cells = found(Design(n, mean, KINDS[kind], cap), runs)
        yield {"counts": kind, "mean": mean, "cap": cap, "n": n, "fits": runs} | cells
    yield "Where residuals are clipped, in sqrt(M) (n = 5,000)."
    for kind, mean, clip in product(KINDS, MEANS, CLIPS):
        cells = found(Design(5_000, mean, KINDS[kind]), max(3, small // 5), clip)
        yield {"counts": kind, "mean": mean, "clipped at": clip} | cells


main = study("counts", measured, __doc__, runs=200, quick=3)
