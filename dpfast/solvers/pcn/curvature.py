"""Curvatures: expected ones of Gaussian designs, their transport, and BFGS updates."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import Linearization
from dpfast.kernels.linalg import eigh
from dpfast.models.losses import MASSES, NODES
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore
from dpfast.solvers.pcn.search import trust_region

Array = NDArray[np.float64]

#: Smallest ratio of eigenvalues of an updated or expected curvature.
MIN_CONDITION = 1e-3

#: Smallest and largest curvature of an average record: with less rows cannot be whitened, and with
#: more radii are not finite.
MIN_CURVATURE, MAX_CURVATURE = 1e-12, 1e60

SQUARES = NODES**2

#: Slopes without their part in the intercept, their square, curvature across them and along.
GaussianCurvature = tuple[Array, float, float, float]


def bounded_curvature(curvature: float) -> float:
    return (
        curvature
        if MIN_CURVATURE < curvature < MAX_CURVATURE
        else min(max(MIN_CURVATURE, curvature), MAX_CURVATURE)
    )


def typical_curvature(slopes: Array, variance: float, across: float, along: float) -> float:
    """Return the median of the curvatures along directions."""
    p = slopes.size  # p - 1 of them are the same
    return bounded_curvature(across + (along - across) / p) if p < 3 else across


def gaussian_design_hessian(slopes: Array, variance: float, across: float, along: float) -> Array:
    """Compute the expected Hessian for Gaussian covariates, curved otherwise along slopes."""
    hessian = (along - across) / variance * (slopes[:, None] * slopes)
    hessian.flat[:: slopes.size + 1] += across
    return hessian


def gaussian_design_curvature(
    at: Linearization, intercept: Array | None, mean: float = 0.0, spread: float = 0.0
) -> GaussianCurvature:
    """Compute the expected curvatures for Gaussian covariates and offsets (Stein 1981)."""
    slopes = at.theta
    if intercept is not None:
        level = float(intercept @ at.theta) / float(intercept @ intercept)
        mean, slopes = mean + level, at.theta - level * intercept
    variance = float(slopes @ slopes)
    values = at.loss._expected_curvature(mean + math.sqrt(variance + spread * spread) * NODES)
    level, along = bounded_curvature(float(MASSES @ values)), float(MASSES @ (values * SQUARES))
    if spread:  # offsets go with no slope
        along = level + variance / max(variance + spread * spread, TINY) * (along - level)
    along = max(MIN_CONDITION * level, min(MAX_CURVATURE, along)) if variance > TINY else level
    return slopes, max(variance, TINY), level, along


def bfgs_update(curvature: Array | None, before: NoisyScore, here: NoisyScore) -> Array | None:
    """Update the Hessian by BFGS, skipped where the change is below the noise.

    Nocedal and Wright (2006), section 6.1.  It is also skipped where the update would not be
    positive definite.
    """
    step, change = here.theta - before.theta, before.score - here.score
    hessian_step = step if curvature is None else curvature @ step
    size = math.hypot(*step.tolist())
    predicted, observed = float(step @ hessian_step), float(step @ change)
    doubt = SIGNAL_SDS * math.hypot(here.noise, before.noise) * size + step.size * before.noise**2
    if not (abs(observed - predicted) > doubt and predicted > 0.0 and observed > 0.0):
        return curvature
    updated = np.eye(step.size) if curvature is None else curvature
    updated = (
        updated
        - hessian_step[:, None] * hessian_step / predicted
        + change[:, None] * change / observed
    )
    if not np.isfinite(updated).all():
        return curvature
    values = eigh(updated)[0]
    return updated if values[0] > MIN_CONDITION * values[-1] else curvature


class CurvatureModel(NamedTuple):
    """Model of a curvature that changes with the parameter."""

    whiten: Array
    back: Array
    at: Linearization
    constant_and_offsets: tuple[Array | None, float, float]
    min_score_variation: float
    start: GaussianCurvature | None = None
    #: Probability that a coordinate has no determined curvature.
    undetermined: Array | None = None

    def halfway(
        self, step: Array, theta: Array, curvature: Array | None, now: GaussianCurvature
    ) -> Array:
        """Recompute a step with the curvature at its midpoint."""
        half = self.expected(theta + 0.5 * trust_region(self.whiten @ step, now[1]) * step) or now
        change = step if curvature is None else curvature @ step
        return np.asarray(np.linalg.solve(self.transported(curvature, now, half), change))

    def expected(
        self, theta: Array, known: GaussianCurvature | None = None
    ) -> GaussianCurvature | None:
        """Compute the expected curvature, along slopes at most that across; None for a mean."""
        if self.at.loss.link == "identity":
            return None
        at = self.at._replace(theta=self.whiten @ theta)
        slope, variance, across, along_slopes = known or gaussian_design_curvature(
            at, *self.constant_and_offsets
        )
        along_slopes = min(across, along_slopes) if across > MIN_CURVATURE else across
        return slope, variance, across, along_slopes

    def transported(
        self, curvature: Array | None, was: GaussianCurvature, here: GaussianCurvature
    ) -> Array:
        """Transport a curvature to another point, by the ratio of the expected curvatures."""
        (new, size, new_across, new_along), (old, before, old_across, old_along) = here, was
        # square roots of both curvatures, the second one's inverse
        to_root = (new_along**0.5 - new_across**0.5) / size
        from_inverse_root = (old_along**-0.5 - old_across**-0.5) / before
        slopes = np.array([new, old])
        cross = to_root * (new @ old) * from_inverse_root
        core = np.array(
            [[to_root * old_across**-0.5, cross], [0.0, from_inverse_root * new_across**0.5]]
        )
        turn = (slopes @ self.whiten).T @ core @ (slopes @ self.back.T)
        turn.flat[:: len(turn) + 1] += (new_across / old_across) ** 0.5
        return turn @ turn.T if curvature is None else turn @ curvature @ turn.T

    def bfgs_update(
        self, curvature: Array | None, now: GaussianCurvature, before: NoisyScore, here: NoisyScore
    ) -> Array | None:
        """Update by :func:`bfgs_update` with the curvature at the midpoint of the two scores."""
        half = self.expected(0.5 * (before.theta + here.theta)) or now
        transported_there = self.transported(curvature, now, half)
        updated = bfgs_update(transported_there, before, here)
        if updated is transported_there or updated is None:
            return curvature
        return self.transported(updated, half, now)
