"""Progress reports to a function of the caller's, which must not cost a result that is paid for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dpfast.errors import InvalidInput

Progress = Callable[[int, int], None]


def watched(progress: Any, planned: int) -> Progress | None:
    """A caller's ``progress(done, planned)``, tried once as ``progress(0, planned)``."""
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


def after(report: Progress | None, done: int, planned: int) -> Progress | None:
    """Progress of one run as that of all."""
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
            import logging  # of the standard library's channels, the one that never raises

            with suppress(Exception):  # a handler of the caller's may raise, too
                logging.getLogger("dpfast").exception(
                    "progress raised at step %d of %d and is not called again; what was paid for "
                    "is completed and returned",
                    done,
                    planned,
                )
