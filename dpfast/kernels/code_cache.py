"""Machine code on disk, in a folder that nobody else can write to.

Whoever can write there can have this process run anything.  The folder is therefore opened first
and looked at afterwards, and files are opened relative to it: what was looked at is what is used.
Whatever is wrong with the folder or a file, there is just no cache.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["load", "store"]

#: A file is some 10 kB; the oldest go.
MOST_FILES = 500
#: RuntimeError: the user has no home.
NO_PLACE = (OSError, RuntimeError)
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def load(key: str) -> bytes | None:
    """The code stored under a key; None if there is none, or none to be trusted."""
    with suppress(*NO_PLACE), _folder() as folder:
        handle = os.open(key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with open(handle, "rb") as file:
            if _is_ours(os.fstat(handle), stat.S_ISREG):
                content = file.read()
                digest, code = content[:32], content[32:]
                return code if digest == _digest(key, code) else None
    return None


def store(key: str, code: bytes) -> None:
    """Keep code under a key, if there is a place for it; readers see all of it or nothing."""
    with suppress(*NO_PLACE):
        place = _place()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700)
    with suppress(*NO_PLACE), _folder() as folder:
        draft = f"{key}.{os.getpid()}.{threading.get_native_id()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(_digest(key, code) + code)
            os.replace(draft, key, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(draft, dir_fd=folder)
        _prune(folder)


def _place() -> Path:
    """The folder: Numba's if it is set, otherwise that of the user's caches."""
    numba = os.environ.get("NUMBA_CACHE_DIR")
    if numba:
        return Path(numba, "dpfast")
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "dpfast"


@contextmanager
def _folder() -> Iterator[int]:
    """A handle on the folder; OSError unless it is ours alone to write to."""
    handle = os.open(_place(), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _is_ours(os.fstat(handle), stat.S_ISDIR):
            raise OSError("somebody else's")
        yield handle
    finally:
        os.close(handle)


def _is_ours(status: os.stat_result, kind: object) -> bool:
    ours = status.st_uid == os.geteuid() and not status.st_mode & WRITABLE_BY_OTHERS
    return ours and bool(kind(status.st_mode))  # type: ignore[operator]


def _digest(key: str, code: bytes) -> bytes:
    """Tells a file cut short, and one under another's name."""
    return hashlib.sha256(key.encode() + code).digest()


def _prune(folder: int) -> None:
    with os.scandir(folder) as entries:
        files = sorted(entries, key=lambda entry: entry.stat().st_mtime)
    for entry in files[:-MOST_FILES]:
        os.unlink(entry.name, dir_fd=folder)
