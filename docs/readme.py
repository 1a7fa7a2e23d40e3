"""The parts of README that are read from results: output, picture, packages, how many records.

python docs/readme.py      writes them between their markers, and ``docs/static/first-fit.svg``
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from statistics import median

import dpfast

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs/static/first-fit.svg"
FORMULA, PRIVACY = "log_wage ~ education + experience + I(experience**2)", (1.0, 1e-6)

#: Names in the stored comparison, and in README.
PACKAGES = {
    "dpfast, told nothing": "dpfast",
    "diffprivlib, told": "diffprivlib",
    "OpenDP moments, told": "OpenDP (moments)",
    "dp-statsmodels, told": "dp-statsmodels",
    "BinAgg, told": "BinAgg",
    "Opacus DP-SGD, told, tuned": "Opacus (DP-SGD)",
}


def fits() -> tuple[dpfast.Fit, dpfast.Fit]:
    """Fit privately, by a seed, and without privacy."""
    census = dpfast.datasets.load_census2000().data
    private = dpfast.fit(FORMULA, census, privacy=PRIVACY, noise=dpfast.SeededNoise(1))
    return private, dpfast.nonprivate_fit(FORMULA, census)


def output(private: dpfast.Fit) -> str:
    """Return the printed summary, without the line that says that the noise had a seed."""
    lines = str(private.summary()).splitlines()
    return "```text\n" + "\n".join(line for line in lines if "simulation" not in line) + "\n```"


def picture(private: dpfast.Fit, exact: dpfast.Fit) -> str:
    """Draw each slope's intervals, private above exact, in standard errors of the exact fit."""
    width, row, left, most = 640, 44, 190, 8.0
    scale = (width - left - 30) / (2.0 * most)
    middle = left + most * scale
    parts = []
    for k, name in enumerate(private.names[1:], 1):
        y = 34 + row * (k - 1)
        parts.append(f"<text x='0' y='{y + 8}'>{escape(name)}</text>")
        for offset, fit, kind in ((0, private, "ours"), (14, exact, "exact")):
            low, high = fit.conf_int()[k]
            places = [
                middle + scale * float(value - exact.params[k]) / float(exact.bse[k])
                for value in (low, fit.params[k], high)
            ]
            parts.append(
                f"<path class='{kind}' d='M{places[0]:.1f},{y + offset}H{places[2]:.1f}'/>"
                f"<circle class='{kind}' cx='{places[1]:.1f}' cy='{y + offset}' r='4'/>"
            )
    height = 34 + row * (len(private.names) - 1)
    style = (
        "text{font:14px sans-serif;fill:#57606a}.ours{stroke:#0a7;fill:#0a7}"
        ".exact{stroke:#8c959f;fill:#8c959f}path{stroke-width:3}"
    )
    words = "95% intervals of three slopes, private and exact, in standard errors of the exact fit"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' aria-label='{words}'><style>{style}</style>"
        f"<text x='{left}' y='14'>green: private (epsilon 1); grey: exact; 95% intervals</text>"
        + "".join(parts)
        + "</svg>\n"
    )


def packages(root: Path = ROOT) -> str:
    """Make the table of packages from the stored comparison; medians over its tables."""
    text = (root / "bench/results/rivals_packages.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]
    rows = [row for row in rows if len(row) == 6 and row[2] in PACKAGES]
    lines = [
        "| | raw columns, no bounds | standard errors and intervals | error at epsilon 1 | at 3 |",
        "|---|:---:|:---:|---:|---:|",
    ]
    for stored, name in PACKAGES.items():
        own = [row for row in rows if row[2] == stored]
        errors = [
            f"{median(float(row[3]) for row in own if row[1] == epsilon):.2g}"
            for epsilon in ("1", "3")
        ]
        declares, intervals = "told" in stored and "nothing" not in stored, own[0][4] != "-"
        marks = ["" if declares else "✓", "✓" if intervals else ""]
        lines.append(f"| {name} | " + " | ".join([*marks, *errors]) + " |")
    return "\n".join(lines)


def enough(root: Path = ROOT) -> str:
    """Return a row of the table of how many records, for ten coefficients of least squares."""
    text = (root / "docs/how-many-records.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- least-squares, ratio -->\n(.*?)<!-- end -->", text, re.S)
    assert table is not None
    head, _, *rows = table[1].strip().splitlines()
    cells = next(row for row in rows if row.startswith("| 10 |")).strip("| ").split("|")[1:]
    budgets = [re.sub(r" \(mu.*", "", cell.strip()) for cell in head.strip("| ").split("|")[1:]]
    columns = list(zip(budgets, (cell.strip() for cell in cells), strict=True))[1:5]
    return "\n".join(
        [
            "| " + " | ".join(budget for budget, _ in columns) + " |",
            "|" + "---:|" * len(columns),
            "| " + " | ".join(f"{number} records" for _, number in columns) + " |",
        ]
    )


def written(readme: str, parts: dict[str, str]) -> str:
    """Replace what is between the markers."""
    for name, part in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        readme, times = re.subn(pattern, lambda m, p=part: f"{m[1]}{p}\n{m[2]}", readme, flags=re.S)
        assert times == 1, name
    return readme


def parts() -> dict[str, str]:
    private, _ = fits()
    return {"output": output(private), "packages": packages(), "enough": enough()}


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8"), parts()), encoding="utf-8")
    PICTURE.write_text(picture(*fits()), encoding="utf-8")
