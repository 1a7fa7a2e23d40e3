"""A column of which no spread is seen is left out by name, and the others are as without it."""

import numpy as np
import pytest

import dpfast
from tests.stops import stopped

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
    assert "x2 looks constant at this budget; dropped" in said and "nan" not in said
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


def _of_each_door(x, y):
    """Results of one covariate and a response by every function that gives intervals."""
    n, rng = len(y), np.random.default_rng(1)
    table = {"x": x, "y": y, "z": x, "g": rng.integers(0, 2, n)}
    table |= {"event": rng.integers(0, 2, n), "arm": rng.integers(0, 2, n)}
    by = {"schema": dpfast.Schema({"g": dpfast.Categorical([0, 1])})}
    paid = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    tables, effects = dpfast.tables, dpfast.effects
    labels = np.where(np.isnan(y), np.nan, y > 1.0)
    for loss in ("least-squares", "log-cosh", "logistic", "poisson", "gamma"):
        yield loss, dpfast.fit(x[:, None], labels if loss == "logistic" else y, loss, **paid)
    plain = dpfast.Objective("log-cosh", weights=dpfast.Mallows(3.0))
    yield "weights", dpfast.fit(x[:, None], y, plain, standardize=True, **paid)
    yield "quantiles", dpfast.fit_quantiles(x[:, None], y, [0.5], **paid).fits[0]
    yield "two_stage", effects.two_stage("y ~ x | z", table, **paid)
    yield "cox", effects.cox("y ~ x", table, event="event", cuts=[1.0, 2.0], **paid)
    yield "absorbed", tables.absorbed("y ~ x | g", table, **by, **paid)
    by_level = tables.fits("y ~ x", table, "g", **by, **paid)
    yield "fits", by_level if by_level.stopped else by_level.fits[0]


def _says(found, words):
    return any(words in said for said in found.warnings)


@pytest.mark.parametrize("unit", [1e300, 1e160, 1e-160])
def test_a_variance_that_no_float_holds_is_no_interval_and_is_named(unit):
    """Widths were 0 or infinite, without a word; estimates are those of other units."""
    for door, found in _of_each_door(unit * Z[:, 0], np.abs(Y)):
        with np.errstate(over="ignore"):  # of 1e-160
            at = 1 if door == "weights" else -1  # its last is the scale
            assert np.isnan(found.bse[at]) and np.isnan(found.conf_int()[at]).all(), door
        assert _says(found, "beyond what float64 holds"), door
        if door not in ("cox", "absorbed", "weights"):
            assert np.isfinite(found.conf_int()[0]).all(), door
    fit = dpfast.fit(unit * Z, Y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert np.allclose(fit.params[1:] * unit, [1.0, 0.5], atol=0.2)
    assert np.isnan(fit.t_test([0, 1, 0]).bse) and np.isfinite(fit.conf_int()[0]).all()


@pytest.mark.parametrize("unit", [1e300, 1e160, 1e-160])
def test_a_response_that_large_has_no_infinite_intervals(unit):
    for door, found in _of_each_door(Z[:, 0], unit * Y):
        if door in ("logistic", "poisson", "gamma", "cox"):  # of responses as they are
            continue
        assert not np.isinf(found.conf_int()).any(), door
        ends = found.conf_int()[0]
        assert found.warnings and (np.isnan(ends).all() or ends[0] < ends[1]), door


def test_columns_of_which_no_spread_was_seen_have_no_interval_anywhere():
    for door, found in _of_each_door(np.full(N, 3.0), np.abs(Y)):
        if door != "weights":
            assert np.isnan(found.bse[-1]), door


def test_without_a_number_in_the_response_there_is_no_interval():
    """They excluded zero in 10% to 70%; at three standard deviations 1.3e-3 are not seen."""
    for door, found in _of_each_door(Z[:, 0], np.full(N, np.nan)):
        if door == "fits":  # it ends after its counts, without a fit of any level
            assert stopped(found) and found.fits == (None, None)
            assert np.isnan(found.conf_int("x")).all()
            continue
        assert np.isnan(found.conf_int()).all(), door
        said = "no more records count than noise explains", "stopped after "
        assert any(_says(found, words) for words in said), door
    paid = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    two = dpfast.effects.two_stage(
        "y ~ x | z", {"y": np.full(N, np.nan), "x": Z[:, 0], "z": Z[:, 0]}, **paid
    )
    assert np.isnan(two.anderson_rubin()).all()
    arm = (Z[:, 1] > 0.0).astype(float)
    effect = dpfast.effects.treatment_effect(Z, arm, np.full(N, np.nan), **paid)
    assert np.isnan(effect.conf_int()).all() and stopped(effect)


def test_of_declared_columns_the_gram_says_that_no_records_count():
    schema = dpfast.Schema({"x": dpfast.Numeric(-4, 4), "y": dpfast.Numeric(-9, 9)})
    table = {"x": Z[:, 0], "y": np.full(N, np.nan)}
    design = schema.encode(table, response="y")
    fit = dpfast.fit(design, None, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert np.isnan(fit.natural.conf_int()).all() and _says(fit, "stopped after ")
    seen = schema.encode(table | {"y": np.where(np.arange(N) < 600, Y, np.nan)}, response="y")
    fit = dpfast.fit(seen, None, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert np.isfinite(fit.natural.conf_int()).all()


def test_a_level_without_a_number_in_the_response_has_no_interval():
    g = np.arange(N) % 2
    table = {"x": Z[:, 0], "g": g, "y": np.where(g == 1, Y, np.nan)}
    schema = dpfast.Schema({"g": dpfast.Categorical([0, 1])})
    noise = dpfast.SeededNoise(0)
    found = dpfast.tables.fits("y ~ x", table, "g", schema=schema, privacy=1.0, noise=noise)
    assert np.isnan(found.bse[0]).all() and np.isfinite(found.bse[1]).all()
    assert _says(found.fits[0], "no more records count")
