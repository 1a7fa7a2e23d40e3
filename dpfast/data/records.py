"""Records: covariates and responses, in blocks, behind the curator."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

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


class Wrapped(Records):
    """View of other records with the same public facts."""

    def __init__(self, records: Records) -> None:
        self._raw = records
        self.n = records.n
        self.n_covariates = records.n_covariates
        self.names = records.names
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self.rows_per_unit = records.rows_per_unit
        self.coding = records.coding
        self.can_be_partitioned = records.can_be_partitioned
        self.read_again = records.read_again
        self.is_remote = records.is_remote

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        return self._raw.reads


class Mapped(Records):
    """Records whose blocks a picklable function maps in every query.

    Arrays are mapped once if they are ``kept``, when they are first read: after the charge.
    """

    can_be_partitioned = False

    def __init__(
        self,
        records: Records,
        mapping: Callable[[Covariates, NDArray[np.float64]], Any],
        n_covariates: int,
        names: tuple[str, ...] | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self._raw = records
        self._mapping = mapping
        self.n = records.n
        self.n_covariates = n_covariates
        self.names = names
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self._keeps = kept
        self._kept: list[Any] | None = None

    @property
    def additions(self) -> int:
        return self._raw.additions

    def blocks(self) -> Iterator[tuple[Covariates, NDArray[np.float64]]]:
        """Yield the mapped blocks."""
        if self._kept is not None:
            return iter(self._kept)
        mapped = (self._mapping(X, y) for X, y in self._raw.blocks())
        if not self._keeps or not hasattr(self._raw, "X"):
            return mapped
        self._kept = list(mapped)
        return iter(self._kept)

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._keeps and hasattr(self._raw, "X"):
            return super().total(function, *arguments)
        return self._raw.total(partial(_call_mapped, function, self._mapping), *arguments)


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
