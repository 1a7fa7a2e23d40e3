"""Gamma and probit regression: against statsmodels, from every entrance, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.models import Gamma, Mallows, Probit

SLOPES = np.array([0.5, -0.3])
KINDS = {"gamma": Gamma, "probit": Probit}


def draw(name, n=6000, seed=0, offset=0.0):
    """Covariates and responses whose predictors are .2 + x'b."""
    rng = np.random.default_rng([seed, n])
    X = rng.normal(size=(n, 2))
    eta = 0.2 + X @ SLOPES + offset
    if name == "gamma":
        return X, np.exp(eta) * rng.gamma(2.0, 0.5, n)
    return X, (rng.normal(size=n) < eta) * 1.0


def exact(name, X, y, offset=None):
    api = pytest.importorskip("statsmodels.api")
    links = api.families.links
    family = {
        "gamma": lambda: api.families.Gamma(links.Log()),
        "probit": lambda: api.families.Binomial(links.Probit()),
    }[name]()
    model = api.GLM(y, api.add_constant(X), family=family, offset=offset)
    return model.fit(cov_type="HC0", tol=1e-12, use_t=False)


@pytest.mark.parametrize("name", KINDS)
def test_the_exact_fit_is_the_generalised_linear_model(name):
    """Coefficients; the errors are those of observed curvatures, which a wrong model's are, too."""
    X, y = draw(name)
    found, theirs = dpfast.nonprivate_fit(X, y, name), exact(name, X, y)
    np.testing.assert_allclose(found.params, theirs.params, atol=1e-6)
    np.testing.assert_allclose(found.bse, theirs.bse, rtol=0.05)
    o = np.random.default_rng(1).normal(size=len(y))
    X, y = draw(name, offset=o)
    found = dpfast.nonprivate_fit(dpfast.records(X, y, offset=o), None, name)
    np.testing.assert_allclose(found.params, exact(name, X, y, o).params, atol=1e-6)


def near(fit, params, most=4.5):
    assert not fit.warnings
    assert (np.abs(fit.params - params) <= most * fit.bse).all(), (fit.params, fit.bse)


@pytest.mark.parametrize("name", KINDS)
def test_a_default_fit_finds_it_in_any_units(name):
    """Odd codings of columns, and for positive responses any unit: seeded."""
    X, y = draw(name)
    odd = np.column_stack([1e6 + 0.1 * X[:, 0], 100.0 * X[:, 1]])
    fit = dpfast.fit(odd, y, name, privacy=2.0, noise=dpfast.SeededNoise(0))
    units = np.array([0.1, 100.0])
    assert (np.abs(fit.params[1:] * units - SLOPES) < 5.0 * fit.bse[1:] * units).all()
    assert (fit.bse[1:] * units < 0.04).all()
    if name == "gamma":
        for unit in (1e-9, 1e9):
            fit = dpfast.fit(X, unit * y, name, privacy=2.0, noise=dpfast.SeededNoise(1))
            near(fit, [0.2 + math.log(unit), *SLOPES])


@pytest.mark.parametrize("name", KINDS)
def test_every_entrance(name, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = draw(name)
    table = pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]})
    seeded = dpfast.SeededNoise
    plain = dpfast.fit(X, y, name, privacy=2.0, noise=seeded(0))
    near(plain, [0.2, *SLOPES])
    by_formula = dpfast.fit("y ~ a + b", table, name, privacy=2.0, noise=seeded(0))
    near(by_formula, [0.2, *SLOPES])
    assert by_formula.names == ("intercept", "a", "b")
    table.to_parquet(tmp_path / "t.parquet")
    source = dpfast.open_parquet(tmp_path / "t.parquet", response="y", covariates=["a", "b"])
    near(dpfast.fit(source, None, name, privacy=2.0, noise=seeded(0)), [0.2, *SLOPES])
    rng = np.random.default_rng(3)
    weight = rng.choice([0.5, 1.0], len(y))
    weighed = dpfast.records(X, y, sample_weight=weight, largest_weight=1.0)
    near(dpfast.fit(weighed, None, name, privacy=2.0, noise=seeded(0)), [0.2, *SLOPES])
    o = rng.normal(size=len(y))
    X, y = draw(name, offset=o)
    shifted = dpfast.records(X, y, offset=o)
    near(dpfast.fit(shifted, None, name, privacy=2.0, noise=seeded(0)), [0.2, *SLOPES])
    X, y = draw(name, 12_000)
    for options in ({"each": "person"}, {"group_size": 2}):
        persons = dpfast.records(X, y, group=np.arange(len(y)) // 2, **options)
        near(dpfast.fit(persons, None, name, privacy=2.0, noise=seeded(0)), [0.2, *SLOPES])


@pytest.mark.parametrize("name", KINDS)
def test_results_speak_of_means(name):
    X, y = draw(name)
    fit = dpfast.fit(X, y, name, privacy=2.0, noise=dpfast.SeededNoise(0))
    line = fit.params[0] + X[:5] @ fit.params[1:]
    mean = KINDS[name]._means(line)[0]
    np.testing.assert_allclose(fit.predict(X[:5]), mean, rtol=1e-6)
    ends = fit.predict_interval(X[:5])
    assert (ends[:, 0] < mean).all() and (mean < ends[:, 1]).all()
    h, (once, twice) = 1e-5, fit._mean_slopes(line)
    far = [KINDS[name]._means(line + k * h)[0] for k in (-1, 0, 1)]
    np.testing.assert_allclose((far[2] - far[0]) / (2 * h), once, rtol=1e-6)
    np.testing.assert_allclose((far[2] - 2 * far[1] + far[0]) / h**2, twice, atol=1e-4)
    assert KINDS[name].__name__ in fit.model
    assert KINDS[name].estimates[1:] in fit.methods_text()
    few = dpfast.fit(X[:150], y[:150], name, privacy=0.5, noise=dpfast.SeededNoise(0))
    assert "mean of the response alone" in few.model


@pytest.mark.parametrize("name", KINDS)
def test_it_comes_back_from_a_file(name, tmp_path):
    X, y = draw(name)
    fit = dpfast.fit(X, y, name, privacy=2.0, noise=dpfast.SeededNoise(0))
    dpfast.saved.save(fit, tmp_path / "fit.json")
    again = dpfast.saved.load(tmp_path / "fit.json")
    assert np.array_equal(again.predict(X[:5]), fit.predict(X[:5]))


@pytest.mark.parametrize("name", KINDS)
def test_a_plan_is_near_what_comes(name):
    """Within 30% of the median width of 9 fits, of normal covariates as in the plan's pilot."""
    n, p, widths = 8000, 3, []
    planned = dpfast.plan(n=n, p=p, privacy=1.0, loss=name)
    for seed in range(9):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, p - 1))
        y = rng.exponential(size=n) if name == "gamma" else (rng.random(n) < 0.5) * 1.0
        fit = dpfast.fit(X, y, name, privacy=1.0, noise=dpfast.SeededNoise(seed))
        widths.append(np.ptp(fit.conf_int(), axis=1)[1:].max())
    assert planned.width == pytest.approx(np.median(widths), rel=0.3)


@pytest.mark.parametrize("name", KINDS)
def test_what_cannot_be_is_refused_before_anything_is_spent(name):
    X, y = draw(name, 500)
    ledger = dpfast.Ledger(1.0)
    for terms, options in (
        ({"weights": Mallows(2.0)}, {}), ({"ridge": 0.1}, {}), ({}, {"method": "newton"})
    ):  # fmt: skip
        loss = dpfast.Objective(name, **terms) if terms else name
        with pytest.raises(InvalidInput, match=f"not an option of {name}"):
            dpfast.fit(X, y, loss, privacy=1.0, ledger=ledger, **options)
    with pytest.raises(InvalidInput, match="scale is not a parameter"):
        dpfast.fit(X, y, dpfast.Objective(name, scale=1.0), privacy=1.0, ledger=ledger)
    with pytest.raises(InvalidInput, match="no bound on one record's score"):
        dpfast.minimize(X, y, name, privacy=1.0, ledger=ledger)
    assert ledger.spent.mu == 0.0


def test_the_message_for_a_loss_that_is_none_knows_them():
    X, y = draw("gamma", 200)
    for typed, meant in {
        "gama": "gamma",
        "costs": "gamma",
        "probits": "probit",
        "normit": "probit",
    }.items():
        with pytest.raises(InvalidInput, match=meant):
            dpfast.fit(X, y, typed, privacy=1.0)
