"""What each constant on the way of a default fit moves, halved and doubled: designs and tables.

    python -m bench.constants [--runs 8] [--only NAME] [--store]

A number in upper case in a module that a default fit goes through, and each entry of a table of
numbers, is a constant; those that only guard arithmetic, size blocks or stand in a proof are named
in ``NOT_JUDGED`` with the reason.  Each is halved and doubled alone, and every cell is fitted again
with the same noise.  *Error*: distance from the exact fit of the same records, root mean square
over slopes in its standard errors, the median run's; *width*: of the intervals over the exact ones;
*missed*: by predictions, root mean square over the response's standard deviation; *points* on the
way; *held*: how often intervals hold the exact estimate; *warned*: fits that warn.  The first
four are geometric means over cells, relative to those of the constant as it is; *most*: the largest
change of a cell's.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import read, store
from bench.tables import FITS, exact, with_scales

RESULTS = Path(__file__).parent / "results" / "constants.md"
Array = NDArray[np.float64]

#: Modules whose constants decide a default fit.
ROOMS = (
    "dpfast.solvers.pcn.",
    "dpfast.regression.default_fit",
    "dpfast.scaling.",
    "dpfast.regression.intercept_only",
    "dpfast.regression.decisions",
    "dpfast.inference.degrees",
    "dpfast.models.smooth_losses",
)

#: Constants that judge nothing.
NOT_JUDGED = {
    "degrees LEAST": "instead of what is not told apart",
    "stopping FALSE_ALARM": "level of a test",
    "degrees NORMAL": "instead of infinitely many",
    "degrees DEFAULT_LEVEL": "a convention",
    "smooth_losses SATURATED": "keeps numbers finite",
    "smooth_losses LOGISTIC_KERNEL": "of the logistic distribution",
    "smooth_losses HESSIAN_MU": "of the papers' optimisers",
    "histogram LOWEST": "range of a histogram",
    "histogram HIGHEST": "range of a histogram",
    "histogram TAIL_OCTAVES": "length of a sum",
    "histogram FINER": "points of a quadrature",
    "plan TINY": "instead of nothing below a division bar",
    "plan LARGEST": "keeps numbers finite",
    "curvature MIN_CURVATURE": "keeps numbers finite",
    "curvature MAX_CURVATURE": "keeps numbers finite",
    "initial MEDIAN": "of a normal number",
    "curvature MIN_CONDITION": "keeps a matrix positive",
    "histogram N_FINE_BINS": "length of a table",
    "search MIN_MU": "rounding to a grid",
    "thresholds BINADE": "of float64",
    "thresholds TIE_KEYS": "of float64",
    "thresholds MIN_AT_ZERO": "of float64",
    "thresholds LABEL_KEYS": "of float64",
    "thresholds LARGEST": "keeps numbers finite",
    "thresholds SMALLEST": "keeps numbers finite",
    "budget FARTHEST": "keeps numbers finite",
    "private UNCHANGED": "of a column that stays as it is",
    "remarks MAX_MISSING": "when a share is said",
    "private CLIP_SPREADS": "range of new rows",
    "request LARGEST_MU": "keeps numbers finite",
    "remarks LISTED": "length of a sentence",
}

#: Changes of less move nothing.
MOVES = 0.05


class Cell(NamedTuple):
    """Records, a loss and a budget."""

    name: str
    loss: Any
    mu: float
    draw: Callable[[int], tuple[Array, Array]]


class Measured(NamedTuple):
    """Of one cell."""

    error: float
    width: float
    missed: float
    points: float
    held: float
    warned: float


#: Those that are compared as ratios.
RATIOS = 4


def _design(name: str, n: int, make: Callable[[np.random.Generator, int], Any]) -> Any:
    def draw(seed: int) -> tuple[Array, Array]:
        X, y = make(np.random.default_rng([seed, len(name)]), n)
        return X, y

    return draw


def _linear(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 5)) * [1.0, 10.0, 1e-3, 1.0, 1.0] + [0.0, 50.0, 0.0, -3.0, 1.0]
    return X, X @ [0.5, 0.05, 300.0, 0.0, 0.0] + rng.standard_t(4, n)


def _dummies(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = np.column_stack([rng.random((n, 3)) < [0.03, 0.3, 0.5], rng.normal(size=(n, 2))]) * 1.0
    return X, 20.0 + X @ [2.0, 1.0, 0.0, 0.5, 0.0] + rng.standard_t(3, n)


def _skewed(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = np.exp(rng.normal(size=(n, 4)) * [1.0, 1.5, 0.5, 0.2])
    return X, X @ [1.0, 0.1, 0.0, 1.0] + 3.0 * rng.normal(size=n)


def _ages(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    age, sex = rng.uniform(18.0, 65.0, n), (rng.random(n) < 0.5) * 1.0
    X = np.column_stack([age, age**2, sex])
    return X, 5.0 + 0.08 * age - 0.0008 * age**2 + 0.2 * sex + 0.6 * rng.normal(size=n)


def _rare(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(3.0 - X @ [1.0, 0.5, 0.0, 0.0]))) * 1.0


def _steep(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 3))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [3.0, 1.0, 0.0]))) * 1.0


def _level(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = np.column_stack([rng.random(n) < 0.003, rng.normal(size=(n, 3))]) * 1.0
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ [1.0, 0.5, 0.0, 0.1]))) * 1.0


def _counts(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = np.column_stack([rng.normal(size=(n, 2)), rng.random(n) < 0.2]) * 1.0
    mean = np.exp(0.3 + X @ [0.4, 0.2, 0.5]) * rng.gamma(2.0, 0.5, n)
    return X, rng.poisson(mean) * 1.0


DESIGNS = (
    ("linear", "least-squares", 0.3, 10_000, _linear),
    ("linear, few", "least-squares", 1.0, 1_000, _linear),
    ("dummies", "log-cosh", 0.3, 10_000, _dummies),
    ("dummies, few", "huber", 1.0, 2_000, _dummies),
    ("skewed", "least-squares", 1.0, 10_000, _skewed),
    ("skewed, few", "least-squares", 0.5, 1_500, _skewed),
    ("ages", "least-squares", 0.5, 10_000, _ages),
    ("rare", "logistic", 1.0, 10_000, _rare),
    ("steep, few", "logistic", 1.0, 2_000, _steep),
    ("overdispersed", "poisson", 1.0, 5_000, _counts),
    ("dummies", dpfast.Quantile(0.75), 1.0, 10_000, _dummies),
    ("steep, many", "logistic", 1.0, 100_000, _steep),
    ("level, many", "logistic", 1.0, 80_000, _level),
    ("linear, many", "least-squares", 1.0, 120_000, _linear),
    ("dummies, many", "log-cosh", 0.5, 120_000, _dummies),
    ("linear, scarce", "least-squares", 1.0, 300, _linear),
    ("ages, scarce", "log-cosh", 0.3, 1_000, _ages),
)

TABLES = (
    ("least squares", "PSID, log wage", 1.0),
    ("least squares", "ames, log price", 1.0),
    ("least squares", "Computers, price", 0.29),
    ("least squares", "weather, temperature", 1.0),
    ("least squares", "nassCDS, age", 0.29),
    ("log-cosh", "MedExp, expenses", 1.0),
    ("huber", "SLID, wages", 0.29),
    ("quantile", "GSSvocab", 1.0),
    ("quantile", "RetSchool, log wage", 1.0),
    ("logistic", "PSID, union", 0.29),
    ("logistic", "Wells, switched", 1.0),
    ("counts", "NMES, visits", 1.0),
    ("counts", "azpro, stay", 1.0),
)


def _resampled(X: Array, y: Array) -> Callable[[int], tuple[Array, Array]]:
    def draw(seed: int) -> tuple[Array, Array]:
        rows = np.random.default_rng(seed).integers(0, len(y), min(len(y), 10_000))
        return X[rows], y[rows]

    return draw


def cells() -> list[Cell]:
    found = [
        Cell(f"{name}, {loss}", loss, mu, _design(name, n, make))
        for name, loss, mu, n, make in DESIGNS
    ]
    for name, table, mu in TABLES:
        loss, tables = FITS[name]
        one = next(one for one in tables if one.name == table)
        found.append(Cell(f"{table}, {name}", loss, mu, _resampled(*read(one, Path()))))
    return found


class Exact:
    """Exact fits of what was drawn, each made once."""

    def __init__(self) -> None:
        self._drawn: dict[Any, Any] = {}
        self._fitted: dict[Any, Any] = {}

    def drawn(self, cell: Cell, seed: int) -> tuple[Array, Array]:
        if (cell.name, seed) not in self._drawn:
            self._drawn[cell.name, seed] = cell.draw(seed)
        return self._drawn[cell.name, seed]

    def of(self, cell: Cell, seed: int, scale: float | None) -> tuple[Array, Array, Array]:
        """Slopes, standard errors and half widths, in the columns' units."""
        eighth = None if scale is None else round(8.0 * math.log2(scale))
        key = cell.name, cell.mu, seed, eighth
        if key not in self._fitted:
            X, y = self.drawn(cell, seed)
            Z, spreads = with_scales(X)
            fit = exact(Z, y, cell.loss, None if eighth is None else 2.0 ** (eighth / 8.0))
            half = 0.5 * np.ptp(fit.conf_int(), axis=1)
            self._fitted[key] = [v[1:] / spreads for v in (fit.params, fit.bse, half)]
        return self._fitted[key]


def measured(cell: Cell, runs: int, known: Exact) -> Measured:
    errors, widths, missed, points, held, warned = [], [], [], [], [], 0
    for seed in range(runs):
        X, y = known.drawn(cell, seed)
        try:
            noise = dpfast.SeededNoise(seed)
            fit = dpfast.fit(
                dpfast.records(X, y, threads=1), None, cell.loss, privacy=cell.mu, noise=noise
            )
            linked = cell.loss in ("least-squares", "logistic", "poisson")
            params, bse, half = known.of(cell, seed, None if linked else fit._scale)
            low, high = fit.conf_int()[1:].T
        except (dpfast.DpfastError, ValueError):  # refused, a mean alone, or no exact fit
            return Measured(*[math.inf] * RATIOS, math.nan, math.nan)
        errors.append((fit.params[1:] - params) / bse)
        widths.append(0.5 * (high - low) / half)
        held.append((low <= params) & (params <= high))
        missed.append(np.mean((fit.predict(X) - y) ** 2) / np.var(y))
        points.append(len(fit.iterates))
        warned += bool(fit.warnings)
    with np.errstate(all="ignore"):
        error = float(np.sqrt(np.median(np.mean(np.square(errors), axis=1))))
        wide = np.where(np.isnan(widths), np.inf, widths)
        middle = [float(np.median(each)) for each in (wide, np.sqrt(missed))]
        return Measured(error, *middle, float(np.mean(points)), float(np.mean(held)), warned / runs)


class Constant(NamedTuple):
    """Where a number stands."""

    module: str
    name: str
    place: tuple[Any, ...]
    value: float

    def __str__(self) -> str:
        return self.name + "".join(f"[{place!r}]" for place in self.place)


def _numbers(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value not in (0, math.inf):
            yield place, value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _numbers(entry, (*place, key))
    elif isinstance(value, tuple) and len(value) < 8:
        for k, entry in enumerate(value):
            yield from _numbers(entry, (*place, k))


def constants() -> list[Constant]:
    """All of a default fit, each where it is defined."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    dpfast.fit(X, X[:, 0], "log-cosh", privacy=4.0, noise=dpfast.SeededNoise(0))
    return constants_of(ROOMS, NOT_JUDGED)


def constants_of(rooms: tuple[str, ...], not_judged: dict[str, str]) -> list[Constant]:
    """Those of modules whose names begin like this, each where it is defined."""
    found = []
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(rooms):
            continue
        source = Path(module.__file__ or "").read_text()
        for label, value in vars(module).items():
            defined = any(
                line.split(" = ")[0].split(":")[0].replace(" ", "").split(",").count(label)
                for line in source.splitlines()
                if line[:1].isupper() or line[:1] == "_"
            )
            if (
                label.strip("_").isupper()
                and defined
                and f"{name.split('.')[-1]} {label}" not in not_judged
            ):
                for place, number in _numbers(value):
                    found.append(Constant(name, label, place, number))
    return found


def _replaced(value: Any, place: tuple[Any, ...], number: float) -> Any:
    if not place:
        return number
    if isinstance(value, dict):
        return {**value, place[0]: _replaced(value[place[0]], place[1:], number)}
    parts = list(value)
    parts[place[0]] = _replaced(parts[place[0]], place[1:], number)
    return tuple(parts)


def forget() -> None:
    """Drop what cached functions of the library remember of a constant as it was."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dpfast"):
            for owner in [
                module,
                *filter(lambda one: isinstance(one, type), vars(module).values()),
            ]:
                for thing in list(vars(owner).values()):
                    if isinstance(thing, _lru_cache_wrapper):
                        thing.cache_clear()


class Changed:
    """A constant with another value, wherever it was imported; also as a default argument."""

    def __init__(self, one: Constant, factor: float) -> None:
        number = one.value * factor
        if isinstance(one.value, int):
            number = max(1, round(number))
        self.same = number == one.value
        old = vars(sys.modules[one.module])[one.name]
        self._old, self._new = old, _replaced(old, one.place, number)
        self._name = one.name
        self._where: list[ModuleType] = []
        self._functions: list[tuple[Any, tuple[Any, ...]]] = []

    def __enter__(self) -> None:
        forget()
        for name, module in list(sys.modules.items()):
            if not name.startswith("dpfast"):
                continue
            if vars(module).get(self._name) is self._old:
                setattr(module, self._name, self._new)
                self._where.append(module)
            for function in list(vars(module).values()):
                defaults = getattr(function, "__defaults__", None)
                numbers = isinstance(self._old, float) and isinstance(defaults, tuple)
                if numbers and any(one is self._old for one in defaults):
                    self._functions.append((function, defaults))
                    function.__defaults__ = tuple(
                        self._new if one is self._old else one for one in defaults
                    )

    def __exit__(self, *_: object) -> None:
        forget()
        for module in self._where:
            setattr(module, self._name, self._old)
        for function, defaults in self._functions:
            function.__defaults__ = defaults


def compared(base: list[Measured], other: list[Measured]) -> tuple[str, float]:
    """A row's part, and the largest of its mean changes."""
    logs = []
    for k in range(RATIOS):
        with np.errstate(all="ignore"):
            ratios = np.log(
                [max(b[k], 1e-9) / max(a[k], 1e-9) for a, b in zip(base, other, strict=True)]
            )
        logs.append(np.nan_to_num(ratios, nan=0.0, posinf=5.0))
    mean = [float(np.mean(one)) for one in logs]
    most = max(float(np.max(np.abs(one))) for one in logs)
    said = [
        [float(np.nanmean(one)) for one in list(zip(*each, strict=True))[RATIOS:]]
        for each in (base, other)
    ]
    changes = [there - here for here, there in zip(*said, strict=True)]
    if most == 0.0 and not any(changes):
        return "| same bits | | | |", 0.0
    text = f"| {', '.join(f'{math.exp(one):.3f}' for one in mean)} | {math.exp(most):.2f} "
    text += f"| {said[1][0]:.3f} | {said[1][1]:.2f} |"
    return text, max(map(abs, [*mean, *changes]))


def main() -> None:
    parser = argparse.ArgumentParser("bench.constants", description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--only", default="", help="constants with this in their name")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args()
    judged = [one for one in constants() if asked.only in str(one)]
    if asked.list:
        for one in judged:
            print(one.module, one, one.value)
        print(len(judged))
        return
    known, grid = Exact(), cells()
    base = [measured(one, asked.runs, known) for one in grid]
    head = ["cell", "mu", *Measured._fields]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell, one in zip(grid, base, strict=True):
        numbers = " | ".join(f"{value:.3g}" for value in one)
        lines.append(f"| {cell.name} | {cell.mu:g} | {numbers} |")
    held, warned = (float(np.nanmean(one)) for one in list(zip(*base, strict=True))[RATIOS:])
    lines.append(f"| mean | | | | | | {held:.3f} | {warned:.2f} |")
    print("\n".join(lines), flush=True)
    four = ", ".join(Measured._fields[:RATIOS])
    head = f"| constant | value | halved: {four} | most | held | warned "
    head += f"| doubled: {four} | most | held | warned | moves |"
    rows, moving = [head, "|" + "---|" * 11], 0
    for one in judged:
        parts, size = [], 0.0
        for factor in (0.5, 2.0):
            change = Changed(one, factor)
            if change.same:
                parts.append("| as it is | | | |")
                continue
            with change:
                text, moved = compared(base, [measured(cell, asked.runs, known) for cell in grid])
            parts.append(text)
            size = max(size, moved)
        moving += size >= MOVES
        room = one.module.removeprefix("dpfast.")
        rows.append(
            f"| {room} {one} | {one.value:g} {parts[0].rstrip('|')}{parts[1]}"
            f" {'yes' if size >= MOVES else 'no'} |"
        )
        print(rows[-1], time.process_time(), flush=True)
    rows.append("")
    rows.append(f"{len(judged)} constants, of which {moving} move a mean by {MOVES:.0%}.")
    text = "\n".join([*lines, "", *rows])
    if asked.store:
        store("bench.constants", asked, RESULTS, text)


if __name__ == "__main__":
    main()
