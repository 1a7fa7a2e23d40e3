"""Plain NumPy twins of the compiled record kernels.

Nothing here is fast and nothing here is shared with ``csrc/``: every record is written as a
length times a unit vector, whole arrays at a time, so that a mistake in the compiled kernels'
algebra, blocking or guards has no counterpart to hide behind.  The tests compare the two.

Codes: losses 0 Huber, 1 log-cosh, 2 pseudo-Huber, 3 logistic, 10 Tukey, 11 Geman-McClure,
12 Welsch, 13 Cauchy; weightings 0 bounded (projection),
1 Mallows, 2 per-record clipping; wanted sums 1 gradient, 2 Hessian, 4 meat (score outer product),
34 the Hessian with the majorising curvature psi(r)/r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.reference_redescending import TUKEY, redescending_psi, redescending_rho

__all__ = ["gradient_change", "loss_difference", "mean_loss", "record_sums"]

HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC = range(4)
BOUNDED, MALLOWS, CLIP = range(3)
GRADIENT, HESSIAN, MEAT, MAJORIZER = 1, 2, 4, 34

Array = NDArray[np.float64]


class _Rows(NamedTuple):
    """Design rows a = length * unit, safe for every float64; ``usable`` marks finite ones."""

    unit: Array
    length: Array
    mantissa: Array
    exponent: NDArray[np.int32]
    usable: NDArray[np.bool_]

    def times(self, theta: Array) -> Array:
        """Return a'theta, overflowing only when the result itself does."""
        return np.ldexp(self.mantissa @ theta, self.exponent)


def _polar(rows: Array) -> _Rows:
    """Split rows into unit vectors and lengths after scaling each by a power of two."""
    usable = np.asarray(np.isfinite(rows).all(axis=1))
    rows = np.where(usable[:, None], rows, 0.0)
    exponent = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    mantissa = np.ldexp(rows, -exponent[:, None])
    norm = np.sqrt(np.einsum("ij,ij->i", mantissa, mantissa))
    unit = mantissa / np.where(norm > 0.0, norm, 1.0)[:, None]
    return _Rows(unit, np.ldexp(norm, exponent), mantissa, exponent, usable)


def _design(X: Array, weighting: int, radius: float, intercept: bool) -> _Rows:
    """Rows xi: the intercept column added and, for BOUNDED, the x part projected."""
    usable = np.asarray(np.isfinite(X).all(axis=1))
    if weighting == BOUNDED:
        room = np.sqrt((radius - 1.0) * (radius + 1.0)) if intercept else radius
        x = _polar(X)
        projected = np.minimum(x.length, room)[:, None] * x.unit
        X = np.where((x.length > room)[:, None], projected, X)
    if intercept:
        X = np.column_stack([np.ones(len(X)), X])
    return _polar(X)._replace(usable=usable)


def _residual(t: Array, y: Array, loss: int, scale: float) -> Array:
    """Scaled residual; for the logistic loss the signed margin (2y - 1) t."""
    return (2.0 * y - 1.0) * t if loss == LOGISTIC else (y - t) / scale


def _rho(r: Array, loss: int, c: float) -> Array:
    if loss >= TUKEY:
        return redescending_rho(r, loss, c)
    u = np.abs(r) / c
    if loss == LOGISTIC:
        return np.logaddexp(0.0, -r)
    if loss == HUBER:
        return np.where(u <= 1.0, 0.5 * r * r, c * np.abs(r) - 0.5 * c * c)
    if loss == LOG_COSH:
        small = np.log1p(2.0 * np.sinh(np.minimum(u, 1.0) / 2.0) ** 2)
        return c * c * np.where(u < 1.0, small, u - np.log(2.0) + np.log1p(np.exp(-2.0 * u)))
    slant = np.where(np.isinf(u), 1.0, u / (1.0 + np.hypot(1.0, u)))
    return c * c * u * slant


def _rho_far(r: Array, loss: int, c: float) -> Array:
    """rho less its asymptote (c |r|; logistic: max(-r, 0)), for |r| > c."""
    u = np.abs(r) / c
    if loss == LOGISTIC:
        return np.log1p(np.exp(-np.abs(r)))
    if loss == HUBER:
        return np.full_like(u, -0.5 * c * c)
    if loss == LOG_COSH:
        return c * c * (np.log1p(np.exp(-2.0 * u)) - np.log(2.0))
    return c * c * (1.0 / (np.hypot(1.0, u) + u) - 1.0)


def _psi(r: Array, y: Array, loss: int, c: float) -> Array:
    if loss >= TUKEY:
        return redescending_psi(r, loss, c)
    if loss == LOGISTIC:
        return (2.0 * y - 1.0) * np.exp(-np.logaddexp(0.0, r))
    if loss == HUBER:
        return np.clip(r, -c, c)
    if loss == LOG_COSH:
        return c * np.tanh(r / c)
    u = np.clip(r / c, -1e150, 1e150)
    return c * (u / np.hypot(1.0, u))


def _psi_prime(r: Array, loss: int, c: float) -> Array:
    if loss == LOGISTIC:
        return np.exp(-np.logaddexp(0.0, r) - np.logaddexp(0.0, -r))
    if loss == HUBER:
        return (np.abs(r) <= c).astype(np.float64)
    if loss == LOG_COSH:
        return (1.0 / np.cosh(r / c)) ** 2
    return (1.0 / np.hypot(1.0, r / c)) ** 3


def _majorizer(r: Array, loss: int, c: float) -> Array:
    """Chord slope psi(r)/r; for the logistic loss tanh(r/2)/(2r)."""
    x = np.abs(r) / 2.0 if loss == LOGISTIC else np.abs(r) / c
    if loss == LOGISTIC:
        return 0.25 * np.where(x > 0.0, np.tanh(x) / x, 1.0)
    if loss == HUBER:
        return np.minimum(1.0, 1.0 / x)
    if loss == LOG_COSH:
        return np.where(x > 0.0, np.tanh(x) / x, 1.0)
    return 1.0 / np.hypot(1.0, x)


def _counts(rows: _Rows, t: Array, y: Array, loss: int) -> NDArray[np.bool_]:
    """Records that contribute; all others contribute exactly zero."""
    counts = rows.usable & np.isfinite(y) & ~np.isnan(t)
    return counts & ((y == 0.0) | (y == 1.0)) if loss == LOGISTIC else counts


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
    want: int,
    divisor: float,
) -> tuple[Array | None, Array | None, Array | None]:
    """Return (gradient, Hessian, meat) summed over records and divided by ``divisor``.

    Sums that ``want`` does not ask for are None.
    """
    with np.errstate(all="ignore"):
        rows = _design(X, weighting, radius, intercept)
        t = rows.times(theta)
        counts = _counts(rows, t, y, loss)
        r = _residual(np.where(counts, t, 0.0), np.where(counts, y, 0.0), loss, scale)
        psi = np.where(counts, _psi(r, np.where(counts, y, 0.0), loss, c), 0.0)
        slope = _majorizer if want & MAJORIZER == MAJORIZER else _psi_prime
        psi_prime = slope(r, loss, c) if want & HESSIAN else np.zeros(len(r))
        psi_prime = np.where(counts, psi_prime, 0.0)

        size = np.abs(psi)
        if weighting == CLIP:
            score = np.where(size > 0.0, np.minimum(size * rows.length, radius), 0.0)
        elif weighting == MALLOWS:
            reach = np.minimum(rows.length, radius * (radius / rows.length))
            score = np.where(rows.length > 0.0, size * reach, 0.0)
        else:
            score = size * rows.length

        gradient = hessian = meat = None
        if want & GRADIENT:
            gradient = -(rows.unit.T @ (np.sign(psi) * score)) / divisor
        if want & HESSIAN:
            cap = np.inf if weighting == BOUNDED else radius * radius
            curvature = psi_prime * np.minimum(rows.length**2, cap)
            hessian = (rows.unit.T * curvature) @ rows.unit / scale / divisor
            hessian = 0.5 * (hessian + hessian.T)
        if want & MEAT:
            meat = (rows.unit.T * score**2) @ rows.unit / divisor
            meat = 0.5 * (meat + meat.T)
    return gradient, hessian, meat


def _weights(rows: _Rows, weighting: int, radius: float) -> Array:
    if weighting == BOUNDED:
        return np.ones(len(rows.length))
    return np.minimum(1.0, (radius / rows.length) ** 2)


def mean_loss(
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
    divisor: float,
) -> float:
    """Return the sum of the weighted losses divided by ``divisor``."""
    with np.errstate(all="ignore"):
        rows = _design(X, weighting, radius, intercept)
        t = rows.times(theta)
        counts = _counts(rows, t, y, loss)
        r = _residual(np.where(counts, t, 0.0), np.where(counts, y, 0.0), loss, scale)
        losses = scale * _weights(rows, weighting, radius) * _rho(r, loss, c)
        return float(np.where(counts, losses, 0.0).sum() / divisor)


def loss_difference(
    X: Array,
    y: Array,
    theta_new: Array,
    theta_old: Array,
    *,
    loss: int,
    c: float,
    scale: float,
    weighting: int,
    radius: float,
    intercept: bool,
    divisor: float,
) -> float:
    """Return the summed L(theta_new) - L(theta_old) over records divided by ``divisor``.

    Each record is held to |difference| <= psi_max |w xi'(theta_new - theta_old)|.
    """
    with np.errstate(all="ignore"):
        rows = _design(X, weighting, radius, intercept)
        new, old = rows.times(theta_new), rows.times(theta_old)
        counts = _counts(rows, new, y, loss) & _counts(rows, old, y, loss)
        label = np.where(counts, y, 0.0)
        r_new = _residual(np.where(counts, new, 0.0), label, loss, scale)
        r_old = _residual(np.where(counts, old, 0.0), label, loss, scale)
        weight = _weights(rows, weighting, radius)
        reach = rows.length
        if weighting != BOUNDED:
            reach = np.minimum(rows.length, radius * (radius / rows.length))
        reach = np.where(rows.length > 0.0, reach, 0.0)
        steepest = 1.0 if loss == LOGISTIC else c
        step = steepest * reach * (rows.unit @ (theta_new - theta_old))
        limit = np.abs(step)

        # Where both residuals lie far out on the same side the losses differ by the step along
        # their common asymptote and little else, however large they are.
        near = scale * weight * (_rho(r_new, loss, c) - _rho(r_old, loss, c))
        asymptote = -np.sign(r_old) * step
        if loss == LOGISTIC:
            asymptote = np.where(r_old < 0.0, -(2.0 * label - 1.0) * step, 0.0)
        far = scale * weight * (_rho_far(r_new, loss, c) - _rho_far(r_old, loss, c))
        is_far = (np.minimum(np.abs(r_new), np.abs(r_old)) > c) & (r_new * np.sign(r_old) > 0.0)
        is_far &= loss < TUKEY
        difference = np.where(is_far, asymptote + far, near)
        difference = np.clip(difference, -limit, limit)
        return float(np.where(counts & ~np.isnan(difference), difference, 0.0).sum() / divisor)


def gradient_change(
    X: Array,
    y: Array,
    theta_new: Array,
    theta_old: Array,
    *,
    loss: int,
    c: float,
    scale: float,
    weighting: int,
    radius: float,
    intercept: bool,
    limit: float,
    divisor: float,
) -> Array:
    """Return the sum of each record's change of gradient, clipped to ``limit``, / ``divisor``."""
    with np.errstate(all="ignore"):
        rows = _design(X, weighting, radius, intercept)
        scores = []
        for theta in (theta_new, theta_old):
            t = rows.times(theta)
            counts = _counts(rows, t, y, loss)
            label = np.where(counts, y, 0.0)
            psi = _psi(_residual(np.where(counts, t, 0.0), label, loss, scale), label, loss, c)
            psi = np.where(counts, psi, 0.0)
            if weighting == CLIP:
                size = np.abs(psi)
                size = np.where(size > 0.0, np.minimum(size * rows.length, radius), 0.0)
                psi = np.sign(psi) * size
            scores.append(psi)
        change = scores[1] - scores[0]
        if weighting == MALLOWS:
            reach = np.minimum(rows.length, radius * (radius / rows.length))
            change = change * np.where(rows.length > 0.0, reach, 0.0)
        elif weighting == BOUNDED:
            change = change * rows.length
        change = np.clip(change, -limit, limit)
        return np.asarray(rows.unit.T @ change / divisor)
