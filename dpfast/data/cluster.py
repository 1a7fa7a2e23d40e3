"""Records in a dask.array or dask.dataframe: summed where they are, chunk by chunk."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.cells import number_cells
from dpfast.data.coding import Coding
from dpfast.data.columns import cell_numbers, is_number_type, refused_type
from dpfast.data.files.cached import fits_in_cache
from dpfast.data.formula import Terms, terms_of_table
from dpfast.data.parts import Block, partition_capacity, rows_in
from dpfast.data.records import Records, checked_names
from dpfast.data.reduction import FAN_IN, additions, fold
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, RecordsUnavailable, described

CONTIGUOUS: Any = ("C", "A")

#: Records of a sample that a worker keeps as one piece, to be expected.
PIECE_BYTES = 1 << 25


class ClusterRecords(Records):
    """Records in a ``dask.array``, one block for each chunk of rows."""

    elsewhere = True

    def __init__(
        self,
        parts: Sequence[Any],
        names: tuple[str, ...] | None,
        join: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
        n_beside: int = 0,
        coding: Coding | None = None,
    ) -> None:
        self.coding, self.of_terms = coding, False
        self._parts = tuple(parts)
        self._join, self._n_beside = join, n_beside
        self.block_sizes = tuple(int(size) for size in parts[0].chunks[0])
        self.n = sum(self.block_sizes)
        self.n_covariates = sum(part.shape[1] for part in parts) - 1 - n_beside
        self.names = names
        self.reads = 0
        self._keeps, self._kept = False, list[Any]()

    def cached(self) -> Records:
        """The same records, which their workers keep once they have made them; if few enough."""
        if not fits_in_cache(self, self._n_beside):
            return self
        found = ClusterRecords(self._parts, self.names, self._join, self._n_beside, self.coding)
        found.reads, found._keeps = self.reads, True
        return found

    def joined(
        self,
        columns: dict[str, Any],
        join: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> ClusterRecords:
        """The same records with columns beside the response, of which ``join`` makes one."""
        beside = [_beside(values, what, self.block_sizes) for what, values in columns.items()]
        return ClusterRecords((*self._parts, *beside), self.names, join, len(beside), self.coding)

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Refused: the records stay on the workers."""
        raise InvalidInput(
            "this query reads records one block after the other, and records on a cluster never "
            "leave its workers. Use dpfast.fit, or bring the data into memory (X.compute())."
        )

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum over the blocks, computed and added on the workers; see :meth:`Records.total`."""
        return self._root(self._sums((function, arguments, _version())))

    def _sums(self, query: Any, numbered: bool = False) -> Any:
        """A task for each chunk that asks it a query, an object array with one entry each."""
        from dask import array, delayed, persist

        if self._keeps:
            if not self._kept:
                self._keeps = False
                chunks = self._sums((_as_it_is, (), query[2]))
                self._kept = list(_computed(lambda: persist(*chunks)))
                self._keeps = True
            query, leaf = delayed(query, pure=False, traverse=False), delayed(_of_kept, pure=False)
            pairs = enumerate(self._kept)
            return [leaf(kept, query, *[k] if numbered else []) for k, kept in pairs]
        self.reads = (self.reads or 0) + 1
        # one task that every leaf depends on, so that it is sent to a worker once
        query = delayed(query, pure=False, traverse=False)
        # as one layer of an array, which Dask fuses with the layers that make the chunks: a chunk
        # is made and summed in one task, and does not travel
        sums = array.map_blocks(
            _contribution,
            *self._parts,
            query=query,
            numbered=numbered,
            join=self._join,
            n_beside=self._n_beside,
            dtype=object,
            chunks=((1,) * len(self.block_sizes), (1,)),
            meta=np.empty((0, 0), dtype=object),
        )
        return sums.to_delayed()[:, 0].tolist()

    def _root(self, level: list[Any]) -> Any:
        """The sum of what some tasks find, at least one of which is a sum of chunks."""
        from dask import delayed

        add = delayed(_fold_packed, pure=False)
        while True:
            level = [add(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
            if len(level) == 1:
                break
            add = delayed(fold, pure=False)
        return _computed(level[0].compute)

    def random_partition(
        self, keys: Any, scatter: Callable[..., Any], n_slots: int
    ) -> DealtCluster:
        """Random parts of the records."""
        return DealtCluster(self, keys, scatter, n_slots)


def _computed(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:
        pass  # raised below without its context, which may hold values
    raise RecordsUnavailable(
        "a query failed on the cluster: its workers were lost, a chunk has another number of "
        "records or another type than announced, or a task that prepares the data raised; the "
        "logs of the workers say which. What was charged stays charged."
    )


class DealtCluster:
    """Records on a cluster, each in a slot that its worker makes from the key of its chunk."""

    def __init__(
        self, table: ClusterRecords, keys: Any, scatter: Callable[..., Any], n_slots: int
    ) -> None:
        self._table = table
        self._how = keys, scatter, n_slots

    def part(self, low: int, high: int, n: int) -> Records:
        """As :meth:`dpfast.data.parts.RandomPartition.part`."""
        table = self._table
        if high - low > partition_capacity(table, self._how[2]):
            where = (*self._how, low, high, n, table.n)

            def ask(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
                query = _of_slots, (*where, function, *arguments), _version()
                return table._sums(query, numbered=True)

            return BlockOnCluster(table, n, ask, len(table.block_sizes))
        pieces = self._collected(low, high)

        def ask_pieces(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
            from dask import delayed

            query = delayed((function, arguments, _version()), pure=False, traverse=False)
            leaf = delayed(_of_piece, pure=False)
            return [leaf(piece, query, n, table.n) for piece in pieces]

        return BlockOnCluster(table, n, ask_pieces, len(pieces))

    def _collected(self, low: int, high: int) -> list[Any]:
        from dask import delayed, persist

        table, n_slots = self._table, self._how[2]
        chosen = table._sums((_chosen, (*self._how, low, high), _version()), numbered=True)
        row = 8 * (table.n_covariates + 1)
        expected = row * table.n * (high - low) / n_slots
        count = min(len(chosen), max(1, round(expected / PIECE_BYTES)))
        together = -(-len(chosen) // count)
        put = delayed(_put_together, pure=False)
        pieces = [put(chosen[i : i + together]) for i in range(0, len(chosen), together)]
        return list(_computed(lambda: persist(*pieces)))


class BlockOnCluster(Block):
    """A part of records on a cluster."""

    def __init__(
        self, table: ClusterRecords, n: int, ask: Callable[..., list[Any]], n_tasks: int
    ) -> None:
        self._records, self._ask, self._n_tasks = table, ask, n_tasks
        self._lay_out(table, n, table.n)

    @property
    def additions(self) -> int:
        """Of a task, were all records there, and of adding what the tasks find."""
        return super().additions + additions(self._n_tasks)

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Refused: the records stay on the workers."""
        return self._records.blocks()

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._records._root(self._ask(function, arguments))


def _as_it_is(X: Any, y: Any) -> Any:
    """A chunk that its worker keeps."""
    return X, y


def _of_kept(packed: Any, query: Any, *first: Any) -> Any:
    """Sums of a chunk that was kept, on its worker; packed as those of any."""
    function, arguments, version = query
    _check_version(version)
    X, y = _aligned(packed[0, 0])
    return _packed(function(X, y, *first, *_aligned(arguments)))


def _chosen(
    X: Any, y: Any, k: int, keys: Any, scatter: Any, n_slots: int, low: int, high: int
) -> Any:
    """Records of a chunk that are in some slots; on a worker."""
    rows = rows_in(scatter(keys[k], len(y), n_slots), low, high)
    return X[rows], y[rows]


def _put_together(chosen: list[Any]) -> Any:
    """Those of several chunks, in order, as one piece."""
    parts = zip(*[packed[0, 0] for packed in chosen], strict=True)
    return tuple([np.concatenate(part) for part in parts])


def _of_piece(piece: Any, query: Any, n: int, n_all: int) -> Any:
    """Sums of what a piece holds of a part, on a worker; packed as those of a chunk."""
    function, arguments, version = query
    _check_version(version)
    X, y = [np.require(part, None, CONTIGUOUS) for part in piece]
    part = Block(Records(X, y, None), np.arange(len(y)), n, n_all)
    return _packed(part.total(function, *_aligned(arguments)))


def _of_slots(
    X: Any, y: Any, k: int, keys: Any, scatter: Any, n_slots: int, low: int, high: int,
    n: int, n_all: int, function: Any, *arguments: Any,
) -> Any:  # fmt: skip
    """Sums of what a chunk holds of a part that is too large to be kept; on a worker."""
    rows = rows_in(scatter(keys[k], len(y), n_slots), low, high)
    return Block(Records(X, y, None), rows, n, n_all).total(function, *arguments)


def _contribution(
    *parts: Any,
    query: tuple[Callable[..., Any], tuple[Any, ...], str],
    numbered: bool,
    join: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    n_beside: int = 0,
    block_info: Any = None,
) -> Any:
    """Sums of one chunk, on a worker, as an array with one entry."""
    function, arguments, version = query
    _check_version(version)
    first, last = block_info[0]["array-location"][0]
    if any(len(part) != last - first for part in parts):
        raise RuntimeError("a chunk has another number of records than announced.")
    columns = [_converted(part) for part in parts]
    columns, beside = columns[: len(columns) - n_beside], columns[len(columns) - n_beside :]
    X = columns[0] if len(columns) > 1 else columns[0][:, :-1]
    y = columns[-1][:, -1]
    if join is not None:
        y = np.require(join(np.column_stack([y, *beside])), None, "A")
    number = [block_info[0]["chunk-location"][0]] if numbered else []
    return _packed(function(X, y, *number, *_aligned(arguments)))


def _aligned(arguments: tuple[Any, ...]) -> list[Any]:
    """What came through a network may lie at any address."""
    return [np.require(x, None, CONTIGUOUS) if isinstance(x, np.ndarray) else x for x in arguments]


def _packed(found: Any) -> Any:
    packed = np.empty((1, 1), dtype=object)
    packed[0, 0] = found
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
    """Records of Dask collections."""
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
    """Refuse workers that could not even read a task: Dask would try them, and wait, for ever."""
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
    tables = [X] if isinstance(y, str) else [X, y.to_frame("y")]
    told = {"covariates": covariates, "response": y if isinstance(y, str) else None}
    matrix = _of_partitions(_matrix, _counted(*tables), len(covariates) + 1, *tables, **told)
    return ClusterRecords((matrix,), tuple(covariates))


def coded_frame(formula: str, table: Any, schema: Schema | None) -> tuple[Coding, Records]:
    """What a formula means for a Dask data frame, and the records that its terms make of it."""
    if not hasattr(table, "map_partitions") or not hasattr(table, "dtypes"):
        raise InvalidInput(f"a formula reads a data frame of Dask; received {described(table)}.")
    _refuse_workers_without_dpfast()
    empty = table._meta
    terms = terms_of_table(formula, empty, schema)
    names = terms.coding.design(empty).names
    declared = terms.columns
    plain = [name for name, kind in declared.items() if kind.kind in ("numeric", "released")]
    for name in plain:
        _check_dtype(table.dtypes[name], f"column {name!r}")
    read = table[list(declared)]
    lengths = _counted(read)
    coding = terms.coding if terms.left is None else None
    matrix = _of_partitions(_terms, lengths, len(names) + 1, read, terms=terms, plain=plain)
    records = ClusterRecords((matrix,), names, coding=coding)
    records.of_terms = schema is None
    return terms.coding, records


def _counted(*tables: Any) -> list[int]:
    """Rows of each partition, the same of all tables."""
    from dask import compute

    found = [list(map(int, one)) for one in compute(*[one.map_partitions(len) for one in tables])]
    if found[0] != found[-1]:
        raise InvalidInput(
            "X and y have different partitions; take both from one data frame, or pass the name of "
            "y's column with a data frame that holds it."
        )
    if not sum(found[0]):
        raise InvalidInput("X has no rows; at least one record is needed.")
    return found[0]


def _of_partitions(
    function: Callable[..., Any], lengths: list[int], width: int, *tables: Any, **told: Any
) -> Any:
    """What a function makes of each partition, as an array of so many columns."""
    from dask import dataframe

    found = dataframe.map_partitions(
        function, *tables, align_dataframes=False, meta=np.empty((0, width)), **told
    )
    found._chunks = (tuple(lengths), (width,))
    return _without_empty_chunks(found)


def _terms(part: Any, terms: Terms, plain: list[str]) -> NDArray[np.float64]:
    """Terms of one partition, on a worker; what its columns hold is read whatever it is."""
    table = {name: cell_numbers(part[name], name) if name in plain else part[name] for name in part}
    return np.column_stack(terms.records(table))


def _matrix(*tables: Any, covariates: list[str], response: str | None) -> NDArray[np.float64]:
    """Covariates and response of one partition, on a worker."""
    columns = [cell_numbers(tables[0][name], name) for name in covariates]
    last = tables[-1]
    columns.append(cell_numbers(last["y" if response is None else response], "y"))
    return np.column_stack(columns)


def _beside(values: Any, what: str, sizes: tuple[int, ...]) -> Any:
    """A column of numbers beside records, in their chunks, shape (n, 1)."""
    if hasattr(values, "npartitions") and hasattr(values, "to_frame"):
        _check_dtype(values.dtype, what)
        frame = values.to_frame(what)
        found = _of_partitions(_matrix, _counted(frame), 1, frame, covariates=[], response=what)
    elif not hasattr(values, "chunks"):
        raise InvalidInput(
            f"{what} is in memory, {described(values)}, and X on a cluster. Pass a collection of "
            "Dask, or the name of a column of a Dask data frame."
        )
    else:  # whose chunks never pass through the client
        _check_array(values, what, 1)
        found = _as_column(values)
    if found.shape[0] != sum(sizes):
        raise InvalidInput(
            f"{what} must have one entry for each of the {sum(sizes)} records; received "
            f"{found.shape[0]}."
        )
    return found.rechunk((sizes, (1,)))


def _as_column(values: Any) -> Any:
    """(n,) to (n, 1) chunk by chunk; indexing would be a layer that Dask does not fuse."""
    return values.map_blocks(
        np.expand_dims, 1, new_axis=1, chunks=(values.chunks[0], (1,)), dtype=values.dtype
    )


def _without_empty_chunks(values: Any) -> Any:
    sizes = tuple(size for size in values.chunks[0] if size)
    return values if sizes == values.chunks[0] else values.rechunk({0: sizes})
