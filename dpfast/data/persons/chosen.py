"""One row of each person, chosen by a number that knows nothing of them (claim C67)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]


class OneRowPerPerson(Records):
    """n records, each of which is one of the usable rows of a person, each as likely."""

    can_be_partitioned = False

    def __init__(self, persons: PersonMeans, draw: Callable[[int], Array]) -> None:
        self.n, self.n_covariates = persons.n, persons.n_covariates
        self.names, self.coding = persons.names, persons.coding
        self.block_sizes = (self.n,)
        self._persons, self._draw = persons, draw
        self._found: tuple[Covariates, Array] | None = None

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """All of them."""
        if self._found is None:
            self._found = self._chosen()
        return iter([self._found])

    def _chosen(self) -> tuple[Covariates, Array]:
        counts = self._persons.counts
        places = np.minimum(np.floor(self._draw(self.n) * counts), counts - 1).astype(np.int64)
        found: tuple[Array, Array] | None = None
        seen = np.zeros(self.n, dtype=np.int64)
        for X, y, persons in self._persons.usable_rows():
            if found is None:
                found = (
                    np.full((self.n, X.shape[1]), np.nan),
                    np.full((self.n, *y.shape[1:]), np.nan),
                )
            order = np.argsort(persons, kind="stable")
            mine = persons[order]
            first = np.flatnonzero(np.diff(mine, prepend=-1))  # of each person's rows here
            lengths = np.diff(np.append(first, len(mine)))
            place = np.arange(len(mine)) - np.repeat(first, lengths) + seen[mine]
            hit = place == places[mine]
            found[0][mine[hit]], found[1][mine[hit]] = X[order[hit]], y[order[hit]]
            seen[mine[first]] += lengths
        assert found is not None
        return found
