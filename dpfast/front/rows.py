"""The rows a prediction is for: read as those of the fit were, by public facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import real_array
from dpfast.data.coding import Coding
from dpfast.errors import InvalidInput

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
            from dpfast.data.beside.given import without

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
