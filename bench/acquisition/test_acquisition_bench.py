"""One acquisition value and gradient, and whole steps, on one thread, in CPU time.

References: automatic differentiation of the same trace with GPyTorch's covariance function and
Cholesky; direct NumPy (everything from the joint set of points, hand-written gradient); bordered
NumPy (what depends on the old points cached, as here).
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.linalg import cho_factor, solve_triangular
from scipy.optimize import minimize

import dpfast
from bench.harness import compare, interleaved, is_quick
from dpfast.arguments import Array
from dpfast.bayesopt import RBF, GradientInformation, Matern52, search
from dpfast.bayesopt.surrogate.designs import starting_design
from dpfast.kernels.acquisition import AcquisitionKernel
from tests.twins import acquisition as reference_acquisition

SIZES = [(5, 50, 1), (15, 300, 16), (103, 300, 1), (103, 300, 104)]
SIZES = SIZES[:2] if is_quick() else SIZES
NOISE = 0.05**2

#: What each size is held to: times faster than GPyTorch, times faster than direct NumPy.
TARGETS = {(15, 300, 16): (50, 5), (103, 300, 1): (150, 5), (103, 300, 104): (9, None)}


class Case:
    """A step of DP-GIBO: points of earlier steps around a path, theta, new points."""

    def __init__(self, d: int, m: int, b: int) -> None:
        rng = np.random.default_rng(d + m + b)
        self.length = (d / 5) ** 0.5
        self.theta = 0.1 * rng.normal(size=d)
        self.D = np.clip(rng.normal(size=(m, d)), -2.0, 2.0)
        self.Z = np.clip(self.theta + 0.5 * rng.normal(size=(b, d)), -2.0, 2.0)
        self.kernel = AcquisitionKernel(
            0, np.full(d, self.length), 1.0, 0.0, NOISE, np.full(d, -2.0), np.full(d, 2.0)
        )
        self.kernel.condition(self.D)

    def ours(self):
        return self.kernel.value_and_gradient(self.Z, self.theta)


def numpy_direct(case: Case):
    """Matrix products only; one Cholesky factorisation of the joint covariance."""
    l2, theta, new = case.length**2, case.theta, case.Z
    joint = np.concatenate([case.D, new])
    m = len(case.D)

    def call():
        square = np.sum(joint * joint, axis=1)
        K = np.exp(-0.5 / l2 * (square[:, None] + square - 2.0 * joint @ joint.T))
        steps = (joint - theta) / l2
        A = np.exp(-0.5 * l2 * np.sum(steps * steps, axis=1))[:, None] * steps
        noisy = K.copy()
        noisy[np.diag_indices_from(noisy)] += NOISE
        L, lower = cho_factor(noisy, lower=True, check_finite=False)
        half = solve_triangular(L, A, lower=lower, check_finite=False)
        W = solve_triangular(L, half, lower=lower, trans="T", check_finite=False)
        value = len(theta) / l2 - np.sum(half * half)
        pull = (W[m:] @ W.T) * K[m:]
        gradient = -2.0 / l2 * (pull.sum(axis=1)[:, None] * new - pull @ joint)
        k_new = np.exp(-0.5 * l2 * np.sum(steps[m:] ** 2, axis=1))[:, None]
        along = np.sum(W[m:] * steps[m:], axis=1)[:, None]
        gradient -= 2.0 * k_new * (W[m:] / l2 - along * steps[m:])
        return value, gradient

    return call


def numpy_bordered(case: Case):
    l2, theta, new, D = case.length**2, case.theta, case.Z, case.D
    squares = np.sum(D * D, axis=1)
    K = np.exp(-0.5 / l2 * (squares[:, None] + squares - 2.0 * D @ D.T))
    L = np.linalg.cholesky(K + NOISE * np.eye(len(D)))
    steps = (D - theta) / l2
    A = np.exp(-0.5 * l2 * np.sum(steps * steps, axis=1))[:, None] * steps
    B = solve_triangular(L, A, lower=True)
    base = len(theta) / l2 - np.sum(B * B)

    def call():
        square = np.sum(new * new, axis=1)
        c = np.exp(-0.5 / l2 * (squares[:, None] + square - 2.0 * D @ new.T))
        k = np.exp(-0.5 / l2 * (square[:, None] + square - 2.0 * new @ new.T))
        V = solve_triangular(L, c, lower=True, check_finite=False)
        at = (new - theta) / l2
        k_new = np.exp(-0.5 * l2 * np.sum(at * at, axis=1))[:, None]
        R = k_new * at - V.T @ B
        S = k + NOISE * np.eye(len(new)) - V.T @ V
        G = np.linalg.solve(S, R)
        value = base - np.sum(R * G)
        M = G @ G.T
        P = solve_triangular(L, V @ M - B @ G.T, lower=True, trans="T", check_finite=False)
        Q, F = P * c, M * k
        along = np.sum(G * at, axis=1)[:, None]
        gain = 2.0 * k_new * (G / l2 - along * at)
        gain -= 2.0 / l2 * (Q.sum(axis=0)[:, None] * new - Q.T @ D)
        gain += 2.0 / l2 * (F.sum(axis=1)[:, None] * new - F @ new)
        return value, -gain

    return call


def gpytorch_autograd(case: Case):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    cholesky = pytest.importorskip("linear_operator.utils.cholesky").psd_safe_cholesky
    torch.set_num_threads(1)
    covariance = gpytorch.kernels.RBFKernel().double()
    covariance.lengthscale = case.length
    covariance.requires_grad_(False)
    D = torch.tensor(case.D)
    theta = torch.tensor(case.theta)
    new = torch.tensor(case.Z, requires_grad=True)
    l2 = case.length**2

    def call():
        joint = torch.cat([D, new])
        K = covariance(joint).to_dense() + NOISE * torch.eye(len(joint), dtype=joint.dtype)
        A = covariance(joint, theta[None]).to_dense() * (joint - theta) / l2
        L = cholesky(K)
        half = torch.linalg.solve_triangular(L, A, upper=False)
        trace = len(theta) / l2 - (half * half).sum()
        (gradient,) = torch.autograd.grad(trace, new)
        return float(trace.detach()), gradient.numpy()

    return call


def largest_difference(got, want) -> float:
    value = abs(got[0] - want[0]) / abs(want[0])
    return max(value, float(np.abs(got[1] - want[1]).max() / np.abs(want[1]).max()))


@pytest.mark.parametrize("reference", [gpytorch_autograd, numpy_direct, numpy_bordered])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_value_and_gradient(benchmark, size, reference):
    case = Case(*size)
    call = reference(case)
    medians = compare(
        benchmark,
        case.ours,
        case=f"acquisition, against {reference.__name__}: d, |D|, b = {size}",
        n=size[1],
        p=size[0],
        reference=call,
        clock=time.process_time,
        accuracy=largest_difference(case.ours(), call()),
    )
    speedup = medians["reference"] / medians["function"]
    target = dict(zip((gpytorch_autograd, numpy_direct), TARGETS.get(size, ()), strict=False))
    if target.get(reference):
        benchmark.extra_info.update(limit=target[reference], fraction=speedup / target[reference])


@pytest.mark.parametrize("covariance", [RBF, Matern52])
def test_acquisition_step(benchmark, covariance):
    """200 evaluations at d = 15 with 300 points known and 16 to choose; target 40 ms."""
    case = Case(15, 300, 16)
    info = GradientInformation(covariance(case.length), NOISE, [(-2.0, 2.0)] * 15)
    info.condition(case.D)
    kernel = info._kernel
    start = starting_design(
        case.theta, 16, np.full(15, case.length), np.full(15, -2.0), np.full(15, 2.0), 0
    )

    def step():
        evaluations = 0
        while evaluations < 200:
            left = 200 - evaluations
            evaluations += kernel.minimise(start, case.theta, left, 0.0, 0.0, -np.inf)[2]

    def scipy_step():
        def objective(x):
            value, gradient = kernel.value_and_gradient(x.reshape(16, 15), case.theta)
            return value, gradient.ravel()

        left = 200
        while left > 0:
            left -= minimize(
                objective,
                start.ravel(),
                jac=True,
                method="L-BFGS-B",
                bounds=[(-2.0, 2.0)] * 240,
                options={"maxfun": left, "ftol": 0.0, "gtol": 0.0, "maxiter": left},
            ).nfev

    medians = compare(
        benchmark,
        step,
        case=f"acquisition step of 200 evaluations, {covariance.__name__}, against L-BFGS-B",
        n=300,
        p=15,
        reference=scipy_step,
        clock=time.process_time,
        limit=0.040,
        rounds=5,
    )
    benchmark.extra_info["fraction"] = medians["function"] / 0.040


def test_growing_by_a_batch(benchmark):
    """Incremental Cholesky: 16 new points on 300, against factorising all 316."""
    case = Case(15, 300, 16)
    kernel, all_points = case.kernel, np.concatenate([case.D, case.Z])
    fresh = AcquisitionKernel(
        0, np.full(15, case.length), 1.0, 0.0, NOISE, np.full(15, -2.0), np.full(15, 2.0)
    )

    def grow():
        kernel.condition(case.D)
        kernel.condition(all_points)

    def factorise():
        fresh.condition(all_points[:0])
        fresh.condition(all_points)

    compare(
        benchmark,
        grow,
        case="growing by 16 points",
        n=300,
        p=15,
        reference=factorise,
        clock=time.process_time,
    )


def _tuned(seed: int, d: int = 103, n: int = 1000, steps: int = 25) -> float:
    """Excess loss that a search at mu = 1 ends with: quadratic losses, a matrix product each."""
    rng = np.random.default_rng([seed, d])
    middle, curvature = rng.uniform(-0.6, 0.6, size=d), rng.uniform(0.2, 2.0, size=d) / d
    centres = middle + 0.3 * rng.normal(size=(n, d))
    slopes, levels = centres * curvature, (centres * centres) @ curvature
    found = dpfast.tune(
        lambda theta: levels - 2.0 * slopes @ theta + (theta * theta) @ curvature,
        [(-1.0, 1.0)] * d,
        privacy=1.0,
        n_records=n,
        clip=2.0,
        steps=steps,
        noise=dpfast.SeededNoise(seed),
    )
    return float(np.sum(curvature * (found.theta - centres.mean(axis=0)) ** 2))


def test_whole_search(benchmark, monkeypatch):
    """25 steps at d = 103 with 875 evaluations, against batches chosen as well as can be.

    The target is a second of CPU; `accuracy` is the geometric mean of the excess losses' ratio,
    over four problems, less one.
    """
    seeds, steps = ((0,), 3) if is_quick() else ((0, 1, 2, 3), 25)

    def quickly():
        return _tuned(0, steps=steps)

    def thoroughly():
        with monkeypatch.context() as patch:
            patch.setattr(search, "THOROUGH_DIMENSION", 103)
            return _tuned(0, steps=steps)

    def excess(dimension: int) -> Array:
        with monkeypatch.context() as patch:
            patch.setattr(search, "THOROUGH_DIMENSION", dimension)
            return np.log([_tuned(seed, steps=steps) for seed in seeds])

    medians = compare(
        benchmark,
        quickly,
        case=f"a whole search of {steps} steps, against thorough choices of batches",
        n=1000,
        p=103,
        reference=thoroughly,
        clock=time.process_time,
        limit=1.0,
        rounds=3,
        accuracy=float(np.exp(np.mean(excess(32) - excess(103))) - 1.0),
    )
    benchmark.extra_info["fraction"] = medians["function"]


def test_twin_is_the_same_quantity():
    """The references measure what the kernel computes."""
    case = Case(5, 50, 3)
    prior = reference_acquisition.Prior(0, np.full(5, case.length), 1.0, 0.0, NOISE)
    want = reference_acquisition.trace_and_gradient(prior, case.D, case.Z, case.theta)
    for reference in (numpy_direct, numpy_bordered, gpytorch_autograd):
        # the references have no jitter: 1e-10 of the prior variance
        assert largest_difference(reference(case)(), want) < 1e-6
    assert set(interleaved({"ours": case.ours}, rounds=1)) == {"ours"}
