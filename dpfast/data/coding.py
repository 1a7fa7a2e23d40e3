"""How the columns of a table become the columns of a design: public facts, no records.

A fit keeps the coding of the table it was made from, so that predictions take tables in the same
units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.data.columns import column, column_names, frame, numbers
from dpfast.errors import InvalidInput

if TYPE_CHECKING:
    from dpfast.data.schema import Column

__all__ = ["Coding", "Design", "Encoded", "Factor", "Main", "columns_by_name", "is_table"]

Array = NDArray[np.float64]
#: Values (n, k), names, and bounds (k, 2) of the columns that something stands for.
Encoded = tuple[Array, list[str], Array]


class Factor(Protocol):
    """What the columns of a term are products of."""

    def encode(self, table: Any, columns: Mapping[str, Column]) -> Encoded: ...


@dataclass(frozen=True)
class Main:
    """A declared column; a categorical one by all its indicators, or without the reference's."""

    name: str
    every_level: bool = False

    def encode(self, table: Any, columns: Mapping[str, Column]) -> Encoded:
        return columns[self.name].encode(column(table, self.name), self.name, self.every_level)


@dataclass(frozen=True)
class Design:
    """Encoded records and the public facts about them.

    Attributes
    ----------
    X : ndarray of shape (n, q)
        Private.
    y : ndarray of shape (n,) or None
        Private.
    names : tuple of str
        Of the q columns.
    bounds : ndarray of shape (q, 2)
        Public range of each column.
    fit_intercept : bool
    coding : Coding
        How any table of these columns becomes a design.
    """

    X: Array = field(repr=False)
    y: Array | None = field(repr=False)
    names: tuple[str, ...]
    bounds: Array = field(repr=False)
    coding: Coding = field(repr=False)
    fit_intercept: bool = True

    def arrays(self) -> tuple[Array, Array | None]:
        """``(X, y)`` without their coding: plain numbers, in coded units.

        ``dpfast.fit(design, None, ...)`` keeps the coding, for ``scale`` and for predictions.
        """
        return self.X, self.y

    @property
    def radius(self) -> float:
        """Public bound on the norm of a row, the intercept included: what ``Bounded`` takes."""
        largest = np.abs(self.bounds).max(axis=1)
        total = float(largest @ largest) + float(self.fit_intercept)
        return math.sqrt(total) * (1.0 + 1e-12)


@dataclass(frozen=True)
class Coding:
    """Declarations and terms that turn a table into a design.

    Attributes
    ----------
    columns : dict of str to Numeric, Categorical or Binary
        The declared columns that are used, the response among them.
    terms : tuple of tuple of Factor
        Each stands for the products of its factors' columns.
    response : str or None
    fit_intercept : bool
    """

    columns: Mapping[str, Column]
    terms: tuple[tuple[Factor, ...], ...]
    response: str | None = None
    fit_intercept: bool = True

    def design(self, table: Any) -> Design:
        """Encode a table, the response too."""
        values, names, bounds = self._encode(table, list(self.columns))
        y = None
        if self.response is not None:
            declared = self.columns[self.response]
            y = declared.encode(column(table, self.response), self.response)[0][:, 0]
        return Design(values, y, tuple(names), bounds, self, self.fit_intercept)

    def covariates(self, table: Any) -> Array:
        """Encode the covariates of a table that need not have the response, shape (m, q)."""
        return self._encode(table, self.covariate_columns)[0]

    @property
    def covariate_columns(self) -> list[str]:
        """Names of the columns that a prediction needs."""
        return [name for name in self.columns if name != self.response]

    def _encode(self, table: Any, needed: list[str]) -> Encoded:
        absent = [name for name in needed if name not in column_names(table)]
        if absent:
            raise InvalidInput(
                f"the table has no column {', '.join(map(repr, absent))}; needed are {needed}, in "
                "any order, in the units the schema declares."
            )
        lengths = {_length(column(table, name), name) for name in needed}
        if len(lengths) > 1:
            raise InvalidInput(f"the columns have different lengths: {sorted(lengths)}.")
        parts = [
            _product([factor.encode(table, self.columns) for factor in term]) for term in self.terms
        ]
        return (
            np.column_stack([values for values, _, _ in parts]),
            [name for _, names, _ in parts for name in names],
            np.concatenate([bounds for _, _, bounds in parts]),
        )

    def response_units(self) -> tuple[float, float]:
        """``(location, spread)``: the response is ``location + spread * coded``."""
        if self.response is None:
            return 0.0, 1.0
        declared = self.columns[self.response]
        return declared.location, declared.spread


def _product(factors: list[Encoded]) -> Encoded:
    """Column by column products, the first factor's columns varying fastest."""
    values, names, bounds = factors[0]
    for more, more_names, more_bounds in factors[1:]:
        pairs = [(i, j) for j in range(len(more_names)) for i in range(len(names))]
        with np.errstate(all="ignore"):
            values = np.column_stack([values[:, i] * more[:, j] for i, j in pairs])
            corners = [np.outer(bounds[i], more_bounds[j]) for i, j in pairs]
        names = [f"{names[i]}:{more_names[j]}" for i, j in pairs]
        bounds = np.array([[corner.min(), corner.max()] for corner in corners])
        if not np.isfinite(bounds).all():
            raise InvalidInput(
                f"the product {names[0]!r} has no finite bound over the declared ranges. Change "
                "the ranges or the centres."
            )
    return values, names, bounds


def _length(values: Any, name: str) -> int:
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes)):
        raise InvalidInput(
            f"column {name!r} must be a sequence of values, one for each row; received a "
            f"{type(values).__name__}. Write [value] for a single row."
        )
    return len(values)


def is_table(X: Any) -> bool:
    """Whether an argument has named columns: a data frame, an Arrow table, a mapping."""
    try:
        column_names(X)
    except InvalidInput:
        return False
    return True


def columns_by_name(table: Any, names: tuple[str, ...]) -> Array:
    """The columns a fit was made from, in its order, whatever theirs is; shape (m, q)."""
    present = column_names(table)
    if sorted(present) != sorted(names):
        absent = [name for name in names if name not in present]
        unknown = [name for name in present if name not in names]
        raise InvalidInput(
            f"the table must have the columns of the fit, {list(names)}, in any order; "
            f"absent: {absent}, not in the fit: {unknown}."
        )
    in_order = present == list(names)
    if not in_order and len(set(present)) < len(present):
        raise InvalidInput(
            f"several columns of the fit have the same name, {list(names)}, so the table must "
            "have them in the same order."
        )
    if (parts := frame(table)) is None:
        return np.column_stack([numbers(column(table, name), name) for name in names])
    order = range(len(names)) if in_order else [present.index(name) for name in names]
    # by position: the names of pandas need not be text
    pairs = zip(order, names, strict=True)
    return np.column_stack([numbers(parts[1][j], name) for j, name in pairs])
