"""Checked reading of Arrow arrays, whose buffers may be damaged.

The container says where the buffers of a column end and where each text begins.  A column whose
buffers do not fit is refused: offsets rise in every valid list of texts.
A code of a dictionary and a view of a text belong to one cell; one that points to nothing is a
missing cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.cells import view_cell

#: Layout of an Arrow view: the length of a cell, its beginning, and the position of the rest.
VIEW = np.dtype([("size", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("start", "<i4")])

#: Arrow types whose cells lie between offsets, and the type that reads the same buffers as bytes.
OFFSETS = {
    "string": "binary",
    "large_string": "large_binary",
    "binary": "binary",
    "large_binary": "large_binary",
}


class BrokenBuffers(Exception):
    """Error of a column whose buffers do not fit it; raised again with the column's name."""


def is_encoded(values: Any) -> bool:
    """Test for a dictionary-encoded Arrow column."""
    return str(values.type).startswith("dictionary<")


def parts(values: Any) -> Iterator[tuple[Any, NDArray[np.int64] | None]]:
    """Yield the chunks of a column: checked cells, and codes if it is dictionary-encoded.

    A code is -1 where it is missing or points to no cell.
    """
    for chunk in getattr(values, "chunks", [values]):
        codes = None
        with _damage_named():
            chunk.validate()  # lengths only
            if is_encoded(chunk):
                codes = _codes(_sound(chunk.indices), len(chunk.dictionary))
            cells = _sound(chunk if codes is None else chunk.dictionary)
        yield cells, codes


def refuse_broken(values: Any) -> None:
    """Raise :class:`BrokenBuffers` for a column whose buffers do not fit it."""
    for _ in parts(values):
        pass


def encoded(cells: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the distinct cells of a checked array, and the code of each record."""
    dictionary_array = cells.dictionary_encode()
    return dictionary_array.dictionary, _codes(
        dictionary_array.indices, len(dictionary_array.dictionary)
    )


def _codes(indices: Any, n_levels: int) -> NDArray[np.int64]:
    # 64 bits leave room for -1; a code too large for them wraps around, and is checked below
    wide = indices.cast("int64", safe=False).fill_null(-1)
    codes: NDArray[np.int64] = wide.to_numpy(zero_copy_only=False)
    return np.where((codes < 0) | (codes >= n_levels), -1, codes)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Turn Arrow's errors, which may quote cells, into :class:`BrokenBuffers` without a message."""
    try:
        yield
    except Exception:
        broken = True
    else:
        broken = False
    if broken:
        raise BrokenBuffers


def _sound(array: Any) -> Any:
    """Rebuild an array with all offsets checked and missing cells counted again; views as bytes."""
    import pyarrow

    kind = str(array.type)
    if array.type.num_fields or isinstance(array.type, pyarrow.BaseExtensionType):
        return array  # columns of nested types are not read, but refused where they are used
    if kind.endswith("_view"):
        return pyarrow.array(_viewed(array), pyarrow.large_binary())
    bytes_type = OFFSETS.get(kind)
    type_ = array.type if bytes_type is None else getattr(pyarrow, bytes_type)()
    rebuilt = pyarrow.Array.from_buffers(type_, len(array), array.buffers(), -1, array.offset)
    # all offsets are checked; each cell is decoded as text later, on its own
    rebuilt.validate(full=bytes_type is not None)
    return rebuilt


def _viewed(array: Any) -> list[bytes | None]:
    """Read the cells of an array of views; None where one is missing or points to nothing."""
    if not len(array):
        return []
    _, stored, *data_buffers = array.buffers()
    end = array.offset + len(array)
    views = np.frombuffer(stored, VIEW, end)[array.offset :]
    inline = np.frombuffer(stored, np.uint8, end * VIEW.itemsize).reshape(end, -1)[:, 4:]
    present = array.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(present, views["size"], -1).tolist()
    # old versions of Arrow have a buffer None where each view stores its whole text
    buffers = [memoryview(b"" if buffer is None else buffer) for buffer in data_buffers]
    places = zip(views["buffer"].tolist(), views["start"].tolist(), strict=True)
    cells = zip(inline[array.offset :], sizes, places, strict=True)
    return [view_cell(inline_bytes, size, buffers, *place) for inline_bytes, size, place in cells]
