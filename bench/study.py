"""What all measurements that end in a table share: options, the table, and the stored page.

A study is a function that yields rows (a dict, by its headings) and sentences.  ``study`` makes
its command of it: ``python -m bench NAME [--runs N] [--only WORD] [--quick] [--store]``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from typing import Any

import numpy as np

from bench.stored import RESULTS, keep

Block = dict[str, Any] | str
Main = Callable[[Sequence[str]], int]


def study(
    page: str,
    measure: Callable[[argparse.Namespace], Iterable[Block]],
    about: str | None,
    *,
    runs: int = 1,
    quick: int = 1,
    own_page: bool = False,
    **more: Any,
) -> Main:
    """Make the command of a study; ``more`` are options of its own, with their defaults.

    A study with a page of its own writes it itself."""

    def main(argv: Sequence[str]) -> int:
        parser = argparse.ArgumentParser(prog=f"python -m bench {page}", description=about)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument("--runs", type=int, default=runs)
        parser.add_argument("--only", default="", help="cells whose names have this")
        parser.add_argument("--quick", action="store_true", help="a small run; nothing is stored")
        parser.add_argument("--store", action="store_true", help=f"write results/{page}.md")
        for name, default in more.items():
            several = isinstance(default, tuple)
            kind = type(default[0] if several else default)
            parser.add_argument(f"--{name}", type=kind, nargs="+" if several else None,
                                default=default)  # fmt: skip
        asked = parser.parse_args(argv)
        if asked.store and asked.only:
            parser.error("--store keeps the whole table: leave out --only.")
        asked.runs = quick if asked.quick else asked.runs
        found: list[Block] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for block in measure(asked):
                print(block if isinstance(block, str) else _line(block.values()), flush=True)
                found.append(block)
        if not found:
            print("nothing was measured", file=sys.stderr)
            return 1
        if asked.store and not asked.quick and not own_page:
            title, _, words = (about or "").partition("\n\n")
            command = f"`python -m bench {page} {shlex.join(argv)}`"
            keep(RESULTS / f"{page}.md", f"# {title}\n\n{words}\n{command}\n\n{markdown(found)}")
        return 0

    return main


def markdown(blocks: Iterable[Block]) -> str:
    """Rows of the same headings are a table, sentences are paragraphs."""
    parts = []
    for head, some in groupby(blocks, lambda b: b if isinstance(b, str) else tuple(b)):
        if isinstance(head, str):
            parts.append(head)
        else:
            lines = [_line(head), "|---" * len(head) + "|"]
            parts.append("\n".join([*lines, *(_line(row.values()) for row in some)]))  # type: ignore[union-attr]
    return "\n\n".join(parts)


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(shown, cells))} |"


def shown(value: Any) -> str:
    """Write a cell: numbers have three digits, several stand side by side."""
    if isinstance(value, (float, np.floating)):
        return "-" if np.isnan(value) else f"{value:.3g}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, np.ndarray):
        return " ".join(map(shown, value.tolist()))
    return str(value)


def pooled(
    function: Callable[..., Any], cells: Sequence[tuple[Any, ...]], processes: int = 2
) -> Iterator[Any]:
    """Call a function with each tuple of arguments, in processes; results in order."""
    if processes == 1 or len(cells) == 1:
        yield from (function(*cell) for cell in cells)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(function, *zip(*cells, strict=True))


def holds(interval: Any, truth: Any) -> Any:
    """Whether intervals, a row each, hold the truth; NaN where there is none."""
    low, high = np.asarray(interval).T
    return np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))
