"""What a certificate and a release cost and which noise they get: public numbers only.

Everything is a function of the budget, the public constants and the *released* certificate, so it
can be chosen after the certificate is seen (claim R8 holds for every choice).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.errors import InvalidBudget
from dpfast.privacy.budget import ApproxDP, Budget, PureDP
from dpfast.privacy.certified_minimiser import MinimiserPlan
from dpfast.privacy.leverage import LeveragePlan
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.scaled_release import grid_delta
from dpfast.privacy.sensitivity_release import (
    EVALUATION,
    MOST_EVALUATION,
    FunctionalFactors,
    calibrate_functional,
    calibrate_parameter,
    evaluation_error,
    functional_factors,
    hessian_ratio,
    lower_bound_from_release,
    public_scale,
    tail_count,
)
from dpfast.privacy.smooth_minimiser import SmoothPlan

__all__ = [
    "FunctionalTerms",
    "Measure",
    "ParameterTerms",
    "Terms",
    "functional_terms",
    "parameter_terms",
]

#: Tolerances of the ratio of scales to choose from, after the certificate is seen.
TOLERANCES = (0.01, 0.015, 0.02, 0.03, 0.045, 0.065, 0.1, 0.14, 0.19, 0.25)


#: What a certificate measures: the smallest eigenvalue, or the inverse of the largest leverage.
Measure = MinimiserPlan | SmoothPlan | LeveragePlan


class Terms(NamedTuple):
    """Budget of a certificate and what follows it.

    Attributes
    ----------
    what : str
        ``"functional"``, ``"parameter"`` or ``"nothing"``.
    epsilon, delta : float
        Total of both; ``delta = 0`` for a certificate alone, whose bound may fail with
        probability ``delta1`` but whose privacy is pure.
    epsilon1, delta1 : float
        Certificate: what its integer costs, and how often its bound may fail.
    noise : str
        Law of a functional's noise.
    n_functionals : int
        Number of functionals.
    reserve : float
        Part of delta kept for a fallback.
    """

    what: str
    epsilon: float
    delta: float
    epsilon1: float
    delta1: float
    noise: str = "laplace"
    n_functionals: int = 1
    reserve: float = 0.0

    @property
    def budget(self) -> Budget:
        """What opening the release charges."""
        if self.what == "nothing":
            return PureDP(self.epsilon1)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def label(self) -> str:
        """What the charge is for; each query is named by a part of it."""
        parts = ["certificate"] + [self.what] * (self.what != "nothing")
        return " + ".join(parts + ["perturbed minimiser"] * (self.reserve > 0.0))

    def certificate_mu(self, ratio: float) -> float:
        """Gaussian-DP reading of the certificate for an audit."""
        return PureDP(self.epsilon1).as_gdp().mu if self.what == "nothing" else ratio

    def tail(self) -> int:
        """How far the certificate's noise is taken to reach (claim R5)."""
        return tail_count(self.epsilon1, self.delta1)

    def lower_bound(self, count: int, plan: Measure) -> float:
        """Lower bound of what is certified, wrong with probability delta1 at most."""
        floor = plan.floor
        return lower_bound_from_release(count, self.tail(), plan.step, plan.eta, lreg=floor)


class FunctionalTerms(NamedTuple):
    """How one functional is released, from public and released numbers.

    Attributes
    ----------
    l0 : float
        Lower bound of what is certified.
    tau : float
        Tolerance of the ratio of neighbouring scales.
    factors : FunctionalFactors
    multiplier : float
        Noise over omega.
    shift_bound, scale_bound : float
        Public bounds of omega, and of the scale of the noise.
    """

    l0: float
    tau: float
    factors: FunctionalFactors
    multiplier: float
    shift_bound: float
    scale_bound: float


class ParameterTerms(NamedTuple):
    """How the whole parameter is released."""

    l0: float
    shift: float
    noise_scale: float


def functional_terms(
    plan: MinimiserPlan | LeveragePlan, terms: Terms, l0: float, norm: float, support: float | None
) -> FunctionalTerms | None:
    """The tolerance with the smallest noise bound, or None if nothing can be certified.

    Parameters
    ----------
    plan : MinimiserPlan or LeveragePlan
    terms : Terms
    l0 : float
        Released lower bound of what the plan measures.
    norm : float
        Length of the direction, as measured by the plan.
    support : float or None
        ``sup |w'x|`` over the domain, where that bounds the scale further (claim R7).
    """
    error = evaluation_error(plan.dimension, plan.largest, l0 / plan.spread)
    if error > MOST_EVALUATION:
        return None
    solver_error = plan.solver_error + (3.0 * error if error > EVALUATION else 0.0)
    v = hessian_ratio(plan.step, l0)
    best: FunctionalTerms | None = None
    for tau in TOLERANCES:
        factors = functional_factors(v, tau, solver_error)
        if factors is None:
            continue
        multiplier = functional_multiplier(terms, tau)
        if not multiplier < math.inf:
            continue
        shift = public_scale(
            factors.A,
            factors.Bc,
            plan.slope,
            plan.radius,
            plan.n,
            l0,
            norm,
            support=support,
            solver_error=solver_error,
        )
        bound = multiplier * shift * (1.0 + 2.0**-40)
        if best is None or bound < best.scale_bound:
            best = FunctionalTerms(l0, tau, factors, multiplier, shift, bound)
    return best


def functional_multiplier(terms: Terms, tau: float) -> float:
    """Noise over omega of each functional (claim R8; R24 for several).

    Of k functionals, each costs a k-th of what the certificate leaves of epsilon and of delta.
    """
    k = terms.n_functionals
    delta = terms.delta - terms.reserve
    part = (terms.epsilon - terms.epsilon1) / k
    share = (delta - terms.delta1) / k
    grid = grid_delta(terms.epsilon)
    if not share > 2.0 * grid:
        raise InvalidBudget(
            f"delta = {terms.delta!r} is too small beside the precision of the noise at epsilon = "
            f"{terms.epsilon!r}. Use a larger delta or a smaller epsilon."
        )
    if k == 1:
        return calibrate_functional(
            terms.epsilon, delta, terms.epsilon1, terms.delta1, tau, terms.noise, other_delta=grid
        )
    # the profile at `part` itself, by way of a certificate that costs next to nothing: its losses
    # are -+2^-30, so every term of the mixture is at least the profile at `part`
    nothing = 2.0**-30
    return calibrate_functional(
        part - nothing,
        terms.delta1 + share,
        nothing,
        terms.delta1,
        tau,
        terms.noise,
        1,
        other_delta=grid,
    )


def parameter_terms(
    plan: MinimiserPlan | SmoothPlan, terms: Terms, l0: float
) -> ParameterTerms | None:
    """Noise of the whole parameter, or None if nothing can be certified (claims R4, R21, R26)."""
    shift = plan.shift(l0)
    if not shift < math.inf:
        return None
    multiplier = calibrate_parameter(
        terms.epsilon, terms.delta - terms.reserve, terms.epsilon1, terms.delta1
    )
    if not multiplier < math.inf:
        return None
    return ParameterTerms(l0, shift, gaussian_scale(shift, 1.0 / multiplier, plan.dimension))
