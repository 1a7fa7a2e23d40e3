"""Run the papers' experiments: one seeded function per figure, one PNG and one JSON each.

    python -m bench figures --paper 1                 every figure of paper 1
    python -m bench figures --paper 4 figure-2        one of them
    python -m bench figures --paper 3 --quick         tiny sizes: only to see that they run

The JSON holds the paper's statement, whether it was reproduced and why, the numbers behind the
picture, the seconds it took, and its stamp (``bench/stored.py``).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bench.public_tables import data_folder
from bench.stored import stamp
from dpfast.cli import ProgressBar

__all__ = ["Figure", "Outcome", "Panel", "Run", "data_folder", "declared", "main"]

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "figures"
VERDICTS = ("yes", "in part", "no", "not applicable")


@dataclass
class Run:
    """What a figure gets: its seeds, its size, its progress bar."""

    name: str
    quick: bool
    progress: Callable[[int, int], None] = lambda done, total: None

    def seed(self, *key: object) -> int:
        """A seed that depends on the figure and the key alone."""
        return zlib.crc32(repr((self.name, *key)).encode())

    def sweep(
        self, xs: Sequence[Any], repetitions: int, measure: Callable[[Any, int], dict[str, Any]]
    ) -> dict[str, np.ndarray]:
        """Measure at each x, repeated: arrays of shape (x, repetition, ...) by their names."""
        rows = []
        for done, x in enumerate(xs, 1):
            rows.append([measure(x, repetition) for repetition in range(repetitions)])
            self.progress(done, len(xs))
        return {key: np.array([[one[key] for one in row] for row in rows]) for key in rows[0][0]}

    def rng(self, *key: object) -> np.random.Generator:
        """NumPy generator of public or synthetic data, seeded like :meth:`seed`."""
        return np.random.default_rng(self.seed(*key))


@dataclass
class Panel:
    """Lines over x, one for each row, with a legend.

    A row of several repetitions (x last) is drawn as their mean with two standard errors.

    Attributes
    ----------
    x : sequence
        Places of the points; text where they have names.
    rows : dict of str to array
    axes : dict
        What Matplotlib's ``Axes.set`` takes: labels, limits, the title.
    log : str
        Logarithmic axes, such as "xy".
    styles : dict of str to str or dict
        Format, or options, of rows that do not follow the usual colours.
    spread : dict of str to array
        Half widths of bands.
    own_x : dict of str to sequence
        Places of rows that have their own.
    at : dict of str to float
        Levels of dotted lines, by their labels.
    after : sequence of float
        Places of vertical lines.
    legend : dict
        Options of the legend.
    """

    x: Sequence[Any]
    rows: dict[str, Any]
    axes: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    styles: dict[str, Any] = field(default_factory=dict)
    spread: dict[str, Any] = field(default_factory=dict)
    own_x: dict[str, Any] = field(default_factory=dict)
    at: dict[str, float] = field(default_factory=dict)
    after: Sequence[float] = ()
    legend: dict[str, Any] = field(default_factory=dict)

    def draw(self, axes: Any) -> None:
        """Draw the panel."""
        named = bool(len(self.x)) and isinstance(self.x[0], str)
        x = np.arange(len(self.x)) if named else np.asarray(self.x, dtype=float)
        for index, (label, values) in enumerate(self.rows.items()):
            at, values = self.own_x.get(label, x), np.asarray(values, dtype=float)
            self._line(axes, label, at, values, {"linestyle": ""} if named else {}, index)
        for label, level in self.at.items():
            axes.axhline(level, color="0.4", linewidth=0.8, linestyle=":", label=label or None)
        for place in self.after:
            axes.axvline(place, color="0.7", linewidth=0.8)
        for name in self.log:
            getattr(axes, f"set_{name}scale")("log")
        if named:
            axes.set_xticks(x, self.x, rotation=40, ha="right", fontsize=7)
        elif "x" in self.log and len(x) < 8:
            axes.set_xticks(x, [f"{value:g}" for value in x], fontsize=8)
            axes.xaxis.set_tick_params(which="minor", bottom=False)
            axes.xaxis.set_minor_formatter(lambda value, position: "")
        axes.set(**{k: v for k, v in self.axes.items() if k != "title"})
        axes.set_title(self.axes.get("title", ""), fontsize=9)
        if self.rows:
            axes.legend(**{"frameon": False, "fontsize": 7} | self.legend)

    def _line(
        self, axes: Any, label: str, x: Any, values: np.ndarray, options: dict[str, Any], index: int
    ) -> None:
        spread = self.spread.get(label)
        if values.ndim == 2:
            several = len(values) > 1
            spread = 2.0 * values.std(axis=0, ddof=1) / len(values) ** 0.5 if several else None
            values = values.mean(axis=0)
        style = self.styles.get(label, {})
        given = (style,) if isinstance(style, str) else ()
        usual = {"linestyle": "-"} | options
        options = {"markersize": 4, "linewidth": 1.3, "label": label}
        if not given:
            reference = label.startswith(("non-private", "nominal"))
            options |= {"color": COLOURS[index % len(COLOURS)]} | usual
            options |= {"marker": "o"} if len(x) < 15 else {}
            options |= ({"linestyle": "--"} if reference else {}) | style
        (line,) = axes.plot(x, values, *given, **options)
        if spread is not None:
            half = np.asarray(spread, dtype=float)
            low = np.maximum(values - half, 0.3 * values) if "y" in self.log else values - half
            axes.fill_between(x, low, values + half, color=line.get_color(), alpha=0.15, lw=0)


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f", "#e69f00", "#56b4e9", "#000000")


@dataclass
class Outcome:
    """What a figure found.

    Attributes
    ----------
    data : dict
        Numbers behind the picture; arrays become lists.
    reproduced : str
        Whether the paper's statement was: one of ``VERDICTS``.
    remark : str
        Why; and what was done differently.
    plot : sequence of Panel
        Side by side; none where there is nothing to draw.
    """

    data: dict[str, Any]
    reproduced: str
    remark: str
    plot: Sequence[Panel] = ()
    sharey: bool = False

    def __post_init__(self) -> None:
        if self.reproduced not in VERDICTS:
            raise ValueError(f"reproduced must be one of {VERDICTS}; received {self.reproduced!r}")


@dataclass(frozen=True)
class Figure:
    """Decorator that registers a function ``Run -> Outcome`` as a figure of a paper."""

    paper: int
    name: str
    title: str
    statement: str
    size: tuple[float, float] = (8.0, 4.5)
    function: Callable[[Run], Outcome] | None = field(default=None, compare=False)

    def __call__(self, function: Callable[[Run], Outcome]) -> Callable[[Run], Outcome]:
        registered = Figure(self.paper, self.name, self.title, self.statement, self.size, function)
        known = FIGURES.setdefault(self.paper, {})
        if self.name in known and known[self.name].function.__module__ != function.__module__:
            raise ValueError(f"paper {self.paper} has two figures named {self.name!r}")
        known[self.name] = registered
        return function


FIGURES: dict[int, dict[str, Figure]] = {}


def declared(name: str) -> Figure:
    """Return the decorator of a figure that ``figures.tsv`` lists: "paper1/figure-1"."""
    paper, _, own = name.removeprefix("paper").partition("/")
    for line in (HERE / "figures.tsv").read_text(encoding="utf-8").splitlines():
        listed, size, title, statement = line.split("\t")
        if listed == name:
            width, height = map(float, size.split(" x "))
            return Figure(int(paper), own, title, statement, (width, height))
    raise KeyError(name)


def figures_of(paper: int) -> dict[str, Figure]:
    """Every figure of a paper, found in the modules of ``bench/figures/paperN``."""
    folder = HERE / f"paper{paper}"
    for module in sorted(info.name for info in pkgutil.iter_modules([str(folder)])):
        importlib.import_module(f"bench.figures.paper{paper}.{module}")
    return FIGURES.get(paper, {})


def papers() -> list[int]:
    return sorted(int(path.name.removeprefix("paper")) for path in HERE.glob("paper[0-9]*"))


def draw(paper: int, name: str, quick: bool, out: Path, bar: bool) -> dict[str, Any]:
    """Run one figure, write its PNG and JSON, return what the JSON holds."""
    chosen = figures_of(paper)[name]
    assert chosen.function is not None
    progress = ProgressBar(name) if bar else (lambda done, total: None)
    start = time.perf_counter()
    outcome = chosen.function(Run(f"{paper}/{name}", quick, progress))
    seconds = time.perf_counter() - start
    report = {
        "paper": paper,
        "figure": name,
        "title": chosen.title,
        "statement": chosen.statement,
        "reproduced": outcome.reproduced,
        "remark": outcome.remark,
        "quick": quick,
        "seconds": round(seconds, 1),
        "stored": stamp(f"python -m bench figures --paper {paper} {name}" + " --quick" * quick),
        "data": outcome.data,
    }
    folder = out / f"paper{paper}"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report, indent=1, default=_plain, allow_nan=True)
    (folder / f"{name}.json").write_text(text + "\n")
    if outcome.plot:
        from matplotlib.figure import Figure as Canvas

        canvas = Canvas(figsize=chosen.size, layout="constrained")
        every = canvas.subplots(1, len(outcome.plot), sharey=outcome.sharey, squeeze=False)[0]
        for panel, axes in zip(outcome.plot, every, strict=True):
            panel.draw(axes)
        canvas.suptitle(chosen.title, fontsize=11)
        canvas.savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})
    return report


def _plain(value: Any) -> Any:
    """NumPy values for JSON, to seven digits."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.floating):
        return float(f"{float(value):.7g}")
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    raise TypeError(f"a figure's data must be JSON-able; received {type(value).__name__}")


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the figures asked for; the exit code is 1 if one of them failed to run."""
    parser = argparse.ArgumentParser(prog="python -m bench figures", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="FIGURE", help="default: all of the paper")
    parser.add_argument("--paper", type=int, choices=papers(), action="append")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, into build/")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--out", type=Path, help="folder; default bench/results/figures")
    arguments = parser.parse_args(argv)
    out = arguments.out
    if out is None:
        out = Path("build/figures-quick") if arguments.quick else RESULTS

    wanted = []
    for paper in arguments.paper or papers():
        known = figures_of(paper)
        unknown = [name for name in arguments.names if name not in known]
        if unknown and arguments.paper:
            parser.error(f"paper {paper} has no {', '.join(unknown)}; it has {', '.join(known)}")
        wanted += [
            (paper, name) for name in known if name in arguments.names or not arguments.names
        ]

    failed = 0
    start = time.perf_counter()
    for report in _reports(wanted, arguments.quick, out, arguments.jobs):
        failed += "error" in report
        print(
            f"paper {report['paper']}  {report['figure']:<14} "
            f"{report.get('seconds', 0.0):6.1f} s  reproduced: "
            f"{report.get('reproduced', 'FAILED')}  {report.get('error', '')}",
            flush=True,
        )
    print(f"{len(wanted)} figures, {time.perf_counter() - start:.0f} s, in {out}")
    return 1 if failed else 0


def _reports(wanted: list[tuple[int, str]], quick: bool, out: Path, jobs: int) -> Any:
    if jobs <= 1 or len(wanted) <= 1:
        for paper, name in wanted:
            yield draw(paper, name, quick, out, bar=True)
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes are the parallelism
    bar = ProgressBar("figures")
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        pending = {
            pool.submit(draw, paper, name, quick, out, False): (paper, name)
            for paper, name in wanted
        }
        for done, future in enumerate(as_completed(pending), 1):
            bar(done, len(pending))
            paper, name = pending[future]
            try:
                yield future.result()
            except Exception as error:  # the others are still worth having
                yield {"paper": paper, "figure": name, "error": repr(error)}


if __name__ == "__main__":
    sys.exit(main())
