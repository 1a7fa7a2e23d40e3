"""Where a result goes that was paid for and cannot be computed again."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress

from dpfast.cli.interrupts import INTERRUPTS, Interrupted
from dpfast.errors import InvalidInput

#: Bytes taken on the disk before the charge: the report of about 180 coefficients with their
#: covariances.  A larger one may still meet a full disk, and is printed then.
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
            raise InvalidInput(f"--out {target!r} is a file that the command needs. Name another.")
        folder, name = os.path.split(target)
        try:
            # exclusive, and for the owner's eyes only
            descriptor, self._scratch = tempfile.mkstemp(".part", name + ".", folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(RESERVED))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._discard()
            raise InvalidInput(
                f"--out {target!r} cannot be written ({error.strerror}). Nothing was spent. Name a "
                "file in a folder that exists, that you may write to and that has room."
            ) from error
        return self

    def __exit__(self, *raised: object) -> None:
        if self._filled and self._scratch is not None:  # interrupted between writing and renaming
            tell(f"interrupted. The result was paid for and is in {self._scratch}.")
            return
        self._discard()

    def deliver(self, report: str, show: Callable[[], str]) -> int:
        """Write the report, show something, and return the exit code."""
        written = self._target is not None and self._write(report)
        # what could not be written is at least on the screen
        shown = _shown(show, report) if written or self._target is None else report
        if _printed(shown):
            return 0 if written or self._target is None else 4
        if written:
            tell(f"the result is in {self._target}; it could not be printed.")
            return 0
        if self._scratch is None:
            self._scratch = _saved(report)
        if self._scratch is None:
            tell("the result could neither be printed nor saved.")
        else:
            tell(f"the result could not be printed. It is in {self._scratch} and was paid for.")
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
                f"the result could not be written to {self._target} ({error.strerror}). It was "
                "paid for and is printed instead."
            )
            return False
        try:
            os.replace(self._scratch, self._target)
        except OSError as error:
            tell(
                f"the result could not be moved to {self._target} ({error.strerror}). It was paid "
                f"for and is in {self._scratch}."
            )
            self._scratch = None  # it stays
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
    """Overwrite what was reserved, so that no more room is needed, and force it to disk."""
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


def _shown(show: Callable[[], str], report: str) -> str:
    """A table for people; the report if that fails, for it was paid for."""
    try:
        return show()
    except Exception as error:
        tell(f"the table could not be made ({type(error).__name__}); this is what was paid for.")
        return report


def _saved(report: str) -> str | None:
    """A new file in the working directory, or else in that for temporary files."""
    for folder in (os.curdir, tempfile.gettempdir()):
        with suppress(OSError):
            descriptor, path = tempfile.mkstemp(".json", "dpfast-result-", os.path.abspath(folder))
            os.close(descriptor)
            try:
                _fill(path, report)
            except OSError:
                os.unlink(path)  # nothing, or a part of it
                raise
            return path
    return None


def save_unfinished(report: str) -> None:
    """Put what a run had released that ended early where it was not asked for, and say where."""
    place = _saved(report)
    if place is not None:
        tell(f"the run ended early. What it had released was paid for and is in {place}.")
    elif not _printed(report):
        tell("the run ended early, and what it had released could neither be saved nor printed.")


def _printed(text: str) -> bool:
    """Print, and know whether it arrived: pipes are closed, disks full, encodings narrow.

    A reader that takes nothing can hold it for ever, so that a signal is heard here.
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
    """Let what is still in the buffer go nowhere, or Python would complain on its way out."""
    with suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def tell(message: str) -> None:
    with suppress(OSError, ValueError):
        print(f"dpfast: {message}", file=sys.stderr, flush=True)
