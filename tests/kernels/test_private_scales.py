"""Private scales: the compiled search against the plain twins of its thresholds and histograms."""

from __future__ import annotations

import numpy as np
import pytest

from dpfast.curator.answers import Answer, Receipt
from dpfast.kernels import session
from dpfast.scaling.search import ScaleSearch
from dpfast.scaling.thresholds import BINADE
from tests.twins import decisions as twin, thresholds

END = 2047 * BINADE


def intervals(rng, m):
    """Intervals of keys, of every width, on one side of zero, across it and at the ends."""
    yield from [(-END, END), (0, BINADE), (-BINADE, 0), (0, 1 << 16), (-END, 0)]
    yield END - BINADE, END
    for _ in range(m):
        low = int(rng.integers(-END, END)) >> 16 << 16
        width = 1 << int(rng.integers(17, 64))
        if width > BINADE:  # the ends of wide ones are powers of two
            low, width = low >> 52 << 52, width >> 52 << 52
        yield low, min(low + width, END)


@pytest.mark.parametrize("patient", [False, True])
def test_thresholds_are_those_of_the_twin(patient):
    for low, high in intervals(np.random.default_rng(0), 3000):
        key, level, tie = session.threshold_between(low, high, patient)
        assert tie == thresholds.is_tie(low, high)
        if not tie and high > low and (low >= 0 or high <= 0 or high - low > BINADE):
            assert (key, level) == thresholds.next_key(low, high, patient), (low, high)
            assert low < key < high
        place = thresholds.centre_of(low, high, *map(float, thresholds.value_of([low, high])))
        assert session.place_between(low, high) == place
    assert session.place_between(END, 1 << 62)[0] < 1e301  # an infinity has the largest value


@pytest.mark.parametrize("extreme", [-(1 << 63), (1 << 63) - 1])
def test_any_key_of_64_bits_has_a_threshold(extreme):
    """Also those of infinities and of no number: nothing is read outside the table."""
    for other in (0, extreme, BINADE, -BINADE):
        session.threshold_between(min(extreme, other), max(extreme, other), False)
        assert np.isfinite(session.place_between(extreme, other)).all()


def histograms(rng, m, octaves=100):
    """Columns of one side, of ties, far away, at the end of the octaves, or of noise alone."""
    for _ in range(m):
        cells = np.zeros((2, 100))
        centre = int(rng.integers(0, octaves))
        places = np.clip(np.rint(centre + 2.0 * rng.normal(size=500)), 0, octaves - 1).astype(int)
        sides = (rng.random(500) < rng.choice([0.0, 0.02, 0.5])).astype(int)
        np.add.at(cells, (sides, places), rng.choice([0.0, 1.0]))
        noise = float(rng.choice([0.1, 2.0, 20.0]))
        cells[:, :octaves] += noise * rng.normal(size=(2, octaves))
        nearest, at = float(np.exp2(rng.uniform(-960, 940))), float(rng.normal())
        yield at, nearest, octaves, cells, noise


def close(one, other):
    np.testing.assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_scales_of_columns(seed):
    given = list(histograms(np.random.default_rng(seed), 6, (100, 40, 3)[seed % 3]))
    ours = session.column_scales([session.DistanceHistogram(*one) for one in given], 500.0)
    theirs = twin.column_scales([twin.DistanceHistogram(*one) for one in given], 500.0)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
        assert one.detected is other.detected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_scales_are_finite_whatever_the_cells_are(value):
    """Released cells are finite; a source of noise of one's own may say anything."""
    cells = np.zeros((2, 100))
    cells[0, 3], cells[1, 7], cells[0, 20] = value, 500.0, -value
    (scale,) = session.column_scales(
        [session.DistanceHistogram(1.0, 0.5, 100, np.asfortranarray(cells), 1.0)], 500.0
    )
    assert np.isfinite(scale[:4]).all() and scale.spread > 0.0
    assert scale.low <= scale.centre <= scale.high


@pytest.mark.parametrize(
    "wrong", [(0, np.zeros((2, 100))), (101, np.zeros((2, 100))), (5, np.zeros((2, 99)))], ids=str
)
def test_a_histogram_has_as_many_cells_as_it_says(wrong):
    octaves, cells = wrong
    with pytest.raises(ValueError, match="two sides"):
        session.DistanceHistogram(0.0, 1.0, octaves, cells, 1.0)


class TwoLooks:
    """Answers of a curator: no counts, and two histograms of the same distances."""

    n = 1000

    def __init__(self, cells, dtype):
        self.cells, self.dtype = iter(cells), dtype

    def below(self, asked, mu, later=()):
        counts = np.array([0.0] * len(asked) + [1000.0 * len(asked) ** 0.5])
        return Answer(counts, 10.0, Receipt("counts", "D2", mu, 1.0, 10.0))

    def distances(self, columns, centres, nearest, octaves, mu):
        self.asked = centres.tolist(), nearest.tolist(), list(octaves)
        cells, noise = next(self.cells)
        return Answer(cells.astype(self.dtype), noise, Receipt("distances", "D6", mu, 1.0, noise))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_looks_are_pooled_as_the_twin_pools_them(dtype):
    rng, octaves = np.random.default_rng(5), 40
    looks = []
    for noise in (3.0, 2.0):
        cells = np.zeros((3, 2, 100))
        cells[:, :, :octaves] = noise * rng.normal(size=(3, 2, octaves))
        cells[:, :, 3:6] += 100.0
        looks.append((np.asarray(cells, dtype).astype(float), noise))
    answers = TwoLooks(looks, dtype)
    search = ScaleSearch(answers, range(3), 1.0)
    found = search.run(spend=True)
    centres, nearest, sides = answers.asked
    assert sides == [octaves] * 3
    for j, scale in enumerate(found):
        first, second = (
            twin.DistanceHistogram(centres[j], nearest[j], octaves, cells[j], noise)
            for cells, noise in looks
        )
        close(scale, twin.column_scales([second.joined(first)], search._complete)[0])
