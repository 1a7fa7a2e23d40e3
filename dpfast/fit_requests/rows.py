"""The rows a prediction is for: read as those of the fit were, by public facts alone."""

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
    """What a fit keeps of the table it was made from; nothing of its records."""

    coding: Coding | None = None
    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Covariates of a table or array, without the intercept's ones, as the fit had them."""
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

            found = columns_by_name(X, self.columns, self.kinds)
            return found if coding is None else coding.covariates_of(found)
        raise InvalidInput(
            "this fit was made from arrays, so it cannot match the columns of a "
            f"{type(X).__name__}. Pass an array of its covariates in their order, coded as "
            "they were; a fit of a data frame, a design or a formula takes tables."
        )

    def changes(self, X: Any, names: tuple[str, ...]) -> list[Change]:
        """Of each column that is read, through all terms; without a coding each is a column."""
        coding = self.coding
        if coding is None:
            shape = self.covariates(X).shape
            return [
                Change(name, 1.0, np.broadcast_to(one, shape))
                for name, one in zip(names, np.eye(shape[1]), strict=True)
            ]
        from dpfast.data.slopes import changes

        found = [Change(*change) for change in changes(coding, self._table(X, coding))]
        if coding.arrays:  # where names may be the same, the columns have positions
            found = [one._replace(name=name) for one, name in zip(found, names, strict=True)]
        return found

    def _table(self, X: Any, coding: Coding) -> Any:
        """The columns of the coding, of rows that it has read."""
        from dpfast.data.columns import column_names, is_table

        if is_table(X):
            if self.columns is None or {*coding.covariate_columns} <= {*column_names(X)}:
                return X
            from dpfast.data.arrays import columns_by_name

            X = columns_by_name(X, self.columns, self.kinds)
        return dict(zip(coding.covariate_columns, real_array(X, "X").T, strict=True))

    def centres(self) -> list[tuple[str, Any]] | None:
        """Of numbers where they are coded as 0; of levels the reference."""
        coding = self.coding
        if coding is None:
            return None
        from dpfast.data.slopes import levels_of

        found = [(name, coding.columns[name]) for name in coding.covariate_columns]
        return [
            (name, one.location if one.kind in ("numeric", "released") else levels_of(one)[0])
            for name, one in found
        ]

    def row(self, values: list[Any]) -> Any:
        """An array where the fit reads those, else a table."""
        assert self.coding is not None
        if self.coding.arrays:
            return np.array([values], dtype=np.float64)
        names = self.columns or self.coding.covariate_columns
        return {name: [value] for name, value in zip(names, values, strict=True)}


class OffsetRows(NamedTuple):
    """Reads rows as ``inner`` does, and which column of a table is the offset."""

    inner: RowReader
    offset_column: str

    @property
    def coding(self) -> Coded | None:
        """That of the rows inside."""
        return self.inner.coding

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """As of the rows inside."""
        return self.inner.covariates(X)

    def changes(self, X: Any, names: tuple[str, ...]) -> list[Change]:
        """As of the rows inside."""
        return self.inner.changes(X, names)

    def centres(self) -> list[tuple[str, Any]] | None:
        """As of the rows inside."""
        return self.inner.centres()

    def offsets(self, X: Any) -> NDArray[np.float64] | float:
        """Of the rows of a table that has the column; else 0."""
        from dpfast.data.columns import column, column_names, is_table, numbers

        if not is_table(X) or self.offset_column not in column_names(X):
            return 0.0
        return numbers(column(X, self.offset_column), self.offset_column)

    def row(self, values: list[Any]) -> Any:
        """As of the rows inside: without an offset."""
        return self.inner.row(values)


def with_offset(found: Any, column: Any) -> Any:
    """A fit whose offset has a name among the columns of tables."""
    if isinstance(column, str):
        for told in {id(one): one for one in (found, found.coded)}.values():
            told._new_rows = OffsetRows(told._new_rows, column)
    return found


class FormulaRows(NamedTuple):
    """Reads tables by a formula's terms, in the columns' own units, and then as the fit did."""

    terms: Coding
    inner: RowReader

    @property
    def coding(self) -> Coded | None:
        """That of the terms' values, if the fit has one."""
        return self.inner.coding

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Covariates of a table with the formula's columns, or of an array of its terms."""
        from dpfast.data.columns import is_table

        return self.inner.covariates(self.terms.covariates(X) if is_table(X) else X)

    def changes(self, X: Any, names: tuple[str, ...]) -> list[Change]:
        """Of each column of the formula, through its terms and their units: the chain rule."""
        from dpfast.data.columns import is_table
        from dpfast.data.slopes import changes

        if not is_table(X):
            return self.inner.changes(X, names)
        inner = self.inner.changes(self.terms.covariates(X), names)
        found = []
        for name, unit, slopes, levels in changes(self.terms, X):
            if slopes is None:
                assert levels is not None
                at = self.inner.covariates(levels[0]), self.inner.covariates(levels[1])
                found.append(Change(name, unit, None, at))
                continue
            through = np.zeros(slopes.shape)
            for slope, one in zip(slopes.T, inner, strict=True):
                if slope.any() and one.slopes is not None:
                    through += slope[:, None] * one.slopes
            found.append(Change(name, unit, through))
        return found

    def centres(self) -> list[tuple[str, Any]] | None:
        """Of a column that is a term by itself: that of the term; of a spline's its middle."""
        inner = self.inner.centres()
        if inner is None:
            return None
        from dpfast.data.formula import Spline
        from dpfast.data.slopes import levels_of

        columns, alone, first = self.terms.columns, dict[str, Any](), 0
        empty = {name: list[Any]() for name in columns}
        for term in self.terms.terms:
            for factor in term:
                if len(term) == 1 and isinstance(factor, Main):
                    alone[factor.name] = inner[first][1]
                elif isinstance(factor, Spline):  # its ends are public
                    alone.setdefault(factor.name, 0.5 * (factor.knots[0] + factor.knots[-1]))
            first += math.prod([factor.encode(empty, columns)[0].shape[1] for factor in term])
        for name in self.terms.covariate_columns:
            if columns[name].kind != "released":
                alone[name] = levels_of(columns[name])[0]
        return [(name, alone.get(name)) for name in self.terms.covariate_columns]

    def row(self, values: list[Any]) -> Any:
        """A table of the formula's columns."""
        names = self.terms.covariate_columns
        return {name: [value] for name, value in zip(names, values, strict=True)}
