"""T9 and T10: what one row, or one person with all rows, can move in a weighted table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.tables.weighted import UNIT, WeightedCells, _mapped
from dpfast.data.cell_records import CellRecords
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.tables.prefix_sums import UNIT as ROOT_UNIT, column_norm, root_coefficients
from dpfast.privacy.tables.sensitivity import (
    SQUARE_AT,
    SQUARE_WEIGHT,
    count_square_factor,
    histogram_square_factor,
    weighted_cell_counts,
    weighted_cell_distribution,
    weighted_cell_moments,
    weighted_factors,
)
from tests.loops import each
from tests.watching import watched

BOUND = 4.0
EDGES = np.array([-0.5, 0.0, 0.3])

QUERIES = {
    "counts": lambda cells: cells.counts(1.0),
    "moments": lambda cells: cells.moments(1.0),
    "distribution": lambda cells: cells.distribution(EDGES, 1.0),
}


def seeded():
    return dpfast.SeededNoise(0)


def records(X, cells, weights=None, persons=None, group_size=None):
    n = len(X) if persons is None else int(persons.max()) + 1
    bound = None if weights is None else BOUND
    return CellRecords(X, cells, weights, bound, persons, group_size, n)


def asked(rows, ask, n_cells=3):
    held = WeightedCells(rows, n_cells, Ledger(GDP(1e9)), seeded())
    (release,) = watched(lambda: ask(held))
    return release


VALUES = [-np.inf, -1e308, -1.0, -0.4, 0.0, 0.3, 1.0, np.nan]
WEIGHTS = [-1.0, 0.0, 5e-324, 0.5, 1.0, BOUND, 1e300, np.inf, np.nan]
CELLS = [0.0, 2.0, np.nan]


def of_rows(q):
    """Tables whose first row is whatever it may be."""
    rng = np.random.default_rng(0)
    X, cells = rng.uniform(-1.0, 1.0, (20, q)), rng.integers(0, 3, 20).astype(float)
    weights = rng.uniform(0.0, 5.0, 20)
    for value, weights[0], cells[0] in itertools.product(VALUES, WEIGHTS, CELLS):
        for sign in (1.0, -1.0)[: 1 + (q > 1)]:
            X[0] = value
            X[0, -1] = sign * value
            yield records(X.copy(), cells.copy(), weights.copy())


def of_persons(group_size):
    """Tables whose person 0 has one to four rows, in any cells, among persons who stay."""

    def made(q):
        rng = np.random.default_rng(1)
        others = rng.uniform(-1.0, 1.0, (30, q)), rng.integers(0, 3, 30).astype(float)
        persons = rng.integers(1, 12, 30)
        persons[:11] = np.arange(1, 12)
        for m in (1, 2, 4):
            for k in range(90):
                values = np.where(rng.random((m, q)) < 0.7, rng.choice([-1.0, 1.0], (m, q)), 0.3)
                values = values if k % 3 else np.full((m, q), (-1.0) ** k)
                cells = rng.choice(CELLS, m) if k % 2 else np.full(m, rng.choice(CELLS))
                weights = rng.choice(WEIGHTS, m) if k % 5 else np.full(m, BOUND)
                rows = records(
                    np.vstack([values, others[0]]),
                    np.concatenate([cells, others[1]]),
                    np.concatenate([weights, np.full(30, 2.0)]),
                    np.concatenate([np.zeros(m, dtype=int), persons]),
                    group_size,
                )
                yield rows

    return made


UNITS = {
    "rows": of_rows,
    "persons of any rows": of_persons(None),
    "persons of three rows": of_persons(3),
}


@pytest.mark.parametrize("unit", UNITS)
@each("q", [1, 2])
@each("query", QUERIES)
def test_t9_no_replaced_row_or_person_moves_a_table_by_more(unit, q, query):
    if query == "distribution" and q > 1:
        return
    found = []
    for rows in UNITS[unit](q):
        release = asked(rows, QUERIES[query])
        found.append(release.value)
    values = np.unique(np.array(found), axis=0)
    moves = np.linalg.norm(values[:, None] - values[None], axis=2)
    assert release.noise_scale >= release.l2_sensitivity / release.mu
    assert moves.max() <= release.l2_sensitivity
    if unit == "rows":
        assert moves.max() >= 0.99 * release.l2_sensitivity


@each("q", [1, 2, 5])
def test_t9_opposite_values_attain_the_sensitivity(q):
    """Also of a person whose four rows are in one cell."""
    for persons, m in ((None, 1), (np.zeros(4, dtype=int), 4)):
        ends = [
            asked(
                records(np.full((m, q), sign), np.zeros(m), np.full(m, 9.0), persons),
                lambda cells: cells.moments(1.0),
            )
            for sign in (-1.0, 1.0)
        ]
        move = np.linalg.norm(ends[1].value - ends[0].value)
        assert ends[0].l2_sensitivity == weighted_cell_moments(q, 1)
        assert 0.9999 * ends[0].l2_sensitivity <= move <= ends[0].l2_sensitivity


def contribution(s, w, q=1):
    product, weight_square, count = weighted_factors(q)
    squares = SQUARE_WEIGHT * (s**2 - SQUARE_AT * w**2)
    return np.stack([s, squares, product * s * w, weight_square * w**2, count * w], axis=-1)


def test_t9_the_inequality_of_one_column_holds_on_a_grid():
    """All (s, w) against all (s', w'): the squared distance is at most 2 (1 + B^2) (w + w')."""
    w = np.linspace(0.0, 1.0, 15)
    s = np.linspace(-1.0, 1.0, 25)
    s, w = (s[:, None] * w).ravel(), np.tile(w, 25)
    rows = contribution(s, w)
    squared = ((rows[:, None] - rows) ** 2).sum(axis=2)
    bound = 2.0 * (1.0 + weighted_factors(1)[0] ** 2) * (w[:, None] + w)
    assert (squared <= bound + 1e-9).all()
    assert weighted_cell_moments(1, 10) >= math.sqrt(squared.max())
    for q in (1, 3):  # the factors are the largest that the claim allows
        _, weight_square, count = weighted_factors(q)
        assert weight_square**2 + count**2 == pytest.approx(7.0 / 8.0 * q)
    assert SQUARE_WEIGHT**2 <= 2.0 and SQUARE_AT == 0.75


def test_t9_counts_of_two_cells_attain_the_sensitivity():
    one, two = (
        asked(records(np.empty((1, 0)), np.array([cell]), np.array([9.0])), QUERIES["counts"])
        for cell in (0.0, 1.0)
    )
    move = np.linalg.norm(one.value - two.value)
    assert one.l2_sensitivity == weighted_cell_counts(1)
    assert 0.9999 * one.l2_sensitivity <= move <= one.l2_sensitivity


@pytest.mark.parametrize("group_size", [None, 1, 3, 7])
def test_t9_shares_of_a_person_add_up_to_one_at_most(group_size):
    """Whatever the number of rows, and whether it divides a power of two."""
    rng = np.random.default_rng(3)
    m = np.array([1, 2, 3, 5, 6, 7, 11, 1000])
    persons = rng.permutation(np.repeat(np.arange(len(m)), m))
    rows = records(
        np.empty((m.sum(), 0)), rng.integers(0, 3, m.sum()).astype(float),
        np.full(m.sum(), 2.0 * BOUND), persons, group_size,
    )  # fmt: skip
    held = WeightedCells(rows, 3, Ledger(GDP(1.0)), seeded())
    sums = np.bincount(held._rows().persons, held._rows().weights)
    counted = np.minimum(m, group_size or m)
    expected = counted / (group_size or m)
    assert (sums <= UNIT).all() and (np.floor(held._rows().weights) == held._rows().weights).all()
    np.testing.assert_allclose(sums / UNIT, expected, atol=1e-3)


def test_t9_sums_are_those_of_the_persons_in_any_order():
    rng = np.random.default_rng(5)
    n, J = 400, 90
    X, cells = rng.uniform(-1.0, 1.0, (n, 2)), rng.integers(0, 3, n).astype(float)
    persons, weights = rng.integers(0, J, n), rng.uniform(0.0, 5.0, n)
    persons[:J] = np.arange(J)
    order = rng.permutation(n)
    one = asked(records(X, cells, weights, persons), QUERIES["moments"])
    two = asked(records(X[order], cells[order], weights[order], persons[order]), QUERIES["moments"])
    assert one.value.tobytes() == two.value.tobytes()
    held = WeightedCells(records(X, cells, weights, persons), 3, Ledger(GDP(1.0)), seeded())
    sums = held._sums()
    m = np.bincount(persons)
    share = np.minimum(weights / BOUND, 1.0) / m[persons]
    for k in range(3):
        inside = cells == k
        w = np.bincount(persons[inside], share[inside], minlength=J)
        s = np.bincount(persons[inside], (share * X[:, 0])[inside], minlength=J)
        found = [sums.weights[k], sums.values[k, 0], sums.squares[k, 0], sums.products[k, 0]]
        exact = [w.sum(), s.sum(), s @ s, s @ w]
        np.testing.assert_allclose([*found, sums.squared_weights[k]], [*exact, w @ w], atol=2e-3)


@each("bins", [2, 300, 1000])
def test_t10_histograms_of_whole_weights_are_mapped_exactly(bins):
    """Python's integers are the reference; sums are as large as the claim allows."""
    rng = np.random.default_rng(bins)
    counts = rng.integers(0, 2**52 // bins, (2, bins))
    counts[1], counts[1, 0] = 0, 2**52 - 1
    first = [int(entry) for entry in root_coefficients(bins).tolist()]
    mapped = _mapped(counts)
    for row, released in zip(counts.tolist(), mapped, strict=True):
        for i in {0, 1, bins // 3, bins - 1} & set(range(bins)):
            exact = sum(first[i - j] * row[j] for j in range(i + 1)) / (ROOT_UNIT * UNIT)
            assert abs(released[i] - exact) <= 4.0 * 2.0**-53 * exact
    assert weighted_cell_distribution(column_norm(bins), 1, bins) >= math.sqrt(
        2.0 * (1.0 + histogram_square_factor() ** 2)
    ) * column_norm(bins)
    assert count_square_factor() < 1.0


def test_t9_receipts_add_up_to_the_total():
    """With and without a bound on weights, which is estimated with a part of the budget."""
    rng = np.random.default_rng(7)
    n = 3000
    schema = dpfast.Schema({"g": dpfast.Categorical([0, 1]), "y": dpfast.Numeric(0.0, 9.0)})
    table = {"g": rng.integers(0, 2, n), "y": rng.uniform(0.0, 9.0, n)}
    table["w"] = np.exp(rng.normal(size=n))
    for bound in (None, 5.0):
        rows = dpfast.records(table, sample_weight="w", largest_weight=bound)
        for made in (
            dpfast.tables.means(rows, "y", "g", schema=schema, privacy=0.7, noise=seeded()),
            dpfast.tables.counts(rows, "g", schema=schema, privacy=0.7, noise=seeded()),
            dpfast.tables.quantiles(rows, "y", "g", schema=schema, privacy=0.7, noise=seeded()),
        ):
            spent = sum(mu**2 for _, mu in made.privacy.entries)
            assert 1.0 - 1e-6 <= spent / 0.49 <= 1.0
            assert made.privacy.total == dpfast.GDP(0.7)
            assert any("were clipped" in said for said in made.warnings) == (bound is None)
