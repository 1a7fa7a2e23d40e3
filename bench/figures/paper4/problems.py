"""Black boxes whose parameters the experiments tune: losses per validation record."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import dpfast
from dpfast.arguments import Array
from dpfast.bayesopt import RBF, AdaGrad, SearchSettings

#: Settings printed in the paper (E.1): RBF with length-scale one, AdaGrad, uniform budgets, last
#: iterate.  Its threshold is an absolute trace; ours is relative to the prior trace, d.
PRINTED: dict[str, Any] = {
    "covariance": RBF(1.0),
    "mean": "zero",
    "update": AdaGrad(0.3, subtract_noise=False),
    "schedule": "uniform",
    "average": 0.0,
    "units": "theta",
}


def settled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a search in one mapping, as `dpfast.tune` takes them."""
    names = [field.name for field in fields(SearchSettings) if field.name in options]
    rest = {name: value for name, value in options.items() if name not in names}
    return rest | {"search": SearchSettings(**{name: options[name] for name in names})}


class GaussianProcessRegression:
    """Log length-scales of a Gaussian process regression (E.1).

    Data are drawn from a process with five relevant inputs out of d; the loss of a validation
    record is its squared prediction error.  ``noise`` adds one normal number per evaluation to the
    losses of all records, as a randomised training would.
    """

    def __init__(
        self, rng: np.random.Generator, d: int = 15, n_train: int = 200, n_valid: int = 700
    ) -> None:
        self.d, self.n = d, n_valid
        self.bounds = [(-2.0, 2.0)] * d
        self.truth = np.full(d, 2.0)
        relevant = min(5, d)
        self.truth[:relevant] = rng.uniform(-1.0, 0.3, relevant)
        X = rng.uniform(size=(n_train + n_valid, d))
        gram = _kernel(X, X, self.truth) + 1e-8 * np.eye(len(X))
        y = np.linalg.cholesky(gram) @ rng.normal(size=len(X)) + 0.1 * rng.normal(size=len(X))
        self._X, self._y = X[:n_train], y[:n_train]
        self._valid = X[n_train:], y[n_train:]
        self.noise = 0.0
        self._noise_rng = np.random.default_rng(rng.integers(2**63))
        self.calls = 0

    def losses(self, theta: Array) -> Array:
        """Squared errors of the validation records, shape (n,)."""
        self.calls += 1
        found = self._squared_errors(theta)
        return found + self.noise * self._noise_rng.normal() if self.noise else found

    def value(self, theta: Array) -> float:
        """Exact mean loss, without evaluation noise: for the pictures only."""
        return float(self._squared_errors(theta).mean())

    def _squared_errors(self, theta: Array) -> Array:
        gram = _kernel(self._X, self._X, theta)
        gram[np.diag_indices_from(gram)] += 0.01
        weights = cho_solve(cho_factor(gram, lower=True, check_finite=False), self._y)
        X, y = self._valid
        return (y - _kernel(X, self._X, theta) @ weights) ** 2


def _kernel(A: Array, B: Array, log_scales: Array) -> Array:
    a, b = A / np.exp(log_scales), B / np.exp(log_scales)
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * a @ b.T
    return np.exp(-0.5 * np.maximum(squared, 0.0))


class SupportVectorRegression:
    """100 log length-scales, epsilon, C and gamma of a kernel SVM (E.2)."""

    def __init__(self, X: Array, y: Array, rng: np.random.Generator, n_train: int) -> None:
        order = rng.permutation(len(y))
        train, valid = order[:n_train], order[n_train:]
        scale = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
        y = (y - y[train].mean()) / y[train].std()
        self._X, self._y, self._valid = X[train], y[train], (X[valid], y[valid])
        self.n, self.d = len(valid), X.shape[1] + 3
        self.bounds = [(-2.0, 2.0)] * X.shape[1] + [(0.01, 1.0), (0.1, 3.0), (0.01, 5.0)]

    def losses(self, theta: Array) -> Array:
        """Squared errors of the validation records, shape (n,)."""
        from sklearn.svm import SVR

        log_scales, (epsilon, cost, gamma) = theta[:-3], theta[-3:]
        # gamma / d keeps the exponent of order one with 100 standardised features
        log_scales = log_scales + 0.5 * np.log(len(log_scales) / (2.0 * gamma))
        model = SVR(kernel="precomputed", C=cost, epsilon=epsilon, cache_size=50)
        model.fit(_kernel(self._X, self._X, log_scales), self._y)
        X, y = self._valid
        support = self._X[model.support_]
        predicted = _kernel(X, support, log_scales) @ model.dual_coef_[0] + model.intercept_[0]
        return (y - predicted) ** 2

    def value(self, theta: Array) -> float:
        return float(self.losses(theta).mean())


def ct_slices(folder: Path, rng: np.random.Generator, quick: bool) -> SupportVectorRegression:
    """The 682 rows of the CT slices at hand: two patients, for want of the whole set."""
    rows = _rows(folder / "ct_slice_prefix_682.csv.gz")
    table = np.array([[float(value) for value in row.values()] for row in rows])
    X, y = table[:, :-1], table[:, -1]
    varying = np.flatnonzero(X.std(axis=0) > 1e-3)
    chosen = rng.choice(varying, size=100, replace=False)
    return SupportVectorRegression(X[:, chosen], y, rng, 60 if quick else 232)


def house_sales(folder: Path, rng: np.random.Generator, quick: bool) -> SupportVectorRegression:
    """Log prices of King County house sales: 18 numbers, 70 zip codes and 12 months."""
    rows = _rows(folder / "kc_house_data.csv.gz")
    names = [
        "bedrooms", "bathrooms", "sqft_living", "sqft_lot", "floors", "waterfront", "view",
        "condition", "grade", "sqft_above", "sqft_basement", "yr_built", "yr_renovated", "lat",
        "long", "sqft_living15", "sqft_lot15",
    ]  # fmt: skip
    picked = rng.choice(len(rows), size=400 if quick else 4300, replace=False)
    rows = [rows[i] for i in picked]
    numbers = np.array([[float(row[name] or 0.0) for name in names] for row in rows])
    numbers[:, [2, 3, 9, 15, 16]] = np.log(np.maximum(numbers[:, [2, 3, 9, 15, 16]], 1.0))
    day = np.array([[float(row["date"][6:8])] for row in rows])
    zips = sorted({int(row["zipcode"]) for row in rows})[:70]
    code = np.array([[float(int(row["zipcode"]) == z) for z in zips] for row in rows])
    code = np.pad(code, ((0, 0), (0, 70 - code.shape[1])))
    month = np.array([[float(int(row["date"][4:6]) == m) for m in range(1, 13)] for row in rows])
    X = np.hstack((numbers, day, code, month))
    y = np.log(np.array([float(row["price"]) for row in rows]))
    return SupportVectorRegression(X, y, rng, 60 if quick else 300)


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def values_along(problem: Any, path: Array, every: int = 1) -> Array:
    """Exact losses along a path, for the pictures only."""
    return np.array([problem.value(theta) for theta in path[::every]])


def mean_and_error(curves: Any) -> tuple[Array, Array]:
    """Mean over replications and its standard error."""
    table = np.array(curves, dtype=float)
    error = table.std(axis=0, ddof=1) / len(table) ** 0.5 if len(table) > 1 else 0.0 * table[0]
    return table.mean(axis=0), error


def seeded(seed: int) -> dpfast.SeededNoise:
    """Reproducible noise; none of the experiments is a private release."""
    return dpfast.SeededNoise(seed)
