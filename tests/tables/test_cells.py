"""T1 to T5: what one record can move in a table by cell, and that it is attained."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.tables.cells import Cells
from dpfast.data.records import Records
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.tables.prefix_sums import (
    UNIT,
    column_norm,
    mapped_histograms,
    root_coefficients,
)
from dpfast.privacy.tables.sensitivity import (
    SQUARE_AT,
    SQUARE_WEIGHT,
    cell_counts,
    cell_distribution,
    cell_moments,
    cell_sums,
    count_weight,
)
from tests.loops import each
from tests.watching import watched

HOSTILE = [-np.inf, -1e308, -1.0, -0.4, 0.0, 5e-324, 0.3, 1.0, 1e308, np.nan]


def asked(X, cells, squared, ask, n_cells=4):
    held = Cells(Records(X, cells, None), n_cells, squared, Ledger(GDP(1e9)), seeded())
    (release,) = watched(lambda: ask(held))
    return release


def seeded():
    return dpfast.SeededNoise(0)


def table(n=50, q=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 1.0, (n, q)), rng.integers(0, 4, n).astype(float)


def hostile_records(q):
    """One record of whatever kind, in any cell or none."""
    return itertools.product(itertools.product(HOSTILE, repeat=q), [0.0, 2.0, -1.0, 4.0, np.nan])


def largest_move(squared, ask, q=2):
    """Of all pairs of hostile records in the place of one; and the declared sensitivity."""
    X, cells = table(q=q)
    found = []
    for X[0], cells[0] in hostile_records(q):
        release = asked(X, cells, squared, ask)
        found.append(release.value)
    values = np.unique(np.array(found), axis=0)
    moves = np.linalg.norm(values[:, None] - values[None], axis=2)
    assert release.noise_scale >= release.l2_sensitivity / release.mu
    return moves.max(), release.l2_sensitivity


def test_t1_the_worst_pair_of_counts_attains_the_sensitivity():
    move, declared = largest_move((False, False), lambda cells: cells.counts(1.0))
    assert declared == cell_counts()
    assert 0.999 * declared <= move <= declared


QUERIES = {
    "sums of two columns": ((False, False), lambda cells: cells.moments(1.0)),
    "with squares of one": ((True, False), lambda cells: cells.moments(1.0)),
    "with squares of both": ((True, True), lambda cells: cells.moments(1.0)),
    "a distribution of two bins": ((True, True), lambda cells: cells.distribution(at(1), 1.0)),
    "a distribution": ((True, True), lambda cells: cells.distribution(at(300), 1.0)),
}


def at(j):
    """Inner edges of bins; a value is on one of them."""
    return np.unique(np.r_[np.linspace(-0.5, 0.6, j), 0.3])[:j]


@pytest.mark.parametrize("name", QUERIES)
def test_t4_no_replaced_record_beats_a_sensitivity_and_the_worst_attains_it(name):
    move, declared = largest_move(*QUERIES[name])
    assert 0.99 * declared <= move <= declared


def test_t2_signed_sums_move_by_twice_their_bound():
    """Opposite vectors in one cell, whatever their number; and counts are free up to the bound."""
    rng = np.random.default_rng(1)
    for bound, weight in [(1.0, 0.0), (2.0, 1.0), (2.0, 2.0), (1.0, 1.5), (0.5, 3.0)]:
        z = rng.normal(size=(400, 3))
        z[:, :] *= bound / np.linalg.norm(z, axis=1)[:, None]
        z[200:] = -z[:200]
        rows = [np.concatenate([some, [weight]]) for some in z]
        nothing = np.zeros(4)
        moves = [np.linalg.norm(a - b) for a, b in itertools.combinations(rows[190:210], 2)]
        moves += [np.linalg.norm(a - b) for a, b in zip(rows[:200], rows[200:], strict=True)]
        moves += [
            math.hypot(np.linalg.norm(a), np.linalg.norm(b))
            for a, b in [(rows[0], rows[1]), (rows[2], nothing)]
        ]
        declared = cell_sums(bound, weight)
        assert 0.99 * declared <= max(moves) <= declared
        assert (declared <= 2.0 * bound * (1.0 + 1e-9)) == (weight <= bound)


@each("c", [1.1, math.sqrt(2.0), 2.0, 10.0])
def test_t2_rows_with_a_one_are_not_a_histogram(c):
    """A stacked (1, z) held to c: the root of two times c is too little from c^2 = 2 on."""
    bound = math.sqrt(c * c - 1.0)
    declared = cell_sums(bound, 1.0)
    assert declared == pytest.approx(max(math.sqrt(2.0) * c, 2.0 * bound))
    opposite = np.linalg.norm([0.0, 2.0 * bound])  # (1, z) becomes (1, -z)
    assert opposite <= declared
    assert (opposite > math.sqrt(2.0) * c * (1.0 + 1e-9)) == (c * c > 2.0 + 1e-9)


def contribution(v, squared, weight):
    """What a record adds to its cell."""
    squares = SQUARE_WEIGHT * (v[..., squared] ** 2 - SQUARE_AT)
    count = np.full((*v.shape[:-1], 1), weight)
    return np.concatenate([v, squares, count], axis=-1)


@pytest.mark.parametrize("squared", [(True,), (False,), (True, True), (True, False), (False,) * 3])
def test_t3_no_pair_of_records_beats_the_sums_alone(squared):
    """Points of a grid with all corners, in the same cell, in two and in none."""
    a, q = sum(squared), len(squared)
    grid = np.linspace(-1.0, 1.0, 41 if q < 3 else 9)
    v = np.array(list(itertools.product(grid, repeat=q)))
    rows = contribution(v, np.array(squared), count_weight(a, q - a))
    declared = cell_moments(a, q - a, 1000)
    assert declared == pytest.approx(2.0 * math.sqrt(q))
    same = max(np.linalg.norm(rows - row, axis=1).max() for row in rows)
    longest = np.linalg.norm(rows, axis=1).max()
    assert 0.999 * declared <= same <= declared
    assert 0.999 * declared <= math.sqrt(2.0) * longest <= declared
    assert longest <= declared  # a record that comes, or goes


def test_t3_the_weights_are_nearly_the_largest():
    for a, q in [(1, 1), (2, 2), (1, 2), (0, 1)]:
        w2 = (count_weight(a, q - a) * (1.0 + 1e-6)) ** 2
        assert 2.0 * (9.0 / 8.0 * a + (q - a) + w2) > 4.0 * q
    assert 2.0 * (1.0 - 1e-4) < SQUARE_WEIGHT**2 <= 2.0


@each("bins", [2, 3, 64, 257])
def test_t5_the_worst_pair_of_bins_attains_the_sensitivity(bins):
    """All pairs of bins, of one cell and of two, and a record of no cell."""
    edges = np.linspace(-1.0, 1.0, bins + 1)
    places = np.r_[edges[:4], edges[-3:], np.nan]
    rows = [(value, cell) for value in places for cell in (0.0, 1.0)]
    values = []
    for record in rows:
        X, cells = table(30, 1)
        X[0], cells[0] = record
        release = asked(X, cells, (True,), lambda held: held.distribution(edges[1:-1], 1.0))
        values.append(release.value)
    moves = np.linalg.norm(np.array(values)[:, None] - np.array(values), axis=2)
    assert release.l2_sensitivity == cell_distribution(column_norm(bins))
    assert release.noise_scale >= release.l2_sensitivity / release.mu
    assert 0.999 * release.l2_sensitivity <= moves.max() <= release.l2_sensitivity


@each("bins", [1, 2, 255, 256, 257, 1000])
def test_t5_mapped_histograms_are_exact_whole_numbers(bins):
    """Python's integers are the reference; counts are as large as the claim allows."""
    rng = np.random.default_rng(bins)
    counts = rng.integers(0, 2**32 // bins, (3, bins))
    counts[1], counts[2] = 0, 0
    counts[1, 0] = counts[2, -1] = 2**32 - 1
    first = [int(entry) for entry in root_coefficients(bins).tolist()]
    assert first[0] == UNIT and all(a >= b >= 0 for a, b in itertools.pairwise(first))
    norms = [math.hypot(*first[k:]) / UNIT for k in (0, bins // 2)]
    assert norms[1] <= norms[0] <= column_norm(bins) <= norms[0] + 2.0 / UNIT
    mapped = mapped_histograms(counts)
    for row, told in zip(counts.tolist(), mapped, strict=True):
        for i in {0, 1, bins // 3, bins - 1} & set(range(bins)):
            exact = sum(first[i - j] * row[j] for j in range(i + 1))
            assert int(told[i] * UNIT) == exact


def test_t5_bins_are_closed_above():
    """A value on an edge is in the bin below it; values beyond the ends are in the outer bins."""
    X = np.array([[-9.0], [-0.5], [-0.4999], [0.5], [np.nextafter(0.5, 1.0)], [9.0], [np.nan]])
    edges = np.array([-0.5, 0.5])
    release = asked(X, np.zeros(7), (True,), lambda held: held.distribution(edges, 1.0), 1)
    assert release.value.tolist() == mapped_histograms(np.array([[2, 2, 2]]))[0].tolist()


def test_t4_sums_do_not_depend_on_the_order_of_records():
    X, cells = table(5000)
    order = np.random.default_rng(3).permutation(5000)
    squared, ask = (True, True), lambda cells: cells.moments(1.0)
    one, two = asked(X, cells, squared, ask), asked(X[order], cells[order], squared, ask)
    assert one.value.tobytes() == two.value.tobytes()


def test_moments_are_what_they_say():
    X, cells = table(3000)
    cells[:10], X[10:20, 1] = np.nan, np.inf
    value = asked(X, cells, (True, False), lambda cells: cells.moments(1.0)).value.reshape(4, 4)
    for k in range(4):
        rows = X[20:][cells[20:] == k]
        squares = SQUARE_WEIGHT * (rows[:, 0] ** 2 - SQUARE_AT).sum()
        expected = [*rows.sum(axis=0), squares, count_weight(1, 1) * len(rows)]
        np.testing.assert_allclose(value[k], expected, atol=3000 * 2.0**-20)


def test_what_is_out_of_reach_is_refused():
    X, cells = table()
    rows = Cells(Records(X, cells, None), 4, (True, True), Ledger(GDP(1.0)), seeded())
    for receipt in (
        rows.counts_receipt,
        rows.moments_receipt,
        lambda mu: rows.distribution_receipt(64, mu),
    ):
        for mu in (1e-7, 1e12):
            with pytest.raises(dpfast.errors.InvalidBudget):
                receipt(mu)
    with pytest.raises(dpfast.InvalidInput, match="column_norm must be positive"):
        cell_distribution(0.0)
    with pytest.raises(dpfast.InvalidInput, match="at least one together"):
        cell_moments(0, 0, 10)
    with pytest.raises(dpfast.InvalidInput, match="must be positive"):
        cell_sums(0.0, 1.0)
