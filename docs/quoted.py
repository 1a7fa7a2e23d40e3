"""Sentences of pages that quote a stored figure: its remark, read from its file.

python docs/quoted.py      writes the remarks between ``<!-- figure NAME -->`` and ``<!-- end -->``
"""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS.parent / "bench/results/figures"
BLOCK = re.compile(r"(<!-- figure (\S+) -->\n).*?(<!-- end -->)", re.S)


def remark(name: str) -> str:
    """Return what a figure says of itself, as lines of a page."""
    stored = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    return textwrap.fill(f"The stored figure says: {stored['remark']}", 112) + "\n"


def written(page: str) -> str:
    """Replace what is between the markers."""
    return BLOCK.sub(lambda found: found[1] + remark(found[2]) + found[3], page)


def pages() -> list[Path]:
    """List the pages that quote a figure."""
    return [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text("utf-8"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(written(page.read_text("utf-8")), encoding="utf-8")
