"""The comparison methods: exact for a huge budget, calibrated, silent about values, paid for."""

from __future__ import annotations

import json
import math
import pickle
import warnings

import numpy as np
import pytest

import dpfast
from bench.rivals import literature
from bench.rivals.literature.sensitivity import statistics_mu, symmetric_noise_bound
from tests.loops import each
from tests.watching import watched

HUGE = 3e4
BETA = np.array([1.0, -1.0, 0.5, -0.5])


def linear_data(n=800, seed=0):
    """Rows (1, z) of norm at most 2, as in appendix H.2 of Avella-Medina et al. (2023)."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-2, 2, (n, 3))
    Z *= np.minimum(1, math.sqrt(3) / np.linalg.norm(Z, axis=1))[:, None]
    return Z, BETA[0] + Z @ BETA[1:] + 0.5 * rng.normal(size=n)


def logistic_data(n=800, seed=0):
    Z, _ = linear_data(n, seed)
    t = BETA[0] + Z @ BETA[1:]
    return Z, (np.random.default_rng(seed + 1).random(n) < 1 / (1 + np.exp(-t))) * 1.0


def design(Z):
    return np.column_stack([np.ones(len(Z)), Z])


METHODS = {
    "clipping": lambda X, y, **k: literature.clipped_gradient_descent(
        X, y, "least-squares", clip=3.0,
        **{"method": dpfast.optimize.GradientDescent(steps=20)} | k,
    ),
    "ssp": lambda X, y, **k: literature.sufficient_statistics(
        X, y, x_bound=2.0, y_bound=4.0, **k
    ),
    "adassp": lambda X, y, **k: literature.adassp(X, y, x_bound=2.0, y_bound=4.0, **k),
    "output": lambda X, y, **k: literature.output_perturbation(
        X, y, dpfast.Objective("huber", scale=0.5, ridge=0.1), **k
    ),
}  # fmt: skip


def seen_by(name, X, y, **options):
    """What a method releases before its noise, at mu = .7."""
    options = {"privacy": 0.7, "noise": dpfast.SeededNoise(0)} | options
    return watched(lambda: METHODS[name](X, y, **options))


each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


# ---- a huge budget gives the exact answer --------------------------------------------------------


def test_clipped_gradient_descent_with_a_wide_clip_is_least_squares():
    X, y = linear_data()
    exact = np.linalg.lstsq(design(X), y, rcond=None)[0]
    result = literature.clipped_gradient_descent(
        X, y, "least-squares", clip=100.0, privacy=HUGE, noise=dpfast.SeededNoise(0),
        method=dpfast.optimize.GradientDescent(steps=300, step_size=0.5),
    )  # fmt: skip
    np.testing.assert_allclose(result.params, exact, atol=1e-3)
    assert result.iterates.shape == (301, 4)
    assert result.params.shape == (4,)


def test_clipped_gradient_descent_solves_the_clipped_equation():
    """Logistic, a clip that bites: the mean of the clipped gradients is zero at the result."""
    X, y = logistic_data()
    result = literature.clipped_gradient_descent(
        X, y, "logistic", clip=0.5, privacy=HUGE, noise=dpfast.SeededNoise(0),
        method=dpfast.optimize.GradientDescent(steps=400, step_size=4.0),
    )  # fmt: skip
    A = design(X)
    scores = (1 / (1 + np.exp(-A @ result.params)) - y)[:, None] * A
    norms = np.linalg.norm(scores, axis=1)
    assert np.mean(norms > 0.5) > 0.3
    clipped = scores * np.minimum(1, 0.5 / norms)[:, None]
    assert np.linalg.norm(clipped.mean(axis=0)) < 1e-4
    probabilities = result.predict(X)
    assert np.all((probabilities > 0) & (probabilities < 1))


@each("name", ["ssp", "adassp"])
@each("fit_intercept", [True, False])
def test_statistics_methods_are_least_squares_of_projected_records(name, fit_intercept):
    """A huge budget, with rows outside the declared ball and responses beyond their bound."""
    X, y = linear_data()
    X, y = X.copy(), y.copy()
    X[:100] *= 5.0
    y[50:150] *= 7.0
    room = math.sqrt(3.0) if fit_intercept else 2.0
    projected = X * np.minimum(1, room / np.linalg.norm(X, axis=1))[:, None]
    A = design(projected) if fit_intercept else projected
    exact = np.linalg.lstsq(A, np.clip(y, -4, 4), rcond=None)[0]
    result = METHODS[name](
        X, y, privacy=HUGE, noise=dpfast.SeededNoise(0), fit_intercept=fit_intercept
    )
    np.testing.assert_allclose(result.params, exact, atol=1e-4)


def test_ssp_with_a_ridge():
    X, y = linear_data()
    A, n = design(X), len(y)
    exact = np.linalg.solve(A.T @ A / n + 0.3 * np.eye(4), A.T @ np.clip(y, -4, 4) / n)
    result = METHODS["ssp"](X, y, privacy=HUGE, noise=dpfast.SeededNoise(0), ridge=0.3)
    np.testing.assert_allclose(result.params, exact, atol=1e-4)


@each("loss", ["huber", "log-cosh", "pseudo-huber", "logistic"])
@each("weights", [None, dpfast.Bounded(2.0)])
def test_output_perturbation_minimises_the_objective(loss, weights):
    X, y = logistic_data() if loss == "logistic" else linear_data()
    scale = None if loss == "logistic" else 0.5
    result = literature.output_perturbation(
        X, y, dpfast.Objective(loss, weights=weights, scale=scale, ridge=0.05), privacy=HUGE,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    exact = dpfast.nonprivate_fit(
        X, y, dpfast.Objective(loss, weights=weights, scale=scale, ridge=0.05)
    )
    np.testing.assert_allclose(result.params, exact.params, atol=1e-4)


# ---- calibration ---------------------------------------------------------------------------------


def test_noise_of_the_sufficient_statistics():
    X, y = linear_data()
    n, ratio = len(y), 2.0
    gram, moment = watched(lambda: METHODS["ssp"](X, y, privacy=0.7, noise=dpfast.SeededNoise(0)))
    mu_gram = 0.7 / statistics_mu(1.0, math.sqrt(ratio))
    assert gram.noise_scale == pytest.approx(math.sqrt(2) * 4.0 / (n * mu_gram), rel=1e-5)
    mu_moment = mu_gram * math.sqrt(ratio)
    assert moment.noise_scale == pytest.approx(2 * 2.0 * 4.0 / (n * mu_moment), rel=1e-5)
    A = design(X)
    np.testing.assert_allclose(gram.value, A.T @ A / n, rtol=0, atol=1e-14)
    np.testing.assert_allclose(moment.value, A.T @ np.clip(y, -4, 4) / n, rtol=0, atol=1e-14)


def test_noise_of_the_smallest_eigenvalue():
    X, y = linear_data()
    smallest, gram, _ = watched(
        lambda: METHODS["adassp"](
            X, y, privacy=0.7, noise=dpfast.SeededNoise(0), eigenvalue_share=0.25
        )
    )
    assert smallest.noise_scale == pytest.approx(4.0 / (len(y) * 0.35), rel=1e-5)
    assert smallest.value[0] == pytest.approx(np.linalg.eigvalsh(gram.value)[0], rel=1e-12)


def test_noise_of_output_perturbation():
    X, y = linear_data()
    (release,) = watched(lambda: METHODS["output"](X, y, privacy=0.7, noise=dpfast.SeededNoise(0)))
    bound = 1.345 * 2.0  # corner times the default radius sqrt(p)
    assert release.noise_scale == pytest.approx(2 * bound / (len(y) * 0.1 * 0.7), rel=1e-5)


def test_noise_of_clipped_gradients():
    X, y = linear_data()
    seen = watched(
        lambda: METHODS["clipping"](
            X,
            y,
            privacy=0.7,
            noise=dpfast.SeededNoise(0),
            method=dpfast.optimize.GradientDescent(steps=20, schedule="uniform"),
        )
    )
    scales = [release.noise_scale for release in seen]
    assert len(scales) == 20
    assert scales == pytest.approx([2 * 3.0 * math.sqrt(20) / (len(y) * 0.7)] * 20, rel=1e-4)


def adaptive_ridge(result):
    return float(result.method.rpartition(" ")[2])


def test_the_ridge_of_adassp_adapts():
    """None where the design is strong; where two columns are equal, what the noise needs."""
    strong = METHODS["adassp"](*linear_data(2000), privacy=2.0, noise=dpfast.SeededNoise(0))
    assert adaptive_ridge(strong) == 0.0
    X, y = linear_data(400)
    X[:, 1] = X[:, 0]
    fits = []
    seen = watched(
        lambda: fits.append(METHODS["adassp"](X, y, privacy=0.5, noise=dpfast.SeededNoise(0)))
    )
    (weak,), noise_scale = fits, seen[1].noise_scale
    level = symmetric_noise_bound(noise_scale, 4, 0.025)
    assert 0.8 * level <= adaptive_ridge(weak) <= level * (1 + 1e-3)
    assert np.linalg.norm(weak.params) < 10.0


# ---- budgets -------------------------------------------------------------------------------------


@each_method
def test_the_whole_budget_is_spent_and_no_more(method):
    X, y = linear_data(300)
    privacy = method(X, y, privacy=0.8, noise=dpfast.SeededNoise(0)).privacy
    spent = math.hypot(*(mu for _, mu in privacy.entries))
    assert 0.8 * (1 - 1e-6) <= spent <= 0.8 * (1 + 1e-15)
    assert privacy.mu == 0.8
    assert privacy.guarantee == "none (simulation)"


@each_method
@pytest.mark.parametrize(
    "budget", [dpfast.GDP(0.5), dpfast.ZCDP(0.1), dpfast.ApproxDP(1.0, 1e-6)], ids=repr
)
def test_a_shared_ledger_pays_the_total_once(method, budget):
    X, y = linear_data(100)
    ledger = dpfast.Ledger(budget)
    result = method(X, y, privacy=budget, ledger=ledger, noise=dpfast.SeededNoise(0))
    (entry,) = ledger.entries
    within = dpfast.GDP.within(budget)
    assert entry.charged == (within if ledger.keeps_apart else budget)
    assert result.privacy.mu == within.mu
    with pytest.raises(dpfast.BudgetExceeded):
        method(X, y, privacy=budget, ledger=ledger)


@each_method
def test_impossible_budgets_are_refused_before_the_ledger_pays(method):
    X, y = linear_data(100)
    ledger = dpfast.Ledger(1e300)
    for mu in (1e-9, 1e12):
        with pytest.raises(dpfast.errors.InvalidBudget):
            method(X, y, privacy=mu, ledger=ledger)
    with pytest.raises(dpfast.DpfastError):
        method(X, y, privacy=dpfast.PureDP(1.0), ledger=ledger)
    assert not ledger.entries


@each_method
def test_default_noise_is_private(method):
    X, y = linear_data(100)
    one, other = method(X, y, privacy=1.0), method(X, y, privacy=1.0)
    assert one.privacy.guarantee == "GDP"
    assert not np.array_equal(one.params, other.params)
    with pytest.raises(dpfast.InvalidInput, match="noise source"):
        method(X, y, privacy=1.0, noise=3)


# ---- values never raise, never warn --------------------------------------------------------------

EXTREMES = np.array([0.0, -0.0, 1.0, 5e-324, 1e-200, 1e200, -1e308, np.inf, -np.inf, np.nan])


@each_method
@pytest.mark.parametrize("seed", range(6))
def test_hostile_values_neither_raise_nor_warn(method, seed):
    rng = np.random.default_rng(seed)
    X = rng.choice(EXTREMES, (30, 3))
    y = rng.choice(EXTREMES, 30)
    if seed == 0:
        X[:], y[:] = np.nan, np.nan
    if seed == 1:
        X[:], y[:] = 1e308, -1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = method(X, y, privacy=1.0, noise=dpfast.SeededNoise(0))
        result.summary()
    assert np.isfinite(result.params).all()


@each_method
def test_one_record_and_many_columns(method):
    assert np.isfinite(method([[0.5, 0.1, 0.2]], [1.0], privacy=1.0).params).all()


# ---- the result ----------------------------------------------------------------------------------


@each_method
def test_the_result_is_an_ordinary_fit(method):
    X, y = linear_data(200)
    result = method(
        dpfast.records(X, y, names=["a", "b", "c"]), None, privacy=1.0, noise=dpfast.SeededNoise(1)
    )
    assert isinstance(result, dpfast.Fit)
    assert result.names == ("intercept", "a", "b", "c")
    assert result.n_records == 200
    assert not hasattr(result, "bse")
    assert json.loads(json.dumps(result.to_dict()))["names"][1] == "a"
    assert "(1-GDP)" in result.summary()
    large = method(dpfast.records(*linear_data(2000), names=["a", "b", "c"]), None, privacy=1.0)
    assert abs(len(pickle.dumps(result)) - len(pickle.dumps(large))) < 200
    assert np.array_equal(pickle.loads(pickle.dumps(result)).params, result.params)
    again = method(dpfast.records(X, y, threads=2), None, privacy=1.0, noise=dpfast.SeededNoise(1))
    assert np.array_equal(again.params, result.params)


# ---- arguments -----------------------------------------------------------------------------------


def refused(match, call):
    with pytest.raises(dpfast.InvalidInput, match=match):
        call()


def test_what_is_refused():
    X, y = linear_data(50)
    clip, ssp, ada, _ = METHODS.values()
    refused("scale is not a parameter of the least-squares loss",
            lambda: literature.clipped_gradient_descent(
                X, y, dpfast.Objective("least-squares", scale=1), clip=3.0, privacy=1,
            ))  # fmt: skip
    refused("clip|radius", lambda: literature.clipped_gradient_descent(
        X, y, "least-squares", clip=-1.0, privacy=1.0,
    ))  # fmt: skip
    refused("Did you mean 'least-squares'", lambda: literature.clipped_gradient_descent(
        X, y, loss="squared", clip=1.0, privacy=1.0))  # fmt: skip
    for name in ("x_bound", "y_bound"):
        for bad in (0.0, math.nan, "2", None):
            bounds = {"x_bound": 2.0, "y_bound": 4.0} | {name: bad}
            for method in (literature.sufficient_statistics, literature.adassp):
                refused(name, lambda m=method, b=bounds: m(X, y, privacy=1.0, **b))
    refused("no room", lambda: literature.adassp(X, y, x_bound=1.0, y_bound=1.0, privacy=1.0))
    refused("moment_ratio", lambda: ssp(X, y, privacy=1.0, moment_ratio=0.0))
    refused("eigenvalue_share", lambda: ada(X, y, privacy=1.0, eigenvalue_share=1.0))
    refused("failure", lambda: ada(X, y, privacy=1.0, failure=0.0))
    refused("no bound on one record's score", lambda: literature.output_perturbation(
        X, y, dpfast.Objective("least-squares", ridge=1.0), privacy=1.0,
    ))  # fmt: skip
    clipped = dpfast.Objective("huber", dpfast.models.Clip(1.0), scale=0.5, ridge=0.1)
    refused(
        "the gradient of a loss", lambda: literature.output_perturbation(X, y, clipped, privacy=1.0)
    )
    refused("ridge", lambda: literature.output_perturbation(
        X, y, dpfast.Objective("logistic", ridge=0.0), privacy=1.0,
    ))  # fmt: skip
    refused("too small beside", lambda: literature.output_perturbation(
        X, y, dpfast.Objective("logistic", ridge=1e-9), privacy=1.0,
    ))  # fmt: skip
    refused("steps", lambda: literature.clipped_gradient_descent(
        X, y, "least-squares", clip=1.0, privacy=1.0,
        method=dpfast.optimize.GradientDescent(steps=0),
    ))  # fmt: skip
    refused(
        "start",
        lambda: clip(
            X,
            y,
            privacy=1.0,
            method=dpfast.optimize.GradientDescent(steps=20, start=[0.0]),
        ),
    )
    refused("threads", lambda: ssp(dpfast.records(X, y, threads=0), None, privacy=1.0))
    refused("nothing to fit", lambda: ssp(np.empty((3, 0)), np.ones(3), privacy=1.0,
                                          fit_intercept=False))  # fmt: skip
