"""C45: what an attacker can do at best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpfast.errors import InvalidBudget
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
from dpfast.privacy.tradeoff import attack_advantage, attack_power, explain
from tests.loops import each

RATES = np.concatenate([[0.0], np.logspace(-9, -1, 30), np.linspace(0.1, 1.0, 19)])


def rates_of_all_tests(p, q):
    """Rates of all likelihood-ratio tests, randomised ones by interpolation."""
    order = np.argsort(-np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0))
    return np.append(0, np.cumsum(q[order])), np.append(0, np.cumsum(p[order]))


@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_attained_by_the_worst_pair(mu):
    """The bound is the power of the best test of the pair that defines the guarantee."""
    threshold = np.linspace(-8.0, 8.0 + mu, 2001)
    false, true = ndtr(-threshold), ndtr(mu - threshold)
    found = np.array([attack_power(GDP(mu), float(a)) for a in false])
    assert (found >= true * (1 - 1e-13)).all() and (found <= true * (1 + 1e-9)).all()
    assert attack_advantage(GDP(mu)) == pytest.approx(np.max(true - false), rel=1e-5)
    assert attack_advantage(GDP(mu)) >= np.max(true - false)


@each(("epsilon", "delta"), [(0.5, 0.0), (1.0, 1e-3), (3.0, 0.1), (800.0, 0.0)])
def test_attained_by_the_worst_pair_of_epsilon_delta(epsilon, delta):
    """Randomised response that publishes the record with probability delta."""
    weight = math.exp(-epsilon)
    p = np.array([delta, (1 - delta) / (1 + weight), (1 - delta) * weight / (1 + weight), 0.0])
    false, true = rates_of_all_tests(p, p[::-1])
    budget = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    for a in RATES[weight == 0.0 :]:  # a weight of zero stands for a positive rate
        best = np.interp(a, false, true)
        found = attack_power(budget, float(a))
        assert best - 1e-12 <= found <= best + 1e-9
    advantage = np.max(true - false)
    assert advantage - 1e-15 <= attack_advantage(budget) <= advantage * (1 + 1e-9)


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 5.0])
def test_zcdp_bounds_hold_for_the_gaussian_and_randomised_response(rho):
    """Both pairs are exactly rho-zCDP; the bound may be loose, but at most by a factor of 3 where
    the Gaussian's power is below one half."""
    mu, epsilon = math.sqrt(2 * rho), math.sqrt(2 * rho)
    coin = PureDP(epsilon)
    for a in RATES[1:-1]:
        gaussian = float(ndtr(ndtri(a) + mu))
        bound = attack_power(ZCDP(rho), float(a))
        assert bound >= gaussian and bound >= attack_power(coin, float(a)) - 1e-12
        if a > 1e-6 and gaussian < 0.5:
            assert bound <= 3 * gaussian
    assert attack_advantage(ZCDP(rho)) >= attack_advantage(GDP(mu)) * (1 - 1e-12)
    assert attack_advantage(ZCDP(rho)) <= 1.0 + 1e-12


@each("budget", [GDP(1.0), ZCDP(0.5), PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_power_is_monotone_and_never_below_luck(budget):
    powers = [attack_power(budget, float(a)) for a in RATES]
    assert all(power >= a for power, a in zip(powers, RATES, strict=True))
    assert all(np.diff(powers) >= 0) and powers[-1] == 1.0
    assert budget.attack_power(0.05) == attack_power(budget, 0.05)


def test_nothing_is_lost_next_to_zero():
    """Rates and budgets whose digits, or whose answer's, floating point no longer holds."""
    tiny = 5e-324
    for budget in (GDP(1e-3), GDP(5.0), PureDP(1e-3), ZCDP(1e-40)):
        assert attack_power(budget, tiny) > 1e-320
    assert attack_power(GDP(5.0), tiny) >= 1e-250
    for budget in (GDP(tiny), PureDP(tiny), ZCDP(tiny)):
        assert attack_advantage(budget) > 1e-310
    assert attack_advantage(ZCDP(tiny)) > 1.5e-162
    assert attack_power(ZCDP(1e-34), 0.5) > 0.5
    assert PureDP(tiny).delta(0.0) > 1e-300
    assert attack_power(PureDP(800.0), 0.0) == 0.0
    assert attack_power(ApproxDP(1.0, 1e-6), 0.0) == 1e-6


@each("rate", [-0.1, 1.5, float("nan"), "0.1", True])
def test_a_rate_is_a_probability(rate):
    with pytest.raises(InvalidBudget, match="false_positive_rate"):
        attack_power(GDP(1.0), rate)


def test_plain_words():
    text = GDP(1.0).explain(1e-5)
    assert "69.1% success" in text
    assert "with 1% false alarms" in text and "9.24%" in text
    assert "epsilon = 4.377 at delta = 1e-05" in text
    assert "epsilon = 1 at delta = 1e-06" in explain(ApproxDP(1.0, 1e-6), 1e-9)
