"""Attacks on the joint loss of coefficients and scale: claims C34 to C37 of PROOFS.md.

Pairs of records through the compiled kernels: all pairs of a structured set (saturated, central,
at Huber's corner, without covariates, with enormous ones; all directions), the best pair then
improved by Nelder and Mead.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpfast.curator.answers import StepBudget
from dpfast.curator.bounds import joint_cost, record_bounds
from dpfast.errors import InvalidInput
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER, MEAT
from dpfast.models import Bounded, FreeScale, Huber, LogCosh, Mallows, Objective, PseudoHuber
from dpfast.privacy.sensitivity_scale import (
    ScaleCoupling,
    curvature_factor,
    joint_scale_mu,
    meat_factor,
    score_diameter,
)
from tests.audit.searching import nonprivate_contributions

R = 1.7
LOSSES = [Huber(), LogCosh(), PseudoHuber(0.8)]
HUBER = Huber.scale_part
WEIGHTS = [Mallows(R), Bounded(R)]
Z = 1.9


def objective(loss, weighting):
    return Objective(loss, weighting, 2, fit_intercept=False, scale=FreeScale(1e-3, 1e3, start=1.0))


def records(model, angle, length, v):
    """Records with given direction, ``||x||/R`` and ``u/c`` at ``(0, 0, Z)``."""
    angle, length, v = np.broadcast_arrays(angle, length, v)
    x = R * length * np.array([np.cos(angle), np.sin(angle)])
    return np.ascontiguousarray(x.T), v * model.loss.c * model.scale_at(np.array([Z]))


def contributions(model, parameters, majorize):
    theta = np.array([0.0, 0.0, Z])
    want = GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT
    X, y = records(model, *parameters)
    parts = nonprivate_contributions(model, X, y, theta, want)
    return [part.reshape(len(y), -1) for part in parts]


def squared_distances(part):
    gram = part @ part.T
    size = np.diag(gram)
    return size[:, None] + size[None, :] - 2.0 * gram


def best_pair(model, weights, majorize=False):
    """Largest ``sum_i weights_i ||difference of part i||^2`` found."""
    angles = np.arange(12) * math.pi / 12
    v = [0.0, 0.3, 0.6, 1.0 - 1e-12, 1.2, 2.5, 1e4]
    v = sorted({*v, *(-value for value in v)})
    points = np.array(
        [
            [angle, length, value]
            for angle, length, value in itertools.product(angles, [0.0, 0.7, 1.0, 1e5], v)
            if length or not angle
        ]
    ).T
    parts = contributions(model, points, majorize)
    total = sum(w * squared_distances(p) for w, p in zip(weights, parts, strict=True) if w)
    i, j = np.unravel_index(np.argmax(total), total.shape)

    def value(pair):
        parts = contributions(model, pair.reshape(2, 3).T, majorize)
        return -sum(
            w * float(((p[0] - p[1]) ** 2).sum()) for w, p in zip(weights, parts, strict=True) if w
        )

    start = np.concatenate([points[:, i], points[:, j]])
    found = minimize(value, start, method="Nelder-Mead", options={"maxiter": 400})
    return max(float(total[i, j]), -float(found.fun))


@pytest.mark.parametrize("weighting", WEIGHTS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.values
def test_c34_to_c36_each_quantity(loss, weighting):
    """Score, Hessian, meat and majorising curvature: at most the constant, at least 99% of it."""
    model = objective(loss, weighting)
    theta = np.array([0.0, 0.0, Z])
    for query, weights in [
        ("gradient", (1, 0, 0)),
        ("hessian", (0, 1, 0)),
        ("majorizer", (0, 1, 0)),
        ("meat", (0, 0, 1)),
    ]:
        bound, diameter = record_bounds(model, query, theta)
        constant = diameter if query == "gradient" else math.sqrt(2.0) * bound
        found = best_pair(model, weights, query == "majorizer") ** 0.5 / constant
        assert found <= 1 + 1e-11
        assert found >= (0.9 if query == "majorizer" else 0.99)


def test_the_models_constants_are_those_of_the_claims():
    for loss, weighting in itertools.product(LOSSES, WEIGHTS):
        model = objective(loss, weighting)
        theta = np.array([0.0, 0.0, Z])
        assert record_bounds(model, "gradient", theta)[1] == pytest.approx(model.score_diameter)
        assert record_bounds(model, "gradient", theta)[0] == pytest.approx(model.score_bound)
        assert record_bounds(model, "meat", theta)[0] == pytest.approx(model.meat_bound)
        assert record_bounds(model, "hessian", theta)[0] == pytest.approx(
            model.smoothness_at(theta)
        )
        with pytest.raises(InvalidInput, match="must lie in"):
            record_bounds(model, "hessian", np.array([0.0, 0.0, 1e9]))


def huber_distance(k, m):
    return math.sqrt((1 + m) ** 2 + (k / 2) ** 2 * (1 - m * m) ** 2)


def test_c34_hubers_limit_is_exact():
    """The pair of the proof: at the limit not above 2, 1% beyond it above."""
    m = math.sqrt(5) - 2
    grid = np.linspace(0, 1, 2001)
    limit = HUBER.score_limit
    assert max(huber_distance(limit, value) for value in grid) <= 2 + 1e-12
    assert huber_distance(limit * 1.01, m) > 2.0
    assert score_diameter(HUBER, 1.0, limit) == 2.0


def test_c34_weights_of_the_first_power_are_outside_the_claim():
    """``w = min(1, R/||x||)``: a far record keeps its coefficients' part and loses its scale's."""
    c, radius, kappa = 1.345, 2.0, 0.7101645
    found = math.hypot(2 * c * radius, (c * c - kappa) / 2)
    assert found == pytest.approx(5.408, abs=1e-3)
    assert found > score_diameter(HUBER, c * radius, c / radius)


@pytest.mark.parametrize("majorize", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.values
def test_c37_joint_release(loss, majorize):
    model = objective(loss, WEIGHTS[0])
    theta = np.array([0.0, 0.0, Z])
    bounds = [
        record_bounds(model, query, theta)[0]
        for query in ("gradient", "majorizer" if majorize else "hessian", "meat")
    ]
    scales = [model.score_diameter, 2**0.5 * bounds[1], 2**0.5 * bounds[2]]
    best = 0.0
    for g, h, q in [(1, 0.4, 0), (1, 0.25, 0), (1, 0.4, 0.1), (1, 1, 0), (0.3, 1, 1), (1, 2, 0.5)]:
        budget = StepBudget(g**0.5, h**0.5, q**0.5, majorize=majorize)
        cost = joint_cost(model, budget)
        assert cost <= (g + h + q) ** 0.5 * (1 + 1e-12)
        weights = [part / scale**2 for part, scale in zip((g, h, q), scales, strict=True)]
        found = best_pair(model, weights, majorize) ** 0.5 / cost
        assert 0.75 <= found <= 1 + 1e-10
        best = max(best, found)
    assert best >= (0.93 if majorize else 0.99)


@pytest.mark.parametrize("majorize", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.values
def test_c34_to_c37_of_a_constant_and_its_scale(loss, majorize):
    """No covariates and R = 1: all pairs of 1,001 residuals, and records that are missing."""
    model = Objective(loss, Mallows(1.0), 0, scale=FreeScale(1e-3, 1e3))
    theta = np.array([0.0, Z])
    v = np.append(np.sinh(np.linspace(-12.0, 12.0, 1_001)), np.nan)
    y = v * loss.c * model.scale_at(theta)
    want = GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT
    parts = nonprivate_contributions(model, np.empty((len(y), 0)), y, theta, want)
    distances = [squared_distances(part.reshape(len(y), -1)) for part in parts]
    queries = ("gradient", "majorizer" if majorize else "hessian", "meat")
    bounds = [record_bounds(model, query, theta)[0] for query in queries]
    scales = [model.score_diameter, 2**0.5 * bounds[1], 2**0.5 * bounds[2]]
    for distance, scale in zip(distances, scales, strict=True):
        assert distance.max() <= scale**2 * (1 + 1e-10)
    for g, h, q in [(1, 0.4, 0), (1, 0.25, 0), (1, 0.4, 0.1), (0, 1, 0.5), (0.3, 1, 1)]:
        cost = joint_cost(model, StepBudget(g**0.5, h**0.5, q**0.5, majorize=majorize))
        together = sum(
            part / scale**2 * distance
            for part, scale, distance in zip((g, h, q), scales, distances, strict=True)
        )
        assert together.max() <= cost**2 * (1 + 1e-10)


@pytest.mark.parametrize("loss", [LogCosh, PseudoHuber])
@pytest.mark.parametrize("majorize", [False, True])
@pytest.mark.values
def test_c37_the_grid_does_not_miss_the_supremum(loss, majorize):
    """Against fifty times as many points, not on the grid."""
    rng, family = np.random.default_rng(0), loss.scale_part
    v = np.concatenate([rng.uniform(0, 8, 200_000), rng.uniform(8, 60, 25_000)])
    if loss is PseudoHuber:  # which saturates slowly
        v = np.append(v, [1e3, 1e5, 1e7])
    if loss is LogCosh:
        t, slope, chord, top = np.tanh(v), np.cosh(v) ** -2.0, np.tanh(v) / v, math.log(2)
        chi = v * t - np.log(np.cosh(v))
    else:
        root = np.sqrt(1 + v * v)
        t, slope, chord, top, chi = v / root, root**-3, 1 / root, 1.0, 1 - 1 / root
    for ratio, kappa in [(0.3, 0.3), (0.7, 0.5), (1.0, 0.33), (1.0, 2 * top)]:
        coupling = ScaleCoupling(family, ratio, kappa)
        big = math.hypot(1, ratio**2 * kappa)
        curve = (
            np.hypot(chord, ratio**2 * kappa) / big if majorize else slope * (1 + (ratio * v) ** 2)
        )
        if not majorize:
            assert curve.max() <= curvature_factor(family, ratio) * (1 + 1e-15)
        score = t**2 + (ratio * (top - chi)) ** 2
        meat = (t**2 + (ratio * (kappa / 2 - chi)) ** 2) / meat_factor(coupling)
        assert meat.max() <= 1.0
        for g, h, q in rng.uniform(0, 1, (20, 3)) ** 2:
            exact = float(np.max(g * score + h * curve**2 + q * meat**2))
            cost = joint_scale_mu(coupling, majorize, g**0.5, h**0.5, q**0.5)
            assert exact <= cost**2
            assert cost**2 <= min(g + h + q, exact * 1.02) * (1 + 1e-12)


def test_what_no_claim_covers_is_refused():
    with pytest.raises(InvalidInput, match="must lie in"):
        score_diameter(PseudoHuber.scale_part, 1.0, 1.01)
    with pytest.raises(InvalidInput, match="must lie in"):
        curvature_factor(LogCosh.scale_part, 1.2)
    with pytest.raises(InvalidInput, match="must lie in"):
        joint_scale_mu(ScaleCoupling(LogCosh.scale_part, 1.2, 0.3), False, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="kappa"):
        meat_factor(ScaleCoupling(HUBER, 0.5, 1.5))
    with pytest.raises(InvalidInput, match="at least 0"):
        joint_scale_mu(ScaleCoupling(HUBER, 0.5, 0.3), False, 0.0, 0.0)
    assert PseudoHuber.scale_part.curvature_limit**2 <= 1.5
