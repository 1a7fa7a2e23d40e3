"""Numbers of guarantees: checked, and rounded exactly as the decimals that they are written as."""

from __future__ import annotations

import math
import sys
from numbers import Real

from dpfast.errors import InvalidBudget, described

#: Every decimal of a double is a whole number divided by this.
DECIMALS = 10**324


def positive(value: object, name: str, *, below_one: bool = False) -> float:
    """Return ``value`` as a positive float, or raise InvalidBudget."""
    if type(value) is float and 0.0 < value < (1.0 if below_one else math.inf):
        return value  # the usual case, without the price of an abstract class
    allowed = "in (0, 1)" if below_one else "positive and finite"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidBudget(f"{name} must be a number, {allowed}; received {described(value)}.")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.inf
    if not (0.0 < number < (1.0 if below_one else math.inf)):
        raise InvalidBudget(f"{name} must be {allowed}; received {described(value)}.")
    return number


def nonnegative(value: object, name: str) -> float:
    return 0.0 if not isinstance(value, bool) and value == 0 else positive(value, name)


def written(x: float) -> tuple[int, int]:
    """Return the shortest decimal of a double as an exact ratio: ten times .1 is 1 (claim C86)."""
    digits, _, exponent = repr(x).partition("e")
    integer, _, fraction = digits.partition(".")
    shift = int(exponent or 0) - len(fraction)
    return int(integer + fraction) * 10 ** max(shift, 0), 10 ** max(-shift, 0)


def half_square(x: float) -> tuple[int, int]:
    """Return ``x^2 / 2`` as an exact ratio of integers, for the decimal that x is written as."""
    numerator, denominator = written(x)
    return numerator * numerator, 2 * denominator * denominator


def root_to_float(numerator: int, denominator: int, *, up: bool) -> float:
    """Round the root of a ratio to a double whose decimal is on the safe side, decided exactly."""
    square, rest = divmod(numerator * DECIMALS * DECIMALS, denominator)
    root = math.isqrt(square)
    root += up and (rest > 0 or root * root < square)
    return ratio_to_float(root, DECIMALS, up=up)


def ratio_to_float(numerator: int, denominator: int, *, up: bool) -> float:
    """Round ``numerator / denominator >= 0`` to a double whose decimal is on the safe side."""
    try:
        quotient = numerator / denominator  # correctly rounded by Python
    except OverflowError:
        return math.inf if up else sys.float_info.max
    top, bottom = written(quotient)
    error = top * denominator - numerator * bottom
    if up and error < 0:
        return math.nextafter(quotient, math.inf)
    if not up and error > 0:
        return math.nextafter(quotient, 0.0)
    return quotient
