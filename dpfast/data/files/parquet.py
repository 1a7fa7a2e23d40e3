"""Parquet files and folders of them, larger than memory: one row group at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.arrow_arrays import refuse_broken
from dpfast.data.coding import Coding
from dpfast.data.columns import is_arrow_number, kept_encoded, numbers
from dpfast.data.files.headers import parquet_files, pyarrow_parquet
from dpfast.data.formula import Terms, terms_of
from dpfast.data.schema import Schema
from dpfast.data.streams import Block, StreamedRecords
from dpfast.errors import InvalidInput, RecordsUnavailable, described, dtype_name, understood


@understood
def open_parquet(
    path: Any,
    *,
    covariates: Sequence[str] | None = None,
    response: str,
    schema: Schema | None = None,
) -> StreamedRecords:
    """Open Parquet data as records for :func:`dpfast.fit`, without reading them.

    Every query reads the requested columns once, row group by row group, decoding the next while
    the present one is summed.  Memory is that of about three decoded row groups for any n.  The
    default fit keeps up to 128 MB of records for its secret sample, and a byte for each of up to
    2^24 records.  A table of up to 128 MB is kept whole and decoded once.

    Parameters
    ----------
    path : path
        A file, or a folder whose ``.parquet`` files (at any depth, in the order of their names)
        are read as one table.
    covariates : sequence of str, optional
        Names of the columns of X, in order.  Required without a schema; with one, by default every
        column it declares that the table has, except the response.
    response : str
    schema : Schema, optional
        Public ranges and levels that clip, scale and code each record on its own.  Without it
        columns must be numbers or booleans.

    Returns
    -------
    StreamedRecords
        To be passed as ``dpfast.fit(records, None, ...)``.  A missing value or one that the schema
        does not allow makes its record contribute zero.  If a file changes between queries, or a
        page is not what its checksum says, the next raises
        :class:`~dpfast.errors.RecordsUnavailable` and its charge stays.

    Privacy
    -------
    Nothing is spent.  The number of rows of each row group is public, like n.  Write the files so
    that it does not follow from values: do not partition or filter by a private column.

    Examples
    --------
    >>> import pyarrow.parquet
    >>> wages = {"education": [12.0, 16.0] * 99, "log_wage": [2.0, 3.0] * 99}
    >>> pyarrow.parquet.write_table(pyarrow.table(wages), "wages.parquet")
    >>> what = {"covariates": ["education"], "response": "log_wage"}
    >>> records = dpfast.open_parquet("wages.parquet", **what)
    >>> dpfast.fit(records, None, dpfast.Objective("log-cosh", scale=0.5), privacy=1.0).names
    ('intercept', 'education')
    """

    def encoding(arrow_schema: Any, file: str) -> Encoding:
        if covariates is None and schema is None:
            raise InvalidInput(
                "covariates=[...] is needed without a schema: name the columns of X, in order."
            )
        listed = _listed(covariates)
        # names in a list are called by their place: a list of cells may be passed for it
        places = [(f"covariates[{i}]", name) for i, name in enumerate(listed)]
        for place, name in [*places, (f"response={described(response, text=True)}", response)]:
            _check_column(arrow_schema, file, place, name, schema is None)
        if schema is None:
            return Encoding((*listed, response), tuple(listed))
        design = schema.encode(
            arrow_schema.empty_table(), covariates, response
        )  # refuses wrong types
        return Encoding(tuple(design.coding.columns), design.names, design.coding)

    return _opened(path, encoding)


def open_formula(path: Any, formula: str, schema: Schema | None) -> tuple[Terms, StreamedRecords]:
    """Read a formula for Parquet data, and open records of its terms."""
    read: list[Terms] = []

    def encoding(arrow_schema: Any, file: str) -> Encoding:
        empty = arrow_schema.empty_table()
        terms = terms_of(formula, schema, empty)
        read.append(terms)
        terms.records(empty)  # refuses wrong types
        return Encoding(tuple(terms.columns), terms.coding.design(empty).names, terms)

    records = _opened(path, encoding)
    records.of_terms = True
    return read[0], records


def _opened(path: Any, encode: Callable[[Any, str], Encoding]) -> StreamedRecords:
    """Open records as the first file is encoded, and check all files."""
    parquet = pyarrow_parquet()
    groups: list[Group] = []
    encodings: list[Encoding] = []
    footers: dict[str, Footer] = {}
    for file in parquet_files(path):
        stamp = _stamp(file)
        try:
            metadata = parquet.read_metadata(file)
            arrow_schema = metadata.schema.to_arrow_schema()
            groups_rows = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
            if min(groups_rows, default=0) < 0 or sum(groups_rows) != metadata.num_rows:
                arrow_schema = None
        except Exception:
            arrow_schema = None  # raised below without its context
        if arrow_schema is None:
            raise InvalidInput(f"{file!r} cannot be read: it is damaged or is no Parquet file.")
        footers[file] = Footer(stamp, metadata)
        encodings.append(encode(arrow_schema, file))
        for k, rows in enumerate(groups_rows):
            if rows:
                groups.append(Group(file, k, rows, kept_encoded(arrow_schema)))
    if not groups:
        raise InvalidInput(f"{str(path)!r} has no rows; at least one record is needed.")
    encoding = encodings[0]
    decoder = Decoder(groups, footers, encoding)
    sizes = [group.rows for group in groups]
    coding = encoding.terms if isinstance(encoding.terms, Coding) else None
    names = encoding.names
    return StreamedRecords(decoder.block, sizes, len(names), names, coding, decoder.columns)


class Footer(NamedTuple):
    """Metadata of a file, parsed once when it is opened, and its stamp."""

    stamp: tuple[int, int]
    metadata: Any


class Group(NamedTuple):
    """Row group of a Parquet file."""

    file: str
    number: int
    rows: int
    kept_encoded: list[str]


class Encoding(NamedTuple):
    """Conversion of columns to numbers."""

    columns: tuple[str, ...]  # that are read, the response last where there are no terms
    names: tuple[str, ...]
    terms: Terms | Coding | None = None

    def block(self, table: Any) -> Block:
        if self.terms is not None:
            return self.terms.records(table)
        # covariate by covariate, as the columns are stored: the kernels read any strides
        table_columns: NDArray[np.float64] = np.empty((len(self.columns), table.num_rows))
        for row, name in zip(table_columns, self.columns, strict=True):
            row[:] = numbers(table[name], name)
        return table_columns[:-1].T, table_columns[-1]


class Decoder:
    """Reader and encoder of row groups."""

    def __init__(self, groups: list[Group], footers: dict[str, Footer], encoding: Encoding) -> None:
        self._groups = groups
        self._footers = footers
        self._encoding = encoding
        self._columns = list(dict.fromkeys(encoding.columns))

    def block(self, k: int) -> Block:
        return self._encoding.block(self._table(k, self._columns))

    def columns(
        self, names: list[str], arguments: list[str], read: Callable[[Any, str], Any] = numbers
    ) -> Callable[[int], list[Any]]:
        """Return a decoder of other columns, as numbers or by ``read``; refuse wrong types."""
        for file, footer in self._footers.items():
            arrow_schema = footer.metadata.schema.to_arrow_schema()
            for argument, name in zip(arguments, names, strict=True):
                place = f"{argument}={described(name, text=True)}"
                _check_column(arrow_schema, file, place, name, read is numbers)
                read(arrow_schema.empty_table()[name], name)
        distinct = list(dict.fromkeys(names))

        def decode(k: int) -> list[Any]:
            table = self._table(k, distinct)
            return [read(table[name], name) for name in names]

        return decode

    def _table(self, k: int, columns: list[str]) -> Any:
        parquet = pyarrow_parquet()
        group = self._groups[k]
        try:
            footer = self._footers[group.file]
            unchanged = _stamp(group.file) == footer.stamp
            with parquet.ParquetFile(
                group.file,
                metadata=footer.metadata,
                read_dictionary=group.kept_encoded,
                page_checksum_verification=True,
            ) as file:
                table = file.read_row_group(group.number, columns=columns)
            for column in table.columns:
                refuse_broken(column)
        except Exception:  # Arrow's, with what it read
            unchanged = False
        if not unchanged:
            raise RecordsUnavailable(CHANGED)
        return table


CHANGED = (
    "a Parquet file was changed, moved or damaged since it was opened. What was charged stays "
    "charged. Open the data again."
)


def _stamp(file: str) -> tuple[int, int]:
    status = os.stat(file)
    return status.st_size, status.st_mtime_ns


def _check_column(arrow_schema: Any, file: str, place: str, name: Any, number: bool) -> None:
    if not isinstance(name, str) or arrow_schema.names.count(name) != 1:
        raise InvalidInput(
            f"{place} names no single column of {file!r}; it has {arrow_schema.names}."
        )
    kind = arrow_schema.field(name).type
    if number and not is_arrow_number(kind):
        raise InvalidInput(
            f"column {name!r} of {file!r} has type {dtype_name(kind)}; without a schema columns "
            "must be numbers or booleans. Pass schema=dpfast.Schema({...}) that declares it."
        )


def _listed(covariates: Any) -> list[Any]:
    if isinstance(covariates, str) or not (covariates is None or hasattr(covariates, "__iter__")):
        raise InvalidInput(
            "covariates must be a list of names of columns; received "
            f"{described(covariates, text=True)}."
        )
    return [] if covariates is None else list(covariates)
