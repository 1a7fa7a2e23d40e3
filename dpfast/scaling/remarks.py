"""Warnings about private scales, and that many records are incomplete, from released numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

#: Part of complete records below which a fit warns; with more, few are lost.
MAX_MISSING = 0.9

#: For losses of counts and of positive responses: the key below which a response is outside their
#: range, and the warning about such responses.
OUT_OF_RANGE = {
    "counts": (
        0,
        "about {:.1%} of the records have a response below 0, which is treated as 0: this is a "
        "model of counts. Check what such values stand for (a code for missing?), or use another "
        "loss.",
    ),
    "positive": (
        1 << 16,
        "about {:.1%} of the records have a response of 0 or below, treated as 0: this is a "
        "model of positive responses. For a mean with zeros use loss='poisson', or fit two parts: "
        "whether it is positive, and how large where it is.",
    ),
}

#: First words of the warning of a call that ended after its counts, and its method.
STOPPED = "stopped after "
ENDED = "stopped after its counts"

#: Of a call that ended because almost no record is complete.
NEEDED = " At this budget such a call needs at least some {:,.0f} records."


class Requirement(NamedTuple):
    """What a complete record has beside numbers, what others have instead, and advice."""

    has: str
    otherwise: str
    advice: str


def zero_or_one(name: str) -> Requirement:
    """Require that a column is 0 or 1."""
    return Requirement(f"0 or 1 as {name}", f"another {name}", OTHERWISE.format(name, ""))


def in_level(name: str) -> Requirement:
    """Require a declared level in a column."""
    return Requirement(f"a declared level in {name!r}", "labels that are no declared level", "")


#: Names of columns that a remark lists.
LISTED = 8

#: Of a column that is to be 0 or 1, and may be something else in many records.
OTHERWISE = " Where the {0} is coded as 1 and 2, say, pass {0} == 2{1}."
LABELLED = (
    ", or classes=(1, 2) to a classifier, or declare Binary(positive=2, negative=1) in a schema"
)


def constant_remarks(constant: Sequence[str], response_detected: bool) -> tuple[str, ...]:
    """Return warnings about columns that look constant."""
    remarks = []
    if constant:
        remarks.append(
            f"{', '.join(constant)} {'look' if len(constant) > 1 else 'looks'} constant at this "
            "budget; dropped from fits without weights or a method. Nearly all records seem to "
            "have one value there. Dropped coefficients are not estimable, and the others are "
            "those of a model without them. Use a larger budget."
        )
    if not response_detected:
        remarks.append(
            "the response looks constant at this budget: nearly all records seem to have one "
            "value, so its scale is unknown. Use a larger budget, or declare its range in a schema."
        )
    return tuple(remarks)


def complete_remarks(counted: tuple[float, float], n: int, *about: Any) -> tuple[str, ...]:
    """Warn that few records are complete, if the released number of them says so."""
    if not many_missing(counted, n):
        return ()
    return (_incomplete(counted, n, *about),)


def stopped_remark(
    share: float, counted: tuple[float, float], n: int, *about: Any, least: float
) -> str:
    """Say that a call stopped after its counts, with how much of the budget, and why."""
    return f"{stopped_after(share)}{_incomplete(counted, n, *about)}{NEEDED.format(least)}"


def says_incomplete(warning: str) -> bool:
    """Say whether a warning is of a call that ended because almost no record is complete."""
    return warning.startswith(STOPPED) and NEEDED.partition("{")[0] in warning


def stopped_levels_remark(
    share: float, counted: tuple[float, float], n: int, name: str, least: float
) -> str:
    """Say that a call stopped because no level has enough records, by their released counts."""
    return (
        f"{stopped_after(share)}no declared level of {name!r} has enough records. In all of "
        f"them together are {_about(counted, n)}, and a fit needs at least some {least:,.0f} in "
        "its level. Check how the levels are spelled in the data, or declare coarser ones."
    )


def stopped_after(share: float) -> str:
    return f"{STOPPED}{100.0 * share:.2g}% of the budget: "


def cell_remarks(counts: Any, noise: float, n: int, names: Sequence[str]) -> tuple[str, ...]:
    """Warn that few records are in declared cells, if their released counts say so."""
    counted = float(np.sum(counts)), noise * math.sqrt(np.size(counts))
    if not many_missing(counted, n):
        return ()
    return (_unmatched(counted, n, names),)


def many_missing(counted: tuple[float, float], n: int) -> bool:
    """Say whether many records are incomplete, by a released number and its noise."""
    return counted[0] + 3.0 * counted[1] < MAX_MISSING * n


def _incomplete(
    counted: tuple[float, float],
    n: int,
    names: Sequence[str],
    labels: bool = False,
    weighted: bool = False,
    also: Requirement | None = None,
) -> str:
    """Say about how many records are complete, and what to do about the others."""
    levels = any(name.endswith("]") for name in names)  # as columns of levels are called
    reasons = ["text", "empty cells", "infinities"]
    reasons += ["labels that are no declared level"] * levels + ["other labels"] * labels
    reasons += ["weights that are not positive and finite"] * weighted
    has, reason, advice = also or Requirement("", "", "")
    reasons += [reason] * (reason != "")
    return (
        f"{_about(counted, n)} have a number in {_listed(names)} and "
        f"{'0 or 1 ' * labels}in the response{', and ' * (also is not None)}{has}; "
        f"the others ({', '.join(reasons)}) were "
        "ignored. Declare text in a schema, and leave out columns that are mostly empty."
        + OTHERWISE.format("response", LABELLED) * labels
        + advice
    )


def _unmatched(counted: tuple[float, float], n: int, names: Sequence[str]) -> str:
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
