"""The example data shipped with dpfast."""

from __future__ import annotations

from dpfast.datasets.census2000 import Table, load_census2000
from dpfast.lazy import missing

__all__ = ["Table", "load_census2000"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
