"""Labels against two declared classes: compared by kind first, which is public, then one by one.

A label is a value: whatever it is, it neither raises nor warns.  The kind of a whole column is a
dtype and may raise: text compared with numbers would match nothing and train on nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["comparable", "encoded", "label_kind"]

_KINDS = dict.fromkeys("biuf", "numbers") | {
    "c": "complex numbers",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "M": "dates",
    "m": "durations",
}


def label_kind(labels: Any) -> str:
    """What a column's dtype says its labels are: "numbers", "text", ...

    "objects" is a dtype that could be anything but numbers; "anything" is a list that mixes types,
    where one element would decide.
    """
    dtype: Any = getattr(labels, "dtype", getattr(labels, "type", None))  # Arrow calls it type
    if hasattr(getattr(dtype, "categories", None), "dtype"):  # of pandas
        dtype = dtype.categories.dtype
    if str(dtype).lower().startswith(("str", "large_string", "utf8")):
        return "text"  # of pandas, polars and Arrow, which NumPy reads as objects
    kind = getattr(dtype, "kind", None)
    if not isinstance(kind, str) or kind == "V":
        kind = np.asarray(labels).dtype.kind
    return _KINDS.get(kind, "anything" if dtype is None else "objects")


def comparable(kind: str, other: str) -> bool:
    """Whether labels of two kinds can be equal."""
    kinds = {kind, other}
    return len(kinds) == 1 or "anything" in kinds or ("objects" in kinds and "numbers" not in kinds)


def encoded(labels: Any, negative: Any, positive: Any) -> NDArray[np.float64]:
    """1 where a label is the positive class, 0 where the negative one, NaN for any other.

    Parameters
    ----------
    labels : array-like of shape (n,)
    negative, positive : object
        Of a kind that is :func:`comparable`.
    """
    array = np.asarray(labels)
    if array.dtype.kind == "O":  # == may return, or do, anything
        found = [1.0 if _is(x, positive) else 0.0 if _is(x, negative) else np.nan for x in array]
        return np.array(found, dtype=np.float64)
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        return np.where(array == positive, 1.0, np.where(array == negative, 0.0, np.nan))


def _is(value: Any, label: Any) -> bool:
    try:
        return bool(value == label)
    except Exception:  # pandas.NA, an array in a cell: not this label
        return False
