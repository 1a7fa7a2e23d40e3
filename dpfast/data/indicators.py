"""Columns that are indicators of declared levels: shares and contrasts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.arithmetic import Arithmetic
from dpfast.data.coding import Coding, Main
from dpfast.data.schema import Categorical

Array = NDArray[np.float64]


#: Least share of a level: the deviation of an indicator stays positive in float64.
MIN_SHARE = 1e-8


class DeclaredLevels(NamedTuple):
    """Columns of a design that are 0 or 1, by levels that are declared.

    ``levels`` is their number; for a product of factors it is the number of all combinations.
    """

    places: range
    levels: int

    @property
    def spans_all(self) -> bool:
        """True if the columns are the indicators of all levels but one."""
        return len(self.places) == self.levels - 1

    def assumed(self, shares: Array, noise: float) -> Array:
        """Return the shares of ones that are assumed in coding, from noisy ones.

        Each is the geometric mean of a released share and an equal share.  With released shares
        alone, rows of a rare level are long and much clipped.  With equal shares, they are a
        direction of little variance beside the noise.  With the reference they add up to 1.
        """
        least, equal = max(noise, MIN_SHARE), 1.0 / self.levels
        assumed = np.sqrt(np.clip(shares, least, 1.0) * equal)
        if not self.spans_all:
            return np.minimum(assumed, 0.5)
        reference = math.sqrt(min(max(1.0 - float(shares.sum()), least), 1.0) * equal)
        return np.asarray(assumed / (assumed.sum() + reference))


def contrasts(shares: Array) -> Array:
    """Return a map of indicators in units of their standard deviation to uncorrelated contrasts.

    ``shares`` has the shares of all levels but one.  In coded units, a rare reference level is a
    direction of little variance.
    """
    deviations = np.sqrt(shares * (1.0 - shares))
    covariance = np.diag(shares) - np.outer(shares, shares)
    values, vectors = np.linalg.eigh(covariance / np.outer(deviations, deviations))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def declared_levels(terms: Coding) -> tuple[list[DeclaredLevels], int]:
    """Return the columns that are indicators of declared levels, and the number of all columns."""
    empty = {name: list[Any]() for name in terms.columns}
    found, first = [], 0
    for term in terms.terms:
        levels = [_levels(factor, terms) for factor in term]
        columns = math.prod(_width(factor, terms, empty) for factor in term)
        if levels and all(levels):
            found.append(DeclaredLevels(range(first, first + columns), math.prod(levels)))
        first += columns
    return found, first


def _levels(factor: Any, terms: Coding) -> int:
    """Return the number of declared levels of a factor, or 0."""
    if not isinstance(factor, Main):
        return 0
    declared = terms.columns[factor.name]
    if isinstance(declared, Categorical):
        return len(declared.levels)
    return 2 * (declared.kind == "binary")


def _width(factor: Any, terms: Coding, empty: Any) -> int:
    """Return the number of columns that a factor stands for."""
    if isinstance(factor, Arithmetic) or (
        isinstance(factor, Main) and not isinstance(terms.columns[factor.name], Categorical)
    ):
        return 1
    return len(factor.encode(empty, terms.columns)[1])
