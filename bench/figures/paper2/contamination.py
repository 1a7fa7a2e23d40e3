"""Redescending against convex robust regression on contaminated house prices."""

from __future__ import annotations

from typing import Any

import numpy as np

import dpfast
from bench.figures.runner import Outcome, Panel, Run, data_folder, declared
from bench.public_tables import frame

LOSSES = ("tukey", "welsch", "geman-mcclure", "cauchy")
SHARES = (0.0, 0.1, 0.2, 0.3)
COLUMNS = ("housing_median_age", "median_income", "rooms", "bedrooms", "persons", "latitude")


def houses() -> tuple[np.ndarray, np.ndarray] | None:
    """Log median value and six covariates of the 1990 block groups, on public scales."""
    folder = data_folder()
    if folder is None or not (folder / "california_housing_1990.csv.gz").exists():
        return None
    table = frame("california_housing_1990.csv.gz").dropna(subset=["total_bedrooms"])

    def column(name: str) -> np.ndarray:
        return table[name].to_numpy(float)

    households = column("households")
    X = np.column_stack(
        [
            (column("housing_median_age") - 28.0) / 12.0,
            (column("median_income") - 4.0) / 2.0,
            (column("total_rooms") / households - 5.0) / 2.0,
            (column("total_bedrooms") / households - 1.0) / 0.5,
            (column("population") / households - 3.0) / 2.0,
            (column("latitude") - 35.5) / 2.0,
        ]
    )
    return X, np.log(column("median_house_value")) - 12.0


@declared("paper2/contamination")
def contamination(run: Run) -> Outcome:
    data = houses()
    if data is None:
        return Outcome({}, "not applicable", "the data folder is not there")
    X, y = data
    rng = run.rng("split")
    order = rng.permutation(len(y))
    test, train = order[:4000], order[4000 : 8000 if run.quick else None]
    reps = 2 if run.quick else 10
    budget = dpfast.ZCDP(0.05)
    rows: list[dict[str, Any]] = []
    for i, share in enumerate(SHARES):
        bad = train[: int(share * len(train))]
        wrong = y.copy()
        wrong[bad] = 3.0 + 0.5 * rng.normal(size=len(bad))  # twenty times the price
        clean = dpfast.nonprivate_fit(
            X[train], y[train], dpfast.Objective("huber", scale=0.35)
        ).params
        for loss in ("huber", *LOSSES):
            errors, distances = [], []
            for r in range(reps):
                options: dict[str, Any] = {
                    "privacy": budget,
                    "noise": dpfast.SeededNoise(run.seed(share, loss, r)),
                }
                asked = dpfast.Objective(loss, scale=0.35)
                if loss == "huber":
                    fit = dpfast.fit(X[train], wrong[train], asked, inference=False, **options)
                else:
                    fit = dpfast.minimize(X[train], wrong[train], asked, **options)
                errors.append(float(np.mean(np.abs(fit.predict(X[test]) - y[test]))))
                distances.append(float(np.linalg.norm(fit.params - clean)))
            rows.append(
                {
                    "outliers": share,
                    "loss": loss,
                    "test error": float(np.mean(errors)),
                    "distance": float(np.mean(distances)),
                }
            )
        run.progress(i + 1, len(SHARES))

    lines = {
        loss: [row["test error"] for row in rows if row["loss"] == loss]
        for loss in ("huber", *LOSSES)
    }
    axes = {
        "xlabel": "gross outliers in the training records (%)",
        "ylabel": "mean absolute error of log price, clean test records",
    }
    panel = Panel([100 * share for share in SHARES], lines, axes, styles={"huber": "ks--"})

    def error(loss: str, share: float) -> float:
        return next(
            row["test error"] for row in rows if row["loss"] == loss and row["outliers"] == share
        )

    worst = SHARES[-1]
    best = min(LOSSES, key=lambda loss: error(loss, worst))
    remark = (
        f"n={len(train)}; mean absolute error at {worst:.0%} outliers: huber "
        f"{error('huber', worst):.3f}, {best} {error(best, worst):.3f}; without outliers huber "
        f"{error('huber', 0.0):.3f}, {best} {error(best, 0.0):.3f}"
    )
    won = all(min(error(loss, s) for loss in LOSSES) < error("huber", s) for s in SHARES[1:])
    return Outcome({"rows": rows}, "yes" if won else "in part", remark, [panel])
