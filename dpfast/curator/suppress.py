"""Suppression of warnings of a user's function of records, which would reveal values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_QUIET: ContextVar[bool] = ContextVar("dpfast_quiet", default=False)


class _QuietPattern:
    """Pattern of a warnings filter that matches in contexts of :func:`ignore_warnings` only."""

    @staticmethod
    def match(message: str) -> bool:
        return _QUIET.get()


_FILTER: Any = ("ignore", _QuietPattern(), Warning, None, 0)


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Suppress floating-point and other warnings in a ``with`` block."""
    if not (warnings.filters and warnings.filters[0] is _FILTER):
        warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
    token = _QUIET.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _QUIET.reset(token)
