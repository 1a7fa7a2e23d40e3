"""Parameters with types: what is evaluated, what comes back, what is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import Categorical, Integer, Real, SearchSettings, Tuner
from dpfast.bayesopt.space import Space
from dpfast.errors import InvalidInput
from tests.loops import each

N = 2000
NOISE = np.random.default_rng(0).normal(0.0, 0.2, size=N)
SPACE = {
    "depth": Integer(1, 12),
    "rate": Real(1e-4, 1.0, log=True),
    "kind": Categorical(["a", None, 3]),
    "trees": Integer(10, 500, log=True),
    "share": (0.0, 1.0),
}
BEST = {"depth": 6, "rate": 0.05, "kind": None, "trees": 100, "share": 0.7}


def losses(p):
    bowl = (p["depth"] - 6) ** 2 / 25 + np.log(p["rate"] / 0.05) ** 2 / 10
    bowl += np.log(p["trees"] / 100) ** 2 / 5 + (p["share"] - 0.7) ** 2
    return bowl + {"a": 0.5, None: 0.0, 3: 0.8}[p["kind"]] + NOISE * p["depth"] / 10


def tune(space=SPACE, told=losses, **options):
    chosen = {"privacy": 2.0, "n_records": N, "clip": 2.0, "noise": dpfast.SeededNoise(0)}
    return dpfast.tune(told, space, **(chosen | options))


def test_every_kind_of_parameter_is_found():
    """Near the best of all of them (seeded; over eight seeds every depth and kind was right)."""
    found = tune().parameters
    assert list(found) == list(SPACE)
    assert [type(value) for value in found.values()] == [int, float, type(None), int, float]
    assert found["depth"] == BEST["depth"]
    assert found["kind"] is None
    assert abs(np.log(found["rate"] / 0.05)) < 0.3
    assert abs(np.log(found["trees"] / 100)) < 0.3
    assert abs(found["share"] - 0.7) < 0.1


def test_only_choices_and_whole_numbers_are_evaluated():
    seen = []

    def told(p):
        seen.append(p)
        return losses(p)

    result = tune(told=told)
    assert len(seen) == result.n_evaluations
    for p in seen:
        assert [type(v) for v in (p["depth"], p["trees"], p["rate"])] == [int, int, float]
        assert 1 <= p["depth"] <= 12 and 10 <= p["trees"] <= 500 and 1e-4 <= p["rate"] <= 1.0
        assert p["kind"] in ("a", None, 3)
    assert {p["kind"] for p in seen} == {"a", None, 3}
    # the search knows its points to the last bit: columns of what was evaluated
    space = Space(SPACE)
    for p, point in zip(seen, result.points, strict=True):
        assert space.parameters(point) == p
        assert np.array_equal(space.snap(space.box.to_unit(point)), space.box.to_unit(point))


@pytest.mark.parametrize(
    ("space", "told", "best"),
    [
        ([Categorical(list("abcde"))], lambda p: "caebd".index(p[0]) / 5.0, ["c"]),
        ([Categorical([True, False])] * 5, lambda p: sum(p) / 5.0, [False] * 5),
        ([Integer(0, 1), Integer(1, 3)], lambda p: 0.3 * p[0] + 0.2 * abs(p[1] - 3), [0, 3]),
        ([Integer(-4, 4), Integer(1, 2)], lambda p: (p[0] + 3) ** 2 / 9 + p[1], [-3, 1]),
    ],
    ids=["choices", "flags", "edges", "integers"],
)
def test_coarse_parameters_are_told_apart(space, told, best):
    """Rounding to the nearest value alone would see no difference at all."""
    found = tune(space, lambda p: told(p) + 0.0 * NOISE)
    assert found.parameters == best
    assert json.loads(json.dumps(found.to_dict()))["parameters"] == best
    shown = found.summary().as_html()
    assert found._repr_html_() == shown and "black-box optimisation" in shown
    names = best if isinstance(best, dict) else [f"theta{k + 1}" for k in range(len(best))]
    assert all(name in shown for name in names)


def test_reals_are_searched_as_before():
    """A list of Real is the box of pairs, in another form; names change nothing but names."""

    def bowl(theta):
        return (theta[0] - 0.3) ** 2 + (theta[1] + 0.4) ** 2 + NOISE * theta[0]

    pairs = [(-1.0, 1.0), (-2.0, 1.0)]
    plain = tune(pairs, bowl, steps=4)
    typed = tune([Real(*pairs[0]), pairs[1]], bowl, steps=4)
    named = tune({"a": pairs[0], "b": pairs[1]}, lambda p: bowl([p["a"], p["b"]]), steps=4)
    for other in (typed, named):
        assert np.array_equal(plain.iterates, other.iterates)
    assert np.array_equal(plain.parameters, plain.theta)
    assert typed.parameters == plain.theta.tolist() == list(named.parameters.values())


def test_the_answer_of_a_start_is_the_start():
    start = {"depth": 2, "rate": 0.5, "kind": 3, "trees": 500, "share": 0.25}
    space = Space(SPACE)
    theta = space.box.from_unit(space.snap(space.start(start)))
    assert space.parameters(theta) == pytest.approx(start)
    found = tune(search=SearchSettings(start=start), steps=2)
    assert np.array_equal(found.iterates[0], theta)


def test_weights_of_choices_add_up_to_one():
    found = tune(steps=5)
    weights = found.iterates[:, 2:5]
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(
        Categorical(["a", "b"])._project(np.array([3.0, 2.5])), [0.75, 0.25], atol=1e-15
    )


def test_a_search_of_typed_parameters_survives_kill_and_refuses_other_types(tmp_path):
    path = tmp_path / "search"
    options = {"privacy": 2.0, "n_records": N, "clip": 2.0, "steps": 4, "path": path}

    def tuner(space=SPACE):
        return Tuner(space, **options, noise=dpfast.SeededNoise(5))

    whole = Tuner(SPACE, **(options | {"path": None}), noise=dpfast.SeededNoise(5))
    while not whole.done:
        whole.tell(np.array([losses(p) for p in whole.ask()]))
    first = tuner()
    for _ in range(2):
        first.tell(np.array([losses(p) for p in first.ask()]))
    child = os.fork()
    if child == 0:  # dies between evaluation and answer, as a job that is killed does
        first.ask()
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    del first
    for other in (SPACE | {"depth": Integer(1, 13)}, SPACE | {"kind": Categorical(["a", "b", 3])}):
        with pytest.raises(InvalidInput, match="other settings"):
            tuner(other)
    second = tuner()
    assert second.steps_paid == 2
    while not second.done:
        second.tell(np.array([losses(p) for p in second.ask()]))
    resumed, plain = second.result(), whole.result()
    known = sum(plain.batch_sizes[:3])  # what two answers decide; the noise starts anew after that
    assert np.array_equal(resumed.points[:known], plain.points[:known])
    assert np.array_equal(resumed.iterates[:3], plain.iterates[:3])
    assert list(resumed.parameters) == list(SPACE)
    assert resumed.lost_steps == 0


@each(
    ("make", "words"),
    [
        (lambda: Integer(3, 3), "below"),
        (lambda: Integer(0, 3, log=True), "positive"),
        (lambda: Integer(0.5, 3), "low"),
        (lambda: Integer(0, 2**60), "high"),
        (lambda: Real(0.0, 1.0, log=True), "positive"),
        (lambda: Real(1.0, np.inf), "high"),
        (lambda: Real(1e300, 1e300 * (1 + 2.0**-52), log=True), "close"),
        (lambda: Real(0.0, 1.0, log="yes"), "log"),
        (lambda: Categorical(["a"]), "at least two"),
        (lambda: Categorical(["a", "a"]), "different"),
        (lambda: Categorical("ab"), "choices"),
        (lambda: Categorical([object(), 1]), "choices"),
        (lambda: Tuner([Integer(0, 3), 5], privacy=1.0, n_records=9), r"bounds\[1\]"),
        (lambda: Tuner({"a": (0, 1, "cube")}, privacy=1.0, n_records=9), "bounds"),
        (lambda: Tuner({}, privacy=1.0, n_records=9), "mapping"),
        (lambda: Tuner({1: (0.0, 1.0)}, privacy=1.0, n_records=9), "mapping"),
        (lambda: Space({"a": dpfast.Categorical(["x", "y"])}), r"bounds\['a'\]"),
        (lambda: Space([Integer(0, 3)], "theta"), "units"),
        (lambda: Space(SPACE).start({"depth": 1}), "mapping"),
        (lambda: Space(SPACE).start(BEST | {"depth": 13}), r"Integer\(1, 12\)"),
        (lambda: Space(SPACE).start(BEST | {"kind": True}), "one of"),
        (lambda: Space([Integer(0, 3)]).start([1, 2]), "list of 1"),
        (lambda: Space([Integer(0, 3)]).start([1.5]), "start"),
    ],
)
def test_wrong_declarations_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_true_is_not_one_and_one_is_not_a_float():
    mixed = Categorical([True, 1, 1.0])
    for choice in mixed.choices:
        found = mixed._value(mixed._columns(choice))
        assert type(found) is type(choice)
