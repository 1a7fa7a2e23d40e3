"""Readers of new rows for predictions: they use public facts of the fit alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import real_array
from dpfast.data.coding import Coding, Main
from dpfast.errors import InvalidInput
from dpfast.inference.rows import Change

if TYPE_CHECKING:
    from dpfast.inference.rows import Coded, RowReader


class NewRows(NamedTuple):
    """Public facts that a fit needs to read new rows; nothing of its records."""

    coding: Coding | None = None
    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Return the covariates of a table or array as the fit had them, without the intercept."""
        from dpfast.data.columns import column_names, is_table

        if not is_table(X):
            if self.coding is not None and self.coding.arrays:
                return self.coding.covariates_of(real_array(X, "X"))
            if self.coding is not None:
                names = list(self.columns or self.coding.covariate_columns)
                raise InvalidInput(
                    "this fit reads columns by their names, and an array has none. Pass a table "
                    f"with the columns {names}, in their own units; received {type(X).__name__}."
                )
            return real_array(X, "X")
        if self.others:
            from dpfast.data.record_weights.columns_given import without

            X = without(X, self.others)
        coding = self.coding
        if coding is not None and (
            self.columns is None or {*coding.covariate_columns} <= {*column_names(X)}
        ):
            return coding.covariates(X)
        if self.columns is not None:
            from dpfast.data.arrays import columns_by_name

            covariates = columns_by_name(X, self.columns, self.kinds)
            return covariates if coding is None else coding.covariates_of(covariates)
        raise InvalidInput(
            "this fit was made from arrays, so it cannot match the columns of a "
            f"{type(X).__name__}. Pass an array of its covariates in their order, coded as "
            "they were; a fit of a data frame, a design or a formula takes tables."
        )

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Return the change of the covariates with each column read, through all its terms."""
        columns = self._derivatives(X, names)
        return [
            column._replace(slopes=None, levels=self._at_zero_and_one(X, k, column.name))
            if column.name in contrasts and column.slopes is not None
            else column
            for k, column in enumerate(columns)
        ]

    def _derivatives(self, X: Any, names: tuple[str, ...]) -> list[Change]:
        coding = self.coding
        if coding is None:
            shape = self.covariates(X).shape
            return [
                Change(name, 1.0, np.broadcast_to(unit_vector, shape))
                for name, unit_vector in zip(names, np.eye(shape[1]), strict=True)
            ]
        from dpfast.data.slopes import changes

        columns = [Change(*change) for change in changes(coding, self._table(X, coding))]
        if not coding.arrays:
            return columns
        # columns of an array go by position: their names may repeat
        return [column._replace(name=name) for column, name in zip(columns, names, strict=True)]

    def _at_zero_and_one(
        self, X: Any, place: int, name: str
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the covariates where a numeric column is 0, and where it is 1."""
        from dpfast.data.columns import is_table

        if is_table(X):
            return both_ends(self, X, name)
        ends = []
        for value in (0.0, 1.0):
            changed = real_array(X, "X").copy()
            changed[:, place] = value
            ends.append(self.covariates(changed))
        return ends[0], ends[1]

    def _table(self, X: Any, coding: Coding) -> Any:
        """Return the coding's columns of rows that it has read."""
        from dpfast.data.columns import column_names, is_table

        if is_table(X):
            if self.columns is None or {*coding.covariate_columns} <= {*column_names(X)}:
                return X
            from dpfast.data.arrays import columns_by_name

            X = columns_by_name(X, self.columns, self.kinds)
        return dict(zip(coding.covariate_columns, real_array(X, "X").T, strict=True))

    def centres(self) -> list[tuple[str, Any]] | None:
        """Return the centre of each numeric column and the reference level of the others."""
        coding = self.coding
        if coding is None:
            return None
        from dpfast.data.slopes import levels_of

        columns = [(name, coding.columns[name]) for name in coding.covariate_columns]
        return [
            (
                name,
                column.location if column.kind in ("numeric", "released") else levels_of(column)[0],
            )
            for name, column in columns
        ]

    def row(self, values: list[Any]) -> Any:
        """Make one row of these values: an array if the fit reads arrays, else a table."""
        assert self.coding is not None
        if self.coding.arrays:
            return np.array([values], dtype=np.float64)
        names = self.columns or self.coding.covariate_columns
        return {name: [value] for name, value in zip(names, values, strict=True)}


def both_ends(
    rows: RowReader, table: Any, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the covariates of a table where a numeric column is 0, and where it is 1."""
    from dpfast.data.columns import column, column_names

    columns = {other: column(table, other) for other in column_names(table)}
    n = len(columns[name])
    low, high = [rows.covariates(columns | {name: np.full(n, end)}) for end in (0.0, 1.0)]
    return low, high


class OffsetRows(NamedTuple):
    """Reader of rows whose tables may have a column of offsets."""

    inner: RowReader
    offset_column: str

    @property
    def coding(self) -> Coded | None:
        """Coding of the inner reader."""
        return self.inner.coding

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Return the covariates as the inner reader does."""
        return self.inner.covariates(X)

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Return the changes as the inner reader does."""
        return self.inner.changes(X, names, contrasts)

    def centres(self) -> list[tuple[str, Any]] | None:
        """Return the centres as the inner reader does."""
        return self.inner.centres()

    def offsets(self, X: Any) -> NDArray[np.float64] | float:
        """Return the offsets of a table that has their column, else 0."""
        from dpfast.data.columns import column, column_names, is_table, numbers

        if not is_table(X) or self.offset_column not in column_names(X):
            return 0.0
        return numbers(column(X, self.offset_column), self.offset_column)

    def row(self, values: list[Any]) -> Any:
        """Make one row as the inner reader does, without an offset."""
        return self.inner.row(values)


def with_offset(fit: Any, column: Any) -> Any:
    """Make a fit read its offset from the column of this name, in tables that have it."""
    if isinstance(column, str):
        for version in _versions(fit):
            version._new_rows = OffsetRows(version._new_rows, column)
    return fit


class SomeColumns(NamedTuple):
    """Reader of arrays of all columns, of which the fit has selected some."""

    inner: RowReader
    places: tuple[int, ...]
    n_columns: int

    @property
    def coding(self) -> Coded | None:
        """Coding of the inner reader."""
        return self.inner.coding

    def _picked(self, X: Any) -> Any:
        """Take the selected columns of an array that has all."""
        from dpfast.data.columns import is_table

        if is_table(X) or np.ndim(X) != 2 or np.shape(X)[1] != self.n_columns:
            return X
        return np.asarray(X)[:, list(self.places)]

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Return the covariates as the inner reader does, of their own columns."""
        return self.inner.covariates(self._picked(X))

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Return the changes as the inner reader does."""
        return self.inner.changes(self._picked(X), names, contrasts)

    def centres(self) -> list[tuple[str, Any]] | None:
        """Return the centres as the inner reader does."""
        return self.inner.centres()

    def row(self, values: list[Any]) -> Any:
        """Make one row as the inner reader does."""
        return self.inner.row(values)


def with_columns_picked(fit: Any, places: tuple[int, ...], n_columns: int) -> Any:
    """Make a fit of selected columns read arrays of all of them."""
    for version in _versions(fit):
        version._new_rows = SomeColumns(version._new_rows, places, n_columns)
    return fit


def rows_of_formula(fit: Any, terms: Coding) -> Any:
    """Make a fit read tables by the terms of a formula."""
    for version in _versions(fit):
        version._new_rows = FormulaRows(terms, version._new_rows)
    return fit


def _versions(fit: Any) -> list[Any]:
    """Return a fit, and that of coded columns if it is another one."""
    return [fit] if fit.coded is fit else [fit, fit.coded]


class FormulaRows(NamedTuple):
    """Reader of tables by a formula's terms, in the columns' own units."""

    terms: Coding
    inner: RowReader

    @property
    def coding(self) -> Coded | None:
        """Coding of the terms' values, if the fit has one."""
        return self.inner.coding

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Return the covariates of a table, by the formula, or of an array of its terms."""
        from dpfast.data.columns import is_table

        return self.inner.covariates(self.terms.covariates(X) if is_table(X) else X)

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Return changes with the formula's columns: the chain rule through terms and units."""
        from dpfast.data.columns import is_table
        from dpfast.data.slopes import changes

        if not is_table(X):
            return self.inner.changes(X, names, contrasts)
        inner = self.inner.changes(self.terms.covariates(X), names)
        columns = []
        for name, span, slopes, levels in changes(self.terms, X):
            if name in contrasts and slopes is not None:
                columns.append(Change(name, 1.0, None, both_ends(self, X, name)))
                continue
            if slopes is None:
                assert levels is not None
                ends = self.inner.covariates(levels[0]), self.inner.covariates(levels[1])
                columns.append(Change(name, span, None, ends))
                continue
            through = np.zeros(slopes.shape)
            for slope, inner_change in zip(slopes.T, inner, strict=True):
                if slope.any() and inner_change.slopes is not None:
                    through += slope[:, None] * inner_change.slopes
            columns.append(Change(name, span, through))
        return columns

    def centres(self) -> list[tuple[str, Any]] | None:
        """Return a centre for each column: its own term's, the middle of its spline, or a level."""
        inner = self.inner.centres()
        if inner is None:
            return None
        from dpfast.data.slopes import levels_of
        from dpfast.data.splines import Spline

        columns = self.terms.columns
        centres: dict[str, Any] = {}
        first = 0  # position of a term's first column
        empty = {name: list[Any]() for name in columns}
        for term in self.terms.terms:
            for factor in term:
                if len(term) == 1 and isinstance(factor, Main):
                    centres[factor.name] = inner[first][1]
                elif isinstance(factor, Spline):  # its ends are public
                    centres.setdefault(factor.name, 0.5 * (factor.knots[0] + factor.knots[-1]))
            first += math.prod([factor.encode(empty, columns)[0].shape[1] for factor in term])
        for name in self.terms.covariate_columns:
            declared: Any = columns[name]
            if declared.kind == "numeric":  # its range is public
                centres.setdefault(name, 0.5 * declared.low + 0.5 * declared.high)
            elif declared.kind != "released":
                centres[name] = levels_of(declared)[0]
        return [(name, centres.get(name)) for name in self.terms.covariate_columns]

    def row(self, values: list[Any]) -> Any:
        """Make a table of the formula's columns with one row."""
        names = self.terms.covariate_columns
        return {name: [value] for name, value in zip(names, values, strict=True)}
