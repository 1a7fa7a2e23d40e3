"""Kaplan-Meier curves from a released distribution of times by event (claim T5)."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.tables.prefix_noise import PrefixNoise
from dpfast.tables.survival import noise_variance, survival_of_counts

SCHEMA = dpfast.Schema({
    "weeks": dpfast.Numeric(0, 60), "died": dpfast.Categorical([0, 1]),
    "drug": dpfast.Categorical(["no", "yes"]),
})  # fmt: skip
SCALES = {"no": 15.0, "yes": 25.0}
CUTS = [2, 4, 6, 8, 10, 13, 16, 20, 25, 30, 36, 42, 50]


def population(n, seed):
    rng = np.random.default_rng([seed, 3])
    drug = np.array([*SCALES])[rng.integers(0, 2, n)]
    time = np.array([SCALES[d] for d in drug]) * rng.weibull(1.3, n)
    left = rng.uniform(0.0, 80.0, n)
    return {"weeks": np.minimum(time, left), "died": 1 * (time <= left), "drug": drug}


def released(table, seed=0, **options):
    asked = {"schema": SCHEMA, "bins": CUTS, "privacy": 1.0, "noise": dpfast.SeededNoise(seed)}
    return dpfast.tables.distribution(table, "weeks", ["drug", "died"], **asked | options)


def product_limit(time, died, at):
    """Kaplan and Meier by hand."""
    order = np.argsort(time)
    at_risk = np.arange(len(time), 0, -1)
    factors = np.where(died[order] == 1, 1.0 - 1.0 / at_risk, 1.0)
    return np.array([factors[time[order] <= t].prod() for t in at])


def test_nearly_without_noise_it_is_the_product_limit():
    table = population(20_000, 0)
    curve = released(table, privacy=1000.0, bins=np.arange(0.25, 60.0, 0.25)).survival("died")
    assert curve.by == ("drug", "weeks")
    times = np.array(curve.levels[1])
    for row, drug in enumerate(SCALES):
        of = table["drug"] == drug
        exact = product_limit(table["weeks"][of], table["died"][of], times)
        early = times < 40.0
        assert np.abs(curve.estimate[row] - exact)[early].max() < 0.01
    assert "survival" in str(curve.summary())
    assert len(curve.to_frame()) == curve.estimate.size


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_intervals_hold_the_survival_of_either_group(mu):
    """200 curves of ten points: within .925 and .985, where the points of a curve go together."""
    hits = []
    for seed in range(100):
        curve = released(population(4000, seed), seed, privacy=mu).survival("died")
        times = np.array(curve.levels[1][:10])
        for row, scale in enumerate(SCALES.values()):
            low, high = curve.conf_int()[row, :10].T
            truth = np.exp(-((times / scale) ** 1.3))
            shown = np.isfinite(low)
            hits += ((low <= truth) & (truth <= high))[shown].tolist()
    assert len(hits) > 1500
    assert 0.925 < np.mean(hits) < 0.985


def test_a_variance_by_noise_is_that_of_many_noises():
    rng = np.random.default_rng(4)
    counts = rng.multinomial(3000, np.full(24, 1 / 24)).astype(float).reshape(2, 12)
    came, left = np.cumsum(counts, axis=1)
    noise = PrefixNoise(12, 6.0, 4.0)
    shown = np.array([2, 7])
    exact = survival_of_counts(came, left, noise, shown)
    curves = []
    for _ in range(4000):
        pair = []
        for below in (came, left):
            mapped = np.linalg.solve(left_matrix(12), below) + 6.0 * rng.normal(size=12)
            pair.append(noise.below(mapped[None], np.array([below[-1] + 4.0 * rng.normal()]))[0])
        curves.append(survival_of_counts(*pair, noise, shown).survival)
    quiet = PrefixNoise(12, 1e-9, 1e-9)
    sampled = survival_of_counts(came, left, quiet, shown).error
    of_noise = np.sqrt(exact.error**2 - sampled**2)
    np.testing.assert_allclose(np.std(curves, axis=0), of_noise, rtol=0.15)
    assert noise_variance(np.array([-0.1]), np.array([0.0]), noise) > 0.0


def left_matrix(n):
    from dpfast.tables.prefix_noise import left_coefficients

    column = left_coefficients(n)
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def test_where_few_are_at_risk_the_curve_ends_and_other_groupings_are_refused():
    times = released(population(1500, 1), least=300.0)
    curve = times.survival("died", came=1)
    assert np.isfinite(curve.estimate[:, 0]).all() and np.isnan(curve.estimate[:, -1]).all()
    assert (curve.estimate[0, :5] >= times.survival("died", came=0).estimate[0, :5] - 1.0).all()
    for wrong in ({"event": "weeks"}, {"event": "nobody"}, {"event": "died", "came": 7}):
        with pytest.raises(InvalidInput):
            times.survival(**wrong)
