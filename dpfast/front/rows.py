"""The rows a prediction is for: read as those of the fit were, by public facts alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.coding import Coding, columns_by_name, is_table
from dpfast.errors import InvalidInput

__all__ = ["NewRows"]


class NewRows(NamedTuple):
    """What a fit keeps of the table it was made from; nothing of its records.

    Attributes
    ----------
    coding : Coding or None
        How a schema or formula coded the records.
    columns : tuple of str or None
        Names of the columns of the table that was passed, where it was not coded.
    """

    coding: Coding | None = None
    columns: tuple[str, ...] | None = None

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Covariates of a table or array, without the intercept's ones, as the fit had them.

        Raises
        ------
        InvalidInput
            If it is of a kind, or has columns, that the fit cannot match; its values are not
            quoted.
        """
        if not is_table(X):
            if self.coding is not None:
                raise InvalidInput(
                    "this fit coded its covariates by a schema, which an array cannot say whether "
                    f"it was. Pass a table with the columns {self.coding.covariate_columns}, in "
                    f"their own units; received {type(X).__name__}."
                )
            return _numbers(X)
        if self.coding is not None:
            return self.coding.covariates(X)
        if self.columns is not None:
            return columns_by_name(X, self.columns)
        raise InvalidInput(
            "this fit was made from arrays, so it cannot match the columns of a "
            f"{type(X).__name__}. Pass an array of its covariates in their order, coded as "
            "they were; a fit of a data frame, a design or a formula takes tables."
        )


def _numbers(X: Any) -> NDArray[np.float64]:
    """An array of numbers; what is none is refused without being quoted."""
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(X)
            if array.dtype.kind != "c":  # which would lose its imaginary part
                return np.asarray(array, dtype=float)
    except Exception:
        pass  # raised below without its context, which may quote a value
    raise InvalidInput(
        f"X must be a table or an array of numbers; received a {type(X).__name__} of something "
        "else, or rows of different lengths."
    )
