"""Sums over persons, each of whom contributes the mean of what their rows contribute."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.noisy_release import source_of_noise
from dpfast.data import Records
from dpfast.data.persons.chosen import OneRowPerPerson
from dpfast.data.persons.means import ROWS_AT_A_TIME, PersonMeans
from dpfast.data.reduction import tree_sum
from dpfast.kernels.records import GRADIENT, MEAT, RecordKernel, summation_depth
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import secret_choices

Array = NDArray[np.float64]

#: Persons whose products are added one after the other at most, less than rows in a kernel's block
#: pass through (claims C11 and C72).
PERSONS_AT_A_TIME = 128

#: Bytes of the scores of persons that are summed in one pass over the rows.
SCORE_BYTES = 1 << 28

#: Roundings of a person's score while it is held to its bound, in excess of two for each entry.
HELD = 64


def depth_of_products(row: int) -> int:
    """Roundings of a person's product with ``row`` entries a side (claim C72)."""
    return 2 * (summation_depth(ROWS_AT_A_TIME, row, GRADIENT) + 8) + 2 * row + HELD


def one_row_per_person(records: Records, noise: NoiseSource) -> Records:
    """Records of which units are bought: of persons one row each, chosen in secret (claim C67)."""
    if not records.means:
        return records
    persons: Any = records
    return OneRowPerPerson(persons, partial(secret_choices, source=source_of_noise(noise)))


def person_sums(
    records: PersonMeans,
    kernel: RecordKernel,
    theta: Array,
    want: int,
    threads: int,
    meat_bound: float,
) -> tuple[Any, Any, Array]:
    """Exact means over persons of score, curvature and product of the score (claim C72)."""
    n, rest = float(records.n), want & ~MEAT
    gradient, curvature = None, None
    if rest:
        gradient, curvature, _ = records.total(kernel.sums, theta, rest, n, threads)
    meat = tree_sum(_products(records, kernel, theta, meat_bound)) / n
    return gradient, curvature, meat


def _products(
    records: PersonMeans, kernel: RecordKernel, theta: Array, meat_bound: float
) -> Iterator[Array]:
    """Sums of products of some persons at a time, the same however many scores are kept."""
    p = len(theta)
    step = max(1, SCORE_BYTES // (16 * p * PERSONS_AT_A_TIME)) * PERSONS_AT_A_TIME
    for low in range(0, records.n, step):
        means = _scores(records, kernel, theta, low, min(low + step, records.n))
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", means, means)
            held = np.minimum(1.0, np.sqrt(meat_bound / squares))
            means *= np.where(squares > 0.0, held, 1.0)[:, None]
        for first in range(0, len(means), PERSONS_AT_A_TIME):
            some = means[first : first + PERSONS_AT_A_TIME]
            yield some.T @ some


def _scores(records: PersonMeans, kernel: RecordKernel, theta: Array, low: int, high: int) -> Array:
    """Mean scores of the persons from ``low`` to ``high - 1``, from one pass over the rows."""
    found, errors = np.zeros((2, high - low, len(theta)))
    for X, y, persons in records.pieces():
        mine = np.flatnonzero((persons >= low) & (persons < high))
        if not len(mine):
            continue
        mine = mine[np.argsort(persons[mine], kind="stable")]
        sorted_persons = persons[mine]
        ends = np.append(np.flatnonzero(np.diff(sorted_persons)), len(mine) - 1) + 1
        who = sorted_persons[ends - 1] - low
        part = kernel.scores_of_runs(X[mine], y[mine], theta, ends)
        before = found[who]
        after = before + part
        added = after - before
        errors[who] += (before - (after - added)) + (part - added)
        found[who] = after
    return np.asarray(found + errors)
