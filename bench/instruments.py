"""Two-stage least squares beside linearmodels, on six public tables

The first endogenous regressor: exact by linearmodels, with its robust error and first-stage F.
Then over bootstrap samples at a budget: the median private F, coverage of all intervals, of those
without a warning, of Anderson-Rubin's and of exact ones, and medians of the standard error and of
the distance, both over the exact standard error.  The truth of a sample is the whole table's
estimate.  Anderson-Rubin's tests the surplus restrictions, too, which a whole table violates a
little where there are two instruments.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from bench.public_tables import Table, available, read, tables
from bench.study import Block, study
from dpfast.arguments import Array
from dpfast.effects import two_stage
from dpfast.errors import InvalidBudget
from dpfast.privacy import SeededNoise

Roles = list[list[str]]


def roles(table: Table) -> Roles:
    """Name the columns x0, x1, ...: endogenous ones, instruments, controls."""
    names = iter(f"x{j}" for j in range(len(table.covariates)))
    return [[next(names) for _ in group] for group in table.groups]


def exact(columns: dict[str, Array], names: Roles) -> Any:
    """Estimate by linearmodels, with robust errors."""
    pandas, iv = import_module("pandas"), import_module("linearmodels.iv")
    data = pandas.DataFrame(columns).assign(one=1.0)
    endogenous, excluded, controls = names
    model = iv.IV2SLS(data["y"], data[["one", *controls]], data[endogenous], data[excluded])
    return model.fit(cov_type="robust")


def sampled(columns: dict[str, Array], names: Roles, mu: float, runs: int) -> dict[str, Any]:
    """Measure coverage and width over bootstrap samples."""
    endogenous, excluded, controls = names
    formula = f"y ~ {' + '.join(endogenous + controls)} | {' + '.join(excluded + controls)}"
    name, n = endogenous[0], len(columns["y"])
    truth, found = exact(columns, names).params[name], []
    for seed in range(runs):
        rows = np.random.default_rng(seed).integers(0, n, n)
        drawn = {column: values[rows] for column, values in columns.items()}
        plain = exact(drawn, names)
        fit = two_stage(formula, drawn, privacy=mu, noise=SeededNoise(seed))
        j, error = fit.names.index(name), plain.std_errors[name]
        ends = fit.conf_int()[j], fit.anderson_rubin(), plain.conf_int().loc[name]
        covers = [low <= truth <= high for low, high in ends]
        off = abs(fit.params[j] - plain.params[name]) / error
        found.append([*covers, fit.bse[j] / error, fit.first_stage_f, off, bool(fit.warnings)])
    cells = np.array(found, np.float64)
    quiet = cells[cells[:, 6] == 0.0, 0]
    return {
        "private F": np.median(cells[:, 4]), "covers": cells[:, 0].mean(),
        "unwarned": f"{quiet.mean():.2f} of {len(quiet)}" if len(quiet) else "none",
        "Anderson-Rubin": cells[:, 1].mean(), "exact": cells[:, 2].mean(),
        "width": np.median(cells[:, 3]), "distance": np.median(cells[:, 5]),
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    for table in available(tables("instruments")[: 1 if asked.quick else None], asked.only):
        X, y = read(table)
        names = roles(table)
        columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"y": y}
        plain, name = exact(columns, names), names[0][0]
        f = plain.first_stage.diagnostics["f.stat"].iloc[0] / len(names[1])
        for mu in asked.budgets:
            head = {
                "table": table.name, "n": len(y),
                "linearmodels": f"{plain.params[name]:.3g} ({plain.std_errors[name]:.2g})",
                "F": f, "mu": mu,
            }  # fmt: skip
            try:
                yield head | sampled(columns, names, mu, asked.runs)
            except InvalidBudget:
                yield f"{table.name}, mu = {mu:g}: refused, too few records."


main = study("instruments", measured, __doc__, runs=40, quick=1, budgets=(1.0, 0.3))
