"""What a result asks about new rows: tables and their coding are known to others."""

from __future__ import annotations

from typing import Any, Protocol

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


class RowReader(Protocol):
    """Reads new rows as those of the fit were."""

    @property
    def coding(self) -> Coded | None: ...

    def covariates(self, X: Any) -> NDArray[np.float64]:
        """Numbers of shape (m, q), without the intercept's ones."""
