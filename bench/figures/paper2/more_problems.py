"""Six more problems, which nobody had tuned anything to, beside the six of the comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.figures.paper2.examples import phase_retrieval
from bench.figures.paper2.problems import Problem, radial, regression_objective, six
from dpfast.models import GemanMcClure
from dpfast.nonconvex import PerRecordObjective

Array = NDArray[np.float64]


def heavy_rows(rng: np.random.Generator, n: int, q: int) -> Problem:
    """Geman-McClure regression on covariates with three degrees of freedom, 10% outliers."""
    X = rng.standard_t(3, size=(n, q))
    y = X @ rng.choice([-0.6, 0.6], size=q) + rng.normal(size=n)
    bad = rng.random(n) < 0.1
    y[bad] = -8.0 + rng.normal(size=int(bad.sum()))
    p = q + 1
    objective = regression_objective(GemanMcClure(), p**0.5, p)
    return Problem("Geman-McClure, heavy rows", X, y, objective, np.zeros(p))


def classification(rng: np.random.Generator, n: int, q: int, *, squared: bool) -> Problem:
    """Sigmoid loss ``s(-m)`` of the margin m, or Brier's ``s(-m)^2 / 2``: 10% of labels flipped."""
    X = rng.normal(size=(n, q)) / q**0.5
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    label = np.where(X @ (3.0 * rng.choice([-1.0, 1.0], size=q)) > 0.0, 1.0, -1.0)
    label[rng.random(n) < 0.1] *= -1.0

    def wrong(theta: Array, X: Array, y: Array) -> Array:
        return 1.0 / (1.0 + np.exp(np.clip(y * (X @ theta), -700.0, 700.0)))

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        s = wrong(theta, X, y)
        slope = s * (1.0 - s) * (s if squared else 1.0)
        return -(y * slope)[:, None] * X + 0.01 * theta

    def losses(theta: Array, X: Array, y: Array) -> Array:
        s = wrong(theta, X, y)
        return (0.5 * s * s if squared else s) + 0.005 * float(theta @ theta)

    objective = PerRecordObjective(
        gradients, dimension=q, lipschitz=0.5, smoothness=0.3, losses=losses,
        name="brier" if squared else "sigmoid", vectorized=True,
    )  # fmt: skip
    name = "Brier score" if squared else "sigmoid loss"
    return Problem(name, X, label, objective, np.zeros(q))


def mode(rng: np.random.Generator, n: int, d: int) -> Problem:
    """The mode of two clusters: ``1 - exp(-||x - w||^2 / (2 s^2))`` with s = 2."""
    X = rng.normal(size=(n, d))
    X[rng.random(n) < 0.3] += 4.0
    width = 2.0

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        r = theta - X
        weight = np.exp(-0.5 * np.einsum("ij,ij->i", r, r) / width**2)
        return weight[:, None] * r / width**2

    def losses(theta: Array, X: Array, y: Array) -> Array:
        r = theta - X
        return 1.0 - np.exp(-0.5 * np.einsum("ij,ij->i", r, r) / width**2)

    objective = PerRecordObjective(
        gradients, dimension=d, lipschitz=np.exp(-0.5) / width, smoothness=1.0 / width**2,
        losses=losses, name="mode", vectorized=True,
    )  # fmt: skip
    return Problem("mode of two clusters", X, np.zeros(n), objective, np.full(d, -1.5))


def component(rng: np.random.Generator, n: int, d: int) -> Problem:
    """The first principal component: ``||w||^4/4 - (x'w)^2/2`` for rows of the unit ball."""
    X = rng.normal(size=(n, d)) * np.linspace(1.0, 0.3, d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) / 1.5)[:, None] * 1.5

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        return -(X @ theta)[:, None] * X + float(theta @ theta) * theta

    def losses(theta: Array, X: Array, y: Array) -> Array:
        return 0.25 * float(theta @ theta) ** 2 - 0.5 * (X @ theta) ** 2

    # for ||w|| <= 1, where the minimisers are
    objective = PerRecordObjective(
        gradients, dimension=d, lipschitz=2.0, smoothness=4.0, losses=losses,
        name="component", vectorized=True,
    )  # fmt: skip
    start = rng.normal(size=d)
    return Problem(
        "principal component", X, np.zeros(n), objective, 0.3 * start / np.linalg.norm(start)
    )


def far_phase(rng: np.random.Generator, n: int, d: int) -> Problem:
    """Phase retrieval from a start without any knowledge of the answer."""
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    truth = rng.normal(size=d)
    truth *= 0.9 / np.linalg.norm(truth)
    start = rng.normal(size=d)
    start *= 0.5 / np.linalg.norm(start)
    return Problem(
        "phase retrieval, far", X, np.abs(X @ truth), phase_retrieval(d, radius=1.0), start
    )


def twelve(rng_of: Callable[[str], np.random.Generator], n: int) -> list[Problem]:
    """The six problems of the comparison and six more."""
    flat = radial(3.0, rng_of("radial 3"), n)
    return [
        *six(rng_of, n),
        flat,
        heavy_rows(rng_of("heavy"), n, 4),
        classification(rng_of("sigmoid"), n, 5, squared=False),
        classification(rng_of("brier"), n, 8, squared=True),
        mode(rng_of("mode"), n, 4),
        component(rng_of("component"), n, 6),
    ]
