"""The compiled small-matrix functions against their NumPy twins and against their own algebra."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from dpfast.kernels import linalg
from tests.loops import each
from tests.twins import linalg as reference

SIZES = [1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 20, 50]  # either side of every algorithm change


def random_symmetric(p: int, seed: int, spread: float = 1.0) -> np.ndarray:
    """Random eigenvectors, eigenvalues of both signs over `spread` orders of magnitude."""
    rng = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(rng.normal(size=(p, p)))
    values = rng.choice([-1.0, 1.0], size=p) * 10.0 ** rng.uniform(-spread, 0, size=p)
    matrix = (vectors * values) @ vectors.T
    return (matrix + matrix.T) / 2


def positive_definite(p: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(2 * p + 2, p))
    return factor.T @ factor / len(factor)


# --- eigenvalues -----------------------------------------------------------------------------


@pytest.mark.parametrize("p", [3, 4, 5, 8])
def test_rounding_turns_no_vectors_of_equal_eigenvalues(p):
    """All but one eigenvalue are equal: each processor would give other vectors."""
    rng = np.random.default_rng(p)
    for _ in range(20):
        slopes = rng.normal(size=p)
        matrix = 0.7 * np.eye(p) - 0.3 / (slopes @ slopes) * np.outer(slopes, slopes)
        rounding = 1e-16 * rng.normal(size=(p, p))
        _, vectors = linalg.eigh(matrix)
        _, again = linalg.eigh(matrix + rounding + rounding.T)
        # their order is that of the rounded eigenvalues
        products = np.abs(vectors.T @ again)
        np.testing.assert_allclose(products.max(axis=1), 1.0, atol=1e-9)


@each("p", SIZES)
@each("spread", [0.0, 1.0, 12.0])
def test_eigh_reconstructs(p, spread):
    matrix = random_symmetric(p, seed=p, spread=spread)
    values, vectors = linalg.eigh(matrix)
    size = np.linalg.norm(matrix)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), rtol=0, atol=2e-15 * p * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(p), rtol=0, atol=2e-15 * p)
    np.testing.assert_allclose((vectors * values) @ vectors.T, matrix, atol=2e-15 * p * size)


@each("p", [1, 2, 4, 8, 9, 20])
@each("unit", [5e-324, 1e-310, 1e-200, 1.0, 1e150, 1e300])
def test_eigenvalues_at_every_scale(p, unit):
    """Squares of the entries overflow or vanish; the eigenvalues must not."""
    matrix = positive_definite(p, seed=3)
    expected = np.linalg.eigvalsh(matrix)
    values, _ = linalg.eigh(matrix * unit)
    np.testing.assert_allclose(values, expected * unit, rtol=1e-12, atol=p * 1e-323)


@each(
    "matrix",
    [
        np.zeros((4, 4)),
        np.eye(5),
        np.ones((6, 6)),
        np.diag([1.0, 0.0, -1.0, 1e-200]),
        np.array([[0, 1e-200, 0.5], [1e-200, 0, 0], [0.5, 0, 1.0]]),  # tiny entry, zero gap
        np.array([[1.0, 1e-170], [1e-170, 1.0]]),
        np.full((3, 3), np.finfo(float).max),
        np.full((9, 9), 1e-320),
    ],
)
def test_degenerate_matrices(matrix):
    values, vectors = linalg.eigh(matrix)
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    with np.errstate(over="ignore"):
        expected = np.ldexp(np.linalg.eigvalsh(np.ldexp(matrix, -exponent)), exponent)
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-15 * np.abs(matrix).max())
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(matrix)), atol=1e-14)


def test_a_matrix_lapack_gives_up_on():
    """Finite, with entries 300 orders of magnitude apart; dsyevd does not converge on some."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        p = rng.integers(9, 13)
        matrix = np.zeros((p, p))
        for i, j in rng.integers(0, p, size=(rng.integers(2, 8), 2)):
            matrix[i, j] = matrix[j, i] = rng.normal() * 10.0 ** rng.uniform(-300, 100)
        values, vectors = linalg.eigh(matrix)
        residual = np.abs(matrix @ vectors - vectors * values).max()
        assert residual <= 1e-13 * np.abs(matrix).max()


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 10).flatmap(
        lambda p: arrays(np.float64, (p, p), elements=st.floats(-1e100, 1e100))
    )
)
def test_any_finite_matrix_has_finite_answers(matrix):
    symmetric = (matrix + matrix.T) / 2
    size = np.abs(symmetric).max()
    values, vectors = linalg.eigh(symmetric)
    assert np.isfinite(values).all()
    assert np.isfinite(vectors).all()
    residual = symmetric @ vectors - vectors * values
    assert np.abs(residual).max() <= 1e-13 * size + 1e-320


# --- flooring --------------------------------------------------------------------------------


@each("p", SIZES)
@each("floor", [0.0, 0.2, 10.0])
def test_floor_matches_twin(p, floor):
    matrix = random_symmetric(p, seed=100 + p)
    floored, values, count = linalg.floor_eigenvalues(matrix, floor)
    expected, expected_values, expected_count = reference.floor_eigenvalues(matrix, floor)
    assert np.array_equal(floored, floored.T)
    np.testing.assert_allclose(floored, expected, rtol=0, atol=1e-13 * max(1.0, floor))
    np.testing.assert_allclose(values, expected_values, rtol=0, atol=1e-13)
    assert count == expected_count
    assert np.linalg.eigvalsh(floored).min() >= floor - 1e-13 * max(1.0, floor)


@each("p", SIZES)
def test_floor_below_the_spectrum_changes_no_bit(p):
    matrix = positive_definite(p, seed=p) + np.eye(p)
    matrix = (matrix + matrix.T) / 2
    floored, _, count = linalg.floor_eigenvalues(matrix, 0.5)
    assert count == 0
    assert np.array_equal(floored, matrix)


@pytest.mark.parametrize("p", [2, 4, 10])
def test_a_huge_negative_eigenvalue_leaves_the_floor_accurate(p):
    """Adding a lift to the input would cancel 1e12 and lose the floor; reconstruction does not."""
    rng = np.random.default_rng(p)
    vectors, _ = np.linalg.qr(rng.normal(size=(p, p)))
    matrix = (vectors * np.r_[-1e12, np.ones(p - 1)]) @ vectors.T
    floored, _, _ = linalg.floor_eigenvalues(matrix, 1e-3)
    # the unit eigenvalues themselves are only known to 1e12 * epsilon = 2e-4
    assert np.linalg.eigvalsh(floored).min() > 0.5e-3


@each("p", SIZES)
def test_newton_direction_matches_twin(p):
    matrix = random_symmetric(p, seed=200 + p)
    g = np.random.default_rng(p).normal(size=p)
    direction, values, count = linalg.newton_direction(matrix, g, 0.05)
    expected, expected_values, expected_count = reference.newton_direction(matrix, g, 0.05)
    np.testing.assert_allclose(direction, expected, rtol=0, atol=1e-11 * np.linalg.norm(g))
    np.testing.assert_allclose(values, expected_values, rtol=0, atol=1e-13)
    assert count == expected_count
    assert np.linalg.norm(direction) <= np.linalg.norm(g) / 0.05 * (1 + 1e-12)


@each("p", SIZES)
def test_floored_step_matches_twin_and_newton_direction(p):
    matrix = random_symmetric(p, seed=200 + p)
    g = np.random.default_rng(p).normal(size=p)
    direction, values, inverse = linalg.floored_step(matrix, g, 0.05)
    _, expected_values, expected = reference.floored_step(matrix, g, 0.05)
    assert np.array_equal(direction, linalg.newton_direction(matrix, g, 0.05)[0])
    np.testing.assert_allclose(values, expected_values, rtol=0, atol=1e-13)
    np.testing.assert_allclose(inverse, expected, rtol=0, atol=1e-11)
    assert np.array_equal(inverse, inverse.T)
    assert (values >= 0.05).all()


def positive(p, seed):
    root = np.random.default_rng(seed).normal(size=(p + 2, p))
    return root.T @ root / p


@each("p", SIZES)
def test_weighted_mean_and_congruence_match_their_twins(p):
    rng = np.random.default_rng(p)
    matrices, weights = list(rng.normal(size=(4, p, p))), [1.0, 0.25, 3.0, 2.0**-40]
    for parts in (matrices, [matrix[0] for matrix in matrices]):
        found = linalg.weighted_mean(parts, weights)
        expected = reference.weighted_mean(parts, weights)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    assert np.array_equal(linalg.weighted_mean(matrices[:1], [0.5]), matrices[0])
    symmetric = random_symmetric(p, seed=p)
    found = linalg.congruence(matrices[0], symmetric)
    assert np.array_equal(found, found.T)
    expected = reference.congruence(matrices[0], symmetric)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * p * np.abs(expected).max())


@each("p", SIZES)
def test_variance_bounds_match_their_twin_and_hold(p):
    rng = np.random.default_rng(p)
    mapping, natural = rng.normal(size=(2, p, p))
    bias, directions, noise = rng.uniform(size=p), rng.normal(size=(p, 2)), 0.3
    meat = positive(p, p)
    for extra in (None, directions, directions.T.copy().T):
        spread = meat + np.diag(noise**2 + bias)
        spread = spread if extra is None else spread + extra @ extra.T
        for matrix in (None, natural, np.asfortranarray(natural)):
            arguments = mapping, meat, bias, extra, noise, matrix
            found = linalg.variance_bounds(*arguments)
            np.testing.assert_allclose(found, reference.variance_bounds(*arguments), rtol=1e-9)
            for of in (mapping,) if matrix is None else (mapping, matrix @ mapping):
                variances = (of @ spread @ of.T).diagonal()
                assert found[0] <= variances.min() * 1.0001
                assert variances.max() <= found[1] * 1.0001


@each("broken", [0, 1, 2])
@each("value", [np.nan, np.inf])
def test_variance_bounds_of_no_numbers_are_no_bounds(broken, value):
    parts = [np.eye(3), np.eye(3), np.ones(3)]
    parts[broken].flat[0] = value
    smallest, largest = linalg.variance_bounds(*parts, None, 0.5, np.eye(3))
    assert not (smallest > 0.0 and largest < np.inf)


@each(
    "call",
    [
        lambda: linalg.weighted_mean([], []),
        lambda: linalg.weighted_mean([np.eye(2)], [1.0, 1.0]),
        lambda: linalg.weighted_mean([np.eye(2), np.eye(3)], [1.0, 1.0]),
        lambda: linalg.congruence(np.eye(2), np.eye(3)),
        lambda: linalg.variance_bounds(np.eye(2), np.eye(3), np.ones(2), None, 1.0, None),
        lambda: linalg.variance_bounds(np.eye(2), np.eye(2), np.ones(3), None, 1.0, None),
        lambda: linalg.variance_bounds(np.eye(2), np.eye(2), np.ones(2), None, 1.0, np.eye(3)),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(call):
    with pytest.raises(ValueError, match=r"shape|as many|floor"):
        call()


@each("p", [1, 2, 5, 40])
@each("length", [1e-170, 1e-3, 0.9, 1.1, 1e9, 1e150])
def test_capped_step_matches_twin(p, length):
    rng = np.random.default_rng(p)
    theta, direction = rng.normal(size=(2, p))
    direction *= length / np.linalg.norm(direction)
    found = linalg.capped_step(theta, direction, 0.6, 1.0)
    expected = reference.capped_step(theta, direction, 0.6, 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-16 * (1.0 + np.abs(theta).max()))
    assert np.linalg.norm(found - theta) <= 0.6 * (1.0 + 1e-12)
    if length < 1.0:
        assert np.array_equal(found, theta - 0.6 * direction)


@each("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_a_direction_without_a_finite_length_is_not_taken(bad):
    theta, direction = np.array([1.0, -2.0, 3e300]), np.array([0.1, bad, 0.0])
    for module in (linalg, reference):
        stayed = module.capped_step(theta, direction, 0.6, 1.0)
        assert np.array_equal(stayed, theta)
        assert not np.shares_memory(stayed, theta)


@each("p", [1, 2, 5, 16, 17])
def test_noise_after_steps_matches_twin(p):
    rng = np.random.default_rng(p)
    curvatures = [positive_definite(p, seed=k) for k in range(6)]
    inverses = [np.linalg.inv(positive_definite(p, seed=20 + k)) for k in range(6)]
    inverses = [(inverse + inverse.T) / 2 for inverse in inverses]
    arguments = (inverses, curvatures, rng.random(6), rng.random(6), [0.0, 0.3, 0.0, 0.7, 0.1, 0.0])
    found, expected = linalg.noise_after_steps(*arguments), reference.noise_after_steps(*arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.abs(expected).max())
    assert np.array_equal(found, found.T)


def test_noise_after_one_step_is_that_of_its_gradient():
    inverse = np.linalg.inv(positive_definite(3, seed=0))
    found = linalg.noise_after_steps([inverse], [np.eye(3)], [0.6], [2.0], [5.0])
    np.testing.assert_allclose(found, 1.44 * inverse @ inverse, rtol=1e-12)


@each("p", SIZES)
def test_sandwich_matches_twin(p):
    bread = random_symmetric(p, seed=300 + p)
    meat = random_symmetric(p, seed=400 + p)
    covariance, count_h, count_q = linalg.sandwich(bread, meat, 0.1)
    expected, expected_h, expected_q = reference.sandwich(bread, meat, 0.1)
    assert np.array_equal(covariance, covariance.T)
    np.testing.assert_allclose(
        covariance, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max())
    )
    assert (count_h, count_q) == (expected_h, expected_q)
    assert np.linalg.eigvalsh(covariance).min() >= -1e-13 * max(1.0, np.abs(covariance).max())


def test_only_the_symmetric_part_counts():
    rng = np.random.default_rng(0)
    matrix, g = rng.normal(size=(6, 6)), rng.normal(size=6)
    symmetric = 0.5 * matrix + 0.5 * matrix.T
    assert np.array_equal(linalg.eigh(matrix)[0], linalg.eigh(symmetric)[0])
    assert np.array_equal(
        linalg.floor_eigenvalues(matrix, 0.3)[0], linalg.floor_eigenvalues(symmetric, 0.3)[0]
    )
    assert np.array_equal(
        linalg.newton_direction(matrix, g, 0.3)[0], linalg.newton_direction(symmetric, g, 0.3)[0]
    )


# --- bad values give NaN, bad arguments give errors ------------------------------------------


@each("p", SIZES)
@each("bad", [np.nan, np.inf, -np.inf])
@each("where", ["diagonal", "corner", "everywhere"])
def test_non_finite_matrices_give_nan(p, bad, where):
    matrix = positive_definite(p, seed=1)
    if where == "diagonal":
        matrix[p // 2, p // 2] = bad
    elif where == "corner":
        matrix[0, p - 1] = matrix[p - 1, 0] = bad
    else:
        matrix[:] = bad
    fine, g = positive_definite(p, seed=2), np.ones(p)

    values, vectors = linalg.eigh(matrix)
    assert np.isnan(values).all()
    assert np.isnan(vectors).all()
    for module in (linalg, reference):
        floored, values, count = module.floor_eigenvalues(matrix, 0.1)
        assert np.isnan(floored).all()
        assert np.isnan(values).all()
        assert count == p
        direction, values, count = module.newton_direction(matrix, g, 0.1)
        assert np.isnan(direction).all()
        assert np.isnan(values).all()
        assert count == p
        assert all(np.isnan(part).all() for part in module.floored_step(matrix, g, 0.1))
        covariance, count_h, count_q = module.sandwich(matrix, fine, 1e-9)
        assert np.isnan(covariance).all()
        assert (count_h, count_q) == (p, 0)
        covariance, count_h, count_q = module.sandwich(fine, matrix, 1e-9)
        assert np.isnan(covariance).all()
        assert (count_h, count_q) == (0, p)


def test_infinity_in_one_triangle_only_is_noticed():
    matrix = np.eye(3)
    matrix[2, 0] = np.inf
    assert np.isnan(linalg.eigh(matrix)[0]).all()


@each(
    ("call", "error", "words"),
    [
        (lambda: linalg.eigh(np.ones(3)), ValueError, "square matrix"),
        (lambda: linalg.eigh(np.ones((2, 3))), ValueError, r"\(2, 3\)"),
        (lambda: linalg.eigh(np.ones((0, 0))), ValueError, "at least one row"),
        (lambda: linalg.eigh(np.eye(2) * 1j), TypeError, "complex128"),
        (lambda: linalg.eigh([["a"]]), TypeError, "real numbers"),
        (lambda: linalg.floor_eigenvalues(np.eye(2), -1.0), ValueError, "non-negative"),
        (lambda: linalg.floor_eigenvalues(np.eye(2), np.nan), ValueError, "floor"),
        (lambda: linalg.floor_eigenvalues(np.eye(2), np.inf), ValueError, "floor"),
        (lambda: linalg.newton_direction(np.eye(2), np.ones(2), 0.0), ValueError, "positive"),
        (lambda: linalg.newton_direction(np.eye(2), np.ones(3), 1.0), ValueError, r"\(2,\)"),
        (lambda: linalg.floored_step(np.eye(2), np.ones(2), 0.0), ValueError, "positive"),
        (lambda: linalg.floored_step(np.eye(2), np.ones(3), 1.0), ValueError, r"\(2,\)"),
        (lambda: linalg.capped_step(np.ones(2), np.ones(3), 1.0, 1.0), ValueError, r"\(2,\)"),
        (lambda: linalg.capped_step(np.eye(2), np.ones(4), 1.0, 1.0), ValueError, r"\(4,\)"),
        (lambda: linalg.noise_after_steps([], [], [], [], []), ValueError, "at least one"),
        (
            lambda: linalg.noise_after_steps([np.eye(2)], [np.eye(3)], [1.0], [1.0], [0.0]),
            ValueError,
            r"\(2, 2\)",
        ),
        (
            lambda: linalg.noise_after_steps([np.eye(2)], [np.eye(2)], [1.0, 1.0], [1.0], [0.0]),
            ValueError,
            r"step_sizes must have shape \(1,\)",
        ),
        (lambda: linalg.sandwich(np.eye(2), np.eye(3), 1.0), ValueError, r"\(2, 2\)"),
        (lambda: linalg.sandwich(np.eye(2), np.eye(2), 0.0), ValueError, "positive"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("p", [4, 12])
def test_layouts_and_dtypes_agree(p):
    matrix = np.round(8 * positive_definite(p, seed=5))
    matrix = (matrix + matrix.T) / 2
    expected = linalg.floor_eigenvalues(matrix, 0.5)
    read_only = matrix.copy()
    read_only.flags.writeable = False
    strided = np.zeros((2 * p, 3 * p))
    strided[::2, ::3] = matrix
    for variant in (
        np.asfortranarray(matrix),
        read_only,
        strided[::2, ::3],
        matrix.astype(">f8"),
        matrix.tolist(),
    ):
        for got, want in zip(linalg.floor_eigenvalues(variant, 0.5), expected, strict=True):
            assert np.array_equal(got, want)
    integers = np.array([[2, 1], [1, 3]])
    assert np.array_equal(linalg.eigh(integers)[0], linalg.eigh(integers.astype(float))[0])


def test_arguments_are_not_written_to():
    matrix, g = random_symmetric(6, seed=9), np.arange(6.0)
    before, g_before = matrix.copy(), g.copy()
    linalg.eigh(matrix)
    linalg.floor_eigenvalues(matrix, 0.1)
    linalg.newton_direction(matrix, g, 0.1)
    linalg.floored_step(matrix, g, 0.1)
    linalg.capped_step(g, g, 0.6, 0.1)
    linalg.noise_after_steps([matrix], [matrix], [0.5], [1.0], [1.0])
    linalg.sandwich(matrix, matrix, 0.1)
    assert np.array_equal(matrix, before)
    assert np.array_equal(g, g_before)


@pytest.mark.serial
def test_safe_from_several_threads():
    """The functions release the GIL; each call must own its workspace."""
    matrices = [random_symmetric(p, seed=p) for p in (4, 6, 10, 20)] * 10
    expected = [linalg.floor_eigenvalues(matrix, 0.2)[0] for matrix in matrices]
    wrong = []

    def work() -> None:
        for matrix, want in zip(matrices, expected, strict=True):
            if not np.array_equal(linalg.floor_eigenvalues(matrix, 0.2)[0], want):
                wrong.append(len(matrix))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
