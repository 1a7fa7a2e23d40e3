"""Plain NumPy twins of the compiled record kernels.

Nothing here is fast and nothing here is shared with ``csrc/``: every record is written as a
length times a unit vector, whole arrays at a time, so that a mistake in the compiled kernels'
algebra, blocking or guards has no counterpart to hide behind.  The tests compare the two.

Codes: losses as in ``csrc/losses/list.h``; weightings 0 bounded (projection), 1 Mallows, 2
per-record clipping, 3 Schweppe, 4 Mallows with the first power of the norm; wanted sums 1 gradient,
2 Hessian, 4 meat (score outer product), 34 the Hessian with the majorising curvature psi(r)/r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.twins.losses import (
    LABELS,
    LOGISTIC,
    PREDICTOR,
    USER,
    Functions,
    asymptote_slopes,
    has_asymptote,
    majorizer,
    psi as psi_of,
    psi_prime as psi_prime_of,
    rho,
    rho_far,
    scaled_residual,
    steepest as steepest_of,
)

__all__ = ["gradient_change", "loss_difference", "mean_loss", "record_sums"]

BOUNDED, MALLOWS, CLIP, SCHWEPPE, MALLOWS_LINEAR = range(5)
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


def _norms(rows: _Rows) -> Array:
    """Lengths of the rows before their exponents are applied."""
    return np.sqrt(np.einsum("ij,ij->i", rows.mantissa, rows.mantissa))


class _Beside(NamedTuple):
    """Responses, NaN where a record counts for nothing; its weight; what joins its predictor."""

    y: Array
    weight: Array
    shift: Array


def _beside(y: Array, loss: int, largest_weight: float) -> _Beside:
    """Columns of (response, weight, offset), or responses alone."""
    if y.ndim == 1:
        return _Beside(y, np.ones(len(y)), np.zeros(len(y)))
    response, weight, offset = y.T
    positive = weight > 0.0  # NaN is not
    weight = np.minimum(np.where(positive, weight, 0.0), largest_weight)
    counts = positive & np.isfinite(offset)
    offset = np.where(counts, offset, 0.0)
    if loss == LOGISTIC or loss in PREDICTOR:
        return _Beside(np.where(counts, response, np.nan), weight, offset)
    return _Beside(np.where(counts, response - offset, np.nan), weight, np.zeros(len(y)))


class _Seen(NamedTuple):
    """Predictor and response as the loss sees them."""

    t: Array
    y: Array


def _seen(rows: _Rows, theta: Array, y: Array, weighting: int, radius: float) -> _Seen:
    """With Schweppe weights both are multiplied by v = min(1, C/||a||)."""
    t = rows.times(theta)
    if weighting != SCHWEPPE:
        return _Seen(t, y)
    longer = rows.length > radius
    scaled = np.ldexp(y, -rows.exponent) * (radius / _norms(rows))
    return _Seen(np.where(longer, radius * (rows.unit @ theta), t), np.where(longer, scaled, y))


def _counts(rows: _Rows, t: Array, y: Array, loss: int) -> NDArray[np.bool_]:
    """Records that contribute; all others contribute exactly zero."""
    counts = rows.usable & np.isfinite(y) & ~np.isnan(t)
    return counts & ((y == 0.0) | (y == 1.0)) if loss in LABELS else counts


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
    h: float = 1.0,
    functions: Functions = (),
    largest_weight: float = 1.0,
    want: int,
    divisor: float,
    absolute: bool = False,
) -> tuple[Array | None, Array | None, Array | None]:
    """Return (gradient, Hessian, meat) summed over records and divided by ``divisor``.

    Sums that ``want`` does not ask for are None.  ``absolute`` adds up the contributions' sizes,
    entry by entry: each is a number times a row, or times its square.
    """
    with np.errstate(all="ignore"):
        y, own, shift = _beside(y, loss, largest_weight)
        rows = _design(X, weighting, radius, intercept)
        t, seen_y = _seen(rows, theta, y, weighting, radius)
        t = t + shift
        counts = _counts(rows, t, y, loss)
        label = np.where(counts, seen_y, 0.0)
        r = scaled_residual(np.where(counts, t, 0.0), label, loss, scale)
        counts &= ~np.isnan(r)
        r = np.where(counts, r, 0.0)
        psi = np.where(counts, psi_of(r, label, loss, c, h, functions), 0.0)
        slope = majorizer if want & MAJORIZER == MAJORIZER else psi_prime_of
        psi_prime = slope(r, label, loss, c, h, functions) if want & HESSIAN else np.zeros(len(r))
        psi_prime = np.where(counts, psi_prime, 0.0)

        size = np.abs(psi)
        if weighting == CLIP:
            score = np.where(size > 0.0, np.minimum(size * rows.length, radius), 0.0)
        elif weighting != BOUNDED:
            reach = _reach(rows, weighting, radius)
            score = np.where(rows.length > 0.0, size * reach, 0.0)
        else:
            score = size * rows.length

        gradient = hessian = meat = None
        steps = own * np.sign(psi) * score
        if absolute:
            rows, steps = rows._replace(unit=np.abs(rows.unit)), -np.abs(steps)
            psi_prime = np.abs(psi_prime)
        if want & GRADIENT:
            gradient = -(rows.unit.T @ steps) / divisor
        if want & HESSIAN:
            cap = np.inf if weighting == BOUNDED else radius * radius
            curvature = own * psi_prime * np.minimum(rows.length**2, cap)
            hessian = (rows.unit.T * curvature) @ rows.unit / scale / divisor
            hessian = 0.5 * (hessian + hessian.T)
        if want & MEAT:
            meat = (rows.unit.T * (own * score) ** 2) @ rows.unit / divisor
            meat = 0.5 * (meat + meat.T)
    return gradient, hessian, meat


def _reach(rows: _Rows, weighting: int, radius: float) -> Array:
    """Length of w times the row, or of the scaled row."""
    if weighting in (SCHWEPPE, MALLOWS_LINEAR):
        return np.minimum(rows.length, radius)
    return np.minimum(rows.length, radius * (radius / rows.length))


def _weights(rows: _Rows, weighting: int, radius: float) -> Array:
    if weighting in (BOUNDED, SCHWEPPE):
        return np.ones(len(rows.length))
    if weighting == MALLOWS_LINEAR:
        return np.minimum(1.0, np.ldexp(radius / _norms(rows), -rows.exponent))
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
    h: float = 1.0,
    functions: Functions = (),
    largest_weight: float = 1.0,
    divisor: float,
) -> float:
    """Return the sum of the weighted losses divided by ``divisor``."""
    with np.errstate(all="ignore"):
        y, own, shift = _beside(y, loss, largest_weight)
        rows = _design(X, weighting, radius, intercept)
        t, seen_y = _seen(rows, theta, y, weighting, radius)
        t = t + shift
        counts = _counts(rows, t, y, loss)
        label = np.where(counts, seen_y, 0.0)
        r = scaled_residual(np.where(counts, t, 0.0), label, loss, scale)
        value = rho(r, label, loss, c, h, functions)
        if loss == USER:
            counts &= ~np.isnan(value)
        losses = own * scale * _weights(rows, weighting, radius) * value
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
    h: float = 1.0,
    functions: Functions = (),
    largest_weight: float = 1.0,
    divisor: float,
) -> float:
    """Return the summed L(theta_new) - L(theta_old) over records divided by ``divisor``.

    Each record is held to |difference| <= psi_max |w xi'(theta_new - theta_old)|.
    """
    with np.errstate(all="ignore"):
        y, own, shift = _beside(y, loss, largest_weight)
        rows = _design(X, weighting, radius, intercept)
        new, seen_y = _seen(rows, theta_new, y, weighting, radius)
        new, old = new + shift, _seen(rows, theta_old, y, weighting, radius).t + shift
        counts = _counts(rows, new, y, loss) & _counts(rows, old, y, loss)
        label = np.where(counts, seen_y, 0.0)
        r_new = scaled_residual(np.where(counts, new, 0.0), label, loss, scale)
        r_old = scaled_residual(np.where(counts, old, 0.0), label, loss, scale)
        weight = _weights(rows, weighting, radius)
        reach = rows.length if weighting == BOUNDED else _reach(rows, weighting, radius)
        reach = np.where(rows.length > 0.0, reach, 0.0)
        step = steepest_of(loss, c, h) * reach * (rows.unit @ (theta_new - theta_old))
        limit = np.abs(step)

        # Where both residuals lie far out on the same side the losses differ by the step along
        # their common asymptote and little else, however large they are.
        values = [rho(r, label, loss, c, h, functions) for r in (r_new, r_old)]
        difference = scale * weight * (values[0] - values[1])
        if has_asymptote(loss):
            reach_step = reach * (rows.unit @ (theta_new - theta_old))
            falling, rising = asymptote_slopes(loss, c, h)
            asymptote = reach_step * np.where(r_old < 0.0, falling, -rising)
            if loss == LOGISTIC:
                asymptote = np.where(r_old < 0.0, -(2.0 * label - 1.0) * step, 0.0)
            far = scale * weight * (rho_far(r_new, loss, c, h) - rho_far(r_old, loss, c, h))
            is_far = (np.minimum(np.abs(r_new), np.abs(r_old)) > c) & (r_new * np.sign(r_old) > 0.0)
            difference = np.where(is_far, asymptote + far, difference)
        difference = own * np.clip(difference, -limit, limit)
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
    h: float = 1.0,
    functions: Functions = (),
    largest_weight: float = 1.0,
    limit: float,
    divisor: float,
) -> Array:
    """Return the sum of each record's change of gradient, clipped to ``limit``, / ``divisor``."""
    with np.errstate(all="ignore"):
        y, own, shift = _beside(y, loss, largest_weight)
        rows = _design(X, weighting, radius, intercept)
        scores = []
        for theta in (theta_new, theta_old):
            t, seen_y = _seen(rows, theta, y, weighting, radius)
            t = t + shift
            counts = _counts(rows, t, y, loss)
            label = np.where(counts, seen_y, 0.0)
            r = scaled_residual(np.where(counts, t, 0.0), label, loss, scale)
            psi = np.where(counts, psi_of(r, label, loss, c, h, functions), 0.0)
            if weighting == CLIP:
                size = np.abs(psi)
                size = np.where(size > 0.0, np.minimum(size * rows.length, radius), 0.0)
                psi = np.sign(psi) * size
            scores.append(psi)
        change = scores[1] - scores[0]
        if weighting in (MALLOWS, SCHWEPPE, MALLOWS_LINEAR):
            reach = _reach(rows, weighting, radius)
            change = change * np.where(rows.length > 0.0, reach, 0.0)
        elif weighting == BOUNDED:
            change = change * rows.length
        change = np.clip(change, -limit, limit)
        return np.asarray(rows.unit.T @ (own * change) / divisor)
