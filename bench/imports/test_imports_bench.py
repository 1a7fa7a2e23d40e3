"""What a fresh process pays before its first answer.

Every measurement is a new interpreter, in alternation with a bare one (`python -c pass`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

import pytest

from bench.harness import is_quick

ROUNDS = 5 if is_quick() else 31

FIRST_FIT = """
import numpy as np
import dpfast
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 4))
y = X.sum(axis=1) + rng.normal(size=1000)
dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0)
"""
OWN_LOSS = """
import math
import dpfast
def loss(r): return abs(r) - math.log1p(abs(r))
def psi(r): return math.tanh(r)
def psi_prime(r): return 1.0 - math.tanh(r) ** 2
dpfast.CustomLoss(loss, psi, psi_prime, psi_bound=1.0, psi_prime_bound=1.0).compiled
"""
DEMO_DATA = "from dpfast.datasets import load_census2000; load_census2000()"
HEAVY = (
    "numpy",
    "scipy",
    "scipy.linalg",
    "scipy.special",
    "scipy.optimize",
    "scipy.stats",
    "numba",
)


def seconds_of(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def heavy_modules(code: str) -> list[str]:
    """Which of the modules worth knowing about `code` has loaded when it ends."""
    report = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    output = subprocess.run(
        [sys.executable, "-c", report], check=True, capture_output=True, text=True
    )
    return output.stdout.split()


@pytest.mark.parametrize(
    ("case", "code", "target", "bare_subtracted"),
    [
        ("import dpfast, beyond the interpreter", "import dpfast", 5e-3, True),
        ("import numpy, beyond the interpreter", "import numpy", None, True),
        ("load_census2000, fresh process", DEMO_DATA, None, False),
        ("first fit, fresh process", FIRST_FIT, 0.5, False),
        ("a loss of one's own, compiled by Numba", OWN_LOSS, None, False),
    ],
)
def test_fresh_process(benchmark, case, code, target, bare_subtracted):
    if code == OWN_LOSS:
        pytest.importorskip("numba")
    bare: list[float] = []
    measured: list[float] = []
    seconds_of(code)  # bytecode and disk caches

    def measure() -> None:
        measured.append(seconds_of(code))

    def interleave() -> None:
        bare.append(seconds_of("pass"))

    benchmark.pedantic(measure, setup=interleave, rounds=ROUNDS)
    seconds = median(measured) - (median(bare) if bare_subtracted else 0.0)
    modules = heavy_modules(code)
    benchmark.extra_info.update(
        case=f"{case} (loads {' '.join(modules) or 'nothing heavy'})",
        seconds=seconds,
        reference_seconds=median(bare),
        modules=modules,
    )
    if target is not None:
        benchmark.extra_info.update(limit=f"{target:g} s target", fraction=seconds / target)
