"""What pages quote of stored results: remarks of figures, tables of their data, single numbers.

python docs/quoted.py      writes them between markers, each closed by ``<!-- end -->``

``<!-- figure paper2/rates -->`` has the figure's remark.  ``<!-- table NAME -->`` has a table of
``TABLES``.  ``<!-- number paper4/figure-3 data.x.0 -->`` has one number, in the line.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
FIGURES = ROOT / "bench/results/figures"
BLOCK = re.compile(r"(<!-- (figure|table|number) ([^>]+?) -->\n?).*?(<!-- end -->)", re.S)

#: A sentence that speaks of a stored result, and a number that was measured.
SPEAKS = re.compile(r"\b[Ff]igures? [\w-]+ of paper|\b[Ss]tored (?:figure|table)|gallery/")
MEASURED = re.compile(r"(?<![\w=(\[/.-])(?:\d*\.\d+|\d+(?:\.\d+)?%|\d+ times)(?![\w/]| GHz)")
#: Chosen and not measured: levels of intervals, and settings of a simulation.
CHOSEN = re.compile(r"\b9[059]%|\b(?:mu|epsilon|rho|delta) = [\d.e-]+(?:(?:, | and )[\d.e-]+)*")


def stored(name: str) -> dict[str, Any]:
    """Read a stored figure."""
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


def remark(name: str) -> str:
    """Return what a figure says of itself, as lines of a page."""
    return textwrap.fill(f"The stored figure says: {stored(name)['remark']}", 112) + "\n"


def divergence() -> str:
    """Make the table of figure 2 (b) of paper 1: how often full and damped steps diverge."""
    data = stored("paper1/figure-2")["data"]
    rows = {f"step size ({data['runs']} runs)": [f"{size:g}" for size in data["step sizes"]]}
    rows |= {
        name: [f"{share:.0%}" for share in shares] for name, shares in data["diverged"].items()
    }
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    lines.insert(1, "|---" * (len(data["step sizes"]) + 1) + "|")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[], str]] = {"divergence": divergence}


def number(where: str) -> str:
    """Return one number of a stored figure, to three digits; ``where`` is its path."""
    name, path = where.split()
    value: Any = stored(name)
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    return f"{value:.3g}"


def quoted(kind: str, name: str) -> str:
    """Return what stands between two markers."""
    if kind == "figure":
        return remark(name)
    return TABLES[name]() if kind == "table" else number(name)


def written(page: str) -> str:
    """Replace what is between the markers."""
    return BLOCK.sub(lambda found: found[1] + quoted(found[2], found[3]) + found[4], page)


def unquoted(text: str) -> list[str]:
    """List sentences about a stored result that have a measured number typed by hand."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", BLOCK.sub("", text), flags=re.S)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*[*|-] )", text)
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.!?:])\s+", " ".join(p.split()))]
    return [s for s in sentences if SPEAKS.search(s) and MEASURED.search(CHOSEN.sub("", s))]


def pages() -> list[Path]:
    """List the pages that quote a figure."""
    return [page for page in sorted(DOCS.glob("*.md")) if BLOCK.search(page.read_text("utf-8"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(written(page.read_text("utf-8")), encoding="utf-8")
