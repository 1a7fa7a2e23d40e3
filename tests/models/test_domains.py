"""Domains: projections, supports and quadratic maxima against brute force."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from dpfast.errors import InvalidInput
from dpfast.models import Ball, Box, Interval, LpBall, OneHot, Product
from dpfast.models.quadratics import diagonal_bound

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


@pytest.mark.parametrize(
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
