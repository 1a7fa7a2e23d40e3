"""Difference in differences and event studies as formulas, with declared periods and persons."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast

PERIODS = np.array([-2, -1, 0, 1, 2])
YEAR = "C(period, levels=[-1, -2, 0, 1, 2])"
FORMULA = f"y ~ {YEAR} + treated + treated:{YEAR}"

#: Effects in the periods -2, 0, 1 and 2, relative to -1.
EFFECTS = np.array([0.0, 0.5, 0.7, 0.9])


def panel(persons, rng, pre_trend=0.0):
    """Persons with levels of their own and errors that go on from year to year."""
    who, period = np.repeat(np.arange(persons), 5), np.tile(PERIODS, persons)
    treated = rng.integers(0, 2, persons)[who]
    effect = np.where(period >= 0, 0.5 + 0.2 * period, 0.0) - pre_trend * (period == -2)
    drift = np.cumsum(0.5 * rng.normal(size=(persons, 5)), axis=1).ravel()
    y = rng.normal(size=persons)[who] + treated + 0.1 * period + treated * effect + drift
    return {"who": who, "period": period, "treated": treated, "y": y + rng.normal(size=len(who))}


def exact(table):
    """Within estimator with standard errors of persons as clusters."""
    who, y = table["who"], table["y"]
    own = (table["period"][:, None] == np.array([-2, 0, 1, 2])) * 1.0
    X = np.column_stack([own, own * table["treated"][:, None]])
    whole = np.column_stack([X, y]).reshape(-1, 5, 9)
    X, y = np.split((whole - whole.mean(axis=1, keepdims=True)).reshape(-1, 9), [8], axis=1)
    bread = np.linalg.inv(X.T @ X)
    params = bread @ (X.T @ y[:, 0])
    rows = (X * (y[:, 0] - X @ params)[:, None]).reshape(-1, 5, 8).sum(axis=1)
    assert len(rows) == who[-1] + 1
    return params[4:], np.sqrt(np.diag(bread @ rows.T @ rows @ bread))[4:]


def studied(table, mu, seed):
    source = dpfast.records(table, group="who", each="person", effects="person")
    fit = dpfast.fit(FORMULA, source, privacy=mu, noise=dpfast.SeededNoise(seed))
    events = [j for j, name in enumerate(fit.names) if name.startswith("treated:")]
    return fit, events


@pytest.mark.parametrize(("mu", "most"), [(1.0, 1.3), (0.3, 2.0)])
def test_an_event_study_covers_its_effects(mu, most):
    """Of 80 intervals of 95% fewer than 68 have a chance below 1e-3 if they are independent."""
    rng, covered, widths = np.random.default_rng(5), [], []
    for run in range(20):
        table = panel(4000, rng)
        fit, events = studied(table, mu, run)
        assert [fit.names[j] for j in events] == [f"treated:period[{k}]" for k in (-2, 0, 1, 2)]
        low, high = fit.conf_int()[events].T
        covered.append((low <= EFFECTS) & (high >= EFFECTS))
        widths.append(np.asarray(fit.bse)[events] / exact(table)[1])
    assert np.mean(covered) >= 0.85
    assert 1.0 <= np.median(widths) <= most


def test_it_is_the_within_estimator_with_clustered_errors():
    table = panel(4000, np.random.default_rng(6))
    fit, events = studied(table, 300.0, 0)
    params, errors = exact(table)
    assert np.abs(np.asarray(fit.params)[events] - params).max() < 0.05 * errors.max()
    np.testing.assert_allclose(np.asarray(fit.bse)[events], errors, rtol=0.05)
    assert any("treated" in said and "constant" in said for said in fit.warnings)


@pytest.mark.parametrize(("trend", "rejected"), [(0.0, False), (0.5, True)])
def test_a_trend_before_the_event_is_seen(trend, rejected):
    table = panel(4000, np.random.default_rng(7), trend)
    fit, _ = studied(table, 1.0, 3)
    assert (fit.wald_test("`treated:period[-2]` = 0").pvalue < 0.01) == rejected


def test_two_groups_and_two_periods_are_a_product():
    rng, covered = np.random.default_rng(8), 0
    for run in range(20):
        high, after = rng.integers(0, 2, (2, 6000))
        y = 1.0 + 0.3 * high + 0.1 * after + 0.2 * high * after + rng.normal(size=6000)
        table = {"y": y, "high": high, "after": after}
        fit = dpfast.fit("y ~ high * after", table, privacy=1.0, noise=dpfast.SeededNoise(run))
        low, high_end = fit.conf_int()[fit.names.index("high:after")]
        covered += low <= 0.2 <= high_end
    assert covered >= 16
