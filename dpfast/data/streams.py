"""Records larger than memory: decoded block by block, one block ahead of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, RecordsUnavailable

Array = NDArray[np.float64]
Block = tuple[Array, Array]

#: Bytes of a decoded block of a memmap or a sparse matrix.
BLOCK_BYTES = 1 << 24


class StreamedRecords(Records):
    """Records that are decoded again for every query.

    Parameters
    ----------
    decode : callable
        ``decode(k)`` returns block k as float64 arrays (rows, q) and (rows,).  Called from one
        thread at a time, not always the same.
    block_sizes : sequence of int
        Public; a block of another length is refused.
    n_covariates, names : int, tuple of str or None
    coding : Coding, optional
        Public coding that ``decode`` applies.
    columns : callable, optional
        ``columns(names, arguments, read)`` returns a function like ``decode`` for other columns of
        the same source; the arguments they were named in are for its refusals.

    Privacy
    -------
    Records: blocks and their sums are private, sizes and names are public.
    """

    read_again = True

    def __init__(
        self,
        decode: Callable[[int], Block],
        block_sizes: Sequence[int],
        n_covariates: int,
        names: tuple[str, ...] | None,
        coding: Coding | None = None,
        columns: Callable[..., Callable[[int], list[Any]]] | None = None,
    ) -> None:
        self._decode = decode
        self.columns = columns
        self.coding = coding
        self.of_terms = False
        self.block_sizes = tuple(block_sizes)
        self.n = sum(self.block_sizes)
        self.n_covariates = n_covariates
        self.names = names
        self.reads = 0

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks ``(X, y)`` in order, shapes (rows, q) and (rows,), decoding one ahead.

        :class:`~dpfast.errors.RecordsUnavailable` if the source has changed since it was opened.
        """
        count = len(self.block_sizes)
        self.reads = (self.reads or 0) + 1
        if count == 1:
            yield self._block(0)
            return
        with ThreadPoolExecutor(1, "dpfast-decoder") as pool:
            following = pool.submit(self._block, 0)
            for k in range(1, count + 1):
                X, y = following.result()
                if k < count:
                    following = pool.submit(self._block, k)
                yield X, y

    def _block(self, k: int) -> Block:
        X, y = self._decode(k)
        if X.shape != (self.block_sizes[k], self.n_covariates) or len(y) != len(X):
            raise RecordsUnavailable(
                f"block {k} has another number of records than when it was opened: the source "
                "was changed. What was charged stays charged. Open the data again."
            )
        return X, y


def block_sizes_for(n: int, n_covariates: int) -> list[int]:
    """Return sizes of blocks of at most :data:`BLOCK_BYTES`, all but the last the same."""
    rows = max(1, BLOCK_BYTES // (8 * (n_covariates + 1)))
    return [min(rows, n - start) for start in range(0, n, rows)]


def memmap_records(X: Any, y: Any, names: tuple[str, ...] | None) -> Records:
    """Make records of a memory-mapped matrix of any numeric type; ``y`` is an array or a memmap."""
    return _sliced(lambda rows: X[rows], X.shape, y, names)


def csr_records(X: Any, y: Any, names: tuple[str, ...] | None) -> Records:
    """Make records of a sparse matrix in compressed rows, made dense block by block."""
    rows = CompressedRows(X)
    return _sliced(rows.dense, rows.shape, y, names)


class CompressedRows:
    """Sparse matrix whose rows are read one by one, without trusting its entries.

    How many rows and columns there are, and where each row begins and ends, is the container's and
    is refused where it is wrong.  Which columns a row names is a value: a row that names a column
    outside X is missing, and reaches no other.

    Privacy
    -------
    A row follows from its own entries.  That pointers rise from 0 to the number of entries is
    public: every list of rows has such pointers.
    """

    def __init__(self, X: Any) -> None:
        ends = X.indptr
        self._columns = X.indices
        self._values = X.data
        self.shape: tuple[int, int] = X.shape
        arrays = (ends, self._columns, self._values)
        if not all(
            isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays
        ) or not all(array.dtype.kind in "iu" for array in arrays[:2]):
            raise _broken("indptr and indices must be arrays of integers, and data one of numbers")
        # a copy: nothing beyond the arrays is read even if the caller changes theirs
        self._ends = ends.astype(np.int64)
        count = len(self._columns)
        if len(self._ends) != self.shape[0] + 1 or len(self._values) != count:
            raise _broken(
                f"shape {self.shape} has {len(self._ends)} pointers, {count} indices and "
                f"{len(self._values)} entries"
            )
        if self._ends[0] != 0 or self._ends[-1] > count or (np.diff(self._ends) < 0).any():
            raise _broken("the pointers do not rise from 0 to the number of entries")

    def dense(self, rows: slice) -> NDArray[Any]:
        """Return some rows as an array; a row with an entry in no column of X is missing."""
        from scipy.sparse import csr_matrix

        ends = self._ends[rows.start : rows.stop + 1]
        entries = slice(ends[0], ends[-1])
        ends = ends - ends[0]
        columns = self._columns[entries].astype(np.int64)
        values = self._values[entries]
        if not values.dtype.isnative or values.dtype == np.float16:  # SciPy has neither
            values = values.astype(np.float64)
        invalid = np.flatnonzero((columns < 0) | (columns >= self.shape[1]))
        columns[invalid] = 0
        shape = len(ends) - 1, max(1, self.shape[1])
        with np.errstate(all="ignore"):  # entries that stand twice are added
            matrix = (
                csr_matrix((values, columns, ends), shape=shape)
                .toarray()
                .astype(np.float64, copy=False)
            )
        matrix[np.searchsorted(ends, invalid, side="right") - 1] = np.nan
        return np.asarray(matrix[:, : self.shape[1]])


def _broken(what: str) -> InvalidInput:
    return InvalidInput(
        f"X is no sparse matrix of compressed rows: {what}. Make it anew, as by "
        "scipy.sparse.csr_matrix(X), which checks them; no record was read."
    )


def _sliced(
    part: Callable[[slice], Any], shape: tuple[int, ...], y: Any, names: tuple[str, ...] | None
) -> Records:
    n, q = shape
    sizes = block_sizes_for(n, q)
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()

    def decode(k: int) -> Block:
        rows = slice(starts[k], starts[k + 1])
        return _converted(part(rows)), _converted(y[rows])

    return StreamedRecords(decode, sizes, q, names)


def _converted(values: Any) -> Array:
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        return np.asarray(values).astype(np.float64, copy=False)
