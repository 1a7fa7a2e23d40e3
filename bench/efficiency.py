"""The same data and total mu, from the paper's algorithms to the defaults, one change at a time.

    python -m bench.efficiency [--fits 1000] [--processes 2] [--quick]

Stored as ``bench/results/efficiency.md``.  Noise is seeded: a simulation.  A new design is one more
entry of ``DESIGNS``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

import dpfast
from bench import printed
from bench.provenance import keep
from dpfast.curator import Curator, StepBudget
from dpfast.data import as_records
from dpfast.inference.sandwich import sandwich_covariance
from dpfast.models import Mallows, Objective, resolve_loss
from dpfast.optimize import Budgets, Newton
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.sensitivity import joint_mu
from tests.flat import flat

RESULTS = Path(__file__).parent / "results"
MU = 1.0
Z = 1.959963984540054
COLUMNS = (
    "paper, GD (4)",
    "paper, Newton (9)",
    "audited constants",
    "+ schedule",
    "+ joint accounting",
    "default",
    "one-shot reference",
    "non-private",
)
SIZES = (500, 1000, 2000, 5000)
REFERENCE_SIZES = (125, 250, 375, 500, 750, 1000, 2000, 5000, 20_000)


class Design(NamedTuple):
    """A simulated population and the two descriptions of its model."""

    loss: str
    scale: Any
    truth: tuple[float, ...]
    spread: float
    problem: Callable[[np.ndarray, np.ndarray], printed.Problem]
    step_size: float
    start: tuple[float, ...]

    def draw(self, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng([seed, n])
        X = self.spread * rng.normal(size=(n, 3))
        t = self.truth[0] + X @ np.array(self.truth[1:])
        if self.loss == "logistic":
            return X, (rng.random(n) < expit(t)).astype(float)
        return X, t + 2.0 * rng.normal(size=n)


RADIUS = math.sqrt(2.0)
ONES = (1.0, 1.0, 1.0, 1.0)
DESIGNS = {
    "linear, known scale": Design(
        "log-cosh",
        2.0,
        ONES,
        2.0,
        lambda X, y: printed.linear(X, y, 2.0, RADIUS, "log-cosh"),
        1.0,
        (0.0,) * 4,
    ),
    "logistic": Design(
        "logistic",
        None,
        (1.5, 1.0, -1.0, 0.5),
        1.0,
        lambda X, y: printed.logistic(X, y, RADIUS),
        2.0,
        (0.0,) * 4,
    ),
    "linear, joint scale": Design(
        "huber",
        dpfast.FreeScale(0.2, 20.0, 1.0),
        ONES,
        2.0,
        printed.joint,
        0.25,
        (0.0, 0.0, 0.0, 0.0, 1.0),
    ),
}


def run(name: str, n: int, seeds: range) -> np.ndarray:
    """Errors and half-widths, shape (fit, column, 2, coefficient)."""
    design = DESIGNS[name]
    rows = []
    for seed in seeds:
        X, y = design.draw(seed, n)
        options = {"scale": design.scale, "weights": Mallows(RADIUS)}
        plain = flat(dpfast.nonprivate_fit)(X, y, design.loss, **options)
        fits = [
            flat(dpfast.fit)(
                X, y, design.loss, privacy=MU, method=method, noise=dpfast.SeededNoise(seed),
                threads=1, **options,
            )
            for method in ("newton", "auto")
        ]  # fmt: skip
        rng = np.random.default_rng([seed, n, 1])
        problem, start = design.problem(X, y), np.array(design.start)
        found = [printed.gradient_descent(problem, MU, 100, design.step_size, rng, start)]
        known = problem.kind != "joint"  # the paper has no Newton method for a free scale
        variants = (False, True) if known else ()
        found += [printed.newton(problem, MU, 8, rng, start, exact=exact) for exact in variants]
        columns = [(estimate.theta[:4], estimate.corrected[:4]) for estimate in found]
        columns += [_independent(design, X, y, seed)] if known else [NOTHING] * 3
        columns = [(estimate, Z * error) for estimate, error in columns]
        columns += [(fit.params[:4], np.diff(fit.conf_int())[:4, 0] / 2.0) for fit in fits]
        columns.append(_one_shot(problem, plain, rng))
        columns.append((plain.params[:4], Z * plain.bse[:4]))
        rows.append([(theta - design.truth, half) for theta, half in columns])
    return np.array(rows)


NOTHING = (np.full(4, np.nan), np.full(4, np.nan))


def _independent(
    design: Design, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's steps, their releases charged one by one instead of together."""
    objective = Objective(
        resolve_loss(design.loss), Mallows(RADIUS), X.shape[1], scale=design.scale
    )
    optimiser, n, budgets = Newton(), len(y), []
    for budget in optimiser.plan(objective, n, MU, True):
        coupling = objective.majorizer_coupling if budget.majorize else objective.coupling
        parts = np.array([budget.gradient, budget.hessian, budget.meat])
        parts *= joint_mu(coupling, *parts) / np.linalg.norm(parts)
        budgets.append(StepBudget(*parts.tolist(), majorize=budget.majorize))
    curator = Curator(as_records(X, y, None), objective, Ledger(10.0), dpfast.SeededNoise(seed), 1)
    trajectory = optimiser.run(
        curator, np.zeros(objective.dimension), Budgets(budgets, MU, inference=True)
    )
    covariance = sandwich_covariance(optimiser, trajectory, n)
    return trajectory.theta, np.sqrt(np.diag(covariance.matrix))


def _one_shot(
    problem: printed.Problem, plain: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All of mu on one gradient at the exact solution, one exact Newton step from it."""
    theta = _solution(problem, plain)
    inverse = np.linalg.inv(problem.hessian(theta))
    diameter = 2.0 * problem.loss.psi_bound * problem.radius
    noise = diameter / (MU * problem.n) * inverse
    estimate = plain.params[:4] + (noise @ rng.normal(size=problem.p))[:4]
    return estimate, Z * np.sqrt(np.diag(plain.cov_params())[:4] + np.diag(noise @ noise)[:4])


def _solution(problem: printed.Problem, plain: Any) -> np.ndarray:
    return plain.params if problem.kind != "joint" else np.append(plain.params[:4], 2.0)


def reference_ratio(name: str, n: int, seeds: range) -> np.ndarray:
    """Squared distances from the non-private estimate over the squared one-shot reference."""
    design, values = DESIGNS[name], []
    for seed in seeds:
        X, y = design.draw(seed, n)
        options = {"scale": design.scale, "weights": Mallows(RADIUS)}
        plain = flat(dpfast.nonprivate_fit)(X, y, design.loss, **options)
        fit = flat(dpfast.fit)(
            X, y, design.loss, privacy=MU, noise=dpfast.SeededNoise(seed), threads=1, **options
        )
        problem = design.problem(X, y)
        inverse = np.linalg.inv(problem.hessian(_solution(problem, plain)))
        diameter = 2.0 * problem.loss.psi_bound * problem.radius
        reference = diameter / (n * MU) * np.linalg.norm(inverse[:4])
        values.append(float(((fit.params[:4] - plain.params[:4]) ** 2).sum()) / reference**2)
    return np.array(values)


def summarise(name: str, n: int, values: np.ndarray) -> list[str]:
    """Four table rows of one design and n."""
    distance = float(np.linalg.norm(DESIGNS[name].truth))
    error = np.linalg.norm(values[:, :, 0], axis=2)
    missing = np.isnan(values[:, :, 0]).all(axis=(0, 2))
    error = np.where(np.isfinite(error), error, np.inf)
    far = (error > distance).mean(axis=0)
    half = values[:, :, 1]
    covered = (np.abs(values[:, :, 0]) <= half).mean(axis=(0, 2))
    width = 2.0 * np.nanmedian(np.where(missing[None, :, None], 0.0, half), axis=(0, 2))
    capped = np.minimum(error, distance).mean(axis=0)
    rows = []
    for label, cells, digits in (
        ("l2 error", capped, 3),
        ("interval width", width, 3),
        ("coverage", covered, 3),
        ("diverged", far, 3),
    ):
        texts = [
            "-" if gone else f"{cell:.{digits}f}" for cell, gone in zip(cells, missing, strict=True)
        ]
        rows.append(f"| {name} | {n} | {label} | " + " | ".join(texts) + " |")
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="20 fits, nothing stored")
    options = parser.parse_args(arguments)
    fits = 20 if options.quick else options.fits
    chunk = max(1, fits // (4 * options.processes))
    chunks = [range(a, min(a + chunk, fits)) for a in range(0, fits, chunk)]
    lines = [
        "# What the same privacy buys",
        "",
        f"`python -m bench.efficiency`, {fits} fits a cell, total mu = {MU:g} with intervals paid, "
        "the same data in every column; mean l2 error (capped at the distance of the start), "
        "median width and mean coverage of nominal 95% intervals, share of fits that end further "
        "from the truth than the start.",
        "",
        "The first two columns are the paper's algorithms with the constants as printed "
        "(`bench/printed.py`): over-noised by sqrt(2) and more in Hessian and sandwich, by 2.7% in "
        "the joint gradient, and by the total of Proposition 3; under-noised nowhere. The third is "
        "its Newton with the audited constants and uniform, independent accounting. The fourth is "
        "the package's Newton with each release charged on its own, the fifth with all of a step "
        "charged together, the sixth the default method, which decides as it goes. Widths of these "
        "two are by t quantiles, of all others by the normal's. "
        "One-shot: the whole budget on one gradient at the exact solution, which nobody can do. A "
        "dash: the paper has no Newton method for a free scale, and joint accounting does not "
        "apply there.",
        "",
        "| design | n | | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 3) + "|",
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        for name in DESIGNS:
            for n in SIZES:
                parts = pool.map(run, [name] * len(chunks), [n] * len(chunks), chunks)
                rows = summarise(name, n, np.concatenate(list(parts)))
                lines += rows
                print("\n".join(rows), file=sys.stderr, flush=True)
        lines += [
            "",
            "## Noise of the defaults relative to the one-shot reference",
            "",
            "Root mean square distance from the non-private estimate over "
            "`(2B/(n mu)) ||H^-1||_F`, at the total mu with intervals paid.  At most 1.2 where the "
            "optimiser has converged; below one where damped steps still hold it back, near "
            "the start.",
            "",
            "| design | " + " | ".join(f"n = {n}" for n in REFERENCE_SIZES) + " | from n = |",
            "|---" * (len(REFERENCE_SIZES) + 2) + "|",
        ]
        for name in DESIGNS:
            ratios = []
            for n in REFERENCE_SIZES:
                parts = pool.map(reference_ratio, [name] * len(chunks), [n] * len(chunks), chunks)
                ratios.append(float(np.concatenate(list(parts)).mean()) ** 0.5)
            above = [i for i, ratio in enumerate(ratios) if ratio > 1.2]
            first = 0 if not above else above[-1] + 1
            begins = str(REFERENCE_SIZES[first]) if first < len(ratios) else "beyond"
            lines.append(
                f"| {name} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + f" | {begins} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick:
        keep(RESULTS / "efficiency.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
