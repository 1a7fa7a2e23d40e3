"""Numbers of budgets are decimals, and pairs pay in GDP: claims C86 and C87 of PROOFS.md."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import dpfast
from dpfast.errors import (
    BudgetExceeded,
    BudgetWarning,
    InvalidBudget,
    InvalidInput,
)
from dpfast.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.privacy.conversions import gdp_delta, gdp_mu
from dpfast.privacy.decimals import root_to_float, written as ratio_of
from dpfast.privacy.mechanisms import GRID_COST, gaussian_scale, laplace_rate
from dpfast.privacy.nonconvex.sensitivity import exponential_cost
from dpfast.privacy.release import calibration
from dpfast.release.request import approximate

U = Fraction(1, 2**53)


def written(x):
    """What a number of a budget stands for."""
    return Fraction(repr(float(x)))


def numbers(seed, low, high, count=400):
    """Short decimals, which doubles miss on either side, and long ones."""
    rng = np.random.default_rng(seed)
    short = [round(x, 2 + k % 3) for k, x in enumerate(rng.uniform(0.05, 3.0, count).tolist())]
    return short + (10.0 ** rng.uniform(low, high, count)).tolist()


# ---- C86 ----------------------------------------------------------------------------------------


def test_a_mechanism_costs_less_than_the_decimal_of_its_charge():
    """By six units of roundoff, which is what the claim takes."""
    below = 0
    for x in numbers(0, -5.0, 3.0):
        below += written(x) < Fraction(x)
        least = (1 - 6 * U) * Fraction(x)
        assert least <= written(x)
        for sensitivity in (1.0, 1 / 3, 2e-7):
            cost = Fraction(sensitivity) / Fraction(gaussian_scale(sensitivity, x, 3))
            assert cost + Fraction(GRID_COST) <= least
        for steps in (1, 3, 1024):
            rate = Fraction(*laplace_rate(steps, x))
            assert rate * steps <= least
            cost = (steps * rate) ** 2 / 2
            if cost < 100:
                rho = exponential_cost(laplace_rate(steps, x), steps)
                assert cost <= (1 - 6 * U) * Fraction(rho)
    assert 200 < below < 600  # doubles lie on either side of their decimals


def test_the_grid_is_paid_in_full_down_to_the_least_budget():
    """The margin of the noise is none of the grid's, which ``GRID_COST`` itself has to cover."""
    root = math.isqrt(3 << 400) + 1
    grid = Fraction(root, 1 << 220) * (1 + 2 * U)  # the largest cost of three on one grid (C16)
    assert Fraction(GRID_COST) * (1 - Fraction(1, 2**41)) >= grid
    rng = np.random.default_rng(2)
    beyond = [math.nextafter(1.0, 2.0), *(1.0 + 10.0 ** rng.uniform(-15.0, 8.0, 300)).tolist()]
    for mu in (math.nextafter(GRID_COST * factor, math.inf) for factor in beyond):
        noise = Fraction(1 / 3) / Fraction(gaussian_scale(1 / 3, mu, 3))
        assert noise + grid <= (1 - 28 * U) * Fraction(mu)


def test_searches_for_noise_ask_for_a_little_less_than_the_pair(monkeypatch):
    """What costs just the pair, as doubles, is not enough."""
    asked = []

    def just_enough(epsilon, *_):
        asked.append(epsilon)
        return 1e-6

    monkeypatch.setattr(calibration, "objective_perturbation_delta", just_enough)
    tilt = calibration.objective_perturbation_scale.__wrapped__
    assert tilt(0.3, 1e-6, 0.25, 1.0, 1.0, 1000, 0.1) == math.inf
    assert tilt(0.3, 1.001e-6, 0.25, 1.0, 1.0, 1000, 0.1) < 1.0
    assert all(Fraction(epsilon) <= (1 - 6 * U) * Fraction(0.3) for epsilon in asked)

    asked.clear()
    monkeypatch.setattr(
        calibration, "gaussian_profile", lambda epsilon, *_: asked.append(epsilon) or 0.0
    )
    calibration.functional_multiplier.__wrapped__(0.7, 1e-6, 0.0)
    assert len(asked) > 20
    assert all(Fraction(epsilon) <= (1 - 6 * U) * Fraction(0.7) for epsilon in asked)


@pytest.mark.parametrize(
    ("total", "part", "count"),
    [
        (PureDP(1.0), PureDP(0.1), 10), (ZCDP(1.0), ZCDP(0.1), 10), (ZCDP(0.3), ZCDP(0.1), 3),
        (GDP(1.0), GDP(0.2), 25), (GDP(1.0), 0.1, 100), (PureDP(0.7), PureDP(0.07), 10),
        (ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-7), 10), ((1.0, 1e-6), (0.1, 1e-7), 10),
        (ZCDP(1.0), GDP(0.1), 200), (ZCDP(0.18), GDP(0.6), 1), (ZCDP(0.5), PureDP(0.2), 25),
    ],
    ids=repr,
)  # fmt: skip
def test_tenths_of_a_budget_are_ten(total, part, count, tmp_path):
    for ledger in (Ledger(total), Ledger.open(tmp_path / "book", total)):
        for _ in range(count):
            ledger.charge(part, "a part")
        assert not any(ledger.remaining.values()) and ledger.spent == ledger.total
        with pytest.raises(BudgetExceeded):
            ledger.charge(part, "one more")
    assert Ledger.open(tmp_path / "book").spent == ledger.total


def test_what_is_granted_is_spent_within_the_total_as_written():
    """By the real cost of the noise: random trees of charges, each as dear as its mechanism."""
    rng = np.random.default_rng(1)

    def grow(ledger, depth):
        real = Fraction(0)
        for _ in range(5):
            mu = rng.choice([0.1, 0.2, 0.3, 0.6, 0.7, 0.8, max(ledger.remaining.mu, 0.1)]).item()
            try:
                if depth and rng.random() < 0.5:
                    real += grow(ledger.child(mu, "part"), depth - 1)
                else:
                    ledger.charge(mu, "leaf")
                    real += (1 / Fraction(gaussian_scale(1.0, mu, 1)) + Fraction(GRID_COST)) ** 2
            except BudgetExceeded:
                pass
        return real

    for total in (0.3, 0.7, 1.0, 1.1) * 10:
        assert grow(Ledger(total), 3) <= written(total) ** 2


def test_a_requested_pair_is_kept_as_it_is_written():
    """The exact delta at the decimals, of the little less than mu that noise of it costs."""
    with mp.workdps(60):
        for epsilon in (0.1, 0.3, 0.7, 1.0, 4.0, 12.3):
            for delta in (1e-3, 1e-6, 3e-9):
                mu = Fraction(GDP.within((epsilon, delta)).mu) * (1 - 6 * U) * (1 + 2 * U)
                m, e = mp.mpf(mu.numerator) / mu.denominator, mp.mpf(repr(epsilon))
                exact = mp.ncdf(-e / m + m / 2) - mp.exp(e) * mp.ncdf(-e / m - m / 2)
                assert exact <= mp.mpf(repr(delta))


def test_two_numbers_are_epsilon_and_delta():
    pair, budget = (1.0, 1e-6), ApproxDP(1.0, 1e-6)
    assert Ledger(pair).total == budget
    assert GDP.within(pair) == GDP.within(budget) and ZCDP.within(pair) == ZCDP.within(budget)
    assert approximate(pair) == budget
    for bad in ((1.0,), (1.0, 1e-6, 0.0), (1.0, 1.0), (-1.0, 1e-6), ("1", 1e-6), (True, 1e-6), ()):
        with pytest.raises(InvalidBudget):
            Ledger(bad)


@pytest.mark.parametrize(
    ("privacy", "told"),
    [
        ((1.0, 0.1), r"delta = 0\.1 is at least 1/n = 0\.01.*such as \(1, 1e-04\)"),
        ((100.0, 1e-6), "epsilon = 100 promises next to nothing"),
        (ApproxDP(21.0, 1e-6), "epsilon = 21 promises next to nothing"),
        (
            50,
            "a mu above 3.24 promises next to nothing.*received 50",
        ),
        (GDP(4.0), "a mu above 3.24 .*received GDP"),
    ],
)
def test_a_weak_promise_is_said_before_it_is_charged(privacy, told):
    ledger = Ledger(GDP(100.0))
    x = np.linspace(-1.0, 1.0, 100)
    warnings.simplefilter("error")  # pytest takes it back
    with pytest.raises(BudgetWarning, match=told):
        dpfast.fit(
            x[:, None], x, dpfast.Objective("huber", scale=1.0), privacy=privacy, ledger=ledger
        )
    assert ledger.entries == ()


# ---- C87 ----------------------------------------------------------------------------------------


def adaptive_delta(first, last, epsilon, threshold, size=40_001):
    """Of an analyst who sees a release of mu = first, and goes on where it was telling.

    To mu = last where its loss exceeds the threshold; elsewhere everything is released with the
    probability that is then left of delta(last; epsilon).
    """
    total = gdp_delta(last, epsilon)
    loss = np.linspace(-9.0 * first, 9.0 * first, size) + 0.5 * first**2
    weight = norm.pdf(loss, 0.5 * first**2, first) * (loss[1] - loss[0])
    rest, gap = math.sqrt(last**2 - first**2), epsilon - loss
    on = norm.cdf(0.5 * rest - gap / rest) - np.exp(gap) * norm.cdf(-0.5 * rest - gap / rest)
    stop = np.where(loss > epsilon, -np.expm1(np.minimum(gap, 0.0)), 0.0)
    everything = total - gdp_delta(first, epsilon)
    stop = stop + (1.0 - stop) * everything
    return float((weight * np.where(loss > threshold, on, stop)).sum()), total


def test_a_budget_divided_after_an_answer_would_not_keep_its_promise():
    worst, total = adaptive_delta(0.2, 0.25, 1.0, 0.44)
    assert worst > 1.9 * total
    # which is why it is refused: after the first release in GDP there is nothing to choose
    ledger = Ledger((1.0, total))
    ledger.charge(GDP(0.2), "the first look")
    with pytest.raises(BudgetExceeded, match="apart"):
        ledger.charge(ApproxDP(1e-12, 0.5 * (total - gdp_delta(0.2, 1.0))), "everything, perhaps")
    # the same analyst on a fixed division gains nothing
    held, _ = adaptive_delta(0.2, gdp_mu(1.0, 0.5 * total), 1.0, 0.44)
    assert held < total


def test_the_division_is_fixed_by_the_first_gaussian_charge():
    kept = ApproxDP(0.5, 2e-7)
    ledger = Ledger((2.0, 1e-6), apart=kept)
    ledger.charge((0.2, 1e-7), "before")
    ledger.charge(0.05, "a fit")
    most = gdp_mu(1.5, 8e-7)
    assert math.hypot(ledger.remaining.mu, 0.05) == pytest.approx(most, rel=1e-12)
    ledger.charge((0.3, 1e-7), "the rest of what is kept")
    with pytest.raises(BudgetExceeded, match="apart"):
        ledger.charge((1e-9, 1e-12), "more")
    ledger.charge(ledger.remaining, "all of it")
    assert ledger.remaining.mu < 1e-7
    # what was charged before is never given to GDP, however little is kept
    ledger = Ledger((2.0, 1e-6), apart=(0.1, 1e-7))
    ledger.charge((0.7, 4e-7), "before")
    ledger.charge(1e-3, "a fit")
    assert math.hypot(ledger.remaining.mu, 1e-3) == pytest.approx(gdp_mu(1.3, 6e-7), rel=1e-9)


def test_a_pair_pays_as_many_fits_as_its_promise_allows():
    X = np.linspace(-1.0, 1.0, 4000)[:, None]
    y = X[:, 0] + np.cos(9.0 * X[:, 0])
    ledger = Ledger((4.0, 1e-6))
    loss = dpfast.Objective("huber", scale=1.0)
    fits = [dpfast.fit(X, y, loss, privacy=(1.0, 1e-7), ledger=ledger) for _ in range(15)]
    with pytest.raises(BudgetExceeded):
        dpfast.fit(X, y, loss, privacy=(1.0, 1e-7), ledger=ledger)
    assert len(ledger.entries) == 15
    mu = math.sqrt(15.0) * gdp_mu(1.0, 1e-7)
    assert ledger.spent.epsilon == pytest.approx(GDP(mu).epsilon(1e-6), rel=1e-9)
    assert dpfast.compare(*fits, ledger=ledger).together == ledger.spent


def test_mixed_charges_stay_within_the_pair(tmp_path):
    """Random orders, in memory and in a file that is opened anew for each: the same, and kept."""
    rng = np.random.default_rng(5)
    for k in range(12):
        apart = None if k % 2 else (0.5, 3e-7)
        books = [Ledger((3.0, 1e-6), apart), Ledger.open(tmp_path / str(k), (3.0, 1e-6), apart)]
        for _ in range(14):
            spend = [GDP(0.2), ApproxDP(0.3, 1e-7), PureDP(0.25), GDP(0.4)][rng.integers(4)]
            answers = []
            for book in (books[0], Ledger.open(tmp_path / str(k))):
                try:
                    book.charge(spend, "x")
                    answers.append(True)
                except BudgetExceeded:
                    answers.append(False)
            assert answers[0] == answers[1]
        assert books[0].spent == books[1].spent and books[0].remaining == books[1].remaining
        paid = [entry.charged for entry in books[0].entries]
        assert paid == [entry.charged for entry in books[1].entries]
        pairs = [spend for spend in paid if type(spend) is ApproxDP]
        mu = math.hypot(0.0, *[spend.mu for spend in paid if type(spend) is GDP])
        epsilon, delta = (
            sum(x) for x in zip((0.0, 0.0), *[p.values() for p in pairs], strict=True)
        )
        promise = epsilon + (GDP(mu).epsilon(1e-6 - delta) if mu else 0.0)
        assert promise <= 3.0 * (1 + 1e-12) and delta <= 1e-6 * (1 + 1e-12)
        assert books[0].spent.epsilon == pytest.approx(promise, rel=1e-9)


def test_what_is_no_part_of_a_pair_is_refused(tmp_path):
    for apart in (1.0, GDP(1.0), (5.0, 1e-7), (1.0, 1e-5), (0.0, 1e-7)):
        with pytest.raises((InvalidInput, InvalidBudget)):
            Ledger((4.0, 1e-6), apart)
        with pytest.raises((InvalidInput, InvalidBudget)):
            Ledger.open(tmp_path / "book", (4.0, 1e-6), apart)
    assert not (tmp_path / "book").exists()
    Ledger.open(tmp_path / "book", (4.0, 1e-6), (1.0, 1e-7))
    with pytest.raises(InvalidBudget, match="apart"):
        Ledger.open(tmp_path / "book", apart=(2.0, 1e-7))


def test_children_of_a_pair():
    ledger = Ledger((4.0, 1e-6), apart=(1.0, 1e-7))
    child = ledger.child(0.3, "in GDP")
    child.charge(0.3, "a fit")
    inner = ledger.child((0.5, 1e-7), "a pair")
    inner.charge(0.01, "a fit")
    ledger.child(PureDP(0.5), "pure: among the pairs, as its charges are not known to add up in mu")
    with pytest.raises(BudgetExceeded):
        ledger.child(PureDP(0.1), "and not in mu, where there would be room")
    ledger.charge(PureDP(0.1), "which a single charge may take")
    assert [type(entry.charged) for entry in ledger.entries] == [GDP, ApproxDP, ApproxDP, GDP]


# ---- R41 ----------------------------------------------------------------------------------------


def most_told(ledger, steps, pairs, worst, *, divided=True, epsilon=2.0, delta=1e-4):
    """The largest ``P(S) - exp(epsilon) P'(S)`` over all orders and all rules that see the answers.

    Charges in (epsilon, delta) as in R35: everything is given away with probability d, as after a
    bound that failed, and else the loss is e; with ``worst``, which only one order of a pair
    allows, always, otherwise with either sign.  Gaussian noise comes in equal steps.  What is
    told grows with the loss so far, by backward induction over it.
    """
    mu = math.sqrt(ledger.remaining.mu**2 / steps)
    width = 0.0025
    loss = np.arange(-8.0, 10.0, width)
    noise = np.arange(-round(9.0 * mu / width), round(9.0 * mu / width) + 1) * width
    kernel = norm.pdf(noise, 0.5 * mu * mu, mu) * width  # of a step's loss; turned, to convolve

    def after_step(value):
        padded = np.pad(value, len(noise) // 2, mode="edge")
        return np.convolve(padded, kernel[::-1], mode="valid")

    def after_pair(value, e, d):
        up = np.interp(loss + e, loss, value, right=1.0)
        down = np.interp(loss - e, loss, value)
        return d + (1.0 - d) * (up if worst else (math.exp(e) * up + down) / (math.exp(e) + 1.0))

    stop = -np.expm1(np.minimum(epsilon - loss, 0.0))
    value = {}
    for paid in range(len(pairs), -1, -1):
        for gone in range(steps, -1, -1):
            ways = [stop]
            if gone < steps:
                ways.append(after_step(value[paid, gone + 1]))
            if paid < len(pairs) and (divided or gone < steps):
                ways.append(after_pair(value[paid + 1, gone if divided else steps], *pairs[paid]))
            value[paid, gone] = np.max(ways, axis=0)
    return float(np.interp(0.0, loss, value[0, 0]))


@pytest.mark.parametrize("worst", [True, False])
@pytest.mark.parametrize(
    "pairs",
    [
        [(0.1, 2e-5), (0.4, 2e-5)],  # a certificate and what it allows
        [(0.1, 1e-5)] * 3 + [(0.3, 2e-5)],  # refused twice
        [(0.2, 4e-5), (1.0, 1e-6)],
    ],
)
def test_r41_no_order_of_certificates_and_gaussian_noise_beats_the_pair(pairs, worst):
    epsilon, delta = (math.fsum(part) for part in zip(*pairs, strict=True))
    ledger = Ledger((2.0, 1e-4), apart=(epsilon, delta))
    ledger.charge(1e-4, "the first fit")  # fixes what is left for GDP
    told = most_told(ledger, 3, pairs, worst)
    for pair in pairs:
        ledger.charge(pair, "within what was kept")
    assert told <= 1e-4
    if worst:
        assert told > 0.999e-4


def test_r41_limits_that_follow_answers_would_be_beaten():
    """The same search finds what is gained where delta goes to what an answer makes worth most."""
    ledger = Ledger((2.0, 1e-4))
    ledger.charge(1e-4, "the first fit")
    mu = ledger.remaining.mu * math.sqrt(1.0 / 3.0)
    left = 1e-4 - gdp_delta(mu, 2.0)
    told = most_told(ledger, 3, [(0.0, left)], True, divided=False)
    assert told > 1.5e-4


def test_a_weak_mu_has_a_weak_epsilon():
    from dpfast.fit_requests.weak_budgets import USUAL_DELTA, WEAK_EPSILON, WEAK_MU

    assert GDP(WEAK_MU).epsilon(USUAL_DELTA) == pytest.approx(WEAK_EPSILON, abs=0.002)


def test_a_number_is_the_decimal_that_it_is_written_as():
    for x in (0.1, 1e300, 1.5e22, 123456.0, 5e-324, 2.5e-17):
        assert Fraction(*ratio_of(x)) == Fraction(repr(x))


def test_exact_roots_are_exact_and_others_on_the_safe_side():
    for up in (True, False):
        assert root_to_float(1, 4, up=up) == 0.5
        assert root_to_float(9, 10**2, up=up) == 0.3
    for whole in (10**60, 10**648):  # the last: above a root by less than one unit of it
        assert root_to_float(whole // 4 + 1, whole, up=True) > 0.5
        assert root_to_float(whole // 4 + 1, whole, up=False) == 0.5
