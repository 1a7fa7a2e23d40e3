"""A tilted minimiser to the last digits, and how it is written down (claims R37 and R38)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import dpfast
from bench.rivals.literature import objective_perturbation
from dpfast.curator.noisy_release import observed
from dpfast.curator.release import certified
from dpfast.curator.release.perturbation import perturbation_terms
from dpfast.kernels.records import GRADIENT
from dpfast.models import LogCosh, Logistic, OstrovskiiBach, PseudoHuber, release_constants
from dpfast.privacy.mechanisms import check_grid_range
from dpfast.privacy.release import certified_minimiser as polished
from tests.loops import each
from tests.release.hostile import curator_of, exact_gradient, hostile

LOSSES = [
    (LogCosh(2.0), 1.0),
    (PseudoHuber(1.0), 0.7),
    (OstrovskiiBach(1.0), 0.7),
    (Logistic(), None),
]


def rooms(loss, scale, ridge=1e-2, n=60, d=3):
    for X, y in hostile(np.random.default_rng(3), n, d, scale is None):
        curator = curator_of(X, y, loss, scale, 1.5, False, ridge)
        plan = certified.certified_plan(curator, 1.5)
        yield X, y, curator, plan, certified.public_problem(curator, 1.5)["depth"]


@each(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_r37_a_computed_gradient_is_within_its_error(loss, scale):
    """In extended precision, at parameters of every size; a tenth of the bound is not reached."""
    rng, found = np.random.default_rng(4), []
    for X, y, curator, plan, depth in rooms(loss, scale):
        for size in (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0):
            theta = rng.normal(size=3)
            theta *= min(size, 0.9 * plan.box) / np.linalg.norm(theta)
            computed = certified.PenalisedObjective(curator, plan).evaluate(theta)[0]
            exact = exact_gradient(X, y, theta, loss, scale, plan, False)
            off = float(np.linalg.norm((computed - exact).astype(float)))
            found.append(
                off / polished.gradient_error_at(plan, depth, float(np.linalg.norm(theta)))
            )
    assert max(found) <= 1.0


@pytest.mark.parametrize(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_r37_one_record_is_within_the_score_error(loss, scale):
    """The score of one record alone, its predictor exact: in units of 2^-44 of its bound."""
    found = []
    for r in np.concatenate([np.linspace(-6.0, 6.0, 301), [0.0, 1e-9, 30.0, 40.0, 700.0]]):
        y = np.array([r if scale is not None else float(r > 0)])
        t = 0.0 if scale is not None else float(r)
        curator = curator_of(np.ones((1, 1)), y, loss, scale, 1.5)
        plan = certified.certified_plan(curator, 1.5)
        computed = float(curator._sums(np.array([t]), GRADIENT)[0][0])
        with mpmath.workdps(60):
            u = (mpmath.mpf(float(y[0])) - t) / (1 if scale is None else mpmath.mpf(scale))
            if scale is None:
                slope = mpmath.mpf(float(y[0])) - 1 / (1 + mpmath.exp(-mpmath.mpf(t)))
            elif isinstance(loss, LogCosh):
                slope = loss.c * mpmath.tanh(u / loss.c)
            elif isinstance(loss, PseudoHuber):
                slope = u / mpmath.sqrt(1 + (u / loss.c) ** 2)
            else:
                slope = 2 * u / (1 + mpmath.sqrt(1 + 4 * (u / loss.c) ** 2))
            found.append(float(abs(computed + slope)) / plan.slope / polished.SCORE_ERROR)
    assert max(found) <= 0.25


@each(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_r37_what_is_found_is_within_the_tolerance_whatever_the_records(loss, scale):
    """Exact gradients of tilted problems, in extended precision."""
    tilt = np.array([0.02, -0.01, 0.03])
    for X, y, curator, plan, depth in rooms(loss, scale):
        theta = certified.polished_minimiser(curator, plan, depth, tilt)
        exact = exact_gradient(X, y, theta, loss, scale, plan, False) + tilt
        error = polished.gradient_error_at(plan, depth, float(np.linalg.norm(theta)))
        assert np.linalg.norm(exact.astype(float)) <= polished.ERRORS * error
        assert polished.ERRORS * error <= plan.tolerance * (1.0 + 1e-9)


def test_r38_compression_is_a_contraction_and_goes_back():
    rng = np.random.default_rng(5)
    for _ in range(2000):
        a, b = (rng.normal(size=3) * 10.0 ** rng.uniform(-2, 4) for _ in range(2))
        moved = np.linalg.norm(polished.compressed(a, 2.0) - polished.compressed(b, 2.0))
        assert moved <= np.linalg.norm(a - b) * (1 + 1e-12)
        again = polished.expanded(polished.compressed(a, 2.0), 2.0)
        assert np.allclose(again, a, rtol=1e-9)
    small = np.array([1.0, -1.0])
    assert polished.compressed(small, 2.0) is small and polished.expanded(small, 2.0) is small
    assert np.isfinite(polished.expanded(np.array([1e9, 0.0]), 1.0)).all()


@pytest.mark.parametrize(("ridge", "d"), [(1e-5, 20), (1e-2, 20), (1e-2, 400)])
def test_r38_the_farthest_point_that_is_accepted_is_within_the_distance(ridge, d):
    """Along and across, at lengths up to the edge: errors divided by the floor."""
    _, _, _, plan, depth = next(rooms(Logistic(), None, ridge, n=1000, d=d))
    unit, most = polished.knee(plan), polished.worst(plan, depth)
    found = []
    for length in np.geomspace(0.01 * unit, plan.reach, 60):
        off = polished.ERRORS * polished.gradient_error_at(plan, depth, length) / plan.floor
        here = polished.compressed(np.array([length, 0.0]), unit)
        for there in ([length, off], [length + off, 0.0], [length - off, 0.0]):
            moved = np.linalg.norm(polished.compressed(np.array(there), unit) - here)
            found.append(float(moved) / most)
    assert 0.5 < max(found) <= 1.0
    assert np.linalg.norm(polished.compressed(np.array([plan.reach]), unit)) <= polished.edge(plan)


def test_r37_the_error_has_every_part_of_its_proof():
    """In exact arithmetic: scores, their sum, and predictors in proportion to the parameter."""
    for _, _, _, plan, depth in rooms(Logistic(), None, 1e-3, n=50):
        gamma = Fraction(depth, 2**53) / (1 - Fraction(depth, 2**53))
        score = Fraction(plan.slope) * Fraction(plan.radius)
        for length in (0.0, 5.0, 10.0, 500.0):
            bend = Fraction(1, 4) * Fraction(plan.radius) ** 2 + Fraction(plan.ridge)
            least = score * (Fraction(2, 2**44) + gamma)
            least += 4 * (plan.dimension + 16) * Fraction(1, 2**53) * bend * Fraction(length)
            found = Fraction(polished.gradient_error_at(plan, depth, length))
            assert found >= min(Fraction(plan.error), least)
        return


@each(("loss", "scale"), LOSSES, ids=lambda v: repr(v))
def test_r37_the_last_digits_are_found_from_wherever_the_search_may_end(loss, scale):
    """Starts whose gradient is just within the tolerance, away from what is found."""
    tilt = np.array([0.02, -0.01, 0.03])
    for X, y, curator, plan, depth in rooms(loss, scale):
        middle = certified.polished_minimiser(curator, plan, depth, tilt)
        search = certified._Search(curator, plan, tilt)
        weakest = np.linalg.eigh(search.evaluate(middle)[1])
        step = 0.5 * plan.tolerance / weakest[0][0] * weakest[1][:, 0]
        theta = search.polish(middle + step, depth)
        exact = exact_gradient(X, y, theta, loss, scale, plan, False) + tilt
        error = polished.gradient_error_at(plan, depth, float(np.linalg.norm(theta)))
        assert np.linalg.norm(exact.astype(float)) <= polished.ERRORS * error


def forecast(n, p, ridge, epsilon=2.0):
    curator = curator_of(np.zeros((n, p)), np.zeros(n), Logistic(), None, 1.0, False, ridge)
    terms = perturbation_terms(curator, 1.0, dpfast.ApproxDP(epsilon, 1e-6))
    typical = 0.25 / p + ridge
    return math.hypot(terms.tilt_scale / typical, terms.receipt.noise_scale), terms


@pytest.mark.parametrize("p", [5, 20])
@pytest.mark.one_in(2)
def test_more_records_never_mean_more_noise(p):
    """With ridges of the order of 1/n, and with one held fixed."""
    sizes = (1_000, 60_000, 200_000, 400_000, 1_000_000)
    found = [forecast(n, p, 1.0 / n) for n in sizes]
    noise = [total for total, _ in found]
    assert all(b < a for a, b in itertools.pairwise(noise))
    assert found[-1][1].receipt.noise_scale < 0.5 * noise[-1]
    held = [forecast(n, p, 1e-3)[0] for n in sizes[1:]]
    assert all(b < a for a, b in itertools.pairwise(held))


def test_noise_is_never_finer_than_its_grid_resolves():
    """Where hardly anything is left to cover: few records, a large ridge and budget."""
    for p in (1, 20):
        terms = forecast(40, p, 10.0, 20.0)[1]
        check_grid_range(polished.edge(terms.plan), terms.receipt.noise_scale, p)


class Seen:
    """What was handed to the noise."""

    def __init__(self):
        self.values = []

    def release(self, question, release, draw):
        self.values.append(np.asarray(release.value, dtype=float))
        return draw()


def test_a_parameter_beyond_the_knee_comes_back_in_its_own_units():
    """Responses in units that make the slope a thousand: released, not cut off."""
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (4000, 1))
    seen = Seen()
    with observed(seen):
        result = objective_perturbation(
            X, 1000.0 * X[:, 0] + rng.normal(size=4000),
            dpfast.Objective("log-cosh", scale=1.0, ridge=2e-3, fit_intercept=False), radius=1.0,
            privacy=dpfast.ApproxDP(4.0, 1e-6), noise=dpfast.SeededNoise(1),
        )  # fmt: skip
    (handed,) = seen.values
    assert 10.0 < result.params[0] < 1100.0
    unit = 8.0 / release_constants(LogCosh(), 1.0).concordance
    assert handed[0] == pytest.approx(unit * (1 + math.log(result.params[0] / unit)), rel=1e-3)
