"""Small areas beside a linear mixed model and least squares of each area, on real tables

Log wages by years of education in the states of the census sample that the package has, and log
prices by log area in the zip codes of King County's house sales, if these are here.  The peer is
``MixedLM`` of statsmodels, which is not private.  *Off*: root mean square distance of slopes from
it, and of least squares by area.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import dpfast
from bench.public_tables import data_folder, frame
from bench.study import Block, study


def tables() -> dict[str, tuple[Any, Any, Any]]:
    """Response, covariate and area of each table."""
    census = dpfast.datasets.load_census2000()
    education = np.asarray(census["education"], float) - 13.0
    found = {"census": (np.asarray(census["log_wage"]), education, census["state"])}
    folder = data_folder()
    if folder is not None and (folder / "kc_house_data.csv.gz").exists():
        rows = frame("kc_house_data.csv.gz")
        price, area = np.log(rows["price"]), np.log(rows["sqft_living"])
        found["houses"] = np.asarray(price), np.asarray(area) - 7.5, rows["zipcode"]
    return found


def mixed(y: Any, x: Any, area: Any, areas: int) -> tuple[Any, Any, Any]:
    """Coefficients by area of the mixed model, their errors, and spreads between areas."""
    import statsmodels.api as sm

    design = np.column_stack([np.ones(len(y)), x])
    model = sm.MixedLM(y, design, groups=area, exog_re=design).fit(reml=True)
    effects = np.array([model.random_effects[k] for k in range(areas)])
    errors = [np.sqrt(np.diag(model.random_effects_cov[k])) for k in range(areas)]
    return model.fe_params + effects, np.array(errors), np.sqrt(np.diag(model.cov_re))


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for name, (y, x, labels) in tables().items():
        if asked.only not in name:
            continue
        levels, area = np.unique(labels, return_inverse=True)
        peer, errors, between = mixed(y, x, area, len(levels))
        own = np.array([np.polyfit(x[area == k], y[area == k], 1)[0] for k in range(len(levels))])
        schema = dpfast.Schema({"area": dpfast.Categorical(range(len(levels)))})
        for mu in (1.0, 3.0):
            fits = [
                dpfast.tables.small_areas(
                    "y ~ x", {"y": y, "x": x, "area": area}, "area", schema=schema, privacy=mu,
                    noise=dpfast.SeededNoise(10**4 + seed),
                )
                for seed in range(asked.runs)
            ]  # fmt: skip
            off = np.array([fit.params[:, 1] - peer[:, 1] for fit in fits])
            bse = np.array([fit.bse[:, 1] for fit in fits])
            yield {
                "table": name, "mu": mu, "n": len(y), "areas": len(levels),
                "off": np.sqrt((off**2).mean()),
                "least squares, off": np.sqrt(((own - peer[:, 1]) ** 2).mean()),
                "standard error": np.median(bse), "MixedLM": np.median(errors[:, 1]),
                "SD between": np.median([np.sqrt(fit.between[1, 1]) for fit in fits]),
                "by MixedLM": between[1], "holds MixedLM": (np.abs(off) < 1.96 * bse).mean(),
                "warned": np.mean([bool(fit.warnings) for fit in fits]),
            }  # fmt: skip


main = study("areas", measured, __doc__, runs=20)
