"""Group privacy with a public bound: each person fills a fixed number of slots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import one_of, whole_number
from dpfast.data.persons.numbering import LabelEncoder
from dpfast.data.records import Records
from dpfast.errors import InvalidInput, described

#: Units that count once: each row, with a public bound on rows per person, or each person.
EACH = ("row", "person")


def checked_group_size(group: Any, group_size: Any, unit: str = "row") -> int:
    """Return the public bound m on rows per person; 1 if each row or each person counts once."""
    if one_of(unit, EACH, "each") == "person":
        if group is None or group_size is not None:
            raise InvalidInput(
                'each="person" needs group (the person of each row) and no group_size: a person '
                "counts with the mean of their rows, however many they are."
            )
        return 1
    if (group is None) != (group_size is None):
        raise InvalidInput(
            "group (the person of each row) and group_size (the public bound on rows per person) "
            "go together; received only one of them. Where each person shall count once, with the "
            'mean of their rows, write group=..., each="person".'
        )
    if group is None:
        return 1
    return whole_number(group_size, "group_size", 1, 10_000)


def grouped(records: Records, group: Any, group_size: int) -> Records:
    """Give each person ``group_size`` slots, in order; rows without a label are **one** person."""
    if not (hasattr(records, "X") or getattr(records, "of_arrays", False)):
        raise InvalidInput(
            f"group=... needs arrays in memory; received {described(records)}. Keep at most "
            "group_size rows of each person when the data are prepared, and ask for a budget of "
            "privacy/group_size."
        )
    labelled = LabelEncoder().of(group).tolist()
    if len(labelled) != records.n:
        raise InvalidInput(
            f"group must have one label for each of the {records.n} rows; received {len(labelled)}."
        )
    slots, persons = _slots(labelled, group_size)
    n = persons * group_size
    start = 0
    X = np.full((n, records.n_covariates), np.nan)
    y = np.empty(0)
    for rows, responses in records.blocks():
        if not start:
            y = np.full((n, *responses.shape[1:]), np.nan)
        block_slots = slots[start : start + len(responses)]
        in_slot = block_slots >= 0
        X[block_slots[in_slot]] = rows[in_slot]
        y[block_slots[in_slot]] = responses[in_slot]
        start += len(responses)
    slotted = Records(X, y, records.names)
    slotted.rows_per_unit = group_size
    return slotted


def _slots(labels: list[int], group_size: int) -> tuple[NDArray[np.int64], int]:
    """Return the slot of each row, -1 beyond the bound, and the number of persons."""
    slots_used: dict[int, list[int]] = {}
    slots = np.full(len(labels), -1, dtype=np.int64)
    for i, label in enumerate(labels):
        person = slots_used.setdefault(label, [len(slots_used), 0])
        if person[1] < group_size:
            slots[i] = person[0] * group_size + person[1]
            person[1] += 1
    return slots, len(slots_used)
