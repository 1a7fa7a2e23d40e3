"""Random choice of one row of each person, independent of the rows' values (claim C67)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]


class OneRowPerPerson(Records):
    """Records of n persons: one usable row of each, chosen uniformly."""

    can_be_partitioned = False

    def __init__(self, persons: PersonMeans, draw: Callable[[int], Array]) -> None:
        self.n = persons.n
        self.n_covariates = persons.n_covariates
        self.names = persons.names
        self.coding = persons.coding
        self.block_sizes = (self.n,)
        self._persons = persons
        self._draw = draw
        self._found: tuple[Covariates, Array] | None = None

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield all records as one block; the rows are chosen on the first call."""
        if self._found is None:
            self._found = self._chosen()
        return iter([self._found])

    def _chosen(self) -> tuple[Covariates, Array]:
        counts = self._persons.counts
        places = np.minimum(np.floor(self._draw(self.n) * counts), counts - 1).astype(np.int64)
        chosen: tuple[Array, Array] | None = None
        n_rows_seen = np.zeros(self.n, dtype=np.int64)
        for X, y, persons in self._persons.usable_rows():
            if chosen is None:
                chosen = (
                    np.full((self.n, X.shape[1]), np.nan),
                    np.full((self.n, *y.shape[1:]), np.nan),
                )
            order = np.argsort(persons, kind="stable")
            sorted_persons = persons[order]
            first = np.flatnonzero(
                np.diff(sorted_persons, prepend=-1)
            )  # of each person's rows here
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
        return chosen
