"""Random folds and slots of records, from their number only: claims C53 to C55 and C67."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import EntropyFailure, InvalidInput, UnsupportedConversion
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

#: Slots that records are scattered into, by one random byte each.
SLOTS = 256

#: Number of records from which on :data:`MANY_SLOTS` are used, so that a slot's records fit into
#: memory.
MANY_RECORDS = 1 << 24

#: Slots that two random bytes tell apart.
MANY_SLOTS = 1 << 16

#: 64-bit words of the key from which a chunk's slots are made.
KEY_WORDS = 4

Slots = NDArray[np.unsignedinteger[Any]]

#: Attempts to draw words without ties.  A tie among n <= 2^31 words has probability 1/8 at most, so
#: that genuine words fail with probability 8^-64.
ATTEMPTS = 64

#: Budgets that are larger than any analysis spends, in each currency.
_BOUNDLESS: dict[type[Budget], Budget] = {
    GDP: GDP(sys.float_info.max),
    ZCDP: ZCDP(sys.float_info.max),
    PureDP: PureDP(sys.float_info.max),
    ApproxDP: ApproxDP(sys.float_info.max, 1.0 - 2.0**-53),
}


def part_sizes(n: int, n_parts: int) -> list[int]:
    """Return the numbers of records in the parts of a random split; public."""
    if not 1 <= n_parts <= n:
        raise InvalidInput(
            f"{n} records cannot be split into {n_parts} parts. Use at least one part and at most "
            "as many as there are records."
        )
    return [n // n_parts + (part < n % n_parts) for part in range(n_parts)]


def random_parts(n: int, n_parts: int, source: NoiseSource) -> NDArray[np.intp]:
    """Assign n records to random parts, every split equally likely: free (claim C53)."""
    sizes = part_sizes(n, n_parts)
    for _ in range(ATTEMPTS):
        words = source.words(n)
        firsts = np.cumsum(sizes)[:-1]  # ranks of the parts' smallest words
        parts = np.searchsorted(np.partition(words, firsts)[firsts], words, side="right")
        if (np.bincount(parts, minlength=n_parts) == sizes).all():  # no words equal at a cut
            return parts
    raise EntropyFailure("random words keep repeating each other: they are not random.")


def number_of_slots(n: int) -> int:
    """Return the number of slots that n records are scattered into; public."""
    return SLOTS if n < MANY_RECORDS else MANY_SLOTS


def scatter(n: int, source: NoiseSource, n_slots: int = SLOTS) -> Slots:
    """Assign each of n records an independent uniform slot: free (claim C55)."""
    kind = _kind(n_slots)
    return source.words(-(-n * kind.itemsize // 8)).view(kind)[:n]


def secret_choices(n: int, source: NoiseSource) -> NDArray[np.float64]:
    """Draw a number for each of n persons, uniform on multiples of 2^-53 in [0, 1): free (C67)."""
    return np.ldexp((source.words(n) >> np.uint64(11)).astype(np.float64), -53)


def chunk_keys(n_chunks: int, source: NoiseSource) -> NDArray[np.uint64]:
    """Draw a secret key for each chunk of records, to scatter them by: free (claim C55)."""
    return source.words(KEY_WORDS * n_chunks).reshape(n_chunks, KEY_WORDS)


def scatter_chunk(key: NDArray[np.uint64], n: int, n_slots: int) -> Slots:
    """Assign slots to a chunk's n records, by SHAKE-256 from its key: free (claim C55)."""
    kind = _kind(n_slots)
    stream = hashlib.shake_256(np.ascontiguousarray(key, "<u8").tobytes())
    chunk_slots: Slots = np.frombuffer(stream.digest(n * kind.itemsize), kind.newbyteorder("<"))
    return chunk_slots.astype(kind)


def _kind(n_slots: int) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(np.uint8) if n_slots == SLOTS else np.dtype(np.uint16)


def cross_validation_cost(
    fit: Budget, score: Budget, n_folds: int, currency: type[Budget] = GDP
) -> Budget:
    """Add up the cost of k-fold cross-validation as the ledger does, rounded up (claim C54)."""
    if currency is ApproxDP and GDP in (type(fit), type(score)):
        raise UnsupportedConversion(
            f"{fit!r} and {score!r} have no sum in (epsilon, delta): add them up in GDP."
        )
    total = Ledger(_BOUNDLESS[currency])
    for _ in range(n_folds - 1):
        total.charge(fit, "fit on the other folds")
    total.charge(score, "score of the fold left out")
    spent: Budget = total.spent
    return spent
