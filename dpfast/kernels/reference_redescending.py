"""Plain NumPy twins of the redescending losses (codes 10 Tukey to 13 Cauchy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["TUKEY", "redescending_psi", "redescending_rho"]

TUKEY, GEMAN_MCCLURE, WELSCH, CAUCHY = 10, 11, 12, 13

Array = NDArray[np.float64]

#: Beyond this residual, in units of c, every psi here is zero or c/u to the last bit.
FAR = 1e150


def redescending_psi(r: Array, loss: int, c: float) -> Array:
    """psi, odd, with its values far out written as powers of 1/u."""
    u = np.clip(r / c, -FAR, FAR)
    if loss == TUKEY:
        return np.where(np.abs(u) < 1.0, r * ((1.0 - u) * (1.0 + u)) ** 2, 0.0)
    slant = np.hypot(1.0, u)
    if loss == GEMAN_MCCLURE:
        return c * (((u / slant) / slant) / slant) / slant
    if loss == WELSCH:
        return c * u * np.exp(-np.square(np.clip(u, -30.0, 30.0)))
    return c * ((u / slant) / slant)


def redescending_rho(r: Array, loss: int, c: float) -> Array:
    """rho, even."""
    u = np.minimum(np.abs(r) / c, FAR)
    if loss == TUKEY:
        v = np.minimum(u, 1.0) ** 2
        return -c * c / 6.0 * np.expm1(3.0 * np.log1p(-v))
    if loss == GEMAN_MCCLURE:
        return 0.5 * c * c * (u / np.hypot(1.0, u)) ** 2
    if loss == WELSCH:
        return -0.5 * c * c * np.expm1(-np.square(np.minimum(u, 30.0)))
    return 0.5 * c * c * np.where(u < 1.0, np.log1p(u * u), 2.0 * np.log(np.hypot(1.0, u)))
