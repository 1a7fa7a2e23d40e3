"""Attacks on claims C70 and C71: records with weights and offsets of their own.

Pairs of records go the way of a fit's: raw weights and offsets, hostile ones among them, are joined
with the responses and read by the compiled kernels.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import StepBudget
from dpfast.curator.bounds import joint_cost, record_bounds
from dpfast.data.source import EVERYTHING
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER, MEAT, RecordKernel
from dpfast.models import (
    Bounded,
    Clip,
    FreeScale,
    Huber,
    LogCosh,
    Logistic,
    Mallows,
    MallowsLinear,
    Objective,
    OstrovskiiBach,
    PseudoHuber,
    Schweppe,
)
from dpfast.models.names import LOSSES, offset_joins_predictor
from dpfast.models.poisson import Poisson
from dpfast.models.quantile import Quantile
from dpfast.privacy.noise import SeededNoise
from dpfast.privacy.sensitivity import loss_difference
from tests.audit.searching import nonprivate_contributions
from tests.loops import each

R, LARGEST = 1.7, 2.5
POISSON = Poisson(4.0, largest_residual=3.0)
HOSTILE_WEIGHTS = [LARGEST, 1e300, np.inf, 0.3, 1.0, 0.0, -1.0, np.nan, -np.inf, 1e-310]
HOSTILE_OFFSETS = [0.0, 3.0, -40.0, 1e300, np.inf, -np.inf, np.nan]
PAIRS = [
    (Huber(), Mallows(R)), (LogCosh(), Mallows(R)), (LogCosh(), Bounded(R)),
    (LogCosh(), Schweppe(R)), (LogCosh(), MallowsLinear(R)), (PseudoHuber(), Bounded(R)),
    (Huber(), Clip(R)), (OstrovskiiBach(), Mallows(R)), (Quantile(0.8, 0.4), Mallows(R)),
    (Logistic(), Mallows(R)), (Logistic(), Bounded(R)), (Logistic(), Clip(R)),
]  # fmt: skip


def request(objective, X, y, weight, offset):
    bound = None if weight is None else LARGEST
    records = dpfast.records(X, y, sample_weight=weight, largest_weight=bound, offset=offset)
    return FitRequest(
        records, None, Account(1.0), fit_intercept=False, noise=SeededNoise(0), takes=EVERYTHING,
        of_predictor=offset_joins_predictor(objective.loss),
    )  # fmt: skip


def model(loss, weighting, free=None):
    return Objective(
        loss,
        weighting,
        2,
        fit_intercept=False,
        scale=free or (0.8 if loss.needs_scale else None),
    )


def cloud(objective, theta):
    """Structured records: directions, lengths, residuals or predictions, weights and offsets."""
    binary = objective.loss.binary_response
    unit = objective.loss.c * (0.8 if objective.free_scale is None else theta[-1])
    residuals = [0.0, 1.0] if binary else [0.0, 0.5 * unit, -unit, 1e6, -1e6, np.nan]
    rows = [
        [length * math.cos(a), length * math.sin(a), r]
        for a in np.arange(4) * math.pi / 4
        for length in (R, -R, 1e5)
        for r in residuals
    ]
    usual = [(LARGEST, 0.0), (0.3, 0.0), (LARGEST, 40.0), (LARGEST, -40.0)]
    odd = list(itertools.product(HOSTILE_WEIGHTS, HOSTILE_OFFSETS))
    table = [row + list(pair) for row in rows for pair in usual]
    table += [row + list(pair) for row in rows[:4] for pair in odd]
    X, r, weight, offset = np.split(np.array(table), [2, 3, 4], axis=1)
    r, weight, offset = r[:, 0], weight[:, 0], offset[:, 0]
    if binary:
        return X, r, weight, offset
    with np.errstate(all="ignore"):
        reach = np.maximum(1.0, np.linalg.norm(X, axis=1) / R)
        stretch = reach if isinstance(objective.weighting, Schweppe) else 1.0
        return X, X @ theta[:2] + r * stretch + np.nan_to_num(offset), weight, offset


def parts_of(objective, theta, want):
    X, y, weight, offset = cloud(objective, theta)
    records = request(objective, X, y, weight, offset).records
    found = nonprivate_contributions(objective, records.X, records.y, theta, want)
    return [None if part is None else part.reshape(len(y), -1) for part in found]


def squared(part):
    """Squared distances of all pairs."""
    gram = part @ part.T
    size = np.diag(gram)
    return size[:, None] + size[None, :] - 2.0 * gram


def theta_of(objective):
    theta = np.array([40.0, 39.0]) if objective.loss.binary_response else np.array([0.3, -0.2])
    return theta if objective.free_scale is None else np.append(0.0 * theta, 1.9)


@each(("loss", "weighting"), PAIRS, ids=repr)
def test_c70_c71_no_pair_of_weighted_records_exceeds_a_constant(loss, weighting):
    """Scores, curvatures and meats: at most the constant without weights, and 99% of it."""
    objective = model(loss, weighting)
    theta = theta_of(objective)
    want = GRADIENT | MEAT | (HESSIAN if objective.has_curvature else 0)
    score, hessian, meat = parts_of(objective, theta, want)
    tight = {"score": 0.99, "meat": 0.99, "hessian": 0.99}
    if loss.binary_response:
        theta = np.zeros(2)
        hessian = parts_of(objective, theta, HESSIAN)[1] if objective.has_curvature else None
    cases = [("score", score, objective.score_diameter)]
    cases.append(("meat", meat, math.sqrt(2.0) * objective.meat_bound))
    if hessian is not None:
        cases.append(("hessian", hessian, math.sqrt(2.0) * objective.curvature_bound))
    for name, part, constant in cases:
        assert np.isfinite(part).all()
        found = math.sqrt(squared(part).max())
        assert found <= constant * (1 + 1e-9), name
        assert found >= tight[name] * constant, (name, found / constant)


@pytest.mark.parametrize("majorize", [False, True])
@pytest.mark.parametrize(("loss", "weighting"), [p for p in PAIRS if p[1].has_curvature], ids=repr)
@pytest.mark.values
def test_c70_the_couplings_of_weighted_records_survive(loss, weighting, majorize):
    """All three at one parameter, in units of their noise: within the joint cost of C17 and C18."""
    objective = model(loss, weighting)
    want = GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT
    best = 0.0
    for theta in (theta_of(objective), np.array([0.6, -0.2])):
        parts = parts_of(objective, theta, want)
        squares = [squared(part) for part in parts]
        units = (
            objective.score_diameter,
            math.sqrt(2.0) * objective.curvature_bound,
            math.sqrt(2.0) * objective.meat_bound,
        )
        for g, h, q in [(1, 0.6, 0), (1, 0.6, 0.2), (1, 1, 0.16), (0.3, 1, 1), (1, 0, 0.25)]:
            budget = StepBudget(g**0.5, h**0.5, q**0.5, majorize=majorize)
            total = sum(
                b / unit**2 * s for b, unit, s in zip((g, h, q), units, squares, strict=True)
            )
            found = math.sqrt(float(total.max())) / joint_cost(objective, budget)
            assert found <= 1 + 1e-9, (g, h, q)
            best = max(best, found)
    assert best >= 0.99


@each("weighting", [Mallows(R), Bounded(R)], ids=repr)
@each("loss", [Huber(), LogCosh(), PseudoHuber(0.8)], ids=repr)
def test_c70_with_a_free_scale(loss, weighting):
    objective = model(loss, weighting, FreeScale(1e-3, 1e3, start=1.0))
    theta = theta_of(objective)
    score, hessian, meat = parts_of(objective, theta, GRADIENT | HESSIAN | MEAT)
    bounds = [record_bounds(objective, query, theta)[0] for query in ("hessian", "meat")]
    units = [objective.score_diameter, *[math.sqrt(2.0) * bound for bound in bounds]]
    squares = [squared(part) for part in (score, hessian, meat)]
    for square, unit in zip(squares, units, strict=True):
        assert math.sqrt(float(square.max())) <= unit * (1 + 1e-9)
    assert math.sqrt(float(squares[0].max())) >= 0.99 * units[0]
    for g, h, q in [(1, 0.4, 0), (1, 0.25, 0.1), (0.3, 1, 1)]:
        cost = joint_cost(objective, StepBudget(g**0.5, h**0.5, q**0.5))
        total = sum(b / u**2 * s for b, u, s in zip((g, h, q), units, squares, strict=True))
        assert math.sqrt(float(total.max())) <= cost * (1 + 1e-9)


def test_c70_a_weight_beyond_the_largest_would_break_the_constant():
    """The attack sees what the claim rests on: without holding weights, pairs exceed it."""
    objective = model(LogCosh(), Mallows(R))
    theta = theta_of(objective)
    X, y, weight, offset = cloud(objective, theta)
    kernel = RecordKernel(*objective.kernel_arguments(), largest_weight=3.0)
    usable = np.isfinite(y) & (weight > 0.0) & np.isfinite(offset)
    full = np.column_stack([y - offset, weight / LARGEST, 0.0 * y])[usable]
    scores = [
        kernel.sums(X[usable][i : i + 1], full[i : i + 1], theta, GRADIENT, 1.0)[0]
        for i in range(len(full))
    ]
    assert math.sqrt(squared(np.array(scores)).max()) > 2.5 * objective.score_diameter


@pytest.mark.parametrize("loss", [LogCosh(), Logistic()], ids=repr)
def test_c70_neighbours_of_a_curator_move_by_at_most_the_announced_sensitivity(loss):
    """Whole means, n = 40: a record's weight moves no other record's part of a sum."""
    objective = model(loss, Mallows(R))
    theta = theta_of(objective)
    rng = np.random.default_rng(0)
    X, y, weight, offset = cloud(objective, theta)
    distances = squared(parts_of(objective, theta, GRADIENT)[0])
    farthest = np.unravel_index(np.argmax(distances), distances.shape)
    worst = np.zeros(3)
    for trial in range(40):
        rows = rng.integers(len(y), size=40)
        columns = [c[rows].copy() for c in (X, y, weight, offset)]
        columns[2][1:] = 0.01  # the others weigh little
        sums = []
        for row in rng.integers(len(y), size=2) if trial else farthest:
            for column, source in zip(columns, (X, y, weight, offset), strict=True):
                column[0] = source[row]
            curator = request(objective, *columns).curator(objective)
            sums.append(curator.nonprivate_sums(theta))
            receipts = curator.receipts(StepBudget(1.0, 1.0, 1.0))
        moved = [float(np.linalg.norm(a - b)) for a, b in zip(*sums, strict=True)]
        limits = [receipt.l2_sensitivity for receipt in receipts]
        worst = np.maximum(worst, np.array(moved) / limits)
    assert (worst <= 1.0).all()
    assert worst[0] >= 0.99


@pytest.mark.parametrize("loss", [Huber(), LogCosh(), Quantile(0.8, 0.4)], ids=repr)
def test_c71_a_residual_does_not_know_its_offset(loss):
    """The contribution is, bit for bit, that of the record whose response lost its offset."""
    objective = model(loss, Mallows(R))
    theta = theta_of(objective)
    X, y, _, offset = cloud(objective, theta)
    with np.errstate(all="ignore"):
        alone = nonprivate_contributions(objective, X, y - offset, theta, 7)
    records = request(objective, X, y, None, offset).records
    assert records.y.ndim == 1
    joined = nonprivate_contributions(objective, records.X, records.y, theta, 7)
    for ours, expected in zip(joined, alone, strict=True):
        np.testing.assert_array_equal(ours, expected)
        assert not ours[~np.isfinite(offset)].any()


@each("loss", [*[kind() for kind in LOSSES.values()], POISSON], ids=repr)
def test_c71_models_and_kernels_agree_on_what_an_offset_joins(loss):
    """Taken from the response it is the same as the kernels' own, unless it joins the predictor."""
    objective = model(loss, Mallows(R))
    kernel = RecordKernel(*objective.kernel_arguments())
    X, theta = np.array([[0.7, -0.4]]), np.array([0.3, 0.9])
    y, o = 1.0, 0.6
    with_offset = kernel.sums(X, np.array([[y, 1.0, o]]), theta, GRADIENT, 1.0)[0]
    taken = kernel.sums(X, np.array([y - o]), theta, GRADIENT, 1.0)[0]
    assert np.array_equal(with_offset, taken) == (not offset_joins_predictor(loss))
    assert with_offset.any()


@pytest.mark.parametrize("loss", [LogCosh(), Logistic()], ids=repr)
def test_c70_c71_differences_of_losses(loss):
    """C21: at most the bound on a score times the step, whatever weights and offsets."""
    objective = model(loss, Mallows(R))
    new, old = np.array([0.5, -0.3]), np.array([-0.4, -0.3])
    X, y, weight, offset = cloud(objective, new)
    records = request(objective, X, y, weight, offset).records
    kernel = RecordKernel(*objective.kernel_arguments())
    found = np.array([
        kernel.loss_difference(records.X[i : i + 1], records.y[i : i + 1], new, old, 1.0)
        for i in range(len(y))
    ])  # fmt: skip
    constant = loss_difference(objective.score_bound, float(np.linalg.norm(new - old)), 1)
    assert np.ptp(found) <= constant
    assert np.ptp(found) >= (0.8 if loss.binary_response else 0.95) * constant
    assert not found[~(weight > 0.0) | ~np.isfinite(offset)].any()
