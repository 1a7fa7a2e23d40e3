"""Public arguments as numbers; what is none is refused without being shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described

__all__ = ["flag", "real_array", "real_number", "whole_number"]


def real_array(value: Any, name: str) -> NDArray[np.float64]:
    """A public argument as a float64 array; what holds no real numbers is refused unseen."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iufbO":
            with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
                return np.asarray(array, dtype=np.float64)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(f"{name} must hold real numbers; received {described(value)}.")


def real_number(value: Any, name: str) -> float:
    """A public argument as a float; what is no real number is refused unseen."""
    try:
        if not hasattr(value, "__len__") or getattr(value, "shape", None) == ():  # no text, no list
            return float(value)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(f"{name} must be a number; received {described(value)}.")


def whole_number(
    value: Any, name: str, least: int = 0, most: int | None = None, *, otherwise: str = ""
) -> int:
    """A public argument as an int; ``otherwise`` says what else a caller allows."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and least <= value and (most is None or value <= most):
        return int(value)
    allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise InvalidInput(
        f"{name} must be a whole number {allowed}{otherwise}; received {described(value)}."
    )


def flag(value: Any, name: str) -> bool:
    """A public argument that is True or False (1 or 0)."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise InvalidInput(f"{name} must be True or False; received {described(value)}.")
