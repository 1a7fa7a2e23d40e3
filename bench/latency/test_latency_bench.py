"""Small private fits with intervals against their own arithmetic in C (arithmetic.pyx).

One thread, processor time of this process.  What is left between the two is the price of being
checked: arguments, plan, ledger, receipts, and Python.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dpfast
from bench.harness import compare
from bench.latency.compiled import CompiledFit

TARGET = 3.0


@pytest.mark.parametrize(("n", "p"), [(1_000, 5), (10_000, 10)])
@pytest.mark.parametrize("kind", ["exact", "seeded"])
def test_fit_against_its_arithmetic(benchmark, kind, n, p):
    pytest.importorskip("Cython")
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n, p - 1))
    y = X.sum(axis=1) + rng.normal(size=n)
    compiled = CompiledFit(X, y, scale=1.0, mu=1.0)

    def fit(noise: dpfast.NoiseSource) -> tuple[np.ndarray, np.ndarray]:
        found = dpfast.fit(X, y, "log-cosh", scale=1.0, privacy=1.0, noise=noise, threads=1)
        return found.params, found.conf_int()

    same_stream = np.random.PCG64(np.random.SeedSequence(7))
    for ours, arithmetic in zip(fit(dpfast.SeededNoise(7)), compiled(same_stream), strict=True):
        np.testing.assert_allclose(ours, arithmetic, rtol=1e-9)  # they compute the same

    noise = dpfast.EntropyNoise() if kind == "exact" else dpfast.SeededNoise(7)
    generator = None if kind == "exact" else np.random.PCG64(7)
    medians = compare(
        benchmark,
        lambda: fit(noise),
        case=f"fit with intervals, {kind} noise | its arithmetic in C",
        n=n,
        p=p,
        reference=lambda: compiled(generator),
        rounds=41,
        limit=f"{TARGET:g}x target",
        clock=time.process_time,
    )
    benchmark.extra_info["fraction"] = medians["function"] / medians["reference"] / TARGET
