"""Signals that end a command, as exceptions: they wait while what was paid for is saved.

Only the command changes how signals are handled, and only where nobody else did: a program that
imports the library, and one that calls ``main`` with handlers of its own, keeps what it has.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


#: Ctrl-C; what supervisors and schedulers send; a terminal or connection that is closed; a limit of
#: processor time.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")

#: What Python does when nobody chose: what was chosen, as by nohup, stays.
UNCHOSEN = (signal.SIG_DFL, signal.default_int_handler)


class Interrupts:
    """Raises :class:`Interrupted` where a signal arrives, or later if it has to wait."""

    def __init__(self) -> None:
        self._waits = False
        self._arrived: int | None = None

    @contextmanager
    def raised(self) -> Iterator[None]:
        """Handle the signals within; as they were handled before, after it."""
        self._waits, self._arrived = False, None
        before: dict[int, Any] = {}
        for number in [getattr(signal, name) for name in NAMES if hasattr(signal, name)]:
            if (handler := signal.getsignal(number)) in UNCHOSEN:
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
        """Let signals wait within, or, within that, be raised again."""
        before, self._waits = self._waits, waits
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


#: Of the process, as signals are.
INTERRUPTS = Interrupts()
