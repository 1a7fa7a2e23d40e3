"""Claim K5: the exponential mechanism, its exact law and its cost."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from dpfast import InvalidInput
from dpfast.curator.nonconvex.gradients import STEPS_PER_RECORD
from dpfast.privacy import EntropyNoise
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.nonconvex.choice import _geometric, _uniform_below, choose_smallest
from dpfast.privacy.nonconvex.sensitivity import exponential_cost, gradient_norm, norm_steps


def test_k5_the_choice_has_exactly_its_law():
    """Chi-square, false failures 1e-6; a rate wrong by 10% fails with probability above 0.99."""
    scores, rate, n = [3, 0, 7, 1, 4], (1, 4), 12_000
    source = EntropyNoise()
    draws = np.bincount([choose_smallest(scores, rate, source) for _ in range(n)], minlength=5)
    weights = np.exp(-np.array(scores) / 4.0)
    assert chisquare(draws, n * weights / weights.sum()).pvalue > 1e-6
    wrong = np.exp(-np.array(scores) / 4.0 * 1.3)
    assert chisquare(draws, n * wrong / wrong.sum()).pvalue < 1e-6


class Script(NoiseSource):
    """Hands out given integers, and words."""

    def __init__(self, values, words=()):
        self.values, self.given = list(values), list(words)

    def discrete_laplace(self, size, numerator, denominator):
        taken, self.values = self.values[:size], self.values[size:]
        return np.array(taken, dtype=np.int64)

    def words(self, size):
        taken, self.given = self.given[:size], self.given[size:]
        return np.array(taken, dtype=np.uint64)


def test_the_parts_of_the_draw():
    # those that are not negative, in their order
    assert _geometric((1, 2), 4, Script([-3, -1, 5, 2])).tolist() == [5, 2]
    # the lowest two bits; 3 is rejected for a length of 3
    assert _uniform_below(3, 4, Script([], [7, 4, 2**63 + 1, 2])).tolist() == [0, 1, 2]
    assert _uniform_below(1, 2, Script([], [9, 2**64 - 1])).tolist() == [0, 0]
    with pytest.raises(InvalidInput, match="empty"):
        choose_smallest([], (1, 2), Script([]))


def test_the_first_accepted_attempt_is_taken_and_no_other():
    """Index 1 exceeds the smallest score by 3: a length of 3 accepts it, one of 2 does not."""
    words = [1, 1, 0] + [1] * 13
    assert choose_smallest([5, 8], (1, 2), Script([2, 3] + [9] * 14, words)) == 1
    assert choose_smallest([5, 8], (1, 2), Script([2, 2] + [9] * 14, words)) == 0
    # lengths that are negative are no attempts
    assert choose_smallest([5, 8], (1, 2), Script([-1, 2, -4, 2] + [9] * 12, words)) == 0


def renyi(p, q, order):
    return float(np.log(np.sum(p**order * q ** (1.0 - order))) / (order - 1.0))


def law(scores, rate):
    weights = np.exp(-rate * (scores - scores.min()))
    return weights / weights.sum()


def test_k5_the_cost_bounds_the_renyi_divergence():
    """Over random scores and neighbours; two equal candidates attain it for small ranges."""
    rng = np.random.default_rng(0)
    steps, worst = 16, 0.0
    for numerator in (1, 8, 64, 512):
        rate = (numerator, 4096)
        cost = exponential_cost(rate, steps)
        assert cost == pytest.approx((steps * numerator / 4096) ** 2 / 2.0)
        for _ in range(300):
            size = int(rng.integers(2, 6))
            scores = rng.integers(0, 60, size=size)
            if rng.random() < 0.3:
                scores[:] = 5
            moved = scores + rng.choice([-steps, steps], size=size)
            for order in (1.0 + 1e-3, 1.5, 2.0, 8.0, 64.0):
                p, q = law(scores, rate[0] / rate[1]), law(moved, rate[0] / rate[1])
                ratio = max(renyi(p, q, order), renyi(q, p, order)) / (order * cost)
                assert ratio <= 1.0 + 1e-9
                worst = max(worst, ratio)
    assert worst >= 0.99


@pytest.mark.parametrize("distance", [0.4, 1.0, 1.7, 3.0, 7.2, 4095.0, 4096.3])
def test_k5_rounded_norms_move_by_their_steps_and_no_less(distance):
    """Halves and what is just below them, in steps of a grid of 1; attained exactly."""
    norms = np.arange(64) / 8.0
    norms = np.concatenate([norms, np.nextafter(norms, -1.0)[1:]])
    moved = [abs(round(a + distance * t) - round(a)) for a in norms for t in (1.0, 0.99, 0.5)]
    assert max(moved) == norm_steps(distance, 1.0)


def test_k5_scores_move_by_at_most_their_steps():
    rng = np.random.default_rng(0)
    worst = 0
    sensitivity = gradient_norm(1.3, 1000, 7, depth=100)
    grid = sensitivity / STEPS_PER_RECORD
    steps = norm_steps(sensitivity, grid)
    assert steps <= STEPS_PER_RECORD + 1
    for norm in rng.uniform(0.0, 1.3, size=20_000):
        worst = max(worst, abs(round((norm + sensitivity) / grid) - round(norm / grid)))
    assert STEPS_PER_RECORD <= worst <= steps
    # the rate asked for is paid for
    for rho in (1e-3, 0.1, 2.0):
        rate = laplace_rate(1, np.sqrt(2.0 * rho) / steps * (1.0 - 2.0**-40))
        assert 0.999 * rho <= exponential_cost(rate, steps) <= rho
