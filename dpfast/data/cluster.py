"""Records in a dask.array or dask.dataframe, summed on their workers chunk by chunk."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import did_you_mean
from dpfast.data.cells import number_cells
from dpfast.data.coding import Coding
from dpfast.data.columns import cell_numbers, is_number_type, refused_type
from dpfast.data.files.cached import fits_in_cache
from dpfast.data.formula import Terms, terms_of
from dpfast.data.parts import Block, partition_capacity, rows_in
from dpfast.data.records import Records, checked_names
from dpfast.data.reduction import FAN_IN, additions, fold
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, RecordsUnavailable, described

CONTIGUOUS: Any = ("C", "A")

#: Expected bytes of one piece of a part's records, which a worker caches.
PIECE_BYTES = 1 << 25


class ClusterRecords(Records):
    """Records in a ``dask.array``, one block for each chunk of rows."""

    is_remote = True

    def __init__(
        self,
        parts: Sequence[Any],
        names: tuple[str, ...] | None,
        join: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        n_weights: int = 0,
        coding: Coding | None = None,
    ) -> None:
        self.coding = coding
        self.of_terms = False
        self._parts = tuple(parts)
        self._join = join
        self._n_weights = n_weights
        self.block_sizes = tuple(int(size) for size in parts[0].chunks[0])
        self.n = sum(self.block_sizes)
        self.n_covariates = sum(part.shape[1] for part in parts) - 1 - n_weights
        self.names = names
        self.reads = 0
        self._is_cached = False
        self._cached_chunks: list[Any] = []

    def cached(self) -> Records:
        """Return records that their workers keep after the first read, if they are few enough."""
        if not fits_in_cache(self, self._n_weights):
            return self
        cached_records = ClusterRecords(
            self._parts, self.names, self._join, self._n_weights, self.coding
        )
        cached_records.reads = self.reads
        cached_records._is_cached = True
        return cached_records

    def joined(
        self,
        columns: dict[str, Any],
        join: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> ClusterRecords:
        """Return the records with further columns, which ``join`` combines with the response."""
        weight_columns = [
            _column_in_chunks(values, argument, self.block_sizes)
            for argument, values in columns.items()
        ]
        return ClusterRecords(
            (*self._parts, *weight_columns), self.names, join, len(weight_columns), self.coding
        )

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Refuse to yield blocks: the records stay on the workers."""
        raise InvalidInput(
            "this query reads records one block after the other, and records on a cluster never "
            "leave its workers. Use dpfast.fit, or bring the data into memory (X.compute())."
        )

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum over the blocks, computed and added on the workers; see :meth:`Records.total`."""
        return self._sum_tasks(self._chunk_tasks((function, arguments, _version())))

    def _chunk_tasks(self, query: Any, numbered: bool = False) -> Any:
        """Make one task per chunk that evaluates a query, as an object array with one entry."""
        from dask import array, delayed, persist

        if self._is_cached:
            if not self._cached_chunks:
                self._is_cached = False
                chunks = self._chunk_tasks((_unchanged, (), query[2]))
                self._cached_chunks = list(_compute(lambda: persist(*chunks)))
                self._is_cached = True
            query = delayed(query, pure=False, traverse=False)
            leaf = delayed(_sum_cached_chunk, pure=False)
            chunks = enumerate(self._cached_chunks)
            return [leaf(chunk, query, *[k] if numbered else []) for k, chunk in chunks]
        self.reads = (self.reads or 0) + 1
        # one task that all chunks depend on, so that it is sent to a worker once
        query = delayed(query, pure=False, traverse=False)
        # as one layer of an array, which Dask fuses with the layers that make the chunks: a chunk
        # is made and summed in one task, and does not travel
        sums = array.map_blocks(
            _sum_chunk,
            *self._parts,
            query=query,
            numbered=numbered,
            join=self._join,
            n_weights=self._n_weights,
            dtype=object,
            chunks=((1,) * len(self.block_sizes), (1,)),
            meta=np.empty((0, 0), dtype=object),
        )
        return sums.to_delayed()[:, 0].tolist()

    def _sum_tasks(self, level: list[Any]) -> Any:
        """Add the results of tasks in a tree, whose first level adds chunks."""
        from dask import delayed

        add = delayed(_fold_packed, pure=False)
        while True:
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
            if len(level) == 1:
                break
            add = delayed(fold, pure=False)
        return _compute(level[0].compute)

    def random_partition(
        self, keys: Any, scatter: Callable[..., Any], n_slots: int
    ) -> ClusterPartition:
        """Assign the records to random slots."""
        return ClusterPartition(self, keys, scatter, n_slots)


def _compute(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception:
        pass  # raised below without its context, which may hold values
    raise RecordsUnavailable(
        "a query failed on the cluster: its workers were lost, a chunk has another number of "
        "records or another type than announced, or a task that prepares the data raised; the "
        "logs of the workers say which. What was charged stays charged."
    )


class ClusterPartition:
    """Random partition of records on a cluster; workers draw slots from their chunks' keys."""

    def __init__(
        self, table: ClusterRecords, keys: Any, scatter: Callable[..., Any], n_slots: int
    ) -> None:
        self._table = table
        self._slot_arguments = keys, scatter, n_slots

    def part(self, low: int, high: int, n: int) -> Records:
        """Return the records of some slots; see :meth:`dpfast.data.parts.RandomPartition.part`."""
        table = self._table
        if high - low > partition_capacity(table, self._slot_arguments[2]):
            selection = (*self._slot_arguments, low, high, n, table.n)

            def slot_tasks(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
                query = _sum_slots, (*selection, function, *arguments), _version()
                return table._chunk_tasks(query, numbered=True)

            return ClusterBlock(table, n, slot_tasks, len(table.block_sizes))
        pieces = self._collected(low, high)

        def piece_tasks(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
            from dask import delayed

            query = delayed((function, arguments, _version()), pure=False, traverse=False)
            leaf = delayed(_sum_piece, pure=False)
            return [leaf(piece, query, n, table.n) for piece in pieces]

        return ClusterBlock(table, n, piece_tasks, len(pieces))

    def _collected(self, low: int, high: int) -> list[Any]:
        from dask import delayed, persist

        table = self._table
        n_slots = self._slot_arguments[2]
        chosen = table._chunk_tasks(
            (_select_records, (*self._slot_arguments, low, high), _version()), numbered=True
        )
        row = 8 * (table.n_covariates + 1)
        expected = row * table.n * (high - low) / n_slots
        count = min(len(chosen), max(1, round(expected / PIECE_BYTES)))
        n_per_piece = -(-len(chosen) // count)
        concatenate = delayed(_concatenate, pure=False)
        pieces = [
            concatenate(chosen[i : i + n_per_piece]) for i in range(0, len(chosen), n_per_piece)
        ]
        return list(_compute(lambda: persist(*pieces)))


class ClusterBlock(Block):
    """Part of the records on a cluster."""

    def __init__(
        self, table: ClusterRecords, n: int, make_tasks: Callable[..., list[Any]], n_tasks: int
    ) -> None:
        self._records = table
        self._make_tasks = make_tasks
        self._n_tasks = n_tasks
        self._lay_out(table, n, table.n)

    @property
    def additions(self) -> int:
        """Most additions within a task that holds all records, and of adding the tasks' results."""
        return super().additions + additions(self._n_tasks)

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Refuse to yield blocks: the records stay on the workers."""
        return self._records.blocks()

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._records._sum_tasks(self._make_tasks(function, arguments))


def _unchanged(X: Any, y: Any) -> Any:
    """Return a chunk unchanged, for its worker to keep."""
    return X, y


def _sum_cached_chunk(packed: Any, query: Any, *first: Any) -> Any:
    """Sum a kept chunk on its worker, packed like other sums."""
    function, arguments, version = query
    _check_version(version)
    X, y = _align(packed[0, 0])
    return _pack(function(X, y, *first, *_align(arguments)))


def _select_records(
    X: Any, y: Any, k: int, keys: Any, scatter: Any, n_slots: int, low: int, high: int
) -> Any:
    """Select the records of a chunk that are in some slots, on a worker."""
    rows = rows_in(scatter(keys[k], len(y), n_slots), low, high)
    return X[rows], y[rows]


def _concatenate(chosen: list[Any]) -> Any:
    """Concatenate the selected records of several chunks, in order."""
    parts = zip(*[packed[0, 0] for packed in chosen], strict=True)
    return tuple([np.concatenate(part) for part in parts])


def _sum_piece(piece: Any, query: Any, n: int, n_all: int) -> Any:
    """Sum the records of a part that one piece holds, on a worker; packed like sums of chunks."""
    function, arguments, version = query
    _check_version(version)
    X, y = [np.require(part, None, CONTIGUOUS) for part in piece]
    part = Block(Records(X, y, None), np.arange(len(y)), n, n_all)
    return _pack(part.total(function, *_align(arguments)))


def _sum_slots(
    X: Any, y: Any, k: int, keys: Any, scatter: Any, n_slots: int, low: int, high: int,
    n: int, n_all: int, function: Any, *arguments: Any,
) -> Any:  # fmt: skip
    """Sum a chunk's records of a part that is too large to be kept, on a worker."""
    rows = rows_in(scatter(keys[k], len(y), n_slots), low, high)
    return Block(Records(X, y, None), rows, n, n_all).total(function, *arguments)


def _sum_chunk(
    *parts: Any,
    query: tuple[Callable[..., Any], tuple[Any, ...], str],
    numbered: bool,
    join: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    n_weights: int = 0,
    block_info: Any = None,
) -> Any:
    """Sum one chunk on a worker, as an array with one entry."""
    function, arguments, version = query
    _check_version(version)
    first, last = block_info[0]["array-location"][0]
    if any(len(part) != last - first for part in parts):
        raise RuntimeError("a chunk has another number of records than announced.")
    columns = [_converted(part) for part in parts]
    n_columns = len(columns) - n_weights
    weight_columns = columns[n_columns:]
    columns = columns[:n_columns]
    X = columns[0] if len(columns) > 1 else columns[0][:, :-1]
    y = columns[-1][:, -1]
    if join is not None:
        y = np.require(join(np.column_stack([y, *weight_columns])), None, "A")
    number = [block_info[0]["chunk-location"][0]] if numbered else []
    return _pack(function(X, y, *number, *_align(arguments)))


def _align(arguments: tuple[Any, ...]) -> list[Any]:
    """Align and order arrays: a network may deliver them at any address."""
    return [np.require(x, None, CONTIGUOUS) if isinstance(x, np.ndarray) else x for x in arguments]


def _pack(result: Any) -> Any:
    packed = np.empty((1, 1), dtype=object)
    packed[0, 0] = result
    return packed


def _check_version(version: str) -> None:
    if version != _version():
        raise RuntimeError(
            f"this worker has dpfast {_version()}, the client {version}; install the same version."
        )


def _fold_packed(packed: list[Any]) -> Any:
    return fold(part[0, 0] for part in packed)


def _converted(array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype == object:  # a chunk may be of another type than it is declared
        return number_cells(array.ravel().tolist()).reshape(array.shape)
    with np.errstate(all="ignore"):
        return np.require(array.astype(np.float64, copy=False), None, "A")


def _version() -> str:
    return str(sys.modules[__name__.partition(".")[0]].__version__)


def dask_records(X: Any, y: Any, names: Sequence[str] | None = None) -> Records:
    """Make records of Dask collections."""
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


#: Expression for a worker's version, which it can evaluate without dpfast.
_WORKER_VERSION = "str(__import__('dpfast').__version__)"


def _refuse_workers_without_dpfast() -> None:
    """Refuse workers that cannot read a task, which Dask would try for ever."""
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)
    if not hasattr(client, "run"):
        return  # a scheduler of this process
    versions = client.run(eval, _WORKER_VERSION, on_error="return")
    if not versions:
        client.submit(eval, "None", pure=False).result()
        versions = client.run(eval, _WORKER_VERSION, on_error="return")
    for version in versions.values():
        if isinstance(version, OSError):
            continue  # the worker was lost: Dask gives its work to others
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
        allowed = is_number_type(dtype)
    else:
        allowed = getattr(dtype, "kind", "O") in "iubf"  # pandas' nullable ones
    if not allowed:
        raise refused_type(dtype, what)


def _frame_records(X: Any, y: Any, names: Sequence[str] | None) -> Records:
    columns = list(X.columns)
    if names is not None or not all(isinstance(name, str) for name in columns):
        raise InvalidInput(
            "a dask.dataframe has column names of its own, which must be strings; pass no names."
        )
    if isinstance(y, str):
        if y not in columns:
            raise InvalidInput(
                f"X has no column {described(y, text=True)}{did_you_mean(y, columns)}; it has "
                f"{columns}."
            )
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
    tables = [X] if isinstance(y, str) else [X, y.to_frame("y")]
    options = {"covariates": covariates, "response": y if isinstance(y, str) else None}
    matrix = _map_partitions(
        _join_partition, _count_rows(*tables), len(covariates) + 1, *tables, **options
    )
    return ClusterRecords((matrix,), tuple(covariates))


def coded_frame(formula: str, table: Any, schema: Schema | None) -> tuple[Terms, Records]:
    """Read a formula for a Dask data frame, and make records of its terms."""
    if not hasattr(table, "map_partitions") or not hasattr(table, "dtypes"):
        raise InvalidInput(f"a formula reads a data frame of Dask; received {described(table)}.")
    _refuse_workers_without_dpfast()
    empty = table._meta
    terms = terms_of(formula, schema, empty)
    names = terms.coding.design(empty).names
    declared = terms.columns
    plain = [name for name, kind in declared.items() if kind.kind in ("numeric", "released")]
    for name in plain:
        _check_dtype(table.dtypes[name], f"column {name!r}")
    read = table[list(declared)]
    partition_lengths = _count_rows(read)
    matrix = _map_partitions(
        _encode_partition, partition_lengths, len(names) + 1, read, terms=terms, plain=plain
    )
    records = ClusterRecords((matrix,), names)
    records.of_terms = True
    return terms, records


def _count_rows(*tables: Any) -> list[int]:
    """Count the rows of each partition, which must be the same for all tables."""
    from dask import compute

    lengths = [
        list(map(int, table)) for table in compute(*[table.map_partitions(len) for table in tables])
    ]
    if lengths[0] != lengths[-1]:
        raise InvalidInput(
            "X and y have different partitions; take both from one data frame, or pass the name of "
            "y's column with a data frame that holds it."
        )
    if not sum(lengths[0]):
        raise InvalidInput("X has no rows; at least one record is needed.")
    return lengths[0]


def _map_partitions(
    function: Callable[..., Any],
    partition_lengths: list[int],
    width: int,
    *tables: Any,
    **options: Any,
) -> Any:
    """Apply a function to each partition; return an array with the given number of columns."""
    from dask import dataframe

    result = dataframe.map_partitions(
        function, *tables, align_dataframes=False, meta=np.empty((0, width)), **options
    )
    result._chunks = (tuple(partition_lengths), (width,))
    return _without_empty_chunks(result)


def _encode_partition(part: Any, terms: Terms, plain: list[str]) -> NDArray[np.float64]:
    """Evaluate the terms of one partition on a worker; wrong cells are missing."""
    table = {name: cell_numbers(part[name], name) if name in plain else part[name] for name in part}
    return np.column_stack(terms.records(table))


def _join_partition(
    *tables: Any, covariates: list[str], response: str | None
) -> NDArray[np.float64]:
    """Return covariates and response of one partition, on a worker."""
    columns = [cell_numbers(tables[0][name], name) for name in covariates]
    last = tables[-1]
    columns.append(cell_numbers(last["y" if response is None else response], "y"))
    return np.column_stack(columns)


def _column_in_chunks(values: Any, argument: str, sizes: tuple[int, ...]) -> Any:
    """Align a column of numbers with the records' chunks, shape (n, 1)."""
    if hasattr(values, "npartitions") and hasattr(values, "to_frame"):
        _check_dtype(values.dtype, argument)
        frame = values.to_frame(argument)
        result = _map_partitions(
            _join_partition, _count_rows(frame), 1, frame, covariates=[], response=argument
        )
    elif not hasattr(values, "chunks"):
        raise InvalidInput(
            f"{argument} is in memory, {described(values)}, and X on a cluster. Pass a collection "
            "of Dask, or the name of a column of a Dask data frame."
        )
    else:  # whose chunks never pass through the client
        _check_array(values, argument, 1)
        result = _as_column(values)
    if result.shape[0] != sum(sizes):
        raise InvalidInput(
            f"{argument} must have one entry for each of the {sum(sizes)} records; received "
            f"{result.shape[0]}."
        )
    return result.rechunk((sizes, (1,)))


def _as_column(values: Any) -> Any:
    """Reshape (n,) to (n, 1) chunk by chunk; Dask does not fuse a layer of indexing."""
    return values.map_blocks(
        np.expand_dims, 1, new_axis=1, chunks=(values.chunks[0], (1,)), dtype=values.dtype
    )


def _without_empty_chunks(values: Any) -> Any:
    sizes = tuple(size for size in values.chunks[0] if size)
    return values if sizes == values.chunks[0] else values.rechunk({0: sizes})
