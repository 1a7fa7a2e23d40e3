"""Rows of a table by cell, with the weights and the persons that they belong to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, number_in
from dpfast.data.columns import column, numbers, refuse_other_rows
from dpfast.data.groups import checked_group_size
from dpfast.data.persons.numbering import LabelEncoder
from dpfast.data.source import Source
from dpfast.errors import InvalidInput

#: Logarithms of weights, base 2, are told apart up to this size.
LARGEST_LOGARITHM = 40.0

#: What tables take of :func:`dpfast.records`.
TABLES_TAKE = ("group", "each", "sample_weight")


class CellRecords(NamedTuple):
    """Rows of a table, their cells, weights and persons.

    ``n`` is the number of units that count once: rows, or persons.  A person fills ``group_size``
    rows at most, or counts with the mean of their rows where it is None.
    """

    X: Array
    cells: Array
    weights: Array | None
    largest_weight: float | None
    persons: NDArray[np.intp] | None
    group_size: int | None
    n: int

    @property
    def n_covariates(self) -> int:
        """Number of columns that are summed."""
        return int(self.X.shape[1])

    @property
    def counted(self) -> str:
        """What a count is of: rows of persons, persons, or a population by weights."""
        if self.weights is not None:
            return "population"
        return "persons" if self.group_size is None else "rows"

    def of_weights(self) -> CellRecords:
        """Return one cell of equal rows whose column is the logarithm of their weight."""
        assert self.weights is not None
        with np.errstate(all="ignore"):
            scaled = np.log2(self.weights) / LARGEST_LOGARITHM
        return self._replace(
            X=scaled[:, None], cells=np.where(np.isnan(self.cells), np.nan, 0.0), weights=None
        )


class Belonging(NamedTuple):
    """Checked weights and persons of a table's rows; persons are None where rows are units."""

    weights: Array | None
    largest_weight: float | None
    persons: NDArray[np.intp] | None
    group_size: int | None

    def records(self, X: Array, cells: Array) -> CellRecords:
        """Join the rows with what belongs to them."""
        for name, values in (("sample_weight", self.weights), ("group", self.persons)):
            if values is not None and len(values) != len(cells):
                raise InvalidInput(f"{name} must have one entry for each row of the table.")
        n = len(cells) if self.persons is None else int(self.persons.max(initial=-1)) + 1
        return CellRecords(X, cells, *self, n)


def belonging(source: Source) -> Belonging | None:
    """Read weights and persons of a table's rows; None where rows count alike and once."""
    source.refuse_unused(
        TABLES_TAKE,
        "A table has no predictor and no coefficients: leave offset and effects out.",
    )
    if source.response is not None:
        raise InvalidInput(
            "a table of cells has no response: pass dpfast.records(table, ...) without y."
        )
    group_size: int | None = checked_group_size(source.group, source.group_size, source.each)
    if source.each == "person":
        group_size = None
    bound = source.largest_weight
    if bound is not None:
        if source.sample_weight is None:
            raise InvalidInput(
                "largest_weight is the public bound on sample_weight, which was not given. Pass "
                "both or neither."
            )
        bound = number_in(bound, "largest_weight", "[1e-100, 1e100]")
    if source.sample_weight is None and source.group is None:
        return None
    table = source.covariates
    weights = persons = None
    if source.sample_weight is not None:
        weights = numbers(_given(table, source.sample_weight, "sample_weight"), "sample_weight")
    if source.group is not None:
        persons = LabelEncoder().of(_given(table, source.group, "group"))
    return Belonging(weights, bound, persons, group_size)


def _given(table: Any, values: Any, argument: str) -> Any:
    """Return a column, which may be given by its name in the table."""
    if isinstance(values, str):
        return column(table, values)
    refuse_other_rows(table, values, argument)
    return values
