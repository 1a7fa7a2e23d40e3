"""Kernels of the smoothed quantile against NumPy, the logistic loss and the limits of the machine.

    python -m bench.quantile_kernels [--quick]

Stored as ``bench/results/quantile-kernels.md``: one thread, best rounds in alternation.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench import limits
from bench.stored import keep
from bench.table import seconds_text
from dpfast.kernels import records
from dpfast.models.losses import Logistic
from dpfast.models.quantile import NarrowQuantile, Quantile

RESULTS = Path(__file__).parent / "results"
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


def row(name: str, n: int, p: int, what: str, rounds: int) -> str:
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
    cells = [name, f"{n:,}", str(p), what, seconds_text(best["ours"])]
    cells += [f"{best[key] / best['ours']:.2f}" for key in ("NumPy", "logistic")]
    return "| " + " | ".join([*cells, part]) + " |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="3 rounds, nothing stored")
    options = parser.parse_args(arguments)
    headings = (
        "bandwidths", "n", "p", "sums", "time", "NumPy / ours", "logistic / ours", "of the limit",
    )  # fmt: skip
    lines = [
        "# Kernels of the smoothed quantile",
        "",
        "`python -m bench.quantile_kernels`: one thread, Mallows weights, best rounds in "
        "alternation. The limit of a score alone is reading X and y, that of matrices a "
        "compute-bound `dsyrk` of their multiplications. NumPy is given one thread. Parts above 1 "
        "are those of a round in which the limit had neighbours: its best was not its best.",
        "",
        "| " + " | ".join(headings) + " |",
        "|---" * len(headings) + "|",
    ]
    for n, p in SIZES:
        for what in WANTED:
            for name in LOSSES:
                lines.append(row(name, n, p, what, 3 if options.quick else 40))
                print(lines[-1], file=sys.stderr, flush=True)
    if not options.quick:
        keep(RESULTS / "quantile-kernels.md", "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
