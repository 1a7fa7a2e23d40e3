"""The losses as the twins of the record kernels see them: the NumPy formulas of their classes.

Every function takes the scaled residual ``r`` (logistic: the signed margin), the loss's code, its
constant ``c``, its second constant ``h`` and, for a user's loss, its three scalar functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpfast.models.custom import CustomLoss
from dpfast.models.losses import LOSSES, Loss

Array = NDArray[np.float64]
Functions = Sequence[Callable[[float], float]]

USER = CustomLoss.code
CLASSES = {kind.code: kind for kind in LOSSES.values()}
HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC = (
    LOSSES[name].code for name in ("huber", "log-cosh", "pseudo-huber", "logistic")
)
SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE = (
    LOSSES[name].code for name in ("smoothed-huber", "ostrovskii-bach", "smooth-absolute")
)


@lru_cache
def loss_of(code: int, c: float, h: float) -> Loss:
    """The loss of these constants."""
    kind = CLASSES[code]
    constants = {"c": c, "h": h}
    return kind(*[constants[name] for name in inspect.signature(kind).parameters])


def has_asymptote(loss: int) -> bool:
    """Whether differences are taken of what is left of an asymptote."""
    return loss != USER and CLASSES[loss].has_asymptote


def steepest(loss: int, c: float, h: float) -> float:
    """What the kernels hold differences of losses to: ``sup |psi|``, or c above it."""
    return c if not has_asymptote(loss) else loss_of(loss, c, h).psi_bound


def scaled_residual(t: Array, y: Array, loss: int, scale: float) -> Array:
    """Scaled residual; for the logistic loss the signed margin (2y - 1) t."""
    return (2.0 * y - 1.0) * t if loss == LOGISTIC else (y - t) / scale


def _each(function: Callable[[float], float], r: Array) -> Array:
    return np.array([function(float(v)) for v in np.ravel(r)], dtype=float).reshape(np.shape(r))


def rho(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Loss of a residual."""
    if loss == USER:
        return _each(functions[0], r)
    return loss_of(loss, c, h).loss(-r if loss == LOGISTIC else r)


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
    if loss == USER:
        value = _each(functions[1], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, -c, c))
    if loss == LOGISTIC:
        return (2.0 * y - 1.0) * loss_of(loss, c, h).psi(-r)
    return loss_of(loss, c, h).psi(r)


def psi_prime(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Second derivative of the loss; of a user's loss, held to [0, h]."""
    if loss == USER:
        value = _each(functions[2], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, 0.0, h))
    return loss_of(loss, c, h).psi_prime(r)


def majorizer(r: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Chord slope psi(r)/r; for the logistic loss tanh(r/2)/(2r)."""
    if loss == USER:
        near = np.abs(r) <= 1e-150
        chord = psi(r, r, loss, c, h, functions) / np.where(near, 1.0, r)
        chord = np.where(near, psi_prime(r, loss, c, h, functions), chord)
        return np.clip(chord, 0.0, h)
    return loss_of(loss, c, h).majorizer(r)
