"""Records in a dask.array or dask.dataframe: summed where they are, chunk by chunk.

A query is one task graph.  Its leaves compute a chunk's sums with the compiled kernels, its inner
nodes add them (:mod:`dpfast.data.reduction`), and its root is all that is sent to the client.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.cells import number_cells
from dpfast.data.columns import is_number_type, numbers
from dpfast.data.records import Records, checked_names
from dpfast.data.reduction import FAN_IN, fold
from dpfast.errors import InvalidInput, RecordsUnavailable, described, dtype_name

__all__ = ["ClusterRecords", "dask_records"]


class ClusterRecords(Records):
    """Records in a ``dask.array``, one block for each chunk of rows.

    Parameters
    ----------
    parts : sequence of dask.array
        Arrays whose columns, side by side, are the covariates and then the response; the same
        known chunks of rows, one chunk of columns each.
    names : tuple of str or None
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Any], names: tuple[str, ...] | None) -> None:
        self._parts = tuple(parts)
        self.block_sizes = tuple(int(size) for size in parts[0].chunks[0])
        self.n = sum(self.block_sizes)
        self.n_covariates = sum(part.shape[1] for part in parts) - 1
        self.names = names

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Refused: the records stay on the workers."""
        raise InvalidInput(
            "this query reads records one block after the other, and records on a cluster never "
            "leave its workers. Use dpfast.fit, or bring the data into memory (X.compute())."
        )

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """Sum over the blocks, computed and added on the workers; see :meth:`Records.total`.

        Raises
        ------
        RecordsUnavailable
            If the cluster cannot compute it.  The exception of a task is left to the logs of the
            workers, because the tasks that prepare the data are the caller's, and what they say
            may quote a record.
        """
        from dask import array, delayed

        # one task that every leaf depends on, so that it is sent to a worker once
        query = delayed((function, arguments, _version()), pure=False, traverse=False)
        parts = self._parts
        if own is not None:
            mine = array.from_array(np.concatenate(own), chunks=(self.block_sizes,))
            parts = (_as_column(mine), *parts)
        # as one layer of an array, which Dask fuses with the layers that make the chunks: a chunk
        # is made and summed in one task, and does not travel
        sums = array.map_blocks(
            _contribution,
            *parts,
            query=query,
            has_own=own is not None,
            dtype=object,
            chunks=((1,) * len(self.block_sizes), (1,)),
            meta=np.empty((0, 0), dtype=object),
        )
        level, add = sums.to_delayed()[:, 0].tolist(), delayed(_fold_packed, pure=False)
        while True:
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
            if len(level) == 1:
                break
            add = delayed(fold, pure=False)
        try:
            return level[0].compute()
        except Exception:
            pass  # raised below without its context, which may hold values
        raise RecordsUnavailable(
            "a query failed on the cluster: its workers were lost, a chunk has another number of "
            "records or another type than announced, or a task that prepares the data raised; the "
            "logs of the workers say which. What was charged stays charged."
        )


CONTIGUOUS: Any = ("C", "A")


def _contribution(
    *parts: Any,
    query: tuple[Callable[..., Any], tuple[Any, ...], str],
    has_own: bool,
    block_info: Any = None,
) -> Any:
    """Sums of one chunk, on a worker, as an array with one entry."""
    function, arguments, version = query
    if version != _version():
        raise RuntimeError(
            f"this worker has dpfast {_version()}, the client {version}; install the same version."
        )
    first, last = block_info[0]["array-location"][0]
    if any(len(part) != last - first for part in parts):
        raise RuntimeError("a chunk has another number of records than announced.")
    own = [parts[0][:, 0]] if has_own else []
    columns = [_converted(part) for part in parts[has_own:]]
    X = columns[0] if len(columns) > 1 else columns[0][:, :-1]
    y = columns[-1][:, -1]
    # what came through a network may lie at any address
    parameters = [
        np.require(x, None, ["C", "A"]) if isinstance(x, np.ndarray) else x for x in arguments
    ]
    packed = np.empty((1, 1), dtype=object)
    packed[0, 0] = function(X, y, *own, *parameters)
    return packed


def _fold_packed(packed: list[Any]) -> Any:
    return fold(part[0, 0] for part in packed)


def _converted(array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype == object:
        return number_cells(array.ravel().tolist()).reshape(array.shape)
    with np.errstate(all="ignore"):
        return np.require(array.astype(np.float64, copy=False), None, "A")


def _version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def dask_records(X: Any, y: Any, names: Sequence[str] | None = None) -> Records:
    """Records of Dask collections.

    Parameters
    ----------
    X : dask.array of shape (n, q), or dask.dataframe
        Chunks of an array must have known sizes.  The rows of the partitions of a data frame are
        counted first, in a pass of its own that spends nothing: n is public.
    y : dask.array of shape (n,), dask series, or name of a column of X
    names : sequence of str, optional
        For an array: names of its columns.

    Raises
    ------
    InvalidInput
        For a wrong shape or dtype, unknown chunk sizes, or workers without this version of dpfast.
    """
    _refuse_workers_without_dpfast()
    if hasattr(X, "npartitions") and hasattr(X, "dtypes"):
        return _frame_records(X, y, names)
    _check_array(X, "X", 2)
    _check_array(y, "y", 1)
    if X.shape[0] != y.shape[0]:
        raise InvalidInput(
            f"X has {X.shape[0]} rows and y has {y.shape[0]} entries; each record needs one of "
            "both."
        )
    if not X.shape[0]:
        raise InvalidInput("X has no rows; at least one record is needed.")
    X = _without_empty_chunks(X.rechunk({1: -1}))
    y = y.rechunk((X.chunks[0],))
    return ClusterRecords((X, _as_column(y)), checked_names(names, X.shape[1]))


#: What a worker is asked, in words that it understands without dpfast.
_ITS_VERSION = "str(__import__('dpfast').__version__)"


def _refuse_workers_without_dpfast() -> None:
    """Refuse workers that could not even read a task: Dask would try them, and wait, for ever.

    If none is up, the first is waited for, as every query would.
    """
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)
    if not hasattr(client, "run"):
        return  # a scheduler of this process
    found = client.run(eval, _ITS_VERSION, on_error="return")
    if not found:
        client.submit(eval, "None", pure=False).result()
        found = client.run(eval, _ITS_VERSION, on_error="return")
    for version in found.values():
        if isinstance(version, OSError):
            continue  # lost in the meantime: Dask gives its work to others
        if isinstance(version, Exception):
            raise InvalidInput(
                "a worker of the cluster cannot import dpfast: install dpfast "
                f"{_version()} where the workers run. client.run(__import__, 'dpfast') shows what "
                "is wrong there."
            )
        if version != _version():
            raise InvalidInput(
                f"a worker of the cluster has dpfast {version} and the client has {_version()}: "
                "install the same version."
            )


def _check_array(values: Any, argument: str, ndim: int) -> None:
    if not hasattr(values, "chunks") or not hasattr(values, "to_delayed"):
        raise InvalidInput(
            f"{argument} must be a dask.array like the other; received {described(values)}. "
            "Use dask.array.from_array(...), or series.to_dask_array(lengths=True)."
        )
    if values.ndim != ndim:
        raise InvalidInput(
            f"{argument} must have {ndim} dimension{'s' if ndim > 1 else ''}; received "
            f"{values.ndim}."
        )
    _check_dtype(values.dtype, argument)
    if any(math.isnan(size) for sizes in values.chunks for size in sizes):
        raise InvalidInput(
            f"{argument} has chunks of unknown sizes, and the number of records must be known (it "
            f"is public). Call {argument} = {argument}.compute_chunk_sizes() first."
        )


def _check_dtype(dtype: Any, what: str) -> None:
    if isinstance(dtype, np.dtype):
        allowed = dtype.kind == "O" or is_number_type(dtype)
    else:
        allowed = getattr(dtype, "kind", "O") in "iubf"  # pandas' nullable ones
    if not allowed:
        raise InvalidInput(
            f"{what} has dtype {dtype_name(dtype)}; allowed are floats of at most 64 bits, "
            "integers and booleans. Convert it to float64 first."
        )


def _frame_records(X: Any, y: Any, names: Sequence[str] | None) -> Records:
    columns = list(X.columns)
    if names is not None or not all(isinstance(name, str) for name in columns):
        raise InvalidInput(
            "a dask.dataframe has column names of its own, which must be strings; pass no names."
        )
    if isinstance(y, str):
        if y not in columns:
            raise InvalidInput(f"X has no column {described(y, text=True)}; it has {columns}.")
        covariates = [name for name in columns if name != y]
    else:
        if not (hasattr(y, "npartitions") and hasattr(y, "dtype")):
            raise InvalidInput(
                "with a dask.dataframe y must be a dask series with the same partitions, or the "
                f"name of a column of X; received {described(y)}."
            )
        _check_dtype(y.dtype, "y")
        covariates = columns
    for name in columns:
        _check_dtype(X.dtypes[name], f"column {name!r}")
    from dask import compute, dataframe

    tables = [X] if isinstance(y, str) else [X, y.to_frame("y")]
    lengths = [list(found) for found in compute(*[table.map_partitions(len) for table in tables])]
    if lengths[0] != lengths[-1]:
        raise InvalidInput(
            "X and y have different partitions; take both from one data frame, or pass the name of "
            "y's column with a data frame that holds it."
        )
    if not sum(lengths[0]):
        raise InvalidInput("X has no rows; at least one record is needed.")
    response = y if isinstance(y, str) else None
    width = len(covariates) + 1
    matrix = dataframe.map_partitions(
        _matrix, *tables, covariates=covariates, response=response, align_dataframes=False,
        meta=np.empty((0, width)),
    )  # fmt: skip
    matrix._chunks = (tuple(int(size) for size in lengths[0]), (width,))
    return ClusterRecords((_without_empty_chunks(matrix),), tuple(covariates))


def _matrix(*tables: Any, covariates: list[str], response: str | None) -> NDArray[np.float64]:
    """Covariates and response of one partition, on a worker."""
    columns = [numbers(tables[0][name], name) for name in covariates]
    last = tables[-1]
    columns.append(numbers(last["y" if response is None else response], "y"))
    return np.column_stack(columns)


def _as_column(values: Any) -> Any:
    """(n,) to (n, 1) chunk by chunk; indexing would be a layer that Dask does not fuse."""
    return values.map_blocks(
        np.expand_dims, 1, new_axis=1, chunks=(values.chunks[0], (1,)), dtype=values.dtype
    )


def _without_empty_chunks(values: Any) -> Any:
    sizes = tuple(size for size in values.chunks[0] if size)
    return values if sizes == values.chunks[0] else values.rechunk({0: sizes})
