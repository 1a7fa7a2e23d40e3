"""One coefficient by each method of `release_functional`: what the default chooses, and its error

Simulated designs, and real tables, first with columns coded by their first and last percentiles
as if these were public.  The error is that of the first covariate's coefficient beside the exact
one *in these data*, root mean square over the runs; ``-`` where a run in three or more has no
answer; delta = 1e-6.  ``sampling``: standard error without privacy.  Then the same tables as they
come, without a domain: one step beside a default fit, by least squares and the logistic loss.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.study import Block, study
from dpfast.curator.release import one_step
from dpfast.data.scaling.transformed import projections
from dpfast.release import routes
from tests.twins.seen import seen

DELTA = 1e-6
METHODS = ("one-shot", "fit", "objective-perturbation", "paper")
DOMAIN = dpfast.models.Box(1.0, intercept=True)

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
    real: bool = False


def simulated() -> Iterator[Design]:
    """Boxes filled evenly, thinly, by binary, correlated and rare columns; 1 to 10 covariates."""
    rng = np.random.default_rng(5)
    kinds = (
        (1, "even", "logistic"), (3, "even", "logistic"), (10, "even", "logistic"),
        (4, "binary", "logistic"), (3, "thin", "logistic"), (4, "rare", "logistic"),
        (8, "even", "log-cosh"), (5, "correlated", "log-cosh"),
    )  # fmt: skip
    for n, (p, kind, loss) in product((200, 1_000, 3_000, 10_000, 50_000), kinds):
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
        yield Design(f"{kind}, p={p}, n={n:,}, {loss}", X, y, loss, scale)


def real(only: str) -> Iterator[Design]:
    rng = np.random.default_rng(6)
    for group, loss in (("linear", "log-cosh"), ("logistic", "logistic")):
        for table in available(tables(group), only):
            X, y = read(table)
            low, high = np.quantile(X, [0.01, 0.99], axis=0)
            high = np.where(high > low, high, low + 1.0)
            X = (X - (low + high) / 2.0) / ((high - low) / 2.0)
            if loss == "log-cosh":
                y = (y - np.median(y)) / np.std(y)
            kept = rng.permutation(len(y))
            for n in sorted({min(len(y), size) for size in (5_000, 50_000)}):
                scale, rows = None if loss == "logistic" else 0.7, kept[:n]
                name = f"{table.name}, p={X.shape[1]}, n={n:,}"
                yield Design(name, X[rows], y[rows], loss, scale, True)


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
    bound = DOMAIN.bind(design.X.shape[1])
    X = bound.project(design.X)
    weights = dpfast.Bounded(bound.radius * (1 + 1e-9))
    exact = dpfast.nonprivate_fit(
        X, design.y, dpfast.Objective(design.loss, weights=weights, scale=design.scale)
    )
    target, direction = exact.params[1], np.eye(len(exact.params))[1]
    common: dict[str, Any] = {
        "privacy": dpfast.ApproxDP(epsilon, DELTA), "domain": DOMAIN,
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


def shares(values: Iterable[Any]) -> list[float]:
    return [float(np.mean(each)) for each in values]


def raw_cell(X: Any, y: Any, loss: str, epsilon: float, runs: int) -> tuple[dict[str, Any], Any]:
    """Measure the default and a fit of columns as they come; cells, and what they are summed by."""
    asked: list[Step] = []

    def mean_along(*step: Any) -> float:
        asked.append(Step(*step))
        return one_step.mean_along(*step)

    size = X.std(axis=0)
    Z, spread = (X - X.mean(axis=0)) / size, 1.0
    if loss == "least-squares":
        whole = np.linalg.lstsq(np.column_stack([np.ones(len(y)), Z]), y, rcond=None)[0]
        spread = float(y.std())
    else:
        objective = dpfast.Objective(loss, weights=dpfast.Bounded(1e4))
        whole = dpfast.nonprivate_fit(Z, y, objective).params
    target = whole[1] / size[0]
    off: dict[str, list[float]] = {"auto": [], "fit": []}
    inside: dict[str, list[bool]] = {"auto": [], "fit": [], "held": []}
    widths, warned = [], []
    for seed, method in product(range(runs), off):
        asked.clear()
        with mock.patch.object(routes, "mean_along", mean_along):
            found = dpfast.release_functional(
                dpfast.records(X, y, threads=1), None, loss, "x1", method=method,
                privacy=dpfast.ApproxDP(epsilon, DELTA), noise=dpfast.SeededNoise(seed),
            )  # fmt: skip
        off[method].append(found.value - target)
        low, high = found.noise_interval(LEVEL)[0]
        inside[method].append(low <= target <= high)
        if method == "auto":
            chosen = "one step" if "one Newton" in found.method else "fit"
            named = target + sum(step.moves(Z, spread) / size[0] for step in asked)
            inside["held"].append(low <= named <= high)
            widths.append(0.5 * (high - low))
            warned.append(bool(found.warnings))
            sampling = found.sampling_error[0]
    one, fit = (float(np.sqrt(np.mean(np.square(e)))) for e in off.values())
    told, width = shares((*inside.values(), warned)), float(np.median(widths))
    names = ("covered", "of fits", "as held", "warned")
    cells = {
        "epsilon": epsilon, "default": chosen, "error": one, "fit": fit,
        "ratio": f"{one / fit:.2f}", "width": width,
        **{k: f"{v:.2f}" for k, v in zip(names, told, strict=True)}, "sampling": sampling,
    }  # fmt: skip
    return cells, (one / fit, *told, width / one)


def raw_tables(runs: int, only: str, quick: bool) -> Iterator[Block]:
    """Measure tables as they come, and say what they say together."""
    sums = []
    for group, loss in (("linear", "least-squares"), ("logistic", "logistic")):
        for table in [*available(tables(group), only)][: 1 if quick else None]:
            X, y = read(table)
            kept = np.random.default_rng(0).permutation(len(y))[:30_000]
            for epsilon in (1.0, 4.0):
                try:
                    cells, summed = raw_cell(X[kept], y[kept], loss, epsilon, runs)
                except dpfast.errors.InvalidBudget:  # too few records for units
                    continue
                sums.append(summed)
                yield {"table": f"{table.name}, n={len(kept):,}"} | cells
    ratios, covered, fits, held, warned, widths = np.array(sums).T
    quantiles = ", ".join(f"{q:.2f}" for q in np.quantile(ratios, [0.5, 0.75, 0.9, 1.0]))
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


def summary(cells: list[tuple[Design, Cell]]) -> Iterator[str]:
    """What all cells say together."""
    ratios = np.array([found.ratio for _, found in cells])
    known = {design.name.rsplit(", p=", 1)[0] for design, _ in cells if design.real}
    yield (
        f"* {len(cells)} cells, {len(known)} tables.  Error of the default relative to the least "
        f"of the four: median {np.median(ratios):.2f}, 95% quantile "
        f"{np.quantile(ratios, 0.95):.2f}, maximum {ratios.max():.2f}."
    )
    for method in METHODS:
        best = sum(min(f.errors, key=f.errors.__getitem__) == method for _, f in cells)
        chosen = sum(found.chosen == method for _, found in cells)
        yield f"* `{method}` is chosen in {chosen} cells and has the least error in {best}."
    steps = [found for _, found in cells if found.chosen == "one-shot"]
    for method in METHODS[1:]:
        both = [f.errors["one-shot"] / f.errors[method] for f in steps if f.errors[method] < np.inf]
        if both:
            yield (
                f"* Where one step is chosen, its error relative to `{method}`: median "
                f"{np.median(both):.2f} of {len(both)} cells, maximum {max(both):.2f}."
            )
    yield f"* `paper` certifies in {sum(f.errors['paper'] < np.inf for _, f in cells)} cells."
    if steps:
        covered = np.array([found.covered for found in steps])
        inside, all_silent = np.sum([found.unwarned for found in steps], axis=0)
        yield (
            f"* Noise intervals of one step at {LEVEL:.0%} cover in {covered.mean():.1%} of the "
            f"runs.  In {np.sum(covered < 0.7)} cells of {len(covered)} fewer than 70% of the runs "
            "cover."
        )
        yield (
            f"* {1.0 - np.mean([f.warned for f in steps]):.1%} of the runs of one step have no "
            f"warning.  Their intervals cover in {inside / max(1, all_silent):.1%}."
        )
    forecasts = np.array([f.forecast / f.errors[f.chosen] for _, f in cells])
    close = np.sum(np.abs(np.log(forecasts)) <= np.log(1.5))
    yield (
        f"* `plan_release` with {PILOT} records as its pilot names the method that is chosen.  Its "
        f"forecast over the error: median {np.median(forecasts):.2f}, within a factor 1.5 in "
        f"{close} of {len(cells)} cells."
    )


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    designs = [design for design in simulated() if asked.only in design.name]
    designs = designs[:2] if asked.quick else [*designs, *real(asked.only)]
    cells = []
    for design, epsilon in product(designs, (1.0,) if asked.quick else (0.5, 1.0, 4.0)):
        found = cell(design, epsilon, asked.runs)
        cells.append((design, found))
        errors = {m: f"{e:.3g}" if (e := found.errors[m]) < np.inf else "-" for m in METHODS}
        yield {
            "design": design.name, "epsilon": epsilon, "default": found.chosen, **errors,
            "ratio": f"{found.ratio:.2f}", "covered": f"{found.covered:.2f}",
            "warned": f"{found.warned:.2f}", "sampling": found.sampling,
        }  # fmt: skip
    yield from summary(cells)
    yield from raw_tables(asked.runs, asked.only, asked.quick)


main = study("release_defaults", measured, __doc__, runs=8, quick=2)
