"""Ranges that were released, as declarations of tables."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from tests.loops import each

COLUMNS = {
    "amounts": (lambda rng, n: rng.lognormal(10.0, 1.0, n), 0.0),
    "far from zero": (lambda rng, n: rng.normal(-5e6, 3e5, n), None),
}


def units_of(values, mu, seed=0):
    return dpfast.standardize(
        dpfast.records(values[:, None], 0.0 * values, names=["v"]),
        privacy=mu, response=False, noise=dpfast.SeededNoise(seed),
    )  # fmt: skip


@pytest.mark.parametrize("mu", [1.0, 0.3])
@pytest.mark.parametrize("name", COLUMNS)
def test_quartiles_of_a_column_without_a_range_are_covered(name, mu):
    """60 seeded runs of intervals that cover .95: fewer than 48 of them with probability 4e-6."""
    draw, low = COLUMNS[name]
    truth = np.quantile(draw(np.random.default_rng(99), 400_000), [0.25, 0.5, 0.75])
    covered = np.zeros(3)
    for seed in range(60):
        values = draw(np.random.default_rng(seed), 6000)
        declared = units_of(values, 0.3 * mu, seed + 500).numeric("v", low=low)
        assert low is None or declared.low == low
        found = dpfast.tables.quantiles(
            {"v": values}, "v", None, (0.25, 0.5, 0.75), schema=dpfast.Schema({"v": declared}),
            privacy=0.95 * mu, noise=dpfast.SeededNoise(seed + 900),
        )  # fmt: skip
        covered += (found.low <= truth) & (truth <= found.high)
    assert (covered >= 48).all()


def test_the_range_has_nearly_all_records_and_is_made_of_released_numbers():
    values = np.random.default_rng(0).lognormal(10.0, 1.0, 20_000)
    units = units_of(values, 1.0)
    declared = units.numeric("v")
    assert np.mean((values >= declared.low) & (values <= declared.high)) > 0.99
    assert declared == units.numeric("v") and declared.high < 100.0 * values.max()
    assert units.numeric("v", high=1e5).high == 1e5


@each("wrong", [{"name": "w"}, {"name": 0}, {"low": 1e9}, {"high": -1e9}, {"low": "0"}], ids=str)
def test_public_ends_are_checked(wrong):
    units = units_of(np.random.default_rng(0).lognormal(10.0, 1.0, 20_000), 1.0)
    with pytest.raises(InvalidInput):
        units.numeric(**{"name": "v"} | wrong)


def test_a_column_that_looks_constant_has_no_range():
    with pytest.raises(InvalidInput, match="not found"):
        units_of(np.full(5000, 3.0), 1.0).numeric("v")
