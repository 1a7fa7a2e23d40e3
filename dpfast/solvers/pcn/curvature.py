"""Curvatures: expected ones of Gaussian designs, their transport, and BFGS updates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import Linearization
from dpfast.kernels import decisions
from dpfast.models.losses import MASSES, NODES

Array = NDArray[np.float64]

#: Smallest ratio of eigenvalues of an updated or expected curvature.
MIN_CONDITION = 1e-3

#: A change of curvature counts above so many standard deviations of its noise.  A fit asks several
#: times, and a false change of half the curvature halves a standard error: of 250 fits of normal
#: rows 5 had one below .9 of the exact one at 2, none at 4.  Errors were never larger at 4 than at
#: 2 or 3 in 24 designs; without updates outlying rows make intervals 1.1 times as wide.
UPDATE_SDS = 4.0

#: Smallest and largest curvature of an average record: with less rows cannot be whitened, and with
#: more radii are not finite.
MIN_CURVATURE, MAX_CURVATURE = 1e-12, 1e60

#: A predictor, where the expected curvature is the same at all of them.
ZERO = np.zeros(1)

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
    return np.asarray(decisions.design_hessian(slopes, variance, across, along))


def gaussian_design_curvature(
    at: Linearization, intercept: Array | None, mean: float = 0.0, spread: float = 0.0
) -> GaussianCurvature:
    """Compute the expected curvatures for Gaussian covariates and offsets (Stein 1981)."""
    loss = at.loss
    constant = 0.0 if loss.link != "identity" else float(loss._expected_curvature(ZERO)[0])
    curvature: GaussianCurvature = decisions.design_curvature(
        at.theta, intercept, mean, spread, loss.code, loss.largest_mean, constant
    )
    return curvature


class CurvatureModel(NamedTuple):
    """Model of a curvature that changes with the parameter.

    The expected curvature is that of :func:`gaussian_design_curvature`, along slopes at most that
    across; none is expected of the loss of a mean.  A curvature is transported to another point by
    the ratio of the expected curvatures (:class:`dpfast.kernels.decisions.AveragedNewton`).
    """

    #: Map of whitened coefficients to those of the rows, and its inverse.
    whiten: Array
    back: Array
    at: Linearization
    constant_and_offsets: tuple[Array | None, float, float]
    min_score_variation: float
    start: GaussianCurvature | None = None
    #: Probability that a coordinate has no determined curvature.
    undetermined: Array | None = None


decisions.connect_curvatures(NODES, MASSES, UPDATE_SDS, MIN_CONDITION, MIN_CURVATURE, MAX_CURVATURE)
