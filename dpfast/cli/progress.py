"""A progress bar for people; nothing for pipes."""

from __future__ import annotations

import sys
from typing import TextIO


class ProgressBar:
    """A bar on standard error, drawn only where a person can see it."""

    def __init__(self, label: str, stream: TextIO | None = None, width: int = 30) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.width = width
        self.visible = self.stream.isatty()
        self._filled = -1

    def __call__(self, done: int, total: int) -> None:
        if not self.visible:
            return
        filled = self.width * done // max(total, 1)
        if filled != self._filled:
            self._filled = filled
            bar = "#" * filled + "." * (self.width - filled)
            self.stream.write(f"\r{self.label} [{bar}] {done}/{total}")
        if done >= total:
            self.stream.write("\r\033[K")  # leave no trace in the output
        self.stream.flush()
