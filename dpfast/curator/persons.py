"""Sums over persons; each contributes the mean over their rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.noisy_release import source_of_noise
from dpfast.data import Records
from dpfast.data.persons.chosen import chosen_rows
from dpfast.data.persons.means import ROWS_AT_A_TIME, PersonMeans
from dpfast.data.reduction import tree_sum
from dpfast.kernels.records import GRADIENT, MEAT, RecordKernel, summation_depth
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import secret_choices

#: Persons whose products are added in sequence: fewer roundings than the rows of a kernel's block
#: pass through (claims C11 and C72).
PERSONS_AT_A_TIME = 128

#: Bytes of persons' scores held in memory; more persons need further passes over the rows.
SCORE_BYTES = 1 << 28

#: Roundings of a person's score while it is clipped, in excess of two for each entry.
CLIPPING_ROUNDINGS = 64


def depth_of_products(row: int) -> int:
    """Count the roundings of a person's product with ``row`` entries a side (claim C72)."""
    return 2 * (summation_depth(ROWS_AT_A_TIME, row, GRADIENT) + 8) + 2 * row + CLIPPING_ROUNDINGS


def one_row_per_person(records: Records, noise: NoiseSource) -> Records:
    """Select one secret random row of each person, to estimate units from (claim C67)."""
    if not records.means:
        return records
    persons: Any = records
    return chosen_rows(persons, partial(secret_choices, source=source_of_noise(noise)))


def person_sums(
    records: PersonMeans,
    kernel: RecordKernel,
    theta: Array,
    want: int,
    threads: int,
    meat_bound: float,
) -> tuple[Any, Any, Array]:
    """Compute exact means over persons of score, curvature and product of the score (claim C72)."""
    n, rest = float(records.n), want & ~MEAT
    gradient, curvature = None, None
    if rest:
        gradient, curvature, _ = records.total(kernel.sums, theta, rest, n, threads)
    meat = tree_sum(_products(records, kernel, theta, meat_bound)) / n
    return gradient, curvature, meat


def _products(
    records: PersonMeans, kernel: RecordKernel, theta: Array, meat_bound: float
) -> Iterator[Array]:
    """Yield sums of outer products of the scores, one group of persons at a time.

    The groups do not depend on how many scores fit into memory.
    """
    p = len(theta)
    step = max(1, SCORE_BYTES // (16 * p * PERSONS_AT_A_TIME)) * PERSONS_AT_A_TIME
    for low in range(0, records.n, step):
        means = _scores(records, kernel, theta, low, min(low + step, records.n))
        with np.errstate(all="ignore"):
            squares = np.einsum("ij,ij->i", means, means)
            factors = np.minimum(1.0, np.sqrt(meat_bound / squares))
            means *= np.where(squares > 0.0, factors, 1.0)[:, None]
        for first in range(0, len(means), PERSONS_AT_A_TIME):
            rows = means[first : first + PERSONS_AT_A_TIME]
            yield rows.T @ rows


def _scores(records: PersonMeans, kernel: RecordKernel, theta: Array, low: int, high: int) -> Array:
    """Compute mean scores of the persons from ``low`` to ``high - 1`` in one pass over the rows.

    Sums are compensated (Ogita, Rump and Oishi 2005).
    """
    sums, errors = np.zeros((2, high - low, len(theta)))
    for X, y, persons in records.pieces():
        matched = np.flatnonzero((persons >= low) & (persons < high))
        if not len(matched):
            continue
        matched = matched[np.argsort(persons[matched], kind="stable")]
        sorted_persons = persons[matched]
        ends = np.append(np.flatnonzero(np.diff(sorted_persons)), len(matched) - 1) + 1
        positions = sorted_persons[ends - 1] - low
        part = kernel.scores_of_runs(X[matched], y[matched], theta, ends)
        before = sums[positions]
        after = before + part
        added = after - before
        errors[positions] += (before - (after - added)) + (part - added)
        sums[positions] = after
    return np.asarray(sums + errors)
