"""Least squares: rows are whitened with a released Gram, scores are clipped, steps are averaged.

Of ordinary least squares both the rows and the scores are unbounded.  A released Gram whitens the
rows, so that full steps converge; histograms of lengths, which cost little, say how long scores
are, so that hardly any of them is clipped.  Whitened, a step's noise is the same multiple of the
standard error in every direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.optimize.least_squares.histogram import (
    CANCELS,
    Lengths,
    best_bound,
    least_exponent,
    tops_of_cells,
)
from dpfast.privacy.rounding import MARGIN_SHARES

__all__ = [
    "COARSE",
    "FINE",
    "FIRST_RADIUS",
    "MOST_CELLS",
    "STEPS",
    "Budgets",
    "Found",
    "Rows",
    "budgets",
    "few",
    "floor_of",
    "least_squares",
    "longest_radius",
    "seen_lengths",
]

Array = NDArray[np.float64]

#: Steps; those after the first few count in the result.
STEPS, EARLY = 6, 1

#: Shares of ``mu^2`` where records are many, and what is added where they are few.  The steps have
#: the rest.
SHARES = (
    (0.05, 0.10),  # Gram of the rows
    (0.01, 0.00),  # histogram of the lengths of whitened rows
    (0.10, 0.20),  # their Gram
    (0.02, 0.05),  # pilot estimate
    (0.03, 0.00),  # histogram of the lengths of scores
)

#: Few: n mu below this for eight coefficients, growing with their square root.
FEW = 3000.0

#: Share of what the steps have that the early ones get.
FIRST = 0.05

#: Radius of the first Gram's weights in sqrt(p), for standardised columns.
FIRST_RADIUS = 1.5

#: Bound on the response in the pilot estimate, in its standard deviations.
PILOT_CAP = 3.0

#: Largest noise of the second Gram, as ``sqrt(2 p)`` times its scale; its radius is the longest
#: that keeps it.
GRAM_NOISE = 0.3

#: Curvature that discounted rows may have beyond that of the whitened Gram, which is about 1: a
#: full step overshoots by less than it goes.
CURVATURE_BEYOND = 1.0

#: Steps that grow by more, and by more than their noise explains, overshoot.
GROWTH, LOUD = 1.2, 4.0

#: Of the second Gram's eigenvalues, which are about 1 where rows longer than its radius do not
#: matter; below, hardly any others tell a direction, and steps that do not discount them would be
#: lost, for all coefficients, by one column of hardly anything but zeros.
THIN = 0.35

#: Cells to a factor 2 in the histograms of rows and of scores: larger cells see tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Cells of the finer histogram.
MOST_CELLS = len(tops_of_cells(FINE))


class Rows(Protocol):
    """What least squares may ask; each answer is charged before it is drawn."""

    @property
    def n(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    def mapped(self, matrix: Array, radius: float = ..., power: float = ...) -> Rows: ...

    def gram(self, radius: float, mu: float) -> Answer: ...

    def moment(self, radius: float, cap: float, mu: float) -> Answer: ...

    def lengths(self, edges: Array, mu: float, theta: Array | None = None) -> Answer: ...

    def clipped(
        self, theta: Array, radius: float, mu: float, mu_meat: float = 0.0
    ) -> JointAnswer: ...


class Found(NamedTuple):
    """The result of a run; matrices are of whitened coefficients, which ``mapping`` maps back.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        Coefficients of the rows as they came.
    mapping, unmapping : ndarray of shape (p, p)
        From whitened coefficients to those of the rows, and back.
    meat : ndarray of shape (p, p)
        Mean of the scores' outer products, without negative eigenvalues.
    meat_scale, noise : float
        Standard deviations of the noise in ``meat`` and in each whitened coefficient.
    undone : ndarray of shape (p,)
        Squares of what clipping, and directions that noise hides, may have left undone.
    n_hidden : int
        Number of such directions.
    bound : float
        Norm to which scores were held.
    beyond : float
        Share of the records with a longer score, as far as it is seen.
    cut : float
        Mean of what is cut off the scores, and of what of an unseen tail would be.
    power : float
        Of the weights by which long rows were discounted.
    grew : bool
        Whether the last step was longer than the one before.
    unseen : float
        Number of records that no histogram would show, however far they are from the others.
    tellers : float
        Number of records that tell the direction that fewest do, if these are far from the others.
    thin : ndarray of shape (p,)
        That direction, in the rows' units.
    """

    theta: Array
    mapping: Array
    unmapping: Array
    meat: Array
    meat_scale: float
    noise: float
    undone: Array
    n_hidden: int
    bound: float
    beyond: float
    cut: float
    power: float
    grew: bool
    unseen: float
    tellers: float
    thin: Array


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each quantity, and of each step's scores."""

    rows: float
    lengths: float
    whitened: float
    pilot: float
    scores: float
    steps: tuple[float, ...]


def few(n: int, p: int, mu: float) -> float:
    """How few the records are, from 0 to 1: public."""
    return min(1.0, FEW * math.sqrt(p / 8.0) / (n * mu))


def budgets(n: int, p: int, mu: float) -> Budgets:
    """How ``mu`` is divided: public."""
    scarce = few(n, p, mu)
    shares = [many + scarce * more for many, more in SHARES]
    left = 1.0 - 8.0 * MARGIN_SHARES - sum(shares)
    counted = STEPS - EARLY
    each = [FIRST / EARLY] * EARLY + [(1.0 - FIRST) / counted] * counted
    steps = tuple([mu * math.sqrt(left * share) for share in each])
    rows, lengths, whitened, pilot, scores = [mu * share**0.5 for share in shares]
    return Budgets(rows, lengths, whitened, pilot, scores, steps)


def least_squares(
    rows: Rows,
    mu: float,
    inference: bool,
    iterates: list[Array],
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """Spend ``mu`` on the coefficients of least squares.

    Parameters
    ----------
    rows : Rows
        Columns and response of location about 0 and scale about 1.
    mu : float
    inference : bool
        Whether to release the scores' covariance beside them.
    iterates : list of ndarray
        To which the pilot estimate and that after each step are added, in the rows' units.
    progress : callable, optional

    Privacy
    -------
    Post-processing of the answers, which charge their ledger.
    """
    n, p = rows.n, rows.dimension
    budget = budgets(n, p, mu)
    whiten, unmapping, _ = _inverse_root(rows.gram(FIRST_RADIUS * p**0.5, budget.rows))
    rows, mapping = rows.mapped(whiten), whiten

    lengths = seen_lengths(rows, FINE, budget.lengths)
    radius = min(lengths.longest, longest_radius(n, p, budget.whitened))
    gram = rows.gram(radius, budget.whitened)
    whiten, back, values = _inverse_root(gram)
    power = least_exponent(lengths, radius, CURVATURE_BEYOND)
    if values[0] < THIN:  # long rows that no cell shows, which the map would make longer still
        power = 1.0
    pilot, pilot_variance = _pilot(rows, whiten, radius, budget.pilot)
    steep, mapping = rows.mapped(whiten, radius, power), mapping @ whiten
    unmapping = back @ unmapping

    scores = seen_lengths(steep, COARSE, budget.scores, pilot)
    counted = math.hypot(*budget.steps[EARLY:])
    bound = best_bound(scores, 2.0 / (n * counted), p)

    theta, previous, grew = pilot, math.inf, False
    iterates.append(mapping @ theta)
    points: list[Array] = []
    meats: list[Answer] = []
    for step, mu_step in enumerate(budget.steps):
        counts = step >= EARLY
        # the meat is free up to half of the gradient's mu (claim C17)
        mu_meat = 0.5 * mu_step if inference and counts else 0.0
        answer = steep.clipped(theta, bound, mu_step, mu_meat)
        direction, noise = answer.gradient.value, answer.gradient.noise_scale
        length = float(np.linalg.norm(direction))
        grew = length > GROWTH * previous + LOUD * noise * p**0.5
        if grew and power < 1.0:  # rows that nobody saw are long: discounted, none of them matters
            power, previous = 1.0, math.inf
            steep = rows.mapped(whiten, radius, power)
            theta, points, meats = pilot, [], [answer.meat][: bool(mu_meat)]
        else:
            previous = length
            points = [*points, theta + direction] if counts else []
            meats = [*meats, answer.meat] if counts else []
            theta = np.mean(points, axis=0) if counts else theta + direction  # of equal noises
        iterates.append(mapping @ theta)
        if progress is not None:
            progress(step + 1, STEPS)

    cut, hidden = float(scores.tail(np.array([bound]))[0]), values < floor_of(gram)
    known = np.clip(
        (values - 2.0 * gram.noise_scale) / np.maximum(values, floor_of(gram)), 0.0, 1.0
    )
    unknown = np.minimum(1.0 / p, pilot_variance + (1.0 - known) ** 2 / p)
    return Found(
        theta=mapping @ theta,
        mapping=mapping,
        unmapping=unmapping,
        meat=_meat(meats, lengths, radius, power, bound) if inference else np.zeros((p, p)),
        meat_scale=meats[-1].noise_scale / len(meats) ** 0.5 if inference else 0.0,
        noise=noise / max(1, len(points)) ** 0.5,
        undone=_left_over(known) ** 2 * unknown + (CANCELS * cut) ** 2 / p,
        n_hidden=int(np.count_nonzero(hidden)),
        bound=bound,
        beyond=float(scores.shares[scores.middles > bound].sum()),
        cut=cut,
        power=power,
        grew=grew,
        unseen=n * scores.invisible,
        # long rows count as much as one of this radius, so that fewer than n/radius^2 are few
        tellers=n * float(values[0]) / radius**2 if values[0] < THIN else math.inf,
        thin=mapping[:, 0],
    )


def seen_lengths(rows: Rows, per_octave: int, mu: float, theta: Array | None = None) -> Lengths:
    """A released histogram of the rows' lengths, or of their scores' at a parameter."""
    found = rows.lengths(tops_of_cells(per_octave)[:-1], mu, theta)
    return Lengths.visible(found.value, found.noise_scale, per_octave)


def longest_radius(n: int, p: int, mu: float) -> float:
    """At which the noise of a Gram is as large as it may be."""
    return math.sqrt(GRAM_NOISE * n * mu / (math.sqrt(2.0 * p) * math.sqrt(2.0)))


def _pilot(rows: Rows, whiten: Array, radius: float, mu: float) -> tuple[Array, Array]:
    """A first estimate of the whitened coefficients, and its variance along each."""
    moment = rows.moment(radius, PILOT_CAP, mu)
    # whitened, a standardised response has coefficients of mean square below 1/p
    noise = np.einsum("ij,ij->j", whiten, whiten) * moment.noise_scale**2
    shrunk = 1.0 / (1.0 + len(whiten) * noise)
    return shrunk * (whiten.T @ moment.value), noise * shrunk


def floor_of(gram: Answer) -> float:
    """Below it an eigenvalue is not told from noise."""
    return math.sqrt(2.0 * len(gram.value)) * gram.noise_scale


def _inverse_root(gram: Answer) -> tuple[Array, Array, Array]:
    """``U (max(L, floor))^-1/2`` of a released Gram, its inverse, and L."""
    values, vectors = eigh(gram.value)
    roots = np.sqrt(np.maximum(values, floor_of(gram)))
    return vectors / roots, (vectors * roots).T, values


def _left_over(curvatures: Array) -> Array:
    """Part of an error at the pilot that the steps leave, where curvature is not 1."""
    away = 1.0 - curvatures
    at = away**EARLY
    points: list[Array] = []
    for _ in range(STEPS - EARLY):
        points.append(away * at)
        at = np.mean(points, axis=0)
    return at


def _meat(meats: list[Answer], rows: Lengths, radius: float, power: float, bound: float) -> Array:
    """Mean of released matrices, its negative eigenvalues made zero, and what clipping took off it.

    Where few long rows are all that tells a direction, clipping takes much of what their scores
    vary by and hardly anything from the others: it is given back where least is left.
    """
    held = floor_eigenvalues(np.mean([meat.value for meat in meats], axis=0), 0.0)[0]
    spread = math.sqrt(max(float(np.trace(held)), 0.0) / len(held))
    values, vectors = eigh(held)
    level = water_level(values, rows.clipped_off(spread, radius, power, bound))
    return np.asarray((vectors * np.maximum(values, level)) @ vectors.T)


def water_level(values: Array, more: float) -> float:
    """To which the lowest of increasing values rise if so much is poured over them."""
    return float(np.min((more + np.cumsum(values)) / np.arange(1.0, len(values) + 1.0)))
