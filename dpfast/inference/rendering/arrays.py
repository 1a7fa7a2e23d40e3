"""Arrays of numbers with their names, as text and as data frames."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.inference.rendering.digits import printable

if TYPE_CHECKING:
    from dpfast.inference.named import Names

#: Packages that a frame can be of; the first that is installed is the default.
FRAMES = ("pandas", "polars", "pyarrow")

#: Most rows that are printed with names; NumPy abbreviates the text of more.
MOST_SHOWN = 100


def lines(values: Any, names: Names) -> str:
    """Write a line for each named row; without names the text of NumPy."""
    if names is None or not 0 < len(values) <= MOST_SHOWN:
        return repr(values)
    rows = [[f"{value:.6g}" for value in row] for row in values.reshape(len(values), -1)]
    width = max(len(text) for row in rows for text in row)
    labels = list(map(printable, names))
    longest = max(map(len, labels))
    return "\n".join(
        f"{label:{longest}}" + "".join(f"  {text:>{width}}" for text in row)
        for label, row in zip(labels, rows, strict=True)
    )


def in_pandas(values: Any, names: Names, columns: Names) -> Any:
    """Make a Series of one column, or a DataFrame of several."""
    try:
        from pandas import DataFrame, Series
    except ImportError as error:
        raise ImportError("a data frame needs pandas: pip install pandas.") from error
    index = list(names or range(len(values)))
    if values.ndim == 1:
        return Series(values, index=index)
    return DataFrame(values, index=index, columns=None if columns is None else list(columns))


def frame(columns: dict[str, Any], about: dict[str, Any], backend: str | None) -> Any:
    """Make a data frame of a package that is installed; it says privacy and warnings of itself."""
    if backend not in (None, *FRAMES):
        raise InvalidInput(
            f"backend must be one of {list(FRAMES)}, or None for the first of them that is "
            f"installed; received {described(backend, text=True)}."
        )
    package = _package(FRAMES if backend is None else (backend,))
    columns = {name: list(values) for name, values in columns.items()}
    if package.__name__ == "pyarrow":
        said = {key: json.dumps(value) for key, value in about.items()}
        return package.table(columns).replace_schema_metadata(said)
    made = package.DataFrame(columns)
    if package.__name__ == "pandas":
        made.attrs.update(about)
    return made


def _package(names: tuple[str, ...]) -> Any:
    for name in names:
        with suppress(ImportError):
            return import_module(name)
    wanted = " or ".join(names)
    raise ImportError(f"a data frame needs {wanted}: pip install {names[0]}.")


def plain(value: Any) -> Any:
    """Return lists, dictionaries, text and numbers; None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)  # a paid result must not be lost for its type


def plain_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's fields as plain values; numbers that are not finite stay."""
    return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return plain_fields(value)
    return value.tolist() if isinstance(value, np.ndarray) else value
