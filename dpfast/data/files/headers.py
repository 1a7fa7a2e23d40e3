"""Names and types of the columns of files: public."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from dpfast.arguments import file_path
from dpfast.data.columns import column, column_names, type_of
from dpfast.errors import InvalidInput, described

#: Delimiters of text files that are tried if none is given.
DELIMITERS = ",;\t|"

#: Ends of names of files of text, which ``.gz`` may follow.
TEXT = (".csv", ".tsv", ".txt")

#: Ends of names of other files that are read as a whole.
WHOLE = (".npz", ".feather", ".arrow")

#: A first row that names no columns but the delimiter, as spreadsheets write it.
SEPARATOR = re.compile(r"sep=([^\"\r\n\0 ])\r?\n?")


def is_paths(data: Any) -> bool:
    """Test for the path of a file or folder, a pattern of paths, or a list of these."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(path, str | os.PathLike) for path in data)
    return isinstance(data, str | os.PathLike)


def is_text_or_whole(data: Any) -> bool:
    """Test for the path of a file that is read as a whole, by the end of its name."""
    if not isinstance(data, str | os.PathLike):
        return False
    end = os.fspath(data).lower()
    return end.removesuffix(".gz").endswith(TEXT) or end.endswith(WHOLE)


def types_of(source: Any) -> dict[str, str]:
    """Return the types of the columns of a file or a table by name; of text they are not known."""
    if not isinstance(source, str | os.PathLike):
        return {name: type_of(column(source, name)) for name in column_names(source)}
    path = file_path(source, "source")
    if not is_text_or_whole(path):
        return {field.name: str(field.type) for field in parquet_schema(path)}
    if path.lower().endswith((".feather", ".arrow")):
        return arrow_types(path)
    if path.lower().endswith(".npz"):
        raise InvalidInput("the types of an .npz file are in its arrays: pass the arrays by name.")
    return dict.fromkeys(header_of(path), "text")


def header_of(path: Any) -> list[str]:
    """Return the names in the first row of a file of text."""
    file_of_text = Path(path)
    try:
        with opened(file_of_text) as (file, _):
            first = next(file, "")
            if separator := SEPARATOR.fullmatch(first):
                return read_header(file_of_text, next(file, ""), separator[1], ())[0]
            marks = "\t" if ".tsv" in file_of_text.name.lower() else DELIMITERS
            return read_header(file_of_text, first, marks, ())[0]
    except (OSError, EOFError, zlib.error):
        pass
    raise unreadable(file_of_text)


def arrow_types(path: Any) -> dict[str, str]:
    """Return the types of the columns of a Feather file by name."""
    try:
        from pyarrow import ipc

        with ipc.open_file(path) as reader:
            return {field.name: str(field.type) for field in reader.schema}
    except ImportError as error:
        raise ImportError("Arrow files need pyarrow: pip install 'dpfast[tables]'.") from error
    except Exception:
        pass  # raised below without its context
    raise unreadable(Path(path))


def unreadable(path: Path) -> InvalidInput:
    """Make the error for a file whose content its name does not describe."""
    return InvalidInput(
        f"the file {str(path)!r} cannot be read: it may not be accessed, is damaged, or is not "
        "what the end of its name says."
    )


def parquet_schema(path: Any) -> Any:
    """Return names and types of the columns of the first of some files: public."""
    first = parquet_files(path)[0]
    try:
        return pyarrow_parquet().read_schema(first)
    except ImportError:
        raise
    except Exception:
        pass  # raised below without its context
    raise InvalidInput(f"{first!r} cannot be read: it is damaged or is no Parquet file.")


def parquet_files(path: Any) -> list[str]:
    """List the files of a path, a folder, a pattern such as ``"*.parquet"``, or a list of these."""
    if isinstance(path, list | tuple) and is_paths(path):  # by places: cells may be passed
        places = [f"path[{i}]" for i in range(len(path))]
    else:
        path, places = [path], [described(str(path) if isinstance(path, Path) else path, text=True)]
    files = [
        file for one, place in zip(path, places, strict=True) for file in _files_at(one, place)
    ]
    known: dict[tuple[int, int], str] = {}
    for file in files:
        status = os.stat(file)
        if known.setdefault((status.st_dev, status.st_ino), file) is not file:
            raise InvalidInput(
                f"the file {file!r} is named twice, so that its records would count twice. Name "
                "each file once."
            )
    return files


def _files_at(argument: Any, place: str) -> list[str]:
    """List the files of one path, which messages call by its place."""
    path = Path(file_path(argument, "path"))
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    elif path.is_file():
        files = [path]
    else:
        matching = sorted(glob(str(path), recursive=True)) if has_magic(str(path)) else []
        files = [Path(file) for file in matching if os.path.isfile(file)]
    if not files:
        raise InvalidInput(
            f"there is no Parquet file at {place}. Of text the name ends "
            "in .csv, .tsv or .txt; files of another kind are read first, as by pandas."
        )
    return [str(file.resolve()) for file in files]


def pyarrow_parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'dpfast[tables]'.") from error
    return parquet


@contextmanager
def opened(path: Path) -> Iterator[tuple[TextIO, BinaryIO]]:
    """Open a file as text, and its bytes on disk, whose position shows the progress."""
    with path.open("rb") as raw:
        content = cast(
            BinaryIO, gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
        )
        # only a line feed ends a line; a byte that is not text affects its own cell only
        with io.TextIOWrapper(content, "utf-8-sig", errors="replace", newline="\n") as file:
            yield file, raw


def read_header(
    path: Path, line: str, delimiters: str, requested: Container[str]
) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter, from the first line alone."""
    line = line.rstrip("\r\n")
    if not line:
        raise InvalidInput(
            f"the data file {str(path)!r} is empty; its first row must name the columns."
        )
    if any(character in line for character in "\0\r\ufffd"):
        raise InvalidInput(
            f"the first row of {str(path)!r} must name the columns, in UTF-8 and up to a line "
            "feed. Save the file as UTF-8 text with ordinary ends of lines."
        )
    names_by_mark = {mark: _names(line, mark, requested) for mark in delimiters}
    # how many columns each finds: of the wanted ones, and of any
    ranks = {
        mark: (sum(name in requested for name in names), len(names))
        for mark, names in names_by_mark.items()
    }
    best = max(ranks.values())
    marks = [mark for mark in delimiters if ranks[mark] == best]
    if len(marks) > 1 and best[1] > 1:
        raise InvalidInput(
            f"the first row of {str(path)!r} can be divided by {marks}. Say which is the delimiter."
        )
    return names_by_mark[marks[0]], marks[0]


def _names(line: str, delimiter: str, requested: Container[str]) -> list[str]:
    """Return the names in a header; spaces around them are removed unless they were declared."""
    return [name if name in requested else name.strip() for name in read_row(line, delimiter)]


def read_row(line: str, delimiter: str) -> list[str]:
    """Parse the cells of one line; none if it cannot be parsed."""
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:  # among others a cell longer than the module's limit
        return []
