"""Of a hundred columns the noise of a released matrix is known by its eigenvalues."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.solvers.pcn import engine
from dpfast.solvers.pcn.many_columns import MANY, shows_null_direction, shrink_within_noise


def symmetric_noise(p, noise, seed=0):
    """Draw noise as a released matrix has it: ``noise`` of an entry of the diagonal."""
    draws = np.random.default_rng(seed).normal(size=(p, p))
    return noise * (draws + draws.T) / 2.0


@pytest.mark.parametrize("p", [MANY, 100, 300])
def test_noise_alone_leaves_the_target(p):
    noise = 0.5 / math.sqrt(2.0 * p)  # of the edge .5
    target = np.diag(np.linspace(0.8, 1.2, p))
    found, left = shrink_within_noise(target + symmetric_noise(p, noise), noise, target)
    assert np.linalg.norm(found - target, 2) < 0.2
    assert left < 0.4 * noise


@pytest.mark.parametrize("size", [-0.7, 1.5, 6.0])
def test_a_direction_of_its_own_is_what_it_was_before_the_noise(size):
    p, edge = 200, 0.5
    noise = edge / math.sqrt(2.0 * p)
    direction = np.full(p, p**-0.5)
    matrix = np.eye(p) + size * np.outer(direction, direction) + symmetric_noise(p, noise)
    found, _ = shrink_within_noise(matrix, noise, np.eye(p))
    values = np.linalg.eigvalsh(found) - 1.0
    assert abs(values[np.abs(values).argmax()] - size) < 0.1
    assert np.sort(np.abs(values))[-2] < 0.25 * edge  # others are no more than noise


def test_moments_that_vary_more_than_noise_stay():
    p, edge = 100, 0.3
    noise = edge / math.sqrt(2.0 * p)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(p, p)))[0]
    moments = (rotation * np.linspace(0.2, 3.0, p)) @ rotation.T
    matrix = moments + symmetric_noise(p, noise)
    found, left = shrink_within_noise(matrix, noise, np.eye(p))
    assert np.linalg.norm(found - moments) < 1.3 * np.linalg.norm(matrix - moments)
    assert 0.8 * noise < left <= noise


def test_a_null_direction_shows_below_the_edge_of_noise_alone():
    """Of a hundred columns one is the average of the others: an eigenvalue is far from the rest."""
    p, typical = 100, 2.0
    null = np.full(p, p**-0.5)
    moments = typical * (np.eye(p) - np.outer(null, null))
    for edge, shows in ((0.9 * typical, True), (1.2 * typical, False)):
        noise = edge / math.sqrt(2.0 * p)
        released = moments + symmetric_noise(p, noise)
        assert shows_null_direction(released, noise) == shows
        found, _ = shrink_within_noise(released, noise, typical * np.eye(p))
        assert (null @ found @ null < 0.4 * typical) or not shows


def test_intervals_of_nearly_collinear_columns_are_wide_and_a_fit_warns():
    """Moments of a direction that the first Gram shows to be none are no noise in the second."""
    n, p, errors = 4000, 60, []
    for seed in range(1, 6):
        rng = np.random.default_rng(1000 + seed)
        X = rng.normal(size=(n, p - 1))
        X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=n)
        slopes = 0.3 * rng.normal(size=p - 1)
        y = X @ slopes + rng.normal(size=n)
        fit = dpfast.fit(X, y, privacy=3.0, noise=dpfast.SeededNoise(seed))
        errors.append((fit.params[1:3] - slopes[:2]) / fit.bse[1:3])
        assert any("too noisy in" in text for text in fit.warnings)
    assert np.abs(errors).max() < 2.5  # of the shrunk Gram 4.5


def test_errors_are_those_that_a_fit_reports(monkeypatch):
    """Normal rows keep their weight; with skewed columns long rows are down-weighted."""
    n, p, limits = 24_000, 100, []
    finalize = engine.finalize

    def noted(*arguments):
        limits.append(arguments[5].exponent)
        return finalize(*arguments)

    monkeypatch.setattr(engine, "finalize", noted)
    ratios, slopes = [], np.linspace(-0.1, 0.1, p)
    for seed, skew in enumerate((False, False, True)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, p))
        X = np.exp(X) if skew else X
        y = X @ slopes + rng.normal(size=n)
        fit = dpfast.fit(X, y, privacy=1.0, noise=dpfast.SeededNoise(seed))
        ratios.append(np.mean(((fit.params[1:] - slopes) / fit.bse[1:]) ** 2))
    assert limits == [0.0, 0.0, 1.0]
    assert 0.65 < np.mean(ratios[:2]) < 1.4  # 1.45 times too wide errors have .48
    assert 0.5 < ratios[2] < 1.6
