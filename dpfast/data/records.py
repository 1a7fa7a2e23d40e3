"""Records: covariates and responses, in blocks, behind the curator."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import text_names
from dpfast.data.coding import Coding

#: Stored covariates; every computation with them is in float64.
Covariates = NDArray[np.float64 | np.float32]

FLOAT64 = np.dtype(np.float64)

#: A subsample has at most one in so many records: a larger one saves little time.
MIN_SAMPLING_FACTOR = 2


class Records:
    """n records: covariates (n, q), float64 or float32, and responses (n,), float64.

    With weights or offsets responses are of shape (n, 3) (:mod:`dpfast.data.record_weights`).
    Held by the Curator only.  float32 is storage only: whoever computes with X widens it first.

    Attributes
    ----------
    n, n_covariates : int
    block_sizes : tuple of int
        Numbers of records in the consecutive blocks; public, like n.
    names : tuple of str or None
        Public names of the covariates.

    Privacy
    -------
    Blocks and their sums are private, sizes and names are public.

    Examples
    --------
    >>> from dpfast.data import as_records
    >>> records = as_records(np.ones((5, 2)), np.zeros(5))
    >>> records.total(lambda X, y: X.sum(axis=0)), records.cached() is records
    (array([5., 5.]), True)
    """

    #: Coding of the covariates by a schema, if there is one.
    coding: Coding | None = None

    #: True if covariates are terms of a formula, which encodes the rows of a prediction itself.
    of_terms = False

    #: Largest number of records as a multiple of n, which divides their sums (claim C55).
    excess = 1

    #: Number of consecutive records of one person; random folds do not separate them.
    rows_per_unit = 1

    #: True if records are persons, each with the mean of their rows.
    means = False

    #: Number of passes over the records; None for arrays in memory or mapped into it.
    reads: int | None = None

    #: True if secret random samples can be taken.
    can_be_partitioned = True

    #: True if every query reads and decodes the records again.
    read_again = False

    #: True if the records are on other machines, which they never leave.
    is_remote = False

    def __init__(
        self, X: Covariates, y: NDArray[np.float64], names: tuple[str, ...] | None
    ) -> None:
        self.X = X
        self.y = y
        self.n = X.shape[0]
        self.block_sizes: tuple[int, ...] = (self.n,)
        self.n_covariates = X.shape[1]
        self.names = names

    def blocks(self) -> Iterator[tuple[Covariates, NDArray[np.float64]]]:
        """Yield consecutive blocks ``(X, y)``; arrays in memory are one block."""
        return iter([(self.X, self.y)])

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum over the blocks of ``function(X, y, *arguments)``, by :attr:`additions` of parts.

        Parameters
        ----------
        function : callable
            Returns a number, an array, or a tuple of arrays and None.  Picklable, as are the
            arguments: the blocks may be on other machines.
        *arguments
            Public or released, the same for all blocks.

        Returns
        -------
        number, array or tuple
        """
        if type(self) is Records:  # in memory: one block
            return function(self.X, self.y, *arguments)
        from dpfast.data.reduction import tree_sum

        return tree_sum(function(X, y, *arguments) for X, y in self.blocks())

    def cached(self) -> Records:
        """Return records that are kept where they are after the first read: on a cluster."""
        return self

    def _picked(self, numbers: NDArray[np.int64]) -> Records:
        """Gather the records with these public row numbers, of arrays in memory."""
        return Records(self.X[numbers], self.y[numbers], self.names)

    @property
    def in_memory(self) -> bool:
        """True for arrays in memory, whose rows can be read one by one."""
        if not hasattr(self, "X"):
            return False
        for array in (self.X, self.y):
            base: Any = array  # a view of a mapped file, whose rows are slow to gather, is no array
            while base is not None and isinstance(base, np.ndarray):
                if type(base) is not np.ndarray and isinstance(base, np.memmap):
                    return False
                base = base.base
            if base is not None and isinstance(base, mmap.mmap):
                return False
        return True

    @property
    def uncoded(self) -> tuple[Records, Any]:
        """Records before coding, and the released units that they are coded in, or None."""
        return self, None

    @property
    def additions(self) -> int:
        """Most additions that a block's part passes through in :meth:`total` (claim C11)."""
        if len(self.block_sizes) == 1:
            return 0
        from dpfast.data.reduction import additions

        return additions(len(self.block_sizes))

    def _summed(self, row: int) -> tuple[int, int, int, int, int, bool, bool]:
        """Return public facts about a sum of ``row`` numbers per record, and how it is added."""
        largest = max(self.block_sizes)
        flags = (self.excess, self.means, False)
        return (self.n, row, largest, self.additions, *flags)

    def __reduce__(self) -> Any:
        raise TypeError(
            "Records hold private data and are not picklable; pickle the fitted result instead."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, n_covariates={self.n_covariates})"


#: Public facts that records made of others share with them.
FACTS = ("n", "n_covariates", "names", "block_sizes", "excess", "rows_per_unit", "coding",
         "can_be_partitioned", "read_again", "is_remote")  # fmt: skip


class Wrapped(Records):
    """Records made of others, with the same public facts but for ``facts``.

    ``make`` returns the blocks of a query.  If they are ``kept`` they are made once, when they are
    first read: after the charge.
    """

    def __init__(
        self,
        records: Records,
        make: Callable[[], Iterable[tuple[Covariates, NDArray[np.float64]]]],
        *,
        kept: bool = False,
        **facts: Any,
    ) -> None:
        self._raw, self._make, self._keeps = records, make, kept
        self._kept: list[tuple[Covariates, NDArray[np.float64]]] | None = None
        for fact in FACTS:
            setattr(self, fact, facts.pop(fact, getattr(records, fact)))
        for fact, value in facts.items():
            setattr(self, fact, value)

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        return self._raw.reads

    def blocks(self) -> Iterator[tuple[Covariates, NDArray[np.float64]]]:
        """Yield the blocks that are made, or were made and kept."""
        if not self._keeps:
            return iter(self._make())
        if self._kept is None:
            self._kept = list(self._make())
        return iter(self._kept)


class Mapped(Wrapped):
    """Records whose blocks a picklable function maps in every query, if need be where they are.

    Arrays are mapped once if they are ``kept``.  ``units`` are those that the mapping codes in.
    """

    def __init__(
        self,
        records: Records,
        mapping: Callable[[Covariates, NDArray[np.float64]], Any],
        *,
        kept: bool = False,
        units: Any = None,
        **facts: Any,
    ) -> None:
        kept = kept and hasattr(records, "X")
        # no method of its own, so that nothing keeps the records on a cluster after the fit
        make = partial(_map_blocks, records, mapping)
        super().__init__(records, make, kept=kept, **facts)
        self._mapping, self._units, self._facts = mapping, units, facts

    @property
    def additions(self) -> int:
        return self._raw.additions

    @property
    def uncoded(self) -> tuple[Records, Any]:
        return (self, None) if self._units is None else (self._raw, self._units)

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._keeps:
            return super().total(function, *arguments)
        return self._raw.total(partial(_call_mapped, function, self._mapping), *arguments)

    def random_partition(self, keys: Any, scatter: Callable[..., Any], n_slots: int) -> Any:
        """Partition records that stay on other machines."""
        raw: Any = self._raw
        parts = raw.random_partition(keys, scatter, n_slots)
        return _MappedPartition(parts, self._mapping, self._units, self._facts)


class _MappedPartition(NamedTuple):
    """Random partition of records on a cluster, mapped there."""

    parts: Any
    mapping: Callable[..., Any]
    units: Any
    facts: dict[str, Any]

    def part(self, low: int, high: int, n: int) -> Records:
        """Return the mapped records of some slots; ``n`` are expected."""
        raw = self.parts.part(low, high, n)
        return Mapped(raw, self.mapping, units=self.units, **self.facts)


def unpartitioned(
    records: Records, mapping: Callable[..., Any], *, kept: bool = False, **facts: Any
) -> Mapped:
    """Map the records of queries about columns, of which no samples are taken."""
    own = {"coding": None, "rows_per_unit": 1, "can_be_partitioned": False}
    return Mapped(
        records, mapping, kept=kept, **own | {"read_again": False, "is_remote": False} | facts
    )


def _map_blocks(records: Records, mapping: Callable[..., Any]) -> Iterator[Any]:
    """Map each block of the records."""
    return (mapping(X, y) for X, y in records.blocks())


def _call_mapped(
    function: Callable[..., Any],
    mapping: Callable[..., Any],
    X: Covariates,
    y: NDArray[np.float64],
    *arguments: Any,
) -> Any:
    """Apply a function to mapped records."""
    return function(*mapping(X, y), *arguments)


def checked_names(names: Any, n_covariates: int) -> tuple[str, ...] | None:
    """Check the public names of the columns of X; None without names."""
    if names is None:
        return None
    return text_names(names, n_covariates, "column of X")
