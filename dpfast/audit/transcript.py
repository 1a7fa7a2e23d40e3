"""Recording of a run: its charges, answers, lines of Python, warnings and outcome."""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from dpfast.audit.comparison import first_difference
from dpfast.curator.noisy_release import OBSERVER, Release, observed
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

PACKAGE = Path(__file__).resolve().parents[1]

#: Packages that may read records: their answers are compared, not their lines.
BEHIND_THE_DOOR = tuple(str(PACKAGE / name) for name in ("curator", "kernels"))

#: Files whose lines are not compared.
UNTRACED = (*BEHIND_THE_DOOR, str(PACKAGE / "audit"))


class Charged(NamedTuple):
    """Charge to a ledger, with its outcome."""

    ledger: int
    spend: Any
    label: str
    outcome: str


class Answered(NamedTuple):
    """Answer of a Curator: the question, the exact value and the noisy value."""

    question: tuple[Any, ...]
    release: Release
    handed_out: Any


class Chosen(NamedTuple):
    """Secret randomness other than noise, which stays the same in a replay."""

    question: tuple[Any, ...]
    value: Any


Event = Charged | Answered | Chosen


class Diverged(BaseException):
    """Missing recorded answer; not an ``Exception``, so that audited code cannot catch it."""


class Recorded(NamedTuple):
    """Everything observable about one run."""

    events: list[Event]
    outcome: Any
    returned: bool
    warnings: list[tuple[str, str]]
    lines: list[tuple[str, int]]
    divergence: str
    dealings: dict[int, int]


def perform(fn: Callable[[Any], Any], data: Any, script: list[Event] | None) -> Recorded:
    """Run ``fn`` on a copy of ``data``; with a script, return the script's answers."""
    observer = _Observer(script)
    lines: list[tuple[str, int]] = []
    private_copy = copy.deepcopy(data)  # changes by fn must not reach the other runs
    divergence = ""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            # the first run draws noise, so its lines are not compared
            traced = nullcontext() if script is None else _traced(fn, lines)
            with observed(observer), _charges_observed(observer.charge), traced:
                outcome, returned = fn(private_copy), True
        except Diverged as error:
            outcome, returned, divergence = None, False, str(error)
        except Exception as error:
            outcome, returned = error, False
    if script is not None and not observer.divergence and len(observer.events) < len(script):
        missing = script[len(observer.events)]
        observer.divergence = f"{_describe(missing)} was not asked for any more"
    return Recorded(
        observer.events,
        outcome,
        returned,
        [(w.category.__name__, str(w.message)) for w in caught],
        lines,
        observer.divergence or divergence,
        observer.dealings(),
    )


class _Observer:
    """Recorder of every event, which plays a script back if there is one."""

    def __init__(self, script: list[Event] | None) -> None:
        self.script = script
        self.events: list[Event] = []
        self.divergence = ""
        self._releasing = False
        self._ledgers: list[Ledger] = []  # kept, so that ids stay unique

    def release(self, question: tuple[Any, ...], release: Release, draw: Callable[[], Any]) -> Any:
        """Record a noisy release, drawn now or taken from the script."""
        question = copy.deepcopy(question)
        release = release._replace(value=np.array(release.value, copy=True))
        expected = self._expected(Answered(question, release, None))
        if expected is None:
            self._releasing = True
            try:
                handed_out = draw()
            finally:
                self._releasing = False
        else:
            handed_out = expected.handed_out
        self.events.append(Answered(question, release, copy.deepcopy(handed_out)))
        return copy.deepcopy(handed_out)

    def source(self, noise: NoiseSource) -> NoiseSource:
        """Wrap a noise source, once."""
        if isinstance(noise, _ObservedNoise) and noise.observer is self:
            return noise
        return _ObservedNoise(noise, self)

    def choice(self, question: tuple[Any, ...], draw: Callable[[], Any]) -> Any:
        """Record secret randomness; a replay uses the same."""
        if self._releasing:  # noise of a release: the answer is recorded instead
            return draw()
        expected = self._expected(Chosen(question, None))
        value = draw() if expected is None else expected.value
        self.events.append(Chosen(question, copy.deepcopy(value)))
        return copy.deepcopy(value)

    def charge(self, ledger: Ledger, spend: Any, label: str, outcome: str) -> None:
        """Record a charge."""
        event = Charged(self._number(ledger), spend, label, outcome)
        self._expected(event)
        self.events.append(event)

    def dealings(self) -> dict[int, int]:
        """Map ledgers that paid for disjoint blocks to the number of their partition."""
        parts = [part for ledger in self._ledgers for part in ledger.parts if part.disjoint]
        return {
            number: dealing
            for dealing, part in enumerate(parts)
            for number, ledger in enumerate(self._ledgers)
            if any(ledger is member for member in part.ledgers)
        }

    def _number(self, ledger: Ledger) -> int:
        known = [i for i, known_ledger in enumerate(self._ledgers) if known_ledger is ledger]
        if not known:
            self._ledgers.append(ledger)
        return known[0] if known else len(self._ledgers) - 1

    def _expected(self, event: Event) -> Any:
        """Return the script's event at this place; stop if its question differs."""
        if self.script is None:
            return None
        number = len(self.events)
        if number >= len(self.script):
            self._stop(f"{_describe(event)} was asked for beyond the recorded {number} events")
        expected = self.script[number]
        difference = first_difference(_public(expected), _public(event), _describe(expected))
        if difference:
            self._stop(f"event {number}: {difference}")
        return expected

    def _stop(self, reason: str) -> None:
        self.divergence = self.divergence or reason
        raise Diverged(reason)


class _ObservedNoise(NoiseSource):
    """Noise source of an observed Curator."""

    def __init__(self, noise: NoiseSource, observer: _Observer) -> None:
        self._noise = noise
        self.observer = observer

    def normals(self, size: int, bits: int) -> Any:
        return self._draw("normals", size, bits)

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> Any:
        return self._draw("discrete_laplace", size, numerator, denominator)

    def words(self, size: int) -> Any:
        return self._draw("words", size)

    def _draw(self, kind: str, *numbers: int) -> Any:
        draw = getattr(self._noise, kind)
        return self.observer.choice((kind, *numbers), lambda: draw(*numbers))


def _public(event: Event) -> Any:
    """Return the public part of an event: all but the exact value of an answer."""
    if isinstance(event, Charged):
        return event
    if isinstance(event, Chosen):
        return event.question  # count and distribution of the numbers
    release = event.release
    public = {name: getattr(release, name) for name in release._fields if name != "value"}
    return event.question, public, release.value.shape, release.value.dtype


def _describe(event: Event) -> str:
    if isinstance(event, Charged):
        return f"charge {event.label!r}"
    if isinstance(event, Chosen):
        return "secret choice"
    return f"answer {event.release.query!r}"


_PATCHING = threading.RLock()


@contextmanager
def _charges_observed(notify: Callable[[Ledger, Any, str, str], None]) -> Iterator[None]:
    """Report every charge to every ledger made in this context."""
    with _PATCHING:
        original = Ledger.charge
        own_observer = OBSERVER.get()

        def charge(self: Ledger, spend: Any, label: str, *, once: str = "") -> None:
            if OBSERVER.get() is not own_observer:
                return original(self, spend, label, once=once)
            try:
                original(self, spend, label, once=once)
            except Exception as error:
                notify(self, spend, label, f"refused with {type(error).__name__}")
                raise
            notify(self, spend, label, "charged")
            return None

        Ledger.charge = charge  # type: ignore[method-assign]
        try:
            yield
        finally:
            Ledger.charge = original  # type: ignore[method-assign]


def _runs_for_a_curator(frame: FrameType) -> bool:
    """Return whether a function runs inside a Curator, which may read records."""
    caller = frame.f_back
    while caller is not None and caller.f_code is not perform.__code__:
        if caller.f_code.co_filename.startswith(BEHIND_THE_DOOR):
            return True
        caller = caller.f_back
    return False


@contextmanager
def _traced(fn: Callable[..., Any], lines: list[tuple[str, int]]) -> Iterator[None]:
    """Append every executed line of dpfast, and of the callable's own file, to ``lines``."""
    code = getattr(fn, "__code__", None)
    own_file = code.co_filename if code is not None else ""
    package = str(PACKAGE)
    verdicts: dict[str, bool] = {}

    def follow(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        return follow

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        verdict = verdicts.get(file)
        if verdict is None:
            compared = file.startswith(package) and not file.startswith(UNTRACED)
            verdict = verdicts[file] = compared or file == own_file
        return follow if verdict and not _runs_for_a_curator(frame) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
