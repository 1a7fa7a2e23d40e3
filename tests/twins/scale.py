"""Plain NumPy twin of the compiled record kernels with a free scale (eq. (6), paper 1).

The loss of a record is ``w (sigma rho(r) + kappa sigma / 2)`` and ``theta = (beta, z)`` with
``sigma = scale_factor * z``.  A record is written as a length times a unit vector, and a number,
with formulas other than those of ``csrc/``: pseudo-Huber, for one, by angles.
"""

from __future__ import annotations

import numpy as np

from tests.twins.losses import (
    HUBER,
    LOG_COSH,
    PSEUDO_HUBER,
    majorizer,
    psi,
    psi_prime,
    scaled_residual,
)
from tests.twins.records import (
    BOUNDED,
    HESSIAN,
    MAJORIZER,
    Array,
    _counts,
    _design,
)

__all__ = ["record_sums"]


def _log_cosh_chi(r: Array, c: float) -> Array:
    v = np.abs(r) / c
    small = np.minimum(v, 1.0)
    near = small * np.tanh(small) - np.log1p(2.0 * np.sinh(small / 2.0) ** 2)
    far = np.clip(v, 1.0, 300.0)
    rest = 2.0 * far / (np.exp(2.0 * far) + 1.0) + np.log1p(np.exp(-2.0 * far))
    return c * c * np.where(v < 1.0, near, np.log(2.0) - rest)


#: ``r psi(r) - rho(r)``.
CHI = {
    HUBER: lambda r, c: 0.5 * np.minimum(np.abs(r), c) ** 2,
    LOG_COSH: _log_cosh_chi,
    PSEUDO_HUBER: lambda r, c: c * c * 2.0 * np.sin(np.arctan(np.abs(r) / c) / 2.0) ** 2,
}


def _huber_curvature_times(r: Array, c: float) -> tuple[Array, Array]:
    inside = np.where(np.abs(r) <= c, r, 0.0)
    return inside, inside * inside


def _log_cosh_curvature_times(r: Array, c: float) -> tuple[Array, Array]:
    v = np.clip(r / c, -300.0, 300.0)
    u = v / np.cosh(v)
    return c * u / np.cosh(v), c * c * u * u


def _pseudo_huber_curvature_times(r: Array, c: float) -> tuple[Array, Array]:
    angle = np.arctan(r / c)
    cosine = 1.0 / np.hypot(1.0, r / c)
    return c * np.sin(angle) * cosine**2, c * c * np.sin(angle) ** 2 * cosine


#: ``psi'(r) r`` and ``psi'(r) r^2``.
CURVATURE_TIMES = {
    HUBER: _huber_curvature_times,
    LOG_COSH: _log_cosh_curvature_times,
    PSEUDO_HUBER: _pseudo_huber_curvature_times,
}


def record_sums(
    X: Array,
    y: Array,
    theta: Array,
    *,
    loss: int,
    c: float,
    scale: float,
    weighting: int,
    radius: float,
    intercept: bool,
    scale_factor: float,
    kappa: float,
    want: int,
    divisor: float,
) -> tuple[Array, Array, Array]:
    """Return (gradient, Hessian, meat) summed over records and divided by ``divisor``.

    ``scale`` is ignored.
    """
    sigma = scale_factor * theta[-1]
    with np.errstate(all="ignore"):
        rows = _design(X, weighting, radius, intercept)
        t = rows.times(theta[:-1])
        counts = _counts(rows, t, y, loss)
        r = scaled_residual(np.where(counts, t, 0.0), np.where(counts, y, 0.0), loss, sigma)
        on = counts.astype(float)
        over = rows.length > radius
        w = (
            np.ones(len(y))
            if weighting == BOUNDED
            else np.where(over, radius / rows.length, 1) ** 2
        )
        # w a and w^(1/2) a without overflow
        short = rows.length if weighting == BOUNDED else np.minimum(rows.length, radius)
        weighted = (
            short if weighting == BOUNDED else np.where(over, radius / rows.length, 1) * short
        )

        score_x = -on * psi(r, y, loss, c, 1.0) * weighted
        score_z = on * scale_factor * (kappa / 2.0 - CHI[loss](r, c)) * w
        scores = np.column_stack([rows.unit * score_x[:, None], score_z])
        gradient = scores.sum(axis=0) / divisor
        meat = np.einsum("ij,ik->jk", scores, scores) / divisor

        p = rows.unit.shape[1]
        hessian = np.zeros((p + 1, p + 1))
        if want & MAJORIZER == MAJORIZER:
            slope = on * majorizer(r, y, loss, c, 1.0)
            cross, corner = np.zeros_like(r), on * kappa * w
        else:
            slope = on * psi_prime(r, y, loss, c, 1.0)
            once, twice = CURVATURE_TIMES[loss](r, c)
            cross, corner = on * once * weighted, on * twice * w
        if want & HESSIAN:
            hessian[:p, :p] = np.einsum("i,ij,ik->jk", slope * short**2, rows.unit, rows.unit)
            hessian[:p, p] = hessian[p, :p] = scale_factor * (cross @ rows.unit)
            hessian[p, p] = scale_factor**2 * corner.sum()
        return gradient, hessian / (sigma * divisor), meat
