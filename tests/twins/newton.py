"""Averaged Newton steps in plain NumPy: the twin of ``csrc/decisions/newton.pxi``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.solvers.pcn.information import MIN_VARIATION
from dpfast.solvers.pcn.many_columns import MANY
from dpfast.solvers.pcn.plan import MAX_STEPS, TINY
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyMeat, NoisyScore
from dpfast.solvers.pcn.steps import MEATS, NewtonSolution
from dpfast.solvers.pcn.stopping import FALSE_ALARM, OF_SAMPLING, SLIGHT, StoppingRule
from tests.twins import decisions

Array = NDArray[np.float64]


def has_converged(
    rule: StoppingRule,
    step: NoisyScore,
    before: tuple[float, float] | None,
    mus: tuple[float, ...],
    averages: bool,
    n: float,
) -> bool:
    """Return True if one further step, with all of the rest, is as good as several."""
    square, error = step.debiased_squared_norm
    length, total_mu = math.sqrt(square), math.hypot(averages * mus[0], *mus[1:])
    rate = rule.whitening_error + rule.curvature_change * length
    if before is not None:
        explained = before[1] * (1.0 + SIGNAL_SDS * math.sqrt(2.0 / step.score.size))
        if square > explained:
            rate = max(rate, math.sqrt((square - explained) / max(before[0], TINY)))
    share = (averages * mus[0] / total_mu) ** 2
    averaged_error = rate * math.hypot(rate * length, error**0.5)
    error_left = share * rate * length + (1.0 - share) * averaged_error
    noise = error**0.5 * mus[0] / total_mu
    return error_left <= math.hypot(
        SLIGHT * noise, OF_SAMPLING * math.sqrt(rule.score_mean_square / n)
    )


def pooled_mean(mean: NoisyMeat | None, answer: Answer) -> NoisyMeat:
    """Pool a mean with one more answer, weighted by precision; return it with its noise."""
    value, noise, _ = answer
    if mean is None:
        return value, noise
    before, now = mean[1] ** -2.0, noise**-2.0
    return (before * mean[0] + now * value) / (before + now), (before + now) ** -0.5


def nonconvergence_direction(answers: list[NoisyScore]) -> Array | None:
    """Test whether later scores still point one way on average; return the direction if so."""
    if len(answers) < 3:
        return None
    mean, variance = decisions.moved_mean(answers)
    tail = decisions.chi_squared_tail(len(mean), float(mean @ mean) / variance)
    return mean if tail < FALSE_ALARM else None


def averaged_newton(
    problem: Any,
    theta: Array,
    bound: float,
    rule: StoppingRule,
    model: decisions.CurvatureModel | None,
    inference: bool,
    mus: tuple[float, ...],
    *,
    updates: bool = True,
    last_score: NoisyScore | None = None,
    first_score: NoisyScore | None = None,
    report: Callable[[Array, int], None] = lambda theta, done: None,
) -> NewtonSolution:
    """Spend all of ``mus`` on Newton steps, averaged by inverse variance."""
    n, eye, hessian = problem.n, np.eye(theta.size), None
    here = start = model.expected(theta, model.start) if model else None
    done = before = int(last_score is not None)
    converged = last_score is not None and has_converged(rule, last_score, None, mus, False, n)
    left = (math.hypot(*mus[1:]),) if converged else mus[before:]
    scores, expected, meat, averaged, weights = [], [], None, 0, None

    def bound_of(of_step: bool = False) -> Any:
        if meat is None or model is None or model.min_score_variation == math.inf:
            return None
        least, hidden = model.min_score_variation, model.undetermined
        H = eye if hessian is None else hessian
        return decisions.information_bound(H, *meat, least, hidden, of_step)

    while left:
        mu, left, counts = left[0], left[1:], done > 0
        if first_score and not scores:
            scores.append(first_score)
        else:
            shows = theta.size < MANY or len(left) < MEATS
            mu_meat = 0.5 * mu if inference and counts and shows else 0.0
            answer = problem.score(theta, bound, mu, mu_meat)
            scores.append(NoisyScore(theta, *answer.gradient[:2]))
            meat = pooled_mean(meat, answer.meat) if mu_meat else meat
        expected += [here] if here else []
        averaged += counts
        if updates and done > before:
            updated = decisions.bfgs_update(hessian, *scores[-2:])
            if model and here and updated is not hessian:
                updated = model.bfgs_update(hessian, here, *scores[-2:])
            if updated is not hessian:
                hessian, averaged = updated, averaged if converged else 1

        counted, weights = scores[-averaged:], None
        if averaged > 1:
            weights = decisions.inverse_variance_weights(counted, hessian, expected[-averaged:])
        step = decisions.averaged_newton_point(counted, weights, hessian, bound_of(True)) - theta
        if model and here:
            step = model.halfway(step, theta, hessian, here)

        factor = min(decisions.cutting_plane(step, scores), problem.trusted_part(step))
        if model:
            moved = model.whiten @ step
            factor = min(factor, decisions.trust_region(moved, here[1] if here else 0.0))
        theta = theta + factor * step
        if model and here:
            there = model.expected(theta)
            hessian, here = model.transported(hessian, here, there), there

        if factor < 1.0:
            averaged, converged = 0, False
        elif left:
            earlier = scores[-2].debiased_squared_norm if done > before else None
            converged = has_converged(rule, scores[-1], earlier, (mu, *left), counts, n)
            left = (math.hypot(*left),) if converged else left
        done += 1
        report(theta, done if left else MAX_STEPS)

    counted, average = scores[-max(averaged, 1) :], scores[-1]
    if averaged > 1 and weights is not None:
        points, values = ([each[k] for each in counted] for k in (0, 1))
        noise = math.hypot(*[w * each.noise for w, each in zip(weights, counted, strict=True)])
        average = NoisyScore(*(np.average(each, 0, weights) for each in (points, values)), noise)
    if model and here and start:  # no released number shows a larger one
        smaller = (*here[:2], *map(min, start[2:], here[2:]))
        if smaller[2:] != here[2:]:
            hessian = model.transported(hessian, here, smaller)
    min_meat, n_hidden, overstated = None, 0, None
    if found := bound_of():
        least = int(found[1].argmin())
        if model.min_score_variation > 0.0 and found[1][least] < MIN_VARIATION:  # type: ignore
            overstated = found[0][:, least]
        H = eye if hessian is None else hessian
        hessian, min_meat, n_hidden = decisions.apply_information_bound(H, *found)
    return NewtonSolution(
        theta, hessian, min_meat, n_hidden, average.noise, meat,
        [each.noise for each in scores[1 - before :]], done,
        None if model else nonconvergence_direction(counted), overstated, scores, average,
    )  # fmt: skip
