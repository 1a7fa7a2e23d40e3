"""Telling more is never worse: intervals of one fit under seven declarations, on ten designs.

    python -m bench.declarations [--runs 8] [--budgets 1 .3] [--only NAME] [--store]

Told are nothing, the true residual scale, a schema with the columns' ranges, both, a free scale,
and weights with and without the scale.  *Width*: of slopes' intervals over those of the loss
without privacy, the median over slopes and runs; *worst*: the widest slope's; *off*: root mean
square error of slopes in those standard errors; *held*: share of intervals that hold the slope.
Below a table: every declaration whose width is more than 1.05 times (scale, schema), or 1.5 times
(free scale, weights), that of less information.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import store
from dpfast.errors import DpfastError
from tests.flat import flat

RESULTS = Path(__file__).parent / "results" / "declarations.md"
Array = NDArray[np.float64]

#: Rows that weights bound, in roots of the number of coefficients, where nothing else is said.
SCALE = 2.0

#: How much wider intervals may be where more is told.
TOLD, CHOSEN = 1.05, 1.5


class Design(NamedTuple):
    """Columns with public ranges, slopes in their units, and the errors' scale."""

    n: int
    columns: dict[str, Callable[[np.random.Generator, int], Array]]
    ranges: dict[str, tuple[float, float]]
    slopes: tuple[float, ...]
    scale: float
    degrees: float = 1e6

    def draw(self, seed: int) -> tuple[dict[str, Array], Array]:
        rng = np.random.default_rng(seed)
        table = {name: make(rng, self.n) for name, make in self.columns.items()}
        errors = (
            rng.standard_t(self.degrees, self.n) if self.degrees < 1e5 else rng.normal(size=self.n)
        )
        X = np.column_stack(list(table.values()))
        return table, X @ np.array(self.slopes) + self.scale * errors


def normal(centre: float = 0.0, unit: float = 1.0) -> Callable[..., Array]:
    return lambda rng, n: centre + unit * np.clip(rng.normal(size=n), -4.0, 4.0)


def dummy(share: float) -> Callable[..., Array]:
    return lambda rng, n: (rng.random(n) < share) * 1.0


def skewed(size: float) -> Callable[..., Array]:
    return lambda rng, n: np.clip(np.exp(size * rng.normal(size=n)), 0.0, 100.0)


def designs() -> dict[str, Design]:
    """Ten of them."""
    unit = (-4.0, 4.0)
    return {
        "five dummies, two unit columns": Design(
            5000,
            {**{f"d{k}": dummy(p) for k, p in enumerate((0.5, 0.3, 0.2, 0.1, 0.05))},
             "a": normal(), "b": normal()},
            {**{f"d{k}": (0.0, 1.0) for k in range(5)}, "a": unit, "b": unit},
            (0.5, -0.3, 0.2, 0.4, 0.3, 0.5, -0.4), 1.0,
        ),
        "rare dummy": Design(
            10_000, {"d": dummy(0.03), "a": normal(), "b": normal()},
            {"d": (0.0, 1.0), "a": unit, "b": unit}, (0.5, 0.5, -0.5), 1.0,
        ),
        "unit columns": Design(
            5000, {name: normal() for name in "abcd"}, dict.fromkeys("abcd", unit),
            (0.5, -0.5, 0.2, 0.0), 1.0,
        ),
        "heavy errors": Design(
            5000, {name: normal() for name in "abc"}, dict.fromkeys("abc", unit),
            (0.5, -0.5, 0.2), 1.0, 3.0,
        ),
        "age and year": Design(
            5000, {"age": normal(45.0, 12.0), "year": normal(2004.0, 2.5), "male": dummy(0.5)},
            {"age": (-3.0, 93.0), "year": (1994.0, 2014.0), "male": (0.0, 1.0)},
            (0.3, -0.5, 2.0), 8.0,
        ),
        "far off": Design(
            5000, {"stamp": normal(1e6, 10.0), "a": normal()}, {"stamp": (999_960.0, 1_000_040.0),
            "a": unit}, (0.05, 0.5), 1.0,
        ),
        "tiny units": Design(
            5000, {"a": normal(0.0, 1e-6), "b": normal(0.0, 1e5)},
            {"a": (-4e-6, 4e-6), "b": (-4e5, 4e5)}, (5e5, -5e-6), 1.0,
        ),
        "skewed": Design(
            10_000, {"money": skewed(1.0), "a": normal(), "d": dummy(0.3)},
            {"money": (0.0, 100.0), "a": unit, "d": (0.0, 1.0)}, (0.2, 0.5, 0.3), 1.0,
        ),
        "generous ranges": Design(
            5000, {"a": normal(), "b": normal(30.0, 3.0), "d": dummy(0.4)},
            {"a": (-20.0, 20.0), "b": (0.0, 100.0), "d": (0.0, 1.0)}, (0.5, 0.2, -0.3), 1.0,
        ),
        "income": Design(
            20_000,
            {"age": normal(42.0, 13.0), "hours": normal(40.0, 10.0), "money": skewed(1.0),
             "own": dummy(0.6), "rare": dummy(0.02)},
            {"age": (-10.0, 94.0), "hours": (0.0, 80.0), "money": (0.0, 100.0), "own": (0.0, 1.0),
             "rare": (0.0, 1.0)},
            (30.0, 90.0, 40.0, 500.0, 800.0), 4000.0, 5.0,
        ),
    }  # fmt: skip


def told(design: Design, X: Array, p: int) -> dict[str, dict[str, Any]]:
    """Options of a fit by what they tell."""
    scale = design.scale
    return {
        "nothing": {},
        "scale": {"scale": scale},
        "schema": {"schema": True},
        "schema, scale": {"schema": True, "scale": scale},
        "free scale": {"scale": dpfast.FreeScale(0.1 * scale, 10.0 * scale)},
        "weights": {"weights": dpfast.Mallows(SCALE * p**0.5), "standardize": True},
        "weights, scale": {
            "weights": dpfast.Mallows(SCALE * p**0.5), "scale": scale, "standardize": True,
        },
    }  # fmt: skip


#: What a declaration is compared with, and how much wider it may be.
LESS = {
    "scale": (("nothing",), TOLD),
    "schema": (("nothing",), TOLD),
    "schema, scale": (("nothing", "scale", "schema"), TOLD),
    "free scale": (("nothing",), CHOSEN),
    "weights": (("nothing",), CHOSEN),
    "weights, scale": (("scale", "weights"), CHOSEN),
}


def fitted(
    design: Design, table: dict[str, Array], y: Array, options: dict[str, Any], mu: float, seed: int
) -> tuple[Array, Array]:
    """Slopes and intervals in the columns' own units."""
    options = dict(options)
    X: Any = np.column_stack(list(table.values()))
    response: Any = y
    if options.pop("schema", False):
        centre = float(np.dot([sum(r) / 2.0 for r in design.ranges.values()], design.slopes))
        reach = sum(
            abs(slope) * (high - low) / 2.0
            for slope, (low, high) in zip(design.slopes, design.ranges.values(), strict=True)
        )
        reach = min(reach, 30.0 * design.scale) + 6.0 * design.scale
        columns = {name: dpfast.Numeric(low, high) for name, (low, high) in design.ranges.items()}
        schema = dpfast.Schema({**columns, "y": dpfast.Numeric(centre - reach, centre + reach)})
        X, response = schema.encode({**table, "y": y}, response="y"), None
    fit = flat(dpfast.fit)(
        X, response, "log-cosh", privacy=mu, noise=dpfast.SeededNoise(seed), threads=1, **options
    ).natural
    slopes = slice(1, 1 + len(design.slopes))
    return np.asarray(fit.params)[slopes], np.asarray(fit.conf_int())[slopes]


def measured(design: Design, mu: float, runs: int) -> dict[str, tuple[float, float, float, float]]:
    """Width, worst, off and held of each declaration; nan where it is refused."""
    q, found = len(design.slopes), {}
    pieces: dict[str, list[tuple[Array, Array, Array]]] = {}
    for seed in range(runs):
        table, y = design.draw(seed)
        X = np.column_stack(list(table.values()))
        alone = dpfast.nonprivate_fit(
            (X - X.mean(0)) / X.std(0), y,
            dpfast.Objective("log-cosh", weights=dpfast.Mallows(1e6), scale=design.scale),
        )  # fmt: skip
        error = np.asarray(alone.bse)[1:] / X.std(0)
        for name, options in told(design, X, q + 1).items():
            try:
                slopes, intervals = fitted(design, table, y, options, mu, seed)
            except DpfastError:
                continue
            pieces.setdefault(name, []).append((error, slopes, intervals))
    truth = np.array(design.slopes)
    for name in told(design, np.zeros((1, q)), q + 1):
        if name not in pieces:
            found[name] = (np.nan,) * 4
            continue
        errors, slopes, ends = (np.array(part) for part in zip(*pieces[name], strict=True))
        widths = np.ptp(ends, axis=2) / (2.0 * 1.96 * errors)
        off = np.sqrt(np.mean(((slopes - truth) / errors) ** 2))
        held = np.mean((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1]))
        middle = np.median(widths, axis=0)
        found[name] = (float(np.median(widths)), float(middle.max()), float(off), float(held))
    return found


def page(runs: int, budgets: list[float], only: list[str]) -> str:
    lines, worse = [], []
    for name, design in designs().items():
        if only and not any(part in name for part in only):
            continue
        lines += [f"## {name}, n = {design.n:,}, {len(design.slopes)} columns", ""]
        lines += ["| told | " + " | ".join(f"mu = {mu:g}" for mu in budgets) + " |"]
        lines += ["|---|" + "---|" * len(budgets)]
        cells = {mu: measured(design, mu, runs) for mu in budgets}
        for told_name in cells[budgets[0]]:
            shown = [
                "refused" if np.isnan(cells[mu][told_name][0])
                else "{:.2f} (worst {:.2f}), off {:.2f}, held {:.2f}".format(*cells[mu][told_name])
                for mu in budgets
            ]  # fmt: skip
            lines.append(f"| {told_name} | " + " | ".join(shown) + " |")
        lines.append("")
        for mu in budgets:
            for more, (fewer, most) in LESS.items():
                for less in fewer:
                    ratio = cells[mu][more][0] / cells[mu][less][0]
                    if ratio > most or (np.isnan(ratio) and not np.isnan(cells[mu][less][0])):
                        worse.append((ratio, f"{name}, mu = {mu:g}: {more} beside {less}"))
        print("\n".join(lines[-len(cells[budgets[0]]) - 4 :]), flush=True)
    lines += ["## Wider where more is told", ""]
    worse.sort(key=lambda pair: -np.nan_to_num(pair[0], nan=np.inf))
    lines += [f"* {ratio:.2f} times: {what}" for ratio, what in worse] or ["None."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser("bench.declarations", description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--budgets", type=float, nargs="+", default=[1.0, 0.3])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = page(asked.runs, asked.budgets, asked.only)
    print(text)
    if asked.store:
        store("bench.declarations", asked, RESULTS, text)


if __name__ == "__main__":
    main()
