"""Tree sum of results from blocks of records, in an order that depends only on their number.

The bits are the same wherever parts are computed.  A part passes through few additions, whose
rounding a sensitivity has to allow for (claim C11).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Parts that are added one after the other before their sum becomes a part of the next level.
FAN_IN = 16


def add(a: Any, b: Any) -> Any:
    """Add two results: numbers, arrays, or tuples in which None stands for no result."""
    if isinstance(a, tuple):
        return tuple([x if x is None else x + y for x, y in zip(a, b, strict=True)])
    return a + b


def fold(parts: Iterable[Any]) -> Any:
    """Add the parts one after the other."""
    remaining = iter(parts)
    total = next(remaining)
    for part in remaining:
        total = add(total, part)
    return total


def tree_sum(parts: Iterable[Any]) -> Any:
    """Add the parts level by level, with one partial sum for each level."""
    levels: list[list[Any]] = []  # sum and number of its parts; number 0: an empty group
    for part in parts:
        for level in levels:
            level[0] = part if level[1] == 0 else add(level[0], part)
            level[1] += 1
            if level[1] < FAN_IN:
                break
            part, level[0], level[1] = level[0], None, 0
        else:
            levels.append([part, 1])
    rest = [total for total, count in levels if count]
    total = rest[0]
    for higher in rest[1:]:
        total = add(higher, total)
    return total


def additions(n_parts: int) -> int:
    """Return the most additions that one of ``n_parts`` passes through in :func:`tree_sum`."""
    depth = 0
    while n_parts > 1:
        depth += min(n_parts, FAN_IN) - 1
        n_parts = -(-n_parts // FAN_IN)
    return depth
