"""What a comparison of two builds measures; run in a process of its own with one build on the path.

Reads the number of a probe from standard input, runs it for a few hundredths of a second, prints
the seconds of one call; "memory" prints the peak resident size.  Only public names that older
builds had, too.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np

#: Seconds of one measurement.
SPAN = 0.04

Probe = tuple[str, Callable[[], object]]


def probes() -> list[Probe]:
    """Name and call of every probe."""
    import dpfast
    from dpfast.kernels.linalg import newton_direction
    from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordKernel

    rng = np.random.default_rng(0)
    found: list[Probe] = []
    log_cosh = RecordKernel(1, 1.345, 1.0, 1, 3.0, False)
    logistic = RecordKernel(3, 1.0, 1.0, 1, 3.0, False)
    for n, p in ((1_000, 5), (100_000, 10), (1_000_000, 10), (200_000, 50)):
        X, y = rng.normal(size=(n, p)), rng.normal(size=n)
        theta = 0.1 * np.ones(p)
        labels = (y > 0).astype(float)
        size = f"{n:.0e} x {p}".replace("e+0", "e")
        for name, kernel, response in (("log-cosh", log_cosh, y), ("logistic", logistic, labels)):
            for what, want in (
                ("gradient", GRADIENT),
                ("gradient + Hessian + meat", GRADIENT | HESSIAN | MEAT),
            ):
                if n > 100_000 and (name == "logistic" or (p == 10 and want != GRADIENT)):
                    continue  # the same loops
                found.append(
                    (
                        f"{what}, {name}, {size}",
                        lambda X=X, y=response, theta=theta, kernel=kernel, want=want: kernel.sums(
                            X, y, theta, want, float(len(y))
                        ),
                    )
                )
    matrix = np.cov(rng.normal(size=(4, 50)))
    vector = np.ones(4)
    found.append(("Newton direction, p = 4", lambda: newton_direction(matrix, vector, 1e-3)))
    X, y = rng.normal(size=(1_000, 4)), rng.normal(size=1_000)
    noise = dpfast.SeededNoise(0)
    found.append(
        (
            "fit with intervals, 1e3 x 5",
            lambda: dpfast.fit(
                X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, noise=noise
            ),
        )
    )
    return found


def measure(call: Callable[[], object]) -> float:
    """Seconds of one call, over as many as take ``SPAN``."""
    start = time.perf_counter()
    call()
    repeats = max(1, int(SPAN / max(time.perf_counter() - start, 1e-9)))
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    known = probes()
    print(len(known), flush=True)
    for name, _ in known:
        print(name, flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0, flush=True)
        else:
            print(measure(known[int(line)][1]), flush=True)


if __name__ == "__main__":
    main()
