"""What is seen of a person: the mean score of their rows, a record like any other (claim C81)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpfast.data.bought.maps import View
from dpfast.data.bought.seen import norms, seen
from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]

#: Bytes of the scores of persons that are summed in one pass over the rows.
SCORE_BYTES = 1 << 28

#: A row's score is held to so many times the norm of a person's: hardly any is longer.
LOOSE = 1024.0

#: Power of 2 of the whole numbers of which a row's longest score has as many, so that sums of up to
#: 2^42 rows are exact in whatever order rows come.
WHOLE = 44


class PersonScores(Records):
    """n records, each the mean score of a person's rows beside a response of 1."""

    can_be_dealt = False

    def __init__(self, persons: PersonMeans, view: View, longest: float) -> None:
        self.n, self.n_covariates, self.names = persons.n, view.columns, None
        self.block_sizes = blocks_of_persons(self.n, view.columns)
        self._persons, self._view, self._longest = persons, view, longest

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Some persons at a time, each from one pass over all rows."""
        first = 0
        for size in self.block_sizes:
            yield self._of(first, size)
            first += size

    def _of(self, first: int, size: int) -> tuple[Covariates, Array]:
        sums, told = np.zeros((size, self.n_covariates)), np.zeros(size, dtype=np.bool_)
        for X, beside, persons in self._persons.pieces():
            rows, joined = seen(X, beside, self._view)
            scores = held(rows, joined[:, 0], self._longest)
            mine = (persons >= first) & (persons < first + size) & np.isfinite(scores).all(axis=1)
            who = persons[mine] - first
            whole = np.rint(np.ldexp(scores[mine] * joined[mine, 1, None], WHOLE))
            if not len(who):
                continue
            if np.any(who[1:] < who[:-1]):
                order = np.argsort(who, kind="stable")
                who, whole = who[order], whole[order]
            starts = np.flatnonzero(np.diff(who, prepend=-1))
            sums[who[starts]] += np.add.reduceat(whole, starts, axis=0)
            told[who[starts]] = True
        return np.ldexp(sums, -WHOLE) * self._longest, np.where(told, 1.0, math.nan)


def blocks_of_persons(n: int, p: int) -> tuple[int, ...]:
    """How many persons' scores of p entries are made in each pass: public."""
    some = max(1, SCORE_BYTES // (8 * p))
    return tuple([min(some, n - first) for first in range(0, n, some)])


def held(rows: Array, beside: Array, longest: float) -> Array:
    """Rows times what is beside them, in units of the longest and no longer than one."""
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)
        rows = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
        size = norms(rows, False)
        lengths = np.minimum(size * largest * np.abs(beside) / longest, 1.0)
        return rows * (np.sign(beside) * lengths / np.where(size > 0.0, size, 1.0))[:, None]
