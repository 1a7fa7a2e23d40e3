"""How much of what a default fit is charged one record can move: nobody may move more than all.

    python -m bench.used [--runs 3] [--budgets 1] [--only LOSS] [--store]

A pair of tables differs in one record, far out in both or in one of them, in the rows or in the
response; :func:`dpfast.audit.replay` asks both what the fit of the first asked and adds up the
squares of what answers moved by, in units of their noise.  *Used*: the root of it over mu, the most
over pairs and seeds; what is less than 1 was paid for a record that is extreme everywhere at once,
and was not found here.  Noise is seeded: a simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import options, store

RESULTS = Path(__file__).parent / "results" / "used.md"
Array = NDArray[np.float64]

LOSSES = ("least-squares", "log-cosh", "huber", "quantile", "logistic", "poisson")
SIZES = {"few": 2_000, "many": 20_000}

#: Of an extreme row, in spreads of its columns: along all of them, or one without a slope.
FAR = (0.0, 3.0, 30.0, 1e6)
ALONG = (np.ones(3), np.array([0.0, 0.0, 1.0]))


def drawn(rng: np.random.Generator, n: int, loss: str) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 3))
    eta = X @ [0.5, 0.2, 0.0]
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    if loss == "poisson":
        return X, rng.poisson(np.exp(eta)) * 1.0
    return X, eta + rng.normal(size=n)


def responses(loss: str) -> tuple[float, float]:
    return {"logistic": (0.0, 1.0), "poisson": (0.0, 1e4)}.get(loss, (-1e4, 1e4))


def pairs(loss: str) -> Iterator[tuple[tuple[Array, float], tuple[Array, float]]]:
    """Records that take each other's place."""
    low, high = responses(loss)
    for far, other, sign, along, (a, b) in product(
        FAR, FAR, (-1.0, 1.0), ALONG, product((low, high), repeat=2)
    ):
        if (far, a) != (sign * other, b):
            yield (far * along, a), (sign * other * along, b)


def used(loss: str, n: int, mu: float, seed: int, **given: Any) -> float:
    X, y = drawn(np.random.default_rng(seed), n, loss)
    kind = dpfast.Quantile(0.5) if loss == "quantile" else loss

    def fit(data: tuple[Array, Array]) -> dpfast.Fit:
        noise = dpfast.SeededNoise(seed)
        return dpfast.fit(dpfast.records(*data, **given), None, kind, privacy=mu, noise=noise)

    most = 0.0
    for pair in pairs(loss):
        tables = []
        for row, response in pair:
            tables.append((X.copy(), y.copy()))
            tables[-1][0][0], tables[-1][1][0] = row, response
        report = dpfast.audit.replay(fit, *tables, budget=mu)
        most = max(most, report.raise_on_leak().used)
    return most


def main() -> None:
    asked = options("bench.used", __doc__, 3, (1.0,)).parse_args()
    lines = ["| loss | n | mu | used |", "|---|---|---|---|"]
    print("\n".join(lines))
    for loss, n, mu in product(LOSSES, SIZES.values(), asked.budgets):
        if asked.only not in f"{loss}, {n}":
            continue
        most = max(used(loss, n, mu, seed, threads=1) for seed in range(asked.runs))
        lines.append(f"| {loss} | {n:,} | {mu:g} | {most:.2f} |")
        print(lines[-1], flush=True)
    store("bench.used", asked, RESULTS, "\n".join(lines))


if __name__ == "__main__":
    main()
