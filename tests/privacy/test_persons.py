"""Persons who count with the mean of their rows: claim C72 of PROOFS.md."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.curator import Curator, StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.curator.noisy_release import observed
from dpfast.curator.persons import PERSONS_AT_A_TIME
from dpfast.data import as_records
from dpfast.data.persons.means import MAX_ROWS, ROWS_AT_A_TIME, _usable, person_means
from dpfast.data.record_weights.joined import WeightLayout, weighted_records
from dpfast.data.reduction import additions
from dpfast.errors import InvalidInput
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, summation_depth
from dpfast.models import Bounded, Huber, LogCosh, Logistic, Mallows, Objective
from dpfast.privacy.noise import SeededNoise
from dpfast.privacy.sensitivity import joint_mu

ALL = GRADIENT | HESSIAN | MEAT
LOSSES = {"huber": Huber(), "log-cosh": LogCosh(), "logistic": Logistic()}


def curator(X, y, group, loss="log-cosh", weighting=None, noise=None, total=1e6):
    kind = LOSSES[loss]
    scale = None if loss == "logistic" else 1.0
    objective = Objective(kind, weighting or Mallows(1.5), np.shape(X)[1], scale=scale)
    persons = person_means(as_records(X, y), group)
    return Curator(persons, objective, dpfast.Ledger(total), noise or SeededNoise(0))


def rows_of(rng, m, loss, far):
    """Rows as hostile as they come: huge, tiny, missing, opposite."""
    X = rng.normal(size=(m, 2)) * rng.choice([1e-3, 1.0, far], (m, 1))
    y = rng.normal(size=m) * far
    if loss == "logistic":
        y = (y > 0.0) * 1.0
    y[rng.random(m) < 0.1] = np.nan
    return X, y


def test_a_person_is_the_mean_of_their_rows():
    """Weighted kernel and products against plain loops over persons and rows."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, 300)
    X, y = rows_of(rng, 300, "log-cosh", 2.0)
    theta = np.array([0.1, 0.5, -0.3])
    for weighting in (Mallows(1.5), Bounded(1.5)):
        keeper = curator(X, y, group, weighting=weighting)
        gradient, hessian, meat = keeper._sums(theta, ALL)
        expected = [np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))]
        for person in range(40):
            rows = [i for i in np.flatnonzero(group == person) if np.isfinite(y[i])]
            score, curvature = np.zeros(3), np.zeros((3, 3))
            for i in rows:
                alone = Curator(
                    as_records(X[[i]], y[[i]]), keeper.objective, dpfast.Ledger(1.0), SeededNoise(0)
                )
                s, h, _ = alone._sums(theta, ALL)
                score, curvature = score + s / len(rows), curvature + h / len(rows)
            expected[0] += score / 40
            expected[1] += curvature / 40
            expected[2] += np.outer(score, score) / 40
        for found, value in zip((gradient, hessian, meat), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-15)


def test_weights_of_a_person_add_up_to_at_most_one():
    """Exactly, in rational numbers, for every number of rows up to 300 and for large ones."""
    from fractions import Fraction

    for m in (*range(1, 301), 999, 1023, 65_537, 10**6 + 3):
        rows = person_means(as_records(np.zeros((m, 1)), np.zeros(m)), np.zeros(m, int))
        weight = next(rows.blocks())[1][0, 1]
        assert 1 - Fraction(1, 10**12) < m * Fraction(float(weight)) <= 1


@pytest.mark.parametrize("loss", LOSSES)
def test_c72_no_pair_of_persons_exceeds_a_constant(loss):
    rng = np.random.default_rng(1)
    worst = {"gradient": 0.0, "hessian": 0.0, "meat": 0.0}
    theta = np.array([0.2, -0.4, 1.0])
    known = curator(np.zeros((1, 2)), np.zeros(1), [0], loss).objective
    bounds = {
        "gradient": known.score_diameter,
        "hessian": math.sqrt(2.0) * known.curvature_bound,
        "meat": math.sqrt(2.0) * known.meat_bound,
    }
    persons = []
    for m in (1, 1, 2, 3, 50) * 12:
        X, y = rows_of(rng, m, loss, 1e30 if m != 3 else 3.0)
        persons.append(curator(X, y, ["a"] * m, loss)._sums(theta, ALL))
    edge = np.array([[math.sqrt(1.25), 0.0]])
    for sign in (-1.0, 1.0):  # the pair that attains the first: one row, or ten times the same
        for m in (1, 10):
            X = np.repeat(edge, m, axis=0)
            at = np.zeros(3) if loss != "logistic" else np.array([0.0, 1e6 * sign, 0.0])
            y = np.full(m, sign * 1e30 if loss != "logistic" else float(sign < 0))
            persons.append(curator(X, y, ["a"] * m, loss)._sums(at, ALL))
    for first, second in itertools.combinations(persons, 2):
        for name, a, b in zip(worst, first, second, strict=True):
            worst[name] = max(worst[name], float(np.linalg.norm(a - b)) / bounds[name])
    assert all(ratio <= 1.0 + 1e-12 for ratio in worst.values()), worst
    assert worst["gradient"] >= 0.99


RELATIONS = {
    "independent": lambda t: np.ones_like(t),
    "one-minus-square": lambda t: 1.0 - t * t,
    "logistic": lambda t: 4.0 * t * (1.0 - t),
}


def persons_of(rng, relation, k, rows, p=2):
    """Scores and curvatures of k persons, in units of the bounds on one row's."""
    u = rng.normal(size=(k, rows, p))
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    t = rng.choice([0.0, 0.5, 0.7, 1.0], (k, rows)) * rng.choice([1.0, rng.random()], (k, rows))
    h = RELATIONS[relation](t) * rng.choice([0.0, 0.5, 1.0], (k, rows), p=[0.1, 0.2, 0.7])
    return (t[..., None] * u).mean(axis=1), np.einsum("kr,kri,krj->kij", h, u, u) / rows


def distances(S, M, g, h, q):
    half = len(S) // 2
    a, b, P, Q = S[:half], S[half:], M[:half], M[half:]
    products = np.einsum("ki,kj->kij", a, a) - np.einsum("ki,kj->kij", b, b)
    squares = np.square(a - b).sum(axis=1) * g / 4.0 + h / 2.0 * np.square(P - Q).sum((1, 2))
    return squares + q / 2.0 * np.square(products).sum((1, 2))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "parts", [(1.0, 0.4, 0.1), (1.0, 0.4, 0.25), (1.0, 0.9, 0.0), (0.2, 1.0, 0.5)]
)
@pytest.mark.values
def test_c72_joint_costs_of_persons_hold_and_are_attained(relation, parts):
    """Random persons of one to four rows; opposite single rows attain the gradient's share."""
    rng = np.random.default_rng(2)
    g, h, q = parts
    allowed = joint_mu(relation, *np.sqrt(parts), means=True) ** 2
    for rows in (1, 2, 4):
        S, M = persons_of(rng, relation, 40_000, rows)
        assert distances(S, M, g, h, q).max() <= allowed * (1.0 + 1e-12)
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])
    curvature = np.zeros((2, 2, 2))
    if 4.0 * q <= g and relation == "one-minus-square":
        assert distances(opposite, curvature, g, h, q).max() >= 0.99 * allowed
    if 4.0 * q > g and relation == "independent":  # no proof for less
        assert allowed == pytest.approx(g + h + q)


@pytest.mark.parametrize("loss", LOSSES)
def test_c72_neighbours_of_a_curator_move_by_at_most_the_announced_sensitivity(loss):
    """A person with 7 rows becomes one with 5,000: every answer moves by less than announced."""
    rng = np.random.default_rng(3)
    X, y = rows_of(rng, 400, loss, 3.0)
    group = np.arange(400) // 7
    others = group != 20
    many, response = rows_of(rng, 5_000, loss, 1e20)
    second = (
        np.concatenate([X[others], many]),
        np.concatenate([y[others], response]),
        np.concatenate([group[others], np.full(5_000, 20)]),
    )
    theta, plan = np.array([0.1, 0.2, 0.3]), StepBudget(0.5, 0.2, 0.1)
    keepers = [curator(*data, loss=loss) for data in ((X, y, group), second)]
    sums = [keeper._sums(theta, ALL) for keeper in keepers]
    receipts = keepers[0].receipts(plan)
    assert repr(receipts) == repr(keepers[1].receipts(plan))
    charged, cost = 0.0, keepers[0].plan(plan).cost.mu
    for before, after, receipt in zip(*sums, receipts, strict=True):
        distance = float(np.linalg.norm(before - after))
        assert 0.0 < distance <= receipt.l2_sensitivity, receipt.query
        charged += (distance / receipt.l2_sensitivity * receipt.mu) ** 2
    assert charged <= cost**2


@pytest.mark.parametrize("loss", ["logistic", "log-cosh"])
@pytest.mark.parametrize("method", ["auto", "newton"])
@pytest.mark.values
def test_whole_fits_of_neighbours_are_told_apart_no_better_than_paid(loss, method):
    """One person of 60 gets 200 rows for 2; the auditor sees a pair of tables by their number."""
    rng = np.random.default_rng(6)
    X, y = rows_of(rng, 120, loss, 3.0)
    group = np.arange(120) // 2
    more, response = rows_of(rng, 200, loss, 1e20)
    kept = group != 7
    tables = (
        (X, y, group),
        (
            np.concatenate([X[kept], more]),
            np.concatenate([y[kept], response]),
            np.concatenate([group[kept], np.full(200, 7)]),
        ),
    )

    standardize = False if loss == "logistic" else None  # nothing is bought
    loss = loss if loss == "logistic" else Objective(loss, scale=1.0)

    def call(number):
        covariates, responses, persons = tables[int(number[0][0])]
        found = dpfast.fit(
            dpfast.records(covariates, responses, group=persons, each="person"), None, loss,
            method=method, privacy=2.0, standardize=standardize,
        )  # fmt: skip
        return found, found.to_dict(), found.summary()

    report = replay(call, (np.array([0.0]),), (np.array([1.0]),), budget=dpfast.GDP(2.0))
    assert report.n_answers > 5 and not report.leaks


def test_c72_nothing_public_depends_on_the_number_of_rows():
    rng = np.random.default_rng(4)
    budget = StepBudget(0.5, 0.2, 0.1)
    found = []
    for m in (3, 500):
        group = np.arange(60 * m) % 60
        X, y = rows_of(rng, len(group), "log-cosh", 2.0)
        keeper = curator(X, y, group)
        depths = [keeper.depth(want) for want in (GRADIENT, HESSIAN, MEAT)]
        found.append((keeper.n, depths, repr(keeper.receipts(budget)), repr(keeper._records)))
    assert found[0] == found[1] and found[0][0] == 60


def test_c66_the_depth_covers_the_largest_number_of_rows():
    """That of a block, of adding the most blocks there can be, of holding a person's score."""
    keeper = curator(np.zeros((1, 2)), np.zeros(1), [0])
    for want in (GRADIENT, HESSIAN, MEAT):
        of_rows = summation_depth(ROWS_AT_A_TIME, 3, want) + additions(MAX_ROWS // ROWS_AT_A_TIME)
        assert keeper.depth(want) >= of_rows
    products = PERSONS_AT_A_TIME + additions(2**31 // PERSONS_AT_A_TIME) + 1
    of_scores = 2 * (summation_depth(ROWS_AT_A_TIME, 3, GRADIENT) + 4)
    assert keeper.depth(MEAT) >= products + of_scores + 2 * 3 + 8


def test_rows_beyond_a_block_are_summed_alike():
    """Sums in several blocks agree with those of plain loops to rounding."""
    n = 2 * ROWS_AT_A_TIME + 17
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    group = np.arange(n) % 1000
    gradient, hessian, meat = curator(X, y, group)._sums(np.zeros(3), ALL)
    order = np.argsort(group, kind="stable")
    again = curator(X[order], y[order], group[order])._sums(np.zeros(3), ALL)
    for first, second in zip((gradient, hessian, meat), again, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-11, atol=1e-13)


def test_free_scales_are_not_proved_for_persons():
    objective = Objective(Huber(), Mallows(1.5), 2, scale=dpfast.FreeScale(0.1, 10.0))
    with pytest.raises(InvalidInput, match="free scale"):
        joint_cost(objective, StepBudget(0.5), means=True)


class Exact:
    """An observer that keeps what is behind each answer and hands out zeros."""

    def __init__(self):
        self.seen = []

    def release(self, question, release, draw):
        self.seen.append(release)
        return np.zeros_like(release.value)


#: Rows that count for nothing, whatever their other cells are.
UNUSABLE = {
    "no response": (0, np.nan),
    "an infinite response": (0, np.inf),
    "a label that is none": (0, 0.5),
    "no offset": (1, np.nan),
    "an infinite offset": (1, -np.inf),
    "no covariate": (2, np.nan),
    "an infinite covariate": (2, np.inf),
    "long rows": (2, 1e30),
    "no missing cells": (2, math.sqrt(1.25)),
}


def ask_everything(room):
    """Every query that a curator answers."""
    near, far = np.array([0.2, -0.4, 0.3]), np.array([1e3, -1e6, 1e3])
    for theta in (near, far):
        room.joint(theta, StepBudget(0.5, 0.2, 0.1))
        room.joint(theta, StepBudget(0.5, 0.2, majorize=True))
        room.loss_difference(theta, np.zeros(3), 0.5)
        for largest in (True, False):
            room.extreme_eigenvalue(theta, 0.5, largest=largest)
    room.largest_curvature(0.5)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.values
def test_c72_no_answer_moves_by_more_than_announced_whatever_rows_a_person_has(loss, again):
    """A person with one usable row gets 300 further ones, of every kind; whatever is asked.

    With labels in memory, and with labels that are read again on every pass.
    """
    rng = np.random.default_rng(7)
    X, offset = rng.normal(size=(12, 2)), np.zeros(12)
    y = (X[:, 0] > 0.0) * 1.0
    group = np.arange(12)
    kind = LOSSES[loss]
    objective = Objective(kind, Mallows(1.5), 2, scale=None if loss == "logistic" else 1.0)
    how = WeightLayout(None, 1.0, loss == "logistic")

    def exact(X, y, offset, group):
        observer = Exact()
        labels = (lambda k: [(group.tolist(), np.arange(len(group)))]) if again else group
        with observed(observer):
            persons = person_means(weighted_records(as_records(X, y), how, None, offset), labels)
            ask_everything(Curator(persons, objective, dpfast.Ledger(1e6), SeededNoise(0)))
        return observer.seen

    before = exact(X, y, offset, group)
    largest = 0.0
    for column, value in UNUSABLE.values():
        rows, more = np.full((300, 2), [math.sqrt(1.25), 0.0]), np.zeros(300)
        response = np.ones(300)
        (response, more, rows[:, 0])[column][:] = value
        after = exact(
            np.concatenate([X, rows]),
            np.concatenate([y, response]),
            np.concatenate([offset, more]),
            np.concatenate([group, np.full(300, 11)]),
        )
        assert [seen.query for seen in before] == [seen.query for seen in after]
        for first, second in zip(before, after, strict=True):
            assert repr(first._replace(value=None)) == repr(second._replace(value=None))
            moved = float(np.linalg.norm(first.value - second.value)) / first.l2_sensitivity
            assert moved <= 1.0, first.query
            largest = max(largest, moved)
    assert largest > 0.3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_usable_whose_entries_are_finite_whatever_their_sum(dtype):
    top = np.finfo(dtype).max
    X = np.array([[1.0, 2.0], [top, top], [np.inf, -np.inf], [np.nan, 1.0], [-top, -top]], dtype)
    y = np.array([0.0, 1.0, 1.0, 1.0, np.inf], dtype)
    with np.errstate(all="raise"):
        assert _usable(X, y).tolist() == [True, True, False, False, False]
        assert _usable(X[:, :0], y).tolist() == [True, True, True, True, False]
