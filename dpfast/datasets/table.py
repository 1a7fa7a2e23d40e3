"""Table of a dataset, with its description and licence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dpfast.errors import described


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns of equal length with their description, provenance and licence.

    Attributes
    ----------
    name : str
    data : mapping of str to ndarray
        Read-only columns.  ``table["education"]`` is short for ``table.data["education"]``.
    labels : mapping of str to str
        Description of each column.
    description, provenance, licence : str

    Privacy
    -------
    Public data, for examples and comparisons.

    Examples
    --------
    >>> table = dpfast.datasets.load_census2000()
    >>> table["education"].shape == (len(table),)
    True
    """

    name: str
    data: Mapping[str, NDArray[Any]]
    labels: Mapping[str, str]
    description: str
    provenance: str
    licence: str

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(self.data)

    def __len__(self) -> int:
        return len(next(iter(self.data.values())))

    def __getitem__(self, name: str) -> NDArray[Any]:
        if not isinstance(name, str) or name not in self.data:
            raise KeyError(
                f"{self.name} has no column {described(name, text=True)}; it has "
                f"{', '.join(self.names)}"
            )
        return self.data[name]

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows: {', '.join(self.names)})"
