"""What a certificate and a release cost and which noise they get: public numbers only.

Everything is a function of the budget, the public constants and the *released* certificate, so it
can be chosen after the certificate is seen (claim R8 holds for every choice).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.budget import ApproxDP, Budget, PureDP
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.condition import (
    LogScale,
    largest_bound,
    log_scale,
    proportional_factors,
    proportional_tolerances,
    psi_over_delta,
)
from dpfast.privacy.release.leverage import LeveragePlan
from dpfast.privacy.release.scaled import LAWS, grid_delta, law_scale
from dpfast.privacy.release.sensitivity import (
    EVALUATION,
    MOST_EVALUATION,
    FunctionalFactors,
    calibrate_choices,
    calibrate_parameter,
    evaluation_error,
    functional_factors,
    hessian_ratio,
    public_scale,
    small_enough,
    tail_count,
)
from dpfast.privacy.release.smooth_minimiser import SmoothPlan
from dpfast.privacy.rounding import MARGIN_8000

__all__ = [
    "FunctionalTerms",
    "Measure",
    "ParameterTerms",
    "Size",
    "Terms",
    "functional_terms",
    "largest_scale",
    "parameter_terms",
    "proportional_terms",
]

#: Tolerances of the ratio of scales to choose from, after the certificate is seen.
TOLERANCES = (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.045, 0.065, 0.1, 0.14, 0.19, 0.25)

#: Normal noise is best for many numbers only, and a law more makes the others' noise larger.
FEW_NUMBERS = 4


class Size(NamedTuple):
    """What a direction's noise depends on beside the certificate.

    Attributes
    ----------
    norm : float
        Length of the direction, as measured by the plan.
    support : float or None
        ``sup |w'x|`` over the domain, where that bounds the scale further (claim R7).
    alignment : float
        Guess of ``sup |x'H^-1 w|`` relative to its bound, where no support is given.  Only the
        choice among tolerances depends on it.
    """

    norm: float
    support: float | None
    alignment: float = 1.0


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
        Certificate: what its integers cost, and how often a bound may fail.
    noise : str
        Law of a functional's noise, or ``"auto"`` for the best, after the certificate is seen.
    n_functionals : int
        Number of functionals.
    reserve : float
        Part of delta kept for a fallback.
    certificates : int
        Integers of the certificate, which share epsilon1 and delta1 equally: the smallest
        eigenvalue's, and that of the largest if there are two.
    """

    what: str
    epsilon: float
    delta: float
    epsilon1: float
    delta1: float
    noise: str = "auto"
    n_functionals: int = 1
    reserve: float = 0.0
    certificates: int = 1

    @property
    def budget(self) -> Budget:
        """What opening the release charges."""
        if self.delta == 0.0:
            return PureDP(self.epsilon1)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def label(self) -> str:
        """What the charge is for; each query is named by a part of it."""
        parts = ["certificate"] + ["largest eigenvalue"] * (self.certificates > 1)
        parts += [self.what] * (self.what != "nothing")
        return " + ".join(parts + ["perturbed minimiser"] * (self.reserve > 0.0))

    def certificate_mu(self, ratio: float) -> float:
        """Gaussian-DP reading of the certificate for an audit."""
        return PureDP(self.epsilon1).as_gdp().mu if self.delta == 0.0 else ratio

    @property
    def count_epsilon(self) -> float:
        """What each integer of the certificate costs."""
        return self.epsilon1 / self.certificates

    @property
    def laws(self) -> tuple[str, ...]:
        """Laws of the noise among which one is chosen after the certificate is seen."""
        if self.noise != "auto":
            return (self.noise,)
        return ("laplace", "student") if self.n_functionals < FEW_NUMBERS else LAWS

    def tail(self) -> int:
        """How far the noise of each integer is taken to reach (claims R5 and R28)."""
        return tail_count(self.count_epsilon, self.delta1 / self.certificates)

    def upper_bound(self, count: int, scale: LogScale) -> float:
        """Upper bound of the largest eigenvalue, wrong as often as the lower bound (claim R28)."""
        return largest_bound(count, self.tail(), scale)


def largest_scale(plan: MinimiserPlan, l0: float) -> LogScale | None:
    """How the largest eigenvalue is counted, or None if the lower bound is too low for it."""
    v = hessian_ratio(plan.step, l0)
    if not small_enough(v, plan.solver_error):
        return None
    return log_scale(v, plan.solver_error, plan.floor, plan.largest)


class FunctionalTerms(NamedTuple):
    """How one functional is released, from public and released numbers.

    Attributes
    ----------
    l0 : float
        Lower bound of what is certified.
    law : str
        Law of the noise.
    tau : float
        Tolerance of the ratio of neighbouring scales.
    factors : FunctionalFactors
    multiplier : float
        Noise over omega.
    shift_bound, scale_bound : float
        Public bounds of omega, and of the scale of the noise.
    """

    l0: float
    law: str
    tau: float
    factors: FunctionalFactors
    multiplier: float
    shift_bound: float
    scale_bound: float

    @property
    def deviation(self) -> float:
        """Public bound of the standard deviation of the noise."""
        return self.scale_bound * law_scale(self.law)


class ParameterTerms(NamedTuple):
    """How the whole parameter is released."""

    l0: float
    shift: float
    noise_scale: float


def functional_terms(
    plan: MinimiserPlan | LeveragePlan, terms: Terms, l0: float, sizes: Sequence[Size]
) -> tuple[FunctionalTerms, ...] | None:
    """The law and the tolerance with the least noise, or None if nothing can be certified.

    One law and one tolerance for all of the functionals, which claims R30 and R34 calibrate.

    Parameters
    ----------
    plan : MinimiserPlan or LeveragePlan
    terms : Terms
    l0 : float
        Released lower bound of what the plan measures.
    sizes : sequence of Size
        One for each of ``terms.n_functionals`` directions.
    """
    # of the neighbours of the data, too, whose curvature may be half of it
    error = evaluation_error(plan.dimension, plan.largest, 0.5 * l0 / plan.spread)
    if error > MOST_EVALUATION:
        return None
    solver_error = plan.solver_error + (3.0 * error if error > EVALUATION else 0.0)
    v = hessian_ratio(plan.step, l0)
    best: tuple[FunctionalTerms, ...] | None = None
    least = math.inf
    for (law, tau), multiplier in functional_multipliers(terms).items():
        factors = functional_factors(v, tau, solver_error)
        if factors is None:
            continue
        noise = _Noise(law, tau, multiplier)
        found = _with_noise(plan, l0, noise, factors, sizes, solver_error)
        if (guess := _guess(found, sizes, plan.radius)) < least:
            best, least = found, guess
    return best


class _Noise(NamedTuple):
    law: str
    tau: float
    multiplier: float


def _guess(choices: tuple[FunctionalTerms, ...], sizes: Sequence[Size], radius: float) -> float:
    """Logarithm of the product of the deviations, up to a constant that is the same for all."""
    logarithms = []
    for choice, (norm, support, alignment) in zip(choices, sizes, strict=True):
        if support is not None:
            alignment = min(1.0, support / (radius * norm))
        # half-way between the bound and the guess of Delta, as in claim R7
        part = choice.factors.A * 0.5 * (1.0 + alignment) + choice.factors.Bc
        logarithms.append(math.log(choice.multiplier * law_scale(choice.law) * part))
    return math.fsum(logarithms)


def proportional_terms(
    plan: MinimiserPlan,
    terms: Terms,
    l0: float,
    largest: float,
    inner_radius: float,
    sizes: Sequence[Size],
) -> tuple[FunctionalTerms, ...] | None:
    """Noise in proportion to Delta, or None if nothing can be certified (claims R29 and R34).

    Parameters
    ----------
    largest : float
        Released upper bound of the largest eigenvalue.
    inner_radius : float
        Of the domain.
    plan, terms, l0, sizes
        As for :func:`functional_terms`.
    """
    if evaluation_error(plan.dimension, plan.largest, 0.5 * l0) > EVALUATION:
        return None
    e = plan.solver_error
    spread = psi_over_delta(plan.radius, inner_radius, l0, largest, e)
    found = proportional_factors(hessian_ratio(plan.step, l0), spread, e)
    if found is None:
        return None
    factors = FunctionalFactors(found.factor, 0.0)
    # the scale is the same for every law here
    multipliers = functional_multipliers(terms)
    allowed = [_Noise(law, tau, b) for (law, tau), b in multipliers.items() if tau == found.tau]
    if not allowed:
        return None
    noise = min(allowed, key=lambda noise: noise.multiplier * law_scale(noise.law))
    return _with_noise(plan, l0, noise, factors, sizes, e)


def _with_noise(
    plan: MinimiserPlan | LeveragePlan,
    l0: float,
    noise: _Noise,
    factors: FunctionalFactors,
    sizes: Sequence[Size],
    solver_error: float,
) -> tuple[FunctionalTerms, ...]:
    law, tau, multiplier = noise
    choices = []
    for norm, support, _ in sizes:
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
        bound = multiplier * shift * (1.0 + MARGIN_8000)
        choices.append(FunctionalTerms(l0, law, tau, factors, multiplier, shift, bound))
    return tuple(choices)


def functional_multipliers(terms: Terms) -> dict[tuple[str, float], float]:
    """Noise over omega of each of the functionals, for every law and tolerance that noise allows.

    The one that is used is chosen by the released counts (claims R8, R24, R30 and R34).

    Raises
    ------
    InvalidBudget
        If the grid of a release would be too coarse for the budget.
    """
    delta = terms.delta - terms.reserve
    grid = grid_delta(terms.epsilon, terms.n_functionals)
    if not delta - terms.delta1 > 2.0 * grid:
        raise InvalidBudget(
            f"delta = {described(terms.delta)} is too small beside the precision of the noise at "
            f"epsilon = {described(terms.epsilon)}. Use a larger delta or a smaller epsilon."
        )
    tolerances = TOLERANCES if terms.certificates == 1 else proportional_tolerances()
    choices = tuple((law, tau) for law in terms.laws for tau in tolerances)
    multipliers = calibrate_choices(
        terms.epsilon,
        delta,
        terms.epsilon1,
        terms.delta1,
        choices,
        other_delta=grid,
        certificates=terms.certificates,
        count=terms.n_functionals,
    )
    return {choice: b for choice, b in zip(choices, multipliers, strict=True) if b < math.inf}


def parameter_terms(
    plan: MinimiserPlan | SmoothPlan, terms: Terms, l0: float
) -> ParameterTerms | None:
    """Noise of the whole parameter, or None if nothing can be certified (claims R4, R21, R26)."""
    shift = plan.shift(l0)
    if not shift < math.inf:
        return None
    multiplier = parameter_multiplier(terms, plan.dimension)
    if not multiplier < math.inf:
        return None
    return ParameterTerms(l0, shift, gaussian_scale(shift, 1.0 / multiplier, plan.dimension))


def parameter_multiplier(terms: Terms, dimension: int) -> float:
    """Noise over shift of the whole parameter, infinite if the budget has none to offer.

    Raises
    ------
    InvalidBudget
        If the grid of a release would be too coarse for it.
    """
    multiplier = calibrate_parameter(
        terms.epsilon, terms.delta - terms.reserve, terms.epsilon1, terms.delta1
    )
    if multiplier < math.inf:
        gaussian_scale(1.0, 1.0 / multiplier, dimension)
    return multiplier
