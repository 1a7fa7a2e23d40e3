"""The ledger: one budget, in memory or in a file, and answers that one charge pays for."""

from __future__ import annotations

from dpfast.privacy.ledger.book import QUANTUM_BITS, Entry, Ledger, Part

__all__ = ["QUANTUM_BITS", "Entry", "Ledger", "Part"]
