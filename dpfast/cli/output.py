"""Delivery of a result that has used its budget and cannot be computed again."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress

from dpfast.cli.interrupts import INTERRUPTS, Interrupted
from dpfast.errors import InvalidInput

#: Bytes reserved on the disk before the charge: enough for a report of about 180 coefficients with
#: their covariances.  A larger one can still meet a full disk; it is then printed.
RESERVED = 1 << 20


class PaidResult:
    """Delivery of one paid result to a file, or to standard output."""

    def __init__(self, target: str | None, inputs: Iterable[str | None] = ()) -> None:
        self._target = None if target is None else os.path.realpath(target)
        self._inputs = [os.path.realpath(path) for path in inputs if path is not None]
        self._scratch: str | None = None
        self._filled = False

    def __enter__(self) -> PaidResult:
        target = self._target
        if target is None:
            return self
        if os.path.lexists(target) and not os.path.isfile(target):
            raise InvalidInput(
                f"--out {target!r} is not an ordinary file. Name one, or print with --json."
            )
        if target in self._inputs:
            raise InvalidInput(f"--out {target!r} is an input of this command. Name another file.")
        folder, name = os.path.split(target)
        try:
            # a new file that only its owner can read
            descriptor, self._scratch = tempfile.mkstemp(".part", name + ".", folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(RESERVED))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._discard()
            raise InvalidInput(
                f"--out {target!r} cannot be written ({error.strerror}). Nothing was spent. Name a "
                "file in an existing folder with write permission and free space."
            ) from error
        return self

    def __exit__(self, *raised: object) -> None:
        if self._filled and self._scratch is not None:  # interrupted between writing and renaming
            tell(f"interrupted. The budget is spent; the result is in {self._scratch}.")
            return
        self._discard()

    def deliver(self, report: str, show: Callable[[], str]) -> int:
        """Write the report, print the table, and return the exit code."""
        written = self._target is not None and self._write(report)
        # a report that could not be written is printed instead of the table
        as_requested = written or self._target is None
        if _print(_table(show, report) if as_requested else report):
            return 0 if as_requested else 4
        if written:
            tell(f"the result could not be printed. It is in {self._target}.")
            return 0
        if self._scratch is None:
            self._scratch = _save_new(report)
        if self._scratch is None:
            tell("budget spent, but the result could be neither printed nor saved.")
        else:
            tell(f"budget spent, output not printed. The result is in {self._scratch}.")
            self._scratch = None
        return 4

    def _write(self, report: str) -> bool:
        """Fill the file beside the target and rename it."""
        assert self._target is not None and self._scratch is not None
        try:
            _fill(self._scratch, report)
            self._filled = True
        except OSError as error:
            self._discard()
            tell(
                f"budget spent, output not written to {self._target} ({error.strerror}). The "
                "result is printed instead."
            )
            return False
        try:
            os.replace(self._scratch, self._target)
        except OSError as error:
            tell(
                f"budget spent, output not written to {self._target} ({error.strerror}). The "
                f"result is in {self._scratch}."
            )
            self._scratch = None  # so that it is not deleted
            return False
        self._scratch = None
        _sync(os.path.dirname(self._target))
        return True

    def _discard(self) -> None:
        if self._scratch is not None:
            with suppress(OSError):
                os.unlink(self._scratch)
            self._scratch = None


def _fill(path: str, report: str) -> None:
    """Overwrite the reserved bytes, so that no more space is needed, and force them to disk."""
    content = report.encode()
    with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: str) -> None:
    """Make a rename durable, where folders can be synchronised."""
    with suppress(OSError):  # the file itself is on the disk
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _table(show: Callable[[], str], report: str) -> str:
    """Return the table, or the report if the table fails: the budget is spent."""
    try:
        return show()
    except Exception as error:
        tell(f"the table could not be made ({type(error).__name__}); the result is JSON instead.")
        return report


def _save_new(report: str) -> str | None:
    """Save to a new file in the working directory, or else in the one for temporary files."""
    for folder in (os.curdir, tempfile.gettempdir()):
        with suppress(OSError):
            descriptor, path = tempfile.mkstemp(".json", "dpfast-result-", os.path.abspath(folder))
            os.close(descriptor)
            try:
                _fill(path, report)
            except OSError:
                os.unlink(path)  # it has a part of the report at most
                raise
            return path
    return None


def save_unfinished(report: str) -> None:
    """Save the released part of a run that ended early in a new file, and name the file."""
    path = _save_new(report)
    if path is not None:
        tell(f"the run ended early. The results released so far are in {path}.")
    elif not _print(report):
        tell("the run ended early. Its results so far could be neither saved nor printed.")


def _print(text: str) -> bool:
    """Print the text; return False if it did not arrive (closed pipe, full disk, encoding).

    A reader that takes nothing would block for ever, so signals are raised here.
    """
    if sys.stdout is None:
        return False
    try:
        with INTERRUPTS.waiting(False):
            print(text)
            sys.stdout.flush()
    except (OSError, ValueError, Interrupted):
        silence()
        return False
    return True


def silence() -> None:
    """Discard the rest of the output buffer: Python would fail to flush it at exit."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def tell(message: str) -> None:
    """Print a message to standard error."""
    with suppress(OSError, ValueError):
        print(f"dpfast: {message}", file=sys.stderr, flush=True)
