"""Conversion of single Python objects to numbers or labels.

An object that is neither is missing; none raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = (Real, np.bool_, Decimal)  # NumPy's integers and floats, and fractions, are Real
PLAIN = {int, float, bool}

#: Attributes of array-likes, which declare the type of their entries.
TYPED = (
    "dtype",
    "__array__",
    "__array_interface__",
    "__array_struct__",
    "__arrow_c_array__",
    "__arrow_c_stream__",
    "__dlpack__",
)


def is_sequence(values: Any) -> bool:
    """Test for a sequence of Python objects, each with its own type: lists, deques, ..."""
    if isinstance(values, (list, tuple)):
        return True
    if not isinstance(values, Sequence) or isinstance(values, str):
        return False
    if any(hasattr(values, name) for name in TYPED):
        return False
    try:
        memoryview(values)  # type: ignore[arg-type]
    except TypeError:
        return True
    return False  # bytes, array.array: entries of one type


def number(cell: Any) -> float:
    """Return the float64 nearest to a number or boolean; NaN for every other object."""
    if type(cell) is float:
        return cell
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        cell = cell[()]
    if not isinstance(cell, NUMBERS) or isinstance(cell, np.timedelta64):
        return np.nan
    try:  # a subclass may override the conversion: use the base class's
        for kind in (float, int):
            if isinstance(cell, kind):
                return kind.__float__(cell)
        return float(cell)
    except Exception:  # too large an integer, a signalling decimal, a subclass that raises
        return np.nan


def number_cells(cells: Sequence[Any]) -> NDArray[np.float64]:
    """Apply :func:`number` to each cell, shape (n,)."""
    with np.errstate(all="ignore"):
        if set(map(type, cells)) <= PLAIN:
            try:
                return np.array(cells, dtype=np.float64)  # the same numbers, faster
            except OverflowError:  # an integer that float64 cannot hold
                pass
        return np.fromiter(map(number, cells), np.float64, len(cells))


def objects(array: NDArray[Any]) -> list[Any]:
    """Return the entries of an array as Python objects; None for text that is not Unicode."""
    try:
        cells: list[Any] = array.astype(object).tolist()
    except Exception:  # NumPy's fixed-width text may hold any 32 bits as a character
        return [
            cell_value(lambda i=i: array[i : i + 1].astype(object)[0]) for i in range(len(array))
        ]
    return cells


def cell_value(read: Callable[..., Any]) -> Any:
    """Evaluate a function of one cell; None where it raises."""
    try:
        return read()
    except Exception:
        return None


def text(encoded: Iterable[bytes | None]) -> list[str | None]:
    """Decode strings from bytes; None for bytes that are not UTF-8."""
    return [_decoded(cell) for cell in encoded]


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return None


#: Longest text that an Arrow view stores within itself, in bytes.
INLINE = 12


def view_cell(
    inline: NDArray[np.uint8], size: int, buffers: Sequence[memoryview], buffer: int, start: int
) -> bytes | None:
    """Read the bytes of an Arrow view; None where it is missing or points to nothing."""
    if size <= INLINE:
        return inline[:size].tobytes() if size >= 0 else None
    if not 0 <= buffer < len(buffers) or start < 0:
        return None
    stored = bytes(buffers[buffer][start : start + size])
    return stored if len(stored) == size else None
