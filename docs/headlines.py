"""Small figures of the home page, read from what ``bench`` and the tests stored.

python docs/headlines.py     prints the numbers; ``docs/gather.py`` writes the figures
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

#: Size of the fits whose coverage is drawn: the largest that was simulated.
RECORDS = 5_000
WIDTH, HEIGHT = 260, 96


class Headline(NamedTuple):
    """One small figure: a number, what it is, the page that has all of it, a picture."""

    number: str
    what: str
    page: str
    picture: str


def headlines(root: Path = ROOT) -> list[Headline]:
    return [speed(root), coverage(root), attacks(root), planted_bugs(root)]


# ---- speed -----------------------------------------------------------------------------------


def times(root: Path) -> dict[str, float]:
    """Milliseconds of logistic fits of a million records of twenty columns, ours and others'."""
    lines = (root / "bench/results/passes.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    head = next(row for row in rows if row[0] == "loss")
    row = next(row for row in rows if row[:3] == ["logistic", "1,000,000", "20"])
    cells = dict(zip(head, row, strict=True))
    return {
        name: float(cells[column].split(" ms")[0])
        for name, column in (("dpfast, private", "default fit"),
                             ("scikit-learn", "LogisticRegression"),
                             ("statsmodels OLS", "OLS"))
    }  # fmt: skip


def speed(root: Path) -> Headline:
    found = times(root)
    longest = max(found.values())
    parts = []
    for k, (name, value) in enumerate(found.items()):
        y = 14 + 28 * k
        width = max(2.0, (WIDTH - 4) * value / longest)
        parts.append(f"<text x='0' y='{y}'>{name}: {value:,.0f} ms</text>"
                     f"<rect x='0' y='{y + 5}' width='{width:.1f}' height='7' "
                     f"class='{'faint' if k else 'ours'}'/>")  # fmt: skip
    ratio = found["scikit-learn"] / found["dpfast, private"]
    return Headline(
        f"{ratio:.1f} times as fast",
        "as scikit-learn's logistic regression, intervals included, where columns come in units: "
        "a million records, 20 columns, one thread",
        "gallery/passes",
        _drawing("Times: " + ", ".join(f"{n} {v:,.0f} ms" for n, v in found.items()), parts),
    )


# ---- coverage --------------------------------------------------------------------------------


def shares(root: Path) -> list[float]:
    """Of every coefficient of every simulated design: how often its 95% interval held the truth."""
    stored = json.loads((root / "bench/results/coverage.json").read_text(encoding="utf-8"))
    return [v for row in stored if row["n"] == RECORDS for v in row["coverage_private"]]


def coverage(root: Path) -> Headline:
    found = shares(root)
    low, high = 0.92, 0.98

    def place(value: float) -> float:
        return (min(max(value, low), high) - low) / (high - low) * (WIDTH - 8) + 4

    stacks: dict[int, int] = {}
    parts = [f"<path d='M{place(0.95):.1f},8V72' class='line'/>"]
    for value in sorted(found):
        x = round(place(value) / 8) * 8
        stacks[x] = stacks.get(x, 0) + 1
        parts.append(f"<circle cx='{x}' cy='{68 - 6 * (stacks[x] - 1)}' r='2.8' class='ours'/>")
    parts.append(f"<path d='M0,73H{WIDTH}' class='line'/>")
    for value, anchor in ((low, "start"), (0.95, "middle"), (high, "end")):
        parts.append(f"<text x='{place(value):.1f}' y='90' text-anchor='{anchor}'>"
                     f"{100 * value:.0f}%</text>")  # fmt: skip
    return Headline(
        f"{100 * median(found):.1f}% coverage",
        "of nominal 95% intervals at mu = 1 (epsilon = 4.89 at delta = 1e-6) and "
        f"{RECORDS:,} records, in the median; from "
        f"{100 * min(found):.1f}% to {100 * max(found):.1f}% over {len(found)} coefficients",
        "gallery/coverage",
        _drawing(f"Coverage of {len(found)} coefficients, around 95%", parts),
    )


# ---- claims and their attacks ----------------------------------------------------------------


def claims(root: Path) -> tuple[int, int]:
    """How many numbered claims there are, and by how many different tests they are attacked."""
    pages = sorted((root / "dpfast" / "privacy").rglob("PROOFS*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    attacks = re.findall(r"^\*\*Attack\.\*\*(.*?)(?=^#|\Z)", text, re.M | re.S)
    tests = {name for attack in attacks for name in re.findall(r"test_\w+\.py::\w+", attack)}
    return len(attacks), len(tests)


def attacks(root: Path) -> Headline:
    count, tests = claims(root)
    return Headline(
        f"{count} claims, {tests} attacks",
        "every constant of the guarantee has a number, a proof, and tests that try to break it",
        "proofs",
        _tiles(count, f"{count} tiles, one for each claim"),
    )


# ---- planted bugs ----------------------------------------------------------------------------


def noticed(root: Path) -> tuple[int, int]:
    text = (root / "bench/results/mutants.md").read_text(encoding="utf-8")
    killed, planted = re.search(r"(\d+) of (\d+) killed", text).groups()
    return int(killed), int(planted)


def planted_bugs(root: Path) -> Headline:
    killed, planted = noticed(root)
    return Headline(
        f"{killed} of {planted} planted bugs",
        "noise too small, a charge forgotten, a bound not enforced: each is planted "
        "to check that a test detects it",
        "gallery/mutants",
        _tiles(planted, f"{killed} of {planted} tiles are filled", killed),
    )


# ---- drawing ---------------------------------------------------------------------------------


def _tiles(count: int, words: str, filled: int | None = None) -> str:
    """A tile for each thing, in the largest square size that fits."""
    size = next(s for s in range(30, 1, -1) if (WIDTH // s) * (HEIGHT // s) >= count)
    columns = WIDTH // size
    parts = [
        f"<rect x='{k % columns * size}' y='{k // columns * size}' width='{size - 1}' "
        f"height='{size - 1}' class='{'ours' if filled is None or k < filled else 'missed'}'/>"
        for k in range(count)
    ]
    return _drawing(words, parts)


def _drawing(words: str, parts: list[str]) -> str:
    return (
        f"<svg role='img' aria-label='{escape(words, quote=True)}' viewBox='0 0 {WIDTH} {HEIGHT}'>"
        + "".join(parts) + "</svg>"
    )  # fmt: skip


def page(root: Path = ROOT) -> str:
    """The figures as HTML; colours are those of the theme, light or dark (static/dpfast.css)."""
    cards = "".join(
        f"<a class='headline' href='{one.page}.html'>{one.picture}<strong>{one.number}</strong>"
        f"<span>{one.what}</span></a>\n"
        for one in headlines(root)
    )
    return f"<div class='headlines'>\n{cards}</div>\n"


if __name__ == "__main__":
    for one in headlines():
        print(f"{one.number}: {one.what} ({one.page})")
