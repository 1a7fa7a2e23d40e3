"""Comparison of labels with declared classes and levels: first by public type, then cell by cell.

A label is a value: it never raises or warns, and no label changes how another is read.  The kind
of a column is a dtype and may raise: text compared with numbers matches nothing.
"""

from __future__ import annotations

import datetime
import re
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data import columns
from dpfast.errors import InvalidInput, described

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
    "text": ("string", "large_string", "utf8", "categorical", "enum"),
    "numbers": ("bool", "int", "uint", "float", "double", "halffloat", "decimal"),
    "bytes": ("binary", "large_binary"),
    "dates": ("date", "timestamp", "time"),
    "durations": ("duration",),
}


def label_kind(labels: Any) -> str:
    """Return the kind of labels that a column's type declares: "numbers", "text", ..."""
    dtype: Any = getattr(labels, "dtype", getattr(labels, "type", None))  # Arrow calls it type
    if dtype is None:
        return "anything"
    if columns.is_untyped(labels):
        return "objects"
    name = str(dtype).lower().removeprefix("dictionary<values=")
    kind = getattr(dtype, "kind", None)
    if isinstance(kind, str) and kind != "O":
        return _KINDS.get(kind, "records")
    if name == "str":  # pandas' text
        return "text"
    if name.startswith("interval"):
        return "intervals"
    matching = (known for known, beginnings in _NAMES.items() if name.startswith(beginnings))
    return next(matching, "anything")


def comparable(kind: str, other_kind: str) -> bool:
    """Test whether labels of two kinds can be equal; objects never equal numbers."""
    pair = {kind, other_kind}
    return len(pair) == 1 or "anything" in pair or ("objects" in pair and "numbers" not in pair)


def readable(labels: Any) -> NDArray[Any]:
    """Return labels as an array: of NumPy's own type if they have one, else of Python objects."""
    labels = columns.one_column(labels, "labels")
    dtype = getattr(labels, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _KINDS:
        return columns.foreign_array(labels, "labels")
    typed = dtype is not None or hasattr(labels, "type")
    if not typed and not np.iterable(labels):
        raise InvalidInput(f"labels must be one column; received {described(labels)}.")
    table, positions = columns.labels(labels if typed else list(labels), "y")
    # from an iterator, so that cells that are lists stay cells; position -1 is a missing one
    cells = np.fromiter(iter([*table, np.nan]), dtype=object, count=len(table) + 1)
    return cells[positions]


def equal(labels: NDArray[Any], targets: Any) -> NDArray[np.bool_]:
    """Compare :func:`readable` labels with one label, or with the label at the same position."""
    if isinstance(targets, (list, tuple)):  # one label, which happens to be a sequence
        boxed = np.empty((), dtype=object)
        boxed[()] = targets
        targets = boxed
    targets = np.asarray(targets)
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        if labels.dtype.kind != "O" and label_kind(labels) == label_kind(targets):
            return np.asarray(labels == targets)
        pairs = zip(labels, np.broadcast_to(targets, labels.shape), strict=True)
        return np.array([_is(x, target) for x, target in pairs], dtype=bool)


def encoded(labels: Any, negative: Any, positive: Any) -> NDArray[np.float64]:
    """Return 1 for the positive class, 0 for the negative one, and NaN for any other label."""
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


class Spellings:
    """Map from labels to the declared levels that they spell."""

    def __init__(self, levels: tuple[Any, ...], missing_code: int) -> None:
        self._outside = missing_code
        self._exact = {level: code for code, level in enumerate(levels)}
        for code, level in enumerate(levels):  # 1 stands for "1" and "1.0", and each for it
            for spelling in _other_kinds(level):
                self._exact.setdefault(spelling, code)
        levels_of_number: dict[float, list[int]] = {}
        for code, level in enumerate(levels):
            if isinstance(level, str) and (number := _written(level)) is not None:
                levels_of_number.setdefault(number, []).append(code)
        for number, codes in levels_of_number.items():  # 1 for "01", if nothing else writes it
            if len(codes) == 1:
                self._exact.setdefault(number, codes[0])
        levels_of_text: dict[str, set[int]] = {}
        for label, code in self._exact.items():
            if isinstance(label, str):
                levels_of_text.setdefault(label.strip().casefold(), set()).add(code)
        self._alike = {
            label: min(codes) for label, codes in levels_of_text.items() if len(codes) == 1
        }

    def code(self, label: Any) -> int:
        """Return the position of a label's level; a missing label is the empty one."""
        try:  # the same lines for every label: an audit compares them
            missing = label is None or type(label).__name__ in ("NAType", "NaTType")
            label = "" if missing or label != label else label
            # as files keep text that they do not call text
            label = label.decode() if isinstance(label, bytes) else label
            trimmed = label.strip() if isinstance(label, str) else label
            alike = trimmed.casefold() if isinstance(label, str) else label
            code = self._exact.get(label)
            code = self._exact.get(trimmed) if code is None else code
            code = self._alike.get(alike) if code is None else code
            return self._outside if code is None else code
        except Exception:  # not hashable, or not to be compared: not a level
            return self._outside


#: What a level writes a number as: digits of ASCII, not so many that no number has them.
NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?")


def _written(level: str) -> float | None:
    """Parse the number that a level writes; integers stay Python integers."""
    if not NUMBER.fullmatch(level):
        return None
    return float(level) if "." in level else int(level)


def _other_kinds(level: Any) -> tuple[Any, ...]:
    """Return the other spellings of an integer level: the number, its text, and its text with ".0".

    Pandas writes integers with ".0" where a cell of the column is missing.
    """
    if isinstance(level, bool):
        return (str(level),)
    integer_text = level.removesuffix(".0") if isinstance(level, str) else str(level)
    number = _written(integer_text) if isinstance(level, str) else level
    if number is None or str(number) != integer_text or "." in integer_text:
        return ()
    return (number, integer_text, f"{integer_text}.0")


def check_type(values: Any, levels: tuple[Any, ...], name: str) -> None:
    """Refuse a column of a type that no level can be of; types are public."""
    dtype = getattr(values, "dtype", getattr(values, "type", None))  # Arrow: type
    kind = getattr(dtype, "kind", None) or str(dtype)
    is_number = len(kind) == 1 and kind in "iufb"
    is_number |= kind.lower().startswith(("int", "uint", "float", "double", "halffloat", "bool"))
    matching = [not isinstance(level, str) or _written(level) is not None for level in levels]
    if is_number and not any(matching):
        raise InvalidInput(
            f"column {described(name, text=True)} holds numbers, and its declared levels are text. "
            "Declare the numbers it holds, or convert the column to these labels."
        )
