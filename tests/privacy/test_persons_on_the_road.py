"""C81: what is seen of persons, each of whom counts with the mean of what their rows contribute."""

from __future__ import annotations

import itertools
import math
from functools import cache, partial

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import StepBudget
from dpfast.curator.noisy_release import observed
from dpfast.curator.preconditioned import (
    LeverageWeights,
    RowClipping,
    _kernel_and_constants,
    compiled,
)
from dpfast.data.groups import grouped
from dpfast.data.persons.means import of_slots, person_means
from dpfast.data.persons.scores import ROW_NORM_FACTOR, counting_unit, person_scores
from dpfast.data.records import Records
from dpfast.data.scaling.maps import TransformedView
from dpfast.errors import BudgetExceeded
from dpfast.kernels.records import MEAT
from dpfast.models import Clip
from dpfast.privacy.sensitivity import histogram
from dpfast.solvers.pcn.histogram import bin_edges
from tests.loops import each
from tests.privacy.test_whitened import (
    LOSSES,
    MATRIX,
    THETA,
    formulas,
    observed_value,
    point,
    table,
    whitened,
)

CELLS = bin_edges(1)[:-1]
OTHERS = 11

#: Rows of one person: (covariates, response), from none that is usable to hundreds.
CELL = [-1e308, -3.0, 0.0, 0.5, 1e160, np.nan, np.inf]
RESPONSE = [-1e300, 0.0, 1.0, 7.0, 1e300, np.nan, np.inf]


def persons(mine, how="together", most=None):
    """Eleven persons with some rows, and one whose rows are ``mine``, together or apart.

    ``most``: the public number of rows whose inverse is a row's weight.
    """
    rng = np.random.default_rng(1)
    X, y, who = rng.normal(size=(28, 2)), (rng.random(28) < 0.5) * 1.0, rng.permutation(28) % OTHERS
    rows = np.array([row for row, _ in mine], dtype=float).reshape(-1, 2)
    X, y = np.vstack([X, rows]), np.append(y, [response for _, response in mine])
    who = np.append(who, np.full(len(rows), OTHERS))
    if how == "apart":
        order = np.random.default_rng(2).permutation(len(y))
        if most is not None:  # the first rows count, so that others' keep their order
            order = np.argsort(np.where(who == OTHERS, 27.0 * order / len(y), np.arange(len(y))))
        X, y, who = X[order], y[order], who[order]
    if most is None:
        return person_means(Records(X, y, None), who)
    return of_slots(grouped(Records(X, y, None), who, most), most)


def hostile(many=True):
    """Persons as hostile as they come; some of their rows count for nothing."""
    rng = np.random.default_rng(3)
    alone = [[((a, 1.0), b)] for a, b in itertools.product(CELL, RESPONSE)]
    far = [(1e5, 0.0), (-1e5, 0.0), (0.0, 1e5), (0.0, -1e5), (0.1, 0.5)]
    alone += [[(row, b)] for row in far for b in (0.0, 1.0, 1e6)]
    mixed = []
    for size in (2, 7, 300) if many else (2, 3):
        mixed += [[alone[k][0] for k in rng.integers(0, len(alone), size)] for _ in range(8)]
        mixed += [[one[0]] * size for one in alone[::9]]
    return [*alone, *mixed]


def rooms(all_of_them, mapped=True, most=None):
    """The rows of each of these persons among the others, behind a door of their own."""
    found = []
    for k, mine in enumerate(all_of_them):
        rows = whitened(None, None, rows=persons(mine, ("together", "apart")[k % 2], most))
        found.append(rows.mapped(MATRIX) if mapped else rows)
    return found


@cache
def hostile_rooms(mapped=True, most=None):
    """Made once, as they take longer than a question."""
    with np.errstate(all="ignore"):
        return rooms(hostile(), mapped, most)


def answers(ask, of_rooms):
    with np.errstate(all="ignore"):
        found = [observed_value(lambda rows=rows: ask(rows)) for rows in of_rooms]
    assert np.isfinite(found).all()
    return np.array(found).reshape(len(found), -1)


def farthest(found):
    squares = (found**2).sum(axis=1)
    apart = squares[:, None] + squares - 2.0 * found @ found.T
    k = np.unravel_index(np.argsort(apart, axis=None)[-20:], apart.shape)  # of rounding errors
    return max(float(np.linalg.norm(found[i] - found[j])) for i, j in zip(*k, strict=True))


def questions(name):
    at, radius, bound = point(name), 1.7, 1.1
    free, reach = RowClipping(), RowClipping(max_score_bound=0.8)
    long = RowClipping(LeverageWeights(at, 1.5, 0.5, np.linalg.inv(MATRIX)))
    return {
        "gram": lambda rows: rows.gram(radius, 0.1),
        "curvature": lambda rows: rows.gram(radius, 0.1, at),
        "moment": lambda rows: rows.moment(2.0, 0.5, 0.1, at, "response", 0.5),
        "moment beside a gram": lambda rows: rows.gram_and_moment(
            2.0, 0.5, StepBudget(0.1, 0.2), at, 0.5
        )[1],
        **{
            f"clipped {name}": lambda rows, held=held: rows.clipped(
                at, bound, 0.1, row_clipping=held
            )
            for name, held in {"free": free, "reach": reach, "long": long}.items()
        },
        **{
            f"lengths {what}": lambda rows, what=what: rows.norm_histogram(CELLS, 0.1, at, what)
            for what in ("response", "curvature", "score", "score size", "residual")
        },
    }


def announced(ask):
    """The sensitivity that a receipt says, of twelve persons."""
    rows = whitened(None, None, rows=persons([((1.0, 1.0), 1.0)])).mapped(MATRIX)
    answer = ask(rows)
    return getattr(answer, "gradient", answer).receipt.l2_sensitivity


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_c81_no_person_moves_an_answer_by_more_than_announced(loss, mapped):
    """Of one row or of 300, huge, opposite, missing: all pairs of some 110 persons."""
    mine = hostile_rooms(mapped)
    for question, ask in questions(loss).items():
        if not mapped and question == "clipped long":
            continue
        assert farthest(answers(ask, mine)) <= announced(ask), question


@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [2, 3, 7])
@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
def test_c81_nor_does_one_with_more_rows_than_count(loss, most):
    """Public weights: rows beyond the m-th are left out, and the others have 1/m each."""
    mine = hostile_rooms(most=most)
    for question, ask in questions(loss).items():
        assert farthest(answers(ask, mine)) <= announced(ask), question


def test_c81_a_row_has_its_own_part_of_the_public_weight():
    """The sum over the first m rows over m, each times what its weight is of the largest, held."""
    rng = np.random.default_rng(9)
    X, y, who = rng.normal(size=(60, 2)), rng.normal(size=60), rng.integers(0, 12, 60)
    own = rng.choice([-1.0, 0.0, 0.3, 1.0, 7.0, np.nan], 60)
    joined = np.column_stack([np.where(own > 0.0, y, np.nan), own, np.zeros(60)])
    at, n, m = point("least-squares"), len(set(who.tolist())), 3
    place = np.array([np.sum(who[:i] == who[i]) for i in range(60)])
    a = np.column_stack([np.ones(60), X]) @ MATRIX
    score = a * (y - a @ THETA)[:, None]
    weight = np.where(own > 0.0, np.minimum(own, 1.0), 0.0) * (place < m) / m
    scores = np.zeros((n, MATRIX.shape[1]))
    np.add.at(scores, np.unique(who, return_inverse=True)[1], weight[:, None] * score)
    scores *= np.minimum(1.0, 1.1 / np.maximum(np.linalg.norm(scores, axis=1), 1e-9))[:, None]
    records = of_slots(grouped(Records(X, joined, None), who, m), m)
    rows = whitened(None, None, rows=records).mapped(MATRIX)
    found = observed_value(lambda: rows.clipped(at, 1.1, 0.1))
    np.testing.assert_allclose(-found, scores.mean(axis=0), atol=1e-9)
    with np.errstate(all="ignore"):
        meat = meat_of(rows, at, 1.1)
    np.testing.assert_allclose(meat, scores.T @ scores / n, atol=1e-9)


@pytest.mark.parametrize(("rows", "most"), [(1, None), (2, None), (40, None), (4, 4), (9, 4)])
@pytest.mark.one_in(2)
def test_c81_constants_are_attained(rows, most):
    """By persons all of whose rows are the worst one."""
    n = OTHERS + 1
    worst = [
        [((a, b), y)] * rows
        for (a, b) in [(1e5, 0.0), (-1e5, 0.0), (0.0, 1e5), (0.74, 0.0), (0.76, 0.0), (0.1, 0.2)]
        for y in (-1e9, 0.0, 1.0, 1e9)
    ]
    for question, constant in (
        ("curvature", 2.0**0.5 * 1.7**2 / n),
        ("moment", 2.0 * 0.5 * 2.0 / n),
        ("clipped free", 2.0 * 1.1 / n),
        ("lengths score", histogram(n)),
    ):
        ask = questions("least-squares")[question]
        assert announced(ask) == pytest.approx(constant, rel=1e-6)
        assert (
            0.99 * constant <= farthest(answers(ask, rooms(worst, most=most))) <= announced(ask)
        ), question


def test_c81_scores_and_their_meat_cost_persons_no_more_than_scores():
    """Squared distances in units of noise, of persons at corners of the ball and within it."""
    mine, at, bound, n = hostile(many=False), point("least-squares"), 1.1, OTHERS + 1
    scores = answers(lambda rows: rows.clipped(at, bound, 0.1), rooms(mine))
    with np.errstate(all="ignore"):
        meats = np.array(
            [meat_of(whitened(None, None, rows=persons(one)).mapped(MATRIX), at, bound)
             for one in mine]
        ).reshape(len(mine), -1)  # fmt: skip
    pairs = np.array(list(itertools.combinations(range(len(mine)), 2)))
    of_scores = np.linalg.norm(scores[pairs[:, 0]] - scores[pairs[:, 1]], axis=1) / (2 * bound / n)
    of_meat = np.linalg.norm(meats[pairs[:, 0]] - meats[pairs[:, 1]], axis=1)
    of_meat /= 2.0**0.5 * bound**2 / n
    costs = of_scores**2 + 0.25 * of_meat**2
    assert 0.98 <= costs.max() <= 1.0 + 1e-9
    rows = whitened(None, None, mu=1.0 + 1e-9, rows=persons(mine[0]))
    rows.clipped(at, bound, 1.0, 0.5)
    with pytest.raises(BudgetExceeded):
        rows.gram(1.0, 1e-3)
    rows = whitened(None, None, mu=1.0 + 1e-9, rows=persons(mine[0]))
    with pytest.raises(BudgetExceeded):  # beyond it nothing is proved: the sum is charged
        rows.clipped(at, bound, 1.0, 0.51)


@each("name", ["least-squares", "logistic"])
def test_c105_persons_cost_no_more(name):
    """A Gram beside a moment, in units of noise: no pair is farther apart than it costs."""
    at, moved, budget = point(name, 0.0 * THETA), [], StepBudget(0.3, 0.3)

    class Both:
        def release(self, question, release, draw):
            moved[-1].append(np.ravel(release.value) / release.noise_scale)
            self.cost = question[1]
            return draw()

    with np.errstate(all="ignore"):
        for one in hostile(many=False):
            rows = whitened(None, None, rows=persons(one)).mapped(MATRIX)
            moved.append([])
            with observed(watch := Both()):
                rows.gram_and_moment(1.7, 0.5, budget, at, 0.5 * (name == "logistic"))
    found = farthest(np.array([np.concatenate(parts) for parts in moved]))
    assert 0.8 * watch.cost <= found <= watch.cost < math.hypot(0.3, 0.3)


def meat_of(rows, at, bound):
    """The exact meat that is released beside clipped scores."""
    kernel, _ = _kernel_and_constants(Clip, bound, 0.0, 3)
    return rows._sums(rows._view("score", at), kernel, MEAT, bound)[2]


def loops(whose, f):
    """Mean over persons of the mean over their rows, by plain loops."""
    total = 0.0
    for person in range(whose.max() + 1):
        mine = np.flatnonzero(whose == person)
        total = total + sum(f(i) for i in mine) / len(mine)
    return total / (whose.max() + 1)


@each("how", ["arrays", "file"])
@each("mapped", [0, 1, 2])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.one_in(2)
def test_c81_answers_are_means_over_persons_from_every_source(loss, mapped, how, monkeypatch):
    monkeypatch.setattr("dpfast.data.persons.means.ROWS_AT_A_TIME", 7)

    records, a, y, _, _ = table(how)
    whose = np.random.default_rng(4).permutation(50) % 17
    rows, back = whitened(None, None, rows=person_means(records, whose)), np.eye(3)
    for _ in range(mapped):
        rows, back = rows.mapped(MATRIX), back @ MATRIX
    a, at, radius, bound = a @ back, point(loss), 1.4, 0.9
    psi, curvature, _ = formulas(loss, y, a @ THETA)
    long = np.linalg.norm(a, axis=1)

    gram = observed_value(lambda: rows.gram(radius, 0.1, at))
    held = np.minimum(curvature, radius**2 / long**2)
    wanted = loops(whose, lambda i: held[i] * np.outer(a[i], a[i]))
    np.testing.assert_allclose(gram, wanted, rtol=1e-9, atol=1e-12)

    moment = observed_value(lambda: rows.moment(radius, 0.3, 0.1, at, "response", 0.5))
    one = np.minimum(1.0, radius**2 / long**2) * np.clip(y - 0.5, -0.3, 0.3)
    wanted = loops(whose, lambda i: one[i] * a[i])
    np.testing.assert_allclose(-moment, wanted, rtol=1e-9, atol=1e-12)

    scores = np.array([(a * psi[:, None])[whose == one].mean(axis=0) for one in range(17)])
    norms = np.linalg.norm(scores, axis=1)
    shares = observed_value(lambda: rows.norm_histogram(CELLS, 0.1, at, "score"))
    cells = np.bincount(np.searchsorted(CELLS, norms), minlength=len(shares))
    np.testing.assert_allclose(shares, cells / 17, rtol=0.0, atol=1e-12)

    rows_held = np.minimum(1.0, ROW_NORM_FACTOR * bound / np.maximum(long * np.abs(psi), 1e-300))
    of_rows = (rows_held * psi)[:, None] * a
    scores = np.array([of_rows[whose == one].mean(axis=0) for one in range(17)])
    norms = np.linalg.norm(scores, axis=1)
    scores *= np.minimum(1.0, bound / np.maximum(norms, 1e-300))[:, None]
    clipped = observed_value(lambda: rows.clipped(at, bound, 0.1))
    np.testing.assert_allclose(-clipped, scores.mean(axis=0), rtol=1e-7, atol=1e-9)
    meat = meat_of(rows, at, bound)
    np.testing.assert_allclose(meat, scores.T @ scores / 17, rtol=1e-7, atol=1e-9)

    residuals = observed_value(lambda: rows.norm_histogram(CELLS, 0.1, at, "residual"))
    cells = np.searchsorted(CELLS, np.abs(y - a @ THETA))
    wanted = loops(whose, lambda i: np.eye(len(shares))[cells[i]])
    np.testing.assert_allclose(residuals, wanted, rtol=0.0, atol=1e-12)


def test_c81_counts_of_persons_are_exact_in_any_order():
    """Bit for bit, whatever the order of rows and the size of blocks; and never more than one."""
    rng = np.random.default_rng(5)
    for n, sizes in ((3, 7), (50, 300), (999, 3)):
        whose = np.append(np.arange(n), rng.integers(0, n, n * sizes))
        X, y = rng.normal(size=(len(whose), 2)), rng.normal(size=len(whose))
        found = set()
        for order in (np.arange(len(y)), rng.permutation(len(y)), np.argsort(whose, kind="stable")):
            records = person_means(Records(X[order], y[order], None), whose[order])
            rows = whitened(None, None, rows=records).mapped(MATRIX)
            at = point("least-squares")
            ask = partial(rows.norm_histogram, CELLS, 0.1, at, "residual")
            found.add(observed_value(ask).tobytes())
        assert len(found) == 1
        shares = np.frombuffer(found.pop())
        assert 1.0 - 1e-9 < shares.sum() <= 1.0 + 1e-15
    assert counting_unit(1) * 1 <= 2.0**52 and counting_unit(2**31) * 2.0**31 <= 2.0**52


def test_a_person_without_a_usable_row_is_in_no_cell():
    at, shares = point("log-cosh"), []
    for row in [(0.5, 0.5), (np.nan, 0.5), (np.inf, 1.0)]:
        rows = whitened(None, None, rows=persons([(row, 1.0)])).mapped(MATRIX)
        shares.append(
            observed_value(lambda rows=rows: rows.norm_histogram(CELLS, 0.1, at, "score")).sum()
        )
    np.testing.assert_allclose(shares, [1.0, 11 / 12, 11 / 12])


def test_c81_scores_of_persons_are_exact_in_any_order(monkeypatch):
    """Bit for bit, whatever the order of rows and the size of pieces, and however large."""
    rng = np.random.default_rng(15)
    whose = np.append(np.arange(40), rng.integers(0, 40, 4000))
    X, y = rng.normal(size=(len(whose), 2)), rng.normal(size=len(whose))
    y[::7] *= 1e9  # beyond what a row is held to
    view, found = TransformedView(MATRIX, True, "score", point("least-squares")), set()
    for pieces in (1 << 16, 900, 77):
        monkeypatch.setattr("dpfast.data.persons.means.ROWS_AT_A_TIME", pieces)
        for order in (np.arange(len(y)), rng.permutation(len(y)), np.argsort(whose, kind="stable")):
            records = person_means(Records(X[order], y[order], None), whose[order])
            kept = person_scores(records, compiled(view), 3, 700.0)
            scores = np.concatenate([rows for rows, _ in kept.blocks()])
            names = list(dict.fromkeys(whose[order].tolist()))  # in order of first appearance
            found.add(scores[np.argsort(names)].tobytes())
    assert len(found) == 1
    longest = np.linalg.norm(np.frombuffer(found.pop()).reshape(40, -1), axis=1)
    assert 50.0 < longest.max() < 200.0


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh", "logistic", "poisson", "quantile"])
def test_c81_nothing_public_follows_the_number_of_rows(loss):
    """Receipts and progress of whole fits, of persons with one row and with one to six."""
    told = []
    for most in (1, 6):
        rng = np.random.default_rng(6)
        sizes = rng.integers(1, most + 1, 600)
        whose = np.repeat(np.arange(600), sizes)
        X = rng.normal(size=(len(whose), 2))
        y = (rng.random(len(whose)) < 0.5) * 1.0
        steps = []
        fit = dpfast.fit(
            dpfast.records(X, y, group=whose, each="person"), None, loss, privacy=2.0,
            noise=dpfast.SeededNoise(1), progress=lambda *step, steps=steps: steps.append(step),
        )  # fmt: skip
        told.append((fit.n_records, steps, fit.names, fit.privacy.total, fit.privacy.relation))
    assert told[0] == told[1]


def test_persons_of_a_file_are_those_in_memory(tmp_path):
    """All the way: rows from Parquet in small groups, and from arrays."""
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(8)
    whose = np.repeat(np.arange(900), rng.integers(1, 4, 900))
    whose = whose[rng.permutation(len(whose))]
    X, y = rng.normal(size=(len(whose), 2)), rng.poisson(1.0, len(whose)) * 1.0
    path = tmp_path / "rows.parquet"
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y, "who": whose}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=211)
    for loss in ("least-squares", "quantile"):
        source = dpfast.open_parquet(path, covariates=["a", "b"], response="y")
        here, there = (
            dpfast.fit(rows, None, loss, privacy=3.0, noise=dpfast.SeededNoise(3))
            for rows in (
                dpfast.records(X, y, names=["a", "b"], group=whose, each="person"),
                dpfast.records(source, group="who", each="person"),
            )
        )
        np.testing.assert_allclose(there.params, here.params, rtol=1e-6)
        np.testing.assert_allclose(there.bse, here.bse, rtol=1e-6)
