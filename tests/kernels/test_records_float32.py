"""X stored in float32: the sums are those of the same values in float64, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from tests.loops import each

PAIRS = [(0, 0), (1, 1), (2, 2), (3, 1), (4, 3), (0, 4), (10, 1)]  # loss and weighting
HAVE_HESSIAN = {(0, 0), (1, 1), (3, 1), (4, 3)}


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def kernel_of(pair, intercept):
    return records.RecordKernel(pair[0], 1.345, 1.3, pair[1], 1.7, intercept)


def draw(n, q, pair):
    rng = np.random.default_rng([n, q])
    X = (rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))).astype(np.float32)
    y = (rng.random(n) < 0.5).astype(float) if pair[0] == 3 else rng.normal(size=n)
    return X, y


def layouts(X, folder):
    """The same float32 values with every kind of strides."""
    n, q = X.shape
    X.tofile(folder / "x.bin")
    unaligned = np.empty(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(n, q)
    unaligned[:] = X
    return {
        "rows": X,
        "columns": np.asfortranarray(X),
        "reversed": X[::-1].copy()[::-1],
        "every other column": np.repeat(X, 2, axis=1)[:, ::2],
        "every other row": np.repeat(X, 2, axis=0)[::2],
        "inside wider rows": np.hstack([X, X])[:, :q],
        "memmap": np.memmap(folder / "x.bin", np.float32, "r", shape=X.shape),
        "unaligned": unaligned,
    }


def assert_same(narrow, wide):
    for a, b in zip(narrow, wide, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == np.float64
            np.testing.assert_array_equal(a, b)


@each("pair", PAIRS)
@pytest.mark.parametrize(
    ("n", "q"), [(1, 1), (37, 5), (300, 10), (90, 24), (60, 33), (40, 70), (6, 2100)]
)
@pytest.mark.values
def test_every_layout_gives_the_bits_of_float64(pair, n, q, tmp_path):
    X, y = draw(n, q, pair)
    wide = X.astype(np.float64)
    rng = np.random.default_rng(0)
    for intercept in (False, True):
        kernel = kernel_of(pair, intercept)
        theta, old = rng.normal(size=(2, q + intercept)) / q**0.5
        matrices = (7,) if pair in HAVE_HESSIAN else (5,)
        for want in (1, *matrices) if q < 1000 else (1,):
            expected = kernel.sums(wide, y, theta, want, float(n))
            for layout in layouts(X, tmp_path).values():
                assert_same(kernel.sums(layout, y, theta, want, float(n)), expected)
        change = kernel.gradient_change(wide, y, theta, old, 0.1, float(n))
        np.testing.assert_array_equal(
            kernel.gradient_change(X, y, theta, old, 0.1, float(n)), change
        )
        if pair[1] != 2:
            assert kernel.loss(X, y, theta, 1.0) == kernel.loss(wide, y, theta, 1.0)
            assert kernel.loss_difference(X, y, theta, old, 1.0) == kernel.loss_difference(
                wide, y, theta, old, 1.0
            )


def test_threads_do_not_matter():
    X, y = draw(40_000, 12, (3, 1))
    kernel, theta = kernel_of((3, 1), True), np.linspace(-1.0, 1.0, 13)
    expected = kernel.sums(X.astype(np.float64), y, theta, 7, 1.0, 1)
    for threads in (1, 2, 3):
        assert_same(kernel.sums(X, y, theta, 7, 1.0, threads), expected)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(
        st.tuples(*[st.one_of(st.floats(width=32), st.sampled_from([1e-45, 3.4e38, np.inf]))] * 3),
        min_size=1,
        max_size=12,
    ),
    pair=st.sampled_from(PAIRS),
    intercept=st.booleans(),
)
def test_hostile_values(rows, pair, intercept):
    X = np.array(rows, dtype=np.float32)
    y = np.ones(len(X))
    theta = np.array([0.5, -1.0, 1e3, 0.2][: 3 + intercept])
    kernel, want = kernel_of(pair, intercept), 7 if pair in HAVE_HESSIAN else 5
    assert_same(
        kernel.sums(X, y, theta, want, 1.0),
        kernel.sums(X.astype(np.float64), y, theta, want, 1.0),
    )


@each("dtype", [np.float16, ">f4", np.int32, np.longdouble])
def test_other_types_are_refused(dtype):
    kernel = kernel_of((0, 1), False)
    with pytest.raises(TypeError, match="float64 or float32"):
        kernel.sums(np.zeros((3, 2), dtype), np.zeros(3), np.zeros(2), 1, 1.0)
    with pytest.raises(TypeError, match="y must have dtype float64"):
        kernel.sums(np.zeros((3, 2)), np.zeros(3, np.float32), np.zeros(2), 1, 1.0)
