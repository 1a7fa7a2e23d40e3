"""The table of what each function takes of ``dpfast.records``, made by asking each function.

python docs/doors.py         writes it into methods.md, between two marks
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpfast

PAGE = Path(__file__).with_name("methods.md")
MARKS = "<!-- doors -->\n", "<!-- end of doors -->"
N = 3000

#: What rows may have beside them: the heading, and the arguments of ``dpfast.records``.
BESIDE: dict[str, dict[str, Any]] = {
    "weights, bound declared": {"sample_weight": "w", "largest_weight": 2.0},
    "weights, bound estimated": {"sample_weight": "w"},
    "persons with at most m rows": {"group": "person", "group_size": 2},
    "persons who count once": {"group": "person", "each": "person"},
    "offset": {"offset": "o"},
}


def table() -> dict[str, Any]:
    """Rows of public random numbers, which no answer is about."""
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=N), "z": rng.normal(size=N), "o": np.zeros(N)}
    columns |= {"d": np.tile([0.0, 1.0], N // 2), "g": np.arange(N) % 3}
    columns |= {"w": rng.uniform(1.0, 2.0, N), "person": np.arange(N) // 2}
    return columns | {"y": columns["x"] + rng.normal(size=N), "t": rng.exponential(size=N)}


NUMBER = dpfast.Numeric(-9.0, 9.0)
LEVELS = dpfast.Schema({"g": dpfast.Categorical([0, 1, 2])})
CELLS = dpfast.Schema(LEVELS.columns | {"y": NUMBER})


def of_formula(function: Callable[..., Any], formula: str, *arguments: Any, **options: Any) -> Any:
    """Make a door that takes a formula and a table."""
    return lambda rows, **paid: function(formula, rows, *arguments, **options, **paid)


def of_arrays(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Make a door that takes X and y, or records of both."""

    def door(rows: dpfast.data.source.Source, **paid: Any) -> Any:
        columns = rows.covariates
        beside = ("sample_weight", "group", "offset")
        given = {name: columns[getattr(rows, name)] for name in beside if getattr(rows, name)}
        X = np.column_stack([columns["x"], columns["z"]])
        own = rows.but(**given | {"covariates": X, "response": columns["y"]})
        return function(own, None, *arguments, **options, **paid)

    return door


def of_table(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Make a door that takes a table first."""
    return lambda rows, **paid: function(rows, *arguments, **options, **paid)


def treated(rows: Any, **paid: Any) -> Any:
    """Ask for a treatment effect."""
    columns = rows.covariates
    return of_arrays(
        lambda own, _, **more: dpfast.effects.treatment_effect(own, columns["d"], **more)
    )(rows, **paid)


DOORS: dict[str, Callable[..., Any]] = {
    "`fit`, with a formula or arrays": of_formula(dpfast.fit, "y ~ x"),
    "`fit` with a method or a ridge": of_formula(
        dpfast.fit, "y ~ x", dpfast.Objective("log-cosh", scale=1.0, ridge=0.1)
    ),
    "`fit_quantiles`": of_arrays(dpfast.fit_quantiles, [0.25, 0.75]),
    "`effects.two_stage`": of_formula(dpfast.effects.two_stage, "y ~ x | z"),
    "`effects.cox`": of_formula(dpfast.effects.cox, "t ~ x", event="d", cuts=[0.5, 1.0, 3.0]),
    "`effects.treatment_effect`": treated,
    "`tables.counts`": of_table(dpfast.tables.counts, "g", schema=CELLS),
    "`tables.means`": of_table(dpfast.tables.means, "y", "g", schema=CELLS),
    "`tables.quantiles`": of_table(dpfast.tables.quantiles, "y", "g", schema=CELLS),
    "`tables.distribution`": of_table(dpfast.tables.distribution, "y", "g", schema=CELLS),
    "`tables.fits`": of_formula(dpfast.tables.fits, "y ~ x", "g", schema=LEVELS),
    "`tables.absorbed`": of_formula(dpfast.tables.absorbed, "y ~ x | g", schema=LEVELS),
    "`release_functional`": of_arrays(dpfast.release_functional, "least-squares", [0.0, 1.0, 0.0]),
    "`standardize`": of_arrays(dpfast.standardize),
    "`minimize`": of_arrays(dpfast.minimize, dpfast.Objective("tukey", scale=1.0)),
}

#: Doors whose budget is a pair, as a mechanism without Gaussian noise needs it.
PAIRS = ("`release_functional`",)


def takes(door: str, beside: str) -> bool:
    """Ask a door with a ledger that has nothing left: a refusal comes before the charge."""
    pair = door in PAIRS
    spent = dpfast.ApproxDP(1e-6, 1e-12) if pair else dpfast.GDP(1e-6)
    privacy = dpfast.ApproxDP(1.0, 1e-6) if pair else dpfast.GDP(1.0)
    rows = dpfast.records(table(), **BESIDE[beside])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            DOORS[door](rows, privacy=privacy, ledger=dpfast.Ledger(spent))
    except dpfast.BudgetExceeded:
        return True
    except dpfast.InvalidInput:
        return False
    raise AssertionError(f"{door} answered without a budget")


def written() -> str:
    """Write the table."""
    lines = [f"| | {' | '.join(BESIDE)} |", f"|---|{'---|' * len(BESIDE)}"]
    for door in DOORS:
        marks = ["yes" if takes(door, beside) else "-" for beside in BESIDE]
        lines.append(f"| {door} | {' | '.join(marks)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Put the table where it stands in the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + MARKS[0] + written() + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
