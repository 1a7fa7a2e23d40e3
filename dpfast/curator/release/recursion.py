"""Recursive eigenvalue certificates: algorithms 2 and 6 and corollary 6.2 of paper 3, corrected.

For comparison, and for losses that are smooth but not self-concordant: the default is one noisy
integer for theorem A (claims R3 and R5).
"""

from __future__ import annotations

import math

from dpfast.errors import InvalidInput, described
from dpfast.kernels.certificates import LINEAR_MODEL, SMOOTH_LOSS, RecursionTable
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import ROWS, lower_bound_from_release, scaled_count
from dpfast.privacy.release.smooth_minimiser import SmoothPlan
from dpfast.privacy.rounding import ROUNDING_ELEMENTARY, ROUNDING_PRODUCT

_UP = 1.0 + ROUNDING_ELEMENTARY


def linear_slope(c: float, rho: float) -> float:
    """``alpha`` with ``exp(c t) - 1 <= alpha t`` for ``t <= (1 - rho)/alpha``, up (eq. (8))."""
    if not (0.0 < rho < 1.0 and 0.0 < c < math.inf):
        raise InvalidInput(
            f"rho must lie in (0, 1) and c be positive and finite; received {described(rho)} and "
            f"{described(c)}."
        )
    return c * (1.0 - rho) / math.log(2.0 - rho) * _UP


class RecursiveCertificate:
    """A public recursion below every neighbour's eigenvalue, with its counts and lower bounds."""

    def __init__(self, table: RecursionTable, ridge: float, lreg: float, eta: float) -> None:
        self.table = table
        self.ridge = ridge
        self.lreg = lreg
        self.eta = eta

    @classmethod
    def linear_model(
        cls,
        c: float,
        B1: float,
        B2: float,
        radius: float,
        n: int,
        lreg: float = 0.0,
        *,
        eta: float = 0.0,
        rho: float = 0.5,
    ) -> RecursiveCertificate:
        """Equation (10) of paper 3, cut at zero, under its condition (C1)."""
        alpha = linear_slope(c, rho)
        square = radius * radius * ROWS * _UP
        g = B2 * square / n * _UP
        bound = 4.0 * B1 * alpha * square / (rho * (1.0 - rho) * n) + g / rho
        threshold = max(0.0, bound * _UP - lreg / rho)
        error = eta + 2.0**-52 * (B2 * square + lreg)
        table = RecursionTable(
            LINEAR_MODEL,
            8.0 * alpha * B1 * square / n * _UP,
            c / (2.0 * alpha) * _UP,
            g,
            lreg,
            threshold,
            B2 * square,
            error,
        )
        return cls(table, lreg, lreg, error)

    @classmethod
    def smooth_loss(
        cls, G0: float, G1: float, G2: float, n: int, lreg: float = 0.0, *, eta: float = 0.0
    ) -> RecursiveCertificate:
        """Corollary 6.2 of paper 3 for convex losses, with the sharper, proved map of claim R12."""
        a = 4.0 * G0 * G2 / n * ROWS * ROWS * _UP
        g = G1 * ROWS / n * _UP
        table = RecursionTable(
            SMOOTH_LOSS, a, 0.0, g, 0.0, math.sqrt(a) * _UP, G1 * ROWS + lreg, eta
        )
        return cls(table, 0.0, lreg, eta)

    @classmethod
    def of_plan(cls, plan: SmoothPlan) -> RecursiveCertificate:
        """Make the certificate of a search whose final gradient is not quite zero (claim R26)."""
        return cls.smooth_loss(
            plan.gradient_bound,
            plan.hessian_bound,
            plan.lipschitz,
            plan.n,
            plan.ridge,
            eta=plan.eta,
        )

    def count(self, lam: float, M: int = COUNT) -> int:
        """Integer of sensitivity M: the certified skip, without iterating (claims R5 and R13)."""
        level = self.table.integral(lam - self.ridge)
        return scaled_count(level, 1.0, self.table.integral_error, M)

    def lower_bound(self, N_hat: int, k: int, M: int = COUNT) -> float:
        """Lower bound of the eigenvalue, ridge included, from the noisy :meth:`count`."""
        error = self.table.integral_error
        level = lower_bound_from_release(N_hat, k, 1.0, error, M)
        return self._eigenvalue(self.table.integral_inverse(level - error))

    def _eigenvalue(self, x: float) -> float:
        below = (x - self.eta) * (1.0 - ROUNDING_PRODUCT) + self.ridge
        return max(self.lreg, below * (1.0 - ROUNDING_PRODUCT)) if x > 0.0 else self.lreg
