"""Beside the paper's figures: where each certificate begins on real surveys."""

from __future__ import annotations

import csv
import gzip
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.figures.paper3 import design
from bench.figures.runner import Outcome, Panel, Run, data_folder, declared
from dpfast.models import Logistic, Product
from dpfast.models.products import Interval, OneHot

EPSILON = 4.0

NAMES = ("global", "recursive")


class Survey(NamedTuple):
    """A binary response, covariates on a public domain, and the coefficient wanted."""

    name: str
    X: np.ndarray
    y: np.ndarray
    domain: Product
    coefficient: int
    what: str


def table(path: Path) -> dict[str, list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    return {name: [row[j] for row in rows[1:]] for j, name in enumerate(rows[0])}


def coded(columns: dict[str, list[str]], wanted: list[tuple[str, Any]]) -> tuple[Any, Any]:
    """Matrix and domain; public codes, centred so that the Hessian is well conditioned.

    A string is a level, coded 1 against -1 for all others; a pair (low, high) is mapped to
    [-1, 1], values outside moved to the ends.
    """
    parts = []
    for name, description in wanted:
        values = np.array(columns[name])
        if isinstance(description, tuple):
            low, high = description
            parts.append(2.0 * (values.astype(float) - low) / (high - low) - 1.0)
        else:
            parts.append(2.0 * (values == description) - 1.0)
    domain = Product([Interval(-1.0, 1.0) for _ in parts], intercept=True)
    return domain.project(np.column_stack(parts)), domain


def adult(folder: Path) -> Survey:
    """Income above 50K on sex, marriage, age, hours and education."""
    columns = table(folder / "adult.csv.gz")
    y = np.array([value.strip().startswith(">50K") for value in columns["income"]]) * 1.0
    married = [
        "married" if value.startswith("Married") else "not" for value in columns["marital_status"]
    ]
    columns["married"] = married
    X, domain = coded(
        columns,
        [
            ("sex", "Female"),
            ("married", "married"),
            ("age", (20.0, 65.0)),
            ("hours_per_week", (20.0, 60.0)),
            ("education_num", (6.0, 14.0)),
        ],
    )
    return Survey("adult", X, y, domain, 1, "female")


def brfss(folder: Path) -> Survey:
    """Heart disease on smoking, sex, exercise, walking, diabetes, age and body mass."""
    columns = table(folder / "brfss2020_heart.csv.gz")
    y = np.array([value == "Yes" for value in columns["HeartDisease"]]) * 1.0
    ages = ["18-24", "25-29", "30-34", "35-39", "40-44", "45-49", "50-54", "55-59", "60-64",
            "65-69", "70-74", "75-79", "80 or older"]  # fmt: skip
    columns["age"] = [str(ages.index(value)) for value in columns["AgeCategory"]]
    X, domain = coded(
        columns,
        [
            ("Smoking", "Yes"),
            ("Sex", "Male"),
            ("PhysicalActivity", "Yes"),
            ("DiffWalking", "Yes"),
            ("Diabetic", "Yes"),
            ("age", (0.0, 12.0)),
            ("BMI", (18.0, 40.0)),
        ],
    )
    return Survey("BRFSS", X, y, domain, 1, "smoking")


def surveys(folder: Path) -> Iterator[Survey]:
    yield adult(folder)
    yield brfss(folder)


def categories(folder: Path) -> Iterator[Survey]:
    """The same surveys with their categories as one-hot blocks and columns in their own ranges."""
    columns = table(folder / "adult.csv.gz")
    y = np.array([value.strip().startswith(">50K") for value in columns["income"]]) * 1.0
    columns["schooling"] = [
        str(min(int(value) // 3, 4)) for value in columns["education_num"]
    ]  # up to 5th-6th, 9th-11th, school and some college, degrees, masters and above
    columns["status"] = [value.split("-")[0] for value in columns["marital_status"]]
    yield blocks(
        "adult, categories",
        columns,
        y,
        {
            "sex": ["Male", "Female"],
            "status": ["Married", "Never", "Divorced"],
            "schooling": ["3", "1", "2", "4"],
            "age": (17.0, 90.0),
            "hours_per_week": (1.0, 99.0),
        },
        "female",
    )
    columns = table(folder / "brfss2020_heart.csv.gz")
    y = np.array([value == "Yes" for value in columns["HeartDisease"]]) * 1.0
    yes = ["No", "Yes"]
    yield blocks(
        "BRFSS, categories",
        columns,
        y,
        {
            "Smoking": yes,
            "Sex": ["Female", "Male"],
            "DiffWalking": yes,
            "Diabetic": ["No", "Yes", "No, borderline diabetes"],
            "GenHealth": ["Very good", "Excellent", "Good", "Fair", "Poor"],
            "Race": ["White", "Black", "Hispanic", "Other"],
            "BMI": (12.0, 95.0),
        },
        "smoking",
    )


def blocks(
    name: str, columns: dict[str, list[str]], y: np.ndarray, wanted: dict[str, Any], what: str
) -> Survey:
    """Ranges mapped to [-1, 1]; levels of a category, the first (and any other value) left out."""
    parts: list[Interval | OneHot] = []
    coded_columns = []
    for column, description in wanted.items():
        values = np.array(columns[column])
        if isinstance(description, tuple):
            low, high = description
            coded_columns.append((2.0 * (values.astype(float) - low) / (high - low) - 1.0)[:, None])
            parts.append(Interval(-1.0, 1.0))
        else:
            coded_columns.append((values[:, None] == np.array(description[1:])[None, :]) * 1.0)
            parts.append(OneHot(len(description) - 1, reference=True))
    domain = Product(parts, intercept=True)
    return Survey(name, domain.project(np.hstack(coded_columns)), y, domain, 1, what)


def solved(survey: Survey, rows: np.ndarray) -> design.Exact:
    return design.solve(
        survey.X[rows], survey.y[rows], EPSILON, loss=Logistic(), scale=None, domain=survey.domain
    )


def missing() -> Outcome:
    return Outcome(
        {}, "not applicable", "the real data are not here: set DPFAST_DATA to their folder"
    )


#: The smaller of the paper's two condition numbers, and n/d from which it certifies simulated data.
PAPERS_CONDITION, SIMULATED = 300.0, 320


@declared("paper3/certificates-of-surveys")
def certificates_of_surveys(run: Run) -> Outcome:
    folder = data_folder()
    if folder is None:
        return missing()
    found: dict[str, Any] = {}
    for survey in itertools.chain(surveys(folder), categories(folder)):
        n, order = len(survey.y), run.rng(survey.name).permutation(len(survey.y))
        full = solved(survey, np.arange(n))
        grid = np.unique(np.geomspace(500, n, 4 if run.quick else 27).astype(int))

        def bounds(at: tuple[int, design.Exact], seed: int, survey: Survey = survey) -> list[float]:
            key = run.seed(survey.name, int(at[0]), seed)
            return [design.share(at[1], key, name) for name in NAMES]

        solutions = ((size, solved(survey, order[:size])) for size in grid)
        shares = design.medians(solutions, 20, NAMES, bounds)
        found[survey.name] = {
            "n": n,
            "parameters": survey.X.shape[1] + 1,
            "radius": survey.domain.radius,
            "smallest eigenvalue": full.smallest,
            "condition number": full.largest / full.smallest,
            "sizes": grid.tolist(),
            "lower bound / what it bounds": shares,
            "certified from n": {
                name: next((int(s) for s, v in zip(grid, values, strict=True) if v > 0.05), None)
                for name, values in shares.items()
            },
        }

    panels = [
        Panel(
            entry["sizes"],
            {f"{w} certificate": v for w, v in entry["lower bound / what it bounds"].items()},
            {"xlabel": f"n (condition number {entry['condition number']:.0f})", "title": name,
             "ylabel": "lower bound / what it bounds", "ylim": (0, 1.1)}, "x",
        )
        for name, entry in found.items()
    ]  # fmt: skip
    text = "; ".join(
        f"{name}: condition number {entry['condition number']:.0f}, certified from n = "
        f"{entry['certified from n']['global'] or 'none of these'} by theorem A and "
        f"{entry['certified from n']['recursive'] or 'none of these'} by the paper's recursion"
        for name, entry in found.items()
    )
    large = [entry["condition number"] >= PAPERS_CONDITION for entry in found.values()]
    late = [
        (entry["certified from n"]["recursive"] or math.inf) > SIMULATED * entry["parameters"]
        for entry in found.values()
    ]
    return Outcome(
        found,
        "yes" if all(large) and all(late) else "in part" if any(large) or any(late) else "no",
        f"{text}. By the paper's recursion later than simulated data of as many parameters in "
        f"{sum(late)} of {len(late)}; as large a condition number as the paper's "
        f"({PAPERS_CONDITION:g} and more) in {sum(large)}. "
        "Adult and BRFSS stand in for the ACS files of the paper.",
        panels,
        sharey=True,
    )
