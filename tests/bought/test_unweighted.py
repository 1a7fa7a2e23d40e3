"""Logistic regression of raw columns: scores without weights, and what is said of long rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpfast
from dpfast.curator import Answer, Curator, JointAnswer, StepBudget
from dpfast.curator.answers import NOTHING, Receipt
from dpfast.data.records import as_records
from dpfast.inference.degrees import VarianceNoise
from dpfast.inference.sandwich import Covariance
from dpfast.models import Clip, Objective
from dpfast.optimize.adaptive.steps import Arrival
from dpfast.optimize.propagation import Curvature
from dpfast.optimize.trajectory import Trajectory
from dpfast.regression.unweighted.combined import ROUNDS, nearer, with_discounts
from dpfast.regression.unweighted.scores import held_share
from tests.privacy.test_whitened import observed_value

P, N = 6, 10_000
EYE = np.eye(P)


def answer(value, scale):
    return Answer(value, scale, Receipt("", "C13", 1.0, 1.0, scale))


def quadratic(scale, bias, seed, curvature=EYE):
    """Of a loss around zero: a weighted estimate with this bias, and who answers about all rows."""
    rng = np.random.default_rng(seed)
    asked = []

    def ask(theta, radius):
        asked.append(radius)
        slope = curvature @ theta + scale * rng.normal(size=P)
        return JointAnswer(answer(slope, scale), NOTHING, answer(EYE, 1e-9), 1.0)

    start = bias + scale * rng.normal(size=P)
    final = JointAnswer(answer(0 * start, scale), answer(EYE, 1e-9), NOTHING, 1.0)
    details = Arrival(scale**2 * EYE, np.zeros(P), False)
    return Trajectory(start, [start], final, (), details), ask, asked


def ended(bias, curvature=EYE):
    """Mean squared errors of 200 combinations, in those of one answer; radii that were asked."""
    errors, radii = [], []
    for seed in range(200):
        found, ask, asked = quadratic(0.01, bias, seed, curvature)
        theta, _ = nearer(found, None, ask, N, 3.0)
        errors.append(theta @ theta / (P * 1e-4))
        radii.append(asked)
    return float(np.mean(errors)), np.array(radii)


def test_estimates_without_a_bias_are_averaged_and_a_biased_one_is_left():
    """Of three answers alike, two about all rows: a third and a half of the variance of one."""
    error, radii = ended(np.zeros(P))
    assert error < 0.45
    assert radii.shape == (200, ROUNDS) and (radii == 3.0).mean() > 0.95
    error, radii = ended(np.linspace(-1.0, 1.0, P))
    assert error < 1.3
    assert (radii == [3.0, 5.1]).all()  # more may be cut where so much was missed


def test_a_curvature_that_weights_hid_is_made_up_for():
    """One direction is three times as steep as weighted rows say: full steps alone diverge."""
    steep = EYE + 2.0 * np.outer(EYE[0], EYE[0])
    assert ended(0.2 * EYE[0], steep)[0] < 3.0


def test_a_share_is_public_and_none_where_records_are_few():
    assert held_share(1000, 8, 1.0) == 0.0
    assert 0.49 < held_share(10**6, 8, 1.0) < 0.5
    assert held_share(6000, 8, 1.0) == pytest.approx(0.25)


def test_held_scores_of_odds_attain_their_sensitivity_and_their_meat_is_free():
    """C13 and C60 (c) for a logistic loss: opposite scores of full length."""
    rng = np.random.default_rng(2)
    n, bound = 30, 1.7
    X, y = rng.normal(size=(n, 2)), (rng.random(n) < 0.5) * 1.0
    theta, budget = np.array([0.0, 0.0, 0.0]), StepBudget(0.1, 0.0, 0.05)
    objective, scores = Objective("logistic", Clip(bound), 2), []
    for cell, response in itertools.product((-1e6, -3.0, 0.0, 1e6, np.nan), (0.0, 1.0, np.nan)):
        X[0], y[0] = (cell, 0.5), response
        noise, records = dpfast.SeededNoise(0), as_records(X, y)
        curator = Curator(records, objective, dpfast.Ledger(1e9), noise)
        assert curator.plan(budget).cost.mu <= 0.1 * (1.0 + 1e-12)
        scores.append(observed_value(lambda curator=curator: curator.joint(theta, budget)))
    sensitivity = curator.receipts(budget)[0].l2_sensitivity
    moves = [np.linalg.norm(a - b) for a, b in itertools.combinations(scores, 2)]
    assert sensitivity == pytest.approx(2.0 * bound / n, rel=1e-6)
    assert 0.99 * sensitivity <= max(moves) <= sensitivity


def table(n, wrong):
    """A covariate is lognormal; for the longest rows another model holds if it is ``wrong``."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    X[:, 2] = np.exp(1.2 * X[:, 2])
    odds = 0.5 + X @ [0.6, -0.4, 0.1]
    if wrong:
        odds = np.where(X[:, 2] > 8.0, 0.5 + X @ [0.6, -0.4, -0.1], odds)
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-odds))) * 1.0


@pytest.mark.parametrize("wrong", [False, True])
def test_a_fit_warns_where_long_rows_say_something_else(wrong):
    """Seeded, and far from the line on either side."""
    fit = dpfast.fit(*table(20_000, wrong), "logistic", privacy=1.0, noise=dpfast.SeededNoise(1))
    assert any("long rows tell something else" in remark for remark in fit.warnings) == wrong


@pytest.mark.parametrize(
    ("missed", "held", "said"), [(0.3, False, 1), (0.3, True, 0), (0.7, True, 1)]
)
def test_what_weights_may_miss_is_said_in_standard_errors(missed, held, said):
    spread = VarianceNoise(Curvature(2.0 * EYE, 0.0, 0, 0.0), 0.0, EYE, 0.0, N)
    covariance = Covariance(EYE / N, 0, np.zeros(P), (), spread)
    error = 2.0 * (P / N) ** 0.5
    assert len(with_discounts(covariance, missed * error, held).remarks) == said
