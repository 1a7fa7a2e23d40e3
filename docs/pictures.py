"""Pictures of the architecture page, drawn from the source: ``docs/pictures/*.svg``.

python docs/pictures.py      also run by docs/gather.py, hence by `make docs`
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "dpfast"

#: Rooms whose colour says what only they do.
COLOURS = {"curator": "#fde2c8", "privacy": "#d8ecd6"}
PLAIN, INK, FAINT = "#eef2f7", "#1f2933", "#7b8794"
FONT = "font-family='Helvetica, Arial, sans-serif'"
MONO = "font-family='DejaVu Sans Mono, Menlo, Consolas, monospace'"


# ---- rooms and who imports whom --------------------------------------------------------------


def sources_of(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


def rooms() -> dict[str, str]:
    """Folders and modules at the top of the package, with the first sentence of each docstring."""
    found = {}
    for path in sorted(PACKAGE.iterdir()):
        source = path / "__init__.py" if path.is_dir() else path
        if source.suffix == ".py" and source.is_file() and not path.stem.startswith("__"):
            text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
            sentence = " ".join(text.split("\n\n")[0].split()).replace("`", "")
            found[path.stem] = sentence.split(". ")[0].rstrip(".")
    return found


def imports() -> dict[str, set[str]]:
    """Room: the other rooms its modules import, inside functions and for type checkers as well."""
    known = set(rooms())
    graph = {}
    for room in known:
        used: set[str] = set()
        for path in sources_of(room):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                else:
                    continue
                used.update(n.split(".")[1] for n in names if n.startswith("dpfast."))
        graph[room] = (used & known) - {room}
    return graph


def without_shortcuts(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that no longer way round says already; the graph must have no circle."""
    reached: dict[str, set[str]] = {}

    def below(room: str) -> set[str]:
        if room not in reached:
            reached[room] = graph[room].union(*(below(other) for other in graph[room]))
        return reached[room]

    return {
        room: {one for one in used if not any(one in below(other) for other in used - {one})}
        for room, used in graph.items()
    }


def layers(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """As many rows as the longest chain of imports; each room just below its lowest importer."""
    importers: dict[str, list[str]] = {room: [] for room in graph}
    for room in graph:
        for other in graph[room]:
            importers[other].append(room)
    depth: dict[str, int] = {}

    def of(room: str) -> int:
        if room not in depth:
            depth[room] = 1 + max((of(other) for other in importers[room]), default=-1)
        return depth[room]

    lowest = max(of(room) for room in graph)
    return {room: lowest - depth[room] for room in graph}


# ---- the picture of the rooms ----------------------------------------------------------------

BOX, BOX_HEIGHT, GAP, LAYER = 172, 78, 20, 126
LANE = 26  # width of an arrow that passes a layer


class Place(NamedTuple):
    """Where a node of the picture goes: centre, row of boxes, and its width."""

    x: float
    row: int
    width: float


def lanes(graph: Mapping[str, set[str]], height: Mapping[str, int]) -> list[list[str]]:
    """Routes of the arrows, each a node in every row it passes, top first."""
    return [
        [
            room,
            *(f"{room}>{other}@{k}" for k in range(height[room] - 1, height[other], -1)),
            other,
        ]
        for room in sorted(graph)
        for other in sorted(graph[room])
    ]


def arranged(routes: list[list[str]], height: Mapping[str, int]) -> dict[str, Place]:
    """Rows ordered by the middle of their neighbours, over and over, then moved towards them."""
    row_of = dict(height)
    for route in routes:
        row_of.update({node: height[route[0]] - k for k, node in enumerate(route)})
    rows = [sorted(n for n in row_of if row_of[n] == k) for k in range(max(row_of.values()) + 1)]
    beside: dict[str, list[str]] = {node: [] for node in row_of}
    for route in routes:
        for upper, lower in pairwise(route):
            beside[upper].append(lower)
            beside[lower].append(upper)
    width = {node: float(BOX if node in height else LANE) for node in row_of}
    x: dict[str, float] = {}
    best: tuple[float, dict[str, float]] = (float("inf"), {})
    for row in rows:
        _spread(row, {n: float(i) for i, n in enumerate(row)}, width, x)
    for sweep in range(60):
        order = rows if sweep % 2 else rows[::-1]
        for row in order:
            wanted = {n: _mean([x[m] for m in beside[n]], x[n]) for n in row}
            row.sort(key=lambda n, wanted=wanted: (wanted[n], n))
            _spread(row, wanted, width, x)
        cost = sum(abs(x[a] - x[b]) for r in routes for a, b in pairwise(r))
        if cost < best[0]:
            best = (cost, dict(x))
    x = best[1]
    left = min(x[n] - width[n] / 2 for n in x)
    return {n: Place(x[n] - left, row_of[n], width[n]) for n in x}


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _spread(
    row: list[str], wanted: Mapping[str, float], width: Mapping[str, float], x: dict[str, float]
) -> None:
    """Give each node of a row the place it wants, as far as its neighbours leave it room."""
    blocks: list[tuple[list[str], float]] = []  # nodes that touch, and the left end of the first
    for node in row:
        block, start = [node], wanted[node] - width[node] / 2
        while blocks and blocks[-1][1] + _length(blocks[-1][0], width) > start:
            before = blocks.pop()[0]
            block = before + block
            ends, position = [], 0.0
            for n in block:
                ends.append(wanted[n] - width[n] / 2 - position)
                position += width[n] + GAP
            start = sum(ends) / len(ends)
        blocks.append((block, start))
    for block, start in blocks:
        for n in block:
            x[n] = start + width[n] / 2
            start += width[n] + GAP


def _length(block: Iterable[str], width: Mapping[str, float]) -> float:
    return sum(width[n] + GAP for n in block)


def rooms_svg() -> str:
    """Every room as a box, above those it imports."""
    graph, about = imports(), rooms()
    height, arrows = layers(graph), without_shortcuts(graph)
    routes = lanes(arrows, height)
    places = arranged(routes, height)
    top = max(height.values())
    margin = 16

    def middle(node: str) -> tuple[float, float]:
        place = places[node]
        return margin + place.x, margin + (top - place.row) * LAYER + BOX_HEIGHT / 2

    parts = []
    for route in routes:
        x, y = middle(route[0])
        y += BOX_HEIGHT / 2
        path = f"M{x:.0f},{y:.0f}"
        for node in route[1:]:
            to_x, to_y = middle(node)
            end = to_y - BOX_HEIGHT / 2 - (6 if node in height else 0)
            bend = (end - y) / 2
            path += f"C{x:.0f},{y + bend:.0f} {to_x:.0f},{end - bend:.0f} {to_x:.0f},{end:.0f}"
            x, y = to_x, end
            if node not in height:
                y = to_y + BOX_HEIGHT / 2
                path += f"L{x:.0f},{y:.0f}"
        parts.append(f"<path d='{path}' class='arrow'><title>{route[0]} imports {route[-1]}"
                     "</title></path>")  # fmt: skip
    for room in sorted(graph):
        x, y = middle(room)
        left, upper = x - BOX / 2, y - BOX_HEIGHT / 2
        parts.append(_box(left, upper, BOX, BOX_HEIGHT, COLOURS.get(room, PLAIN)))
        parts.append(f"<text x='{x:.0f}' y='{upper + 19:.0f}' {MONO} font-size='14' "
                     f"font-weight='bold' text-anchor='middle'>{room}</text>")  # fmt: skip
        for k, line in enumerate(textwrap.wrap(about[room], 28, max_lines=4, placeholder=" ...")):
            parts.append(f"<text x='{x:.0f}' y='{upper + 35 + 12 * k:.0f}' {FONT} font-size='10.5' "
                         f"text-anchor='middle'>{escape(line)}</text>")  # fmt: skip
    right = max(place.x + place.width / 2 for place in places.values())
    return _drawing(right + 2 * margin, top * LAYER + BOX_HEIGHT + 2 * margin, parts)


# ---- the ways through fit --------------------------------------------------------------------


class Station(NamedTuple):
    """One stop: a function, class or method of dpfast, and what happens there."""

    name: str
    what: str


#: A record's way through ``fit``, in the order of the first calls (a test traces one).
RECORD = (
    Station("regression.fit.fit", "X and y arrive as arguments"),
    Station("fit_requests.request.FitRequest", "keeps them, with the other checked arguments"),
    Station("data.source.as_records", "shapes and dtypes are checked, values never; no copy"),
    Station("curator.curator.Curator", "the only reader from here on"),
    Station(
        "curator.preconditioned.PreconditionedQueries",
        "each row is transformed separately, by released maps",
    ),
    Station("solvers.pcn.engine.fit_pcn", "asks for Gram matrices, norms and clipped scores"),
    Station(
        "curator.preconditioned.PreconditionedQueries.gram", "one query: charged, then computed"
    ),
    Station("kernels.records.RecordKernel.sums", "each record adds a contribution of bounded norm"),
    Station(
        "curator.noisy_release.release_jointly_with_noise", "the only release: exact sums go in ..."
    ),
    Station("kernels.sampler.release", "... noise is added on a public grid ..."),
    Station("curator.answers.JointAnswer", "... and noisy answers with receipts come out"),
    Station(
        "regression.default_result.DefaultResult.fit", "statistics of answers: no record is seen"
    ),
    Station("inference.results.Fit._read_later", "the result holds no data"),
)

#: A budget's way through ``fit``, likewise.
BUDGET = (
    Station("regression.fit.fit", "privacy=GDP(1.0), the total"),
    Station("privacy.budget.GDP.within", "any budget becomes the largest mu that implies it"),
    Station("privacy.mechanisms.gaussian_scale", "noise scale = sensitivity / mu, rounded up"),
    Station(
        "solvers.pcn.plan.BudgetAllocation.budgets",
        "the rest, divided among the later queries",
    ),
    Station("curator.joint.make_plan", "refuses impossible releases; costs nothing"),
    Station("curator.bounds.joint_cost", "the joint cost of gradient, Hessian, score covariance"),
    Station(
        "fit_requests.request.Account.reserve", "a ledger of several analyses is charged the total"
    ),
    Station("privacy.ledger.Ledger.charge", "exact sums; overspending is refused"),
    Station(
        "curator.preconditioned.PreconditionedQueries.gram",
        "charges the fit's own ledger, step by step",
    ),
    Station("kernels.sampler.ExactSampler.normals", "only now noise is drawn"),
    Station("fit_requests.request.FitRequest.guarantee", "the result states what was spent"),
    Station("inference.guarantees.Guarantee.of", "result.privacy"),
)

STOP, STOP_HEIGHT, STEP = 330, 30, 48


def way_svg(stations: tuple[Station, ...]) -> str:
    """Stations one below the other, in the colour of their room, with a word on each."""
    parts, margin = [], 12
    for k, (name, what) in enumerate(stations):
        y = margin + k * STEP
        colour = COLOURS.get(name.split(".")[0], PLAIN)
        parts.append(_box(margin, y, STOP, STOP_HEIGHT, colour))
        parts.append(f"<text x='{margin + 10}' y='{y + 20}' {MONO} font-size='12'>{name}</text>")
        parts.append(f"<text x='{margin + STOP + 14}' y='{y + 20}' {FONT} font-size='13'>"
                     f"{escape(what)}</text>")  # fmt: skip
        if k:
            x = margin + 40
            parts.append(f"<path d='M{x},{y - STEP + STOP_HEIGHT}L{x},{y - 6}' class='arrow'/>")
    return _drawing(STOP + 400, len(stations) * STEP - STEP + STOP_HEIGHT + 2 * margin, parts)


# ---- SVG -------------------------------------------------------------------------------------


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (f"<rect x='{x:.0f}' y='{y:.0f}' width='{width:.0f}' height='{height:.0f}' rx='5' "
            f"fill='{colour}' stroke='{FAINT}'/>")  # fmt: skip


def _drawing(width: float, height: float, parts: list[str]) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' "
        f"width='{width:.0f}' height='{height:.0f}' fill='{INK}'>\n"
        "<defs><marker id='head' viewBox='0 0 8 8' refX='2' refY='4' markerWidth='6' "
        f"markerHeight='6' orient='auto'><path d='M0,0L8,4L0,8z' fill='{FAINT}'/></marker></defs>\n"
        f"<style>.arrow{{fill:none;stroke:{FAINT};stroke-width:1.4;marker-end:url(#head)}}</style>\n"
        "<rect width='100%' height='100%' fill='white'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def pictures() -> dict[str, str]:
    """Name of each file, and what is in it."""
    return {
        "rooms.svg": rooms_svg(),
        "record.svg": way_svg(RECORD),
        "budget.svg": way_svg(BUDGET),
    }


def draw(folder: Path = DOCS / "pictures") -> None:
    folder.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (folder / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    draw()
