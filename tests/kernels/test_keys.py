"""Kernels of counts over float keys against their twin, over layouts, types and hostile values."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from dpfast.kernels import keys
from tests.loops import each
from tests.twins import keys as twin

LARGEST = np.finfo(float).max
ALL = np.array([keys.OCTAVES])
HOSTILE = [
    0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, -(2.0**-1022), 1.0, np.nextafter(1.0, 0.0), -1.0,
    1e-300, 1e308, -1e308, LARGEST, -LARGEST, np.inf, -np.inf, np.nan, 1.7e9, -122.2,
]  # fmt: skip


def table(layout: str, n: int = 300, q: int = 3):
    """Hostile entries among ordinary ones; half of the records are complete, and more."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, q)) * 10.0 ** rng.integers(-5, 6, size=(n, q))
    where = rng.random((n, q)) < 0.3
    X[where] = rng.choice(HOSTILE, where.sum())
    y = rng.choice(HOSTILE, n)
    y[rng.random(n) < 0.7] = 1.0
    with np.errstate(all="ignore"):
        X = {
            "C": X,
            "F": np.asfortranarray(X),
            "strided": np.repeat(X, 2, axis=0)[::2],
            "reversed": np.ascontiguousarray(X[::-1])[::-1],
            "float32": X.astype(np.float32),
            "packed": packed(X),
            "packed float32": packed(X.astype(np.float32)),
            "no columns": X[:, :0],
        }[layout]
    X.flags.writeable = False
    return X, packed(y) if layout.startswith("packed") else y


def packed(values):
    """Fields of records without padding: no entry is where its type would have it."""
    fields = np.empty(len(values), [("a", "u1"), ("b", values.dtype, values.shape[1:])])["b"]
    fields[...] = values
    assert not fields.flags.aligned
    return fields


LAYOUTS = (
    "C", "F", "strided", "reversed", "float32", "no columns", "packed", "packed float32",
)  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_agree_with_the_twin(layout):
    X, y = table(layout)
    q = X.shape[1]
    windows = [(column, -(1 << 63), 52) for column in range(q + 1)]
    key_of_one = 1023 << 52
    windows += [(q, key_of_one, 40), (0, 0, 40), (q, -(1 << 52), 40), (0, key_of_one, 28)]
    windows += [(q, key_of_one, 16), (q, -key_of_one, 28), (0, 2046 << 52, 40)]
    columns, starts, shifts = np.array(windows, dtype=np.int64).T.copy()
    found = keys.key_cells(X, y, columns, starts, shifts)
    assert np.array_equal(found, twin.key_cells(X, y, columns, starts, shifts))
    assert (found[: q + 1, -1] == len(twin.complete(X, y))).all()
    assert 0 < len(twin.complete(X, y)) < len(X)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("centre", [0.0, -1.0, 1.7e9, LARGEST])
@pytest.mark.parametrize("nearest", [2.0**-1022, 3e-9, 0.7, 1e300])
@pytest.mark.parametrize("octaves", [2, 40, keys.OCTAVES])
@pytest.mark.pairs
def test_distances_agree_with_the_twin(layout, centre, nearest, octaves):
    """Up to one in the last place of what an entry adds, which is 2^-19 of it."""
    X, y = table(layout)
    q = X.shape[1]
    centres, nearests = np.full(q + 1, centre), np.full(q + 1, nearest)
    sides = np.full(q + 1, octaves)
    found = keys.distances(X, y, centres, nearests, sides)
    expected = twin.distances(X, y, centres, nearests, sides)
    assert found.shape == (q + 1, 2, keys.OCTAVES)
    assert np.abs(found - expected).max() <= len(twin.complete(X, y))
    assert found.any() and not found[:, :, octaves:].any()
    nearests[-1] = np.inf
    assert not keys.distances(X, y, centres, nearests, sides)[-1].any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turned_records_count_and_measure_as_the_others(layout):
    """Below every edge of a coarse and of a fine window, and at each distance, to the record."""
    X, y = table(layout)
    turned, columns = keys.TurnedRecords(X, y), X.shape[1] + 1
    for start, shift in ((-(1 << 63), 52), (1022 << 52, 40)):
        windows = [np.full(columns, number) for number in (start, shift)]
        cells = keys.key_cells(X, y, np.arange(columns), *windows)
        first = [twin_below(X, y, j, start) for j in range(columns)]
        edges = [start + (cell << shift) for cell in range(0, 4097, 64)]
        edges = [edge for edge in edges if abs(edge) <= 2047 << 52]
        for j in range(columns):
            places = [(edge - start) >> shift for edge in edges]
            expected = cells[j, places] + first[j]
            assert turned.below([(j, edge) for edge in edges]) == expected.tolist()
    assert turned.n_complete == len(twin.complete(X, y))
    arguments = np.full(columns, 0.5), np.full(columns, 1e-9), np.full(columns, 40)
    np.testing.assert_array_equal(turned.distances(*arguments), keys.distances(X, y, *arguments))


def twin_below(X, y, column, key):
    """Complete records below the number with this key; none is below the first key of all."""
    if key == -(1 << 63):
        return 0
    return int((twin.complete(X, y)[:, column] < twin.first_doubles(key, 1, 1)[0]).sum())


def test_turned_records_refuse_other_thresholds_and_copies():
    turned = keys.TurnedRecords(np.ones((3, 1)), np.ones(3))
    for threshold in ((2, 0), (-1, 0), (0, (2047 << 52) + 1), (0, -(2047 << 52) - 1)):
        with pytest.raises(ValueError, match="threshold"):
            turned.below([threshold])
    with pytest.raises(TypeError, match="not copied"):
        pickle.dumps(turned)


def test_an_entry_is_in_the_cells_of_its_distance():
    """Squares add up, and cells begin with the octave of the nearest distance."""
    for distance in (1.0, 1.25, 1.5, 1.75, 1.998046875, 300.0, 5e-3):
        for side, sign in enumerate((1.0, -1.0)):
            y = np.array([7.0 + sign * distance])
            away = abs(float(y[0]) - 7.0)
            where = np.array([7.0]), np.array([2.0**-10]), ALL
            found = keys.distances(np.empty((1, 0)), y, *where)
            cells = found[0, side] / keys.WHOLE
            assert not found[0, 1 - side].any()
            nodes = np.exp2(np.arange(-10, keys.OCTAVES - 10))
            assert cells @ nodes**2 == pytest.approx(away**2, rel=0.005)
            assert 0.999 < cells @ nodes / away < 1.14
            assert 1.0 - 1e-5 < np.linalg.norm(cells) <= 1.0
            assert np.count_nonzero(cells) <= 2
    where = np.array([7.0]), np.array([0.5]), ALL
    nothing = keys.distances(np.empty((1, 0)), np.array([7.5]), *where)
    assert not nothing.any()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("half", [1e-290, 1e-3, 0.7, 3e5, 1e300])
@pytest.mark.pairs
def test_moments_agree_with_the_twin(layout, half):
    X, y = table(layout)
    q = X.shape[1]
    middles, halves = np.linspace(-1.0, 1.0, q + 1), np.full(q + 1, half)
    found = keys.moments(X, y, middles, halves)
    assert np.array_equal(found, twin.moments(X, y, middles, halves))
    assert np.abs(found[0]).max() > 0


@each("value", HOSTILE)
def test_an_incomplete_record_adds_nothing_and_a_complete_one_is_counted_once(value):
    for hostile_first in (True, False):
        X = np.array([[value, 2.0]]) if hostile_first else np.array([[2.0, value]])
        y = np.array([0.5])
        whole = int(np.isfinite(value))
        columns = np.arange(3)
        below = keys.key_cells(X, y, columns, np.full(3, -(1 << 63)), np.full(3, 52))
        assert (np.diff(below) >= 0).all() and (below[:, 0] == 0).all()
        assert (below[:, -1] == whole).all()
        far = keys.distances(X, y, np.full(3, 1e9), np.ones(3), np.array([2, 40, 100]))
        assert (np.linalg.norm(far, axis=(1, 2)) <= keys.WHOLE * whole).all()
        assert far.any(axis=(1, 2)).all() == bool(whole) == far.any()
        sums = keys.moments(X, y, np.zeros(3), np.ones(3))
        assert (sums[1] <= keys.UNIT**2).all() and (sums[0] ** 2 == sums[1]).all()
        assert whole or not sums.any()


def test_cells_are_in_numeric_order():
    """Each of two doubles in the cell of the larger or a later one: all pairs of hostile values."""
    finite = [x for x in HOSTILE if np.isfinite(x)]
    cell = {}
    for x in finite:
        found = keys.key_cells(
            np.empty((1, 0)), np.array([x]), np.zeros(1, np.int64),
            np.full(1, -(1 << 63)), np.full(1, 52),
        )  # fmt: skip
        cell[x] = int(np.flatnonzero(np.diff(found[0]))[0])
    for a, b in itertools.product(finite, finite):
        assert (a < b) <= (cell[a] <= cell[b])
        assert (a == b) <= (cell[a] == cell[b])


def test_blocks_add_up():
    """Whole numbers: the same whatever the blocks."""
    X, y = table("C", n=1000)
    q = X.shape[1]
    arguments = np.arange(q + 1), np.full(q + 1, -(1 << 63)), np.full(q + 1, 52)
    whole = keys.key_cells(X, y, *arguments)
    parts = [keys.key_cells(X[a : a + 77], y[a : a + 77], *arguments) for a in range(0, 1000, 77)]
    assert np.array_equal(whole, sum(parts))
    arguments = np.zeros(q + 1), np.ones(q + 1), np.full(q + 1, 40)
    whole = keys.distances(X, y, *arguments)
    parts = [keys.distances(X[a : a + 77], y[a : a + 77], *arguments) for a in range(0, 1000, 77)]
    assert np.array_equal(whole, sum(parts))
