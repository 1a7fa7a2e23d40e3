"""Adaptive composition: claim C9 of PROOFS.md, attacked by analysts who choose as they go."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from dpfast.errors import BudgetExceeded
from dpfast.privacy import GDP, Ledger

FALSE_FAILURE = 1e-6
TOTAL = 1.0


def cautious(step, loss, left, rng):
    """Spend more while the evidence is inconclusive."""
    return np.where(np.abs(loss) < 0.3, 0.5, 0.1) * left


def greedy(step, loss, left, rng):
    """Stop as soon as the evidence points one way, to freeze a lucky result."""
    return np.where(loss > 0.8, 0.0, 0.3) * left


def doubling(step, loss, left, rng):
    """Bet everything that is left after a loss."""
    return np.where(loss < 0.0, 1.0, 0.2) * left


def erratic(step, loss, left, rng):
    return rng.random(loss.shape) ** 3 * left


def play(analyst, hypothesis, paths, rng, pad, steps=15):
    """Log-likelihood ratios of Q to P after an adaptive interaction, under P (0) or Q (1).

    ``analyst`` gives the part of the remaining mu^2 to spend next, from everything seen so far.
    """
    loss, left = np.zeros(paths), np.full(paths, TOTAL**2)
    for step in range(steps + pad):
        spend = left if step == steps else analyst(step, loss, left, rng)
        mu = np.sqrt(spend)
        seen = rng.standard_normal(paths) + hypothesis * mu
        loss = loss + mu * seen - mu**2 / 2
        left = left - spend
    assert left.min() >= -1e-12
    return loss


@pytest.mark.parametrize("analyst", [cautious, greedy, doubling, erratic])
@pytest.mark.one_in(4)
def test_an_adaptive_analyst_gains_nothing(analyst):
    """Padded, the likelihood ratio has exactly the Gaussian law; unpadded, tests are no better.

    With 200,000 paths an analyst who gained 2% in mu would move the mean of the likelihood ratio
    by 9 standard deviations: power > 0.999 against the threshold of 5.
    """
    rng = np.random.default_rng(0)
    paths = 200_000
    for hypothesis, mean in ((0, -0.5), (1, 0.5)):
        loss = play(analyst, hypothesis, paths, rng, pad=1)
        z = (loss - mean * TOTAL**2) / TOTAL
        assert stats.kstest(special.ndtr(z), "uniform").pvalue > FALSE_FAILURE
    null, other = (play(analyst, h, paths, rng, pad=0) for h in (0, 1))
    for cut in np.quantile(other, np.linspace(0.02, 0.98, 25)):
        level, power = np.mean(null > cut), np.mean(other > cut)
        if not 0.001 < level < 0.999:
            continue
        # the ceiling at the upper end of the level's error; slope of the ceiling times its error
        error = math.sqrt(level * (1 - level) / paths)
        ceiling = special.ndtr(special.ndtri(min(0.9999, level + 5 * error)) + TOTAL)
        assert power <= ceiling + 5 * math.sqrt(power * (1 - power) / paths) + 1e-9


def test_overspending_is_what_the_attack_would_see():
    """The same attack catches an analyst whose ledger charges mu instead of mu^2 shares."""
    rng = np.random.default_rng(1)
    paths = 200_000
    loss = np.zeros(paths)
    for _ in range(4):  # four releases at mu = 1/2 each are mu = 1; at 0.55 they are not
        loss = loss + 0.55 * rng.standard_normal(paths) - 0.55**2 / 2
    z = (loss + 0.5 * TOTAL**2) / TOTAL
    assert stats.kstest(special.ndtr(z), "uniform").pvalue < FALSE_FAILURE


def test_the_ledger_enforces_the_filter_for_an_adaptive_analyst():
    rng = np.random.default_rng(2)
    for _ in range(20):
        ledger, seen = Ledger(GDP(TOTAL)), 0.0
        granted = 0.0
        for _ in range(200):
            mu = float(abs(seen) * 0.2 + 0.01 + 0.2 * rng.random())
            try:
                ledger.charge(GDP(mu), "adaptive")
            except BudgetExceeded:
                continue
            granted += mu**2
            seen = rng.standard_normal() + mu
        assert granted <= TOTAL**2 * (1 + 1e-12)
        assert granted > 0.5 * TOTAL**2
