"""What a call spends on questions about values that it is told of records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise

Told = TypeVar("Told")


class Spending:
    """What a call has to spend on questions about values that it is told of records."""

    def __init__(self, account: Account, n_records: int, noise: NoiseSource | None) -> None:
        self.account, self.noise = account, checked_noise(noise)
        self.ledger = Ledger(account.total)
        self.values = RecordValues(n_records, self.ledger, self.noise)

    def guarantee(self) -> Guarantee:
        """Of what was charged so far."""
        charges = [(entry.label, entry.charged.mu) for entry in self.ledger.entries]
        spent, n = composition_of(self.ledger), self.values.n
        return Guarantee.of(
            self.account.total, self.noise, n, charges, vouched=TOLD, expression=spent
        )

    def begin(self, first: Callable[[], Told], label: str, *room: int) -> Told:
        """Charge the shared ledger for all once the first point was told, of the right shape."""
        return self.account.charge_after(first, label, memory_needed(self.values.n, *room))
