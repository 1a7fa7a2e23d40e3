"""Noise of default fits beside that of one shot: all of mu on one mean of scores, at its place

*One shot*: at the exact estimate, with the exact curvature, scores are held to the norm that is
best for them, and their mean has the Gaussian noise of all of mu: least root of squared noise and
squared bias, both divided by the curvature that held scores have.  Nobody can do it.  *Noise*:
distance of fits from the exact estimate in the same metric, the rows' curvature, root mean square
over runs, as a multiple; *total*: root of squared noise and sampling, as a multiple of sampling.
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
from bench.tables import exact
from dpfast.arguments import Array
from dpfast.models import resolve_loss

Rng = np.random.Generator

SIZES, LOSSES = (500, 2_000, 10_000, 50_000), ("least-squares", "log-cosh", "logistic")
SLOPES = np.array([1.0, -0.5, 0.5, 0.0, 0.0])

DESIGNS: dict[str, Callable[[Rng, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 5)),
    "three dummies": lambda rng, n: np.column_stack(
        [rng.normal(size=(n, 2)), rng.random((n, 3)) < [0.5, 0.3, 0.1]]
    ).astype(float),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=(n, 5))),
    "t2": lambda rng, n: rng.standard_t(2.0, size=(n, 5)),
}


def drawn(rng: Rng, n: int, design: str, loss: str) -> tuple[Array, Array]:
    X = DESIGNS[design](rng, n)
    eta = X @ SLOPES
    if loss == "logistic":
        eta = (eta - np.median(eta)) / np.subtract(*np.quantile(eta, [0.75, 0.25]))
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    return X, eta + rng.normal(size=n)


def one_shot(scores: Array, rows: Array, curved: Array, mu: float) -> float:
    """Root of squared noise and squared bias at the best norm, of whitened scores and rows.

    What holds scores takes of their curvature, too, so that short ones say less.
    """
    n = len(scores)
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", scores, scores)), 1e-100)
    along = np.einsum("ij,ij->i", scores, rows) / lengths**2
    found = math.inf
    for bound in lengths.max() * np.exp2(-np.arange(32) / 4.0):
        kept = np.minimum(1.0, bound / lengths)
        turned = kept[:, None] * (rows - np.where(kept < 1.0, along, 0.0)[:, None] * scores)
        curvature = turned.T @ (curved[:, None] * rows) / n
        if np.linalg.cond(curvature) > 1e6:
            break
        inverse = np.linalg.inv(curvature)
        bias = inverse @ (kept @ scores / n)
        noise = 2.0 * bound / (n * mu) * np.linalg.norm(inverse)
        found = min(found, float(noise**2 + bias @ bias))
    return math.sqrt(found)


def compared(design: str, loss: str, n: int, mu: float, runs: int) -> str:
    """Noise over one shot, the total over sampling, and the part of fits that warn."""
    squares, warned = [], 0
    for seed in range(runs):
        X, y = drawn(np.random.default_rng([seed, n]), n, design, loss)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=mu, noise=noise)
        scale = fit._scale if loss == "log-cosh" else None
        own = exact(X, y, loss, scale).params
        rows = np.column_stack([np.ones(n), X])
        used, eta = resolve_loss(loss, unbounded=True), rows @ own
        curved = used._curvature_at(y, eta, scale or 1.0)
        root = np.linalg.cholesky(rows.T @ (curved[:, None] * rows) / n)
        rows = np.linalg.solve(root, rows.T).T
        scores = used._score_at(y, eta, scale or 1.0)[:, None] * rows
        away = root.T @ (fit.params - own)
        shot, spread = one_shot(scores, rows, curved, mu) ** 2, np.sum(scores**2) / n**2
        squares.append((away @ away, shot, spread))
        warned += bool(fit.warnings)
    noise, shot, sampling = np.sqrt(np.mean(squares, axis=0))
    total = math.hypot(noise, sampling) / sampling
    return f"{noise / shot:.2f}, total {total:.2f}, warned {warned / runs:.2f}"


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for loss, n in product(LOSSES, SIZES[: 1 if asked.quick else None]):
        if asked.only in loss:
            cells = {design: compared(design, loss, n, 1.0, asked.runs) for design in DESIGNS}
            yield {"loss": loss, "n": n, "mu": 1.0} | cells


main = study("one_shot", measured, __doc__, runs=20)
