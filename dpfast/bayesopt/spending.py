"""Budget of a call that asks private questions about values of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise

Value = TypeVar("Value")


class Spending:
    """Budget of one call for questions about the values of records."""

    def __init__(self, account: Account, n_records: int, noise: NoiseSource | None) -> None:
        self.account = account
        self.noise = checked_noise(noise)
        self.ledger = Ledger(account.total)
        self.values = RecordValues(n_records, self.ledger, self.noise)

    def guarantee(self) -> Guarantee:
        """Return the guarantee for the charges so far."""
        charges = [(entry.label, entry.charged.mu) for entry in self.ledger.entries]
        spent, n = composition_of(self.ledger), self.values.n
        return Guarantee.of(
            self.account.total, self.noise, n, charges, vouched=TOLD, expression=spent
        )

    def begin(self, first: Callable[[], Value], label: str, *shape: int) -> Value:
        """Charge the shared ledger once the first values have the right shape."""
        return self.account.charge_after(first, label, memory_needed(self.values.n, *shape))
