"""The auditable room: budgets, ledgers, sensitivities, noise and the mechanisms that add it.

Small and boring on purpose.  Every constant here is a numbered claim of ``PROOFS.md``, with its
proof and the test that attacks it.  Imports only the standard library, NumPy, ``scipy.special``,
``dpfast.errors`` and the compiled sampler.
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
