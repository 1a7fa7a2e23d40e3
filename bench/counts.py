"""Poisson regression with clipped residuals: widths over PPML, coverage, and where to clip.

    python -m bench.counts [--runs 200] [--quick]

Prints two tables and stores them as ``bench/results/counts.md``.  Two covariates evenly spread in
the unit disc, one slope 0.5 and one zero; counts are Poisson or negative binomial with variance
``m + m^2/2``.  ``largest_mean`` is twice (or 1.2 times) the largest mean of the design; mu = 1; 95%
intervals.  PPML is the exact maximum of the quasi likelihood, with HC0 errors.  Noise is
seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dpfast
from bench.stored import keep

RESULTS = Path(__file__).parent / "results"
SLOPES = np.array([0.5, 0.0])
NORMAL = 1.959963984540054
ALPHA = 0.5  # of the negative binomial
UNCLIPPED = dpfast.Poisson(largest_mean=1e6, largest_residual=1e8)


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


class Found(NamedTuple):
    """Widths over PPML's and coverage of the truth, intercept and slopes; errors; warnings."""

    ratio: np.ndarray
    covered: np.ndarray
    plain_covered: np.ndarray
    bias: np.ndarray  # of the exact clipped fit against PPML, in PPML's standard errors
    error: float  # root mean square of the slopes' errors over PPML's
    warned: float


def study(design: Design, runs: int, clip: float | None = None) -> Found:
    """Fits of simulated data sets; ``clip`` in standard deviations sqrt(M), default as shipped."""
    residual = None if clip is None else clip * math.sqrt(design.largest_mean)
    loss = dpfast.Poisson(design.largest_mean, residual)
    weights = dpfast.Bounded(math.sqrt(2.0))  # rows are in the unit disc
    truth = np.array([math.log(design.mean), *SLOPES])
    widths, plain, covered, plain_covered, bias, errors, plain_errors = ([] for _ in range(7))
    warned = 0
    for seed in range(runs):
        X, y = design.draw(seed)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(X, y, dpfast.Objective(loss, weights=weights), privacy=1.0, noise=noise)
        exact = dpfast.nonprivate_fit(
            X, y, dpfast.Objective(UNCLIPPED, weights=dpfast.Mallows(1e3))
        )
        low, high = np.asarray(fit.conf_int(0.95)).T
        widths.append(high - low)
        plain.append(2.0 * NORMAL * exact.bse)
        covered.append((low <= truth) & (truth <= high))
        plain_covered.append(np.abs(exact.params - truth) <= NORMAL * exact.bse)
        clipped = dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=dpfast.Mallows(1e3)))
        bias.append((clipped.params - exact.params) / exact.bse)
        errors.append((fit.params - truth)[1:])
        plain_errors.append((exact.params - truth)[1:])
        warned += bool(fit.warnings)
    return Found(
        np.mean(widths, axis=0) / np.mean(plain, axis=0),
        np.mean(covered, axis=0),
        np.mean(plain_covered, axis=0),
        np.mean(bias, axis=0),
        math.sqrt(np.square(errors).mean() / np.square(plain_errors).mean()),
        warned / runs,
    )


def text(values: np.ndarray, digits: int = 3) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values)


def markdown(rows: list[dict[str, object]]) -> str:
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def widths(runs: int, few: int) -> list[dict[str, object]]:
    designs = [
        Design(n, mean, dispersed)
        for n in (5_000, 50_000)
        for dispersed in (False, True)
        for mean in (0.5, 2.0, 10.0)
    ]
    designs += [Design(n, 2.0, False, cap=1.2) for n in (5_000, 50_000)]
    rows = []
    for design in designs:
        number = runs if design.n == 5_000 else few
        found = study(design, number)
        rows.append({
            "counts": "negative binomial" if design.dispersed else "Poisson",
            "mean": design.mean,
            "cap": f"{design.cap:g}",
            "n": design.n,
            "fits": number,
            "width over PPML": text(found.ratio),
            "coverage": text(found.covered),
            "PPML's": text(found.plain_covered),
            "error over PPML's": f"{found.error:.3f}",
            "warned": f"{found.warned:.3f}",
        })  # fmt: skip
    return rows


def clips(runs: int) -> list[dict[str, object]]:
    rows = []
    for dispersed in (False, True):
        for mean in (0.5, 2.0, 10.0):
            for clip in (2.0, 3.0, 4.0, 5.0, 6.0, 8.0):
                found = study(Design(5_000, mean, dispersed), runs, clip)
                rows.append({
                    "counts": "negative binomial" if dispersed else "Poisson",
                    "mean": mean,
                    "clipped at": f"{clip:g} sqrt(M)",
                    "width over PPML": text(found.ratio),
                    "bias of clipping, in PPML's errors": text(found.bias, 2),
                    "error over PPML's": f"{found.error:.3f}",
                })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="data sets at n = 5,000")
    parser.add_argument("--quick", action="store_true", help="a few runs; nothing is stored")
    arguments = parser.parse_args()
    runs = 10 if arguments.quick else arguments.runs
    first = widths(runs, max(5, runs // 4))
    second = clips(max(5, runs // 5))
    report = "\n".join([
        "# Poisson regression with clipped residuals",
        "",
        f"`python -m bench.counts --runs {runs}`; n records, mu = 1, 95% intervals, intercept "
        "first, then slopes.  PPML: the exact maximum of the quasi likelihood with HC0 errors.  "
        "`cap`: largest_mean in largest means of the design; weights are Bounded(sqrt(2)), of "
        "the covariates' declared unit disc.  Coverage is of the truth.",
        "",
        markdown(first),
        "",
        "Where residuals are clipped (n = 5,000): widths against the bias of clipping, that "
        "of the exact clipped fit against PPML.",
        "",
        markdown(second),
        "",
    ])  # fmt: skip
    print(report)
    if not arguments.quick:
        keep(RESULTS / "counts.md", report)


if __name__ == "__main__":
    main()
