"""What holds for every test: the same draws alone and after others, and a choice of quick ones."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from tests import slower

RNG = np.random.default_rng(0)
KEPT = {"noise": dpfast.SeededNoise(0)}


@pytest.mark.parametrize("turn", [1, 2])
def test_generators_of_a_module_begin_again_in_every_test(turn):
    fresh = np.random.default_rng(0), dpfast.SeededNoise(0)
    assert RNG.random() == fresh[0].random()
    assert KEPT["noise"].normals(3, 20).tolist() == fresh[1].normals(3, 20).tolist()


def test_the_slowest_are_left_out():
    seconds = {"a": 5.0, "b": 3.0, "c": 1.0, "d": 1.0}
    assert slower.slowest(seconds, 5.0) == ["a"]
    assert slower.slowest(seconds, 2.5) == ["a", "b"]
    assert slower.slowest(seconds, 20.0) == []


def test_what_is_left_out_exists(repository):
    for name in slower.listed():
        path, test = name.split("::")
        assert f"def {test}(" in (repository / path).read_text(encoding="utf-8"), name
