"""The losses of the record kernels in plain NumPy, written differently on purpose.

Every function takes the scaled residual ``r`` (logistic: the signed margin), the loss's code, its
constant ``c``, its second constant ``h`` and, for a user's loss, its three scalar functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.reference_redescending import TUKEY, redescending_psi, redescending_rho

Array = NDArray[np.float64]
Functions = Sequence[Callable[[float], float]]

HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC = range(4)
SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE, USER = range(4, 8)


def steepest(loss: int, c: float, h: float) -> float:
    """Largest ``|psi|``."""
    if loss in (LOGISTIC, SMOOTH_ABSOLUTE):
        return 1.0
    return c + h / 2.0 if loss == SMOOTHED_HUBER else c


def scaled_residual(t: Array, y: Array, loss: int, scale: float) -> Array:
    """Scaled residual; for the logistic loss the signed margin (2y - 1) t."""
    return (2.0 * y - 1.0) * t if loss == LOGISTIC else (y - t) / scale


def _each(function: Callable[[float], float], r: Array) -> Array:
    return np.array([function(float(v)) for v in np.ravel(r)], dtype=float).reshape(np.shape(r))


def _corner(r: Array, c: float, h: float) -> Array:
    return np.clip((np.abs(r) - c) / h, 0.0, 1.0)


def rho(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Loss of a residual."""
    if loss >= TUKEY:
        return redescending_rho(r, loss, c)
    u = np.abs(r) / c
    if loss == USER:
        return _each(functions[0], r)
    if loss == LOGISTIC:
        return np.logaddexp(0.0, -r)
    if loss == HUBER:
        return np.where(u <= 1.0, 0.5 * r * r, c * np.abs(r) - 0.5 * c * c)
    if loss == LOG_COSH:
        small = np.log1p(2.0 * np.sinh(np.minimum(u, 1.0) / 2.0) ** 2)
        return c * c * np.where(u < 1.0, small, u - np.log(2.0) + np.log1p(np.exp(-2.0 * u)))
    if loss == SMOOTHED_HUBER:
        a, s = np.abs(r), _corner(r, c, h)
        bent = c * c / 2 + c * h * s + h * h * np.polyval([0.1, -0.25, 0, 0.5, 0, 0], s)
        return np.where(a <= c, 0.5 * a * a, bent + np.maximum(a - c - h, 0.0) * (c + h / 2))
    if loss == OSTROVSKII_BACH:
        z = u * np.where(np.isinf(u), 1.0, 2.0 * u / (1.0 + np.hypot(1.0, 2.0 * u)))
        return np.asarray(c * c * np.where(np.isinf(z), np.inf, z - 0.5 * np.log1p(z)))
    if loss == SMOOTH_ABSOLUTE:
        return np.logaddexp(0.0, r) + np.logaddexp(0.0, -r)
    slant = np.where(np.isinf(u), 1.0, u / (1.0 + np.hypot(1.0, u)))
    return c * c * u * slant


def rho_far(r: Array, loss: int, c: float, h: float) -> Array:
    """Rho less its asymptote (steepest |r|; logistic: max(-r, 0)), for |r| > c."""
    u = np.abs(r) / c
    if loss == LOGISTIC:
        return np.log1p(np.exp(-np.abs(r)))
    if loss == HUBER:
        return np.full_like(u, -0.5 * c * c)
    if loss == LOG_COSH:
        return c * c * (np.log1p(np.exp(-2.0 * u)) - np.log(2.0))
    if loss == SMOOTHED_HUBER:
        a = np.minimum(np.abs(r), c + h)
        return rho(a, loss, c, h) - (c + h / 2) * a
    if loss == OSTROVSKII_BACH:
        u = np.minimum(u, 1e120)
        root = np.hypot(1.0, 2.0 * u)
        log = np.log1p(u * (2.0 * u / (1.0 + root)))
        return -c * c * (u / (1.0 + root) * (1.0 + 1.0 / (root + 2.0 * u)) + 0.5 * log)
    if loss == SMOOTH_ABSOLUTE:
        return 2.0 * np.log1p(np.exp(-np.abs(r)))
    return c * c * (1.0 / (np.hypot(1.0, u) + u) - 1.0)


def psi(r: Array, y: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Derivative of the loss; of a user's loss, held to its bound."""
    if loss >= TUKEY:
        return redescending_psi(r, loss, c)
    if loss == USER:
        value = _each(functions[1], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, -c, c))
    if loss == LOGISTIC:
        return (2.0 * y - 1.0) * np.exp(-np.logaddexp(0.0, r))
    if loss == HUBER:
        return np.clip(r, -c, c)
    if loss == LOG_COSH:
        return c * np.tanh(r / c)
    if loss == SMOOTHED_HUBER:
        rise = h * np.polyval([0.5, -1.0, 0.0, 1.0, 0.0], _corner(r, c, h))
        return np.sign(r) * (np.minimum(np.abs(r), c) + rise)
    if loss == OSTROVSKII_BACH:
        u = np.clip(r / c, -1e150, 1e150)
        return c * (2.0 * u / (1.0 + np.hypot(1.0, 2.0 * u)))
    if loss == SMOOTH_ABSOLUTE:
        return np.tanh(r / 2.0)
    u = np.clip(r / c, -1e150, 1e150)
    return c * (u / np.hypot(1.0, u))


def psi_prime(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Second derivative of the loss; of a user's loss, held to [0, h]."""
    if loss == USER:
        value = _each(functions[2], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, 0.0, h))
    if loss == LOGISTIC:
        return np.exp(-np.logaddexp(0.0, r) - np.logaddexp(0.0, -r))
    if loss == HUBER:
        return (np.abs(r) <= c).astype(np.float64)
    if loss == LOG_COSH:
        return np.asarray((1.0 / np.cosh(r / c)) ** 2)
    if loss == SMOOTHED_HUBER:
        return np.asarray(np.polyval([2.0, -3.0, 0.0, 1.0], _corner(r, c, h)), dtype=np.float64)
    if loss == OSTROVSKII_BACH:
        root = np.hypot(1.0, 2.0 * (r / c))
        return 2.0 / root / (1.0 + root)
    if loss == SMOOTH_ABSOLUTE:
        return 0.5 * (1.0 / np.cosh(r / 2.0)) ** 2
    return (1.0 / np.hypot(1.0, r / c)) ** 3


def majorizer(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Chord slope psi(r)/r; for the logistic loss tanh(r/2)/(2r)."""
    x = np.abs(r) / c
    if loss in (LOGISTIC, SMOOTH_ABSOLUTE):
        x = np.abs(r) / 2.0
        return (0.25 if loss == LOGISTIC else 0.5) * np.where(x > 0.0, np.tanh(x) / x, 1.0)
    if loss == HUBER:
        return np.minimum(1.0, 1.0 / x)
    if loss == LOG_COSH:
        return np.where(x > 0.0, np.tanh(x) / x, 1.0)
    if loss == SMOOTHED_HUBER:
        chord = psi(r, r, loss, c, h) / np.where(r == 0.0, 1.0, r)
        return np.where(np.abs(r) <= c, 1.0, np.minimum(chord, 1.0))
    if loss == OSTROVSKII_BACH:
        return 2.0 / (1.0 + np.hypot(1.0, 2.0 * x))
    if loss == USER:
        near = np.abs(r) <= 1e-150
        chord = psi(r, r, loss, c, h, functions) / np.where(near, 1.0, r)
        chord = np.where(near, psi_prime(r, loss, c, h, functions), chord)
        return np.clip(chord, 0.0, h)
    return 1.0 / np.hypot(1.0, x)
