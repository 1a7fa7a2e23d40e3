"""The vectorisable functions against NumPy's, and how they get into a user's function."""

import math

import numpy as np
import pytest

numba = pytest.importorskip("numba")
scalar_math = pytest.importorskip("dpfast.kernels.scalar_math")

SMALL = np.geomspace(1e-300, 1.0, 500)
X = np.concatenate([np.linspace(-707.0, 708.0, 20_001), SMALL, -SMALL])


def softplus(r):
    return math.log1p(math.exp(-abs(r)))


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "cosh"])
@pytest.mark.one_in(2)
def test_accurate_to_two_units_in_the_last_place(name):
    function = scalar_math._functions()[name]
    each = numba.njit(lambda v: function(v))
    expected = getattr(np, name)(X)
    got = np.array([each(v) for v in X])
    assert (np.abs(got - expected) <= 4.0 * 2.0**-53 * np.abs(expected)).all()
    with np.errstate(over="ignore"):
        for extreme in (math.inf, -math.inf, 1e308, -1e308, 0.0):
            assert each(extreme) == getattr(np, name)(extreme)
    assert math.isnan(each(math.nan))


def test_a_function_gets_them_and_is_left_alone():
    before = softplus.__globals__["math"]
    copy = scalar_math.vectorisable(softplus)
    assert copy.__globals__["math"].exp is scalar_math._functions()["exp"]
    assert copy.__globals__["math"].log1p is math.log1p
    assert softplus.__globals__["math"] is before is math
    compiled = numba.njit(copy)
    assert compiled(1.5) == pytest.approx(softplus(1.5), rel=1e-15)
