"""The compiled acquisition against its NumPy twin, its own derivatives and SciPy's L-BFGS-B.

What is attainable: the problem itself has condition number c, that of K + noise, so that two
correct programs differ by up to about eps * c in the weights.  The trace and its derivative are
much better off, because the part of K that is badly known hardly enters them: measured over noise
variances down to zero they agree to 1e-15 + 1e-18 c of the prior trace.
"""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from dpfast.kernels import acquisition
from dpfast.kernels.acquisition import AcquisitionKernel
from tests.loops import each
from tests.twins import acquisition as reference

FAMILIES = [0, 1, 2, 3]
EPS = np.finfo(float).eps
SIZES = [(1, 0, 1), (1, 3, 2), (2, 0, 5), (4, 6, 3), (5, 50, 1), (7, 64, 25), (15, 37, 9),
         (16, 9, 8), (3, 130, 33), (40, 21, 41)]  # fmt: skip


@pytest.fixture(params=acquisition.instruction_sets())
def instruction_set(request):
    acquisition.use_instruction_set(request.param)
    yield request.param
    acquisition.use_instruction_set()


class Problem:
    """A surrogate, old and new points, in both implementations."""

    def __init__(self, family, d, m, b, noise_variance=0.05, seed=0, spread=1.0):
        rng = np.random.default_rng([seed, family, d, m, b])
        self.prior = reference.Prior(family, rng.uniform(0.5, 2.0, d), 1.3, 0.7, noise_variance)
        self.lower, self.upper = np.full(d, -2.0), np.full(d, 3.0)
        self.D = spread * rng.normal(size=(m, d))
        self.Z = spread * rng.normal(size=(b, d))
        self.theta = rng.normal(size=d)

    def kernel(self) -> AcquisitionKernel:
        kernel = AcquisitionKernel(*self.prior, self.lower, self.upper)
        kernel.condition(self.D)
        return kernel

    @property
    def scale(self) -> float:
        return float(np.trace(reference.prior_gradient_covariance(self.prior, self.theta)))

    @property
    def condition_number(self) -> float:
        joint = np.concatenate([self.D, self.Z])
        K = reference.covariance(self.prior, joint, joint)
        K += np.diag(self.prior.noise_variance + reference.JITTER * np.diag(K))
        return float(np.linalg.cond(K))

    def check(self):
        kernel = self.kernel()
        value, gradient = kernel.value_and_gradient(self.Z, self.theta)
        expected, slope = reference.trace_and_gradient(self.prior, self.D, self.Z, self.theta)
        c = self.condition_number
        tolerance = (1e-13 + 1e-16 * c) * self.scale
        assert value == pytest.approx(expected, rel=0, abs=tolerance)
        assert kernel.value(self.Z, self.theta) == pytest.approx(value, rel=0, abs=tolerance)
        np.testing.assert_allclose(
            gradient * self.prior.length_scales,
            slope * self.prior.length_scales,
            rtol=0,
            atol=tolerance,
        )
        if len(self.D):
            W = reference.gradient_weights(self.prior, self.D, self.theta)
            limit = (1e-13 + 4 * EPS * c) * np.abs(W).max()
            np.testing.assert_allclose(kernel.weights(self.theta), W, rtol=0, atol=limit)
            ones = reference.mean_weights(self.prior, self.D)
            limit = (1e-13 + 4 * EPS * c) * np.abs(ones).max()
            np.testing.assert_allclose(kernel.mean_weights(), ones, rtol=0, atol=limit)


@each("family", FAMILIES)
@each("size", SIZES, ids=str)
def test_agrees_with_the_twin(instruction_set, family, size):
    """Of the narrower sets each size with one family in turn: they are compiled from one source."""
    widest = instruction_set == acquisition.instruction_sets()[0]
    if widest or SIZES.index(size) % len(FAMILIES) == family:
        Problem(family, *size).check()


@pytest.mark.parametrize("family", FAMILIES)
@each("noise_variance", [1e-3, 1e-6, 1e-9, 0.0])
def test_agrees_with_the_twin_when_nearly_singular(family, noise_variance):
    Problem(family, 3, 40, 5, noise_variance, spread=0.7).check()
    Problem(family, 3, 40, 1, noise_variance, spread=0.7).check()


@pytest.mark.parametrize("noise_variance", [0.1, 1e-6, 0.0])
def test_agrees_with_50_digits(noise_variance):
    """RBF, with a duplicate and a near duplicate among the points; jitter as documented."""
    problem = Problem(0, 2, 5, 3, noise_variance)
    problem.D[1], problem.D[2] = problem.D[0], problem.D[0] + 1e-4
    prior, theta = problem.prior, problem.theta
    joint = np.concatenate([problem.D, problem.Z]).tolist()
    with mpmath.workdps(50):
        lengths = [mpmath.mpf(v) for v in prior.length_scales]
        s2 = mpmath.mpf(prior.output_scale) ** 2

        def k(x, z):
            steps = [
                (mpmath.mpf(a) - mpmath.mpf(c)) / v for a, c, v in zip(x, z, lengths, strict=True)
            ]
            return s2 * mpmath.exp(-sum(step**2 for step in steps) / 2)

        noise = mpmath.mpf(noise_variance) + mpmath.mpf(reference.JITTER) * s2
        K = mpmath.matrix([[k(x, z) for z in joint] for x in joint]) + noise * mpmath.eye(8)
        trace = s2 * sum(1 / v**2 for v in lengths)
        for j, v in enumerate(lengths):
            row = mpmath.matrix([k(theta, x) * (mpmath.mpf(x[j]) - theta[j]) / v**2 for x in joint])
            trace -= (row.T * mpmath.lu_solve(K, row))[0]
    got = problem.kernel().value(problem.Z, theta)
    # without noise only the jitter separates duplicates, and c is 1e10
    tolerance = (1e-13 + 1e-19 * problem.condition_number) * problem.scale
    assert tolerance < 1e-8 * problem.scale
    assert got == pytest.approx(float(trace), rel=0, abs=tolerance)


@each("family", FAMILIES)
@each("b", [1, 4])
def test_gradient_matches_finite_differences(family, b):
    problem = Problem(family, 3, 12, b)
    kernel = problem.kernel()
    _, gradient = kernel.value_and_gradient(problem.Z, problem.theta)
    h = 1e-5
    for i in range(b):
        for j in range(3):
            step = np.zeros((b, 3))
            step[i, j] = h
            up = kernel.value(problem.Z + step, problem.theta)
            down = kernel.value(problem.Z - step, problem.theta)
            assert gradient[i, j] == pytest.approx((up - down) / (2 * h), abs=1e-7 * problem.scale)


COORDINATES = st.one_of(
    st.floats(-3.0, 3.0),
    st.sampled_from([0.0, 1.0, -1.0, 1e-8, 1.0 + 1e-12, 5e-324, 1e160, -1e308]),
)


@settings(max_examples=60)
@given(st.data())
def test_any_finite_points_are_safe(data):
    """Duplicates, near duplicates, subnormals, distances that overflow; noise or none."""
    family = data.draw(st.sampled_from(FAMILIES))
    d, m, b = (data.draw(st.integers(low, 4)) for low in (1, 0, 1))
    noise_variance = data.draw(st.sampled_from([0.0, 1e-12, 1e-4, 1.0, 1e30]))
    D, Z, theta = (
        data.draw(arrays(np.float64, shape, elements=COORDINATES))
        for shape in ((m, d), (b, d), (d,))
    )
    kernel = AcquisitionKernel(
        family, np.ones(d), 1.0, 1.0, noise_variance, np.full(d, -1e308), np.full(d, 1e308)
    )
    kernel.condition(D)
    prior = kernel_prior_trace(family, theta)
    value, gradient = kernel.value_and_gradient(Z, theta)
    assert np.isfinite(gradient).all()
    assert -1e-5 * prior <= value <= prior * (1 + 1e-9)
    assert value <= kernel.value(Z[:0], theta) + 1e-9 * prior
    assert np.isfinite(kernel.weights(theta)).all()


def kernel_prior_trace(family, theta) -> float:
    empty = AcquisitionKernel(
        family, np.ones(len(theta)), 1.0, 1.0, 1.0, np.full(len(theta), -1e308),
        np.full(len(theta), 1e308),
    )  # fmt: skip
    return empty.value(np.empty((0, len(theta))), theta)


@each("family", FAMILIES)
def test_growing_changes_no_bit(instruction_set, family):
    """Incremental Cholesky: a resumed run proposes what the uninterrupted one would have."""
    problem = Problem(family, 3, 150, 5)
    at_once = problem.kernel()
    grown = AcquisitionKernel(*problem.prior, problem.lower, problem.upper)
    sizes = [0, 1, 2, 9, 10, 26, 27, 90, 150]
    known = [grown.condition(problem.D[:m]) for m in sizes]
    assert known == [0, *sizes[:-1]]
    assert grown.condition(problem.D) == 150
    for b in (1, 5):
        a = at_once.value_and_gradient(problem.Z[:b], problem.theta)
        c = grown.value_and_gradient(problem.Z[:b], problem.theta)
        assert a[0] == c[0]
        assert np.array_equal(a[1], c[1])
    assert np.array_equal(at_once.weights(problem.theta), grown.weights(problem.theta))
    # a different history with a common beginning
    other = problem.D.copy()
    other[40] += 1.0
    assert grown.condition(other) == 40
    fresh = AcquisitionKernel(*problem.prior, problem.lower, problem.upper)
    fresh.condition(other)
    assert grown.value(problem.Z, problem.theta) == fresh.value(problem.Z, problem.theta)
    assert np.array_equal(grown.weights(problem.theta), fresh.weights(problem.theta))


def test_whitened_gives_the_gradient_covariance():
    problem = Problem(1, 4, 20, 1)
    B = problem.kernel().whitened(problem.theta)
    expected = reference.gradient_covariance(problem.prior, problem.D, problem.theta)
    prior = reference.prior_gradient_covariance(problem.prior, problem.theta)
    np.testing.assert_allclose(prior - B.T @ B, expected, atol=1e-12 * problem.scale)


# --- minimisation ----------------------------------------------------------------------------


def scipys(kernel, start, problem, tolerance):
    def objective(x):
        value, gradient = kernel.value_and_gradient(x.reshape(start.shape), problem.theta)
        return value, gradient.ravel()

    return minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[*zip(problem.lower, problem.upper, strict=True)] * len(start),
        options={"maxfun": 200, "ftol": tolerance, "gtol": tolerance},
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [(1, 3, 2), (5, 0, 6), (5, 50, 3), (8, 40, 9), (15, 60, 16)])
@pytest.mark.one_in(7)
def test_minimum_is_as_low_as_scipys(family, size):
    """From the same starts.  Both are local methods, so the mean over starts is compared."""
    d, _, b = size
    problem = Problem(family, *size, noise_variance=0.01)
    problem.prior = problem.prior._replace(length_scales=np.full(d, max(1.0, d / 5) ** 0.5))
    problem.theta = np.clip(problem.theta, problem.lower, problem.upper)
    kernel = problem.kernel()
    tolerance = 1e-9 * problem.scale
    gaps = []
    for seed in range(4):
        start = problem.theta + 0.4 * np.random.default_rng(seed).normal(size=(b, d))
        start = np.clip(start, problem.lower, problem.upper)
        points, value, evaluations = kernel.minimise(
            start, problem.theta, 200, tolerance, tolerance, -np.inf
        )
        assert ((points >= problem.lower) & (points <= problem.upper)).all()
        attained = kernel.value(points, problem.theta)
        assert attained == pytest.approx(value, rel=0, abs=1e-10 * problem.scale)
        assert value <= kernel.value(start, problem.theta)
        reference_result = scipys(kernel, start, problem, 1e-9)
        gaps.append((value - reference_result.fun) / problem.scale)
        assert evaluations <= 200
    assert np.mean(gaps) <= 1e-3


def test_minimum_on_the_boundary():
    """Theta in a corner of a narrow box: the best points lie on faces."""
    kernel = AcquisitionKernel(0, np.ones(2), 1.0, 0.0, 0.01, np.zeros(2), np.full(2, 0.1))
    theta = np.zeros(2)
    points, _, _ = kernel.minimise(np.full((2, 2), 0.05), theta, 200, 1e-12, 1e-12, -np.inf)
    assert np.allclose(points.max(axis=0), 0.1)
    _, gradient = kernel.value_and_gradient(points, theta)
    inside = (points > 0.0) & (points < 0.1)
    assert np.abs(gradient[inside]).max(initial=0.0) < 1e-5
    assert (gradient[points == 0.1] <= 1e-9).all()
    assert (gradient[points == 0.0] >= -1e-9).all()


def test_the_search_stops_at_the_target_and_the_limit():
    problem = Problem(0, 5, 0, 6)
    start = problem.theta + 0.3 * np.random.default_rng(0).normal(size=(6, 5))
    problem.lower, problem.upper = problem.theta - 3, problem.theta + 3
    kernel = problem.kernel()
    _, lowest, many = kernel.minimise(start, problem.theta, 500, 0.0, 0.0, -np.inf)
    _, value, few = kernel.minimise(start, problem.theta, 500, 0.0, 0.0, lowest * 1.2)
    assert value <= lowest * 1.2
    assert few < many
    assert kernel.minimise(start, problem.theta, 7, 0.0, 0.0, -np.inf)[2] == 7


# --- arguments -------------------------------------------------------------------------------


def test_layouts_and_dtypes_agree():
    problem = Problem(0, 4, 6, 3)
    kernel = problem.kernel()
    Z = np.round(problem.Z, 1)
    expected, _ = kernel.value_and_gradient(Z, problem.theta)
    read_only = Z.copy()
    read_only.flags.writeable = False
    for variant in (np.asfortranarray(Z), read_only, Z.astype(">f8"), Z.tolist()):
        assert kernel.value_and_gradient(variant, problem.theta)[0] == expected
    before = problem.Z.copy()
    kernel.minimise(problem.Z, problem.theta, 20, 0.0, 0.0, -np.inf)
    assert np.array_equal(problem.Z, before), "arguments must not be written to"


@each(
    ("call", "words"),
    [
        (lambda k: k.condition(np.ones((2, 3))), "points"),
        (lambda k: k.value(np.ones(2), np.ones(2)), "Z must have shape"),
        (lambda k: k.value_and_gradient(np.ones((1, 2)), np.ones(3)), "theta"),
        (lambda k: k.minimise(np.ones((1, 3)), np.ones(2), 1, 0.0, 0.0, 0.0), "start"),
        (lambda k: AcquisitionKernel(4, [1.0], 1.0, 1.0, 1.0, [0.0], [1.0]), "family"),
        (lambda k: AcquisitionKernel(0, [1.0], 1.0, 1.0, 1.0, [0.0, 0.0], [1.0]), "lower"),
        (lambda k: acquisition.use_instruction_set("abacus"), "abacus"),
    ],
)
def test_bad_arguments_are_named(call, words):
    kernel = AcquisitionKernel(0, np.ones(2), 1.0, 1.0, 1.0, np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match=words):
        call(kernel)


def test_survives_pickling():
    problem = Problem(2, 3, 20, 4)
    kernel = problem.kernel()
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy.value(problem.Z, problem.theta) == kernel.value(problem.Z, problem.theta)


@pytest.mark.serial
def test_safe_from_several_threads():
    """One object shared by threads that ask at different thetas."""
    problem = Problem(0, 5, 60, 6)
    kernel = problem.kernel()
    thetas = np.random.default_rng(0).normal(size=(8, 5))
    expected = [kernel.value_and_gradient(problem.Z, theta) for theta in thetas]
    wrong = []

    def work() -> None:
        for _ in range(30):
            for theta, (value, gradient) in zip(thetas, expected, strict=True):
                got = kernel.value_and_gradient(problem.Z, theta)
                if got[0] != value or not np.array_equal(got[1], gradient):
                    wrong.append(theta)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_blas_threads_are_left_alone():
    """The kernel links no BLAS at all, so that it can neither start nor configure its threads."""
    content = Path(acquisition.__file__).read_bytes()
    for symbol in (b"dgemm", b"dtrsm", b"dpotrf", b"omp_set_num_threads", b"openblas"):
        assert symbol not in content
