"""Implications between privacy guarantees, each rounded to the safe side.

A *requested* budget turned into what a mechanism may spend rounds down.  A *spend* reported in
another currency rounds up.  Claim numbers refer to PROOFS.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.decimals import nonnegative, positive

#: Relative amount by which a computed delta is rounded up; enough for every pair of doubles, as
#: boxes of ball arithmetic show (claim C2).
DELTA_MARGIN = 2e-11

#: Smallest delta that is told apart from zero; below it the answer is this number.
DELTA_FLOOR = 1e-290

MAX_MU = 1e4
_HALF_ROOT = math.sqrt(0.5)
_SLOPE = math.sqrt(2.0 / math.pi)


# ---- Gaussian DP and (epsilon, delta): claims C2 and C3 -----------------------------------------


def _delta(mu: float, epsilon: float) -> float:
    """Compute ``Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2)`` without cancellation."""
    from dpfast.kernels.special import erfcx, ndtr

    middle = epsilon / mu
    x, y = middle - 0.5 * mu, middle + 0.5 * mu
    if x <= -5.0:
        return float(ndtr(-x) - 0.5 * math.exp(-0.5 * x * x) * erfcx(y * _HALF_ROOT))
    if mu >= 0.01:
        difference = erfcx(x * _HALF_ROOT) - erfcx(y * _HALF_ROOT)
    else:
        # Taylor at the midpoint; derivatives of f by f' = u f - sqrt(2/pi).
        f0 = erfcx(middle * _HALF_ROOT)
        f1 = middle * f0 - _SLOPE
        f2 = f0 + middle * f1
        f3 = 2.0 * f1 + middle * f2
        f4 = 3.0 * f2 + middle * f3
        f5 = 4.0 * f3 + middle * f4
        difference = -mu * (f1 + mu**2 / 24.0 * (f3 + mu**2 / 80.0 * f5))
    return 0.5 * math.exp(-0.5 * x * x) * float(difference)


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta such that mu-GDP implies (epsilon, delta)-DP, rounded up."""
    mu = positive(mu, "mu")
    epsilon = nonnegative(epsilon, "epsilon")
    return _delta_up(mu, epsilon)


def _delta_up(mu: float, epsilon: float) -> float:
    if mu > MAX_MU:
        return 1.0
    # e/mu - mu/2 is computed with an absolute error of an ulp of e/mu; its effect is below
    # (|x| + 1) ulp, which the margin covers up to mu = 100 and this term beyond.
    distance = abs(epsilon / mu - 0.5 * mu)
    margin = DELTA_MARGIN + 1e-15 * mu * (distance + 1.0) if mu > 100.0 else DELTA_MARGIN
    return min(1.0, max(_delta(mu, epsilon) * (1.0 + margin), DELTA_FLOOR))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-GDP implies (epsilon, delta)-DP, rounded up."""
    from dpfast.kernels.special import erfcx

    mu = positive(mu, "mu")
    delta = positive(delta, "delta", below_one=True)
    if mu > MAX_MU:
        raise InvalidBudget(
            f"mu must be at most {MAX_MU:g} to be expressed as (epsilon, delta); received "
            f"{described(mu)}. Such a mu protects nobody: use a smaller one."
        )
    delta = max(delta, 2.0 * DELTA_FLOOR)
    if _delta_up(mu, 0.0) <= delta:
        return 0.0
    high = mu * (mu + 1.0)
    while _delta_up(mu, high) > delta:
        high *= 2.0
    target = math.log(delta)

    def step(epsilon: float) -> tuple[float, float]:
        value = _delta_up(mu, epsilon)
        x, y = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
        slope = 0.5 * math.exp(-0.5 * x * x) * float(erfcx(y * _HALF_ROOT))  # -d delta / d epsilon
        return target - math.log(value), slope / value

    root = _root(step, 0.0, high)
    return _certify(root, +1.0, lambda epsilon: _delta_up(mu, epsilon) <= delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down."""
    epsilon = nonnegative(epsilon, "epsilon")
    delta = positive(delta, "delta", below_one=True)
    if delta < 4.0 * DELTA_FLOOR:
        raise InvalidBudget(
            f"delta must be at least {4.0 * DELTA_FLOOR:g}; received {described(delta)}. A "
            "Gaussian mechanism cannot meet delta = 0: use a larger delta."
        )
    low = high = 1.0
    while _delta_up(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    while _delta_up(low, epsilon) > delta:
        low, high = 0.5 * low, low
    target = math.log(delta)

    def step(mu: float) -> tuple[float, float]:
        value = _delta_up(mu, epsilon)
        x = epsilon / mu - 0.5 * mu
        slope = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)  # d delta / d mu = phi(x)
        return math.log(value) - target, slope / value

    root = _root(step, low, high)
    return _certify(root, -1.0, lambda mu: _delta_up(mu, epsilon) <= delta)


def _root(step: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Find a candidate zero of an increasing function, by Newton steps kept within a bracket."""
    at = 0.5 * (low + high)
    for _ in range(200):
        value, slope = step(at)
        if value > 0.0:
            high = at
        else:
            low = at
        newton = at - value / slope if slope > 0.0 else low
        following = newton if low < newton < high else 0.5 * (low + high)
        if abs(following - at) <= 4e-16 * abs(following):
            return following
        at = following
    return at


def _certify(candidate: float, direction: float, holds: Callable[[float], bool]) -> float:
    """Move the candidate towards safety until ``holds`` is true: the proof is the check."""
    shift = 2.0**-52
    result = candidate
    while not holds(result):
        result = candidate * (1.0 + direction * shift)
        shift *= 2.0
        if shift > 0.5:  # pragma: no cover - the bracket of the callers excludes it
            raise AssertionError("the inversion of delta did not converge")
    return result


# ---- zero-concentrated DP and (epsilon, delta): claim C7 ----------------------------------------


def _zcdp_log_delta(rho: float, epsilon: float, alpha: float) -> float:
    """Bound ``log(exp((a-1)(a rho - e)) (1 - 1/a)^(a-1) / a)``, a delta proved for alpha, up."""
    growth = (alpha - 1.0) * (alpha * rho - epsilon)
    shape = (alpha - 1.0) * math.log1p(-1.0 / alpha) - math.log(alpha)
    size = (alpha - 1.0) * (alpha * rho + epsilon) + math.log(alpha) + 2.0
    return growth + shape + 1e-15 * size


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a delta such that every rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    rho = positive(rho, "rho")
    epsilon = nonnegative(epsilon, "epsilon")
    # The bound is convex in alpha with derivative (2a - 1) rho + log(1 - 1/a) - e.
    low, high = 1.0, 2.0
    while (2.0 * high - 1.0) * rho + math.log1p(-1.0 / high) < epsilon:
        low, high = high, 2.0 * high
    for _ in range(60):
        alpha = 0.5 * (low + high)
        if (2.0 * alpha - 1.0) * rho + math.log1p(-1.0 / alpha) < epsilon:
            low = alpha
        else:
            high = alpha
    return min(1.0, max(math.exp(min(0.0, _zcdp_log_delta(rho, epsilon, high))), DELTA_FLOOR))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon such that every rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    rho = positive(rho, "rho")
    delta = positive(delta, "delta", below_one=True)
    log_delta = math.log(delta)
    # epsilon(a) = a rho + log(1 - 1/a) - (log delta + log a)/(a - 1) has its minimum where
    # (a - 1)^2 rho = -log(a delta).
    low, high = 0.0, 1.0  # of a - 1
    while high * high * rho < -(log_delta + math.log1p(high)):
        high *= 2.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        if middle * middle * rho < -(log_delta + math.log1p(middle)):
            low = middle
        else:
            high = middle
    alpha = 1.0 + high
    minus_log_shrink = math.log1p(1.0 / high)  # -log(1 - 1/a)
    # the logarithms one by one: they nearly cancel where epsilon is of the size of delta
    terms = (alpha * rho, -minus_log_shrink, -log_delta / high, -math.log(alpha) / high)
    epsilon = sum(terms) + 4e-15 * (sum(abs(term) for term in terms) + minus_log_shrink / high)
    return max(0.0, epsilon)


# ---- pure DP and Gaussian DP: claim C5 ----------------------------------------------------------


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every epsilon-DP mechanism is mu-GDP, rounded up."""
    from dpfast.kernels.special import erfinv, ndtri_exp

    epsilon = positive(epsilon, "epsilon")
    if epsilon < 1.0:
        mu = 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        mu = -2.0 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * (1.0 + 1e-11)
