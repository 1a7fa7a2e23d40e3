"""Numbers as text: as many digits as their errors leave, in little room."""

from __future__ import annotations

import math
from collections.abc import Iterable

#: Characters of a number; a column has one more.
ROOM = 10

#: Digits of a standard error: what is beyond them is noise.
ERROR_DIGITS = 3


def short_number(value: float, room: int = ROOM) -> str:
    """At most ``room`` characters: four decimals, or as many digits as there is room for."""
    text = f"{value:.4f}"
    if len(text) <= room and not 0.0 < abs(value) < 5e-3:
        return text
    fitting = (f"{value:.{digits}g}" for digits in (5, 4, 3, 2, 1))
    return next((text for text in fitting if len(text) <= room), f"{value:.0e}")


def span_of(numbers: Iterable[float]) -> str:
    """The least and the most of some numbers, without those that are infinite."""
    finite = [float(value) for value in numbers if math.isfinite(value)]
    if not finite:
        return "infinitely many"
    least, most = (short_number(value, 4) for value in (min(finite), max(finite)))
    return least if least == most else f"{least} to {most}"


def by_error(numbers: list[float], error: float) -> list[str]:
    """An estimate, and what else its standard error belongs to: the same decimals for all."""
    small = 0.0 < error < 0.01
    large = error < math.inf and min(error, abs(numbers[0])) >= 10.0
    if small or large:
        decimals = ERROR_DIGITS - 1 - math.floor(math.log10(error))
        if decimals < ROOM:
            texts = [f"{value:.{max(0, decimals)}f}" for value in (*numbers, error)]
            if max(map(len, texts)) <= ROOM:
                return texts[:-1]
    return [short_number(value) for value in numbers]


def printable(text: str) -> str:
    """A name on one line: what cannot be seen, or turns the line around, is spelt out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
