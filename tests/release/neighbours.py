"""What every release has to hold for neighbours: limits of what tells them apart, and factors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import betaincinv

import dpfast

#: Test and release.
certified_functional = partial(dpfast.release_functional, method="paper")


def confident(successes, trials, error=5e-7):
    """Clopper-Pearson limits of a probability."""
    low = betaincinv(successes, trials - successes + 1, error) if successes else 0.0
    high = betaincinv(successes + 1, trials - successes, 1 - error) if successes < trials else 1.0
    return low, high


def pair_at_the_extremes(n=60):
    """One covariate, always one; the first response is 1e9 on one side and -1e9 on the other."""
    X, y = np.ones((n, 1)), np.linspace(-1.0, 1.0, n)
    for extreme in (1e9, -1e9):
        data = y.copy()
        data[0] = extreme
        yield X, data


def assert_told_apart_no_better(on, off, epsilon, delta):
    """All of 21 half-lines of numbers released for two neighbours, at 1e-6 each."""
    on, off = np.asarray(on), np.asarray(off)
    assert on.mean() > off.mean()
    for level in np.quantile(off, np.linspace(0.02, 0.98, 21)):
        p = confident(int((on > level).sum()), len(on))[0]
        q = confident(int((off > level).sum()), len(off))[1]
        assert p <= math.exp(epsilon) * q + delta
