"""Recording a run: every charge, every answer, every line of Python, every warning, the outcome."""

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

#: Rooms that may look at records: their answers are compared, not their lines.
BEHIND_THE_DOOR = tuple(str(PACKAGE / room) for room in ("curator", "kernels"))

#: Files whose lines are not compared.
UNTRACED = (*BEHIND_THE_DOOR, str(PACKAGE / "audit"))


class Charged(NamedTuple):
    """A charge to a ledger, with what came of it."""

    ledger: int
    spend: Any
    label: str
    outcome: str


class Answered(NamedTuple):
    """One answer of a Curator: the question, the exact value and what was handed out."""

    question: tuple[Any, ...]
    release: Release
    handed_out: Any


class Chosen(NamedTuple):
    """Secret randomness other than noise, which stays the same in a replay."""

    question: tuple[Any, ...]
    value: Any


Event = Charged | Answered | Chosen


class Diverged(BaseException):
    """No recorded answer; not an ``Exception``, so that no handler in audited code hides it."""


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
    """Run ``fn`` on a copy of ``data``; with a script, hand out the script's answers."""
    observer = _Observer(script)
    lines: list[tuple[str, int]] = []
    own = copy.deepcopy(data)  # whatever fn does to it must not reach the other runs
    divergence = ""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            # nothing is compared with the lines of the run that is recorded: it draws noise
            traced = nullcontext() if script is None else _traced(fn, lines)
            with observed(observer), _charges_observed(observer.charge), traced:
                outcome, returned = fn(own), True
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
    """Records every event, and plays a script back if there is one."""

    def __init__(self, script: list[Event] | None) -> None:
        self.script = script
        self.events: list[Event] = []
        self.divergence = ""
        self._releasing = False
        self._ledgers: list[Ledger] = []  # held, so that no two of them share an id

    def release(self, question: tuple[Any, ...], release: Release, draw: Callable[[], Any]) -> Any:
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
        if isinstance(noise, _ObservedNoise) and noise.observer is self:
            return noise
        return _ObservedNoise(noise, self)

    def choice(self, question: tuple[Any, ...], draw: Callable[[], Any]) -> Any:
        """Secret randomness: recorded, and the same in a replay."""
        if self._releasing:  # noise of a release: it is the answer that is recorded
            return draw()
        expected = self._expected(Chosen(question, None))
        value = draw() if expected is None else expected.value
        self.events.append(Chosen(question, copy.deepcopy(value)))
        return copy.deepcopy(value)

    def charge(self, ledger: Ledger, spend: Any, label: str, outcome: str) -> None:
        event = Charged(self._number(ledger), spend, label, outcome)
        self._expected(event)
        self.events.append(event)

    def dealings(self) -> dict[int, int]:
        """Which ledgers paid for blocks of disjoint records, as those that paid for all say."""
        parts = [part for ledger in self._ledgers for part in ledger.parts if part.disjoint]
        return {
            number: dealing
            for dealing, part in enumerate(parts)
            for number, ledger in enumerate(self._ledgers)
            if any(ledger is own for own in part.ledgers)
        }

    def _number(self, ledger: Ledger) -> int:
        known = [i for i, other in enumerate(self._ledgers) if other is ledger]
        if not known:
            self._ledgers.append(ledger)
        return known[0] if known else len(self._ledgers) - 1

    def _expected(self, event: Event) -> Any:
        """The script's event at this place, which must ask the same."""
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
    """The noise source of an observed Curator."""

    def __init__(self, noise: NoiseSource, observer: _Observer) -> None:
        self._noise = noise
        self.observer = observer

    def normals(self, size: int, bits: int) -> Any:
        return self._asked("normals", size, bits)

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> Any:
        return self._asked("discrete_laplace", size, numerator, denominator)

    def words(self, size: int) -> Any:
        return self._asked("words", size)

    def _asked(self, kind: str, *numbers: int) -> Any:
        draw = getattr(self._noise, kind)
        return self.observer.choice((kind, *numbers), lambda: draw(*numbers))


def _public(event: Event) -> Any:
    """What may not depend on records: all of a charge, all of an answer but its exact value."""
    if isinstance(event, Charged):
        return event
    if isinstance(event, Chosen):
        return event.question  # how many numbers, and of which law
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
        mine = OBSERVER.get()

        def charge(self: Ledger, spend: Any, label: str, *, once: str = "") -> None:
            if OBSERVER.get() is not mine:
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


def _asked_by_a_curator(frame: FrameType) -> bool:
    """Whether a function runs on behalf of a Curator, which may look at records."""
    caller = frame.f_back
    while caller is not None and caller.f_code is not perform.__code__:
        if caller.f_code.co_filename.startswith(BEHIND_THE_DOOR):
            return True
        caller = caller.f_back
    return False


@contextmanager
def _traced(fn: Callable[..., Any], lines: list[tuple[str, int]]) -> Iterator[None]:
    """Append every executed line of dpfast and of the callable's own file to ``lines``."""
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
            inside = file.startswith(package) and not file.startswith(UNTRACED)
            verdict = verdicts[file] = inside or file == own_file
        return follow if verdict and not _asked_by_a_curator(frame) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
