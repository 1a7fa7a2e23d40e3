"""Numbers of persons by their labels, in order of first appearance."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.columns import column, frame, labels, library
from dpfast.data.record_weights.columns_given import without
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, RecordsUnavailable, described

#: NumPy kinds whose equal entries are equal labels; floats are not among them because of NaN.
PLAIN = "biuS"


class LabelEncoder:
    """Numbers of the persons seen so far; ``len`` is their count."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._of_arrays = 0

    def __len__(self) -> int:
        return self._of_arrays or len(self._numbers)

    def of(self, group: Any) -> NDArray[np.intp]:
        """Assign a number to the person of each row, from one column of labels."""
        if not _is_plain(group):
            return self.of_labels(*labels(group, "group"))
        # each label is a key, and who comes first has the first number
        _, first, rows = np.unique(np.asarray(group), return_index=True, return_inverse=True)
        numbers = np.empty(len(first), dtype=np.intp)
        numbers[first.argsort()] = np.arange(len(first))
        self._of_arrays = len(first)
        return numbers[rows]

    def of_labels(
        self, label_values: list[Any], positions: NDArray[Any], grow: bool = True
    ) -> NDArray[np.intp]:
        """Assign numbers from distinct labels and each row's position; -1 is a missing label."""
        places, first, rows = np.unique(positions, return_index=True, return_inverse=True)
        numbers = np.empty(len(places), dtype=np.intp)
        for k in np.argsort(first).tolist():
            person = None if places[k] < 0 else _person(label_values[places[k]])
            if grow:
                numbers[k] = self._numbers.setdefault(person, len(self._numbers))
            elif (known := self._numbers.get(person)) is not None:
                numbers[k] = known
            else:
                raise RecordsUnavailable(
                    "the data were changed since they were first read. What was charged stays "
                    "charged. Open the data again."
                )
        return numbers[rows.ravel()]


def split_group(X: Any, group: Any) -> tuple[Any, Any]:
    """Separate the covariates from the labels if ``group`` names a column of X."""
    if not isinstance(group, str):
        return X, group
    named = f"group={described(group, text=True)}"
    if isinstance(X, Records):
        columns = getattr(X, "columns", None)
        if columns is None:
            raise InvalidInput(
                f"{named} by the name of a column is for data frames and Parquet files; received "
                f"{described(X)}. Pass the column itself."
            )
        return X, columns([group], ["group"], labels)
    if frame(X) is None:
        raise InvalidInput(
            f"{named} names a column, and X is no data frame that could have it: {described(X)}. "
            "Pass the column itself."
        )
    return without(X, (group,)), column(X, group)


def _is_plain(group: Any) -> bool:
    """Test for an array whose equal entries are equal labels."""
    plain = type(group) in (np.ndarray, np.memmap) or library(group) == "pandas"
    dtype = getattr(group, "dtype", None)
    return bool(plain and isinstance(dtype, np.dtype) and dtype.kind in PLAIN and group.ndim == 1)


def _person(label: Any) -> Any:
    """Return the label as a key; None if it is not equal to itself or cannot be a key."""
    try:
        key = _key(label)
        return key if bool(label == label) else None
    except Exception:
        return None


def _key(label: Any) -> Any:
    """Convert a label to a type whose comparisons never raise or warn."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        return str.__str__(label)
    if isinstance(label, int):
        return int.__int__(label)
    if isinstance(label, float):
        return float.__float__(label)
    if isinstance(label, Decimal):
        hash(label)  # raises for one that signals
        return Decimal(label)
    if isinstance(label, bytes):
        return "bytes", bytes(memoryview(label))  # b"1" == "1" may warn
    if isinstance(label, datetime):
        aware = label.utcoffset() is not None
        return "time", aware, (label.astimezone(UTC) if aware else label).isoformat()
    if isinstance(label, date):
        return "date", label.isoformat()
    raise TypeError
