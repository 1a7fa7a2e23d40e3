"""Domains: projections and supports against brute force."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from dpfast.errors import InvalidInput
from dpfast.models import Ball, Box, Interval, LpBall, OneHot, Product
from tests.loops import each

SURVEY = [Interval(-1.0, 2.0), OneHot(3), OneHot(2, reference=True), Interval(0.0, 0.5)]
DOMAINS = [
    Ball(1.5),
    Ball(1.5, intercept=True),
    Box(0.7, n_covariates=7),
    Box(np.arange(7) - 6.5, np.arange(7) + 0.5, intercept=True),
    LpBall(1.0, 2.0, n_covariates=7),
    LpBall(1.5, 2.0, n_covariates=7, intercept=True),
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
        if isinstance(domain, LpBall) and domain.p < math.inf:  # scaled, not projected
            dual = domain.p / (domain.p - 1.0) if domain.p > 1.0 else math.inf
            free = p[int(domain.intercept) :]
            best = np.abs(free) == np.abs(free).max()
            x = np.abs(free) ** (dual - 1.0) if domain.p > 1.0 else 1.0 * best
            x *= np.sign(free) * domain.lp_radius / float(np.sum(x**domain.p)) ** (1.0 / domain.p)
            fixed = abs(float(p[0])) if domain.intercept else 0.0
            seen = max(seen, fixed + float(free @ x))
            assert seen <= claimed * (1.0 + 1e-12)
        assert seen >= 0.999 * claimed


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
        lambda: Interval(1.0, 1.0),
        lambda: OneHot(0),
        lambda: Product([]),
        lambda: LpBall(0.5, 1.0),
        lambda: LpBall(4.0, 1.0).radius,
        lambda: Box(1.0).radius,
        lambda: Box(1.0, n_covariates=2).support([1.0, 2.0, 3.0]),
    ],
)
def test_what_is_wrong_is_said(make):
    with pytest.raises(InvalidInput):
        make()


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
