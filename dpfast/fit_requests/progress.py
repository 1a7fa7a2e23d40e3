"""Progress of long work: a caller's function, a bar of tqdm, or a plain line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TextIO

Progress = Callable[[int, int], None]


class ProgressBar:
    """A line on standard error, drawn by default only where a person can see it."""

    def __init__(
        self,
        label: str,
        stream: TextIO | None = None,
        width: int = 30,
        *,
        visible: bool | None = None,
    ) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.width = width
        self.visible = self.stream.isatty() if visible is None else visible
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


def progress_bar(planned: int) -> Progress:
    """Make a bar of tqdm where that is installed, or else a plain line."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return ProgressBar("dpfast", visible=True)
    bar: Any = tqdm(total=planned, desc="dpfast", unit="step", leave=False)

    def report(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return report
