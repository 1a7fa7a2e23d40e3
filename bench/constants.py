"""What each constant on the way of a default fit moves, halved and doubled: designs and tables

A number in upper case in a module that a default fit goes through, and each entry of a table of
numbers, is a constant; those that only guard arithmetic, size blocks or stand in a proof are named
in ``not_judged.tsv`` with the reason.  Those of compiled decisions (csrc/decisions) are left out.
Each is halved and doubled alone, and every cell is fitted again with the same noise. *Error*:
distance from the exact fit of the same records, root mean square over slopes in its standard
errors, the median run's; *width*: of the intervals over the exact ones; *missed*: by predictions,
root mean square over the response's standard deviation; *points* on the way; *held*: how often
intervals hold the exact estimate; *warned*: fits that warn. The first four are geometric means over
cells, relative to those of the constant as it is; *most*: the largest change of a cell's. Noise is
seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.public_tables import read, tables
from bench.study import Block, study
from bench.tables import FITS, exact, with_scales
from dpfast.arguments import Array

LIST = Path(__file__).with_name("not_judged.tsv")

#: Modules whose constants decide a default fit.
ROOMS = (
    "dpfast.solvers.pcn.",
    "dpfast.regression.default_fit",
    "dpfast.regression.default_result",
    "dpfast.scaling.",
    "dpfast.regression.intercept_only",
    "dpfast.regression.decisions",
    "dpfast.inference.degrees",
    "dpfast.models.smooth_losses",
)

#: Constants that judge nothing, each with its reason.
NOT_JUDGED = {line.split("\t")[0] for line in LIST.read_text(encoding="utf-8").splitlines()}

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


def cells(quick: bool) -> list[Cell]:
    found = [
        Cell(f"{name}, {loss}", loss, mu, _design(name, n, make))
        for name, loss, mu, n, make in DESIGNS[: 2 if quick else None]
    ]
    for name, table, mu in TABLES[: 1 if quick else None]:
        loss, group = FITS[name]
        (one,) = [one for one in tables(group) if one.name == table]
        found.append(Cell(f"{table}, {name}", loss, mu, _resampled(*read(one))))
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
    found, warned = [], 0
    for seed in range(runs):
        X, y = known.drawn(cell, seed)
        records, noise = dpfast.records(X, y, threads=1), dpfast.SeededNoise(seed)
        try:
            fit = dpfast.fit(records, None, cell.loss, privacy=cell.mu, noise=noise)
            linked = cell.loss in ("least-squares", "logistic", "poisson")
            params, bse, half = known.of(cell, seed, None if linked else fit._scale)
            interval = fit.conf_int()[1:]
        except (dpfast.DpfastError, ValueError):  # refused, a mean alone, or no exact fit
            return Measured(*[math.inf] * RATIOS, math.nan, math.nan)
        missed = np.mean((fit.predict(X) - y) ** 2) / np.var(y)
        found.append((
            np.mean(((fit.params[1:] - params) / bse) ** 2), 0.5 * np.ptp(interval, axis=1) / half,
            missed, len(fit.iterates), (interval[:, 0] <= params) & (params <= interval[:, 1]),
        ))  # fmt: skip
        warned += bool(fit.warnings)
    errors, widths, misses, points, held = zip(*found, strict=True)
    with np.errstate(all="ignore"):
        middle = [float(np.median(each)) for each in (
            np.where(np.isnan(widths), np.inf, widths), np.sqrt(misses))]  # fmt: skip
        error = float(np.sqrt(np.median(errors)))
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
    found = []
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(ROOMS):
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
                and f"{name.split('.')[-1]} {label}" not in NOT_JUDGED
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


def compared(base: list[Measured], other: list[Measured]) -> tuple[list[Any], float]:
    """Return cells of a row, and the largest of its mean changes."""
    here, there = np.array(base, float), np.array(other, float)
    with np.errstate(all="ignore"):
        logs = np.log(np.maximum(there[:, :RATIOS], 1e-9) / np.maximum(here[:, :RATIOS], 1e-9))
        logs = np.nan_to_num(logs, nan=0.0, posinf=5.0)
        held, warned = np.nanmean(there[:, RATIOS:], axis=0)
        changes = np.array([held, warned]) - np.nanmean(here[:, RATIOS:], axis=0)
    if not logs.any() and not changes.any():
        return ["same bits", "", "", ""], 0.0
    means = ", ".join(f"{one:.3f}" for one in np.exp(logs.mean(axis=0)))
    row = [means, f"{np.exp(np.abs(logs).max()):.2f}", f"{held:.3f}", f"{warned:.2f}"]
    return row, float(np.abs([*logs.mean(axis=0), *changes]).max())


def moved(one: Constant, base: list[Measured], again: Callable[[], list[Measured]]) -> Block:
    """Halve and double a constant; a row of the table."""
    four, size = ", ".join(Measured._fields[:RATIOS]), 0.0
    row: dict[str, Any] = {"constant": f"{one.module.removeprefix('dpfast.')} {one}"}
    row["value"] = f"{one.value:g}"
    for factor, how in ((0.5, "halved"), (2.0, "doubled")):
        change, parts = Changed(one, factor), ["as it is", "", "", ""]
        if not change.same:
            with change:
                parts, largest = compared(base, again())
            size = max(size, largest)
        heads = (f"{how}: {four}", f"{how}: most", f"{how}: held", f"{how}: warned")
        row |= dict(zip(heads, parts, strict=True))
    return row | {"moves": "yes" if size >= MOVES else "no"}


def results(asked: argparse.Namespace) -> Iterator[Block]:
    judged = [one for one in constants() if asked.only in str(one)][: 1 if asked.quick else None]
    known, grid = Exact(), cells(asked.quick)

    def again() -> list[Measured]:
        return [measured(cell, asked.runs, known) for cell in grid]

    base, moving = again(), 0
    for cell, one in zip(grid, base, strict=True):
        yield {"cell": cell.name, "mu": cell.mu} | one._asdict()
    for one in judged:
        row = moved(one, base, again)
        moving += row["moves"] == "yes"  # type: ignore[index]
        yield row
    yield f"{len(judged)} constants, of which {moving} move a mean by {MOVES:.0%}."


main = study("constants", results, __doc__, runs=6)
