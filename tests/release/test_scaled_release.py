"""Claim R22: noise whose scale is a secret.

Statistical tests here fail by chance with probability below 1e-6 each.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast.privacy.noise import EntropyNoise, NoiseSource, SeededNoise
from dpfast.privacy.release import scaled as module
from dpfast.privacy.release.scaled import (
    LAWS,
    grid_delta,
    law_quantile,
    law_scale,
    release_scaled,
    scale_grid,
)

EXACT = {"laplace": stats.laplace(), "gaussian": stats.norm()}


@pytest.mark.parametrize("source", [EntropyNoise(), SeededNoise(4)], ids=repr)
def test_the_law_of_the_noise(source):
    """Kolmogorov-Smirnov with 4,000 draws; power 0.99 against a scale that is off by 12%."""
    found = [release_scaled((3, 1), 0.5, 2.0, source) for _ in range(4000)]
    assert stats.kstest((np.array(found) - 3.0) / 0.5, "norm").pvalue > 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_quantiles_and_scales(law):
    for tail in (0.5, 0.05, 1e-6):
        assert law_quantile(law, tail) == pytest.approx(EXACT[law].isf(tail / 2.0), rel=1e-9)
    assert law_scale(law) == pytest.approx(EXACT[law].std())
    with pytest.raises(dpfast.InvalidInput, match="tail"):
        law_quantile(law, 0.0)


def test_the_digits_below_the_exact_ones_are_uniform():
    """Chi-squared over 64 cells of 40 bits; 6,400 draws."""
    source = EntropyNoise()
    below = np.array([module._normal(source) & ((1 << 40) - 1) for _ in range(6400)])
    assert stats.chisquare(np.bincount(below >> 34, minlength=64)).pvalue > 1e-6
    assert stats.chisquare(np.bincount(below & 63, minlength=64)).pvalue > 1e-6


def test_the_grid_depends_on_the_bound_alone():
    source = EntropyNoise()
    grid = scale_grid(0.37)
    assert 2.0**-18 * 0.37 <= grid <= 2.0**-16 * 0.37
    assert math.frexp(grid)[0] == 0.5
    for scale in (0.37, 1e-3, 1e-9, 0.0, math.nan, math.inf, -1.0):
        for value in ((1, 1), (1, 3), (-(10**6), 1), (10**300, 7)):
            found = release_scaled(value, scale, 0.37, source)
            assert found / grid == round(found / grid)


class Fixed(NoiseSource):
    """Digits that are given."""

    def __init__(self, high):
        self.high = high

    def normals(self, size, bits):
        return np.full(size, (1 << bits) * self.high, dtype=np.int64)

    def discrete_laplace(self, size, numerator, denominator):
        raise NotImplementedError


def test_the_sum_is_exact():
    """The integer released is the floor of an exact rational, whatever floats would do."""
    value, scale = Fraction(1, 3) * 10**9, 0.1
    found = release_scaled(value.as_integer_ratio(), scale, 1.0, Fixed(2))
    grid = Fraction(scale_grid(1.0))
    exact = (value + Fraction(scale) * 2) / grid
    assert found == float(exact.numerator // exact.denominator) * float(grid)


def test_what_the_digits_cost():
    assert grid_delta(1.0) >= (1.0 + math.e) * 2.0**-40
    assert grid_delta(1.0, 3) == pytest.approx(3.0 * grid_delta(1.0))
    with pytest.raises(dpfast.errors.InvalidBudget, match="epsilon"):
        grid_delta(40.0)
    with pytest.raises(dpfast.InvalidInput, match="Rescale"):
        scale_grid(0.0)
