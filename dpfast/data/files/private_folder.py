"""Files that are safe in folders that others can write to: opened without links, then looked at."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def any_folder(path: str | Path) -> Iterator[int]:
    """A handle on a folder that others may write to, too."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)


@contextmanager
def replacing(folder: int, name: str) -> Iterator[BinaryIO]:
    """A new file, for its owner alone, that takes the name once all of it is written."""
    draft = f"{name}.{os.getpid()}.{threading.get_native_id()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL  # of a link planted there, too, it is refused
    with suppress(FileNotFoundError):  # of a process that was killed
        os.unlink(draft, dir_fd=folder)
    try:
        with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
            yield file
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise
