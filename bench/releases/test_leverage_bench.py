"""The largest leverage over the corners of a domain, against a product of every corner with H^-1.

Target: milliseconds for a box in 20 dimensions and for products of one-hot blocks.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench.harness import compare, is_quick
from dpfast.models import Box, Interval, OneHot, Product

#: Levels of the thirteen categories of a survey, beside two numbers and an intercept.
LEVELS = (2, 2, 2, 2, 4, 13, 6, 5, 2, 2, 2, 2, 2)
SURVEY = [
    *(OneHot(levels - 1, reference=True) for levels in LEVELS[: 7 if is_quick() else None]),
    *(Interval(-1.0, 1.0) for _ in range(2)),
]
DOMAINS = {
    "box, 20 covariates": Box(1.0, n_covariates=12 if is_quick() else 20),
    "one-hot blocks of a survey": Product(SURVEY, intercept=True),
}


def plain(domain: Box | Product, M: np.ndarray) -> float:
    """Every corner times M, a slice of corners at a time."""
    if isinstance(domain, Box):
        points = [np.array([[-1.0], [1.0]])] * len(M)
    else:
        points = [np.ones((1, 1)), *(part.points for part in domain.parts)]
    best = 0.0
    cut = len(points) // 2
    rest = np.array([np.concatenate(v) for v in itertools.product(*points[cut:])])
    for head in itertools.product(*points[:cut]):
        rows = np.hstack([np.tile(np.concatenate(head), (len(rest), 1)), rest])
        best = max(best, float(np.einsum("ij,ij->i", rows @ M, rows).max()))
    return best


@pytest.mark.parametrize("name", DOMAINS)
def test_largest_leverage(benchmark, name):
    domain = DOMAINS[name]
    d = domain.dimension
    A = np.random.default_rng(0).normal(size=(d + 3, d))
    M = A.T @ A
    corners = 2**d if isinstance(domain, Box) else np.prod([len(p.points) for p in SURVEY])
    exact = plain(domain, M)
    compare(
        benchmark,
        lambda: domain.monotone_bound(M),
        case=f"largest leverage, {name}",
        n=int(corners),
        p=d,
        reference=lambda: plain(domain, M),
        rounds=5,
        limit="milliseconds",
        accuracy=abs(domain.monotone_bound(M) / exact - 1.0),
    )
