"""Objectives that are bound to the columns or to none: the same results, or a refusal."""

import numpy as np
import pytest

import dpfast

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = 0.3 + X @ [1.0, -0.5] + RNG.normal(size=600)
PURE = dpfast.PureDP(4.0)
FREE = dpfast.FreeScale(0.2, 5.0, start=1.5)


def seeded(function, **options):
    def call(X, y, loss):
        return function(X, y, loss, noise=dpfast.SeededNoise(1), **options).params

    return call


def planned(X, y, loss):
    return dpfast.plan(n=2000, privacy=1.0, loss=loss, pilot=(X, y)).widths


def kl(X, y, loss):
    found = dpfast.nonconvex.estimate_kl(X, y, loss, n_rays=2)
    return np.array([*found.kl, found.excesses.sum()])


def certified(X, y, loss):
    noise, domain = dpfast.SeededNoise(1), dpfast.models.Box(3.0)
    return dpfast.release.certify(X, y, loss, privacy=PURE, domain=domain, noise=noise).lower_bound


PLAIN = {"scale": 1.0}
BARE = {"scale": 1.0, "fit_intercept": False}
FULL = {"scale": 1.0, "ridge": 0.1, "weights": dpfast.Mallows(1.5)}
CALLS = {
    "fit": (seeded(dpfast.fit, privacy=1.0), [PLAIN, FULL, {"scale": FREE}]),
    "fit, no intercept": (seeded(dpfast.fit, privacy=1.0), [BARE]),
    "nonprivate_fit": (
        lambda *data: dpfast.nonprivate_fit(*data).params,
        [PLAIN, FULL, {"scale": FREE}],
    ),
    "minimize": (seeded(dpfast.minimize, privacy=1.0), [PLAIN, FULL]),
    "nonprivate_minimize": (
        lambda *data: dpfast.nonconvex.nonprivate_minimize(*data).params,
        [PLAIN, FULL],
    ),
    "estimate_kl": (kl, [PLAIN, FULL]),
    "plan": (planned, [PLAIN, {"scale": 1.0, "weights": dpfast.Mallows(1.5)}]),
}
CASES = [(name, parts) for name, (_, several) in CALLS.items() for parts in several]


@pytest.mark.parametrize(("name", "parts"), CASES, ids=str)
@pytest.mark.one_in(2)
def test_an_objective_may_be_bound_to_the_columns_or_to_none(name, parts):
    call, objective = CALLS[name][0], dpfast.Objective("log-cosh", **parts)
    np.testing.assert_array_equal(call(X, Y, objective.bind(2)), call(X, Y, objective))


def test_an_objective_says_whether_there_is_an_intercept():
    for objective in (
        dpfast.Objective("log-cosh", scale=1.0, fit_intercept=False),
        dpfast.Objective("log-cosh", scale=1.0, fit_intercept=False).bind(2),
    ):
        assert dpfast.fit(X, Y, objective, privacy=1.0).names == ("x1", "x2")
    with pytest.raises(dpfast.InvalidInput, match="for 3 covariates and X has 2"):
        dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0).bind(3), privacy=1.0)


@pytest.mark.parametrize("function", [dpfast.fit, dpfast.minimize])
def test_the_scale_is_in_the_units_of_the_response(function):
    schema = dpfast.Schema(
        {"a": dpfast.Numeric(-3, 3), "y": dpfast.Numeric(-100.0, 100.0, centre=3.0, unit=10.0)}
    )
    design = schema.encode({"a": X[:, 0], "y": 10.0 * Y}, response="y")
    objective = dpfast.Objective("log-cosh", scale=10.0)
    wanted, found = (
        function(design, None, one, noise=dpfast.SeededNoise(2), privacy=1.0)
        for one in (objective, objective.bind(1))
    )
    np.testing.assert_array_equal(found.params, wanted.params)
    assert found.model == wanted.model


def test_what_cannot_be_one_is_refused_where_it_is_made():
    for wrong in (
        {"loss": "absent"}, {"loss": "logistic", "scale": 1.0},
        {"loss": "logistic", "scale": FREE}, {"loss": "huber", "scale": 1.0, "weights": 2.0},
        {"loss": "huber", "scale": -1.0}, {"loss": "huber", "scale": 1.0, "ridge": -1.0},
        {"loss": "huber", "scale": 1.0, "fit_intercept": 7},
    ):  # fmt: skip
        with pytest.raises(dpfast.InvalidInput):
            dpfast.Objective(**wrong)
    with pytest.raises(dpfast.InvalidInput, match="ridge penalty"):
        dpfast.Objective("huber", scale=FREE, ridge=0.1).bind(2)
    with pytest.raises(dpfast.InvalidInput, match="the domain bounds the rows"):
        certified(X, Y, dpfast.Objective("log-cosh", dpfast.Mallows(2.0), scale=1.0))
    with pytest.raises(dpfast.InvalidInput, match="without a penalty"):
        planned(X, Y, dpfast.Objective("log-cosh", scale=1.0, ridge=0.1))
    for function in (planned, certified, CALLS["minimize"][0]):  # of a known scale only
        with pytest.raises(dpfast.InvalidInput, match="scale"):
            function(X, Y, dpfast.Objective("log-cosh", scale=FREE))


def test_constants_are_those_of_the_columns():
    objective = dpfast.Objective("huber", scale=1.0)
    assert not objective.bound and objective.bind(3).bound
    bound = objective.bind(3)
    assert bound.weighting.radius == 2.0 and bound.bind(3) is bound
    assert repr(objective) == "Objective(Huber(c=1.345), scale=1.0)"
    with pytest.raises(dpfast.InvalidInput, match="is for 3 covariates"):
        bound.bind(4)
