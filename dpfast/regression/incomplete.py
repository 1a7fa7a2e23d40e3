"""Warnings that many records are incomplete, from the released number of complete ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Names of columns that a remark lists.
LISTED = 8

#: Of a column that is to be 0 or 1, and may be something else in many records.
OTHERWISE = " Where the {0} is coded as 1 and 2, say, pass {0} == 2{1}."
LABELLED = (
    ", or classes=(1, 2) to a classifier, or declare Binary(positive=2, negative=1) in a schema"
)


def incomplete(
    counted: tuple[float, float],
    n: int,
    names: Sequence[str],
    labels: bool = False,
    weighted: bool = False,
) -> str:
    """Say about how many records are complete, and what to do about the others."""
    levels = any(name.endswith("]") for name in names)  # as columns of levels are called
    reasons = ["text", "empty cells", "infinities"]
    reasons += ["labels that are no declared level"] * levels + ["other labels"] * labels
    reasons += ["weights that are not positive and finite"] * weighted
    return (
        f"{_about(counted, n)} have a number in {_listed(names)} and "
        f"{'0 or 1 ' * labels}in the response; the others ({', '.join(reasons)}) were "
        "ignored. Declare text in a schema, and leave out columns that are mostly empty."
        + OTHERWISE.format("response", LABELLED)
        * labels
    )


def unmatched(counted: tuple[float, float], n: int, names: Sequence[str]) -> str:
    """Say about how many records are in a declared cell, and what to do about the others."""
    return (
        f"{_about(counted, n)} have what was declared in {_listed(names)}: a level, or a number; "
        "the others (labels that are spelled otherwise or not declared, empty cells) were "
        "ignored. Check how the levels are spelled in the data, or declare one for all others: "
        "Categorical([..., 'other'], other='other')."
    )


def _about(counted: tuple[float, float], n: int) -> str:
    """Round a released number of records to the digits that its noise allows."""
    count, noise = counted
    step = 10.0 ** max(0.0, math.floor(math.log10(3.0 * noise))) if noise > 0.0 else 1.0
    return f"about {step * round(max(count, 0.0) / step):,.0f} of {n:,} records"


def _listed(names: Sequence[str]) -> str:
    """Name the columns, if they are not too many."""
    if len(names) > LISTED:
        return f"each of {len(names)} columns"
    return repr(names[0]) if len(names) == 1 else f"each of {[*names]}"
