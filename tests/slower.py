"""Tests that `make test-fast` leaves out: the slowest, so that all others take 90 seconds.

    .venv/bin/python -m pytest -m "not slow" --junitxml=times.xml
    .venv/bin/python -m tests.slower times.xml

writes their names again.  A test that is not listed is tried.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).with_name("slower.txt")

#: Seconds that the tests which are tried may take together, in one process.
SECONDS = 150.0


def name_of(nodeid: str) -> str:
    """Name a test without its parameters."""
    return nodeid.split("[")[0]


def listed() -> frozenset[str]:
    """Return the names of the tests that are left out."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def slowest(seconds: Mapping[str, float], allowed: float) -> list[str]:
    """Return the slowest tests, so many that the others take the allowed time."""
    left, chosen = sum(seconds.values()), list[str]()
    for name, took in sorted(seconds.items(), key=lambda item: -item[1]):
        if left <= allowed:
            break
        chosen.append(name)
        left -= took
    return sorted(chosen)


def measured(report: Path) -> dict[str, float]:
    """Read the seconds of each test, all its parameters together, from a JUnit report."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[f"{module}::{name_of(case.attrib['name'])}"] += float(case.attrib["time"])
    return seconds


if __name__ == "__main__":
    names = slowest(measured(Path(sys.argv[1])), SECONDS)
    LIST.write_text("\n".join(names) + "\n", encoding="utf-8")
    print(len(names), "tests are left out")
