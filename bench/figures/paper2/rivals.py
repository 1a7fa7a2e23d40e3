"""Rivals of the adaptive algorithm, tuned on the exact excess risk: a simulation, in plain NumPy.

Noisy descent, clipped noisy descent, DP-SGD and DP-Adam with the noise of their budgets.  Each is
given, for nothing, the setting that is best on other seeds.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

import dpfast
from bench.figures.paper2.problems import Problem

DELTA = 1e-6
RATE = 0.1

STEPS = (5, 15, 50, 150)
LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Short gradients need long steps.
CLIPPED_LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
CLIPS = (0.3, 0.1, 0.03)

#: (steps, step length in 1/L1, clip in L0)
Setting = tuple[int, float, float]

GRIDS: dict[str, list[Setting]] = {
    "noisy descent": list(itertools.product(STEPS, LENGTHS, (1.0,))),
    "clipped descent": list(itertools.product(STEPS, CLIPPED_LENGTHS, CLIPS)),
    "DP-SGD": list(itertools.product((50, 200), CLIPPED_LENGTHS, (1.0, *CLIPS))),
}


#: DP-Adam: clipped descent with Adam's averages; its length is a step in units of the parameters.
ADAM: list[Setting] = list(
    itertools.product((50, 200), (0.01, 0.03, 0.1, 0.3), (1.0, 0.3, 0.1, 0.03))
)


@cache
def multiplier(rho: float, n_steps: int) -> float:
    """Noise multiplier of DP-SGD at the epsilon that ``rho`` implies."""
    from bench.rivals.literature import noise_multiplier

    epsilon = dpfast.GDP.within(dpfast.ZCDP(rho)).epsilon(DELTA)
    return noise_multiplier(dpfast.ApproxDP(epsilon, DELTA), RATE, n_steps)


def descend(problem: Problem, method: str, setting: Setting, rho: float, seed: int) -> float:
    """Excess risk of the last iterate of one simulated run."""
    n_steps, length, clip = setting
    rng, known, n = np.random.default_rng(seed), problem.objective, problem.n
    bound, theta = clip * known.lipschitz, problem.start
    sampled = method == "DP-SGD"
    if sampled:
        noise = multiplier(rho, n_steps) * bound / (RATE * n)
    else:
        noise = 2.0 * bound / n / math.sqrt(2.0 * rho / n_steps)
    first, second = np.zeros(len(theta)), np.zeros(len(theta))
    for k in range(1, n_steps + 1):
        X, y = problem.X, problem.y
        if sampled:
            chosen = rng.random(n) < RATE
            X, y = X[chosen], y[chosen]
        rows = np.asarray(known.gradients(theta, X, y))
        size = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        factor = np.minimum(1.0, bound / np.maximum(size, 1e-300))
        mean = factor @ rows / (RATE * n if sampled else n)
        mean = mean + noise * rng.normal(size=len(theta))
        if method == "DP-Adam":
            first, second = 0.9 * first + 0.1 * mean, 0.99 * second + 0.01 * mean * mean
            spread = np.sqrt(second / (1.0 - 0.99**k)) + 1e-12
            theta = theta - length * (first / (1.0 - 0.9**k)) / spread
        else:
            theta = theta - length / known.smoothness * mean
        if not np.isfinite(theta).all():
            return math.inf
    found = problem.excess(theta)
    return found if math.isfinite(found) else math.inf


def tuned(
    problem: Problem, method: str, rho: float, reps: int, seed: int, grid: list[Setting]
) -> tuple[float, Setting, list[float]]:
    """Mean excess of the setting that is best on three other seeds: tuning is free.

    Also that setting, and the mean excess of each of the grid on those three seeds.
    """
    with np.errstate(all="ignore"):
        scores = [
            float(np.mean([descend(problem, method, s, rho, seed + 1000 + r) for r in range(3)]))
            for s in grid
        ]
        best = grid[int(np.argmin(scores))]
        runs = [descend(problem, method, best, rho, seed + r) for r in range(reps)]
    return float(np.mean(runs)), best, scores
