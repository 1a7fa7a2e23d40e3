"""Default fits against reading the records once, scikit-learn and statsmodels, paired, in one run.

    python -m bench passes               print the table
    python -m bench passes --store       and write it to bench/results/passes.md
    python -m bench passes --quick       small tables, printed only

Every fit has intervals.  Processor time of this process on one thread, median of the rounds, in
which the calls take turns on the same data.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench import limits
from bench.harness import Call, interleaved, processor
from bench.stored import keep

Array = NDArray[np.float64]
STORED = Path(__file__).with_name("results") / "passes.md"

#: Records, columns of X, and least times as fast as LogisticRegression, as statsmodels' OLS with
#: standard errors, and as Newton's fixed steps, that are asked for; most times reading X.
TARGETS: tuple[tuple[int, int, tuple[float | None, ...]], ...] = (
    (1_000_000, 20, (3.5, 20.0, None, 5.0)),
    (100_000, 10, (3.0, 6.0, None, None)),
    (10_000, 10, (None, None, 2.0, None)),
    (1_000, 5, (None, None, 1.0, None)),
)
LOSSES = "logistic", "log-cosh"
HEAD = (
    "| loss | n | columns | default fit | of reading X | Newton's fixed steps | LogisticRegression "
    "| OLS | asked for |\n|---|--:|--:|--:|--:|--:|--:|--:|---|"
)


class Row(NamedTuple):
    """Seconds of one case; None where the library is not installed."""

    loss: str
    n: int
    p: int
    targets: tuple[float | None, ...]
    seconds: dict[str, float]

    def ratio(self, name: str) -> float | None:
        """Time of another call over that of the default fit."""
        other = self.seconds.get(name)
        return None if other is None else other / self.seconds["default"]


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


def measured(n: int, p: int, loss: str, targets: tuple[float | None, ...], rounds: int) -> Row:
    X, y = table_of(n, p, loss)
    calls, reading = calls_of(X, y, loss), limits.reading(X, 1)
    if reading is not None:
        calls["reading"] = reading.call
    seconds = interleaved(calls, rounds=rounds, clock=time.process_time)
    if reading is not None:  # small tables are read again and again in one call
        seconds["reading"] *= X.nbytes / reading.work
    return Row(loss, n, p, targets, seconds)


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g} ms"


def line(row: Row) -> str:
    """Times, and in brackets how many times that of the default fit."""

    def other(name: str) -> str:
        ratio = row.ratio(name)
        return "-" if ratio is None else f"{milliseconds(row.seconds[name])} ({ratio:.2f})"

    once = row.ratio("reading")
    names = "LogisticRegression", "OLS", "newton"
    asked = []
    for name, least in zip(names, row.targets[:3], strict=True):
        ratio = row.ratio(name)
        if least is not None and ratio is not None:
            asked.append(f"{name} {least:g}: {'met' if ratio >= least else 'missed'}")
    most = row.targets[3]
    if most is not None and once is not None:
        asked.append(f"reading {most:g}: {'met' if 1.0 / once <= most else 'missed'}")
    return (
        f"| {row.loss} | {row.n:,} | {row.p} | {milliseconds(row.seconds['default'])} "
        f"| {'-' if once is None else f'{1.0 / once:.2f}'} | {other('newton')} "
        f"| {other('LogisticRegression')} | {other('OLS')} | {', '.join(asked) or '-'} |"
    )


def page(lines: list[str], rounds: int, loads: tuple[float, float]) -> str:
    return f"""# Few reads of the records

`python -m bench passes --store`: log-cosh and logistic fits with intervals by the default method
(mu = 1, exact noise) beside Newton's fixed steps, scikit-learn's `LogisticRegression` (for log-cosh
of a response that is cut in two) and statsmodels' `OLS` with standard errors, which is given the
constant column ready made. Processor time on one thread, median of {rounds} rounds in which all
take turns; in brackets how many times as long as the default fit. "Of reading X" is the default fit
over reading X once and doing nothing else. {processor()}, {os.cpu_count()} CPUs, load
average {loads[0]:.2f} before and {loads[1]:.2f} after.

{HEAD}
""" + "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench passes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small tables, printed only")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(arguments)
    before, lines = os.getloadavg()[0], []
    try:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1)
    except ImportError:
        print("threadpoolctl is not installed: set OPENBLAS_NUM_THREADS=1", file=sys.stderr)
    print(HEAD, flush=True)
    for n, p, targets in TARGETS[2 * options.quick :]:
        for loss in LOSSES:
            lines.append(line(measured(n, p, loss, targets, options.rounds)))
            print(lines[-1], flush=True)
    if options.store and not options.quick:
        text = page(lines, options.rounds, (before, os.getloadavg()[0]))
        keep(STORED, text)
    return 0
