"""The privacy unit is a person with several rows: each person fills a fixed number of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Records
from dpfast.errors import InvalidInput

__all__ = ["checked_group_size", "grouped"]


def checked_group_size(group: Any, group_size: Any) -> int:
    """The public bound m on rows per person; 1 without groups."""
    if (group is None) != (group_size is None):
        raise InvalidInput(
            "group (the person of each row) and group_size (the public bound on rows per person) "
            "go together; received only one of them."
        )
    if group is None:
        return 1
    if (
        isinstance(group_size, bool)
        or not isinstance(group_size, (int, np.integer))
        or not 1 <= group_size <= 10_000
    ):
        raise InvalidInput(
            f"group_size must be a whole number from 1 to 10000; received {group_size!r}."
        )
    return int(group_size)


def grouped(records: Records, group: Any, group_size: int) -> Records:
    """Records with ``group_size`` slots for each person, in order of first appearance.

    A person's first ``group_size`` rows fill the slots; further rows are left out, and missing
    ones are records that contribute exactly zero.  So replacing a person replaces at most
    ``group_size`` records, and n counts persons times slots.

    Parameters
    ----------
    records : Records
    group : array-like of shape (n,)
        Label of the person each row belongs to.  Their number is public, like n.
    group_size : int
    """
    if not hasattr(records, "X"):
        raise InvalidInput(
            f"group=... needs arrays in memory; received {records!r}. Keep at most group_size rows "
            "of each person when the data are prepared, and ask for a budget of privacy/group_size."
        )
    labels = np.asarray(group, dtype=object)
    if labels.shape != (records.n,):
        raise InvalidInput(
            f"group must have one label for each of the {records.n} rows; received shape "
            f"{labels.shape}."
        )
    slots, persons = _slots(labels.tolist(), group_size)
    kept = slots >= 0
    n = persons * group_size
    X = np.full((n, records.n_covariates), np.nan)
    y = np.full(n, np.nan)
    X[slots[kept]] = records.X[kept]
    y[slots[kept]] = records.y[kept]
    return Records(X, y, records.names)


def _slots(labels: list[Any], group_size: int) -> tuple[NDArray[np.int64], int]:
    """Slot of each row, -1 for rows beyond the bound; and the number of persons."""
    seen: dict[Any, list[int]] = {}
    slots = np.full(len(labels), -1, dtype=np.int64)
    for i, label in enumerate(labels):
        key = label if label == label else None  # every NaN is one and the same person
        person = seen.setdefault(key, [len(seen), 0])
        if person[1] < group_size:
            slots[i] = person[0] * group_size + person[1]
            person[1] += 1
    return slots, len(seen)
