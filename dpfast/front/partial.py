"""What was paid for when a run ended early: it travels with the exception."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

__all__ = ["UNFINISHED", "KeepingPaid"]

NOTE = (
    "What was released before this was raised is in the attribute partial_result of this "
    "exception: it was paid for, and costs nothing more."
)

#: Of a fit, with the name of the exception's type.
UNFINISHED = (
    "the run ended early (%s was raised), so there are no standard errors; params is the last "
    "point at which a question was answered."
)


class KeepingPaid:
    """Let an exception of any kind out as it is, with the result so far as ``partial_result``.

    For the part of a function that runs a caller's own code after the charge.  Ctrl-C and a ledger
    that refuses are treated alike.

    Parameters
    ----------
    so_far : callable
        Makes the result from released and public numbers, given the name of the exception's type;
        None where nothing was released yet.
    """

    def __init__(self, so_far: Callable[[str], object]) -> None:
        self._so_far = so_far

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or error is None:
            return
        with suppress(Exception):  # a caller's exception may be of any make
            found = self._so_far(kind.__name__)
            if found is not None:
                error.partial_result = found  # type: ignore[attr-defined]
                error.add_note(NOTE)
