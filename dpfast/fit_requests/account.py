"""Budget of a call: as requested, as a total, and the shared ledger that pays."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.privacy.budget import GDP, Budget, as_budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.ledger.reservation import Reservation
from dpfast.privacy.rounding import ROUNDING_PRODUCT

#: Bytes tried before a charge, beyond those of the records: a call needs at most about so many.
#: With fewer a paid call may run out of memory; with more small machines are refused.
SPARE_BYTES = 1 << 26

#: Memory of this process alone, where the system tells it apart.
_PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)

Checked = TypeVar("Checked")
PrivacyLike = Budget | float | tuple[float, float]

#: Largest mu of a call: the squares of larger ones, and of their noise, leave float64.
MAX_MU = 1e100


class Account:
    """Budget of a call: as requested, as a total, and the shared ledger that pays."""

    def __init__(
        self, privacy: PrivacyLike, shared: Ledger | None = None, total: Budget | None = None
    ) -> None:
        self._asked: Budget | None = as_budget(privacy) if total is None else None
        self.total: Any = total if self._asked is None else GDP.within(self._asked)
        if isinstance(self.total, GDP) and self.total.mu > MAX_MU:
            raise InvalidBudget(
                f"noise cannot be so small that mu = {self.total.mu:g} is spent. Pass a smaller "
                "budget."
            )
        self._requested, self._shared = privacy, shared
        self._reservation: Reservation | None = None

    def open_ledger(self, rows: int) -> Ledger:
        """Open a ledger for one row, so that all rows of a person together cost the total (C47)."""
        if rows == 1:
            return Ledger(self.total)
        return Ledger(GDP(self.total.mu / rows * (1.0 - ROUNDING_PRODUCT)))

    def warn_if_weak(self, n: int) -> None:
        """Warn, before anything is charged, that a budget promises next to nothing."""
        from dpfast.fit_requests.weak_budgets import warn_if_weak

        warn_if_weak(self._requested, n, self._asked)

    def charge(self, label: str, extra_bytes: int = 0) -> None:
        """Charge the shared ledger, in its own currency if the budget was given in it."""
        self.reserve(label, extra_bytes)

    def reserve(
        self, label: str, extra_bytes: int = 0, session: Ledger | None = None, rows: int = 1
    ) -> AbstractContextManager[Any]:
        """Charge as :meth:`charge`; the context returns at its end what the session did not spend.

        A session is given only for work that ends by released and public values (claim C95).
        """
        _refuse_short_of_memory(SPARE_BYTES + extra_bytes)  # before anything is charged
        if self._shared is None:
            return nullcontext()
        spend = self._in_currency_of(checked_ledger(self._shared))
        self._reservation = Reservation(self._shared, spend, label, session, rows)
        return self._reservation

    @property
    def returned(self) -> GDP | None:
        """Part of the total that the shared ledger has back."""
        return None if self._reservation is None else self._reservation.returned

    def refuse_unpayable(self, label: str, times: int = 1) -> None:
        """Refuse what the ledger cannot pay so many times, before work that precedes the charge."""
        if self._shared is not None:
            ledger = checked_ledger(self._shared)
            spend = self._in_currency_of(ledger)
            ledger.check(spend, label)
            charges, spent = ledger._priced(spend, label), ledger._current()[0]
            for _ in range(times):  # one after the other, as they will be charged
                spent, _line = ledger._after(spent, charges)

    def charge_after(
        self, first: Callable[[], Checked], label: str, extra_bytes: int = 0
    ) -> Checked:
        """Charge once a caller's function has returned a valid answer, not before."""
        self.refuse_unpayable(label)
        answer = first()
        self.charge(label, extra_bytes)
        return answer

    def _in_currency_of(self, ledger: Ledger) -> Budget:
        requested = as_budget(self._requested) if self._asked is None else self._asked
        in_mu = ledger.keeps_apart and isinstance(self.total, GDP)
        total: Budget = self.total
        return requested if type(requested) is type(ledger.total) and not in_mu else total


def _refuse_short_of_memory(size: int) -> None:
    """Raise MemoryError if so many bytes cannot be had now; none is touched.

    An array of them takes three times as long: NumPy asks for huge pages.
    """
    try:
        mmap.mmap(-1, size, **_PRIVATE).close()
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(
            f"a call needs {size / 2**20:.0f} MiB, which cannot be had. Nothing was charged. Free "
            "memory, or fit fewer columns at a time."
        ) from error


def checked_ledger(ledger: Any) -> Ledger:
    """Refuse what is no ledger."""
    if not isinstance(ledger, Ledger):
        raise InvalidInput(
            "ledger must be a dpfast.Ledger, such as dpfast.Ledger.open(path), or None; received "
            f"{described(ledger)}."
        )
    return ledger
