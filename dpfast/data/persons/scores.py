"""Mean scores of persons' rows: one record for each person (claim C81)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.data.persons.means import PersonMeans
from dpfast.data.records import Covariates, Records, Wrapped

#: Bytes of the persons' scores that one pass over the rows makes.
SCORE_BYTES = 1 << 28

#: A row's score is clipped to this multiple of the norm to which persons' scores are clipped; few
#: rows have a longer one.
ROW_NORM_FACTOR = 1024.0

#: A row's longest score is 2^44 units, and scores are whole numbers of units, as in the kernels:
#: sums of up to 2^42 rows are then exact in any order of the rows.
FIXED_POINT_BITS = 44


def person_scores(persons: PersonMeans, view: Any, p: int, longest: float) -> Records:
    """Make mean scores of n persons, one record each beside a response of 1.

    ``view`` computes a row's score, of p entries, in the kernels.
    """
    sizes = blocks_of_persons(persons.n, p)

    def blocks() -> Iterator[tuple[Covariates, Array]]:
        """Yield some persons at a time, each block from one pass over all rows."""
        first = 0
        for size in sizes:
            sums = np.zeros((size, p))
            has_score = np.zeros(size, dtype=np.bool_)
            for X, columns, row_persons in persons.pieces():
                view.add_scores(X, columns, row_persons, first, longest, sums, has_score)
            sums *= longest * 2.0**-FIXED_POINT_BITS
            yield sums, np.where(has_score, 1.0, math.nan)
            first += size

    facts: dict[str, Any] = {"n_covariates": p, "names": None, "coding": None, "block_sizes": sizes}
    return Wrapped(persons, blocks, **facts, read_again=False)


def blocks_of_persons(n: int, p: int) -> tuple[int, ...]:
    """Return the public numbers of persons whose scores of p entries each pass makes."""
    n_at_a_time = max(1, SCORE_BYTES // (8 * p))
    return tuple([min(n_at_a_time, n - first) for first in range(0, n, n_at_a_time)])


def counting_unit(n: int) -> float:
    """Return the whole number that one person counts as; sums over n persons are exact."""
    return math.ldexp(1.0, 52 - n.bit_length())
