"""Clips that follow gradients which a path makes short: none falls to where it does more harm."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as exactly

import dpfast
from dpfast.nonconvex import PerRecordObjective
from dpfast.optimize import Adaptive
from tests.nonconvex.test_clipping import own


def indicators(n, seed):
    """Logistic regression on a constant and four indicators, a tenth of the labels one."""
    rng = np.random.default_rng(seed)
    X = (rng.uniform(size=(n, 5)) < 0.3).astype(float)
    X[:, 0] = 1.0
    linear = 2.0 * (X @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]) / np.sqrt(5.0) - 1.5)
    return X, (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-linear))).astype(float)


def flipped(n, seed):
    """Labels by a half-space, one in ten of them flipped."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X *= np.minimum(1.0, 4.7 / np.linalg.norm(X, axis=1))[:, None]
    y = (X @ np.array([1.0, -1.0, 1.0, -1.0, 1.0]) > 0.0) ^ (rng.uniform(size=n) < 0.1)
    return X, y.astype(float)


def loss(theta, X, y):
    return float(np.mean(np.logaddexp(0.0, X @ theta) - y * (X @ theta)))


def slope(theta, X, y):
    return (0.5 * (1.0 + np.tanh(0.5 * (X @ theta))) - y)[:, None] * X


def excess(data, privacy, seed, **options):
    X, y = data
    longest = float(np.linalg.norm(X, axis=1).max())
    target = PerRecordObjective(
        slope, dimension=5, lipschitz=longest, smoothness=0.25 * longest**2, vectorized=True
    )
    best = exactly(loss, np.zeros(5), (X, y), jac=lambda *at: slope(*at).mean(axis=0)).fun
    result = dpfast.minimize(
        X, y, target, privacy=privacy, method=Adaptive(**options), noise=dpfast.SeededNoise(seed)
    )
    return loss(result.params, X, y) - best, result


@pytest.mark.parametrize("mu", [4.0, pytest.param(12.0, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_path_that_shortens_its_gradients_is_called_back(mu):
    """The start is .34 nats above the optimum; with questions of still paths only, ends were .8.

    Of 80 runs with four times the records and a quarter of mu, which is as much noise, none ended
    above 1.2e-4, and all of 16 with questions of still paths only above .74; of 16 as here (eight
    seeds), none above 9e-5.  Seeds are fixed; that two of four fail by less than 1e-6 is not shown.
    """
    found = sorted(excess(indicators(2500, seed), mu, seed)[0] for seed in range(4))
    assert found[1] < 0.02
    assert found[2] < 0.1


def test_excess_falls_with_the_budget_as_without_a_clip():
    """A clip that is never raised beyond what 98% stay below has 1e-3 and more at all of these.

    Now 2e-5, 7e-7 and 2e-9 in the mean of two seeds, the second 1.4 times what no clip has: the
    limits are 4 to 30 times off.  The seed is fixed; a rate of failures was not measured.
    """
    data = flipped(2000, 1)
    found = [excess(data, dpfast.ZCDP(rho), 0)[0] for rho in (10.0, 1e3)]
    assert found[1] < 0.1 * found[0]
    assert found[1] < 20.0 * excess(data, dpfast.ZCDP(1e3), 0, clip=None)[0]


def test_a_clip_beyond_all_that_is_seen_falls_to_it():
    """All gradients begin at the bound and end at .11; such a clip stayed at 1.

    Of nine runs (mu .5, 1 and 3) all ended with a clip of .25 or less, and a third of the error.
    """
    objective = own(lambda theta, X, y: theta - X, dimension=5, vectorized=True)
    for seed in range(1):
        X = 0.05 * np.random.default_rng(seed).normal(size=(2000, 5))
        result = dpfast.minimize(
            X, np.zeros(2000), objective, privacy=1.0, start=[1.3] * 5,
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        clips = result.rounds[-1]["clips"]
        assert clips[0][1] == 1.0
        assert clips[-1][1] < 0.5


def rare(n, seed):
    """Logistic regression with one label in twenty: most gradients end short, and those do not."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 4))])
    linear = 0.5 * X[:, 1:].sum(axis=1) - 3.5
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-linear))).astype(float)


@pytest.mark.parametrize("mu", [0.7, pytest.param(3.0, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_rare_labels_are_not_clipped_away(mu):
    """The start is .55 nats above the optimum; a clip that followed the lengths ended at .13 to .3.

    Of 40 runs on other seeds 39 ended below .009 and one at .04.  Seeds are fixed.
    """
    data = rare(2000, 5)
    found = sorted(excess(data, mu, seed)[0] for seed in range(4))
    assert found[1] < 0.03
    assert found[3] < 0.1
