"""Arrays of coefficients with their names, as text and as pandas objects."""

from __future__ import annotations

from typing import Any

from dpfast.inference.named import Names
from dpfast.inference.rendering.digits import printable

#: Most rows that are printed with names; NumPy abbreviates the text of more.
MOST_SHOWN = 100


def lines(values: Any, names: Names) -> str:
    """Write a line for each named row; without names the text of NumPy."""
    if names is None or not 0 < len(values) <= MOST_SHOWN:
        return repr(values)
    rows = [[f"{value:.6g}" for value in row] for row in values.reshape(len(values), -1)]
    width = max(len(text) for row in rows for text in row)
    labels = list(map(printable, names))
    longest = max(map(len, labels))
    return "\n".join(
        f"{label:{longest}}" + "".join(f"  {text:>{width}}" for text in row)
        for label, row in zip(labels, rows, strict=True)
    )


def in_pandas(values: Any, names: Names, columns: Names) -> Any:
    """Make a Series of one column, or a DataFrame of several."""
    try:
        from pandas import DataFrame, Series
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install pandas.") from error
    index = list(names or range(len(values)))
    if values.ndim == 1:
        return Series(values, index=index)
    return DataFrame(values, index=index, columns=None if columns is None else list(columns))
