"""Estimates of the KL condition's constants from **public** data, for KL-Spider."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, real_number, whole_number
from dpfast.errors import InvalidInput
from dpfast.models import Loss, Objective
from dpfast.models.nonconvex import KL, PerRecordObjective
from dpfast.privacy.noise import SeededNoise
from dpfast.regression.nonprivate import nonprivate_curator, nonprivate_descent

#: Part of the largest excess risk below which others are rounding, and are left out.
RESOLUTION = 1e-9


class KLEstimate(NamedTuple):
    """Plausible constants of the KL condition, and the points they were estimated from.

    Attributes
    ----------
    kl : KL
        Every point satisfies ``excess <= (gamma norm)^kappa``.
    norms, excesses : ndarray of shape (m,)
        Gradient norm and excess risk of each point.
    kappa_interval : (float, float)
        Exponents that these points support: slopes of the envelope over parts of the range of
        norms, and two jackknife standard errors over the rays (Tukey 1958).  ``kl.kappa`` is one of
        them.  Where 2 is inside, the side of 2 on which it lies says nothing.

    Privacy
    -------
    None: exact numbers of the data it was made from, which have to be public.
    """

    kl: KL
    norms: Array
    excesses: Array
    kappa_interval: tuple[float, float] = (1.0, math.inf)


def estimate_kl(
    public_X: Any,
    public_y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    start: Sequence[float] | None = None,
    n_rays: int = 32,
    kappa: float | None = None,
) -> KLEstimate:
    """Estimate plausible KL constants from **public or synthetic** data: not private.

    Equation (1) of paper 2 (Menart, Ullah, Arora, Bassily and Guzmán 2023).

    The objective is minimised from ``start``.  Excess risk and gradient norm are recorded on the
    segment from the start to the minimiser, and on rays around the minimiser that are at most as
    long.  ``kappa`` is the slope of the upper envelope of excess against norm on logarithmic axes.
    ``gamma`` is the smallest for which every point obeys the condition.

    Parameters
    ----------
    public_X, public_y
        Data that are not private.  To tune a private analysis, never pass the private data.
    objective, start
        As for :func:`dpfast.minimize`.
    n_rays : int
        Directions around the minimiser, drawn reproducibly.
    kappa : float, optional
        Keep this exponent and estimate ``gamma`` only; it is its own interval.

    Returns
    -------
    KLEstimate

    Privacy
    -------
    None.  Numbers computed from private data by this function must not be published or used.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective = dpfast.Objective("cauchy", scale=1.0)
    >>> kl = dpfast.nonconvex.estimate_kl(X, y, objective, n_rays=3)
    >>> low, high = kl.kappa_interval
    >>> low <= kl.kl.kappa <= high
    True
    """
    n_rays = whole_number(n_rays, "n_rays", 1, 10_000)
    if kappa is not None:
        kappa = real_number(kappa, "kappa")
    curator, origin = nonprivate_curator(public_X, public_y, objective, start)
    best = nonprivate_descent(curator, origin)[-1]
    distance = float(np.linalg.norm(best - origin))
    if not distance > 0.0:
        raise InvalidInput("the start is the minimiser: there is no way down to learn from.")
    directions = public_directions(len(best), int(n_rays))
    distances = distance * np.geomspace(1e-4, 1.0, 24)
    points = [best + length * u for u in directions for length in distances]
    points += [best + share * (origin - best) for share in np.geomspace(1e-4, 1.0, 48)]
    rays = np.append(np.repeat(np.arange(len(directions)), len(distances)), [len(directions)] * 48)
    ridge_of = curator.objective.ridge_gradient

    def value(theta: Array) -> float:
        return curator.nonprivate_loss(theta) + 0.5 * curator.objective.ridge * float(theta @ theta)

    lowest = value(best)
    excesses = np.array([value(theta) for theta in points]) - lowest
    norms = np.array(
        [
            float(np.linalg.norm(curator.nonprivate_gradient(theta) + ridge_of(theta)))
            for theta in points
        ]
    )
    used = (excesses > RESOLUTION * excesses.max()) & (norms > 0.0)
    norms, excesses, rays = norms[used], excesses[used], rays[used]
    if len(norms) < 8:
        raise InvalidInput("too few points lie above the minimum; pass another start.")
    if kappa is None:
        slope, (low, high) = _slopes(np.log(norms), np.log(excesses), rays)
    else:
        slope = low = high = kappa
    slope = max(1.0, slope)
    gamma = float(np.max(excesses ** (1.0 / slope) / norms))
    interval = (max(1.0, low), max(1.0, high))
    return KLEstimate(KL(gamma, slope).checked(), norms, excesses, interval)


def _slopes(
    log_norm: Array, log_excess: Array, rays: NDArray[np.int64]
) -> tuple[float, tuple[float, float]]:
    """Estimate the slope of the envelope, and its interval over parts of the points."""
    slope = _envelope_slope(log_norm, log_excess)
    slopes = [slope]
    edges = np.linspace(log_norm.min(), log_norm.max() + 1e-9, 4)
    for low, high in itertools.combinations(edges, 2):
        in_bin = (log_norm >= low) & (log_norm < high)
        if np.unique(log_norm[in_bin]).size >= 8:
            slopes.append(_envelope_slope(log_norm[in_bin], log_excess[in_bin]))
    left_out = [
        _envelope_slope(log_norm[rays != ray], log_excess[rays != ray])
        for ray in np.unique(rays)
        if np.count_nonzero(rays != ray) >= 8
    ]
    m = max(len(left_out), 1)
    error = math.sqrt((m - 1) * float(np.var(left_out))) if left_out else 0.0
    return slope, (min(slopes) - 2.0 * error, max(slopes) + 2.0 * error)


def _envelope_slope(log_norm: Array, log_excess: Array) -> float:
    """Fit a least-squares slope through the highest point of each of twelve bins."""
    edges = np.linspace(log_norm.min(), log_norm.max() + 1e-9, 13)
    tops = []
    for low, high in itertools.pairwise(edges):
        in_bin = np.flatnonzero((log_norm >= low) & (log_norm < high))
        if len(in_bin):
            top = in_bin[np.argmax(log_excess[in_bin])]
            tops.append((log_norm[top], log_excess[top]))
    x, y = np.array(tops).T
    x = x - x.mean()
    return float(x @ y / (x @ x)) if len(tops) > 1 else 2.0


def public_directions(dimension: int, count: int) -> Array:
    """Draw reproducible directions: normals of a seeded source."""
    draws = SeededNoise(0).normals(dimension * count, 30).reshape(count, dimension) * 2.0**-30
    return np.asarray(draws / np.linalg.norm(draws, axis=1)[:, None])
