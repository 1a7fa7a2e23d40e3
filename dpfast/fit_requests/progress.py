"""Progress reports to a caller's function, which must not lose a result that is paid for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dpfast.errors import InvalidInput

Progress = Callable[[int, int], None]


def checked_progress(progress: Any, planned: int) -> Progress | None:
    """Check a caller's ``progress(done, planned)`` by one trial as ``progress(0, planned)``."""
    if progress is None:
        return None
    if not callable(progress):
        raise InvalidInput(
            "progress must be a function that is called with (done, planned), or None; received "
            f"an object of type {type(progress).__name__}."
        )
    try:
        progress(0, planned)
    except Exception as error:
        raise InvalidInput(
            f"progress is called with (done, planned) and raised {type(error).__name__} when it "
            f"was tried with (0, {planned}). Nothing was spent. Pass a function such as "
            'lambda done, planned: print(f"{done}/{planned}").'
        ) from error
    return _Watched(progress)


def progress_after(report: Progress | None, done: int, planned: int) -> Progress | None:
    """Report one run's progress as part of several runs, after ``done`` steps of them."""
    if report is None:
        return None
    return lambda step, _: report(done + step, planned)


class _Watched:
    def __init__(self, progress: Progress) -> None:
        self._progress: Progress | None = progress

    def __call__(self, done: int, planned: int) -> None:
        if self._progress is None:
            return
        try:
            self._progress(done, planned)
        except Exception:
            self._progress = None
            import logging  # warnings may be errors; logging does not raise

            with suppress(Exception):  # a caller's handler may
                logging.getLogger("dpfast").exception(
                    "progress raised at step %d of %d and is not called again; what was paid for "
                    "is completed and returned",
                    done,
                    planned,
                )
