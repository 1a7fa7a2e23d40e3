"""A folder that nobody else can write to, files in it, and files that are safe in any folder.

Whoever can write there can exchange what is read, or plant a link to where it should be written.
The folder is therefore opened first and looked at afterwards, and files are opened relative to it,
links refused: what was looked at is what is used.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO
NO_LINKS = os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(path: Path) -> None:
    """Make the folder, for its owner alone, unless it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)


@contextmanager
def private_folder(path: Path) -> Iterator[int]:
    """A handle on the folder; OSError unless it is ours alone to write to."""
    with any_folder(path, NO_LINKS) as folder:
        _check_ours(os.fstat(folder), stat.S_IFDIR)
        yield folder


@contextmanager
def any_folder(path: str | Path, flags: int = os.O_CLOEXEC) -> Iterator[int]:
    """A handle on a folder that others may write to, too."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield folder
    finally:
        os.close(folder)


def for_owner_alone(path: str | Path) -> BinaryIO:
    """A file to read and write, made if it is absent; OSError if others can look into it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | NO_LINKS
    file = open(os.open(path, flags, 0o600), "r+b", buffering=0)  # noqa: SIM115 - handed on
    try:
        status = os.fstat(file.fileno())
        _check_ours(status, stat.S_IFREG, OPEN_TO_OTHERS)
        if status.st_nlink != 1:
            raise PermissionError(errno.EPERM, "it has another name")
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def opened(folder: int, name: str) -> Iterator[BinaryIO]:
    """A file of the folder, to read; OSError unless it is ours alone to write to."""
    # A pipe in the place of a file must not hold up whoever opens it.
    with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_LINKS, dir_fd=folder), "rb") as file:
        _check_ours(os.fstat(file.fileno()), stat.S_IFREG)
        yield file


@contextmanager
def replacing(folder: int, name: str) -> Iterator[BinaryIO]:
    """A new file, for its owner alone, that takes the name once all of it is written."""
    draft = f"{name}.{os.getpid()}.{threading.get_native_id()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS
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


def _check_ours(status: os.stat_result, kind: int, others: int = WRITABLE_BY_OTHERS) -> None:
    if (
        stat.S_IFMT(status.st_mode) != kind
        or status.st_uid != os.geteuid()
        or status.st_mode & others
    ):
        raise PermissionError(errno.EPERM, "others may read or write it")
