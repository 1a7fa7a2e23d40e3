"""Fourteen problems with user gradients, seen while defaults were chosen on others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.figures.paper2.problems import Problem
from dpfast.arguments import Array
from dpfast.nonconvex import PerRecordObjective

Parts = Callable[[Array, Array, Array], Array]


def _problem(
    name: str, X: Array, y: Array, start: Array, losses: Parts, gradients: Parts, constants: Array
) -> Problem:
    lipschitz, smoothness = constants
    objective = PerRecordObjective(
        gradients, dimension=len(start), lipschitz=float(lipschitz), smoothness=float(smoothness),
        losses=losses, name=name, vectorized=True,
    )  # fmt: skip
    return Problem(name, X, y, objective, start)


def logistic(
    name: str, rng: np.random.Generator, n: int, q: int, *, shift: float, spread: float,
    ridge: float = 0.0, concave: float = 0.0,
) -> Problem:  # fmt: skip
    """Logistic regression; columns' scales span ``spread``; a ridge, or a concave penalty."""
    scales = np.geomspace(1.0, 1.0 / spread, q)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, q)) * scales])
    truth = np.append(shift, rng.choice([-1.0, 1.0], size=q) / np.sqrt(q) / scales)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ truth))).astype(float)
    longest = float(np.linalg.norm(X, axis=1).max())

    def losses(theta: Array, X: Array, y: Array) -> Array:
        pull = 0.5 * ridge * theta @ theta + concave * np.sum(theta**2 / (1.0 + theta**2))
        return np.logaddexp(0.0, X @ theta) - y * (X @ theta) + pull

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        slope = 0.5 * (1.0 + np.tanh(0.5 * (X @ theta))) - y
        pull = ridge * theta + concave * 2.0 * theta / (1.0 + theta**2) ** 2
        return slope[:, None] * X + pull

    bounds = np.array([longest + 1.0, 0.25 * longest**2 + ridge + 2.0 * concave])
    return _problem(name, X, y, np.zeros(q + 1), losses, gradients, bounds)


def network(
    name: str, rng: np.random.Generator, n: int, q: int, hidden: int, *, label: bool
) -> Problem:
    """One hidden layer of tanh, with biases: squared errors, or log loss of a label."""
    X = rng.normal(size=(n, q))
    raw = np.tanh(1.5 * X[:, 0] - X[:, -1]) + 0.5 * np.tanh(X[:, 0] * 2.0 + 0.5)
    y = raw + 0.2 * rng.normal(size=n)
    if label:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * raw))).astype(float)
    inner = hidden * (q + 1)

    def forward(theta: Array, X: Array) -> tuple[Array, Array, Array]:
        W, v = theta[:inner].reshape(hidden, q + 1), theta[inner:]
        units = np.tanh(X @ W[:, :q].T + W[:, q])
        return units, v, units @ v

    def losses(theta: Array, X: Array, y: Array) -> Array:
        out = forward(theta, X)[2]
        return np.logaddexp(0.0, out) - y * out if label else 0.5 * (out - y) ** 2

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        units, v, out = forward(theta, X)
        error = 0.5 * (1.0 + np.tanh(0.5 * out)) - y if label else out - y
        back = error[:, None] * v * (1.0 - units**2)
        inner_rows = back[:, :, None] * np.column_stack([X, np.ones(len(X))])[:, None, :]
        return np.column_stack([inner_rows.reshape(len(X), -1), error[:, None] * units])

    start = 0.7 * rng.normal(size=inner + hidden)
    return _problem(name, X, y, start, losses, gradients, np.array([6.0, 8.0]))


def sensing(rng: np.random.Generator, n: int, d: int) -> Problem:
    """Rank-one matrix sensing: ``((a'w)(b'w) - y)^2 / 2``."""
    X = rng.normal(size=(n, 2 * d)) / d**0.5
    truth = rng.normal(size=d)
    truth /= np.linalg.norm(truth)
    y = (X[:, :d] @ truth) * (X[:, d:] @ truth) + 0.05 * rng.normal(size=n)

    def parts(theta: Array, X: Array) -> tuple[Array, Array]:
        return X[:, :d] @ theta, X[:, d:] @ theta

    def losses(theta: Array, X: Array, y: Array) -> Array:
        a, b = parts(theta, X)
        return 0.5 * (a * b - y) ** 2

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        a, b = parts(theta, X)
        return (a * b - y)[:, None] * (b[:, None] * X[:, :d] + a[:, None] * X[:, d:])

    start = 0.5 * truth + 0.5 * rng.normal(size=d) / d**0.5
    return _problem("matrix sensing", X, y, start, losses, gradients, np.array([4.0, 6.0]))


def mixture(rng: np.random.Generator, n: int, d: int) -> Problem:
    """Likelihood of two normal clusters at m + s and m - s, parameters (m, s)."""
    centre, half = rng.normal(size=d), np.full(d, 1.2)
    sign = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = centre + sign[:, None] * half + rng.normal(size=(n, d))

    def parts(theta: Array, X: Array) -> tuple[Array, Array, Array]:
        r, s = X - theta[:d], theta[d:]
        return r, s, r @ s

    def losses(theta: Array, X: Array, y: Array) -> Array:
        r, s, t = parts(theta, X)
        return 0.5 * np.einsum("ij,ij->i", r, r) + 0.5 * s @ s - np.logaddexp(t, -t)

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        r, s, t = parts(theta, X)
        lean = np.tanh(t)[:, None]
        return np.column_stack([lean * s - r, s - lean * r])

    start = np.concatenate([np.zeros(d), np.full(d, 0.3)])
    return _problem("mixture", X, np.zeros(n), start, losses, gradients, np.array([8.0, 4.0]))


def with_scale(name: str, rng: np.random.Generator, n: int, q: int, *, heavy: bool) -> Problem:
    """Regression with its log scale: normal, or Student errors with four degrees of freedom."""
    X = np.column_stack([np.ones(n), rng.normal(size=(n, q))])
    truth = np.append(2.0, rng.choice([-1.0, 1.0], size=q))
    y = X @ truth + 0.4 * (rng.standard_t(4, size=n) if heavy else rng.normal(size=n))

    def losses(theta: Array, X: Array, y: Array) -> Array:
        r, s = (y - X @ theta[:-1]) * np.exp(-theta[-1]), theta[-1]
        return s + (2.5 * np.log1p(r * r / 4.0) if heavy else 0.5 * r * r)

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        inverse = np.exp(-theta[-1])
        r = (y - X @ theta[:-1]) * inverse
        psi = 5.0 * r / (4.0 + r * r) if heavy else r
        return np.column_stack([-(psi * inverse)[:, None] * X, 1.0 - psi * r])

    bounds = np.array([20.0, 20.0])
    return _problem(name, X, y, np.zeros(q + 2), losses, gradients, bounds)


def independent(rng: np.random.Generator, n: int, d: int) -> Problem:
    """One direction of independent components: ``-log cosh(x'w) + ||w||^4 / 4``, whitened rows."""
    S = rng.laplace(size=(n, d)) / 2**0.5
    S[:, 1:] = rng.normal(size=(n, d - 1))
    X = S @ np.linalg.qr(rng.normal(size=(d, d)))[0]

    def losses(theta: Array, X: Array, y: Array) -> Array:
        t = X @ theta
        return 0.25 * (theta @ theta) ** 2 - (np.logaddexp(t, -t) - np.log(2.0))

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        return (theta @ theta) * theta - np.tanh(X @ theta)[:, None] * X

    start = rng.normal(size=d)
    start *= 0.3 / np.linalg.norm(start)
    return _problem("ICA", X, np.zeros(n), start, losses, gradients, np.array([6.0, 6.0]))


def robust(name: str, rng: np.random.Generator, n: int, q: int, spread: float) -> Problem:
    """Cauchy regression on columns whose scales span ``spread``, 15% outliers."""
    X = np.column_stack([np.ones(n), rng.normal(size=(n, q)) * np.geomspace(1.0, 1.0 / spread, q)])
    truth = np.append(1.0, rng.choice([-1.0, 1.0], size=q) * np.geomspace(1.0, spread, q))
    y = X @ truth + 0.7 * rng.normal(size=n)
    bad = rng.random(n) < 0.15
    y[bad] = 12.0 + 3.0 * rng.normal(size=int(bad.sum()))

    def losses(theta: Array, X: Array, y: Array) -> Array:
        return np.log1p((y - X @ theta) ** 2)

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        r = y - X @ theta
        return -(2.0 * r / (1.0 + r * r))[:, None] * X

    longest = float(np.linalg.norm(X, axis=1).max())
    bounds = np.array([longest, 2.0 * longest**2])
    return _problem(name, X, y, np.zeros(q + 1), losses, gradients, bounds)


def fourteen(rng_of: Callable[[str], np.random.Generator], n: int) -> list[Problem]:
    """The problems, each from a generator of its own."""
    return [
        logistic("logistic, 5% ones", rng_of("rare"), n, 5, shift=-3.5, spread=1.0),
        logistic("logistic, columns 1 to .1", rng_of("spread"), n, 6, shift=-1.0, spread=10.0),
        logistic("logistic, ridge", rng_of("ridge"), n, 10, shift=0.5, spread=2.0, ridge=0.02),
        logistic(
            "logistic, concave penalty", rng_of("concave"), n, 8, shift=0.0, spread=1.0,
            concave=0.02,
        ),
        network("network, 15 parameters", rng_of("net"), n, 3, 3, label=False),
        network("network, labels", rng_of("labels"), n, 2, 4, label=True),
        network("network, 48 parameters", rng_of("wide"), n, 4, 8, label=False),
        sensing(rng_of("sensing"), n, 6),
        mixture(rng_of("mixture"), n, 3),
        with_scale("normal, log scale", rng_of("normal"), n, 3, heavy=False),
        with_scale("Student, log scale", rng_of("student"), n, 4, heavy=True),
        independent(rng_of("ica"), n, 5),
        robust("Cauchy", rng_of("cauchy"), n, 4, spread=1.0),
        robust("Cauchy, columns 1 to .1", rng_of("far"), n, 4, spread=10.0),
    ]  # fmt: skip
