"""What was paid for when a run ended early: it travels with the exception."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Token
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import TAPE, Released, Tape
from dpfast.inference.guarantees import Guarantee

NOTE = (
    "What was released before this was raised is in the attribute partial_result of this "
    "exception: it was paid for, and costs nothing more."
)

#: What a plan reserved; said of every partial result that knows it.
RESERVED = " Of {total!r} that was charged for it, {left!r} went to no mechanism and stays spent."

#: Part of a total that is no more than rounding.
LITTLE = 1e-3

#: Of a fit, with the name of the exception's type.
UNFINISHED = (
    "the run ended early (%s was raised), so there are no standard errors; params is the last "
    "point at which a question was answered."
)


class PartialResult(NamedTuple):
    """The answers of a call that ended early: what it had released when something was raised.

    It is the exception's attribute ``partial_result`` where there is no more than single answers
    to show; a call that can say more (a fit, finished levels or folds) leaves that there.

    Attributes
    ----------
    answers : tuple of Released
        In the order in which they were given; the first ones are left out where all together are
        more than two million numbers.
    privacy : Guarantee
        What was charged for the whole call; its ``unspent`` is what went to no mechanism any more.
    units : Standardized or None
        Centres and spreads that were bought and are complete, for ``dpfast.fit(...,
        standardize=units)``.

    Privacy
    -------
    Released and public numbers: costs nothing.

    Examples
    --------
    >>> def stop(step, of):
    ...     if step:
    ...         raise KeyboardInterrupt
    >>> try:
    ...     dpfast.fit(np.zeros((50, 1)), np.zeros(50), "log-cosh", privacy=1.0, progress=stop)
    ... except KeyboardInterrupt as stopped:
    ...     found = stopped.partial_result
    >>> type(found).__name__, found.privacy.total, len(found.answers) > 0
    ('PartialResult', GDP(mu=1.0), True)
    """

    answers: tuple[Released, ...]
    privacy: Guarantee
    units: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values and arrays."""
        bought = () if self.units is None else ("names", "centres", "spreads", "response")
        return {
            "answers": [answer._asdict() for answer in self.answers],
            "privacy": self.privacy.to_dict(),
            "units": {name: getattr(self.units, name) for name in bought} or None,
        }


class KeepReleased:
    """Let an exception out as it is, with what was handed out as ``partial_result`` (C48).

    Within it floating-point errors are ignored, whatever NumPy was told: values decide them.
    """

    def __init__(
        self,
        so_far: Callable[[str], object] | None = None,
        *,
        privacy: Callable[[], Any] | None = None,
        units: Callable[[], Any] = lambda: None,
        listens: bool = False,  # to the call within: of one that ended, what it had released
    ) -> None:
        self._so_far, self._privacy, self._units, self._listens = so_far, privacy, units, listens
        self._tape = Tape()
        self._within: Tape | None = None
        self._error: BaseException | None = None

    def points(self, dimension: int) -> list[NDArray[np.float64]]:
        """Parameters of this length at which questions were answered, in order."""
        found: list[NDArray[np.float64]] = []
        for answer in self._tape.answers:
            for at in answer.at[:1]:
                new = isinstance(at, np.ndarray) and at.shape == (dimension,)
                if new and not (found and np.array_equal(found[-1], at)):
                    found.append(at)
        return found

    def inner(self) -> Any:
        """What a call of this library inside of this one left with the exception."""
        return getattr(self._error, "partial_result", None)

    def __enter__(self) -> KeepReleased:
        self._within = TAPE.get()
        if self._listens:
            self._tape.ended = lambda error: None
        self._token: Token[Tape | None] = TAPE.set(self._tape)
        self._quiet = np.errstate(all="ignore")
        self._quiet.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._quiet.__exit__(kind, error, traceback)
        TAPE.reset(self._token)
        if error is None:
            if self._within is not None and self._within.ended is not None:
                self._within.ended = self._found  # the next line may be interrupted
            return
        self._error = error
        with suppress(Exception):  # a caller's exception may be of any make
            found = self._found(kind.__name__)
            if found is not None:
                error.partial_result = found  # type: ignore[attr-defined]
                if not any(note.startswith(NOTE) for note in getattr(error, "__notes__", ())):
                    error.add_note(NOTE + _reserved(found))

    def _found(self, error: str) -> object:
        if self._so_far is not None:
            with suppress(Exception):  # in the middle of a step not everything is in its place
                found = self._so_far(error)
                if found is not None:
                    return found
        if self._tape.ended is not None:
            return self._tape.ended(error)
        if self._privacy is None or not self._tape.answers:
            return None
        return PartialResult(self._tape.answers, self._privacy(), self._units())


def _reserved(found: object) -> str:
    """What was charged and went to no mechanism, where a result knows it."""
    privacy: Any = getattr(found, "privacy", None)
    left = getattr(privacy, "unspent", None)
    if left is None or not any(
        a > LITTLE * b for a, b in zip(left.values(), privacy.total.values(), strict=True)
    ):
        return ""
    return RESERVED.format(total=privacy.total, left=left)
