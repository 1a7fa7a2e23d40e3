"""Random choice of one row of each person, independent of the rows' values (claim C67)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dpfast.arguments import Array
from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records, Wrapped


def chosen_rows(persons: PersonMeans, draw: Callable[[int], Array]) -> Records:
    """Make records of n persons: one usable row of each, chosen uniformly on the first read."""
    make = partial(_chosen, persons, draw)
    return Wrapped(persons, make, kept=True, block_sizes=(persons.n,), read_again=False)


def _chosen(people: PersonMeans, draw: Callable[[int], Array]) -> list[tuple[Covariates, Array]]:
    """Select the rows in one pass, as one block."""
    n = people.n
    counts = people.counts
    places = np.minimum(np.floor(draw(n) * counts), counts - 1).astype(np.int64)
    chosen: tuple[Array, Array] | None = None
    n_rows_seen = np.zeros(n, dtype=np.int64)
    for X, y, persons in people.usable_rows():
        if chosen is None:
            chosen = (
                np.full((n, X.shape[1]), np.nan),
                np.full((n, *y.shape[1:]), np.nan),
            )
        order = np.argsort(persons, kind="stable")
        sorted_persons = persons[order]
        first = np.flatnonzero(np.diff(sorted_persons, prepend=-1))  # of each person's rows here
        run_lengths = np.diff(np.append(first, len(sorted_persons)))
        place = (
            np.arange(len(sorted_persons))
            - np.repeat(first, run_lengths)
            + n_rows_seen[sorted_persons]
        )
        hit = place == places[sorted_persons]
        chosen[0][sorted_persons[hit]] = X[order[hit]]
        chosen[1][sorted_persons[hit]] = y[order[hit]]
        n_rows_seen[sorted_persons[first]] += run_lengths
    assert chosen is not None
    return [chosen]
