"""Silence around a user's function of records: its warnings would tell of values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_QUIET: ContextVar[bool] = ContextVar("dpfast_quiet", default=False)


class _HereAndNow:
    """In place of a filter's pattern: matches where it is quiet, in this context only."""

    @staticmethod
    def match(message: str) -> bool:
        return _QUIET.get()


_FILTER: Any = ("ignore", _HereAndNow(), Warning, None, 0)


@contextmanager
def ignore_warnings() -> Iterator[None]:
    """Neither floating-point nor other warnings, for the duration of a ``with`` block."""
    if not (warnings.filters and warnings.filters[0] is _FILTER):
        warnings.filters.insert(0, _FILTER)  # type: ignore[attr-defined]
    token = _QUIET.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _QUIET.reset(token)
