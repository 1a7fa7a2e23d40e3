"""Fits of a cell, beside the exact one and one gradient for the whole budget at the solution."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.arrival.designs import Cell, simulate
from dpfast.curator import Curator
from dpfast.data import as_records
from dpfast.errors import NotConverged
from dpfast.models import Objective, resolve_loss

Array = NDArray[np.float64]

#: What is compared: what there was before, and the default.
METHODS = "newton", "auto"


class Outcome(NamedTuple):
    """Of one method: errors, coverage, warnings and time."""

    noise: float
    shots: float
    total: float
    intercept: float
    slopes: float
    scale: float
    warned: float
    n_unwarned: int
    unwarned_intercept: float
    unwarned_slopes: float
    unwarned_scale: float
    milliseconds: float


def run(cell: Cell, fits: int, methods: tuple[str, str] = METHODS) -> dict[str, Outcome]:
    """Both methods on the same data."""
    found: dict[str, list[tuple[Array, Array, Array, bool, float]]] = {m: [] for m in methods}
    exact_errors, shots = [], []
    scale: Any = None if cell.loss == "logistic" else cell.scale
    if cell.interval is not None:
        scale = dpfast.FreeScale(*cell.interval)
    for seed in range(fits):
        own = [] if cell.interval is None else [crc32(f"{cell.name} {cell.loss}".encode())]
        noise_seed = seed if not own else 10_000 * own[0] + seed
        X, y, truth = simulate(
            np.random.default_rng([seed, cell.n, cell.p, *own]), cell, **dict(cell.options)
        )
        try:
            exact = dpfast.nonprivate_fit(X, y, dpfast.Objective(cell.loss, scale=scale))
        except NotConverged:
            continue
        if not (exact.bse < 1e3).all():
            continue
        exact_errors.append((exact.params - truth) / exact.bse)
        shots.append(one_shot(X, y, cell, scale, exact.params) / exact.bse)
        for method, rows in found.items():
            noise = dpfast.SeededNoise(noise_seed)
            start = time.process_time()
            fit = dpfast.fit(
                dpfast.records(X, y, threads=1), None, dpfast.Objective(cell.loss, scale=scale),
                privacy=cell.mu, standardize=False, noise=noise, method=method,
            )  # fmt: skip
            spent = time.process_time() - start
            interval = fit.conf_int()
            covered = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
            noise_error = (fit.params - exact.params) / exact.bse
            error = (fit.params - truth) / exact.bse
            rows.append((noise_error, error, covered, bool(fit.warnings), spent))
    if not exact_errors:
        return {}
    p = cell.p
    sampling = float(np.mean(np.square(exact_errors)[:, :p]))
    shot = float(np.mean(np.square(shots)[:, :p]))
    return {method: _outcome(rows, p, sampling, shot) for method, rows in found.items()}


def one_shot(X: Array, y: Array, cell: Cell, scale: Any, solution: Array) -> Array:
    """Standard deviations of an exact Newton step from the solution, all paid for its gradient."""
    free = scale if cell.interval is not None else None
    objective = Objective(
        resolve_loss(cell.loss),
        dpfast.Mallows(math.sqrt(max(cell.p, 2))),
        cell.p - 1,
        scale=None if free else scale,
        free_scale=free,
    )
    at = solution / objective.units()
    curator = Curator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0), 1)
    inverse = np.linalg.pinv(curator.nonprivate_sums(at)[1], hermitian=True)
    noise = objective.score_diameter / (cell.n * cell.mu)
    return objective.units() * noise * np.linalg.norm(inverse, axis=1)


def _outcome(
    rows: list[tuple[Array, Array, Array, bool, float]], p: int, own: float, shot: float
) -> Outcome:
    noise, error, covered, warned, spent = (np.array(column) for column in zip(*rows, strict=True))

    def coverage(of: Array) -> tuple[float, float, float]:
        """Of intercept, slopes and scale."""
        parts = of[:, :1], of[:, 1:p], of[:, p:]
        intercept, slopes, scale = (part.mean() if part.size else math.nan for part in parts)
        return float(intercept), float(slopes), float(scale)

    everyone, silent = coverage(covered), coverage(covered[~warned])
    return Outcome(
        noise=float(np.sqrt(np.mean(noise[:, :p] ** 2))),
        shots=float(np.sqrt(np.mean(noise[:, :p] ** 2) / shot)),
        total=float(np.sqrt(np.mean(error[:, :p] ** 2) / own)),
        intercept=everyone[0],
        slopes=everyone[1],
        scale=everyone[2],
        warned=float(warned.mean()),
        n_unwarned=int((~warned).sum()),
        unwarned_intercept=silent[0],
        unwarned_slopes=silent[1],
        unwarned_scale=silent[2],
        milliseconds=1e3 * float(np.median(spent)),
    )
