"""Fits of a cell of the grid: what intervals cover, and what is warned of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.arrival.designs import Cell, simulate
from dpfast.errors import NotConverged

#: What a warning has to name one of.
HELPS = "records", "budget", "covariates", "FreeScale", "start nearer"


class Fits(NamedTuple):
    """Of each fit."""

    covered: NDArray[np.bool_]
    warned: NDArray[np.bool_]
    helpless: NDArray[np.bool_]  # warned of without a word on what would help


def measure(cell: Cell, seeds: Sequence[int]) -> Fits:
    """Fits with these seeds, whose units are public."""
    rows: list[tuple[Any, ...]] = []
    scale: Any = None if cell.loss == "logistic" else cell.scale
    if cell.interval is not None:
        scale = dpfast.FreeScale(*cell.interval)
    own, p = crc32(repr(cell).encode()), cell.p
    for seed in seeds:
        X, y, truth = simulate(np.random.default_rng([own, seed]), cell, **dict(cell.options))
        try:
            weights = dpfast.Mallows((1 + X.shape[1]) ** 0.5)
            exact = dpfast.nonprivate_fit(
                X, y, dpfast.Objective(cell.loss, weights=weights, scale=scale)
            )
        except NotConverged:
            continue
        if not (exact.bse < 1e3).all():
            continue
        # the units of the designs are public
        options: dict[str, Any] = {"privacy": cell.mu, "standardize": False}
        noise_seed = own % 2**31 + 10_000 * seed
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1), None, dpfast.Objective(cell.loss, scale=scale),
            noise=dpfast.SeededNoise(noise_seed), **options,
        )  # fmt: skip
        interval = fit.conf_int()
        rows.append(
            (
                (interval[:, 0] <= truth) & (truth <= interval[:, 1]),
                bool(fit.warnings),
                any(not any(help in text for help in HELPS) for text in fit.warnings),
            )
        )
    if not rows:
        rows = [(np.zeros(p, bool), True, False)]
    return Fits(*(np.array(column) for column in zip(*rows, strict=True)))
