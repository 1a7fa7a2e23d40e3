"""Small files that are written whole and read whole: fits, reports, searches, requests, pictures.

A writer keeps the old file until all of the new one is on the disk.  A reader takes ordinary
files only, because a pipe may never end, and none that is larger than dpfast writes.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dpfast.errors import InvalidInput

#: Largest number of entries of all lists of a document.  Each takes more time and memory than its
#: bytes; larger files are refused.
MAX_ENTRIES = 6_000_000


def write_document(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replace a file by a document, all at once; a failure leaves the file as it was."""
    place = os.path.realpath(path)
    try:
        before = os.stat(place).st_mode if os.path.lexists(place) else None
        if before is not None and not stat.S_ISREG(before):
            raise InvalidInput(
                f"{os.fspath(path)!r} is not an ordinary file, and would be replaced by one. Name "
                "another."
            )
        folder, name = os.path.split(place)
        with any_folder(folder) as handle, replacing(handle, name, before or 0o666) as file:
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before))
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise type(error)(
            error.errno,
            f"the file could not be written ({error.strerror}); what was there is as it was. Pass "
            "the path of a file in a folder that exists, that has room and that you may write to",
            os.fspath(path),
        ) from None


def read_document(path: str | os.PathLike[str], largest: int) -> bytes:
    """Read an ordinary file of at most ``largest`` bytes; `OSError` if it cannot be opened."""
    name = os.fspath(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # of a pipe at once
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidInput(
                f"{name!r} is not an ordinary file but a folder, a pipe or a device, which is not "
                "read. Copy what it holds to a file."
            )
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(largest + 1)
    finally:
        os.close(descriptor)
    if len(content) > largest or content.count(b",") > MAX_ENTRIES:
        raise InvalidInput(
            f"{name!r} is too large: at most {largest:,} bytes and {MAX_ENTRIES:,} entries are "
            "read. Name a file that dpfast wrote, or a smaller one."
        )
    return content


# ---- in folders that others can write to: opened without links, then looked at -------------------


@contextmanager
def any_folder(path: str | Path) -> Iterator[int]:
    """Open a folder that others may write to, too, as a handle."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def replacing(folder: int, name: str, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a new file, for its owner alone, that takes the name once all of it is on the disk."""
    short = os.fsdecode(os.fsencode(name)[:200])  # the longest name has 255 bytes
    draft = f"{short}.{os.getpid()}.{threading.get_native_id()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # of a link planted there, too, it is refused
    with suppress(FileNotFoundError):  # of a process that was killed
        os.unlink(draft, dir_fd=folder)
    try:
        with open(os.open(draft, flags, mode, dir_fd=folder), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
    with suppress(OSError):  # of a folder that cannot be synchronised; the file is on the disk
        os.fsync(folder)
