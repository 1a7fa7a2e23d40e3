"""Checks of scikit-learn arguments by shape and dtype; no value appears in a message."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from dpfast.data import Records, as_records
from dpfast.data.columns import foreign_array, frame, library
from dpfast.errors import InvalidInput, described


def matrix(X: Any) -> Any:
    """Check that ``X`` has two dimensions and at least one column; return it unconverted."""
    if hasattr(X, "nnz") and hasattr(X, "toarray"):
        raise InvalidInput(
            "Sparse data were passed for X, but dense data are required. Use X.toarray(), or "
            "dpfast.fit, which takes compressed rows."
        )
    X, shape = _with_shape(X, "X")
    if len(shape) != 2:
        raise InvalidInput(
            f"X must have 2 dimensions, (n records, q columns); received shape {shape}. Reshape "
            "your data with X.reshape(-1, 1) if it has a single column, X.reshape(1, -1) if it is "
            "a single record."
        )
    _refuse_complex(X, "X")
    if shape[1] == 0:
        raise InvalidInput(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    return X


def column(y: Any, kind: str) -> Any:
    """Check that ``y`` has one dimension; a single column is raveled with a warning."""
    if y is None:
        raise InvalidInput(
            f"This {kind} estimator requires y to be passed, but the target y is None."
        )
    y, shape = _with_shape(y, "y")
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
            stacklevel=4,
        )
        table = frame(y)
        y = np.asarray(y).ravel() if table is None else table[1][0]
    elif len(shape) != 1:
        raise InvalidInput(f"y should be a 1d array, got an array of shape {shape} instead.")
    _refuse_complex(y, "y")
    return y


def records(X: Any, y: Any) -> Records:
    """Make records in memory of a checked pair."""
    converted = as_records(X, y)
    if type(converted) is not Records:
        raise InvalidInput(
            f"X or y is a {type(X).__name__} that is read piece by piece. The estimators work in "
            "memory: pass NumPy arrays, or use dpfast.fit, which reads such data itself."
        )
    return converted


def _with_shape(values: Any, argument: str) -> tuple[Any, tuple[int, ...]]:
    """Return the values and their shape; lists are not converted."""
    if isinstance(values, type):  # which has the attributes of its instances
        raise InvalidInput(f"{argument} must be an array; received {described(values)}.")
    if isinstance(values, np.memmap):  # the same memory, without a promise to convert it later
        values = np.asarray(values)
    if hasattr(values, "shape"):
        return values, tuple(values.shape)
    if library(values) == "pyarrow" and hasattr(values, "type") and hasattr(values, "__len__"):
        return values, (len(values),)
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        values = values if isinstance(values, (list, tuple)) else list(values)
        first = values[0] if argument == "X" and len(values) else None
        if isinstance(first, (list, tuple)) or (isinstance(first, np.ndarray) and first.ndim == 1):
            return values, (len(values), len(first))
        return values, (len(values),)
    array = foreign_array(values, argument)
    return array, array.shape


def _refuse_complex(values: Any, argument: str) -> None:
    if getattr(getattr(values, "dtype", None), "kind", "") == "c":
        raise InvalidInput(f"Complex data not supported: {argument} has dtype {values.dtype}.")
