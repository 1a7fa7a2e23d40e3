"""The seam for audits: one place through which every answer passes before it is handed out.

An observer sees the exact values behind each answer, so installing one forfeits privacy; it is
meant for ``dpfast.audit`` and the test suite, which own the data they run on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["OBSERVER", "Observer", "Release", "observed"]


class Release(NamedTuple):
    """One quantity about to be released: its exact value and how it is to be privatised."""

    query: str
    claim: str
    value: NDArray[np.float64]
    mu: float
    l2_sensitivity: float
    noise_scale: float


class Observer(Protocol):
    """Receives every release of every curator created in its context."""

    def release(self, question: tuple[Any, ...], release: Release, draw: Callable[[], Any]) -> Any:
        """Return the answer to hand out: ``draw()``, or one recorded earlier.

        ``question`` is everything the answer may depend on besides the records: the label of the
        query, its cost and the public parameter it was asked at.
        """


OBSERVER: ContextVar[Observer | None] = ContextVar("dpfast_observer", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Install an observer for the duration of a ``with`` block.  Not private."""
    token = OBSERVER.set(observer)
    try:
        yield
    finally:
        OBSERVER.reset(token)
