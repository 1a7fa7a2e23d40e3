"""Separation: levels in which released scores see no response, or only responses.

A maximum likelihood estimate does not exist then (Albert and Anderson 1984).
"""

from __future__ import annotations

import numpy as np

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.models import Loss
from dpfast.models.losses import MASSES, NODES
from dpfast.solvers.pcn.result import Scores

#: Standard deviations by which a level with enough responses must err for a false warning.
FALSE_WARNING_SDS = 2.4

#: Responses times mu expected in a level, from which on it can be named; with fewer, none is seen
#: by chance.
MIN_EXPECTED = 20.0

#: Part of that number that the released share of a level may show, because of its noise.
EXPECTED_PART = 0.75

#: Part of it below which an estimated number passes for none.
ZERO_PART = 0.4

#: Number of levels that are named, at most.
MAX_NAMED = 8

#: Smallest divisor, in place of zero.
TINY = 1e-150

#: Difference of second moment and mean up to which a column passes for 0 and 1, as a part of the
#: larger level's share; of the smaller one's it may be twice as large.
INDICATOR_TOLERANCE = 0.25

#: Relative error allowed to the number of responses that a model expects.
MODEL_ERROR = 0.1

SEPARATED = (
    "all responses of the records with {level} in {name!r} are {what}, up to the noise: a "
    "finite estimate may not exist, and its interval is not reliable. Leave such records out, or "
    "merge them into a coarser level."
)


def separated(
    scores: Scores,
    loss: Loss,
    natural: Array,
    names: tuple[str, ...],
    offset: tuple[float, float],
    n: int,
    mu: float,
) -> list[str]:
    """Return warnings of columns of 0 and 1 in whose levels all responses seem equal.

    The responses in a level are the model's expectation plus the score, at any parameter.  Their
    mean over the queried parameters is as exact as the noise of the scores allows.  ``natural``
    has the original columns as rows, in terms of the design's, with the constant first.
    """
    min_responses = MIN_EXPECTED / mu
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        # a column with an entry that is not finite is none: its deviation is NaN
        found = decisions.indicators(scores.moments, natural, INDICATOR_TOLERANCE)
        indicators, shares, known = found[0], np.array(found[1]), found[2]
        if not indicators:
            return []
        constant, columns = natural[0], natural[1:][indicators]
        labels = loss.largest_response is not None
        # of all records, of those with a 1 in a column, and of those with a 0
        forms = np.concatenate([constant[None], columns, constant - columns])
        parts = np.concatenate([[1.0], shares, known - shares])
        levels = [(names[k], level) for level in (1, 0) for k in indicators]
        said = []
        for side in (False, True)[: 1 + labels]:
            counts, noise = _responses(scores, loss, forms, parts, offset, n, side)
            # clearly fewer than are expected at least, where noise is rarely as large
            expected = parts * counts[0]
            clear = FALSE_WARNING_SDS * noise < np.maximum(0.5 * min_responses, 0.1 * expected)
            few = counts < ZERO_PART * min_responses
            enough = expected >= EXPECTED_PART * min_responses
            for k in np.flatnonzero(few & clear & enough)[:MAX_NAMED]:
                name, level = levels[k - 1]
                said.append(SEPARATED.format(level=level, name=name, what=int(side)))
        return said


def _responses(
    scores: Scores,
    loss: Loss,
    forms: Array,
    shares: Array,
    offset: tuple[float, float],
    n: int,
    count_zeros: bool,
) -> tuple[Array, Array]:
    """Estimate the number of responses in levels, or of zeros among labels, and its noise.

    The rows of ``forms`` are linear forms that are 1 in a level; the first is 1 for all records.
    """
    moments, constant = scores.moments, forms[0]
    mean, sums = moments @ constant, forms @ moments
    covariances = sums - (forms @ mean)[:, None] * mean
    variances = np.maximum(np.einsum("ij,ij->i", covariances, forms), TINY)
    # mean rows of the levels: both their own form and the constant must be 1 there
    mean_rows = sums / shares[:, None]
    excess = np.stack(
        [1.0 - mean_rows @ constant, 1.0 - np.einsum("ij,ij->i", mean_rows, forms)], axis=1
    )
    row_pairs = np.stack([np.broadcast_to(constant, forms.shape), forms], axis=1)
    mean_rows = mean_rows + np.einsum("ikj,ik->ij", row_pairs, _solved(row_pairs, excess))
    score_norms = np.linalg.norm(scores.rows @ forms.T, axis=0)
    counts, errors = [], []
    for theta, score, noise in scores.asked:
        square = (
            theta @ moments @ theta - (mean @ theta) ** 2 - (covariances @ theta) ** 2 / variances
        )
        spread = np.sqrt(np.maximum(square, 0.0) + np.square(offset[1]))
        at = (mean_rows @ theta + offset[0])[:, None] + spread[:, None] * NODES
        low, high = (loss._score_at(np.full(at.shape, label), at, 1.0) for label in (0.0, 1.0))
        score_range = np.maximum((high - low) @ MASSES, TINY)
        expected = n * shares * ((high if count_zeros else -low) @ MASSES) / score_range
        counts.append(expected + n * (forms @ score) / score_range * (-1.0 if count_zeros else 1.0))
        errors.append(np.hypot(n * noise * score_norms / score_range, MODEL_ERROR * expected))
    precision = np.maximum(errors, TINY) ** -2.0
    total_precision = precision.sum(axis=0)
    return (precision * counts).sum(axis=0) / total_precision, total_precision**-0.5


def _solved(row_pairs: Array, targets: Array) -> Array:
    """Return coefficients of two rows that reproduce these products; halves if rows coincide."""
    (first, across), (_, second) = np.einsum("ikj,ilj->kli", row_pairs, row_pairs)
    determinant = first * second - across**2
    invertible = determinant > 1e-9 * first * second
    determinant = np.where(invertible, determinant, 1.0)
    first_part = (second * targets[:, 0] - across * targets[:, 1]) / determinant
    second_part = (first * targets[:, 1] - across * targets[:, 0]) / determinant
    alone = 0.5 * targets[:, 0] / np.maximum(first, TINY)
    return np.stack(
        [np.where(invertible, first_part, alone), np.where(invertible, second_part, alone)], axis=1
    )
