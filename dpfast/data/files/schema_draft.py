"""Draft of a schema from the names and types of a file's columns, for a person to fill in."""

from __future__ import annotations

import os
from typing import Any

from dpfast.arguments import file_path
from dpfast.data.columns import column, column_names, type_of
from dpfast.data.files.parquet import parquet_schema
from dpfast.data.files.schema_file import quoted_name, write
from dpfast.data.files.tables import arrow_types, header_of, is_text_or_whole
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, described

BEGINNING = """\
# Write what is publicly known of each column, and delete the columns that you do not use.
# Nothing here was read from the records: names and types of columns are public.
"""

#: Blanks of each kind of column.
BLANKS = {
    "numeric": ("low =  # public range: values outside are clipped", "high ="),
    "binary": ("positive = true", "negative = false"),
    "categorical": ("levels = []  # every level there can be, such as ['a', 'b']",),
    "unknown": (
        'low =  # a number: its public range; of labels write kind = "categorical" and levels',
        "high =",
    ),
}


def draft(source: Any, known: Schema | None) -> str:
    """Draft a schema as TOML text; what is known is filled in, the rest is left blank."""
    if known is not None and not isinstance(known, Schema):
        raise InvalidInput(
            f"known must be a dpfast.Schema of what is publicly known; received {described(known)}."
        )
    declared = {} if known is None else known.columns
    parts = [BEGINNING]
    for name, kind in types_of(source).items():
        if name in declared:
            parts.append(write(Schema({name: declared[name]})))
            continue
        what = _kind(kind)
        written = "numeric" if what == "unknown" else what
        lines = [f"[columns.{quoted_name(name)}]  # {kind}", f'kind = "{written}"', *BLANKS[what]]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


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


def _kind(kind: str) -> str:
    """Return the kind of declaration for a type; of a file of text nothing is known."""
    low = kind.lower()
    if low == "text":
        return "unknown"
    if low.startswith("bool"):
        return "binary"
    numbers = ("int", "uint", "float", "double", "halffloat", "decimal")
    return "numeric" if low.startswith(numbers) else "categorical"
