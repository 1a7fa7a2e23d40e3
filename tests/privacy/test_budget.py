"""Budgets and conversions: claims C2 to C8 and C24 of PROOFS.md, against 80-digit arithmetic."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpfast.errors import InvalidBudget, UnsupportedConversion
from dpfast.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpfast.privacy.budget import as_budget
from dpfast.privacy.conversions import (
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pure_mu,
    zcdp_delta,
    zcdp_epsilon,
)
from tests.loops import each

RELATIVE = 1e-9


@pytest.fixture(autouse=True)
def eighty_digits():
    with mp.workdps(80):
        yield


def exact_delta(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    root = mp.sqrt(2)
    return (
        mp.erfc((epsilon / mu - mu / 2) / root) / 2
        - mp.exp(epsilon) * mp.erfc((epsilon / mu + mu / 2) / root) / 2
    )


def cases(n, seed):
    """(mu, epsilon) over twelve decades of mu, with deltas down to 1e-280."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < n:
        mu = 10 ** rng.uniform(-8, 3.5)
        spread = rng.uniform(-5, 35)
        epsilon = max(0.0, mu * spread + 0.5 * mu * mu) if rng.random() < 0.8 else 0.0
        if exact_delta(mu, epsilon) > mp.mpf("1e-280"):
            found.append((mu, epsilon))
    return found


@pytest.mark.parametrize("count", [250, pytest.param(1500, marks=pytest.mark.slow)])
def test_delta_is_never_below_the_truth_nor_far_above_it(count):
    for mu, epsilon in cases(count, 1):
        truth, found = exact_delta(mu, epsilon), gdp_delta(mu, epsilon)
        assert found >= truth, (mu, epsilon)
        assert found <= truth * (1 + RELATIVE), (mu, epsilon)


def test_mu_of_a_request_rounds_down():
    rng = np.random.default_rng(2)
    for _ in range(150):
        epsilon, delta = 10 ** rng.uniform(-6, 2), 10 ** rng.uniform(-30, -0.5)
        mu = gdp_mu(epsilon, delta)
        assert exact_delta(mu, epsilon) <= delta
        assert exact_delta(mu * (1 + RELATIVE), epsilon) > delta


def test_epsilon_of_a_spend_rounds_up():
    rng = np.random.default_rng(3)
    for _ in range(150):
        mu, delta = 10 ** rng.uniform(-6, 2), 10 ** rng.uniform(-30, -0.5)
        epsilon = gdp_epsilon(mu, delta)
        assert exact_delta(mu, epsilon) <= delta
        # Near epsilon = 0 the inverse is ill-conditioned: 1e-9 is of max(epsilon, mu) there.
        lower = epsilon - RELATIVE * max(epsilon, mu)
        assert lower < 0 or exact_delta(mu, lower) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(1, 1e-5, 0.268051), (3, 1e-5, 0.719117), (8, 1e-5, 1.666031)]
)
def test_reference_values(epsilon, delta, mu):
    assert round(gdp_mu(epsilon, delta), 6) == mu
    assert GDP.within(ApproxDP(epsilon, delta)).mu == gdp_mu(epsilon, delta)


def test_reference_epsilon():
    assert round(GDP(1.0).epsilon(1e-5), 5) == 4.37718
    assert GDP(1.0).epsilon(0.4) == 0.0  # above the total variation distance
    assert GDP(1.0).as_approx(1e-5) == ApproxDP(gdp_epsilon(1.0, 1e-5), 1e-5)


def test_round_trips_never_gain():
    for mu in np.geomspace(1e-5, 30, 40):
        epsilon = gdp_epsilon(mu, 1e-6)
        if epsilon > 0:
            assert gdp_mu(epsilon, 1e-6) >= mu * (1 - 1e-12)  # epsilon was rounded up
            assert gdp_mu(epsilon, 1e-6) <= mu * (1 + 1e-8)


def written(x):
    """What a number of a budget stands for."""
    return Fraction(repr(x))


def test_zcdp_of_a_request_is_decided_exactly():
    rng = np.random.default_rng(4)
    for rho in (10 ** rng.uniform(-12, 6, 300)).tolist():
        mu = GDP.within(ZCDP(rho)).mu
        assert written(mu) ** 2 / 2 <= written(rho)
        assert written(math.nextafter(mu, math.inf)) ** 2 / 2 > written(rho) or mu == 0
        spent = GDP(mu).as_zcdp().rho
        assert written(spent) >= written(mu) ** 2 / 2
        assert spent <= rho


def exact_zcdp_epsilon(rho, delta, high="1e12"):
    rho, delta = mp.mpf(rho), mp.mpf(delta)

    def epsilon(alpha):
        return alpha * rho + mp.log(1 - 1 / alpha) - (mp.log(delta) + mp.log(alpha)) / (alpha - 1)

    low, high = mp.mpf("1e-12"), mp.mpf(high)  # of alpha - 1; the derivative changes sign once
    for _ in range(150):
        middle = mp.sqrt(low * high)
        if middle**2 * rho < -mp.log(delta * (1 + middle)):
            low = middle
        else:
            high = middle
    return max(mp.mpf(0), epsilon(1 + high))


def test_zcdp_to_approximate_matches_the_closed_form():
    rng = np.random.default_rng(5)
    for _ in range(60):
        rho, delta = 10 ** rng.uniform(-6, 2), 10 ** rng.uniform(-20, -1)
        truth, found = exact_zcdp_epsilon(rho, delta), zcdp_epsilon(rho, delta)
        assert found >= truth
        assert found <= truth * (1 + RELATIVE) + 1e-12
        if found > 0:
            assert zcdp_delta(rho, found) <= delta * (1 + RELATIVE)
            # and the Gaussian mechanism, which is sqrt(2 rho)-GDP, needs less
            assert gdp_epsilon(math.sqrt(2 * rho), delta) <= found


@pytest.mark.parametrize(
    ("rho", "delta"),
    [
        (9.398349631890083e-65, 6.645133055170717e-33),
        (5.314607118722101e-61, 5.854479052640462e-31),
    ],
)
def test_zcdp_to_approximate_where_logarithms_cancel(rho, delta):
    """rho of the size of delta^2: epsilon is of the size of delta, alpha of that of 1/delta."""
    truth = exact_zcdp_epsilon(rho, delta, mp.mpf("1e60"))
    found = zcdp_epsilon(rho, delta)
    assert 0 < truth <= found <= truth * (1 + mp.mpf("1e-6"))


def test_zcdp_within():
    budget = ZCDP.within(ApproxDP(1.0, 1e-6))
    assert exact_zcdp_epsilon(budget.rho, 1e-6) <= 1
    assert exact_zcdp_epsilon(budget.rho * (1 + 1e-9), 1e-6) > 1
    assert ZCDP.within(ZCDP(0.5)) == ZCDP(0.5)


def test_pure_to_gdp_against_high_precision():
    for epsilon in np.geomspace(1e-9, 600, 200):
        e = mp.mpf(epsilon)
        # the exact inverse: mu with Phi(mu/2) = e^eps/(1+e^eps), i.e. Phi(-mu/2) = 1/(1+e^eps)
        mu = mp.mpf(pure_mu(epsilon))
        assert mp.erfc(mu / 2 / mp.sqrt(2)) / 2 <= 1 / (1 + mp.exp(e))
        lower = mu * (1 - mp.mpf(RELATIVE))
        assert mp.erfc(lower / 2 / mp.sqrt(2)) / 2 > 1 / (1 + mp.exp(e))


def test_pure_to_gdp_is_what_randomised_response_needs():
    """Claim C5: the trade-off curve of randomised response touches that of the Gaussian."""
    for epsilon in (0.1, 1.0, 3.0):
        mu, p = pure_mu(epsilon), 1 / (1 + math.exp(epsilon))
        kink = p  # type I error at which the curve of randomised response has its kink
        gaussian = 0.5 * math.erfc(-(_quantile(1 - kink) - mu) / math.sqrt(2))
        assert gaussian == pytest.approx(p, abs=1e-9)


def _quantile(p):
    return float(mp.sqrt(2) * mp.erfinv(2 * mp.mpf(p) - 1))


def test_pure_to_zcdp_bounds_the_renyi_divergence_of_randomised_response():
    """Claim C6, on the extreme pair, for orders from 1.001 to 1000."""
    for epsilon in (0.01, 0.5, 2.0, 8.0):
        rho = PureDP(epsilon).as_zcdp().rho
        assert rho >= epsilon**2 / 2
        p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
        for alpha in np.geomspace(1.001, 1000, 60):
            a = mp.mpf(alpha)
            divergence = mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
            assert divergence <= a * rho


def test_pure_to_approximate():
    for epsilon in (0.1, 1.0, 5.0, 12.338932040229318, 24.02420829922928, 50.0):
        # the last ones are so close to one that 1 - delta (1 + e^-epsilon) has few digits
        for delta in (1e-9, 1e-3, 0.3, 0.9996707980118614, 0.9999723093423795, 1.0 - 1e-9):
            converted = PureDP(epsilon).as_approx(delta)
            e = mp.mpf(epsilon)
            truth = (mp.exp(e) - mp.exp(mp.mpf(converted.epsilon))) / (1 + mp.exp(e))
            assert truth <= delta
            assert converted.epsilon <= epsilon
    assert PureDP(1.0).delta(1.0) == 0.0
    assert 0 < PureDP(1.0).delta(0.5) < 1


@each("kind", [GDP, ZCDP, PureDP])
@each(
    "bad",
    [
        0,
        0.0,
        -1,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        True,
        False,
        "1",
        None,
        1j,
        [1.0],
        10**400,
        Decimal("1"),
        np.array([1.0, 2.0]),
    ],
    ids=repr,
)
def test_invalid_parameters_are_refused(kind, bad):
    with pytest.raises(InvalidBudget, match="must be"):
        kind(bad)


@each("delta", [0, 1, 1.0, -1e-9, 2, math.nan, math.inf, True, "1e-5", None])
def test_invalid_deltas_are_refused(delta):
    with pytest.raises(InvalidBudget, match="delta"):
        ApproxDP(1.0, delta)
    with pytest.raises(InvalidBudget, match="delta"):
        gdp_epsilon(1.0, delta)


@each("bad", [0, math.nan, math.inf, -1.0, True, "1", None])
def test_within_refuses_what_is_no_budget(bad):
    with pytest.raises(InvalidBudget):
        GDP.within(bad)


@each("good", [1, 0.5, np.float64(0.5), np.float32(0.5), np.int64(2)])
def test_numbers_of_every_kind_are_accepted(good):
    assert GDP(good).mu == float(good)
    assert type(GDP(good).mu) is float
    assert GDP.within(good) == as_budget(good) == GDP(good)


def test_refused_conversions_are_named():
    """Claim C24; the counterexamples are in test_errata.py."""
    with pytest.raises(UnsupportedConversion, match="sqrt\\(2 rho\\) is false"):
        ZCDP(0.5).as_gdp()
    with pytest.raises(UnsupportedConversion, match="publishes the data with probability delta"):
        ApproxDP(1.0, 1e-5).as_gdp()
    with pytest.raises(UnsupportedConversion, match="zCDP"):
        ApproxDP(1.0, 1e-5).as_zcdp()
    with pytest.raises(UnsupportedConversion, match="never pure"):
        GDP.within(PureDP(1.0))
    for budget in (GDP(1.0), PureDP(1.0)):
        with pytest.raises(UnsupportedConversion, match="neither GDP nor pure"):
            ZCDP.within(budget)
    with pytest.raises(UnsupportedConversion, match="smaller delta"):
        ApproxDP(1.0, 1e-5).as_approx(1e-6)
    assert ApproxDP(1.0, 1e-6).as_approx(1e-5) == ApproxDP(1.0, 1e-5)


def test_values_are_immutable_hashable_and_picklable():
    for value in (GDP(0.5), ZCDP(0.5), PureDP(0.5), ApproxDP(0.5, 0.25)):
        with pytest.raises(AttributeError, match="immutable"):
            value.mu = 3.0
        with pytest.raises(AttributeError, match="immutable"):
            del value.mu
        assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)
        assert eval(repr(value)) == value
        assert hash(value) == hash(copy.copy(value))
        assert isinstance(value, Budget)
    assert len({GDP(0.5), ZCDP(0.5), PureDP(0.5)}) == 3
    assert GDP(0.5) != 0.5


def test_against_dp_accounting():
    """An independent implementation (Google's); optional."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common
    from dp_accounting.rdp import rdp_privacy_accountant

    for mu in (0.1, 0.5, 1.0, 3.0):
        for epsilon in (0.0, 0.1, 1.0, 4.0):
            theirs = float(mp.mpf(_gaussian_delta_from_dp_accounting(common, 1.0 / mu, epsilon)))
            assert gdp_delta(mu, epsilon) == pytest.approx(theirs, rel=1e-7, abs=1e-15)
    orders = [1 + 0.001 * i for i in range(1, 60000)]
    for rho in (0.01, 0.5):
        theirs, _ = rdp_privacy_accountant.compute_epsilon(
            np.array(orders), np.array(orders) * rho, 1e-6
        )
        assert zcdp_epsilon(rho, 1e-6) <= theirs * (1 + 1e-9)
        assert zcdp_epsilon(rho, 1e-6) == pytest.approx(theirs, rel=1e-4)


def _gaussian_delta_from_dp_accounting(common, noise, epsilon):
    from dp_accounting.pld import privacy_loss_mechanism

    loss = privacy_loss_mechanism.GaussianPrivacyLoss(noise)
    assert common is not None
    return loss.get_delta_for_epsilon(epsilon)
