"""Predictions from few records: scales from one histogram, then a few clipped gradient steps.

Below some 20 p^1.5 a noisy Gram matrix is mostly noise, and slopes by Newton's method predict no
better than the mean.  Gradient descent from the mean needs no Gram: columns in units of their
scales take the identity for it, and steps that stop early shrink the slopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.models import LeastSquares, Loss
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.solvers.pcn.histogram import SINGLE_BIN_SDS
from dpfast.solvers.pcn.plan import TINY

#: Part of mu^2 for units, which are measured around zero: of the columns, and with the response.
#: With .25 to .5 errors of predictions differ by a tenth on 30 tables.
SCALES_SHARE, SCALES_SHARE_OF_RESPONSE = 0.3, 0.4

#: Gradient steps, the last of which are averaged; their length, in inverse curvatures at zero; and
#: their clipping norm, in roots of p.  On 30 tables four steps, or a norm of 1, predict as well.
STEPS, AVERAGED, LENGTH, CLIP = 8, 3, 0.5, 0.7

#: Part of the records that an octave of a column has, and of mu^2 that its histogram costs, about.
OCTAVE, HISTOGRAM_SHARE = 0.3, 0.2

FEW_RECORDS = (
    "n mu = {strength:.3g} is too small to estimate {q} slopes with standard errors. Predictions "
    "use slopes that are shrunk towards the mean of the response, by a few noisy gradient steps. "
    "Coefficients are not estimated (NaN), and there are no intervals and no tests. Use more "
    "records, a larger budget or fewer columns, or declare their ranges in a schema."
)

MODEL = "predictions by shrunk slopes alone; requested: {name}"

METHOD = (
    "{steps} noisy gradient steps on standardised covariates, the last {averaged} averaged; "
    "gradients clipped at {bound:.3g}"
)


def noise_of_average() -> float:
    """Return the noise of the average in that of one step, squared; the curvature is the identity.

    A score's noise is in all later points, ``1 - LENGTH`` times as large in each.
    """
    weights = [
        sum((1.0 - LENGTH) ** (k - j) for k in range(max(j, STEPS - AVERAGED), STEPS)) / AVERAGED
        for j in range(STEPS)
    ]
    return math.fsum([weight**2 for weight in weights])


NOISE_OF_AVERAGE = noise_of_average()


def predicts(loss: Loss, n: int, q: int, mu: float) -> bool:
    """Say whether slopes for predictions can be had: a histogram shows octaves; public."""
    if not (loss.of_mean and (loss.link == "identity" or loss.binary_response)):
        return False
    columns = q + (not loss.binary_response)
    noise = math.sqrt(2.0 * columns / HISTOGRAM_SHARE) / mu
    return SINGLE_BIN_SDS * noise <= OCTAVE * n


def scales_share(loss: Loss) -> float:
    """Return the part of mu^2 for units."""
    return SCALES_SHARE if loss.binary_response else SCALES_SHARE_OF_RESPONSE


def step_mu(mu: float) -> float:
    """Return the budget of one step."""
    return mu / math.sqrt(STEPS) * (1.0 - ROUNDING_SUM)


def clipping_norm(p: int) -> float:
    """Return the clipping norm of gradients: public."""
    return CLIP * math.sqrt(p)


def described(p: int) -> str:
    """Describe the method in one sentence."""
    return METHOD.format(steps=STEPS, averaged=AVERAGED, bound=clipping_norm(p))


def descent(
    rows: PreconditionedQueries,
    loss: Loss,
    mu: float,
    start: Array,
    iterates: list[Array],
    report: Callable[[int, int], None] | None,
) -> None:
    """Add the points of a gradient descent to ``iterates``, and their shrunk average at the end.

    The slopes are shrunk by the noise's part in their squared norm (James and Stein 1961).

    Clipped scores bound what long residuals do, so that robust losses take those of least squares.
    """
    scored: Any = LeastSquares() if loss.link == "identity" else loss
    theta = start
    length = LENGTH / float(scored._expected_curvature(np.zeros(1))[0])
    for k in range(STEPS):
        at = Linearization(theta, scored)
        answer = rows.clipped(at, clipping_norm(rows.dimension), step_mu(mu)).gradient
        theta = theta + length * answer.value
        iterates.append(theta)
        if report is not None:
            report(k + 1, STEPS)
    average = np.mean(iterates[-AVERAGED:], axis=0)
    noise = (length * answer.noise_scale) ** 2 * NOISE_OF_AVERAGE
    slopes = average[1:]  # columns are about their means, so that the intercept is the mean
    factor = max(0.0, 1.0 - slopes.size * noise / max(float(slopes @ slopes), TINY))
    iterates.append(np.concatenate([average[:1], factor * slopes]))
