"""Users' losses with the formulas of log-cosh and pseudo-Huber against the built-in ones.

One thread, Mallows weights.  "reference_seconds" is the built-in loss, so that "speedup" is below
1: the price of a loss of one's own.  The target is 1/1.5.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench import limits
from bench.harness import is_quick
from dpfast.kernels import records
from dpfast.models import CustomLoss, LogCosh, Mallows, Objective, PseudoHuber

C = 1.345
GRID = [(10_000, 10)] if is_quick() else [(10_000, 10), (200_000, 10), (200_000, 50)]


def log_cosh(r: float) -> float:
    u = abs(r) / C
    return C * C * (u + math.log1p(math.exp(-2.0 * u)) - math.log(2.0))


def log_cosh_psi(r: float) -> float:
    return C * math.tanh(r / C)


def log_cosh_psi_prime(r: float) -> float:
    return 1.0 - math.tanh(r / C) ** 2


def pseudo_huber(r: float) -> float:
    return C * C * (math.sqrt(1.0 + (r / C) * (r / C)) - 1.0)


def pseudo_huber_psi(r: float) -> float:
    return r / math.sqrt(1.0 + (r / C) * (r / C))


def pseudo_huber_psi_prime(r: float) -> float:
    square = 1.0 + (r / C) * (r / C)
    return 1.0 / (square * math.sqrt(square))


KINDS = {
    "log-cosh": (LogCosh(C), log_cosh, log_cosh_psi, log_cosh_psi_prime),
    "pseudo-Huber": (PseudoHuber(C), pseudo_huber, pseudo_huber_psi, pseudo_huber_psi_prime),
}


@pytest.mark.parametrize(("n", "p"), GRID)
@pytest.mark.parametrize("want", [records.GRADIENT, records.GRADIENT | records.HESSIAN])
@pytest.mark.parametrize("name", KINDS)
def test_user_loss(benchmark, n, p, want, name):
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(n, p)), np.zeros(p + 1)
    y = X.sum(axis=1) + rng.normal(size=n)
    built_in_loss, *functions = KINDS[name]
    own = CustomLoss(*functions, psi_bound=C, psi_prime_bound=1.0)
    kernels = [
        records.RecordKernel(*Objective(kind, Mallows(3.0), p, scale=1.0).kernel_arguments())
        for kind in (own, built_in_loss)
    ]
    calls = {
        name: lambda kernel=kernel: kernel.sums(X, y, theta, want, float(n), 1)
        for name, kernel in zip(("function", "reference"), kernels, strict=True)
    }
    measured = limits.timings(calls, rounds=3 if is_quick() else 9)
    benchmark.pedantic(calls["function"], rounds=3, iterations=1)
    ours, built_in = (call()[0] for call in calls.values())
    benchmark.extra_info.update(
        {
            "case": f"user {name}, gradient" + (" and Hessian" if want > 1 else ""),
            "n": n,
            "p": p,
            "seconds": measured["function"].median,
            "reference_seconds": measured["reference"].median,
            "speedup": measured["reference"].median / measured["function"].median,
            "accuracy": float(np.abs(ours - built_in).max() / np.abs(built_in).max()),
        }
    )
