"""Encoding of tables by a coding: values, names and bounds of the design's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.data.columns import column_names, column_reader
from dpfast.data.scaling.maps import CHUNK
from dpfast.errors import InvalidInput

if TYPE_CHECKING:
    from dpfast.data.coding import Coding, Encoded


def encoded(coding: Coding, table: Any, needed: list[str]) -> Encoded:
    """Encode a table as the columns of a design: values, names and bounds."""
    present = column_names(table)
    absent = [name for name in needed if name not in present]
    if absent:
        raise InvalidInput(
            f"the table has no column {', '.join(map(repr, absent))}; needed are {needed}, in "
            f"any order, in the units of the fit{', or an array of these' * coding.arrays}."
        )
    read = column_reader(table)
    columns = {name: read(name) for name in needed}
    n_rows = {_length(values, name) for name, values in columns.items()}
    if len(n_rows) > 1:
        raise InvalidInput(f"the columns have different lengths: {sorted(n_rows)}.")
    parts = [
        _product([factor.encode(columns, coding.columns) for factor in term])
        for term in coding.terms
    ]
    return (
        _side_by_side([values for values, _, _ in parts]),
        [name for _, names, _ in parts for name in names],
        np.concatenate([bounds for _, _, bounds in parts]),
    )


def _side_by_side(parts: list[Any]) -> Any:
    """Join columns into new rows, a chunk at a time: rows are written once, while in the cache."""
    values = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)))
    for first in range(0, len(values), CHUNK):
        rows = slice(first, first + CHUNK)
        np.concatenate([part[rows] for part in parts], axis=1, out=values[rows])
    return values


def _product(factors: list[Encoded]) -> Encoded:
    """Multiply the columns of factors, the first factor's columns varying fastest."""
    values, names, bounds = factors[0]
    for next_values, next_names, next_bounds in factors[1:]:
        pairs = [(i, j) for j in range(len(next_names)) for i in range(len(names))]
        with np.errstate(all="ignore"):
            values = np.column_stack([values[:, i] * next_values[:, j] for i, j in pairs])
            corners = [np.outer(bounds[i], next_bounds[j]) for i, j in pairs]
        names = [f"{names[i]}:{next_names[j]}" for i, j in pairs]
        declared = np.isfinite(bounds).all() and np.isfinite(next_bounds).all()
        bounds = np.array([[corner.min(), corner.max()] for corner in corners])
        if declared and not np.isfinite(bounds).all():
            raise InvalidInput(
                f"the product {names[0]!r} has no finite bound over the declared ranges. Change "
                "the ranges or the centres."
            )
    return values, names, bounds


def _length(values: Any, name: str) -> int:
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes)):
        raise InvalidInput(
            f"column {name!r} must be a sequence of values, one for each row; received a "
            f"{type(values).__name__}. Write [value] for a single row."
        )
    return len(values)
