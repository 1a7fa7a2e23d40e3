"""The searches DP-GIBO is compared with."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.baselines import global_search, noisy_descent, nonprivate_gibo
from dpfast.bayesopt import SearchSettings
from dpfast.errors import InvalidInput

N = 300
CENTRE = np.array([0.5, -0.5])
X = np.random.default_rng(0).normal(CENTRE, 0.2, size=(N, 2))
BOX = [(-2.0, 2.0)] * 2


def losses(theta):
    return np.sum((X - theta) ** 2, axis=1)


def gradients(theta):
    return 2.0 * (theta - X)


def test_global_search_finds_the_minimum_in_two_dimensions():
    found = global_search(
        losses, BOX, privacy=5.0, n_records=N, loss_range=(0.0, 8.0), evaluations=30,
        start=[-1.0, 1.0], noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert np.linalg.norm(found.theta - CENTRE) < 0.5
    assert found.path.shape == (30, 2)
    assert np.abs(found.path).max() <= 2.0
    assert len(found.privacy.entries) == 30
    assert sum(mu**2 for _, mu in found.privacy.entries) <= 25.0
    assert np.array_equal(found.path[0], [-1.0, 1.0])


def test_noisy_descent_finds_the_minimum():
    found = noisy_descent(
        gradients, BOX, privacy=2.0, n_records=N, clip=4.0, steps=60,
        update=dpfast.bayesopt.Plain(0.1), average=0.3, start=[-1.5, 1.5],
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert np.linalg.norm(found.theta - CENTRE) < 0.2
    assert found.privacy.mu == 2.0
    with pytest.raises(InvalidInput, match="one row per record"):
        noisy_descent(lambda theta: np.zeros((2, N)), BOX, privacy=1.0, n_records=N, clip=1.0)


def test_local_search_without_privacy_says_so():
    found = nonprivate_gibo(
        losses, BOX, n_records=N, steps=30, search=SearchSettings(start=[-1.5, 1.5])
    )
    assert np.linalg.norm(found.theta - X.mean(axis=0)) < 0.15
    assert found.privacy.guarantee == "none (not private)"
    assert found.privacy.mu == np.inf
    assert found.noise_scales == (0.0,) * 30


@pytest.mark.parametrize("options", [{"exploration": -1.0}, {"evaluations": 0}, {"start": [1.0]}])
def test_settings_of_the_global_search_are_checked(options):
    with pytest.raises(InvalidInput):
        global_search(losses, BOX, privacy=1.0, n_records=N, loss_range=(0.0, 1.0), **options)
