"""How many arguments public functions have, and that each has one place."""

import inspect
from itertools import combinations

import dpfast
from dpfast.optimize import Method
from tests.loops import each
from tests.surface import parameters_of, public

#: Most arguments of a function; of any other, MOST.  A new setting of an optimiser, of a search or
#: of an objective goes into its class.  `group`, `sample_weight` with its bound and `offset`
#: describe the records, and have no other place.
CEILINGS = {
    "fit": 22, "fit_quantiles": 21, "release_functional": 19, "minimize": 17, "certify": 14,
    "release_parameter": 14,
    "tune": 13, "plan": 11, "plan_release": 9, "estimate_kl": 10, "nonprivate_fit": 13,
    "baselines.clipped_gradient_descent": 18, "baselines.dp_sgd": 19,
    "baselines.adassp": 13, "baselines.noisy_descent": 12, "baselines.objective_perturbation": 12,
    "baselines.output_perturbation": 12, "baselines.sufficient_statistics": 12,
}  # fmt: skip
MOST = 11

#: Functions and the classes that hold the rest of their settings.
SETTINGS = {
    "fit": ["AdaptiveNewton", "Newton", "JointNewton", "GradientDescent", "DoubleNoise"],
    "minimize": ["Adaptive", "Spider", "Proximal"],
    "tune": ["bayesopt.SearchSettings"],
}

FUNCTIONS = {name: thing for name, thing in public().items() if inspect.isfunction(thing)}


@each("name", FUNCTIONS)
def test_no_function_has_more_arguments_than_it_had(name):
    assert len(parameters_of(FUNCTIONS[name])) <= CEILINGS.get(name, MOST)


def test_ceilings_are_of_public_functions_and_as_low_as_they_can_be():
    found = {name: len(parameters_of(FUNCTIONS[name])) for name in CEILINGS}
    assert found == CEILINGS


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


def test_an_objective_has_what_it_stands_for():
    parts = {"loss", "scale", "weights", "ridge"}
    assert parts < set(parameters_of(dpfast.Objective)) & set(parameters_of(dpfast.fit))


def test_what_every_optimiser_with_planned_steps_has_is_said_alike():
    classes = [public()[name] for name in SETTINGS["fit"] if name != "AdaptiveNewton"]
    shared = list(parameters_of(Method))
    assert shared == ["steps", "schedule", "start"]
    for kind in classes:
        assert list(parameters_of(kind))[-3:] == shared
    for one, other in combinations(classes, 2):
        both = [inspect.signature(kind).parameters for kind in (one, other)]
        assert [str(both[0][key]) for key in shared] == [str(both[1][key]) for key in shared]
