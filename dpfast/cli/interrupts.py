"""Signals that end a command, raised as exceptions; they wait while a paid result is saved.

Only the command sets signal handlers, and only in place of Python's defaults.  A program that
imports the library, or that calls ``main`` with its own handlers, keeps them.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Signal that ends the command."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


#: Ctrl-C; the signal of supervisors and schedulers; a closed terminal or connection; a limit of
#: processor time.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")

#: Python's default handlers; any other, such as nohup's, was chosen by somebody and stays.
DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)


class Interrupts:
    """Handler that raises :class:`Interrupted` when a signal arrives, or later if it must wait."""

    def __init__(self) -> None:
        self._waits = False
        self._arrived: int | None = None

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Handle the signals inside the block, and restore the handlers after it."""
        self._waits = False
        self._arrived = None
        before: dict[int, Any] = {}
        for number in [getattr(signal, name) for name in NAMES if hasattr(signal, name)]:
            if (handler := signal.getsignal(number)) in DEFAULT_HANDLERS:
                with suppress(ValueError):  # not the main thread
                    signal.signal(number, self._handle)
                    before[number] = handler
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def waiting(self, waits: bool = True) -> Iterator[None]:
        """Let signals wait inside the block, or raise them again in an inner block."""
        before = self._waits
        self._waits = waits
        try:
            if not waits and self._arrived is not None:
                raise Interrupted(self._arrived)
            yield
        finally:
            self._waits = before

    def _handle(self, number: int, frame: Any) -> None:
        if self._waits:
            self._arrived = number
        else:
            raise Interrupted(number)


#: One handler for the process, because signals belong to the process.
INTERRUPTS = Interrupts()
