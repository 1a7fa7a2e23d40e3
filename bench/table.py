"""The printed table: one row for each benchmark, from pytest-benchmark's JSON."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    ("case", "case"),
    ("n", "n"),
    ("p", "p"),
    ("seconds", "seconds"),
    ("reference_seconds", "reference s"),
    ("speedup", "speedup"),
    ("limit", "limit"),
    ("fraction", "fraction"),
    ("accuracy", "accuracy"),
)


def rows_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the table; the median of the measured rounds unless the case says `seconds`."""
    rows = []
    for benchmark in report["benchmarks"]:
        row = dict(benchmark.get("extra_info", {}))
        row.setdefault("case", benchmark["name"])
        row.setdefault("seconds", benchmark["stats"]["median"])
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Aligned plain text; what a case does not know is '-'."""
    cells = [[heading for _, heading in COLUMNS]]
    cells += [[_cell(key, row.get(key)) for key, _ in COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = []
    for line in cells:
        aligned = [line[0].ljust(widths[0])]
        aligned += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        lines.append("  ".join(aligned).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _cell(key: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if key in {"n", "p"}:
        return f"{int(value):,}"  # type: ignore[call-overload]
    number = float(value)  # type: ignore[arg-type]
    if key in {"seconds", "reference_seconds"}:
        return seconds_text(number)
    if key == "speedup":
        return f"{number:.1f}x" if number < 100 else f"{number:.0f}x"
    if key == "fraction":
        return f"{number:.2f}"
    if key == "accuracy":
        return f"{number:.1e}"
    return f"{number:.4g}"


def seconds_text(seconds: float) -> str:
    """A duration with three digits and its unit."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
