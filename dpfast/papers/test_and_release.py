"""Test, then release (algorithm 1 of paper 3), for queries of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Tested = TypeVar("Tested")
Allowed = TypeVar("Allowed")
Released = TypeVar("Released")
Refused = TypeVar("Refused")


@dataclass(frozen=True)
class TestAndRelease(Generic[Tested, Allowed, Released, Refused]):
    """Test, decide from the released test alone, then release or refuse.

    Algorithm 1 of paper 3 (Asi, Duchi and Talwar 2025).

    Parameters
    ----------
    test : callable
        ``test()`` releases what the decision rests on: a private answer.
    allow : callable
        ``allow(tested)`` says how the release may be made, or None; a function of the answer and
        of public constants only.
    release : callable
        ``release(allowed)`` is private for every value of ``allowed`` whenever the test holds
        (lemma 2.2 of the paper).
    refuse : callable
        ``refuse(tested)``: what to do instead; private for every ``tested``.

    Notes
    -----
    Privacy of the whole: adaptive composition of the test with the worse of ``release`` and
    ``refuse``, plus the probability that the test wrongly allows.  The caller calibrates these
    together (claim R35 of ``PROOFS-release.md``).
    """

    test: Callable[[], Tested]
    allow: Callable[[Tested], Allowed | None]
    release: Callable[[Allowed], Released]
    refuse: Callable[[Tested], Refused]
    __test__ = False  # pytest would collect a class of this name

    def run(self) -> Released | Refused:
        """Run the test, then release or refuse."""
        tested = self.test()
        allowed = self.allow(tested)
        return self.refuse(tested) if allowed is None else self.release(allowed)
