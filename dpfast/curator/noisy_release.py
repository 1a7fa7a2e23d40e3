"""The door: every answer passes here, and mechanisms are called from nowhere else.

An observer sees the exact values behind each answer: it is for audits of data one owns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import NOTHING, TAPE, Answer, Receipt, answer_of
from dpfast.privacy.mechanisms import Grids, joint_grids, release_integer, release_together
from dpfast.privacy.noise import NoiseSource, checked_noise

Handed = TypeVar("Handed")


class Release(NamedTuple):
    """One quantity about to be released: its exact value and how it is to be privatised."""

    query: str
    claim: str
    value: NDArray[np.float64]
    mu: float
    l2_sensitivity: float
    noise_scale: float


class Choice(Release):
    """One of several, chosen by ``value``, their secret scores; no score is handed out exactly."""

    __slots__ = ()


class Observer(Protocol):
    """Receives every release of every curator created in its context."""

    def release(self, question: tuple[Any, ...], release: Release, draw: Callable[[], Any]) -> Any:
        """Return the answer to hand out: ``draw()``, or one recorded earlier."""


OBSERVER: ContextVar[Observer | None] = ContextVar("dpfast_observer", default=None)


def source_of_noise(noise: NoiseSource) -> NoiseSource:
    """The noise source for a new curator: ``noise``, or what an observer puts in its place."""
    noise = checked_noise(noise)
    replace = getattr(OBSERVER.get(), "source", None)
    return noise if replace is None else replace(noise)


def for_observers(*public: Any) -> tuple[Any, ...]:
    """What an observer is told of a question beside what a caller is; nothing if nobody watches."""
    return () if OBSERVER.get() is None else public


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Install an observer for the duration of a ``with`` block.  Not private."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)


def release_with_noise(
    noise: NoiseSource, question: tuple[Any, ...], receipt: Receipt, value: NDArray[np.float64]
) -> Answer:
    """Add noise to one mean, in sight of the observer."""
    grids = joint_grids((value.shape,), (receipt.noise_scale,))
    return release_jointly_with_noise(noise, question, (receipt,), grids, (value,))[0]


def release_jointly_with_noise(
    noise: NoiseSource,
    question: tuple[Any, ...],
    receipts: Sequence[Receipt],
    grids: Grids,
    values: Sequence[NDArray[np.float64] | None],
) -> list[Answer]:
    """Add noise to the means of one charge, in sight of the observer."""
    observer = OBSERVER.get()
    if observer is None:
        noisy = release_together(values, grids, noise)
    else:
        draw = cache(lambda: release_together(values, grids, noise))  # at most once, if at all

        def shown(i: int, exact: NDArray[np.float64] | None) -> Any:
            if exact is None:
                return None
            return observer.release(question, _seen(Release, receipts[i], exact), lambda: draw()[i])

        noisy = [shown(i, exact) for i, exact in enumerate(values)]
    found = [
        NOTHING if value is None else answer_of((value, receipt[4], receipt))
        for value, receipt in zip(noisy, receipts, strict=True)
    ]
    tape = TAPE.get()
    if tape is not None:  # for a run that may end early
        tape.keep(question, found)
    return found


def _kept(question: tuple[Any, ...], receipt: Receipt, value: Handed) -> Handed:
    """Take down what is handed out, for a run that may end early."""
    tape = TAPE.get()
    if tape is not None:
        tape.keep(question, [answer_of((value, receipt[4], receipt))])
    return value


def release_count_with_noise(
    noise: NoiseSource,
    question: tuple[Any, ...],
    receipt: Receipt,
    value: int,
    rate: tuple[int, int],
) -> int:
    """Add discrete Laplace noise in sight of the observer."""
    draw = partial(release_integer, value, rate, noise)
    if OBSERVER.get() is None:
        return _kept(question, receipt, draw())  # an integer of any size

    def shown() -> NDArray[np.int64]:
        return np.array([draw()], dtype=np.int64)

    exact = np.array([value], dtype=np.int64)
    return _watched(question, receipt, exact, shown, lambda found: int(found[0]))


def release_scaled_with_noise(
    noise: NoiseSource,
    question: tuple[Any, ...],
    receipt: Receipt,
    values: Sequence[Fraction],
    scales: Sequence[float],
    bounds: Sequence[float],
) -> NDArray[np.float64]:
    """Add normal noise of secret scales, each below its public bound."""

    def draw() -> NDArray[np.float64]:
        return np.array(
            [
                release_scaled(value.as_integer_ratio(), scale, bound, noise)
                for value, scale, bound in zip(values, scales, bounds, strict=True)
            ]
        )

    exact = np.array([float(value) for value in values])
    return _watched(question, receipt, exact, draw, np.asarray)


def release_choice_with_noise(
    noise: NoiseSource,
    question: tuple[Any, ...],
    receipt: Receipt,
    scores: Sequence[int],
    rate: tuple[int, int],
) -> int:
    """Choose an index whose score is small (exponential mechanism), in sight of the observer."""
    exact = np.array(scores, dtype=np.float64)
    draw = partial(choose_smallest, scores, rate, noise)
    return _watched(question, receipt, exact, draw, int, Choice)


def release_scaled(*arguments: Any) -> float:
    """The mechanism, which no fit needs by default."""
    from dpfast.privacy.release import scaled

    return scaled.release_scaled(*arguments)


def choose_smallest(*arguments: Any) -> int:
    """The mechanism, which no fit needs by default."""
    from dpfast.privacy.nonconvex import choice

    return choice.choose_smallest(*arguments)


def _watched(
    question: tuple[Any, ...],
    receipt: Receipt,
    exact: NDArray[Any],
    draw: Callable[[], Any],
    read: Callable[[Any], Handed],
    kind: type[Release] = Release,
) -> Handed:
    """What is drawn, or what an observer has in its place; taken down for a run that ends early."""
    observer = OBSERVER.get()
    if observer is None:
        return _kept(question, receipt, read(draw()))
    seen = _seen(kind, receipt, exact)
    return _kept(question, receipt, read(observer.release(question, seen, draw)))


def _seen(kind: type[Release], receipt: Receipt, exact: NDArray[Any]) -> Release:
    """What an observer is shown of an answer."""
    query, claim, mu, sensitivity, scale = receipt
    return kind(query, claim, exact, mu, sensitivity, scale)
