"""Answers that one charge pays for: each is given once, by the original alone (claim C48)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from dpfast.errors import BudgetExceeded, LedgerClosed
from dpfast.privacy.ledger.process import this_process


class ChargedAnswers:
    """Base of objects that answer charged queries: :meth:`_take` before a record is touched."""

    def __init__(self, answers: Iterable[str] | Mapping[str, int], refusal: str) -> None:
        self._left = Counter(answers)
        self._refusal = refusal
        self._answering = threading.Lock()
        self._process = this_process()

    def _take(self, answer: str, *, after: str = "") -> int:
        """Mark an answer as given, and return how many of its name are left."""
        # first: the lock may be held by a thread that a fork left behind
        if self._process is not this_process():
            raise LedgerClosed(self._closed("was inherited through fork"))
        with self._answering:
            if self._left[answer] < 1 or self._left[after]:
                raise BudgetExceeded(
                    f"no {answer} is left to give: {self._refusal} Nothing was spent and no "
                    "record was touched."
                )
            self._left[answer] -= 1
            return self._left[answer]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse ``copy`` and ``pickle``: two copies would answer twice for one charge."""
        raise LedgerClosed(self._closed("was to be copied or pickled"))

    def _closed(self, event: str) -> str:
        return (
            f"this {type(self).__name__} {event}, and its answers were paid for once: two copies "
            "would give them twice. Ask the original, or open and pay for another."
        )
