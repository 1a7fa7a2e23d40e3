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
        from dpfast.data.columns import is_table

        if not is_table(X):
            if self.coding is not None and self.coding.arrays:
                return self.coding.covariates_of(real_array(X, "X"))
            if self.coding is not None:
                raise InvalidInput(
                    "this fit coded its covariates by a schema, which an array cannot say whether "
                    f"it was. Pass a table with the columns {self.coding.covariate_columns}, in "
                    f"their own units; received {type(X).__name__}."
                )
            return real_array(X, "X")
        if self.others:
            from dpfast.data.beside.given import without

            X = without(X, self.others)
        if self.coding is not None:
            return self.coding.covariates(X)
        if self.columns is not None:
            from dpfast.data.arrays import columns_by_name

            return columns_by_name(X, self.columns, self.kinds)
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
