"""The exact values behind answers, for attacks on sensitivities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpfast.curator.noisy_release import observed

__all__ = ["watched"]


class _Watch:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def release(self, question: Any, release: Any, draw: Callable[[], Any]) -> Any:
        self.seen.append(release)
        return draw()


def watched(ask: Callable[[], Any]) -> list[Any]:
    """What a call released, in order, before its noise."""
    watch = _Watch()
    with observed(watch):
        ask()
    return watch.seen
