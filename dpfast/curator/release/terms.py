"""Costs and noise of a certificate and a release, from public numbers (claim R35)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidBudget, described
from dpfast.models import Domain
from dpfast.privacy.budget import GDP, ApproxDP, PureDP
from dpfast.privacy.decimals import ratio_to_float, written
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.release.calibration import functional_multiplier
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.scaled import grid_delta
from dpfast.privacy.release.sensitivity import (
    EVALUATION,
    LogScale,
    evaluation_error,
    hessian_ratio,
    log_scale,
    proportional_factors,
    psi_over_delta,
    public_scale,
    small_enough,
    tail_count,
)
from dpfast.privacy.release.smooth_minimiser import SmoothPlan
from dpfast.privacy.rounding import ROUNDING_SUM


def difference(total: ApproxDP, part: ApproxDP) -> ApproxDP:
    """Subtract a part from a budget, rounded so that the two together never exceed it."""
    pairs = zip(total.values(), part.values(), strict=True)
    remaining = [Fraction(*written(a)) - Fraction(*written(b)) for a, b in pairs]
    return ApproxDP(*[ratio_to_float(x.numerator, x.denominator, up=False) for x in remaining])


def shared(amount: float, count: int) -> float:
    """Divide an amount by ``count``, rounded so that the parts together never exceed it."""
    numerator, denominator = written(amount)
    return ratio_to_float(numerator, denominator * count, up=False)


class Terms(NamedTuple):
    """Budget of a certificate and of the release after it."""

    #: ``"functional"``, ``"parameter"`` or ``"nothing"``.
    what: str
    #: epsilon, delta: Total of both; ``delta = 0`` for a certificate alone, whose bound may fail
    #: with probability ``delta1`` but whose privacy is pure.
    epsilon: float
    delta: float
    #: epsilon1, delta1: Certificate: what its integers cost, and how often a bound may fail.
    epsilon1: float
    delta1: float
    #: Number of functionals.
    n_functionals: int = 1
    #: Integers of the certificate, which share epsilon1 and delta1 equally: the smallest
    #: eigenvalue's, and that of the largest if there are two.
    certificates: int = 1

    @property
    def budget(self) -> ApproxDP | PureDP:
        """Whole budget."""
        if self.delta == 0.0:
            return PureDP(self.epsilon1)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def opening(self) -> ApproxDP | PureDP:
        """Charge for the opening of the release."""
        if self.what == "nothing":
            return self.budget
        return ApproxDP(self.epsilon1, self.delta1)

    @property
    def rest(self) -> ApproxDP:
        """Budget left after the certificate, never rounded up (claim R35)."""
        total = ApproxDP(self.epsilon, self.delta)
        return difference(total, ApproxDP(self.epsilon1, self.delta1))

    @property
    def count_epsilon(self) -> float:
        """Epsilon of each integer of the certificate."""
        return self.epsilon1 / self.certificates

    def tail(self) -> int:
        """Bound the noise of each integer, up to its failure probability (claims R5 and R28)."""
        return tail_count(self.count_epsilon, self.delta1 / self.certificates)

    def multiplier(self, tau: float) -> float:
        """Compute noise over omega of each functional at a tolerance; infinite if none (R35)."""
        epsilon, delta = (shared(amount, self.n_functionals) for amount in self.rest.values())
        grid = grid_delta(epsilon)
        if not delta > 2.0 * grid:
            raise InvalidBudget(
                f"delta = {described(self.delta)} is too small beside the precision of the noise "
                f"at epsilon = {described(self.epsilon)}. Use a larger delta or a smaller epsilon."
            )
        return functional_multiplier(epsilon, delta, tau, other_delta=grid)

    def scale(self, shift: float, dimension: int) -> float:
        """Compute the noise scale of a whole parameter that moves by ``shift`` (claim R35)."""
        return gaussian_scale(shift, GDP.within(self.rest).mu, dimension)


def largest_scale(plan: MinimiserPlan, l0: float) -> LogScale | None:
    """Calibrate the count of the largest eigenvalue; None if the lower bound is too low."""
    v = hessian_ratio(plan.step, l0)
    if not small_enough(v, plan.solver_error):
        return None
    return log_scale(v, plan.solver_error, plan.floor, plan.largest)


class FunctionalTerms(NamedTuple):
    """Noise of one functional, from public and released numbers."""

    #: Tolerance of the ratio of neighbouring scales.
    tau: float
    #: omega over Delta, and noise over omega.
    factor: float
    multiplier: float
    #: shift_bound, scale_bound: Public bounds of omega, and of the scale of the noise.
    shift_bound: float
    scale_bound: float


class ParameterTerms(NamedTuple):
    """Noise of the whole parameter."""

    l0: float
    shift: float
    noise_scale: float


def functional_terms(
    plan: MinimiserPlan,
    terms: Terms,
    l0: float,
    largest: float,
    domain: Domain,
    directions: Iterable[Array],
) -> tuple[FunctionalTerms, ...] | None:
    """Calibrate noise proportional to Delta; None without a certificate (R29 and R35)."""
    if evaluation_error(plan.dimension, plan.largest, 0.5 * l0) > EVALUATION:
        return None
    e = plan.solver_error
    spread = psi_over_delta(plan.radius, domain.inner_radius, l0, largest, e)
    factors = proportional_factors(hessian_ratio(plan.step, l0), spread, e)
    if factors is None:
        return None
    multiplier = terms.multiplier(factors.tau)
    if not multiplier < math.inf:
        return None
    choices = []
    for w in directions:
        shift = public_scale(
            factors.factor, plan.slope, plan.radius, plan.n, l0, float(np.linalg.norm(w)),
            support=domain.support(w), solver_error=e,
        )  # fmt: skip
        bound = multiplier * shift * (1.0 + ROUNDING_SUM)
        choices.append(FunctionalTerms(factors.tau, factors.factor, multiplier, shift, bound))
    return tuple(choices)


def parameter_terms(
    plan: MinimiserPlan | SmoothPlan, terms: Terms, l0: float
) -> ParameterTerms | None:
    """Calibrate noise of the whole parameter; None without a certificate (R4, R21, R26)."""
    shift = plan.shift(l0)
    if not shift < math.inf:
        return None
    return ParameterTerms(l0, shift, terms.scale(shift, plan.dimension))
