"""Whole files of public samples, to draft a schema from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpfast.data.files.tables import csv_cells
from dpfast.errors import InvalidInput

__all__ = ["read_sample"]


def read_sample(path: Any) -> Any:
    """Every column of a **public** file: CSV with a header, Parquet or NPZ.

    A CSV column is numeric if every cell that is not empty is a number.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"there is no sample file {str(path)!r}.")
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    if path.suffix != ".csv":
        raise InvalidInput(f"a sample is a .csv, .parquet or .npz file; received {str(path)!r}.")
    return {name: _typed(cells) for name, cells in csv_cells(path).items()}


def _typed(cells: list[str]) -> Any:
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return np.array(cells, dtype=object)
