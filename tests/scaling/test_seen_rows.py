"""Scores along a direction are seen whole, however many there are, and wherever they stand."""

import numpy as np

from dpfast.data.scaling.maps import CHUNK, Linearization, TransformedView
from dpfast.data.scaling.transformed import BLOCK, count_along, predictors, projections
from dpfast.models import LeastSquares

N = 2 * BLOCK + 5
X = np.random.default_rng(0).normal(size=(N, 1))
Y = X[:, 0] + 1.0
VIEW = TransformedView(np.array([[0.5, 0.0], [1.0, 2.0]]), True)
EDGES = np.array([0.5, 1.0, 2.0])


def test_every_row_is_in_one_cell():
    at = Linearization(np.zeros(2), LeastSquares())
    along = np.array([1.0, 0.0])
    scores = np.abs(Y * (0.5 + X[:, 0]))
    np.testing.assert_array_equal(
        count_along(X, Y, EDGES, VIEW._replace(what="score", at=at), along),
        np.bincount(np.searchsorted(EDGES, scores), minlength=4),
    )


def test_a_row_that_is_not_finite_has_no_score():
    at, rows = Linearization(np.ones(1), LeastSquares()), X[:9].copy()
    rows[[2, 5], 0] = np.nan, np.inf
    found = projections(
        rows, Y[:9], TransformedView(np.ones((2, 1)), True, "score", at), np.ones(1)
    )
    assert np.flatnonzero(np.isnan(found)).tolist() == [2, 5]


def test_c80_a_row_has_the_same_bits_wherever_it_stands():
    """Its predictor among any number of rows, and its score in the last of them as in others."""
    rng = np.random.default_rng(1)
    for q in (7, 10, 19, 37):
        theta, row, matrix = rng.normal(size=q + 1), rng.normal(size=q), rng.normal(size=(q + 1, 5))
        found = set()
        for n in (1, 2, 3, 4, 5, 8, 17, 100, CHUNK):
            rows = rng.normal(size=(n, q))
            rows[[0, n // 2, -1]] = row
            found |= {predictors(rows, theta, True)[slot].tobytes() for slot in (0, n // 2, -1)}
        assert len(found) == 1
        view = TransformedView(matrix, True, "score", Linearization(np.ones(5), LeastSquares()))
        for more in (1, 2, 5):
            rows = np.asfortranarray(rng.normal(size=(CHUNK + more, q)))
            rows[[0, -1]] = row
            size = projections(rows, np.zeros(len(rows)), view, np.ones(5))
            assert size[0] == size[-1]
