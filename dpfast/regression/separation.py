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
    one = natural[0]
    moments, labels = scores.moments, loss.largest_response is not None
    sides = (False, True)[: 1 + labels]
    known = float(one @ moments @ one)
    whole = {side: _responses(scores, loss, one, one, 1.0, offset, n, side)[0] for side in sides}
    told = []
    for column, name in zip(natural[1:], names, strict=True):
        share = float(one @ moments @ column)
        square = float(column @ moments @ column)
        if not (0.0 < share < known and abs(square / share - 1.0) < ALIKE):
            continue
        for part, form, level in ((share, column, 1), (known - share, one - column, 0)):
            for side in sides:
                if part * whole[side] < enough:
                    continue
                found, noise = _responses(scores, loss, one, form, part, offset, n, side)
                # counts of enough responses are hardly ever lower, nor by their noise
                sure = (math.sqrt(enough) - 0.5 * SURE) ** 2 - noise
                if found < min(SEEN * noise, sure):
                    told.append(SEPARATED.format(level=level, name=name, what=int(side)))
    return told


def _responses(
    scores: Scores,
    loss: Loss,
    one: Array,
    form: Array,
    share: float,
    offset: tuple[float, float],
    n: int,
    other: bool,
) -> tuple[float, float]:
    """About how many responses a level has, or of labels how many zeros, and the noise of that."""
    inside, mean = scores.moments @ form / share, scores.moments @ one
    ones = np.array([one, form])  # which are 1 for every record in it
    if not (np.isfinite(ones).all() and np.isfinite(inside).all()):
        return math.inf, math.inf
    inside = inside + np.linalg.pinv(ones) @ (1.0 - ones @ inside)
    along = scores.moments @ form - (mean @ form) * mean
    length = np.linalg.norm(scores.rows @ form)
    counts, errors = [], []
    for theta, score, noise in scores.asked:
        square = theta @ scores.moments @ theta - (mean @ theta) ** 2
        square -= (along @ theta) ** 2 / np.maximum(along @ form, TINY)
        at = inside @ theta + offset[0]
        at = at + np.sqrt(np.maximum(square, 0.0) + np.square(offset[1])) * NODES
        low, high = (loss._score_at(np.full(len(at), label), at, 1.0) for label in (0.0, 1.0))
        each = np.maximum(MASSES @ (high - low), TINY)
        expected = n * share * (MASSES @ (high if other else -low)) / each
        beyond = n * (form @ score) / each * (-1.0 if other else 1.0)
        counts.append(expected + beyond)
        errors.append(np.hypot(n * noise * length / each, ROUGH * expected))
    precise = np.maximum(errors, TINY) ** -2.0
    found = float(np.dot(precise / precise.sum(), counts)), float(precise.sum() ** -0.5)
    return found if np.isfinite(found).all() else (math.inf, math.inf)  # nothing is told
