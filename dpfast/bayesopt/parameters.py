"""Kinds of parameters a search can tune, and the columns of numbers it searches them in.

The search works on columns of numbers within bounds: one column for a number, the logarithm of one
on a log scale, and one column per choice of a category.  What is handed out to be evaluated is
rounded to what the parameter can be; the columns then say where that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import flag, real_number, whole_number
from dpfast.errors import InvalidInput, described

__all__ = ["Categorical", "Integer", "Parameter", "Real"]

Array = NDArray[np.float64]

#: Types of a choice: public constants that a file and a message can hold.
CHOICES = (str, int, float, bool, type(None))

#: Largest integer that is a float64 together with its neighbours.
LARGEST_INTEGER = 2**53


class Parameter:
    """What one parameter of a search can be: :class:`Real`, :class:`Integer`, `Categorical`.

    Privacy
    -------
    Public: declared before the records are looked at.
    """

    #: Bounds of its columns, shape (columns, 2).
    column_bounds: Array

    def _value(self, columns: Array) -> Any:
        """The parameter where the search is, rounded to what it can be."""
        raise NotImplementedError

    def _columns(self, value: Any) -> Array:
        """Where in the search a value is; refuses one that the parameter cannot be."""
        raise NotImplementedError

    def _neighbours(self, columns: Array) -> list[Array]:
        """Columns of the values around a place: none for one that needs no rounding."""
        raise NotImplementedError

    def _middle(self) -> Array:
        """Columns of the default start."""
        return np.asarray(self.column_bounds.mean(axis=1))

    def _spacing(self) -> float:
        """Largest distance between neighbouring values, as a part of the side of a column."""
        raise NotImplementedError

    def _project(self, columns: Array) -> Array:
        """The nearest columns a search may move through."""
        return np.clip(columns, *self.column_bounds.T)


class Real(Parameter):
    """A real number.

    Parameters
    ----------
    low, high : float
        Public bounds, ``low < high``.
    log : bool
        Search its logarithm, for one that matters by factors; both bounds are positive then.

    Examples
    --------
    >>> rate = dpfast.bayesopt.Real(1e-4, 1.0, log=True)
    >>> rate
    Real(0.0001, 1, log=True)
    """

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        self.low, self.high = real_number(low, "low"), real_number(high, "high")
        self.log = flag(log, "log")
        _check_order(self, low, high)
        self.column_bounds = _number_columns(self.low, self.high, self.log)

    def _value(self, columns: Array) -> float:
        place = float(columns[0])
        with np.errstate(over="ignore"):
            found = float(np.exp(place)) if self.log else place
        return min(max(found, self.low), self.high)

    def _columns(self, value: Any) -> Array:
        return _column(value, self, real_number(value, "start"))

    def _neighbours(self, columns: Array) -> list[Array]:
        return []

    def _spacing(self) -> float:
        return 0.0

    def __repr__(self) -> str:
        return f"Real({self.low:g}, {self.high:g}{', log=True' if self.log else ''})"


class Integer(Parameter):
    """A whole number; both bounds belong to it.

    Parameters
    ----------
    low, high : int
        Public bounds, ``low < high``, at most 2**53 from zero.
    log : bool
        Search its logarithm, for one that matters by factors; both bounds are positive then.

    Examples
    --------
    >>> trees = dpfast.bayesopt.Integer(10, 1000, log=True)
    >>> trees
    Integer(10, 1000, log=True)
    """

    def __init__(self, low: int, high: int, *, log: bool = False) -> None:
        self.low = whole_number(low, "low", -LARGEST_INTEGER, LARGEST_INTEGER)
        self.high = whole_number(high, "high", -LARGEST_INTEGER, LARGEST_INTEGER)
        self.log = flag(log, "log")
        _check_order(self, low, high)
        self.column_bounds = _number_columns(self.low, self.high, self.log)

    def _unrounded(self, columns: Array) -> float:
        return math.exp(columns[0]) if self.log else float(columns[0])

    def _value(self, columns: Array) -> int:
        return min(max(round(self._unrounded(columns)), self.low), self.high)

    def _columns(self, value: Any) -> Array:
        return _column(value, self, whole_number(value, "start", -LARGEST_INTEGER, LARGEST_INTEGER))

    def _neighbours(self, columns: Array) -> list[Array]:
        at = self._unrounded(columns)
        found = {math.ceil(at) - 1, math.floor(at) + 1}
        return [
            _column(value, self, value)
            for value in sorted({min(max(value, self.low), self.high) for value in found})
        ]

    def _spacing(self) -> float:
        low, high = self.column_bounds[0]
        step = math.log1p(1.0 / self.low) if self.log else 1.0
        return float(step / (high - low))

    def __repr__(self) -> str:
        return f"Integer({self.low}, {self.high}{', log=True' if self.log else ''})"


class Categorical(Parameter):
    """One of a few choices without an order.

    The search has a column of weights per choice, which add up to one; the choice with the largest
    weight is the one in favour.

    Parameters
    ----------
    choices : sequence of str, int, float, bool or None
        Public; at least two, no two alike.

    Examples
    --------
    >>> loss = dpfast.bayesopt.Categorical(["squared_error", "absolute_error"])
    >>> loss
    Categorical(['squared_error', 'absolute_error'])
    """

    def __init__(self, choices: Sequence[Any]) -> None:
        plain = isinstance(choices, (list, tuple))
        if not plain or not all(type(choice) in CHOICES for choice in choices):
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
                f"{described(choices)}. What has one choice need not be searched."
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
        """The nearest weights that add up to one."""
        falling = np.sort(columns)[::-1]
        excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(falling) + 1)
        last = np.flatnonzero(falling > excess)[-1]
        return np.maximum(columns - excess[last], 0.0)

    def __repr__(self) -> str:
        return f"Categorical({list(self.choices)!r})"


def _key(choice: Any) -> tuple[str, str]:
    """Equal for choices that are the same: True is not 1, NaN is NaN."""
    return type(choice).__name__, repr(choice)


def _check_order(parameter: Real | Integer, *given: Any) -> None:
    """Refuse bounds in the wrong order; `given` are the caller's own, for the message."""
    low, high = parameter.low, parameter.high
    received = " and ".join(
        f"{name}={described(end)}" for name, end in zip(("low", "high"), given, strict=True)
    )
    if not (math.isfinite(low) and math.isfinite(high - low) and low < high):
        raise InvalidInput(f"low must be below high, both finite; received {received}.")
    if parameter.log and not low > 0.0:
        raise InvalidInput(
            f"a parameter on a log scale must have positive bounds; received {received}."
        )
    if parameter.log and not math.log(low) < math.log(high):
        raise InvalidInput("low and high are so close that their logarithms are the same.")


def _number_columns(low: float, high: float, log: bool) -> Array:
    ends = np.array([[low, high]], dtype=np.float64)
    return np.log(ends) if log else ends


def _column(given: Any, parameter: Real | Integer, value: float) -> Array:
    if not parameter.low <= value <= parameter.high:
        raise InvalidInput(
            f"a parameter of the start must be within {parameter!r}; received {described(given)}."
        )
    place = math.log(value) if parameter.log else float(value)
    return np.clip(np.array([place]), *parameter.column_bounds.T)
