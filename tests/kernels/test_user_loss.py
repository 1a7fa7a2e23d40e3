"""Users' functions and what they read, compiled: the numbers are those of the Python functions."""

from __future__ import annotations

import ctypes
import math
import pickle
import types

import numpy as np
import pytest

numba = pytest.importorskip("numba")
from dpfast.kernels.user_loss import CompiledLoss  # noqa: E402

R = np.array([-math.inf, -3.7, -0.2, 0.0, 1e-3, 0.9, 25.0, math.inf])
LEVEL = 0.5
MODULE = types.ModuleType("a_module_of_the_user")
MODULE.LEVEL = 0.25


@numba.njit(error_model="numpy")
def helper(r, c=0.2):
    return r / (1.0 + abs(r)) + c if abs(r) < 1e300 else c


def closing_over(closed):
    def psi(r):
        return math.tanh(r) + LEVEL + closed + helper(r) + MODULE.LEVEL

    return psi


def identity(r):
    return r


def one(r):
    return 1.0


def of_a_block(address, n_outputs):
    pointer = ctypes.POINTER(ctypes.c_double)
    signature = ctypes.CFUNCTYPE(None, *[pointer] * (1 + n_outputs), ctypes.c_size_t)
    arrays = [R.copy(), *(np.empty_like(R) for _ in range(n_outputs))]
    signature(address)(*(a.ctypes.data_as(pointer) for a in arrays), len(R))
    return arrays[1:]


@pytest.mark.parametrize(
    "psi",
    [
        closing_over(0.1),
        pytest.param(closing_over(0.7), marks=pytest.mark.slow),
        numba.njit(closing_over(0.1)),
        lambda r: math.gamma(1.5 + 0.4 * math.tanh(r)),
        lambda r: 2.0 * np.exp(-abs(r)),
    ],
    ids=["closure", "another closure", "Numba's", "more than elementary", "NumPy"],
)
@pytest.mark.one_in(2)
def test_the_compiled_functions_are_the_python_functions(psi):
    compiled = CompiledLoss(identity, psi, one)
    plain = getattr(psi, "py_func", psi)
    expected = [plain(float(r)) for r in R]
    psi_values, psi_prime_values = of_a_block(compiled.slopes_address, 2)
    np.testing.assert_allclose(psi_values, expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(psi_prime_values, 1.0)
    np.testing.assert_allclose(of_a_block(compiled.psi_address, 1)[0], expected, rtol=1e-14)
    np.testing.assert_array_equal(of_a_block(compiled.values_address, 1)[0], R)


def test_a_pickled_loss_is_compiled_where_it_is_used():
    again = pickle.loads(pickle.dumps(CompiledLoss(identity, identity, one, True)))
    assert again.functions == (identity, identity, one)
    assert again.coupled
    np.testing.assert_array_equal(of_a_block(again.psi_address, 1)[0], R)
