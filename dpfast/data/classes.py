"""Labels against two declared classes: compared by kind first, which is public, then one by one.

A label is a value: whatever it is, it neither raises nor warns, and no label changes how another
is read.  The kind of a whole column is a dtype and may raise: text compared with numbers would
match nothing and train on nothing.  Lists, objects and categories have no such kind.
"""

from __future__ import annotations

import datetime
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data import columns
from dpfast.errors import InvalidInput

__all__ = ["comparable", "encoded", "equal", "label_kind", "readable"]

_KINDS = dict.fromkeys("biuf", "numbers") | {
    "c": "complex numbers",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "M": "dates",
    "m": "durations",
}


#: Beginnings of the names of types that are not NumPy's: Arrow's, polars' and pandas'.
_NAMES = {
    "text": ("string", "large_string", "utf8"),
    "numbers": ("bool", "int", "uint", "float", "double", "halffloat", "decimal"),
    "bytes": ("binary", "large_binary"),
    "dates": ("date", "timestamp", "time"),
    "durations": ("duration",),
}


def label_kind(labels: Any) -> str:
    """What a column's type says its labels are: "numbers", "text", ...

    "anything" is a list, a column of objects or of categories: only the labels could tell.
    """
    dtype: Any = getattr(labels, "dtype", getattr(labels, "type", None))  # Arrow calls it type
    if dtype is None or hasattr(dtype, "categories"):
        return "anything"
    name, kind = str(dtype).lower(), getattr(dtype, "kind", None)
    if isinstance(kind, str) and kind != "O":
        return _KINDS.get(kind, "records")
    if name == "str":  # of pandas
        return "text"
    if name.startswith("interval"):
        return "intervals"
    found = (known for known, beginnings in _NAMES.items() if name.startswith(beginnings))
    return next(found, "anything")


def comparable(kind: str, other: str) -> bool:
    """Whether labels of two kinds can be equal."""
    return kind == other or "anything" in (kind, other)


def readable(labels: Any) -> NDArray[Any]:
    """Labels as an array: of NumPy's own type where they have one, of Python objects otherwise."""
    if (table_of := columns.frame(labels)) is not None:
        if len(table_of[1]) != 1:
            raise InvalidInput(f"labels must be one column; received {len(table_of[1])}.")
        labels = table_of[1][0]
    dtype = getattr(labels, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _KINDS:
        return np.asarray(labels)
    typed = dtype is not None or hasattr(labels, "type")
    table, positions = columns.labels(labels if typed else list(labels), "y")
    # from an iterator, so that cells that are lists stay cells; position -1 is a missing one
    cells = np.fromiter(iter([*table, np.nan]), dtype=object, count=len(table) + 1)
    return cells[positions]


def equal(labels: NDArray[Any], others: Any) -> NDArray[np.bool_]:
    """Whether each of the :func:`readable` labels is the other of its position, or the only one."""
    if isinstance(others, (list, tuple)):  # one label, whatever it holds
        boxed = np.empty((), dtype=object)
        boxed[()] = others
        others = boxed
    others = np.asarray(others)
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        if labels.dtype.kind != "O" and label_kind(labels) == label_kind(others):
            return np.asarray(labels == others)
        pairs = zip(labels, np.broadcast_to(others, labels.shape), strict=True)
        return np.array([_is(x, other) for x, other in pairs], dtype=bool)


def encoded(labels: Any, negative: Any, positive: Any) -> NDArray[np.float64]:
    """1 where a label is the positive class, 0 where the negative one, NaN for any other.

    Parameters
    ----------
    labels : array-like of shape (n,)
    negative, positive : object
        Of a kind that is :func:`comparable`.
    """
    array = readable(labels)
    return np.where(equal(array, positive), 1.0, np.where(equal(array, negative), 0.0, np.nan))


#: Kinds of cells that can be labels; comparing others runs code of theirs, which may warn.
LABELS = (str, bytes, bool, Number, np.generic, datetime.date, datetime.timedelta)


def _is(value: Any, label: Any) -> bool:
    if not isinstance(value, LABELS):
        return False
    try:
        answer = value == label
        return isinstance(answer, (bool, np.bool_)) and bool(answer)
    except Exception:  # pandas.NA, an array in a cell: not this label
        return False
