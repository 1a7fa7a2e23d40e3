"""Few reads of the records: default fits against reading them once, and peers

Log-cosh and logistic fits with intervals by the default method (mu = 1, exact noise) beside
Newton's fixed steps, scikit-learn's `LogisticRegression` (for log-cosh of a response that is cut in
two) and statsmodels' `OLS` with standard errors, which is given the constant column ready made.
Processor time on one thread, median of rounds in which all take turns; in brackets how many times
as long as the default fit. "Of reading X" is the default fit over reading X once and doing nothing
else.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import dpfast
from bench import limits
from bench.harness import Call, interleaved, one_blas_thread, processor
from bench.study import Block, study
from dpfast.arguments import Array

#: Records, columns of X, and least times as fast as LogisticRegression, as statsmodels' OLS with
#: standard errors, and as Newton's fixed steps, that are asked for; most times reading X.
TARGETS: tuple[tuple[int, int, tuple[float | None, ...]], ...] = (
    (1_000_000, 20, (3.5, 20.0, None, 5.0)),
    (100_000, 10, (3.0, 6.0, None, None)),
    (10_000, 10, (None, None, 2.0, None)),
    (1_000, 5, (None, None, 1.0, None)),
)
LOSSES = "logistic", "log-cosh"
PEERS = "LogisticRegression", "OLS", "newton"


def table_of(n: int, p: int, loss: str) -> tuple[Array, Array]:
    """The same covariates for both losses."""
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n, p))
    t = 0.5 + X @ np.linspace(-0.5, 0.5, p)
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(np.float64)
    return X, t + rng.standard_t(4, size=n)


def calls_of(X: Array, y: Array, loss: str) -> dict[str, Call]:
    """What takes turns; peers are given the constant column ready made."""
    scale: Any = None if loss == "logistic" else 1.2

    def ours(method: str) -> Call:
        return lambda: dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective(loss, scale=scale),
            standardize=False,
            privacy=1.0,
            method=method,
        ).conf_int()

    calls = {"default": ours("auto"), "newton": ours("newton")}
    try:
        from sklearn.linear_model import LogisticRegression

        ones = y if loss == "logistic" else (y > 0.5).astype(np.float64)  # same columns
        calls["LogisticRegression"] = lambda: LogisticRegression().fit(X, ones)
    except ImportError:
        pass
    try:
        import statsmodels.api as sm

        design = sm.add_constant(X)
        calls["OLS"] = lambda: sm.OLS(y, design).fit().bse
    except ImportError:
        pass
    return calls


def row(
    n: int, p: int, loss: str, targets: tuple[float | None, ...], rounds: int
) -> dict[str, Any]:
    """Times, and in brackets how many times that of the default fit."""
    X, y = table_of(n, p, loss)
    calls, reading = calls_of(X, y, loss), limits.reading(X, 1)
    if reading is not None:
        calls["reading"] = reading.call
    seconds = interleaved(calls, rounds=rounds, clock=time.process_time)
    if reading is not None:  # small tables are read again and again in one call
        seconds["reading"] *= X.nbytes / reading.work
    ratios = {name: other / seconds["default"] for name, other in seconds.items()}
    asked = {
        name: f"{name} {least:g}: {'met' if ratios[name] >= least else 'missed'}"
        for name, least in zip(PEERS, targets, strict=False)
        if least is not None and name in ratios
    }
    if targets[3] is not None and "reading" in ratios:
        met = "met" if 1.0 / ratios["reading"] <= targets[3] else "missed"
        asked["reading"] = f"reading {targets[3]:g}: {met}"

    def other(name: str) -> str:
        return f"{1e3 * seconds[name]:.3g} ms ({ratios[name]:.2f})" if name in seconds else "-"

    return {
        "loss": loss, "n": n, "columns": p, "default fit": f"{1e3 * seconds['default']:.3g} ms",
        "of reading X": f"{1.0 / ratios['reading']:.2f}" if "reading" in ratios else "-",
        "Newton's fixed steps": other("newton"), **{name: other(name) for name in PEERS[:2]},
        "asked for": ", ".join(asked.values()) or "-",
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    with one_blas_thread():
        for n, p, targets in TARGETS[2 if asked.quick else 0 :]:
            for loss in LOSSES:
                yield row(n, p, loss, targets, asked.runs)
    yield f"{processor()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.2f} at the end."


main = study("passes", measured, __doc__, runs=9, quick=3)
