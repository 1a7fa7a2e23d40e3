"""A schema as TOML: the standard library reads it, a dozen lines write it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpfast.errors import InvalidInput, described

if TYPE_CHECKING:
    from dpfast.data.schema import Column, Schema

__all__ = ["read", "write"]

#: Keys of each kind of column; the first ones are required.
KEYS = {
    "numeric": (("low", "high"), ("centre", "unit", "units")),
    "categorical": (("levels",), ("reference", "other")),
    "binary": (("positive", "negative"), ()),
}


def read(source: Any) -> Schema:
    """A schema from a path or from TOML text."""
    from dpfast.data.schema import Schema

    text = source
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        path = Path(source)
        if not path.is_file():
            raise InvalidInput(f"there is no schema file {str(path)!r}.")
        text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the schema is not valid TOML: {error}.") from error
    columns = table.get("columns")
    if not isinstance(columns, dict) or set(table) != {"columns"}:
        raise InvalidInput(
            "a schema file has one table per column, [columns.NAME], and nothing else; received "
            f"{sorted(table)}."
        )
    return Schema({name: _column(name, entry) for name, entry in columns.items()})


def _column(name: str, entry: Any) -> Column:
    from dpfast.data import schema

    kind = entry.get("kind") if isinstance(entry, dict) else None
    if kind not in KEYS:
        raise InvalidInput(
            f"column {described(name, text=True)}: kind must be one of {list(KEYS)}; received "
            f"{described(kind, text=True)}."
        )
    required, optional = KEYS[kind]
    given = set(entry) - {"kind"}
    if not set(required) <= given <= {*required, *optional}:
        raise InvalidInput(
            f"column {described(name, text=True)} is {kind}: needs {list(required)}, may have "
            f"{list(optional)}; received {sorted(given)}."
        )
    values = {key: entry[key] for key in given}
    kinds = {"numeric": schema.Numeric, "categorical": schema.Categorical, "binary": schema.Binary}
    return kinds[kind](**values)


def write(schema: Schema) -> str:
    """TOML text that :func:`read` turns back into the same schema."""
    parts = []
    for name, declared in schema.columns.items():
        required, optional = KEYS[declared.kind]
        lines = [f"[columns.{json.dumps(name, ensure_ascii=False)}]", f'kind = "{declared.kind}"']
        for key in (*required, *optional):
            value = getattr(declared, key)
            if value is not None and value != "":
                lines.append(f"{key} = {_value(value)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
