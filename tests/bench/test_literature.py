"""Rivals of the benchmarks: exact for a huge budget, with the noise that a promise needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import dpfast
from bench.rivals import literature
from tests.privacy.test_attacks import search

HUGE, RUNS = 1e7, 500


def linear_data(n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, 1.0 + X @ [-1.0, 0.5] + 0.5 * rng.normal(size=n)


X, Y = linear_data()
EXACT = np.linalg.lstsq(np.column_stack([np.ones(len(Y)), X]), Y, rcond=None)[0]
RIDGE = dpfast.Objective("huber", weights=dpfast.Bounded(2.0), scale=0.5, ridge=0.1)
STEP = {"steps": 1, "step_size": 1.0}


@pytest.mark.parametrize("rival", [literature.sufficient_statistics, literature.adassp])
def test_statistics_give_least_squares(rival):
    found = rival(X, Y, x_bound=2.0, y_bound=9.0, privacy=HUGE, seed=0)
    np.testing.assert_allclose(found, EXACT, atol=1e-5)


def test_descent_and_minimisers_find_what_they_are_of():
    long = {"clip": 99.0, "steps": 300, "step_size": 0.5, "seed": 0}
    found = literature.clipped_gradient_descent(X, Y, "least-squares", privacy=HUGE, **long)
    np.testing.assert_allclose(found, EXACT, atol=1e-3)
    ridge = dpfast.nonprivate_fit(X, Y, RIDGE).params
    found = literature.output_perturbation(X, Y, RIDGE, privacy=HUGE, seed=0)
    np.testing.assert_allclose(found, ridge, atol=1e-5)


def deviations(call):
    return np.std([call(seed) for seed in range(RUNS)], axis=0)


def test_noise_is_as_large_as_sensitivities():
    """Standard deviations of 500 runs are known to 3.2%, five of which are allowed."""
    n, near = len(Y), {"rel": 0.16}
    spread = deviations(
        lambda seed: literature.clipped_gradient_descent(
            X, Y, "least-squares", clip=0.7, privacy=0.5, seed=seed, **STEP
        )
    )
    assert spread == pytest.approx([2 * 0.7 / (n * 0.5)] * 3, **near)
    spread = deviations(
        lambda seed: literature.output_perturbation(X, Y, RIDGE, privacy=0.5, seed=seed)
    )
    assert spread == pytest.approx([2 * 1.345 * 2.0 / (n * 0.1 * 0.5)] * 3, **near)
    rng = np.random.default_rng(1)
    drawn = [literature._statistics(X, Y, (2.0, 4.0), 0.5, rng, True) for _ in range(RUNS)]
    mu = 0.5 / literature.statistics_mu(1.0, math.sqrt(2.0))
    of_gram = np.std([gram for gram, _, _ in drawn], axis=0)
    scale = math.sqrt(2.0) * 4.0 / (n * mu)
    assert of_gram.diagonal() == pytest.approx([scale] * 3, **near)
    assert of_gram[0, 1:] == pytest.approx([scale / math.sqrt(2.0)] * 2, **near)
    of_moment = np.std([moment for _, moment, _ in drawn], axis=0)
    assert of_moment == pytest.approx([2 * 8.0 / (n * mu * math.sqrt(2.0))] * 3, **near)


@pytest.mark.values
@pytest.mark.parametrize("ratio", [0.25, 1.0, 2.0, 4.0, 10.0])
def test_joint_price_of_statistics_is_attained_and_not_exceeded(ratio):
    """A search over pairs of records in the unit ball of the plane."""

    def decode(z):
        angle = 2.0 * np.pi * z[0]
        return np.array([np.cos(angle), np.sin(angle)]) * z[1], 2.0 * z[2] - 1.0

    def squared(z):
        (x, y), (v, w) = decode(z[:3]), decode(z[3:])
        outer = x[:, None] * x[None, :] - v[:, None] * v[None, :]
        moment = y * x - w * v
        return 0.5 * np.sum(outer**2, axis=(0, 1)) + ratio / 4 * np.sum(moment**2, axis=0)

    starts = [[0.0, 1.0, 1.0, angle, 1.0, 0.0] for angle in (0.0, 0.1, 0.2, 0.25)]
    found = math.sqrt(search(squared, 6, starts, generations=150))
    bound = literature.statistics_mu(1.0, math.sqrt(ratio))
    assert 0.99 * bound <= found <= bound * (1.0 + 1e-9)


def hockey_stick(gamma, q, s):
    """Exact divergence of (1-q) N(0,1) + q N(s,1) from (1-q) N(0,1) + q N(-s,1)."""
    k = (1 - q) * (1 - gamma) / (q * math.exp(-s * s / 2))
    x = math.log((-k + math.sqrt(k * k + 4 * gamma)) / 2) / s
    above = 1 - ndtr(x), 1 - ndtr(x - s), 1 - ndtr(x + s)
    return float((1 - q) * (1 - gamma) * above[0] + q * above[1] - gamma * q * above[2])


PAIR, RATE = dpfast.ApproxDP(2.0, 1e-3), 0.1


def test_a_sampled_step_keeps_its_pair_under_replacement():
    pytest.importorskip("dp_accounting")
    multiplier = literature.noise_multiplier(PAIR, RATE, 1)
    delta = hockey_stick(math.exp(PAIR.epsilon), RATE, 1.0 / multiplier)
    assert 0.9 * PAIR.delta <= delta <= PAIR.delta
    spread = deviations(
        lambda seed: literature.dp_sgd(
            0.0 * X, 0.0 * Y, "least-squares", clip=0.7, privacy=PAIR, seed=seed,
            sampling_rate=RATE, average=0.0, **STEP,
        )
    )  # fmt: skip
    assert spread == pytest.approx([multiplier * 0.7 / (RATE * len(Y))] * 3, rel=0.16)


def test_sampled_sums_are_divided_by_the_expected_number():
    pytest.importorskip("dp_accounting")
    found = [
        literature.dp_sgd(
            np.zeros((200, 0)), np.ones(200), "least-squares", clip=1.0, privacy=PAIR, seed=seed,
            sampling_rate=RATE, average=0.0, **STEP,
        )[0]
        for seed in range(400)
    ]  # fmt: skip
    noise = literature.noise_multiplier(PAIR, RATE, 1) / 20.0
    binomial = math.sqrt(200 * RATE * (1.0 - RATE)) / 20.0
    assert np.std(found) == pytest.approx(math.hypot(noise, binomial), rel=0.15)


def test_random_search_makes_a_secret_number_of_noisy_trials():
    """Its winner among equal points has the least of so many Laplace variables."""
    mu, counts = 1.0, []
    for seed in range(400):
        calls = []
        literature.random_search(
            lambda theta, calls=calls: calls.append(theta) or np.zeros(50), [(0.0, 1.0)],
            privacy=mu, loss_range=(0.0, 1.0), seed=seed, mean_trials=10.0,
        )  # fmt: skip
        counts.append(len(calls))
    assert np.mean(counts) == pytest.approx(10.0, rel=0.25)
    assert np.std(counts) == pytest.approx(math.sqrt(90.0), rel=0.4) and min(counts) == 1


def test_noise_of_a_trial_has_a_third_of_epsilon():
    """How often the worse half of the box wins: the least of many Laplace variables.

    The tails of the two halves have the ratio exp(-difference/scale); 300 runs know it to .02.
    """
    epsilon, n, difference = math.log(ndtr(0.5) / ndtr(-0.5)) / 3.0, 20, 0.25

    def ends_high(seed):
        found = literature.random_search(
            lambda theta: np.full(n, 0.5 + difference * (theta[0] > 0.5)), [(0.0, 1.0)],
            privacy=1.0, loss_range=(0.0, 1.0), seed=seed, mean_trials=100.0,
        )  # fmt: skip
        return found[0] > 0.5

    odds = math.exp(-difference * n * epsilon)
    assert np.mean([ends_high(s) for s in range(300)]) == pytest.approx(odds / (1 + odds), abs=0.06)
