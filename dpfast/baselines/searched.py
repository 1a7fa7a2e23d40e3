"""Results of the comparison searches, and what their calls have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.composition import composition_of
from dpfast.inference.guarantees import TOLD, Guarantee
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

__all__ = ["Searched", "guarantee_of"]

Array = NDArray[np.float64]


class Searched(NamedTuple):
    """What a comparison search found; released and public numbers only."""

    theta: Array
    path: Array
    scores: Array
    method: str
    privacy: Guarantee


def guarantee_of(total: GDP, n: int, ledger: Ledger, noise: NoiseSource) -> Guarantee:
    """The guarantee of a search whose charges are in this ledger."""
    charges = [(entry.label, entry.charged.mu) for entry in ledger.entries]
    spent = composition_of(ledger)
    return Guarantee.of(total, noise, n, charges, vouched=TOLD, expression=spent)
