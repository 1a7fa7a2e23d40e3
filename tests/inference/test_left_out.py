"""A column of which no spread is seen is left out by name, and the others are as without it."""

import numpy as np
import pytest

import dpfast

RNG = np.random.default_rng(0)
N = 5000
Z = RNG.normal(size=(N, 2))
X = np.column_stack([Z[:, 0], np.full(N, 3.0), Z[:, 1]])
Y = Z @ [1.0, 0.5] + RNG.normal(size=N)
REST = [0, 1, 3]


@pytest.fixture(scope="module")
def fits():
    noise = [dpfast.SeededNoise(seed) for seed in (1, 1)]
    loss = "least-squares"
    return [dpfast.fit(X, Y, loss, privacy=1.0, noise=noise[0]),
            dpfast.fit(Z, Y, loss, privacy=1.0, noise=noise[1])]  # fmt: skip


def test_the_others_have_the_intervals_of_a_model_without_it(fits):
    """Their degrees of freedom were 2, and intervals 2.2 times as wide."""
    left, alone = fits
    assert np.isnan(left.bse[2]) and (left.degrees_of_freedom[REST] > 100.0).all()
    ratios = np.ptp(left.conf_int()[REST], axis=1) / np.ptp(alone.conf_int(), axis=1)
    assert (ratios > 0.8).all() and (ratios < 1.25).all()


def test_it_is_named_once_and_nothing_is_said_of_nan(fits):
    (said,) = fits[0].warnings
    assert "'x2'" in said and "nan" not in said
    text = str(fits[0].summary()) + fits[0].methods_text("paper")
    assert "those of a normal distribution" in text and "inf " not in text


def test_tests_of_the_others_are_tests_and_of_it_are_not(fits):
    left = fits[0]
    assert left.t_test([0, 1, 0, -2]).bse[0] > 0.0 and np.isnan(left.t_test([0, 0, 1, 0]).bse[0])
    both = left.wald_test([[0, 1, 0, 0], [0, 0, 0, 1]])
    assert both.statistic > 1000.0 and both.pvalue < 1e-6
    lost = left.wald_test([[0, 1, 0, 0], [0, 0, 1, 0]])
    assert np.isnan(lost.statistic) and np.isnan(lost.pvalue)  # 0 and 1, as if all were zero
    assert np.isfinite(left.ratios([0, 1, 0, 0]).interval).all()


def test_the_only_column_may_be_left_out():
    fit = dpfast.fit(X[:, 1:2], Y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert np.isnan(fit.bse[1]) and fit.degrees_of_freedom[0] > 100.0
    assert str(fit.summary()) and fit.methods_text("paper")
