"""Which process this is: a token that no fork keeps, as numbers may be."""

from __future__ import annotations

import os


class _Here:
    """The token of this process, and the number it had when the token was made."""

    def __init__(self) -> None:
        self.token = object()
        self.number = os.getpid()


HERE = _Here()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HERE.__init__)  # type: ignore[misc]


def this_process() -> object:
    """The token of this process, also after a fork that Python was not told about."""
    if os.getpid() != HERE.number:
        HERE.__init__()  # type: ignore[misc]
    return HERE.token
