"""Random folds that depend on the number of records only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import whole_number
from dpfast.curator.noisy_release import source_of_noise
from dpfast.errors import InvalidInput
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.random_parts import random_parts

Indices = NDArray[np.intp]


class DealtFolds:
    """Random folds of records: a splitter for scikit-learn's ``cv=``.

    A record's fold depends neither on labels, its own or others', nor on the order of the records.
    So replacing one record moves no other.  An integer ``cv`` stratifies the folds of a classifier
    by exact labels, and does not have this property.

    Parameters
    ----------
    n_splits : int
        At least 2.
    noise : NoiseSource, optional
        Default: operating-system entropy.  ``SeededNoise`` is for simulation.

    Other Parameters
    ----------------
    X, y, groups : array-like of shape (n, q), object, None
        Of methods: only n is used.  Records are assigned one by one, so groups are refused.

    Privacy
    -------
    Free (claim C53): sizes are functions of n.  Fits and scores on the folds have a price;
    see :func:`cross_validate`.

    Examples
    --------
    >>> folds = dpfast.estimators.DealtFolds(5)
    >>> [len(test) for train, test in folds.split(np.zeros((12, 1)))]
    [3, 3, 2, 2, 2]
    """

    def __init__(self, n_splits: int = 5, *, noise: NoiseSource | None = None) -> None:
        self.noise = checked_noise(noise)
        self.n_splits = whole_number(n_splits, "n_splits", least=2)

    def parts(self, n: int) -> Indices:
        """Assign each of n records at random to the fold in which it is tested, shape (n,).

        Parameters
        ----------
        n : int
            Number of records, public; sizes of folds differ by at most one.
        """
        return random_parts(whole_number(n, "n"), self.n_splits, source_of_noise(self.noise))

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Indices, Indices]]:
        """Yield the positions of the records to train and to test on, for new random folds.

        Privacy
        -------
        Free (claim C53): no value of X or y is read.
        """
        if groups is not None:
            raise InvalidInput(
                "records are assigned one by one, so the rows of one person would be on both sides "
                "of a split. Pass no groups, and data with one row per person."
            )
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        parts = self.parts(n)
        ways = range(self.n_splits)
        return ((np.flatnonzero(parts != j), np.flatnonzero(parts == j)) for j in ways)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Privacy
        -------
        Free: nothing is read.
        """
        return self.n_splits

    def __repr__(self) -> str:
        return f"DealtFolds({self.n_splits}, noise={self.noise!r})"
