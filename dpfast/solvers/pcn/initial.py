"""The initial estimate: whitened rows, a clipped moment shrunk by its noise, and a scale."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.curator.answers import StepBudget
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.models import Loss
from dpfast.models.losses import MASSES, NODES
from dpfast.solvers.pcn.curvature import MAX_CURVATURE, MIN_CURVATURE
from dpfast.solvers.pcn.histogram import released_norms
from dpfast.solvers.pcn.plan import Budgets, Setting
from dpfast.solvers.pcn.precondition import Preconditioner, repeated_whitening
from dpfast.solvers.pcn.scores import SIGNAL_SDS
from dpfast.solvers.pcn.search import TRUST_REGION

Array = NDArray[np.float64]

#: Radius of the first Gram's weights in sqrt(p), for standardised columns.
FIRST_RADIUS = 1.5

#: The same at least, as a part of the longest: rows of a rare level are long, and whitening by
#: weights below 1 would make them longer still.
FIRST_PART = 0.5

#: Factor on the pilot's slopes of log means: covariances with counts are too steep for columns with
#: a long right tail, and a start that is too flat needs shorter steps than one too steep.
OVERSTATED = 0.5

#: Bound on the response in the pilot estimate, in its standard deviations.  Smaller, slopes are
#: biased to zero; larger, they are noisier.
PILOT_CAP = 3.0

#: Median of the absolute value of a standard normal number.
MEDIAN = 0.6745


class InitialEstimate(NamedTuple):
    """Whitened rows and a pilot estimate, shared by several fits of one table."""

    rows: PreconditionedQueries
    mapping: Array
    unmapping: Array
    theta: Array
    variance: Array
    scale: float
    well_determined: bool
    #: Cost of Grams after the first, in shares of a matrix, and whether they are in the map.
    later: float = 0.0
    is_repeated: bool = False
    #: The last Gram's preconditioner, and the radius of the rows in it.
    whitening: Preconditioner | None = None
    radius: float = 0.0


def initial_estimate(
    rows: PreconditionedQueries, setting: Setting, budget: Budgets
) -> InitialEstimate:
    """Release the rows' Grams, a pilot estimate and the residuals' scale."""
    p, few_rows = rows.dimension, rows.subsample()
    typical_radius = FIRST_RADIUS * p**0.5
    radius = max(typical_radius, FIRST_PART * budget.longest_radius(few_rows.n, p))
    gram, moment, cap = gram_and_moment(few_rows, setting, radius, budget)
    repeated = repeated_whitening(few_rows, gram, radius, typical_radius, budget)
    whitening, loss = repeated.preconditioner, setting.loss
    if loss.link == "identity":
        theta, variance = shrunken_coefficients(moment, whitening)
    else:
        theta, variance = coefficients_through_link(
            moment, whitening, setting, 2.0 * cap, few_rows.n
        )
    rows, scale = rows.mapped(whitening.whiten), 1.0
    if loss.needs_scale:
        scale = residual_scale(rows.subsample(), theta, loss, budget.histogram)
    well_determined = bool(whitening.values[0] > SIGNAL_SDS * whitening.floor)
    mapping, unmapping = whitening.whiten, whitening.unwhiten
    return InitialEstimate(
        rows,
        mapping,
        unmapping,
        theta,
        variance,
        scale,
        well_determined,
        *repeated[1:],
        whitening,
        radius,
    )


def gram_and_moment(
    rows: PreconditionedQueries, setting: Setting, radius: float, budget: Budgets
) -> tuple[Answer, Answer, float]:
    """Release the rows' Gram and their moment with the response, and return the response's cap.

    One read gives both, but for robust losses, whose moment is of shorter rows.
    """
    p, loss, at, shift = rows.dimension, setting.loss, None, 0.0
    typical_radius = FIRST_RADIUS * p**0.5
    if loss.needs_scale:
        gram = rows.gram(radius, budget.matrix)
        return gram, rows.moment(typical_radius, PILOT_CAP, budget.vector), PILOT_CAP
    if loss.link == "identity":
        # no round corrects a moment without the long rows; these have larger responses
        cap = PILOT_CAP * (radius / typical_radius) ** 0.5
    else:
        at = Linearization(np.zeros(p), loss)
        cap = shift = 0.5 * (loss.largest_response or PILOT_CAP * setting.bounded_size)
    both = StepBudget(budget.vector, budget.matrix)
    return *rows.gram_and_moment(radius, cap, both, at, shift), cap


def residual_scale(rows: PreconditionedQueries, theta: Array, loss: Loss, mu: float) -> float:
    """Estimate the residual scale from the median of their sizes, at an initial estimate."""
    at = Linearization(theta, loss)
    return released_norms(rows, mu, at, "residual").median() / MEDIAN


def shrunken_coefficients(moment: Answer, whitening: Preconditioner) -> tuple[Array, Array]:
    """Estimate whitened coefficients from a moment, shrunk by its noise, with their variances."""
    theta, variances = decisions.shrunken_coefficients(
        moment.value, moment.noise_scale, whitening.whiten
    )
    return theta, variances


def coefficients_through_link(
    moment: Answer, whitening: Preconditioner, setting: Setting, cap: float, n: int
) -> tuple[Array, Array]:
    """Estimate whitened coefficients of a link from a moment, with their variances.

    ``cap`` is the largest response.  The slopes are shrunk by their noise, and stay in the trust
    region.
    """
    loss = setting.loss

    def predictor(mean: float, error: float) -> float:
        return predictor_of_mean(mean, error, setting, cap, n)

    theta, variances = decisions.coefficients_through_link(
        moment.value, moment.noise_scale, whitening.whiten, whitening.unwhiten, 0.5 * cap,
        predictor if setting.intercept else None, setting.offset, loss.code, loss.largest_mean,
        NODES, MASSES, MIN_CURVATURE, MAX_CURVATURE, OVERSTATED if loss.link == "log" else 1.0,
        TRUST_REGION,
    )  # fmt: skip
    return theta, variances


def predictor_of_mean(mean: float, error: float, setting: Setting, cap: float, n: int) -> float:
    """Map a mean response to its predictor, no nearer to the ends of its range than its error."""
    loss = setting.loss
    lowest = min(max(2.0 * error, cap / n), 0.5 * cap)
    highest = math.inf if loss.largest_response is None else cap - lowest
    level = float(loss._predictor(min(max(mean, lowest), highest)))
    if any(setting.offset):  # the mean response is an average over the offsets
        average, _ = normal_response(loss, level, setting.offset[1])
        level = 2.0 * level - loss._link(average) - setting.offset[0]
    return level


def normal_response(loss: Loss, level: float, spread: float) -> tuple[float, float]:
    """Average the mean response, and its derivative, over normal predictors."""
    mean, slope = decisions.mean_response(
        loss.code, level, spread, loss.largest_mean, NODES, MASSES
    )
    return mean, slope
