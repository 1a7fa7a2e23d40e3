"""Persons with several rows: the printed error beside the deviation that fits really have.

    python -m bench.persons [--runs 60] [--budgets 1] [--only LOSS] [--store]

A person's rows share part of their errors and of their covariates.  *Unequal*: one to fifty rows.
*Informative*: those with more rows have larger responses.  *ratio*: median printed error over the
realised deviation, of slopes, and the least and the most; *held*: how often intervals hold what
estimates are of, from a table that is larger than any budget needs, and of the slope held least.
Noise is seeded: a simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.tables import options, store

RESULTS = Path(__file__).parent / "results" / "persons.md"
Array = NDArray[np.float64]

#: Persons of a table, and of that which says what is estimated; slopes.
PERSONS, MANY, SLOPES = 2000, 100_000, (1.0, -0.5, 0.5, 0.0)

LOSSES: dict[str, Any] = {
    "least squares": "least-squares",
    "log-cosh": "log-cosh",
    "huber": "huber",
    "quantile": dpfast.Quantile(0.75),
    "logistic": "logistic",
    "counts": "poisson",
}


class Rows(NamedTuple):
    """How many rows persons have, and how they are protected."""

    rows: tuple[int, int]
    informative: bool = False
    group_size: int | None = None


PATTERNS = {
    "1": Rows((1, 1)),
    "5": Rows((5, 5)),
    "50": Rows((50, 50)),
    "1 to 50": Rows((1, 50)),
    "1 to 50, informative": Rows((1, 50), informative=True),
    "group_size 5": Rows((5, 5), group_size=5),
    "group_size 20, 1 to 20": Rows((1, 20), group_size=20),
}


def drawn(
    rng: np.random.Generator, persons: int, pattern: Rows, loss: str, one: bool = False
) -> tuple[Array, Array, Array]:
    """Covariates, responses and persons; ``one``: one row of each person, at random."""
    q = len(SLOPES)
    low, high = pattern.rows
    # many have few rows
    size = np.floor(low * (high / low) ** rng.random(persons) + 1e-9).astype(int)
    own = rng.normal(size=persons)
    if pattern.informative:
        order, sizes = np.argsort(own), np.sort(size)
        size[order] = sizes
    shared = rng.normal(size=(persons, q))
    times = np.ones(persons, dtype=int) if one else size
    who = np.repeat(np.arange(persons), times)
    X = 0.5**0.5 * (shared[who] + rng.normal(size=(len(who), q)))
    X[:, -1] = X[:, -1] > 0.8
    eta = 0.3 + X @ SLOPES + 0.5 * own[who] * (1.0 + 0.5 * X[:, 0])
    if loss == "logistic":
        y = (rng.random(len(who)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    elif loss == "counts":
        y = rng.poisson(np.exp(0.5 * eta)) * 1.0
    else:
        y = eta + rng.standard_t(5, size=len(who))
    return X, y, who


def target(pattern: Rows, name: str, scale: float | None) -> Array:
    """What estimates are of: persons count alike, or with a public number of rows these do."""
    from bench.tables import exact

    persons = MANY if pattern.group_size is None else MANY // 8
    X, y, _ = drawn(np.random.default_rng(10**6), persons, pattern, name, not pattern.group_size)
    return np.asarray(exact(X, y, LOSSES[name], scale).params)[1:]


def measured(name: str, pattern: Rows, mu: float, runs: int) -> str:
    loss, found, errors, ends, scales, warned = LOSSES[name], [], [], [], [], 0
    for seed in range(runs):
        X, y, who = drawn(np.random.default_rng(seed), PERSONS, pattern, name)
        protected: dict[str, Any] = {"group": who, "each": "person"}
        if pattern.group_size is not None:
            protected = {"group": who, "group_size": pattern.group_size}
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1, **protected), None, loss, privacy=mu, noise=noise
        )
        found.append(fit.params[1:])
        errors.append(fit.bse[1:])
        ends.append(fit.conf_int()[1:])
        warned += bool(fit.warnings)
        if name not in ("least squares", "logistic", "counts"):
            scales.append(fit._scale)
    truth = target(pattern, name, float(np.median(scales)) if scales else None)
    params, intervals = np.array(found), np.array(ends)
    deviation = params.std(axis=0, ddof=1)
    ratios = np.median(errors, axis=0) / deviation
    held = np.mean((intervals[:, :, 0] <= truth) & (truth <= intervals[:, :, 1]), axis=0)
    return (
        f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f}) | {held.mean():.3f}"
        f" ({held.min():.2f}) | {warned / runs:.2f}"
    )


def main() -> None:
    asked = options("bench.persons", __doc__, 60, (1.0,)).parse_args()
    rows = ["| loss | rows | mu | ratio | held | warned |\n|---|---|---|---|---|---|"]
    for mu in asked.budgets:
        for name in LOSSES:
            for rows_of, pattern in PATTERNS.items():
                if asked.only and asked.only not in (name, rows_of):
                    continue
                rows.append(
                    f"| {name} | {rows_of} | {mu:g} | {measured(name, pattern, mu, asked.runs)} |"
                )
                print(rows[-1], flush=True)
    store("bench.persons", asked, RESULTS, "\n".join(rows))


if __name__ == "__main__":
    main()
