"""Recipes of fits: shared where nobody can change the arguments, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.regression.decisions import recipe_of
from tests.loops import each

ARGUMENTS = {
    "n": 1000, "n_covariates": 4, "mu": 1.0, "fit_intercept": True, "loss": "log-cosh",
    "scale": 1.0, "weights": None, "ridge": 1.0, "method": "newton",
    "inference": True,
}  # fmt: skip


def recipe(**changed):
    return recipe_of(**{**ARGUMENTS, **changed})


def test_equal_arguments_share_a_recipe():
    assert recipe() is recipe()


@each(
    "changed",
    [
        {"n": 20, "method": "auto"}, {"n_covariates": 3}, {"mu": 1.5}, {"fit_intercept": False},
        {"loss": "pseudo-huber"}, {"scale": 2.0}, {"weights": dpfast.Mallows(1.0)}, {"ridge": 0.5},
        {"method": "gradient-descent"}, {"inference": False},
        {"method": dpfast.optimize.Newton(steps=15)},
        {"method": dpfast.optimize.Newton(schedule="uniform")},
    ],
)  # fmt: skip
def test_every_argument_counts(changed):
    """A recipe of other arguments would have another sensitivity, noise or budget."""
    one, other = recipe(), recipe(**changed)
    same_objective = one.objective.kernel_arguments() == other.objective.kernel_arguments()
    same_costs = one.objective.constants() == other.objective.constants()
    same_texts = (one.method, one.model) == (other.method, other.model)
    assert not (same_objective and same_costs and same_texts and one.budgets == other.budgets)


@each(
    "wrong",
    [{"ridge": True}, {"scale": True}, {"scale": [1.0]},
     {"loss": ["log-cosh"]}, {"method": {}}],
)  # fmt: skip
def test_what_is_refused_is_refused_after_an_equal_value_was_accepted(wrong):
    """``True == 1`` and ``14.0 == 14``; what cannot be a key is refused by its own check."""
    recipe()
    with pytest.raises(InvalidInput):
        recipe(**wrong)


def test_what_can_be_changed_is_not_remembered():
    method = dpfast.optimize.Newton(newton_steps=2)
    before = recipe(method=method)
    method.newton_steps = 6
    after = recipe(method=method)
    assert before.budgets != after.budgets


def test_shared_recipes_are_not_changed_by_fits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X.sum(axis=1) + rng.normal(size=500)

    def fit():
        noise = dpfast.SeededNoise(3)
        return dpfast.fit(
            X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, noise=noise
        ).conf_int()

    first = fit()
    dpfast.fit(
        X, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, noise=dpfast.SeededNoise(8)
    )
    assert np.array_equal(first, fit())
