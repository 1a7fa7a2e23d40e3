"""The one way in which a call spends: it is planned, charged for, queried and reported."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from dpfast.errors import InvalidInput, ResultWarning, stack_level
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.progress import Progress, progress_bar

Result = TypeVar("Result")

#: Whether a result is part of another one, or simulated.
_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


class Analysis(Generic[Result]):
    """Checked and planned analysis: its constructor has refused all that can be refused.

    Attributes
    ----------
    request
        What pays, ``request.account``, and what was paid for, ``request.guarantee()``.
    steps : int
        Number of steps of which progress is reported.

    Privacy
    -------
    Only ``query`` spends, and it sees records by a curator alone.
    """

    request: Any
    steps = 1

    #: Whether :meth:`query` ends by released and public values alone, and charges every draw to
    #: ``request.ledger``.  What it did not spend is then returned to the ledger of the call.
    returns_unused = False

    @property
    def units(self) -> Any:
        """Private units of a partial result, once they are released."""
        return None

    def guarantee(self) -> Any:
        """Return the guarantee of what was spent so far."""
        return self.request.guarantee()

    def too_few(self) -> str:
        """Ask the counts, which come first; say why the call ends after them, or nothing."""
        return ""

    def nothing(self, remark: str) -> Result:
        """Make the result of a call that ended after its counts: it estimates nothing."""
        raise NotImplementedError

    def query(self, report: Progress | None) -> Any:
        """Spend the budget; return released answers."""
        raise NotImplementedError

    def report(self, answers: Any) -> Result:
        """Make the result from released answers and public facts; by default it is the answer."""
        result: Result = answers
        return result

    def so_far(self, error: str, keeping: KeepReleased) -> Result | None:
        """Return the result of a run that this error ended, if enough was released for one."""
        return None


def run(
    analysis: Analysis[Result],
    label: str,
    memory: int,
    progress: Progress | bool | None = None,
) -> Result:
    """Charge for a planned analysis, query and report; errors keep what was released.

    Privacy
    -------
    Everything is charged at once, before a record is read (claim C10).  What the queries did not
    use is returned where they end by a rule on released values; after an error nothing is (C95).
    """
    report = checked_progress(progress, analysis.steps)
    request = analysis.request
    session: tuple[Any, ...] = ()
    if analysis.returns_unused:
        session = request.ledger, request.copies
    with KeepReleased(analysis.so_far, privacy=analysis.guarantee, scales=lambda: analysis.units):
        with quietly():
            with request.account.reserve(label, memory, *session):
                ended = analysis.too_few()
                answers = None if ended else analysis.query(report)
            result = analysis.nothing(ended) if ended else analysis.report(answers)
        warn_of(result)
        return result


class quietly:  # noqa: N801
    """Let results that are parts of another one, or simulated, not warn."""

    def __enter__(self) -> None:
        self._token = _QUIET.set(True)

    def __exit__(self, *error: object) -> None:
        _QUIET.reset(self._token)


def warn_of(result: Any) -> None:
    """Warn of a released result, as its caller's line; where warnings are errors, log it.

    What was paid for arrives, so a warning is never raised.
    """
    messages = () if _QUIET.get() else getattr(result, "warnings", ())
    if not messages:
        return
    level = stack_level()
    for message in messages:
        try:
            warnings.warn(message, ResultWarning, stacklevel=level)
        except Warning:
            import logging  # it does not raise

            with suppress(Exception):  # a caller's handler may
                logging.getLogger("dpfast").warning("%s", message)


class Query(Analysis[Result]):
    """Query whose answer is the result."""

    def __init__(self, request: Any, answer: Callable[[], Result]) -> None:
        self.request, self._answer = request, answer

    def query(self, report: Progress | None) -> Result:
        """Spend the budget."""
        return self._answer()


class Fits(Analysis[Result]):
    """Fits of one request, one for each loss, combined into one result, also after an error."""

    @property
    def returns_unused(self) -> bool:  # type: ignore[override]
        """Whether the fits' solvers end by released values alone."""
        return bool(self._fits.returns_unused)

    def __init__(self, fits: Any, combine: Callable[[list[Any], Any], Result]) -> None:
        self._fits, self._combine = fits, combine
        self.request, self.steps = fits.request, sum(fits.steps)
        self._solutions: list[Any] = []

    @property
    def units(self) -> Any:
        """Private units that the fits share."""
        return self._fits.units

    def query(self, report: Progress | None) -> Sequence[Any]:
        """Estimate what the fits share, and solve for each loss."""
        self._fits.begin()
        steps = self._fits.steps
        for k in range(len(steps)):
            self._solutions.append(
                self._fits.solve(k, progress_after(report, sum(steps[:k]), self.steps))
            )
        return self._solutions

    def report(self, answers: Sequence[Any]) -> Result:
        """Make the fits, each of which shows the cost of all together."""
        guarantee = self.guarantee()
        fits = [self._fits.result(k, answer, guarantee) for k, answer in enumerate(answers)]
        return self._combine(fits, guarantee)

    def so_far(self, error: str, keeping: KeepReleased) -> Result | None:
        """Combine the finished fits with the one that was not, without standard errors."""
        released = [*self._solutions]
        if len(released) < len(self._fits.steps):
            unfinished = self._fits.unfinished(len(released), error)
            released += [] if unfinished is None else [unfinished]
        return self.report(released) if released else None


def single(fits: list[Any], guarantee: Any) -> Any:
    """Return the only fit."""
    return fits[0]


def checked_progress(progress: Any, planned: int) -> Progress | None:
    """Check a caller's ``progress(done, planned)`` by one trial as ``progress(0, planned)``.

    True is a progress bar, False and None are nothing.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        progress = progress_bar(planned)
    if not callable(progress):
        raise InvalidInput(
            "progress must be True for a bar, a function that is called with (done, planned), or "
            f"None; received an object of type {type(progress).__name__}."
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
