"""Random blocks of a curator's records, paid for side by side: what claim C55 is about.

The library deals folds and samples; here any number of blocks is asked about, by whatever was
released before.
"""

from __future__ import annotations

from dpfast.curator import Curator, blocks
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger, Part

__all__ = ["Dealing"]


class Dealing:
    """All blocks together cost ``mu``, charged here; each slot is in one."""

    def __init__(self, curator: Curator, mu: float) -> None:
        records = curator._records
        assert records.can_be_partitioned
        curator.ledger.charge(GDP(mu), "random blocks")
        self._curator, self._mu = curator, mu
        self._ledgers: list[Ledger] = []
        curator.ledger.parts.append(Part("random blocks", GDP(mu), self._ledgers, disjoint=True))
        self.n_slots = self.left = blocks.number_of_slots(curator.n)
        self._dealt = blocks._assign_slots(records, curator._noise, self.n_slots)

    def block(self, width: int) -> Curator:
        """A curator of the records in ``width`` slots that are in no block yet."""
        curator, size = self._curator, self._curator.n * width // self.n_slots
        end = self.n_slots - self._take(width)
        records = self._dealt.part(end - width, end, size)
        self._ledgers.append(Ledger(GDP(self._mu)))
        return curator._beside(records, curator.objective, self._ledgers[-1])

    def _take(self, width: int) -> int:
        """How many slots are left."""
        assert 1 <= width <= self.left
        self.left -= width
        return self.left
