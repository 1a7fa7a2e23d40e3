"""Release of answers with noise: every answer passes here, and nothing else calls mechanisms.

The compiled session (:mod:`dpfast.kernels.session`) charges, and adds noise to means.  This module
connects it to the ledger and the noise.  An observer sees the exact values of each answer: it is
for audits of data one owns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import NOTHING, TAPE, Answer, Receipt
from dpfast.kernels import session
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger.book import MARK, ONE, Ledger, cost_in_quanta
from dpfast.privacy.ledger.process import HERE
from dpfast.privacy.mechanisms import (
    MIN_GRID_BITS,
    Grids,
    joint_grids,
    release_integer,
    release_together,
    vector_grid,
)
from dpfast.privacy.noise import NoiseSource, checked_noise

if TYPE_CHECKING:
    from fractions import Fraction

Handed = TypeVar("Handed")


class Release(NamedTuple):
    """Exact value of one quantity before its release, and its noise."""

    query: str
    claim: str
    value: NDArray[np.float64]
    mu: float
    l2_sensitivity: float
    noise_scale: float


class Choice(Release):
    """Exponential-mechanism choice by ``value``, its secret scores; no score is released."""

    __slots__ = ()


class Observer(Protocol):
    """Receiver of every release of every curator created in its context."""

    def release(self, question: tuple[Any, ...], release: Release, draw: Callable[[], Any]) -> Any:
        """Return the answer to release: ``draw()``, or one recorded earlier."""


OBSERVER: ContextVar[Observer | None] = ContextVar("dpfast_observer", default=None)


def source_of_noise(noise: NoiseSource) -> NoiseSource:
    """Return the noise source of a new curator: ``noise``, or the observer's replacement."""
    noise = checked_noise(noise)
    replace = getattr(OBSERVER.get(), "source", None)
    return noise if replace is None else replace(noise)


def for_observers(*public: Any) -> tuple[Any, ...]:
    """Return the details of a question that only an observer receives; empty without one."""
    return () if OBSERVER.get() is None else public


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Install an observer, or none, for the duration of a ``with`` block.  Not private."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)


def observed_values(
    observer: Observer,
    noise: NoiseSource,
    question: tuple[Any, ...],
    receipts: Sequence[Receipt],
    grids: Grids,
    values: Sequence[NDArray[np.float64] | None],
) -> list[Any]:
    """Add noise to the means of one charge in sight of an observer, or take its answers."""
    draw = cache(lambda: release_together(values, grids, noise))  # at most once, if at all

    def shown(i: int, exact: NDArray[np.float64] | None) -> Any:
        if exact is None:
            return None
        return observer.release(
            question, _release_for_observer(Release, receipts[i], exact), lambda: draw()[i]
        )

    return [shown(i, exact) for i, exact in enumerate(values)]


session.connect(
    sys.modules[__name__],
    (Answer, NOTHING),
    (OBSERVER, TAPE, MARK, HERE),
    (Grids, release_together, joint_grids, vector_grid, MIN_GRID_BITS),
    (Ledger, GDP, cost_in_quanta, ONE),
)
charge = session.charge
release_with_noise: Callable[..., Answer] = session.release_with_noise
release_jointly_with_noise: Callable[..., list[Answer]] = session.release_jointly_with_noise


def _record_on_tape(question: tuple[Any, ...], receipt: Receipt, value: Handed) -> Handed:
    """Record a released value on the tape of the run, if there is one."""
    tape = TAPE.get()
    if tape is not None:
        number: Any = value  # of any type that a mechanism returns
        tape.keep(question, [Answer(number, receipt.noise_scale, receipt)])
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
        return _record_on_tape(question, receipt, draw())  # an integer of any size

    def shown() -> NDArray[np.int64]:
        return np.array([draw()], dtype=np.int64)

    exact = np.array([value], dtype=np.int64)
    return _observed_release(question, receipt, exact, shown, lambda array: int(array[0]))


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
    return _observed_release(question, receipt, exact, draw, np.asarray)


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
    return _observed_release(question, receipt, exact, draw, int, Choice)


def release_scaled(*arguments: Any) -> float:
    """Import and call the mechanism, which no fit needs by default."""
    from dpfast.privacy.release import scaled

    return scaled.release_scaled(*arguments)


def choose_smallest(*arguments: Any) -> int:
    """Import and call the mechanism, which no fit needs by default."""
    from dpfast.privacy.nonconvex import choice

    return choice.choose_smallest(*arguments)


def _observed_release(
    question: tuple[Any, ...],
    receipt: Receipt,
    exact: NDArray[Any],
    draw: Callable[[], Any],
    read: Callable[[Any], Handed],
    kind: type[Release] = Release,
) -> Handed:
    """Draw a value, or take the observer's; record it on the tape."""
    observer = OBSERVER.get()
    if observer is None:
        return _record_on_tape(question, receipt, read(draw()))
    release = _release_for_observer(kind, receipt, exact)
    return _record_on_tape(question, receipt, read(observer.release(question, release, draw)))


def _release_for_observer(kind: type[Release], receipt: Receipt, exact: NDArray[Any]) -> Release:
    """Make the release that an observer receives."""
    query, claim, mu, sensitivity, scale = receipt
    return kind(query, claim, exact, mu, sensitivity, scale)
