"""Which mechanism releases a functional, by public numbers, and those that need no certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization
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
from dpfast.optimize.road.histogram import (
    ASYMMETRY,
    WITH_VARIANCE,
    NormHistogram,
    bin_edges,
    choose_clipping_norm,
)
from dpfast.optimize.road.run import COARSE, N_FINE_BINS
from dpfast.privacy.budget import GDP, ApproxDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.sensitivity import HELD_CELLS
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.release.pilot import Pilot, pilot_of, plan_run
from dpfast.release.request import Asking, RawRequest, ReleaseRequest

#: How functionals are released: those of the paper with a certificate.
METHODS = ("auto", "one-shot", "fit", "objective-perturbation", "paper")

#: Noise of a curvature at the whole budget, ``2 p^1.5/(n mu)``: up to the first one Newton step
#: from a pilot has the least error, up to the second a fit, and above it objective perturbation,
#: which needs no curvature.  Certified releases have the least error nowhere
#: (bench/results/release_defaults.md).
ONE_SHOT, FIT = 0.3, 0.5

#: The pilot's share of epsilon: this where the noise of a curvature is that, and so much more for
#: each factor of e, within limits.
SHARE, AT, MORE = 0.65, 0.03, 0.08
SHARES = (0.15, 0.8)

#: Least and most of the pilot's ``mu^2`` for the histogram by which scores are held without a
#: domain, and the noise of its cells, as a part of n, for which it has more than the least.
HISTOGRAM, CELL = (0.03, 0.12), 0.006

#: Part of what a step would have that it has without a domain.
RAW = 0.7

#: Standard deviations of a pilot, and of the noise, beyond which a step is not taken.
FARTHEST = 3.0

#: What is said of values of columns without a domain: of a fit's, and of a step's.
HELD = "; scores held to a norm"
PULLS = HELD + " along the step: no record counts for more than {pulls}"

#: Doublings of the ridge of objective perturbation until its tilt is held.
DOUBLINGS = 8

#: Records beyond which that ridge does not fall: the noise that covers rounding, divided by it,
#: would grow beyond what the tilt does.
MOST_RECORDS = 1 << 20

#: Functionals from which on a fit, whose noise does not grow with their number, has less.
MANY = 4


class Route(NamedTuple):
    """What is going to be done, from public numbers."""

    method: str
    #: The pilot's part of epsilon; 1 without a step after it.
    share: float
    reason: str


def route(method: str, request: Asking, total: ApproxDP, count: int) -> Route:
    """The method asked for, or the best for so many records, coefficients and so much budget."""
    level = 2.0 * request.dimension**1.5 / (request.n * GDP.within(total).mu)
    reason = "as requested"
    if method == "auto":
        told = f"auto: curvature noise 2 p^1.5/(n mu) = {level:.2g}"
        declared = isinstance(request, ReleaseRequest)
        if level > FIT and declared and _can_be_perturbed(request.loss):
            method, reason = "objective-perturbation", f"{told} exceeds {FIT:g}"
        elif level > ONE_SHOT:
            method, reason = "fit", f"{told} exceeds {ONE_SHOT:g}"
        elif count >= MANY:
            method, reason = "fit", f"auto: {count} functionals share the budget"
        else:
            method, reason = "one-shot", f"{told} is at most {ONE_SHOT:g}"
    share = SHARE + MORE * math.log(level / AT)
    share = min(max(share, SHARES[0]), SHARES[1])
    if isinstance(request, RawRequest):
        share = 1.0 - RAW * (1.0 - share)
    return Route(method, share if method == "one-shot" else 1.0, reason)


def _can_be_perturbed(loss: Loss) -> bool:
    return loss.certified and loss.self_concordance < math.inf


class Functionals(NamedTuple):
    """Released functionals, and public numbers about their noise."""

    values: Array
    scales: Array
    law: str
    beyond: Array
    sampling: Array | None = None
    #: What to know of them.
    told: str = ""
    warnings: tuple[str, ...] = ()


def part_of_step(pilot: Array, noise: Array, mean: Any, square: Any) -> tuple[Array, Array]:
    """How much of a step from a pilot to take, and what that leaves of the pilot's error.

    The least mean square of ``error - part (k error + noise)``, by their standard deviations, with
    the mean and mean square of k.
    """
    part = np.nan_to_num(mean / (square + np.square(noise / pilot)))  # none of one out of range
    left = np.where(part > 0.0, 1.0 - 2.0 * part * mean + np.square(part) * square, 1.0)
    return part, pilot * np.sqrt(np.maximum(left, 0.0))


class Way(NamedTuple):
    """A planned mechanism."""

    #: Spends the budget.
    run: Callable[[], Functionals]
    #: What was released when a run ended early, or None.
    so_far: Callable[[], Functionals | None]
    #: The composition.
    spent: Callable[[], Composition]
    #: For the result.
    told: str


def planned_route(chosen: Route, request: Asking, total: ApproxDP, rows: Array) -> Way:
    """Plan a mechanism; refuses whatever can be refused, and costs nothing."""
    if isinstance(request, RawRequest):
        return _without_domain(chosen, request, total, rows)
    assert isinstance(request, ReleaseRequest)
    if chosen.method == "objective-perturbation":
        return _perturbed(chosen, request, total, rows)
    return _one_shot(chosen, request, total, rows)


def _parts(chosen: Route, total: ApproxDP) -> tuple[ApproxDP, PureDP | None]:
    """What the pilot may spend, and the step after it: the total at most together (claim R39)."""
    if chosen.method != "one-shot":
        return total, None
    first = ApproxDP(total.epsilon * chosen.share, total.delta)
    return first, PureDP(difference(total, ApproxDP(first.epsilon, 0.5 * total.delta)).epsilon)


def _one_shot(chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array) -> Way:
    """A pilot with its curvature, and one Newton step along each direction; or the pilot alone."""
    first, rest = _parts(chosen, total)
    if rest is not None:
        step_rate(rest.epsilon, len(rows))
    run = plan_run(request, Ledger(GDP.within(first)))
    stepping = request.curator(Ledger(rest if rest is not None else PureDP(first.epsilon)))
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / lengths[:, None]
    pilots: list[Functionals] = []

    def of_pilot(pilot: Pilot) -> Functionals:
        spread = np.sqrt(np.einsum("ij,jk,ik->i", units, pilot.noise, units))
        beyond = np.abs(units) @ pilot.unfinished
        return Functionals(lengths * (units @ pilot.theta), lengths * spread, "gaussian",
                       lengths * beyond, warnings=pilot.warnings)  # fmt: skip

    def go() -> Functionals:
        with np.errstate(all="ignore"):
            pilot = pilot_of(run)
            pilots.append(of_pilot(pilot))
            if rest is None:
                return pilots[0]
            steps = pilot.steps(units)
            terms = step_terms(stepping, request.domain, steps, rest.epsilon)
            if terms is None:  # released numbers out of range
                return pilots[0]
            moved = newton_steps(stepping, pilot.theta, terms)
            moved = moved + stepping.objective.ridge * (steps @ pilot.theta)
            # without an intercept from rows as long as they may be
            mean = float(np.trace(pilot.curvature)) / request.domain.radius**2
            if request.domain.intercept:
                mean = float(pilot.curvature[0, 0])
            bend = request.loss.self_concordance / stepping.objective.scale
            return Functionals(
                lengths * (units @ pilot.theta - moved),
                lengths * terms.scales,
                "laplace",
                lengths * pilot.errors_left(steps, mean, bend),
                warnings=pilot.warnings,
            )

    parts = first, rest, [run.curator.ledger], stepping.ledger
    return _way(chosen, go, pilots, parts, run.optimiser.name)


def _way(
    chosen: Route,
    run: Callable[[], Functionals],
    pilots: list[Functionals],
    parts: tuple[ApproxDP, PureDP | None, list[Ledger], Ledger],
    name: str,
) -> Way:
    """A pilot by this name, and a step after it if there is something left for one."""
    first, rest, ledgers, stepping = parts
    told = f"one Newton step from a pilot fit, which has {chosen.share:.2g} of epsilon"
    if rest is None:
        told = f"a private fit, {name}"

    def spent() -> Composition:
        inside = [composition_of(ledger) for ledger in ledgers]
        whole = Sum(tuple(inside)) if len(inside) > 1 else inside[0]
        if rest is None:
            return Prepaid("a private fit", first, whole)
        return Sum((Prepaid("a pilot fit", first, whole), composition_of(stepping)))

    return Way(run, lambda: next(iter(pilots), None), spent, f"{told}; {chosen.reason}")


def _without_domain(chosen: Route, request: RawRequest, total: ApproxDP, rows: Array) -> Way:
    """Of columns as they came: the pilot is a default fit, and what a step averages is held."""
    first, rest = _parts(chosen, total)
    count, mu = len(rows), GDP.within(first).mu
    needed = min(1.0, 2.0**0.5 / (CELL * max(1.0, request.n * mu))) ** 2
    share = min(max(needed, HISTOGRAM[0]), HISTOGRAM[1])
    seeing = mu * share**0.5 if rest is not None else 0.0
    planned = request.planned(GDP((mu**2 - seeing**2) ** 0.5 * (1.0 - ROUNDING_SUM)))
    seen = Ledger(GDP(seeing) if rest is not None else GDP(mu))
    stepping = Ledger(rest if rest is not None else PureDP(first.epsilon))
    each, per_cell = 0.0, seeing / count**0.5 * (1.0 - ROUNDING_SUM)
    if rest is not None:
        each = shared(rest.epsilon, count)
        laplace_rate(2 * HELD_CELLS, each)
        planned.rows_for(seen).refuse_norm_histogram(N_FINE_BINS, per_cell)
    pilots: list[Functionals] = []
    iterates: list[Array] = []

    def go() -> Functionals:
        with np.errstate(all="ignore"):
            planned.begin()
            found = planned.run(0, iterates, None)
            natural = request.natural()
            coded = rows @ natural.matrix
            outside: Any = np.zeros(count, dtype=bool)
            if planned.kept is not None:  # no spread was seen of the others
                outside = (coded @ (np.eye(coded.shape[1]) - planned.kept @ planned.kept.T)).any(1)
                coded = coded @ planned.kept
            # whitened coefficients have a curvature of about one in every direction
            along = coded @ found.mapping
            values = rows @ natural.constant + coded @ found.theta
            spread = np.einsum("ij,jk,ik->i", along, found.meat, along)
            sampling = np.sqrt(spread / max(1, request.n - request.dimension))
            sizes = np.linalg.norm(along, axis=1)
            left = np.where(outside, np.inf, np.sqrt(along**2 @ found.residual_bias_var))
            warnings = planned.result(0, iterates, found).warnings
            first = sizes * found.noise
            pilots.append(Functionals(values, first, "gaussian", left, sampling, HELD, warnings))
            reached = np.isfinite(along).all() and (sizes > 0.0).all() and not outside.any()
            if rest is None or not reached:
                return pilots[0]
            steep = planned.rows_for(seen).mapped(found.mapping)
            setting = planned.setting
            at = Linearization(found.unmapping @ found.theta, setting.loss, found.scale)
            edges = setting.score_unit * bin_edges(COARSE)[:-1]
            # of labels all that is cut is on one side: scores of those that are told wrong
            leaves = 1.0 if setting.loss.binary_response else ASYMMETRY
            moved, bounds, cuts = [], [], []
            for unit in along / sizes[:, None]:
                cells = steep.norm_histogram(edges, per_cell, at, "score", found.row_clipping, unit)
                shown = NormHistogram.from_noisy_shares(
                    cells.value, cells.noise_scale, COARSE, setting.score_unit
                )
                noise = 2.0 * math.sqrt(2.0) / (request.n * each)
                bound, cut = choose_clipping_norm(
                    shown, noise, 1, leaves=leaves, fall=WITH_VARIANCE
                )
                moved.append(mean_along(steep, unit, bound, each, stepping, at, found.row_clipping))
                bounds.append(bound)
                cuts.append(leaves * cut)
            scales = np.array(bounds) * 2.0 / (request.n * each)
            # what long rows may have of curvature beyond what was seen is in one of the directions
            more = found.excess_curvature / along.shape[1]
            mean, square = 1.0 + more, 1.0 + more * (2.0 + found.excess_curvature)
            left = left / sizes
            off = np.hypot(found.noise, left)
            part, stays = part_of_step(off, 2.0**0.5 * scales, mean, square)
            # a step beyond what the pilot may be off says that unseen records pull at it
            taken = np.square(moved) <= FARTHEST**2 * (square * off**2 + 2.0 * scales**2)
            part = np.where(taken, part, 0.0)
            # what a pilot's held scores miss those of the step may miss, too
            beyond = np.hypot(np.hypot(stays, left), part * cuts)
            pulls = sizes * part * bounds / request.n
            return Functionals(
                values + sizes * part * moved,
                sizes * part * scales,
                "laplace",
                sizes * np.where(taken, beyond, off),
                sampling,
                PULLS.format(pulls=", ".join(f"{pull:.3g}" for pull in pulls)),
                warnings,
            )

    ledgers = [planned.request.ledger, *[seen] * (rest is not None)]
    return _way(chosen, go, pilots, (first, rest, ledgers, stepping), "whitened rows")


def _perturbed(chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array) -> Way:
    """All coefficients of a ridge-penalised problem, by objective perturbation."""
    constants = release_constants(request.loss, request.objective().scale)
    curvature = constants.curvature * request.domain.radius**2
    # four times what objective perturbation needs at least
    ridge = 4.0 * curvature / (min(request.n, MOST_RECORDS) * total.epsilon)
    ridge = max(request.ridge, ridge)
    for larger in map(
        float, 2.0 ** np.arange(DOUBLINGS + 1)
    ):  # of few records the ridge has to hold the tilt
        curator = request.curator(Ledger(total), ridge * larger)
        try:
            terms: PerturbationTerms = perturbation_terms(curator, request.domain.radius, total)
            break
        except InvalidBudget:
            if larger == 2.0**DOUBLINGS:
                raise
    ridge *= larger

    def go() -> Functionals:
        params = perturbed_minimiser(curator, terms).value
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(rows, axis=1)
            return Functionals(
                rows @ params, terms.deviation * lengths, "gaussian", np.zeros(len(rows))
            )

    told = f"objective perturbation, ridge={ridge:.4g}; {chosen.reason}"
    return Way(go, lambda: None, lambda: composition_of(curator.ledger), told)
