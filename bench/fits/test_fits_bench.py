"""Whole private fits, intervals included, against non-private fits of the same data.

The reference libraries are the `bench` extra; a row whose library is missing is skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from bench.harness import compare, is_quick

N, P = (100_000, 20) if is_quick() else (1_000_000, 20)


def covariates(n: int, p: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(20)
    X = rng.normal(size=(n, p))
    return X, 0.5 + X @ np.linspace(-0.5, 0.5, p), rng


@pytest.fixture(scope="module")
def logistic_data() -> tuple[np.ndarray, np.ndarray]:
    X, t, rng = covariates(N, P)
    return X, (rng.random(N) < 1.0 / (1.0 + np.exp(-t))).astype(np.float64)


@pytest.fixture(scope="module")
def linear_data() -> tuple[np.ndarray, np.ndarray]:
    X, t, rng = covariates(N, P)
    return X, t + rng.standard_t(4, size=N)


def private_logistic(X: np.ndarray, y: np.ndarray) -> dpfast.Fit:
    return dpfast.fit(
        X,
        y,
        dpfast.Objective("logistic", weights=dpfast.Mallows(6.0)),
        privacy=1.0,
        method="newton",
    )


def private_robust(X: np.ndarray, y: np.ndarray) -> dpfast.Fit:
    return dpfast.fit(
        X,
        y,
        dpfast.Objective("log-cosh", weights=dpfast.Mallows(6.0), scale=1.2),
        privacy=1.0,
        method="newton",
    )


def standard_errors_off(params: np.ndarray, fit: dpfast.Fit) -> float:
    """Largest distance from the peer's estimate in private standard errors.

    The targets differ a little (weights, sigma, loss), so a few standard errors are expected.
    """
    return float(np.max(np.abs(params - fit.params) / fit.bse))


@pytest.mark.parametrize(
    ("case", "target", "library"),
    [
        ("private logistic, Newton | sklearn LogisticRegression", 2, "sklearn.linear_model"),
        ("private logistic, Newton | statsmodels GLM", 20, "statsmodels.api"),
        ("private log-cosh, Newton | statsmodels RLM", 20, "statsmodels.api"),
    ],
)
def test_against_a_peer(benchmark, case, target, library, logistic_data, linear_data):
    """Private fits with intervals against non-private fits; one run, alternating."""
    peer_module = pytest.importorskip(library)
    X, y = logistic_data if "logistic" in case else linear_data
    private = private_logistic if "logistic" in case else private_robust
    estimates = []

    def peer() -> None:
        if "sklearn" in case:
            fitted = peer_module.LogisticRegression().fit(X, y)
            estimates.append(np.r_[fitted.intercept_, fitted.coef_[0]])
            return
        design = peer_module.add_constant(X)
        if "GLM" in case:
            model = peer_module.GLM(y, design, family=peer_module.families.Binomial())
        else:
            model = peer_module.RLM(y, design, M=peer_module.robust.norms.HuberT())
        estimates.append(model.fit().params)

    medians = compare(
        benchmark,
        lambda: private(X, y),
        case=case,
        n=N,
        p=P,
        reference=peer,
        rounds=1 if "RLM" in case else 3,  # RLM takes half a minute
        limit=f"{target}x target",
    )
    benchmark.extra_info.update(
        fraction=medians["reference"] / medians["function"] / target,
        accuracy=f"{standard_errors_off(estimates[-1], private(X, y)):.1f} se",
    )


def test_latency_of_a_small_fit(benchmark):
    X, t, rng = covariates(1000, 4)
    y = t + rng.normal(size=1000)
    seeds = iter(range(10**9))

    def small_fit() -> dpfast.Fit:
        return dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=1.0,
            method=dpfast.optimize.Newton(steps=10),
            noise=dpfast.SeededNoise(next(seeds)),
        )

    medians = compare(
        benchmark,
        small_fit,
        case="small private fit, K=10, with intervals, seeded noise",
        n=1000,
        p=5,
        rounds=15,
        limit="1 ms target",
    )
    benchmark.extra_info["fraction"] = medians["function"] / 1e-3
