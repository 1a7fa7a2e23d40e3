"""Identity of this process: a token that no fork keeps, as process numbers may be."""

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
    """Return the token of this process, also after a fork that Python did not notice."""
    if os.getpid() != HERE.number:
        HERE.__init__()  # type: ignore[misc]
    return HERE.token
