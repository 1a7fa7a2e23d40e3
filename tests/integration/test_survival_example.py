"""The worked example of survival: what it prints is near the truth, and within its total."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import dpfast

PATH = Path(__file__).parents[2] / "examples" / "survival.py"


def example():
    spec = importlib.util.spec_from_file_location("survival_example", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("centre", "unit"), [(0.0, 1.0), (1000.0, 30.0)])
def test_hazard_ratios_are_found(centre, unit):
    """Within 6 standard errors, beyond which one of two normal estimates is with 4e-9; in units of
    which nobody said anything."""
    survival = example()
    X, time, event = survival.simulated(5000, 3)
    X = np.column_stack([X[:, 0], centre + unit * X[:, 1]])
    found = survival.fit(X, time, event, 1.0, ["a", "b"], dpfast.SeededNoise(3))
    assert (np.abs(found.params[1:] - [0.7, -0.4 / unit]) <= 6.0 * found.bse[1:]).all()
    assert (found.bse[1:] * [1.0, unit] < 0.06).all()
    assert not found.warnings


def test_the_baseline_undoes_what_the_spread_does():
    """Times of persons with normal log hazards, whose baseline is t."""
    survival = example()
    z = np.random.default_rng(0).normal(size=400_000)
    times = np.array([0.1, 0.5, 1.0, 3.0])
    left = np.exp(-times[:, None] * np.exp(0.8 * z)).mean(axis=1)
    np.testing.assert_allclose(survival.baseline(-np.log(left), 0.8), times, rtol=0.02)
    np.testing.assert_allclose(survival.baseline(times, 0.0), times, rtol=1e-3)


def test_everything_is_paid_within_the_total():
    survival = example()
    _, time, event = survival.simulated(2000, 1)
    ledger = dpfast.Ledger(dpfast.GDP(0.5))
    survival.cumulative_hazard(time, event, 0.5, ledger)
    assert len(ledger.entries) == 2
