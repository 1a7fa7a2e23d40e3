"""Arrow's arrays as damaged files make them: no offset, code or view is believed unseen.

Where the buffers of a column end and where each text begins belongs to the container, and a column
for which they do not fit is refused: every list of texts has offsets that rise, whatever it holds.
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

#: How one cell of a column of views is stored: its length, its beginning, and where the rest is.
VIEW = np.dtype([("size", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("start", "<i4")])

#: Arrow's types of cells between offsets, and the same buffers as bytes that may be anything.
OFFSETS = {
    "string": "binary",
    "large_string": "large_binary",
    "binary": "binary",
    "large_binary": "large_binary",
}


class BrokenBuffers(Exception):
    """The buffers of a column do not fit it; raised again with the column's name."""


def is_encoded(values: Any) -> bool:
    """Whether the cells of a column of Arrow's are codes of a dictionary."""
    return str(values.type).startswith("dictionary<")


def parts(values: Any) -> Iterator[tuple[Any, NDArray[np.int64] | None]]:
    """The chunks of a column: cells that are safe to read, and codes if they are of a dictionary.

    A code is -1 where it is missing or points to no cell.
    """
    for chunk in getattr(values, "chunks", [values]):
        codes = None
        with _damage_named():
            chunk.validate()  # of lengths
            if is_encoded(chunk):
                codes = _codes(_sound(chunk.indices), len(chunk.dictionary))
            cells = _sound(chunk if codes is None else chunk.dictionary)
        yield cells, codes


def refuse_broken(values: Any) -> None:
    """Raise :class:`BrokenBuffers` for a column whose buffers do not fit it."""
    for _ in parts(values):
        pass


def encoded(cells: Any) -> tuple[Any, NDArray[np.int64]]:
    """The different cells of an array that is safe to read, and the code of each record."""
    found = cells.dictionary_encode()
    return found.dictionary, _codes(found.indices, len(found.dictionary))


def _codes(indices: Any, n_levels: int) -> NDArray[np.int64]:
    # in 64 bits: codes may have 8, all of them taken; a larger one wraps around and is checked
    wide = indices.cast("int64", safe=False).fill_null(-1)
    codes: NDArray[np.int64] = wide.to_numpy(zero_copy_only=False)
    return np.where((codes < 0) | (codes >= n_levels), -1, codes)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Arrow's complaints, which may quote what it read, as one of no words."""
    try:
        yield
    except Exception:
        broken = True
    else:
        broken = False
    if broken:
        raise BrokenBuffers


def _sound(array: Any) -> Any:
    """The same cells with every offset checked and missing ones counted anew; views as bytes."""
    import pyarrow

    kind = str(array.type)
    if array.type.num_fields or isinstance(array.type, pyarrow.BaseExtensionType):
        return array  # no column is read of a nested type, which is refused where it is used
    if kind.endswith("_view"):
        return pyarrow.array(_viewed(array), pyarrow.large_binary())
    wanted = OFFSETS.get(kind)
    type_ = array.type if wanted is None else getattr(pyarrow, wanted)()
    found = pyarrow.Array.from_buffers(type_, len(array), array.buffers(), -1, array.offset)
    # in full the offsets of bytes; whether they are text is a matter of each cell
    found.validate(full=wanted is not None)
    return found


def _viewed(array: Any) -> list[bytes | None]:
    """Cells of an array of views; None where one is missing or points to nothing."""
    if not len(array):
        return []
    _, stored, *rest = array.buffers()
    end = array.offset + len(array)
    views = np.frombuffer(stored, VIEW, end)[array.offset :]
    inline = np.frombuffer(stored, np.uint8, end * VIEW.itemsize).reshape(end, -1)[:, 4:]
    present = array.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.where(present, views["size"], -1).tolist()
    # old versions of Arrow have a buffer that is None where every text is within its view
    buffers = [memoryview(b"" if buffer is None else buffer) for buffer in rest]
    places = zip(views["buffer"].tolist(), views["start"].tolist(), strict=True)
    cells = zip(inline[array.offset :], sizes, places, strict=True)
    return [view_cell(own, size, buffers, *place) for own, size, place in cells]
