"""Losses and weightings: derivatives, public constants, refusals."""

import math

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import dpfast
from dpfast.models import (
    Bounded,
    Clip,
    Huber,
    LogCosh,
    Logistic,
    Mallows,
    Objective,
    PseudoHuber,
    resolve_loss,
    resolve_weighting,
)
from tests.loops import each

LOSSES = [Huber(), Huber(0.5), LogCosh(), LogCosh(3.0), PseudoHuber(), Logistic()]
GRID = np.linspace(-30.0, 30.0, 60_001)


@each("loss", LOSSES, ids=repr)
def test_psi_is_the_derivative_of_loss(loss):
    h = 1e-6
    numeric = (loss.loss(GRID + h) - loss.loss(GRID - h)) / (2 * h)
    np.testing.assert_allclose(numeric, loss.psi(GRID), atol=h)  # a corner inside the step


@each("loss", [loss for loss in LOSSES if loss.name != "huber"], ids=repr)
def test_psi_prime_is_the_derivative_of_psi(loss):
    h = 1e-6
    numeric = (loss.psi(GRID + h) - loss.psi(GRID - h)) / (2 * h)
    np.testing.assert_allclose(numeric, loss.psi_prime(GRID), atol=1e-8)


@each("loss", LOSSES, ids=repr)
def test_bounds_hold_and_are_attained(loss):
    psi = np.abs(loss.psi(GRID))
    curvature = loss.psi_prime(GRID)
    assert psi.max() <= loss.psi_bound * (1 + 1e-15)
    assert psi.max() >= 0.99 * loss.psi_bound
    assert (curvature >= 0).all()
    assert curvature.max() == pytest.approx(loss.psi_prime_bound, rel=1e-12)
    assert loss.majorizer(GRID).max() == pytest.approx(loss.psi_prime_bound, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@example(r=5e-324, s=1.0)
@example(r=-1e-310, s=1.0)
@given(r=st.floats(-1e3, 1e3), s=st.floats(-1e3, 1e3))
@pytest.mark.one_in(2)
def test_majorizer_majorizes(loss, r, s):
    """rho(s) <= rho(r) + rho'(r)(s - r) + m(r)/2 (s - r)^2: full steps never overshoot."""
    upper = loss.loss(r) + loss.psi(r) * (s - r) + 0.5 * loss.majorizer(r) * (s - r) ** 2
    assert loss.loss(s) <= upper + 1e-9 * (1 + abs(upper))


@pytest.mark.parametrize("loss", [LogCosh(), PseudoHuber(), Logistic()], ids=repr)
def test_self_concordance_holds_and_is_tight(loss):
    r = np.linspace(-12.0, 12.0, 24_001)
    h = 1e-5
    third = (loss.psi_prime(r + h) - loss.psi_prime(r - h)) / (2 * h)
    ratio = np.abs(third) / loss.psi_prime(r)
    assert ratio.max() <= loss.self_concordance * (1 + 1e-6)
    assert ratio.max() >= 0.98 * loss.self_concordance


@each("loss", LOSSES, ids=repr)
def test_extremes_are_finite_where_the_formula_is(loss):
    r = np.array([0.0, -0.0, 5e-324, 1e-200, 1e100, 1e308, -1e308, np.inf, -np.inf])
    with np.errstate(all="raise", under="ignore", invalid="ignore"):
        assert np.isfinite(loss.psi(r)).all()
        assert np.isfinite(loss.psi_prime(r)).all()
        assert np.isfinite(loss.majorizer(r)).all()


@each(("loss", "scale"), [(Huber(2.0), 3.0), (LogCosh(2.0), 3.0), (Logistic(), None)], ids=repr)
@each("radius", [0.5, 2.0])
def test_objective_constants(loss, scale, radius):
    objective = Objective(loss, Mallows(radius), 4, scale=scale, ridge=0.25)
    sigma = scale or 1.0
    assert objective.dimension == 5
    assert objective.score_bound == loss.psi_bound * radius
    assert objective.score_diameter == 2 * objective.score_bound
    assert objective.curvature_bound == pytest.approx(loss.psi_prime_bound * radius**2 / sigma)
    assert objective.meat_bound == pytest.approx(objective.score_bound**2)
    assert objective.smoothness == pytest.approx(objective.curvature_bound + 0.25)
    assert objective.shapes == {"gradient": (5,), "hessian": (5, 5), "meat": (5, 5)}


def test_clip_has_no_curvature():
    objective = Objective(Huber(), Clip(0.7), 2, scale=1.0)
    assert objective.score_bound == 0.7
    assert math.isinf(objective.curvature_bound)


@each("value", [0, -1.0, float("nan"), float("inf"), 1e101, "2", True, None])
def test_constants_are_checked(value):
    with pytest.raises(dpfast.InvalidInput):
        Huber(value)
    with pytest.raises(dpfast.InvalidInput):
        Mallows(value)
    with pytest.raises(dpfast.InvalidInput):
        Objective(Huber(), Mallows(1.0), 2, scale=value)


def test_scale_is_refused_where_it_has_no_meaning():
    with pytest.raises(dpfast.InvalidInput, match="not a parameter of the logistic"):
        Objective(Logistic(), Mallows(1.0), 2, scale=1.0)


def test_bounded_needs_room_beside_the_intercept():
    with pytest.raises(dpfast.InvalidInput, match="radius above 1"):
        Objective(Logistic(), Bounded(1.0), 2)
    Objective(Logistic(), Bounded(1.0), 2, fit_intercept=False)


@each("bad", ["l2", 3, None, Huber])
def test_unknown_loss(bad):
    with pytest.raises(dpfast.InvalidInput, match="loss must be one of"):
        resolve_loss(bad)


@pytest.mark.parametrize("bad", ["mallows", 2.0])
def test_unknown_weighting(bad):
    with pytest.raises(dpfast.InvalidInput, match="weights must be"):
        resolve_weighting(bad, 3)
    assert resolve_weighting(None, 4) == Mallows(2.0)
