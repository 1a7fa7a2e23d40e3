"""Errors in the papers that matter for privacy, each with its counterexample: PROOFS.md, E1 to E8.

The last section holds the counterexamples behind the refused conversions (claim C24).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special

from dpfast.privacy import GDP, PureDP, SeededNoise
from dpfast.privacy.conversions import gdp_delta, gdp_mu, pure_mu
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.sensitivity import mean_rank_one
from tests.released import released_alone

phi, quantile = special.ndtr, special.ndtri


def ceiling(level, mu):
    """Largest power of a test of this level against a mu-GDP mechanism."""
    return phi(quantile(level) + mu)


# ---- E1: Lemma 1 of Avella-Medina et al. under replacement --------------------------------------


def test_e1_lemma_1_gives_sqrt2_mu():
    """Rows e1 and e2 differ by sqrt 2 in the upper triangle, where the lemma assumes 1."""
    upper = np.triu_indices(2)
    difference = (np.outer([1, 0], [1, 0]) - np.outer([0, 1], [0, 1]))[upper]
    assert np.linalg.norm(difference) == pytest.approx(math.sqrt(2))

    rng = np.random.default_rng(0)
    mu, draws = 1.0, 200_000
    noise = rng.standard_normal((draws, 2)) / mu  # the two diagonal entries, n = 1
    statistic = 1.0 + noise @ [1.0, -1.0]  # data set with e1
    cut = -1.0 + quantile(0.95) * math.sqrt(2) / mu  # level 5% against the one with e2
    power = np.mean(statistic > cut)
    assert power == pytest.approx(phi(quantile(0.05) + math.sqrt(2)), abs=0.006)  # 5 sd
    assert power > 0.40 > ceiling(0.05, mu) + 0.14  # .409 against .2595


def test_e1_the_release_used_here_keeps_its_promise_on_that_pair():
    mu, draws, source = 1.0, 40_000, SeededNoise(1)
    scale = gaussian_scale(mean_rank_one(1.0, 1, 2), mu, 3)
    first = np.diag([1.0, 0.0])
    values = np.array([released_alone(first, scale, source) for _ in range(draws)])
    statistic = values[:, 0, 0] - values[:, 1, 1]
    cut = -1.0 + quantile(0.95) * math.sqrt(2) * scale
    power = np.mean(statistic > cut)
    assert power == pytest.approx(ceiling(0.05, mu), abs=0.011)  # 5 sd


# ---- E2: e^mu where e^epsilon belongs (the same paper, appendix H.3) ----------------------------


def printed_delta(mu, epsilon):
    return phi(-epsilon / mu + mu / 2) - math.exp(mu) * phi(-epsilon / mu - mu / 2)


def test_e2_the_printed_delta_is_not_one():
    assert printed_delta(2.0, 0.5) < 0 < 0.59 < gdp_delta(2.0, 0.5) < 0.60
    # above the diagonal it overstates delta, below it understates it
    assert printed_delta(0.5, 1.0) > gdp_delta(0.5, 1.0)
    assert printed_delta(1.0, 0.5) < gdp_delta(1.0, 0.5) - 0.1
    # not monotone in mu, so an inversion can land anywhere; one did, at 3.67 instead of 0.142
    root = optimize.brentq(lambda mu: printed_delta(mu, 0.5) - 1e-5, 3.0, 4.0)
    assert root == pytest.approx(3.67, abs=0.01)
    assert gdp_mu(0.5, 1e-5) == pytest.approx(0.14221, abs=1e-5)
    assert gdp_delta(root, 0.5) > 0.9


def test_e2_one_point_of_the_curve_is_not_the_curve():
    """ "mu-GDP iff (mu, delta(mu))-DP" is false: publishing with probability delta satisfies it."""
    mu = 1.0
    delta = gdp_delta(mu, mu)
    # publish with probability delta: type I error 0 is possible with power delta > 0
    level = 1e-9
    assert delta > 100 * ceiling(level, mu)


# ---- E3: adaptive noisy gradient descent (paper 2, algorithm 3) ---------------------------------


def printed_algorithm_3(n, d, rho, rng, steps=100_000):
    """True zCDP cost of the transcript over the paper's rho, near a stationary point.

    Follows lines 2 to 7 as printed with gradient norms that have shrunk to zero, L0 = 1 and
    replacement sensitivity 2 L0/n; the meter is the paper's own.
    """
    spread = 1 / (math.sqrt(n) * rho**0.25)
    log_term = math.log(n * math.sqrt(rho) / 0.05)
    floor = 2 / (n * math.sqrt(rho))
    meter = true = 0.0
    for _ in range(steps):
        if meter > rho / 2:
            return true / rho
        norm = spread * rng.standard_normal()  # can be negative
        sigma = max(norm / math.sqrt(d * log_term), floor)
        true += (2 / n) ** 2 / (2 * spread**2) + (2 / n) ** 2 / (2 * sigma**2)
        meter += min(d * log_term / (n * norm) ** 2, rho / 2) + math.sqrt(rho) / n
    raise AssertionError("did not stop")


def test_e3_algorithm_3_spends_several_times_its_rho():
    rng = np.random.default_rng(2)
    ratios = np.array([printed_algorithm_3(100_000, 10, 0.1, rng) for _ in range(40)])
    assert np.median(ratios) > 1.5
    assert ratios.max() > 4.0


def test_e3_a_negative_norm_estimate_is_the_cause():
    """At N < 0 the noise is at its floor, which costs rho/2, and almost nothing is charged."""
    n, d, rho, norm = 100_000, 10, 0.1, -0.005
    log_term = math.log(n * math.sqrt(rho) / 0.05)
    floor = 2 / (n * math.sqrt(rho))
    sigma = max(norm / math.sqrt(d * log_term), floor)
    true = (2 / n) ** 2 / (2 * sigma**2)
    charged = d * log_term / (n * norm) ** 2
    assert sigma == floor
    assert true == pytest.approx(rho / 2)
    assert charged < 0.02 * true


# ---- E4: "3 epsilon" (paper 3, corollary 3.6) ---------------------------------------------------


def mismatched_gaussian_delta(epsilon, shift, s):
    """delta(epsilon) of N(0, 1) against N(shift, s^2), in closed form (s > 1 or s < 1)."""
    k = 2 * (epsilon - math.log(s)) + shift**2
    discriminant = shift**2 * s**2 + (1 - s**2) * k
    e = math.exp(epsilon)
    if discriminant <= 0:
        return 0.0 if s > 1 else 1 - e
    root = math.sqrt(discriminant)
    z = sorted(((shift * s + root) / (1 - s**2), (shift * s - root) / (1 - s**2)))
    inside_p = phi(shift + s * z[1]) - phi(shift + s * z[0])
    inside_q = phi(z[1]) - phi(z[0])
    return inside_p - e * inside_q if s > 1 else (1 - inside_p) - e * (1 - inside_q)


def with_laplace(profile, rate, epsilon):
    """delta(epsilon) after adding a Laplace release of this rate, by quadrature."""
    middle = integrate.quad(
        lambda loss: 0.25 * math.exp((loss - rate) / 2) * profile(epsilon - loss),
        -rate, rate, epsabs=1e-12, limit=200,
    )[0]  # fmt: skip
    return 0.5 * profile(epsilon - rate) + 0.5 * math.exp(-rate) * profile(epsilon + rate) + middle


def test_e4_mismatched_gaussian_formula_against_integration():
    for epsilon, shift, s in ((0.5, 0.2, 1.05), (1.0, 0.4, 0.9), (-0.3, 0.1, 1.2)):
        direct = integrate.quad(
            lambda x, e=epsilon, m=shift, s=s: max(
                0.0,
                math.exp(-x * x / 2) - math.exp(e - (x - m) ** 2 / (2 * s * s)) / s,
            ) / math.sqrt(2 * math.pi),
            -40, 40, limit=400, points=[-5, 0, 5],
        )[0]  # fmt: skip
        assert mismatched_gaussian_delta(epsilon, shift, s) == pytest.approx(direct, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_e4_three_epsilon_is_four(epsilon):
    delta = 1e-6
    sigma = optimize.brentq(
        lambda s: phi(-s * epsilon - 0.5 / s) + phi(-s * epsilon + 0.5 / s) - delta, 0.1, 200
    )
    ratio = math.sqrt(1 + 2 * epsilon / (1 + quantile(1 - delta / 2) ** 2))

    def total(at):
        worst = 0.0
        for s in (ratio, 1 / ratio):
            one = lambda e, s=s: mismatched_gaussian_delta(e, 1 / sigma, s)  # noqa: E731
            two = lambda e, one=one: with_laplace(one, epsilon, e)  # noqa: E731
            worst = max(worst, with_laplace(two, epsilon, at))
        return worst

    claimed = (1 + math.exp(epsilon) + math.exp(2 * epsilon)) * delta
    assert total(3 * epsilon) > 3 * claimed  # before the 2 delta of failure probability
    assert total(4 * epsilon) < claimed


# ---- E5: line 4 of DP-GIBO (paper 4) ------------------------------------------------------------


def test_e5_the_printed_stopping_rule_of_gibo_always_holds_at_b_1():
    """alpha is minus a trace, so alpha <= eps says nothing; prior trace plus alpha does."""
    d, sigma = 5, 0.05
    rng = np.random.default_rng(3)
    theta = np.zeros(d)

    def acquisition(points):
        """-Tr(dk (K + s^2 I)^-1 dk') for the squared exponential with unit length scale."""
        square = np.sum((points[:, None] - points[None]) ** 2, axis=2)
        gram = np.exp(-square / 2) + sigma**2 * np.eye(len(points))
        k = np.exp(-np.sum((points - theta) ** 2, axis=1) / 2)
        gradient = (points - theta) * k[:, None]  # d k(theta, z) / d theta
        return -np.trace(gradient.T @ np.linalg.solve(gram, gradient))

    prior_trace = d
    for _ in range(200):
        assert acquisition(rng.normal(size=(int(rng.integers(1, 8)), d))) <= 0.0
    one = optimize.minimize(lambda z: acquisition(z[None]), 0.5 * np.ones(d)).fun
    assert one <= 0.5  # the printed test is passed ...
    assert prior_trace + one == pytest.approx(4.63, abs=0.02)  # ... with almost nothing learnt


# ---- E6: sufficient-statistics perturbation (paper 1, appendix H.2) -----------------------------


def test_e6_sufficient_statistics_as_printed_cost_nine_eighths_of_mu():
    """X'X and X'y at mu/sqrt 2 each, as printed: 1.125 mu together, at mu = 1."""
    noise_matrix = math.sqrt(2)  # per entry of the upper triangle, by Lemma 1
    noise_vector = 2 * math.sqrt(2)
    upper = np.triu_indices(2)

    def squared(t):
        """Records of full norm with cosine t, symmetric about the diagonal, responses 1, -1."""
        half = math.acos(t) / 2
        a, b = (
            np.array([math.cos(math.pi / 4 + s * half), math.sin(math.pi / 4 + s * half)])
            for s in (1, -1)
        )
        matrix = np.linalg.norm((np.outer(a, a) - np.outer(b, b))[upper]) / noise_matrix
        vector = np.linalg.norm(a + b) / noise_vector
        assert matrix**2 == pytest.approx(1 - t**2)
        assert vector**2 == pytest.approx((1 + t) / 4)
        return matrix**2 + vector**2

    t = optimize.minimize_scalar(lambda t: -squared(t), bounds=(0, 1), method="bounded").x
    assert t == pytest.approx(1 / 8, abs=1e-4)
    assert math.sqrt(squared(t)) == pytest.approx(1.125, abs=1e-8)


# ---- E7: weights that do not bound the Hessian (paper 1, appendix G and section 4.4) ------------


def test_e7_weights_of_the_newton_example_leave_the_hessian_unbounded():
    for length in (1e2, 1e4, 1e8):
        x = np.array([length, 0.0])
        printed = min(1.0, 2.0 / length) * np.outer(x, x)
        correct = min(1.0, 2.0 / length**2) * np.outer(x, x)
        assert np.linalg.norm(printed) == pytest.approx(2 * length)
        assert np.linalg.norm(correct) <= 2.0 * (1 + 1e-15)
        slip = max(1.0, length**-3) * np.outer(x, x)  # "max" where "min" is meant
        assert np.linalg.norm(slip) == pytest.approx(length**2)


# ---- E8: KL-Spider's gradient queries (paper 2, algorithm 1) ------------------------------------


def test_e8_spider_gradients_alone_cost_twice_rho_under_replacement():
    n, rho, rounds, lipschitz = 1000, 0.3, 12, 1.0
    scale = lipschitz * math.sqrt(rounds) / (n * math.sqrt(rho))
    cost = rounds * (2 * lipschitz / n) ** 2 / (2 * scale**2)
    assert cost == pytest.approx(2 * rho)


# ---- C24: why two conversions are refused -------------------------------------------------------


def test_c24_zcdp_does_not_give_gdp_with_mu_sqrt_2_rho():
    """Randomised response is eps^2/2-zCDP; sqrt(2 rho) = eps, but its curve is 1.2 to 1.25 eps."""
    for epsilon in (0.1, 0.5, 1.0):
        rho = PureDP(epsilon).as_zcdp().rho
        naive = math.sqrt(2 * rho)
        # level 1/(1+e^eps): its power is e^eps/(1+e^eps), above the naive ceiling
        level = 1 / (1 + math.exp(epsilon))
        assert 1 - level > ceiling(level, naive) + 0.015 * epsilon
        assert 1 - level == pytest.approx(ceiling(level, pure_mu(epsilon)), abs=1e-9)


def test_c24_approximate_dp_gives_no_gdp_at_all():
    """Publish with probability delta: a test of level 0 has power delta, the ceiling is 0."""
    delta = 1e-6
    for mu in (1.0, 5.0, 10.0):
        level = 10.0 ** -(mu**2 + 30)
        assert delta > ceiling(level, mu)
    assert GDP(10.0).delta(0.0) > 0.999
