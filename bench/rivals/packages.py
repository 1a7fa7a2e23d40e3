"""dpfast beside the packages that people would use: accuracy, width and time.

    python -m bench.rivals.packages --data FOLDER [--runs 5] [--only adult] [--store]

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

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals.__main__ import ordinary
from bench.rivals.peers import likeliest, standardised
from bench.rivals.tables import LOGISTIC_TABLES, TABLES, Table, available, options, read, store

Array = NDArray[np.float64]

RESULTS = Path(__file__).parent.parent / "results" / "rivals_packages.md"

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
    """One table: as it came, and as the private rivals see it."""

    name: str
    X: Array
    y: Array
    Z: Array
    v: Array
    exact: Array
    errors: Array
    own_exact: Array
    own_errors: Array
    logistic: bool


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


def with_one(X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), X])


def tasks(folder: Path | None, only: str) -> Iterator[Task]:
    linear = [TABLES[k] for k in LINEAR]
    logistic = [LOGISTIC_TABLES[k] for k in LOGISTIC]
    for some, binary in ((linear, False), (logistic, True)):
        for table in available(some, folder, only):
            yield task(table, folder, binary)


def task(table: Table, folder: Path | None, binary: bool) -> Task:
    return seen(table.name, *read(table, folder), binary)


def seen(name: str, X: Array, y: Array, binary: bool) -> Task:
    """Columns as they came and as rivals see them, with the fits without privacy of both."""
    Z, v = standardised(X, y)
    v = y if binary else v
    if binary:
        exact, errors = likeliest(with_one(Z), v)
        spread = X.std(axis=0)
        own, own_errors = exact[1:] / spread, errors[1:] / spread
    else:
        (exact, errors), (found, of_it) = ordinary(Z, v), ordinary(X, y)
        own, own_errors = found[1:], of_it[1:]
    return Task(name, X, y, Z, v, exact[1:], errors[1:], own, own_errors, binary)


# ---- the packages --------------------------------------------------------------------------------


def ours(task: Task, epsilon: float, run: int) -> Found:
    """Nothing is told."""
    loss = "logistic" if task.logistic else "least-squares"
    privacy, noise = dpfast.ApproxDP(epsilon, DELTA), dpfast.SeededNoise(run)
    fit = dpfast.fit(task.X, task.y, loss, privacy=privacy, noise=noise)
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
        target, errors = task.exact, task.errors
        if found.own:
            target, errors = task.own_exact, task.own_errors
        away = found.slopes - target
        distances.append(float(np.sqrt(np.mean((away / errors) ** 2))))
        if found.errors is not None:
            widths.append(float(np.median(found.errors / errors)))
    several = [float(np.median(distances)), _median(widths), min(seconds)]
    return Row(task.name, epsilon, package, *several)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else np.nan


def rows_of(folder: Path | None, runs: int, only: str) -> Iterator[Row]:
    for one in tasks(folder, only):
        for package, (needed, rival) in EXACT.items():
            if find_spec(needed):
                yield measured(one, np.inf, package, rival, min(runs, 3))
        for epsilon in EPSILONS:
            for package, (needed, rival) in PRIVATE.items():
                few = 1 if needed == "opacus" else runs
                slow = needed in SLOW and len(one.y) > MANY
                other = needed in LINEAR_ONLY and one.logistic  # another estimand
                if find_spec(needed) and not slow and not other:
                    yield measured(one, epsilon, package, rival, few)


def report(rows: list[Row]) -> Iterator[str]:
    yield "| table | epsilon | package | distance | width | seconds |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        epsilon = "-" if row.epsilon == np.inf else f"{row.epsilon:g}"
        width = "-" if np.isnan(row.width) else f"{row.width:.2f}"
        yield (
            f"| {row.table} | {epsilon} | {row.package} | {row.distance:.3g} | {width} | "
            f"{row.seconds:.2g} |"
        )


def merged(found: str, stored: Path) -> str:
    """Rows as they are now, and stored ones of packages that are not installed here."""
    kinds = EXACT | PRIVATE
    known = {label for label, (needed, _) in kinds.items() if not find_spec(needed)}
    kept = [
        line for line in stored.read_text().split("\n") if _cells(line)[2:3] in ([k] for k in known)
    ]
    lines = found.split("\n")
    tables = list(dict.fromkeys(_cells(line)[0] for line in lines[2:]))
    order = [*EXACT, *PRIVATE]

    def place(line: str) -> tuple[int, float, int]:
        table, epsilon, package, *_ = _cells(line)
        return tables.index(table), 0.0 if epsilon == "-" else float(epsilon), order.index(package)

    kept = [line for line in kept if _cells(line)[0] in tables]
    return "\n".join([*lines[:2], *sorted([*lines[2:], *kept], key=place)])


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def main(argv: list[str] | None = None) -> int:
    asked = options("bench.rivals.packages", __doc__, 5, None).parse_args(argv)
    rows = []
    for row in rows_of(asked.data, asked.runs, asked.only):
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    text = merged("\n".join(report(rows)), RESULTS)
    print(text)
    store("bench.rivals.packages", asked, RESULTS, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
