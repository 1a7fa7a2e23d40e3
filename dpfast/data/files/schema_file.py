"""Schemas as TOML files: read by the standard library, written and drafted here."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpfast.data.files.headers import types_of
from dpfast.documents import read_document
from dpfast.errors import InvalidInput, described

if TYPE_CHECKING:
    from dpfast.data.coding import Column

LARGEST = 50_000_000  # bytes of a file: some million levels

#: Keys of each kind of column; the first ones are required.
KEYS = {
    "numeric": (("low", "high"), ("centre", "unit", "units", "source")),
    "categorical": (("levels",), ("reference", "other", "source")),
    "binary": (("positive", "negative"), ("source",)),
}

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


def read(source: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Read the kind and the arguments of each column from a path or from TOML text."""
    if isinstance(source, str) and "\n" in source:
        text = source
    elif isinstance(source, (str, Path)):
        text = _content(Path(source))
    else:
        raise InvalidInput(
            f"a schema is read from a path or from TOML text; received {described(source)}."
        )
    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the schema is not valid TOML: {error}.") from error
    except (RecursionError, ValueError):  # nested too deeply; an integer of too many digits
        raise InvalidInput("the schema cannot be read: it holds what no schema needs.") from None
    columns = table.get("columns")
    if not isinstance(columns, dict) or set(table) != {"columns"}:
        raise InvalidInput(
            "a schema file has one table per column, [columns.NAME], and nothing else; received "
            f"{sorted(table)}."
        )
    return {name: _column(name, entry) for name, entry in columns.items()}


def _content(path: Path) -> str:
    if not path.is_file():
        raise InvalidInput(f"there is no schema file {str(path)!r}.")
    try:
        return read_document(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"the schema file {str(path)!r} is not UTF-8 text.") from None
    except OSError as error:
        raise InvalidInput(
            f"the schema file {str(path)!r} cannot be read ({error.strerror})."
        ) from None


def _column(name: str, entry: Any) -> tuple[str, dict[str, Any]]:
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in KEYS:
        raise InvalidInput(
            f"column {described(name, text=True)}: kind must be one of {list(KEYS)}; received "
            f"{described(kind, text=True)}."
        )
    required, optional = KEYS[kind]
    keys = set(entry) - {"kind"}
    if not set(required) <= keys <= {*required, *optional}:
        raise InvalidInput(
            f"column {described(name, text=True)} is {kind}: needs {list(required)}, may have "
            f"{list(optional)}; received {sorted(keys)}."
        )
    return kind, {key: entry[key] for key in keys}


def write(columns: Mapping[str, Column]) -> str:
    """Write TOML text that :func:`read` turns back into the same columns."""
    parts = []
    for name, declared in columns.items():
        required, optional = KEYS[declared.kind]
        try:
            lines = [f"[columns.{_value(name)}]", f'kind = "{declared.kind}"']
            for key in (*required, *optional):
                value = getattr(declared, key)
                if value is not None and (value != "" or key not in ("units", "source")):
                    lines.append(f"{key} = {_value(value)}")
        except UnicodeEncodeError:
            raise InvalidInput(
                f"the name of column {name!a}, or a text it is declared with, is no Unicode text "
                "and cannot be written to a file. Rename it."
            ) from None
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair is not Unicode
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value) if isinstance(value, float) else int(value))


def draft(source: Any, declared: Mapping[str, Column]) -> str:
    """Draft a schema as TOML text; what is declared is filled in, the rest is left blank."""
    parts = [BEGINNING]
    for name, kind in types_of(source).items():
        if name in declared:
            parts.append(write({name: declared[name]}))
            continue
        what = _kind(kind)
        written = "numeric" if what == "unknown" else what
        lines = [f"[columns.{_value(name)}]  # {kind}", f'kind = "{written}"', *BLANKS[what]]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _kind(kind: str) -> str:
    """Return the kind of declaration for a type; of a file of text nothing is known."""
    low = kind.lower()
    if low == "text":
        return "unknown"
    if low.startswith("bool"):
        return "binary"
    numbers = ("int", "uint", "float", "double", "halffloat", "decimal")
    return "numeric" if low.startswith(numbers) else "categorical"
