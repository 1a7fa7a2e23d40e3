"""The losses as the twins of the record kernels see them: the NumPy formulas of their classes.

Every function takes the scaled residual ``r`` (logistic: the signed margin; losses whose functions
have a second argument: the predictor, and the response beside it), the loss's code, its constant
``c``, its second constant ``h`` and, for a user's loss, its three scalar functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpfast.models.custom import CustomLoss
from dpfast.models.losses import Loss
from dpfast.models.names import LOSSES, all_losses
from dpfast.models.poisson import Poisson
from dpfast.models.special_losses import Redescending

Array = NDArray[np.float64]
Functions = Sequence[Callable[[float], float]]

USER, POISSON = CustomLoss.code, Poisson.code
CLASSES = {kind.code: kind for kind in LOSSES.values()}
PREDICTOR = {
    kind.code: kind
    for kind in all_losses().values()
    if len(inspect.signature(kind.psi).parameters) == 3
}
LABELS = [kind.code for kind in all_losses().values() if kind.binary_response]
HUBER, LOG_COSH, PSEUDO_HUBER, LOGISTIC = (
    LOSSES[name].code for name in ("huber", "log-cosh", "pseudo-huber", "logistic")
)
SMOOTHED_HUBER, OSTROVSKII_BACH, SMOOTH_ABSOLUTE, QUANTILE = (
    LOSSES[name].code
    for name in ("smoothed-huber", "ostrovskii-bach", "smooth-absolute", "quantile")
)


#: Which constant of the kernels a parameter of a class is.
SLOTS = {"c": "c", "h": "h", "bandwidth": "c", "tau": "h"}


@lru_cache
def loss_of(code: int, c: float, h: float) -> Loss:
    """The loss of these constants."""
    if code == POISSON:
        return Poisson(largest_mean=h, largest_residual=c)
    if code in PREDICTOR:
        loss = PREDICTOR[code]()
        loss.c = c  # where the kernels hold scores; of the class none are
        return loss
    kind = CLASSES[code]
    constants = {"c": c, "h": h}
    return kind(**{name: constants[SLOTS[name]] for name in inspect.signature(kind).parameters})


def typical(code: int, c: float) -> dict[str, float]:
    """Constants of the kernels near ``c``, those that the loss does not have at 1."""
    slots = {} if code == USER else inspect.signature(CLASSES[code]).parameters
    names = {SLOTS[name]: name for name in slots}
    second = {"h": 0.7 * c, "tau": 0.7}.get(names.get("h", ""), 1.0)
    return {"c": c if "c" in names else 1.0, "h": second}


def has_asymptote(loss: int) -> bool:
    """Whether differences are taken of what is left of an asymptote."""
    return loss not in (USER, *PREDICTOR) and not issubclass(CLASSES[loss], Redescending)


def steepest(loss: int, c: float, h: float) -> float:
    """What the kernels hold differences of losses to: ``sup |psi|``, or c above it."""
    if loss in PREDICTOR:
        return loss_of(loss, c, h).psi_bound
    return c if not has_asymptote(loss) else loss_of(loss, c, h).psi_bound


def asymptote_slopes(loss: int, c: float, h: float) -> tuple[float, float]:
    """The largest -psi and the largest psi of a loss that has asymptotes."""
    if loss == LOGISTIC:
        return 1.0, 1.0
    low, high = loss_of(loss, c, h).psi(np.array([-np.inf, np.inf]))
    return -float(low), float(high)


def scaled_residual(t: Array, y: Array, loss: int, scale: float) -> Array:
    """Scaled residual; for the logistic loss the signed margin (2y - 1) t, or t."""
    if loss in PREDICTOR:
        return t
    return (2.0 * y - 1.0) * t if loss == LOGISTIC else (y - t) / scale


def _each(function: Callable[[float], float], r: Array) -> Array:
    return np.array([function(float(v)) for v in np.ravel(r)], dtype=float).reshape(np.shape(r))


def rho(r: Array, y: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Loss of a residual."""
    if loss in PREDICTOR:
        return loss_of(loss, c, h).loss(r, y)
    if loss == USER:
        return _each(functions[0], r)
    return loss_of(loss, c, h).loss(-r if loss == LOGISTIC else r)


def rho_far(r: Array, loss: int, c: float, h: float) -> Array:
    """Rho less its asymptote (|r| by its slope; logistic: max(-r, 0)), for |r| > c."""
    return BEYOND_ASYMPTOTE[loss](np.abs(r), c, h)


def _smoothed_huber_beyond(a: Array, c: float, h: float) -> Array:
    a = np.minimum(a, c + h)
    return rho(a, a, SMOOTHED_HUBER, c, h) - (c + h / 2) * a


def _ostrovskii_bach_beyond(a: Array, c: float, h: float) -> Array:
    u = np.minimum(a / c, 1e120)
    root = np.hypot(1.0, 2.0 * u)
    log = np.log1p(u * (2.0 * u / (1.0 + root)))
    return -c * c * (u / (1.0 + root) * (1.0 + 1.0 / (root + 2.0 * u)) + 0.5 * log)


#: What is left of the loss of ``|r| > c`` without its asymptote.
BEYOND_ASYMPTOTE: dict[int, Callable[[Array, float, float], Array]] = {
    HUBER: lambda a, c, h: np.full_like(a, -0.5 * c * c),
    LOG_COSH: lambda a, c, h: c * c * (np.log1p(np.exp(-2.0 * (a / c))) - np.log(2.0)),
    PSEUDO_HUBER: lambda a, c, h: c * c * (1.0 / (np.hypot(1.0, a / c) + a / c) - 1.0),
    LOGISTIC: lambda a, c, h: np.log1p(np.exp(-a)),
    SMOOTHED_HUBER: _smoothed_huber_beyond,
    OSTROVSKII_BACH: _ostrovskii_bach_beyond,
    SMOOTH_ABSOLUTE: lambda a, c, h: 2.0 * np.log1p(np.exp(-a)),
    QUANTILE: lambda a, c, h: c * np.log1p(np.exp(-a / c)),
}


def psi(r: Array, y: Array, loss: int, c: float, h: float, functions: Functions = ()) -> Array:
    """Derivative of the loss; of a user's loss, held to its bound."""
    if loss == USER:
        value = _each(functions[1], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, -c, c))
    if loss == LOGISTIC:
        return (2.0 * y - 1.0) * loss_of(loss, c, h).psi(-r)
    if loss in PREDICTOR:
        return -loss_of(loss, c, h).psi(r, y)
    return loss_of(loss, c, h).psi(r)


def psi_prime(
    r: Array, y: Array, loss: int, c: float, h: float, functions: Functions = ()
) -> Array:
    """Second derivative of the loss; of a user's loss, held to [0, h]."""
    if loss in PREDICTOR:
        return loss_of(loss, c, h).psi_prime(r, y)
    if loss == USER:
        value = _each(functions[2], r)
        return np.where(np.isnan(value), 0.0, np.clip(value, 0.0, h))
    return loss_of(loss, c, h).psi_prime(r)


def majorizer(
    r: Array, y: Array, loss: int, c: float, h: float, functions: Functions = ()
) -> Array:
    """Chord slope psi(r)/r; for the logistic loss tanh(r/2)/(2r)."""
    if loss in PREDICTOR:
        return loss_of(loss, c, h).majorizer(r, y)
    if loss == USER:
        near = np.abs(r) <= 1e-150
        chord = psi(r, r, loss, c, h, functions) / np.where(near, 1.0, r)
        chord = np.where(near, psi_prime(r, y, loss, c, h, functions), chord)
        return np.clip(chord, 0.0, h)
    return loss_of(loss, c, h).majorizer(r)
