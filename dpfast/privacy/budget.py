"""Privacy guarantees as values, and the conversions between them that can be proved.

A conversion never flatters: a *requested* budget turned into what a mechanism may spend rounds
down, a *spend* reported in another currency rounds up.  Claim numbers refer to PROOFS.md.

``scipy.special`` is imported inside the functions that need it, because it costs a tenth of a
second and a budget given as ``GDP(mu)`` needs none of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, TypeVar

from dpfast.errors import InvalidBudget, UnsupportedConversion, described

__all__ = [
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "PureDP",
    "as_budget",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "pure_mu",
    "zcdp_delta",
    "zcdp_epsilon",
]

#: Relative amount by which a computed delta is rounded up.  The largest error found against
#: 60-digit arithmetic over 1e5 arguments with mu <= 100 is 1.2e-12, so the margin is 16-fold.
DELTA_MARGIN = 2e-11

#: Smallest delta that is told apart from zero; below it the answer is this number.
DELTA_FLOOR = 1e-290

#: Relative rounding of results that are a handful of elementary functions away from the input.
ROUND_UP = 1.0 + 2.0**-44

MAX_MU = 1e4
_HALF_ROOT = math.sqrt(0.5)
_SLOPE = math.sqrt(2.0 / math.pi)

_B = TypeVar("_B", bound="Budget")


def _positive(value: object, name: str, *, below_one: bool = False) -> float:
    """``value`` as a float, or InvalidBudget."""
    if type(value) is float and 0.0 < value < (1.0 if below_one else math.inf):
        return value  # the usual case, without the price of an abstract class
    allowed = "in (0, 1)" if below_one else "positive and finite"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidBudget(f"{name} must be a number, {allowed}; received {described(value)}.")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        number = math.inf
    if not (0.0 < number < (1.0 if below_one else math.inf)):
        raise InvalidBudget(f"{name} must be {allowed}; received {described(value)}.")
    return number


# ---- Gaussian DP and (epsilon, delta): claims C2 and C3 -----------------------------------------


def _delta(mu: float, epsilon: float) -> float:
    """``Phi(-e/mu + mu/2) - exp(e) Phi(-e/mu - mu/2)`` without cancellation, not yet rounded up.

    With ``x, y = e/mu -+ mu/2`` it equals ``exp(-x^2/2) (f(x) - f(y)) / 2`` for
    ``f(u) = erfcx(u/sqrt 2)``, because ``exp(e) phi(y) = phi(x)``.
    """
    from scipy.special import erfcx, ndtr

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
    """Smallest delta such that every mu-GDP mechanism is (epsilon, delta)-DP, rounded up.

    Examples
    --------
    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    mu = _positive(mu, "mu")
    epsilon = _nonnegative(epsilon, "epsilon")
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
    """Smallest epsilon such that every mu-GDP mechanism is (epsilon, delta)-DP, rounded up.

    Zero if ``delta >= 2 Phi(mu/2) - 1``, the total variation distance.

    Examples
    --------
    >>> round(gdp_epsilon(1.0, 1e-5), 5)
    4.37718
    """
    mu = _positive(mu, "mu")
    delta = _positive(delta, "delta", below_one=True)
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
        slope = 0.5 * math.exp(-0.5 * x * x) * _erfcx(y * _HALF_ROOT)  # -d delta / d epsilon
        return target - math.log(value), slope / value

    root = _root(step, 0.0, high)
    return _certify(root, +1.0, lambda epsilon: _delta_up(mu, epsilon) <= delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that every mu-GDP mechanism is (epsilon, delta)-DP, rounded down.

    Examples
    --------
    >>> round(gdp_mu(1.0, 1e-5), 6)
    0.268051
    """
    epsilon = _nonnegative(epsilon, "epsilon")
    delta = _positive(delta, "delta", below_one=True)
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


def _erfcx(u: float) -> float:
    from scipy.special import erfcx

    return float(erfcx(u))


def _nonnegative(value: object, name: str) -> float:
    return 0.0 if not isinstance(value, bool) and value == 0 else _positive(value, name)


def _root(step: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Zero of an increasing function by Newton steps that are never allowed to leave a bracket.

    ``step`` returns value and slope.  The result is a candidate only: :func:`_certify` decides.
    """
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
    """The candidate, moved towards safety until ``holds`` says so: the proof is the check."""
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
    """Logarithm of a delta that is proved for this ``alpha`` (any alpha > 1 will do), rounded up.

    ``exp((a-1)(a rho - e)) (1 - 1/a)^(a-1) / a``.
    """
    growth = (alpha - 1.0) * (alpha * rho - epsilon)
    shape = (alpha - 1.0) * math.log1p(-1.0 / alpha) - math.log(alpha)
    size = (alpha - 1.0) * (alpha * rho + epsilon) + math.log(alpha) + 2.0
    return growth + shape + 1e-15 * size


def zcdp_delta(rho: float, epsilon: float) -> float:
    """A delta such that every rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    rho = _positive(rho, "rho")
    epsilon = _nonnegative(epsilon, "epsilon")
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
    """An epsilon such that every rho-zCDP mechanism is (epsilon, delta)-DP, rounded up."""
    rho = _positive(rho, "rho")
    delta = _positive(delta, "delta", below_one=True)
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
    terms = (alpha * rho, -minus_log_shrink, -(log_delta + math.log(alpha)) / high)
    epsilon = sum(terms) + 4e-15 * (sum(abs(term) for term in terms) + minus_log_shrink / high)
    return max(0.0, epsilon)


# ---- pure DP and Gaussian DP: claim C5 ----------------------------------------------------------


def pure_mu(epsilon: float) -> float:
    """Smallest mu such that every epsilon-DP mechanism is mu-GDP, rounded up.

    ``2 Phi^-1(e^eps / (1 + e^eps))``, attained by randomised response.
    """
    from scipy.special import erfinv, ndtri_exp

    epsilon = _positive(epsilon, "epsilon")
    if epsilon < 1.0:
        mu = 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        mu = -2.0 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * (1.0 + 1e-11)


# ---- the value types ----------------------------------------------------------------------------


class Budget:
    """Base of the four guarantees.  Immutable, hashable, compared by type and value."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead.")

    def values(self) -> tuple[float, ...]:
        """The numbers of this guarantee, in the order of the constructor."""
        return tuple(getattr(self, name) for name in self.fields)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Budget)
            and type(self) is type(other)
            and self.values() == other.values()
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self.values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"

    def __reduce__(self) -> tuple[Any, ...]:
        return amount, (type(self), *self.values())

    def as_gdp(self) -> GDP:
        """The Gaussian-DP guarantee this one implies, mu rounded up."""
        raise self._refusal("GDP")

    def as_zcdp(self) -> ZCDP:
        """The zCDP guarantee this one implies, rho rounded up."""
        raise self._refusal("zCDP")

    def as_approx(self, delta: float) -> ApproxDP:
        """The (epsilon, delta) guarantee this one implies at ``delta``, epsilon rounded up."""
        raise NotImplementedError

    def explain(self, delta: float = 1e-6) -> str:
        """This guarantee in plain words: what an attacker can do at best (claim C45)."""
        from dpfast.privacy.tradeoff import explain

        return explain(self, delta)

    def attack_power(self, false_positive_rate: float) -> float:
        """Largest true-positive rate of any attack with this false-positive rate (claim C45)."""
        from dpfast.privacy.tradeoff import attack_power

        return attack_power(self, false_positive_rate)

    def _refusal(self, target: str) -> UnsupportedConversion:
        return UnsupportedConversion(
            f"{self!r} cannot be converted to {target}: {_REASONS[target]}"
        )


_REASONS = {
    "GDP": (
        "mu-GDP bounds the whole trade-off curve and this guarantee does not. mu = sqrt(2 rho) is "
        "false (randomised response is eps^2/2-zCDP but not eps-GDP) and a mechanism that "
        "publishes the data with probability delta is (0, delta)-DP but not GDP for any mu. Run "
        "the mechanisms in GDP and convert their mu to what you want to report; to spend at most "
        "this much with Gaussian noise use GDP.within(...)."
    ),
    "zCDP": (
        "a mechanism that publishes the data with probability delta is (0, delta)-DP but not zCDP "
        "for any rho. Run the mechanisms in zCDP or GDP and convert what they spend; to spend at "
        "most this much use ZCDP.within(...)."
    ),
}


class GDP(Budget):
    """mu-Gaussian differential privacy (Dong, Roth and Su 2022).

    Telling two neighbouring data sets apart is at least as hard as telling N(0, 1) from N(mu, 1).

    Parameters
    ----------
    mu : float
        Positive and finite.

    Examples
    --------
    >>> GDP(1.0).as_zcdp()
    ZCDP(rho=0.5)
    >>> round(GDP.within(ApproxDP(1.0, 1e-5)).mu, 6)
    0.268051
    """

    __slots__ = ("mu",)
    fields = ("mu",)
    mu: float

    def __init__(self, mu: float) -> None:
        object.__setattr__(self, "mu", _positive(mu, "mu"))

    def values(self) -> tuple[float]:
        return (self.mu,)

    def delta(self, epsilon: float) -> float:
        """Delta of this spend at ``epsilon``, rounded up."""
        return 0.0 if self.mu == 0.0 else gdp_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Epsilon of this spend at ``delta``, rounded up."""
        return 0.0 if self.mu == 0.0 else gdp_epsilon(self.mu, delta)

    def as_gdp(self) -> GDP:
        return self

    def as_zcdp(self) -> ZCDP:
        """``mu^2/2``-zCDP (claim C4)."""
        return ZCDP(ratio_to_float(*_half_square(self.mu), up=True))

    def as_approx(self, delta: float) -> ApproxDP:
        return amount(ApproxDP, self.epsilon(delta), _positive(delta, "delta", below_one=True))

    @staticmethod
    def within(budget: Budget | float) -> GDP:
        """The largest GDP a mechanism may spend so that ``budget`` is honoured, rounded down.

        Parameters
        ----------
        budget : GDP, ZCDP, ApproxDP or float
            A bare number is mu.  ``PureDP`` is refused: Gaussian noise never gives it.
        """
        budget = as_budget(budget)
        if isinstance(budget, GDP):
            return budget
        if isinstance(budget, ZCDP):
            mu = math.sqrt(2.0 * budget.rho)
            numerator, denominator = budget.rho.as_integer_ratio()
            while True:  # at most a few steps: mu^2 / 2 <= rho, decided exactly
                top, bottom = _half_square(mu)
                if top * denominator <= numerator * bottom:
                    return GDP(mu)
                mu = math.nextafter(mu, 0.0)
        if isinstance(budget, ApproxDP):
            return GDP(gdp_mu(budget.epsilon, budget.delta))
        raise UnsupportedConversion(
            f"Gaussian noise cannot honour {budget!r}: it is never pure-epsilon DP. Pass "
            "ApproxDP(epsilon, delta), ZCDP(rho) or GDP(mu)."
        )


class ZCDP(Budget):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016).

    Parameters
    ----------
    rho : float
        Positive and finite.
    """

    __slots__ = ("rho",)
    fields = ("rho",)
    rho: float

    def __init__(self, rho: float) -> None:
        object.__setattr__(self, "rho", _positive(rho, "rho"))

    def delta(self, epsilon: float) -> float:
        """A delta this spend has at ``epsilon``, rounded up."""
        return 0.0 if self.rho == 0.0 else zcdp_delta(self.rho, epsilon)

    def epsilon(self, delta: float) -> float:
        """An epsilon this spend has at ``delta``, rounded up."""
        return 0.0 if self.rho == 0.0 else zcdp_epsilon(self.rho, delta)

    def as_zcdp(self) -> ZCDP:
        return self

    def as_approx(self, delta: float) -> ApproxDP:
        return amount(ApproxDP, self.epsilon(delta), _positive(delta, "delta", below_one=True))

    @staticmethod
    def within(budget: Budget) -> ZCDP:
        """The largest zCDP a mechanism may spend so that ``budget`` is honoured, rounded down.

        Parameters
        ----------
        budget : ZCDP or ApproxDP
            Others are refused: zCDP implies neither GDP nor pure DP.
        """
        if isinstance(budget, ZCDP):
            return budget
        if isinstance(budget, ApproxDP):
            epsilon, delta = budget.epsilon, budget.delta
            low = high = 1.0
            while zcdp_epsilon(high, delta) <= epsilon:
                low, high = high, 2.0 * high
            while zcdp_epsilon(low, delta) > epsilon:
                low, high = 0.5 * low, low
            while high - low > 4e-16 * high:
                middle = 0.5 * (low + high)
                if zcdp_epsilon(middle, delta) <= epsilon:
                    low = middle
                else:
                    high = middle
            return ZCDP(low)
        raise UnsupportedConversion(
            f"zCDP noise cannot honour {budget!r}: zCDP implies neither GDP nor pure DP. Pass "
            "ApproxDP(epsilon, delta) or ZCDP(rho)."
        )


class PureDP(Budget):
    """epsilon-differential privacy.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    """

    __slots__ = ("epsilon",)
    fields = ("epsilon",)
    epsilon: float

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "epsilon", _positive(epsilon, "epsilon"))

    def delta(self, epsilon: float) -> float:
        """Delta of this spend at a smaller ``epsilon``, rounded up (claim C8)."""
        epsilon = _nonnegative(epsilon, "epsilon")
        if epsilon >= self.epsilon:
            return 0.0
        ratio = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return min(1.0, ratio * ROUND_UP)

    def as_gdp(self) -> GDP:
        """``2 Phi^-1(e^eps/(1 + e^eps))``-GDP (claim C5)."""
        return GDP(pure_mu(self.epsilon))

    def as_zcdp(self) -> ZCDP:
        """``eps^2/2``-zCDP (claim C6)."""
        return ZCDP(ratio_to_float(*_half_square(self.epsilon), up=True))

    def as_approx(self, delta: float) -> ApproxDP:
        """``(eps, delta)``, or less where ``delta`` buys a smaller epsilon (claim C8)."""
        delta = _positive(delta, "delta", below_one=True)
        # log(e^eps - delta (1 + e^eps)), negative if delta is at least the total variation
        inside = 1.0 - delta * (1.0 + math.exp(-self.epsilon))
        epsilon = self.epsilon + math.log(inside) if inside > 0.0 else 0.0
        epsilon = min(self.epsilon, max(0.0, epsilon) + 1e-14 * (1.0 + self.epsilon))
        return amount(ApproxDP, epsilon, delta)


class ApproxDP(Budget):
    """(epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In (0, 1).
    """

    __slots__ = ("delta", "epsilon")
    fields = ("epsilon", "delta")
    epsilon: float
    delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        object.__setattr__(self, "epsilon", _positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", _positive(delta, "delta", below_one=True))

    def as_approx(self, delta: float) -> ApproxDP:
        """Itself, at its own delta or a larger one; a smaller one cannot be promised."""
        if _positive(delta, "delta", below_one=True) < self.delta:
            raise UnsupportedConversion(
                f"{self!r} promises nothing at the smaller delta={delta!r}. Ask for a delta of at "
                f"least {self.delta!r}."
            )
        return amount(ApproxDP, self.epsilon, float(delta))


def amount(kind: type[_B], *values: float) -> _B:
    """A guarantee that was computed, not requested: zeros are allowed (nothing was spent)."""
    result = object.__new__(kind)
    for name, value in zip(kind.fields, values, strict=True):
        object.__setattr__(result, name, float(value))
    return result


#: The guarantees there are.  A subclass could convert itself, or report numbers, as it likes.
_EXACT = (GDP, ZCDP, PureDP, ApproxDP)


def checked_numbers(values: tuple[float, ...]) -> tuple[float, ...]:
    """The numbers of a guarantee, checked anew: it may not have been through a constructor."""
    for value in values:
        if type(value) is not float or not 0.0 <= value < math.inf:
            raise InvalidBudget(
                "the numbers of a budget must be finite and not negative; received "
                f"{described(value)}. Make it with its constructor."
            )
    return values


def as_budget(budget: Budget | float) -> Budget:
    """A budget as it is, its numbers checked anew; a bare number as ``GDP(mu)``."""
    if isinstance(budget, Budget) and type(budget) in _EXACT:
        checked_numbers(budget.values())
        return budget
    if isinstance(budget, (float, Real)) and not isinstance(budget, bool):  # a float: at once
        return GDP(float(budget))
    raise InvalidBudget(
        f"a budget must be GDP(mu), ZCDP(rho), PureDP(epsilon), ApproxDP(epsilon, delta), none of "
        f"them subclassed, or a number (mu); received {described(budget)}."
    )


def _half_square(x: float) -> tuple[int, int]:
    """``x^2 / 2`` as an exact ratio of integers."""
    numerator, denominator = x.as_integer_ratio()
    return numerator * numerator, 2 * denominator * denominator


def ratio_to_float(numerator: int, denominator: int, *, up: bool) -> float:
    """The double next to ``numerator / denominator >= 0`` on the safe side, exactly decided."""
    try:
        quotient = numerator / denominator  # correctly rounded by Python
    except OverflowError:
        return math.inf if up else sys.float_info.max
    top, bottom = quotient.as_integer_ratio()
    error = top * denominator - numerator * bottom
    if up and error < 0:
        return math.nextafter(quotient, math.inf)
    if not up and error > 0:
        return math.nextafter(quotient, 0.0)
    return quotient
