"""Nothing is decided by an exact number of records, or by the largest of their values.

Replays of neighbours at thresholds: one record leaves a level that just suffices or is alone in
it, is the only event of an interval, the last time, the only treated one, the only number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dpfast
from dpfast import effects, records, tables
from dpfast.audit import replay
from dpfast.fit_requests.request import Account
from dpfast.privacy.budget import GDP
from dpfast.quantiles import private_quantiles
from dpfast.regression.fit import fit
from dpfast.regression.quantiles.fitting import fit_quantiles
from dpfast.tables.absorbed import _Absorbed
from tests.audit.remembered import runs_shared
from tests.audit.thresholds import Pairs, Table, alone, complete, counted, ends, with_one

#: Records; how many of them a level has to have, as said; and nine tenths, from which on results
#: say that records are missing.
N, LEAST, MOSTLY = 30, 7, 27
#: Numbers that a rule may turn at: none or one, one or two, and both sides of ``LEAST``.
TURNS = (1, 2, LEAST, LEAST + 1)
RNG = np.random.default_rng(5)
TABLE: Table = {
    "x": RNG.normal(size=N),
    "w": RNG.normal(size=N),
    "y": RNG.normal(size=N),
    "weeks": RNG.uniform(0.1, 0.9, N),
    "one": np.arange(N) % 2 * 1.0,
    "g": np.arange(N) % 3,
    "tenth": np.arange(N) % 10,
}
LEVELS = dpfast.Schema({"g": dpfast.Categorical([0, 1, 2])})
TENTHS = dpfast.Schema({"tenth": dpfast.Categorical(list(range(10)))})
SCHEMA = dpfast.Schema(
    {"g": LEVELS["g"], "one": dpfast.Binary(1, 0), "y": dpfast.Numeric(-3.0, 3.0)}
)


class Case(NamedTuple):
    """A function, what it spends, and the columns that it takes, by their kind.

    ``counts`` are numbers of records at which something might be decided; ``more`` are pairs of
    its own.
    """

    function: Callable[..., Any]
    call: Callable[[Table], Any]
    mu: float
    numbers: tuple[str, ...] = ()
    binary: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    counts: tuple[int, ...] = (1,)
    more: Callable[[], Pairs] = lambda: iter(())

    def pairs(self, counts: Iterable[int]) -> Pairs:
        for name in self.groups:
            yield from counted(TABLE, name, 0, (1, -1), counts)
        for name in self.binary:
            for inside in (0.0, 1.0):
                yield from counted(TABLE, name, inside, (1.0 - inside,), counts)
        for name in self.numbers[:1]:
            yield from complete(TABLE, name, sorted({1, MOSTLY, *counts}))
        for name in self.binary:
            yield from complete(TABLE, name, (MOSTLY,))
        yield from ends(TABLE, self.numbers)
        yield from alone(TABLE, self.numbers)
        yield from self.more()


def shown(function: Any, *arguments: Any, **options: Any) -> Any:
    found = function(*arguments, **options)
    return found, found.summary(), found.to_dict(), repr(found)


def of_cells(
    function: Any, mu: float, *columns: Any, kinds: dict[str, tuple[str, ...]], **options: Any
) -> Case:
    """A table, which is made so soon that a level may have few records."""

    def call(table: Table) -> Any:
        return shown(function, table, *columns, schema=SCHEMA, privacy=mu, least=LEAST, **options)

    return Case(function, call, mu, counts=TURNS, **kinds)


def weighted(function: Any) -> Any:
    """The same table with weights, whose bound is estimated."""

    def asked(table: Table, *columns: Any, **options: Any) -> Any:
        return function(records(table, sample_weight="weeks"), *columns, **options)

    asked.__module__, asked.__name__ = function.__module__, function.__name__
    return asked


def by_level(loss: str) -> Case:
    response = "one" if loss == "logistic" else "y"

    def call(table: Table) -> Any:
        own = {"schema": LEVELS, "privacy": 60.0, "least": LEAST}
        return shown(tables.fits, f"{response} ~ x", table, "g", loss, **own)

    # a replay adds up what stands side by side: three fits, where claim T6 counts one
    spent = 60.0 * math.sqrt(3.0)
    binary = ("one",) * (loss == "logistic")
    return Case(tables.fits, call, spent, ("x",), binary, ("g",), (1, LEAST))


def within(mu: float) -> Case:
    def call(table: Table) -> Any:
        return shown(tables.absorbed, "y ~ x | g", table, schema=LEVELS, privacy=mu)

    # records of a level that is not left out; public
    least = _Absorbed("y ~ x | g", TABLE, LEVELS, Account(GDP(mu), None), None).min_count
    counts = tuple(sorted({1, math.ceil(least)}))
    return Case(tables.absorbed, call, mu, ("x", "y"), (), ("g",), counts)


def by_area(table: Table) -> Any:
    return shown(
        tables.small_areas, "y ~ x", table, "tenth", schema=TENTHS, privacy=60.0, least=LEAST
    )


def hazards(table: Table) -> Any:
    return shown(effects.cox, "weeks ~ x", table, event="one", cuts=[0.5, 1.0], privacy=60.0)


def events() -> Pairs:
    """The only event of an interval, the only time in it, and the last time."""
    first = TABLE | {"one": np.ones(N), "weeks": np.linspace(0.1, 0.45, N)}
    second = with_one(first, weeks=0.7)
    yield "the only event of an interval", second, with_one(second, one=0.0)
    yield "the only time in an interval", second, first
    yield "the only time beyond all of them", second, with_one(first, weeks=2.0)


def stages(table: Table) -> Any:
    return shown(effects.two_stage, "y ~ x + w | weeks + w", table, privacy=60.0)


def treated(method: str) -> Case:
    def call(table: Table) -> Any:
        X = np.column_stack([table["x"], table["w"]])
        own = {"privacy": 40.0, "method": method}
        return shown(effects.treatment_effect, X, table["one"], table["y"], **own)

    return Case(effects.treatment_effect, call, 40.0, ("x", "y"), ("one",))


def fitted(loss: str) -> Case:
    response = "one" if loss == "logistic" else "y"

    def call(table: Table) -> Any:
        X = np.column_stack([table["x"], table["w"]])
        return shown(fit, X, table[response], loss, privacy=40.0)

    return Case(fit, call, 40.0, ("x",), ("one",) * (loss == "logistic"))


def medians(table: Table) -> Any:
    X = np.column_stack([table["x"], table["w"]])
    return shown(fit_quantiles, X, table["y"], (0.4, 0.6), privacy=40.0)


def levels(table: Table) -> Any:
    return private_quantiles(table["y"], (0.2, 0.6), low=-2.0, high=2.0, privacy=40.0)


G = ("g",)
CASES = {
    "counts": of_cells(tables.counts, 60.0, "g", kinds={"groups": G}),
    "counts that cross": of_cells(
        tables.counts, 60.0, (*G, "one"), kinds={"groups": G, "binary": ("one",)}
    ),
    "means": of_cells(
        tables.means, 60.0, ["y", "one"], "g",
        kinds={"groups": G, "binary": ("one",), "numbers": ("y",)},
    ),
    "weighted means": of_cells(
        weighted(tables.means), 60.0, ["y", "one"], "g",
        kinds={"groups": G, "binary": ("one",), "numbers": ("y", "weeks")},
    ),
    "weighted quantiles": of_cells(
        weighted(tables.quantiles), 60.0, "y", "g", bins=5,
        kinds={"groups": G, "numbers": ("y", "weeks")},
    ),
    "quantiles": of_cells(
        tables.quantiles, 60.0, "y", "g", bins=5, kinds={"groups": G, "numbers": ("y",)}
    ),
    "distribution": of_cells(
        tables.distribution, 60.0, "y", "g", bins=[-0.5, 0.5],
        kinds={"groups": G, "numbers": ("y",)},
    ),
    "fits": by_level("least-squares"),
    "logistic fits": by_level("logistic"),
    "absorbed": within(9.0),
    "absorbed of single records": within(60.0),
    "small areas": Case(
        tables.small_areas, by_area, 60.0, ("x", "y"), (), ("tenth",), (1, LEAST, LEAST + 1)
    ),
    "cox": Case(effects.cox, hazards, 60.0, ("weeks", "x"), ("one",), more=events),
    "two_stage": Case(effects.two_stage, stages, 60.0, ("x", "w", "weeks", "y")),
    "treatment_effect": treated("aipw"),
    "difference of means": treated("difference"),
    "least squares": fitted("least-squares"),
    "logistic": fitted("logistic"),
    "fit_quantiles": Case(fit_quantiles, medians, 40.0, ("x", "y")),
    "private_quantiles": Case(private_quantiles, levels, 40.0, ("y",)),
}  # fmt: skip


def replayed(case: Case, counts: Iterable[int]) -> None:
    names = tuple(TABLE)

    def call(columns: Any) -> Any:
        return case.call(dict(zip(names, columns, strict=True)))

    with runs_shared():
        for label, one, other in case.pairs(counts):
            both = [tuple(table[name] for name in names) for table in (one, other)]
            report = replay(call, *both, budget=case.mu)
            assert report.passed, f"{label}: {report}"


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_decided_by_an_exact_number(name):
    replayed(CASES[name], CASES[name].counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_decided_by_any_exact_number(name):
    replayed(CASES[name], range(1, N))


def test_every_function_of_tables_and_effects_is_tried():
    """A new one gets a case; a plan takes no records."""
    tried = {case.function for case in CASES.values()} | {tables.plan}
    tried.add(tables.Waves)  # no cells; replayed in tests/scaling/test_waves.py
    for room in (tables, effects):
        assert {getattr(room, name) for name in room.__all__} <= tried
