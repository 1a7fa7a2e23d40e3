"""Privacy guarantees as values, and the conversions between them that can be proved."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar, TypeVar

from dpfast.errors import InvalidBudget, UnsupportedConversion, described, understood
from dpfast.privacy.decimals import (
    half_square,
    nonnegative,
    positive,
    ratio_to_float,
    root_to_float,
    written,
)
from dpfast.privacy.rounding import ROUNDING_ELEMENTARY

#: Relative rounding of results that are a handful of elementary functions away from the input.
ROUND_UP = 1.0 + ROUNDING_ELEMENTARY

_B = TypeVar("_B", bound="Budget")


def _conversions() -> Any:
    """Import the conversions, which no budget in Gaussian DP needs."""
    from dpfast.privacy import conversions

    return conversions


class Budget:
    """Base of the four guarantees.  Immutable, hashable, compared by type and value.

    Each conversion rounds to the safe side.  Where none can be proved it is refused by name.

    Other Parameters
    ----------------
    epsilon : float
        Of methods: zero or more.
    delta : float
        In (0, 1); far below ``1/n`` for a promise worth having.

    Privacy
    -------
    Numbers only: making, converting or printing a guarantee reads no record and spends nothing.

    Examples
    --------
    >>> budget = dpfast.GDP(1.0)
    >>> budget.values(), round(budget.as_approx(1e-6).epsilon, 3), budget.as_zcdp()
    ((1.0,), 4.887, ZCDP(rho=0.5))
    >>> round(budget.attack_power(0.05), 3), budget.explain().splitlines()[0]
    (0.26, 'GDP(mu=1.0) in plain words')
    """

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one instead.")

    def values(self) -> tuple[float, ...]:
        """Return the numbers of this guarantee, in the order of the constructor."""
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
        numbers = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({numbers})"

    def __reduce__(self) -> tuple[Any, ...]:
        return amount, (type(self), *self.values())

    def as_gdp(self) -> GDP:
        """Convert to the Gaussian-DP guarantee this one implies, mu rounded up.

        :class:`~dpfast.errors.UnsupportedConversion` where there is none: from zCDP and
        (epsilon, delta).
        """
        raise self._refusal("GDP")

    def as_zcdp(self) -> ZCDP:
        """Convert to the zCDP guarantee this one implies, rho rounded up.

        :class:`~dpfast.errors.UnsupportedConversion` where there is none: from (epsilon, delta).
        """
        raise self._refusal("zCDP")

    def as_approx(self, delta: float) -> ApproxDP:
        """Convert to the (epsilon, delta) guarantee implied at ``delta``, epsilon rounded up."""
        spend: Any = self  # in GDP or zCDP; of the others see there
        return amount(ApproxDP, spend.epsilon(delta), positive(delta, "delta", below_one=True))

    def explain(self, delta: float = 1e-6) -> str:
        """Explain this guarantee in plain words: what an attacker can do at best (claim C45)."""
        from dpfast.privacy.tradeoff import explain

        return explain(self, delta)

    def attack_power(self, false_positive_rate: float) -> float:
        """Return the largest true-positive rate at this false-positive rate, up (claim C45).

        An attack says whether a record is in the data.  Its false-positive rate is how often it
        says so of a record that is not, its true-positive rate how often of a record that is.

        Parameters
        ----------
        false_positive_rate : float
            In [0, 1].
        """
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


@understood
class GDP(Budget):
    """mu-Gaussian differential privacy (Dong, Roth and Su 2022).

    Telling two neighbouring data sets apart is at least as hard as telling N(0, 1) from N(mu, 1).

    Parameters
    ----------
    mu : float
        Positive and finite.

    Examples
    --------
    >>> dpfast.GDP(1.0).as_zcdp()
    ZCDP(rho=0.5)
    >>> round(dpfast.GDP.within(dpfast.ApproxDP(1.0, 1e-5)).mu, 6)
    0.268051
    """

    __slots__ = ("mu",)
    fields = ("mu",)
    mu: float

    def __init__(self, mu: float) -> None:
        object.__setattr__(self, "mu", positive(mu, "mu"))

    def values(self) -> tuple[float]:
        return (self.mu,)

    def delta(self, epsilon: float) -> float:
        """Return the delta of this spend at ``epsilon``, rounded up (claim C2)."""
        return 0.0 if self.mu == 0.0 else _conversions().gdp_delta(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of this spend at ``delta``, rounded up (claim C3)."""
        return 0.0 if self.mu == 0.0 else _conversions().gdp_epsilon(self.mu, delta)

    def as_gdp(self) -> GDP:
        return self

    def as_zcdp(self) -> ZCDP:
        """Convert to ``mu^2/2``-zCDP (claim C4)."""
        return ZCDP(ratio_to_float(*half_square(self.mu), up=True))

    @staticmethod
    def within(budget: Budget | float | tuple[float, float]) -> GDP:
        """Return the largest GDP a mechanism may spend within ``budget``, rounded down.

        Parameters
        ----------
        budget : GDP, ZCDP, ApproxDP or float
            A bare number is mu.

        Raises
        ------
        UnsupportedConversion
            For ``PureDP``: Gaussian noise never gives it.
        """
        budget = as_budget(budget)
        if isinstance(budget, GDP):
            return budget
        if isinstance(budget, ZCDP):
            numerator, denominator = written(budget.rho)
            return GDP(root_to_float(2 * numerator, denominator, up=False))  # mu^2 / 2 <= rho
        if isinstance(budget, ApproxDP):
            return GDP(_conversions().gdp_mu(budget.epsilon, budget.delta))
        raise UnsupportedConversion(
            f"Gaussian noise cannot honour {budget!r}: it is never pure-epsilon DP. Pass "
            "ApproxDP(epsilon, delta), ZCDP(rho) or GDP(mu)."
        )


@understood
class ZCDP(Budget):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016).

    Parameters
    ----------
    rho : float
        Positive and finite.

    Examples
    --------
    >>> dpfast.ZCDP.within(dpfast.ApproxDP(1.0, 1e-6)).rho < 0.1
    True
    """

    __slots__ = ("rho",)
    fields = ("rho",)
    rho: float

    def __init__(self, rho: float) -> None:
        object.__setattr__(self, "rho", positive(rho, "rho"))

    def delta(self, epsilon: float) -> float:
        """Return a delta this spend has at ``epsilon``, rounded up (claim C7)."""
        return 0.0 if self.rho == 0.0 else _conversions().zcdp_delta(self.rho, epsilon)

    def epsilon(self, delta: float) -> float:
        """Return an epsilon this spend has at ``delta``, rounded up (claim C7)."""
        return 0.0 if self.rho == 0.0 else _conversions().zcdp_epsilon(self.rho, delta)

    def as_zcdp(self) -> ZCDP:
        return self

    @staticmethod
    def within(budget: Budget) -> ZCDP:
        """Return the largest zCDP a mechanism may spend within ``budget``, rounded down.

        Parameters
        ----------
        budget : ZCDP or ApproxDP

        Raises
        ------
        UnsupportedConversion
            For all others: zCDP implies no GDP and no pure DP.
        """
        spoken, budget = budget, as_budget(budget)
        if isinstance(budget, ZCDP):
            return budget
        if isinstance(budget, ApproxDP):
            epsilon, delta = budget.epsilon, budget.delta
            zcdp_epsilon = _conversions().zcdp_epsilon
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
            f"zCDP noise cannot honour {described(spoken)}: zCDP implies neither GDP nor pure DP. "
            "Pass ApproxDP(epsilon, delta) or ZCDP(rho)."
        )


@understood
class PureDP(Budget):
    """epsilon-differential privacy.

    Parameters
    ----------
    epsilon : float
        Positive and finite.

    Examples
    --------
    >>> dpfast.PureDP(0.5).delta(1.0)
    0.0
    """

    __slots__ = ("epsilon",)
    fields = ("epsilon",)
    epsilon: float

    def __init__(self, epsilon: float) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))

    def delta(self, epsilon: float) -> float:
        """Return the delta of this spend at a smaller ``epsilon``, up; else zero (claim C8)."""
        epsilon = nonnegative(epsilon, "epsilon")
        if epsilon >= self.epsilon:
            return 0.0
        ratio = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        floor: float = _conversions().DELTA_FLOOR
        return min(1.0, max(ratio * ROUND_UP, floor))

    def as_gdp(self) -> GDP:
        """Convert to ``2 Phi^-1(e^eps/(1 + e^eps))``-GDP (claim C5)."""
        return GDP(_conversions().pure_mu(self.epsilon))

    def as_zcdp(self) -> ZCDP:
        """Convert to ``eps^2/2``-zCDP (claim C6)."""
        return ZCDP(ratio_to_float(*half_square(self.epsilon), up=True))

    def as_approx(self, delta: float) -> ApproxDP:
        """Convert to ``(eps, delta)``, with a smaller epsilon where ``delta`` allows it (C8)."""
        delta = positive(delta, "delta", below_one=True)
        # log(e^eps - delta (1 + e^eps)), negative if delta is at least the total variation; from
        # 1 - delta, because 1 - delta (1 + e^-eps) would lose the digits of a delta close to 1
        argument = (1.0 - delta) - delta * math.exp(-self.epsilon)
        epsilon = self.epsilon + math.log(argument) if argument > 0.0 else 0.0
        epsilon = min(self.epsilon, max(0.0, epsilon) + 1e-14 * (1.0 + self.epsilon))
        return amount(ApproxDP, epsilon, delta)


@understood
class ApproxDP(Budget):
    """(epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In (0, 1).

    Examples
    --------
    >>> dpfast.ApproxDP(1.0, 1e-6).as_approx(1e-6)
    ApproxDP(epsilon=1.0, delta=1e-06)
    """

    __slots__ = ("delta", "epsilon")
    fields = ("epsilon", "delta")
    epsilon: float
    delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))
        object.__setattr__(self, "delta", positive(delta, "delta", below_one=True))

    def as_approx(self, delta: float) -> ApproxDP:
        """Return itself at its own delta or a larger one; refuse a smaller one."""
        if positive(delta, "delta", below_one=True) < self.delta:
            raise UnsupportedConversion(
                f"{self!r} promises nothing at the smaller delta={delta!r}. Ask for a delta of at "
                f"least {self.delta!r}."
            )
        return amount(ApproxDP, self.epsilon, float(delta))


def amount(kind: type[_B], *values: float) -> _B:
    """Make a guarantee that was computed, not requested: zeros are allowed (nothing was spent)."""
    result = object.__new__(kind)
    for name, value in zip(kind.fields, values, strict=True):
        object.__setattr__(result, name, float(value))
    return result


#: The guarantees there are.  A subclass could convert itself, or report numbers, as it likes.
_EXACT = (GDP, ZCDP, PureDP, ApproxDP)


def checked_numbers(values: tuple[float, ...]) -> tuple[float, ...]:
    """Check the numbers of a guarantee again: it may not have been through a constructor."""
    for value in values:
        if type(value) is not float or not 0.0 <= value < math.inf:
            raise InvalidBudget(
                "the numbers of a budget must be finite and not negative; received "
                f"{described(value)}. Make it with its constructor."
            )
    return values


def as_budget(budget: Budget | float | tuple[float, float]) -> Budget:
    """Return a budget with its numbers checked; a number is ``GDP(mu)``, a pair ``ApproxDP``."""
    if isinstance(budget, Budget) and type(budget) in _EXACT:
        checked_numbers(budget.values())
        return budget
    if type(budget) is tuple and len(budget) == 2:
        return ApproxDP(*budget)
    if isinstance(budget, (float, Real)) and not isinstance(budget, bool):  # a float: at once
        try:
            return GDP(float(budget))
        except (TypeError, OverflowError):  # an integer of hundreds of digits
            pass
    raise InvalidBudget(
        "a budget must be a number (mu), a pair (epsilon, delta), GDP(mu), ZCDP(rho), "
        "PureDP(epsilon) or ApproxDP(epsilon, delta), none of them subclassed; received "
        f"{described(budget)}."
    )
