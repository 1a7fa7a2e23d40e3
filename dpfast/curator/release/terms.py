"""What a certificate and a release cost and which noise they get: public numbers only.

Everything is a function of the budget, the public constants and the *released* certificate, so it
can be chosen after the certificate is seen (claims R8 and R35 hold for every choice).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.budget import ApproxDP, PureDP, amount
from dpfast.privacy.conversions import ratio_to_float, written
from dpfast.privacy.mechanisms import gaussian_scale
from dpfast.privacy.release.calibration import calibrate_functionals, calibrate_parameter
from dpfast.privacy.release.capped import capped_tail
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.condition import (
    LogScale,
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
    evaluation_error,
    functional_factors,
    hessian_ratio,
    public_scale,
    small_enough,
    tail_count,
)
from dpfast.privacy.release.smooth_minimiser import SmoothPlan
from dpfast.privacy.rounding import MARGIN_8000

#: Tolerances of the ratio of scales to choose from, after the certificate is seen: from what needs
#: the least noise to what certifies the earliest.
TOLERANCES = tuple([float(f"{0.0005 * 1.1**k:.4g}") for k in range(70)])


#: Part of delta that is kept for the fallback of a whole parameter.
RESERVE_SHARE = 0.1


def in_units(part: float, whole: float) -> float:
    """A part in units of the last place of a whole, rounded down.

    Sums and differences of such parts, up to the whole, have no rounding.
    """
    return math.floor(part / math.ulp(whole)) * math.ulp(whole)


def difference(whole: ApproxDP, part: ApproxDP) -> ApproxDP:
    """What is left of a budget: together with the part exactly the whole at most."""
    pairs = zip(whole.values(), part.values(), strict=True)
    left = [Fraction(*written(a)) - Fraction(*written(b)) for a, b in pairs]
    return ApproxDP(*[ratio_to_float(x.numerator, x.denominator, up=False) for x in left])


class Size(NamedTuple):
    """What a direction's noise depends on beside the certificate."""

    #: Length of the direction, as measured by the plan.
    norm: float
    #: ``sup |w'x|`` over the domain, where that bounds the scale further (claim R7).
    support: float | None
    #: Guess of ``sup |x'H^-1 w|`` relative to its bound, where no support is given.  Only the
    #: choice among tolerances depends on it.
    alignment: float = 1.0


#: What a certificate measures: the smallest eigenvalue, or the inverse of the largest leverage.
Measure = MinimiserPlan | SmoothPlan | LeveragePlan


class Terms(NamedTuple):
    """Budget of a certificate and what follows it."""

    #: ``"functional"``, ``"parameter"`` or ``"nothing"``.
    what: str
    #: epsilon, delta: Total of both; ``delta = 0`` for a certificate alone, whose bound may fail
    #: with probability ``delta1`` but whose privacy is pure.
    epsilon: float
    delta: float
    #: epsilon1, delta1: Certificate: what its integers cost, and how often a bound may fail.
    epsilon1: float
    delta1: float
    #: Law of a functional's noise, or ``"auto"`` for the best, after the certificate is seen.
    noise: str = "auto"
    #: Number of functionals.
    n_functionals: int = 1
    #: Whether there is something to release in place of what is not certified.
    fallback: bool = False
    #: Integers of the certificate, which share epsilon1 and delta1 equally: the smallest
    #: eigenvalue's, and that of the largest if there are two.
    certificates: int = 1

    @property
    def reserve(self) -> float:
        """Part of delta kept for a fallback: none beside functionals, whose place it takes."""
        kept = self.fallback and self.what == "parameter"
        return self.delta * RESERVE_SHARE if kept else 0.0

    @property
    def rest(self) -> ApproxDP:
        """What is left beside the certificate: exactly no more (claim R35)."""
        whole = ApproxDP(self.epsilon, self.delta)
        return difference(whole, ApproxDP(self.epsilon1, self.delta1))

    @property
    def for_fallback(self) -> ApproxDP:
        """What a fallback may cost: all of that, or what was set aside beside a parameter."""
        rest = self.rest
        return rest if self.later else amount(ApproxDP, rest.epsilon, self.reserve)

    @property
    def budget(self) -> ApproxDP | PureDP:
        """All of it."""
        if self.delta == 0.0:
            return PureDP(self.epsilon1)
        return ApproxDP(self.epsilon, self.delta)

    @property
    def later(self) -> bool:
        """Whether what follows the certificate is charged when it is asked for (claim R35)."""
        return self.what == "functional"

    @property
    def opening(self) -> ApproxDP | PureDP:
        """What opening the release charges: a parameter is not calibrated alone (claim R8)."""
        return ApproxDP(self.epsilon1, self.delta1) if self.later else self.budget

    @property
    def label(self) -> str:
        """What the first charge is for; each query is named by a part of it."""
        parts = ["certificate"] + ["largest eigenvalue"] * (self.certificates > 1)
        if self.what == "parameter":
            parts += ["parameter"] + ["perturbed minimiser"] * self.fallback
        return " + ".join(parts)

    @property
    def count_epsilon(self) -> float:
        """What each integer of the certificate costs."""
        return self.epsilon1 / self.certificates

    @property
    def laws(self) -> tuple[str, ...]:
        """Laws of the noise among which one is chosen after the certificate is seen."""
        return LAWS if self.noise == "auto" else (self.noise,)

    @property
    def cap(self) -> int | None:
        """What no count's noise exceeds, where that asks for less than a tail (claim R36)."""
        if not self.later:
            return None
        count = self.count_epsilon, self.delta1 / self.certificates
        capped = capped_tail(*count)
        return capped if capped < tail_count(*count) else None

    @property
    def failure(self) -> float:
        """With which probability a bound may be wrong."""
        return self.delta1 if self.cap is None else 0.0

    def tail(self) -> int:
        """How far the noise of each integer is taken to reach (claims R5, R28 and R36)."""
        if (cap := self.cap) is not None:
            return cap
        return tail_count(self.count_epsilon, self.delta1 / self.certificates)


def largest_scale(plan: MinimiserPlan, l0: float) -> LogScale | None:
    """How the largest eigenvalue is counted, or None if the lower bound is too low for it."""
    v = hessian_ratio(plan.step, l0)
    if not small_enough(v, plan.solver_error):
        return None
    return log_scale(v, plan.solver_error, plan.floor, plan.largest)


class FunctionalTerms(NamedTuple):
    """How one functional is released, from public and released numbers."""

    #: Lower bound of what is certified.
    l0: float
    #: Law of the noise.
    law: str
    #: Tolerance of the ratio of neighbouring scales.
    tau: float
    factors: FunctionalFactors
    #: Noise over omega.
    multiplier: float
    #: shift_bound, scale_bound: Public bounds of omega, and of the scale of the noise.
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

    One law and one tolerance for all of the functionals, which claims R30 and R35 calibrate.
    """
    # of the neighbours of the data, too, whose curvature may be half of it
    error = evaluation_error(plan.dimension, plan.largest, 0.5 * l0 / plan.spread)
    if error > MOST_EVALUATION:
        return None
    solver_error = plan.solver_error + (3.0 * error if error > EVALUATION else 0.0)
    v = hessian_ratio(plan.step, l0)
    best: tuple[Noise, FunctionalFactors] | None = None
    least = math.inf
    for noise in functional_noises(terms):
        factors = functional_factors(v, noise.tau, solver_error)
        if factors is None:
            continue
        if (guess := _guess(noise, factors, sizes, plan.radius)) < least:
            best, least = (noise, factors), guess
    return None if best is None else _with_noise(plan, l0, *best, sizes, solver_error)


def _guess(noise: Noise, factors: FunctionalFactors, sizes: Sequence[Size], radius: float) -> float:
    """Logarithm of the product of the deviations, up to a constant that is the same for all."""
    product = len(sizes) * math.log(noise.deviation)
    for norm, support, alignment in sizes:
        if support is not None:
            alignment = min(1.0, support / (radius * norm))
        # half-way between the bound and the guess of Delta, as in claim R7
        product += math.log(factors.A * 0.5 * (1.0 + alignment) + factors.Bc)
    return product


def proportional_terms(
    plan: MinimiserPlan,
    terms: Terms,
    l0: float,
    largest: float,
    inner_radius: float,
    sizes: Sequence[Size],
) -> tuple[FunctionalTerms, ...] | None:
    """Noise in proportion to Delta, or None if nothing can be certified (claims R29 and R35)."""
    if evaluation_error(plan.dimension, plan.largest, 0.5 * l0) > EVALUATION:
        return None
    e = plan.solver_error
    spread = psi_over_delta(plan.radius, inner_radius, l0, largest, e)
    found = proportional_factors(hessian_ratio(plan.step, l0), spread, e)
    if found is None:
        return None
    factors = FunctionalFactors(found.factor, 0.0)
    for noise in functional_noises(terms):
        if noise.tau == found.tau:
            return _with_noise(plan, l0, noise, factors, sizes, e)
    return None


def _with_noise(
    plan: MinimiserPlan | LeveragePlan,
    l0: float,
    noise: Noise,
    factors: FunctionalFactors,
    sizes: Sequence[Size],
    solver_error: float,
) -> tuple[FunctionalTerms, ...]:
    law, tau, multiplier = noise
    choices = []
    for norm, support, _ in sizes:
        shift = public_scale(
            *factors, plan.slope, plan.radius, plan.n, l0, norm,
            support=support, solver_error=solver_error,
        )  # fmt: skip
        bound = multiplier * shift * (1.0 + MARGIN_8000)
        choices.append(FunctionalTerms(l0, law, tau, factors, multiplier, shift, bound))
    return tuple(choices)


class Noise(NamedTuple):
    """Law, tolerance of the ratio of scales, and noise over omega."""

    law: str
    tau: float
    multiplier: float

    @property
    def deviation(self) -> float:
        """Standard deviation over omega."""
        return self.multiplier * law_scale(self.law)


@lru_cache(maxsize=64)
def functional_noises(terms: Terms) -> tuple[Noise, ...]:
    """The law with the least noise for each tolerance that noise allows.

    The one that is used is chosen by the released counts (claims R24, R30 and R35).
    """
    rest = terms.rest
    grid = grid_delta(rest.epsilon, terms.n_functionals)
    if not rest.delta > 2.0 * grid:
        raise InvalidBudget(
            f"delta = {described(terms.delta)} is too small beside the precision of the noise at "
            f"epsilon = {described(terms.epsilon)}. Use a larger delta or a smaller epsilon."
        )
    # several numbers take longer to calibrate
    tolerances = TOLERANCES if terms.n_functionals == 1 else TOLERANCES[::2]
    if terms.certificates > 1:
        tolerances = proportional_tolerances()
    choices = tuple((law, tau) for law in terms.laws for tau in tolerances)
    multipliers = calibrate_functionals(
        *rest.values(), choices, count=terms.n_functionals, other_delta=grid
    )
    allowed = [
        Noise(law, tau, b)
        for (law, tau), b in zip(choices, multipliers, strict=True)
        if b < math.inf
    ]
    quietest: dict[float, Noise] = {}
    for noise in sorted(allowed, key=lambda noise: noise.deviation):
        quietest.setdefault(noise.tau, noise)
    return tuple(quietest.values())


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
    """Noise over shift of the whole parameter, infinite if the budget has none to offer."""
    multiplier = calibrate_parameter(
        terms.epsilon, terms.delta - terms.reserve, terms.epsilon1, terms.delta1
    )
    if multiplier < math.inf:
        gaussian_scale(1.0, 1.0 / multiplier, dimension)
    return multiplier
