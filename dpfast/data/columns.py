"""One column of a table as an array: pandas, polars, Arrow, mappings of arrays.

The libraries are never imported; their tables are known by what they can do.  Shapes and dtypes
may raise, values never.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput

__all__ = ["column", "column_names", "labels", "numbers"]


def column_names(table: Any) -> list[str]:
    """Names of a table's columns, in order."""
    if isinstance(table, Mapping):
        return [str(name) for name in table]
    names = getattr(table, "column_names", None)  # Arrow
    if names is None:
        names = getattr(table, "columns", None)  # pandas, polars
    if names is None:
        names = getattr(getattr(table, "dtype", None), "names", None)  # structured arrays
    if names is None:
        raise InvalidInput(
            "a table must be a pandas or polars DataFrame, an Arrow table or a mapping of column "
            f"names to arrays; received {type(table).__name__}."
        )
    return [str(name) for name in names]


def column(table: Any, name: str) -> Any:
    """The column of this name, in its library's own type."""
    names = column_names(table)
    if name not in names:
        raise InvalidInput(f"the table has no column {name!r}; it has {names}.")
    return table[name]


def numbers(values: Any, name: str) -> NDArray[np.float64]:
    """A numeric column as float64, missing values as NaN.

    Raises
    ------
    InvalidInput
        If the column's *type* is not numeric or boolean.
    """
    array = _as_array(values)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} must have one dimension; received {array.shape}.")
    if array.dtype.kind in "iub" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8):
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    raise InvalidInput(
        f"column {name!r} is declared numeric and has type {array.dtype}. Convert it to a numeric "
        "type first, or declare it categorical."
    )


def labels(values: Any, name: str) -> NDArray[np.object_]:
    """A column of labels as an array of Python objects; missing values are None or NaN."""
    array = np.asarray(values, dtype=object)
    if array.ndim != 1:
        raise InvalidInput(f"column {name!r} must have one dimension; received {array.shape}.")
    return array


#: Arrow's types of numbers that float64 can stand for.
ARROW_NUMBERS = frozenset(
    ["bool", "halffloat", "float", "double"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def _as_array(values: Any) -> NDArray[Any]:
    """Like ``np.asarray``, with a library's missing values as NaN where it has its own kind."""
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "to_numpy") and type(dtype).__module__.startswith("pandas"):
        kind = getattr(dtype, "kind", "O")  # nullable integers, floats and booleans have one
        if kind in "iufb":
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if type(values).__module__.startswith("pyarrow"):
        if str(values.type) in ARROW_NUMBERS:  # otherwise a null would change the type
            values = values.cast("float64", safe=False)
        values = values.to_numpy(zero_copy_only=False)
    return np.asarray(values)
