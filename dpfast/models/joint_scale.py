"""A residual scale that is estimated with the coefficients (eq. (6), Avella-Medina et al. 2023).

The loss of a record is ``w(x) (sigma rho(u) + kappa sigma / 2)`` with ``u = (y - x'beta)/sigma``:
jointly convex, and consistent because ``kappa = 2 E chi(Z)``, with ``chi(u) = u psi(u) - rho(u)``
and Z standard normal.  Optimisers work in ``(beta, z)`` with ``sigma = factor * z``: the public
factor makes the scale's coordinate free (claims C34 and C35).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpfast.arguments import check_constant
from dpfast.errors import InvalidInput, described
from dpfast.models.free_scale import FreeScale
from dpfast.models.losses import Loss, ScalePart
from dpfast.models.names import all_losses, kind_of
from dpfast.models.weighting import Bounded, Mallows, Weighting


class JointScale(NamedTuple):
    """Public constants of a joint loss."""

    #: low, high, start: bounds of the scale and where it starts, in the units of y.
    low: float
    high: float
    start: float
    #: The scale is ``factor`` times the last coordinate.
    factor: float
    #: ``factor * c / radius``.
    ratio: float
    #: Consistency constant ``2 E chi(Z)``.
    kappa: float
    #: Bound on a record's Hessian in units of ``radius^2 / sigma`` (claim C35).
    curvature: float
    #: Bound on a record's squared score in units of ``(c radius)^2`` (claim C36).
    meat: float


def joint_scale(loss: Loss, weighting: Weighting, free: FreeScale) -> JointScale:
    """Constants of the joint loss, or an error that says why there are none."""
    part = _scale_part(loss, weighting)
    c, ratio = loss.c, part.ratio
    factor = ratio * weighting.radius / c
    check_constant(factor, "radius / c", "what the scale's coordinate is multiplied by")
    kappa = min(_consistency(loss), 2.0 * part.chi * c * c)
    half = 0.5 * kappa / (c * c)
    return JointScale(
        free.low,
        free.high,
        free.start,
        factor,
        ratio,
        kappa,
        1.0 + ratio**2 if part.profile is None else 1.0,
        1.0 + (ratio * max(half, part.chi - half)) ** 2,
    )


def _scale_part(loss: Loss, weighting: Weighting) -> ScalePart:
    # A subclass may differ in what the proofs rest on, and inherits nothing here.
    part = loss.scale_part if type(loss) is kind_of(loss.name) else None
    if part is None:
        allowed = sorted(name for name, kind in all_losses().items() if kind.scale_part is not None)
        raise InvalidInput(
            f"the {loss.name} loss cannot be fitted with a free scale: {loss.scale_refusal}. "
            f"Allowed are {allowed}."
        )
    if type(weighting) not in (Bounded, Mallows):
        raise InvalidInput(
            f"{described(weighting)} cannot be combined with a free scale: the scale's score is "
            "bounded only by weights with (||x|| w/R)^2 <= w <= 1. Use dpfast.Mallows(radius) or "
            "dpfast.Bounded(radius)."
        )
    return part


@lru_cache(maxsize=64)
def _consistency(loss: Loss) -> float:
    """``2 E chi(Z)`` by the trapezoidal rule, whose error is below 1e-9 for smooth integrands."""
    z = np.linspace(0.0, 12.0, 48_001)
    chi = z * loss.psi(z) - loss.loss(z)
    values = 4.0 * chi * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return float(values[1:-1].sum() * (z[1] - z[0]))
