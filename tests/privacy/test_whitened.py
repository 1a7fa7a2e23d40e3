"""C60: records under a released map, histograms of lengths, clipped scores with a free meat."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator
from dpfast.curator.whitened import Whitened
from dpfast.data.bought.maps import map_rows
from dpfast.data.records import as_records
from dpfast.errors import BudgetExceeded
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.optimize.least_squares.histogram import tops_of_cells
from dpfast.privacy.sensitivity import histogram, joint_mu

HOSTILE = [-np.inf, -1e308, -3.0, -1e-300, 0.0, 0.5, 2.0, 1e160, 1e308, np.nan]
MATRIX = np.array([[1.0, 0.3, 0.0], [-0.2, 2.0, 1e-3], [0.5, 0.0, -7.0]])


def whitened(X, y, mu=1e9, loss=None):
    ledger = dpfast.Ledger(mu)
    objective = Objective(loss or LeastSquares(), Mallows(1.0), X.shape[1])
    return Whitened(Curator(as_records(X, y), objective, ledger, dpfast.SeededNoise(0)))


def observed_value(ask):
    """The exact value behind an answer."""
    from dpfast.curator.door import observed

    class Watch:
        found = None

        def release(self, question, release, draw):
            if self.found is None:
                self.found = np.array(release.value, copy=True)
            return draw()

    watch = Watch()
    with observed(watch):
        ask()
    return watch.found


@pytest.mark.parametrize("power", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("scored", [False, True])
def test_the_worst_pair_of_a_histogram(power, scored):
    """Hostile cells of one record; mapped (with a power) and as they came."""
    rng = np.random.default_rng(1)
    n = 40
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    theta = np.array([0.2, -1.0, 0.5]) if scored else None
    cells = tops_of_cells(1)
    found = []
    for cell, response in itertools.product(HOSTILE, HOSTILE):
        X[0], y[0] = (cell, 1.0), response
        rows = whitened(X, y)
        if power is not None:
            rows = rows.mapped(MATRIX, 1.5, power)
        found.append(observed_value(lambda rows=rows: rows.lengths(cells, 0.1, theta)))
    assert all(0.0 <= shares.sum() <= 1.0 + 1e-12 for shares in found)
    moves = [np.linalg.norm(a - b) for a, b in itertools.combinations(found, 2)]
    assert 0.99 * histogram(n) <= max(moves) <= histogram(n)


def test_the_worst_pair_of_a_histogram_of_scores_of_odds():
    """Of a logistic loss: lengths of ``(p - y) a``, of each record by itself."""
    rng = np.random.default_rng(1)
    n = 40
    X, y = rng.normal(size=(n, 2)), (rng.random(n) < 0.5) * 1.0
    theta, cells, found = np.array([0.2, -1.0, 0.5]), tops_of_cells(1), []
    for cell, response in itertools.product(HOSTILE, (0.0, 1.0, np.nan)):
        X[0], y[0] = (cell, 1.0), response
        rows = whitened(X, y, loss="logistic")
        found.append(observed_value(lambda rows=rows: rows.lengths(cells, 0.1, theta)))
    moves = [np.linalg.norm(a - b) for a, b in itertools.combinations(found, 2)]
    assert 0.99 * histogram(n) <= max(moves) <= histogram(n)
    design = np.column_stack([np.ones(n), X])
    lengths = np.abs(1.0 / (1.0 + np.exp(-design @ theta)) - y) * np.linalg.norm(design, axis=1)
    cell = np.searchsorted(cells, lengths[1:])
    assert (n * found[-1] == np.bincount(cell, minlength=len(cells) + 1)).all()


@pytest.mark.parametrize("power", [0.0, 0.25, 1.0])
def test_clipped_scores_attain_their_sensitivity_under_any_map(power):
    rng = np.random.default_rng(2)
    n, bound = 30, 1.7
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    theta = np.array([0.2, -1.0, 0.5])
    scores, sensitivity = [], None
    for cell, response in itertools.product(HOSTILE, [-1e6, 1e6, 1e300, -1e300, 0.3, np.nan]):
        X[0], y[0] = (cell, 0.5), response
        rows = whitened(X, y).mapped(MATRIX, 1.5, power)
        scores.append(observed_value(lambda rows=rows: rows.clipped(theta, bound, 0.1)))
        answer = rows.clipped(theta, bound, 0.1).gradient
        sensitivity = answer.receipt.l2_sensitivity
    moves = [np.linalg.norm(a - b) for a, b in itertools.combinations(scores, 2)]
    assert sensitivity == pytest.approx(2.0 * bound / n, rel=1e-6)
    assert 0.99 * sensitivity <= max(moves) <= sensitivity


def test_the_meat_of_clipped_scores_is_free():
    """Squared distances in units of noise: 2e5 random pairs in the ball, the worst ones too."""
    assert joint_mu("independent", 1.0, 0.0, 0.5) == pytest.approx(1.0, rel=1e-12)
    assert joint_mu("independent", 1.0, 0.0, 0.6) > 1.001
    rng = np.random.default_rng(3)
    s, t = rng.normal(size=(2, 200_000, 3))
    s /= np.linalg.norm(s, axis=1)[:, None]
    t /= np.linalg.norm(t, axis=1)[:, None]
    t *= rng.random((len(t), 1)) ** rng.choice([0.01, 1.0], (len(t), 1))
    inner = np.einsum("ij,ij->i", s, t)
    scores = 1.0 + np.einsum("ij,ij->i", t, t) - 2.0 * inner
    outer = 1.0 + np.einsum("ij,ij->i", t, t) ** 2 - 2.0 * inner**2
    assert np.max(scores / 4.0 + 0.25 * outer / 2.0) <= 1.0 + 1e-12  # mu_meat = mu/2
    assert scores.max() / 4.0 > 0.99  # opposite scores: attained
    rows = whitened(np.zeros((50, 1)), np.zeros(50), mu=1.0 + 1e-9)
    rows.clipped(np.zeros(2), 1.0, 1.0, 0.5)
    with pytest.raises(BudgetExceeded):
        rows.gram(1.0, 1e-3)


@pytest.mark.parametrize("layout", ["rows", "columns", "float32", "strided"])
def test_other_rows_keep_their_bits(layout):
    rng = np.random.default_rng(4)
    for n in (2, 5, 64, 1001):
        X = rng.normal(size=(n, 6))
        if layout == "columns":
            X = np.asfortranarray(X)
        elif layout == "float32":
            X = X.astype(np.float32)
        elif layout == "strided":
            X = rng.normal(size=(n, 12))[:, ::2]
        y, matrix = rng.normal(size=n), rng.normal(size=(7, 7))
        with np.errstate(over="ignore"):
            for hostile in (np.nan, np.inf, 1e300, 0.0):
                changed = X.copy(order="K")
                if layout == "strided":
                    changed = np.repeat(X, 2, axis=1)[:, ::2]
                changed[n // 2] = hostile
                rows = [map_rows(x, y, matrix, True, 1.0, 0.5) for x in (X, changed)]
                others = np.arange(n) != n // 2
                for before, after in zip(*rows, strict=True):
                    assert np.array_equal(before[others], after[others])


def test_a_record_that_is_not_finite_counts_in_no_answer():
    X, y = np.ones((20, 2)), np.ones(20)
    X[3, 1], X[4, 0], y[5] = np.nan, np.inf, -np.inf
    # without a zero in the matrix an infinite entry stays one, longer than all edges
    full = whitened(X, y).mapped(MATRIX + 9.0)
    shares = observed_value(lambda: full.lengths(tops_of_cells(1), 0.1))
    assert shares.sum() * 20 == pytest.approx(17.0)
    for rows in (whitened(X, y).mapped(MATRIX), full, whitened(X, y)):
        shares = observed_value(lambda rows=rows: rows.lengths(tops_of_cells(1), 0.1, np.zeros(3)))
        assert shares.sum() * 20 == pytest.approx(17.0)
        gram = observed_value(lambda rows=rows: rows.gram(1e3, 0.1))
        assert np.isfinite(gram).all()


def test_mapped_blocks_are_mapped_arrays():
    """CSR rows are mapped in every pass, arrays once: the same exact values up to rounding."""
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    theta = np.array([0.1, 0.2, -0.3])
    found = []
    for table in (X, sparse.csr_matrix(X)):
        objective = Objective(LeastSquares(), Mallows(1.0), 2)
        ledger = dpfast.Ledger(10.0)
        curator = Curator(as_records(table, y), objective, ledger, dpfast.SeededNoise(7))
        rows = Whitened(curator).mapped(MATRIX).mapped(MATRIX, 1.2, 0.5)
        found.append(
            [
                rows.gram(2.0, 1.0).value,
                rows.moment(2.0, 3.0, 1.0).value,
                rows.lengths(tops_of_cells(2), 1.0, theta).value,
                *(answer.value for answer in rows.clipped(theta, 1.5, 1.0, 0.5)[::2]),
            ]
        )
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("ask", ["gram", "moment", "lengths", "clipped"])
def test_an_answer_that_cannot_be_paid_reads_nothing(ask, monkeypatch):
    rows = whitened(np.ones((20, 2)), np.ones(20), mu=1e-3)

    def never(*arguments, **options):
        raise AssertionError("the records were read")

    monkeypatch.setattr("dpfast.data.records.Records.total", never)
    arguments = {
        "gram": (1.0, 1.0),
        "moment": (1.0, 3.0, 1.0),
        "lengths": (tops_of_cells(1), 1.0),
        "clipped": (np.zeros(3), 1.0, 1.0),
    }[ask]
    with pytest.raises(BudgetExceeded):
        getattr(rows, ask)(*arguments)


@pytest.mark.parametrize("ask", ["gram", "moment", "lengths", "clipped"])
def test_answers_carry_the_noise_of_their_receipts(ask):
    """Seeded; 20 answers, from which the next map follows, about their exact values: at least 60
    normal deviates, whose mean square leaves (0.35, 2.2) less than once in a million runs."""
    rng = np.random.default_rng(8)
    rows = whitened(rng.normal(size=(200, 2)), rng.normal(size=200))
    arguments = {
        "gram": (2.0, 0.1),
        "moment": (2.0, 3.0, 0.1),
        "lengths": (tops_of_cells(1), 0.1),
        "clipped": (np.zeros(3), 1.5, 0.1),
    }[ask]
    found = []

    def asked():
        answer = getattr(rows, ask)(*arguments)
        found.append(answer.gradient if ask == "clipped" else answer)

    sign = -1.0 if ask in ("moment", "clipped") else 1.0
    squares = []
    for _ in range(20):
        exact = sign * observed_value(asked)
        value = found[-1].value
        if ask == "gram":
            exact, value = np.diag(exact) if exact.ndim == 2 else exact[:3], np.diag(value)
        squares.append(((value - exact) / found[-1].noise_scale) ** 2)
    assert np.size(squares) >= 60 and 0.35 < np.mean(squares) < 2.2
