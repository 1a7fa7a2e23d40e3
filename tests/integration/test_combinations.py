"""Every loss with every weighting and method: works on hostile data, or is refused by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import dpfast
from dpfast.models import resolve_loss
from dpfast.models.names import LOSSES
from tests.loops import each

WEIGHTS = (
    dpfast.Mallows(1.5),
    dpfast.Bounded(1.5),
    dpfast.models.Schweppe(1.5),
    dpfast.models.MallowsLinear(1.5),
    dpfast.models.Clip(0.8),
)
NEWTON = dpfast.optimize.Newton()
METHODS = (
    ("gradient-descent", False),
    ("gradient-descent", True),
    ("auto", False),
    ("newton", False),
    ("newton", True),
)
SHORT = {
    "newton": dpfast.optimize.Newton(steps=3),
    "gradient-descent": dpfast.optimize.GradientDescent(steps=3),
}


def hostile(binary):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * 10.0 ** rng.choice([0.0, 0.0, 0.0, 200.0, -200.0], (60, 1))
    y = (rng.random(60) < 0.5) * 1.0 if binary else 10.0 ** rng.choice([0.0, 3.0, 300.0], 60)
    X[0], X[1, 1], y[2], y[3], X[4], X[5] = np.nan, np.inf, np.nan, -np.inf, 1.7e308, 5e-324
    return X, y


def expected(loss, weights, method, inference):
    """What must be refused, and the words that say why."""
    if not loss.needs_scale and isinstance(weights, dpfast.models.Schweppe):
        return "not a function of a residual"
    if method == "newton" or inference:
        if not loss.has_curvature:
            return "redescending"
        if isinstance(weights, dpfast.models.MallowsLinear):
            return "no finite bound"
        if isinstance(weights, dpfast.models.Clip):
            return "not the gradient of a loss"
    return None


@each("name", LOSSES)
@pytest.mark.one_in(3)
def test_every_combination_works_or_is_refused_by_name(name):
    loss = resolve_loss(name)
    X, y = hostile(loss.binary_response)
    scale = 0.8 if loss.needs_scale else None
    n_refused = 0
    for weights, (method, inference) in product(WEIGHTS, METHODS):
        reason = expected(loss, weights, method, inference)
        short = SHORT.get(method, method)
        objective, ledger = dpfast.Objective(name, weights, scale=scale), dpfast.Ledger(1.0)
        call = {"privacy": 1.0, "ledger": ledger, "method": short, "inference": inference}
        if reason is None:
            result = dpfast.fit(X, y, objective, **call)
            assert np.isfinite(result.params).all()
            continue
        n_refused += 1
        with pytest.raises(dpfast.InvalidInput) as caught:
            dpfast.fit(X, y, objective, **call)
        message = str(caught.value)
        assert reason in message
        # the part that is at fault, by name, and what would be allowed
        at_fault = name if reason == "redescending" else type(weights).__name__
        assert at_fault in message
        assert ledger.entries == ()
    assert n_refused >= 6


@each("name", LOSSES)
def test_adaptive_steps_need_a_public_self_concordance(name):
    """Finite with Schweppe's and bounded rows only, and for self-concordant losses only."""
    loss = resolve_loss(name)
    if not loss.has_curvature:
        return
    X, y = hostile(loss.binary_response)
    scale = 0.8 if loss.needs_scale else None
    from dpfast.optimize.damping import DecrementSwitch, SelfConcordant

    for weights, step in product(WEIGHTS[:3], (SelfConcordant(), DecrementSwitch())):
        if not loss.needs_scale and isinstance(weights, dpfast.models.Schweppe):
            continue
        objective = dpfast.Objective(name, weights, scale=scale)
        options = {"privacy": 1.0, "method": dpfast.optimize.Newton(step=step, steps=3)}
        works = loss.self_concordance < np.inf and not isinstance(weights, dpfast.Mallows)
        if works:
            dpfast.fit(X, y, objective, **options)
        else:
            with pytest.raises(dpfast.InvalidInput, match="self-concordance"):
                dpfast.fit(X, y, objective, **options)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(3)
def test_no_penalty_makes_a_fit_diverge(name):
    """A mean of scores of norm at most B balances ``ridge * theta``: nothing longer than B/ridge.

    Steps along the gradient that leave the ridge out of their length grew to 1e98.
    """
    loss = resolve_loss(name)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = X @ [2.0, -1.0] + rng.normal(size=200)
    y = (y > 0.0) * 1.0 if loss.binary_response else y
    scale = 0.8 if loss.needs_scale else None
    for weights, method, ridge in product(WEIGHTS, ("auto", "gradient-descent"), (0.1, 10.0, 1e3)):
        if isinstance(weights, dpfast.models.Schweppe) and not loss.needs_scale:
            continue
        fit = dpfast.fit(
            X, y, dpfast.Objective(name, weights=weights, scale=scale, ridge=ridge), privacy=50.0,
            method=method, inference=False, noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        bound = loss.psi_bound * weights.radius
        if isinstance(weights, dpfast.models.Clip):
            bound = weights.radius
        assert np.linalg.norm(fit.params) <= 1.1 * bound / ridge, (weights, method, ridge)


@pytest.mark.parametrize("step_size", [0.2, 1.0])
def test_steps_that_must_diverge_are_refused(step_size):
    X, y = np.ones((9, 1)), np.zeros(9)
    descent = dpfast.optimize.GradientDescent(step_size=step_size)
    ledger = dpfast.Ledger(1.0)
    huber = dpfast.Objective("huber", scale=1.0, ridge=10.0)
    with pytest.raises(dpfast.InvalidInput, match=r"below 1/ridge = 0\.1"):
        dpfast.fit(X, y, huber, method=descent, privacy=1.0, ledger=ledger)
    assert ledger.entries == ()
