"""Validation of a pair (X, y).  Shapes and dtypes may raise; values never do."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import text_names
from dpfast.data.cells import is_sequence, number_cells
from dpfast.data.coding import Coding
from dpfast.data.columns import (
    foreign_array,
    frame,
    is_number_type,
    library,
    numbers,
    refuse_other_rows,
    refused_type,
)
from dpfast.data.reduction import additions, tree_sum
from dpfast.errors import InvalidInput

#: Covariates as they are stored; every computation with them is in float64.
Covariates = NDArray[np.float64 | np.float32]

FLOAT64, FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)
ONE_FLOAT = ({FLOAT64}, {FLOAT32})


class Records:
    """n records: covariates (n, q), float64 or float32, and responses (n,), float64.

    With weights or offsets responses are of shape (n, 3) (:mod:`dpfast.data.beside`).  Held by the
    Curator only.  float32 is storage only: whoever computes with X widens it first.

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
    >>> records.total(lambda X, y: X.sum(axis=0)), records.near() is records
    (array([5., 5.]), True)
    """

    #: How a schema coded them, where one did.
    coding: Coding | None = None

    #: Whether covariates are terms of a formula, which reads the rows of a prediction itself.
    of_terms = False

    #: How many times n the records can be, where n is what sums are divided by (claim C55).
    excess = 1

    #: Consecutive records that are one person's, and stay together where records are dealt.
    together = 1

    #: Whether they are persons, who count with the mean of their rows.
    means = False
    #: How many times all of them were read; None of arrays, which are in memory or mapped there.
    reads: int | None = None

    #: Whether their sums are of what the kernels see of other records.
    seen = False

    #: In how many parts of equal length their rows are summed, each on its own.
    parts = 1

    #: Whether there can be secret samples of them; whether every query reads and decodes them
    #: again; whether they are summed on other machines, which they never leave.
    can_be_dealt, read_again, elsewhere = True, False, False

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
        """The records as consecutive blocks ``(X, y)``; arrays in memory are one block."""
        return iter([(self.X, self.y)])

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """Sum over the blocks of ``function(X, y, *arguments)``, by :attr:`additions` of parts.

        Parameters
        ----------
        function : callable
            Returns a number, an array, or a tuple of arrays and None.  Picklable, as are the
            arguments: the blocks may be on other machines.
        *arguments
            Public or released, the same for all blocks.
        own : sequence, optional
            One further argument for each block, passed first: ``function(X, y, own, *arguments)``.

        Returns
        -------
        number, array or tuple
        """
        if own is None:
            if type(self) is Records:  # in memory: one block
                return function(self.X, self.y, *arguments)
            return tree_sum(function(X, y, *arguments) for X, y in self.blocks())
        pairs = zip(self.blocks(), own, strict=True)
        return tree_sum(function(X, y, mine, *arguments) for (X, y), mine in pairs)

    def near(self) -> Records:
        """The same records, which are read once and kept then, if they are few enough: public."""
        if self.read_again:
            from dpfast.data.files.kept import Near, can_be_near

            return Near(self) if can_be_near(self) else self
        return self

    @property
    def in_memory(self) -> bool:
        """Whether they are arrays whose rows can be had one by one."""
        if not hasattr(self, "X"):
            return False
        for array in (self.X, self.y):
            base: Any = array  # its memory may be a file, whose rows are dear to gather one by one
            while base is not None and isinstance(base, np.ndarray):
                if type(base) is not np.ndarray and isinstance(base, np.memmap):
                    return False
                base = base.base
            if base is not None and isinstance(base, mmap.mmap):
                return False
        return True

    @property
    def uncoded(self) -> tuple[Records, Any]:
        """Records as they came, and the released units they are in, if they are in any."""
        return self, None

    @property
    def additions(self) -> int:
        """Most additions that the part of a block passes through in :meth:`total` (claim C11)."""
        return additions(len(self.block_sizes))

    def __reduce__(self) -> Any:
        raise TypeError(
            "Records hold private data and are not picklable; pickle the fitted result instead."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, n_covariates={self.n_covariates})"


def as_records(X: Any, y: Any, names: Sequence[str] | None = None) -> Records:
    """Check shapes and dtypes of a regression data set and wrap it without copying."""
    if isinstance(X, Records):
        return _opened(X, y, names)
    plain = type(X) is type(y) is np.ndarray
    if not plain and type(X).__module__.split(".")[0] in ("dask", "dask_expr"):
        from dpfast.data.cluster import dask_records

        return dask_records(X, y, names)
    column_names: Sequence[str] | None = None
    if not plain:
        refuse_other_rows(X, y, "y")
        if (table := frame(X)) is not None:
            column_names, X = table[0], _matrix(X, *table)
        else:
            column_names = _column_names(X)
        if library(y) in ("pandas", "polars", "pyarrow"):
            y = numbers(y, "y")
    wrap = Records if plain else _wrapper(X, y)
    covariates: Any
    response: Any
    if plain and X.dtype == y.dtype == FLOAT64 and (X.ndim, y.ndim) == (2, 1):
        covariates, response = X, y
    elif wrap is Records:
        covariates, response = _as_floats(X, "X", 2), _as_float64(y, "y", 1)
    else:
        covariates, response = _as_readable(X, "X", 2), _as_readable(y, "y", 1)
    if response.shape[0] != covariates.shape[0]:
        raise InvalidInput(
            f"X has {covariates.shape[0]} rows and y has {response.shape[0]} entries; each record "
            "needs one of both."
        )
    if covariates.shape[0] == 0:
        raise InvalidInput("X has no rows; at least one record is needed.")
    if names is None:
        names = column_names
    return wrap(covariates, response, checked_names(names, covariates.shape[1]))


def checked_names(names: Any, n_covariates: int) -> tuple[str, ...] | None:
    """Public names of the columns of X, or None."""
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


def _wrapper(X: Any, y: Any) -> Callable[..., Records]:
    """What makes records of these arrays: in place, or converted block by block."""
    if getattr(X, "format", None) == "csr" and hasattr(X, "toarray"):
        from dpfast.data.streams import csr_records

        return csr_records
    in_place = isinstance(X, np.memmap) and X.dtype == np.float32 and not _is_converted(y)
    if not in_place and (_is_converted(X) or _is_converted(y)):
        from dpfast.data.streams import memmap_records

        return memmap_records
    return Records


def _is_converted(values: Any) -> bool:
    return isinstance(values, np.memmap) and values.dtype != np.float64


def _as_readable(values: Any, argument: str, ndim: int) -> Any:
    """An array that is converted later, piece by piece; one in memory is converted now."""
    if isinstance(values, np.memmap) or getattr(values, "format", None) == "csr":
        _check_numbers(values, argument, ndim)
        return values
    return _as_float64(values, argument, ndim)


def _column_names(X: Any) -> Sequence[str] | None:
    columns = getattr(X, "columns", None)
    if columns is None or not getattr(X, "shape", None):
        return None
    names = list(columns)
    return names if all(isinstance(name, str) for name in names) else None


def _as_float64(values: Any, argument: str, ndim: int) -> NDArray[np.float64]:
    array = _as_array(values, argument, ndim)
    if array.dtype == FLOAT64:
        return array
    with np.errstate(all="ignore"):  # a signalling NaN must not warn about itself
        return array.astype(np.float64)


def _as_floats(values: Any, argument: str, ndim: int) -> Covariates:
    array = _as_array(values, argument, ndim)
    return array if array.dtype == FLOAT32 else _as_float64(array, argument, ndim)


def _as_array(values: Any, argument: str, ndim: int) -> NDArray[Any]:
    if type(values) is np.ndarray:
        array = values
    elif is_sequence(values):
        array = _of_lists(list(values), argument, ndim)
    else:
        if hasattr(values, "toarray") and hasattr(values, "nnz"):
            raise InvalidInput(
                f"{argument} is a sparse matrix that is not in compressed rows. Pass "
                f"{argument}.tocsr() (a response: {argument}.toarray().ravel())."
            )
        array = foreign_array(values, argument)
    _check_numbers(array, argument, ndim)
    return array


def _of_lists(values: Any, argument: str, ndim: int) -> NDArray[np.float64]:
    """Cells of a list, or of a list of rows that must have the same length, as numbers."""
    if ndim == 1:
        return number_cells(values)
    rows = [list(row) if _is_row(row) else None for row in values]
    lengths = {None if row is None else len(row) for row in rows}
    if len(lengths) == 1 and None not in lengths:
        cells = [cell for row in rows for cell in row or ()]
        return number_cells(cells).reshape(len(rows), -1 if cells else 0)
    if lengths <= {None}:  # no rows at all
        return np.empty(len(values))
    raise InvalidInput(
        f"{argument} could not be read as an array: rows of different lengths? Pass a "
        f"{ndim}-dimensional array of numbers."
    )


def _is_row(row: Any) -> bool:
    return is_sequence(row) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _matrix(table: Any, names: Any, columns: list[Any]) -> Covariates:
    """The columns of a data frame side by side; of one type of floats they stay as they are."""
    if library(table) == "pandas" and {column.dtype for column in columns} in ONE_FLOAT:
        return np.asarray(table)
    # covariate by covariate, as the columns are stored: the kernels read any strides
    found: NDArray[np.float64] = np.empty((len(columns), len(table)))
    for j, (row, column) in enumerate(zip(found, columns, strict=True)):
        row[:] = numbers(column, str(j) if names is None else names[j])
    return found.T


def _check_numbers(array: Any, argument: str, ndim: int) -> None:
    """Refuse another number of dimensions, and what is not a real number of at most 64 bits."""
    if array.ndim != ndim:
        shape = "(n records, q columns)" if ndim == 2 else "(n records,)"
        raise InvalidInput(
            f"{argument} must have {ndim} dimension{'s' if ndim > 1 else ''}, {shape}; received "
            f"shape {array.shape}."
            + (" Reshape a single column with X.reshape(-1, 1)." if ndim == 2 else "")
        )
    if not is_number_type(array.dtype):
        raise refused_type(array.dtype, argument)
