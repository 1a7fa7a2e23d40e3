"""Kernels of the smoothed quantile against NumPy, the logistic loss and the limits of the machine

One thread, Mallows weights, best rounds in alternation. The limit of a score alone is reading X and
y, that of matrices a compute-bound `dsyrk` of their multiplications. NumPy is given one thread.
Parts above 1 are those of a round in which the limit had neighbours: its best was not its best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from bench import limits
from bench.study import Block, study
from bench.table import seconds_text
from dpfast.kernels import records
from dpfast.models.losses import Logistic
from dpfast.models.quantile import NarrowQuantile, Quantile

SIZES = [(1_000, 5), (100_000, 10), (1_000_000, 10), (100_000, 50)]
WANTED = {"score": 1, "score, curvature": 3, "score, curvature, meat": 7}
LOSSES = {"one bandwidth": Quantile(0.9, 0.1), "two bandwidths": NarrowQuantile(0.9, 0.3)}
MALLOWS, RADIUS = 1, 2.0


def numpy_sums(loss: Any, X: np.ndarray, y: np.ndarray, theta: np.ndarray, want: int) -> list[Any]:
    """The same sums in NumPy."""
    weights = np.minimum(1.0, RADIUS**2 / np.einsum("ij,ij->i", X, X))
    residuals = y - X @ theta
    scores = weights * loss.psi(residuals)
    found = [-(X.T @ scores) / len(y)]
    if want & 2:
        found.append((X.T * (weights * loss.psi_prime(residuals))) @ X / len(y))
    if want & 4:
        found.append((X.T * scores**2) @ X / len(y))
    return found


def row(name: str, n: int, p: int, what: str, rounds: int) -> dict[str, Any]:
    """One line of the table."""
    rng = np.random.default_rng([n, p])
    X, theta = rng.normal(size=(n, p)), rng.normal(size=p) / p**0.5
    y, loss, want = X @ theta + rng.normal(size=n), LOSSES[name], WANTED[what]
    labels = (y > 0.0).astype(np.float64)
    kernel = records.RecordKernel(loss.code, loss.c, 1.0, MALLOWS, RADIUS, False, h=loss.h)
    other = records.RecordKernel(Logistic.code, 1.0, 1.0, MALLOWS, RADIUS, False)
    expected = numpy_sums(loss, X, y, theta, want)
    for mine, theirs in zip(kernel.sums(X, y, theta, want, float(n), 1), expected, strict=False):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-10)
    calls = {
        "ours": lambda: kernel.sums(X, y, theta, want, float(n), 1),
        "logistic": lambda: other.sums(X, labels, theta, want, float(n), 1),
        "NumPy": lambda: numpy_sums(loss, X, y, theta, want),
    }
    matrices = bin(want).count("1") - 1
    limit = limits.dsyrk() if matrices else limits.reading(X, 1)
    if limit is not None:
        calls["limit"] = limit.call
    best = {key: min(each) for key, each in limits.rounds_of(calls, rounds=rounds).items()}
    work = matrices * n * p * (p + 1) if matrices else X.nbytes + y.nbytes
    part = "-" if limit is None else f"{work / limit.work * best['limit'] / best['ours']:.2f}"
    return {
        "bandwidths": name, "n": n, "p": p, "sums": what, "time": seconds_text(best["ours"]),
        "NumPy / ours": f"{best['NumPy'] / best['ours']:.2f}",
        "logistic / ours": f"{best['logistic'] / best['ours']:.2f}", "of the limit": part,
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for (n, p), what, name in product(SIZES[: 1 if asked.quick else None], WANTED, LOSSES):
        yield row(name, n, p, what, asked.runs)


main = study("quantile-kernels", measured, __doc__, runs=40, quick=3)
