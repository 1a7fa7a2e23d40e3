"""What points tell about a gradient: the claims of paper 4, Algorithm 1, lines 4 to 7."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dpfast.bayesopt import RBF, GradientInformation, Matern52, Matern72, Polynomial2
from dpfast.bayesopt.surrogate.designs import hashed_normals, starting_design
from dpfast.errors import InvalidInput
from tests.loops import each

COVARIANCES = [
    RBF(0.8, 1.2),
    Matern52(1.1),
    Matern72([1.0, 0.7, 1.5]),
    Polynomial2(1.3, offset=0.5),
]
every = pytest.mark.parametrize("covariance", COVARIANCES, ids=lambda c: type(c).__name__)
BOX3 = [(-2.0, 2.0)] * 3
PINNED = [0.49129781345322643, 1.2748369334833656, 0.0823574936317396]


def information(covariance, noise_variance=0.01, seed=0, m=7) -> GradientInformation:
    rng = np.random.default_rng(seed)
    return GradientInformation(covariance, noise_variance, BOX3).condition(
        rng.uniform(-2, 2, size=(m, 3))
    )


def test_the_literal_line_4_stops_too_early():
    """Formulas page, 12.5: b = 1 leaves 4.63 of the prior 5; half a unit needs b = d + 1 = 6."""
    demo = GradientInformation(RBF(), 0.05**2, [(-3.0, 3.0)] * 5)
    theta = np.zeros(5)
    assert demo.prior_trace(theta) == 5.0
    _, after_one = demo.acquire(theta, 1, starts=3)
    # one point at distance v: 5 - v^2 exp(-v^2) / (1 + sigma^2), least at v = 1: 5 - 0.367
    assert after_one == pytest.approx(5.0 - np.exp(-1.0) / (1.0 + 0.05**2), abs=1e-6)
    assert after_one == pytest.approx(4.63, abs=0.005)
    batch = demo.choose_batch(theta, 0.5, 20)
    assert len(batch) == 6
    assert demo.trace(batch, theta) <= 0.5
    _, best_of_five = demo.acquire(theta, 5, starts=6)
    assert best_of_five > 0.5


@every
def test_more_points_never_hurt(covariance):
    info = information(covariance)
    rng = np.random.default_rng(1)
    for _ in range(5):
        theta = rng.uniform(-2, 2, size=3)
        Z = rng.uniform(-2, 2, size=(9, 3))
        traces = [info.trace(Z[:b], theta) for b in range(10)]
        assert traces[0] <= info.prior_trace(theta)
        assert (np.diff(traces) <= 1e-10 * info.prior_trace(theta)).all()


@every
def test_conditioning_is_joining(covariance):
    """Evaluated points and points to be evaluated tell the same."""
    rng = np.random.default_rng(2)
    D, Z, theta = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), rng.normal(size=3)
    info = GradientInformation(covariance, 0.05, BOX3)
    together = info.condition(np.concatenate([D, Z])).trace(np.empty((0, 3)), theta)
    assert np.trace(info.gradient_covariance(theta)) == pytest.approx(together, rel=1e-9)
    assert info.condition(D).trace(Z, theta) == pytest.approx(together, rel=1e-9)
    nothing = info.condition(np.empty((0, 3)))
    bare = nothing.trace(np.empty((0, 3)), theta)
    assert bare == pytest.approx(nothing.prior_trace(theta), rel=1e-15)
    assert nothing.trace(np.concatenate([D, Z]), theta) == pytest.approx(together, rel=1e-9)


@every
@pytest.mark.parametrize("noise_variance", [1e-8, 1e-2])
def test_surrogate_gradients_err_by_at_most_the_posterior_covariance(covariance, noise_variance):
    """Cauchy-Schwarz in the RKHS: for f = k(., a), |error_j|^2 <= posterior_jj k(a, a).

    Wrong weights, or a trace that promises too much, break it.
    """
    info = information(covariance, noise_variance, m=40)
    rng = np.random.default_rng(5)
    for _ in range(10):
        theta, anchor = rng.uniform(-1, 1, size=3), rng.uniform(-2, 2, size=(1, 3))
        Y = covariance.values(anchor, info.points)
        W = info.gradient_weights(theta)
        assert W.shape == (40, 3)
        error = (Y @ W)[0] - covariance.gradient(theta, anchor)[:, 0]
        posterior = np.diag(info.gradient_covariance(theta))
        scale = covariance.prior_trace(theta)
        limit = (posterior + 1e-9 * scale) * covariance.values(anchor, anchor)[0, 0]
        assert (error**2 <= limit).all()


@every
def test_acquisition_reduces_the_trace_inside_the_box(covariance):
    info = information(covariance)
    for theta in (np.zeros(3), np.array([2.0, -2.0, 0.0])):
        before = info.trace(np.empty((0, 3)), theta)
        Z, after = info.acquire(theta, 4)
        assert Z.shape == (4, 3)
        assert ((Z >= -2.0) & (Z <= 2.0)).all()
        assert after < before
        assert info.trace(Z, theta) == pytest.approx(after, rel=1e-9, abs=1e-9)
        again, _ = info.acquire(theta, 4)
        assert np.array_equal(Z, again), "the acquisition must be deterministic"


@every
@pytest.mark.parametrize("share", [0.6, 0.2])
def test_the_batch_is_as_small_as_it_can_be(covariance, share):
    """One point fewer does not reach the threshold, from more starts than the search used."""
    info = information(covariance, seed=4, m=2)
    theta = np.array([0.5, -0.5, 0.2])
    threshold = share * info.prior_trace(theta)
    batch = info.choose_batch(theta, threshold, 30)
    assert info.trace(batch, theta) <= threshold
    if len(batch) > 1:
        _, fewer = info.acquire(theta, len(batch) - 1, starts=8)
        assert fewer > threshold
    assert info.fewest_points(theta, threshold) <= len(batch)


@every
def test_the_bound_on_the_number_of_points_holds(covariance):
    """b points, however good, leave at least the d - b smallest eigenvalues."""
    info = information(covariance, noise_variance=0.0, m=2)
    theta = np.array([0.3, 0.1, -0.4])
    for b in (1, 2, 3):
        _, least = info.acquire(theta, b, starts=6)
        assert info.fewest_points(theta, least) <= b
    prior = info.prior_trace(theta)
    assert info.fewest_points(theta, prior) == 0
    assert info.condition(np.empty((0, 3))).fewest_points(theta, 1e-6 * prior) == 3


def test_the_cap_and_the_least_batch():
    info = information(RBF(), noise_variance=0.5)
    theta = np.zeros(3)
    assert len(info.choose_batch(theta, 0.0, 3)) == 3  # out of reach: the cap
    assert len(info.choose_batch(theta, 1e9, 3)) == 1


@every
def test_duplicates_and_no_noise_are_safe(covariance):
    info = GradientInformation(covariance, 0.0, BOX3).condition(np.ones((5, 3)))
    theta = np.ones(3)
    Z = np.ones((4, 3))
    value, gradient = info._kernel.value_and_gradient(Z, theta)
    assert 0.0 <= value <= info.prior_trace(theta) * (1 + 1e-9)
    assert np.isfinite(gradient).all()
    assert np.isfinite(info.gradient_weights(theta)).all()
    Z, value = info.acquire(theta, 3)
    assert np.isfinite(Z).all()
    assert value < info.prior_trace(theta)


def test_a_copy_from_a_file_proposes_the_same():
    info = information(Matern52(0.9), m=20)
    theta = np.array([0.1, 0.2, -0.3])
    copy = pickle.loads(pickle.dumps(info))
    assert np.array_equal(copy.points, info.points)
    assert np.array_equal(copy.acquire(theta, 3)[0], info.acquire(theta, 3)[0])


def test_starting_designs_are_public_constants():
    """Pinned: a change of the hash changes every user's acquisition."""
    np.testing.assert_allclose(hashed_normals(3, 0), PINNED, rtol=1e-12)
    normals = hashed_normals(4000, 0)
    assert abs(normals.mean()) < 5 / np.sqrt(4000)
    assert abs(normals.std() - 1.0) < 5 / np.sqrt(8000)
    assert not np.array_equal(normals[:10], hashed_normals(10, 1))
    lower, upper = np.full(4, -1.0), np.full(4, 1.0)
    theta = np.array([1.0, -1.0, 0.0, 0.5])
    design = starting_design(theta, 9, np.ones(4), lower, upper, 0)
    assert design.shape == (9, 4)
    assert ((design >= lower) & (design <= upper)).all()
    assert np.linalg.matrix_rank(design[:4] - theta) == 4


@each(
    ("call", "words"),
    [
        (lambda: GradientInformation(RBF(), -1.0, BOX3), "noise_variance"),
        (lambda: GradientInformation(RBF(), 1.0, [(1.0, 0.0)]), "lower and an upper"),
        (lambda: GradientInformation(RBF(), 1.0, [1.0, 0.0]), "bounds"),
        (lambda: GradientInformation(RBF([1.0, 1.0]), 1.0, BOX3), "2 entries"),
        (lambda: information(RBF()).condition(np.ones((2, 2))), "D must have shape"),
        (lambda: information(RBF()).trace(np.ones((2, 2)), np.ones(3)), "Z must have shape"),
        (lambda: information(RBF()).trace(np.ones((2, 3)), np.ones(2)), "theta"),
        (lambda: information(RBF()).choose_batch(np.ones(3), -1.0, 3), "threshold"),
        (lambda: information(RBF()).choose_batch(np.ones(3), 1.0, 0), "b_max"),
        (lambda: information(RBF()).acquire(np.ones(3), 2, starts=0), "start"),
        (lambda: information(RBF()).acquire(np.ones(3), 2, initial=[np.ones((1, 3))]), "b=2"),
        (lambda: information(RBF()).trace([[0.0, np.nan, 0.0]], np.ones(3)), "finite"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_batches_from_where_least_is_known_are_as_good_as_from_anywhere():
    """Ended ten times earlier, among points that leave a part of the directions open."""
    d, b, rng = 60, 21, np.random.default_rng(2)
    info = GradientInformation(RBF(2.0), 0.01, [(-2.0, 2.0)] * d)
    info.condition(np.clip(0.3 * rng.normal(size=(50, d)), -2.0, 2.0))
    theta = 0.05 * rng.normal(size=d)
    start = info.most_uncertain(theta, b)
    _, quick = info.acquire(theta, b, starts=0, initial=[start], tolerance=1e-3)
    _, thorough = info.acquire(theta, b, starts=1, tolerance=1e-4)
    _, random = info.acquire(theta, b, starts=1, tolerance=1e-2)
    assert quick <= 1.1 * thorough and info.trace(start, theta) < random
    directions = (start - theta) / np.linalg.norm(start - theta, axis=1, keepdims=True)
    assert np.allclose(np.abs(directions @ directions.T), np.eye(b), atol=1e-9)
    assert info.most_uncertain(np.full(d, 2.0), 2 * d + 3).max() <= 2.0
