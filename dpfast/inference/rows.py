"""What a result asks about new rows: tables and their coding are known to others."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Coded(Protocol):
    """Public facts by which a table became covariates and a response."""

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
        """Whether its constants were bought, and not declared."""

    def released_units(self) -> list[tuple[str, tuple[float, float]]]:
        """Name, centre and unit of each column whose numbers were bought."""

    def natural_units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Constant and matrix by which coded columns are those of the same terms as they came."""

    def response_units(self) -> tuple[float, float]:
        """``(location, spread)``: the response is ``location + spread * coded``."""


class Change(NamedTuple):
    """How rows of a design change with one variable, through all the terms that contain it.

    Of a number: ``slopes``, derivatives of shape (m, q) for one of its own units.  Of a level: the
    rows at the reference level and at this one.
    """

    name: str
    unit: float  # what a coded 1 is worth in the variable's own units
    slopes: NDArray[np.float64] | None
    levels: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


class RowReader(Protocol):
    """Reads new rows as those of the fit were."""

    @property
    def coding(self) -> Coded | None: ...

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Numbers of shape (m, q), without the intercept's ones."""

    def changes(self, X: Any, names: tuple[str, ...]) -> list[Change]:
        """Of each variable, at new rows; ``names`` are those of the design's columns."""

    def centres(self) -> list[tuple[str, Any]] | None:
        """Declared or bought centre of each column that is read, None of one that has none."""

    def row(self, values: list[Any]) -> Any:
        """One new row with such values of the columns that are read."""
