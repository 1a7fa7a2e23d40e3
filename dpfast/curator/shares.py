"""Share of records below a threshold: the query behind private quantiles."""

from __future__ import annotations

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.sensitivity import centred_share as share_sensitivity


def share_receipt(n: int, mu: float) -> Receipt:
    """Make the receipt of a share of n records; from public numbers only."""
    return gaussian_receipt("share below", "C46", mu, share_sensitivity(n), 1.0, 1)


class Shares:
    """Queries about the share of values below a threshold."""

    def __init__(self, values: Array, ledger: Ledger, noise: NoiseSource) -> None:
        self.n = len(values)
        self.ledger = ledger
        self._values = values
        self._noise = source_of_noise(noise)

    def receipt(self, mu: float) -> Receipt:
        """Make the receipt of :meth:`excess`; reads no record, costs nothing."""
        return share_receipt(self.n, mu)

    def excess(self, threshold: float, probability: float, mu: float) -> Answer:
        """Release ``mean(1{x <= threshold} - probability)``, shape (1,) (claim C46)."""
        receipt = self.receipt(mu)
        self.ledger.charge(GDP(mu), receipt.query)
        below = int(np.count_nonzero(self._values <= threshold))
        counted = self.n - int(np.count_nonzero(np.isnan(self._values)))
        value = np.array([(below - probability * counted) / self.n])
        return release_with_noise(
            self._noise, (receipt.query, mu, threshold, probability), receipt, value
        )
