"""How a run whose budget is a filter reports what it spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpfast.inference.request import RELATION
from dpfast.inference.results import Guarantee
from dpfast.privacy.budget import GDP, ZCDP, zcdp_epsilon
from dpfast.privacy.ledger import Entry

__all__ = ["ConcentratedGuarantee"]


class ConcentratedGuarantee(Guarantee):
    """A total in zCDP or Gaussian DP, charged by queries that were chosen on the way.

    Attributes
    ----------
    total : ZCDP or GDP
        What is promised.
    gaussian : bool
        Whether every charge was Gaussian noise, so that ``mu`` holds as a Gaussian-DP parameter;
        otherwise (a choice by the exponential mechanism) the promise is in zCDP only and ``mu`` is
        ``sqrt(2 rho)``, a measure of size.
    """

    total: ZCDP | GDP
    gaussian: bool

    @classmethod
    def of(
        cls, guarantee: str, total: ZCDP | GDP, n: int, entries: Sequence[Entry]
    ) -> ConcentratedGuarantee:
        """Of a ledger's entries."""
        # rounded up: charges add up to at most rho exactly, hence to at most 2 rho in mu^2
        if isinstance(total, ZCDP):
            mu = math.nextafter(math.sqrt(2.0 * total.rho), math.inf)
        else:
            mu = total.mu
        spends = [(entry.label, entry.spend) for entry in entries]
        parts = tuple(
            (label, spend.mu if isinstance(spend, GDP) else math.sqrt(2.0 * spend.rho))
            for label, spend in spends
        )
        made = cls(guarantee, mu, RELATION, n, parts)
        made.total = total
        made.gaussian = all(isinstance(entry.spend, GDP) for entry in entries)
        return made

    @property
    def rho(self) -> float:
        """The promise as zCDP, rounded up."""
        return self.total.as_zcdp().rho

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon with (epsilon, delta)-DP, rounded up."""
        return super().epsilon(delta) if self.gaussian else zcdp_epsilon(self.rho, delta)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (tuple(self), self.total, self.gaussian)

    def __str__(self) -> str:
        text = super().__str__()
        if isinstance(self.total, ZCDP):
            line = f"Privacy: {self.total.rho:.6g}-zCDP in total"
            if self.gaussian:
                line += f", and {self.mu:.6g}-GDP"
            text = text.replace(f"Privacy: {self.mu:.6g}-GDP in total", line)
        return text


def _restored(parts: tuple[Any, ...], total: ZCDP | GDP, gaussian: bool) -> ConcentratedGuarantee:
    made = ConcentratedGuarantee(*parts)
    made.total, made.gaussian = total, gaussian
    return made
