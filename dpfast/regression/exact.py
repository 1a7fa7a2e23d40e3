"""Exact minimum of a convex objective: **not private**, for comparison only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator

Array = NDArray[np.float64]

#: Eigenvalues of a curvature with unit diagonal that are zero but for rounding.
SINGULAR = 1e-13

#: Part of its slope by which a Newton step must lower the loss; half where the model is exact.
SUFFICIENT = 0.1

#: Relative changes of the loss below this are rounding, and the gradient decides instead.
ROUNDING = 1e-12

#: Part of what the entries of a gradient cancel that is rounding, whatever the scores are.
CANCELLED = 1e-14

#: Newton steps that are longer carry no information, and could overflow.
LONGEST = 1e100


class Minimum(NamedTuple):
    """Result of the exact search, with the derivatives at its last point."""

    iterates: list[Array]
    hessian: Array
    meat: Array
    score: float


class _Point:
    """Parameter vector with its penalised loss and derivatives."""

    def __init__(self, curator: Curator, theta: Array) -> None:
        ridge = curator.objective.ridge
        gradient, hessian, self.meat = curator.nonprivate_sums(theta)
        self.theta = theta
        self.value = curator.nonprivate_loss(theta) + 0.5 * ridge * float(theta @ theta)
        self.gradient = gradient + ridge * theta
        self.hessian = hessian + ridge * np.eye(len(theta))
        self.free = _inside(curator, theta, self.gradient)
        scale = np.sqrt(self.meat.diagonal()) + ridge * np.abs(theta)
        cancelled = CANCELLED * (np.abs(self.hessian) @ np.abs(theta))
        moving = self.free & (np.abs(self.gradient) > cancelled)
        with np.errstate(divide="ignore"):
            scores = np.abs(self.gradient[moving]) / scale[moving]
        self.score = float(scores.max(initial=0.0))


@np.errstate(over="ignore", invalid="ignore")  # raw units without end: no step improves
def nonprivate_minimum(curator: Curator, start: Array, tolerance: float, max_steps: int) -> Minimum:
    """Minimise by Newton's steps where they decrease the loss enough, else by majorising steps.

    Majorisation-minimisation is iteratively reweighted least squares here (Hunter and Lange 2004).
    """
    point = _Point(curator, curator.objective.project(start))
    iterates = [point.theta]
    while point.score > tolerance and len(iterates) <= max_steps:
        for step in (_newton, _majorize):
            theta = step(curator, point)
            if theta is not None:
                candidate = _Point(curator, theta)
                if _improves(point, candidate, step is _newton):
                    break
        else:
            break  # no step improves: rounding level, or no minimum
        point = candidate
        iterates.append(point.theta)
    return Minimum(iterates, point.hessian, point.meat, point.score)


def split_singular(matrix: Array) -> tuple[Array, Array]:
    """Return the pseudo-inverse, and which coordinates the data do not determine."""
    diagonal = np.sqrt(matrix.diagonal())
    scaling = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
    values, vectors = np.linalg.eigh(scaling[:, None] * matrix * scaling)
    singular = values <= SINGULAR * len(matrix)
    determined = vectors[:, ~singular]
    inverse = scaling[:, None] * ((determined / values[~singular]) @ determined.T) * scaling
    return inverse, (vectors[:, singular] ** 2).sum(axis=1) > 1e-8


def _inside(curator: Curator, theta: Array, gradient: Array) -> NDArray[np.bool_]:
    """Return which coordinates may move downhill: all but a scale that is at its bound."""
    downhill = curator.objective.project(theta - np.sign(gradient) * 1e-6 * np.abs(theta))
    free = np.ones(len(theta), dtype=bool)
    if curator.objective.free_scale is not None:
        free[-1] = downhill[-1] != theta[-1]
    return free


def _improves(old: _Point, new: _Point, newton: bool) -> bool:
    slope = float(old.gradient @ (old.theta - new.theta))
    if slope <= ROUNDING * abs(old.value):
        return new.score < old.score
    return new.value <= old.value - (SUFFICIENT * slope if newton else 0.0)


def _newton(curator: Curator, point: _Point) -> Array | None:
    """Take a full Newton step in the free coordinates; return None if the Hessian is singular."""
    free = point.free
    inverse, lost = split_singular(point.hessian[np.ix_(free, free)])
    step = np.zeros_like(point.theta)
    step[free] = inverse @ point.gradient[free]
    if lost.any() or not np.abs(step).max() < LONGEST:
        return None
    return curator.objective.project(point.theta - step)


def _majorize(curator: Curator, point: _Point) -> Array:
    """Take a step of iteratively reweighted least squares, and one of a free scale."""
    theta, objective = point.theta, curator.objective
    if objective.free_scale is None:
        _, curvature, _ = curator.nonprivate_sums(theta, majorize=True)
        curvature = curvature + objective.ridge * np.eye(len(theta))
        return np.asarray(theta - split_singular(curvature)[0] @ point.gradient)
    gradient, curvature, _ = curator.nonprivate_sums(theta, majorize=True)
    step = split_singular(curvature[:-1, :-1])[0] @ gradient[:-1]
    theta = np.append(theta[:-1] - step, theta[-1])
    gradient, curvature, _ = curator.nonprivate_sums(theta, majorize=True)
    squared = 1.0 - 2.0 * gradient[-1] / (curvature[-1, -1] * theta[-1])
    theta[-1] *= max(squared, 1e-4) ** 0.5
    return objective.project(theta)
