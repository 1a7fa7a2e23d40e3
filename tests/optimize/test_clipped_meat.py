"""Least squares: what clipping takes off the scores' covariance, and directions that few tell."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.solvers.pcn.clipping import ASYMMETRY, mean_asymmetry
from dpfast.solvers.pcn.covariance import one_sided_bias
from dpfast.solvers.pcn.histogram import NormHistogram

N = 20_000


@pytest.mark.parametrize(("radius", "power"), [(1e9, 0.0), (4.0, 0.5), (4.0, 1.0)])
@pytest.mark.parametrize("bound", [1.0, 6.0, 50.0])
@pytest.mark.values
def test_what_clipping_takes_off_normal_residuals(radius, power, bound):
    """Seeded, a million draws: within 6 of their standard errors."""
    rng = np.random.default_rng(31)
    lengths = np.array([1.0, 3.0, 12.0])
    shares = np.array([0.7, 0.28, 0.02])
    rows = NormHistogram(shares, lengths * 2.0**0.25, lengths, 0.0)
    drawn = rng.choice(lengths, 1_000_000, p=shares)
    discounts = np.minimum(1.0, (radius / drawn) ** 2) ** power
    scores = discounts * drawn * np.abs(0.8 * rng.standard_normal(len(drawn)))
    lost = np.maximum(scores**2 - bound**2, 0.0)
    error = lost.std() / len(lost) ** 0.5
    found = rows.clipped_off(0.8, radius, power, bound)
    assert found == pytest.approx(lost.mean(), abs=6.0 * error + 1e-5)


def ordinary(X, y):
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(rows.T @ rows)
    beta = inverse @ rows.T @ y
    scores = rows * (y - rows @ beta)[:, None]
    return beta, np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))


def test_standard_errors_of_a_direction_that_few_rows_tell():
    """Seeded.  Scores of the 100 records where two dummies do not add up to 1 are clipped: without
    what that took, the standard errors of both are .6 of those of ordinary least squares."""
    rng = np.random.default_rng(2)
    x, z = rng.integers(18, 80, N), rng.integers(6, 20, N)
    a = (rng.random(N) < 0.6) * 1.0
    b = np.where(rng.random(N) < 0.01, rng.random(N) < 0.5, 1.0 - a)
    X = np.column_stack([x, z, a, b])
    y = 0.3 * a + 0.02 * x + 0.1 * z + rng.standard_normal(N)
    beta, errors = ordinary(X, y)
    ratios = []
    for seed in range(10):
        fit = dpfast.fit(X, y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed))
        assert (np.abs(fit.params - beta) < 4.0 * fit.bse).all()
        if not fit.warnings:
            ratios.append(fit.bse / errors)
    assert len(ratios) >= 2
    assert (np.median(ratios, axis=0)[3:] > 0.8).all()
    assert np.median(ratios, axis=0)[1] < 1.2  # of the others nothing was taken


def test_columns_that_few_records_tell_are_left_out_and_named():
    """Seeded: 60 of 60,000 records at a rare level, fewer than any histogram shows here."""
    n, rng = 60_000, np.random.default_rng(33)
    x, rare = rng.normal(size=n), np.zeros(n)
    rare[:60] = 1.0
    y = x + rng.normal(size=n)
    names = ["ordinary", "rare"]
    for seed in range(3):
        noise = dpfast.SeededNoise(seed)
        X = np.column_stack([x, rare])
        fit = dpfast.fit(
            dpfast.records(X, y, names=names), None, "least-squares", privacy=0.5, noise=noise
        )
        assert "rare looks constant at this budget; dropped" in fit.warnings[0]
        assert np.isnan(fit.bse[2]) and abs(fit.params[1] - 1.0) < 5.0 * fit.bse[1]
        plain = dpfast.fit(X[:, :1], y, "least-squares", privacy=0.5, noise=noise)
        assert not plain.warnings and "may be hidden by the noise" in plain.method


def test_a_column_of_hardly_anything_but_zeros_does_not_cost_the_others():
    """Seeded: 1.5% of the entries are about 3,000, the rest 0.  Scores of rows that no histogram
    shows, made longer still by the map, would have taken the standard errors of all coefficients to
    millions of times those of least squares; of the column's own hardly anything is known, which
    its interval says where no warning does."""
    rng = np.random.default_rng(34)
    x, gain = rng.normal(size=N), np.where(rng.random(N) < 0.015, np.exp(rng.normal(8, 1, N)), 0.0)
    X, y = np.column_stack([x, gain]), x + 1e-4 * gain + rng.normal(size=N)
    beta, errors = ordinary(X, y)
    for seed in range(4):
        fit = dpfast.fit(X, y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed))
        assert abs(fit.params[1] - beta[1]) < 5.0 * errors[1]
        assert 0.9 * errors[1] < fit.bse[1] < 2.3 * errors[1]
        held = abs(fit.params[2] - beta[2]) < 3.0 * fit.bse[2] and fit.bse[2] > 1.5 * errors[2]
        assert held or any("discounted" in text for text in fit.warnings)


def said_to_be_cut(X, y, seed):
    fit = dpfast.fit(X, y, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed))
    return fit, any("gradients were clipped at" in remark for remark in fit.warnings)


def test_what_is_cut_off_is_told_where_it_moves_a_coefficient_by_its_standard_error():
    """Of 20 lognormal responses, seeded, 18 are told of; of sixty columns none, which hold.

    A length of 6 standard errors is .8 of each of 61 coefficients; told as 3.6 of any number it
    was in all four.
    """
    said = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5000, 2))
        said += said_to_be_cut(X, np.exp(1.5 * rng.normal(size=5000) + 0.5 * X[:, 0]), seed)[1]
    assert said >= 16
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N, 60))
        y = X @ np.full(60, 0.06) + rng.standard_t(5, size=N)
        fit, told = said_to_be_cut(X, y, seed)
        assert not told
        low, high = fit.conf_int().T
        exact = ordinary(X, y)[0]
        assert np.mean((low <= exact) & (exact <= high)) > 0.9


def test_errors_of_counts_are_not_those_of_long_rows():
    """Six fits, seeded: in the mean standard errors are 1.27 times those without privacy, and wider
    as if clipping took of scores what it would of rows as long as these, which are shortened."""
    found, n = [], 20_000
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.random(n) < 0.01, rng.normal(size=(n, 3))]) * 1.0
        y = rng.poisson(np.exp(X @ [1.0, 0.5, 0.0, 0.1])) * 1.0
        fit = dpfast.fit(X, y, "poisson", privacy=1.0, noise=dpfast.SeededNoise(seed))
        found.append(fit.bse / dpfast.nonprivate_fit(X, y, "poisson").bse)
    assert 1.0 < np.mean(found) < 1.31


def test_clipped_scores_of_counts_add_up_along_the_intercept_and_the_slopes():
    """Each has 1/p of its squared norm along a direction; scores of other losses cancel in part."""
    rng = np.random.default_rng(0)
    for p in (2, 5):
        intercept, theta = rng.normal(size=p), rng.normal(size=p)
        bias = one_sided_bias(0.3, intercept, theta)
        slopes = theta - (theta @ intercept) / (intercept @ intercept) * intercept
        for direction in (intercept, slopes):
            unit = direction / np.linalg.norm(direction)
            total = (unit @ bias) @ (unit @ bias) + (ASYMMETRY * 0.3) ** 2 / p
            assert total == pytest.approx(0.3**2 / p)
        trace = np.vdot(bias, bias) + (ASYMMETRY * 0.3) ** 2
        assert np.sqrt(trace) == pytest.approx(0.3 * mean_asymmetry(p))
