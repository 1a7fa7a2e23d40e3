"""Validation of a pair (X, y).  Shapes and dtypes may raise; values never do."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import text_names
from dpfast.data.coding import Coding
from dpfast.errors import InvalidInput

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
    >>> from dpfast.data.records import as_records
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

    #: True if the kernels computed these records from others.
    seen = False

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
        """Return records that are kept after the first read, if they are few enough: public."""
        if self.read_again:
            from dpfast.data.files.cached import CachedRecords, fits_in_cache

            return CachedRecords(self) if fits_in_cache(self) else self
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
        flags = (self.excess, self.means, self.seen)
        return (self.n, row, largest, self.additions, *flags)

    def _in_units(self, scales: Any, coding: Coding) -> Records:
        """Return the records in released units, with the coding that documents them."""
        from dpfast.data.scaling.units import CodedBlocks, CodedRecords

        if self.in_memory:
            return CodedRecords(self, scales, coding)
        if not hasattr(self, "X"):
            return CodedBlocks(self, scales, coding)
        from dpfast.data.streams import memmap_records

        return CodedBlocks(memmap_records(self.X, self.y, self.names), scales, coding)

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


def as_records(X: Any, y: Any, names: Sequence[str] | None = None) -> Records:
    """Check shapes and dtypes of a regression data set and wrap it without copying."""
    if isinstance(X, Records):
        return _opened(X, y, names)
    if type(X).__module__.split(".")[0] in ("dask", "dask_expr"):
        from dpfast.data.cluster import dask_records

        return dask_records(X, y, names)
    wrap: Callable[..., Records] = Records
    plain = type(X) is type(y) is np.ndarray and (X.ndim, y.ndim) == (2, 1)
    if not (plain and X.dtype == y.dtype == FLOAT64):
        from dpfast.data.arrays import converted

        wrap, X, y, names = converted(X, y, names)
    if y.shape[0] != X.shape[0]:
        raise InvalidInput(
            f"X has {X.shape[0]} rows and y has {y.shape[0]} entries; each record needs one of "
            "both."
        )
    if X.shape[0] == 0:
        raise InvalidInput("X has no rows; at least one record is needed.")
    return wrap(X, y, checked_names(names, X.shape[1]))


def checked_names(names: Any, n_covariates: int) -> tuple[str, ...] | None:
    """Check the public names of the columns of X; None without names."""
    if names is None:
        return None
    return text_names(names, n_covariates, "column of X")


def _opened(records: Records, y: Any, names: Any) -> Records:
    if y is not None or names is not None:
        raise InvalidInput(
            "records that were opened hold their response and names already. Pass y=None and no "
            "names."
        )
    return records
