"""Attacks on claims C73 and C75: scores with a longer side, beside an intercept, compiled.

With one record and divisor 1 a kernel returns that record's contribution.  Offsets are data: they
put any predictor beside any covariates.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpfast.curator import StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.errors import InvalidInput
from dpfast.kernels.records import RecordKernel
from dpfast.models import Bounded, Clip, Huber, Mallows, MallowsLinear, Objective, Schweppe
from dpfast.models.poisson import Poisson
from dpfast.models.quantile import NarrowQuantile, Quantile
from dpfast.privacy.sensitivity import mean_score
from dpfast.privacy.sensitivity_sides import (
    Geometry,
    _centred,
    _crest,
    _narrow_quantile,
    _quantile,
    _quantile_majorizer,
    joint_sides_mu,
)
from tests.loops import each

THETA = np.zeros(3)
RADII = [2.0**0.5, 2.0]
LOSSES = [Quantile(0.9, 0.2), Quantile(0.25, 0.1), Quantile(0.6, 0.3)]
NARROW = [NarrowQuantile(0.9, 0.2), NarrowQuantile(0.25, 0.1)]
COUNTS = [Poisson(2.0, 7.0), Poisson(6.0, 9.0)]
#: squares of the mu of gradient, curvature and meat
SHARES = [(1.0, 0.0, 0.0), (1.0, 0.4, 0.0), (1.0, 0.7, 0.12), (1.0, 0.2, 0.5), (0.3, 1.0, 0.0)]


def objective_of(loss, weighting):
    return Objective(loss, weighting, 2, scale=1.0 if loss.needs_scale else None)


def covariates(radius):
    """Rows along six directions: short, on the rim, beyond it, and so far that little is left."""
    rim = math.sqrt(max(radius**2 - 1.0, 1e-3))
    lengths = [0.0, 0.5 * rim, rim, *(rim * np.array([1.1, 1.3, 2.0, 6.0, 1e4]))]
    angles = np.array([0.0, 1.0, 1.5, 2.0, 2.5, 3.0]) * (math.pi / 3.0)
    rows = [length * np.array([np.cos(a), np.sin(a)]) for length in lengths[1:] for a in angles]
    return [np.zeros(2), *rows]


def responses(loss):
    """Responses beside offset and weight: residuals, or means and counts, of every kind."""
    if isinstance(loss, Poisson):
        steep = math.log(loss.largest_mean) - 1e-9
        a = loss.largest_residual
        pairs = [(steep, loss.largest_mean + k) for k in (0.99999999 * a, 2.0 * a, 0.0)]
        pairs += [(t, 0.0) for t in (steep, steep + 1.0, -40.0)]
        return [(y, 1.0, t) for t, y in pairs]
    grid = np.linspace(-4.0, 4.0, 11)
    near = np.linspace(-1.2, 1.2, 13) if isinstance(loss, NarrowQuantile) else ()
    return [(float(u * loss.c), 1.0, 0.0) for u in (*grid, *near, -60.0, 60.0)]


def contributions(objective, majorize=False):
    """Scores, curvatures and meats of all these records."""
    kernel = RecordKernel(*objective.kernel_arguments())
    want = 39 if majorize else 7
    parts = [
        kernel.sums(x[None], np.array([y]), THETA, want, 1.0, 1)
        for x, y in product(covariates(objective.weighting.radius), responses(objective.loss))
    ]
    return [np.array([part[k] for part in parts]).reshape(len(parts), -1) for k in range(3)]


def furthest(features):
    """Largest distance between two rows."""
    squares = (features**2).sum(axis=1)
    gram = squares[:, None] + squares[None, :] - 2.0 * features @ features.T
    return math.sqrt(max(0.0, float(gram.max())))


@pytest.mark.pairs
@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("weighting", [Mallows, Bounded])
@pytest.mark.parametrize("loss", [*LOSSES, *NARROW, *COUNTS], ids=lambda one: one.name + repr(one))
def test_c75_diameter_and_joint_releases(loss, weighting, radius):
    """Together they cost what is charged, and for some shares not much less.

    Alone they attain it.  The centre of part (b) is up to 8% off, part (a) takes each matrix at its
    worst angle, and the majorising curvature of counts is the bound for every record.
    """
    objective = objective_of(loss, weighting(radius))
    plain = contributions(objective)
    found = furthest(plain[0])
    assert 0.99 * objective.score_diameter <= found <= mean_score(objective.score_diameter, 1)
    assert objective.score_diameter < 1.99 * objective.score_bound
    units = [
        objective.score_diameter,
        math.sqrt(2.0) * objective.curvature_bound,
        math.sqrt(2.0) * objective.meat_bound,
    ]
    for majorize in (False, True):
        parts = contributions(objective, majorize) if majorize else plain
        for shares in SHARES:
            mus = np.sqrt(shares)
            scaled = [mu * part / unit for mu, part, unit in zip(mus, parts, units, strict=True)]
            found = furthest(np.concatenate(scaled, axis=1))
            cost = joint_cost(objective, StepBudget(*mus, majorize=majorize))
            assert found <= cost * (1 + 1e-11)
            assert cost <= math.hypot(*mus) * (1 + 1e-9)
            assert found >= (0.985 if shares[1] == 0.0 else 0.75) * cost


def test_c75_without_what_it_needs_twice_the_bound_is_attained():
    """No intercept, rows that are scaled as a whole, or clipped scores: opposite rows exist."""
    loss = Quantile(0.9, 0.2)
    for weighting in (Schweppe(2.0), MallowsLinear(2.0), Clip(1.0)):
        objective = objective_of(loss, weighting)
        assert objective.sides is None
        kernel = RecordKernel(*objective.kernel_arguments())
        rows = [np.array([[s * 1e6, 0.0]]) for s in (-1.0, 1.0)]
        ends = [kernel.sums(x, np.array([1e9]), THETA, 1, 1.0, 1)[0] for x in rows]
        assert np.linalg.norm(ends[0] - ends[1]) >= 0.999 * objective.score_diameter
    assert Objective(loss, Mallows(2.0), 2, scale=1.0, fit_intercept=False).sides is None
    assert objective_of(Huber(), Mallows(2.0)).sides is None
    assert objective_of(Quantile(0.5, 0.2), Mallows(2.0)).sides is None
    assert objective_of(Poisson(20.0, 5.0), Mallows(2.0)).sides is None


def test_c75_persons_weights_and_records_without_any_part():
    """Means of a person's rows, weighted records and nothing at all cost no more."""
    rng = np.random.default_rng(0)
    losses = [*LOSSES[:2], NARROW[0], COUNTS[0]]
    for loss, weighting in product(losses, [Mallows(1.5), Bounded(1.5)]):
        objective = objective_of(loss, weighting)
        units = (objective.score_diameter, objective.curvature_bound * math.sqrt(2.0))
        scores, curvatures, _ = contributions(objective)
        few = rng.choice(len(scores), (400, 3))
        weights = rng.random((400, 3, 1)) ** 4
        weights *= rng.random((400, 1, 1)) / weights.sum(axis=1, keepdims=True)
        mixed = (weights * scores[few]).sum(axis=1), (weights * curvatures[few]).sum(axis=1)
        both = [np.concatenate([one, part, 0 * part[:1]]) for one, part in
                zip(mixed, (scores, curvatures), strict=True)]  # fmt: skip
        meat = np.einsum("ij,ik->ijk", both[0], both[0]).reshape(len(both[0]), -1)
        parts = [*both, meat]
        for shares in SHARES:
            mus = np.sqrt(shares)
            scales = (*units, math.sqrt(2.0) * objective.meat_bound)
            scaled = [mu * part / unit for mu, part, unit in zip(mus, parts, scales, strict=True)]
            cost = joint_cost(objective, StepBudget(*mus), means=True)
            assert furthest(np.concatenate(scaled, axis=1)) <= cost * (1 + 1e-11)
    # what C72 proves of convex functions only is not taken where the meat bends them
    geometry = (0.9, 4.0, True, 0.98)
    mus = (0.2, 0.5, 1.0)
    assert joint_sides_mu("independent", geometry, *mus, means=True) > joint_sides_mu(
        "independent", geometry, *mus
    )


def test_c73_without_an_intercept_it_is_any_loss():
    """Rows of every direction: noise is for twice the bound, and C17 is what it costs."""
    objective = Objective(NARROW[0], Bounded(2.0), 2, scale=1.0, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    rows = [2.0 * np.array([[np.cos(a), np.sin(a)]]) for a in np.linspace(0.0, 2.0 * np.pi, 25)]
    responses = objective.loss.c * np.array([-60.0, 60.0, *np.linspace(-1.2, 1.2, 13)])
    parts = [
        kernel.sums(x, np.array([y]), np.zeros(2), 3, 1.0, 1)
        for x, y in product(rows, responses)
    ]  # fmt: skip
    scores, bends = (np.array([p[k].ravel() for p in parts]) for k in (0, 1))
    units = (2.0 * objective.score_bound, math.sqrt(2.0) * objective.curvature_bound)
    for mus in ((1.0, 0.6**0.5), (1.0, 1.0)):
        cost = joint_cost(objective, StepBudget(*mus))
        both = np.concatenate([mus[0] * scores / units[0], mus[1] * bends / units[1]], axis=1)
        assert 0.88 * cost <= furthest(both) <= cost * (1 + 1e-11)


def test_c75_brackets_hold_between_points_of_the_grids():
    """Their suprema on a finer grid, at the best centre: no more, and hardly less."""
    fine, u = np.linspace(0.0, 1.0, 2003), np.linspace(-40.0, 40.0, 8002)
    for short, square in product((0.05, 0.3, 0.8), (2.0, 9.0)):
        curves = {
            _quantile: ((1.0 + short) * fine - short, 4.0 * fine * (1.0 - fine)),
            _quantile_majorizer: (
                0.5 * ((1.0 - short) + (1.0 + short) * np.tanh(u)),
                np.tanh(u) / u,
            ),
            _narrow_quantile: (
                0.5 * ((1.0 - short) + (1.0 + short) * np.tanh(3.0 * u)),
                np.cosh(u) ** -2.0,
            ),
        }
        for (curve, (score, bend)), far in product(curves.items(), (False, True)):
            for g, h, q in ((1.0, 0.7, 0.1), (1.0, 0.3, 0.0), (0.1, 1.0, 0.2)):

                def bracket(c, score=score, bend=bend, parts=(g, h, q), square=square, far=far):
                    g, h, q = parts
                    lengths = score**2 - (2.0 * c * score - c * c) / square
                    most = (g * lengths + h * bend**2 + q * score**4).max()
                    return max(float(most), g * c * c / square + (h if far else 0.0))

                best = minimize_scalar(bracket, bounds=(0.0, 1.0), method="bounded").fun
                claimed = _centred(Geometry(short, square, far, 1.0), g, h, q, curve)
                assert best * (1 - 1e-5) <= claimed <= best * (1 + 1e-3)


def test_c75_crest_is_a_maximum():
    t = np.linspace(0.0, 0.7, 7001)
    for slope, bend in ((1.0, 0.2), (1.0, 2.0), (0.0, 1.0), (1.0, 0.0)):
        assert _crest(0.3, slope, bend, 0.7) == pytest.approx(
            float((0.3 + slope * t - bend * t * t).max()), abs=1e-7
        )


@each(
    "geometry", [(0.0, 2.0, True, 0.8), (1.1, 2.0, True, 0.8), (0.5, 0.0, True, 0.8),
                 (0.5, 2.0, True, 0.4), (0.5, 2.0, True, 1.1)],
)  # fmt: skip
def test_c75_refuses_what_is_no_geometry(geometry):
    with pytest.raises(InvalidInput, match="short must lie"):
        joint_sides_mu("logistic", geometry, 1.0, 0.5)
