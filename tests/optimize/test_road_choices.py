"""What the road chooses by what it has seen: each choice beside the one it is better than."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.optimize.road.histogram import Lengths, tops_of_cells
from dpfast.optimize.road.secants import Stepped, bent


@pytest.mark.parametrize("columns", [0, 2])
@pytest.mark.parametrize("loss", ["log-cosh", "huber", "poisson", "logistic"])
def test_intervals_of_few_columns_are_those_of_their_curvature(loss, columns):
    """Within 1.12 of the sandwich's: those of a curvature that is not seen to its end are wider.

    Median of 20 fits at n mu = 8,000; seeded.
    """
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(4000, columns))
        y = {"poisson": rng.poisson(0.5, 4000) * 1.0, "logistic": (rng.random(4000) < 0.1) * 1.0}
        y = y.get(loss, 100.0 + 5.0 * rng.normal(size=4000))
        fit = dpfast.fit(X, y, loss, privacy=2.0, noise=dpfast.SeededNoise(seed))
        kind = dpfast.Poisson(1e9, 1e9) if loss == "poisson" else loss
        scale = fit.scale if loss in ("log-cosh", "huber") else None
        exact = dpfast.nonprivate_fit(
            X, y, dpfast.Objective(kind, weights=dpfast.Mallows(1e9), scale=scale)
        )
        ratios.append(np.median(fit.bse / exact.bse))
    assert 0.95 < np.median(ratios) < 1.12


def test_counts_of_a_column_with_a_long_right_tail_begin_near_enough():
    """Rare counts, n mu = 6,000: distance from the exact fit, in its standard errors.

    Median of 40 fits, seeded: 1.6; with slopes as covariances say them 2.9.
    """
    off = []
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        X = np.column_stack([rng.poisson(1.0, 6000) ** 2.0, rng.normal(size=6000)])
        y = rng.poisson(np.exp(-1.8 + X @ [0.15, 0.1])) * 1.0
        fit = dpfast.fit(X, y, "poisson", privacy=1.0, noise=dpfast.SeededNoise(seed))
        exact = dpfast.nonprivate_fit(
            X, y, dpfast.Objective(dpfast.Poisson(1e9, 1e9), weights=dpfast.Mallows(1e9))
        )
        off.append(np.abs((fit.params - exact.params) / exact.bse)[1:].max())
    assert np.median(off) < 2.2


def test_a_chance_octave_beyond_the_others_is_not_seen():
    """Four deviations beside cells that are seen: a fine cell is, an octave is not."""
    for per_octave, seen in ((1, False), (2, True)):
        tops = tops_of_cells(per_octave)
        shares, noise = np.zeros(len(tops)), 1e-3
        at = len(tops) // 2
        shares[at : at + 2] = 0.5
        shares[at + 2] = 4.0 * noise
        found = Lengths.visible(shares, noise, per_octave)
        assert bool(found.longest == tops[at + 2]) is seen
        assert found.shares.sum() == pytest.approx(1.0 + 4.0 * noise * seen)


def test_a_radius_leaves_out_as_little_as_noise_allows():
    """Of lengths of 1 and a few of 8: all where there is no noise, the many where it is large."""
    tops = tops_of_cells(2)
    shares = np.zeros(len(tops))
    one, eight = (int(np.argmin(np.abs(tops - size))) for size in (1.0, 8.0))
    shares[one], shares[eight] = 0.99, 0.01
    found = Lengths.visible(shares, 1e-6, 2)
    assert found.best_radius(4, 1.0, 0.0) >= 8.0 * 2.0**-0.25
    assert found.best_radius(4, 1.0, 1.0) <= 1.0
    radii = [found.best_radius(4, 1.0, noise) for noise in 10.0 ** np.arange(-6.0, 1.0)]
    assert radii == sorted(radii, reverse=True) and not math.isnan(radii[0])


def heavy(seed: int, n: int = 20_000):
    """One column with a long tail, whose relation levels off."""
    rng = np.random.default_rng(seed)
    x, Z = np.exp(2.0 * rng.normal(size=n)), rng.normal(size=(n, 2))
    y = np.log1p(x) + Z @ [0.5, -0.5] + rng.normal(size=n)
    return np.column_stack([x, Z]), y


def test_steps_do_not_go_to_and_fro_where_a_loss_is_flat_at_both_ends():
    """Quantile with a long-tailed column: standard errors from the exact fit; 24 without."""
    X, y = heavy(2)
    loss = dpfast.Quantile(0.75)
    fit = dpfast.fit(X, y, loss, privacy=1.0, noise=dpfast.SeededNoise(2))
    spreads = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / spreads
    exact = dpfast.nonprivate_fit(
        Z, y, dpfast.Objective(loss, weights=dpfast.Mallows(1e9), scale=fit.scale)
    )
    off = (fit.params[1:] * spreads - exact.params[1:]) / exact.bse[1:]
    assert np.abs(off).max() < 12.0


def test_a_curvature_follows_what_the_score_changed_by_where_noise_lets_it():
    """Along the step only; never down in a round, and to the least in steps after rounds."""
    C, step, score = np.diag([1.0, 2.0]), np.array([0.5, 0.0]), np.array([0.3, -0.2])
    before = Stepped(step, score, 0.0)
    steep = bent(C, before, score - [2.0, 0.0], 0.0)
    np.testing.assert_allclose(steep, np.diag([4.0, 2.0]), atol=1e-12)
    assert bent(C, before, score - [2.0, 0.0], 10.0) is C  # noise hides it
    flat = score - [0.1, 0.0]  # the score changed by .2 times the step
    assert np.array_equal(bent(C, before, flat, 0.0), C)
    np.testing.assert_allclose(bent(C, before, flat, 0.0, 0.1)[0, 0], 0.2)
    np.testing.assert_allclose(bent(C, before, flat, 0.0, 0.5)[0, 0], 0.5)
    # what a step owes to its own noise is no curvature: on the average it is of that size
    rng, risen = np.random.default_rng(0), 0
    for _ in range(400):
        first, second = 0.1 * rng.normal(size=(2, 8))
        found = bent(np.eye(8), Stepped(first, first, 0.1), second - first, 0.1)
        risen += not np.array_equal(found, np.eye(8))
    assert risen <= 20


def test_quantiles_of_a_rare_level_are_found():
    """300 of 10,000 records have it, of which the loss's own window holds a dozen.

    Six fits, seeded, within six deviations of .1; of the loss's own curvature two of three are not.
    """
    for seed in (0, 1, 4, 6, 8, 9):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.random(10_000) < 0.03, rng.normal(size=(10_000, 2))]) * 1.0
        y = X @ [0.5, 0.3, 0.0] + rng.standard_t(3, 10_000)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(X, y, dpfast.Quantile(0.75), privacy=1.0, noise=noise)
        assert abs(fit.params[1] - 0.5) < 0.6
