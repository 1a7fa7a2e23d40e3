"""Contrasts, joint tests, ellipses and prediction intervals against their definitions."""

import numpy as np
import pytest
from scipy.stats import f, t

import dpfast
from tests.loops import each


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = 0.3 + X @ [1.0, 0.0, -0.5] + rng.normal(size=3000)
    noise = dpfast.SeededNoise(0)
    return dpfast.fit(
        dpfast.records(X, y, names=list("abc")),
        None,
        dpfast.Objective("log-cosh", scale=1.0),
        privacy=1.0,
        noise=noise,
    )


def test_contrast_of_one_coefficient_is_its_row_of_the_table(fit):
    contrast = fit.t_test(np.eye(4))
    np.testing.assert_allclose(contrast.estimate, fit.params)
    np.testing.assert_allclose(contrast.bse, fit.bse)
    np.testing.assert_allclose(contrast.pvalues, fit.pvalues)
    shifted = fit.t_test([0, 1, 0, 1], value=0.5)
    expected = np.sqrt(np.array([0, 1, 0, 1]) @ fit.cov_params() @ np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(shifted.bse, expected)
    np.testing.assert_allclose(shifted.zvalues, (fit.params[1] + fit.params[3] - 0.5) / expected)


def test_wald_test(fit):
    single = fit.wald_test([0, 1, 0, 0])
    assert single.df == 1
    assert single.statistic == pytest.approx(fit.zvalues[1] ** 2)
    assert single.pvalue == pytest.approx(fit.pvalues[1], rel=1e-9)
    joint = fit.wald_test(np.eye(4)[1:], value=[1.0, 0.0, -0.5])
    difference = fit.params[1:] - [1.0, 0.0, -0.5]
    expected = difference @ np.linalg.solve(fit.cov_params()[1:, 1:], difference)
    assert joint.statistic == pytest.approx(expected)
    known = fit.degrees_of_freedom[1:].min()
    assert joint.pvalue == pytest.approx(f.sf(expected / 3, 3, known))


@pytest.mark.parametrize("bad", [np.eye(3), [[1, 0, 0, 0], [2, 0, 0, 0]], [np.nan, 0, 0, 0]])
def test_bad_restrictions(fit, bad):
    with pytest.raises(dpfast.InvalidInput):
        fit.wald_test(bad)


def test_ellipse_is_the_level_set_of_the_wald_statistic(fit):
    points = fit.confidence_ellipse("a", 3, level=0.9)
    centre = fit.params[[1, 3]]
    precision = np.linalg.inv(fit.cov_params()[np.ix_([1, 3], [1, 3])])
    distance = np.einsum("ij,jk,ik->i", points - centre, precision, points - centre)
    known = fit.degrees_of_freedom[[1, 3]].min()
    np.testing.assert_allclose(distance, 2 * f.ppf(0.9, 2, known))
    with pytest.raises(dpfast.InvalidInput, match="a coefficient is one of"):
        fit.confidence_ellipse("z", 0)


def test_prediction_interval(fit):
    rows = np.random.default_rng(1).normal(size=(5, 3))
    interval = fit.predict_interval(rows, 0.8)
    A = np.column_stack([np.ones(5), rows])
    half = t.ppf(0.9, fit._degrees(A)) * np.sqrt(np.diag(A @ fit.cov_params() @ A.T))
    np.testing.assert_allclose(interval.mean(axis=1), fit.predict(rows))
    np.testing.assert_allclose((interval[:, 1] - interval[:, 0]) / 2, half)


def intervals(fit):
    """Every method of a result that takes a level."""
    rows = np.zeros((2, 3))
    return [
        fit.conf_int,
        lambda *level, **alpha: fit.predict_interval(rows, *level, **alpha),
        lambda *level, **alpha: fit.confidence_ellipse(1, 2, *level, **alpha),
    ]


def release():
    X = np.random.default_rng(0).normal(size=(4000, 2)).clip(-1, 1)
    return dpfast.release_functional(
        X, X[:, 0], dpfast.Objective("log-cosh", scale=1.0, ridge=0.5), "x1",
        domain=dpfast.models.Box(1.0), inference=0.3, privacy=dpfast.ApproxDP(5.0, 1e-6),
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip


@each("number", range(5))
def test_levels_and_error_probabilities_cannot_be_mixed_up(fit, number):
    """A bare .05 is refused, never read as a 5% interval; alpha goes by its name."""
    if number < 3:
        interval = intervals(fit)[number]
    else:
        found = release()
        interval = [found.conf_int, found.noise_interval][number - 3]
    np.testing.assert_array_equal(interval(alpha=0.1), interval(0.9))
    np.testing.assert_array_equal(interval(alpha=0.05), interval())
    np.testing.assert_array_equal(interval(level=0.95), interval())
    assert np.ptp(interval(0.5)) < np.ptp(interval(0.95)) < np.ptp(interval(alpha=0.001))
    for level in (0.05, 0.49, 0.0, 1.0, 95, -1, np.nan):
        with pytest.raises(dpfast.InvalidInput, match=r"such as level=0\.95.*alpha=0\.05"):
            interval(level)
    for alpha in (0.95, 0.51, 0.0, 1.0, 5, -1, 1e-17, np.nan):
        with pytest.raises(dpfast.InvalidInput, match=r"such as alpha=0\.05.*level=0\.95"):
            interval(alpha=alpha)
    with pytest.raises(dpfast.InvalidInput, match="Pass one of them"):
        interval(0.9, alpha=0.05)


def test_a_forecast_and_a_plot_take_levels_only(fit):
    with pytest.raises(dpfast.InvalidInput, match=r"such as level=0\.95"):
        dpfast.plan(n=1000, p=2, privacy=1.0, level=0.05)
    pytest.importorskip("matplotlib")
    from dpfast.plots import coefficient_plot

    with pytest.raises(dpfast.InvalidInput, match=r"such as level=0\.95"):
        coefficient_plot(fit, level=0.05)
