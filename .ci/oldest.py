"""Prints the oldest versions pyproject.toml declares: oldest.py build-system, or oldest.py GROUP.

Each is also the version that is tried; those of other people's requirements are pip's choice, but
for the few below, whose newest versions the oldest of ours were not written for.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

#: matplotlib 3.8 calls names of pyparsing that 3.3 deprecates, and the tests make warnings errors.
HELD_BACK = ("pyparsing<3.3",)


def pins(what: str) -> list[str]:
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    if what == "build-system":
        declared = table["build-system"]["requires"]
    else:
        project = table["project"]
        declared = [*project["dependencies"], *table["dependency-groups"][what], *HELD_BACK]
    return [requirement.replace(">=", "==") for requirement in declared]


if __name__ == "__main__":
    print("\n".join(pins(sys.argv[1])))
