"""The searches DP-GIBO is compared with in figures."""

from __future__ import annotations

import numpy as np

import dpfast
from bench.figures.paper4.rivals import global_search, noisy_descent, nonprivate_gibo
from dpfast.bayesopt import SearchSettings

N = 300
CENTRE = np.array([0.5, -0.5])
X = np.random.default_rng(0).normal(CENTRE, 0.2, size=(N, 2))
BOX = [(-2.0, 2.0)] * 2
START = np.array([-1.5, 1.5])


def losses(theta):
    return np.sum((X - theta) ** 2, axis=1)


def test_global_search_finds_the_minimum_in_two_dimensions():
    found = global_search(
        losses, BOX, mu=5.0, n_records=N, loss_range=(0.0, 8.0), evaluations=30, start=START,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert np.linalg.norm(found - CENTRE) < 0.5


def test_noisy_descent_finds_the_minimum():
    path = noisy_descent(
        lambda theta: 2.0 * (theta - X), START, mu=2.0, n_records=N, clip=4.0, steps=60,
        step_size=0.1, bounds=BOX, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert np.linalg.norm(path[-18:].mean(axis=0) - CENTRE) < 0.2


def test_local_search_without_privacy_finds_the_minimum():
    found = nonprivate_gibo(losses, BOX, n_records=N, steps=30, search=SearchSettings(start=START))
    assert np.linalg.norm(found.theta - X.mean(axis=0)) < 0.15
