"""Of a product of parameters `make test` tries a part, `make test-all` every case.

Four markers say which part: `one_source`, `pairs`, `values` and `one_in(n)` (pyproject.toml).  The
cases that they leave out are marked as slow; a case that is asked for by its name always runs.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

THINNED = ("one_source", "pairs", "values", "one_in")


def covering(cases: list[dict[str, Any]], strength: int) -> Iterator[int]:
    """Numbers of cases among which every value occurs, or every pair of two parameters' values.

    Of cases that bring as much that is new, one whose values occurred least.
    """
    values = [set(case.items()) for case in cases]
    left = {
        k: set(combinations(sorted(case.items()), min(strength, len(case))))
        for k, case in enumerate(cases)
    }
    used: Counter[Any] = Counter()
    while any(left.values()):
        best = max(left, key=lambda k: (len(left[k]), -sum(used[v] for v in values[k]), -k))
        used.update(values[best])
        new = left.pop(best)
        left = {k: parts - new for k, parts in left.items()}
        yield best


def in_sixth(nodeid: str, sixth: int) -> bool:
    """Whether a test is in a sixth of all, from 0 to 5; the same in every run and process."""
    return zlib.crc32(nodeid.encode()) % 6 == sixth


def thin(items: list[pytest.Item]) -> None:
    """Mark as slow what the markers in THINNED leave out of the cases of a test."""
    cases: dict[tuple[Any, str], list[Any]] = {}
    for item in items:
        if hasattr(item, "callspec") and any(map(item.get_closest_marker, THINNED)):
            cases.setdefault((item.parent, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for of_test in cases.values():
        quick = [item for item in of_test if item.get_closest_marker("slow") is None]
        markers = list(filter(None, map(of_test[0].get_closest_marker, THINNED)))
        narrower: list[Any] = []
        if markers[0].name == "one_source":
            widest = next((item.callspec.params.get("isa") for item in quick), None)
            narrower = [i for i in quick if i.callspec.params.get("isa") != widest]
            quick = [item for item in quick if item not in narrower]
        marker = markers[-1]
        if marker.name == "one_in":
            kept = quick[:: marker.args[0]]
        elif marker.name == "one_source":
            kept = quick
        else:
            kept = cover(quick, 1 if marker.name == "values" else 2)
        kept = kept + cover(narrower, 1)
        quick = quick + narrower
        for item in set(quick).difference(kept):
            item.add_marker(pytest.mark.slow)


def cover(items: list[Any], strength: int) -> list[Any]:
    """Those among which every value of a parameter occurs, or every pair of two values."""
    return [items[k] for k in covering([values(item.callspec.params) for item in items], strength)]


def values(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that can be compared: what is not plain is itself."""
    plain = (bool, int, float, str, bytes, type(None))
    return {name: repr(v) if isinstance(v, plain) else id(v) for name, v in params.items()}
