"""Separation: levels in which released scores see no response, or nothing but responses."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.models import Loss
from dpfast.models.losses import MASSES, NODES
from dpfast.optimize.road.run import Scores

Array = NDArray[np.float64]

#: Deviations of its noise below which a number of responses is not told from none.
SEEN = 2.0

#: Deviations by which a level with enough responses would have to err for it to be said.
SURE = 2.4

#: Responses times mu that a level would have, were it like all records, from which on it is said.
ENOUGH = 20.0

#: Columns that are named at most.
MOST_SAID = 8

#: Instead of nothing below a division bar.
TINY = 1e-150

#: How far the second moment of a column of 0 and 1 may be from its mean, as a part.
ALIKE = 0.25

#: Part of the responses that a model expects by which they may be wrong.
ROUGH = 0.1

SEPARATED = (
    "all responses of the records with {level} in {name!r} are {what}, as far as the noise lets "
    "see: no finite estimate may exist, and the interval of it is not reliable. Leave such records "
    "out, or put them into a coarser level."
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
    """What is to be said of each column of 0 and 1, by where scores pointed.

    Responses in a level are what a model expected there and what scores found beyond it, whichever
    model that was: the mean of the points that were asked is as exact as the noise in the scores.
    ``natural`` has the columns as they came as rows, in those of the design, the constant first.
    """
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        return _separated(scores, loss, natural, names, offset, n, ENOUGH / mu)


def _separated(
    scores: Scores,
    loss: Loss,
    natural: Array,
    names: tuple[str, ...],
    offset: tuple[float, float],
    n: int,
    enough: float,
) -> list[str]:
    one, columns = natural[0], natural[1:]
    moments, labels = scores.moments, loss.largest_response is not None
    shares, known = columns @ moments @ one, float(one @ moments @ one)
    squares = np.einsum("ij,ij->i", columns @ moments, columns)
    told = (shares > 0.0) & (shares < known) & (np.abs(squares / shares - 1.0) < ALIKE)
    at = np.flatnonzero(told & np.isfinite(columns).all(axis=1))
    if not at.size:
        return []
    # of all records, of those with a 1 in a column, and of those with a 0
    forms = np.concatenate([one[None], columns[at], one - columns[at]])
    parts = np.concatenate([[1.0], shares[at], known - shares[at]])
    levels = [(names[k], level) for level in (1, 0) for k in at]
    said = []
    for side in (False, True)[: 1 + labels]:
        found, noise = _responses(scores, loss, forms, parts, offset, n, side)
        # counts of enough responses are hardly ever lower, nor by their noise
        sure = np.minimum(SEEN * noise, (math.sqrt(enough) - 0.5 * SURE) ** 2 - noise)
        for k in np.flatnonzero((found < sure) & (parts * found[0] >= enough))[:MOST_SAID]:
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
    other: bool,
) -> tuple[Array, Array]:
    """About how many responses levels have, or of labels how many zeros, and the noise of that.

    ``forms`` has what is 1 for the records in a level as its rows, the first for all records.
    """
    moments, one = scores.moments, forms[0]
    mean, seen = moments @ one, forms @ moments
    along = seen - (forms @ mean)[:, None] * mean
    own = np.maximum(np.einsum("ij,ij->i", along, forms), TINY)
    inside = seen / shares[:, None]  # mean rows, which have a 1 in both: of the level, and of all
    away = np.stack([1.0 - inside @ one, 1.0 - np.einsum("ij,ij->i", inside, forms)], axis=1)
    both = np.stack([np.broadcast_to(one, forms.shape), forms], axis=1)
    inside = inside + np.einsum("ikj,ik->ij", both, _solved(both, away))
    lengths = np.linalg.norm(scores.rows @ forms.T, axis=0)
    counts, errors = [], []
    for theta, score, noise in scores.asked:
        square = theta @ moments @ theta - (mean @ theta) ** 2 - (along @ theta) ** 2 / own
        spread = np.sqrt(np.maximum(square, 0.0) + np.square(offset[1]))
        at = (inside @ theta + offset[0])[:, None] + spread[:, None] * NODES
        low, high = (loss._score_at(np.full(at.shape, label), at, 1.0) for label in (0.0, 1.0))
        each = np.maximum((high - low) @ MASSES, TINY)
        expected = n * shares * ((high if other else -low) @ MASSES) / each
        counts.append(expected + n * (forms @ score) / each * (-1.0 if other else 1.0))
        errors.append(np.hypot(n * noise * lengths / each, ROUGH * expected))
    precise = np.maximum(errors, TINY) ** -2.0
    whole = precise.sum(axis=0)
    return (precise * counts).sum(axis=0) / whole, whole**-0.5


def _solved(both: Array, away: Array) -> Array:
    """Parts of two rows that together have these products with them; of a row twice, halves."""
    (first, across), (_, second) = np.einsum("ikj,ilj->kli", both, both)
    least = first * second - across**2
    told = least > 1e-9 * first * second
    least = np.where(told, least, 1.0)
    one = (second * away[:, 0] - across * away[:, 1]) / least
    two = (first * away[:, 1] - across * away[:, 0]) / least
    alone = 0.5 * away[:, 0] / np.maximum(first, TINY)
    return np.stack([np.where(told, one, alone), np.where(told, two, alone)], axis=1)
