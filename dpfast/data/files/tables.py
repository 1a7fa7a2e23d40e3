"""Tables in files, read as a schema says: text (plain or gzip), Parquet, Feather, NPZ."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dpfast.data.arrow_arrays import refuse_broken
from dpfast.data.coding import Column
from dpfast.data.columns import kept_encoded
from dpfast.data.files.headers import (
    DELIMITERS,
    SEPARATOR,
    TEXT,
    WHOLE,
    opened,
    read_header,
    read_row,
    unreadable,
)
from dpfast.data.formula import terms_of
from dpfast.data.schema import Categorical, Numeric, Schema
from dpfast.errors import InvalidInput, described

#: Lines between two reports of progress.
LINES = 1 << 15

Progress = Callable[[int, int], None]


class Written(NamedTuple):
    """Format of a text file; it is an argument and never inferred from cells.

    Attributes
    ----------
    delimiter : str or None
        Between two cells; None for the delimiter in the first row.
    decimal : {".", ","}
        Before the decimals of a number.
    """

    delimiter: str | None = None
    decimal: str = "."


def written(delimiter: Any = None, decimal: Any = ".") -> Written:
    """Check the format of a text file."""
    if delimiter is not None and (
        not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\0 '
    ):
        raise InvalidInput(
            "a delimiter must be a single character, and neither a quote, a space nor the end of "
            f"a line; received {described(delimiter, text=True)}."
        )
    if not isinstance(decimal, str) or decimal not in (".", ",") or decimal == delimiter:
        raise InvalidInput(
            "decimal, the mark before the decimals of numbers, must be '.' or ',' and not the "
            f"delimiter; received {described(decimal, text=True)}."
        )
    return Written(delimiter, decimal)


def read_table(
    path: Any,
    schema: Schema,
    delimiter: str | None = None,
    progress: Progress | None = None,
    decimal: str = ".",
) -> Any:
    """Read the columns a schema declares.

    Parameters
    ----------
    path : path
        Its end says of what kind the file is: text (``.csv``, ``.tsv``, ``.txt``, also with
        ``.gz``), ``.parquet``, ``.feather``, ``.arrow`` or ``.npz``, in capitals or not.
    schema : Schema
    delimiter : str, optional
        Of text; by default a tab in ``.tsv``, and else what divides the first row into most of the
        declared columns.  A first row ``sep=;`` says it, too, as spreadsheets write it.
    progress : callable, optional
    decimal : {".", ","}
        Of text: the mark before decimals.  A number written otherwise is missing, and so is one
        with marks between thousands.
    """
    text_format = written(delimiter, decimal)
    path = Path(path)
    if not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a dpfast.Schema; received {described(schema)}.")
    if not path.is_file():
        raise InvalidInput(f"there is no data file {str(path)!r}.")
    end = path.name.lower()
    if end.removesuffix(".gz").endswith(TEXT):
        cells = _text_cells(path, text_format, schema.columns, progress)
        return {
            name: _parsed(column, schema[name], text_format.decimal)
            for name, column in cells.items()
        }
    kind = path.suffix.lower()
    if kind not in (*WHOLE, ".parquet"):
        raise InvalidInput(
            f"the data file {str(path)!r} has an unknown kind; allowed are .csv, .tsv and .txt "
            "(also with .gz), .parquet, .feather, .arrow and .npz."
        )
    try:
        return _read_npz(path, schema) if kind == ".npz" else _read_arrow(path, schema, kind)
    except (ImportError, InvalidInput):
        raise
    except Exception:
        pass  # raised below without its context, which may quote a cell
    raise unreadable(path)


def read_columns_of_formula(
    path: Any,
    formula: str,
    schema: Schema | None = None,
    delimiter: str | None = None,
    progress: Progress | None = None,
    decimal: str = ".",
    *,
    numbers: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Any:
    """Read the columns of a formula: as declared, with listed levels, or as numbers.

    Parameters
    ----------
    path : path
    formula : str
    schema : Schema, optional
        Columns that it does not declare are taken for numbers.
    delimiter, progress, decimal
        As for :func:`read_table`.
    numbers, labels : sequence of str
        Further columns, such as weights and persons.
    """
    # without a declaration: the range and the levels are not used
    kinds: dict[str, Column] = dict.fromkeys(labels, Categorical(("", "-")))
    kinds |= dict.fromkeys(numbers, Numeric(0.0, 1.0))
    for name, declared in terms_of(formula, schema).columns.items():
        kinds[name] = Numeric(0.0, 1.0) if declared.kind == "released" else declared
    return _present(path, read_table(path, Schema(kinds), delimiter, progress, decimal), kinds)


def read_numbers(
    path: Any,
    names: Sequence[str],
    delimiter: str | None = None,
    progress: Progress | None = None,
    decimal: str = ".",
) -> dict[str, Any]:
    """Read columns as numbers, with nothing declared about them."""
    # the range is not used: only names and the kind of a column are read from it
    return _read_named(path, names, Numeric(0.0, 1.0), delimiter, progress, decimal)


def read_labels(
    path: Any,
    name: str,
    delimiter: str | None = None,
    progress: Progress | None = None,
    decimal: str = ".",
    levels: Sequence[Any] = ("", "-"),  # nothing is compared with these
) -> Any:
    """Read a column of labels, such as the person of each row, with nothing declared about them."""
    kind = Categorical(tuple(levels))
    cells = _read_named(path, [name], kind, delimiter, progress, decimal)[name]
    if isinstance(cells, np.ndarray) and cells.dtype == object:
        cells[:] = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
    return cells


def _read_named(
    path: Any,
    names: Sequence[str],
    kind: Column,
    delimiter: str | None,
    progress: Progress | None,
    decimal: str,
) -> dict[str, Any]:
    """Read columns of one kind; the file must have each of them."""
    if len(set(names)) < len(names):
        raise InvalidInput("a column is named twice. Name each column once.")
    schema = Schema(dict.fromkeys(names, kind))
    return _present(path, read_table(path, schema, delimiter, progress, decimal), names)


def _present(path: Any, table: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the named columns of a table from a file, which must have each of them."""
    present = table if isinstance(table, dict) else set(table.column_names)
    for name in names:
        if name not in present:
            raise InvalidInput(
                f"the file {str(path)!r} has no column {described(name, text=True)}. Name columns "
                "as its first row or its schema does."
            )
    return {name: table[name] for name in names}


def _read_npz(path: Path, schema: Schema) -> dict[str, NDArray[Any]]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files if name in schema.columns}


def _read_arrow(path: Path, schema: Schema, kind: str) -> Any:
    try:
        from pyarrow import feather, parquet
    except ImportError as error:
        raise ImportError(
            "Parquet and Arrow files need pyarrow: pip install 'dpfast[tables]'."
        ) from error
    if kind == ".parquet":
        arrow_schema = parquet.read_schema(path)
        requested = [name for name in arrow_schema.names if name in schema.columns]
        _refuse_repeated(requested, path)
        table = parquet.read_table(
            path,
            columns=requested,
            read_dictionary=kept_encoded(arrow_schema),
            page_checksum_verification=True,
        )
    else:
        table = feather.read_table(path)
    table.validate()  # one length for all columns
    for name, values in zip(table.column_names, table.columns, strict=True):
        if name in schema.columns:
            refuse_broken(values)
    return table


def _refuse_repeated(names: list[str], path: Path) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"the file {str(path)!r} has {names.count(name)} columns named "
                f"{described(name, text=True)}. Give them different names."
            )


def _text_cells(
    path: Path, text_format: Written, names: Container[str], progress: Progress | None = None
) -> dict[str, list[str]]:
    """Read cells of the requested columns of a text file; missing ones are empty."""
    try:
        with opened(path) as (file, raw):
            return _cells(path, file, raw, text_format, names, progress)
    except (InvalidInput, KeyboardInterrupt):
        raise
    except (OSError, EOFError, zlib.error):
        pass
    raise unreadable(path)


def _cells(
    path: Path,
    file: TextIO,
    raw: BinaryIO,
    text_format: Written,
    requested: Container[str],
    progress: Progress | None,
) -> dict[str, list[str]]:
    first = next(file, "")
    delimiter = text_format.delimiter
    if separator := SEPARATOR.fullmatch(first):  # by a spreadsheet; the next row names the columns
        first = next(file, "")
        delimiter = delimiter or separator[1]
    marks = DELIMITERS.replace(text_format.decimal, "")
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        marks = "\t"
    header, delimiter = read_header(path, first, delimiter or marks, requested)
    chosen = [(i, name) for i, name in enumerate(header) if name in requested]
    _refuse_repeated([name for _, name in chosen], path)
    cells: list[list[str]] = [[] for _ in chosen]
    size = path.stat().st_size
    for number, line in enumerate(file):
        row = read_row(line, delimiter)
        for (i, _), column in zip(chosen, cells, strict=True):
            column.append(row[i] if i < len(row) else "")
        if progress is not None and number % LINES == LINES - 1:
            progress(min(raw.tell(), size - 1), size)
    if progress is not None:
        progress(size, size)
    return {name: column for (_, name), column in zip(chosen, cells, strict=True)}


def _parsed(cells: list[str], declared: Column, decimal: str) -> NDArray[Any]:
    if isinstance(declared, Numeric):
        if decimal == ",":
            cells = [cell.translate(COMMAS) for cell in cells]
        return np.array([_number(cell) for cell in cells], dtype=float)
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


#: Decimal commas as points; a point, which is then between thousands, makes a cell no number.
COMMAS = str.maketrans(",.", ".,")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
