"""The example data shipped with dpfast."""

from __future__ import annotations

from dpfast.datasets.census2000 import load_census2000
from dpfast.datasets.table import Table

__all__ = ["Table", "load_census2000"]
