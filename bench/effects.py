"""Treatment effects: do intervals cover known effects, and what is told of studies others know?

Doubly robust, nothing declared.  Intervals are nominal 95%; *width* and *distance* are relative to
standard errors of the same estimator without privacy on the same data; *errors* is the standard
deviation of errors in standard errors, 1 where these are right.  Studies are shown without a claim
of coverage: LaLonde's programme with the controls of its experiment and with those of a survey,
who are unlike the treated, Thornton's incentives, and quitting smoking in NHEFS.
Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.public_tables import available, read, tables
from bench.study import Block, pooled, study
from dpfast.arguments import Array
from dpfast.effects import treatment_effect
from dpfast.errors import InvalidBudget
from dpfast.privacy import SeededNoise

#: Shares of the treated are held to this distance from 0 and 1.
OVERLAP = 0.05

#: Sizes and budgets of the grid; of the cell that the bars are of there are ten times the runs.
SIZES, BUDGETS = (1000, 2000, 5000), (0.25, 0.5, 1.0, 2.0)
STATED = ("propensity on one covariate", 5000, 1.0)

#: Budgets for the studies, which are small, and fits of each.
STUDY_BUDGETS, STUDY_FITS = (1.0, 3.0, 10.0), 40


class Study(NamedTuple):
    """Covariates, who was treated, outcomes; the mean effect, and of a trial the propensity."""

    X: Array
    treated: Array
    y: Array
    effect: float = float("nan")
    propensity: float | None = None


def doubly_robust(
    X: Array, treated: Array, y: Array, folds: NDArray[np.intp] | None = None
) -> tuple[float, float]:
    """The same estimator without privacy: estimate and standard error."""
    n = len(y)
    Z = np.column_stack([np.ones(n), (X - X.mean(axis=0)) / X.std(axis=0)])
    folds = np.arange(n) % 2 if folds is None else folds
    pseudo = np.empty(n)
    for fold in (0, 1):
        near, far = folds != fold, folds == fold
        beta = np.zeros(Z.shape[1])
        for _ in range(25):
            p = 1.0 / (1.0 + np.exp(-Z[near] @ beta))
            curvature = (Z[near] * (p * (1.0 - p))[:, None]).T @ Z[near]
            beta += np.linalg.lstsq(curvature, Z[near].T @ (treated[near] - p), rcond=None)[0]
        e = np.clip(1.0 / (1.0 + np.exp(-Z[far] @ beta)), OVERLAP, 1.0 - OVERLAP)
        arms = [near & (treated == arm) for arm in (0, 1)]
        m0, m1 = (Z[far] @ np.linalg.lstsq(Z[arm], y[arm], rcond=None)[0] for arm in arms)
        own, t = y[far], treated[far]
        pseudo[far] = m1 - m0 + t * (own - m1) / e - (1.0 - t) * (own - m0) / (1.0 - e)
    return float(pseudo.mean()), float(pseudo.std() / n**0.5)


def _study(
    rng: np.random.Generator, n: int, k: int = 2, start: float = 0.0, slope: float = 0.5,
    varies: float = 0.0, freedom: float = 0.0,
) -> Study:  # fmt: skip
    X = rng.normal(size=(n, k))
    treated = (rng.random(n) < 1.0 / (1.0 + np.exp(-(start + slope * X[:, 0])))).astype(float)
    errors = rng.standard_t(freedom, n) if freedom else rng.normal(size=n)
    y = X[:, 0] - 0.5 * X[:, 1] + (1.0 + varies * X[:, 0]) * treated + errors
    return Study(X, treated, y, 1.0)


def _binary(rng: np.random.Generator, n: int) -> Study:
    """Effect .2 on a probability; a share of .06 cannot rise by so much."""
    X = rng.normal(size=(n, 2))
    treated = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 * X[:, 0]))).astype(float)
    chance = np.clip(0.4 + 0.1 * X[:, 0], 0.05, 0.75) + 0.2 * treated
    return Study(X, treated, (rng.random(n) < chance).astype(float), 0.2)


def _trial(rng: np.random.Generator, n: int) -> Study:
    """Half are treated, as is known; covariates explain half of the outcome."""
    return _study(rng, n, slope=0.0)._replace(propensity=0.5)


DESIGNS: dict[str, Callable[[np.random.Generator, int], Study]] = {
    STATED[0]: _study,
    "three in ten treated, effects vary": partial(_study, start=-0.85, slope=0.3, varies=0.5),
    "one in ten treated": partial(_study, start=-2.2, slope=0.3),
    "ten covariates": partial(_study, k=10),
    "t(3) errors": partial(_study, freedom=3.0),
    "an outcome of 0 and 1": _binary,
    "weak overlap": partial(_study, slope=2.0),
    "a trial, propensity known": _trial,
}


def simulated(name: str, n: int, mu: float, runs: int) -> dict[str, Any] | str:
    """Measure one design."""
    found = []
    for seed in range(runs):
        one = DESIGNS[name](np.random.default_rng([seed, n, 5]), n)
        noise, known = SeededNoise(seed), one.propensity
        try:
            fit = treatment_effect(*one[:3], privacy=mu, propensity=known, noise=noise)
        except InvalidBudget:
            return f"{name}, n = {n:,}, mu = {mu:g}: refused, too few records for units."
        low, high = fit.conf_int()
        plain = 2.0 * 1.96 * doubly_robust(*one[:3])[1]
        error = (fit.estimate - one.effect) / fit.bse
        found.append((low <= one.effect <= high, not fit.warnings, (high - low) / plain, error))
    hits, quiet, widths, errors = np.array(found, dtype=float).T
    silent = hits[quiet == 1.0]
    return {
        "design": name, "n": n, "mu": mu, "runs": runs, "covers": f"{hits.mean():.3f}",
        "unwarned": f"{silent.mean():.3f} of {len(silent)}" if len(silent) else "none",
        "width": np.median(widths), "errors": np.std(errors),
    }  # fmt: skip


def studies(only: str) -> Iterator[tuple[str, Array, Array]]:
    """The studies that are here; LaLonde's treated also beside the survey's controls."""
    (survey,) = tables("treatments, survey")
    for k, table in enumerate(available(tables("treatments"), only)):
        X, y = read(table)
        yield table.name, X, y
        if k == 0 and "LaLonde" in table.name:
            X0, y0 = read(survey)
            treated = X[:, 0] == 1.0
            yield survey.name, np.vstack([X[treated], X0]), np.append(y[treated], y0)


def shown(name: str, X: Array, y: Array, fits: int) -> Iterator[Block]:
    """Measure one study, whose treatment is its first covariate."""
    exact, error = doubly_robust(X[:, 1:], X[:, 0], y)
    for mu in STUDY_BUDGETS:
        try:
            found = [
                treatment_effect(X[:, 1:], X[:, 0], y, privacy=mu, noise=SeededNoise(seed))
                for seed in range(fits)
            ]
        except InvalidBudget:
            yield f"{name}, mu = {mu:g}: refused, too few records for units."
            continue
        yield {
            "study": name, "n": len(y), "without privacy": f"{exact:.4g} ({error:.2g})", "mu": mu,
            "one private fit": f"{found[0].estimate:.4g} ({found[0].bse:.2g})",
            "distance": np.median([abs(fit.estimate - exact) for fit in found]) / error,
            "its standard error": np.median([fit.bse for fit in found]) / error,
            "warned": np.mean([bool(fit.warnings) for fit in found]),
        }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    cells = [(name, n, mu) for name in DESIGNS for n in SIZES for mu in BUDGETS]
    cells = [cell for cell in cells if asked.only.lower() in cell[0].lower()]
    if asked.quick:
        cells = cells[2 :: len(SIZES) * len(BUDGETS)]
    runs = [asked.runs * (10 if cell == STATED else 1) for cell in cells]
    yield from pooled(simulated, [(*cell, k) for cell, k in zip(cells, runs, strict=True)])
    for one in studies(asked.only):
        yield from shown(*one, 1 if asked.quick else STUDY_FITS)


main = study("effects", measured, __doc__, runs=100, quick=2)
