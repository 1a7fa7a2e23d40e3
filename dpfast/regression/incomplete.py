"""What is said where few records count, from the released number of them."""

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
    """About how many records count, and what to do about the others."""
    found, noise = counted
    step = 10.0 ** max(0.0, math.floor(math.log10(3.0 * noise))) if noise > 0.0 else 1.0
    rounded = step * round(max(found, 0.0) / step)
    columns = repr(names[0]) if len(names) == 1 else f"each of {[*names]}"
    if len(names) > LISTED:
        columns = f"each of {len(names)} columns"
    return (
        f"about {rounded:,.0f} of {n:,} records have a number in {columns} and "
        f"{'0 or 1 ' * labels}in the response; the others (text, empty cells, infinities"
        f"{', other labels' * labels}{', weights that are not positive' * weighted}) counted for "
        "nothing. Declare text in a schema, and leave out columns that are mostly empty."
        + OTHERWISE.format("response", LABELLED)
        * labels
    )
