"""The ledger: one budget, in memory or in a file, and answers that one charge pays for."""

from __future__ import annotations

from dpfast.privacy.ledger.book import ONE, Entry, Ledger, Part

__all__ = ["ONE", "Entry", "Ledger", "Part"]
