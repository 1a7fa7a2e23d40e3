"""Decoded blocks kept in a file of the caller's: float64 as they are, and a small JSON header.

The file holds the records themselves, unprotected; it is readable by its owner only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpfast.data.streams import Block
from dpfast.errors import RecordsUnavailable

__all__ = ["cached"]

HEADER, BLOCKS = "dpfast-blocks.json", "dpfast-blocks-*.f8"
FORMAT = 1


def cached(
    folder: Any,
    decode: Callable[[int], Block],
    block_sizes: Sequence[int],
    n_covariates: int,
    identity: dict[str, Any],
) -> Callable[[int], Block]:
    """A decoder that reads the folder's file, which is written first unless it is up to date.

    Parameters
    ----------
    folder : path
        Made if it is absent.
    decode : callable
        ``decode(k)`` returns block k as arrays (rows, q) and (rows,).
    block_sizes : sequence of int
    n_covariates : int
    identity : dict
        What the blocks were decoded from, as JSON; another one makes the file stale.
    """
    folder = Path(folder)
    width = n_covariates + 1
    header = {"format": FORMAT, "width": width, "block_sizes": list(block_sizes)} | identity
    # named after what it holds, so that it cannot be taken for another however writers race
    digest = hashlib.sha256(json.dumps(header).encode()).hexdigest()[:16]
    file = folder / BLOCKS.replace("*", digest)
    if not _is_current(file, header):
        folder.mkdir(parents=True, exist_ok=True)
        _write(file, header, decode)
    starts = [0]
    for size in block_sizes:
        starts.append(starts[-1] + size)

    def read(k: int) -> Block:
        rows = block_sizes[k]
        try:
            flat = np.fromfile(file, dtype="<f8", count=rows * width, offset=8 * width * starts[k])
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


def _is_current(file: Path, header: dict[str, Any]) -> bool:
    try:
        found = json.loads((file.parent / HEADER).read_text(encoding="utf-8"))
        size = file.stat().st_size
    except (OSError, ValueError):
        return False
    return bool(found == header and size == 8 * header["width"] * sum(header["block_sizes"]))


def _write(file: Path, header: dict[str, Any], decode: Callable[[int], Block]) -> None:
    """Blocks first, then the header that makes them valid; each replaces the old one at once."""
    folder = file.parent
    for stale in (folder / HEADER, *folder.glob(BLOCKS)):
        stale.unlink(missing_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            for k, rows in enumerate(header["block_sizes"]):
                X, y = decode(k)
                records = np.empty((rows, header["width"]), dtype="<f8")
                records[:, :-1], records[:, -1] = X, y
                opened.write(records.data)
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)
    text = folder / f"{HEADER}.{os.getpid()}"
    text.write_text(json.dumps(header), encoding="utf-8")
    os.replace(text, folder / HEADER)
