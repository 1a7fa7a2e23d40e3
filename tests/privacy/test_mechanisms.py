"""Releases on the grid: claims C1, C16, C19 and C22 of PROOFS.md."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special, stats

from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.kernels import sampler
from dpfast.privacy import EntropyNoise, NoiseSource, SeededNoise
from dpfast.privacy.mechanisms import (
    GRID_COST,
    check_grid_range,
    gaussian_scale,
    grid_bits,
    joint_grids,
    laplace_rate,
    release_integer,
    release_together,
)
from tests.loops import each
from tests.released import released_alone

FALSE_FAILURE = 1e-6
CLAMP = 2**51


class KnownNoise(NoiseSource):
    """Hands out the integers it was given and remembers what it was asked for."""

    def __init__(self, values):
        self.values, self.asked = list(values), []

    def normals(self, size, bits):
        self.asked.append((size, bits))
        taken, self.values = self.values[:size], self.values[size:]
        return np.array(taken, dtype=np.int64)


# ---- rounding to the grid -----------------------------------------------------------------------

grids = st.floats(min_value=1e-260, max_value=1e240)
values = st.floats(allow_nan=False, allow_infinity=False)


@given(values, grids)
@settings(max_examples=200, deadline=None)
def test_rounding_to_the_grid_is_exact(value, grid):
    _assert_nearest(value, grid)


@given(st.integers(-(2**50), 2**50), grids, st.sampled_from([-2, -1, 0, 1, 2]))
@settings(max_examples=200, deadline=None)
def test_rounding_is_exact_next_to_the_midpoints(m, grid, ulps):
    value = (m + 0.5) * grid
    for _ in range(abs(ulps)):
        value = math.nextafter(value, math.copysign(math.inf, ulps))
    _assert_nearest(value, grid)


def _assert_nearest(value, grid):
    m = sampler.nearest(value, grid)
    exact = Fraction(value) / Fraction(grid)
    clamped = max(-CLAMP, min(CLAMP, exact))
    assert abs(m - clamped) <= Fraction(1, 2) * (1 + Fraction(1, 2**52))
    assert abs(m) <= CLAMP


def test_a_division_that_rounds_is_corrected():
    """Quotients near 2^50 are off by up to 1/8 of a step; a plain rint would go wrong here."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(4_000):
        grid = rng.uniform(0.5, 1.0)
        value = float(rng.integers(2**49, 2**50)) * grid + 0.5 * grid
        _assert_nearest(value, grid)
        exact = Fraction(value) / Fraction(grid)
        wrong += abs(round(value / grid) - exact) > Fraction(1, 2) * (1 + Fraction(1, 2**52))
    assert wrong > 0


@each(
    ("value", "expected"),
    [(math.nan, 0), (math.inf, CLAMP), (-math.inf, -CLAMP), (1e300, CLAMP), (-1e300, -CLAMP),
     (0.0, 0), (-0.0, 0), (5e-324, 0)],
)  # fmt: skip
def test_values_never_raise(value, expected):
    assert sampler.nearest(value, 1e-9) == expected
    released = released_alone(np.array([value, 1.0]), 1e-3, KnownNoise([0, 0]))
    assert released[0] == 1e-3 * 2.0 ** -grid_bits(2) * (expected if value == value else 0) or (
        abs(value) == math.inf or abs(value) > 1e200
    )
    assert np.all(np.isfinite(released))
    matrix = np.array([[value, value], [value, 1.0]])
    assert np.all(np.isfinite(released_alone(matrix, 1e-3, KnownNoise([0, 0, 0]))))


def test_overflowing_quotients_and_subnormal_values():
    assert sampler.nearest(1e308, 1e-260) == CLAMP
    assert sampler.nearest(-1e308, 1e-260) == -CLAMP
    assert sampler.nearest(5e-324, 1e-260) == 0


# ---- scales -------------------------------------------------------------------------------------


def test_grid_bits_keep_the_rounding_below_its_share():
    for d in [*range(1, 2000), 10**4, 20100, 10**6, 10**9]:
        k = grid_bits(d)
        assert k >= 20
        assert d * 4**20 <= 4**k  # sqrt(d) 2^-k <= 2^-20
        assert k == 20 or (d - 1) * 4**20 >= 4 ** (k - 1)  # and k is no larger than needed
    three_releases = 3 * (Fraction(1, 2**20) * (1 + Fraction(1, 2**52))) ** 2
    assert Fraction(GRID_COST) ** 2 >= three_releases


@given(
    st.floats(min_value=1e-200, max_value=1e200),
    st.floats(min_value=1e-5, max_value=1e3),
    st.integers(1, 10**6),
)
@settings(max_examples=300, deadline=None)
def test_noise_scale_pays_for_sensitivity_and_grid_in_exact_arithmetic(sensitivity, mu, d):
    scale = gaussian_scale(sensitivity, mu, d)
    spent = Fraction(sensitivity) / Fraction(scale) + Fraction(GRID_COST)
    assert spent <= Fraction(mu)
    assert spent >= Fraction(mu) * (1 - Fraction(1, 2**40))


@each("mu", [GRID_COST, 1e-7, 0.0, -1.0, math.nan, math.inf])
def test_a_mu_below_the_grid_is_refused(mu):
    with pytest.raises(InvalidBudget, match="too small"):
        gaussian_scale(1.0, mu, 5)


@each("sensitivity", [0.0, -1.0, math.nan, math.inf, 1e300, 1e-300])
def test_bad_sensitivities_are_refused(sensitivity):
    with pytest.raises(InvalidInput, match="noise scale"):
        gaussian_scale(sensitivity, 1.0, 5)
    with pytest.raises(InvalidInput):
        gaussian_scale(1.0, 1.0, 0)


def test_a_bound_that_would_reach_the_clamp_is_refused_up_front():
    scale = gaussian_scale(2.0 / 1e6, 1.0, 5)
    check_grid_range(1.0, scale, 5)
    with pytest.raises(InvalidBudget, match="smaller mu"):
        check_grid_range(1.0, 2.0 / 1e12, 5)


# ---- what is released ---------------------------------------------------------------------------


def test_a_release_is_grid_times_rounded_value_plus_noise():
    rng = np.random.default_rng(1)
    value, noise = rng.normal(size=7), rng.integers(-(2**24), 2**24, 7)
    source = KnownNoise(noise)
    released = released_alone(value, 0.01, source)
    k = grid_bits(7)
    assert source.asked == [(7, k)]
    grid = 0.01 * 2.0**-k
    expected = [grid * (round(Fraction(v) / Fraction(grid)) + int(z)) for v, z in
                zip(value.tolist(), noise.tolist(), strict=True)]  # fmt: skip
    assert released.tolist() == expected


def test_a_symmetric_release_rounds_in_the_orthonormal_basis():
    rng = np.random.default_rng(2)
    p = 4
    matrix = rng.normal(size=(p, p))
    matrix = matrix + matrix.T
    noise = rng.integers(-(2**24), 2**24, p * (p + 1) // 2)
    source = KnownNoise(noise)
    released = released_alone(matrix, 0.01, source)
    k = grid_bits(p * (p + 1) // 2)
    assert source.asked == [(10, k)]
    assert np.array_equal(released, released.T)
    grid = 0.01 * 2.0**-k
    upper = np.triu_indices(p)
    for i, j, z in zip(*upper, noise, strict=True):
        step = grid if i == j else grid * math.sqrt(0.5) * (1 + 2.0**-50)
        assert released[i, j] == step * (round(Fraction(matrix[i, j]) / Fraction(step)) + int(z))
    off_diagonal = grid * math.sqrt(0.5) * (1 + 2.0**-50)
    assert Fraction(off_diagonal) ** 2 * 2 >= Fraction(grid) ** 2
    assert off_diagonal <= grid / math.sqrt(2) * (1 + 1e-14)
    lower = matrix.copy()
    lower[np.tril_indices(p, -1)] = 77.0  # only the upper triangle is read
    again = released_alone(lower, 0.01, KnownNoise(noise))
    assert np.array_equal(again, released)


def test_several_are_released_as_each_is_on_its_own():
    """Of one draw; the coarser grids take its rounding down, of negative numbers too."""
    rng = np.random.default_rng(4)
    p = 6
    values = [rng.normal(size=p), np.cov(rng.normal(size=(p, 9))), np.cov(rng.normal(size=(p, 9)))]
    scales = (0.3, 0.02, 7.0)
    grids = joint_grids(tuple([value.shape for value in values]), scales)
    together = release_together(values, grids, SeededNoise(11))
    source = SeededNoise(11)  # the same normals, one after the other
    assert grid_bits(p) < grid_bits(p * (p + 1) // 2)
    for value, scale, released in zip(values, scales, together, strict=True):
        alone = released_alone(value, scale, source)
        assert np.array_equal(released, alone)
    noise = KnownNoise([-1, 3, -4, 4, -5, 5, *[0] * (p * (p + 1) // 2)])
    grids = joint_grids(((p,), (p, p)), (1.0, 1.0))
    vector, _ = release_together([np.zeros(p), np.zeros((p, p))], grids, noise)
    lowered = 2 ** (grid_bits(p * (p + 1) // 2) - grid_bits(p))
    expected = [math.floor(Fraction(z, lowered)) for z in (-1, 3, -4, 4, -5, 5)]
    assert (vector * 2.0 ** grid_bits(p)).tolist() == expected


def test_what_is_left_out_takes_no_noise():
    vector, matrix = np.arange(3.0), np.eye(3)
    with_gap = joint_grids(((3,), None, (3, 3)), (0.1, 0.0, 0.2))
    without = joint_grids(((3,), (3, 3)), (0.1, 0.2))
    assert (with_gap.size, with_gap.bits) == (without.size, without.bits)
    first, gap, last = release_together([vector, None, matrix], with_gap, SeededNoise(2))
    assert gap is None
    expected = release_together([vector, matrix], without, SeededNoise(2))
    assert np.array_equal(first, expected[0])
    assert np.array_equal(last, expected[1])


@pytest.mark.parametrize("source", [EntropyNoise(), SeededNoise(0)], ids=repr)
def test_every_released_number_lies_on_its_grid(source):
    rng = np.random.default_rng(3)
    for scale in (1e-6, 0.1, 3.7, 1e9):
        value = rng.normal(size=12) * scale * 10
        grid = scale * 2.0 ** -grid_bits(12)
        released = released_alone(value, scale, source)
        assert np.array_equal(grid * np.rint(released / grid), released)
        matrix = np.outer(value[:5], value[:5])
        grid = scale * 2.0 ** -grid_bits(15)
        released = released_alone(matrix, scale, source)
        steps = np.where(np.eye(5) > 0, grid, grid * math.sqrt(0.5) * (1 + 2.0**-50))
        assert np.array_equal(steps * np.rint(released / steps), released)


@each("order", ["C", "F", "strided", "readonly", "float32", "int"])
def test_layouts_and_dtypes_give_the_same_release(order):
    base = np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T
    matrix = {
        "C": base,
        "F": np.asfortranarray(base),
        "strided": np.repeat(base, 2, axis=1)[:, ::2],
        "readonly": base.copy(),
        "float32": base.astype(np.float32),
        "int": base.astype(int),
    }[order]
    matrix.flags.writeable = order != "readonly"
    expected = released_alone(base, 0.1, SeededNoise(1))
    assert np.array_equal(released_alone(matrix, 0.1, SeededNoise(1)), expected)
    vector = released_alone(matrix[0], 0.1, SeededNoise(1))
    assert np.array_equal(vector, released_alone(base[0], 0.1, SeededNoise(1)))


def test_wrong_shapes_are_refused():
    with pytest.raises(InvalidInput):
        released_alone(np.zeros((2, 3)), 0.1, SeededNoise(0))
    whole, vector, grids = np.zeros(3, dtype=np.int64), [np.zeros(3)], [(20, 1.0, 0.0)]
    sampler.release(vector, whole, 20, grids)
    for arguments in (
        (vector, whole[:2], 20, grids),
        (vector, np.zeros(4, dtype=np.int64), 20, grids),
        (vector, np.zeros(3), 20, grids),
        (vector, whole.reshape(1, 3), 20, grids),
        (vector, whole, 19, grids),
        (vector, whole, 20, []),
        ([np.zeros((3, 3))], whole, 20, grids),
        (vector, whole, 20, [(20, 1.0, 0.7)]),
        (vector, whole[:0], 20, [None]),
        ([None], whole, 20, grids),
    ):
        with pytest.raises(InvalidInput):
            sampler.release(*arguments)
    for scale in (0.0, math.nan, math.inf, 1e-300):
        with pytest.raises(InvalidInput):
            released_alone(np.zeros(3), scale, SeededNoise(0))


# ---- the law of what is released ----------------------------------------------------------------
# False-failure probability at most 1e-6 for each test.  Power: 20,000 releases of 15 coordinates
# give 300,000 draws, whose second moment has a relative standard deviation of 0.26%: noise 2% too
# small (4% in variance) is 15 standard deviations away, beyond the threshold of 5 with power
# > 1 - 1e-15.


def test_released_noise_has_the_exact_law():
    value = np.array([0.3, -1.7, 1e-9, 12.0, 0.0])
    scale = 0.25
    grid = scale * 2.0 ** -grid_bits(5)
    source = EntropyNoise()
    released = np.array([released_alone(value, scale, source) for _ in range(40_000)])
    start = np.array([sampler.nearest(v, grid) for v in value.tolist()])
    steps = np.rint(released / grid).astype(np.int64) - start  # floor(2^k Z), nothing else
    z = (steps + 0.5) * 2.0 ** -grid_bits(5)
    assert stats.kstest(special.ndtr(z).ravel(), "uniform").pvalue > FALSE_FAILURE
    assert abs(np.mean(z * z) - 1) * math.sqrt(z.size / 2) < 5
    covariance = z.T @ z / len(z)
    assert np.max(np.abs(covariance - np.eye(5))) < 5.5 * math.sqrt(2 / len(z))


def test_released_symmetric_noise_is_the_gaussian_orthogonal_ensemble():
    p, scale, source = 5, 2.0, EntropyNoise()
    released = np.array([released_alone(np.zeros((p, p)), scale, source) for _ in range(20_000)])
    upper = np.triu_indices(p)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0)) / scale
    z = released[:, upper[0], upper[1]] * weights  # basis coordinates: standard normal
    assert stats.kstest(special.ndtr(z).ravel(), "uniform").pvalue > FALSE_FAILURE
    assert abs(np.mean(z * z) - 1) * math.sqrt(z.size / 2) < 5
    covariance = z.T @ z / len(z)
    assert np.max(np.abs(covariance - np.eye(15))) < 5.5 * math.sqrt(2 / len(z))
    # rotation invariance: v' E v has standard deviation scale for every unit v
    v = np.array([1.0, -2.0, 0.5, 3.0, 0.1])
    v /= np.linalg.norm(v)
    form = np.einsum("i,nij,j->n", v, released, v) / scale
    assert abs(np.mean(form**2) - 1) * math.sqrt(len(form) / 2) < 5


def test_the_worst_pair_cannot_be_told_apart_better_than_the_gaussian_ceiling():
    """Claim C1 end to end: power of the likelihood-ratio test at level 5% on a worst pair.

    An honest release reaches the ceiling and exceeds it by more than 5 binomial standard
    deviations with probability below 3e-7; noise 10% too small exceeds it by 14 of them.
    """
    mu, n, source = 1.0, 50, EntropyNoise()
    sensitivity = 2.0 / n
    for factor, honest in ((1.0, True), (0.9, False)):
        scale = factor * gaussian_scale(sensitivity, mu, 3)
        first = np.array([1.0 / n, 0.0, 0.0])
        draws = 30_000
        null = np.array([released_alone(-first, scale, source)[0] for _ in range(draws)])
        alternative = np.array([released_alone(first, scale, source)[0] for _ in range(draws)])
        cut = special.ndtri(0.95) * scale - first[0]
        level = special.ndtr(-(cut + first[0]) / scale)
        power = np.mean(alternative > cut)
        ceiling = special.ndtr(special.ndtri(level) + mu)
        excess = (power - ceiling) / math.sqrt(ceiling * (1 - ceiling) / draws)
        assert abs(np.mean(null > cut) - level) < 5 * math.sqrt(level / draws)
        assert bool(excess < 5) is honest
        if honest:
            assert excess > -5.5  # no noise is wasted either


# ---- neighbours on the grid ---------------------------------------------------------------------


def test_rounding_adds_no_more_than_one_step_per_coordinate():
    """Claim C16: ||m - m'|| <= ||v - v'||/g + sqrt(d), attacked at the midpoints of the grid."""
    rng = np.random.default_rng(4)
    worst = 0.0
    for _ in range(3000):
        d = int(rng.integers(1, 9))
        grid = float(10.0 ** rng.uniform(-9, 3))
        base = rng.integers(-(2**30), 2**30, d) + 0.5
        sign = rng.choice([-1.0, 1.0], d)
        v = base * grid
        shift = rng.uniform(0, 3) * rng.random(d)
        w = np.nextafter(v, sign * np.inf) + sign * shift * grid
        m = np.array([sampler.nearest(x, grid) for x in v.tolist()])
        m_w = np.array([sampler.nearest(x, grid) for x in w.tolist()])
        moved = math.sqrt(sum(int(a - b) ** 2 for a, b in zip(m, m_w, strict=True)))
        exact = math.sqrt(sum(
            float((Fraction(a) - Fraction(b)) / Fraction(grid)) ** 2
            for a, b in zip(v.tolist(), w.tolist(), strict=True)
        ))  # fmt: skip
        allowed = exact + math.sqrt(d) * (1 + 2.0**-50)
        assert moved <= allowed
        worst = max(worst, moved / allowed)
    assert worst > 0.95


# ---- discrete Laplace ---------------------------------------------------------------------------


@given(st.floats(min_value=1e-3, max_value=50.0), st.integers(1, 4096))
@settings(max_examples=200, deadline=None)
def test_laplace_rate_rounds_down(epsilon, sensitivity):
    numerator, denominator = laplace_rate(sensitivity, epsilon)
    rate = Fraction(numerator, denominator)
    assert rate * sensitivity <= Fraction(epsilon)
    assert rate * sensitivity >= Fraction(epsilon) * (1 - Fraction(1, 2**20))


@each(
    ("sensitivity", "epsilon"),
    [(0, 1.0), (-1, 1.0), (1, 0.0), (1, -1.0), (1, math.nan), (1, math.inf), (1, 1e-14), (1, 1e5)],
)
def test_laplace_rate_refuses(sensitivity, epsilon):
    with pytest.raises(InvalidBudget):
        laplace_rate(sensitivity, epsilon)


def test_integer_releases_respect_the_ratio_bound():
    """Claim C22 end to end: no integer is more than e^eps times likelier under a neighbour.

    With 100,000 draws each, cells with at least 500 expected counts estimate the ratio to within
    6.3% (one standard deviation), so 5.5 of them plus e^eps is never exceeded by honest noise
    (P < 1e-6 over all cells); a rate twice too large is seen.
    """
    epsilon, source = 0.5, EntropyNoise()
    rate = laplace_rate(2, epsilon)
    draws = 100_000
    for factor, honest in ((1, True), (2, False)):
        used = (rate[0] * factor, rate[1])
        a = 10 + source.discrete_laplace(draws, *used)
        b = 12 + source.discrete_laplace(draws, *used)
        support = np.arange(0, 23)
        counts = np.array([[np.sum(x == j) for j in support] for x in (a, b)])
        keep = counts.min(axis=0) >= 500
        ratio = np.log(counts[0, keep] / counts[1, keep])
        error = np.sqrt(1 / counts[0, keep] + 1 / counts[1, keep])
        assert bool(np.all(np.abs(ratio) <= epsilon + 5.5 * error)) is honest
    assert isinstance(release_integer(10, rate, source), int)
    assert release_integer(np.int64(10), rate, SeededNoise(0)) == release_integer(
        10, rate, SeededNoise(0)
    )
