"""How many arguments public functions have, and that each has one place."""

import inspect
from itertools import combinations

import dpfast
from dpfast.optimize import Method
from tests.loops import each
from tests.surface import parameters_of, public

#: Most arguments of `fit`, and of any other function.  A new setting of an optimiser, of a search
#: or of an objective goes into its class; what belongs to each record into `records`.
OF_FIT, MOST = 12, 13

#: Functions and the classes that hold the rest of their settings.
SETTINGS = {
    "fit": ["Newton", "GradientDescent"],
    "minimize": ["Adaptive", "Spider", "Proximal"],
    "tune": ["bayesopt.SearchSettings"],
}

FUNCTIONS = {name: thing for name, thing in public().items() if inspect.isfunction(thing)}


CALLED = {
    name: thing
    for name, thing in public().items()
    if not (inspect.isclass(thing) and issubclass(thing, BaseException))
}


@each("name", CALLED)
def test_no_function_has_more_arguments_than_one_can_hold(name):
    made_by_us = {"Fit", "Minimum", "bayesopt.Tuning"}  # results
    if name not in made_by_us:
        assert len(parameters_of(CALLED[name])) <= (OF_FIT if name == "fit" else MOST)


@each("name", [name for name in FUNCTIONS if name != "records" and "privacy" in parameters_of(
    FUNCTIONS[name])])  # fmt: skip
def test_what_belongs_to_records_and_objective_has_one_place(name):
    own = set(parameters_of(FUNCTIONS[name]))
    of_records = set(parameters_of(dpfast.records)) - {"X", "y"}
    assert own.isdisjoint(of_records)
    assert own.isdisjoint({"scale", "weights"})
    if "loss" in own or "objective" in own:
        assert own.isdisjoint({"ridge", "fit_intercept"})


@each("name", SETTINGS)
def test_a_setting_is_named_once_on_the_way(name):
    things = public()
    own = set(parameters_of(things[name]))
    for holder in SETTINGS[name]:
        assert own.isdisjoint(parameters_of(things[holder])), holder


def test_the_classes_of_settings_are_all_there():
    methods = {name for name, thing in public().items()
               if inspect.isclass(thing) and issubclass(thing, Method)}  # fmt: skip
    assert methods == set(SETTINGS["fit"])


def test_what_every_optimiser_with_planned_steps_has_is_said_alike():
    classes = [public()[name] for name in SETTINGS["fit"]]
    shared = list(parameters_of(Method))
    assert shared == ["steps", "schedule", "start"]
    for kind in classes:
        assert list(parameters_of(kind))[:3] == shared
    for one, other in combinations(classes, 2):
        both = [inspect.signature(kind).parameters for kind in (one, other)]
        assert [str(both[0][key]) for key in shared] == [str(both[1][key]) for key in shared]
