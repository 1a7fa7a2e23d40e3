"""Rivals of the benchmark that are not in the library."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from bench.rivals.ensemble import _within, deep_point, ensemble, margin


def depth(points, y):
    """Least count of points on either side in any coordinate, literally."""
    sides = [(points <= y).sum(axis=0), (points >= y).sum(axis=0)]
    return int(np.min(sides))


def log_volumes(points):
    edges = np.sort(points, axis=0)
    half = len(points) // 2
    return np.log(edges[::-1][:half] - edges[:half]).sum(axis=1)


def test_points_have_the_depth_that_was_drawn():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(41, 3))
    edges = np.sort(points, axis=0)
    for wanted in (3, 8, 19, 20):
        low, high = edges[:20], edges[::-1][:20]
        drawn = [_within(low, high, wanted, 20, rng) for _ in range(50)]
        assert {depth(points, y) for y in drawn} <= {wanted, 21 if wanted == 20 else wanted}


@pytest.mark.slow
def test_one_point_moves_the_margin_by_at_most_one():
    """3,000 replacements, far away ones too; the margins take several values."""
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(150):
        points = rng.normal(size=(160, 2)) * rng.choice([1.0, 1e-3])
        before = margin(log_volumes(points), 40, 1.5, 1e-3)
        seen.add(before)
        for _ in range(20):
            other = points.copy()
            other[rng.integers(160)] = rng.normal(size=2) * 10.0 ** rng.integers(-4, 5)
            assert abs(margin(log_volumes(other), 40, 1.5, 1e-3) - before) <= 1
    assert len(seen) > 1 and max(seen) > 3


def test_the_ensemble_finds_the_coefficients_or_says_that_it_cannot():
    rng = np.random.default_rng(3)
    rows = np.column_stack([np.ones(30_000), rng.normal(size=(30_000, 2))])
    y = rows @ [1.0, -2.0, 0.5] + rng.normal(size=len(rows))
    found = ensemble(rows, y, 3.0, 1e-5, 0)
    assert np.abs(found - [1.0, -2.0, 0.5]).max() < 0.05
    assert np.isnan(ensemble(rows[:400], y[:400], 1.0, 1e-6, 0)).all()
    scattered = rng.standard_cauchy((100, 2))
    assert np.isnan(deep_point(scattered, 0.1, 1e-9, rng)).all()


@pytest.mark.parametrize("logistic", [False, True])
def test_packages_that_are_installed_are_measured_and_others_left_out(logistic):
    """Fits without privacy agree with ours without privacy; ours needs nothing told."""
    from bench.rivals import packages

    rng = np.random.default_rng(0)
    X = 10.0 + 3.0 * rng.normal(size=(4000, 2))
    y = 0.3 * X[:, 0] - 0.2 * X[:, 1] + rng.normal(size=4000)
    loss = "logistic" if logistic else "least-squares"
    task = packages.seen("made up", X, (y > 1.0) * 1.0 if logistic else y, loss)
    for label, (needed, rival) in packages.EXACT.items():
        if importlib.util.find_spec(needed):
            assert packages.measured(task, np.inf, label, rival, 1).distance < 0.02
    row = packages.measured(task, 10.0, "ours", packages.ours, 2)
    assert row.distance < 1.0 and 0.8 < row.width < 1.5
    stored = (
        "| made up | 10 | OpenDP moments, told | 1.2 | - | 3 |\n| other | 10 | none | 1 | - | 3 |"
    )
    if not importlib.util.find_spec("opendp"):
        assert [one["package"] for one in packages.kept([row], stored)] == ["OpenDP moments, told"]
    assert {needed for needed, _ in packages.PRIVATE.values()} >= {"opendp", "opacus"}
