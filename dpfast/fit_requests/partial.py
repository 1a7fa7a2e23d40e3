"""Partial results: what an interrupted call had released travels with its exception."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import Token
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import TAPE, Released, Tape
from dpfast.inference.guarantees import Guarantee

PARTIAL_NOTE = (
    "What was released before this was raised is in the attribute partial_result of this "
    "exception: it was paid for, and costs nothing more."
)

#: Budget that the plan reserved and did not use; added for every partial result that knows it.
RESERVED_NOTE = (
    " Of {total!r} that was charged for it, {unspent!r} went to no mechanism and stays spent."
)

#: Part of a total up to which an unspent amount is rounding, and not mentioned.
ROUNDING_SHARE = 1e-3

#: Why an unfinished fit has no standard errors; takes the name of the exception's type.
UNFINISHED = (
    "the run ended early (%s was raised), so there are no standard errors; params is the last "
    "point at which a query was answered."
)


class PartialResult(NamedTuple):
    """Answers that a call had released when an exception ended it.

    It is the exception's attribute ``partial_result`` where only single answers were released.
    A call that released more (a fit, finished levels or folds) leaves that there instead.

    Attributes
    ----------
    answers : tuple of Released
        In the order of their release.  The first ones are left out where all together are more
        than two million numbers.
    privacy : Guarantee
        What was charged for the whole call; its ``unspent`` reached no mechanism.
    units : Standardized or None
        Private centres and scales, if all were estimated, for ``dpfast.fit(...,
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
    ...     partial = stopped.partial_result
    >>> type(partial).__name__, partial.privacy.total, len(partial.answers) > 0
    ('PartialResult', GDP(mu=1.0), True)
    """

    answers: tuple[Released, ...]
    privacy: Guarantee
    units: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values and arrays."""
        fields = () if self.units is None else ("names", "centres", "spreads", "response")
        return {
            "answers": [answer._asdict() for answer in self.answers],
            "privacy": self.privacy.to_dict(),
            "units": {name: getattr(self.units, name) for name in fields} or None,
        }


class KeepReleased:
    """Context that lets exceptions pass, with released answers as ``partial_result`` (C48).

    Floating-point warnings are off within it, under all settings of NumPy: values cause them.
    ``so_far`` receives the context, and does not keep it: a cycle would keep the records.
    """

    def __init__(
        self,
        so_far: Callable[[str, KeepReleased], object] | None = None,
        *,
        privacy: Callable[[], Any] | None = None,
        scales: Callable[[], Any] = lambda: None,
        adopts_inner: bool = False,  # whether a nested call's partial result serves as this one's
    ) -> None:
        self._so_far, self._privacy, self._scales = so_far, privacy, scales
        self._adopts_inner = adopts_inner
        self._tape = Tape()
        self._outer_tape: Tape | None = None
        self._error: BaseException | None = None

    def points(self, dimension: int) -> list[NDArray[np.float64]]:
        """Return the parameters of this length at which queries were answered, in order."""
        points: list[NDArray[np.float64]] = []
        for answer in self._tape.answers:
            for point in answer.at[:1]:
                new = isinstance(point, np.ndarray) and point.shape == (dimension,)
                if new and not (points and np.array_equal(points[-1], point)):
                    points.append(point)
        return points

    def inner(self) -> Any:
        """Return the partial result that a nested call left with the exception."""
        return getattr(self._error, "partial_result", None)

    def last(self, error: str) -> Any:
        """Return what a nested call left that was not :meth:`taken`, or None."""
        inner = self.inner()
        return self._tape.ended(error) if inner is None and self._tape.ended else inner

    def taken(self) -> None:
        """Note that the result of the last nested call is kept by the caller."""
        self._tape.ended = lambda error: None

    def __enter__(self) -> KeepReleased:
        self._outer_tape = TAPE.get()
        if self._adopts_inner:
            self.taken()
        self._token: Token[Tape | None] = TAPE.set(self._tape)
        self._errstate = np.errstate(all="ignore")
        self._errstate.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._errstate.__exit__(kind, error, traceback)
        TAPE.reset(self._token)
        if error is None:
            if self._outer_tape is not None and self._outer_tape.ended is not None:
                self._outer_tape.ended = self._partial_result  # the next line may be interrupted
            return
        self._error = error
        with suppress(Exception):  # a caller's exception may refuse attributes
            partial = self._partial_result(kind.__name__)
            if partial is not None:
                error.partial_result = partial  # type: ignore[attr-defined]
                if not any(
                    note.startswith(PARTIAL_NOTE) for note in getattr(error, "__notes__", ())
                ):
                    error.add_note(PARTIAL_NOTE + _unspent_note(partial))

    def _partial_result(self, error: str) -> object:
        if self._so_far is not None:
            with suppress(Exception):  # in the middle of a step attributes may be missing
                partial = self._so_far(error, self)
                if partial is not None:
                    return partial
        if self._tape.ended is not None:
            return self._tape.ended(error)
        if self._privacy is None or not self._tape.answers:
            return None
        return PartialResult(self._tape.answers, self._privacy(), self._scales())


def _unspent_note(result: object) -> str:
    """Describe the part of a charge that reached no mechanism, if the result knows it."""
    privacy: Any = getattr(result, "privacy", None)
    unspent = getattr(privacy, "unspent", None)
    if unspent is None:
        return ""
    amounts = zip(unspent.values(), privacy.total.values(), strict=True)
    if not any(amount > ROUNDING_SHARE * total for amount, total in amounts):
        return ""
    return RESERVED_NOTE.format(total=privacy.total, unspent=unspent)
