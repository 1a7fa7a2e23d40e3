"""Claim K8: the change of the loss along a line, and answers that are worse than the start."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator.nonconvex.gradients import NODES, WEIGHTS, GradientCurator
from dpfast.data import as_records
from dpfast.optimize import Adaptive
from dpfast.privacy.nonconvex.sensitivity import mean_gradient
from tests.nonconvex.test_clipping import curator, own

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("clip", [None, 0.3, 1e-6])
@pytest.mark.parametrize("n", [1, 5])
def test_k8_a_loss_change_moves_by_twice_the_bound_and_no_less(clip, n):
    """All pairs of records of lengths from 0 to infinity, along the line and across."""
    new, old = np.array([3.0, 4.0]), np.zeros(2)
    ends = [np.array([0.6, 0.8]) * length for length in (0.0, 0.2, 1.0, 50.0, 1e100, np.inf)]
    rows = [s * end for end in ends for s in (1e3, -1e3)]
    rows += [np.array([0.8, -0.6]), np.array([np.nan, 1.0])]
    rest = np.full((n - 1, 2), 0.4)
    limit = 1.0 if clip is None else clip

    def exact(row):
        with np.errstate(all="ignore"):
            room = curator(np.vstack([rest, row]), own(vectorized=True), rho=1e9)
            grads = [room._gradient(old + t * (new - old), clip) for t in NODES]
            answer = room.loss_change(new, old, 1e8, clip)
        value = float(np.dot(WEIGHTS, grads) @ (new - old))
        # the answer is that number, with noise of the receipt's scale: 12 deviations, never
        assert abs(answer.value[0] - value) <= 12.0 * answer.noise_scale
        return value, answer.receipt.l2_sensitivity

    found, claimed = zip(*[exact(row) for row in rows], strict=True)
    moved = max(abs(a - b) for a, b in itertools.combinations(found, 2))
    assert len(set(claimed)) == 1
    assert claimed[0] == pytest.approx(mean_gradient(5.0 * limit, n), rel=1e-9)
    assert 0.99 * claimed[0] <= moved <= claimed[0]


def test_k8_it_is_the_change_of_the_loss():
    """Noise of 1e-5 or less; of a built-in loss and of gradients of one's own, to 5e-4."""
    X = RNG.normal(size=(400, 2))
    y = X[:, 0] + RNG.standard_t(3, size=400)
    target = dpfast.Objective("cauchy", dpfast.Mallows(1.5), scale=1.0).bind(2)
    ledger = dpfast.Ledger(dpfast.ZCDP(1e9))
    room = GradientCurator(as_records(X, y), target, ledger, dpfast.SeededNoise(0))
    new, old = np.array([0.1, 0.9, -0.2]), np.array([0.0, -1.0, 0.5])
    change = room.nonprivate_loss(new) - room.nonprivate_loss(old)
    assert room.loss_change(new, old, 1e8).value[0] == pytest.approx(change, abs=5e-4)
    mine = curator(0.1 * X, own(vectorized=True, lipschitz=9.0), rho=1e9)
    a, b = np.array([0.4, 0.1]), np.array([-1.0, 2.0])
    losses = [0.5 * np.mean(np.sum((p - 0.1 * X) ** 2, axis=1)) for p in (a, b)]
    found = mine.loss_change(a, b, 1e8).value[0]
    assert found == pytest.approx(losses[0] - losses[1], abs=5e-4)


def test_k8_wrong_points_are_refused_before_the_charge():
    room = curator(RNG.normal(size=(40, 2)))
    for new in (np.zeros(2), np.array([np.inf, 0.0]), np.array([np.nan, 0.0])):
        with pytest.raises(dpfast.InvalidInput, match="two different points"):
            room.loss_change(new, np.zeros(2), 0.1)
    with pytest.raises(dpfast.InvalidInput, match="positive"):
        room.loss_change(np.ones(2), np.zeros(2), 0.1, -1.0)
    assert not room.ledger.entries


@pytest.mark.parametrize("privacy", [dpfast.ZCDP(0.5), dpfast.GDP(1.0), dpfast.ApproxDP(2.0, 1e-5)])
@pytest.mark.one_in(2)
def test_k8_a_run_pays_for_its_check_within_the_total(privacy):
    """Exactly, in rational arithmetic on the decimals that were charged."""
    X = 0.1 * RNG.normal(size=(800, 2))
    mine, tukey = own(vectorized=True), dpfast.Objective("tukey", scale=1.0)
    for objective, method in ((mine, "auto"), (tukey, "auto"), (tukey, "proximal")):
        result = dpfast.minimize(
            X, X[:, 0], objective, privacy=privacy, method=method, noise=dpfast.SeededNoise(1)
        )
        labels = [label for label, _ in result.privacy.entries]
        assert labels.count("loss change") == 1
        assert labels[-1] == "loss change"
        paid = [Fraction(repr(mu)) ** 2 for _, mu in result.privacy.entries]
        total = result.privacy.total
        limit = (
            2 * Fraction(repr(total.rho))
            if hasattr(total, "rho")
            else Fraction(repr(total.mu)) ** 2
        )
        assert sum(paid) <= limit
        assert Fraction(0.00999) * limit <= paid[-1] <= Fraction(0.010001) * limit


def uphill(theta, X, y):
    return -(theta - X)


def test_an_answer_that_is_worse_than_the_start_says_so():
    """A step too long, one that goes down, and gradients that point uphill of another loss.

    1e-6: the change that warns is 130 standard deviations of its noise (.299 at .0023), and what
    goes down has to be read wrong by as much.
    """
    X = 0.1 * RNG.normal(size=(4000, 2))

    def run(objective, method="auto"):
        return dpfast.minimize(
            X, X[:, 0], objective, privacy=dpfast.ZCDP(2.0), start=[0.5, 0.5], method=method,
            noise=dpfast.SeededNoise(3),
        )  # fmt: skip

    wrong = own(lambda theta, X, y: theta - X, vectorized=True)
    # steps of 3 over the curvature: each one leads farther away
    worse = run(wrong, Adaptive(step_size=3.0, step_rate=0.0, max_steps=8, clip=None, average=0.0))
    assert np.linalg.norm(worse.params) > 1.0
    assert any("more than at the start" in text for text in worse.warnings)
    assert any("noise of standard deviation" in text for text in worse.warnings)
    for good in (run(wrong), run(own(uphill, vectorized=True), Adaptive(max_steps=3))):
        assert not any("more than at the start" in text for text in good.warnings)


def test_nothing_is_kept_where_nothing_could_be_told():
    X = RNG.normal(size=(30, 2))
    result = dpfast.minimize(
        X, X[:, 0], own(vectorized=True), privacy=dpfast.ZCDP(1e-3), noise=dpfast.SeededNoise(0)
    )
    assert "loss change" not in [label for label, _ in result.privacy.entries]
