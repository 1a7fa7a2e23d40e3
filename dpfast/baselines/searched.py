"""Results of the comparison searches, and what their calls have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput
from dpfast.inference.request import RELATION
from dpfast.inference.results import Guarantee
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise, NoiseSource

__all__ = ["Searched", "checked_noise", "guarantee_of"]

Array = NDArray[np.float64]


class Searched(NamedTuple):
    """What a comparison search found; released and public numbers only.

    Attributes
    ----------
    theta : ndarray of shape (d,)
        The recommended parameters.
    path : ndarray of shape (m, d)
        Iterates, or points evaluated in order; empty where their number is secret.
    scores : ndarray of shape (m,)
        Released mean losses of the points, where there are any.
    method : str
    privacy : Guarantee
        For the validation records; training data are not covered.
    """

    theta: Array
    path: Array
    scores: Array
    method: str
    privacy: Guarantee


def checked_noise(noise: NoiseSource | None) -> NoiseSource:
    """The noise source of a call, operating-system entropy by default."""
    if noise is None:
        return EntropyNoise()
    if not isinstance(noise, NoiseSource):
        raise InvalidInput(
            "noise must be a dpfast noise source such as dpfast.SeededNoise(0); received "
            f"{noise!r}."
        )
    return noise


def guarantee_of(mu: float, n: int, ledger: Ledger, noise: NoiseSource) -> Guarantee:
    """The guarantee of a search whose charges are in this ledger."""
    return Guarantee(
        guarantee=noise.guarantee,
        mu=mu,
        relation=RELATION,
        n=n,
        entries=tuple((entry.label, entry.charged.mu) for entry in ledger.entries),
    )
