"""Tables in files, read as a schema says: CSV (plain or gzip), Parquet, Feather, NPZ.

A cell that is not what the schema declares becomes a missing value; no cell raises.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.columns import kept_encoded
from dpfast.data.schema import Binary, Categorical, Column, Numeric, Schema
from dpfast.errors import InvalidInput

__all__ = ["csv_cells", "read_table"]


def read_table(path: Any, schema: Schema, delimiter: str = ",") -> Any:
    """Read the columns a schema declares.

    Parameters
    ----------
    path : path
        ``.csv``, ``.csv.gz``, ``.parquet``, ``.feather``/``.arrow`` or ``.npz``.
    schema : Schema
    delimiter : str
        Of a CSV file, whose first row names the columns.

    Returns
    -------
    mapping of str to ndarray, or an Arrow table
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"there is no data file {str(path)!r}.")
    kind = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    if kind in (".csv", ".csv.gz"):
        return _read_csv(path, schema, delimiter)
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if name in schema.columns}
    if kind in (".parquet", ".feather", ".arrow"):
        return _read_arrow(path, schema, kind)
    raise InvalidInput(
        f"the data file {str(path)!r} has an unknown kind; allowed are .csv, .csv.gz, .parquet, "
        ".feather, .arrow and .npz."
    )


def _read_arrow(path: Path, schema: Schema, kind: str) -> Any:
    try:
        from pyarrow import feather, parquet
    except ImportError as error:
        raise ImportError(
            "Parquet and Arrow files need pyarrow: pip install 'dpfast[tables]'."
        ) from error
    if kind == ".parquet":
        found = parquet.read_schema(path)
        wanted = [name for name in found.names if name in schema.columns]
        return parquet.read_table(path, columns=wanted, read_dictionary=kept_encoded(found))
    return feather.read_table(path)


def _read_csv(path: Path, schema: Schema, delimiter: str) -> dict[str, NDArray[Any]]:
    cells = csv_cells(path, delimiter, schema.columns)
    return {name: _parsed(column, schema[name]) for name, column in cells.items()}


def csv_cells(
    path: Path, delimiter: str = ",", wanted: Container[str] | None = None
) -> dict[str, list[str]]:
    """Cells of the wanted columns (default: all) of a CSV file; missing ones are empty.

    A line is a record, whatever is in it: each is parsed by itself, so that a quote that is not
    closed, or a cell that is too long, spoils its own record and no other.
    """
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}
    with gzip.open(path, "rt", **text) if path.suffix == ".gz" else path.open(**text) as file:
        first = next(file, None)
        if first is None:
            raise InvalidInput(
                f"the data file {str(path)!r} is empty; its first row must name the columns."
            )
        header = _row(first, delimiter)
        chosen = [(i, name) for i, name in enumerate(header) if wanted is None or name in wanted]
        cells: list[list[str]] = [[] for _ in chosen]
        for line in file:
            row = _row(line, delimiter)
            for (i, _), column in zip(chosen, cells, strict=True):
                column.append(row[i] if i < len(row) else "")
    return {name: column for (_, name), column in zip(chosen, cells, strict=True)}


def _row(line: str, delimiter: str) -> list[str]:
    """Cells of one line; none if it cannot be parsed."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:  # among others a cell longer than the module's limit
        return []


def _parsed(cells: list[str], declared: Column) -> NDArray[Any]:
    if isinstance(declared, Numeric):
        return np.array([_number(cell) for cell in cells], dtype=float)
    levels: tuple[Any, ...] = ()
    if isinstance(declared, Categorical):
        levels = declared.levels
    elif isinstance(declared, Binary):
        levels = (declared.positive, declared.negative)
    known = {str(level): level for level in levels}  # integers are declared as such
    found = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        found[i] = known.get(cell.strip(), cell)
    return found


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
