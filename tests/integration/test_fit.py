"""``dpfast.fit`` from arrays to table: options, refusals, hostile values, determinism."""

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import dpfast
from dpfast.errors import InferenceUnavailable
from tests.loops import each

LOSSES = ["huber", "log-cosh", "pseudo-huber", "logistic"]


def simulate(loss, n=2000, q=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q))
    t = 0.5 + X @ np.linspace(1.0, -0.5, q)
    if loss == "logistic":
        return X, (rng.random(n) < 1 / (1 + np.exp(-t))).astype(float)
    return X, t + rng.normal(size=n)


def objective(loss, weights=None):
    return dpfast.Objective(loss, weights, scale=None if loss == "logistic" else 1.0)


@each("loss", LOSSES)
@each(
    "method",
    [dpfast.optimize.Newton(steps=30), dpfast.optimize.GradientDescent(steps=400)],
    ids=repr,
)
def test_large_budget_recovers_the_exact_fit(loss, method):
    X, y = simulate(loss)
    exact = dpfast.nonprivate_fit(X, y, objective(loss, dpfast.Mallows(math.sqrt(1 + X.shape[1]))))
    fit = dpfast.fit(
        X,
        y,
        objective(loss),
        privacy=1e5,
        method=method,
        noise=dpfast.SeededNoise(1),
        standardize=False,
    )
    np.testing.assert_allclose(fit.params, exact.params, atol=2e-3)
    np.testing.assert_allclose(fit.bse, exact.bse, rtol=2e-2)
    assert fit.warnings == ()


@each("loss", LOSSES)
def test_nonprivate_fit_is_stationary(loss):
    X, y = simulate(loss)
    fit = dpfast.nonprivate_fit(X, y, objective(loss, dpfast.Mallows(100.0)))
    A = np.column_stack([np.ones(len(X)), X])
    model = dpfast.Logistic() if loss == "logistic" else dpfast.models.resolve_loss(loss)
    t = A @ fit.params
    score = model.psi(t) - y if loss == "logistic" else -model.psi(y - t)
    np.testing.assert_allclose(A.T @ score / len(y), 0, atol=1e-9)


@pytest.mark.parametrize("averaged", [0.0, 0.5])
def test_gradient_descent_settings(averaged):
    X, y = simulate("huber")
    method = dpfast.optimize.GradientDescent(step_size=0.2, average=averaged)
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective("huber", scale=1.0),
        privacy=2.0,
        method=method,
        noise=dpfast.SeededNoise(0),
    )
    assert fit.iterates.shape == (101, 4)
    if averaged:
        np.testing.assert_allclose(fit.params, fit.iterates[-50:].mean(axis=0))
    else:
        np.testing.assert_array_equal(fit.params, fit.iterates[-1])


def test_clipping_is_available_without_inference_only():
    X, y = simulate("logistic")
    clipped = objective("logistic", dpfast.models.Clip(1.0))
    arguments = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    with pytest.raises(dpfast.InvalidInput, match="no sandwich"):
        dpfast.fit(X, y, clipped, **arguments)
    fit = dpfast.fit(X, y, clipped, inference=False, **arguments)
    with pytest.raises(InferenceUnavailable, match="inference=True"):
        fit.bse  # noqa: B018
    assert not hasattr(fit, "bse")
    assert "No standard errors were estimated" in fit.summary()


@each("inference", [True, False])
@each("loss", LOSSES)
def test_the_total_is_the_total(loss, inference):
    X, y = simulate(loss)
    fit = dpfast.fit(
        X, y, objective(loss), privacy=1.5, inference=inference, noise=dpfast.SeededNoise(0)
    )
    assert fit.privacy.mu == 1.5
    spent = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert 1.5**2 * (1 - 1e-7) <= spent <= 1.5**2
    assert any("meat" in label for label, _ in fit.privacy.entries) == inference


def test_budget_types_and_equivalents():
    X, y = simulate("logistic")
    fit = dpfast.fit(X, y, "logistic", privacy=dpfast.ApproxDP(1.0, 1e-5))
    assert fit.privacy.guarantee == "GDP"
    assert fit.privacy.mu == pytest.approx(0.268051, rel=1e-5)
    assert fit.privacy.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
    (_, first), (_, second) = fit.privacy.equivalents()
    assert first == 1 / 2000**2 and second == 1e-6


def test_seeded_noise_carries_no_guarantee():
    X, y = simulate("logistic")
    fit = dpfast.fit(X, y, "logistic", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert fit.privacy.guarantee == "none (simulation)"
    assert "none (simulation)" in fit.summary()
    again = dpfast.fit(X, y, "logistic", privacy=1.0, noise=dpfast.SeededNoise(0))
    np.testing.assert_array_equal(fit.params, again.params)
    genuine = dpfast.fit(X, y, "logistic", privacy=1.0)
    assert not np.array_equal(genuine.params, fit.params)


@each("bad", [0, -1, math.nan, math.inf, "1", None, True])
def test_bad_budgets_are_refused_before_the_data_are_touched(bad):
    with pytest.raises(dpfast.errors.InvalidBudget):
        dpfast.fit(object(), object(), "logistic", privacy=bad)


@each(
    ("change", "message"),
    [
        ({"loss": "huber", "standardize": False, "method": "newton"}, "needs scale"),
        ({"method": "adam"}, "method"),
        ({"noise": np.random.default_rng(0)}, "noise"),
        ({"method": dpfast.optimize.Newton(start=[0.0])}, "start"),
        ({"method": dpfast.optimize.GradientDescent(start=[0.0] * 5)}, "start"),
    ],
)
def test_bad_options_are_refused_before_any_spend(change, message):
    X, y = simulate("huber")
    ledger = dpfast.Ledger(1.0)
    arguments = {"loss": objective("huber"), "privacy": 1.0, "ledger": ledger, **change}
    with pytest.raises(dpfast.InvalidInput, match=message):
        dpfast.fit(X, y, **arguments)
    assert not ledger.entries


@each(("wrong", "message"), [({"threads": 0}, "threads"), ({"names": ["a"]}, "names")])
def test_bad_records_are_refused_before_any_spend(wrong, message):
    X, y = simulate("huber")
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(dpfast.InvalidInput, match=message):
        dpfast.fit(
            dpfast.records(X, y, **wrong), None, objective("huber"), privacy=1.0, ledger=ledger
        )
    assert not ledger.entries


@each(("wrong", "message"), [({"ridge": -1.0}, "ridge"), ({"weights": "mallows"}, "weights")])
def test_bad_objectives_are_refused_where_they_are_made(wrong, message):
    with pytest.raises(dpfast.InvalidInput, match=message):
        dpfast.Objective("huber", scale=1.0, **wrong)


@pytest.mark.parametrize("mu", [1e-7, 1e12])
def test_impossible_budgets_are_refused_before_any_spend(mu):
    X, y = simulate("huber")
    ledger = dpfast.Ledger(1e13)
    with pytest.raises(dpfast.errors.InvalidBudget):
        dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0), privacy=mu, ledger=ledger)
    assert not ledger.entries


def test_more_coefficients_than_records_needs_a_ridge():
    X, y = simulate("huber", n=5, q=6)
    with pytest.raises(dpfast.InvalidInput, match="ridge"):
        dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0), privacy=1.0)
    fit = dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0, ridge=1.0), privacy=1.0)
    assert np.isfinite(fit.params).all()


def test_shared_ledger_is_charged_once_and_refuses():
    X, y = simulate("logistic")
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    dpfast.fit(X, y, "logistic", privacy=0.6, ledger=ledger)
    dpfast.fit(X, y, "logistic", privacy=0.79, ledger=ledger)
    assert len(ledger.entries) == 2
    with pytest.raises(dpfast.BudgetExceeded):
        dpfast.fit(X, y, "logistic", privacy=0.2, ledger=ledger)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_threads_and_layout(loss, order):
    X, y = simulate(loss, n=30_000)
    fits = [
        dpfast.fit(
            dpfast.records(np.array(X, order=order), y, threads=threads),
            None,
            objective(loss),
            privacy=1.0,
            noise=dpfast.SeededNoise(5),
        )
        for threads in (1, 2, None)
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.params, fits[0].params)
        np.testing.assert_array_equal(other.bse, fits[0].bse)


def test_pickle_size_does_not_depend_on_n():
    sizes = []
    for n in (1000, 20_000):
        X, y = simulate("huber", n=n)
        fit = dpfast.fit(
            X, y, dpfast.Objective("huber", scale=1.0), privacy=1.0, noise=dpfast.SeededNoise(0)
        )
        payload = pickle.dumps(fit)
        sizes.append(len(payload))
        copy = pickle.loads(payload)
        np.testing.assert_array_equal(copy.params, fit.params)
        assert copy.summary() == fit.summary()
    # the decimal length of n in a label, and a step or two more: not 19,000 records
    assert abs(sizes[0] - sizes[1]) < 512


HOSTILE = st.sampled_from([0.0, -0.0, 1.0, 5e-324, 1e-200, 1e160, -1e308, np.inf, -np.inf, np.nan])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), min_size=3, max_size=30),
    loss=st.sampled_from(LOSSES),
    method=st.sampled_from(
        [dpfast.optimize.Newton(steps=5), dpfast.optimize.GradientDescent(steps=5)]
    ),
)
def test_no_value_raises_or_warns(rows, loss, method):
    data = np.array(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dpfast.fit(
            data[:, :2],
            data[:, 2],
            objective(loss),
            privacy=1.0,
            method=method,
            noise=dpfast.SeededNoise(0),
            standardize=False,
        )
        assert np.isfinite(fit.params).all()
        assert np.isfinite(fit.cov_params()).all()
        fit.summary()


def test_names_reach_the_summary():
    X, y = simulate("huber")
    fit = dpfast.fit(
        dpfast.records(X, y, names=["age", "dose", "sex"]),
        None,
        dpfast.Objective("huber", scale=1.0),
        privacy=1.0,
    )
    assert fit.names == ("intercept", "age", "dose", "sex")
    for name in fit.names:
        assert name in fit.summary()
    assert max(map(len, fit.summary().splitlines())) <= 79


def test_conf_int_and_p_values():
    X, y = simulate("huber")
    fit = dpfast.fit(
        X, y, dpfast.Objective("huber", scale=1.0), privacy=1.0, noise=dpfast.SeededNoise(0)
    )
    interval = fit.conf_int(0.9)
    assert interval.shape == (4, 2)
    np.testing.assert_allclose(interval.mean(axis=1), fit.params)
    np.testing.assert_allclose(
        np.diff(interval)[:, 0] / 2, stats.t.ppf(0.95, fit.degrees_of_freedom) * fit.bse
    )
    np.testing.assert_allclose(fit.bse**2, np.diag(fit.cov_params()))
    assert ((fit.pvalues >= 0) & (fit.pvalues <= 1)).all()
    with pytest.raises(dpfast.InvalidInput, match="level"):
        fit.conf_int(1.0)
    np.testing.assert_array_equal(fit.conf_int(np.array(0.9)), interval)
    with pytest.raises(dpfast.InvalidInput, match="level must be a number"):
        fit.conf_int("0.9")


def test_unfinished_optimisation_is_reported():
    X, y = simulate("huber")
    slow = dpfast.optimize.GradientDescent(step_size=1e-3)
    fit = dpfast.fit(
        X,
        y + 5.0,
        dpfast.Objective("huber", scale=1.0),
        privacy=5.0,
        method=slow,
        noise=dpfast.SeededNoise(0),
    )
    assert any("had not finished" in warning for warning in fit.warnings)


def test_hidden_curvature_is_reported():
    X, y = simulate("huber", n=50)
    fit = dpfast.fit(
        X, y, dpfast.Objective("huber", scale=1.0), privacy=0.05, noise=dpfast.SeededNoise(0)
    )
    assert any("Hessian is too noisy" in warning for warning in fit.warnings)


def test_progress_is_called_once_per_step():
    X, y = simulate("huber")
    seen = []
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective("huber", scale=1.0),
        privacy=1.0,
        method=dpfast.optimize.Newton(steps=9),
        progress=lambda *step: seen.append(step),
    )
    n_steps = len(fit.iterates) - 1
    assert seen == [(k, n_steps) for k in range(n_steps + 1)]


def test_predict():
    X, y = simulate("logistic")
    fit = dpfast.fit(X, y, "logistic", privacy=1.0, noise=dpfast.SeededNoise(0))
    probability = fit.predict(X[:5])
    expected = 1 / (1 + np.exp(-(fit.params[0] + X[:5] @ fit.params[1:])))
    np.testing.assert_allclose(probability, expected)
    with pytest.raises(dpfast.InvalidInput, match="shape"):
        fit.predict(X[:5, :2])


@each("loss", ["tukey", "geman-mcclure", "welsch", "cauchy"])
def test_redescending_losses_have_no_hessian_and_the_error_says_why(loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=4000)
    y[:400] = 1e6  # gross outliers lose all influence
    for wrong in ({"inference": True}, {"inference": False, "method": "newton"}):
        with pytest.raises(dpfast.InvalidInput, match=f"{loss} loss is redescending"):
            dpfast.fit(X, y, dpfast.Objective(loss, scale=1.0), privacy=2.0, **wrong)
    with pytest.raises(dpfast.InvalidInput, match="redescending"):
        dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, scale=1.0))
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective(loss, scale=1.0),
        privacy=2.0,
        inference=False,
        noise=dpfast.SeededNoise(0),
    )
    assert np.abs(fit.params - [0.0, 1.0, -1.0]).max() < 0.2
