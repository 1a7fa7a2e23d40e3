"""Claim K9: scales of the parameters from squared directions of gradients."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator.nonconvex.gradients import NODES, WEIGHTS
from dpfast.optimize import Adaptive
from dpfast.optimize.nonconvex.scales import FLOOR, FLOOR_SDS, SHARE, private_scales
from dpfast.privacy.nonconvex.sensitivity import mean_gradient
from dpfast.privacy.sensitivity import mean_rank_one
from tests.nonconvex.test_clipping import curator, neighbours, own

SCALES = np.array([30.0, 0.01])


def hostile():
    """Gradients along both axes and between, of lengths from 0 to infinity."""
    rows = neighbours() + [row[::-1] for row in neighbours()]
    return [*rows, np.array([1e-170, 1e-200]), np.array([1e-300, -1e-320]), np.array([3.0, -4.0])]


@pytest.mark.parametrize("n", [1, 5])
def test_k9_squared_directions_move_by_two_axes_and_no_less(n):
    rest = np.full((n - 1, 2), 0.4)
    with np.errstate(all="ignore"):
        answers = [
            curator(np.vstack([rest, row]), rho=1e9).gradient_directions(np.zeros(2), 1e8)
            for row in hostile()
        ]
        sums = [
            curator(np.vstack([rest, row]))._rows.squared_directions(np.zeros(2))
            for row in hostile()
        ]
    for answer, exact in zip(answers, sums, strict=True):
        assert exact.sum() <= n * (1.0 + 1e-12)
        np.testing.assert_allclose(answer.value, exact / n, atol=12.0 * answer.noise_scale)
    found = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2)) / n
    claimed = mean_rank_one(1.0, n, 2, depth=100, alone=True)
    assert answers[0].receipt.l2_sensitivity == pytest.approx(2.0**0.5 / n, rel=1e-9)
    assert 0.99 * claimed <= found <= claimed


def test_scales_are_at_most_18_times_that_of_an_average_parameter():
    """As ``docs/methods.md`` says: a column in a unit of 1e4 is scaled no more than by this."""
    row = np.array([1.0, 1e-4])
    scales, _ = private_scales(curator(np.tile(row, (20_000, 1)), rho=1e6), np.zeros(2), 1e6)
    assert np.round(scales.max()) == 18.0


@pytest.mark.parametrize("clip", [None, 0.3, 1e-6])
@pytest.mark.parametrize("n", [1, 5])
def test_k9_a_scaled_mean_moves_by_the_clip_and_no_less(clip, n):
    """Scales from .01 to 30: what a record adds is clipped after them."""
    rest = np.full((n - 1, 2), 0.4)
    with np.errstate(all="ignore"):
        rooms = [curator(np.vstack([rest, row]), rho=1e9).with_scales(SCALES) for row in hostile()]
        answers = [room.gradient(np.zeros(2), 1e8, clip) for room in rooms]
        values = [room._gradient(np.zeros(2), clip) for room in rooms]
    for answer, value in zip(answers, values, strict=True):
        np.testing.assert_allclose(answer.value, value, atol=12.0 * answer.noise_scale)
    found = max(np.linalg.norm(a - b) for a, b in itertools.combinations(values, 2))
    claimed = mean_gradient(1.0 if clip is None else clip, n, depth=100)
    assert answers[0].receipt.l2_sensitivity == pytest.approx(claimed, rel=1e-9)
    assert 0.99 * claimed <= found <= claimed


@pytest.mark.parametrize("clip", [None, 0.3])
def test_k9_a_loss_change_is_in_the_scaled_parameters(clip):
    """Gradients along the line and against it, and the distance after division by the scales."""
    new, old = np.array([3.0, 4.0]), np.zeros(2)
    line = (new - old) / SCALES
    rows = [sign * length * line / SCALES for length in (1e-9, 1.0, 1e9) for sign in (1.0, -1.0)]

    def exact(row):
        room = curator(row[None, :], own(vectorized=True), rho=1e9).with_scales(SCALES)
        answer = room.loss_change(new, old, 1e8, clip)
        grads = [room._gradient(old + t * (new - old), clip) for t in NODES]
        value = float(np.dot(WEIGHTS, grads) @ line)
        assert abs(answer.value[0] - value) <= 12.0 * answer.noise_scale
        return value, answer.receipt.l2_sensitivity

    found, claimed = zip(*[exact(row) for row in rows], strict=True)
    limit = np.linalg.norm(line) * (1.0 if clip is None else clip)
    assert claimed[0] == pytest.approx(mean_gradient(limit, 1), rel=1e-9)
    assert 0.99 * claimed[0] <= max(found) - min(found) <= claimed[0]


@pytest.mark.parametrize("privacy", [dpfast.ZCDP(0.1), dpfast.ApproxDP(1.0, 1e-5)])
def test_k9_a_run_pays_for_its_scales_within_the_total(privacy):
    X = 0.1 * np.random.default_rng(2).normal(size=(2000, 2))
    result = dpfast.minimize(
        X, np.zeros(2000), own(vectorized=True), privacy=privacy, start=[0.5, 0.5],
        noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    entries = [(label, Fraction(repr(mu)) ** 2) for label, mu in result.privacy.entries]
    total = result.privacy.total
    limit = (
        2 * Fraction(repr(total.rho)) if hasattr(total, "rho") else Fraction(repr(total.mu)) ** 2
    )
    paid = [square for label, square in entries if label == "gradient directions"]
    assert len(paid) == 1
    # a share of what is left beside the comparison with the start
    assert Fraction(0.9 * SHARE) * limit <= paid[0] <= Fraction(SHARE) * limit
    assert Fraction(1 - 1e-6) * limit <= sum(square for _, square in entries) <= limit


def test_scales_make_second_moments_equal_and_stop_at_a_floor():
    """Normal gradients, standard deviations 1, .1 and 1e-6; noise is 1e-3 or less.

    Of two normal entries with the ratio s the squared directions have the means 1/(1 + s) and
    s/(1 + s).
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) * [1.0, 0.1, 1e-6]
    room = curator(X, own(vectorized=True, dimension=3), rho=1e6)
    scales, cost = private_scales(room, np.zeros(3), 100.0)
    assert cost == SHARE * 100.0
    assert scales[1] / scales[0] == pytest.approx(10.0**0.5, rel=0.1)
    assert scales[2] / scales[0] == pytest.approx((3.0 / 1.1 / FLOOR) ** 0.5, rel=0.1)


@pytest.mark.parametrize("part", [0.9, 1.1])
def test_no_scales_are_released_where_noise_would_hide_them(part):
    """On both sides of noise as large as the mean second moment."""
    rho = part * (2.0 / 50.0) ** 2 / SHARE
    room = curator(np.ones((50, 2)), own(vectorized=True), rho=rho)
    scales, cost = private_scales(room, np.zeros(2), rho)
    assert (cost > 0.0) == (part > 1.0) == bool(room.ledger.entries)
    # equal moments are below twice such noise: the floor holds for both
    np.testing.assert_allclose(scales, 1.0, atol=0.5)
    assert FLOOR_SDS >= 2.0


def test_a_public_clip_and_the_papers_method_have_no_scales():
    X = 0.1 * np.random.default_rng(2).normal(size=(500, 2))
    for method in (Adaptive(clip=0.2), Adaptive(clip=None), Adaptive(norm_queries=True)):
        result = dpfast.minimize(
            X, X[:, 0], own(vectorized=True), privacy=dpfast.ZCDP(0.1), method=method,
            noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        assert "gradient directions" not in [label for label, _ in result.privacy.entries]


@pytest.mark.slow
def test_columns_of_unequal_units_cost_little():
    """Least squares on columns of scales 1 to .05, 3 seeds: by a clip alone it is 12 times."""
    rng = np.random.default_rng(4)
    scales = np.geomspace(1.0, 0.05, 5)
    X = rng.normal(size=(1000, 5)) * scales
    y = X @ (0.5 / scales) + rng.normal(size=1000)
    best = np.linalg.lstsq(X, y, rcond=None)[0]

    def gradients(theta, X, y):
        return (X @ theta - y)[:, None] * X

    target = dpfast.nonconvex.PerRecordObjective(
        gradients, dimension=5, lipschitz=10.0, smoothness=2.0, vectorized=True
    )
    options = {"privacy": 2.0}

    def excess(**settings):
        method = Adaptive(**settings)
        found = [
            dpfast.minimize(X, y, target, noise=dpfast.SeededNoise(s), method=method, **options)
            for s in range(3)
        ]
        return np.mean([np.mean((X @ (result.params - best)) ** 2) for result in found])

    assert excess() < 0.3 * excess(clip=1.0)
