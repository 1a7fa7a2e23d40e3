"""Numbers as text, with as many digits as their errors leave."""

from __future__ import annotations

import math
from collections.abc import Iterable

#: Most characters of a number; a column has one more.
ROOM = 10

#: Significant digits of a standard error; further ones are noise.
ERROR_DIGITS = 3


def short_number(value: float, length: int = ROOM) -> str:
    """Write a number in at most ``width`` characters: four decimals, or as many digits as fit."""
    text = f"{value:.4f}"
    if len(text) <= length and not 0.0 < abs(value) < 5e-3:
        return text
    fitting = (f"{value:.{digits}g}" for digits in (5, 4, 3, 2, 1))
    return next((text for text in fitting if len(text) <= length), f"{value:.0e}")


def span_of(numbers: Iterable[float]) -> str:
    """Write the range of the finite ones of some numbers."""
    finite = [float(value) for value in numbers if math.isfinite(value)]
    if not finite:
        return "infinitely many"
    low, high = (short_number(value, 4) for value in (min(finite), max(finite)))
    return low if low == high else f"{low} to {high}"


def by_error(numbers: list[float], error: float) -> list[str]:
    """Write an estimate and its interval with the decimals that its standard error leaves."""
    small = 0.0 < error < 0.01
    large = error < math.inf and min(error, abs(numbers[0])) >= 10.0
    if small or large:
        decimals = ERROR_DIGITS - 1 - math.floor(math.log10(error))
        if decimals < ROOM:
            texts = [f"{value:.{max(0, decimals)}f}" for value in (*numbers, error)]
            if max(map(len, texts)) <= ROOM:
                return texts[:-1]
    noisy = 0.01 <= error < math.inf  # further decimals of a small value would be noise
    return [
        f"{value:.4f}" if noisy and abs(value) < 5e-3 else short_number(value) for value in numbers
    ]


def printable(text: str) -> str:
    """Write a name on one line, with invisible and direction-changing signs escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
