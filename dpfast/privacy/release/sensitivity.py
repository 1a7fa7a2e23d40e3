"""Sensitivities of a minimiser, of its Hessian and of a functional.

Records are ``h(x'theta)`` with ``|h'| <= B1``, ``|h'''| <= c h''`` and ``||x|| <= radius``, with a
ridge ``lreg >= 0`` (theorem A, claim R2); proofs in ``PROOFS-release.md``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.errors import InvalidInput, described
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_PRODUCT
from dpfast.privacy.sensitivity import check_constants, relative_slack

_UP = 1.0 + ROUNDING_FORMULA
_DOWN = 1.0 - ROUNDING_FORMULA

#: Rows are projected in floating point: their exact squared norm may exceed the declared one by
#: less than this part.
ROWS = 1.0 + 1e-11

#: Sensitivity of a step along a direction, in cells of its grid (claim R39).
STEP_COUNT = 1 << 16

#: Cells of a clipped number's grid on either side of zero.  A record moves the sum of cells by at
#: most twice as many (claim R40).
HELD_CELLS = 1 << 24

#: Largest step relative to the released eigenvalue; above it no functional is released.
MAX_STEP = 0.5

#: Relative error of the computed Delta that the scale of a functional covers (claim R6).
EVALUATION = 1e-8

#: Four times the largest relative error of Delta that is covered (claim R29).
MAX_ERROR = 1e-3

#: Significant bits of a tolerance, so that few calibrations are computed.
TOLERANCE_BITS = 3

#: Smallest tolerance, for the same reason.
MIN_CHANGE = 2.0**-12

#: Largest change of Delta; above it no functional is released in proportion to Delta.
MAX_CHANGE = 0.5


def _nonnegative(**values: float) -> None:
    for name, value in values.items():
        if not 0.0 <= value < math.inf:
            raise InvalidInput(
                f"{name} must be finite and at least 0; received {described(value)}."
            )


# ---- theorem A ----------------------------------------------------------------------------------


def eigenvalue_step(c: float, B1: float, radius: float, n: int) -> float:
    """Return ``2 c B1 radius^2 / n``, of the minimiser's smallest eigenvalue (claim R3)."""
    check_constants(c=c, B1=B1, radius=radius, n=n)
    return 2.0 * c * B1 * radius * radius / n * ROWS * _UP


def hessian_ratio(s: float, l0: float) -> float:
    """Return ``v = -log(1 - s/l0)``: Hessians of neighbours differ by at most exp(v) (R3)."""
    check_constants(s=s)
    if not l0 > s:
        return math.inf
    q = s / l0 * _UP
    return math.inf if q >= 1.0 else -math.log1p(-q) * _UP


def parameter_shift(l0: float, lreg: float, c: float, B1: float, radius: float, n: int) -> float:
    """Bound the shift of the minimiser if the smallest eigenvalue is at least l0 (claim R4)."""
    check_constants(c=c, B1=B1, radius=radius, n=n)
    _nonnegative(lreg=lreg)
    min_curvature = max(l0 - lreg, 0.0) * _DOWN if l0 > lreg else 0.0  # NaN certifies nothing
    rate = c * radius * ROWS
    push = 2.0 * B1 * radius / n * ROWS * _UP

    def reaches(t: float) -> bool:
        pull = min_curvature * (-math.expm1(-rate * t)) / rate + lreg * t
        return pull * _DOWN >= push

    high = push / (min_curvature + lreg) if min_curvature + lreg > 0.0 else math.inf
    for _ in range(2100):  # doubling spans the whole range of floats
        if not high < math.inf:
            return math.inf
        if reaches(high):
            break
        high *= 2.0
    low = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= 1e-13 * high:
            break
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high


# ---- one functional -----------------------------------------------------------------------------


def small_enough(v: float, solver_error: float) -> bool:
    """Decide whether a step beside the eigenvalue is small enough to release a functional."""
    _nonnegative(solver_error=solver_error)
    return 0.0 <= v <= -math.log1p(-MAX_STEP) * _UP and solver_error <= 1.0


class ShiftFactors(NamedTuple):
    """``|shift| <= of_delta Delta + of_psi Psi``, and how Psi and the Hessian may be off (R6)."""

    of_delta: float
    of_psi: float
    push: float
    whole: float


def shift_factors(v: float, solver_error: float) -> ShiftFactors:
    """Bound the shift of a functional, errors of the solver included (claim R6)."""
    e = solver_error
    below = math.exp(-e) * (v / math.expm1(v) if v > 0.0 else 1.0)
    above = math.exp(e) * (v / -math.expm1(-v) if v > 0.0 else 1.0)
    half = 0.5 * (above - below) + 2.0**-48
    push = math.exp(0.5 * e) * _UP
    shift = (half + e + e * math.exp(0.5 * v)) * push * _UP
    return ShiftFactors(0.5 * (above + below) * _UP, shift, push, v + 2.0 * e)


def evaluation_error(dimension: int, largest: float, l0: float) -> float:
    """Bound the relative error of Delta and Psi computed by a Cholesky solution (claim R6)."""
    check_constants(dimension=dimension, largest=largest, l0=l0)
    solution = 4.0 * dimension * (3.0 * dimension + 2.0) * 2.0**-53 * largest / l0
    return solution + 8.0 * (dimension + 8.0) * 2.0**-53 * math.sqrt(largest / l0)


def psi_over_delta(
    radius: float, inner_radius: float, l0: float, largest: float, solver_error: float = 0.0
) -> float:
    """Return ``radius/inner_radius sqrt(largest/l0)``, a bound of ``Psi/Delta`` (claim R29)."""
    if not inner_radius > 0.0:
        return math.inf
    condition = max(largest / l0, 1.0)
    return radius / inner_radius * math.sqrt(condition) * math.exp(0.5 * solver_error) * ROWS * _UP


class ProportionalFactors(NamedTuple):
    """The scale ``omega = factor * Delta`` of a functional, and how much it may differ (R29)."""

    factor: float
    tau: float


def proportional_factors(
    v: float, spread: float, solver_error: float = 0.0
) -> ProportionalFactors | None:
    """Find a scale in proportion to Delta, and the tolerance that it keeps (claim R29)."""
    error = 4.0 * EVALUATION * (1.0 + spread)
    if not (small_enough(v, solver_error) and error <= MAX_ERROR):
        return None
    of_delta, of_psi, push, total = shift_factors(v, solver_error)
    change = (math.cosh(total) - 1.0 + math.sinh(total) * push * spread) * _UP + 2.0**-48
    if change > MAX_CHANGE:
        return None
    factor = (of_delta + of_psi * spread) * (1.0 + 2.0 * error) * _UP
    return ProportionalFactors(factor, _few_bits_above(change + 2.1 * error * (1.0 + change)))


def _few_bits_above(x: float) -> float:
    x = max(x, MIN_CHANGE)
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(mantissa, TOLERANCE_BITS)), exponent - TOLERANCE_BITS)


def public_scale(
    factor: float, B1: float, radius: float, n: int, l0: float, norm: float, *, support: float,
    solver_error: float = 0.0,
) -> float:  # fmt: skip
    """Bound the secret scale ``omega = factor * Delta`` by a public number (claim R7)."""
    check_constants(factor=factor, B1=B1, radius=radius, n=n, l0=l0, norm=norm)
    longest = radius * norm
    inner = factor * 0.5 * (longest + min(longest, support))
    margin = (1.0 + 0.25 * MAX_ERROR) * ROWS * _UP
    return 2.0 * B1 / (n * l0) * inner * math.exp(solver_error) * margin


# ---- the released eigenvalue --------------------------------------------------------------------


def scaled_count(
    lam: float, s: float, eta: float, M: int = COUNT, *, largest: float = math.inf
) -> int:
    """Compute ``floor(M max(lam - s, 0) / (s + 2 eta))`` in exact rationals (claim R5)."""
    check_constants(s=s, M=M)
    _nonnegative(eta=eta)
    lam = min(lam, largest, 1e300) if lam > 0.0 else 0.0
    (a, b), (c, d), (e, f) = (float(x).as_integer_ratio() for x in (lam, s, eta))
    # M (a/b - c/d) / (c/d + 2 e/f)
    return max(0, M * (a * d - c * b) * f // (b * (c * f + 2 * e * d)))


def tail_count(epsilon1: float, delta1: float, M: int = COUNT) -> int:
    """Find the smallest k with ``P(noise > k) <= delta1``, for :func:`scaled_count` (claim R5)."""
    numerator, denominator = laplace_rate(M, epsilon1)
    if not 0.0 < delta1 < 1.0:
        raise InvalidInput(f"delta1 must lie in (0, 1); received {described(delta1)}.")
    a = numerator / denominator * _DOWN

    def exceeds(k: int) -> bool:
        return math.exp(-a * (k + 1)) / (1.0 + math.exp(-a)) * _UP > delta1 * _DOWN

    k = max(0, math.floor(-math.log(delta1 * (1.0 + math.exp(-a))) / a) - 2)
    while exceeds(k):
        k += 1
    return k


def lower_bound_from_release(
    N_hat: int, k: int, s: float, eta: float, M: int = COUNT, *, lreg: float = 0.0
) -> float:
    """Bound the smallest eigenvalue from below by its noisy count, rounded down (claim R5)."""
    _nonnegative(lreg=lreg)
    if N_hat <= k:
        return lreg
    (c, d), (e, f) = (float(x).as_integer_ratio() for x in (s, eta))
    numerator = (int(N_hat) - int(k)) * (c * f + 2 * e * d) + M * (c * f - e * d)
    return max(lreg, _float_below(numerator, d * f * M))


def _float_below(numerator: int, denominator: int) -> float:
    nearest = numerator / denominator  # correctly rounded
    a, b = nearest.as_integer_ratio()
    return nearest if a * denominator <= numerator * b else math.nextafter(nearest, -math.inf)


# ---- the largest eigenvalue ---------------------------------------------------------------------


class LogScale(NamedTuple):
    """Public scale of the logarithm of the largest eigenvalue (claim R28)."""

    #: low, high: The eigenvalue lies between these for every data set.
    low: float
    high: float
    #: Bound on the error of its computed logarithm.
    error: float
    #: Computed logarithms of neighbours differ by at most this.
    step: float


def log_scale(v: float, solver_error: float, low: float, high: float) -> LogScale:
    """Choose the scale on which the largest eigenvalue's logarithm is counted (claim R28)."""
    if not (0.0 < v < math.inf and 0.0 <= solver_error <= 1.0 and 0.0 < low < high < math.inf):
        raise InvalidInput(
            "v must be positive and finite, solver_error in [0, 1] and 0 < low < high; received "
            f"{described(v)}, {described(solver_error)}, {described(low)} and {described(high)}."
        )
    error = (solver_error + 2.0**-50 * (1.0 + math.log(high / low))) * _UP
    return LogScale(low, high, error, (v + 2.0 * error) * _UP)


def largest_count(lam: float, scale: LogScale, M: int = COUNT) -> int:
    """Compute ``floor(M log(high/lam) / step)`` in exact rationals, of sensitivity M (R28)."""
    clipped = min(max(lam, scale.low), scale.high) if lam == lam else scale.high
    (a, b), (c, d) = (x.as_integer_ratio() for x in (math.log(scale.high / clipped), scale.step))
    return max(0, M * a * d // (b * c))


def largest_bound(N_hat: int, k: int, scale: LogScale, M: int = COUNT) -> float:
    """Bound the largest eigenvalue from above by its noisy count, rounded up (claim R28)."""
    level = (int(N_hat) - int(k)) * scale.step / M * (1.0 - ROUNDING_PRODUCT) - scale.error
    if level <= 0.0:
        return scale.high
    return max(scale.low, scale.high * math.exp(-level) * (1.0 + 1e-12))


# ---- a step from a pilot ------------------------------------------------------------------------


def step_shift(reach: float, length: float, n: int, *, depth: int) -> float:
    """Bound one record's effect on the computed ``a'`` times the mean score (claim R39)."""
    check_constants(reach=reach, length=length)
    return 2.0 / n * (reach + length * relative_slack(n, depth)) * _UP


def step_grid(shift: float) -> float:
    """Return the grid on which a shift of ``shift`` moves ``STEP_COUNT`` cells (claim R39)."""
    return shift / (STEP_COUNT - 1) * _UP
