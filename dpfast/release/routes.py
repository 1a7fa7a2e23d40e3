"""Choice of the release method from public numbers, and the methods without a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.curator.release.one_step import mean_along, newton_steps, step_rate, step_terms
from dpfast.curator.release.perturbation import (
    PerturbationTerms,
    perturbation_terms,
    perturbed_minimiser,
)
from dpfast.curator.release.terms import difference, shared
from dpfast.errors import InvalidBudget
from dpfast.inference.composition import Composition, Prepaid, Sum, composition_of
from dpfast.models import Loss, release_constants
from dpfast.privacy.budget import GDP, ApproxDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.sensitivity import HELD_CELLS
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.regression.default_fit import DefaultFit
from dpfast.release.pilot import Pilot, pilot_of, plan_run
from dpfast.release.request import FunctionalRequest, RawRequest, ReleaseRequest
from dpfast.solvers.pcn.clipping import ASYMMETRY, choose_clipping_norm
from dpfast.solvers.pcn.histogram import (
    N_FINE_BINS,
    released_norms,
)
from dpfast.solvers.pcn.plan import Setting
from dpfast.solvers.pcn.result import SolverResult

#: Release methods; "paper" is the one with a certificate.
METHODS = ("auto", "one-shot", "fit", "objective-perturbation", "paper")

#: Noise of a curvature at the whole budget, ``2 p^1.5/(n mu)``.  Up to the first level one Newton
#: step from a pilot has the least error, and up to the second a fit.  Above it objective
#: perturbation has, which needs no curvature.  Certified releases have the least error nowhere
#: (bench/results/release_defaults.md).
ONE_SHOT_NOISE, FIT_NOISE = 0.3, 0.5

#: The pilot's share of epsilon is PILOT_SHARE at a curvature noise of REFERENCE_NOISE.  It grows
#: by SHARE_SLOPE for each factor of e, within SHARES.
PILOT_SHARE, REFERENCE_NOISE, SHARE_SLOPE = 0.65, 0.03, 0.08
SHARES = (0.15, 0.8)

#: Limits of the pilot's share of ``mu^2`` for the histogram that finds the clipping bound of a
#: step without a domain.  Above the lower limit the noise of its bins is this part of n.
HISTOGRAM_SHARES, BIN_NOISE = (0.03, 0.12), 0.006

#: Budget of a step without a domain, relative to one with a domain.
RAW_STEP = 0.7

#: A step longer than this many standard deviations of pilot and noise is not taken.
FARTHEST = 3.0

#: Notes about clipping for results without a domain: for a fit, and for a step.
CLIPPED = "; gradients clipped in norm"
INFLUENCE = CLIPPED + " along the step: one record moves a value by at most {limits}"

ONE_FIT = (
    "a part of this budget is too small for the pilot of method='one-shot'; all of it is enough "
    "for one fit. Use method='auto', or dpfast.fit(...).t_test(direction), with a standard error."
)

#: Doublings of the ridge of objective perturbation before a refusal.
DOUBLINGS = 8

#: Beyond so many records that ridge stays constant: rounding error divided by a smaller ridge
#: would need more noise than it saves.
MOST_RECORDS = 1 << 20

#: From so many functionals on a fit has less noise, because its noise does not grow with them.
MANY = 4


class Route(NamedTuple):
    """Release method chosen from public numbers."""

    method: str
    #: The pilot's share of epsilon; 1 without a step after it.
    share: float
    reason: str
    #: Whether the method was chosen here and not by the caller.
    automatic: bool = False


def route(method: str, request: FunctionalRequest, total: ApproxDP, count: int) -> Route:
    """Return the requested method, or the best one by n, p, the budget and the number of rows."""
    level = 2.0 * request.dimension**1.5 / (request.n * GDP.within(total).mu)
    reason = "as requested"
    if method == "auto":
        comparison = f"auto: curvature noise 2 p^1.5/(n mu) = {level:.2g}"
        declared = isinstance(request, ReleaseRequest)
        if level > FIT_NOISE and declared and _can_be_perturbed(request.loss):
            method, reason = "objective-perturbation", f"{comparison} exceeds {FIT_NOISE:g}"
        elif level > ONE_SHOT_NOISE:
            method, reason = "fit", f"{comparison} exceeds {ONE_SHOT_NOISE:g}"
        elif count >= MANY:
            method, reason = "fit", f"auto: {count} functionals share the budget"
        else:
            method, reason = "one-shot", f"{comparison} is at most {ONE_SHOT_NOISE:g}"
    share = PILOT_SHARE + SHARE_SLOPE * math.log(level / REFERENCE_NOISE)
    share = min(max(share, SHARES[0]), SHARES[1])
    if isinstance(request, RawRequest):
        share = 1.0 - RAW_STEP * (1.0 - share)
    automatic = reason != "as requested"
    return Route(method, share if method == "one-shot" else 1.0, reason, automatic)


def _can_be_perturbed(loss: Loss) -> bool:
    return loss.certified and loss.self_concordance < math.inf


class Functionals(NamedTuple):
    """Released functionals, with public numbers about their noise."""

    values: Array
    scales: Array
    law: str
    beyond: Array
    sampling: Array | None = None
    #: Addition to the method's description.
    description: str = ""
    warnings: tuple[str, ...] = ()


def part_of_step(pilot: Array, noise: Array, mean: Any, square: Any) -> tuple[Array, Array]:
    """Choose the fraction of a Newton step, and return it with the remaining pilot error.

    It minimises the mean square of ``error - part (k error + noise)``, from their standard
    deviations and the mean and mean square of k.
    """
    # 0, and so no step, where the numbers are out of range
    part = np.nan_to_num(mean / (square + np.square(noise / pilot)))
    ratio = np.where(part > 0.0, 1.0 - 2.0 * part * mean + np.square(part) * square, 1.0)
    return part, pilot * np.sqrt(np.maximum(ratio, 0.0))


class PlannedMethod(NamedTuple):
    """Planned release method."""

    #: Run the method; spends the budget.
    run: Callable[[], Functionals]
    #: Return what a run that ended early has released, or None.
    so_far: Callable[[], Functionals | None]
    #: Return the composition of all charges.
    spent: Callable[[], Composition]
    #: Description of the method, for the result.
    description: str


def planned_route(
    chosen: Route, request: FunctionalRequest, total: ApproxDP, rows: Array
) -> PlannedMethod:
    """Plan a release method; costs nothing and makes all refusals."""
    if isinstance(request, RawRequest):
        try:
            return _without_domain(chosen, request, total, rows)
        except InvalidBudget:  # decided by public numbers, before any charge
            if chosen.method != "one-shot":
                raise
        whole = Route("fit", 1.0, "auto: a part of the budget is too small for a pilot")
        one_fit = _without_domain(whole, request, total, rows)
        if not chosen.automatic:
            raise InvalidBudget(ONE_FIT)
        return one_fit
    assert isinstance(request, ReleaseRequest)
    if chosen.method == "objective-perturbation":
        return _perturbed(chosen, request, total, rows)
    return _one_shot(chosen, request, total, rows)


def _parts(chosen: Route, total: ApproxDP) -> tuple[ApproxDP, PureDP | None]:
    """Divide the total between the pilot and the step after it (claim R39)."""
    if chosen.method != "one-shot":
        return total, None
    first = ApproxDP(total.epsilon * chosen.share, total.delta)
    return first, PureDP(difference(total, ApproxDP(first.epsilon, 0.5 * total.delta)).epsilon)


def _one_shot(
    chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array
) -> PlannedMethod:
    """Plan a pilot with its curvature and one Newton step per direction, or the pilot alone."""
    first, rest = _parts(chosen, total)
    if rest is not None:
        step_rate(rest.epsilon, len(rows))
    run = plan_run(request, Ledger(GDP.within(first)))
    stepping = request.curator(Ledger(rest if rest is not None else PureDP(first.epsilon)))
    norms = np.linalg.norm(rows, axis=1)
    unit_rows = rows / norms[:, None]
    pilots: list[Functionals] = []

    def of_pilot(pilot: Pilot) -> Functionals:
        spread = np.sqrt(np.einsum("ij,jk,ik->i", unit_rows, pilot.noise, unit_rows))
        unfinished_error = np.abs(unit_rows) @ pilot.unfinished
        return Functionals(norms * (unit_rows @ pilot.theta), norms * spread, "gaussian",
                       norms * unfinished_error, warnings=pilot.warnings)  # fmt: skip

    def release() -> Functionals:
        with np.errstate(all="ignore"):
            pilot = pilot_of(run)
            pilots.append(of_pilot(pilot))
            if rest is None:
                return pilots[0]
            steps = pilot.steps(unit_rows)
            terms = step_terms(stepping, request.domain, steps, rest.epsilon)
            if terms is None:  # released numbers out of range
                return pilots[0]
            step_lengths = newton_steps(stepping, pilot.theta, terms)
            step_lengths = step_lengths + stepping.objective.ridge * (steps @ pilot.theta)
            # mean curvature; without an intercept a lower bound, from rows at the radius
            mean = float(np.trace(pilot.curvature)) / request.domain.radius**2
            if request.domain.intercept:
                mean = float(pilot.curvature[0, 0])
            bend_rate = request.loss.self_concordance / stepping.objective.scale
            return Functionals(
                norms * (unit_rows @ pilot.theta - step_lengths),
                norms * terms.scales,
                "laplace",
                norms * pilot.errors_after_step(steps, mean, bend_rate),
                warnings=pilot.warnings,
            )

    parts = first, rest, [run.curator.ledger], stepping.ledger
    return _with_pilot(chosen, release, pilots, parts, run.optimiser.name)


def _with_pilot(
    chosen: Route,
    run: Callable[[], Functionals],
    pilots: list[Functionals],
    parts: tuple[ApproxDP, PureDP | None, list[Ledger], Ledger],
    name: str,
) -> PlannedMethod:
    """Describe a pilot, and the step after it if it has a budget."""
    first, rest, ledgers, stepping = parts
    description = f"one Newton step from a pilot fit, which has {chosen.share:.2g} of epsilon"
    if rest is None:
        description = f"a private fit, {name}"

    def spent() -> Composition:
        terms = [composition_of(ledger) for ledger in ledgers]
        pilot = Sum(tuple(terms)) if len(terms) > 1 else terms[0]
        if rest is None:
            return Prepaid("a private fit", first, pilot)
        return Sum((Prepaid("a pilot fit", first, pilot), composition_of(stepping)))

    return PlannedMethod(
        run, lambda: next(iter(pilots), None), spent, f"{description}; {chosen.reason}"
    )


class _ClippedPilot(NamedTuple):
    """Functionals of a default fit, and their directions in whitened coefficients."""

    solution: SolverResult
    values: Array
    directions: Array
    #: Norms of the directions.
    sizes: Array
    #: Error that the steps of the fit leave, beside noise.
    unfinished: Array
    sampling: Array
    identified: bool

    @property
    def reached(self) -> bool:
        """Whether a step can be taken along every direction."""
        finite = np.isfinite(self.directions).all()
        return bool(finite and (self.sizes > 0.0).all() and self.identified)

    def functionals(self, warnings: tuple[str, ...]) -> Functionals:
        """Return what is released if no step follows."""
        scales = self.sizes * self.solution.noise
        return Functionals(
            self.values, scales, "gaussian", self.unfinished, self.sampling, CLIPPED, warnings
        )


def _clipped_pilot(
    request: RawRequest, planned: DefaultFit, solution: SolverResult, rows: Array
) -> _ClippedPilot:
    """Map functionals to whitened coefficients, which have a curvature of about one."""
    natural = request.natural()
    coded = rows @ natural.matrix
    unidentified: Any = np.zeros(len(rows), dtype=bool)
    if planned.basis is not None:  # some columns may look constant at this budget
        unidentified = coded[:, ~planned.basis.any(axis=1)].any(axis=1)
        coded = coded @ planned.basis
    directions = coded @ solution.mapping
    spread = np.einsum("ij,jk,ik->i", directions, solution.meat, directions)
    unfinished = np.sqrt(directions**2 @ solution.residual_bias_var)
    return _ClippedPilot(
        solution,
        rows @ natural.constant + coded @ solution.theta,
        directions,
        np.linalg.norm(directions, axis=1),
        np.where(unidentified, np.inf, unfinished),
        np.sqrt(spread / max(1, request.n - request.dimension)),
        not unidentified.any(),
    )


class _ClippedStep(NamedTuple):
    """Steps along unit directions, with the bounds, biases and scales of their scores."""

    lengths: Array
    bounds: Array
    biases: Array
    scales: Array


def _clipped_step(
    pilot: _ClippedPilot,
    setting: Setting,
    queries: PreconditionedQueries,
    ledger: Ledger,
    epsilon: float,
    mu: float,
) -> _ClippedStep:
    """Release the mean score along each direction, clipped at a bound from a histogram."""
    solution, n = pilot.solution, queries.n
    whitened_rows, row_clipping = queries.mapped(solution.mapping), solution.row_clipping
    at = Linearization(solution.unmapping @ solution.theta, setting.loss, solution.scale)
    # with labels all clipped scores have one sign: those of misclassified records
    asymmetry = 1.0 if setting.loss.binary_response else ASYMMETRY
    noise = 2.0 * math.sqrt(2.0) / (n * epsilon)
    lengths, bounds, biases = [], [], []
    for direction in pilot.directions / pilot.sizes[:, None]:
        norms = released_norms(
            whitened_rows,
            mu,
            at,
            "score",
            unit=setting.score_unit,
            row_clipping=row_clipping,
            direction=direction,
        )
        bound, bias = choose_clipping_norm(norms, noise, 1, asymmetry=asymmetry)
        lengths.append(
            mean_along(whitened_rows, direction, bound, epsilon, ledger, at, row_clipping)
        )
        bounds.append(bound)
        biases.append(asymmetry * bias)
    scales = np.array(bounds) * 2.0 / (n * epsilon)
    return _ClippedStep(np.array(lengths), np.array(bounds), np.array(biases), scales)


def _after_step(
    pilot: _ClippedPilot, step: _ClippedStep, n: int, warnings: tuple[str, ...]
) -> Functionals:
    """Take the part of each step that leaves the least error."""
    solution, sizes, scales = pilot.solution, pilot.sizes, step.scales
    # unobserved curvature of long rows lies in one of the directions
    excess = solution.excess_curvature / pilot.directions.shape[1]
    mean, square = 1.0 + excess, 1.0 + excess * (2.0 + solution.excess_curvature)
    unfinished = pilot.unfinished / sizes
    pilot_error = np.hypot(solution.noise, unfinished)
    part, remaining = part_of_step(pilot_error, 2.0**0.5 * scales, mean, square)
    # a step longer than the pilot's error and noise explain comes from unseen records
    variance = square * pilot_error**2 + 2.0 * scales**2
    accepted = np.square(step.lengths) <= FARTHEST**2 * variance
    part = np.where(accepted, part, 0.0)
    # the step's clipped scores can miss what those of the pilot miss
    total_error = np.hypot(np.hypot(remaining, unfinished), part * step.biases)
    influences = sizes * part * step.bounds / n
    return Functionals(
        pilot.values + sizes * part * step.lengths,
        sizes * part * scales,
        "laplace",
        sizes * np.where(accepted, total_error, pilot_error),
        pilot.sampling,
        INFLUENCE.format(limits=", ".join(f"{size:.3g}" for size in influences)),
        warnings,
    )


def _without_domain(
    chosen: Route, request: RawRequest, total: ApproxDP, rows: Array
) -> PlannedMethod:
    """Plan a release without a domain: a default fit is the pilot, and the step clips scores."""
    pilot_budget, rest = _parts(chosen, total)
    count, mu = len(rows), GDP.within(pilot_budget).mu
    needed_share = min(1.0, 2.0**0.5 / (BIN_NOISE * max(1.0, request.n * mu))) ** 2
    share = min(max(needed_share, HISTOGRAM_SHARES[0]), HISTOGRAM_SHARES[1])
    histogram_mu = mu * share**0.5 if rest is not None else 0.0
    planned = request.planned(GDP((mu**2 - histogram_mu**2) ** 0.5 * (1.0 - ROUNDING_SUM)))
    histogram_ledger = Ledger(GDP(histogram_mu) if rest is not None else GDP(mu))
    stepping = Ledger(rest if rest is not None else PureDP(pilot_budget.epsilon))
    step_epsilon, mu_per_bin = 0.0, histogram_mu / count**0.5 * (1.0 - ROUNDING_SUM)
    if rest is not None:
        step_epsilon = shared(rest.epsilon, count)
        laplace_rate(2 * HELD_CELLS, step_epsilon)
        planned.rows_for(histogram_ledger).refuse_norm_histogram(N_FINE_BINS, mu_per_bin)
    pilots: list[Functionals] = []

    def go() -> Functionals:
        with np.errstate(all="ignore"):
            planned.begin()
            solved = planned.solve(0, None)
            assert solved.solution is not None
            warnings = planned.result(0, solved, planned.request.guarantee()).warnings
            pilot = _clipped_pilot(request, planned, solved.solution, rows)
            pilots.append(pilot.functionals(warnings))
            if rest is None or not pilot.reached:
                return pilots[0]
            queries = planned.rows_for(histogram_ledger)
            step = _clipped_step(
                pilot, planned.setting, queries, stepping, step_epsilon, mu_per_bin
            )
            return _after_step(pilot, step, request.n, warnings)

    ledgers = [planned.request.ledger, *[histogram_ledger] * (rest is not None)]
    return _with_pilot(chosen, go, pilots, (pilot_budget, rest, ledgers, stepping), "whitened rows")


def _perturbed(
    chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array
) -> PlannedMethod:
    """Plan objective perturbation for all coefficients of a ridge-penalised problem."""
    constants = release_constants(request.loss, request.objective().scale)
    curvature = constants.curvature * request.domain.radius**2
    # four times the smallest ridge that objective perturbation needs
    ridge = 4.0 * curvature / (min(request.n, MOST_RECORDS) * total.epsilon)
    ridge = max(request.ridge, ridge)
    # with few records a larger ridge has to bound the effect of the linear noise term
    for factor in map(float, 2.0 ** np.arange(DOUBLINGS + 1)):
        curator = request.curator(Ledger(total), ridge * factor)
        try:
            terms: PerturbationTerms = perturbation_terms(curator, request.domain.radius, total)
            break
        except InvalidBudget:
            if factor == 2.0**DOUBLINGS:
                raise
    ridge *= factor

    def release() -> Functionals:
        params = perturbed_minimiser(curator, terms).value
        with np.errstate(all="ignore"):
            norms = np.linalg.norm(rows, axis=1)
            return Functionals(
                rows @ params, terms.deviation * norms, "gaussian", np.zeros(len(rows))
            )

    description = f"objective perturbation, ridge={ridge:.4g}; {chosen.reason}"
    return PlannedMethod(release, lambda: None, lambda: composition_of(curator.ledger), description)
