"""Weights and offsets as users pass them: as columns, or by the names of a table's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array, did_you_mean, number_in
from dpfast.data.columns import column, column_names, frame, library, numbers, refuse_other_rows
from dpfast.data.record_weights.joined import WeightLayout, packed, weighted_records, with_columns
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, described

DASK = ("dask", "dask_expr")
WEIGHT, OFFSET = "sample_weight", "offset"


class RecordWeights(NamedTuple):
    """Arguments for weights and offsets; a name stands for a column of the covariates' table."""

    weight: Any
    largest_weight: float | None
    offset: Any
    of_predictor: bool

    @property
    def columns(self) -> dict[str, Any]:
        """Columns by the names of their arguments."""
        values_by_argument = {WEIGHT: self.weight, OFFSET: self.offset}
        return {
            argument: values
            for argument, values in values_by_argument.items()
            if values is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """Names of columns among the arguments."""
        return tuple([values for values in self.columns.values() if isinstance(values, str)])

    @property
    def description(self) -> str:
        """Public part of weights and offsets, for the description of a model."""
        parts = []
        if self.weight is not None:
            bound = self.largest_weight
            parts.append("sample weights" + (f" clipped to [0, {bound:g}]" if bound else ""))
        if self.offset is not None:
            parts.append("an offset")
        return f", {' and '.join(parts)}" if parts else ""

    @property
    def weighted(self) -> bool:
        """True if records have weights, or offsets that the predictor needs."""
        return self.weight is not None or self.of_predictor

    def split_columns(self, X: Any) -> tuple[Any, RecordWeights]:
        """Separate the covariates from weights and offsets, and replace names by columns."""
        named = {argument: name for argument, name in self.columns.items() if isinstance(name, str)}
        if not named or isinstance(X, Records):
            return X, self
        if library(X) in DASK and hasattr(X, "npartitions"):
            columns = list(X.columns)
            for argument, name in named.items():
                if name not in columns:
                    raise InvalidInput(
                        f"X has no column {argument}={described(name, text=True)}"
                        f"{did_you_mean(name, columns)}; it has {columns}."
                    )
            return X.drop(columns=list(set(named.values()))), self._with(
                {argument: X[name] for argument, name in named.items()}
            )
        for argument, name in named.items():
            if frame(X) is None:
                raise InvalidInput(
                    f"{argument}={described(name, text=True)} names a column, and X is no data "
                    f"frame that could have it: {described(X)}. Pass the column itself."
                )
        named_columns = {argument: column(X, name) for argument, name in named.items()}
        return without(X, tuple(named.values())), self._with(named_columns)

    def _with(self, by_argument: dict[str, Any]) -> RecordWeights:
        """Replace names by their columns."""
        return self._replace(
            weight=by_argument.get(WEIGHT, self.weight), offset=by_argument.get(OFFSET, self.offset)
        )

    def join(self, records: Records, X: Any, spread: float) -> Records:
        """Return the records with weights and offsets, as further columns of the response."""
        layout = WeightLayout(self.largest_weight, spread, self.of_predictor)
        named = {argument: name for argument, name in self.columns.items() if isinstance(name, str)}
        if records.is_remote:
            return _on_cluster(records, self.columns, layout)
        if named:
            return with_columns(records, layout, _of_source(records, named))
        arrays = {
            argument: _read(values, argument, records, X)
            for argument, values in self.columns.items()
        }
        return weighted_records(records, layout, arrays.get(WEIGHT), arrays.get(OFFSET))


def record_weights(
    weight: Any, largest_weight: Any, offset: Any, of_predictor: bool, boundless: bool
) -> RecordWeights | None:
    """Check the public part of weights and offsets; ``boundless``: weights need no bound."""
    if weight is None and largest_weight is not None:
        raise InvalidInput(
            "largest_weight is the public bound on sample_weight, which was not given. Pass both "
            "or neither."
        )
    if weight is not None and not (boundless and largest_weight is None):
        if largest_weight is None:
            raise InvalidInput(
                "sample_weight needs largest_weight=... here, a public number: weights are clipped "
                "to [0, largest_weight], and the noise is that of records with the largest weight. "
                "Pass a value known from outside these data, such as that of the sampling design; "
                "a fit without weights=, ridge, method, FreeScale and persons needs none."
            )
        largest_weight = number_in(largest_weight, "largest_weight", "[1e-100, 1e100]")
    if weight is None and offset is None:
        return None
    return RecordWeights(weight, largest_weight, offset, of_predictor)


def largest_weight(X: Any, weight: Any) -> float | None:
    """Return the largest finite weight: **not private**; None if the weights are not at hand."""
    if isinstance(weight, str):
        if frame(X) is None:
            return None
        weight = column(X, weight)
    values = numbers(weight, WEIGHT)
    values = values[np.isfinite(values) & (values > 0.0)]
    return float(np.clip(values.max(initial=0.0), 1e-100, 1e100))


def _read(values: Any, argument: str, records: Records, X: Any) -> Array:
    """Read a column as numbers, one for each record; NaN where a cell is missing."""
    if library(values) in DASK:
        raise InvalidInput(
            f"{argument} is {described(values)} and X is none of Dask's. Pass {argument}.compute()."
        )
    refuse_other_rows(X, values, argument)
    array = numbers(values, argument)
    if len(array) != records.n:
        raise InvalidInput(f"{argument} must have one entry for each record.")
    return array


def _on_cluster(records: Records, columns: dict[str, Any], layout: WeightLayout) -> Records:
    """Send the columns to the workers, which join them to the records."""
    if not hasattr(records, "joined"):
        raise InvalidInput(
            f"{' and '.join(columns)} cannot stand beside records on a cluster that are in "
            "released units already. Pass the data as they are, with standardize=True."
        )
    joined_records: Records = records.joined(
        columns, partial(packed, layout, WEIGHT in columns, OFFSET in columns)
    )
    return joined_records


def _of_source(records: Records, named: dict[str, str]) -> Callable[[int], list[Array | None]]:
    """Return a function that decodes a block's weights and offsets from the records' own file."""
    columns = getattr(records, "columns", None)
    if columns is None:
        raise InvalidInput(
            f"{' and '.join(named)} by the name of a column is for data frames and Parquet files; "
            f"received {described(records)}. Pass the columns themselves."
        )
    decode = columns(list(named.values()), list(named))
    places = [
        list(named).index(argument) if argument in named else None for argument in (WEIGHT, OFFSET)
    ]

    def block(k: int) -> list[Array | None]:
        decoded = decode(k)
        return [None if place is None else decoded[place] for place in places]

    return block


def without(table: Any, names: tuple[str, ...]) -> Any:
    """Return a data frame or mapping without the columns with these names."""
    if isinstance(table, Mapping):
        return {name: values for name, values in table.items() if name not in names}
    positions = [j for j, name in enumerate(column_names(table)) if name not in names]
    if library(table) == "pandas":
        return table.iloc[:, positions]
    return table.select([table.columns[j] if library(table) == "polars" else j for j in positions])
