"""The auditable room: budgets, ledgers, sensitivities, noise and the mechanisms that add it.

Every constant is a numbered claim of ``PROOFS.md``, with its proof and the test that attacks it.
"""

from __future__ import annotations

from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpfast.privacy.ledger import Entry, Ledger
from dpfast.privacy.noise import EntropyNoise, NoiseSource, SeededNoise

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "EntropyNoise",
    "Entry",
    "Ledger",
    "NoiseSource",
    "PureDP",
    "SeededNoise",
]
