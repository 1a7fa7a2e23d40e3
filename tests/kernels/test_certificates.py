"""The compiled recursion tables: their twin, and claims R12 and R13 attacked."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.errors import InvalidInput
from dpfast.kernels.certificates import LINEAR_MODEL, SMOOTH_LOSS, RecursionTable
from tests.twins import certificates as reference


def linear(n, d=5, lreg=0.0, c=1.0, B2=0.5, rho=0.5):
    """Public constants of equation (10), r = sqrt(d) and B1 = 1."""
    alpha = c * (1 - rho) / math.log(2 - rho)
    g = B2 * d / n
    least = 4 * alpha * d / (rho * (1 - rho) * n) + g / rho
    return LINEAR_MODEL, 8 * alpha * d / n, c / (2 * alpha), g, lreg, max(0.0, least - lreg / rho)


def smooth(n, d=5):
    a = 4 * d**2 * 0.2 / n
    return SMOOTH_LOSS, a, 0.0, 0.5 * d / n, 0.0, math.sqrt(a)


CONSTANTS = [
    linear(3000), linear(20_000, lreg=0.01), linear(20_000, lreg=0.3), linear(20_000, lreg=1e-5),
    linear(5000, d=2, c=2.0, B2=1.0), smooth(100_000), smooth(2000),
]  # fmt: skip
each = pytest.mark.parametrize("constants", CONSTANTS, ids=range(len(CONSTANTS)))
LARGEST = 2.5


def lowest_neighbour(constants, x):
    """R(x) in 40 digits: as low as a neighbour's eigenvalue can be."""
    kind, a, k, g, ridge, threshold = constants
    with mpmath.workdps(40):
        x = mpmath.mpf(x)
        if x <= threshold:
            return mpmath.mpf(0)
        if kind == SMOOTH_LOSS:
            value = mpmath.sqrt(x * x - a) - g if x * x > a else mpmath.mpf(0)
        else:
            value = x * (2 - mpmath.exp(k * (1 - mpmath.sqrt(1 - a / (x + ridge))))) - g
        return max(mpmath.mpf(0), value)


def float_below(value):
    found = float(value)
    return found if mpmath.mpf(found) <= value else math.nextafter(found, -math.inf)


@each
def test_the_table_is_that_of_the_twin(constants):
    table, twin = RecursionTable(*constants, LARGEST), reference.ReferenceTable(*constants, LARGEST)
    assert len(table.nodes) == len(twin.nodes)
    np.testing.assert_allclose(table.nodes, twin.nodes, rtol=1e-12)
    np.testing.assert_allclose(table.heights, twin.heights, rtol=1e-8)
    rng = np.random.default_rng(0)
    for x in [*rng.uniform(0, 0.3, 5), 0.0, float(table.nodes[0])]:
        assert abs(table.count(x) - twin.count(x)) <= 1
        assert table.integral(x) == pytest.approx(twin.integral(x), rel=1e-9, abs=1e-12)
    for count in (0, 1, 2, 17, 60):
        assert table.inverse(count) == pytest.approx(twin.inverse(count), rel=1e-9)


@each
@settings(max_examples=40)
@given(x=st.floats(allow_nan=True, allow_infinity=True))
def test_any_float_is_counted(constants, x):
    table, twin = table_of(constants), twin_of(constants)
    count, level = table.count(x), table.integral(x)
    assert 0 <= count <= table.count(LARGEST * 2)
    assert 0.0 <= level <= table.integral(math.inf)
    if not x > 0.0:
        assert count == 0 and level == 0.0
    assert level == pytest.approx(twin.integral(x) if x == x else 0.0, rel=1e-9, abs=1e-12)


_TABLES: dict = {}


def table_of(constants):
    return _TABLES.setdefault((0, constants), RecursionTable(*constants, LARGEST))


def twin_of(constants):
    return _TABLES.setdefault((1, constants), reference.ReferenceTable(*constants, LARGEST))


@each
@pytest.mark.parametrize("eta", [0.0, 1e-9])
@pytest.mark.one_in(2)
def test_r12_counts_of_neighbours_differ_by_at_most_one(constants, eta):
    """The lowest neighbour, both eigenvalues wrong by eta in the worst directions."""
    table = RecursionTable(*constants, LARGEST, eta)
    rng = np.random.default_rng(1)
    points = [*rng.uniform(0, 0.4, 300), *(10 ** rng.uniform(-6, 0.39, 300)), *table.nodes[:40]]
    points += [math.nextafter(x, 1.0) for x in table.nodes[:40]]
    worst = 0
    for x in points:
        true = float_below(mpmath.mpf(x))
        neighbour = float_below(lowest_neighbour(constants, true))
        high, low = true + 0.999999 * eta, neighbour - 0.999999 * eta
        worst = max(worst, table.count(high) - table.count(low))
        assert table.integral(high) - table.integral(low) <= 1.0 + 2 * table.integral_error
    assert worst == 1


@each
def test_r12_counts_never_decrease_from_one_float_to_the_next(constants):
    table = table_of(constants)
    for node in table.nodes[:: max(1, len(table.nodes) // 60)]:
        x = float(node)
        floats = []
        for _ in range(30):
            x = math.nextafter(x, 0.0)
        for _ in range(60):
            floats.append(x)
            x = math.nextafter(x, math.inf)
        counts = [table.count(x) for x in floats]
        assert counts == sorted(counts)
    grid = np.sort(10 ** np.random.default_rng(2).uniform(-7, 0.4, 4000))
    counts = [table.count(x) for x in grid]
    assert counts == sorted(counts)


@each
def test_r12_the_minorant_is_close_to_the_recursion(constants):
    """As many steps as the plain recursion: exact without a ridge, a few fewer with one."""
    table = table_of(constants)
    for x in (0.03, 0.13, 0.4):
        exact = reference.recursion_count(*constants, x)
        assert table.exact_count(x) == exact
        found = table.count(x)
        assert found == exact or constants[4] or constants[0] == SMOOTH_LOSS
        assert exact - max(5, 0.005 * exact) <= found <= exact + 1


@each
def test_r12_an_inverse_has_at_most_its_count(constants):
    table = table_of(constants)
    for count in (0, 1, 2, 3, 10, 55, 200):
        x = table.inverse(count)
        assert table.count(x) <= count
        if x < table.nodes[-1] and count:
            assert table.count(x * (1 + 1e-9)) > count
    assert table.inverse(10**9) == table.nodes[-1]
    # the minorant needs no more steps than the recursion, and only a few fewer
    exact, later = (reference.recursion_inverse(*constants, count) for count in (12, 17))
    assert exact <= table.inverse(12) * (1 + 1e-12) <= later


@each
def test_r13_the_integral_moves_by_one_and_inverts(constants):
    table = table_of(constants)
    rng = np.random.default_rng(3)
    largest = 0.0
    for x in [*rng.uniform(0, 2.4, 200), *(10 ** rng.uniform(-5, 0, 200))]:
        neighbour = float_below(lowest_neighbour(constants, x))
        moved = table.integral(x) - table.integral(neighbour)
        assert moved <= 1.0 + 2 * table.integral_error
        largest = max(largest, moved)
        t = table.integral(x) * rng.random()
        below = table.integral_inverse(t)
        assert table.integral(below) <= t
        assert table.integral(below * (1 + 1e-9)) >= t * (1 - 1e-9) or t == 0.0
    assert largest >= 0.99


def test_r13_the_integral_counts():
    """Between the count and the integral lie a few steps, whatever the number of records."""
    for n in (10**4, 10**6):
        table = RecursionTable(*linear(n), LARGEST)
        assert 0 <= table.count(0.1288) - table.integral(0.1288) <= 4


def test_ten_million_steps_are_skipped():
    table = RecursionTable(*linear(1_055_000_000), LARGEST)
    assert table.integral(0.1288) > 1e7
    assert table.integral_error < 0.01
    t = table.integral(0.1288) - 30.0
    assert table.integral(table.integral_inverse(t)) == pytest.approx(t, abs=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        (2, 0.1, 0.4, 0.01, 0.0, 0.3, 1.0),
        (0, 0.1, 0.4, 0.0, 0.0, 0.3, 1.0),
        (0, math.nan, 0.4, 0.01, 0.0, 0.3, 1.0),
        (0, 0.1, 0.4, 0.01, 0.0, 0.05, 1.0),  # a above the threshold
        (0, 0.1, 0.4, 0.01, 0.0, 0.3, 1.0, 0.1),  # an error as large as the nodes' distance
        (0, 0.1, 0.4, 0.01, 0.0, 0.3, 1.0, 0.0, 1.0),
    ],
)
def test_constants_that_certify_nothing_are_refused(arguments):
    with pytest.raises(InvalidInput):
        RecursionTable(*arguments)
