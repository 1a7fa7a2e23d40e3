"""Which law, certificate and fallback a release should have: error of repeated calls.

    python -m bench.releases.defaults [--data FOLDER] [--runs 12]

Simulated designs, and real tables of the folder with columns coded by their first and last
percentiles as if these were public.  The error is that of the first covariate's coefficient
beside the exact one *in these data*, root mean square over the runs; ``-`` where a run in three or
more was not certified.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.rivals.tables import LOGISTIC_TABLES, TABLES, available, read

DELTA = 1e-6
OPTIONS: dict[str, dict[str, Any]] = {
    "laplace, global": {"noise_law": "laplace", "certificate": "global"},
    "student, global": {"noise_law": "student", "certificate": "global"},
    "auto, global": {"certificate": "global"},
    "laplace, leverage": {"noise_law": "laplace", "certificate": "leverage"},
    "auto, leverage": {"certificate": "leverage"},
    "auto, leverage, fallback": {
        "certificate": "leverage", "fallback": "objective-perturbation",
    },
}  # fmt: skip


class Design(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    loss: str
    scale: float | None
    domain: dpfast.Box


def simulated() -> Iterator[Design]:
    """Boxes filled evenly, thinly, and by binary columns; 3 and 10 covariates."""
    rng = np.random.default_rng(5)
    for n in (1_000, 3_000, 10_000, 50_000):
        for p, kind in ((3, "even"), (10, "even"), (4, "binary"), (3, "thin")):
            X = rng.uniform(-1, 1, (n, p))
            if kind == "binary":
                X = np.where(X > 0.5, 1.0, -1.0)
            if kind == "thin":
                X *= 0.3
            t = X @ np.linspace(1.0, -1.0, p)
            y = (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0
            box = dpfast.Box(1.0, intercept=True)
            yield Design(f"{kind}, p={p}, n={n:,}", X, y, "logistic", None, box)


def real(folder: Path) -> Iterator[Design]:
    rng = np.random.default_rng(6)
    for tables, loss in ((TABLES[:8], "log-cosh"), (LOGISTIC_TABLES, "logistic")):
        for table in available(tables, folder):
            X, y = read(table, folder)
            low, high = np.quantile(X, [0.01, 0.99], axis=0)
            high = np.where(high > low, high, low + 1.0)
            X = (X - (low + high) / 2.0) / ((high - low) / 2.0)
            if loss == "log-cosh":
                y = (y - np.median(y)) / np.std(y)
            keep = rng.permutation(len(y))
            for n in sorted({min(len(y), size) for size in (5_000, 20_000, 100_000)}):
                rows = keep[:n]
                scale = None if loss == "logistic" else 0.7
                box = dpfast.Box(1.0, intercept=True)
                name = f"{table.name}, p={X.shape[1]}, n={n:,}"
                yield Design(name, X[rows], y[rows], loss, scale, box)


def errors(design: Design, epsilon: float, runs: int) -> dict[str, tuple[float, float]]:
    """Root mean square error and share of certified runs, for each of the options and for `fit`."""
    X = design.domain.bind(design.X.shape[1]).project(design.X)
    radius = design.domain.bind(design.X.shape[1]).radius
    weights = dpfast.Bounded(radius * (1 + 1e-9))
    exact = dpfast.nonprivate_fit(X, design.y, design.loss, scale=design.scale, weights=weights)
    target, found = exact.params[1], {}
    common: dict[str, Any] = {
        "privacy": dpfast.ApproxDP(epsilon, DELTA), "domain": design.domain, "scale": design.scale,
    }  # fmt: skip
    direction = np.eye(len(exact.params))[1]
    for name, options in OPTIONS.items():
        values, certified = [], 0
        for seed in range(runs):
            result = dpfast.release_functional(
                X, design.y, design.loss, direction, noise=dpfast.SeededNoise(seed),
                **common, **options,
            )  # fmt: skip
            if isinstance(result, dpfast.release.ParameterRelease):
                values.append(result.params[1])
            elif result.certified:
                values.append(result.value)
            certified += result.certified
        enough = len(values) > 2 * runs / 3
        rms = float(np.sqrt(np.mean(np.square(np.array(values) - target)))) if enough else np.inf
        found[name] = rms, certified / runs
    fits = [
        dpfast.fit(
            X, design.y, design.loss, privacy=common["privacy"], scale=design.scale,
            weights=weights, noise=dpfast.SeededNoise(seed), inference=False,
        ).params[1]
        for seed in range(runs)
    ]  # fmt: skip
    found["fit"] = float(np.sqrt(np.mean(np.square(np.array(fits) - target)))), 1.0
    found["standard error of sampling"] = float(exact.bse[1]), 1.0
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    asked = parser.parse_args(arguments)
    designs = [*simulated(), *(real(Path(asked.data)) if asked.data else ())]
    columns = [*OPTIONS, "fit", "standard error of sampling"]
    print("| design | epsilon | " + " | ".join(columns) + " |")
    print("|---" * (2 + len(columns)) + "|")
    for design in designs:
        for epsilon in asked.epsilon:
            found = errors(design, epsilon, asked.runs)
            cells = [f"{e:.3g}" if e < np.inf else "-" for e, _ in found.values()]
            print(f"| {design.name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
