"""Random mistakes (tests/mutations.py) that no test had noticed: one for each that matters."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import dpfast
from dpfast.cli.paid import _split_names
from dpfast.effects import treatment
from dpfast.inference.composition import Charge, Maximum, Prepaid, Rows, Sum, amounts, unspent
from dpfast.inference.guarantees import Guarantee

PARTS = Charge("a", dpfast.GDP(0.3)), Charge("b", dpfast.GDP(0.4))


@pytest.mark.parametrize(
    ("composition", "used"),
    [
        (Sum(PARTS), 0.5),
        (Maximum("of disjoint records", PARTS), 0.4),
        (Sum((Prepaid("set aside", dpfast.GDP(0.9), Maximum("folds", PARTS)), PARTS[0])), 0.5),
    ],
)
def test_what_went_to_no_mechanism_follows_how_charges_add_up(composition, used):
    assert unspent(dpfast.GDP(1.0), composition).mu == pytest.approx((1.0 - used**2) ** 0.5)


def test_no_mean_moves_beyond_the_largest_one():
    """Where predictions of counts are held, marginal effects are zero."""
    x = np.linspace(-1.0, 1.0, 4000)
    fit = dpfast.fit(x[:, None], np.round(np.exp(x)), dpfast.Poisson(5.0), privacy=3.0)
    inside, beyond = fit.marginal_effects([[0.0]]), fit.marginal_effects([[50.0]])
    assert fit.predict([[50.0]])[0] == 5.0 and beyond.estimate[0] == 0.0 < inside.estimate[0]


def test_quantiles_of_a_range_that_does_not_begin_at_zero():
    values = np.random.default_rng(0).uniform(-30.0, -20.0, 4000)
    found = dpfast.private_quantiles(values, [0.25, 0.5], low=-90.0, high=-10.0, privacy=20.0)
    np.testing.assert_allclose(found, [-27.5, -25.0], atol=0.5)


def test_names_in_quotes_may_have_commas_after_a_space():
    assert _split_names('a, "b, c",d') == ["a", "b, c", "d"]


@pytest.mark.parametrize(
    ("total", "said"), [(dpfast.GDP(1.0), True), (dpfast.ApproxDP(1.0, 1e-6), False)]
)
def test_a_budget_that_is_no_pair_is_said_as_pairs(total, said):
    told = str(Guarantee.of(total, dpfast.SeededNoise(0), 100))
    assert ("equivalent to (epsilon=" in told) is said


def test_shares_of_a_total_in_rho_are_of_that_total():
    spent = [("a", 0.05), ("b", 0.2)]
    found = Guarantee.of(dpfast.ZCDP(0.25), dpfast.SeededNoise(0), 100, spent)
    assert found.unit == "rho"
    assert dict(found.shares()) == pytest.approx({"a": 0.2, "b": 0.8})


def test_an_effect_moves_by_the_step_over_the_share_that_is_complete():
    class Pseudo:
        def location(self, centre, clip, budget, square=False):
            return (
                SimpleNamespace(value=[0.4], noise_scale=0.01),
                SimpleNamespace(value=[2.0], noise_scale=0.01) if square else None,
            )

    budget = SimpleNamespace(steps=(0.5, 0.5))
    found = treatment._located(Pseudo(), 1.0, 9.0, 0.0, budget, 0.5, 100)
    assert found.estimate == pytest.approx(1.0 + 0.4 / 0.5)


def test_what_a_charge_is_in_another_currency():
    assert amounts(dpfast.GDP(0.4), dpfast.ZCDP) == (Fraction(8, 100),)
    assert amounts(dpfast.GDP(0.4), dpfast.GDP) == (Fraction(16, 100),)


def test_rows_of_a_person_cost_the_square_of_their_number():
    found = unspent(dpfast.GDP(1.0), Rows(3, Charge("a row", dpfast.GDP(0.2))))
    assert found.mu == pytest.approx((1.0 - 9 * 0.04) ** 0.5)


def test_a_formula_needs_one_response_and_levels_lie_inside():
    table = {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [0.0, 1.0]}
    for formula in ("x", "~ x", "y + z ~ x"):
        with pytest.raises(dpfast.InvalidInput):
            dpfast.fit(formula, table, privacy=1.0)
    for taus in ([0.5, 1.0], [0.0, 0.5], [0.5, 0.5]):
        with pytest.raises(dpfast.InvalidInput, match="strictly between 0 and 1"):
            dpfast.fit_quantiles(np.ones((9, 1)), np.ones(9), taus, privacy=1.0)
