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

from dpfast.kernels.records import RecordKernel
from dpfast.models import Objective

__all__ = ["OBSERVER", "Observer", "Release", "nonprivate_contributions", "observed"]


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


def nonprivate_contributions(
    objective: Objective,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    theta: NDArray[np.float64],
    want: int,
) -> tuple[NDArray[np.float64] | None, ...]:
    """Exact gradient, curvature and meat of each record on its own, by the compiled kernels.

    For attacks on sensitivities; nothing about it is private.

    Parameters
    ----------
    want : int
        Any sum of GRADIENT, HESSIAN or MAJORIZER, and MEAT.

    Returns
    -------
    tuple of ndarray or None
        Shapes (n, p), (n, p, p) and (n, p, p); None for what was not wanted.
    """
    sums = RecordKernel(*objective.kernel_arguments()).sums
    parts = [sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0, 1) for i in range(len(y))]
    return tuple(
        None if column[0] is None else np.array(column) for column in zip(*parts, strict=True)
    )
