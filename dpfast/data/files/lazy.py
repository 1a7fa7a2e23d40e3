"""Tables that are evaluated when they are read: lazy frames, data sets, relations, streams."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpfast.data.columns import column, library
from dpfast.data.formula import Terms, terms_of
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput

#: Packages whose tables are in memory, although they offer a stream of their batches.
IN_MEMORY = ("pandas", "polars", "pyarrow")

FAILED = (
    "the lazy table could not be evaluated: its query failed, or its source was changed. Nothing "
    "was spent. Evaluate it outside of dpfast to see why."
)


class LazyTable(NamedTuple):
    """Types of the columns of a table that is not yet evaluated, and its rows, batch by batch."""

    empty: Any
    batches: Callable[[list[str]], Iterator[Any]]


class TermValues(NamedTuple):
    """Values of a formula's terms, and further columns by name."""

    terms: Terms
    names: tuple[str, ...]
    X: Any
    y: Any
    others: dict[str, Any]


def lazy_table(data: Any) -> LazyTable | None:
    """Return how a table is read that is evaluated later; None for other tables.

    Such tables are lazy frames of polars, data sets and batch readers of Arrow, and whatever offers
    the Arrow stream interface, as relations of DuckDB do.
    """
    origin, kind = library(data), type(data).__name__
    if origin == "polars" and kind == "LazyFrame":
        empty = sys.modules["polars"].DataFrame(schema=data.collect_schema())
        return LazyTable(
            empty, lambda names: data.select(names).collect_batches(maintain_order=True)
        )
    if origin == "pyarrow" and hasattr(data, "scanner"):
        return LazyTable(
            data.schema.empty_table(), lambda names: data.scanner(columns=names).to_batches()
        )
    if origin == "pyarrow" and kind == "RecordBatchReader":
        return _of_reader(data)
    if hasattr(data, "__arrow_c_stream__") and origin not in IN_MEMORY:
        from pyarrow import RecordBatchReader

        return _of_reader(RecordBatchReader.from_stream(data))
    return None


def _of_reader(reader: Any) -> LazyTable:
    """Read batches once, in their order."""
    return LazyTable(
        reader.schema.empty_table(), lambda names: (batch.select(names) for batch in reader)
    )


def values_of_terms(
    formula: str, schema: Schema | None, table: LazyTable, others: Sequence[str]
) -> TermValues:
    """Evaluate the terms of a formula batch by batch; of a batch nothing else is kept.

    Privacy
    -------
    None is spent.  The number of rows is public, so a query must not filter by a private column.
    """
    terms = terms_of(formula, schema, table.empty)
    names = terms.coding.design(table.empty).names
    terms.records(table.empty)  # refuses wrong types
    for name in others:
        column(table.empty, name)
    needed = list(dict.fromkeys([*terms.columns, *others]))

    def block(batch: Any) -> list[Any]:
        return [*terms.records(batch), *(_array(batch, name) for name in others)]

    blocks: list[list[Any]] | None = None
    try:
        blocks = [*map(block, table.batches(needed))]
    except (InvalidInput, MemoryError):
        raise
    except Exception:  # of another library, which may quote a value
        pass
    if blocks is None:
        raise InvalidInput(FAILED)
    if not sum(len(block[1]) for block in blocks):
        raise InvalidInput("the lazy table has no rows; at least one record is needed.")
    X, y, *rest = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return TermValues(terms, names, X, y, dict(zip(others, rest, strict=True)))


def _array(batch: Any, name: str) -> Any:
    """Return a column of a batch as an array, whatever its cells are."""
    values = column(batch, name)
    if library(values) == "pyarrow":
        return values.to_numpy(zero_copy_only=False)
    return values.to_numpy()
