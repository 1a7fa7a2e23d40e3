"""Whole calls seen from outside: a classifier of results tells neighbours no better than paid.

Nothing is known of a call but its numbers.  A linear rule of these numbers and of their squares is
fitted to some runs, and others certify how well it tells two data sets apart.  What it certifies is
a lower bound of mu, below what was paid but with a probability of 1e-6.  With noise of a quarter of
its scale each call is caught, so that the classifier sees what a call gives away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import SeededNoise
from dpfast.audit import lower_bound
from tests.audit import calls

MU = 3.0
N = 400
RNG = np.random.default_rng(41)
X, Y = RNG.uniform(-1.0, 1.0, (N, 2)), RNG.normal(size=N)
TRAINING, RUNS = 150, 500
SCHEMA = dpfast.Schema(
    {
        "x": dpfast.Numeric(-1.0, 1.0),
        "y": dpfast.Numeric(-3.0, 3.0),
        "g": dpfast.Categorical(["a", "b"]),
    }
)


class Weak(SeededNoise):
    """Noise of a quarter of its scale."""

    def normals(self, size, bits):
        return np.floor(0.25 * super().normals(size, bits)).astype(np.int64)

    def discrete_laplace(self, size, numerator, denominator):
        return super().discrete_laplace(size, 4 * numerator, denominator)


def with_record(x: Any, y: float) -> tuple[Any, Any]:
    changed = X.copy(), Y.copy()
    changed[0][0], changed[1][0] = x, y
    return changed


def table(data: tuple[Any, Any]) -> dict[str, Any]:
    x, y = data
    return {"x": x[:, 0], "y": y, "g": np.where(x[:, 1] > 0.0, "a", "b")}


def fit(loss: str, response: Callable[[Any], Any] = lambda y: y, **options: Any) -> Any:
    def call(data, noise):
        found = dpfast.fit(data[0], response(data[1]), loss, privacy=MU, noise=noise, **options)
        return np.concatenate([found.params, np.nan_to_num(found.bse)])

    return call


def of_table(question: Callable[..., Any], *asked: Any) -> Any:
    def call(data, noise):
        found = question(table(data), *asked, privacy=MU, noise=noise, schema=SCHEMA)
        return np.nan_to_num(np.concatenate([found.counts.ravel(), np.ravel(found.mean)]))

    return call


def trial(data, noise):
    x, y = data
    given = {"propensity": 0.5, "method": "difference", "privacy": MU, "noise": noise}
    found = dpfast.effects.treatment_effect(x, (x[:, 1] > 0.0) * 1.0, y, **given)
    return np.nan_to_num([found.estimate, found.bse, found.clip, *found.overlap])


def units(data, noise):
    found = dpfast.standardize(*data, privacy=MU, noise=noise)
    return np.nan_to_num(np.log(np.abs(np.concatenate([found.centres, found.spreads])) + 1e-9))


def levels(data, noise):
    """The half of a range with the median of six, six and one record."""
    x = np.concatenate([data[1][:1], np.repeat([-1.0, 1.0], 6)])
    own = {"low": -3.0, "high": 3.0, "steps": 1, "privacy": MU, "noise": noise}
    return dpfast.private_quantiles(x, (0.5,), **own)


def minimum(data, noise):
    asked = dpfast.Objective("tukey", scale=1.0, weights=dpfast.Mallows(1.5))
    steps = dpfast.papers.NoisyDescent(steps=3)
    return dpfast.minimize(*data, asked, privacy=MU, noise=noise, method=steps).params


def choice(data, noise):
    """The choice of two candidates of which one record has all of the loss."""
    own = {"loss_range": (0.0, 1.0), "privacy": MU, "n_records": 1, "noise": noise}
    found = dpfast.bayesopt.private_choice(lambda c: [float(data[1][0] * c > 0)], [-1, 1], **own)
    return np.array([float(found)])


FAR = with_record([1.0, 1.0], 40.0), with_record([-1.0, -1.0], 40.0)
OPPOSITE = with_record([1.0, 1.0], 3.0), with_record([1.0, -1.0], -3.0)
GRADIENT = dpfast.Objective("huber", weights=dpfast.Mallows(1.5), scale=1.0)
CALLS = {
    "means": (of_table(dpfast.tables.means, ["x", "y"], "g"), OPPOSITE),
    "counts": (of_table(dpfast.tables.counts, "g"), OPPOSITE),
    "least squares": (fit("least-squares"), FAR),
    "log-cosh": (fit("log-cosh"), FAR),
    "logistic": (fit("logistic", lambda y: (y > 0.0).astype(float)), FAR),
    "counts, fitted": (fit("poisson", lambda y: np.floor(np.abs(y))), FAR),
    "treatment effect": (trial, FAR),
    "units": (units, FAR),
    "quantiles": (levels, OPPOSITE),
    "minimize": (minimum, OPPOSITE),
    "choice": (choice, OPPOSITE),
    "gradient descent": (fit(GRADIENT, method=dpfast.optimize.GradientDescent(steps=4)), FAR),
}


#: Public packages that answer questions about records, and a call of each.  Certificates promise
#: pairs (epsilon, delta): tests/release tells neighbours apart under these.
FAMILIES = {
    "bayesopt": "choice", "effects": "treatment effect", "nonconvex": "minimize",
    "quantiles": "quantiles", "regression": "least squares", "scaling": "units", "tables": "means",
}  # fmt: skip
WITH_PAIRS = {"release"}


def rule(call: Any, pair: Any, noise: SeededNoise) -> Callable[[Any], float]:
    """Fit Fisher's discriminant to numbers and their squares, on runs of its own."""
    off, on = (np.array([call(data, noise) for _ in range(TRAINING)]) for data in pair)
    both = np.concatenate([off, on])
    centre, scale = np.median(both, axis=0), both.std(axis=0) + 1e-300

    def features(numbers: Any) -> Any:
        z = np.clip((numbers - centre) / scale, -4.0, 4.0)
        return np.concatenate([z, z * z], axis=-1)

    a, b = features(off), features(on)
    inside = np.concatenate([a - a.mean(0), b - b.mean(0)])
    ridge = inside.T @ inside / len(inside) + 0.05 * np.eye(a.shape[1])
    direction = np.linalg.solve(ridge, b.mean(0) - a.mean(0))
    return lambda numbers: float(features(numbers) @ direction)


def certified(name: str, noise: SeededNoise) -> float:
    call, pair = CALLS[name]
    statistic = rule(call, pair, noise)
    bound = lower_bound(lambda data: call(data, noise), pair, RUNS, statistic=statistic)
    return bound.mu


def test_every_family_of_public_calls_is_seen_from_outside():
    packages = {example.name.split(".")[1] for example in calls.examples()}
    assert packages - WITH_PAIRS - {"curator"} == set(FAMILIES)
    assert set(FAMILIES.values()) <= set(CALLS)


QUICK = {"counts"}
EVERY = [pytest.param(c, marks=[] if c in QUICK else [pytest.mark.slow]) for c in CALLS]


@pytest.mark.parametrize("name", EVERY)
def test_a_whole_call_gives_away_no_more_than_was_paid(name):
    assert certified(name, SeededNoise(11)) <= MU


@pytest.mark.parametrize("name", EVERY)
def test_a_whole_call_with_a_quarter_of_its_noise_is_caught(name):
    assert certified(name, Weak(12)) > MU
