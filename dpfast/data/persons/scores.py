"""What is seen of a person: the mean score of their rows, a record like any other (claim C81)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]

#: Bytes of the scores of persons that are summed in one pass over the rows.
SCORE_BYTES = 1 << 28

#: A row's score is held to so many times the norm of a person's: hardly any is longer.
LOOSE = 1024.0

#: Power of 2 of the whole numbers of which a row's longest score has as many, so that sums of up to
#: 2^42 rows are exact in whatever order rows come; as in the kernels.
WHOLE = 44


class PersonScores(Records):
    """n records, each the mean score of a person's rows beside a response of 1.

    ``view`` is what the kernels see of a row: its score, of p entries.
    """

    can_be_partitioned = False

    def __init__(self, persons: PersonMeans, view: Any, p: int, longest: float) -> None:
        self.n, self.n_covariates, self.names = persons.n, p, None
        self.block_sizes = blocks_of_persons(self.n, p)
        self._persons, self._view, self._longest = persons, view, longest

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Some persons at a time, each from one pass over all rows."""
        first = 0
        for size in self.block_sizes:
            sums, told = np.zeros((size, self.n_covariates)), np.zeros(size, dtype=np.bool_)
            for X, beside, whose in self._persons.pieces():
                self._view.add_scores(X, beside, whose, first, self._longest, sums, told)
            sums *= self._longest * 2.0**-WHOLE
            yield sums, np.where(told, 1.0, math.nan)
            first += size


def blocks_of_persons(n: int, p: int) -> tuple[int, ...]:
    """How many persons' scores of p entries are made in each pass: public."""
    some = max(1, SCORE_BYTES // (8 * p))
    return tuple([min(some, n - first) for first in range(0, n, some)])


def counting_unit(n: int) -> float:
    """What a person's rows share when their lengths are counted: n of it are added exactly."""
    return math.ldexp(1.0, 52 - n.bit_length())
