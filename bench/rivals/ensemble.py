"""An ensemble of OLS fits and a private point of large Tukey depth (Amin et al. 2023).

Disjoint random subsets of the records get an OLS fit each, so that a record changes one of m
points.  A point that lies deep among them in every coordinate is drawn by an exponential mechanism,
restricted to depths of at least t, where a test finds that the restriction gives no record away.
No bound is needed of rows or responses, but records for some hundred fits are.

Privacy: (epsilon, delta) under replacement of one record.  D(y) is the least of the counts of
points on either side of y in any coordinate; replacing one point moves D by at most 1 everywhere,
so the volumes V_i of {D >= i} obey V_{i+1}(S) <= V_i(S') <= V_{i-1}(S).  Densities are proportional
to exp(e D/2) on {D >= t}, Z their integral.  For neighbours T and T', on depths that both allow,
densities differ by exp(e/2) Z(T')/Z(T), and Z(T') <= exp(e/2) Z(T) + exp(e t/2) V_{t-1}(T); what T'
forbids, D = t in T, has at most exp(e t/2) V_t(T) / Z(T).  With Z(T) >= exp(e (t+g)/2) V_{t+g}(T),

    P_T(E) <= (exp(e) + exp(e/2) r) P_T'(E) + r <= exp(e) P_T'(E) + (1 + exp(e/2)) r,
    r = exp(-e g/2) V_{t-1}(T) / V_{t+g}(T) for any g.

So all pairs of which one is within k replacements of S are (e, d) if (1 + exp(e/2)) exp(-e g/2)
V_{t-2-k}(S) / V_{t+1+k+g}(S) <= d for some g.  The number of such k = 0, 1, ... from 0 on moves by
at most 1 with a record, and is 0 if a neighbour of S tells them apart: with Laplace noise of scale
1/e' it must exceed log(1/(2 d'))/e', which a 0 does with probability d'.  Both: (e + e', d + d').

Numbers are floats and the noise is NumPy's: this is a benchmark, not a release.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array

__all__ = ["deep_point", "ensemble", "margin"]


#: Most fits, and fewest records of each in coefficients.
MOST, RECORDS = 1000, 3

#: Public jitter of the points, in the response's standard deviations: no two coordinates tie.
JITTER = 1e-6


def ensemble(rows: Array, y: Array, epsilon: float, delta: float, seed: int) -> Array:
    """Coefficients of rows with a constant; NaN where the test fails or the records are too few."""
    rng = np.random.default_rng(seed)
    n, p = rows.shape
    m = min(MOST, n // (RECORDS * p))
    if m < 8:
        return np.full(p, np.nan)
    order = rng.permutation(n)[: n // m * m].reshape(m, -1)
    points = np.array([np.linalg.lstsq(rows[some], y[some], rcond=None)[0] for some in order])
    return deep_point(points + JITTER * rng.standard_normal(points.shape), epsilon, delta, rng)


def deep_point(points: Array, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
    """A private point of large depth, or NaN; half of epsilon and delta for the test."""
    e, d = 0.5 * epsilon, 0.5 * delta
    m, p = points.shape
    least = m // 4
    edges = np.sort(points, axis=0)
    deepest = m // 2
    # {D >= i} is a box: from the i-th smallest coordinate to the i-th largest
    low, high = edges[:deepest], edges[::-1][:deepest]
    volumes = np.log(np.maximum(high - low, 0.0)).sum(axis=1)  # of depths 1, 2, ...
    found = margin(volumes, least, e, d) + rng.laplace(scale=1.0 / e)
    if not found > math.log(1.0 / (2.0 * d)) / e:
        return np.full(p, np.nan)
    depths = np.arange(least, deepest + 1)
    outer, inner = volumes[depths - 1], np.append(volumes[depths[1:] - 1], -np.inf)
    weights = 0.5 * e * depths + outer + np.log1p(-np.exp(inner - outer))
    chances = np.exp(weights - weights.max())
    depth = int(rng.choice(depths, p=chances / chances.sum()))
    return _within(low, high, depth, deepest, rng)


def margin(volumes: Array, least: int, epsilon: float, delta: float) -> int:
    """How many replacements away everything is safe: 1-sensitive (see above)."""
    bar = math.log(delta) - math.log1p(math.exp(0.5 * epsilon))
    k = 0
    while least - 2 - k >= 1:
        deeper = volumes[least + k :]  # of depths least + 1 + k + g
        ratios = volumes[least - 3 - k] - deeper - 0.5 * epsilon * np.arange(len(deeper))
        if not (len(deeper) and np.min(ratios) <= bar):
            break
        k += 1
    return k


def _within(low: Array, high: Array, depth: int, deepest: int, rng: np.random.Generator) -> Array:
    """Uniform where the depth is just this: in a box, and not in the next one."""
    bottom, top = low[depth - 1], high[depth - 1]
    if depth == deepest:
        return rng.uniform(bottom, top)
    inside, outside = low[depth], high[depth]
    # disjoint parts: coordinates before j are in the inner box, j is outside, the rest anywhere
    part = (outside - inside) / (top - bottom)
    before = np.concatenate([[1.0], np.cumprod(part)[:-1]])
    chances = before * (1.0 - part)
    first = int(rng.choice(len(part), p=chances / chances.sum()))
    point = rng.uniform(bottom, top)
    point[:first] = rng.uniform(inside[:first], outside[:first])
    below, above = inside[first] - bottom[first], top[first] - outside[first]
    away = rng.uniform(-below, above)
    point[first] = inside[first] + away if away < 0.0 else outside[first] + away
    return np.asarray(point)
