"""Intervals of a mean and of a slope: the default beside private rivals, which are told more

*DP bootstrap* (Wang, Cheng and Awan 2022): 200 bootstrap samples, each with a noisy mean of values
clipped to a given range, at ``mu/sqrt(200 (2 - 2/e))`` each.  The paper proves this price in the
limit only.  The variance of the noise is subtracted from that of the means.  *Parametric
bootstrap* (Ferrando, Wang and Sheldon 2022): noisy second moments of rows that are clipped at a
given length, and 200 simulations of the fitted model with the clipping and the noise.  *Debiased*
subtracts the mean error of the simulated slopes (compare Wang and Awan 2025).
*Exponential family* (Asiaee and Pal 2026): maximum likelihood in a normal model from noisy
sufficient statistics, those moments for the slope.  Its Wald interval adds the variance that this
noise causes to that of sampling.  The formula is ours: their abstract names the method.  The
default is told nothing.

Covariates are normal; errors are normal, or lognormal minus their mean.  *Covers* is the
share of 95% intervals that hold the truth; *width* is relative to the interval without privacy.
Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

import dpfast
from bench.study import Block, study
from dpfast.arguments import Array

Interval = tuple[float, float]

Z, SAMPLES = 1.959964, 200
SIZES, BUDGETS = (1_000, 10_000), (0.3, 1.0)
TRUTH = np.array([1.0, 0.5, -0.3, 0.2])
#: What the rivals are given: a range for the mean, and a length of (1, x, y).
RANGE, LENGTH = (-7.0, 9.0), 6.0


def sample(errors: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw covariates and responses; the mean of the responses is 1."""
    X = rng.normal(size=(n, 3))
    noise = rng.normal(size=n)
    if errors == "lognormal":
        noise = np.exp(noise) - math.exp(0.5)
    return X, TRUTH[0] + X @ TRUTH[1:] + noise


def dp_bootstrap(y: Array, mu: float, rng: np.random.Generator) -> Interval:
    """Interval of a mean by the DP bootstrap, in its normal form."""
    n, (low, high) = len(y), RANGE
    scale = (high - low) / n * math.sqrt(SAMPLES * (2.0 - 2.0 / math.e)) / mu
    clipped = np.clip(y, low, high)
    means = [clipped[rng.integers(0, n, n)].mean() for _ in range(SAMPLES)]
    noisy = np.array(means) + scale * rng.normal(size=SAMPLES)
    # the sampling variance, and the variance of the mean of all noises and samples
    sampling = max(float(noisy.var(ddof=1)) - scale**2, 0.0)
    error = math.sqrt(sampling + (sampling + scale**2) / SAMPLES)
    return float(noisy.mean()) - Z * error, float(noisy.mean()) + Z * error


def noisy_moments(X: Array, y: Array, mu: float, rng: np.random.Generator) -> Array:
    """Release second moments of (1, x, y), rows clipped at a given length.

    Their sensitivity in Frobenius norm is ``sqrt(2) LENGTH^2/n`` under replacement.
    """
    rows = np.column_stack([np.ones(len(y)), X, y])
    rows *= np.minimum(1.0, LENGTH / np.linalg.norm(rows, axis=1))[:, None]
    scale = math.sqrt(2.0) * LENGTH**2 / (len(y) * mu)
    noise = scale * rng.normal(size=(rows.shape[1],) * 2)
    return rows.T @ rows / len(y) + 0.5 * (noise + noise.T)


def slopes(moments: Array) -> Array:
    """Solve for the coefficients, with eigenvalues of at least .05."""
    values, vectors = np.linalg.eigh(moments[:-1, :-1])
    inverse = (vectors / np.maximum(values, 0.05)) @ vectors.T
    return np.asarray(inverse @ moments[:-1, -1])


def parametric_bootstrap(
    X: Array, y: Array, mu: float, rng: np.random.Generator, debiased: bool
) -> Interval:
    """Interval of the first slope by a parametric bootstrap of noisy second moments."""
    n, moments = len(y), noisy_moments(X, y, mu, rng)
    found = slopes(moments)
    variance = max(float(moments[-1, -1] - moments[:-1, -1] @ found), 0.05)
    centre, second = moments[0, 1:-1], moments[1:-1, 1:-1]
    values, vectors = np.linalg.eigh(second - np.outer(centre, centre))
    root = vectors * np.sqrt(np.maximum(values, 0.05))
    simulated = np.empty(SAMPLES)
    for k in range(SAMPLES):
        Z_k = centre + rng.normal(size=(n, len(centre))) @ root.T
        v = found[0] + Z_k @ found[1:] + math.sqrt(variance) * rng.normal(size=n)
        simulated[k] = slopes(noisy_moments(Z_k, v, mu, rng))[1]
    low, high = np.quantile(simulated - found[1], [0.025, 0.975])
    shift = float(np.mean(simulated - found[1])) if debiased else 0.0
    half = 0.5 * float(high - low)
    return float(found[1]) - shift - half, float(found[1]) - shift + half


def normal_mean(y: Array, mu: float, rng: np.random.Generator) -> Interval:
    """Wald interval of a normal mean, from noisy means of clipped values and of their squares.

    For z in [-1, 1] two pairs (z, z^2) are at most 2 apart: ``d^2 (1 + s^2)`` is at most 4, with
    sum s and difference d, ``|s| + |d| <= 2``.
    """
    n, (low, high) = len(y), RANGE
    centre, half, scale = 0.5 * (low + high), 0.5 * (high - low), 2.0 / (len(y) * mu)
    z = (np.clip(y, low, high) - centre) / half
    first, second = np.array([z.mean(), (z**2).mean()]) + scale * rng.normal(size=2)
    variance = max(float(second - first**2), 0.05 / half**2)
    found, error = centre + half * float(first), half * math.sqrt(variance / n + scale**2)
    return found - Z * error, found + Z * error


def normal_slope(X: Array, y: Array, mu: float, rng: np.random.Generator) -> Interval:
    """Wald interval of the first slope of a normal model, from noisy second moments.

    To first order the noise E of the moments moves the estimate b by ``a'E(-b, 1)``, with the row
    ``a`` of the inverse.  Its variance is added to that of maximum likelihood.
    """
    moments = noisy_moments(X, y, mu, rng)
    found = slopes(moments)
    values, vectors = np.linalg.eigh(moments[:-1, :-1])
    inverse = (vectors / np.maximum(values, 0.05)) @ vectors.T
    variance = max(float(moments[-1, -1] - moments[:-1, -1] @ found), 0.05)
    scale = math.sqrt(2.0) * LENGTH**2 / (len(y) * mu)
    left, right = np.append(inverse[1], 0.0), np.append(-found, 1.0)
    # E has variance scale^2 on its diagonal and half of that beside it
    both = float(left @ left * (right @ right) + (left @ right) ** 2)
    error = math.sqrt(float(inverse[1, 1]) * variance / len(y) + 0.5 * scale**2 * both)
    return float(found[1]) - Z * error, float(found[1]) + Z * error


def default(X: Array | None, y: Array, mu: float, seed: int) -> Interval:
    """Interval of the mean (no covariates) or of the first slope, by the default fit."""
    covariates = np.empty((len(y), 0)) if X is None else X
    fit = dpfast.fit(covariates, y, privacy=mu, noise=dpfast.SeededNoise(seed))
    low, high = np.asarray(fit.conf_int())[0 if X is None else 1]
    return float(low), float(high)


def methods(
    X: Array, y: Array, mu: float, seed: int
) -> dict[tuple[str, str], Callable[[], Interval]]:
    """Name estimand and method of each interval."""
    rng, rng_2 = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    return {
        ("mean", "DP bootstrap, told"): lambda: dp_bootstrap(y, mu, rng),
        ("mean", "exponential family, told"): lambda: normal_mean(y, mu, rng_2),
        ("mean", "dpfast, told nothing"): lambda: default(None, y, mu, seed),
        ("slope", "parametric bootstrap, told"): lambda: parametric_bootstrap(X, y, mu, rng, False),
        ("slope", "debiased, told"): lambda: parametric_bootstrap(X, y, mu, rng, True),
        ("slope", "exponential family, told"): lambda: normal_slope(X, y, mu, rng_2),
        ("slope", "dpfast, told nothing"): lambda: default(X, y, mu, seed),
    }


def cell(errors: str, n: int, mu: float, runs: int) -> Iterator[Block]:
    """Measure all methods in one cell."""
    found: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for seed in range(runs):
        X, y = sample(errors, n, np.random.default_rng([seed, n]))
        plain = dpfast.nonprivate_fit(X, y, "least-squares").bse[1]
        widths = {"mean": 2.0 * Z * float(y.std()) / math.sqrt(n), "slope": 2.0 * Z * float(plain)}
        for (what, name), interval in methods(X, y, mu, seed).items():
            low, high = interval()
            truth = 1.0 if what == "mean" else TRUTH[1]
            held = bool(low <= truth <= high)
            found.setdefault((what, name), []).append((held, (high - low) / widths[what]))
    for (what, name), pairs in found.items():
        covers, width = np.mean([c for c, _ in pairs]), np.median([w for _, w in pairs])
        head = {"errors": errors, "n": n, "mu": mu, "of": what, "method": name}
        yield head | {"covers": f"{covers:.0%}", "width": f"{width:.2f}"}


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    sizes = SIZES[:1] if asked.quick else SIZES
    for errors, n, mu in product(("normal", "lognormal"), sizes, BUDGETS):
        yield from cell(errors, n, mu, asked.runs)


main = study("rivals_inference", measured, __doc__, runs=40)
