"""Kinds of parameters that a search can tune, with the columns of numbers that represent them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpfast.arguments import Array, flag, real_number, whole_number
from dpfast.errors import InvalidInput, described

#: Types of a choice: public constants that a file and a message can contain.
CHOICES = (str, int, float, bool, type(None))

#: Every integer up to this one is a float64.
LARGEST_INTEGER = 2**53


class Parameter:
    """Base of the kinds of parameters: :class:`Real`, :class:`Integer` and :class:`Categorical`."""

    #: Bounds of its columns, shape (columns, 2).
    column_bounds: Array

    def _value(self, columns: Array) -> Any:
        """Return the parameter's value at these columns, rounded to an allowed one."""
        raise NotImplementedError

    def _columns(self, value: Any) -> Array:
        """Return the columns of a value; refuse a value that is not allowed."""
        raise NotImplementedError

    def _neighbours(self, columns: Array) -> list[Array]:
        """Return columns of the nearest values; none for a parameter without rounding."""
        return []

    def _middle(self) -> Array:
        """Return the columns of the default start."""
        return np.asarray(self.column_bounds.mean(axis=1))

    def _spacing(self) -> float:
        """Return the largest distance between neighbouring values, relative to a column's side."""
        return 0.0

    def _project(self, columns: Array) -> Array:
        """Return the nearest columns that a search may use."""
        return np.clip(columns, *self.column_bounds.T)


class Number(Parameter):
    """Number within public bounds, searched on a log scale where ratios matter."""

    #: Check a number; the second argument is its name.
    _read: Callable[[Any, str], Any]

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        self.low = self._read(low, "low")
        self.high = self._read(high, "high")
        self.log = flag(log, "log")
        received = f"low={described(low)} and high={described(high)}"
        low, high = self.low, self.high
        if not (math.isfinite(low) and math.isfinite(high - low) and low < high):
            raise InvalidInput(f"low must be below high, both finite; received {received}.")
        if self.log and not low > 0.0:
            raise InvalidInput(
                f"a parameter on a log scale must have positive bounds; received {received}."
            )
        if self.log and not math.log(low) < math.log(high):
            raise InvalidInput("low and high are so close that their logarithms are the same.")
        ends = np.array([[low, high]], dtype=np.float64)
        self.column_bounds = np.log(ends) if self.log else ends

    def _columns(self, value: Any) -> Array:
        number = self._read(value, "start")
        if not self.low <= number <= self.high:
            raise InvalidInput(
                f"a parameter of the start must be within {self!r}; received {described(value)}."
            )
        coordinate = math.log(number) if self.log else float(number)
        return np.clip(np.array([coordinate]), *self.column_bounds.T)

    def __repr__(self) -> str:
        ends = (self.low, self.high)
        texts = [f"{end:g}" if isinstance(end, float) else f"{end}" for end in ends]
        return f"{type(self).__name__}({', '.join([*texts, *['log=True'] * self.log])})"


class Real(Number):
    """Real number.

    Parameters
    ----------
    low, high : float
        Public bounds, ``low < high``.
    log : bool
        Search its logarithm, where ratios matter; both bounds must then be positive.

    Examples
    --------
    >>> dpfast.bayesopt.Real(1e-4, 1.0, log=True)
    Real(0.0001, 1, log=True)
    """

    _read = staticmethod(real_number)

    def _value(self, columns: Array) -> float:
        place = float(columns[0])
        with np.errstate(over="ignore"):
            number = float(np.exp(place)) if self.log else place
        return min(max(number, self.low), self.high)


class Integer(Number):
    """Whole number; both bounds are allowed.

    Parameters
    ----------
    low, high : int
        Public bounds, ``low < high``, at most 2**53 from zero.
    log : bool
        As for :class:`Real`.

    Examples
    --------
    >>> dpfast.bayesopt.Integer(10, 1000, log=True)
    Integer(10, 1000, log=True)
    """

    _read = staticmethod(partial(whole_number, least=-LARGEST_INTEGER, most=LARGEST_INTEGER))

    def _unrounded(self, columns: Array) -> float:
        return math.exp(columns[0]) if self.log else float(columns[0])

    def _value(self, columns: Array) -> int:
        return min(max(round(self._unrounded(columns)), self.low), self.high)

    def _neighbours(self, columns: Array) -> list[Array]:
        position = self._unrounded(columns)
        nearest = {math.ceil(position) - 1, math.floor(position) + 1}
        return [
            self._columns(value)
            for value in sorted({min(max(value, self.low), self.high) for value in nearest})
        ]

    def _spacing(self) -> float:
        low, high = self.column_bounds[0]
        step = math.log1p(1.0 / self.low) if self.log else 1.0
        return float(step / (high - low))


class Categorical(Parameter):
    """Unordered choice among a few values.

    The search has a column of weights per choice, which add up to one; the largest one decides.

    Parameters
    ----------
    choices : sequence of str, int, float, bool or None
        Public; at least two, all different.

    Examples
    --------
    >>> dpfast.bayesopt.Categorical(["squared_error", "absolute_error"])
    Categorical(['squared_error', 'absolute_error'])
    """

    def __init__(self, choices: Sequence[Any]) -> None:
        is_list = isinstance(choices, (list, tuple))
        if not is_list or not all(type(choice) in CHOICES for choice in choices):
            raise InvalidInput(
                "choices must be a list of strings, numbers, True, False and None; received "
                f"{described(choices)}."
            )
        self.choices = tuple(choices)
        if len({_key(choice) for choice in self.choices}) < len(self.choices) or (
            len(self.choices) < 2
        ):
            raise InvalidInput(
                "choices must be at least two and all different; received "
                f"{described(choices)}. A parameter with one choice needs no search."
            )
        self.column_bounds = np.tile([0.0, 1.0], (len(self.choices), 1))

    def _value(self, columns: Array) -> Any:
        return self.choices[int(np.argmax(columns))]

    def _columns(self, value: Any) -> Array:
        known = [_key(choice) for choice in self.choices]
        if type(value) not in CHOICES or _key(value) not in known:
            raise InvalidInput(
                f"a parameter of the start must be one of {self!r}; received {described(value)}."
            )
        return self._vertex(known.index(_key(value)))

    def _vertex(self, place: int) -> Array:
        return np.eye(len(self.choices))[place]

    def _neighbours(self, columns: Array) -> list[Array]:
        return [self._vertex(place) for place in range(len(self.choices))]

    def _middle(self) -> Array:
        return np.full(len(self.choices), 1.0 / len(self.choices))

    def _spacing(self) -> float:
        return 1.0

    def _project(self, columns: Array) -> Array:
        """Return the nearest weights that add up to one (projection onto the simplex)."""
        falling = np.sort(columns)[::-1]
        excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(falling) + 1)
        last = np.flatnonzero(falling > excess)[-1]
        return np.maximum(columns - excess[last], 0.0)

    def __repr__(self) -> str:
        return f"Categorical({list(self.choices)!r})"


def _key(choice: Any) -> tuple[str, str]:
    """Return a key that is equal for equal choices: True is not 1, NaN is NaN."""
    return type(choice).__name__, repr(choice)
