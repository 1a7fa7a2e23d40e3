"""Searches stop for what they know, not for what they computed; constants are rounded upwards.

A search may stop where the *computed* gradient and its error together are below the tolerance: a
kernel that errs as much as it may, in the worst direction, must not end it earlier.  And every
constant is compared with its formula in exact arithmetic, each of its terms large in some case, so
that a term left out or a tolerance above rounding is seen.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import dpfast
from dpfast import GDP, ApproxDP, Ledger, PureDP, SeededNoise
from dpfast.curator import Curator
from dpfast.curator.release import certified, smooth
from dpfast.curator.release.perturbation import perturbation_terms
from dpfast.data import as_records
from dpfast.fit_requests.request import Account
from dpfast.models import Bounded, LogCosh, Objective
from dpfast.privacy.blackbox.sensitivity import mean_loss
from dpfast.privacy.conversions import zcdp_epsilon
from dpfast.privacy.nonconvex import sensitivity as nonconvex
from dpfast.privacy.release.certified_minimiser import gradient_error, worst
from dpfast.privacy.release.scaled import grid_delta, normal_error
from dpfast.privacy.release.sensitivity import parameter_shift
from dpfast.privacy.rounding import UNIT_ROUNDOFF
from dpfast.privacy.sensitivity import RECORD_ERROR, centred_share
from dpfast.privacy.tradeoff import attack_advantage, attack_power
from tests.loops import each

RNG = np.random.default_rng(2)
N = 60
X = RNG.uniform(-1.0, 1.0, size=(N, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
U, R = Fraction(UNIT_ROUNDOFF), Fraction(RECORD_ERROR)


def room(ridge: float = 0.2) -> Curator:
    objective = Objective(
        LogCosh(), Bounded(1.5), 2, fit_intercept=False, scale=0.8, ridge=ridge
    )  # fmt: skip
    return Curator(as_records(X, Y), objective, Ledger(1.0), SeededNoise(0))


# ---- searches ------------------------------------------------------------------------------------


def short_of(gradient: Any, error: float) -> Any:
    """A gradient that is computed too short, by as much as it may be."""
    length = float(np.linalg.norm(gradient))
    return gradient * max(0.0, 1.0 - error / length) if length > 0.0 else gradient


@pytest.mark.parametrize("kind", ["self-concordant", "smooth"])
def test_a_certified_search_pays_for_its_error(monkeypatch, kind):
    keeper = room()
    module: Any = certified if kind == "self-concordant" else smooth
    plan: Any = (certified.certified_plan if module is certified else smooth.smooth_plan)(
        keeper, 1.5
    )
    original = certified.PenalisedObjective.evaluate
    first = original(module._Search(keeper, plan), np.zeros(2))[2]
    plan = plan._replace(tolerance=0.5 * first, error=0.1 * first)

    def hiding(self: Any, theta: Any, *want: Any) -> Any:
        gradient, curvature, _ = original(self, theta, *want)
        gradient = short_of(gradient, plan.error)
        return gradient, curvature, float(np.linalg.norm(gradient))

    def timid(self: Any, curvature: Any, gradient: Any, *ridge: Any) -> Any:
        return 0.01 * np.linalg.solve(curvature, gradient)

    monkeypatch.setattr(certified, "FAST_STEPS", 2000)
    monkeypatch.setattr(module._Search, "evaluate", hiding)
    monkeypatch.setattr(module._Search, "direction", timid)
    monkeypatch.setattr(module._Search, "accepts", lambda *_: True, raising=False)
    search = module._Search(keeper, plan)
    start = np.zeros(2)
    theta = search.run(start, 2000)[0] if module is smooth else search.fast(start, 2000)[0]
    left = original(module._Search(keeper, plan), theta)[2]
    assert 0.8 * plan.tolerance < left <= plan.tolerance


def test_a_step_is_accepted_only_beyond_what_errors_can_feign():
    """Descent is proved by the computed product less twice the error times the distance."""
    plan = smooth.smooth_plan(room(), 1.5)._replace(error=0.1, tolerance=0.2)
    search = smooth._Search(room(), plan)
    gradient, ridge = np.array([1.0, 0.0]), 2.0
    needed = 0.25 / (1.0 - 2.0 * plan.error)  # back with g'back = |g|^2/(2 ridge) + 2 error |back|
    for length, accepted in [(needed * 1.001, True), (needed * 0.999, False)]:
        back = np.array([length, 0.0])
        assert search.accepts(back, (gradient, np.eye(2), 1.0), ridge) is accepted
    within = np.array([0.05, 0.0])
    assert search.accepts(-within, (within, np.eye(2), 0.05), ridge)


def test_a_search_says_when_it_has_not_arrived(monkeypatch):
    keeper = room()
    search = certified._Search(keeper, certified.certified_plan(keeper, 1.5))
    assert not search.fast(np.zeros(2), 0)[2]
    assert not search.fast(np.zeros(2), 1)[2]
    assert search.fast(np.zeros(2), 40)[2]
    monkeypatch.setattr(certified, "EAGER_STEPS", 1)
    assert not search.eager()[2]


def test_the_path_starts_where_the_tilt_allows_it():
    """R21: the first ridge outweighs scores and tilt together."""
    keeper = room()
    plan = certified.certified_plan(keeper, 1.5)
    tilt = np.array([30.0, -40.0])
    found = Fraction(certified._Search(keeper, plan, tilt).largest_ridge())
    assert found >= 8 * Fraction(plan.c) * Fraction(1.5) * (
        Fraction(plan.slope) * Fraction(1.5) + 50
    )


# ---- constants in exact arithmetic ---------------------------------------------------------------


def gamma(depth: int) -> Fraction:
    return depth * U / (1 - depth * U)


def exactly(*values: float) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, values))


def root_below(squared: Fraction) -> Fraction:
    """A number just below the square root."""
    scaled = squared.numerator * squared.denominator << 400
    return Fraction(math.isqrt(scaled), squared.denominator << 200)


def constants() -> Any:
    """Name, what the library says, and the exact formula."""
    for b, s, r, d, k in [
        (1.0, 1e-9, 1e-9, 2, 9),
        (1e-9, 3.0, 2.0, 50, 2),
        (1e-3, 1e-9, 1.0, 2, 0),
    ]:
        B, S, P = exactly(b, s, r)
        exact = B * (2 * R + gamma(k)) + 4 * (d + 16) * U * S * P
        yield "gradient error", gradient_error(b, s, r, d, k), exact
    for c, s, size, d in [(2.0, 1e-9, 1e6, 3), (1e-9, 5.0, 1e-9, 1)]:
        C, S, Z = exactly(c, s, size)
        exact = (d + 8) * U * Z * C + Fraction(1e-12) * S
        yield "change of a gradient", nonconvex.change_error(c, s, size, d), exact
    for d in (1, 10**6):
        mean = Fraction(nonconvex.mean_gradient(1.3, 1000, depth=5))
        exact = mean + 2 * Fraction(1.3) * (d + 4) * U
        yield "norm", nonconvex.gradient_norm(1.3, 1000, d, depth=5), exact
    for rate, steps in [((3, 7), 11), ((1, 3), 1), ((12345, 1 << 20), 4097)]:
        yield "choice", nonconvex.exponential_cost(rate, steps), (steps * Fraction(*rate)) ** 2 / 2
    for n in (1, 3, 10**9):
        yield "share", centred_share(n), Fraction(1, n) + 8 * U
    for low, high in [(0.1, 0.3), (-1e9, 1e9 + 1.0), (0.0, 1.0 / 3.0)]:
        yield (
            "mean loss",
            mean_loss(low, high, 7),
            (Fraction(high) - Fraction(low)) / 7 * (1 + 3 * R),
        )
    for epsilon, count in [(0.1, 1), (3.0, 5)]:
        with mpmath.workdps(40):
            exact = count * (1 + Fraction(str(mpmath.exp(epsilon)))) / 2**40
        yield "bits of scaled noise", grid_delta(epsilon, count), exact


@each(("name", "found", "exact"), list(constants()))
def test_constants_are_their_formulas_rounded_up(name, found, exact):
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**5)), name


def test_what_a_certified_minimiser_allows_for():
    """R20 and R21: solver, rounding of the Hessian, and the distance, of data and neighbours."""
    for ridge in (0.0, 0.2):
        plan = certified.certified_plan(room(ridge), 1.5)
        slack = Fraction(plan.c) * Fraction(plan.radius) * Fraction(plan.tolerance)
        hessian = Fraction(plan.hessian_error)
        near = 1 - Fraction(1, 10**12)  # of sums in floating point
        assert plan.tolerance >= 4.0 * plan.error
        assert Fraction(plan.eta) >= (Fraction(11, 10) * slack + hessian) * near
        assert Fraction(plan.solver_error) * Fraction(plan.step) >= (
            Fraction(8, 5) * (slack + hessian) * near
        )
        for l0 in (plan.floor * 1.5, 2.0 * plan.step, 10.0 * plan.step):
            least = max(Fraction(l0) - Fraction(plan.step), Fraction(plan.floor))
            assert (
                Fraction(plan.distance(l0))
                >= Fraction(6, 5) * Fraction(plan.tolerance) / least * near
            )
            moved = parameter_shift(l0, ridge, plan.c, plan.slope, plan.radius, plan.n)
            if moved < math.inf:
                assert Fraction(plan.shift(l0)) >= Fraction(moved) + 2 * Fraction(plan.distance(l0))


def test_the_noise_on_a_tilted_minimiser_covers_search_and_tilt():
    """R23: what the search leaves, and that the tilt itself is drawn to finitely many bits."""
    terms = perturbation_terms(room(), 1.5, ApproxDP(1.0, 1e-6))
    digits = Fraction(normal_error(terms.tilt_scale, 2)) / Fraction(terms.plan.floor)
    assert Fraction(terms.distance) >= Fraction(worst(terms.plan, terms.depth)) + digits
    assert terms.receipt.noise_scale > 2.0 * terms.distance


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_the_shift_of_a_parameter_reaches_its_root(ridge):
    """R4 in 60 digits: the pull at the number returned is at least the push."""
    for l0 in (0.01, 0.5, 3.0):
        found = parameter_shift(l0, ridge, 1.3, 0.7, 1.5, 4000)
        with mpmath.workdps(60):
            rate, t = mpmath.mpf(1.3) * 1.5, mpmath.mpf(found)
            pull = (mpmath.mpf(l0) - ridge) * -mpmath.expm1(-rate * t) / rate + ridge * t
            push = 2 * mpmath.mpf(0.7) * 1.5 / 4000
            assert push <= pull <= push * (1 + mpmath.mpf(10) ** -9)


@each("m", [2, 3, 7, 10_000])
def test_the_rows_of_a_person_cost_at_most_the_total(m):
    for mu in (0.1, 1.0, math.pi):
        unit = Account(mu).open_ledger(m).total.mu
        assert Fraction(mu) * (1 - Fraction(1, 10**12)) <= m * Fraction(unit) <= Fraction(mu)


@each("epsilon", [1e-3, 0.7, 3.0, 12.0])
@each("delta", [1e-12, 1e-6, 0.01])
def test_zcdp_of_a_pair_keeps_the_pair(epsilon, delta):
    rho = dpfast.ZCDP.within(ApproxDP(epsilon, delta)).rho
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(rho * (1.0 + 1e-9), delta) > epsilon


def test_no_attack_is_reported_weaker_than_it_is():
    """C45 against 40 digits, over guarantees and false-positive rates."""
    with mpmath.workdps(40):
        for mu in (0.1, 1.0, 3.0):
            for rate in (1e-4, 0.05, 0.5, 0.9):
                inverse = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1)
                exact = mpmath.ncdf(inverse + mpmath.mpf(mu))
                found = mpmath.mpf(attack_power(GDP(mu), rate))
                assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -9)
            exact = 2 * mpmath.ncdf(mpmath.mpf(mu) / 2) - 1
            assert exact <= attack_advantage(GDP(mu)) <= exact * (1 + mpmath.mpf(10) ** -9)
        for epsilon, delta in ((0.5, 1e-6), (2.0, 0.01)):
            e, d = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
            budget = ApproxDP(epsilon, delta)
            for rate in (1e-4, 0.05, 0.5, 0.9):
                exact = min(e * rate + d, 1 - (1 - d - mpmath.mpf(rate)) / e)
                found = mpmath.mpf(attack_power(budget, rate))
                assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -9)
            exact = (e - 1 + 2 * d) / (e + 1)
            assert exact <= attack_advantage(budget) <= exact * (1 + mpmath.mpf(10) ** -9)


@each(("budget", "short"), [
    (GDP(0.1), GDP(math.nextafter(0.1, 0.0))),
    (dpfast.ZCDP(0.1), dpfast.ZCDP(math.nextafter(0.1, 0.0))),
    (PureDP(0.1), PureDP(math.nextafter(0.1, 0.0))),
    (ApproxDP(0.1, 1e-9), ApproxDP(math.nextafter(0.1, 0.0), 1e-9)),
    (ApproxDP(0.1, 1e-9), ApproxDP(0.1, math.nextafter(1e-9, 0.0))),
])  # fmt: skip
def test_one_unit_in_the_last_place_above_the_total_is_refused(budget, short):
    with pytest.raises(dpfast.BudgetExceeded):
        Ledger(short).charge(budget, "too much")
    ledger = Ledger(budget)
    ledger.charge(budget, "all of it")
    least = type(budget)(*(5e-324 for _ in budget.values()))
    with pytest.raises(dpfast.BudgetExceeded):
        ledger.charge(least, "one quantum")
