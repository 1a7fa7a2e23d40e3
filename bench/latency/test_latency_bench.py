"""Small private fits with intervals against the arithmetic of Newton's steps in C (arithmetic.pyx).

One thread, processor time of this process.  What is left between the two is the price of being
checked: arguments, plan, ledger, receipts, and Python.  The default method decides on released
answers what to ask next; it is compared with the same arithmetic, which is not its own.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

import dpfast
from bench.harness import compare
from bench.latency.compiled import NORMAL, CompiledFit
from dpfast.privacy.noise import NoiseSource

TARGET = 3.0

NAMES = {"newton": "Newton", "auto": "default"}
REFERENCES = {"newton": "its arithmetic", "auto": "Newton's arithmetic"}


@pytest.mark.parametrize(("n", "p"), [(1_000, 5), (10_000, 10)])
@pytest.mark.parametrize("kind", ["exact", "seeded"])
@pytest.mark.parametrize("method", ["newton", "auto"])
def test_fit_against_its_arithmetic(benchmark, method, kind, n, p):
    pytest.importorskip("Cython")
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n, p - 1))
    y = X.sum(axis=1) + rng.normal(size=n)
    compiled = CompiledFit(X, y, scale=1.0, mu=1.0)

    def fit(noise: NoiseSource, method: str = method) -> tuple[np.ndarray, np.ndarray]:
        found = dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=1.0,
            method=method,
            noise=noise,
        )
        found.conf_int()  # part of what is timed
        return found.params, found.bse

    theta, interval = compiled(np.random.PCG64(np.random.SeedSequence(7)))
    same = fit(dpfast.SeededNoise(7), "newton")  # they compute the same
    np.testing.assert_allclose(same[0], theta, rtol=1e-9)
    # but for what a fit knows of early steps: they met no more curvature than their majorising one
    np.testing.assert_allclose(same[1], np.diff(interval)[:, 0] / (2.0 * NORMAL), rtol=1e-5)

    noise = dpfast.privacy.EntropyNoise() if kind == "exact" else dpfast.SeededNoise(7)
    generator = None if kind == "exact" else np.random.PCG64(7)
    medians = compare(
        benchmark,
        lambda: fit(noise),
        case=f"fit with intervals, {NAMES[method]}, {kind} noise | {REFERENCES[method]} in C",
        n=n,
        p=p,
        reference=lambda: compiled(generator),
        rounds=41,
        limit=f"{TARGET:g}x target",
        clock=time.process_time,
    )
    benchmark.extra_info["fraction"] = medians["function"] / medians["reference"] / TARGET
