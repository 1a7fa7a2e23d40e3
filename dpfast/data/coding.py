"""Coding of a table's columns as the columns of a design: public facts, no records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidInput

#: Values (n, k), names, and bounds (k, 2) of the columns that something stands for.
Encoded = tuple[Array, list[str], Array]


class Column:
    """Base of the declarations of one column.

    Privacy
    -------
    A declaration is public.  Coding is a fixed map of each cell on its own: it spends nothing, and
    its result is as private as the column.
    """

    kind: ClassVar[str]

    @property
    def location(self) -> float:
        """Value coded as 0, in the units of the table; 0 for a column without numbers."""
        return 0.0

    @property
    def spread(self) -> float:
        """Width of a coded unit in the units of the table; 1 for a column without numbers."""
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
            NaN where a cell is not as declared; names and public ranges of the k encoded
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
    """Factor of a term, whose columns are products of its factors' columns."""

    def encode(self, table: Any, columns: Mapping[str, Column]) -> Encoded: ...


@dataclass(frozen=True)
class Main:
    """Declared column; a categorical one with or without the indicator of its reference."""

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
    """Declarations and terms that code a table as a design.

    Attributes
    ----------
    columns : dict of str to Numeric, Categorical or Binary
        The declared columns that are used, the response among them.
    terms : tuple of tuple of Factor
        Each term stands for the products of its factors' columns.
    response : str or None
    fit_intercept, arrays : bool
        Whether there is one; whether an array with the covariates' columns may stand for a table.

    Other Parameters
    ----------------
    table : data frame, Arrow table or mapping
        Of methods: with the columns they need, in their own units and any order.

    Privacy
    -------
    Public facts, no records: a result keeps its coding.  Encoding spends nothing; its result is as
    private as the table.

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
        from dpfast.data.columns import column
        from dpfast.data.encoding import encoded

        values, names, bounds = encoded(self, table, list(self.columns))
        y = None
        if self.response is not None:
            declared = self.columns[self.response]
            encoded_column = declared.encode(column(table, self.response), self.response)[0]
            y = encoded_column[:, 0].copy()  # a column in its own units is the table's
        return Design(values, y, tuple(names), bounds, self, self.fit_intercept)

    def records(self, table: Any) -> tuple[Array, Array]:
        """Encode covariates and responses of a table, record by record.

        Returns
        -------
        X, y : ndarray of shapes (n, q) and (n,)

        Privacy
        -------
        None is spent; both are as private as the table.
        """
        design = self.design(table)
        assert design.y is not None
        return design.X, design.y

    def covariates(self, table: Any) -> Array:
        """Encode the :attr:`covariate_columns` of a table, shape (m, q).

        Privacy
        -------
        None is spent; the result is as private as the table.
        """
        from dpfast.data.encoding import encoded

        return encoded(self, table, self.covariate_columns)[0]

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
        None is spent; the result is as private as X.
        """
        names = self.covariate_columns
        if X.ndim != 2 or X.shape[1] != len(names):
            raise InvalidInput(f"X must have shape (m, {len(names)}); received {X.shape}.")
        return self.covariates(dict(zip(names, X.T, strict=True)))

    def natural_units(self) -> tuple[Array, Array]:
        """Return the affine map from natural units to the coded columns of the design.

        ``coded = constant + matrix @ natural``, in the table's units on the right.

        Returns
        -------
        constant, matrix : ndarray of shapes (q,) and (q, q)
        """
        if self._scales is not None:
            centres, spreads, _ = self._scales
        else:
            columns = [units for term in self.terms for units in self._units(term)]
            spreads = np.array([spread for _, spread in columns], dtype=np.float64)
            centres = np.array([centre for centre, _ in columns], dtype=np.float64)
        matrix = np.zeros((len(centres), len(centres)))
        matrix.flat[:: len(centres) + 1] = 1.0 / spreads
        return 0.0 - centres / spreads, matrix

    def _units(self, term: tuple[Any, ...]) -> list[tuple[float, float]]:
        """Return centre and unit of the columns of a term that is one declared column."""
        if len(term) != 1 or type(term[0]) is not Main:
            raise InvalidInput(
                "coefficients of products and functions of coded columns, as an earlier version "
                "made them, are given in coded units only. predict takes and returns the table's "
                "own units."
            )
        column = self.columns[term[0].name]
        if column.kind != "categorical":
            return [(column.location, column.spread)]
        return [(0.0, 1.0)] * len(term[0].encode({term[0].name: []}, self.columns)[1])

    def uncentred(self) -> Coding:
        """Return the coding with the same units and centres of zero, as of differences."""
        columns = {
            name: declared
            if declared.location == 0.0
            else replace(declared, centre=0.0, unit=declared.spread)  # type: ignore[type-var]
            for name, declared in self.columns.items()
        }
        return replace(self, columns=columns)

    @property
    def released(self) -> bool:
        """True if centres and scales were estimated, not declared."""
        if self._scales is not None:
            return True
        return any(declared.kind == "released" for declared in self.columns.values())

    @property
    def origin(self) -> str | None:
        """Where released centres and scales are from; None if from the budget of the fit."""
        if self._scales is not None:
            return None
        origins = (getattr(declared, "origin", None) for declared in self.columns.values())
        return next(filter(None, origins), None)

    def released_units(self) -> list[tuple[str, tuple[float, float]]]:
        """Return name, centre and unit of each column whose scale was estimated."""
        return [
            (name, (declared.location, declared.spread))
            for name, declared in self.columns.items()
            if declared.kind == "released" and (declared.location, declared.spread) != (0.0, 1.0)
        ]

    def response_units(self) -> tuple[float, float]:
        """``(location, spread)``: the response is ``location + spread * coded``."""
        if self.response is None:
            return 0.0, 1.0
        if self._scales is not None:
            response: tuple[float, float] = self._scales[2]
            return response
        declared = self.columns[self.response]
        return declared.location, declared.spread

    @property
    def _scales(self) -> tuple[Array, Array, tuple[float, float]] | None:
        """Centres and spreads of the columns and of the response, where all were released."""
        return getattr(self.columns, "scales", None)
