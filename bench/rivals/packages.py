"""dpfast beside the packages that people would use: accuracy, width and time

In an environment of the extra ``rivals`` (diffprivlib needs scikit-learn below 1.6).  Packages that
are not installed are left out, and keep
the rows that are stored.  Every private rival is told what ours has to buy: means and
standard deviations of columns, and the true largest row.  Budgets are (epsilon, 1e-6); a package
that protects a record that is added or removed gets the noise of that weaker promise.  Distances
are from the fit without privacy, root mean squares over slopes, in its standard errors.

OpenDP's own regression (Theil-Sen) is of another estimand: its rows, of linear regressions only,
are its Gaussian noise on the second moments of the records, solved as a linear system, with the
noise that the exact trade-off of Gaussian mechanisms allows.
BinAgg and dp-statsmodels are on no registry: they are measured where their repositories
(Shuronglin/BinAgg, MaxGhenis/dp-statsmodels) are on the path.
Opacus is DP-SGD: 10 epochs, batches of 2,048, clip 1, the best of three step sizes for nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.rivals.peers import Array, Units, exact, with_one
from bench.stored import RESULTS
from bench.study import Block, study

STORED = RESULTS / "rivals_packages.md"

DELTA = 1e-6

EPSILONS = (1.0, 3.0, 10.0)

#: Of the tables of bench.rivals: those with files of their own and 20,000 records and more.
LINEAR, LOGISTIC = (0, 1, 4, 7), (0, 1, 2)

#: Records beyond which a fit of these takes minutes, and is left out.
MANY, SLOW = 100_000, ("opacus", "binagg")

#: Rivals without logistic regression.
LINEAR_ONLY = ("opendp", "binagg", "dp_statsmodels")

STEP_SIZES = (0.02, 0.1, 0.5)


class Task(NamedTuple):
    """One table: as it came, and as the private rivals see it, with the fit without privacy."""

    name: str
    X: Array
    y: Array
    Z: Array
    v: Array
    units: Units
    exact: Array
    errors: Array
    loss: str

    @property
    def logistic(self) -> bool:
        return self.loss == "logistic"


class Found(NamedTuple):
    """Slopes, with standard errors where there are any, and whether of the columns as they came."""

    slopes: Array
    errors: Array | None = None
    own: bool = False


Rival = Callable[[Task, float, int], Found]


class Row(NamedTuple):
    """Medians over runs."""

    table: str
    epsilon: float
    package: str
    distance: float
    width: float
    seconds: float


def tasks(only: str) -> Iterator[Task]:
    for loss, group, chosen in (
        ("least-squares", "linear", LINEAR), ("logistic", "logistic", LOGISTIC),
    ):  # fmt: skip
        some = tables(group)
        for table in available([some[k] for k in chosen], only):
            yield seen(table.name, *read(table), loss)


def seen(name: str, X: Array, y: Array, loss: str) -> Task:
    """Columns as they came and as rivals see them, with the fit without privacy."""
    units = Units.of(X, y, loss)
    Z, v = units.coded(X, y)
    theta, errors = exact(Z, v, loss)
    return Task(name, X, y, Z, v, units, theta[1:], errors[1:], loss)


# ---- the packages --------------------------------------------------------------------------------


def ours(task: Task, epsilon: float, run: int) -> Found:
    """Nothing is told."""
    privacy, noise = dpfast.ApproxDP(epsilon, DELTA), dpfast.SeededNoise(run)
    fit = dpfast.fit(task.X, task.y, task.loss, privacy=privacy, noise=noise)
    return Found(fit.params[1:], fit.bse[1:], own=True)


def by_diffprivlib(task: Task, epsilon: float, run: int) -> Found:
    models = import_module("diffprivlib.models")
    Z, v = task.Z, task.v
    if task.logistic:
        longest = float(np.sqrt((Z * Z).sum(axis=1)).max())
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=longest, C=1e3, max_iter=1000, random_state=run
        )
    else:
        bounds = (Z.min(axis=0), Z.max(axis=0)), (float(v.min()), float(v.max()))
        model = models.LinearRegression(
            epsilon=epsilon, bounds_X=bounds[0], bounds_y=bounds[1], random_state=run
        )
    return Found(np.ravel(model.fit(Z, v).coef_))


def by_opendp(task: Task, epsilon: float, run: int) -> Found:
    """Second moments of the rows, of the length that the longest one has (added or removed)."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    rows = np.column_stack([np.ones(len(task.Z)), task.Z, task.v])
    upper = np.triu_indices(rows.shape[1])
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))  # the Frobenius norm
    moments = (rows.T @ rows)[upper] * weights
    sensitivity = float((rows * rows).sum(axis=1).max())
    scale = sensitivity / dpfast.GDP.within(dpfast.ApproxDP(epsilon, DELTA)).mu
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    released = np.array(dp.m.make_gaussian(*space, scale=scale)(moments.tolist())) / weights
    gram = np.zeros((rows.shape[1],) * 2)
    gram[upper] = released
    gram = gram + np.triu(gram, 1).T
    return Found(np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])[1:])


def by_opacus(task: Task, epsilon: float, run: int) -> Found:
    torch, opacus = import_module("torch"), import_module("opacus")
    X = torch.tensor(task.Z, dtype=torch.float32)
    y = torch.tensor(task.v, dtype=torch.float32)
    size, epochs = 2048, 10
    loss = torch.nn.BCEWithLogitsLoss() if task.logistic else torch.nn.MSELoss()
    best: tuple[float, Array] = (np.inf, np.zeros(task.Z.shape[1]))
    for step in STEP_SIZES:
        torch.manual_seed(run)
        model: Any = torch.nn.Linear(X.shape[1], 1)
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=step)
        data = torch.utils.data.TensorDataset(X, y)
        loader: Any = torch.utils.data.DataLoader(data, batch_size=size)
        engine = opacus.PrivacyEngine(accountant="rdp")
        model, optimizer, loader = engine.make_private_with_epsilon(
            module=model, optimizer=optimizer, data_loader=loader, epochs=epochs,
            target_epsilon=epsilon, target_delta=DELTA, max_grad_norm=1.0,
        )  # fmt: skip
        for _ in range(epochs):
            for inputs, targets in loader:
                if len(inputs):
                    optimizer.zero_grad()
                    loss(model(inputs)[:, 0], targets).backward()
                    optimizer.step()
        with torch.no_grad():
            reached = float(loss(model(X)[:, 0], y))
        found = model._module.weight.detach().numpy()[0].astype(float)
        best = min(best, (reached, found), key=lambda pair: pair[0])
    return Found(best[1])


def by_binagg(task: Task, epsilon: float, run: int) -> Found:
    """Sums over private bins (Lin, Slavkovic and Bhoomireddy 2026), told the columns' ranges."""
    Z, v = task.Z, task.v
    fit = import_module("binagg").dp_linear_regression(
        Z, v, x_bounds=list(zip(Z.min(axis=0), Z.max(axis=0), strict=True)),
        y_bounds=(v.min(), v.max()), mu=dpfast.GDP.within(dpfast.ApproxDP(epsilon, DELTA)).mu,
        random_state=run,
    )  # fmt: skip
    return Found(fit.coefficients, fit.standard_errors)


def by_noisy_moments(task: Task, epsilon: float, run: int) -> Found:
    """Of dp-statsmodels, which takes one range for all columns."""
    Z, v = task.Z, task.v
    fit = import_module("dp_statsmodels.models.ols").DPOLS(
        epsilon, DELTA, (Z.min(), Z.max()), (v.min(), v.max()), random_state=run
    ).fit(v, Z)  # fmt: skip
    return Found(fit.params[1:], fit.bse[1:])


def by_statsmodels(task: Task, epsilon: float, run: int) -> Found:
    api = import_module("statsmodels.api")
    rows = with_one(task.Z)
    fit = api.Logit(task.v, rows).fit(disp=0) if task.logistic else api.OLS(task.v, rows).fit()
    return Found(np.asarray(fit.params)[1:], np.asarray(fit.bse)[1:])


def by_scikit_learn(task: Task, epsilon: float, run: int) -> Found:
    models = import_module("sklearn.linear_model")
    exact = models.LogisticRegression(C=1e8, max_iter=1000)
    model = exact if task.logistic else models.LinearRegression()
    return Found(np.ravel(model.fit(task.Z, task.v).coef_))


def by_glum(task: Task, epsilon: float, run: int) -> Found:
    family = "binomial" if task.logistic else "normal"
    model = import_module("glum").GeneralizedLinearRegressor(family=family, alpha=0.0)
    return Found(np.ravel(model.fit(task.Z, task.v).coef_))


#: Label -> (what has to be installed, how it is asked); `dpfast` first.
PRIVATE: dict[str, tuple[str, Rival]] = {
    "dpfast, told nothing": ("dpfast", ours),
    "diffprivlib, told": ("diffprivlib", by_diffprivlib),
    "OpenDP moments, told": ("opendp", by_opendp),
    "Opacus DP-SGD, told, tuned": ("opacus", by_opacus),
    "BinAgg, told": ("binagg", by_binagg),
    "dp-statsmodels, told": ("dp_statsmodels", by_noisy_moments),
}

EXACT: dict[str, tuple[str, Rival]] = {
    "statsmodels (not private)": ("statsmodels", by_statsmodels),
    "scikit-learn (not private)": ("sklearn", by_scikit_learn),
    "glum (not private)": ("glum", by_glum),
}


# ---- measured ------------------------------------------------------------------------------------


def measured(task: Task, epsilon: float, package: str, rival: Rival, runs: int) -> Row:
    distances, widths, seconds = [], [], []
    for run in range(runs):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = rival(task, epsilon, run)
        seconds.append(time.perf_counter() - start)
        unit = task.units.unit / task.units.spreads if found.own else 1.0
        target, errors = task.exact * unit, task.errors * unit
        away = found.slopes - target
        distances.append(float(np.sqrt(np.mean((away / errors) ** 2))))
        if found.errors is not None:
            widths.append(float(np.median(found.errors / errors)))
    several = [float(np.median(distances)), _median(widths), min(seconds)]
    return Row(task.name, epsilon, package, *several)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else np.nan


def rows_of(runs: int, only: str, quick: bool) -> Iterator[Row]:
    for one in [*tasks(only)][: 1 if quick else None]:
        for package, (needed, rival) in EXACT.items():
            if find_spec(needed):
                yield measured(one, np.inf, package, rival, min(runs, 3))
        for epsilon in EPSILONS[: 1 if quick else None]:
            for package, (needed, rival) in PRIVATE.items():
                few = 1 if needed == "opacus" else runs
                slow = needed in SLOW and len(one.y) > MANY
                other = needed in LINEAR_ONLY and one.logistic  # another estimand
                if find_spec(needed) and not slow and not other:
                    yield measured(one, epsilon, package, rival, few)


def cells(row: Row) -> dict[str, Any]:
    return {
        "table": row.table, "epsilon": "-" if row.epsilon == np.inf else f"{row.epsilon:g}",
        "package": row.package, "distance": row.distance,
        "width": "-" if np.isnan(row.width) else f"{row.width:.2f}",
        "seconds": f"{row.seconds:.2g}",
    }  # fmt: skip


def kept(found: list[Row], stored: str) -> list[dict[str, Any]]:
    """Stored rows of packages that are not installed here, of the tables that are."""
    absent = [k for k, (needed, _) in (EXACT | PRIVATE).items() if not find_spec(needed)]
    names, here = list(cells(found[0])), {row.table for row in found}
    lines = [[c.strip() for c in line.strip("|").split("|")] for line in stored.splitlines()]
    rows = [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]
    return [row for row in rows if row["package"] in absent and row["table"] in here]


def results(asked: argparse.Namespace) -> Iterator[Block]:
    found = [*rows_of(asked.runs, asked.only, asked.quick)]
    order, names = [*EXACT, *PRIVATE], list(dict.fromkeys(row.table for row in found))
    rows = [*map(cells, found), *kept(found, STORED.read_text(encoding="utf-8"))]

    def place(row: dict[str, Any]) -> tuple[int, float, int]:
        epsilon = 0.0 if row["epsilon"] == "-" else float(row["epsilon"])
        return names.index(row["table"]), epsilon, order.index(row["package"])

    yield from sorted(rows, key=place)


main = study("rivals_packages", results, __doc__, runs=3)
