"""CPU times by kinds of values: what somebody who can time a call may learn

Every cell of X and the response holds one kind of value, for each path through the code; measured
in alternation, on one thread, in CPU time.  Milliseconds for ordinary values, for the others the
ratio to them.  The table states and judges nothing.  dpfast makes no promise about time
(``docs/privacy.md``): where a ratio is not 1, who can time the call learns something about the
values.  Gradual underflow stays, because claim C11 needs it; searches behind the Curator take as
many steps as they need.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import dpfast
from bench.harness import interleaved, processor
from bench.study import Block, study

P = 5
TOTAL = dpfast.ApproxDP(1.0, 1e-6)

#: What every cell of the table holds.
KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ordinary": lambda z: z,
    "zero": lambda z: 0.0 * z,
    "subnormal": lambda z: 1e-310 * z,
    "huge": lambda z: 1e300 * z,
    "NaN": lambda z: np.full_like(z, np.nan),
    "infinite": lambda z: np.where(z > 0.0, np.inf, -np.inf),
    "one NaN in 100": lambda z: np.where(np.arange(len(z)) % 100 == 0, np.nan, z.T).T,
}

Table = tuple[np.ndarray, np.ndarray]
Call = Callable[[Table], object]


def noise() -> dpfast.SeededNoise:
    return dpfast.SeededNoise(1)


def one_thread(table: Table) -> object:
    return dpfast.records(*table, threads=1)


def fitted(loss: str, method: str, scale: float | None = None, inference: bool = True) -> Call:
    objective = dpfast.Objective(loss, weights=dpfast.Mallows(3.0), scale=scale)

    def run(table: Table) -> object:
        X, y = table
        y = (y > 0.0).astype(float) if loss == "logistic" else y
        return dpfast.fit(
            dpfast.records(X, y, threads=1), None, objective, privacy=TOTAL, method=method,
            noise=noise(), standardize=False, inference=inference,
        )  # fmt: skip

    return run


def with_defaults(loss: str) -> Call:
    """Units, and what else is not declared, are bought."""
    return lambda table: dpfast.fit(one_thread(table), None, loss, privacy=TOTAL, noise=noise())


def released(table: Table) -> object:
    return dpfast.release_functional(
        one_thread(table), None, dpfast.Objective("log-cosh", scale=1.0), [1.0, *[0.0] * (P - 1)],
        privacy=TOTAL, noise=noise(), domain=dpfast.models.Ball(3.0), method="paper",
    )  # fmt: skip


def parameter(table: Table) -> object:
    return dpfast.release_parameter(
        one_thread(table), None, dpfast.Objective("log-cosh", scale=1.0), privacy=TOTAL,
        noise=noise(), domain=dpfast.models.Ball(3.0),
    )  # fmt: skip


def minimised(table: Table) -> object:
    return dpfast.minimize(
        one_thread(table), None, dpfast.Objective("tukey", scale=1.0), privacy=TOTAL, noise=noise()
    )


def quantiles(table: Table) -> object:
    return dpfast.private_quantiles(
        table[1], (0.25, 0.5), low=-4.0, high=4.0, privacy=TOTAL, noise=noise()
    )


PATHS: dict[str, Call] = {
    "fit, newton": fitted("log-cosh", "newton", scale=1.0),
    "fit, gradient-descent": fitted("log-cosh", "gradient-descent", scale=1.0),
    "fit, Huber": fitted("huber", "auto", scale=1.0),
    "fit, least squares": with_defaults("least-squares"),
    "fit, logistic": fitted("logistic", "auto"),
    "fit, quantile": fitted("quantile", "auto", scale=1.0),
    "fit, units bought": with_defaults("log-cosh"),
    "private_quantiles": quantiles,
    "release_functional": released,
    "release_parameter": parameter,
    "minimize, tukey": minimised,
}


def tables(n: int) -> dict[str, Table]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P))
    y = X @ np.linspace(1.0, -1.0, P) + rng.normal(size=n)
    return {kind: (change(X), change(y)) for kind, change in KINDS.items()}


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    n = 500 if asked.quick else 5_000
    yield f"n = {n:,}, {P} columns, median of {asked.runs} rounds; {processor()}."
    for name, path in PATHS.items():
        if asked.only in name:
            kinds = {kind: partial(path, table) for kind, table in tables(n).items()}
            times = interleaved(kinds, rounds=asked.runs, budget=0.0, clock=time.process_time)
            usual = times.pop("ordinary")
            ratios = {kind: f"{seconds / usual:.2f}" for kind, seconds in times.items()}
            yield {"path": name, "ordinary, ms": f"{1e3 * usual:.2f}"} | ratios


main = study("sidechannel", measured, __doc__, runs=3)
