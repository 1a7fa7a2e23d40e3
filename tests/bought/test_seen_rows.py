"""Rows of persons and scores along a direction are seen whole, however many there are."""

import numpy as np

from dpfast.data.bought.maps import CHUNK, At, View
from dpfast.data.bought.seen import (
    BLOCK,
    SeenRows,
    count_along,
    count_lengths,
    lengths,
    predictors,
    seen,
    whole_of,
)
from dpfast.data.records import as_records
from dpfast.models import LeastSquares

N = 2 * BLOCK + 5
X = np.random.default_rng(0).normal(size=(N, 1))
Y = X[:, 0] + 1.0
VIEW = View(np.array([[0.5, 0.0], [1.0, 2.0]]), True)
EDGES = np.array([0.5, 1.0, 2.0])


def test_blocks_of_rows_in_memory_are_all_rows_in_their_order():
    blocks = list(SeenRows(as_records(X, Y), VIEW).blocks())
    assert [len(rows) for rows, _ in blocks] == [BLOCK, BLOCK, 5]
    rows, beside = (np.concatenate(part) for part in zip(*blocks, strict=True))
    expected, responses = seen(X, Y, VIEW)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(rows, np.column_stack([0.5 + X[:, 0], 2.0 * X[:, 0]]))
    np.testing.assert_array_equal(beside, responses)


def test_every_row_is_in_one_cell():
    sizes = np.hypot(0.5 + X[:, 0], 2.0 * X[:, 0])
    whole = whole_of(N)
    beside = np.column_stack([Y, np.ones(N), np.zeros(N)])
    counts = count_lengths(X, beside, EDGES, VIEW, whole) / whole
    np.testing.assert_array_equal(counts, np.bincount(np.searchsorted(EDGES, sizes), minlength=4))
    at = At(np.zeros(2), LeastSquares())
    along = np.array([1.0, 0.0])
    scores = np.abs(Y * (0.5 + X[:, 0]))
    np.testing.assert_array_equal(
        count_along(X, Y, EDGES, VIEW._replace(what="score", at=at), along),
        np.bincount(np.searchsorted(EDGES, scores), minlength=4),
    )


def test_c80_a_row_has_the_same_bits_wherever_it_stands():
    """Its predictor among any number of rows, and its length in the last of them as in others."""
    rng = np.random.default_rng(1)
    for q in (7, 10, 19, 37):
        theta, row, matrix = rng.normal(size=q + 1), rng.normal(size=q), rng.normal(size=(q + 1, 1))
        found = set()
        for n in (1, 2, 3, 4, 5, 8, 17, 100, CHUNK):
            rows = rng.normal(size=(n, q))
            rows[[0, n // 2, -1]] = row
            found |= {predictors(rows, theta, True)[slot].tobytes() for slot in (0, n // 2, -1)}
        assert len(found) == 1
        rows = np.asfortranarray(rng.normal(size=(CHUNK + 5, q)))
        rows[[0, -1]] = row
        size = lengths(rows, np.zeros(len(rows)), View(matrix, True))
        assert size[0] == size[-1]
