"""Coverage and width of private intervals beside non-private ones on the same simulated data

Designs: paper 1, sections 3.2.1 (linear, sigma known or estimated jointly) and 3.2.2 (logistic).
Intercept first, then slopes, then the scale where it is estimated.  Widths and the mean l2 error
are relative to the same estimator without privacy; *lost* is the number of fits that ended further
from the truth than they started.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import dpfast
from bench.stored import RESULTS
from bench.study import Block, holds, pooled, study

ONES, FAR, ROOT = (1.0, 1.0, 1.0, 1.0), (10.0, -11.0, 9.0, -11.0), 2**0.5

#: name -> (loss, scale, true coefficients, standard deviation of covariates, radius or None)
DESIGNS: dict[str, tuple[str, Any, tuple[float, ...], float, float | None]] = {
    "linear, R=sqrt(2)": ("log-cosh", 2.0, ONES, 2.0, ROOT),
    "linear, default R": ("log-cosh", 2.0, ONES, 2.0, None),
    "linear, Huber, R=sqrt(2)": ("huber", 2.0, ONES, 2.0, ROOT),
    "linear, far start": ("log-cosh", 2.0, FAR, 2.0, ROOT),
    "joint scale, default R": ("log-cosh", 2.0, ONES, 2.0, None),
    "joint scale, R=sqrt(2)": ("log-cosh", 2.0, ONES, 2.0, ROOT),
    "joint scale, Huber": ("huber", 2.0, ONES, 2.0, None),
    "joint scale, far start": ("log-cosh", 2.0, FAR, 2.0, None),
    "logistic, R=sqrt(2)": ("logistic", None, (1.5, 1.0, -1.0, 0.5), 1.0, ROOT),
    "logistic, default R": ("logistic", None, (1.5, 1.0, -1.0, 0.5), 1.0, None),
}
SIZES = (500, 1000, 2000, 5000)

#: What is public about the scale of the "joint scale" designs; the search starts at 2 or 0.5.
FREE, FREE_FAR = dpfast.FreeScale(0.1, 40.0), dpfast.FreeScale(0.005, 50.0)

#: Cells in which fits must not end further away than they began.
CELLS = list(product(DESIGNS, (500, 1000), (0.5, 1.0)))


def objective(design: str, default_radius: float | None = None) -> dpfast.Objective:
    """What a fit of a design is asked for."""
    loss, scale, _, _, radius = DESIGNS[design]
    if design.startswith("joint scale"):
        scale = FREE_FAR if design.endswith("far start") else FREE
    radius = radius or default_radius
    weights = None if radius is None else dpfast.Mallows(radius)
    return dpfast.Objective(loss, weights=weights, scale=scale)


def simulate(design: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw covariates without intercept, responses, and the true coefficients."""
    loss, scale, beta, spread, _ = DESIGNS[design]
    rng, truth = np.random.default_rng([seed, n]), np.array(beta)
    X = rng.normal(size=(n, 3)) * spread
    t = truth[0] + X @ truth[1:]
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(float), truth
    return X, t + scale * rng.normal(size=n), truth


def private(design: str, n: int, mu: float, seed: int, **options: Any) -> tuple[Any, np.ndarray]:
    """Fit one data set; the fit, and the true coefficients."""
    X, y, truth = simulate(design, n, seed)
    noise, rows = dpfast.SeededNoise(seed), dpfast.records(X, y, threads=1)
    return dpfast.fit(rows, None, objective(design), privacy=mu, noise=noise, **options), truth


def diverging(cell: tuple[str, int, float], fits: int) -> tuple[int, int, float, float]:
    """Fits that end further away than they began, those that neither cover nor warn.

    And the mean and the worst distance, relative to the start's.
    """
    ratios, silent = [], 0
    for seed in range(fits):
        fit, truth = private(*cell, seed)
        ratios.append(float(np.linalg.norm(fit.params[:4] - truth) / np.linalg.norm(truth)))
        covers = bool(np.all(holds(fit.conf_int()[:4], truth)))
        silent += ratios[-1] > 1.0 and not covers and not fit.warnings
    return sum(ratio > 1.0 for ratio in ratios), silent, float(np.mean(ratios)), max(ratios)


def run(design: str, n: int, mu: float, fits: int) -> dict[str, Any]:
    """Fit privately and not on each simulated data set."""
    rows: dict[str, list[Any]] = {"private": [], "plain": []}
    warned = lost = 0
    for seed in range(fits):
        fit, truth = private(design, n, mu, seed, standardize=False, method="newton")
        X, y, _ = simulate(design, n, seed)
        plain = dpfast.nonprivate_fit(X, y, objective(design, len(DESIGNS[design][2]) ** 0.5))
        distance = np.linalg.norm(fit.iterates[:, :4] - truth, axis=1)
        warned, lost = warned + bool(fit.warnings), lost + int(distance[-1] > distance[0])
        if design.startswith("joint scale"):
            truth = np.append(truth, DESIGNS[design][1])
        for key, one in (("private", fit), ("plain", plain)):
            interval = one.conf_int(0.95)
            rows[key].append([one.params - truth, np.ptp(interval, axis=1), holds(interval, truth)])
    row: dict[str, Any] = {"design": design, "n": n, "mu": mu, "fits": fits}
    for key, values in rows.items():
        error, width, covered = np.moveaxis(np.array(values), 1, 0)
        row[f"coverage_{key}"] = covered.mean(axis=0).round(4).tolist()
        row[f"width_{key}"] = width.mean(axis=0).round(4).tolist()
        row[f"error_{key}"] = round(float(np.linalg.norm(error[:, :4], axis=1).mean()), 4)
    ratio = np.array(row["width_private"]) / np.array(row["width_plain"])
    row |= {"width_ratio": ratio.round(3).tolist(), "warned": warned / fits, "lost": lost}
    row["error_ratio"] = round(row["error_private"] / row["error_plain"], 3)
    return row


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    designs = [design for design in DESIGNS if asked.only in design]
    sizes = SIZES[:1] if asked.quick else SIZES
    rows = []
    for row in pooled(run, [(d, n, 1.0, asked.runs) for d in designs for n in sizes]):
        rows.append(row)
        yield {
            "design": row["design"], "n": row["n"], "mu": row["mu"], "fits": row["fits"],
            "coverage": " ".join(f"{v:.3f}" for v in row["coverage_private"]),
            "non-private coverage": " ".join(f"{v:.3f}" for v in row["coverage_plain"]),
            "width ratio": " ".join(f"{v:.2f}" for v in row["width_ratio"]),
            "error ratio": row["error_ratio"], "warned": row["warned"], "lost": row["lost"],
        }  # fmt: skip
    if asked.store and not asked.quick and not asked.only:
        (RESULTS / "coverage.json").write_text(json.dumps(rows, indent=1) + "\n")


main = study("coverage", measured, __doc__, runs=2000, quick=20)
