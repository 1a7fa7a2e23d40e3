"""One coefficient by each method of `release_functional`: what the default chooses, and its error.

    python -m bench.releases.defaults [--data FOLDER] [--runs 20] [--store]

Simulated designs, and real tables, first with columns coded by their first and last percentiles
as if these were public.  The error is that of the first covariate's coefficient beside the exact
one *in these data*, root mean square over the runs; ``-`` where a run in three or more has no
answer.  Then the same tables as they come, without a domain: one step beside a default fit, by
least squares and the logistic loss.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import dpfast
from bench.figures.runner import data_folder
from bench.rivals.tables import LOGISTIC_TABLES, TABLES, available, read
from bench.stored import keep
from dpfast.curator.release import one_step
from dpfast.data.scaling.transformed import projections
from dpfast.release import routes
from tests.twins.seen import seen

DELTA = 1e-6
METHODS = ("one-shot", "fit", "objective-perturbation", "paper")
RESULT = Path(__file__).parents[1] / "results" / "release_defaults.md"

#: Records of a forecast's public pilot.
PILOT = 500

#: Of the noise intervals whose coverage is counted.
LEVEL = 0.9


class Design(NamedTuple):
    name: str
    X: np.ndarray
    y: np.ndarray
    loss: str
    scale: float | None
    domain: dpfast.models.Box
    real: bool = False


def simulated() -> Iterator[Design]:
    """Boxes filled evenly, thinly, by binary, correlated and rare columns; 1 to 10 covariates."""
    rng = np.random.default_rng(5)
    kinds = (
        (1, "even", "logistic"), (3, "even", "logistic"), (10, "even", "logistic"),
        (4, "binary", "logistic"), (3, "thin", "logistic"), (4, "rare", "logistic"),
        (8, "even", "log-cosh"), (5, "correlated", "log-cosh"),
    )  # fmt: skip
    for n in (200, 1_000, 3_000, 10_000, 50_000):
        for p, kind, loss in kinds:
            X = rng.uniform(-1, 1, (n, p))
            if kind == "binary":
                X = np.where(X > 0.5, 1.0, -1.0)
            if kind == "thin":
                X *= 0.3
            if kind == "correlated":
                X = 0.5 * (X + X[:, :1])
            t = X @ np.linspace(1.0, -1.0, p) - 2.5 * (kind == "rare")
            scale = None if loss == "logistic" else 0.7
            if scale is None:
                y = (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0
            else:
                y = t + scale * rng.laplace(size=n)
            box = dpfast.models.Box(1.0, intercept=True)
            yield Design(f"{kind}, p={p}, n={n:,}, {loss}", X, y, loss, scale, box)


def real(folder: Path | None) -> Iterator[Design]:
    rng = np.random.default_rng(6)
    for tables, loss in ((TABLES, "log-cosh"), (LOGISTIC_TABLES, "logistic")):
        for table in available(tables, folder):
            X, y = read(table, folder)
            low, high = np.quantile(X, [0.01, 0.99], axis=0)
            high = np.where(high > low, high, low + 1.0)
            X = (X - (low + high) / 2.0) / ((high - low) / 2.0)
            if loss == "log-cosh":
                y = (y - np.median(y)) / np.std(y)
            keep = rng.permutation(len(y))
            for n in sorted({min(len(y), size) for size in (5_000, 50_000)}):
                rows = keep[:n]
                scale = None if loss == "logistic" else 0.7
                box = dpfast.models.Box(1.0, intercept=True)
                name = f"{table.name}, p={X.shape[1]}, n={n:,}"
                yield Design(name, X[rows], y[rows], loss, scale, box, True)


class Cell(NamedTuple):
    chosen: str
    errors: dict[str, float]
    covered: float
    warned: float
    unwarned: tuple[int, int]
    forecast: float
    sampling: float

    @property
    def ratio(self) -> float:
        """Error of what is chosen beside the least of the four."""
        return self.errors[self.chosen] / min(self.errors.values())


def cell(design: Design, epsilon: float, runs: int) -> Cell:
    """Errors of the four methods, of which the default is one, and what else is said of it."""
    bound = design.domain.bind(design.X.shape[1])
    X = bound.project(design.X)
    weights = dpfast.Bounded(bound.radius * (1 + 1e-9))
    exact = dpfast.nonprivate_fit(
        X, design.y, dpfast.Objective(design.loss, weights=weights, scale=design.scale)
    )
    target, direction = exact.params[1], np.eye(len(exact.params))[1]
    common: dict[str, Any] = {
        "privacy": dpfast.ApproxDP(epsilon, DELTA), "domain": design.domain,
    }  # fmt: skip
    loss = dpfast.Objective(design.loss, scale=design.scale)
    public = X[:PILOT], design.y[:PILOT]  # as if these were public
    plan = dpfast.release.plan_release(len(design.y), public, loss, runs=runs, **common)
    errors = {}
    for method in ("auto", *(name for name in METHODS if name != plan.method)):
        found = [
            dpfast.release_functional(
                dpfast.records(X, design.y, threads=1), None, loss, direction,
                noise=dpfast.SeededNoise(seed), method=method, **common,
            )
            for seed in range(runs)
        ]  # fmt: skip
        released = [one for one in found if hasattr(one, "value")]
        off = np.array([one.value for one in released]) - target
        enough = len(released) > 2 * runs / 3
        name = plan.method if method == "auto" else method
        errors[name] = float(np.sqrt(np.mean(np.square(off)))) if enough else np.inf
        if method == "auto":
            ends = np.array([one.noise_interval(LEVEL)[0] for one in found])
            covered = (ends[:, 0] <= target) & (target <= ends[:, 1])
            silent = np.array([not one.warnings for one in found])
    return Cell(
        plan.method, errors, float(covered.mean()), 1.0 - float(silent.mean()),
        (int(covered[silent].sum()), int(silent.sum())), plan.error, float(exact.bse[1]),
    )  # fmt: skip


class Step(NamedTuple):
    """What a held step was asked, as :func:`dpfast.curator.release.one_step.mean_along` is."""

    rows: Any
    direction: np.ndarray
    bound: float
    epsilon: float
    ledger: Any
    at: Any
    held: Any

    def moves(self, X: np.ndarray, spread: float) -> float:
        """How far the coefficient that is named is from that of the loss as it is, in these data.

        Where the mean score along the step is zero, each held as it was: ``spread`` is that of the
        response.
        """
        parts: list[Any] = []

        def gather(view: Any) -> Any:
            parts.clear()

            def some(X: Any, y: Any) -> np.ndarray:
                if view.what == "response":
                    parts.append(np.column_stack([*seen(X, y, view)]))
                else:
                    parts.append(projections(X, y, view, self.direction))
                return np.zeros(1)

            self.rows._curator._records.total(some)
            return np.concatenate(parts)

        table = gather(self.rows._view("response", self.at, rotate=False))
        A, z = np.ascontiguousarray(table[:, :-1]), table[:, -1]
        theta = self.at.theta
        for _ in range(1 + 20 * self.at.loss.curvature_varies):
            eta = A @ theta
            score = A.T @ self.at.loss._score_at(z, eta, self.at.scale)
            curvature = A.T @ (A * self.at.loss._curvature_at(z, eta, self.at.scale)[:, None])
            step = np.linalg.lstsq(curvature, score, rcond=None)[0]
            theta = theta + step / max(
                1.0, float(np.abs(step).max()) * self.at.loss.curvature_varies
            )
        moved = 0.0
        for _ in range(20):
            at = self.at._replace(theta=theta + moved * self.direction)
            scores = gather(self.rows._view("score", at, row_clipping=self.held, rotate=False))
            moved += float(np.clip(np.nan_to_num(scores), -self.bound, self.bound).mean())
        rows = np.column_stack([np.ones(len(X)), X])
        along = np.linalg.lstsq(rows, A @ self.direction, rcond=None)[0][1]
        return float(moved * along * (spread / z.std()))


def raw_tables(folder: Path | None, epsilons: list[float], runs: int) -> Iterator[str]:
    """Rows of a table, and what they say together, of columns as they come."""
    asked: list[Step] = []

    def mean_along(*step: Any) -> float:
        asked.append(Step(*step))
        return one_step.mean_along(*step)

    cells = []
    yield (
        "| table | epsilon | default | error | fit | ratio | width | covered | of fits | as held "
        "| warned | sampling |"
    )
    yield "|---" * 12 + "|"
    for tables, loss in ((TABLES, "least-squares"), (LOGISTIC_TABLES, "logistic")):
        for table in available(tables, folder):
            X, y = read(table, folder)
            keep = np.random.default_rng(0).permutation(len(y))[:30_000]
            X, y = X[keep], y[keep]
            size = X.std(axis=0)
            Z, spread = (X - X.mean(axis=0)) / size, 1.0
            if loss == "least-squares":
                whole, spread = (
                    np.linalg.lstsq(np.column_stack([np.ones(len(y)), Z]), y, rcond=None)[0],
                    y.std(),
                )
            else:
                objective = dpfast.Objective(loss, weights=dpfast.Bounded(1e4))
                whole = dpfast.nonprivate_fit(Z, y, objective).params
            target = whole[1] / size[0]
            for epsilon in epsilons:
                off: dict[str, list[float]] = {"auto": [], "fit": []}
                inside: dict[str, list[bool]] = {"auto": [], "fit": [], "held": []}
                widths, warned = [], []
                try:
                    for seed in range(runs):
                        for method, errors in off.items():
                            asked.clear()
                            with mock.patch.object(routes, "mean_along", mean_along):
                                found = dpfast.release_functional(
                                    dpfast.records(X, y, threads=1), None, loss, "x1",
                                    privacy=dpfast.ApproxDP(epsilon, DELTA), method=method,
                                    noise=dpfast.SeededNoise(seed),
                                )  # fmt: skip
                            errors.append(found.value - target)
                            low, high = found.noise_interval(LEVEL)[0]
                            inside[method].append(low <= target <= high)
                            if method == "auto":
                                chosen = "one step" if "one Newton" in found.method else "fit"
                                named = target + sum(
                                    step.moves(Z, spread) / size[0] for step in asked
                                )
                                inside["held"].append(low <= named <= high)
                                widths.append(0.5 * (high - low))
                                warned.append(bool(found.warnings))
                                sampling = found.sampling_error[0]
                except dpfast.errors.InvalidBudget:  # too few records for units
                    continue
                one, fit = (float(np.sqrt(np.mean(np.square(e)))) for e in off.values())
                told = [float(np.mean(each)) for each in (*inside.values(), warned)]
                cells.append((one / fit, *told, np.median(widths) / one))
                shares = " | ".join(f"{share:.2f}" for share in told)
                yield (
                    f"| {table.name}, n={len(y):,} | {epsilon:g} | {chosen} | {one:.3g} "
                    f"| {fit:.3g} | {one / fit:.2f} | {np.median(widths):.3g} | {shares} "
                    f"| {sampling:.3g} |"
                )
    ratios, covered, fits, held, warned, widths = np.array(cells).T
    quantiles = ", ".join(f"{q:.2f}" for q in np.quantile(ratios, [0.5, 0.75, 0.9, 1.0]))
    yield ""
    yield (
        f"* Without a domain: {len(ratios)} cells.  Error of the default relative to a fit: "
        f"{quantiles} (median, 75%, 90% quantile, maximum).  Noise intervals at {LEVEL:.0%} cover "
        f"the coefficient of the unclipped loss in {covered.mean():.1%} of the runs.  In "
        f"{np.sum(covered < 0.7)} cells fewer than 70% of the runs cover it (fits: "
        f"{fits.mean():.1%}, {np.sum(fits < 0.7)} cells).  They cover the estimand, with clipped "
        f"scores, in {held.mean():.1%}, {np.sum(held < 0.7)} cells.  Half their width is "
        f"{np.median(widths):.2f} times the error in the median.  In {warned.mean():.1%} of the "
        "runs there is a warning."
    )


def summary(cells: list[tuple[Design, float, Cell]]) -> Iterator[str]:
    """What all cells say together."""
    ratios = np.array([found.ratio for _, _, found in cells])
    tables = {design.name.rsplit(", p=", 1)[0] for design, _, _ in cells if design.real}
    yield (
        f"{len(cells)} cells, {len(tables)} tables.  Error of the default relative to the least of "
        f"the four: median {np.median(ratios):.2f}, 95% quantile {np.quantile(ratios, 0.95):.2f}, "
        f"maximum {ratios.max():.2f}."
    )
    for method in METHODS:
        best = sum(min(f.errors, key=f.errors.__getitem__) == method for _, _, f in cells)
        chosen = sum(found.chosen == method for _, _, found in cells)
        yield f"`{method}` is chosen in {chosen} cells and has the least error in {best}."
    for method in METHODS[1:]:
        both = [
            f.errors["one-shot"] / f.errors[method]
            for _, _, f in cells
            if f.chosen == "one-shot" and f.errors[method] < np.inf
        ]
        if not both:
            continue
        yield (
            f"Where one step is chosen, its error relative to `{method}`: median "
            f"{np.median(both):.2f} of {len(both)} cells, maximum {max(both):.2f}."
        )
    answered = sum(f.errors["paper"] < np.inf for _, _, f in cells)
    yield f"`paper` certifies in {answered} cells."
    covered = np.array([f.covered for _, _, f in cells if f.chosen == "one-shot"])
    yield (
        f"Noise intervals of one step at {LEVEL:.0%} cover in {covered.mean():.1%} of the runs.  "
        f"In {np.sum(covered < 0.7)} cells of {len(covered)} fewer than 70% of the runs cover."
    )
    silent = [f.unwarned for _, _, f in cells if f.chosen == "one-shot"]
    inside, all_silent = np.sum(silent, axis=0)
    share = 1.0 - np.mean([f.warned for _, _, f in cells if f.chosen == "one-shot"])
    yield (
        f"{share:.1%} of the runs of one step have no warning.  Their intervals cover in "
        f"{inside / all_silent:.1%}."
    )
    ratios = np.array([f.forecast / f.errors[f.chosen] for _, _, f in cells])
    close = np.sum(np.abs(np.log(ratios)) <= np.log(1.5))
    yield (
        f"`plan_release` with {PILOT} records as its pilot names the method that is chosen.  Its "
        f"forecast over the error: median {np.median(ratios):.2f}, within a factor 1.5 in {close} "
        f"of {len(cells)} cells."
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--only", default="", help="designs whose names have this; 'raw': none")
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args(arguments)
    head = f"| design | epsilon | default | {' | '.join(METHODS)} | ratio | covered "
    head += "| warned | sampling |"
    lines, cells = [head, "|---" * (7 + len(METHODS)) + "|"], []
    print("\n".join(lines))
    for design in (*simulated(), *real(asked.data)):
        if asked.only not in design.name:
            continue
        for epsilon in asked.epsilon:
            found = cell(design, epsilon, asked.runs)
            cells.append((design, epsilon, found))
            errors = [found.errors[name] for name in METHODS]
            texts = [f"{e:.3g}" if e < np.inf else "-" for e in errors]
            line = f"| {design.name} | {epsilon:g} | {found.chosen} | {' | '.join(texts)} | "
            line += f"{found.ratio:.2f} | {found.covered:.2f} | {found.warned:.2f} | "
            line += f"{found.sampling:.3g} |"
            lines.append(line)
            print(line, flush=True)
    told = "" if asked.only else "\n".join(f"* {line}" for line in summary(cells))
    print(told)
    raw = []
    for line in (
        () if asked.only not in ("", "raw") else raw_tables(asked.data, [1.0, 4.0], asked.runs)
    ):
        raw.append(line)
        print(line, flush=True)
    if asked.store:
        settings = f"--runs {asked.runs} --epsilon {' '.join(f'{e:g}' for e in asked.epsilon)}"
        keep(
            RESULT,
            "# Methods of `release_functional`, measured\n\n"
            f"`python -m bench.releases.defaults --data FOLDER {settings} --store` (seeded "
            "noise).  Root mean\nsquare error of the first covariate's coefficient beside the "
            f"exact one in the same data; delta = {DELTA:g}; `-`: more than a third of the\nruns "
            "have no answer.  `sampling`: standard error without privacy.\n\n"
            f"{told}\n\n" + "\n".join([*lines, "", *raw]) + "\n",
        )


if __name__ == "__main__":
    main(sys.argv[1:])
