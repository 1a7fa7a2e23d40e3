"""Within transformation: rows minus the means of their person (claim C81)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.persons.numbering import LabelEncoder
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, described

Array = NDArray[np.float64]


def within_persons(records: Records, group: Any) -> Records:
    """Subtract from covariates and responses the means over their person's usable rows."""
    if callable(group) or not hasattr(records, "X") or records.coding is not None:
        raise InvalidInput(
            'effects="person" takes rows in memory, in the columns\' own units; received '
            f"{described(records)}. Leave the schema out, or load the rows."
        )
    rows = np.column_stack([np.asarray(records.X, dtype=np.float64), records.y])
    with np.errstate(all="ignore"):
        numbering = LabelEncoder()
        persons = numbering.of(group)
        usable = np.isfinite(rows).all(axis=1)
        count = np.bincount(persons[usable], minlength=len(numbering))
        for j, column in enumerate(rows.T):
            means = np.bincount(persons[usable], column[usable], len(numbering)) / count
            rows[:, j] = np.where(usable, column - means[persons], np.nan)
    return Records(rows[:, :-1], rows[:, -1].copy(), records.names)
