"""Decoded blocks kept in a file of the caller's: float64 as they are, and a small JSON header."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dpfast.data.files.private_folder import make_private, opened, private_folder, replacing
from dpfast.data.streams import Block
from dpfast.errors import InvalidInput, RecordsUnavailable

HEADER, BLOCKS = "dpfast-blocks.json", "dpfast-blocks-*.f8"
FORMAT = 1


def cached(
    folder: Any,
    decode: Callable[[int], Block],
    block_sizes: Sequence[int],
    n_covariates: int,
    identity: dict[str, Any],
) -> Callable[[int], Block]:
    """A decoder that reads the folder's file, which is written first unless it is up to date."""
    place = Path(folder)
    width = n_covariates + 1
    header = {"format": FORMAT, "width": width, "block_sizes": list(block_sizes)} | identity
    # named after what it holds, so that it cannot be taken for another however writers race
    digest = hashlib.sha256(json.dumps(header).encode()).hexdigest()[:16]
    file = BLOCKS.replace("*", digest)
    make_private(place)
    with ExitStack() as stack:
        try:
            private = stack.enter_context(private_folder(place))
        except OSError as error:
            raise InvalidInput(
                "cache must be a folder of your own, no link, that nobody else can write to: what "
                "is read from it counts as the data. Take another, or 'chmod go-w' this one. "
                f"({error.strerror})"
            ) from None
        if not _is_current(private, file, header):
            _write(private, file, header, decode)
    starts = [0]
    for size in block_sizes:
        starts.append(starts[-1] + size)

    def read(k: int) -> Block:
        rows = block_sizes[k]
        try:
            with private_folder(place) as folder, opened(folder, file) as content:
                content.seek(8 * width * starts[k])
                flat = np.fromfile(content, dtype="<f8", count=rows * width)
        except OSError:
            flat = np.empty(0)
        if len(flat) != rows * width:
            raise RecordsUnavailable(
                "the cache of decoded blocks was changed or removed. What was charged stays "
                "charged. Open the data again."
            )
        records = flat.astype(np.float64, copy=False).reshape(rows, width)
        return records[:, :-1], records[:, -1]

    return read


def _is_current(folder: int, file: str, header: dict[str, Any]) -> bool:
    try:
        with opened(folder, HEADER) as text:
            found = json.load(text)
        with opened(folder, file) as content:
            size = os.fstat(content.fileno()).st_size
    except (OSError, ValueError):
        return False
    return bool(found == header and size == 8 * header["width"] * sum(header["block_sizes"]))


def _write(folder: int, file: str, header: dict[str, Any], decode: Callable[[int], Block]) -> None:
    """Blocks first, then the header that makes them valid; each replaces the old one at once."""
    for stale in (HEADER, *fnmatch.filter(os.listdir(folder), BLOCKS)):
        with suppress(FileNotFoundError):
            os.unlink(stale, dir_fd=folder)
    with replacing(folder, file) as content:
        for k, rows in enumerate(header["block_sizes"]):
            X, y = decode(k)
            records = np.empty((rows, header["width"]), dtype="<f8")
            records[:, :-1], records[:, -1] = X, y
            content.write(records.data)
    with replacing(folder, HEADER) as text:
        text.write(json.dumps(header).encode())
