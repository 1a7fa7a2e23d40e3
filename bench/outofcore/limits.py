"""Fits on Parquet data beside decoding alone, and their peak of memory beside the data's size.

python -m bench outofcore --store                 bench/results/outofcore.md
python -m bench outofcore --store --quick         small data, printed only
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bench.harness import processor
from bench.outofcore.parquet_fit import measured
from bench.stored import keep

STORED = Path(__file__).resolve().parents[1] / "results" / "outofcore.md"
GIGABYTES = (0.5, 1.5)
TARGET = 1.3


def table(rows: list[tuple[str, dict[str, float]]]) -> str:
    """Markdown; one row for each size and kind of fit."""
    lines = [
        "| read from | n | data | queries | decoding once | fit | fit / decoding "
        "| peak memory | data / peak |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for label, row in rows:
        cells = [
            label,
            f"{row['n']:,}",
            f"{row['decoded_bytes'] / 1e6:,.0f} MB",
            f"{row['queries']:.0f}",
            f"{row['decode_seconds']:.2f} s",
            f"{row['fit_seconds']:.2f} s",
            f"{row['ratio']:.2f}",
            f"{row['peak_bytes'] / 1e6:,.0f} MB",
            f"{row['decoded_bytes'] / row['peak_bytes']:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(rows: list[tuple[str, dict[str, float]]], loads: tuple[float, float]) -> str:
    worst = max(row["ratio"] for label, row in rows if label == "Parquet")
    return f"""# Fits on data larger than the process

`python -m bench outofcore --store`. Log-cosh with intervals, three Newton steps or the default
fit, which reads all random blocks in one pass and then full gradients; 20 covariates of three
digits, zstd; {processor()}, {os.cpu_count()} CPUs; load average {loads[0]:.2f} before and
{loads[1]:.2f} after.

"fit / decoding" is the fit beside as many passes of decoding and nothing else, measured in
alternation, median of three: at most {TARGET} is aimed at for Parquet, {worst:.2f} is the worst
here. Peak memory is that of the whole process: Python, the libraries and about three decoded row
groups; the default fit keeps the records of its random blocks, too.

{table(rows)}
"""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench outofcore --store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data; nothing is written")
    arguments = parser.parse_args(argv)
    before = os.getloadavg()[0]
    names = {"parquet": "Parquet", "default": "Parquet, default fit"}
    rows = [
        (names[label], row)
        for size in ((0.05,) if arguments.quick else GIGABYTES)
        for label, row in measured(size).items()
    ]
    text = page(rows, (before, os.getloadavg()[0]))
    print(text)
    if not arguments.quick:
        keep(STORED, text)
    return 0
