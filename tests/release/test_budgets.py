"""More budget, or more records, never has more noise after a certificate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpfast.curator.release.terms import Terms
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import hessian_ratio, proportional_factors

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def noise(terms: Terms, steps: float) -> float:
    """Noise over what one record can do, where that of the count is at its median."""
    l0 = steps - terms.tail() / COUNT
    found = proportional_factors(hessian_ratio(1.0, l0), 5.0, 1e-9) if l0 > 0.0 else None
    return math.inf if found is None else terms.multiplier(found.tau) * found.factor


@pytest.mark.parametrize("count", [1, 5])
def test_more_budget_or_more_records_never_has_more_noise(count):
    """Over 40 sizes from where nothing certifies to 300,000 steps; records are in proportion."""
    grid = np.geomspace(4.0, 300_000.0, 40)
    budgets = [Terms("functional", e, 1e-6, 0.25 * e, 5e-7, count) for e in EPSILONS]
    table = np.array([[noise(terms, steps) / steps for steps in grid] for terms in budgets])
    assert np.isfinite(table[:, -1]).all() and np.isinf(table[:, 0]).all()
    up = 1.0 + 1e-6
    for less, more in itertools.pairwise(table):
        assert (more <= less * up).all()
    for fewer, records in itertools.pairwise(table.T):
        assert (records <= fewer * up).all()
