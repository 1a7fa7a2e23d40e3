"""Attacks on the constants of the comparison methods: claims B1 to B8 of PROOFS-rivals.md.

As in tests/privacy/test_attacks.py: a search over pairs of records must not exceed the constant
and must reach 99% of it.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

import dpfast
from bench.rivals.literature.minimiser import minimiser_search, ridge_minimiser
from bench.rivals.literature.sensitivity import (
    descent_steps,
    ridge_minimiser as minimiser_sensitivity,
    sampled_mean,
    statistics_mu,
    symmetric_noise_bound,
)
from bench.rivals.literature.sums import sufficient_statistics
from dpfast.curator import Curator
from dpfast.data import Records
from dpfast.models import Bounded, Huber, Logistic, Mallows, Objective, PseudoHuber
from tests.loops import each
from tests.privacy.test_attacks import search
from tests.watching import watched

TIGHT = 0.99
ROUNDING = 1 + 1e-9


def exact_releases(ask, records, objective):
    """The exact values behind the releases of ``ask(curator)`` and what they cost."""
    curator = Curator(records, objective, dpfast.Ledger(1e3), dpfast.SeededNoise(0))
    seen = watched(lambda: ask(curator))
    return seen, float(curator.ledger.spent.mu)


# ---- B1: the two sufficient statistics -----------------------------------------------------------


def decode(z, p):
    """Direction and length in the unit ball, response in [-1, 1]."""
    direction = 2 * z[:p] - 1
    length = np.maximum(np.sqrt(np.sum(direction**2, axis=0)), 1e-12)
    return direction / length * z[p], 2 * z[p + 1] - 1


def pair_of_statistics(p):
    def differences(z):
        (x1, y1), (x2, y2) = decode(z[: p + 2], p), decode(z[p + 2 :], p)
        outer = x1[:, None] * x1[None, :] - x2[:, None] * x2[None, :]
        return outer, y1 * x1 - y2 * x2

    return differences


def starts(p):
    e, f = np.full(p, 0.5), np.full(p, 0.5)
    e[0] = 1.0
    f[-1] = 1.0
    middle = np.full(p, 0.5)
    middle[0], middle[-1] = 0.5 + 0.5 / 8, 0.5 + 0.5 * math.sqrt(1 - 1 / 64)
    pairs = [(e, e, 0), (e, f, 0), (e, f, 1), (e, middle, 0)]
    return [[*a, 1, 1, *b, 1, sign] for a, b, sign in pairs]


@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("ratio", [0.25, 1.0, 2.0, 4.0, 10.0])
@pytest.mark.values
def test_b1_joint_cost_of_sufficient_statistics(p, ratio):
    a, b = 1.0, ratio
    differences = pair_of_statistics(p)

    def squared(z):
        outer, moment = differences(z)
        return a / 2 * np.sum(outer**2, axis=(0, 1)) + b / 4 * np.sum(moment**2, axis=0)

    found = math.sqrt(search(squared, 2 * p + 4, starts(p), generations=150))
    bound = statistics_mu(1.0, math.sqrt(ratio))
    assert TIGHT * bound <= found <= bound * ROUNDING
    assert bound <= math.sqrt(a + b)


def test_b1_one_coefficient_is_covered():
    """p = 1: the two rows are collinear, so the bound is not attained; it still holds."""
    z = np.random.default_rng(0).random((6, 200_000))
    outer, moment = pair_of_statistics(1)(z)
    found = np.max(np.sum(outer**2, axis=(0, 1)) / 2 + np.sum(moment**2, axis=0) / 4)
    assert found <= statistics_mu(1.0, 1.0) ** 2


def test_b1_even_split_costs_less_than_composition():
    assert statistics_mu(math.sqrt(0.5), math.sqrt(0.5)) == pytest.approx(math.sqrt(0.78125))
    assert statistics_mu(1.0, 2.0) == pytest.approx(2.0)
    assert statistics_mu(1e-3, 2.0) == pytest.approx(2.0)
    assert statistics_mu(2.0, 1e-6) == pytest.approx(2.0)


@each("bad", [0.0, -1.0, math.nan, math.inf])
def test_constants_refuse_what_is_none(bad):
    for call in (
        lambda: statistics_mu(bad, 1.0),
        lambda: statistics_mu(1.0, bad),
        lambda: symmetric_noise_bound(bad, 2, 0.1),
        lambda: minimiser_sensitivity(bad, 1.0, 10, tolerance=1e-9),
        lambda: minimiser_sensitivity(1.0, bad, 10, tolerance=1e-9),
        lambda: descent_steps(1.0, bad, 1.0, 0.1),
        lambda: sampled_mean(bad, 1.0, 10),
    ):
        with pytest.raises(ValueError, match="positive, finite"):
            call()
    with pytest.raises(ValueError, match="failure"):
        symmetric_noise_bound(1.0, 2, 1.0)


EXTREME_ROWS = [
    [2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.25, math.sqrt(4 - 1 / 16)], [0.0, 0.0],
    [1e200, 0.0], [0.0, -1e308], [1e308, 1e308], [5e-324, 0.0], [math.nan, 1.0], [math.inf, 0.0],
]  # fmt: skip
EXTREME_RESPONSES = [3.0, -3.0, 0.0, 1e200, -1e308, 3.0000001, math.nan, math.inf]


@each("fit_intercept", [False, True])
@each("ratio", [0.5, 2.0, 4.0])
def test_b1_through_the_compiled_kernels(fit_intercept, ratio):
    """Every pair of extreme records: what is charged covers what the curator really released.

    A curator that let a clipped response hide its row from X'X would cost b + a/2 here.
    """
    objective = Objective(Huber(c=3.0), Bounded(2.0), 2, fit_intercept=fit_intercept, scale=1.0)
    common_row, common_y = [0.3, -0.4], 0.7
    values = []
    for row in EXTREME_ROWS:
        for response in EXTREME_RESPONSES:
            records = Records(np.array([common_row, row]), np.array([common_y, response]), None)
            seen, charged = exact_releases(
                lambda keeper: sufficient_statistics(keeper, 1.0, math.sqrt(ratio)),
                records,
                objective,
            )
            parts = [release.value / release.noise_scale for release in seen]
            values.append(np.concatenate([part.ravel() for part in parts]))
    values = np.array(values)
    distances = np.sqrt(((values[:, None, :] - values[None, :, :]) ** 2).sum(axis=2))
    assert distances.max() <= charged
    if not fit_intercept:  # an intercept ties the directions of two rows to each other
        assert distances.max() >= TIGHT * charged


# ---- errata: the printed calibration -------------------------------------------------------------


def printed_distance(z, p):
    """Appendix H.2, mu = 1: iid upper triangle of scale sqrt(2) x^2, X'y of scale sqrt(8) x y."""
    outer, moment = pair_of_statistics(p)(z)
    upper = np.triu_indices(p)
    return np.sum(outer[upper] ** 2, axis=0) / 2 + np.sum(moment**2, axis=0) / 8


@pytest.mark.parametrize("p", [2, 4])
def test_erratum_the_printed_ssp_is_under_noised(p):
    """Claimed mu, worst case 1.125 mu: why it is not offered."""
    found = math.sqrt(
        search(lambda z: printed_distance(z, p), 2 * p + 4, starts(p), generations=150)
    )
    assert found == pytest.approx(1.125, rel=2e-3)
    assert found <= 1.125 * ROUNDING


def test_erratum_also_in_the_papers_own_design():
    """Rows (1, z) of norm at most 2 and |y| at most 1: 1.03 mu."""

    def squared(z):
        parts = []
        for part in (z[:5], z[5:]):
            direction = 2 * part[:3] - 1
            length = np.maximum(np.sqrt(np.sum(direction**2, axis=0)), 1e-12)
            row = np.concatenate([np.ones((1, z.shape[1])), direction / length * 3**0.5 * part[3]])
            parts.append((row, 2 * part[4] - 1))
        (x1, y1), (x2, y2) = parts
        outer = x1[:, None] * x1[None, :] - x2[:, None] * x2[None, :]
        upper = np.triu_indices(4)
        moment = y1 * x1 - y2 * x2
        return np.sum(outer[upper] ** 2, axis=0) / 32 + np.sum(moment**2, axis=0) / 32

    found = math.sqrt(search(squared, 10, [], generations=400))
    assert 1.02 <= found <= 1.05


# ---- B3: level of the symmetric noise ------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 3, 12])
def test_b3_noise_level_is_rarely_exceeded(p):
    """6,000 draws; the allowed rate is 5%.  Binomial: false-failure below 1e-6 at 6.5%."""
    rng = np.random.default_rng(p)
    A = rng.normal(size=(6000, p, p))
    W = (A + A.transpose(0, 2, 1)) / 2  # diagonal 1, off-diagonal variance 1/2
    largest = np.linalg.eigvalsh(W)[:, -1]
    assert np.mean(largest > symmetric_noise_bound(1.0, p, 0.05)) <= 0.065
    # not vacuous: within twice what is typical
    assert symmetric_noise_bound(1.0, p, 0.5) <= 2.0 * np.quantile(largest, 0.9) + 0.2


# ---- B4 and B5: the minimiser --------------------------------------------------------------------


def minimiser(objective, X, y):
    records = Records(np.array(X, dtype=float), np.array(y, dtype=float), None)
    (release,), _ = exact_releases(lambda keeper: ridge_minimiser(keeper, 1.0), records, objective)
    return release


@pytest.mark.parametrize("weighting", [Mallows(1.5), Bounded(1.5)], ids=repr)
@pytest.mark.parametrize("loss", [Huber(), PseudoHuber(), Logistic()], ids=repr)
@pytest.mark.values
def test_b4_minimiser(loss, weighting):
    """Random and extreme pairs beside one common record, through the curator's own search."""
    scale = 1.0 if loss.needs_scale else None
    ridge = 1e4 if loss.binary_response else 0.3
    objective = Objective(loss, weighting, 2, fit_intercept=False, scale=scale, ridge=ridge)
    rng = np.random.default_rng(0)
    worst = 0.0
    for trial in range(150):
        if trial == 0:  # saturated and opposite, next to a record without influence
            rows, y, y_new = [[0.0, 0.0], [1.5, 0.0]], [0.0, 1e9], 1e-9
            if not loss.binary_response:
                y_new = -1e9
            else:
                y, y_new = [0.0, 1.0], 0.0
            new = [1.5, 0.0]
        else:
            rows = rng.normal(size=(2, 2)) * 10 ** rng.uniform(-2, 3, (2, 1))
            new = rng.normal(size=2) * 10 ** rng.uniform(-2, 3)
            y, y_new = rng.normal(size=2) * 100, rng.normal() * 100
            if loss.binary_response:
                y, y_new = (y > 0) * 1.0, float(y_new > 0)
        one = minimiser(objective, rows, y)
        other = minimiser(objective, [rows[0], new], [y[0], y_new])
        worst = max(worst, float(np.linalg.norm(one.value - other.value)) / one.l2_sensitivity)
    assert worst <= 1.0
    # Logistic: the score at theta = 0 is half the bound, and a ridge small enough for theta to
    # saturate it lets the two labels' own curvature resist; two records of one sign reach half.
    assert worst >= (0.49 if loss.binary_response else TIGHT)


def test_b4_clipped_scores_have_no_minimiser():
    objective = Objective(Huber(), dpfast.models.Clip(1.0), 2, scale=1.0, ridge=1.0)
    with pytest.raises(dpfast.InvalidInput, match="not the gradient of a loss"):
        minimiser(objective, np.zeros((3, 2)), np.zeros(3))


@each("loss", [Huber(), PseudoHuber(), Logistic()], ids=repr)
@each("weighting", [Mallows(1.5), Bounded(1.5)], ids=repr)
def test_b5_computed_gradients_are_close_to_the_exact_ones(loss, weighting):
    """Against 60-digit arithmetic on the rows the kernel sees, extreme ones included."""
    mpmath = pytest.importorskip("mpmath")
    ridge, c, p = 1e-3, loss.c, 3
    scale = 0.7 if loss.needs_scale else None
    objective = Objective(loss, weighting, p, fit_intercept=False, scale=scale, ridge=ridge)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, p)) * 10.0 ** rng.uniform(-3, 12, (60, 1))
    X[0] = [1e200, -1e200, 1e199]
    X[1] = [1e-200, 1e-300, 0.0]
    t = rng.normal(size=60)
    y = (t > 0) * 1.0 if loss.binary_response else t * 10.0 ** rng.uniform(-3, 12, 60)
    curator = Curator(Records(X, y, None), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    plan = minimiser_search(curator)
    theta = rng.normal(size=p)
    theta *= plan.reach / np.linalg.norm(theta)
    with mpmath.workdps(60):
        mp = mpmath.mpf
        total = [mp(0)] * p
        for row, response in zip(X, y, strict=True):
            x = [mp(float(v)) for v in row]
            norm2 = sum(v * v for v in x)
            weight, R2 = mp(1), mp(weighting.radius) ** 2
            if isinstance(weighting, Bounded):
                shrink = min(mp(1), mpmath.sqrt(R2 / norm2))
                x = [v * shrink for v in x]
            else:
                weight = min(mp(1), R2 / norm2)
            dot = sum(v * mp(float(b)) for v, b in zip(x, theta, strict=True))
            if loss.binary_response:
                psi = mp(float(response)) - 1 / (1 + mpmath.exp(-dot))
            else:
                r = (mp(float(response)) - dot) / mp(scale)
                psi = (
                    max(-mp(c), min(mp(c), r))
                    if isinstance(loss, Huber)
                    else r / mpmath.sqrt(1 + (r / mp(c)) ** 2)
                )
            total = [s - psi * weight * v / len(y) for s, v in zip(total, x, strict=True)]
        exact = [s + mp(ridge) * mp(float(b)) for s, b in zip(total, theta, strict=True)]
        gradient, _, _ = curator.nonprivate_sums(theta)
        computed = gradient + ridge * theta
        error = max(abs(mp(float(g)) - e) for g, e in zip(computed, exact, strict=True))
    assert float(error) * p**0.5 <= plan.error


def test_b5_cancellation_in_the_predictor():
    """Long parameters that nearly cancel in x'theta: the term of the bound that grows with them.

    One record, Huber's loss inside its corner, exact rational arithmetic.
    """
    objective = Objective(Huber(), Bounded(1.5), 2, fit_intercept=False, scale=1.0, ridge=1e-5)
    rng = np.random.default_rng(0)
    worst, plan = 0.0, None
    for _ in range(400):
        x = rng.uniform(0.5, 1.0, 2)
        records = Records(x[None, :], np.array([0.25]), None)
        keeper = Curator(records, objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
        plan = minimiser_search(keeper)
        first = 0.5 * plan.reach * rng.uniform(0.5, 1.0)
        theta = np.array([first, -x[0] * first / x[1] * (1 + 1e-7 * rng.normal())])
        residual = Fraction(0.25) - sum(
            Fraction(float(v)) * Fraction(float(b)) for v, b in zip(x, theta, strict=True)
        )
        if abs(residual) > 1:
            continue
        gradient, _, _ = keeper.nonprivate_sums(theta)
        error = [float(Fraction(float(g)) + residual * Fraction(float(v)))
                 for g, v in zip(gradient, x, strict=True)]  # fmt: skip
        worst = max(worst, math.hypot(*error))
    assert worst <= plan.error
    assert worst > 3e-12 * objective.score_bound  # what the bound would be without that term


def quadratic_descent(smoothness, ridge, distance, steps):
    """Worst case of gradient descent with step 2/(L + m): both extreme curvatures."""
    eta = 2.0 / (smoothness + ridge)
    return max(abs(1 - eta * lam) for lam in (ridge, smoothness)) ** steps * distance


@pytest.mark.parametrize("condition", [1.5, 30.0, 1e4])
def test_b5_number_of_gradient_steps(condition):
    steps = descent_steps(condition, 1.0, 5.0, 1e-3)
    assert quadratic_descent(condition, 1.0, 5.0, steps) <= 1e-3
    # the bound 2 atanh(m/L) >= 2 m/L is loose only for well-conditioned problems
    slack = 0.5 if condition < 2 else 0.98
    assert quadratic_descent(condition, 1.0, 5.0, int(slack * steps)) > 1e-3


@pytest.mark.parametrize("fast_steps", [0, 3])
def test_b5_the_search_ends_within_its_tolerance_without_newton(monkeypatch, fast_steps):
    """The guaranteed phase alone, and without ever looking at the certificate."""
    from bench.rivals.literature import minimiser as module

    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40) * 5
    objective = Objective(Huber(), Mallows(2.0), 2, scale=1.0, ridge=0.2)
    reference = minimiser(objective, X, y).value
    monkeypatch.setattr(module, "FAST_STEPS", fast_steps)
    curator = Curator(Records(X, y, None), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    plan = minimiser_search(curator)
    assert np.linalg.norm(minimiser(objective, X, y).value - reference) <= 2 * plan.tolerance

    def gradient_at(theta, want):
        gradient, _, _ = curator._sums(theta, want)
        return gradient + 0.2 * theta, None, math.inf

    start = np.full(3, plan.reach / 3**0.5)
    end = module._descend(gradient_at, start, 0.0, plan, 0.2)
    assert np.linalg.norm(end - reference) <= 2 * plan.tolerance


# ---- B6: one Poisson-sampled Gaussian step under replacement -------------------------------------


def hockey_stick_of_the_pair(gamma, q, s):
    """Exact divergence of (1-q) N(0,1) + q N(s,1) from (1-q) N(0,1) + q N(-s,1)."""
    # (1-q)(1-gamma) + q e^{-s^2/2} (e^{sx} - gamma e^{-sx}) > 0 is a quadratic in e^{sx}
    k = (1 - q) * (1 - gamma) / (q * math.exp(-s * s / 2))
    root = (-k + math.sqrt(k * k + 4 * gamma)) / 2
    x = math.log(root) / s
    above = 1 - ndtr(x), 1 - ndtr(x - s), 1 - ndtr(x + s)
    return float((1 - q) * (1 - gamma) * above[0] + q * above[1] - gamma * q * above[2])


GRID = np.linspace(-9, 9, 361)
WEIGHT = np.exp(-(GRID**2) / 2) / math.sqrt(2 * math.pi) * (GRID[1] - GRID[0])


def hockey_stick(gamma, q, u, v):
    """The same for any two contributions u and v in the plane, on a grid."""
    x, y = GRID[:, None], GRID[None, :]

    def ratio(w):
        return np.exp(w[0] * x + w[1] * y - (w[0] ** 2 + w[1] ** 2) / 2)

    excess = (1 - q) * (1 - gamma) + q * ratio(u) - gamma * q * ratio(v)
    return float(WEIGHT @ np.maximum(excess, 0) @ WEIGHT)


@pytest.mark.parametrize("s", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("q", [0.02, 0.3, 1.0])
@pytest.mark.values
def test_b6_opposite_contributions_are_the_worst(q, s):
    rng = np.random.default_rng(0)
    for gamma in (0.5, 1.0, 1.2, 3.0, 20.0):
        bound = hockey_stick_of_the_pair(gamma, q, s)
        attained = hockey_stick(gamma, q, (s, 0.0), (-s, 0.0))
        # the grid of the kinked integrand is good to a few 1e-4 of its size
        assert attained == pytest.approx(bound, rel=2e-3, abs=1e-7)
        for _ in range(20):
            angle, length = rng.uniform(0, 2 * math.pi), s * rng.random(2) ** 0.25
            u = (length[0], 0.0)
            v = (length[1] * math.cos(angle), length[1] * math.sin(angle))
            assert hockey_stick(gamma, q, u, v) <= bound * (1 + 2e-3) + 1e-7


def test_b6_add_or_remove_would_understate_the_loss():
    """The same noise under addition or removal promises a smaller delta than it gives."""
    gamma, q, s = math.exp(0.1), 0.1, 1.0
    removal = hockey_stick(gamma, q, (s, 0.0), (0.0, 0.0))
    assert hockey_stick_of_the_pair(gamma, q, s) > 1.2 * removal


def test_b6_a_smaller_sampling_rate_is_never_worse():
    """Why rounding the rate down is safe."""
    for gamma in (0.3, 1.0, 4.0):
        values = [hockey_stick_of_the_pair(gamma, q, 1.0) for q in np.linspace(0.01, 1, 60)]
        assert np.all(np.diff(values) >= -1e-15)


def test_b8_one_record_moves_the_sampled_sum_by_its_bound():
    assert sampled_mean(2.0, 50.0, 1000) == pytest.approx(2.0 / 50.0, rel=1e-9)
    assert sampled_mean(2.0, 50.0, 1000) >= 2.0 / 50.0
    more = sampled_mean(2.0, 50.0, 10**6, depth=1000)
    assert more >= 2.0 / 50.0 * (1 + 2 * 1000 * 2.0**-53 * 10**6)
