"""Schemas as TOML files: read by the standard library, written here."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpfast.documents import read_document
from dpfast.errors import InvalidInput, described

if TYPE_CHECKING:
    from dpfast.data.coding import Column
    from dpfast.data.schema import Schema

LARGEST = 50_000_000  # bytes of a file: some million levels

#: Keys of each kind of column; the first ones are required.
KEYS = {
    "numeric": (("low", "high"), ("centre", "unit", "units", "source")),
    "categorical": (("levels",), ("reference", "other", "source")),
    "binary": (("positive", "negative"), ("source",)),
}


def read(source: Any) -> Schema:
    """Read a schema from a path or from TOML text."""
    from dpfast.data.schema import Schema

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
    return Schema({name: _column(name, entry) for name, entry in columns.items()})


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


def _column(name: str, entry: Any) -> Column:
    from dpfast.data import schema

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
    values = {key: entry[key] for key in keys}
    kinds = {"numeric": schema.Numeric, "categorical": schema.Categorical, "binary": schema.Binary}
    try:
        return kinds[kind](**values)
    except InvalidInput as error:
        raise InvalidInput(f"column {described(name, text=True)}: {error}") from error


def write(schema: Schema) -> str:
    """Write TOML text that :func:`read` turns back into the same schema."""
    parts = []
    for name, declared in schema.columns.items():
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


def quoted_name(name: str) -> str:
    """Write the name of a column as a key."""
    return _value(name)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair is not Unicode
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(float(value) if isinstance(value, float) else int(value))
