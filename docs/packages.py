"""The figure of packages.md, read from what ``bench rivals_packages`` stored.

python docs/packages.py      prints the numbers; ``docs/gather.py`` writes the figure
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

#: Of the drawing of one table, and where its scale begins and ends (powers of ten).
WIDTH, ROW, LABEL = 640, 20, 250
LOW, HIGH = -2.0, 2.0

#: Opacity of a point by epsilon, and its radius.
SIZES = {"1": 4, "3": 6, "10": 8}


class Cell(NamedTuple):
    """One row of the stored table."""

    table: str
    epsilon: str
    package: str
    distance: float
    width: float
    seconds: float

    @property
    def ours(self) -> bool:
        return self.package.startswith("dpfast")


def cells(root: Path = ROOT, exact: bool = False) -> list[Cell]:
    """Rows of packages with a budget, or of those without privacy; no width: NaN."""
    text = (root / "bench/results/rivals_packages.md").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        row = [part.strip() for part in line.strip("|").split("|")]
        if line.startswith("|") and len(row) == 6 and row[1] in (("-",) if exact else SIZES):
            numbers = [math.nan if part == "-" else float(part) for part in row[3:]]
            found.append(Cell(*row[:3], *numbers))
    return found


def _span(values: list[float]) -> str:
    return f"{min(values):.2g} to {max(values):.2g}"


def said(root: Path = ROOT) -> list[str]:
    """What the stored table says of who is nearer, of widths and of times."""
    found = cells(root)
    ours = {(cell.table, cell.epsilon): cell for cell in found if cell.ours}
    pairs = [(cell, ours[cell.table, cell.epsilon]) for cell in found if not cell.ours]
    nearer = [
        f"{cell.package} on {cell.table} at epsilon {cell.epsilon} ({cell.distance:.2g} for our "
        f"{own.distance:.2g})"
        for cell, own in pairs
        if cell.distance < own.distance
    ]
    times: dict[str, list[float]] = {}
    widths: dict[str, list[float]] = {}
    for cell, own in pairs:
        times.setdefault(cell.package, []).append(cell.seconds / own.seconds)
        if not math.isnan(cell.width):
            widths.setdefault(cell.package, []).append(cell.width / own.width)
    for cell in cells(root, exact=True):
        own = ours[cell.table, "1"]
        times.setdefault(cell.package, []).append(cell.seconds / own.seconds)
    return [
        f"Nearer than dpfast in {len(ours)} cells: {'; '.join(nearer) or 'none'}.",
        "Widths of intervals over ours: "
        + "; ".join(f"{name} {_span(each)}" for name, each in widths.items()) + ".",
        "Times over ours: "
        + "; ".join(f"{name} {_span(each)}" for name, each in times.items()) + ".",
    ]  # fmt: skip


def _x(distance: float) -> float:
    place = (math.log10(max(distance, 10.0**LOW)) - LOW) / (HIGH - LOW)
    return LABEL + (WIDTH - LABEL - 20) * min(place, 1.0)


def drawing(table: str, rows: list[Cell]) -> str:
    """Distances of every package on one scale, larger points for larger epsilon."""
    packages = list(dict.fromkeys(row.package for row in rows))
    height = ROW * (len(packages) + 2)
    parts, words = [], []
    for power in range(int(LOW), int(HIGH) + 1):
        x = _x(10.0**power)
        parts.append(f"<line x1='{x:.1f}' x2='{x:.1f}' y1='4' y2='{height - ROW}' class='grid'/>")
        parts.append(
            f"<text x='{x:.1f}' y='{height - 4}' text-anchor='middle'>{10.0**power:g}</text>"
        )
    for k, package in enumerate(packages):
        y = ROW * (k + 1)
        parts.append(
            f"<text x='{LABEL - 8}' y='{y + 4}' text-anchor='end'>{escape(package)}</text>"
        )
        told = [row for row in rows if row.package == package]
        kind = "ours" if told[0].ours else "missed"
        parts += [
            f"<circle class='{kind}' cx='{_x(row.distance):.1f}' cy='{y}' "
            f"r='{SIZES[row.epsilon]}'/>"
            for row in told
        ]
        distances = ", ".join(f"{row.distance:g} at epsilon {row.epsilon}" for row in told)
        words.append(f"{package}: {distances}")
    said = escape(f"{table}: standard errors from the exact fit. " + "; ".join(words), quote=True)
    return (
        f"<figure class='packages'><figcaption>{escape(table)}</figcaption>\n"
        f"<svg role='img' aria-label='{said}' viewBox='0 0 {WIDTH} {height}'>"
        + "".join(parts)
        + "</svg></figure>\n"
    )


def page(root: Path = ROOT) -> str:
    """The figures as HTML; colours are those of the theme (static/dpfast.css)."""
    found = cells(root)
    tables = list(dict.fromkeys(cell.table for cell in found))
    figures = [drawing(table, [cell for cell in found if cell.table == table]) for table in tables]
    return "".join([*figures, *[f"<p>{escape(sentence)}</p>\n" for sentence in said(root)]])


if __name__ == "__main__":
    print(*cells(), *said(), sep="\n")
