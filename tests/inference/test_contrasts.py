"""Contrasts by name say what the same weights by position say; what is no name is refused."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.inference.contrasts import by_name
from tests.loops import each

NAMES = ("intercept", "educ", "exper", "exper2", "sex[T.M]", "educ:exper", "net - tax", "net")

WRITTEN = {
    "educ": {"educ": 1},
    " - educ ": {"educ": -1},
    "educ - exper": {"educ": 1, "exper": -1},
    "educ-exper2": {"educ": 1, "exper2": -1},
    "2*educ + 0.5 exper": {"educ": 2, "exper": 0.5},
    "2 educ - exper * 3": {"educ": 2, "exper": -3},
    "educ/4 + 1e1 * exper": {"educ": 0.25, "exper": 10},
    "educ + educ": {"educ": 2},
    "educ - educ": {},
    "sex[T.M] + .5 * educ:exper": {"sex[T.M]": 1, "educ:exper": 0.5},
    "net - tax": {"net - tax": 1},
    "net - net - tax": {"net": 1, "net - tax": -1},
    "intercept + 12educ": {"intercept": 1, "educ": 12},
    "2*(educ - exper)/4": {"educ": 0.5, "exper": -0.5},
    "educ * (1 + 2) - (exper)": {"educ": 3, "exper": -1},
}

#: Equations, their weights and their values.
EQUATIONS = {
    "educ = exper": [({"educ": 1, "exper": -1}, 0)],
    "educ=1": [({"educ": 1}, 1)],
    "2*educ + exper = 1": [({"educ": 2, "exper": 1}, 1)],
    "educ - 3 = 2*(exper + 1)": [({"educ": 1, "exper": -2}, 5)],
    "1 = -educ": [({"educ": 1}, -1)],
    "educ = exper, sex[T.M] = 2": [({"educ": 1, "exper": -1}, 0), ({"sex[T.M]": 1}, 2)],
    "net - tax = net, educ": [({"net - tax": 1, "net": -1}, 0), ({"educ": 1}, 0)],
}


def weights(named):
    row = np.zeros(len(NAMES))
    for name, weight in named.items():
        row[NAMES.index(name)] = weight
    return row


@each("text", WRITTEN)
def test_what_is_written_is_a_row_of_weights(text):
    for asked in (text, WRITTEN[text]):
        rows, value = by_name(asked, NAMES)
        np.testing.assert_array_equal(rows, [weights(WRITTEN[text])])
        assert value == 0.0


@each("text", EQUATIONS)
def test_an_equation_is_a_row_of_weights_and_a_value(text):
    rows, values = by_name(text, NAMES)
    np.testing.assert_array_equal(rows, [weights(named) for named, _ in EQUATIONS[text]])
    np.testing.assert_array_equal(values, [value for _, value in EQUATIONS[text]])
    rows, values = by_name([text, "net"], NAMES)
    np.testing.assert_array_equal(rows[-1], weights({"net": 1}))
    assert values == [*[value for _, value in EQUATIONS[text]], 0.0]


@pytest.mark.parametrize("text", ["educ = exper", "2*(educ + exper) - net = 3, net/2 = educ - 1"])
def test_equations_mean_what_they_do_in_formulaic(text):
    constraints = pytest.importorskip("formulaic.utils.constraints")
    names = ["educ", "exper", "net"]
    theirs = constraints.LinearConstraints.from_spec(text, variable_names=names)
    rows, values = by_name(text, tuple(names))
    np.testing.assert_array_equal(rows, theirs.constraint_matrix)
    np.testing.assert_array_equal(values, theirs.constraint_values)


def test_a_value_is_said_once():
    with pytest.raises(dpfast.InvalidInput, match="not both"):
        by_name("educ = exper", NAMES, 1.0)


def test_several_are_rows():
    found, _ = by_name(["educ - exper", {"net": 2.0}], NAMES)
    np.testing.assert_array_equal(found, [weights({"educ": 1, "exper": -1}), weights({"net": 2})])


def test_weights_by_position_are_left_alone():
    for given in (np.eye(8), [0, 1, 0], [[1.0, 2.0]], 3.0):
        rows, value = by_name(given, NAMES, 2.0)
        assert rows is given and value == 2.0


@each(
    "wrong",
    [
        "", "wage", "educ exper", "educ -", "educ * exper", "education", "educ + + exper", "2",
        "educ = exper = net", "= 1", "educ =", "educ = 1,", "(educ", "educ)", "educ * exper = 1",
        "1 / educ", "educ, , net", "(" * 60 + "educ" + ")" * 60, "educ *",
        "educ ** 2", "educ - 3", "+", {"wage": 1.0}, {"educ": "1"},
        {1: 1.0}, ["educ", 1.0], ["educ", [0, 1]], ["educ", "wage"], {"educ": None},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_sum_of_coefficients_is_refused(wrong):
    with pytest.raises(dpfast.InvalidInput):
        by_name(wrong, NAMES)


@each("wrong", ["educ / 0", {"educ": np.nan}, {"educ": np.inf}, "1e999 educ"])
def test_weights_that_are_no_numbers_are_refused(wrong):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    fit = dpfast.nonprivate_fit(
        dpfast.records(X, X[:, 0], names=["educ"]), None, dpfast.Objective("huber", scale=1.0)
    )
    with pytest.raises(dpfast.InvalidInput):
        fit.t_test(wrong)


def test_tests_go_by_name_whatever_the_order_of_the_columns():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(500, 3)), columns=["educ", "exper", "age"])
    y = table["educ"] - 0.5 * table["age"] + rng.normal(size=500)
    results = [
        dpfast.nonprivate_fit(table[list(order)], y, dpfast.Objective("huber", scale=1.0))
        for order in (("educ", "exper", "age"), ("age", "educ", "exper"))
    ]
    for asked in ("educ - 2*age", {"educ": 1.0, "age": -2.0}):
        first, second = (result.t_test(asked) for result in results)
        np.testing.assert_allclose(first.estimate, second.estimate, rtol=1e-6)
        np.testing.assert_allclose(first.bse, second.bse, rtol=1e-6)
    joint = [result.wald_test(["educ + age", "exper"], [0.5, 0.0]) for result in results]
    assert joint[0].statistic == pytest.approx(joint[1].statistic, rel=1e-6)
    assert joint[0].df == 2
    by_position = results[1].t_test([0.0, -2.0, 1.0, 0.0])
    assert results[1].t_test("educ - 2*age").estimate == by_position.estimate


def test_a_text_that_is_a_name_is_that_coefficient_and_two_of_a_name_are_refused():
    def result(names):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 2))
        y = X @ [1.0, -2.0] + rng.normal(size=500)
        noise = dpfast.SeededNoise(0)
        loss = dpfast.Objective("huber", weights=dpfast.Mallows(2.0), scale=1.0)
        return dpfast.fit(dpfast.records(X, y, names=names), None, loss, privacy=5.0, noise=noise)

    for name in ("-a", "2 a", "a - a"):
        found = result([name, "a"])
        assert found.t_test(name).estimate == found.params[1]
    twice = result(["a", "a"])
    for contrast in ("a", {"a": 1.0}):
        with pytest.raises(dpfast.InvalidInput, match="2 coefficients are called"):
            twice.t_test(contrast)
