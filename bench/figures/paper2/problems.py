"""Problems with known minima: where the algorithms of paper 2 are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dpfast
from bench.figures.paper2.examples import one_hidden_layer, phase_retrieval
from dpfast.arguments import Array
from dpfast.models import Cauchy, Loss, TukeyBiweight, Welsch
from dpfast.nonconvex import KL, PerRecordObjective
from dpfast.regression.nonprivate import nonprivate_curator, nonprivate_descent


@dataclass
class Problem:
    """Records, an objective with enforced constants, a public start and the minimum it leads to."""

    name: str
    X: Array
    y: Array
    objective: PerRecordObjective
    start: Array
    kl: KL | None = None
    excess_of: Callable[[Array], float] | None = None
    lowest: float = field(default=float("nan"))

    @property
    def n(self) -> int:
        return len(self.y)

    def minimised(self, rho: float, seed: int, method: Any = None, kl: KL | None = None) -> Any:
        """Minimise with seeded noise at so much of zero-concentrated DP."""
        options: dict[str, Any] = {} if method is None else {"method": method}
        return dpfast.minimize(
            self.X, self.y, self.objective, privacy=dpfast.ZCDP(rho), kl=kl or self.kl,
            start=list(self.start), noise=dpfast.SeededNoise(seed), **options,
        )  # fmt: skip

    def excess(self, theta: Array) -> float:
        """Mean loss above that of the (local) minimum."""
        if self.excess_of is not None:
            return self.excess_of(theta)
        assert self.objective.losses is not None
        if np.isnan(self.lowest):
            curator, start = nonprivate_curator(
                self.X, self.y, self.objective, start=list(self.start)
            )
            best = nonprivate_descent(curator, start)[-1]
            self.lowest = float(np.mean(self.objective.losses(best, self.X, self.y)))
        value = float(np.mean(self.objective.losses(theta, self.X, self.y)))
        return max(value - self.lowest, 1e-12)


def radial(kappa: float, rng: np.random.Generator, n: int = 1000, d: int = 5) -> Problem:
    """``||w||^tau / tau - <x_i, w>`` with records in opposite pairs: F is ``||w||^tau / tau``.

    ``tau = kappa/(kappa - 1)``, so that F has exactly this kappa, with ``gamma^kappa = 1/tau``.
    """
    tau = kappa / (kappa - 1.0)
    half = rng.normal(size=(n // 2, d))
    half *= 0.5 / np.linalg.norm(half, axis=1)[:, None]
    X = np.vstack([half, -half])

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        size = np.linalg.norm(theta)
        return X + (theta * size ** (tau - 2.0) if size > 0.0 else 0.0)

    start = rng.normal(size=d)
    start *= 0.8 / np.linalg.norm(start)
    return Problem(
        f"radial, kappa = {kappa:.3g}",
        X,
        np.zeros(n),
        PerRecordObjective(
            gradients,
            dimension=d,
            lipschitz=1.5,
            smoothness=max(tau - 1.0, 1.0),
            name="radial",
            vectorized=True,
        ),
        start,
        KL(tau ** (-1.0 / kappa), kappa),
        lambda theta: float(np.linalg.norm(theta) ** tau / tau),
    )


def regression_objective(loss: Loss, radius: float, p: int) -> PerRecordObjective:
    """A redescending regression with an intercept and Mallows weights, in plain NumPy."""

    def parts(theta: Array, X: Array, y: Array) -> tuple[Array, Array, Array]:
        rows = np.column_stack([np.ones(len(X)), X])
        weights = np.minimum(1.0, radius**2 / np.einsum("ij,ij->i", rows, rows))
        return rows, weights, y - rows @ theta

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        rows, weights, r = parts(theta, X, y)
        return -(weights * loss.psi(r))[:, None] * rows

    def losses(theta: Array, X: Array, y: Array) -> Array:
        _, weights, r = parts(theta, X, y)
        return weights * loss.loss(r)

    return PerRecordObjective(
        gradients,
        dimension=p,
        lipschitz=loss.psi_bound * radius,
        smoothness=loss.psi_prime_bound * radius**2,
        losses=losses,
        name=loss.name,
        vectorized=True,
    )


def regression(
    name: str, loss: Loss, rng: np.random.Generator, *, n: int, q: int, outliers: float, rho: float
) -> Problem:
    """Correlated normal covariates (AR(1), correlation rho) and a share of gross outliers."""
    Z = rng.normal(size=(n, q))
    X = Z.copy()
    for j in range(1, q):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho * rho) * Z[:, j]
    y = 0.5 + X @ (0.8 * rng.choice([-1.0, 1.0], size=q)) + rng.normal(size=n)
    bad = rng.random(n) < outliers
    y[bad] = 15.0 + 5.0 * rng.normal(size=int(bad.sum()))
    p = q + 1
    return Problem(name, X, y, regression_objective(loss, p**0.5, p), np.zeros(p))


def phase(rng: np.random.Generator, n: int, d: int) -> Problem:
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    truth = rng.normal(size=d)
    truth *= 0.9 / np.linalg.norm(truth)
    start = truth + 0.6 * rng.normal(size=d) / d**0.5
    return Problem("phase retrieval", X, np.abs(X @ truth), phase_retrieval(d, radius=1.0), start)


def network(rng: np.random.Generator, n: int) -> Problem:
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    y = np.tanh(2.0 * X[:, 0] - X[:, 1]) - np.tanh(X[:, 0] + 2.0 * X[:, 1] - 0.5)
    y += 0.1 * rng.normal(size=n)
    hidden = 6  # more units than the two that made the data
    start = 0.7 * rng.normal(size=hidden * 4)
    objective = one_hidden_layer(2, hidden, radius=1.5, lipschitz=1.5, smoothness=3.0)
    return Problem("one hidden layer", X, y, objective, start)


def six(rng_of: Callable[[str], np.random.Generator], n: int) -> list[Problem]:
    """The problems of the comparison."""
    return [
        radial(4.0 / 3.0, rng_of("radial"), n),
        regression(
            "Tukey, 20% outliers", TukeyBiweight(), rng_of("tukey"), n=n, q=5, outliers=0.2, rho=0.0
        ),
        regression(
            "Welsch, correlated", Welsch(), rng_of("welsch"), n=n, q=5, outliers=0.1, rho=0.7
        ),
        regression(
            "Cauchy, 30% outliers", Cauchy(), rng_of("cauchy"), n=n, q=8, outliers=0.3, rho=0.3
        ),
        phase(rng_of("phase"), n, 5),
        network(rng_of("network"), n),
    ]
