"""What each constant of ``minimize``'s default moves, halved and doubled: fourteen problems.

    python -m bench.constants_minimize [--runs 2] [--only NAME] [--store]

A number in upper case in a module of adaptive descent and each numeric setting of
:class:`dpfast.optimize.Adaptive` is a constant, but for those of ``NOT_JUDGED``.  Each is halved
and doubled alone (of a weight of the past, or a part of the path, what is left out), and the
problems of the figure "fresh-problems" are minimised again with the same noise, n = 500 and four
times the figure's budgets, which is as much noise for each gradient.  Every other problem makes a
half: *first* and *second* are geometric means over a half's cells of the excess risk over that of
the constant as it is, +- two standard errors; *steps* are gradients in the mean.  A change *gains*
or *loses* where both halves do and their mean by more than its two standard errors.  Noise is
seeded: a simulation.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.constants import Changed, Constant, constants_of
from bench.figures.paper2.fresh import fourteen
from bench.figures.paper2.problems import Problem
from bench.rivals.tables import store
from dpfast.optimize import Adaptive

RESULTS = Path(__file__).parent / "results" / "constants-minimize.md"
Array = NDArray[np.float64]

N, BUDGETS = 500, (1.2, 12.0)

#: Logarithm of the largest change that counts: beyond it a run met another local minimum.
CHANCE = math.log(10.0)

ROOMS = tuple(f"dpfast.optimize.nonconvex.{name}" for name in ("adaptive", "clip", "steps"))

#: Constants that judge nothing.
NOT_JUDGED = {
    "steps LENGTH_RANGE": "keeps numbers finite",
    "clip N_BINS": "length of a table",
    "clip BIN_RATIO": "fineness of a table",
    "clip CLIPS_PER_BIN": "fineness of a table",
    "clip FAR_TOO_LARGE": "of a warning only",
}

#: Parts of one, of which the rest is halved and doubled.
PARTS = ("MEMORY", "average")


@contextmanager
def _set(name: str, value: float) -> Iterator[None]:
    """Another default of a setting."""
    defaults: Any = Adaptive.__init__.__kwdefaults__
    old = defaults[name]
    defaults[name] = value
    try:
        yield
    finally:
        defaults[name] = old


def _changed(one: Constant, factor: float) -> Any:
    if one.name in PARTS:
        factor = (1.0 - (1.0 - one.value) * factor) / one.value
    if one.module == "Adaptive":
        return _set(one.name, one.value * factor)
    return Changed(one, factor)


def judged() -> list[Constant]:
    """Settings and constants."""
    defaults: Any = Adaptive.__init__.__kwdefaults__
    settings = [
        Constant("Adaptive", name, (), value)
        for name, value in defaults.items()
        if isinstance(value, float)
    ]
    return settings + constants_of(ROOMS, NOT_JUDGED)


def excesses(problems: list[Problem], runs: int) -> tuple[Array, float]:
    """Mean excess of each cell, problems first; and steps in the mean."""
    found, steps = [], []
    for problem, mu in itertools.product(problems, BUDGETS):
        several = []
        for seed in range(runs):
            result = dpfast.minimize(
                problem.X, problem.y, problem.objective, privacy=mu,
                start=list(problem.start), noise=dpfast.SeededNoise(seed),
            )  # fmt: skip
            with np.errstate(all="ignore"):
                several.append(min(problem.excess(np.asarray(result.params)), 1e3))
            steps.append(result.rounds[-1]["steps"])
        found.append(float(np.mean(several)))
    return np.array(found), float(np.mean(steps))


def compared(base: Array, other: Array, steps: float) -> tuple[str, int]:
    """A row's part: both halves, steps, and 1 for a gain, -1 for a loss, 0 for neither."""
    logs = np.clip(np.log(other / base), -CHANCE, CHANCE)
    if not logs.any():
        return "| same bits | | |", 0
    half = np.arange(len(logs)) // len(BUDGETS) % 2
    means = [float(logs[half == k].mean()) for k in (0, 1)]
    errors = [2.0 * float(logs[half == k].std()) / math.sqrt(sum(half == k)) for k in (0, 1)]
    text = "".join(f"| {math.exp(m):.2f} +- {e:.2f} " for m, e in zip(means, errors, strict=True))
    clear = abs(sum(means)) > math.hypot(*errors) and means[0] * means[1] > 0.0
    return text + f"| {steps:.0f} |", -int(np.sign(sum(means))) if clear else 0


def main() -> None:
    parser = argparse.ArgumentParser("bench.constants_minimize", description=__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--only", default="", help="constants with this in their name")
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args()
    problems = fourteen(lambda key: np.random.default_rng([37, *key.encode()]), N)
    base, steps = excesses(problems, asked.runs)
    lines = ["| half | problem | " + " | ".join(f"mu = {mu:g}" for mu in BUDGETS) + " |"]
    lines.append("|---" * (2 + len(BUDGETS)) + "|")
    for k, (problem, row) in enumerate(zip(problems, base.reshape(-1, len(BUDGETS)), strict=True)):
        numbers = " | ".join(f"{value:.2g}" for value in row)
        lines.append(f"| {('first', 'second')[k % 2]} | {problem.name} | {numbers} |")
    lines += ["", f"Steps in the mean: {steps:.0f}.", ""]
    head = "| constant | value | halved: first | second | steps | doubled: first | second | steps "
    lines += [head + "| |", "|---" * 9 + "|"]
    print("\n".join(lines), flush=True)
    for one in judged():
        if asked.only not in str(one):
            continue
        parts, said = [], []
        for factor in (0.5, 2.0):
            with _changed(one, factor):
                text, sign = compared(base, *excesses(problems, asked.runs))
            parts.append(text)
            said += [
                ("halved" if factor < 1.0 else "doubled") + (" gains" if sign > 0 else " loses")
            ]
            said = said if sign else said[:-1]
        room = one.module.rsplit(".", 1)[-1]
        text = f"| {room} {one} | {one.value:g} {parts[0].rstrip('|')}{parts[1]}"
        lines.append(f"{text} {', '.join(said) or '-'} |")
        print(lines[-1], flush=True)
    if asked.store:
        store("bench.constants_minimize", asked, RESULTS, "\n".join(lines))


if __name__ == "__main__":
    main()
