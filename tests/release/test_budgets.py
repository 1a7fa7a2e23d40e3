"""More budget, or more records, never has more noise: laws, counts of numbers, capped or not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpfast.curator.release.terms import Terms, functional_noises
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import functional_factors, hessian_ratio

EPSILONS = (0.25, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 8.0)  # counts are capped up to 2.77 (claim R36)
SLOW = [pytest.param(k, marks=pytest.mark.slow) for k in (5, 10)]


def noise(terms: Terms, steps: float) -> float:
    """Deviation over what one record can do, where the noise of the count is at its median."""
    l0 = steps - terms.tail() / COUNT
    least = math.inf
    if l0 > 0.0:
        v = hessian_ratio(1.0, l0)
        for choice in functional_noises(terms):
            if (factors := functional_factors(v, choice.tau, 1e-9)) is not None:
                least = min(least, choice.deviation * (factors.A + factors.Bc))
    return least


@pytest.mark.parametrize("count", [1, *SLOW])
@pytest.mark.parametrize("law", ["auto", "laplace", "student"])
def test_more_budget_or_more_records_never_has_more_noise(law, count):
    """Over 40 sizes from where nothing certifies to 30,000 steps; records are in proportion."""
    grid = np.geomspace(4.0, 30_000.0, 40)
    table = np.array(
        [
            [
                noise(Terms("functional", e, 1e-6, 0.25 * e, 5e-7, law, count), steps) / steps
                for steps in grid
            ]
            for e in EPSILONS
        ]
    )
    assert np.isfinite(table[:, -1]).all() and np.isinf(table[:, 0]).all()
    up = 1.0 + 2e-4  # several numbers are calibrated up to 1e-4
    for less, more in itertools.pairwise(table):
        assert (more <= less * up).all()
    for fewer, records in itertools.pairwise(table.T):
        assert (records <= fewer * up).all()
