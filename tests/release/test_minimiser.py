"""Claims R20 and R21: a minimiser for every data set, found to a public tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator
from dpfast.curator.release import certified
from dpfast.data import as_records
from dpfast.models import LogCosh, Logistic, Objective, PseudoHuber
from dpfast.privacy.release import certified_minimiser as constants
from tests.loops import each
from tests.release.hostile import curator_of, exact_gradient, hostile

LOSSES = [(LogCosh(2.0), 1.0), (PseudoHuber(1.0), 0.7), (Logistic(), None)]


def keeper(X, y, loss, scale, radius, intercept=False, ridge=0.0):
    curator = curator_of(X, y, loss, scale, radius, intercept, ridge)
    return curator, certified.certified_plan(curator, radius)


@each(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
@each("intercept", [False, True])
def test_the_gradient_is_within_the_tolerance_in_exact_arithmetic(loss, scale, intercept):
    rng = np.random.default_rng(3)
    for X, y in hostile(rng, 60, 3, scale is None):
        curator, plan = keeper(X, y, loss, scale, 1.5, intercept)
        found = certified.certified_minimiser(curator, plan)
        gradient = exact_gradient(X, y, found.theta, loss, scale, plan, intercept)
        assert np.linalg.norm(gradient.astype(float)) <= plan.tolerance


@pytest.mark.parametrize(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_hostile_data_cannot_make_the_search_fail(loss, scale):
    """Whatever the values: a finite point, no warning, and few passes."""
    rng = np.random.default_rng(5)
    for n, d in ((7, 1), (400, 4)):
        for X, y in hostile(rng, n, d, scale is None):
            curator, plan = keeper(X, y, loss, scale, 1.7)
            found = certified.certified_minimiser(curator, plan)
            assert np.isfinite(found.theta).all()
            assert found.eigenvalue >= plan.floor - plan.hessian_error
            assert found.passes < 500


@pytest.mark.parametrize(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_minimisers_stay_in_the_box_and_above_the_floor(loss, scale):
    rng = np.random.default_rng(8)
    for X, y in hostile(rng, 30, 2, scale is None):
        curator, plan = keeper(X, y, loss, scale, 1.5)
        found = certified.certified_minimiser(curator, plan)
        assert (np.abs(found.theta) <= plan.box).all()
        assert found.eigenvalue <= plan.largest
    # the box is attained: scores that all push the same way
    x = np.full((30, 1), 1.5)
    y = np.full(30, 1.0 if scale is None else 1e300)
    curator, plan = keeper(x, y, loss, scale, 1.5)
    edge = abs(float(certified.certified_minimiser(curator, plan).theta[0])) / plan.box
    assert edge > (0.99 if scale is not None else 0.001)


@pytest.mark.parametrize(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
@pytest.mark.one_in(2)
def test_the_path_alone_arrives(loss, scale, monkeypatch):
    """Without fast steps, on a smaller box so that the public number of steps is small."""
    monkeypatch.setattr(certified, "FAST_STEPS", 0)
    monkeypatch.setattr(certified, "EAGER_STEPS", 0)
    monkeypatch.setattr(constants, "MAX_LEVELS", 2)
    rng = np.random.default_rng(6)
    for number, (X, y) in enumerate(hostile(rng, 12, 2, scale is None)):
        if number not in (0, 1, 2, 10):
            continue
        curator, plan = keeper(X, y, loss, scale, 1.5)
        found = certified.certified_minimiser(curator, plan)
        assert found.passes > 500
        gradient = exact_gradient(X, y, found.theta, loss, scale, plan, False)
        assert np.linalg.norm(gradient.astype(float)) <= plan.tolerance


def test_the_computed_eigenvalue_moves_by_its_step():
    """Random neighbours through the compiled kernels, and an instance that attains the constant."""
    rng = np.random.default_rng(1)
    largest = 0.0
    for trial in range(400):
        n = int(rng.integers(6, 40))
        X = rng.choice([-1.0, 1.0], (n, 1)) * rng.choice([1.0, 0.3], (n, 1))
        y = X[:, 0] * rng.normal() + rng.standard_cauchy(n) * 10.0 ** rng.uniform(-2, 1)
        X2, y2 = X.copy(), y.copy()
        X[0], y[0], X2[0], y2[0] = 1.0, 1e6, 1.0, -1e6
        values = []
        for data in ((X, y), (X2, y2)):
            curator, plan = keeper(*data, LogCosh(2.0), 1.0, 1.0)
            values.append(certified.certified_minimiser(curator, plan).eigenvalue)
        move = abs(values[0] - values[1])
        assert move <= plan.step + 2.0 * plan.eta, trial
        largest = max(largest, move / plan.step)
    # many records at one residual far out: their curvature is exp(-c t) of their distance
    n = 20_000
    X, y = np.ones((n, 1)), np.full(n, 0.0)
    y[: n // 2], y[n // 2 :] = 9.0, -9.0
    values = []
    for extreme in (1e6, -1e6):
        y[0] = extreme
        curator, plan = keeper(X, y, LogCosh(2.0), 1.0, 1.0)
        values.append(certified.certified_minimiser(curator, plan).eigenvalue)
    assert abs(values[0] - values[1]) <= plan.step + 2.0 * plan.eta
    assert largest > 0.3


def test_a_pilot_of_few_records_saves_passes_and_changes_nothing(monkeypatch):
    rng = np.random.default_rng(4)
    n = 5 * certified.PILOT
    X = rng.uniform(-1, 1, (n, 2))
    y = X @ [2.0, -1.0] + rng.laplace(size=n)
    curator, plan = keeper(X, y, LogCosh(2.0), 1.0, 1.5)
    found = certified.certified_minimiser(curator, plan)
    assert found.passes <= 4
    monkeypatch.setattr(certified, "PILOT", n)
    slow = certified.certified_minimiser(curator, plan)
    assert np.linalg.norm(found.theta - slow.theta) <= 2.0 * plan.distance(found.eigenvalue)


def test_records_on_a_cluster_need_no_pilot(monkeypatch):
    """A release that was charged must not fail because no record may leave the workers."""
    array = pytest.importorskip("dask.array")
    monkeypatch.setattr(certified, "PILOT", 8)
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (100, 2))
    y = X @ [2.0, -1.0] + rng.laplace(size=100)
    options = {"privacy": dpfast.ApproxDP(1.0, 1e-6)}
    for domain in (dpfast.models.Ball(1.5), dpfast.models.Box(1.0)):
        for loss, kind in (("log-cosh", "global"), ("smoothed-huber", "smooth")):
            found = dpfast.release_parameter(
                array.from_array(X, chunks=(30, 2)), array.from_array(y, chunks=30),
                dpfast.Objective(loss, scale=1.0, ridge=5.0),
                domain=domain, certificate=kind, **options,
            )  # fmt: skip
            assert found.certified


def test_the_plan_refuses_what_rounding_would_hide():
    with pytest.raises(dpfast.InvalidInput, match="rounding"):
        constants.minimiser_plan(
            c=1.0, slope=1.0, curvature=0.25, third=0.1, radius=1.0, n=10**13, dimension=5,
            ridge=0.0, depth=100,
        )  # fmt: skip


def test_huber_and_mallows_are_refused():
    X, y = np.zeros((5, 1)), np.zeros(5)
    with pytest.raises(dpfast.InvalidInput, match="self-concordant"):
        keeper(X, y, dpfast.Huber(), 1.0, 2.0)
    objective = Objective(LogCosh(), dpfast.Mallows(2.0), 1, fit_intercept=False, scale=1.0)
    curator = Curator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    with pytest.raises(dpfast.InvalidInput, match="does not bound the rows"):
        certified.certified_plan(curator, 2.0)
