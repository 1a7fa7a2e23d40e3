"""Attack the declared constants of a loss before it is used: bounds, derivatives, convexity."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpfast.arguments import Array
from dpfast.errors import InvalidInput, described
from dpfast.models import CustomLoss, Loss

#: Share of the points where derivatives may differ from differences: kinks are narrow.
KINKS = 0.02

#: Relative slack of a bound: above rounding, below any violation of interest.
SLACK = 1e-9


class LossReport(NamedTuple):
    """Result of :func:`check_loss`.

    Attributes
    ----------
    findings : tuple of str
        All contradictions with the declaration; empty if there are none.
    psi_largest, psi_prime_smallest, psi_prime_largest : float
        Largest ``|psi|`` and extremes of ``psi'`` found.

    Privacy
    -------
    A property of the loss: no record is read.
    """

    findings: tuple[str, ...]
    psi_largest: float
    psi_prime_smallest: float
    psi_prime_largest: float

    @property
    def passed(self) -> bool:
        """True if nothing contradicts the declaration."""
        return not self.findings

    def __str__(self) -> str:
        ranges = (
            f"|psi| up to {self.psi_largest:.6g}; psi' from {self.psi_prime_smallest:.6g} to "
            f"{self.psi_prime_largest:.6g}"
        )
        if self.passed:
            return f"nothing contradicts the declared constants ({ranges})"
        return "\n".join([*self.findings, f"({ranges})"])


def check_loss(loss: Loss) -> LossReport:
    """Search for residuals at which a loss contradicts its declared constants.

    It looks for ``|psi|`` above ``psi_bound``, ``psi'`` outside its bounds, and values that are not
    numbers.  It also looks for wrong derivatives, and violations of the coupling and of the
    self-concordance constant.  The residuals are a grid from 1e-9 to 1e12 with both signs, refined
    at the largest values, and infinity.

    Parameters
    ----------
    loss : Loss
        Usually a :class:`dpfast.CustomLoss`, whose functions are called directly, without the
        kernels' clipping.

    Privacy
    -------
    Touches no records.  A search can miss a violation: the kernels enforce the declared constants
    anyway (claim C31).  A violation means that values are clipped, so that the estimate is not the
    intended one.

    Examples
    --------
    >>> dpfast.audit.check_loss(dpfast.models.OstrovskiiBach(1.5)).passed
    True
    """
    if not isinstance(loss, Loss) or loss.binary_response:
        raise InvalidInput(
            f"loss must be a dpfast loss of a residual; received {described(loss, text=True)}."
        )
    return _Check(loss).report()


class _Check:
    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        tail = np.geomspace(1e-9, 1e12, 400)
        middle = np.linspace(-30.0, 30.0, 6001) * max(1.0, min(loss.psi_bound, 10.0))
        self.r = np.unique(np.concatenate([middle, tail, -tail]))
        self.findings: list[str] = []

    def _values(self, which: int, r: Any) -> Array:
        r = np.atleast_1d(np.asarray(r, dtype=float))
        with np.errstate(all="ignore"):
            if not isinstance(self.loss, CustomLoss):
                return np.asarray((self.loss.loss, self.loss.psi, self.loss.psi_prime)[which](r))
            function = self.loss.functions[which]
            return np.array([_number(function, float(v)) for v in r])

    def _largest(self, which: int, sign: float) -> float:
        """Return the largest value of sign * function, refined between grid neighbours."""
        values = sign * self._values(which, self.r)
        values[np.isnan(values)] = -math.inf
        at = int(values.argmax())
        low, high = self.r[max(at - 1, 0)], self.r[min(at + 1, len(self.r) - 1)]
        optimum = minimize_scalar(
            lambda v: -sign * float(self._values(which, v)[0]), bounds=(low, high), method="bounded"
        )
        infinite = sign * self._values(which, [-math.inf, math.inf])
        return float(np.nanmax([values[at], -float(optimum.fun), *infinite]))

    def report(self) -> LossReport:
        psi = max(self._largest(1, 1.0), self._largest(1, -1.0))
        smallest, largest = -self._largest(2, -1.0), self._largest(2, 1.0)
        low = 0.0 if self.loss.has_curvature else -self.loss.psi_prime_bound
        self._exceeds(psi, self.loss.psi_bound, "|psi|", "psi_bound")
        self._exceeds(largest, self.loss.psi_prime_bound, "psi'", "psi_prime_bound")
        if smallest < low - SLACK * self.loss.psi_prime_bound:
            self.findings.append(
                f"psi' falls to {smallest:.6g}, below {low:g}"
                + (": declare convex=False" if low == 0.0 else "")
            )
        for which, name in enumerate(("loss", "psi", "psi_prime")):
            missing = self.r[np.isnan(self._values(which, self.r))]
            if len(missing):
                self.findings.append(f"{name} is not a number at r = {missing[0]:.6g}")
        self._derivative(0, "psi", "the loss", self.loss.psi_bound)
        self._derivative(1, "psi_prime", "psi", self.loss.psi_prime_bound)
        self._relations()
        return LossReport(tuple(self.findings), psi, smallest, largest)

    def _exceeds(self, value: float, bound: float, what: str, name: str) -> None:
        if value > bound * (1.0 + SLACK):
            self.findings.append(f"{what} reaches {value:.6g}, above {name} = {bound:g}")

    def _derivative(self, which: int, name: str, of: str, bound: float) -> None:
        r = self.r[np.abs(self.r) <= 100.0]
        step = 1e-5 * np.maximum(1.0, np.abs(r))
        numeric = (self._values(which, r + step) - self._values(which, r - step)) / (2.0 * step)
        error = np.abs(numeric - self._values(which + 1, r))
        wrong = error > 1e-3 * bound
        if wrong.mean() > KINKS:
            at = int(np.nanargmax(np.where(wrong, error, -1.0)))
            self.findings.append(
                f"{name} is not the derivative of {of}: at r = {r[at]:.6g} it differs from "
                f"differences by {error[at]:.3g}"
            )

    def _relations(self) -> None:
        loss, r = self.loss, self.r
        tau = np.abs(self._values(1, r)) / loss.psi_bound
        slope = self._values(2, r)
        if loss.coupling == "one-minus-square":
            excess = slope / loss.psi_prime_bound - (1.0 - tau**2)
            if np.nanmax(excess) > 1e-6:
                at = int(np.nanargmax(excess))
                self.findings.append(
                    f"the coupling one-minus-square fails at r = {r[at]:.6g} by {excess[at]:.3g}"
                )
        if loss.self_concordance < math.inf:
            moderate = r[np.abs(r) <= 30.0]
            third = (
                np.abs(self._values(2, moderate + 1e-5) - self._values(2, moderate - 1e-5)) / 2e-5
            )
            excess = third - loss.self_concordance * self._values(2, moderate)
            if np.nanmax(excess) > 1e-4 * loss.psi_prime_bound:
                at = int(np.nanargmax(excess))
                self.findings.append(
                    f"|psi''| exceeds self_concordance * psi' at r = {moderate[at]:.6g} by "
                    f"{excess[at]:.3g}"
                )


def _number(function: Any, r: float) -> float:
    """Return the function's value, or NaN where Python raises and Numba would not."""
    try:
        return float(function(r))
    except (ArithmeticError, ValueError):
        return math.nan
