"""Weights and offsets as they are passed: columns of their own, or of a table by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in
from dpfast.data.columns import column, column_names, frame, library, numbers, refuse_other_rows
from dpfast.data.record_weights.joined import WeightedBlocks, WeightLayout, packed, weighted_records
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]

DASK = ("dask", "dask_expr")
WEIGHT, OFFSET = "sample_weight", "offset"


class RecordWeights(NamedTuple):
    """What was passed beside the response; a name stands for a column of the covariates' table."""

    weight: Any
    largest_weight: float | None
    offset: Any
    of_predictor: bool

    @property
    def columns(self) -> dict[str, Any]:
        """What was given, by the name of its argument."""
        given = {WEIGHT: self.weight, OFFSET: self.offset}
        return {what: values for what, values in given.items() if values is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of columns among what was given."""
        return tuple([values for values in self.columns.values() if isinstance(values, str)])

    @property
    def description(self) -> str:
        """What is public of it, for the description of a model."""
        parts = []
        if self.weight is not None:
            bound = self.largest_weight
            parts.append("sample weights" + (f" held to [0, {bound:g}]" if bound else ""))
        if self.offset is not None:
            parts.append("an offset")
        return f", {' and '.join(parts)}" if parts else ""

    @property
    def weighted(self) -> bool:
        """Whether records differ in more than an offset that is taken from their response."""
        return self.weight is not None or self.of_predictor

    def split_columns(self, X: Any) -> tuple[Any, RecordWeights]:
        """The covariates alone, and the columns themselves in the place of names."""
        named = {what: name for what, name in self.columns.items() if isinstance(name, str)}
        if not named or isinstance(X, Records):
            return X, self
        if library(X) in DASK and hasattr(X, "npartitions"):
            columns = list(X.columns)
            for what, name in named.items():
                if name not in columns:
                    raise InvalidInput(
                        f"X has no column {what}={described(name, text=True)}; it has {columns}."
                    )
            return X.drop(columns=list(set(named.values()))), self._with(
                {what: X[name] for what, name in named.items()}
            )
        for what, name in named.items():
            if frame(X) is None:
                raise InvalidInput(
                    f"{what}={described(name, text=True)} names a column, and X is no data frame "
                    f"that could have it: {described(X)}. Pass the column itself."
                )
        found = {what: column(X, name) for what, name in named.items()}
        return without(X, tuple(named.values())), self._with(found)

    def _with(self, found: dict[str, Any]) -> RecordWeights:
        """Columns in the place of their names."""
        return self._replace(
            weight=found.get(WEIGHT, self.weight), offset=found.get(OFFSET, self.offset)
        )

    def join(self, records: Records, X: Any, spread: float) -> Records:
        """The records with their weights and offsets, one more column or two of the response."""
        how = WeightLayout(self.largest_weight, spread, self.of_predictor)
        named = {what: name for what, name in self.columns.items() if isinstance(name, str)}
        if records.elsewhere:
            return _on_cluster(records, self.columns, how)
        if named:
            return WeightedBlocks(records, how, _of_source(records, named))
        found = {what: _read(values, what, records, X) for what, values in self.columns.items()}
        return weighted_records(records, how, found.get(WEIGHT), found.get(OFFSET))


def record_weights(
    weight: Any, largest_weight: Any, offset: Any, of_predictor: bool, boundless: bool
) -> RecordWeights | None:
    """What was passed, its public part checked, None if it is nothing; ``boundless``: no bound."""
    if weight is None and largest_weight is not None:
        raise InvalidInput(
            "largest_weight is the public bound on sample_weight, which was not given. Pass both "
            "or neither."
        )
    if weight is not None and not (boundless and largest_weight is None):
        if largest_weight is None:
            raise InvalidInput(
                "sample_weight needs largest_weight=... here, a public number: weights are held to "
                "[0, largest_weight], and the noise is that of records which all have the largest. "
                "Pass a value known from outside these data, such as that of the sampling design; "
                "a fit without weights=, ridge, method, FreeScale and persons needs none."
            )
        largest_weight = number_in(largest_weight, "largest_weight", "[1e-100, 1e100]")
    if weight is None and offset is None:
        return None
    return RecordWeights(weight, largest_weight, offset, of_predictor)


def largest_weight(X: Any, weight: Any) -> float | None:
    """The largest finite weight: **not private**; None where it would have to be looked for."""
    if isinstance(weight, str):
        if frame(X) is None:
            return None
        weight = column(X, weight)
    found = numbers(weight, WEIGHT)
    found = found[np.isfinite(found) & (found > 0.0)]
    return float(np.clip(found.max(initial=0.0), 1e-100, 1e100))


def _read(values: Any, what: str, records: Records, X: Any) -> Array:
    """A column as numbers, one for each record; NaN where there is none."""
    if library(values) in DASK:
        raise InvalidInput(
            f"{what} is {described(values)} and X is none of Dask's. Pass {what}.compute()."
        )
    refuse_other_rows(X, values, what)
    found = numbers(values, what)
    if len(found) != records.n:
        raise InvalidInput(f"{what} must have one entry for each record.")
    return found


def _on_cluster(records: Records, columns: dict[str, Any], how: WeightLayout) -> Records:
    """The columns go to the workers and are joined there."""
    if not hasattr(records, "joined"):
        raise InvalidInput(
            f"{' and '.join(columns)} cannot stand beside records on a cluster that are in "
            "released units already. Pass the data as they are, with standardize=True."
        )
    found: Records = records.joined(
        columns, partial(packed, how, WEIGHT in columns, OFFSET in columns)
    )
    return found


def _of_source(records: Records, named: dict[str, str]) -> Callable[[int], list[Array | None]]:
    """Where the blocks of columns come from that a file has beside those of the records."""
    columns = getattr(records, "columns", None)
    if columns is None:
        raise InvalidInput(
            f"{' and '.join(named)} by the name of a column is for data frames and Parquet files; "
            f"received {described(records)}. Pass the columns themselves."
        )
    decode = columns(list(named.values()), list(named))
    places = [list(named).index(what) if what in named else None for what in (WEIGHT, OFFSET)]

    def block(k: int) -> list[Array | None]:
        found = decode(k)
        return [None if place is None else found[place] for place in places]

    return block


def without(table: Any, names: tuple[str, ...]) -> Any:
    """A data frame or mapping without columns of these names, if it has some."""
    if isinstance(table, Mapping):
        return {name: values for name, values in table.items() if name not in names}
    kept = [j for j, name in enumerate(column_names(table)) if name not in names]
    if library(table) == "pandas":
        return table.iloc[:, kept]
    return table.select([table.columns[j] if library(table) == "polars" else j for j in kept])
