"""D6: histograms of distances of several columns; searches for records that move them farther."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpfast
from dpfast.curator.scaling.columns import Columns
from dpfast.kernels import keys
from dpfast.privacy.scaling.sensitivity import distances
from tests.scaling.test_columns import REST, exact, of_records

CENTRES, NEAREST = np.array([0.0, 0.25, -1.0]), np.array([1e-9, 0.5, 2.0**-1022])
#: Of the first and second the hostile entries are in the last cell, and beyond.
OCTAVES = [30, 3, 100]
#: Below, at and above each centre; within and beyond the nearest; at the ends of octaves and
#: beyond the last cell; not finite.
ENTRIES = [-1e308, -1.0, 0.25, 0.26, 1.0, 1.99, 2.0, 1e308, np.inf, np.nan]


def released(row):
    return exact(
        of_records([*REST, row]), lambda c: c.distances(range(3), CENTRES, NEAREST, OCTAVES, 1.0)
    )


def test_no_part_of_an_octave_is_longer_than_a_record():
    """All of them, in whole numbers."""
    for first, second in keys.PARTS.tolist():
        assert first >= 0 and second >= 0
        assert first**2 + second**2 <= keys.WHOLE**2
        assert (first + 1) ** 2 + second**2 > keys.WHOLE**2
    assert keys.PARTS[0].tolist() == [keys.WHOLE, 0] and keys.PARTS.shape == (512, 2)


def test_the_worst_pair_attains_the_sensitivity_of_distances():
    """All pairs of hostile records of three columns."""
    values = np.array([released(row) for row in itertools.product(ENTRIES, repeat=3)])
    squares = (values**2).sum(axis=1)
    far = squares[:, None] + squares - 2.0 * values @ values.T
    assert 0.99 * distances(3) <= np.sqrt(far.max()) <= distances(3)


@pytest.mark.parametrize("columns", [1, 2, 5, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.one_in(2)
def test_records_on_either_side_of_every_centre_are_as_far_apart_as_can_be(columns):
    """One record, so that all there is to see is it: random magnitudes find nothing worse."""
    rng = np.random.default_rng(columns)
    shape = 150, columns + 1
    rows = rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.uniform(-9, 9, shape)
    rows[0], rows[1] = 1.0, -1.0
    where = np.zeros(columns), np.full(columns, 2.0**-10), np.full(columns, 15).tolist()
    values = np.array([
        exact(of_records([row]), lambda c: c.distances(range(columns), *where, 1.0)) for row in rows
    ])  # fmt: skip
    largest = np.linalg.norm(values[:, None] - values, axis=2).max()
    assert 0.99 * distances(columns) <= largest <= distances(columns)


def test_a_record_that_becomes_incomplete_moves_less():
    """By the root of one a column; it is in no cell of any column, whichever entry is missing."""
    row = [3.0, 3.0, 3.0]
    with_it, without = released(row), exact(
        of_records(REST), lambda c: c.distances(range(3), CENTRES, NEAREST, OCTAVES, 1.0)
    )  # fmt: skip
    assert np.linalg.norm(with_it - without) == pytest.approx(np.sqrt(3.0), rel=1e-5)
    for column, missing in itertools.product(range(3), (np.nan, np.inf, -np.inf)):
        assert np.array_equal(released([*row[:column], missing, *row[column + 1 :]]), without)


def test_columns_that_were_not_asked_for_are_not_in_the_answer():
    columns = Columns(of_records(REST), dpfast.Ledger(5.0), dpfast.SeededNoise(0))
    answer = columns.distances([2], np.zeros(1), np.ones(1), [40], 1.0)
    assert answer.value.shape == (1, 2, keys.OCTAVES)
    assert not answer.value[:, :, 40:].any()
    assert answer.noise_scale == pytest.approx(np.sqrt(2.0), rel=1e-4)
    assert np.std(answer.value[:, :, :40]) == pytest.approx(np.sqrt(2.0), rel=0.2)
    assert answer.receipt.claim == "D6" and columns.ledger.spent.mu == pytest.approx(1.0)
