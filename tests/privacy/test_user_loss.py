"""Users' own losses: claim C31. The declared constants hold whatever the functions return."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import dpfast
from dpfast.models import Bounded, Clip, LogCosh, Mallows, MallowsLinear, Objective, Schweppe
from tests.loops import each
from tests.twins import records as reference

pytest.importorskip("numba")
records = pytest.importorskip("dpfast.kernels.records")

C = 1.345


def log_cosh(r):
    a = abs(r) / C
    return C * C * (a + math.log1p(math.exp(-2.0 * a)) - math.log(2.0))


def log_cosh_psi(r):
    return C * math.tanh(r / C)


def log_cosh_psi_prime(r):
    return 1.0 - math.tanh(r / C) ** 2


def nothing(r):
    return math.nan


def square(r):
    return 0.5 * r * r


def identity(r):
    return r


def one(r):
    return 1.0


def negative(r):
    return -3.0 - r * r


def wild(r):
    return math.exp(abs(r)) * math.sin(1e3 * r)


def jumps(r):
    return math.inf if r > 0.3 else -math.inf if r < -0.3 else 1.0 / r


def steps(r):
    return -1.0 if r < 0.0 else 1.0


def raises(r):
    if r > 1e3:
        raise ValueError("too large")
    return r


def indexes(r):
    return (1.0, 2.0)[int(r)]


def text(r):
    return "large" if r > 1.0 else "small"


def mine(**options):
    constants = {"psi_bound": C, "psi_prime_bound": 1.0} | options
    return dpfast.CustomLoss(log_cosh, log_cosh_psi, log_cosh_psi_prime, **constants)


LIARS = [
    (square, identity, one),
    (square, negative, negative),
    (wild, wild, wild),
    (jumps, jumps, jumps),
    (nothing, nothing, nothing),
    (steps, square, steps),
]
WEIGHTS = (Mallows(1.7), Bounded(1.7), Clip(0.9), Schweppe(1.7), MallowsLinear(1.7))


@pytest.fixture(params=records._available_isas())
def isa(request):
    """Every set of instructions this machine has, in turn."""
    records._set_isa(request.param)
    yield
    records._set_isa("")


def hostile(n, rng):
    x = rng.normal(size=(n, 2)) * 10.0 ** rng.choice([0.0, 0.0, 100.0, 200.0, -200.0], (n, 1))
    y = rng.normal(size=n) * 10.0 ** rng.choice([0.0, 0.0, 3.0, 300.0], n)
    x[0], x[1, 1], y[2], y[3], x[4], y[5] = np.nan, np.inf, np.nan, -np.inf, 1.7e308, 1.7e308
    return x, y


@pytest.mark.values
@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("weighting", WEIGHTS, ids=repr)
@pytest.mark.parametrize("coupling", [None, "one-minus-square"])
@pytest.mark.parametrize("functions", LIARS, ids=lambda three: three[1].__name__)
def test_c31_lying_losses_keep_the_declared_bounds(functions, coupling, weighting):
    rng = np.random.default_rng(0)
    x, y = hostile(40, rng)
    theta, other = np.array([0.3, -0.4]), np.array([-1.0, 0.7])
    loss = dpfast.CustomLoss(*functions, psi_bound=0.7, psi_prime_bound=0.4, coupling=coupling)
    objective = Objective(loss, weighting, 2, scale=0.8, fit_intercept=False)
    kernel = records.RecordKernel(*objective.kernel_arguments())
    wants = [1, 5, 7, 39] if objective.has_curvature else [1, 5]
    for i in range(len(y)):
        one_x, one_y = x[i : i + 1], y[i : i + 1]
        usable = np.isfinite(one_x).all() and np.isfinite(one_y).all()
        for want in wants:
            score, hessian, meat = kernel.sums(one_x, one_y, theta, want, 1.0, 1)
            assert np.linalg.norm(score) <= objective.score_bound * (1 + 1e-12)
            assert usable or not score.any()
            if meat is not None:
                np.testing.assert_allclose(meat, np.outer(score, score), atol=1e-12)
                assert usable or not meat.any()
            if hessian is not None:
                bound = objective.curvature_bound
                h = np.trace(hessian) / bound
                assert 0.0 <= h <= 1 + 1e-12
                assert np.linalg.norm(hessian) <= bound * (1 + 1e-12)
                if coupling and want == 7:
                    tau = np.linalg.norm(score) / objective.score_bound
                    assert h <= 1 - tau**2 + 1e-12
        for limit in (0.3, 1e3):
            moved = kernel.gradient_change(one_x, one_y, other, theta, limit, 1.0, 1)
            most = min(limit, 2.0 * objective.score_bound)
            assert np.linalg.norm(moved) <= most * (1 + 1e-12)
            assert usable or not moved.any()
        if weighting.has_loss:
            change = kernel.loss_difference(one_x, one_y, other, theta, 1.0, 1)
            most = objective.score_bound * np.linalg.norm(other - theta)
            assert abs(change) <= most * (1 + 1e-12)
            assert usable or change == 0.0


@pytest.mark.parametrize("weighting", WEIGHTS, ids=repr)
@pytest.mark.parametrize("q", [2, 13, 30])
def test_agrees_with_the_twin_and_with_the_built_in_loss(weighting, q):
    rng = np.random.default_rng(q)
    x, y = rng.normal(size=(150, q)), 3.0 * rng.normal(size=150)
    x[3] *= 1e200
    x[7, 0] = np.nan
    theta, new = rng.normal(size=q + 1) / q, rng.normal(size=q + 1) / q
    objective = Objective(mine(), weighting, q, scale=0.8)
    built_in = Objective(LogCosh(), weighting, q, scale=0.8).kernel_arguments()
    arguments = objective.kernel_arguments()
    h, user = arguments[-2:]
    names = ("loss", "c", "scale", "weighting", "radius", "intercept")
    twin = dict(zip(names, arguments[:6], strict=True)) | {"h": h, "functions": user.functions}
    kernel = records.RecordKernel(*arguments)
    for want in (1, 7, 39) if objective.has_curvature else (1, 5):
        ours = kernel.sums(x, y, theta, want, 150.0)
        for expected, tolerance in (
            (reference.record_sums(x, y, theta, want=want, divisor=150.0, **twin), 1e-12),
            (records.RecordKernel(*built_in).sums(x, y, theta, want, 150.0), 1e-12),
        ):
            for a, b in zip(ours, expected, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * 10)
    if weighting.has_loss:
        ours = kernel.loss_difference(x, y, new, theta, 150.0)
        expected = reference.loss_difference(x, y, new, theta, divisor=150.0, **twin)
        assert ours == pytest.approx(expected, abs=1e-12)
    threads = kernel.sums(x, y, theta, 1, 150.0, 3)[0]
    np.testing.assert_array_equal(threads, kernel.sums(x, y, theta, 1, 150.0, 1)[0])
    limit = 0.1
    change = kernel.gradient_change(x, y, new, theta, limit, 150.0)
    expected = reference.gradient_change(x, y, new, theta, limit=limit, divisor=150.0, **twin)
    np.testing.assert_allclose(change, expected, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("isa")
@each("weighting", WEIGHTS, ids=repr)
@each("q", [2, 10, 30])
@each("tame", [True, False])
def test_a_gradient_alone_is_the_one_that_comes_with_matrices(weighting, q, tame):
    """It comes from psi alone, by other code than beside psi', and for tame records by yet other.

    All agree to 1e-12 of the mean absolute contribution, also with the built-in loss.
    """
    rng = np.random.default_rng(q)
    n = 700
    x, y = rng.normal(size=(n, q)), 3.0 * rng.normal(size=n)
    if not tame:
        x[3] *= 1e200
        x[7, 0], y[9] = np.nan, np.inf
    theta = rng.normal(size=q + 1) / q
    objective = Objective(mine(), weighting, q, scale=0.8)
    built_in = Objective(LogCosh(), weighting, q, scale=0.8)
    with_matrices = 7 if objective.has_curvature else 5
    kernel, same = (records.RecordKernel(*o.kernel_arguments()) for o in (objective, built_in))
    alone = kernel.sums(x, y, theta, 1, n)[0]
    together = kernel.sums(x, y, theta, with_matrices, n)[0]
    expected = same.sums(x, y, theta, 1, n)[0]
    sizes = [np.abs(kernel.sums(x[i : i + 1], y[i : i + 1], theta, 1, n)[0]) for i in range(n)]
    tolerance = 1e-12 * np.sum(sizes, axis=0)
    assert (np.abs(alone - together) <= tolerance).all()
    assert (np.abs(alone - expected) <= tolerance).all()


@pytest.mark.values
@pytest.mark.parametrize("bad", [raises, indexes])
@pytest.mark.parametrize("place", range(3))
def test_c31_code_that_may_raise_is_refused(bad, place):
    """An exception would be seen outside, and depends on the records."""
    functions = [square, identity, one]
    functions[place] = bad
    loss = dpfast.CustomLoss(*functions, psi_bound=1.0, psi_prime_bound=1.0)
    with pytest.raises(dpfast.InvalidInput, match="may raise an exception"):
        _ = loss.compiled


def test_c31_enforced_coupling():
    """Full curvature with a full score, declared impossible, cannot be had."""
    loss = dpfast.CustomLoss(
        square, steps, one, psi_bound=1.0, psi_prime_bound=1.0, coupling="one-minus-square"
    )
    objective = Objective(loss, Bounded(1.0), 1, scale=1.0, fit_intercept=False)
    assert objective.coupling == "one-minus-square"
    assert objective.majorizer_coupling == "independent"
    kernel = records.RecordKernel(*objective.kernel_arguments())
    score, hessian, _ = kernel.sums(np.ones((1, 1)), np.ones(1), np.zeros(1), 3, 1.0)
    assert score[0] == -1.0
    assert hessian[0, 0] == 0.0


@each("bad", [text, "psi", None, 3.0])
def test_functions_that_are_no_losses(bad):
    with pytest.raises(dpfast.InvalidInput, match=r"of one|must return a float"):
        _ = dpfast.CustomLoss(square, bad, one, psi_bound=1.0, psi_prime_bound=1.0).compiled


@each(
    "change",
    [
        {"psi_bound": math.inf},
        {"psi_prime_bound": -1.0},
        {"convex": "no"},
        {"coupling": "circle"},
        {"name": ""},
        {"self_concordance": -1.0},
    ],
)
def test_declarations_are_checked(change):
    with pytest.raises(dpfast.InvalidInput, match=next(iter(change))):
        mine(**change)


def test_equality_and_pickling():
    assert mine() == mine()
    assert hash(mine()) == hash(mine())
    assert mine() != mine(psi_bound=2.0)
    assert mine().compiled is mine(psi_bound=2.0).compiled  # the same functions
    again = pickle.loads(pickle.dumps(mine()))
    assert again == mine()
    kernel = records.RecordKernel(*Objective(again, Mallows(2.0), 1, scale=1.0).kernel_arguments())
    copy = pickle.loads(pickle.dumps(kernel))
    x, y = np.eye(3)[:, :1], np.arange(3.0)
    for a, b in zip(
        kernel.sums(x, y, np.ones(2), 7, 1.0), copy.sums(x, y, np.ones(2), 7, 1.0), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_what_cannot_be_enforced_is_not_relied_on():
    from dpfast.models import release_constants

    objective = Objective(mine(self_concordance=1.5), Schweppe(2.0), 1, scale=1.0, ridge=0.5)
    with pytest.raises(dpfast.InvalidInput, match="declared, not proved"):
        release_constants(mine(self_concordance=1.5))
    assert objective.self_concordance == 3.0  # for the length of steps


def test_not_convex_means_gradients_only():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = x @ [1.0, -1.0] + rng.normal(size=400)
    loss = mine(convex=False, name="my loss")
    with pytest.raises(dpfast.InvalidInput, match=r"my loss.*convex=False"):
        dpfast.fit(x, y, dpfast.Objective(loss, scale=1.0), privacy=1.0)
    with pytest.raises(dpfast.InvalidInput, match=r"my loss.*convex=False"):
        dpfast.fit(
            x, y, dpfast.Objective(loss, scale=1.0), privacy=1.0, inference=False, method="newton"
        )
    result = dpfast.fit(
        x,
        y,
        dpfast.Objective(loss, scale=1.0),
        privacy=1.0,
        inference=False,
        method=dpfast.optimize.GradientDescent(steps=5),
    )
    assert np.isfinite(result.params).all()
