"""Waves of the General Social Survey, released year by year under one total of mu = 1

Log income on age, prestige and sex: the coefficient of women and its standard error, of each year
and of all years so far, beside exact least squares of that year.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.study import Block, study

FIRST_YEAR = 1994


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for survey in available(tables("waves")):
        X, y = read(survey)
        years = [year for year in np.unique(X[:, 0]) if year >= FIRST_YEAR]
        waves = dpfast.tables.Waves(1.0, waves=len(years), noise=dpfast.SeededNoise(1))
        for year in years[: 3 if asked.quick else None]:
            part = X[:, 0] == year
            released = waves.update(X[part, 1:], y[part])
            fits = {
                "exact": dpfast.nonprivate_fit(X[part, 1:], y[part]),
                "released": released.wave,
                "pooled": released.pooled,
            }
            cells = {k: f"{fit.params[3]:.3f} ({fit.bse[3]:.3f})" for k, fit in fits.items()}
            yield {"year": f"{year:.0f}", "n": int(part.sum())} | cells


main = study("waves", measured, __doc__)
