"""What is left out of a product of parameters, and what never is."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.thinned import covering, in_sixth, thin

AXES = {"a": range(3), "b": range(4), "c": range(2), "d": range(3)}
PRODUCT = [dict(zip(AXES, case, strict=True)) for case in itertools.product(*AXES.values())]


@pytest.mark.parametrize(("strength", "most"), [(1, 4), (2, 15)])
def test_every_value_and_every_pair_is_covered(strength, most):
    kept = [PRODUCT[k] for k in covering(PRODUCT, strength)]
    assert len(kept) <= most  # of 72; no fewer than 4 and 12 are possible
    for some in itertools.combinations(AXES, strength):
        met = {tuple(case[axis] for axis in some) for case in kept}
        assert met == set(itertools.product(*(AXES[axis] for axis in some)))


def test_values_are_spread():
    """Not the first of one parameter with all of another."""
    kept = [PRODUCT[k] for k in covering(PRODUCT, 1)]
    assert {case["c"] for case in kept[:2]} == {0, 1}


def test_one_parameter_is_never_thinned():
    cases = [{"a": k} for k in range(5)]
    assert sorted(covering(cases, 1)) == sorted(covering(cases, 2)) == [*range(5)]


def test_sixths_are_a_partition_that_never_changes():
    names = [f"tests/a.py::test_{k}[{k % 7}]" for k in range(6000)]
    sizes = [[in_sixth(name, k) for name in names] for k in range(6)]
    assert [sum(one) for one in zip(*sizes, strict=True)] == [1] * 6000
    assert all(900 < sum(one) < 1100 for one in sizes)
    assert in_sixth("tests/test_thinned.py::test", 1)


class Case:
    """As much of an item of pytest as is looked at."""

    parent, originalname = None, "test"

    def __init__(self, *markers, **params):
        self.callspec, self.markers = SimpleNamespace(params=params), list(markers)

    def get_closest_marker(self, name):
        return next((m.mark for m in self.markers if m.name == name), None)

    def add_marker(self, marker):
        self.markers.append(marker)


def quick(cases):
    thin(cases)
    return [tuple(case.callspec.params.values()) for case in cases if len(case.markers) == 1]


def of_twins():
    axes = ["wide", "narrow", "base"], range(4), [False, True]
    return [
        Case(pytest.mark.one_source, isa=isa, q=q, flag=flag)
        for isa, q, flag in itertools.product(*axes)
    ]


def test_one_instruction_set_is_tried_in_full():
    kept = quick(of_twins())
    assert Counter(isa for isa, *_ in kept) == {"wide": 8, "narrow": 2, "base": 2}
    assert {q for isa, q, _ in kept if isa != "wide"} == {*range(4)}
    assert {flag for isa, _, flag in kept if isa != "wide"} == {False, True}


def test_of_one_instruction_set_a_part_may_be_enough():
    cases = of_twins()
    for case in cases:
        case.markers.append(pytest.mark.values)
    thin(cases)
    kept = [case.callspec.params for case in cases if len(case.markers) == 2]
    assert Counter(case["isa"] for case in kept) == {"wide": 4, "narrow": 2, "base": 2}


def test_one_in_a_few():
    assert quick([Case(pytest.mark.one_in(3), q=q) for q in range(7)]) == [(0,), (3,), (6,)]


def test_what_was_slow_stays_slow():
    cases = [Case(pytest.mark.pairs, q=0), Case(pytest.mark.pairs, pytest.mark.slow, q=1)]
    assert quick(cases) == [(0,)]


def test_a_case_that_is_asked_for_alone_runs():
    for case in of_twins():
        assert quick([case]) == [tuple(case.callspec.params.values())]
