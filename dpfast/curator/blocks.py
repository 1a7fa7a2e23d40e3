"""Parts of the records: random blocks that are paid for side by side, and the constant term alone.

Functions of a :class:`~dpfast.curator.Curator`, which offers them as methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.parts import (
    KEPT_BYTES,
    LEAST_OF_ALL,
    Block,
    WithoutCovariates,
    dealt,
)
from dpfast.data.records import Covariates, Records
from dpfast.data.reduction import additions
from dpfast.errors import InvalidInput
from dpfast.models import FreeScale, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.dealing import SLOTS, chunk_keys, number_of_slots, scatter, scatter_chunk
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.ledger.paid import PaidAnswers
from dpfast.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

Array = NDArray[np.float64]

#: What a dealing hands out.
SLOT = "slot"


class Dealing(PaidAnswers):
    """Random blocks of a curator's records, none in two of them, paid for side by side.

    Privacy
    -------
    All blocks together cost ``mu``, charged here, however many there are and whichever answers
    they depend on (claim C55); each slot is in one, dealt by the original (claim C48).
    """

    def __init__(self, curator: Curator, mu: float) -> None:
        records = curator._records
        if not records.can_be_dealt:
            raise InvalidInput(
                f"there are no blocks of {type(records).__name__}: deal all records instead."
            )
        curator.ledger.charge(GDP(mu), "random blocks")
        self._curator = curator
        self._mu = mu
        self._ledgers: list[Ledger] = []
        curator.ledger.parts.append(Part("random blocks", GDP(mu), self._ledgers, disjoint=True))
        self.n_slots = number_of_slots(curator.n)
        self._dealt = _dealt(records, curator._noise, self.n_slots)
        super().__init__({SLOT: self.n_slots}, "the others are in blocks already.")

    @property
    def left(self) -> int:
        """Number of slots, each of about ``n / n_slots`` records, that are in no block yet."""
        return self._left[SLOT]

    @property
    def room(self) -> int:
        """Number of slots whose records can be in memory at a time; public."""
        room: int = self._dealt.room
        return room

    def block(self, width: int, ahead: int = 0) -> Curator:
        """A curator of the records in ``width`` slots that are in no block yet.

        Its n is the number of records to expect there, ``n width / n_slots``.
        """
        curator, size = self._curator, self._curator.n * width // self.n_slots
        if width < 1 or size < 1:
            raise InvalidInput(
                "a block takes at least one slot, and as many as hold a record on average; "
                f"received width={width} and n={curator.n}."
            )
        end = self.n_slots - self._take(SLOT, count=width)  # no other thread gets the same
        records = self._dealt.part(end - width, end, size, max(0, ahead))
        own = Ledger(GDP(self._mu))
        self._ledgers.append(own)
        return curator._beside(records, curator.objective, own)


def _dealt(records: Any, source: NoiseSource, n_slots: int) -> Any:
    """Records with a slot each, a person's all with the same.

    On other machines, and where there are so many that their slots would fill the memory, slots are
    made where they are needed, from a key for each block of records.
    """
    if records.elsewhere or (records.read_again and n_slots > SLOTS):
        keys = chunk_keys(len(records.block_sizes), source)
        if records.elsewhere:
            return records.dealt(keys, scatter_chunk, n_slots)
        from dpfast.data.files.kept import dealt_by_keys

        return dealt_by_keys(records, keys, scatter_chunk, n_slots)
    slots = scatter(records.n // records.together, source, n_slots)
    if records.together > 1:
        slots = np.repeat(slots, records.together)
    return dealt(records, slots, n_slots)


class Sample(Block):
    """A secret sample of records, drawn when it is first looked at.

    Privacy
    -------
    Answers cost what they cost about so many records (claim C85): nothing but time is gained.
    """

    def __init__(self, records: Records, source: NoiseSource, width: int) -> None:
        n = records.n * width // number_of_slots(records.n)
        self._lay_out(records, n, records.n)
        self._records, self._source, self._width = records, source, width
        self.elsewhere = records.elsewhere
        self._drawn: Records | None = None

    @property
    def additions(self) -> int:
        """On a cluster, as many more as if each of its chunks were a piece."""
        own = super().additions
        return own + additions(len(self._records.block_sizes)) if self.elsewhere else own

    def _found(self) -> Records:
        if self._drawn is None:
            slots = _dealt(self._records, self._source, number_of_slots(self._records.n))
            drawn = slots.part(0, self._width, self.n, 0)
            few = 8 * self.n * (self.n_covariates + 1) <= KEPT_BYTES
            self._drawn = drawn.kept() if few and not self.elsewhere else drawn
        assert self._drawn is not None
        return self._drawn

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The same records every time."""
        return self._found().blocks()

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of any part; of records on a cluster it stays there."""
        if self.elsewhere:
            return self._found().total(function, *arguments, own=own)
        return super().total(function, *arguments, own=own)


def sample(records: Records, source: NoiseSource, wanted: float) -> Sample | None:
    """A secret sample of about so many records; None where that is a large part of them.

    Public: by the number of records.
    """
    n_slots = number_of_slots(records.n)
    width = math.ceil(min(1.0, wanted / records.n) * n_slots)
    if width * LEAST_OF_ALL > n_slots or not records.can_be_dealt:
        return None
    return Sample(records, source, width)


def constant_term(curator: Curator, scale: float | FreeScale | None) -> Curator:
    """A curator of the same records and ledger for a model of a constant alone.

    Privacy
    -------
    Its answers charge the same ledger, with the sensitivities of an objective of one parameter.
    """
    if curator._responses is None:
        records: Any = curator._records
        if records.means:
            curator._responses = records.without_covariates()
        else:
            curator._responses = WithoutCovariates(records)
    loss, weights = curator.objective.loss, Mallows(1.0)
    if isinstance(scale, FreeScale):
        objective = Objective(loss, weights, 0, free_scale=scale)
    else:
        objective = Objective(loss, weights, 0, scale=scale)
    return curator._beside(curator._responses, objective, curator.ledger)
