"""Quantiles of Laplace noise with a normal error: against simulation and both limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpfast.privacy.release.scaled import law_quantile
from dpfast.release.sum_of_errors import sum_quantiles

RNG = np.random.default_rng(9)
LAPLACE, NORMAL = RNG.laplace(size=1_000_000), RNG.normal(size=1_000_000)


@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 3.0, 40.0])
@pytest.mark.parametrize("tail", [0.5, 0.1, 0.05, 0.01])
def test_the_tail_is_that_of_the_sum(scale, tail):
    """A million seeded draws: within six standard deviations of their share, 1e-8 a case."""
    level = sum_quantiles("laplace", np.array([scale]), np.array([1.0]), tail)[0]
    share = float(np.mean(np.abs(scale * LAPLACE + NORMAL) > level))
    assert abs(share - tail) < 6.0 * math.sqrt(tail * (1.0 - tail) / 1e6)


def test_levels_grow_with_the_scale_and_have_their_limits():
    scales = np.append(0.0, np.geomspace(1e-9, 1e9, 200))
    for tail in (0.5, 0.05, 1e-6):
        levels = sum_quantiles("laplace", scales, np.ones(201), tail)
        assert (np.diff(levels) >= -1e-9 * levels[1:]).all()
        assert levels[0] == law_quantile("gaussian", tail)
        assert levels[-1] == pytest.approx(1e9 * law_quantile("laplace", tail), rel=1e-6)
    exact = sum_quantiles("gaussian", np.array([3.0]), np.array([4.0]), 0.05)
    assert exact[0] == pytest.approx(5.0 * 1.959964, rel=1e-6)


def test_what_is_unknown_has_no_bounded_level():
    levels = sum_quantiles(
        "laplace",
        np.array([math.inf, 1.0, math.nan, 0.0]),
        np.array([1.0, math.inf, 1.0, 0.0]),
        0.1,
    )
    assert levels.tolist() == [math.inf, math.inf, math.inf, 0.0]
    assert math.isinf(sum_quantiles("gaussian", np.array([1.0]), np.array([math.inf]), 0.1)[0])


def test_intervals_are_shorter_than_divided_tails():
    """The union bound with the best division is 10% longer where both errors are alike."""
    best = min(
        law_quantile("laplace", (1.0 - f) * 0.05) + 2**0.5 * law_quantile("gaussian", f * 0.05)
        for f in np.linspace(0.05, 0.95, 19)
    )
    level = sum_quantiles("laplace", np.array([1.0]), np.array([2**0.5]), 0.05)[0]
    assert 1.1 * level < best
