"""Which mechanism releases a functional, by public numbers, and those that need no certificate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.release.one_step import newton_steps, step_rate, step_terms
from dpfast.curator.release.perturbation import (
    PerturbationTerms,
    perturbation_terms,
    perturbed_minimiser,
)
from dpfast.curator.release.terms import difference, in_units
from dpfast.inference.composition import Composition, Prepaid, Sum, composition_of
from dpfast.models import Loss
from dpfast.optimize.newton import curvature_noise
from dpfast.privacy.budget import GDP, ApproxDP, PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.release.pilot import Pilot, pilot_of, plan_run
from dpfast.release.request import ReleaseRequest
from dpfast.release.session import fallback_ridge

__all__ = ["CERTIFIED", "METHODS", "Answers", "Route", "Way", "planned_route", "route"]

Array = NDArray[np.float64]

#: How functionals are released: with a certificate, and without.
CERTIFIED = ("certified", "paper")
PLAIN = ("one-shot", "fit", "objective-perturbation")
METHODS = ("auto", *PLAIN, *CERTIFIED)

#: Noise of a curvature at the whole budget, ``2 p^1.5/(n mu)``: up to the first one Newton step
#: from a pilot has the least error, up to the second a fit, and above it objective perturbation,
#: which needs no curvature.  Certified releases have the least error nowhere
#: (bench/results/release_defaults.md).
ONE_SHOT, FIT = 0.3, 0.5

#: The pilot's share of epsilon: this where the noise of a curvature is that, and so much more for
#: each factor of e, within limits.
SHARE, AT, MORE = 0.65, 0.03, 0.08
SHARES = (0.15, 0.8)

#: Functionals from which on a fit, whose noise does not grow with their number, has less.
MANY = 4


class Route(NamedTuple):
    """What is going to be done, from public numbers.

    Attributes
    ----------
    method : str
    share : float
        The pilot's part of epsilon; 1 without a step after it.
    reason : str
    """

    method: str
    share: float
    reason: str


def route(method: str, request: ReleaseRequest, total: ApproxDP, count: int) -> Route:
    """The method asked for, or the best one for so many records, coefficients and so much budget.

    Parameters
    ----------
    method : str
    request : ReleaseRequest
    total : ApproxDP
        For the functionals.
    count : int
        How many there are.
    """
    level = curvature_noise(request.objective(), request.n, GDP.within(total).mu)
    reason = "as requested"
    if method == "auto":
        told = f"auto: curvature noise 2 p^1.5/(n mu) = {level:.2g}"
        if level > FIT and _can_be_perturbed(request.loss):
            method, reason = "objective-perturbation", f"{told} exceeds {FIT:g}"
        elif level > ONE_SHOT:
            method, reason = "fit", f"{told} exceeds {ONE_SHOT:g}"
        elif count >= MANY:
            method, reason = "fit", f"auto: {count} functionals share the budget"
        else:
            method, reason = "one-shot", f"{told} is at most {ONE_SHOT:g}"
    share = SHARE + MORE * math.log(level / AT)
    share = min(max(share, SHARES[0]), SHARES[1])
    return Route(method, share if method == "one-shot" else 1.0, reason)


def _can_be_perturbed(loss: Loss) -> bool:
    return loss.certified and loss.self_concordance < math.inf


class Answers(NamedTuple):
    """Released functionals, and public numbers about their noise.

    Attributes
    ----------
    values : ndarray of shape (k,)
    scales : ndarray of shape (k,)
        Of the noise, a variable of ``law``.
    law : str
    beyond : ndarray of shape (k,)
        About what else is between a value and that in these data.
    """

    values: Array
    scales: Array
    law: str
    beyond: Array


class Way(NamedTuple):
    """A planned mechanism.

    Attributes
    ----------
    run : callable
        Spends the budget.
    so_far : callable
        What was released when a run ended early, or None.
    spent : callable
        The composition.
    told : str
        For the result.
    """

    run: Callable[[], Answers]
    so_far: Callable[[], Answers | None]
    spent: Callable[[], Composition]
    told: str


def planned_route(
    chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array, whole: ApproxDP
) -> Way:
    """Plan a mechanism; refuses whatever can be refused, and costs nothing.

    Parameters
    ----------
    chosen : Route
    request : ReleaseRequest
    total : ApproxDP
        What it may spend, a part of ``whole`` in units of its last place.
    rows : ndarray of shape (k, p)
        Directions.
    whole : ApproxDP
    """
    if chosen.method == "objective-perturbation":
        return _perturbed(request, total, rows)
    return _one_shot(chosen, request, total, rows, whole)


def _one_shot(
    chosen: Route, request: ReleaseRequest, total: ApproxDP, rows: Array, whole: ApproxDP
) -> Way:
    """A pilot with its curvature, and one Newton step along each direction; or the pilot alone."""
    first, rest = total, None
    if chosen.method == "one-shot":
        first = ApproxDP(in_units(total.epsilon * chosen.share, whole.epsilon), total.delta)
        rest = PureDP(difference(total, ApproxDP(first.epsilon, 0.5 * total.delta)).epsilon)
        step_rate(rest.epsilon, len(rows))
    run = plan_run(request, Ledger(GDP.within(first)))
    stepping = request.curator(Ledger(rest if rest is not None else PureDP(first.epsilon)))
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / lengths[:, None]
    pilots: list[Pilot] = []

    def of_pilot(pilot: Pilot) -> Answers:
        spread = np.sqrt(np.einsum("ij,jk,ik->i", units, pilot.noise, units))
        beyond = np.abs(units) @ pilot.unfinished
        return Answers(lengths * (units @ pilot.theta), lengths * spread, "gaussian",
                       lengths * beyond)  # fmt: skip

    def go() -> Answers:
        with np.errstate(all="ignore"):
            pilot = pilot_of(run)
            pilots.append(pilot)
            if rest is None:
                return of_pilot(pilot)
            steps = pilot.steps(units)
            terms = step_terms(stepping, request.domain, steps, rest.epsilon)
            if terms is None:  # released numbers out of range
                return of_pilot(pilot)
            moved = newton_steps(stepping, pilot.theta, terms)
            moved = moved + stepping.objective.ridge * (steps @ pilot.theta)
            # without an intercept from rows as long as they may be
            mean = float(np.trace(pilot.curvature)) / request.domain.radius**2
            if request.domain.intercept:
                mean = float(pilot.curvature[0, 0])
            bend = request.loss.self_concordance / stepping.objective.scale
            return Answers(
                lengths * (units @ pilot.theta - moved),
                lengths * terms.scales,
                "laplace",
                lengths * pilot.errors_left(steps, mean, bend),
            )

    def spent() -> Composition:
        label = "a pilot fit" if rest is not None else "a private fit"
        fit = Prepaid(label, first, composition_of(run.curator.ledger))
        return fit if rest is None else Sum((fit, composition_of(stepping.ledger)))

    told = f"one Newton step from a pilot fit, which has {chosen.share:.2g} of epsilon"
    if rest is None:
        told = f"a private fit, {run.optimiser.name}"
    return Way(
        go, lambda: of_pilot(pilots[0]) if pilots else None, spent, f"{told}; {chosen.reason}"
    )


def _perturbed(request: ReleaseRequest, total: ApproxDP, rows: Array) -> Way:
    """All coefficients of a ridge-penalised problem, by objective perturbation."""
    ridge = fallback_ridge(request, total.epsilon)
    curator = request.curator(Ledger(total), ridge)
    terms: PerturbationTerms = perturbation_terms(curator, request.domain.radius, total)

    def go() -> Answers:
        params = perturbed_minimiser(curator, terms).value
        # the tilt moves what is found by at most its length over the ridge
        scale = math.hypot(terms.tilt_scale / ridge, terms.receipt.noise_scale)
        with np.errstate(all="ignore"):
            lengths = np.linalg.norm(rows, axis=1)
            return Answers(rows @ params, scale * lengths, "gaussian", np.zeros(len(rows)))

    told = f"objective perturbation with ridge {ridge:.4g}"
    return Way(go, lambda: None, lambda: composition_of(curator.ledger), told)
