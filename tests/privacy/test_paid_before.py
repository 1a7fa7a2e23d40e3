"""Every answer is paid for before records are read or noise is drawn, by queries and by functions.

A watch notes charges, reads and draws in their order: of every query of the curators, refused by
a ledger that cannot pay, and of every public function that spends, on ledgers of all currencies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import dpfast
from dpfast import GDP, ZCDP, ApproxDP, BudgetExceeded, Ledger, PureDP
from dpfast.bayesopt import private_choice, private_clip, tune
from dpfast.curator import Curator, StepBudget
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.column_scores import ColumnScores, Model
from dpfast.curator.effects import Aim, Nuisance, PseudoOutcomes, Trial
from dpfast.curator.fit_errors import FitErrors, Line
from dpfast.curator.noisy_release import observed
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.perturbation import perturbation_terms, perturbed_minimiser
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import Terms
from dpfast.curator.scaling.columns import Columns
from dpfast.curator.shares import Shares
from dpfast.curator.tables.areas import Areas
from dpfast.curator.tables.cells import Cells
from dpfast.curator.tables.levels import Levels
from dpfast.curator.tables.weighted import WeightedCells
from dpfast.data import Records
from dpfast.data.cell_records import CellRecords
from dpfast.data.scaling.units import ReleasedScales
from dpfast.models import Ball, Bounded, Huber, LeastSquares, LogCosh, Objective
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.optimize import GradientDescent, Newton
from dpfast.optimize.damping import Backtracking
from dpfast.privacy.decimals import written
from dpfast.privacy.noise import NoiseSource, SeededNoise
from tests.loops import each
from tests.release.neighbours import certified_functional

N = 40
RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, size=(N, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
THETA = np.array([0.2, -0.4])


class Event(NamedTuple):
    """What happened, and to which ledger and for how much if it was a charge."""

    kind: str
    ledger: Any = None
    spend: Any = None


class Watched(NoiseSource):
    """Noise whose draws are noted; of a seed, or one small table in 2,000 would be certified."""

    guarantee = "GDP"

    def __init__(self, events: list[Event]) -> None:
        self._noise, self._events = SeededNoise(0), events

    def normals(self, size: int, bits: int) -> Any:
        self._events.append(Event("draw"))
        return self._noise.normals(size, bits)

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> Any:
        self._events.append(Event("draw"))
        return self._noise.discrete_laplace(size, numerator, denominator)

    def words(self, count: int) -> Any:
        self._events.append(Event("draw"))
        return self._noise.words(count)


class Seen(np.ndarray):
    """An array that notes every comparison of its entries."""

    events: list[Event]

    def __array_finalize__(self, whole: Any) -> None:
        """Let views of columns note into the same list."""
        if isinstance(whole, Seen) and hasattr(whole, "events"):
            self.events = whole.events

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        self.events.append(Event("read"))
        plain = [np.asarray(x) if isinstance(x, Seen) else x for x in inputs]
        return getattr(function, method)(*plain, **options)


@contextmanager
def watch(patch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """Note charges (refused ones too), reads of records and of told values, and draws."""
    events: list[Event] = []

    def noting(original: Any) -> Any:
        def noted(*arguments: Any, **options: Any) -> Any:
            events.append(Event("read"))
            return original(*arguments, **options)

        return noted

    charge = Ledger.charge

    def charged(self: Ledger, spend: Any, label: str) -> None:
        events.append(Event("charge", self, spend))
        charge(self, spend, label)

    with patch.context() as inner:
        for kind, name in [(Records, "total"), (Records, "blocks"), (RecordValues, "_mean"),
                           (RecordValues, "_mean_loss")]:  # fmt: skip
            inner.setattr(kind, name, noting(getattr(kind, name)))
        inner.setattr(Ledger, "charge", charged)
        yield events


# ---- queries -------------------------------------------------------------------------------------

SMOOTH = Objective(LogCosh(), Bounded(1.5), 2, fit_intercept=False, scale=0.8, ridge=0.5)
SQUARES = Objective(Huber(2.0), Bounded(1.5), 2, fit_intercept=False, scale=1.0)
POOR = {GDP: GDP(1e-3), ZCDP: ZCDP(1e-6), ApproxDP: ApproxDP(1e-3, 1e-9), PureDP: PureDP(1e-3)}


class Desk(NamedTuple):
    """What a query is asked with."""

    ledger: Ledger
    noise: Watched
    events: list[Event]

    def curator(self, objective: Objective = SMOOTH) -> Curator:
        return Curator(Records(X, Y, None), objective, self.ledger, self.noise)

    def gradients(self) -> GradientCurator:
        return GradientCurator(Records(X, Y, None), SMOOTH, self.ledger, self.noise)

    def users(self) -> GradientCurator:
        own = PerRecordObjective(
            lambda theta, X, y: np.tanh(X @ theta - y)[:, None] * X,
            dimension=len(THETA), lipschitz=1.0, smoothness=1.0,
        )  # fmt: skip
        room = GradientCurator(Records(X, Y, None), own, self.ledger, self.noise)
        self.events.clear()  # it looked whether there are blocks to read
        return room

    def told(self, points: int = 1) -> RecordValues:
        room = RecordValues(N, self.ledger, self.noise)
        for _ in range(points):
            room.append(Y)
        return room

    def columns(self) -> Columns:
        return Columns(Records(X, Y, None), self.ledger, self.noise)

    def shares(self) -> Shares:
        values = Y.view(Seen)
        values.events = self.events
        return Shares(values, self.ledger, self.noise)

    def scores(self) -> ColumnScores:
        held = Records(X.view(Seen), Y, None)
        held.X.events = self.events
        units = ReleasedScales(np.zeros(2), np.ones(2), (0.0, 1.0))
        return ColumnScores(held, units, self.ledger, self.noise)

    def cells(self) -> Cells:
        held = Records(X, np.arange(N) % 3.0, None)
        return Cells(held, 3, (True, False), self.ledger, self.noise)

    def weighted_cells(self) -> WeightedCells:
        weights = (np.arange(N) % 5.0).view(Seen)
        weights.events = self.events
        persons = np.arange(N) // 2
        held = CellRecords(X, np.arange(N) % 3.0, weights, 4.0, persons, None, N // 2)
        return WeightedCells(held, 3, self.ledger, self.noise)

    def levels(self) -> Levels:
        held = Records(X, np.arange(N) % 3.0, None)
        found = Levels(held, np.arange(N) % 2, 2, self.ledger, self.noise, 1)
        self.events.clear()  # a copy of what was paid for; what is asked of it is watched
        found._all = found._all.view(Seen)
        found._all.events = self.events
        return found

    def errors(self) -> FitErrors:
        line = Line(0.2, np.array([0.5, -0.5]), False, lambda predictor: predictor)
        return FitErrors(Records(X, Y, None), line, self.ledger, self.noise)

    def areas(self) -> Areas:
        found = Areas(Records(X, np.arange(N) % 3.0, None), np.arange(N) % 2, 2, self.ledger,
                      self.noise, 1)  # fmt: skip
        self.events.clear()
        found._all = found._all.view(Seen)
        found._all.events = self.events
        return found

    def rows(self) -> PreconditionedQueries:
        return PreconditionedQueries(self.curator())

    def rows_read_again(self) -> PreconditionedQueries:
        rows = self.rows()
        rows._raw.read_again = True  # type: ignore[misc]
        return rows

    def effects(self) -> PseudoOutcomes:
        folds = np.arange(N) % 2
        trial = Trial(X, Y, (X[:, 0] > 0.0) * 1.0, folds, self.noise, 1, Aim(True, True))
        nuisance = Nuisance(np.zeros(3), np.zeros((2, 3)))
        return trial.pseudo_outcomes([nuisance, nuisance], 0.1, self.ledger)


def open_release(desk: Desk) -> Any:
    terms = Terms("parameter", 1.0, 1e-6, 0.3, 1e-7)
    curator = desk.curator()
    return CertifiedRelease(curator, terms, Kind(curator, Ball(1.5).bind(2)))


def tilted(desk: Desk) -> Any:
    terms = perturbation_terms(desk.curator(), 1.5, ApproxDP(1.0, 1e-6))
    desk.events.clear()
    return perturbed_minimiser(desk.curator(), terms)


QUERIES: dict[str, tuple[type, Callable[[Desk], Any]]] = {
    "joint": (GDP, lambda desk: desk.curator().joint(THETA, StepBudget(1.0, 0.5, 0.5))),
    "loss difference": (GDP, lambda desk: desk.curator().loss_difference(THETA, -THETA, 1.0)),
    "smallest": (GDP, lambda desk: desk.curator().extreme_eigenvalue(THETA, 1.0, largest=False)),
    "largest": (GDP, lambda desk: desk.curator().extreme_eigenvalue(THETA, 1.0, largest=True)),
    "curvature": (GDP, lambda desk: desk.curator().largest_curvature(1.0)),
    "tilted minimiser": (ApproxDP, tilted),
    "certified release": (ApproxDP, open_release),
    "gradient": (ZCDP, lambda desk: desk.gradients().gradient(THETA, 0.5)),
    "gradient change": (ZCDP, lambda desk: desk.gradients().gradient_change(THETA, -THETA, 0.5)),
    "gradient norm": (ZCDP, lambda desk: desk.gradients().gradient_norm(THETA, 0.5)),
    "users' lengths": (
        ZCDP,
        lambda desk: desk.users().gradient_norm_histogram(THETA, np.array([0.1, 1.0]), 0.5),
    ),
    "users' directions": (ZCDP, lambda desk: desk.users().gradient_directions(THETA, 0.5)),
    "loss change": (ZCDP, lambda desk: desk.gradients().loss_change(THETA, -THETA, 0.5)),
    "users' loss change": (ZCDP, lambda desk: desk.users().loss_change(THETA, -THETA, 0.5, 0.1)),
    "users' clipped gradient": (ZCDP, lambda desk: desk.users().gradient(THETA, 0.5, 0.1)),
    "selection": (ZCDP, lambda desk: desk.gradients().select_stationary([THETA, -THETA], 0.5)),
    "clipped mean": (GDP, lambda desk: desk.told().mean(np.ones((1, 1)), 1.0, 1.0)),
    "choice of a point": (GDP, lambda desk: desk.told(2).choice(0, 0.0, 1.0, 1.0)),
    "choice of a column": (
        GDP,
        lambda desk: desk.scores().choose(
            Model(None, (), LeastSquares(), np.zeros(1)), 1.0, np.arange(2), 1.0
        ),
    ),
    "mean loss": (GDP, lambda desk: desk.told().mean_loss(0, 0.0, 1.0, 1.0)),
    "distances": (
        GDP,
        lambda desk: desk.columns().distances([1], np.zeros(1), np.ones(1), [40], 1.0),
    ),
    "below": (GDP, lambda desk: desk.columns().below([(0, 0), (1, 1 << 40)], 1.0)),
    "moments": (GDP, lambda desk: desk.columns().moments([1], np.zeros(1), np.ones(1), 1.0)),
    "share": (GDP, lambda desk: desk.shares().excess(0.0, 0.5, 1.0)),
    "counts by cell": (GDP, lambda desk: desk.cells().counts(1.0)),
    "moments by cell": (GDP, lambda desk: desk.cells().moments(1.0)),
    "distribution by cell": (
        GDP,
        lambda desk: desk.cells().distribution(np.array([-0.5, 0.5]), 1.0),
    ),
    "weighted counts by cell": (GDP, lambda desk: desk.weighted_cells().counts(1.0)),
    "weighted moments by cell": (GDP, lambda desk: desk.weighted_cells().moments(1.0)),
    "weighted distribution by cell": (
        GDP,
        lambda desk: desk.weighted_cells().distribution(np.array([-0.5, 0.5]), 1.0),
    ),
    "sums by level": (
        GDP,
        lambda desk: desk.levels().sums(np.zeros((2, 3)), np.eye(3), 1.0, 1.0),
    ),
    "errors of a line": (GDP, lambda desk: desk.errors().first(4.0, 0.1, 2.0, 1.0)[0]),
    "losses of a line": (GDP, lambda desk: desk.errors().second(0.1, 0.5, (9.0, 9.0), 1.0)[0]),
    "grams by area": (
        GDP,
        lambda desk: desk.areas().grams(np.eye(3), np.zeros((2, 3)), np.ones(2), 1.0, 1.0),
    ),
    "gram within levels": (
        GDP,
        lambda desk: desk.levels().gram(np.zeros((2, 3)), np.eye(3), 1.0, 1.0),
    ),
    "gram of rows": (GDP, lambda desk: desk.rows().gram(1.0, 1.0)),
    "moment of rows": (GDP, lambda desk: desk.rows().moment(1.0, 2.0, 1.0)),
    "gram and moment": (
        GDP,
        lambda desk: desk.rows().gram_and_moment(1.0, 2.0, StepBudget(1.0, 0.5)),
    ),
    "clipped scores": (
        GDP,
        lambda desk: desk.rows().clipped(Linearization(THETA, LeastSquares()), 1.0, 1.0, 0.5),
    ),
    "lengths of rows": (GDP, lambda desk: desk.rows().norm_histogram(np.array([0.5, 1.0]), 1.0)),
    "overlap": (GDP, lambda desk: desk.effects().overlap(np.array([0.2, 0.8]), 1.0)),
    "location": (GDP, lambda desk: desk.effects().location(0.1, 1.0, 1.0)),
    "location and square": (GDP, lambda desk: desk.effects().location(0.1, 1.0, 1.0, True)),
}


@each("name", QUERIES)
def test_a_query_that_cannot_pay_reads_and_draws_nothing(monkeypatch, name):
    currency, ask = QUERIES[name]
    with watch(monkeypatch) as events:
        desk = Desk(Ledger(POOR[currency]), Watched(events), events)
        with pytest.raises(BudgetExceeded):
            ask(desk)
    assert [event.kind for event in events] == ["charge"]
    assert not desk.ledger.entries


@each("name", [name for name in QUERIES if name != "certified release"])
def test_the_same_query_reads_and_draws_once_it_is_paid(monkeypatch, name):
    """The watch sees what it is for."""
    currency, ask = QUERIES[name]
    rich = {GDP: GDP(10.0), ZCDP: ZCDP(50.0), ApproxDP: ApproxDP(5.0, 1e-3), PureDP: PureDP(9.0)}
    with watch(monkeypatch) as events:
        ask(Desk(Ledger(rich[currency]), Watched(events), events))
    kinds = [event.kind for event in events]
    assert kinds[0] == "charge" and kinds.count("charge") == 1
    assert {"read", "draw"} <= set(kinds)


# ---- public functions ----------------------------------------------------------------------------


def rowwise(theta: Any, X: Any, y: Any) -> Any:
    return np.tanh(X @ theta - y)[:, None] * X


SCHEMA = dpfast.Schema({"a": dpfast.Numeric(-1.0, 1.0), "b": dpfast.Numeric(-1.0, 1.0)})
TABLE = {"a": X[:, 0], "b": X[:, 1]}
HALVES = dpfast.Schema(SCHEMA.columns | {"half": dpfast.Binary(1, 0)})
SORTED = TABLE | {"half": np.arange(N) % 2}
WEIGHTED = dpfast.records(SORTED, sample_weight=1.0 + np.arange(N) % 4, largest_weight=4.0)
BOX = [(-1.0, 1.0)] * 2


def squares(theta: Any) -> Any:
    return (Y - X @ theta) ** 2


def fit(**options: Any) -> Callable[..., Any]:
    options = {"method": Newton(steps=4)} | options
    return partial(dpfast.fit, X, Y, dpfast.Objective("log-cosh", scale=0.8), **options)


def released(function: Any, *arguments: Any, ridge: float = 0.0, **options: Any) -> Any:
    loss = dpfast.Objective("log-cosh", scale=0.8, ridge=ridge)
    return partial(function, X, Y, loss, *arguments, domain=Ball(1.5), **options)


GAUSSIAN: dict[str, Callable[..., Any]] = {
    "fit": fit(),
    "fit, gradient descent": fit(method=GradientDescent(steps=4)),
    "fit, estimated step": fit(method=GradientDescent(step_size="estimated", steps=4)),
    "fit, no inference": fit(inference=False),
    "fit, Newton": fit(method=Newton(newton_steps=4, steps=4)),
    "fit, free scale": partial(dpfast.fit, X, Y, dpfast.Objective("huber",
    scale=dpfast.FreeScale(0.1, 10.0)), method=Newton(steps=4)),
    "tune": partial(tune, squares, BOX, n_records=N, steps=3),
    "tune, portfolio": partial(tune, squares, BOX, n_records=N, steps=8),
    "clip": partial(private_clip, squares, BOX, n_records=N),
    "choice": partial(
        private_choice, squares, [np.zeros(2), np.ones(2)], n_records=N, loss_range=(0.0, 4.0)
    ),
    "quantiles": partial(dpfast.private_quantiles, Y, (0.3, 0.6), low=-2.0, high=2.0, steps=5),
    "cells": partial(dpfast.tables.counts, SORTED, "half", schema=HALVES),
    "means by cell": partial(dpfast.tables.means, SORTED, ["a", "b"], "half", schema=HALVES),
    "quantiles by cell": partial(
        dpfast.tables.quantiles, SORTED, "a", "half", (0.3, 0.6), schema=HALVES, bins=8
    ),
    "distribution by cell": partial(
        dpfast.tables.distribution, SORTED, "a", "half", schema=HALVES, bins=[0.1]
    ),
    "weighted cells": partial(dpfast.tables.counts, WEIGHTED, "half", schema=HALVES),
    "weighted means by cell": partial(
        dpfast.tables.means, WEIGHTED, ["a", "b"], "half", schema=HALVES
    ),
    "weighted quantiles by cell": partial(
        dpfast.tables.quantiles, WEIGHTED, "a", "half", (0.3, 0.6), schema=HALVES, bins=8
    ),
    "two stages": partial(
        dpfast.effects.two_stage, "y ~ x | z",
        {"x": np.tile(X[:, 0], 30), "z": np.tile(X[:, 1], 30), "y": np.tile(Y, 30)},
    ),
    "hazards": partial(
        dpfast.effects.cox, "y ~ x",
        {"x": np.tile(X[:, 0], 30), "y": np.tile(Y, 30), "d": np.tile(Y > 0.0, 30)},
        event="d", cuts=[0.5, 1.0],
    ),
    "columns selected": partial(
        dpfast.regression.fit_sparse, np.tile(X, (60, 1)), np.tile(Y, 60), n_nonzero_coefs=1
    ),
    "standardised": partial(dpfast.standardize, np.tile(X, (20, 1)), np.tile(Y, 20)),
    "minimize": partial(
        dpfast.minimize, X, Y, dpfast.Objective("tukey", scale=0.8),
        method=dpfast.optimize.Adaptive(last_share=0.2),
    ),
    "minimize, proximal": partial(
        dpfast.minimize, X, Y, dpfast.Objective("tukey", scale=0.8),
        method=dpfast.papers.Proximal(rounds=2),
    ),
}  # fmt: skip

#: Those that may leave a part of the budget unspent: what they need follows from released numbers.
FRUGAL: dict[str, Callable[..., Any]] = {
    "fit, line search": fit(method=Newton(step=Backtracking(3))),
    "minimize, spider": partial(
        dpfast.minimize,
        X,
        Y,
        dpfast.Objective("cauchy", scale=0.8),
        method=dpfast.papers.Spider(max_steps=6),
        kl=(1.0, 2.0),
    ),
}

#: Those that pay once for answers about disjoint records: test_effects adds them up.
SIDE_BY_SIDE: dict[str, Callable[..., Any]] = {
    "fits by level": partial(
        dpfast.tables.fits, "y ~ x", {"x": np.tile(X[:, 0], 20), "y": np.tile(Y, 20),
                                      "half": np.arange(20 * N) % 2}, "half",
        schema=dpfast.Schema({"half": dpfast.Binary(1, 0)}),
    ),
    "effect": partial(
        dpfast.effects.treatment_effect, np.tile(X, (20, 1)), np.tile(Y > 0.0, 20),
        np.tile(Y, 20),
    ),
}  # fmt: skip

APPROXIMATE: dict[str, Callable[..., Any]] = {
    "functional": released(certified_functional, "x1", ridge=20.0),
    "functional, not certified": released(certified_functional, "x1"),
    "one step": released(dpfast.release_functional, "x1", method="one-shot"),
    "two steps with inference": released(
        dpfast.release_functional, ["x1", "x2"], method="one-shot", inference=0.3
    ),
    "functional of a fit": released(dpfast.release_functional, "x1", method="fit"),
    "functional of a perturbation": released(
        dpfast.release_functional, "x1", method="objective-perturbation"
    ),
    "parameter": released(dpfast.release_parameter, ridge=5.0),
    "parameter, not certified": released(dpfast.release_parameter),
    "both eigenvalues": released(dpfast.release.certify, which="both", ridge=5.0),
}

PURE = {"certificate": released(dpfast.release.certify, ridge=5.0)}

BUDGETS = (GDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6))
RELEASES = ApproxDP(6.0, 1e-3)


def calls() -> Iterator[Any]:
    for k, (name, call) in enumerate((GAUSSIAN | FRUGAL | SIDE_BY_SIDE).items()):
        for turn, budget in enumerate(BUDGETS):  # one each is quick
            marks = [pytest.mark.slow] * ((k + turn) % len(BUDGETS) > 0)
            yield pytest.param(call, budget, id=f"{name}, {budget!r}", marks=marks)
    for name, call in APPROXIMATE.items():
        yield pytest.param(call, RELEASES, id=f"{name}, {RELEASES!r}")
    for name, call in PURE.items():
        yield pytest.param(call, PureDP(1.0), id=f"{name}, PureDP")


#: What is charged in two parts, the second after the certificate is seen.
TWICE = ("functional,", "parameter")


def doubled(budget: Any) -> Any:
    return type(budget)(*(2.0 * value for value in budget.values()))


@pytest.mark.parametrize(
    ("call", "budget"),
    [case for case in calls() if not case.id.startswith(TWICE)],
)
def test_a_shared_ledger_is_charged_the_total_before_anything_is_drawn(monkeypatch, call, budget):
    with watch(monkeypatch) as events:
        ledger = Ledger(doubled(budget))
        call(privacy=budget, ledger=ledger, noise=Watched(events))
    shared = next(i for i, e in enumerate(events) if e.kind == "charge" and e.ledger is ledger)
    # an analysis may have charged a ledger of its own, made for this call, by then
    assert all(event.kind == "charge" for event in events[:shared])
    (entry,) = ledger.entries
    # a pair pays for Gaussian noise in GDP (claim C87)
    if type(budget) is ApproxDP and budget != RELEASES:
        most = GDP.within(budget).mu
        assert (1.0 - 1e-7) * most < entry.charged.mu <= most
    else:
        assert entry.charged == budget
    kinds = [event.kind for event in events]
    assert "draw" in kinds
    # the analysis has a ledger of its own, charged before the first draw as well
    own = [e.ledger is not ledger and e.kind == "charge" for e in events]
    assert any(own) and own.index(True) < kinds.index("draw")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("functional, not certified", [(1.5, 5e-4)]),
        ("functional", [(1.5, 5e-4), (4.5, 5e-4)]),
        ("parameter, not certified", [(1.5, 5e-4)]),
        ("parameter", [(1.5, 5e-4), (4.5, 5e-4)]),
    ],
)
def test_a_certificate_is_charged_and_then_what_it_allows(monkeypatch, name, parts):
    """Claim R35: delta, too, for a refusal; each charge before the draws that it pays for."""
    with watch(monkeypatch) as events:
        ledger = Ledger(doubled(RELEASES))
        found = APPROXIMATE[name](privacy=RELEASES, ledger=ledger, noise=Watched(events))
    assert found.certified == (len(parts) == 2)
    charges = [i for i, e in enumerate(events) if e.kind == "charge" and e.ledger is ledger]
    draws = [i for i, e in enumerate(events) if e.kind == "draw"]
    for entry, part in zip(ledger.entries, parts, strict=True):
        assert entry.charged.values() == pytest.approx(part, rel=1e-9)
    assert charges[0] < draws[0] and all(e.kind == "charge" for e in events[: charges[0]])
    assert found.certificate.privacy.total == ledger.entries[0].charged
    if found.certified:
        # the integers in between, and nothing is lost to rounding
        integers = 1 + (found.certificate.largest_bound is not None)
        assert draws[integers - 1] < charges[1] < draws[integers]
        assert ledger.spent == RELEASES == found.privacy.total
    else:
        assert len(draws) == 1
        assert found.privacy.total == ledger.spent
        assert [Fraction(a) + Fraction(b) for a, b in zip(
            found.left.values(), ledger.spent.values(), strict=True
        )] == [Fraction(a) for a in RELEASES.values()]  # fmt: skip


@each("fit", [0, 1, 2])
def test_certificates_and_fits_share_one_pair(fit):
    """Claim R41: each charge as what it is, in any order, and all of them within the total."""
    ledger = Ledger((14.0, 2e-3), apart=(9.0, 1.5e-3))
    loss = Objective("huber", scale=1.0)
    calls = [
        lambda: (
            APPROXIMATE["parameter, not certified"](
                privacy=ApproxDP(3.0, 5e-4), ledger=ledger, noise=SeededNoise(0)
            ).certified
        ),
        lambda: APPROXIMATE["functional"](privacy=RELEASES, ledger=ledger).certified,
    ]
    calls.insert(fit, lambda: dpfast.fit(X, Y, loss, privacy=GDP(0.5), ledger=ledger).params)
    assert sum(call() is True for call in calls) == 1
    charged = [entry.charged for entry in ledger.entries]
    pairs = [spend for spend in charged if type(spend) is ApproxDP]
    epsilon, delta = (sum(Fraction(*written(p.values()[k])) for p in pairs) for k in (0, 1))
    assert [type(spend) for spend in charged].count(GDP) == len(charged) - len(pairs) == 1
    assert epsilon <= 9 and delta <= Fraction("1.5e-3")
    most = math.hypot(ledger.remaining.mu, 0.5)
    assert 4.99 < GDP(most).epsilon(5e-4) <= 5.0 * (1.0 + 1e-12)


class Meanwhile(Watched):
    """Another analysis spends the rest while a certificate is drawn."""

    ledger: Ledger

    def discrete_laplace(self, size: int, numerator: int, denominator: int) -> Any:
        if self.ledger.remaining.epsilon > 0.0:
            self.ledger.charge(self.ledger.remaining, "another analysis")
        return super().discrete_laplace(size, numerator, denominator)


@pytest.mark.parametrize("name", ["functional", "parameter"])
def test_a_second_charge_that_is_refused_draws_nothing_and_keeps_the_certificate(monkeypatch, name):
    with watch(monkeypatch) as events:
        noise, ledger = Meanwhile(events), Ledger(RELEASES)
        noise.ledger = ledger
        with pytest.raises(BudgetExceeded) as refused:
            APPROXIMATE[name](privacy=RELEASES, ledger=ledger, noise=noise)
    integers = 1 + (refused.value.partial_result.largest_bound is not None)
    assert [event.kind for event in events].count("draw") == integers
    assert [entry.label for entry in ledger.entries][1:] == ["another analysis"]
    assert isinstance(refused.value.partial_result, dpfast.release.Certificate)
    assert refused.value.partial_result.privacy.total == ledger.entries[0].charged


@pytest.mark.parametrize(("call", "budget"), list(calls()))
def test_a_shared_ledger_that_cannot_pay_stops_everything(monkeypatch, call, budget):
    with watch(monkeypatch) as events:
        short = type(budget)(*((1.0 - 1e-9) * value for value in budget.values()))
        ledger = Ledger(short)
        with pytest.raises(BudgetExceeded):
            call(privacy=budget, ledger=ledger, noise=Watched(events))
    assert {event.kind for event in events} <= {"charge"}
    assert not ledger.entries


class Sums:
    """An observer that adds up what the answers of a run cost, exactly."""

    def __init__(self) -> None:
        self._charges: dict[int, Fraction] = {}
        self._events: list[Event] = []

    def release(self, question: tuple[Any, ...], release: Any, draw: Any) -> Any:
        paid = [i for i, event in enumerate(self._events) if event.kind == "charge"]
        self._charges[paid[-1]] = Fraction(*written(question[1])) ** 2
        return draw()


@each("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("name", GAUSSIAN | FRUGAL)
def test_answers_cost_at_most_the_total_and_nearly_all_of_it(monkeypatch, name, budget):
    """The exact sum of the squares of the decimals that were asked for (claims C9, C17, C86)."""
    sums = Sums()
    with watch(monkeypatch) as events, observed(sums):
        sums._events = events
        (GAUSSIAN | FRUGAL)[name](privacy=budget, noise=Watched(events))
    total = Fraction(*written(GDP.within(budget).mu)) ** 2
    spent = sum(sums._charges.values())
    assert 0 < spent <= total
    if name in GAUSSIAN:
        assert spent >= total * (1 - Fraction(1, 10**6))
