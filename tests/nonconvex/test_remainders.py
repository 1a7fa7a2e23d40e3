"""Claim K8: what gradients have between two clips, and clips that are raised for it."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.optimize import Adaptive
from dpfast.optimize.nonconvex.tail import Tail
from dpfast.privacy.nonconvex.sensitivity import mean_gradient
from tests.loops import each
from tests.nonconvex.test_clipping import curator, own

RNG = np.random.default_rng(8)
LENGTHS = [0.0, 5e-324, 1e-160, 0.05, 0.1, 0.29999, 0.3, 0.3 + 1e-12, 0.7, 1.0, 5.0, 1e308, np.inf]


@each("vectorized", [False, True])
@each(("low", "high"), [(0.3, 1.0), (0.3, 0.31), (0.3, 0.3 + 1e-9), (1e-12, 1.0), (1e-12, 2e-12)])
def test_k8_a_remainder_moves_by_the_difference_of_the_clips_and_no_less(low, high, vectorized):
    """All pairs of records of lengths from 0 to infinity, in three directions; receipts, too."""
    rows = [np.array([s * length, 0.0]) for length in LENGTHS for s in (1.0, -1.0)]
    rows += [np.array([0.6, 0.8]) * length for length in [*LENGTHS, np.nan]]
    for n in (1, 5):
        rest = np.full((n - 1, 2), 0.4)
        with np.errstate(all="ignore"):
            rooms = [curator(np.vstack([rest, row]), own(vectorized=vectorized)) for row in rows]
            values = [room._rows.remainder(np.zeros(2), low, high, float(n)) for room in rooms]
        found = max(np.linalg.norm(a - b) for a, b in itertools.combinations(values, 2))
        room = rooms[0]
        claimed = room.gradient_remainder(np.zeros(2), 0.5, low, high).receipt.l2_sensitivity
        assert claimed == mean_gradient(high - low, n, depth=room._depth())
        assert 0.99 * claimed <= found <= claimed


def test_k8_a_remainder_is_the_difference_of_two_clipped_means():
    """Noise of standard deviation 1e-6: entries are exact to 1e-5, ten of them apart."""
    rows = np.array([0.3, -0.4]) + RNG.normal(size=(1000, 2))
    room = curator(rows, own(vectorized=True), rho=1e7)
    found = room.gradient_remainder(np.zeros(2), 1e6, 0.4, 0.8).value
    expected = room._gradient(np.zeros(2), 0.8) - room._gradient(np.zeros(2), 0.4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_k8_wrong_clips_are_refused_before_the_charge():
    X = RNG.normal(size=(40, 2))
    built_in = dpfast.Objective("tukey", dpfast.Mallows(1.5), scale=1.0).bind(2)
    ledger = dpfast.Ledger(dpfast.ZCDP(1.0))
    room = GradientCurator(as_records(X, X[:, 0]), built_in, ledger, dpfast.SeededNoise(0))
    with pytest.raises(dpfast.InvalidInput, match="weights' bound"):
        room.gradient_remainder(np.zeros(built_in.dimension), 0.1, 0.1, 0.2)
    assert not ledger.entries
    own_room = curator(X)
    for low, high in ((0.2, 0.2), (0.3, 0.2), (0.0, 0.2), (-1.0, 0.2), (1.0, 2.0)):
        with pytest.raises(dpfast.InvalidInput):
            own_room.gradient_remainder(np.zeros(2), 0.1, low, high)
    assert not own_room.ledger.entries


def skewed(n):
    """A fifth of the records is far off on one side: a clip at their fourth fifth is biased."""
    X = 0.1 * RNG.normal(size=(n, 2))
    X[: n // 5] += [0.9, 0.0]
    return X


@pytest.mark.parametrize("privacy", [dpfast.ZCDP(2.0), dpfast.GDP(2.0), dpfast.ApproxDP(8.0, 1e-5)])
def test_k8_a_run_costs_its_gradients_lengths_and_remainders(privacy):
    """Exactly, in rational arithmetic on the decimals that were charged."""
    X = skewed(2000)
    result = dpfast.minimize(
        X, np.zeros(2000), own(vectorized=True), privacy=privacy, start=[0.5, 0.5],
        noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    labels = [label for label, _ in result.privacy.entries]
    assert labels.count("gradient remainder") >= 1
    assert labels.count("gradient") == result.rounds[-1]["steps"]
    spent = sum(Fraction(repr(mu)) ** 2 for _, mu in result.privacy.entries)
    total = result.privacy.total
    limit = (
        2 * Fraction(repr(total.rho)) if hasattr(total, "rho") else Fraction(repr(total.mu)) ** 2
    )
    assert Fraction(1 - 1e-6) * limit <= spent <= limit
    asked = [mu for label, mu in result.privacy.entries if label == "gradient remainder"]
    assert sum(Fraction(repr(mu)) ** 2 for mu in asked) <= Fraction(0.121) * limit


@pytest.mark.slow
def test_a_clip_is_raised_where_what_it_takes_away_matters_and_nowhere_else():
    """Skewed lengths: a bias of .1 at a noise of .001.  Records in opposite pairs: none.

    1e-6: without bias a run raises its clip with a probability of about .1, all six do by 1e-6.
    """
    half = 0.3 * RNG.standard_t(5, size=(1500, 2))
    raised = []
    for X in (skewed(3000), np.vstack([half, -half])):
        runs = [
            dpfast.minimize(
                X, X[:, 0], own(vectorized=True, lipschitz=3.0), privacy=dpfast.ZCDP(2.0),
                noise=dpfast.SeededNoise(seed),
            )
            for seed in range(6)
        ]  # fmt: skip
        raised.append(sum("clip_raised_at" in run.rounds[-1] for run in runs))
        error = np.mean([np.linalg.norm(run.params - X.mean(axis=0)) for run in runs])
        assert error < 0.02
    assert raised[0] == 6
    assert raised[1] < 6


def tail_of(gradients, rho=1.0, part=1.0):
    tail = Tail(1.0, 2)
    for k, gradient in enumerate(gradients):
        tail.add(np.array([float(k), 0.0]), np.asarray(gradient, dtype=float), rho, part)
    return tail


def test_a_path_is_averaged_where_it_is_still():
    """Gradients of length 5 at a noise of 1: after them, only zeros are averaged."""
    still = tail_of([[0.0, 0.0]] * 10)
    assert still.still(10.0, 1.0)
    assert not still.still(10.0, 0.5)  # a clip of half the length: so is the noise
    assert still.answer(0.75)[0] == pytest.approx(np.mean(range(3, 10)))
    assert still.answer(0.2)[0] == pytest.approx(8.5)
    assert still.answer(0.0)[0] == 9.0
    moving = tail_of([[5.0, 0.0]] * 10)
    assert not moving.still(10.0, 1.0)
    assert moving.answer(0.75)[0] == pytest.approx(np.mean(range(6, 10)))
    half = tail_of([[5.0, 0.0]] * 5 + [[0.0, 0.0]] * 5)
    assert half.answer(0.75)[0] == pytest.approx(7.0)


def test_nothing_is_averaged_beyond_another_clip_or_a_new_start():
    tail = tail_of([[0.0, 0.0]] * 8)
    for k in (8, 9):
        tail.add(np.array([float(k), 0.0]), np.zeros(2), 1.0, 0.5)
    assert tail.answer(0.75)[0] == 7.5  # four tenths of what was spent, and no more
    tail = tail_of([[0.0, 0.0]] * 8)
    tail.restart()
    tail.add(np.array([50.0, 0.0]), np.zeros(2), 1.0, 1.0)
    tail.add(np.array([60.0, 0.0]), np.zeros(2), 1.0, 1.0)
    assert tail.answer(0.99)[0] == 55.0


def test_a_path_that_overflows_is_quiet_about_it():
    tail = tail_of([[1e308, 1e308]] * 5 + [[np.inf, 0.0]] * 2)
    assert not tail.still(7.0, 1.0)
    assert np.isfinite(tail.answer(0.75)).all()


def test_average_zero_is_the_last_iterate():
    X = 0.1 * RNG.normal(size=(300, 2))
    run = dpfast.minimize(
        X, X[:, 0], own(vectorized=True), privacy=1.0, method=Adaptive(average=0.0),
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    np.testing.assert_array_equal(run.params, run.iterates[-1])
