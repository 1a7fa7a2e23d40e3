"""Recursive certificates: the count without and with the skip, against plain Python.

``python -m bench certificates`` prints the table.  Targets: 100 times the plain Python recursion at
1e5 steps without the skip, 1e7 steps in under a millisecond with it (table included).
"""

from __future__ import annotations

import time

import pytest

from bench.harness import compare, is_quick
from dpfast.kernels.certificates import LINEAR_MODEL, RecursionTable
from tests.twins.certificates import recursion_count, recursion_inverse

EIGENVALUE = 0.1288  # of the design of paper 3
D = 5
RECORDS = [10**5] if is_quick() else [10**5, 10**6, 10**7]


def constants(n: int, lreg: float = 0.0) -> tuple[int, float, float, float, float, float]:
    """Robust regression with five covariates in [-1, 1], alpha = 1.2332, rho = 1/2."""
    alpha, rho = 1.2332, 0.5
    g = 0.5 * D / n
    least = 4 * alpha * D / (rho * (1 - rho) * n) + g / rho
    threshold = max(0.0, least - lreg / rho)
    return LINEAR_MODEL, 8 * alpha * D / n, 1 / (2 * alpha), g, lreg, threshold


@pytest.mark.parametrize("lreg", [0.0, 0.05])
@pytest.mark.parametrize("n", RECORDS)
def test_count(benchmark, n, lreg):
    arguments = constants(n, lreg)
    table = RecursionTable(*arguments, 2.5)
    count = table.count(EIGENVALUE)
    found = compare(
        benchmark,
        lambda: table.count(EIGENVALUE),
        case=f"count of {count} steps, ridge {lreg:g}",
        n=n,
        reference=lambda: recursion_count(*arguments, EIGENVALUE),
        limit="100x",
        accuracy=abs(count / recursion_count(*arguments, EIGENVALUE) - 1.0),
    )
    if count > 5e4 and not is_quick():
        assert found["reference"] > 100 * found["function"]


@pytest.mark.parametrize("n", RECORDS)
def test_count_with_its_table(benchmark, n):
    arguments = constants(n)
    compare(
        benchmark,
        lambda: RecursionTable(*arguments, 2.5).count(EIGENVALUE),
        case="count, table built anew",
        n=n,
        reference=lambda: recursion_count(*arguments, EIGENVALUE),
        rounds=3,
    )


def test_plain_recursion_in_c(benchmark):
    """What compiling alone would give: square root, division and exponential in every step."""
    n = RECORDS[-1]
    arguments = constants(n)
    table = RecursionTable(*arguments, 2.5)
    compare(
        benchmark,
        lambda: table.exact_count(EIGENVALUE),
        case="plain recursion in C",
        n=n,
        reference=lambda: recursion_count(*arguments, EIGENVALUE),
        rounds=3,
    )


def test_inverse(benchmark):
    arguments = constants(10**5)
    table = RecursionTable(*arguments, 2.5)
    steps = 200
    compare(
        benchmark,
        lambda: table.inverse(steps),
        case=f"inverse, {steps} steps",
        n=10**5,
        reference=lambda: recursion_inverse(*arguments, steps),
        rounds=3,
    )


def test_ten_million_steps_with_the_skip(benchmark):
    """Table, integral and its inverse: the whole certificate."""
    n = 1_000_000_000
    arguments = constants(n)

    def certificate() -> float:
        table = RecursionTable(*arguments, 2.5)
        return table.integral_inverse(table.integral(EIGENVALUE) - 10.0)

    steps = RecursionTable(*arguments, 2.5).integral(EIGENVALUE)
    assert steps > 1e7
    found = compare(
        benchmark,
        certificate,
        case=f"skip of {steps:.3g} steps, table included",
        n=n,
        limit="1 ms",
        clock=time.process_time,
    )
    assert found["function"] < 1e-3
