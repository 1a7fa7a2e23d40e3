"""Parts of the records: random blocks that are paid for side by side, and the constant term alone.

Functions of a :class:`~dpfast.curator.Curator`, which offers them as methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Records
from dpfast.errors import InvalidInput
from dpfast.models import Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.dealing import SLOTS, scatter
from dpfast.privacy.ledger import Ledger, Part
from dpfast.privacy.paid import PaidAnswers

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

Array = NDArray[np.float64]

__all__ = ["Dealing", "can_deal", "constant_term"]


#: What a dealing hands out.
SLOT = "slot"

#: Rows that are gathered at a time: they stay in the processor's cache until they are used, and
#: their memory is used again for the next.
GATHERED_BYTES = 1 << 20


class Block(Records):
    """The records that fell into one part, divided by how many were to be expected.

    Nobody learns how many they are: sums are divided by the public ``n``, and ``excess`` allows
    for all records of the table.
    """

    __slots__ = ("_rows", "_step", "_table", "excess")

    def __init__(self, table: Records, inside: NDArray[np.bool_], n: int) -> None:
        self.n = n
        self.n_covariates = table.n_covariates
        self.names = table.names
        self._table = table
        self._rows = np.flatnonzero(inside)
        row = max(1, table.n_covariates) * table.X.itemsize
        self._step = min(table.n, max(1, GATHERED_BYTES // row))
        self.block_sizes = (self._step,) * -(-table.n // self._step)
        self.excess = -(-table.n // n)

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The records of the part, some at a time, each time in the memory of those before."""
        X, y, rows = self._table.X, self._table.y, self._rows
        gathered = np.empty((min(self._step, len(rows)), X.shape[1]), X.dtype)
        for first in range(0, max(1, len(rows)), self._step):
            some = rows[first : first + self._step]
            # indices are in range; the other modes copy once more
            yield X.take(some, axis=0, out=gathered[: len(some)], mode="clip"), y[some]


class WithoutCovariates(Records):
    """The same records with their responses only, wherever they are kept."""

    __slots__ = ("_all", "excess")

    def __init__(self, records: Records) -> None:
        self.n = records.n
        self.n_covariates = 0
        self.names = None
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self._all = records

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of all records; one whose covariates are not finite contributes zero here, too."""
        if own is not None:
            raise InvalidInput("a model of a constant has no arguments of single blocks.")
        return self._all.total(_of_responses, function, *arguments)


def _of_responses(X: Covariates, y: Array, function: Callable[..., Any], *arguments: Any) -> Any:
    with np.errstate(all="ignore"):
        present = np.isfinite(X.sum(axis=1, dtype=np.float64))
    return function(X[:, :0], y if present.all() else np.where(present, y, np.nan), *arguments)


def can_deal(curator: Curator) -> bool:
    """Whether there can be a :class:`Dealing`: arrays in memory, whose rows can be gathered."""
    return type(curator._records) is Records


class Dealing(PaidAnswers):
    """Random blocks of a curator's records, none in two of them, paid for side by side.

    Parameters
    ----------
    curator : Curator
    mu : float
        What each block may spend.

    Privacy
    -------
    All blocks together cost ``mu``, charged here, however many there are and whichever answers
    they depend on (claim C55); each slot is in one, dealt by the original (claim C48).
    """

    def __init__(self, curator: Curator, mu: float) -> None:
        if not can_deal(curator):
            raise InvalidInput(
                "blocks need records that are arrays in memory; received "
                f"{type(curator._records).__name__}."
            )
        curator.ledger.charge(GDP(mu), "random blocks")
        self._curator = curator
        self._mu = mu
        self._ledgers: list[Ledger] = []
        curator.ledger.parts.append(Part("random blocks", GDP(mu), self._ledgers, disjoint=True))
        self._slots = scatter(curator.n, curator._noise)
        super().__init__([SLOT] * SLOTS, "the others are in blocks already.")

    @property
    def left(self) -> int:
        """Number of slots, each of about ``n / SLOTS`` records, that are in no block yet."""
        return self._left[SLOT]

    def block(self, width: int) -> Curator:
        """A curator of the records in ``width`` slots that are in no block yet.

        Its n is the number of records to expect there, ``n width / SLOTS``.
        """
        curator, size = self._curator, self._curator.n * width // SLOTS
        if width < 1 or size < 1:
            raise InvalidInput(
                "a block takes at least one slot, and as many as hold a record on average; "
                f"received width={width} and n={curator.n}."
            )
        end = SLOTS - self._take(SLOT, count=width)  # no other thread gets the same
        inside = (self._slots >= end - width) & (self._slots < end)
        records = Block(curator._records, inside, size)
        own = Ledger(GDP(self._mu))
        self._ledgers.append(own)
        return curator._beside(records, curator.objective, own)


def constant_term(curator: Curator, scale: float | None) -> Curator:
    """A curator of the same records and ledger for a model of a constant alone.

    Parameters
    ----------
    scale : float or None
        Public residual scale of that model.

    Privacy
    -------
    Its answers charge the same ledger, with the sensitivities of an objective of one parameter.
    """
    loss = curator.objective.loss
    return curator._beside(
        WithoutCovariates(curator._records),
        Objective(loss, Mallows(1.0), 0, scale=scale),
        curator.ledger,
    )
