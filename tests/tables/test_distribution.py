"""Distributions by cell: quantiles, shares, inequality, and the noise that they allow for."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast import tables
from dpfast.privacy.tables.prefix_sums import column_norm, mapped_histograms
from dpfast.tables.inequality import (
    gini_functional,
    lorenz_functional,
    mean_functional,
    relative_share_functional,
)
from dpfast.tables.prefix_noise import PrefixNoise
from tests.loops import each

SCHEMA = dpfast.Schema({"pay": dpfast.Numeric(0.0, 400.0), "sex": dpfast.Categorical(["F", "M"])})


def seeded(seed=0):
    return dpfast.SeededNoise(seed)


def pays(n, rng):
    """Log-normal, capped by the declared range, and heaped at tens."""
    drawn = np.exp(3.4 + 0.8 * rng.normal(size=n))
    return np.where(rng.random(n) < 0.3, 10.0 * np.rint(drawn / 10.0), drawn)


def truth(pay):
    pay = np.sort(np.minimum(pay, 400.0))
    ranks = np.arange(1, pay.size + 1)
    poor = pay.searchsorted(0.6 * np.median(pay), "right")
    return {
        "mean": pay.mean(),
        "gini": 2.0 * (ranks @ pay) / (pay.size * pay.sum()) - (pay.size + 1) / pay.size,
        "top": pay[int(0.9 * pay.size) :].sum() / pay.sum(),
        "lorenz": pay[: pay.size // 2].sum() / pay.sum(),
        "poor": poor / pay.size,
        "below": np.mean(pay <= 25.0),
    }


def statistics(found):
    return {
        "mean": found.mean(),
        "gini": found.gini(),
        "top": found.top_share(0.1),
        "lorenz": found.lorenz(0.5),
        "poor": found.poverty_rate(0.6),
        "below": found.share_below(25.0),
    }


def test_without_noise_to_speak_of_all_statistics_are_those_of_the_records():
    rng = np.random.default_rng(0)
    pay = pays(5000, rng)
    sex = rng.choice(["F", "M"], 5000)
    found = tables.distribution(
        {"pay": pay, "sex": sex}, "pay", "sex", schema=SCHEMA, privacy=3000.0, noise=seeded()
    )
    for k, label in enumerate("FM"):
        own = pay[sex == label]
        exact = truth(own)
        for name, result in statistics(found).items():
            assert result.estimate[k] == pytest.approx(exact[name], rel=0.01), name
        quartiles = found.quantiles((0.25, 0.5, 0.75)).quantile[:, k]
        np.testing.assert_allclose(quartiles, np.quantile(own, (0.25, 0.5, 0.75)), rtol=0.02)


@pytest.mark.parametrize(("n", "mu"), [(1500, 1.0), (6000, 0.3)])
@pytest.mark.one_in(2)
def test_intervals_of_all_statistics_cover(n, mu):
    """Of 100 intervals at .95 fewer than 85 cover with a chance below 1e-4."""
    rng = np.random.default_rng(3)
    exact = truth(pays(1_000_000, rng))
    wide = np.quantile(np.minimum(pays(1_000_000, rng), 400.0), (0.1, 0.5, 0.9))
    hits = {name: [] for name in (*exact, "quantiles")}
    for run in range(100):
        table = {"pay": pays(n, rng)}
        found = tables.distribution(
            table, "pay", schema=SCHEMA, privacy=mu, noise=seeded(run), bins=1024
        )
        for name, result in statistics(found).items():
            low, high = result.conf_int()
            hits[name].append(low <= exact[name] <= high)
        points = found.quantiles((0.1, 0.5, 0.9))
        hits["quantiles"].append(
            ((points.low <= wide + 0.01) & (wide - 0.01 <= points.high)).mean()
        )
    for name, all_runs in hits.items():
        assert np.mean(all_runs) >= 0.85, (name, np.mean(all_runs))


def test_the_interval_of_a_quantile_is_never_empty_and_holds_the_heap():
    """Half of the records are zeros: the interval of the median at the heap is one bin."""
    rng = np.random.default_rng(5)
    for run in range(20):
        pay = np.where(rng.random(4000) < 0.7, 0.0, 400.0 * rng.random(4000))
        found = tables.quantiles(
            {"pay": pay}, "pay", None, (0.5, 0.99), schema=SCHEMA, privacy=1.0, noise=seeded(run)
        )
        assert found.low[0] == 0.0 and found.high[0] <= 400.0 / 4096 * 1.001
        assert (found.low <= found.quantile).all() and (found.quantile <= found.high).all()
        assert found.low[1] < 388.0 <= found.high[1] or abs(found.quantile[1] - 388.0) < 20.0


@each("bins", [2, 7, 300])
def test_the_noise_of_prefix_sums_has_the_covariance_that_is_stated(bins):
    """From 4,000 draws a variance is within 15% with a chance of 1 - 1e-10."""
    rng = np.random.default_rng(bins)
    noise = PrefixNoise(bins, 3.0 * math.sqrt(2.0) * column_norm(bins), 2.0)
    counts = rng.integers(0, 9, (1, bins))
    drawn = mapped_histograms(counts) + noise.scale * rng.normal(size=(4000, bins))
    below = noise.below(drawn, counts.sum() + noise.count_scale * rng.normal(size=4000))
    errors = below - np.cumsum(counts)
    assert np.abs(errors.mean(axis=0) / errors.std(axis=0)).max() < 0.08
    variances, with_last = noise.variances()
    np.testing.assert_allclose(errors.var(axis=0), variances, rtol=0.15)
    shared = errors.T @ errors[:, -1] / 4000
    assert np.abs(shared - with_last).max() < 0.1 * np.sqrt(variances * variances[-1]).max()
    weights = rng.normal(size=(3, bins))
    np.testing.assert_allclose(
        (errors @ weights.T).var(axis=0), noise.variance_of(weights), rtol=0.15
    )


def test_weights_are_derivatives_of_the_functionals():
    rng = np.random.default_rng(1)
    edges = np.concatenate([[0.0], np.cumsum(rng.uniform(0.5, 2.0, 40))])
    share = np.cumsum(rng.dirichlet(np.ones(40)))
    change = 1e-6 * rng.normal(size=40)
    functionals = {
        "mean": lambda f: mean_functional(f, edges),
        "gini": lambda f: gini_functional(f, edges, np.zeros(40)),
        "lorenz": lambda f: lorenz_functional(f, edges, 0.4),
        "share": lambda f: relative_share_functional(f, edges, 0.6, 20.0, 5.0),
    }
    for name, of in functionals.items():
        value, weights = of(share)
        if name == "share":  # the median stands still here
            continue
        moved = of(np.maximum.accumulate(share + change)).value - value
        expected = weights @ (np.maximum.accumulate(share + change) - share)
        assert moved == pytest.approx(expected, rel=1e-3, abs=1e-9), name


def test_edges_of_ones_own():
    pay = np.repeat([5.0, 15.0, 25.0, 300.0], [100, 200, 300, 400])
    found = tables.distribution(
        {"pay": pay}, "pay", schema=SCHEMA, privacy=3000.0, bins=[10.0, 20.0, 30.0], noise=seeded()
    )
    assert found.edges.tolist() == [0.0, 10.0, 20.0, 30.0, 400.0]
    np.testing.assert_allclose(found.below, [100.0, 300.0, 600.0, 1000.0], atol=0.1)
    assert found.share_below(20.0).estimate == pytest.approx(0.3, abs=1e-3)
    assert found.share_below(20.0).bse == pytest.approx(math.sqrt(0.3 * 0.7 / 1000.0), rel=0.02)
    pytest.importorskip("pandas")
    assert found.to_frame()["share"].tolist() == pytest.approx([0.1, 0.3, 0.6, 1.0], abs=1e-3)
    assert "share up to 20 of pay" in str(found.share_below(20.0).summary())


REFUSED = [
    ({"bins": 1}, "bins"),
    ({"bins": 1 << 20}, "bins"),
    ({"bins": [20.0, 10.0]}, "increase within"),
    ({"bins": [0.0, 10.0]}, "increase within"),
    ({"bins": "many"}, "bins"),
    ({"column": "sex"}, "declared categorical"),
    ({"column": 3}, "name of one"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_is_refused_is_refused_before_the_charge(options, said):
    ledger = dpfast.Ledger(1.0)
    arguments = {"column": "pay", "schema": SCHEMA, "privacy": 0.5, "ledger": ledger} | options
    with pytest.raises(dpfast.InvalidInput, match=said):
        tables.distribution({"pay": np.ones(50), "sex": ["F"] * 50}, **arguments)
    assert not ledger.entries


def test_statistics_of_amounts_are_refused_for_negative_ranges():
    schema = dpfast.Schema({"gain": dpfast.Numeric(-5.0, 5.0)})
    found = tables.distribution(
        {"gain": np.linspace(-5.0, 5.0, 3000)}, "gain", schema=schema, privacy=1.0, noise=seeded()
    )
    for ask in (found.gini, found.poverty_rate, lambda: found.top_share(0.1)):
        with pytest.raises(dpfast.InvalidInput, match="not negative"):
            ask()
    with pytest.raises(dpfast.InvalidInput, match="within the declared range"):
        found.share_below(7.0)
    with pytest.raises(dpfast.InvalidInput, match="between 0 and 1"):
        found.quantiles((0.0,))
    assert found.mean().conf_int()[0] < 0.0 < found.mean().conf_int()[1]


def test_suppressed_cells_have_no_statistics():
    table = {"pay": np.full(2000, 30.0), "sex": ["F"] * 2000}
    found = tables.distribution(table, "pay", "sex", schema=SCHEMA, privacy=1.0, noise=seeded())
    assert found.told.tolist() == [True, False]
    for result in statistics(found).values():
        assert np.isnan(result.estimate[1]) and np.isnan(result.conf_int()[1]).all()
    assert "too small" in str(found.gini().summary())
