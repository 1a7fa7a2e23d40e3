"""Clipped descent whose settings are chosen by its own errors on the data: what nobody can do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals import literature

__all__ = ["Settings", "best_settings", "descent"]

Array = NDArray[np.float64]

#: Clip in sqrt(p), steps and their size.
Settings = tuple[float, int, float]

CLIPS = (0.3, 1.0, 2.0, 4.0, 8.0)
PACES = ((8, 0.6), (30, 0.5), (150, 0.5))

#: Runs by which settings are compared; their noise is not that of the runs that are reported.
TRIALS = 2
SEED = 10_000


def descent(Z: Array, v: Array, loss: str, mu: float, seed: int, settings: Settings) -> Array:
    """Gradient descent on clipped gradients, whole batches; the last 30% of steps are averaged."""
    clip, steps, size = settings
    fit = literature.clipped_gradient_descent(
        Z,
        v,
        loss,
        clip=clip * (Z.shape[1] + 1) ** 0.5,
        privacy=mu,
        noise=dpfast.SeededNoise(seed),
        method=dpfast.optimize.GradientDescent(steps=steps, step_size=size, average=0.3),
    )
    return np.asarray(fit.params)


def best_settings(
    Z: Array, v: Array, loss: str, mu: float, sizes: float, distance: Callable[[Array], float]
) -> Settings:
    """Those with the least mean distance; ``sizes`` multiplies the sizes of the steps."""
    found: dict[Settings, float] = {}
    for clip, (steps, size) in product(CLIPS, PACES):
        settings = clip, steps, sizes * size
        runs = [descent(Z, v, loss, mu, SEED + k, settings) for k in range(TRIALS)]
        found[settings] = float(np.mean([distance(run) for run in runs]))
    return min(found, key=lambda settings: found[settings])
