"""Private selection: exact likelihood ratios, and the winner's look (claims B10 and B11)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import differential_evolution

import dpfast
from bench.rivals.literature import random_search
from bench.rivals.literature.selection import best_of_random_trials, plan_selection
from bench.rivals.literature.sensitivity import selection_cost, trial_epsilon
from bench.rivals.literature.trials import number_of_trials, trial_point
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.errors import BudgetExceeded, InvalidInput


def law_of_the_best(law, p):
    """Probability that the best of a geometric number of draws is each outcome, best first."""
    tail = 1.0 - np.concatenate([[0.0], np.cumsum(law)])  # this outcome or worse

    def all_at(x):
        return p * x / (1.0 - (1.0 - p) * x)

    tail = np.maximum(tail, 0.0)
    return all_at(tail[:-1]) - all_at(tail[1:])


@pytest.mark.slow
def test_b10_best_of_a_geometric_number_of_trials():
    """Over pairs of e-DP trials with four outcomes and any p: at most 3e, and nearly attained."""
    epsilon = 0.5
    worst = 0.0

    def pair(parameters):
        p = 10.0 ** parameters[0]
        law = 10.0 ** parameters[1:5]
        tilt = parameters[5:9]
        first = law / law.sum()
        second = first * np.exp(epsilon * tilt)
        second /= second.sum()
        ratio = np.log(second / first)
        shrink = min(1.0, epsilon / max(np.abs(ratio).max(), 1e-300))
        if shrink < 1.0:  # make it exactly epsilon-DP by mixing towards the first law
            low, high = 0.0, 1.0
            for _ in range(40):
                middle = 0.5 * (low + high)
                mixed = (1.0 - middle) * first + middle * second
                ok = np.abs(np.log(mixed / first)).max() <= epsilon
                low, high = (middle, high) if ok else (low, middle)
            second = (1.0 - low) * first + low * second
        return first, second, p

    def loss(parameters):
        nonlocal worst
        first, second, p = pair(parameters)
        a, b = law_of_the_best(first, p), law_of_the_best(second, p)
        keep = (a > 1e-12) & (b > 1e-12)
        found = float(np.abs(np.log(a[keep] / b[keep])).max())
        worst = max(worst, found)
        return -found

    limits = [(-6.0, -0.01)] + [(-6.0, 0.0)] * 4 + [(-1.0, 1.0)] * 4
    differential_evolution(loss, limits, seed=0, maxiter=150, popsize=12, polish=False)
    assert worst <= 3.0 * epsilon * (1.0 + 1e-6)
    assert worst >= 0.99 * 3.0 * epsilon


def test_b10_a_published_number_of_trials_would_cost_more():
    """The best of exactly 50 trials is far from 3e-DP: the number has to stay secret."""
    epsilon, count = 0.5, 50
    first = np.array([1e-4, 1.0 - 1e-4])
    second = np.array([1e-4 * math.exp(epsilon), 1.0 - 1e-4 * math.exp(epsilon)])
    assert abs(np.log(second / first)).max() <= epsilon * (1.0 + 1e-12)
    first, second = np.array([0.3, 0.7]), None
    second = np.array([1.0 - 0.7 * math.exp(-epsilon), 0.7 * math.exp(-epsilon)])
    assert abs(np.log(second / first)).max() <= math.log(2.0)  # e' of this pair
    own = float(np.abs(np.log(second / first)).max())
    worst_of_all = count * abs(math.log(second[1] / first[1]))  # every trial bad
    assert worst_of_all > 3.0 * own


def test_b10_costs_are_rounded_up():
    for epsilon in (1e-3, 0.1, 1.0, 7.3):
        assert selection_cost(trial_epsilon(epsilon)) <= epsilon
        assert selection_cost(trial_epsilon(epsilon)) >= epsilon * (1.0 - 1e-12)
    with pytest.raises(InvalidInput):
        trial_epsilon(0.0)


def test_b11_the_number_of_trials_is_geometric():
    """Chi-squared with 12 cells at 1e-6 (42.9 for 11 degrees); a 3% error of p is found."""
    source, mean, draws = dpfast.SeededNoise(11), 5.0, 60_000
    counts = np.bincount([number_of_trials(mean, source) for _ in range(draws)], minlength=13)
    assert counts[0] == 0
    p = 1.0 / mean
    expected = draws * p * (1.0 - p) ** np.arange(11)
    cells = np.append(counts[1:12], counts[12:].sum())
    expected = np.append(expected, draws - expected.sum())
    assert np.sum((cells - expected) ** 2 / expected) < 49.0
    with pytest.raises(InvalidInput):
        number_of_trials(0.5, source)


def test_points_of_trials_are_uniform():
    """Kolmogorov's test at 1e-6 in each coordinate."""
    source = dpfast.SeededNoise(2)
    low, high = np.array([-1.0, 5.0]), np.array([1.0, 5.5])
    points = np.array([trial_point(low, high, source) for _ in range(4000)])
    assert (points >= low).all() and (points <= high).all()
    for column in ((points - low) / (high - low)).T:
        steps = np.arange(1, 4001) / 4000
        assert np.abs(np.sort(column) - steps).max() < 2.7 / math.sqrt(4000)


def test_the_winner_has_the_lowest_score_and_its_noise_the_right_size():
    """With a constant loss the score is the smallest of K noises: compared with its own law."""
    n, epsilon, mean = 50, 1.0, 30.0
    values = RecordValues(n, dpfast.Ledger(5.0), dpfast.SeededNoise(0))
    plan = plan_selection(values, 0.0, 1.0, epsilon)
    expected = (1.0 / n) / (epsilon / 3.0) * math.sqrt(2.0)
    assert expected <= plan.noise_scale <= 1.01 * expected
    scores = []
    for seed in range(300):
        found = best_of_random_trials(
            lambda theta: np.full(n, 0.5), (np.zeros(1), np.ones(1)), (0.0, 1.0), n=n,
            epsilon=epsilon, mean_trials=mean, ledger=dpfast.Ledger(5.0),
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        scores.append(found.score - 0.5)
    # median of the minimum of K Laplace variables: P(min > -t) = E (1 - exp(-t/b)/2)^K
    scale = plan.noise_scale / math.sqrt(2.0)

    def above(t):
        x = 1.0 - 0.5 * math.exp(-t / scale)
        return x / mean / (1.0 - (1.0 - 1.0 / mean) * x)

    median = -float(np.median(scores))
    # a fraction between 0.35 and 0.65 of 300 fails with probability below 1e-6
    assert 0.35 < above(median) < 0.65


def test_random_search_finds_good_points_and_spends_its_budget_once():
    n = 500
    centre = np.array([0.7, -0.3])

    def losses(theta):
        return np.full(n, np.sum((theta - centre) ** 2)) + np.linspace(-0.1, 0.1, n)

    shared = dpfast.Ledger(3.0)
    found = random_search(
        losses, [(-1.0, 1.0)] * 2, privacy=2.0, n_records=n, loss_range=(0.0, 4.0),
        mean_trials=200.0, noise=dpfast.SeededNoise(4), ledger=shared,
    )  # fmt: skip
    assert np.linalg.norm(found.theta - centre) < 0.5
    assert len(found.privacy.entries) == 1
    assert found.privacy.mu <= 2.0
    assert found.privacy.mu == pytest.approx(2.0, rel=1e-9)
    exact = random_search(
        losses, [(-1.0, 1.0)] * 2, privacy=dpfast.PureDP(1.0), n_records=n, loss_range=(0.0, 4.0),
    )  # fmt: skip
    assert exact.privacy.guarantee == "GDP"
    assert exact.privacy.mu == pytest.approx(dpfast.PureDP(1.0).as_gdp().mu)
    called = []
    with pytest.raises(BudgetExceeded):
        random_search(
            lambda theta: called.append(theta), [(-1.0, 1.0)] * 2, privacy=2.9, n_records=n,
            loss_range=(0.0, 4.0), ledger=shared,
        )  # fmt: skip
    assert not called


def test_random_search_survives_any_values():
    for bad in (np.nan, np.inf, -np.inf, 1e308):
        found = random_search(
            lambda theta, bad=bad: np.full(5, bad), [(0.0, 1.0)], privacy=1.0, n_records=5,
            loss_range=(0.0, 1.0), mean_trials=3.0, noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        assert 0.0 <= found.theta[0] <= 1.0
    with pytest.raises(InvalidInput, match="range"):
        random_search(lambda theta: theta, [(0.0, 1.0)], privacy=1.0, n_records=5,
                      loss_range=(1.0, 0.0))  # fmt: skip
