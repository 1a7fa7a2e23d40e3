"""Replays of one call on many pairs share the runs on the data set that pairs have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpfast.audit import playback


@contextmanager
def runs_shared(perform: Callable[..., Any] = playback.perform) -> Iterator[None]:
    """Within it a call runs once on the same values with the same answers; one call at a time.

    The recorded answers are then the same for these pairs, and each is replayed on its neighbour.
    """
    known: dict[Any, Any] = {}

    def remembered(fn: Callable[..., Any], data: Any, script: Any) -> Any:
        values = tuple((part.dtype.str, part.shape, part.tobytes()) for part in data)
        key = fn, values, None if script is None else id(script)
        if key not in known:
            known[key] = perform(fn, data, script), script  # kept, so that no other has its id
        return known[key][0]

    playback.perform = remembered
    try:
        yield
    finally:
        playback.perform = perform
