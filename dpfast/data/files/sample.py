"""Public samples: whole files of them, and the schema that one suggests."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Column
from dpfast.data.columns import cell_numbers, column, column_names, labels
from dpfast.data.files.tables import csv_cells, unreadable
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.errors import InvalidInput

#: Rows of the sample that must share a label before the draft names it as a level, how many levels
#: a column may have, and how long they may be.  What fewer rows share may stand for one of them.
SHARED, MOST_LEVELS, LONGEST_LEVEL = 5, 50, 40

#: Share of a CSV column's cells that must be numbers, or it is one of labels.
MOSTLY = 0.95

#: Positive first, as they are spelled in small letters.
PAIRS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"))

SOURCE = "drafted from a public sample; not yet checked"


def read_sample(path: Any, delimiter: str | None = None) -> Any:
    """Every column of a **public** file: CSV with a header, Parquet or NPZ."""
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"there is no sample file {str(path)!r}.")
    try:
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
        if path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except ImportError:
        raise
    except Exception:
        pass  # raised below without its context, which may quote a cell
    if path.suffix in (".parquet", ".npz"):
        raise unreadable(path)
    if not path.name.endswith((".csv", ".csv.gz")):
        raise InvalidInput(
            f"a sample is a .csv, .csv.gz, .parquet or .npz file; received {str(path)!r}."
        )
    return {name: _typed(cells) for name, cells in csv_cells(path, delimiter).items()}


def _typed(cells: list[str]) -> Any:
    full = [cell for cell in cells if cell.strip()]
    if np.count_nonzero([_is_number(cell) for cell in full]) >= MOSTLY * len(full):
        return np.array([float(cell) if _is_number(cell) else np.nan for cell in cells])
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def drafted(public_sample: Any) -> tuple[Schema, dict[str, str]]:
    """A schema for the columns that can be declared, and why the others were left out."""
    declared: dict[str, Column] = {}
    left_out: dict[str, str] = {}
    for name in column_names(public_sample):
        found = _draft(column(public_sample, name), name)
        if isinstance(found, str):
            left_out[name] = found
        else:
            declared[name] = found
    if not declared:
        raise InvalidInput(
            "no column of the sample can be declared: none has numbers, or labels that at least "
            f"{SHARED} rows share."
        )
    return Schema(declared), left_out


def _draft(values: Any, name: str) -> Column | str:
    """What to declare a column as, or why it cannot be declared."""
    try:
        x = _as_numbers(values, name)
        return _of_labels(values, name) if x is None else _of_numbers(x)
    except InvalidInput:
        return "its type is neither numbers nor labels"


def _as_numbers(values: Any, name: str) -> NDArray[np.float64] | None:
    """The numbers of a public column; None if it is one of labels."""
    try:
        x = cell_numbers(values, name)
    except InvalidInput:
        return None
    # labels in a list, or of Python objects, have no type that says so
    return x if np.isfinite(x).any() or not any(map(_is_text, labels(values, name)[0])) else None


def _is_text(label: Any) -> bool:
    return isinstance(label, str) and label.strip() != ""


def _of_numbers(x: NDArray[np.float64]) -> Column | str:
    x = x[np.isfinite(x)]
    if len(x) == 0:
        return "it has no values"
    low, high = float(x.min()), float(x.max())
    if low == 0.0 and high == 1.0 and np.isin(x, (0.0, 1.0)).all():
        return Binary(1, 0, source=SOURCE)
    margin = 0.25 * high - 0.25 * low or max(1.0, abs(high))
    step = 10.0 ** math.floor(math.log10(margin))
    try:
        low = math.floor((low - margin) / step) * step if low < 0.0 or low > margin else 0.0
        high = math.ceil((high + margin) / step) * step
        return Numeric(float(f"{low:.12g}"), float(f"{high:.12g}"), source=SOURCE)
    except (InvalidInput, OverflowError):
        return "its range cannot be coded in float64"


def _of_labels(values: Any, name: str) -> Column | str:
    found, positions = labels(values, name)
    counts: dict[str, Counter[str]] = {}  # of each spelling, by the label in small letters
    for i in positions.tolist():
        label = str(found[i]).strip() if i >= 0 and isinstance(found[i], (str, int)) else ""
        if label:
            counts.setdefault(label.casefold(), Counter())[label] += 1
    if not counts:
        return "it has no values"
    if set(counts) == set(PAIRS[0]):  # booleans, whether or not the file says so
        return Binary(True, False, source=SOURCE)
    usual = {label: spellings.most_common(1)[0][0] for label, spellings in counts.items()}
    for positive, negative in PAIRS:
        if set(counts) == {positive, negative}:
            return Binary(usual[positive], usual[negative], source=SOURCE)
    shared = [label for label in counts if counts[label].total() >= SHARED]
    levels = sorted(usual[label] for label in shared)
    if not levels or len(levels) > MOST_LEVELS or max(map(len, levels)) > LONGEST_LEVEL:
        return "free text or identifiers: no short list of labels that several rows share"
    other = usual["other"] if "other" in shared else None
    if other is None and len(positions) - sum(counts[one].total() for one in shared) >= SHARED:
        other = "other"  # has rows enough: a level that nobody has takes away everybody's precision
        levels.append(other)
    if len(levels) == 1:
        return "all rows have one label"
    return Categorical(tuple(levels), other=other, source=SOURCE)
