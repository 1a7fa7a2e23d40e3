"""Public tables and the regressions asked of them, as ``public_tables.tsv`` lists them.

Its columns are a group, a name, a source, a formula, "log" for the response's logarithm, and the
least response that is kept.  A source is a file of the data folder, or "package item".  In a
formula stand ``column``, ``column^2``, or ``column=label`` for an indicator; bars divide it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array

LIST = Path(__file__).with_name("public_tables.tsv")


class Table(NamedTuple):
    """A regression: covariates are in groups where bars divide them."""

    name: str
    source: str
    response: str
    groups: tuple[tuple[str, ...], ...]
    log: bool = False
    least: float = -np.inf

    @property
    def covariates(self) -> list[str]:
        return [name for group in self.groups for name in group]


def tables(*groups: str) -> list[Table]:
    """Return the tables of these groups, in their order."""
    found = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        group, name, source, formula, *rest = line.split("\t")
        if group in groups:
            response, _, covariates = formula.partition(" ~ ")
            parts = tuple(tuple(part.split(" + ")) for part in covariates.split(" | "))
            least = float(rest[1]) if rest[1:] else -np.inf
            found.append(Table(name, source, response, parts, "log" in rest[:1], least))
    return found


def data_folder() -> Path | None:
    """Return ``$DPFAST_DATA``, or ``../shared/data`` beside the project; None if it is absent."""
    named = os.environ.get("DPFAST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


def available(some: Iterable[Table], only: str = "") -> Iterator[Table]:
    """Keep those that are here: in the folder, or in a package that is installed."""
    folder = data_folder()
    for table in some:
        package, _, item = table.source.partition(" ")
        here = find_spec(package) if item else folder and (folder / package).exists()
        if here and only.lower() in table.name.lower():
            yield table


def read(table: Table) -> tuple[Array, Array]:
    """Return covariates and response of the complete records, in the columns' own units."""
    data = frame(table.source)
    names = [*table.covariates, table.response]
    whole = np.column_stack([_column(data, name) for name in names])
    whole = whole[np.isfinite(whole).all(axis=1) & (whole[:, -1] >= table.least)]
    response = whole[:, -1]
    return whole[:, :-1].copy(), np.log(response) if table.log else response.copy()


def frame(source: str) -> Any:
    """Return the data frame of a source."""
    package, _, item = source.partition(" ")
    if item:
        return import_module(package).data(*item.split("/"))
    folder = data_folder()
    assert folder is not None
    separator = ";" if package.startswith("bank") else ","
    return import_module("pandas").read_csv(folder / package, sep=separator)


def _column(data: Any, name: str) -> Array:
    if "=" in name:
        column, _, label = name.partition("=")
        texts = data[column].astype("string").str.strip()
        found = np.asarray((texts == label).to_numpy(dtype=np.float64, na_value=np.nan))
        assert 0.0 < np.nanmean(found) < 1.0, name
        return found
    column, power = re.fullmatch(r"(.*?)(?:\^(\d))?", name).groups()  # type: ignore[union-attr]
    numbers = import_module("pandas").to_numeric(data[column], errors="coerce")
    return np.asarray(numbers, dtype=np.float64) ** float(power or 1.0)
