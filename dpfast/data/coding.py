"""How the columns of a table become the columns of a design: public facts, no records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress, product
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput

Array = NDArray[np.float64]
#: Values (n, k), names, and bounds (k, 2) of the columns that something stands for.
Encoded = tuple[Array, list[str], Array]


class Column:
    """Base of the declarations of one column.

    Privacy
    -------
    A declaration is public, and coding is a fixed map of each cell on its own: it spends nothing,
    and what it returns is as private as the column.
    """

    kind: ClassVar[str]

    @property
    def location(self) -> float:
        """The value that is coded as 0, in the units of the table; 0 for what is no number."""
        return 0.0

    @property
    def spread(self) -> float:
        """What a coded 1 is worth in the units of the table; 1 for what is no number."""
        return 1.0

    def encode(self, values: Any, name: str, every_level: bool = False) -> Encoded:
        """Encode a column.

        Parameters
        ----------
        values : array-like of shape (n,)
            A column of a table; any cell may be missing or anything.
        name : str
            What the column is called.
        every_level : bool
            Give a categorical column an indicator for its reference, too.

        Returns
        -------
        columns, names, bounds : ndarray of shape (n, k), list of str, ndarray of shape (k, 2)
            NaN where a cell is not what was declared; names and public ranges of the k encoded
            columns.

        Privacy
        -------
        None is spent; the encoded columns are as private as the column.

        Examples
        --------
        >>> columns, names, bounds = dpfast.Numeric(20, 80).encode([50, 200], "age")
        >>> columns.ravel(), names, bounds
        (array([0., 1.]), ['age'], array([[-1.,  1.]]))
        """
        raise NotImplementedError


class Factor(Protocol):
    """What the columns of a term are products of."""

    def encode(self, table: Any, columns: Mapping[str, Column]) -> Encoded: ...


@dataclass(frozen=True)
class Main:
    """A declared column; a categorical one by all its indicators, or without the reference's."""

    name: str
    every_level: bool = False

    def encode(self, table: Any, columns: Mapping[str, Column]) -> Encoded:
        from dpfast.data.columns import column

        return columns[self.name].encode(column(table, self.name), self.name, self.every_level)


@dataclass(frozen=True)
class Design:
    """Encoded records and the public facts about them.

    Attributes
    ----------
    X, y : ndarray of shapes (n, q) and (n,)
        Private; y is None without a response.
    names, bounds : tuple of str, ndarray of shape (q, 2)
        Of the columns, and their public ranges.
    fit_intercept : bool
    coding : Coding
        How any table of these columns becomes a design.

    Privacy
    -------
    X and y are the records, coded: nothing was spent, and nothing of them may be published.  The
    rest is public.

    Examples
    --------
    >>> schema = dpfast.Schema({"age": dpfast.Numeric(20, 80)})
    >>> schema.encode({"age": [50, 80]}).arrays()
    (array([[0.],
           [1.]]), None)
    """

    X: Array = field(repr=False)
    y: Array | None = field(repr=False)
    names: tuple[str, ...]
    bounds: Array = field(repr=False)
    coding: Coding = field(repr=False)
    fit_intercept: bool = True

    def arrays(self) -> tuple[Array, Array | None]:
        """``(X, y)`` without the coding, which ``dpfast.fit(design, None, ...)`` keeps."""
        return self.X, self.y

    @property
    def radius(self) -> float:
        """Public bound on the norm of a row, the intercept included; what ``Bounded`` takes."""
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
    fit_intercept, arrays : bool
        Whether there is one; whether an array with the covariates' columns may stand for a table.

    Other Parameters
    ----------------
    table : data frame, Arrow table or mapping
        Of methods: with the columns they need, in their own units and any order.

    Privacy
    -------
    Public facts, no records: a result keeps its coding.  Encoding spends nothing; what it returns
    is as private as the table.

    Examples
    --------
    >>> schema = dpfast.Schema({"age": dpfast.Numeric(20, 80), "pay": dpfast.Numeric(0, 4000)})
    >>> coding = schema.encode({"age": [50], "pay": [0]}, response="pay").coding
    >>> coding.design({"age": [80], "pay": [4000]}).X, coding.covariates_of(np.array([[20.0]]))
    (array([[1.]]), array([[-1.]]))
    >>> constant, matrix = coding.natural_units()
    >>> np.round(constant + matrix @ [80.0], 6).tolist(), coding.response_units()
    ([1.0], (2000.0, 2000.0))
    """

    columns: Mapping[str, Column]
    terms: tuple[tuple[Factor, ...], ...]
    response: str | None = None
    fit_intercept: bool = True
    arrays: bool = False

    def design(self, table: Any) -> Design:
        """Encode a table, the response too.

        Privacy
        -------
        None is spent; X and y of the design are as private as the table.
        """
        values, names, bounds = self._encode(table, list(self.columns))
        y = None
        if self.response is not None:
            from dpfast.data.columns import column

            declared = self.columns[self.response]
            y = declared.encode(column(table, self.response), self.response)[0][:, 0]
        return Design(values, y, tuple(names), bounds, self, self.fit_intercept)

    def covariates(self, table: Any) -> Array:
        """Encode the :attr:`covariate_columns` of a table, shape (m, q).

        Privacy
        -------
        None is spent; what is returned is as private as the table.
        """
        return self._encode(table, self.covariate_columns)[0]

    @property
    def covariate_columns(self) -> list[str]:
        """Names of the columns that a prediction needs."""
        return [name for name in self.columns if name != self.response]

    def covariates_of(self, X: Array) -> Array:
        """Encode an array of the covariates, for a coding that takes ``arrays``, shape (m, q).

        Parameters
        ----------
        X : ndarray of shape (m, q)
            The covariates' columns in their own units, in the order of the coding.

        Privacy
        -------
        None is spent; what is returned is as private as X.
        """
        names = self.covariate_columns
        if X.ndim != 2 or X.shape[1] != len(names):
            raise InvalidInput(f"X must have shape (m, {len(names)}); received {X.shape}.")
        return self.covariates(dict(zip(names, X.T, strict=True)))

    def natural_units(self) -> tuple[Array, Array]:
        """The design's columns by those of the same terms in the units of the table.

        ``coded = constant + matrix @ natural``, column by column; of a product, the constants of
        its factors belong to products of fewer.

        Returns
        -------
        constant, matrix : ndarray of shapes (q,) and (q, q)
        """
        columns = [self._alone(term) for term in self.terms]
        if None not in columns:  # numbers, each on its own
            centres, spreads = np.array(columns, dtype=np.float64).reshape(-1, 2).T
            return 0.0 - centres / spreads, np.diag(1.0 / spreads)
        terms, first = [self._parts(term) for term in self.terms], 0
        where: dict[Any, int] = {}
        for names, others, width in terms:
            where[names, others] = first
            first += width
        constant, matrix, first = np.zeros(first), np.zeros((first, first)), 0
        for names, others, width in terms:
            units = [(self.columns[name].location, self.columns[name].spread) for name in names]
            for taken in product((True, False), repeat=len(names)):
                found = [
                    (1.0 if own else -centre) / unit
                    for own, (centre, unit) in zip(taken, units, strict=True)
                ]
                left = tuple(compress(names, taken))
                if not (share := math.prod(found)):
                    continue
                if not left and not others:
                    constant[first] += share
                elif (left, others) in where:
                    at = where[left, others]
                    matrix[range(first, first + width), range(at, at + width)] += share
                else:
                    raise InvalidInput(
                        "coefficients of a product or power in the table's own units need the "
                        f"terms of fewer factors, {':'.join(left) or 'levels'} here: add them. "
                        "predict takes and returns the table's own units."
                    )
            first += width
        return constant, matrix

    def _alone(self, term: tuple[Any, ...]) -> tuple[float, float] | None:
        """Centre and unit of a term that is one column of numbers."""
        factor, *others = term or (None,)
        if others or type(factor) is not Main or self.columns[factor.name].kind == "categorical":
            return None
        column = self.columns[factor.name]
        return column.location, column.spread

    def _parts(self, term: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...], int]:
        """Numbers that a term multiplies, its other factors, and its width."""
        names: list[str] = []
        others: list[Any] = []
        for factor in term:
            if (power := getattr(factor, "power", None)) is not None:
                names += power
            elif not isinstance(factor, Main) and not getattr(factor, "own_units", False):
                raise InvalidInput(
                    "coefficients of functions of columns are given in coded units only. predict "
                    "takes and returns the table's own units."
                )
            elif isinstance(factor, Main) and self.columns[factor.name].kind != "categorical":
                names.append(factor.name)
            else:
                others.append(factor)
        widths = [factor.encode({factor.name: []}, self.columns)[0].shape[1] for factor in others]
        return tuple(sorted(names)), tuple(others), math.prod(widths)

    def _encode(self, table: Any, needed: list[str]) -> Encoded:
        from dpfast.data.columns import column, column_names  # who has a table loads them

        absent = [name for name in needed if name not in column_names(table)]
        if absent:
            raise InvalidInput(
                f"the table has no column {', '.join(map(repr, absent))}; needed are {needed}, in "
                f"any order, in the units of the fit{', or an array of these' * self.arrays}."
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

    @property
    def released(self) -> bool:
        """Whether its constants were bought, and not declared."""
        return any(declared.kind == "released" for declared in self.columns.values())

    def released_units(self) -> list[tuple[str, tuple[float, float]]]:
        """Name, centre and unit of each column whose numbers were bought."""
        return [
            (name, (declared.location, declared.spread))
            for name, declared in self.columns.items()
            if declared.kind == "released" and (declared.location, declared.spread) != (0.0, 1.0)
        ]

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
        declared = np.isfinite(bounds).all() and np.isfinite(more_bounds).all()
        bounds = np.array([[corner.min(), corner.max()] for corner in corners])
        if declared and not np.isfinite(bounds).all():
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
