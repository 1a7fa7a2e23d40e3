"""Rows are whitened again while a released Gram leaves a direction unclear."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

import dpfast
from dpfast.curator import Answer
from dpfast.solvers.pcn.plan import CHECK, MAX_WHITENINGS, WHITENING, Budgets
from dpfast.solvers.pcn.precondition import MAX_GAIN, Preconditioner, repeated_whitening

RADIUS = 3.0


class Rows(NamedTuple):
    """Queries about rows whose second moments are known; each answer has the noise of its price.

    ``of_typical`` are the moments up to the typical radius, the others being of few long rows.
    """

    dimension = 4
    moments: np.ndarray
    of_typical: np.ndarray
    rng: np.random.Generator
    asked: list
    map: np.ndarray = np.eye(4)

    def mapped(self, matrix):
        return self._replace(map=self.map @ matrix)

    def gram(self, radius, mu):
        self.asked.append((radius, mu))
        noise = self.rng.normal(size=(4, 4))
        moments = self.moments if radius > RADIUS else self.of_typical
        value = self.map.T @ moments @ self.map + (noise + noise.T) / 2.0 / mu
        return Answer(value, 1.0 / mu, None)


def moments(smallest, seed=0):
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    return (rotation * [1.0, 0.8, 1.3, smallest]) @ rotation.T


BUDGET = Budgets(matrix=50.0, vector=1.0, histogram=1.0)


def whitened(smallest, seed=0, budget=BUDGET, typical=1.0):
    second, of_typical = moments(smallest, seed), moments(typical * smallest, seed)
    rows = Rows(second, of_typical, np.random.default_rng(seed), [])
    gram = rows.gram(2.0 * RADIUS, budget.matrix)
    result = repeated_whitening(rows, gram, 2.0 * RADIUS, RADIUS, budget)
    whiten = result.preconditioner.whiten
    return result, np.linalg.eigvalsh(whiten.T @ second @ whiten), rows.asked


@pytest.mark.parametrize("smallest", [1e-2, 1e-3, 2e-4])
def test_a_direction_of_little_variance_becomes_like_the_others(smallest):
    for seed in range(20):
        result, values, asked = whitened(smallest, seed)
        n_more = len(asked) - 2
        assert result.is_repeated and 1 <= n_more <= MAX_WHITENINGS
        assert result.later == n_more * WHITENING + CHECK
        assert values[0] > 0.3 and values[-1] < 3.0
        whitening = result.preconditioner
        assert whitening.whiten @ whitening.unwhiten == pytest.approx(np.eye(4), abs=1e-6)
        assert asked[0] == (2.0 * RADIUS, BUDGET.matrix)
        later = 2.0 * RADIUS * WHITENING**0.25, BUDGET.matrix * math.sqrt(WHITENING)
        assert asked[1:] == [later] * n_more + [(2.0, BUDGET.matrix * math.sqrt(CHECK))]


def test_clear_directions_cost_one_gram():
    assert all(whitened(0.5, seed)[0].later == 0.0 for seed in range(20))


def test_a_first_gram_of_much_noise_is_not_repeated():
    assert whitened(1e-4, budget=BUDGET._replace(matrix=10.0))[0].later == 0.0


def test_a_direction_of_few_long_rows_is_whitened_by_the_first_gram():
    """Their scores would set the clipping norm of all."""
    for seed in range(20):
        result, values, _ = whitened(1e-2, seed, typical=0.1)
        assert not result.is_repeated and result.later >= WHITENING + CHECK
        assert values[0] < 0.5


def test_a_direction_without_variance_stays_unclear():
    """Its noise exceeds the floor of one Gram in 400.  It is as long as after the first Gram."""
    mistaken = 0
    for seed in range(100):
        result = whitened(0.0, seed)[0]
        whitening = result.preconditioner
        unclear = whitening.unclear
        if unclear.any() and result.is_repeated:
            assert result.later == MAX_WHITENINGS * WHITENING
            norms = np.sum(whitening.whiten**2, axis=0)
            assert norms[unclear].max() <= 1.01 * BUDGET.matrix / math.sqrt(8.0)
        mistaken += not unclear.any()
    assert mistaken <= 8


def test_the_gain_is_bounded():
    """Two columns that differ by roundings, with a budget at which their sum of squares shows."""
    budget = Budgets(matrix=1e8, vector=1.0, histogram=1.0)
    whitening = whitened(1e-18, budget=budget)[0].preconditioner
    assert np.sum(whitening.whiten**2, axis=0).max() <= 1.01 * MAX_GAIN


def test_maps_compose():
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(3, 3)) for _ in range(2)]
    first, second = [Preconditioner(m, np.linalg.inv(m), np.ones(3), 0.1) for m in maps]
    both = second.after(first)
    assert both.whiten == pytest.approx(maps[0] @ maps[1])
    assert both.whiten @ both.unwhiten == pytest.approx(np.eye(3))
    short = both.shortened(np.array([True, False, True]), 0.01)
    assert np.sum(short.whiten**2, axis=0)[[0, 2]].max() <= 0.0101
    assert short.whiten[:, 1] == pytest.approx(both.whiten[:, 1])
    assert short.whiten @ short.unwhiten == pytest.approx(np.eye(3))


# ---- fits


def table(n, seed, gap):
    """Two columns that differ by ``gap``, and another one."""
    rng = np.random.default_rng(seed)
    first, other = rng.normal(size=(2, n))
    X = np.column_stack([first, first + gap * rng.normal(size=n), other])
    return X, X @ [1.0, -0.7, 0.5], rng


def exact_errors(X, y):
    Z = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(Z.T @ Z)
    beta = inverse @ (Z.T @ y)
    return beta, np.sqrt(inverse.diagonal() * np.sum((y - Z @ beta) ** 2) / (len(y) - 4))


def fit(X, y, loss, seed, privacy=1.0):
    records = dpfast.records(X, y, threads=1)
    return dpfast.fit(records, None, loss, privacy=privacy, noise=dpfast.SeededNoise(seed))


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh"])
def test_nearly_collinear_columns_have_the_errors_of_an_exact_fit(loss):
    """Seeded.  With one Gram intervals are 8 to 17 times as wide."""
    distances, widths = [], []
    for seed in range(8):
        X, mean, rng = table(10_000, seed, 0.045)
        y = mean + rng.normal(size=len(mean))
        beta, errors = exact_errors(X, y)
        result = fit(X, y, loss, seed)
        assert result.warnings == ()
        spent = math.fsum(mu**2 for _, mu in result.privacy.entries)
        assert 0.999 < spent <= 1.0
        distances.append(np.abs((result.params - beta) / errors).max())
        widths.append(np.median(result.bse / errors))
    assert np.median(distances) < 0.6 and np.median(widths) < 1.1 and max(widths) < 1.5


def test_odds_of_nearly_collinear_columns():
    """Seeded.  With one Gram intervals are 4 times as wide."""
    widths, held = [], []
    for seed in range(8):
        X, mean, rng = table(10_000, seed, 0.045)
        y = 1.0 * (rng.random(len(mean)) < 1.0 / (1.0 + np.exp(-mean)))
        result = fit(X, y, "logistic", seed)
        assert result.warnings == ()
        variance = np.mean(np.exp(mean) / (1.0 + np.exp(mean)) ** 2)
        widths.append(result.bse[1] * 0.045 * math.sqrt(variance * len(mean)))
        interval = result.conf_int()[1:]
        held.append((interval[:, 0] <= [1.0, -0.7, 0.5]) & (interval[:, 1] >= [1.0, -0.7, 0.5]))
    assert np.median(widths) < 1.2 and np.mean(held) > 0.8


@pytest.mark.parametrize("privacy", [1.0, 100.0])
@pytest.mark.parametrize("unit", [1.0, 1.8])
def test_collinear_columns_are_named_and_have_no_narrow_interval(privacy, unit):
    """Also a temperature in two units, whose roundings are the only difference."""
    for seed in range(10):
        X, mean, rng = table(10_000, seed, 0.0)
        X[:, 0] += 1e6 * (unit > 1.0)
        X[:, 1] = 32.0 * (unit > 1.0) + unit * X[:, 0]
        result = fit(X, mean + rng.normal(size=len(mean)), "least-squares", seed, privacy)
        told = [said for said in result.warnings if "too noisy in one direction" in said]
        assert len(told) == 1 and "x1, x2" in told[0]
        assert np.isnan(result.bse[1:3]).all() or result.bse[1:3].min() > 0.5


def test_several_losses_share_the_whitening():
    X, mean, rng = table(20_000, 0, 0.045)
    y = mean + rng.normal(size=len(mean))
    fits = dpfast.fit_quantiles(
        dpfast.records(X, y, threads=1),
        None,
        [0.25, 0.5],
        privacy=2.0,
        noise=dpfast.SeededNoise(0),
    )
    errors = exact_errors(X, y)[1]
    spent = math.fsum(mu**2 for _, mu in fits.privacy.entries)
    assert 3.99 < spent <= 4.0
    assert np.median([fits.fit_of(tau).bse / errors for tau in (0.25, 0.5)]) < 2.0
