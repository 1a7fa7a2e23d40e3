"""A residual scale that is estimated with the coefficients: an interval that has it is public."""

from __future__ import annotations

import math

from dpfast.arguments import check_constant
from dpfast.errors import InvalidInput, described, understood


@understood
class FreeScale:
    """The residual scale is estimated; only an interval that contains it is public.

    Equation (6) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    low, high : float
        Public bounds in the units of y, not computed from these data.  A factor of 100 between
        them costs nothing measurable.
    start : float, optional
        Where the search starts; the geometric mean of the bounds by default.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(
    ...     X, y, dpfast.Objective("huber", scale=dpfast.FreeScale(0.05, 2.0)), privacy=2.0
    ... )
    >>> 0.05 <= round(fit.scale, 12) <= 2.0
    True
    """

    def __init__(self, low: float, high: float, start: float | None = None) -> None:
        meaning = "public bound on the residual scale, in the units of y"
        self.low = check_constant(low, "low", meaning)
        self.high = check_constant(high, "high", meaning)
        if not self.low < self.high:
            raise InvalidInput(
                f"low must be below high; received FreeScale({described(low)}, "
                f"{described(high)}). Pass scale=<number> for a known scale."
            )
        if start is None:
            self.start = math.sqrt(self.low) * math.sqrt(self.high)
        else:
            self.start = check_constant(start, "start", "where the search for the scale starts")
        if not self.low <= self.start <= self.high:
            raise InvalidInput(
                f"start must lie between low and high, {self.low:g} and {self.high:g}; received "
                f"{described(start)}."
            )

    def __repr__(self) -> str:
        return f"FreeScale({self.low:g}, {self.high:g}, start={self.start:g})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FreeScale):
            return False
        return (self.low, self.high, self.start) == (other.low, other.high, other.start)

    def __hash__(self) -> int:
        return hash((self.low, self.high, self.start))
