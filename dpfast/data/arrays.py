"""Conversion of inputs other than two plain arrays of doubles.

Tables, lists, other types, memory maps and Dask collections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.cells import is_sequence, number_cells
from dpfast.data.columns import (
    column,
    column_kinds,
    column_names,
    foreign_array,
    frame,
    is_number_type,
    library,
    numbers,
    refuse_other_rows,
    refused_type,
)
from dpfast.data.records import FLOAT64, Covariates, Records
from dpfast.errors import InvalidInput

FLOAT32 = np.dtype(np.float32)
ONE_FLOAT = ({FLOAT64}, {FLOAT32})


def converted(
    X: Any, y: Any, names: Sequence[str] | None
) -> tuple[Callable[..., Records], Any, Any, Sequence[str] | None]:
    """Convert covariates and responses, and choose the constructor of their records."""
    own_names: Sequence[str] | None = None
    if not type(X) is type(y) is np.ndarray:
        refuse_other_rows(X, y, "y")
        if (table := frame(X)) is not None:
            own_names = table[0]
            X = _matrix(X, *table)
        else:
            own_names = _column_names(X)
        if library(y) in ("pandas", "polars", "pyarrow"):
            y = numbers(y, "y")
    wrap = _wrapper(X, y)
    if wrap is Records:
        X = _as_floats(X, "X", 2)
        y = _as_float64(y, "y", 1)
    else:
        X = _as_readable(X, "X", 2)
        y = _as_readable(y, "y", 1)
    return wrap, X, y, own_names if names is None else names


def _wrapper(X: Any, y: Any) -> Callable[..., Records]:
    """Choose the constructor: records in place, or converted block by block."""
    if getattr(X, "format", None) == "csr" and hasattr(X, "toarray"):
        from dpfast.data.streams import csr_records

        return csr_records
    in_place = isinstance(X, np.memmap) and X.dtype == np.float32 and not _is_converted(y)
    if not in_place and (_is_converted(X) or _is_converted(y)):
        from dpfast.data.streams import memmap_records

        return memmap_records
    return Records


def _is_converted(values: Any) -> bool:
    return isinstance(values, np.memmap) and values.dtype != np.float64


def _as_readable(values: Any, argument: str, ndim: int) -> Any:
    """Check an array that is converted later, piece by piece, or convert one in memory now."""
    if isinstance(values, np.memmap) or getattr(values, "format", None) == "csr":
        _check_numbers(values, argument, ndim)
        return values
    return _as_float64(values, argument, ndim)


def _column_names(X: Any) -> Sequence[str] | None:
    columns = getattr(X, "columns", None)
    if columns is None or not getattr(X, "shape", None):
        return None
    names = list(columns)
    return names if all(isinstance(name, str) for name in names) else None


def _as_float64(values: Any, argument: str, ndim: int) -> NDArray[np.float64]:
    array = _as_array(values, argument, ndim)
    if array.dtype == FLOAT64:
        return array
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        return array.astype(np.float64)


def _as_floats(values: Any, argument: str, ndim: int) -> Covariates:
    array = _as_array(values, argument, ndim)
    return array if array.dtype == FLOAT32 else _as_float64(array, argument, ndim)


def _as_array(values: Any, argument: str, ndim: int) -> NDArray[Any]:
    if type(values) is np.ndarray:
        array = values
    elif is_sequence(values):
        array = _of_lists(list(values), argument, ndim)
    else:
        if hasattr(values, "toarray") and hasattr(values, "nnz"):
            raise InvalidInput(
                f"{argument} is a sparse matrix that is not in compressed rows. Pass "
                f"{argument}.tocsr() (a response: {argument}.toarray().ravel())."
            )
        array = foreign_array(values, argument)
    _check_numbers(array, argument, ndim)
    return array


def _of_lists(values: Any, argument: str, ndim: int) -> NDArray[np.float64]:
    """Read a list of cells, or of rows that must have the same length, as numbers."""
    if ndim == 1:
        return number_cells(values)
    rows = [list(row) if _is_row(row) else None for row in values]
    row_lengths = {None if row is None else len(row) for row in rows}
    if len(row_lengths) == 1 and None not in row_lengths:
        cells = [cell for row in rows for cell in row or ()]
        return number_cells(cells).reshape(len(rows), -1 if cells else 0)
    if row_lengths <= {None}:  # no rows at all
        return np.empty(len(values))
    raise InvalidInput(
        f"{argument} could not be read as an array: rows of different lengths? Pass a "
        f"{ndim}-dimensional array of numbers."
    )


def _is_row(row: Any) -> bool:
    return is_sequence(row) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _matrix(table: Any, names: Any, columns: list[Any]) -> Covariates:
    """Return a data frame's columns as a matrix; no copy if they share one type of floats."""
    if library(table) == "pandas" and {column.dtype for column in columns} in ONE_FLOAT:
        return np.asarray(table)
    if any(len(values) != len(table) for values in columns):  # Arrow allows it in a damaged file
        raise InvalidInput("the columns have different lengths; each needs an entry for each row.")
    # covariate by covariate, as the columns are stored: the kernels read any strides
    rows_of_columns: NDArray[np.float64] = np.empty((len(columns), len(table)))
    for j, (row, values) in enumerate(zip(rows_of_columns, columns, strict=True)):
        row[:] = numbers(values, str(j) if names is None else names[j])
    return rows_of_columns.T


def _check_numbers(array: Any, argument: str, ndim: int) -> None:
    """Refuse a wrong number of dimensions, and types other than real numbers of at most 64 bits."""
    if array.ndim != ndim:
        shape = "(n records, q columns)" if ndim == 2 else "(n records,)"
        raise InvalidInput(
            f"{argument} must have {ndim} dimension{'s' if ndim > 1 else ''}, {shape}; received "
            f"shape {array.shape}."
            + (" Reshape a single column with X.reshape(-1, 1)." if ndim == 2 else "")
        )
    if not is_number_type(array.dtype):
        raise refused_type(array.dtype, argument)


def columns_by_name(
    table: Any, names: tuple[str, ...], kinds: tuple[str, ...] | None = None
) -> NDArray[np.float64]:
    """Return the columns of a fit in the order of the fit, shape (m, q)."""
    table_names = column_names(table)
    if sorted(table_names) != sorted(names):
        absent = [name for name in names if name not in table_names]
        unknown = [name for name in table_names if name not in names]
        raise InvalidInput(
            f"the table must have the columns of the fit, {list(names)}, in any order; "
            f"absent: {absent}, not in the fit: {unknown}."
        )
    present: list[Any] = table_names
    fitted: list[Any] = list(names)
    if kinds is not None and len(set(names)) < len(names):
        present = [*zip(table_names, column_kinds(table), strict=True)]
        fitted = [*zip(names, kinds, strict=True)]
        if sorted(present) != sorted(fitted):
            raise InvalidInput(
                f"several columns of the fit have the same name as text, {list(names)}, so the "
                f"labels must be of the same types, {sorted(fitted)}; received {sorted(present)}."
            )
    in_order = present == fitted
    if not in_order and len(set(present)) < len(present):
        raise InvalidInput(
            f"several columns of the fit have the same name, {list(names)}, so the table must "
            "have them in the same order."
        )
    if (parts := frame(table)) is None:
        return np.column_stack([numbers(column(table, name), name) for name in names])
    order = range(len(names)) if in_order else [present.index(label) for label in fitted]
    # by position: the names of pandas need not be text
    pairs = zip(order, names, strict=True)
    return np.column_stack([numbers(parts[1][j], name) for j, name in pairs])
