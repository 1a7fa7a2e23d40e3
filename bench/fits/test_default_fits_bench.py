"""Fits with nothing declared, intervals included, on one thread in CPU time, against peers.

Each is compared with what its user would call instead, in one run; "fraction" is the target of the
case over its time, above 1 where it is met.  "Raw units" is the same table with columns of any
size about any centre.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import dpfast
from bench.harness import compare, is_quick

SIZES = [(1_000, 4), (10_000, 10)] if is_quick() else [
    (1_000, 4), (10_000, 10), (100_000, 10), (1_000_000, 20)
]  # fmt: skip

#: Seconds that a fit is to take, by the number of records; of a quantile, and of an effect.
TARGETS = {1_000: 1.5e-3, 10_000: 4.5e-3, 100_000: 15e-3, 1_000_000: 150e-3}
OF_QUANTILES, OF_EFFECTS = {**TARGETS, 1_000_000: 250e-3}, {100_000: 40e-3}

#: What takes longer than a second is a peer at these sizes only.
SLOW, MOST_OF_SLOW = ("QuantReg", "RLM"), 10_000


@pytest.fixture(autouse=True)
def one_thread():
    """Of every library: threads that wait for a peer's next call would count as the fit's."""
    limits = pytest.importorskip("threadpoolctl").threadpool_limits
    with limits(1):
        yield


LOSSES: dict[str, Any] = {
    "least-squares": "least-squares",
    "log-cosh": "log-cosh",
    "logistic": "logistic",
    "poisson": "poisson",
    "quantile": dpfast.Quantile(0.5),
}
PEERS = {
    "least-squares": "OLS with HC1",
    "log-cosh": "RLM",
    "logistic": "LogisticRegression",
    "poisson": "PoissonRegressor",
    "quantile": "QuantReg",
}


def table(n: int, p: int, loss: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n, p))
    t = X @ np.linspace(-0.25, 0.25, p)
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(np.float64)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.5 + 0.5 * t)).astype(np.float64)
    return X, t + rng.standard_t(4, size=n)


def peer_of(loss: str, X: np.ndarray, y: np.ndarray) -> Any:
    """A call of the peer, or None where it is not installed or would take too long."""
    name = PEERS[loss]
    if name in SLOW and len(y) > MOST_OF_SLOW:
        return None
    if name in ("LogisticRegression", "PoissonRegressor"):
        module = pytest.importorskip("sklearn.linear_model")
        return lambda: getattr(module, name)().fit(X, y)
    module = pytest.importorskip("statsmodels.api")
    if name == "QuantReg":
        return lambda: module.QuantReg(y, module.add_constant(X)).fit(0.5)
    if name == "RLM":
        return lambda: module.RLM(y, module.add_constant(X)).fit()
    return lambda: module.OLS(y, module.add_constant(X)).fit(cov_type="HC1")


def measured(
    benchmark: Any, call: Any, case: str, n: int, p: int, target: float, peer: Any
) -> None:
    for _ in range(2):  # what is loaded and remembered is not the fit's
        call()
    medians = compare(
        benchmark, call, case=case, n=n, p=p, reference=peer, rounds=5 if n > 100_000 else 15,
        clock=time.process_time, limit=f"{1e3 * target:g} ms target",
    )  # fmt: skip
    benchmark.extra_info["fraction"] = target / medians["function"]


@pytest.mark.parametrize("units", ["standardised", "raw units"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("n", "p"), SIZES)
def test_nothing_declared(benchmark, n, p, loss, units):
    X, y = table(n, p, loss)
    peer = peer_of(loss, X, y) if units == "standardised" else None
    if units == "raw units":
        X = X * np.logspace(-6, 6, p) + np.logspace(-3, 9, p)
    target = (OF_QUANTILES if loss == "quantile" else TARGETS)[n]

    def fit() -> dpfast.Fit:
        return dpfast.fit(dpfast.records(X, y, threads=1), None, LOSSES[loss], privacy=1.0)

    measured(benchmark, fit, f"{loss}, {units} | {PEERS[loss]}", n, p, target, peer)


@pytest.mark.parametrize(("n", "p"), SIZES[:3])
def test_persons(benchmark, n, p):
    """Two rows of each person, who counts once."""
    X, y = table(n, p, "logistic")
    group = np.repeat(np.arange(n // 2), 2)

    def fit() -> dpfast.Fit:
        return dpfast.fit(
            dpfast.records(X, y, threads=1, group=group, each="person"),
            None,
            "logistic",
            privacy=1.0,
        )

    measured(benchmark, fit, "logistic, persons", n, p, TARGETS[n], None)


@pytest.mark.parametrize(("n", "p"), [(100_000, 10)] if not is_quick() else [(10_000, 10)])
def test_effect(benchmark, n, p):
    X, treated = table(n, p, "logistic")
    y = treated + table(n, p, "least-squares")[1]

    def fit() -> Any:
        return dpfast.effects.treatment_effect(
            dpfast.records(X, y, threads=1), treated, None, privacy=1.0
        )

    measured(benchmark, fit, "effect", n, p, OF_EFFECTS.get(n, TARGETS[n]), None)


@pytest.mark.parametrize("many", ["fit_many", "a loop"])
def test_many_responses(benchmark, many):
    """Fits of one design of 500 x 3, each with a response of its own, and as many calls of OLS."""
    count = 50
    X, _ = table(500, 3, "least-squares")
    Y = X.sum(axis=1)[:, None] + np.random.default_rng(1).normal(size=(500, count))
    peer = pytest.importorskip("statsmodels.api")
    Z = peer.add_constant(X)

    def fits() -> Any:
        if many == "fit_many":
            return dpfast.fit_many(dpfast.records(X, threads=1), Y, privacy_each=1.0)
        return [dpfast.fit(dpfast.records(X, y, threads=1), privacy=1.0) for y in Y.T.copy()]

    def loop() -> Any:
        return [peer.OLS(y, Z).fit(cov_type="HC1").bse for y in Y.T.copy()]

    measured(benchmark, fits, f"{count} least squares, {many} | OLS", 500, 3, 5e-4 * count, loop)
