"""From the estimate of weighted rows towards that of all rows, whose scores are held to a norm.

Weights discount a long row whatever its response is; a score that is held to the same norm is cut
only where a long row is also badly foreseen.  A step of such scores has noise of its own alone, so
that it and the weighted estimate are two measurements, of which the first may be biased.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import JointAnswer
from dpfast.inference.sandwich import Covariance, pooled
from dpfast.kernels.linalg import congruence, floor_eigenvalues, noise_of_step
from dpfast.optimize.trajectory import Trajectory

__all__ = ["ROUNDS", "nearer", "with_discounts"]

Array = NDArray[np.float64]

#: How often scores are asked for, each time where the answers so far lead.
ROUNDS = 2

#: Standard deviations of the noise by which squared lengths of a step have to exceed it before its
#: end counts for more than its own precision; and by which they have to for the next norm to be so
#: much longer.
SURE, CLEAR, LONGER = 2.0, 4.0, 1.7

#: Bias that was seen, root mean square in standard errors, from which on it is said: what scores
#: were still cut by may then matter, too; of its square so many standard deviations of the noise
#: are left out.  And bias that weights may have, all coefficients
#: together and in their standard errors, from which on it is said; and where held scores have
#: taken most of their place (bench.rivals.logistic).
FAR, DOUBT, MAY_MISS, MAY_CUT = 0.5, 0.5, 0.2, 0.6

#: Instead of nothing below a division bar.
LEAST = 1e-300

LONG_ROWS = (
    "long rows tell something else than the others: without their weights the estimate moves by "
    "{shift:.2g} standard errors, and scores were still held to a norm of {radius:.3g}. Intervals "
    "may not cover the maximum of the likelihood. Use the logarithm of a covariate that spans "
    "orders of magnitude, or a larger budget."
)

DISCOUNTED = (
    "rows far from the others were discounted, or their scores cut: if what they would say is "
    "something else than what the others say, intervals may not cover the maximum of the "
    "likelihood. Use the logarithm of a covariate that spans orders of magnitude, or a larger "
    "budget."
)

Ask = Callable[[Array, float], JointAnswer]


class Measured(NamedTuple):
    """An answer, where it was asked for, and to which norm scores were held."""

    at: Array
    answer: JointAnswer
    radius: float


class Combined(NamedTuple):
    """What a start and steps of held scores say together.

    Attributes
    ----------
    theta : ndarray of shape (p,)
    noise : ndarray of shape (p, p)
        Covariance of the privacy noise in it.
    parts : list of float
        Of the start and of the end of each step in it.
    left : ndarray of shape (p, p)
        Outer product of the bias that may be left.
    biased : float
        Largest square of the bias that a step saw beyond noise, in the curvature's units.
    clear : bool
        Whether the last step saw far more than noise.
    """

    theta: Array
    noise: Array
    parts: list[float]
    left: Array
    biased: float
    clear: bool


def nearer(
    found: Trajectory, covariance: Covariance | None, ask: Ask, n: int, radius: float
) -> tuple[Array, Covariance | None]:
    """The estimate of a run and steps of held scores together, and its covariance.

    Parameters
    ----------
    found : Trajectory
        Of :class:`~dpfast.optimize.AdaptiveNewton`.
    covariance : Covariance or None
        Of its estimate.
    ask : callable
        Pays for gradient and meat of scores held to a norm, at a parameter.
    n : int
    radius : float
        Of the weights.
    """
    hessian, scale = pooled(found.hessians or (found.final.hessian,))
    curvature = floor_eigenvalues(hessian, 2.0 * scale * len(hessian) ** 0.5)[0]
    measured: list[Measured] = []
    together = Combined(found.theta, found.details.noise, [1.0], 0.0 * hessian, 0.0, False)
    for _ in range(ROUNDS):
        measured.append(Measured(together.theta, ask(together.theta, radius), radius))
        curvature = _bent(curvature, measured, together.parts[-1])
        after = _combined(found, measured, curvature, scale)
        if not np.isfinite(after.theta).all():
            return together.theta, covariance
        together = after
        if together.clear:
            radius *= LONGER
    if covariance is None:
        return together.theta, None
    return together.theta, _covariance(covariance, found, measured, together, curvature, n)


def with_discounts(covariance: Covariance, missed: float, held: bool) -> Covariance:
    """With a remark where what weights may miss of the mean score, its norm, may matter."""
    if covariance.spread is None:
        return covariance
    curvature = covariance.spread.curvature.floored()
    error = float(np.trace(congruence(curvature, covariance.matrix))) ** 0.5
    if missed <= (MAY_CUT if held else MAY_MISS) * error:
        return covariance
    return covariance._replace(remarks=(*covariance.remarks, DISCOUNTED))


def _bent(curvature: Array, measured: Sequence[Measured], part: float) -> Array:
    """A curvature that is no less along the last step than the change of the gradient says.

    Weights take most of their curvature from long rows, and held scores do not.
    """
    if len(measured) < 2:
        return curvature
    (start, first, _), (end, last, _) = measured[-2:]
    step, change = end - start, last.gradient.value - first.gradient.value
    turned = curvature @ step
    flat, steep = float(step @ turned), float(step @ change)
    # the step has part of the first noise in it
    own = float(np.trace(np.linalg.pinv(curvature, hermitian=True)))
    steep -= part * own * first.gradient.noise_scale**2
    noise = math.hypot(first.gradient.noise_scale, last.gradient.noise_scale)
    if not steep - flat > SURE * noise * float(np.linalg.norm(step)):
        return curvature
    return np.asarray(curvature + (steep / flat - 1.0) / flat * np.outer(turned, turned))


def _combined(
    found: Trajectory, measured: Sequence[Measured], curvature: Array, scale: float
) -> Combined:
    """One end after another: each has its own noise, and what was before may be biased.

    Of two estimates with noises of variance ``s`` and ``t``, the first with a bias b, the second
    has the weight ``(b^2 + s)/(b^2 + s + t)``; about ``b^2 + s + t`` is seen, and b^2 counts as
    far as it is sure.
    """
    inverse = np.linalg.pinv(curvature, hermitian=True)
    theta, noise = found.theta, found.details.noise
    parts, left, most, clear = [1.0], np.zeros_like(noise), 0.0, False
    for at, answer, _ in measured:
        sigma = answer.gradient.noise_scale
        move = at - inverse @ answer.gradient.value - theta
        own = noise_of_step(inverse, inverse @ answer.gradient.value, sigma**2, scale**2)
        before, after = float(np.vdot(curvature, noise)), float(np.vdot(curvature, own))
        seen = float(move @ curvature @ move)
        biased = max(0.0, seen - before - after)
        spread = (2.0 / len(theta)) ** 0.5 * (before + after)
        clear, sure = biased > CLEAR * spread, max(0.0, biased - SURE * spread)
        kept = after / (sure + before + after)
        theta = theta + (1.0 - kept) * move
        noise = kept**2 * noise + (1.0 - kept) ** 2 * own
        left = kept**2 * (left + biased / max(seen, LEAST) * np.outer(move, move))
        parts = [*[kept * part for part in parts], 1.0 - kept]
        most = max(most, biased - DOUBT * spread)
    return Combined(theta, noise, parts, left, most, clear)


def _covariance(
    covariance: Covariance,
    found: Trajectory,
    measured: Sequence[Measured],
    together: Combined,
    curvature: Array,
    n: int,
) -> Covariance:
    """No less than that of the combination: variances are convex."""
    start, *others = together.parts
    inverse = np.linalg.pinv(curvature, hermitian=True)
    meats = [floor_eigenvalues(each.answer.meat.value, 0.0)[0] for each in measured]
    sampling = start * (covariance.matrix - found.details.noise)
    for part, meat in zip(others, meats, strict=True):
        sampling = sampling + part * congruence(inverse, meat) / n
    remarks, matrix = covariance.remarks, sampling + together.noise + together.left
    part = start
    if found.details.unfinished.any():  # steps of held scores do not end what noise hides, either
        part, matrix = 1.0, matrix + (1.0 - start**2) * found.details.noise
    shift = math.sqrt(together.biased / max(float(np.vdot(curvature, sampling)), LEAST))
    if shift > FAR:
        remarks = (*remarks, LONG_ROWS.format(shift=shift, radius=measured[-1].radius))
    spread = covariance.spread
    if spread is not None:
        scales = [spread.meat_scale, *[each.answer.meat.noise_scale for each in measured]]
        parts = zip(together.parts, scales, strict=True)
        whole = math.hypot(*[part * scale for part, scale in parts])
        spread = spread._replace(covariance=n * matrix, meat_scale=whole)
    return covariance._replace(
        matrix=matrix, unfinished=part * covariance.unfinished, remarks=remarks, spread=spread
    )
