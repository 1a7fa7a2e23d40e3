"""DP-SGD: exact sampling, accounting under replacement, and the method itself."""

from __future__ import annotations

import json
import math
import pickle
import sys
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

import dpfast
from bench.rivals import literature
from bench.rivals.literature import amplification
from bench.rivals.literature.amplification import noise_multiplier, sampled_epsilon
from bench.rivals.literature.subsample import (
    SampledGradients,
    gap_rate,
    plan_sampling,
    poisson_sample,
)
from dpfast.curator import Curator
from dpfast.data import Records
from dpfast.models import Clip, Huber, Objective
from tests.curator.test_curator import Blocks, Untouchable
from tests.loops import each
from tests.watching import watched

BUDGET, LESS = dpfast.ApproxDP(2.0, 1e-6), dpfast.ApproxDP(0.3, 1e-5)


def needs_accounting():
    pytest.importorskip("dp_accounting")


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 1.0 + X @ [1.0, -0.5] + 0.5 * rng.normal(size=n)


def descent(**settings):
    return dpfast.optimize.GradientDescent(**{"average": 0.5} | settings)


def fit(X, y, **options):
    options = {"clip": 2.0, "privacy": BUDGET, "noise": dpfast.SeededNoise(0)} | options
    return literature.dp_sgd(X, y, "least-squares", **options)


def curator(X, y, total=BUDGET, records=Records, noise=None):
    objective = Objective(Huber(), Clip(2.0), 2, scale=1.0)
    noise = noise or dpfast.SeededNoise(0)
    return Curator(records(X, y, None), objective, dpfast.Ledger(total), noise)


# ---- B7: the samples -----------------------------------------------------------------------------


@pytest.mark.parametrize("source", [dpfast.SeededNoise(1), dpfast.privacy.EntropyNoise()], ids=repr)
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
@pytest.mark.values
def test_b7_each_record_is_sampled_independently(source, rate):
    """20,000 times 12 records: every record, every pair, and the size of the sample.

    A sample of 48 records is four of 12, of which the law says that they are independent, too;
    every fourth begins where a sample begins and every fourth ends where one ends.
    12 + 66 + 1 normal tests at 5.6 standard deviations: false-failure below 2e-6 in total.  A
    rate off by 5% of its standard deviation per draw (0.3: 0.02) is caught with power above 0.9.
    """
    n, repetitions = 12, 20_000
    inside = np.zeros((repetitions, n))
    for rows in inside.reshape(-1, 4 * n):
        rows[poisson_sample(4 * n, rate, source)] = 1.0
    limit = 5.6 / math.sqrt(repetitions)
    spread = math.sqrt(rate * (1 - rate))
    assert np.all(np.abs(inside.mean(axis=0) - rate) <= limit * spread)
    z = (inside - rate) / spread
    products = z.T @ z / repetitions
    # a product of two standardised Bernoulli variables has variance one; its tails are heavier
    # than normal for small rates, hence the factor
    assert np.all(np.abs(products - np.diag(np.diag(products))) <= 1.6 * limit)
    sizes = inside.sum(axis=1)
    assert abs(sizes.mean() - n * rate) <= limit * math.sqrt(n) * spread
    # variance of the size: kurtosis of a sum of 12 is nearly normal except for small rates
    assert sizes.var() / (n * spread**2) == pytest.approx(1.0, abs=0.12)


def test_b7_the_rate_is_rounded_down():
    from fractions import Fraction

    mpmath = pytest.importorskip("mpmath")
    for rate in (1e-9, 1e-3, 0.1, 1 / 3, 0.5, 0.999, 1 - 2.0**-53):
        numerator, denominator = gap_rate(rate)
        with mpmath.workdps(50):
            exact = -mpmath.expm1(-mpmath.mpf(numerator) / denominator)
            short = mpmath.mpf(Fraction(rate).numerator) / Fraction(rate).denominator - exact
        assert 0 <= short <= 2.0**-44


def test_b7_samples_are_sorted_indices_without_repetition():
    source = dpfast.SeededNoise(0)
    for n in (1, 2, 1000):
        for rate in (1e-6, 0.5, 0.999999):
            sample = poisson_sample(n, rate, source)
            assert np.all(np.diff(sample) > 0)
            assert sample.size == 0 or (sample[0] >= 0 and sample[-1] < n)


# ---- accounting ----------------------------------------------------------------------------------


def pair_densities(x, q, s):
    def normal(m):
        return np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi)

    return (1 - q) * normal(0) + q * normal(s), (1 - q) * normal(0) + q * normal(-s)


def exact_delta(epsilon, q, multiplier, n_steps):
    """Divergence of one or two steps of the dominating pair, by quadrature."""
    s = 1 / multiplier
    x = np.linspace(-9 - s, 9 + s, 6001)
    p1, p2 = pair_densities(x, q, s)
    weight = x[1] - x[0]
    loss = np.log(p1 / p2)
    if n_steps == 1:
        return float(np.sum(np.maximum(p1 - np.exp(epsilon) * p2, 0)) * weight)
    order = np.argsort(loss)
    sorted_loss = loss[order]
    above1 = np.concatenate([np.cumsum((p1 * weight)[order][::-1])[::-1], [0.0]])
    above2 = np.concatenate([np.cumsum((p2 * weight)[order][::-1])[::-1], [0.0]])
    first = np.searchsorted(sorted_loss, epsilon - loss)
    return float(np.sum((p1 * above1[first] - np.exp(epsilon) * p2 * above2[first]) * weight))


@pytest.mark.parametrize("n_steps", [1, 2])
@pytest.mark.parametrize(("q", "multiplier"), [(0.1, 0.8), (0.5, 1.5), (1.0, 3.0)])
@pytest.mark.values
def test_accounting_agrees_with_direct_integration(q, multiplier, n_steps, monkeypatch):
    needs_accounting()
    monkeypatch.setattr(amplification, "_losses", cache(amplification._losses))  # for both deltas
    for delta in (1e-2, 1e-4):
        epsilon = sampled_epsilon(multiplier, q, n_steps, delta)
        exact = exact_delta(epsilon, q, multiplier, n_steps)
        assert exact <= delta * (1 + 5e-3)  # sound, to the accuracy of the quadrature
        assert exact >= 0.97 * delta


@pytest.mark.parametrize("n_steps", [1, 30])
def test_accounting_without_sampling_is_gaussian(n_steps):
    """q = 1: n steps of noise multiplier m are 2 sqrt(n)/m-GDP, exactly."""
    needs_accounting()
    multiplier = noise_multiplier(BUDGET, 1.0, n_steps)
    needed = 2 * math.sqrt(n_steps) / dpfast.GDP.within(BUDGET).mu
    assert needed * (1 - 1e-9) <= multiplier <= needed * 1.002


@pytest.mark.parametrize(
    ("budget", "q", "n_steps"),
    [
        pytest.param(BUDGET, 0.01, 500, marks=pytest.mark.slow),  # ten times as long as all others
        (dpfast.ApproxDP(0.3, 1e-5), 0.5, 50),
        pytest.param(BUDGET, 0.1, 200, marks=pytest.mark.slow),
        *[
            pytest.param(*planned, marks=pytest.mark.slow)
            for planned in (
                (BUDGET, 0.5, 50),
                (dpfast.ApproxDP(0.3, 1e-5), 0.01, 500),
                (dpfast.ApproxDP(0.3, 1e-5), 0.1, 200),
            )
        ],
    ],
    ids=repr,
)
def test_the_noise_multiplier_is_enough_and_hardly_more(q, n_steps, budget):
    needs_accounting()
    multiplier = noise_multiplier(budget, q, n_steps)
    fine = {"interval": 3e-5}
    assert sampled_epsilon(multiplier, q, n_steps, budget.delta, **fine) <= budget.epsilon * 1.0001
    assert sampled_epsilon(multiplier * 0.98, q, n_steps, budget.delta, **fine) > budget.epsilon
    # sampling helps: without it 2 sqrt(K)/m would be needed
    assert multiplier < 2 * math.sqrt(n_steps) / dpfast.GDP.within(budget).mu


def test_addition_or_removal_would_have_used_less_noise():
    """What a caller who forgot the neighbouring relation would get: an under-noised fit."""
    needs_accounting()
    from dp_accounting.pld import privacy_loss_distribution

    multiplier = noise_multiplier(BUDGET, 0.1, 200)
    wrong = privacy_loss_distribution.from_gaussian_mechanism(multiplier, sampling_prob=0.1)
    assert wrong.self_compose(200).get_epsilon_for_delta(BUDGET.delta) < 0.8 * BUDGET.epsilon


@pytest.mark.slow
def test_the_power_of_a_test_against_the_claim():
    """Simulated attack on one step at the worst pair: the likelihood-ratio test stays below
    e^eps alpha + delta, and comes within 90% of it at a large delta."""
    needs_accounting()
    budget, q, repetitions = dpfast.ApproxDP(0.5, 0.05), 0.3, 200_000
    multiplier = noise_multiplier(budget, q, 1)
    s = 1 / multiplier
    x = np.linspace(-8, 8, 4001)
    p1, p2 = pair_densities(x, q, s)
    threshold = x[np.argmax(p1 > math.exp(budget.epsilon) * p2)]
    rng = np.random.default_rng(0)
    z, sampled = rng.normal(size=(2, repetitions)), rng.random((2, repetitions)) < q
    power = np.mean(z[0] + s * sampled[0] > threshold)
    level = np.mean(z[1] - s * sampled[1] > threshold)
    excess = power - math.exp(budget.epsilon) * level
    error = 4.9 * math.sqrt(1.25 / repetitions)  # false-failure 1e-6
    assert 0.9 * budget.delta - error <= excess <= budget.delta + error
    assert ndtr(-threshold + s) > 0


def test_small_deltas_are_refused():
    for delta in (1e-11, 1e-300):
        with pytest.raises(dpfast.errors.InvalidBudget, match="rounding errors"):
            noise_multiplier(dpfast.ApproxDP(1.0, delta), 0.1, 10)


def test_a_missing_accounting_library_is_named(monkeypatch):
    noise_multiplier.cache_clear()
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    X, y = data(50)
    ledger = dpfast.Ledger(BUDGET)
    with pytest.raises(ImportError, match=r"pip install 'dpfast\[accounting\]'"):
        fit(X, y, ledger=ledger)
    assert not ledger.entries


# ---- the curator's sampled gradients -------------------------------------------------------------


def test_a_sequence_is_paid_for_at_once_and_ends():
    needs_accounting()
    keeper = curator(*data(50))
    plan = plan_sampling(keeper, BUDGET, 0.2, 3)
    assert not keeper.ledger.entries
    gradients = SampledGradients(keeper, plan)
    assert keeper.ledger.spent == BUDGET
    for _ in range(3):
        gradients.gradient(np.zeros(3))
    with pytest.raises(dpfast.BudgetExceeded, match="all 3"):
        gradients.gradient(np.zeros(3))
    with pytest.raises(dpfast.BudgetExceeded):
        SampledGradients(keeper, plan)


def test_a_plan_cannot_be_forged():
    needs_accounting()
    keeper = curator(*data(50), records=Untouchable)
    plan = plan_sampling(keeper, BUDGET, 0.2, 3)
    with pytest.raises(dpfast.InvalidInput, match="another curator"):
        SampledGradients(keeper, plan._replace(multiplier=plan.multiplier / 2))
    with pytest.raises(dpfast.InvalidInput, match="another curator"):
        SampledGradients(keeper, plan._replace(receipt=plan.receipt._replace(noise_scale=1e-3)))
    assert not keeper.ledger.entries


def test_a_gaussian_ledger_cannot_pay():
    needs_accounting()
    keeper = curator(*data(50), total=dpfast.GDP(100.0), records=Untouchable)
    plan = plan_sampling(keeper, BUDGET, 0.2, 3)
    with pytest.raises(TypeError):
        SampledGradients(keeper, plan)


@pytest.mark.parametrize("records", [Records, Blocks])
@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_values_are_sums_over_the_sample(rate, records):
    """The exact value, seen by an observer, equals the sum over the sample drawn alongside."""
    needs_accounting()
    X, y = data(50)
    keeper = curator(X, y, records=records, noise=dpfast.SeededNoise(5))
    gradients = SampledGradients(keeper, plan_sampling(keeper, BUDGET, rate, 3))
    theta, answers = np.array([0.1, 0.2, -0.3]), []
    seen = watched(lambda: answers.extend([gradients.gradient(theta) for _ in range(3)]))
    twin = dpfast.SeededNoise(5)
    from dpfast.privacy.mechanisms import grid_bits

    for release, answer in zip(seen, answers, strict=True):
        sample = np.arange(50) if rate == 1.0 else poisson_sample(50, rate, twin)
        twin.normals(3, grid_bits(3))
        A = np.column_stack([np.ones(50), X])[sample]
        scores = -np.clip(y[sample] - A @ theta, -1.345, 1.345)[:, None] * A
        scores *= np.minimum(1, 2.0 / np.linalg.norm(scores, axis=1))[:, None]
        np.testing.assert_allclose(release.value, scores.sum(axis=0) / (rate * 50), atol=1e-14)
        assert release.noise_scale == answer.noise_scale
        assert release.claim == "B6"
    multiplier = noise_multiplier(BUDGET, rate, 3)
    assert seen[0].noise_scale == pytest.approx(multiplier * 2.0 / (rate * 50), rel=1e-4)
    assert seen[0].noise_scale >= multiplier * 2.0 / (rate * 50)


# ---- the method ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_large_budget_gives_the_exact_answer():
    needs_accounting()
    X, y = data(20_000)
    exact = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]
    for rate in (0.2, 1.0):
        result = fit(
            X, y, privacy=dpfast.ApproxDP(30.0, 1e-5), clip=20.0, sampling_rate=rate,
            method=descent(steps=60, step_size=0.5),
        )  # fmt: skip
        np.testing.assert_allclose(result.params, exact, atol=0.02)


@pytest.mark.slow
def test_the_guarantee_is_a_pair():
    needs_accounting()
    X, y = data()
    result = fit(X, y, method=descent(steps=20))
    privacy = result.privacy
    assert privacy.equivalents() == [(2.0, 1e-6)]
    assert privacy.epsilon(1e-6) == 2.0
    assert privacy.epsilon(1e-5) <= 2.0
    assert privacy.epsilon(1e-9) > 2.0  # only the weaker, Gaussian statement covers it
    assert privacy.mu == pytest.approx(2 * math.sqrt(20) / noise_multiplier(BUDGET, 0.1, 20))
    assert math.hypot(*(mu for _, mu in privacy.entries)) <= privacy.mu
    text = result.summary()
    assert "epsilon = 2 at delta = 1e-06, one" in text
    assert "none (simulation)" in text
    copy = pickle.loads(pickle.dumps(result))
    assert str(copy.privacy) == str(privacy)
    assert copy.privacy.equivalents() == privacy.equivalents()
    json.dumps(result.to_dict())
    assert (
        fit(X, y, method=descent(steps=20), noise=None).privacy.guarantee == "(epsilon, delta)-DP"
    )


@pytest.mark.slow
def test_other_currencies_need_a_delta():
    needs_accounting()
    X, y = data(100)
    pair = dpfast.GDP(0.5).as_approx(1e-5)
    result = fit(X, y, privacy=0.5, delta=1e-5, method=descent(steps=5))
    assert result.privacy.total.values() == pair.values()
    with pytest.raises(dpfast.InvalidInput, match="delta"):
        fit(X, y, privacy=0.5)
    with pytest.raises(dpfast.InvalidInput, match="its own delta"):
        fit(X, y, delta=1e-5)
    with pytest.raises(dpfast.errors.InvalidBudget, match="pure"):
        fit(X, y, privacy=dpfast.PureDP(1.0), delta=1e-5)


@pytest.mark.slow
def test_a_shared_ledger_pays_in_pairs():
    needs_accounting()
    X, y = data(100)
    ledger = dpfast.Ledger(BUDGET)
    fit(X, y, ledger=ledger, method=descent(steps=5))
    assert ledger.spent == BUDGET
    with pytest.raises(dpfast.BudgetExceeded):
        fit(X, y, ledger=ledger, method=descent(steps=5))
    gaussian = dpfast.Ledger(dpfast.GDP(10.0))
    with pytest.raises(TypeError):
        fit(X, y, ledger=gaussian, method=descent(steps=5))
    assert not gaussian.entries


@pytest.mark.parametrize("seed", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3)]])
def test_hostile_values_neither_raise_nor_warn(seed):
    needs_accounting()
    rng = np.random.default_rng(seed)
    extremes = np.array([0.0, 1.0, 5e-324, 1e200, -1e308, np.inf, -np.inf, np.nan])
    X, y = rng.choice(extremes, (30, 2)), rng.choice(extremes, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = fit(X, y, method=descent(steps=5))
    assert np.isfinite(result.params).all()


@each(
    ("rate", "settings", "match"),
    [
        (0.0, {}, "sampling_rate"),
        (1.5, {}, "sampling_rate"),
        (0.5, {"steps": 0}, "steps"),
        (0.5, {"average": 1.0}, "average"),
        (0.5, {"step_size": -1.0}, "step_size"),
        (0.5, {"start": [0.0]}, "start"),
    ],
)
def test_what_is_refused(rate, settings, match):
    with pytest.raises(dpfast.InvalidInput, match=match):
        fit(*data(50), sampling_rate=rate, method=descent(**settings))


def test_progress_and_path():
    needs_accounting()
    calls = []
    result = fit(
        *data(50), method=descent(steps=5, average=0.0),
        progress=lambda k, n: calls.append((k, n)),
    )  # fmt: skip
    assert calls == [(k, 5) for k in range(6)]
    assert result.iterates.shape == (6, 3)
    assert np.array_equal(result.iterates[-1], result.params)
