"""Bit-for-bit comparison of two results, and of two data sets record by record."""

from __future__ import annotations

import struct
import types
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput

#: Types compared by ``==``.
_PLAIN = (str, bytes, int, bool, type(None), type(Ellipsis), range)


def first_difference(
    a: Any, b: Any, path: str = "result", visited: set[tuple[int, int]] | None = None
) -> str | None:
    """Return where two objects differ, or None if they are the same bit for bit."""
    visited = set() if visited is None else visited
    if type(a) is not type(b):
        return f"{path} is a {type(a).__name__} on one and a {type(b).__name__} on the other"
    if a is b:
        return None
    if isinstance(a, float):
        return None if struct.pack("d", a) == struct.pack("d", b) else f"{path}: {a!r} and {b!r}"
    if isinstance(a, complex):
        return first_difference((a.real, a.imag), (b.real, b.imag), path, visited)
    if type(a) in _PLAIN:
        return None if a == b else f"{path}: {_short(a)} and {_short(b)}"
    if isinstance(a, np.ndarray) and a.dtype.kind != "O":
        return _array_difference(a, b, path)
    if isinstance(a, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return f"{path}: {a!r} and {b!r}"
    if (id(a), id(b)) in visited:  # a cycle: these two are being compared already
        return None
    visited.add((id(a), id(b)))
    if isinstance(a, np.ndarray):
        if a.shape != b.shape:
            return f"{path} has shapes {a.shape} and {b.shape}"
        return first_difference(a.ravel().tolist(), b.ravel().tolist(), path, visited)
    if isinstance(a, (list, tuple)):
        return _sequence_difference(a, b, path, visited)
    if isinstance(a, dict):
        # the order of the keys is public too
        return _sequence_difference(list(a), list(b), f"keys of {path}", visited) or next(
            filter(None, (first_difference(a[k], b[k], f"{path}[{k!r}]", visited) for k in a)), None
        )
    if isinstance(a, (set, frozenset)):
        return None if a == b else f"{path}: the sets differ"
    return _state_difference(a, b, path, visited)


def _array_difference(a: NDArray[Any], b: NDArray[Any], path: str) -> str | None:
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{path} has shape {a.shape} ({a.dtype}) and {b.shape} ({b.dtype})"
    if a.tobytes() == b.tobytes():
        return None
    if a.ndim == 0:
        return f"{path}: {a!r} and {b!r}"
    for index in np.ndindex(a.shape):
        if a[index].tobytes() != b[index].tobytes():
            position = ", ".join(map(str, index))
            return f"{path}[{position}]: {a[index]!r} and {b[index]!r}"
    return None


def _sequence_difference(a: Any, b: Any, path: str, visited: set[tuple[int, int]]) -> str | None:
    if len(a) != len(b):
        return f"{path} has {len(a)} and {len(b)} items"
    for i, (item, other_item) in enumerate(zip(a, b, strict=True)):
        name = a._fields[i] if hasattr(a, "_fields") else None
        difference = first_difference(
            item, other_item, f"{path}.{name}" if name else f"{path}[{i}]", visited
        )
        if difference:
            return difference
    return None


def _state_difference(a: Any, b: Any, path: str, visited: set[tuple[int, int]]) -> str | None:
    try:
        first_state, other_state = a.__reduce_ex__(4), b.__reduce_ex__(4)
    except Exception as error:
        return f"{path}, a {type(a).__name__}, cannot be compared: {error}"
    if isinstance(first_state, str):
        return None if first_state == other_state else f"{path}: {first_state} and {other_state}"
    # (function, arguments, state, items of a list, items of a dict)
    for i, (x, y) in enumerate(zip(first_state, other_state, strict=True)):
        if i >= 3 and x is not None and y is not None:
            x, y = list(x), list(y)
        if i == 2 and isinstance(x, dict) and isinstance(y, dict) and list(x) == list(y):
            for key in x:
                difference = first_difference(x[key], y[key], f"{path}.{key}", visited)
                if difference:
                    return difference
            continue
        difference = first_difference(x, y, path, visited)
        if difference:
            return difference
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_neighbours(data: Any, neighbour: Any) -> int:
    """Return the index of the one record in which two data sets differ."""
    rows: list[NDArray[np.bool_]] = []
    _collect(data, neighbour, "data", rows)
    if not rows:
        raise InvalidInput("data and neighbour contain no array of records.")
    sizes = {len(row) for row in rows}
    if len(sizes) > 1:
        raise InvalidInput(
            f"the arrays in data have different numbers of records: {sorted(sizes)}. Pass "
            "public settings inside the callable, not as data."
        )
    differing = np.flatnonzero(np.any(rows, axis=0))
    if len(differing) != 1:
        raise InvalidInput(
            f"data and neighbour must differ in exactly one record; they differ in "
            f"{len(differing)}. Neighbours are data sets of the same length, one record replaced."
        )
    return int(differing[0])


def _collect(a: Any, b: Any, path: str, rows: list[NDArray[np.bool_]]) -> None:
    if type(a) is not type(b):
        raise InvalidInput(f"{path} has types {type(a).__name__} and {type(b).__name__}.")
    if isinstance(a, dict) or (isinstance(a, (tuple, list)) and any(np.ndim(x) for x in a)):
        keys, other_keys = ([*x] if isinstance(x, dict) else [*range(len(x))] for x in (a, b))
        if keys != other_keys:
            raise InvalidInput(f"{path} has different keys, or another number of items.")
        for key in keys:
            _collect(a[key], b[key], f"{path}[{key!r}]", rows)
        return
    first, second = np.asarray(a), np.asarray(b)
    if first.ndim == 0:
        difference = first_difference(a, b, path)
        if difference:
            raise InvalidInput(f"a public part of the data differs: {difference}.")
        return
    if first.shape != second.shape or first.dtype != second.dtype:
        raise InvalidInput(
            f"{path} has shape {first.shape} ({first.dtype}) and {second.shape} ({second.dtype}); "
            "neighbours have the same number of records, columns and the same dtype."
        )
    if first.dtype.kind == "O":
        rows.append(
            np.array([bool(first_difference(x, y)) for x, y in zip(first, second, strict=True)])
        )
        return
    flat = [
        np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8).reshape(len(x), -1)
        if x.size
        else np.zeros((len(x), 0), np.uint8)
        for x in (first, second)
    ]
    rows.append((flat[0] != flat[1]).any(axis=1))
