"""Small areas beside a linear mixed model and beside least squares of each area, on real tables.

    python -m bench.areas [--houses kc_house_data.csv.gz] [--fits 20]

Log wages by years of education in the states of the census sample that the package has; with
``--houses`` log prices by log area in the zip codes of King County's house sales (Kaggle, public).
The peer is ``MixedLM`` of statsmodels, which is not private.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import warnings
from typing import Any

import numpy as np

import dpfast


def tables(houses: str | None) -> dict[str, tuple[Any, Any, Any]]:
    """Response, covariate and area of each table."""
    census = dpfast.datasets.load_census2000()
    education = np.asarray(census["education"], float) - 13.0
    found = {"census": (np.asarray(census["log_wage"]), education, census["state"])}
    if houses:
        with gzip.open(houses, "rt") as file:
            rows = list(csv.DictReader(file))
        price, area = (
            np.log([float(row[name]) for row in rows]) for name in ("price", "sqft_living")
        )
        found["houses"] = price, area - 7.5, [row["zipcode"] for row in rows]
    return found


def mixed(y: Any, x: Any, area: Any, areas: int) -> tuple[Any, Any, Any]:
    """Coefficients by area of the mixed model, their errors, and spreads between areas."""
    import statsmodels.api as sm

    design = np.column_stack([np.ones(len(y)), x])
    model = sm.MixedLM(y, design, groups=area, exog_re=design).fit(reml=True)
    effects = np.array([model.random_effects[k] for k in range(areas)])
    errors = [np.sqrt(np.diag(model.random_effects_cov[k])) for k in range(areas)]
    return model.fe_params + effects, np.array(errors), np.sqrt(np.diag(model.cov_re))


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each table and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--houses", help="kc_house_data.csv.gz")
    parser.add_argument("--fits", type=int, default=20, help="a budget")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| table | mu | n | areas | RMS from MixedLM, slope | of least squares by area | "
          "standard error | MixedLM | SD between | MixedLM | holds MixedLM | warned |")  # fmt: skip
    for name, (y, x, labels) in tables(options.houses).items():
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
                for seed in range(options.fits)
            ]  # fmt: skip
            off = np.array([fit.params[:, 1] - peer[:, 1] for fit in fits])
            bse = np.array([fit.bse[:, 1] for fit in fits])
            spread = np.median([np.sqrt(fit.between[1, 1]) for fit in fits])
            cells = [
                np.sqrt((off**2).mean()), np.sqrt(((own - peer[:, 1]) ** 2).mean()),
                np.median(bse), np.median(errors[:, 1]), spread, between[1],
                (np.abs(off) < 1.96 * bse).mean(), np.mean([bool(fit.warnings) for fit in fits]),
            ]  # fmt: skip
            told = " | ".join(f"{cell:.4f}" for cell in cells)
            print(f"| {name} | {mu:g} | {len(y):,} | {len(levels)} | {told} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
