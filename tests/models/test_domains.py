"""Domains: projections, supports and quadratic maxima against brute force."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

from dpfast.errors import InvalidInput
from dpfast.models import Ball, Box, Interval, LpBall, OneHot, Product
from dpfast.models.quadratics import diagonal_bound
from tests.loops import each

SURVEY = [Interval(-1.0, 2.0), OneHot(3), OneHot(2, reference=True), Interval(0.0, 0.5)]
DOMAINS = [
    Ball(1.5),
    Ball(1.5, intercept=True),
    Box(0.7, n_covariates=7),
    Box(np.arange(7) - 6.5, np.arange(7) + 0.5, intercept=True),
    LpBall(1.0, 2.0, n_covariates=7),
    LpBall(1.0, 2.0, n_covariates=7, intercept=True),
    LpBall(1.5, 2.0, n_covariates=7, intercept=True),
    LpBall(2.0, 2.0, n_covariates=7),
    LpBall(4.0, 2.0, n_covariates=7),
    LpBall(math.inf, 2.0, n_covariates=7, intercept=True),
    Product(SURVEY),
    Product(SURVEY, intercept=True),
]
each_domain = pytest.mark.parametrize("domain", DOMAINS, ids=repr)


def full(domain, rows):
    return np.column_stack([np.ones(len(rows)), rows]) if domain.intercept else rows


def sample(domain, rng, size=4000, q=7):
    """Rows of the domain, most of them on its boundary."""
    rows = rng.normal(size=(size, q)) * 10 ** rng.uniform(-2, 3, size=(size, 1))
    sparse = rng.random((size, q)) < rng.random((size, 1))
    return full(domain, domain.project(np.where(sparse, rows, 0.0)))


def positive(d, rng):
    A = rng.normal(size=(d + 2, d)) * 10 ** rng.uniform(-1, 1, d)
    return A.T @ A


@each_domain
def test_rows_end_up_in_the_domain_and_rows_of_it_stay(domain):
    rng = np.random.default_rng(0)
    x = sample(domain, rng)
    assert np.linalg.norm(x, axis=1).max() <= domain.radius * (1 + 1e-12)
    rows = x[:, 1:] if domain.intercept else x
    np.testing.assert_allclose(domain.project(rows), rows, rtol=1e-13, atol=0)
    bound = domain.bind(7)
    assert bound == bound.bind(7)
    with pytest.raises(InvalidInput, match="columns"):
        (bound if bound.n_covariates else Box(1.0, n_covariates=7)).bind(6)


@each_domain
def test_support_is_the_supremum(domain):
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = rng.normal(size=7 + domain.intercept) * 10 ** rng.uniform(-3, 1, 7 + domain.intercept)
        seen = np.abs(sample(domain, rng, 2000) @ p).max()
        claimed = domain.support(p)
        assert seen <= claimed
        for sign in (-1.0, 1.0):  # far along the direction: attained where projection is onto it
            far = domain.project((sign * 1e6 * p[int(domain.intercept) :])[None, :])
            seen = max(seen, abs(float((full(domain, far) @ p)[0])))
        if isinstance(domain, Ball | Box | Product) or domain in DOMAINS[7:10:2]:
            assert seen >= 0.999 * claimed
    if isinstance(domain, LpBall) and domain.p == 4.0:
        x = np.sign(p) * np.abs(p) ** (1 / 3)
        x *= 2.0 / np.sum(x**4) ** 0.25
        assert float(p @ x) == pytest.approx(domain.support(p), rel=1e-12)


@each_domain
@pytest.mark.one_in(2)
def test_quadratic_bound_is_never_below_and_exact_where_it_says_so(domain):
    rng = np.random.default_rng(2)
    for _ in range(10):
        M = positive(7 + domain.intercept, rng)
        x = sample(domain, rng, 20000)
        seen = float(np.einsum("ij,ij->i", x @ M, x).max())
        for _ in range(100):  # x <- argmax of the linearisation: ascends for a convex function
            p = x[np.einsum("ij,ij->i", x @ M, x).argmax()] @ M
            step = domain.project((1e9 * p[int(domain.intercept) :])[None, :])
            x = np.vstack([x[:1], full(domain, step)])
            seen = max(seen, float(np.einsum("ij,ij->i", x @ M, x).max()))
        claimed, exact = domain.quadratic_bound(M), domain.quadratic_maximum(M)
        assert seen <= claimed
        assert exact is None or claimed <= exact
        if exact is not None and not (isinstance(domain, LpBall) and domain.p == 1.0):
            assert seen >= 0.98 * exact
        assert claimed <= domain.bind(7).radius ** 2 * np.linalg.eigvalsh(M)[-1] * 10


def test_vertices_are_enumerated_exactly():
    rng = np.random.default_rng(3)
    domain = Product(SURVEY, intercept=True)
    M = positive(8, rng)
    parts = [[(-1.0,), (2.0,)], [(1, 0, 0), (0, 1, 0), (0, 0, 1)], [(1, 0), (0, 1), (0, 0)],
             [(0.0,), (0.5,)]]  # fmt: skip
    vertices = np.array([[1.0, *sum(map(tuple, v), ())] for v in itertools.product(*parts)])
    best = np.einsum("ij,ij->i", vertices @ M, vertices).max()
    assert best <= domain.quadratic_maximum(M) <= best * (1 + 1e-12)


@pytest.mark.parametrize("d", [4, 9, 14])
def test_the_diagonal_bound_is_close_on_boxes(d):
    rng = np.random.default_rng(d)
    for _ in range(3):
        M = np.linalg.inv(positive(d, rng) + 0.1 * np.eye(d))
        exact = Box(1.0, n_covariates=d).quadratic_maximum(M)
        found = diagonal_bound(M, [np.array([[-1.0], [1.0]])] * d, False)
        assert exact <= found <= 1.1 * exact
    wide = Box(1.0, n_covariates=40)
    assert wide.quadratic_maximum(np.eye(40)) is None
    assert 40.0 <= wide.quadratic_bound(np.eye(40)) <= 40.0 * (1 + 1e-9)


HOSTILE = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([1e308, -1e308, 5e-324, 0.0])
)


@given(arrays(np.float64, (3, 7), elements=HOSTILE))
@each_domain
@pytest.mark.one_in(3)
def test_no_value_raises_warns_or_escapes(domain, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        projected = domain.project(rows)
    finite = np.isfinite(rows).all(axis=1)
    assert np.isnan(projected[~finite]).all()
    assert np.isfinite(projected[finite]).all()
    x = full(domain, projected[finite])
    if len(x):
        assert np.linalg.norm(x, axis=1).max() <= domain.radius * (1 + 1e-12)


def test_categories():
    block = np.array([[0.2, 0.9, 0.9], [0.1, 0.2, 0.3], [-5.0, -7.0, -6.0]])
    assert OneHot(3).project(block).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    coded = OneHot(3, reference=True).project(block)
    assert coded.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


@each(
    "make",
    [
        lambda: Ball(1.0, intercept=True),
        lambda: Box(0.0),
        lambda: Box([1.0, 2.0], [0.0, 3.0]),
        lambda: LpBall(0.5, 1.0),
        lambda: Interval(1.0, 1.0),
        lambda: OneHot(0),
        lambda: Product([]),
        lambda: Box(1.0).radius,
        lambda: Box(1.0, n_covariates=2).support([1.0, 2.0, 3.0]),
        lambda: Box(1.0, n_covariates=2).quadratic_bound(np.eye(3)),
    ],
)
def test_what_is_wrong_is_said(make):
    with pytest.raises(InvalidInput):
        make()


@each_domain
@pytest.mark.one_in(2)
def test_the_gauge_bounds_what_the_domain_does_not_see(domain):
    """R14: p'Mp <= gauge(p)^2 sup x'Mx, and no smaller t writes p as t times a mean of rows."""
    rng = np.random.default_rng(4)
    d = 7 + domain.intercept
    seen = 0.0
    for k in range(20):
        p = np.eye(d)[k] if k < d else rng.normal(size=d)
        if isinstance(domain, Product):  # the only directions it spans: differences of rows
            x = sample(domain, rng, 2)
            p = (x[0] - x[1]) * 2.0 if k % 2 else x[0] * 2.0 + 0.5 * x[1]
            if not np.abs(p).any():
                continue
        t = domain.gauge(p)
        assert math.isfinite(t)
        if isinstance(domain, Product) and k % 2 == 0:
            assert t <= 2.5 * (1 + 1e-8)
        M = positive(d, rng)
        assert float(p @ M @ p) <= t**2 * domain.quadratic_bound(M) * (1 + 1e-12)
        direction = rng.normal(size=d)
        # polar: |u'p| <= gauge(p) sup |u'x|, attained for some u
        assert abs(float(direction @ p)) <= t * domain.support(direction) * (1 + 1e-12)
        best = 0.0
        for _ in range(150):
            other = direction + rng.normal(size=d) * rng.choice([0.03, 0.3, 1.0])
            value = abs(float(other @ p)) / domain.support(other)
            if value > best:
                best, direction = value, other
        seen = max(seen, best / t)
    assert seen > 0.8  # a random search


SEEN = [
    *DOMAINS[:-2],
    Box(0.3, n_covariates=7),
    Product([Interval(-1.0, 2.0), OneHot(5, reference=True), Interval(0.0, 0.5)]),
    Product([Interval(-1.0, 2.0), OneHot(5, reference=True), Interval(0, 0.5)], intercept=True),
    Product([OneHot(6), Interval(-0.5, 0.5)]),
    Product([OneHot(7)]),
]


@pytest.mark.parametrize("domain", SEEN, ids=repr)
@pytest.mark.one_in(6)
def test_the_inner_radius_is_seen_in_every_direction(domain):
    """R29: no direction is seen less, by descent from many starts; attained where it is simple."""
    domain, rng = domain.bind(7), np.random.default_rng(8)
    d, g = 7 + domain.intercept, domain.inner_radius
    assert 0.0 < g <= domain.radius

    def seen(p):
        return domain.support(p) / float(np.linalg.norm(p))

    least = math.inf
    starts = [*np.eye(d), *(np.eye(d)[j] - np.eye(d)[k] for j in range(d) for k in range(j)),
              np.ones(d), *rng.normal(size=(10, d))]  # fmt: skip
    for start in starts:
        p, best = start, seen(start)
        for step in np.repeat([0.5, 0.1, 0.02], 60):
            other = p + step * float(np.linalg.norm(p)) * rng.normal(size=d) * (rng.random(d) < 0.5)
            if other.any() and seen(other) < best:
                p, best = other, seen(other)
        least = min(least, best)
    assert least >= g
    simple = not isinstance(domain, Product) and domain != DOMAINS[3].bind(7)
    assert least <= (1.05 if simple else 3.0 + 20.0 * (domain == DOMAINS[3])) * g


def test_what_no_row_sees_has_no_inner_radius():
    assert Product([OneHot(3), OneHot(2)]).inner_radius == 0.0
    assert Product([OneHot(3), Interval(0.0, 1.0)], intercept=True).inner_radius == 0.0
    with pytest.raises(InvalidInput, match="inner radius"):
        _ = Box(1.0).inner_radius


@pytest.mark.parametrize("domain", [DOMAINS[3], *DOMAINS[-2:]], ids=repr)
def test_the_gauge_is_the_least_over_all_vertices(domain):
    """By linear programming: the least sum of absolute weights of vertices that gives p."""
    rng = np.random.default_rng(6)
    parts = domain.parts if isinstance(domain, Product) else None
    points = [part.points for part in parts] if parts else [
        np.array([[low], [low + 7.0]]) for low in np.arange(7) - 6.5
    ]  # fmt: skip
    rows = np.array([np.concatenate(v) for v in itertools.product(*points)])
    V = full(domain, rows)
    for _ in range(4):
        p = V[rng.integers(len(V))] * 3.0 - V[rng.integers(len(V))] + V[0] * 0.5
        found = linprog(np.ones(2 * len(V)), A_eq=np.hstack([V.T, -V.T]), b_eq=p)
        assert domain.gauge(p) == pytest.approx(found.fun, rel=1e-6)


def test_a_direction_the_domain_does_not_span_has_no_gauge():
    domain = Product([OneHot(3), OneHot(2)])
    assert domain.gauge([1.0, 0.0, 0.0, 0.0, 0.0]) == math.inf  # one block alone
    assert domain.gauge([1.0, -1.0, 0.0, 0.0, 0.0]) == pytest.approx(2.0)
    with_intercept = Product([Interval(0.0, 1.0), OneHot(2, reference=True)], intercept=True)
    assert with_intercept.gauge([0.0, 1.0, 0.0, 0.0]) == pytest.approx(2.0)
    assert with_intercept.gauge([0.0, 0.0, 1.0, 0.0]) == pytest.approx(2.0)


def test_structured_domains_see_far_less_than_their_ball():
    """Survey data: sup x'H^-1 x against radius^2 over the smallest eigenvalue."""
    rng = np.random.default_rng(5)
    domain = Product(
        [OneHot(4, reference=True), OneHot(5, reference=True), Interval(-1.0, 1.0)], intercept=True
    )
    levels = rng.choice(5, size=4000, p=[0.5, 0.2, 0.15, 0.1, 0.05])
    X = np.column_stack([
        domain.parts[0].points[rng.integers(0, 5, 4000)],
        domain.parts[1].points[np.r_[levels, levels][:4000]],
        rng.uniform(-1, 1, 4000),
    ])  # fmt: skip
    x = full(domain, X)
    H = x.T @ x / 4000
    ball = domain.radius**2 / np.linalg.eigvalsh(H)[0]
    assert domain.quadratic_maximum(np.linalg.inv(H)) < 0.6 * ball
