"""D1 to D3: counts over float keys and clipped moments; searches for records that break them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.noisy_release import observed
from dpfast.curator.scaling.columns import WINDOW_SHIFTS, Columns
from dpfast.data import Records, as_records
from dpfast.data.record_weights.joined import with_offsets
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.privacy.scaling.sensitivity import (
    SQUARE_WEIGHT,
    clipped_moments,
    complete_weight,
    counts,
    distances,
    query_mu,
)
from tests.loops import each
from tests.twins import keys as twin

HOSTILE = [-np.inf, -1e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.5, 1.0, 1e308, np.inf, np.nan]
ONE = 1023 << 52


class Exact:
    """Sees what is about to be released and hands it out as it is.  Not private."""

    def __init__(self):
        self.values = []

    def release(self, question, release, draw):
        self.values.append(np.array(release.value))
        return np.array(release.value)


def exact(records, ask):
    """The exact values behind an answer."""
    observer = Exact()
    with observed(observer):
        ask(Columns(records, dpfast.Ledger(5.0), dpfast.SeededNoise(0)))
    return observer.values[-1]


def of_records(rows):
    rows = np.array(rows, dtype=float)
    return Records(rows[:, :-1], rows[:, -1], None)


REST = [[0.3, -2.0, 1.0], [0.0, 7e5, -1.0], [1.0, 0.0, 0.5], [2.0, 1.0, np.nan], [0.5, 0.5, 0.5]]
THRESHOLDS = {
    "one each": [(0, 0), (1, ONE), (2, -ONE)],
    "one column": [(0, 0), (0, ONE), (0, ONE + (1 << 16)), (0, -ONE)],
    "a single one": [(1, ONE + (1 << 28))],
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_the_worst_pair_attains_the_sensitivity_of_counts(name):
    """All pairs of hostile records, one entry per column, against the rest of a small table."""
    asked = THRESHOLDS[name]
    records = itertools.product(
        [-1e308, -1.0, 0.5, 1e308, np.nan], [-np.inf, 0.0, 2.0], [-2.0, 3.0]
    )
    found = [exact(of_records([*REST, row]), lambda c: c.below(asked, 1.0)) for row in records]
    largest = max(np.linalg.norm(a - b) for a, b in itertools.combinations(found, 2))
    assert 0.99 * counts(len(asked)) <= largest <= counts(len(asked))


@each("m", [1, 2, 3, 4, 5, 17, 1000, 10**6])
def test_a_record_that_is_not_complete_is_as_far_away_at_most(m):
    """The weight is nearly the largest for which it is."""
    weight = complete_weight(m)
    assert math.sqrt(0.25 * m + weight**2) <= math.sqrt(m)
    assert (weight * 32).is_integer()
    assert weight + 1 / 32 > math.sqrt(0.75 * m) * (1.0 - 1e-12)


def points():
    """Points of the curve that one column of a record can contribute."""
    v = np.concatenate([np.linspace(-1.0, 1.0, 2001), [0.0, math.sqrt(5) - 2, 1.0]])
    return v


def test_no_pair_of_points_beats_the_sensitivity_of_moments():
    v = points()
    a, b = np.abs(v[:, None] - v), np.abs(v[:, None] + v)
    distance = np.sqrt(a**2 * (1.0 + (SQUARE_WEIGHT * b) ** 2))
    assert 0.99 * 2.0 <= distance.max() <= 2.0


def test_the_weight_of_the_squares_is_nearly_the_largest():
    """At 1.67 the pair 1 and 2 - sqrt(5) is farther apart than the means can be."""
    largest = math.sqrt((1.0 + math.sqrt(5.0)) ** 5 / 128.0)
    assert 1.66 <= SQUARE_WEIGHT <= largest
    v, u = 1.0, 2.0 - math.sqrt(5.0)
    squared = (v - u) ** 2 * (1.0 + (1.67 * (v + u)) ** 2)
    assert squared > 4.0 >= (v - u) ** 2 * (1.0 + (SQUARE_WEIGHT * (v + u)) ** 2)


@pytest.mark.parametrize("half", [1e-290, 0.7, 1e300])
def test_replaced_records_attain_the_sensitivity_of_moments(half):
    """All pairs of hostile records of three columns."""
    middles, halves = np.array([0.0, 0.25, -1.0]), np.full(3, half)
    rows = list(itertools.product(HOSTILE, [-1e308, 0.5, 1e308], [-1e308, 1.0, 1e308, np.nan]))
    inner = 2.0 - math.sqrt(5.0)
    rows += [[m + half * inner for m in middles], [m + half for m in middles]]
    found = [
        exact(of_records([*REST, row]), lambda c: c.moments(range(3), middles, halves, 1.0))
        for row in rows
    ]
    values = np.array(found)
    distances = np.linalg.norm(values[:, None] - values, axis=2)
    bound = clipped_moments(3, len(REST) + 1)
    assert 0.99 * bound <= distances.max() <= bound


@pytest.mark.parametrize("columns", [1, 3])
def test_a_search_over_pairs_finds_no_worse_records(columns):
    """Random pairs on the whole curve, in every column: through the kernel."""
    rng = np.random.default_rng(columns)
    middles, halves = np.zeros(columns), np.ones(columns)
    rows = np.clip(rng.normal(size=(200, columns)) * 2.0, -1.0, 1.0)
    rows[::3] = 2.0 - math.sqrt(5.0)
    values = np.array([
        exact(of_records([row]), lambda c: c.moments(range(columns), middles, halves, 1.0))
        for row in rows
    ])  # fmt: skip
    distances = np.linalg.norm(values[:, None] - values, axis=2)
    bound = clipped_moments(columns, 1)
    assert 0.9 * bound <= distances.max() <= bound


QUESTIONS = {
    "below": lambda c: c.below([(1, 0), (2, ONE)], 1.0),
    "distances": lambda c: c.distances([1, 2], np.full(2, -0.1), np.full(2, 1e-9), [40, 100], 1.0),
    "moments": lambda c: c.moments([1, 2], np.full(2, -0.1), np.ones(2), 1.0),
}


@each("name", QUESTIONS)
@each("value", [np.nan, np.inf, -np.inf])
@each("column", [0, 1, 2])
def test_a_missing_entry_of_any_column_takes_the_record_out(value, column, name):
    """As if the record were not there; but a mean is still one over n."""
    row = np.array([0.5, 0.5, 3.0])
    with_it = exact(of_records([*REST[:3], row]), QUESTIONS[name])
    row[column] = value
    missing = exact(of_records([*REST[:3], row]), QUESTIONS[name])
    without = exact(of_records(REST[:3]), QUESTIONS[name])
    part = 3 / 4 if name == "moments" else 1.0
    assert missing == pytest.approx(part * without, rel=1e-14)
    assert not np.allclose(missing, with_it)


def test_counts_are_those_of_the_twin_at_any_threshold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * [1.0, 1e-3] + [0.0, 140.0]
    X[rng.random((400, 2)) < 0.1] = np.nan
    y = np.round(rng.normal(size=400), 1)
    records = Records(X, y, None)
    keys = [0, 1 << 52, -(1 << 52), 2047 << 52, -(2047 << 52)]
    for entry in (1.0, 140.0, 140.001, -0.3, 0.3):
        bits = int(np.array(entry).view(np.int64))
        key = bits if bits >= 0 else -(1 << 63) - bits
        keys += [key >> shift << shift for shift in WINDOW_SHIFTS] + [key >> 17 << 17]
    asked = [(column, key) for column in range(3) for key in keys]
    found = exact(records, lambda columns: columns.below(asked, 1.0))
    entries = np.sort(twin.complete(X, y), axis=0)
    for (column, key), centred in zip(asked, found[:-1], strict=True):
        below = np.searchsorted(entries[:, column], twin.first_doubles(key, cells=0)[0])
        assert centred + 0.5 * len(entries) == below, (column, key)


def test_every_source_of_records_gives_the_same_counts(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(500, 3)), 2) * (rng.random((500, 3)) < 0.4)
    y = rng.normal(size=500)
    sources = {"memory": as_records(X, y), "fortran": as_records(np.asfortranarray(X), y)}
    sources["csr"] = as_records(sparse.csr_matrix(X), y)
    mapped = np.memmap(tmp_path / "x", dtype="f8", mode="w+", shape=X.shape)
    mapped[:] = X
    sources["memmap"] = as_records(mapped, y)
    dask = pytest.importorskip("dask.array")
    sources["dask"] = as_records(
        dask.from_array(X, chunks=(130, 3)), dask.from_array(y, chunks=130)
    )
    asked = [(0, 0), (1, ONE), (3, -ONE + (1 << 40))]
    for ask in (
        lambda c: c.below(asked, 1.0),
        lambda c: c.distances(range(4), np.zeros(4), np.full(4, 0.01), [40] * 4, 1.0),
        lambda c: c.moments(range(4), np.zeros(4), np.full(4, 0.7), 1.0),
    ):
        expected = exact(sources["memory"], ask)
        for name, records in sources.items():
            assert np.array_equal(exact(records, ask), expected), name


def test_few_records_are_read_once(monkeypatch):
    """Counts and distances are then of turned columns."""
    reads, total = [], Records.total

    def counted(self, function, *arguments):
        reads.append(function.__name__)
        return total(self, function, *arguments)

    monkeypatch.setattr(Records, "total", counted)
    columns = Columns(of_records(REST * 3), dpfast.Ledger(5.0), dpfast.SeededNoise(0))
    assert reads == []
    for mu in (0.5, 0.25):
        columns.below([(0, 0), (2, ONE)], mu)
        columns.distances([0, 1], np.zeros(2), np.full(2, 0.01), [40, 40], mu)
        assert reads == ["TurnedRecords"]


def test_what_is_asked_again_or_later_is_read_once(monkeypatch):
    """And another question is read again, where records are many."""
    records, reads, total = of_records(REST * 3), [], Records.total

    def counted(self, function, *arguments):
        reads.append(function.__name__)
        return total(self, function, *arguments)

    alone = exact(records, lambda columns: columns.below([(2, ONE)], 0.5))
    monkeypatch.setattr(Records, "total", counted)
    columns = Columns(records, dpfast.Ledger(5.0), dpfast.SeededNoise(0))
    columns._few = False
    places, nearest, sides = np.zeros(2), np.full(2, 0.01), [40, 40]
    with observed(Exact()):
        columns.below([(0, 0)], 0.5, later=[(2, ONE)])
        assert (columns.below([(2, ONE)], 0.5).value == alone).all()
        assert reads == ["key_cells"]
        first = columns.distances([0, 1], places, nearest, sides, 0.5).value
        assert (columns.distances([0, 1], places, nearest, sides, 0.25).value == first).all()
        assert reads == ["key_cells", "distances"]
        assert (columns.distances([0, 1], places + 1.0, nearest, sides, 0.5).value != first).any()
        assert (columns.distances([1, 0], places, nearest, sides, 0.5).value == first[::-1]).all()
    assert reads == ["key_cells"] + 3 * ["distances"]


def test_answers_carry_the_noise_of_their_receipts():
    """Seeded: 400 centred counts of standard deviation 10; relative error 3.5%, three of these."""
    records = Records(np.zeros((100, 1)), np.zeros(100), None)
    columns = Columns(records, dpfast.Ledger(10.0), dpfast.SeededNoise(3))
    answer = columns.below([(0, 0)] * 399, math.sqrt(399) / 10.0)
    assert answer.noise_scale == pytest.approx(10.0, rel=1e-4)
    assert np.std(answer.value[:-1]) == pytest.approx(10.0, rel=0.11)
    assert columns.ledger.spent.mu == pytest.approx(math.sqrt(399) / 10.0)


def test_what_cannot_be_paid_or_counted_is_refused():
    records = Records(np.zeros((10, 1)), np.zeros(10), None)
    columns = Columns(records, dpfast.Ledger(0.5), dpfast.SeededNoise(0))
    with pytest.raises(BudgetExceeded):
        columns.below([(0, 0)], 0.6)
    with pytest.raises(BudgetExceeded):
        columns.distances([0], np.zeros(1), np.ones(1), [40], 0.6)
    with pytest.raises(InvalidInput, match="multiple"):
        columns.below([(0, 3)], 0.1)
    assert not columns.ledger.entries
    for bad in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="positive integer"):
            counts(bad)
        with pytest.raises(InvalidInput, match="positive integer"):
            distances(bad)


@pytest.mark.parametrize(("planned", "asked"), [(28, [1] * 28), (560, [20, 300, 240]), (7, [7])])
def test_parts_of_a_plan_cost_no_more_than_the_plan(planned, asked):
    ledger = dpfast.Ledger(0.31)
    for m in asked:
        ledger.charge(dpfast.GDP(query_mu(0.31, planned, m)), "part")
    assert ledger.spent.mu == pytest.approx(0.31)


def test_offsets_are_a_column_like_others():
    """Counts and distances of records with weights and offsets are those of a table that has the
    offsets as its last covariate: the claims know of columns alone."""
    rows = np.array([*REST, [np.inf, 1.0, 2.0]])
    beside = np.column_stack([rows[:, 2], np.full(len(rows), 0.5), rows[:, 1]])
    joined, plain = Records(rows[:, :1], beside, None), of_records(rows)
    for ask in (
        lambda c: c.below([(0, 0), (1, ONE), (2, 0)], 1.0),
        lambda c: c.distances([0, 1], np.array([0.5, 0.5]), np.ones(2), [40, 40], 1.0),
    ):
        np.testing.assert_array_equal(exact(with_offsets(joined), ask), exact(plain, ask))
