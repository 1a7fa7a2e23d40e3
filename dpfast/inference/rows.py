"""Protocols by which a result reads new rows; tables and coding are known elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Coded(Protocol):
    """Coding of a table as covariates and a response, by public facts."""

    @property
    def response(self) -> str | None:
        """Name of the response's column."""

    @property
    def fit_intercept(self) -> bool: ...

    @property
    def covariate_columns(self) -> list[str]:
        """Names of the columns that a prediction needs."""

    def design(self, table: Any) -> Any:
        """Encode a table, the response too."""

    def covariates(self, table: Any) -> NDArray[np.float64]:
        """Encode the covariates of a table that need not have the response, shape (m, q)."""

    @property
    def released(self) -> bool:
        """Return whether its constants were estimated, not declared."""

    @property
    def origin(self) -> str | None:
        """Where estimated constants are from; None if from the budget of the fit."""

    def released_units(self) -> list[tuple[str, tuple[float, float]]]:
        """List name, centre and scale of each column whose scaling was estimated."""

    def natural_units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return constant and matrix of the map from original to coded columns."""

    def response_units(self) -> tuple[float, float]:
        """Return ``(location, spread)``: the response is ``location + spread * coded``."""


class Change(NamedTuple):
    """Change of a design's rows with one variable, through all the terms that contain it.

    A number has ``slopes``: derivatives of shape (m, q) for one of its own units.  A level has the
    rows at the reference level and at this one.
    """

    name: str
    unit: float  # what a coded 1 is worth in the variable's own units
    slopes: NDArray[np.float64] | None
    levels: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


class RowReader(Protocol):
    """A reader of new rows with the coding of the fit."""

    @property
    def coding(self) -> Coded | None: ...

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Compute covariates, shape (m, q), without the intercept's ones."""

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Compute the change with each variable at new rows; ``names``: the design's columns.

        Numeric columns in ``contrasts`` change from 0 to 1; the others have derivatives.
        """

    def centres(self) -> list[tuple[str, Any]] | None:
        """List the declared or estimated centre of each column; None for one without."""

    def row(self, values: list[Any]) -> Any:
        """Make one new row with these values of the columns."""
