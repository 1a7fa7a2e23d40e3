"""Sandwich covariance (Huber 1967, White 1980) from noisy matrices, plus privacy noise."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.errors import DpfastError
from dpfast.inference.degrees import Covariance, VarianceNoise
from dpfast.kernels.linalg import sandwich, weighted_mean
from dpfast.optimize.propagation import Curvature
from dpfast.optimize.protocol import Method, own_noise, refuse_without_matrices
from dpfast.optimize.trajectory import Trajectory, with_ridge

Matrix = NDArray[np.float64]


def sandwich_covariance(
    method: Method, trajectory: Trajectory, n: int, ridge: float = 0.0
) -> Covariance:
    """Compute ``H^-1 Q H^-1 / n`` plus the covariance of the optimiser's privacy noise."""
    refuse_without_matrices(trajectory, len(trajectory.theta))
    hessian, noise_scale = pooled(trajectory.hessians or (trajectory.final.hessian,))
    hessian = with_ridge(hessian, ridge)
    floor = 2.0 * noise_scale * len(hessian) ** 0.5
    sampling, n_floored, _ = sandwich(hessian, trajectory.final.meat.value, floor)
    curvature = Curvature(hessian, floor, n_floored, ridge)
    noise, unfinished, remarks = own_noise(method, trajectory, curvature)
    meat_scale = trajectory.final.meat.noise_scale
    spread = VarianceNoise(curvature, noise_scale, sampling + n * noise, meat_scale, n)
    return Covariance(sampling / n + noise, n_floored, unfinished, remarks, spread)


def covariance_or_reason(
    method: Method, trajectory: Trajectory, n: int, ridge: float
) -> tuple[Covariance | None, str]:
    """Compute the covariance, or return None and the reason, which is logged.

    The estimate was paid for and must arrive.
    """
    try:
        return sandwich_covariance(method, trajectory, n, ridge), ""
    except Exception as error:
        import logging

        with suppress(Exception):  # a handler of the caller's may raise, too
            logging.getLogger("dpfast").exception("the covariance of a fit could not be computed")
        kind = type(error).__name__
        message = str(error) if isinstance(error, DpfastError) else f"{kind} was raised"
        return None, (
            f"the covariance that was paid for could not be computed: {message.rstrip('.')}. The "
            'log "dpfast" has the details. The coefficients are not affected, but they have no '
            "standard errors."
        )


def pooled(hessians: Sequence[Answer]) -> tuple[Matrix, float]:
    """Average Hessians by inverse-variance weights; return the mean and its noise scale."""
    last = hessians[0].noise_scale
    precisions = [(last / hessian.noise_scale) ** 2 for hessian in hessians]
    mean = weighted_mean([hessian.value for hessian in hessians], precisions)
    return mean, last / sum(precisions) ** 0.5
