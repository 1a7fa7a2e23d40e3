"""Budgets: the exact rational sum of all charges is at most the total, for every schedule."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from dpfast.models import Bounded, Huber, LogCosh, Logistic, Mallows, Objective, PseudoHuber
from dpfast.optimize import Geometric, GradientDescent, Newton, Uniform
from dpfast.optimize.planning import choose_method
from dpfast.optimize.schedules import resolve_schedule
from dpfast.privacy.sensitivity import joint_mu
from tests.loops import each

SCHEDULES = [
    Uniform(),
    Geometric(1.0, 0.5),
    Geometric(3.0, 0.2),
    Geometric(10.0, 0.1),
    Geometric(1.1, 0.3),
    Geometric(1e6, 1e-6),
]
LOSSES = [Huber(), LogCosh(), PseudoHuber(), Logistic()]


def exact_total(budgets, objective):
    total = Fraction(0)
    for budget in budgets:
        coupling = objective.majorizer_coupling if budget.majorize else objective.coupling
        total += Fraction(joint_mu(coupling, *budget[:3])) ** 2
    return total


@settings(max_examples=200, deadline=None)
@given(
    mu=st.floats(1e-6, 1e3),
    n_steps=st.integers(1, 300),
    schedule=st.sampled_from(SCHEDULES),
    loss=st.sampled_from(LOSSES),
    method=st.sampled_from(
        [
            Newton,
            partial(Newton, newton_steps=0),
            partial(Newton, gradient_steps=3),
            GradientDescent,
            partial(GradientDescent, step_size="estimated"),
        ]
    ),
    inference=st.booleans(),
)
def test_planned_charges_never_exceed_the_total(mu, n_steps, schedule, loss, method, inference):
    scale = 1.5 if loss.needs_scale else None
    objective = Objective(loss, Mallows(2.0), 3, scale=scale)
    optimiser = method(steps=n_steps, schedule=schedule)
    budgets = optimiser.plan(objective, 1000, mu, inference)
    assert len(budgets) == budgets.most_steps == n_steps
    total = exact_total(budgets, objective) + Fraction(budgets.steering_mu) ** 2
    assert total <= Fraction(mu) ** 2
    # ... and next to nothing of it is left unspent
    assert total >= Fraction(mu) ** 2 * (1 - Fraction(1, 10**7))


@each("schedule", SCHEDULES, ids=repr)
@each("n_steps", [1, 2, 10, 1000])
def test_shares_are_positive_and_nondecreasing(schedule, n_steps):
    shares = np.array(schedule.shares(n_steps))
    assert (shares > 0).all()
    assert (np.diff(shares) >= 0).all()
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)


def test_geometric_never_costs_more_than_the_guard_promises():
    # Guarded shares are at least uniform_share/K: at most 1/sqrt(a) worse in std than uniform.
    shares = Geometric(10.0, 0.2).shares(50)
    assert min(shares) >= 0.2 / 50 * (1 - 1e-12)


@pytest.mark.parametrize("bad", ["linear", 3, Geometric])
def test_unknown_schedule_is_refused(bad):
    with pytest.raises(dpfast.InvalidInput, match="schedule must be"):
        resolve_schedule(bad, Uniform())


@each("arguments", [(0.5, 0.2), (2.0, 0.0), (2.0, 1.5), (float("nan"), 0.2)])
def test_geometric_refuses_bad_constants(arguments):
    with pytest.raises(dpfast.InvalidInput):
        Geometric(*arguments)


def test_auto_looks_at_public_sizes_only():
    objective = Objective(LogCosh(), Mallows(2.0), 3, scale=1.0)
    method, reason = choose_method("auto", objective, 1000, 1.0)
    assert isinstance(method, Newton) and "auto" in reason
    wide = Objective(LogCosh(), Mallows(10.0), 99, scale=1.0)
    method, reason = choose_method("auto", wide, 1000, 1.0)
    assert isinstance(method, GradientDescent) and "exceeds" in reason


def test_newton_needs_curvature():
    objective = Objective(LogCosh(), dpfast.models.Clip(1.0), 3, scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match="no Hessian"):
        choose_method("newton", objective, 1000, 1.0)
    method, _ = choose_method("auto", objective, 1000, 1.0)
    assert isinstance(method, GradientDescent)


def test_bounded_objective_has_self_concordance():
    assert Objective(Logistic(), Bounded(3.0), 2).self_concordance == 3.0
    assert Objective(Logistic(), Mallows(3.0), 2).self_concordance == float("inf")
