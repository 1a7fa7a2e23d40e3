"""Step rules of the noisy Newton method: sizes, budgets, and what they are for."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import dpfast
from dpfast.models import Bounded, LogCosh, Mallows, Objective, Schweppe
from dpfast.optimize import damping
from dpfast.optimize.damping import (
    AveragingTail,
    Backtracking,
    Damped,
    DecrementSwitch,
    FullSteps,
    GradientSwitch,
    SelfConcordant,
    Situation,
)
from tests.loops import each

BOUNDED = Objective(LogCosh(), Bounded(3.0), 3, scale=1.0)


def situation(length, *, gradient_scale=1e-3):
    direction = np.array([length, 0.0, 0.0, 0.0])
    return Situation(None, np.zeros(4), 0.2 * direction, direction, np.full(4, 0.2), gradient_scale)


def data(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, 1.0 + X.sum(axis=1) + rng.normal(size=n)


def test_fixed_rules():
    assert FullSteps().start(BOUNDED, 1.0).step_size(situation(5.0)) == 1.0
    assert Damped(0.3).start(BOUNDED, 1.0).step_size(situation(5.0)) == 0.3
    for bad in (0.0, 1.5, math.nan):
        with pytest.raises(dpfast.InvalidInput):
            Damped(bad)


def test_a_tail_averages_and_leaves_short_runs_alone():
    rule = AveragingTail(0.5).start(BOUNDED, 1.0)
    assert rule.length == 6  # 0.5^6 is the first power below 2%

    def sizes(n_steps):
        return [
            rule.step_size(situation(1.0)._replace(step=k, n_steps=n_steps)) for k in range(n_steps)
        ]

    assert sizes(20) == [1.0] * 14 + [0.5] * 6
    assert sizes(6) == [1.0] * 4 + [0.5] * 2
    assert sizes(2) == [1.0, 1.0]
    for bad in ({"step_size": 1.0}, {"step_size": 0.0}, {"length": 0}):
        with pytest.raises(dpfast.InvalidInput):
            AveragingTail(**bad)


def test_self_concordant_step_is_the_formula_and_tends_to_one():
    rule = SelfConcordant().start(BOUNDED, 1.0)
    gamma = BOUNDED.self_concordance
    assert gamma == pytest.approx(2.0 / 1.345 * 3.0)
    for length in (10.0, 1.0, 1e-3):
        b = gamma * length
        assert rule.step_size(situation(length)) == pytest.approx(math.log1p(b) / b)
    assert rule.step_size(situation(0.0)) == 1.0


@pytest.mark.parametrize("rule", [SelfConcordant(), DecrementSwitch(), GradientSwitch()])
def test_mallows_weights_do_not_say_how_fast_a_curvature_changes(rule):
    with pytest.raises(dpfast.InvalidInput, match=r"self-concordance|how fast"):
        rule.start(Objective(LogCosh(), Mallows(3.0), 3, scale=1.0), 1.0)
    jumps = Objective(dpfast.Huber(), Bounded(3.0), 3, scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match=r"self-concordance|how fast"):
        rule.start(jumps, 1.0)


def test_decrement_switch_stays_switched_and_takes_out_the_noise():
    rule = DecrementSwitch(0.25).start(BOUNDED, 1.0)
    assert rule.step_size(situation(5.0)) == 0.25
    threshold = 1.0 / (16.0 * BOUNDED.self_concordance)
    # decrement^2 = 0.2 length^2 and lambda_min = 0.2: the test compares length with the threshold
    assert rule.step_size(situation(1.01 * threshold, gradient_scale=0.0)) == 0.25
    noisy = situation(1.01 * threshold, gradient_scale=1e-3)  # the excess is noise
    assert rule.step_size(noisy) == 1.0
    assert rule.step_size(situation(5.0)) == 1.0


def curvature_answers(value, noise_scale):
    asked = []

    def largest_curvature(mu):
        asked.append(mu)
        return SimpleNamespace(value=np.array([value]), noise_scale=noise_scale)

    return SimpleNamespace(largest_curvature=largest_curvature), asked


def test_gradient_switch_compares_a_gradient_with_tau_squared_over_l():
    rule = GradientSwitch(0.25, share=0.1).start(BOUNDED, 0.7)
    answers, asked = curvature_answers(0.8, 0.1)
    loss = BOUNDED.loss
    lipschitz = loss.psi_second_bound / loss.psi_prime_bound * 3.0 * (0.8 + 2.0 * 0.1)
    longest = (0.2 / 2.0) ** 2 / lipschitz  # tau is half of the smallest eigenvalue
    for factor, size in ((1.01, 0.25), (0.99, 1.0), (50.0, 1.0)):
        near = situation(factor * longest / 0.2, gradient_scale=0.0)
        assert rule.step_size(near._replace(answers=answers)) == size
    assert asked == [0.7]  # once


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        (LogCosh(), Bounded(1.5)),
        (dpfast.models.SmoothedHuber(), Schweppe(1.5)),
        (dpfast.Logistic(), Bounded(1.5)),
    ],
)
def test_no_curvature_changes_faster_than_the_gradient_switch_allows(loss, weights):
    """``||H(s) - H(t)|| <= _curvature_change * largest curvature * ||s - t||``, nearly attained."""
    scale = 0.7 if loss.needs_scale else None
    objective = Objective(loss, weights, 1, scale=scale, fit_intercept=False)
    unit = scale or 1.0
    allowed = damping._curvature_change(objective)
    x = 1.5  # the longest row that counts in full
    ends = np.linspace(-4.0, 4.0, 4001)
    curvature = loss.psi_prime((0.0 - x * ends) / unit) / unit * x * x
    steepest = np.abs(np.diff(curvature) / np.diff(ends)).max()
    largest = loss.psi_prime_bound / unit * x * x
    assert 0.98 * allowed * largest < steepest <= allowed * largest * (1.0 + 1e-9)


@pytest.mark.parametrize("rule", [DecrementSwitch(0.3), GradientSwitch(0.3)])
def test_a_switch_ends_with_full_steps(rule):
    answers, _ = curvature_answers(0.8, 0.1)
    rule = rule.start(BOUNDED, 1.0)
    far = situation(5.0)._replace(answers=answers, n_steps=12)
    assert [rule.step_size(far._replace(step=k)) for k in range(12)] == [0.3] * 8 + [1.0] * 4


@pytest.mark.parametrize("rule", [DecrementSwitch(0.3), GradientSwitch(0.3), Damped(0.3)])
@pytest.mark.one_in(2)
def test_intervals_after_damped_steps_cover(rule):
    """They covered in .72, and none in six of the fits warned: a start's error is no noise."""
    covered = []
    for seed in range(25):
        X, y = data(4000, seed)
        fit = dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", weights=Schweppe(2.0), scale=1.0),
            privacy=1.0,
            method=dpfast.optimize.Newton(step=rule, steps=12),
            noise=dpfast.SeededNoise(seed),
        )
        low, high = np.asarray(fit.conf_int()).T
        covered.append((low <= 1.0) & (high >= 1.0))
        assert not fit.warnings
    assert np.mean(covered) >= 0.9  # of 100; .95 but for 2.3 standard errors


@each(
    "step",
    [
        FullSteps(),
        Damped(0.5),
        SelfConcordant(),
        DecrementSwitch(),
        GradientSwitch(),
        Backtracking(6),
    ],
    ids=repr,
)
def test_every_rule_spends_at_most_the_total_and_fits(step):
    X, y = data()
    start = [0.7] * 4  # pure Newton diverges from zero
    method = dpfast.optimize.Newton(newton_steps=25, step=step, steps=25, start=start)
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective("log-cosh", weights=dpfast.Bounded(6.0), scale=1.0),
        privacy=1e4,
        method=method,
        noise=dpfast.SeededNoise(0),
    )
    plain = dpfast.nonprivate_fit(
        X, y, dpfast.Objective("log-cosh", weights=dpfast.Bounded(6.0), scale=1.0)
    )
    np.testing.assert_allclose(fit.params, plain.params, atol=1e-2)
    spent = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert spent <= 1e8
    tests = [label for label, _ in fit.privacy.entries if label == "loss difference"]
    assert len(tests) <= (6 if isinstance(step, Backtracking) else 0)


def test_backtracking_rescues_a_start_from_which_pure_newton_diverges():
    """Paper 1, Appendix G: from (4, -2, 0, 4) pure Newton diverges, with or without noise."""
    X, y = data()
    start = [4.0, -2.0, 0.0, 4.0]
    ends = {}
    for name, step in (("pure", FullSteps()), ("search", Backtracking(20))):
        fit = dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", weights=dpfast.Mallows(2**0.5), scale=1.0),
            privacy=50.0,
            method=dpfast.optimize.Newton(newton_steps=10, step=step, steps=10, start=start),
            noise=dpfast.SeededNoise(3),
        )
        ends[name] = float(np.linalg.norm(fit.params - 1.0))
    assert ends["search"] < 0.5 < np.linalg.norm(np.array(start) - 1.0) < ends["pure"]


def test_majorising_steps_need_no_search_at_all():
    X, y = data()
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective("log-cosh", weights=dpfast.Mallows(2**0.5), scale=1.0),
        privacy=2.0,
        method=dpfast.optimize.Newton(start=[4.0, -2.0, 0.0, 4.0]),
        noise=dpfast.SeededNoise(3),
    )
    assert np.linalg.norm(fit.params - 1.0) < 0.5


@each(
    "options", [{"newton_steps": -1}, {"floor": -1.0}, {"max_step": 0.0}, {"early_ridge": math.nan}]
)
def test_bad_settings(options):
    with pytest.raises(dpfast.InvalidInput):
        dpfast.optimize.Newton(**options)


def test_two_phases_and_gradient_start():
    X, y = data()
    for method in (
        dpfast.optimize.Newton(early_ridge=0.05),
        dpfast.optimize.Newton(gradient_steps=3),
    ):
        fit = dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=1e3,
            method=method,
            noise=dpfast.SeededNoise(0),
        )
        weights = dpfast.Mallows(math.sqrt(1 + X.shape[1]))
        plain = dpfast.nonprivate_fit(X, y, Objective("log-cosh", weights, scale=1.0))
        np.testing.assert_allclose(fit.params, plain.params, atol=1e-2)
