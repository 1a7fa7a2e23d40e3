"""Claim K4: adaptively chosen charges never exceed the total, and are what the noise costs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from bench.figures.paper2.examples import phase_retrieval
from dpfast.audit.transcript import Answered, Charged, perform
from dpfast.optimize import Adaptive
from dpfast.papers import Proximal, Spider

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=N)
METHODS = {
    "adaptive": {"method": Adaptive()},
    "adaptive with norms": {"method": Adaptive(norm_queries=True, signal=5.0, last_share=0.5)},
    "spider": {"method": Spider(), "kl": (1.0, 2.0)},
    "spider, kappa 4/3": {"method": Spider(max_steps=20), "kl": (2.0, 4.0 / 3.0)},
    "proximal": {"method": Proximal(rounds=3, convexity=0.5), "kl": (1.0, 3.0)},
}
BUDGETS = [dpfast.ZCDP(0.1), dpfast.ZCDP(2.0), dpfast.GDP(0.7), dpfast.ApproxDP(1.0, 1e-5)]


def run(privacy, seed=0, **options):
    return dpfast.minimize(
        X,
        Y,
        dpfast.Objective("tukey", scale=0.5),
        privacy=privacy,
        noise=dpfast.SeededNoise(seed),
        **options,
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("privacy", BUDGETS, ids=repr)
@pytest.mark.values
def test_k4_no_run_spends_more_than_its_total(name, privacy):
    """Exactly: in rational arithmetic on the decimals that were charged."""

    def written(x):
        return Fraction(repr(x))

    for seed in range(2):
        result = run(privacy, seed, **METHODS[name])
        spent = sum(written(mu) ** 2 for _, mu in result.privacy.entries)
        total = result.privacy.total
        concentrated = isinstance(total, dpfast.ZCDP)
        limit = 2 * written(total.rho) if concentrated else written(total.mu) ** 2
        assert spent <= limit
        assert spent <= written(result.privacy.mu) ** 2
        share = 0.94 if name.startswith("spider") else 1 - 1e-6
        assert spent >= Fraction(share) * limit  # and nothing much is wasted


@pytest.mark.parametrize("name", METHODS)
def test_k4_charges_are_what_the_noise_costs(name):
    """Every release is preceded by a charge of mu >= sensitivity / noise scale."""
    transcript = perform(lambda data: run(dpfast.ZCDP(0.2), **METHODS[name]), (X, Y), None)
    assert transcript.returned, transcript.outcome
    paid = None
    answered = 0
    for event in transcript.events:
        if isinstance(event, Charged):
            paid = event.spend.mu if isinstance(event.spend, dpfast.GDP) else None
        elif isinstance(event, Answered):
            release = event.release
            assert paid is not None
            assert release.l2_sensitivity / release.noise_scale <= paid
            assert release.l2_sensitivity / release.noise_scale >= paid * 0.999 - 2e-6
            answered, paid = answered + 1, None
    assert answered >= 3


def test_k4_the_printed_algorithm_3_overspends_and_this_one_does_not():
    """Erratum E3 with this data set: the printed charges leave out the cost of negative norms."""
    n, d, rho, lipschitz = 10_000, 5, 0.5, 1.0
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(10):
        printed = true = 0.0
        while printed <= rho / 2.0:
            norm = rng.normal() * lipschitz / (math.sqrt(n) * rho**0.25)  # at a stationary point
            log = math.log(n * math.sqrt(rho) / 0.05)
            sigma = max(norm / math.sqrt(d * log), 2.0 * lipschitz / (n * math.sqrt(rho)))
            printed += min(lipschitz**2 * d * log / (n * norm) ** 2, rho / 2.0) + math.sqrt(rho) / n
            true += (2.0 * lipschitz / n / sigma) ** 2 / 2.0 + 2.0 * math.sqrt(rho) / n
        worst = max(worst, true / rho)
    assert worst > 1.5
    # with no signal at all (every record the same distance from zero, opposite signs)
    flat = np.tile([[1.0], [-1.0]], (200, 1))
    result = dpfast.minimize(
        flat, np.ones(400), dpfast.Objective("tukey", scale=1.0, fit_intercept=False),
        privacy=dpfast.ZCDP(rho), method=Adaptive(norm_queries=True), noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    assert sum(Fraction(mu) ** 2 for _, mu in result.privacy.entries) <= 2 * Fraction(rho)


def test_an_exhausted_child_cannot_touch_what_the_choice_needs():
    result = run(dpfast.ZCDP(0.3), select="exponential")
    labels = [label for label, _ in result.privacy.entries]
    assert labels[-2:] == ["selection", "loss change"]
    assert labels.count("selection") == 1
    assert result.privacy.unit == "rho"
    descent = sum(Fraction(rho) for _, rho in result.privacy.entries[:-2])
    assert descent <= Fraction(0.3) * Fraction(0.9)
    assert descent + sum(Fraction(rho) for _, rho in result.privacy.entries[-2:]) <= Fraction(0.3)
    assert math.isnan(result.privacy.mu)
    assert result.privacy.epsilon(1e-6) == dpfast.ZCDP(0.3).epsilon(1e-6)
    with pytest.raises(dpfast.InvalidInput, match="zCDP"):
        run(dpfast.GDP(1.0), select="exponential")
    assert (result.iterates == result.params).all(axis=1).any()


def test_a_shared_ledger_is_charged_once_and_first():
    ledger = dpfast.Ledger(dpfast.ZCDP(0.3))
    run(dpfast.ZCDP(0.2), ledger=ledger)
    assert ledger.spent == dpfast.ZCDP(0.2)
    with pytest.raises(dpfast.BudgetExceeded):
        run(dpfast.ZCDP(0.2), ledger=ledger)
    start = [0.2, 0.1, 0.3]
    target = phase_retrieval(3, radius=3.0)
    dpfast.minimize(X, Y, target, privacy=dpfast.ZCDP(0.09), start=start, ledger=ledger)
    assert len(ledger.entries) == 2
