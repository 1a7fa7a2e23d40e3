"""``fit_sparse``: a few of many columns, selected privately, and intervals by double selection."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.regression import fit_sparse
from tests.loops import each

N, Q = 6000, 120
TRUE = {"x8": 0.5, "x31": -0.4, "x77": 0.3}


def simulated(seed=0, n=N):
    """Return correlated columns, and the linear predictor of three of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, Q))
    for j in range(1, Q):
        X[:, j] = 0.5 * X[:, j - 1] + 0.75**0.5 * X[:, j]
    line = sum(value * X[:, int(name[1:]) - 1] for name, value in TRUE.items())
    return X, line, rng


def selected(loss="least-squares", y=None, X=None, **options):
    options = {"privacy": 2.0, "n_nonzero_coefs": 3, "noise": dpfast.SeededNoise(1)} | options
    return fit_sparse(X, y, loss, **options)


@each(
    ("loss", "respond"),
    [
        ("least-squares", lambda line, rng: 5.0 + line + rng.normal(size=N)),
        ("log-cosh", lambda line, rng: 5.0 + line + rng.standard_t(1.5, size=N)),
        ("logistic", lambda line, rng: (rng.random(N) < 1.0 / (1.0 + np.exp(-2.0 * line))) * 1.0),
        ("poisson", lambda line, rng: rng.poisson(np.exp(line)) * 1.0),
    ],
    ids=["least squares", "log-cosh", "logistic", "poisson"],
)
def test_the_columns_that_matter_are_selected(loss, respond):
    X, line, rng = simulated()
    fit = selected(loss, respond(line, rng), X)
    assert {*fit.names[1:]} == {*TRUE}
    unit = 2.0 if loss == "logistic" else 1.0
    for name, value in TRUE.items():
        assert abs(fit.params[name] / unit - value) < 0.12


def test_units_of_columns_are_estimated():
    X, line, rng = simulated()
    units = 10.0 ** rng.uniform(-6.0, 6.0, size=Q)
    fit = selected("least-squares", 1e4 * (line + rng.normal(size=N)), 7.0 * units + units * X)
    assert {*fit.names[1:]} == {*TRUE}
    assert 0.3e4 < fit.params["x8"] * units[7] < 0.7e4


def test_only_coefficients_of_interest_have_intervals():
    X, line, rng = simulated()
    fit = selected(y=line + rng.normal(size=N), X=X, of_interest=["x9", "x31"])
    assert fit.names[:3] == ("intercept", "x9", "x31")
    assert {"x8", "x77"} <= {*fit.names}
    known = np.isfinite(fit.bse)
    assert known.tolist() == [False, True, True] + [False] * (len(fit.names) - 3)
    assert "x9, x31" in str(fit.summary()) and "nan" in str(fit.summary())


def test_without_them_there_is_no_covariance():
    X, line, rng = simulated()
    fit = selected(y=line + rng.normal(size=N), X=X)
    with pytest.raises(dpfast.DpfastError, match="name coefficients in of_interest"):
        fit.bse  # noqa: B018


@pytest.mark.slow
def test_intervals_cover_beside_columns_that_are_missed():
    """Neighbours of effects too small to find bias a single selection by 4 standard errors.

    120 intervals that cover .95: fewer than 103 cover once in 1e5.
    """
    covered, near = 0, {"x60": 0.03, "x62": 0.03}
    for seed in range(60):
        X, line, rng = simulated(seed, 20_000)
        line = line + sum(value * X[:, int(name[1:]) - 1] for name, value in near.items())
        y = line + rng.normal(size=20_000)
        options = {"of_interest": ["x61", "x31"], "noise": dpfast.SeededNoise(seed)}
        intervals = selected(y=y, X=X, privacy=1.0, standardize=False, **options).conf_int()
        covered += intervals["x61"][0] <= 0.0 <= intervals["x61"][1]
        covered += intervals["x31"][0] <= TRUE["x31"] <= intervals["x31"][1]
    assert covered >= 103


def test_predictions_read_all_columns_or_those_selected(tmp_path):
    X, line, rng = simulated()
    fit = selected(y=line + rng.normal(size=N), X=X)
    places = [int(name[1:]) - 1 for name in fit.names[1:]]
    assert (fit.predict(X[:9]) == fit.predict(X[:9][:, places])).all()
    assert np.corrcoef(fit.predict(X), line)[0, 1] > 0.98
    dpfast.saved.save(fit, tmp_path / "fit.json")
    assert (dpfast.saved.load(tmp_path / "fit.json").predict(X[:9]) == fit.predict(X[:9])).all()


def test_a_table_has_names_and_is_read_by_them():
    X, line, rng = simulated()
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=[f"gene {j + 1}" for j in range(Q)])
    fit = selected(y=line + rng.normal(size=N), X=table)
    assert {*fit.names[1:]} == {f"gene {name[1:]}" for name in TRUE}
    assert np.corrcoef(fit.predict(table), line)[0, 1] > 0.98


def test_what_is_missing_counts_as_the_centre_in_a_score():
    X, line, rng = simulated()
    y = line + rng.normal(size=N)
    X[rng.random(X.shape) < 0.02] = np.nan
    fit = selected(y=y, X=X, standardize=False)
    assert {*fit.names[1:]} == {*TRUE}


def test_too_few_complete_records_end_the_call():
    X, line, _ = simulated()
    X[:, 0] = np.nan
    with pytest.warns(dpfast.errors.ResultWarning):
        fit = selected(y=line, X=X)
    assert np.isnan(fit.params).all() and "stopped" in fit.method


@each("small", [{"privacy": 0.05}, {"n_nonzero_coefs": 59}])
def test_too_little_for_so_many_columns_is_refused(small):
    X, line, _ = simulated()
    ledger = dpfast.Ledger(2.0)
    with pytest.raises(dpfast.DpfastError):
        selected(y=line, X=X, ledger=ledger, **small)
    assert not ledger.entries


@each(
    ("wrong", "said"),
    [
        ({"of_interest": ["x131"]}, "names of columns"),
        ({"of_interest": "x1"}, "must be a list"),
        ({"n_nonzero_coefs": 0}, "n_nonzero_coefs"),
        ({"n_nonzero_coefs": 70}, "at most 60"),
        ({"loss": dpfast.Quantile(0.3)}, "mean"),
        ({"loss": dpfast.Objective("log-cosh", ridge=0.1)}, "mean"),
        ({"X": dpfast.records(np.ones((9, 2)), np.ones(9), group=np.arange(9))}, "memory"),
    ],
)
def test_what_it_does_not_take_is_refused_with_the_remedy(wrong, said):
    X, line, _ = simulated()
    given = {"X": X, "y": line} | wrong
    if "X" in wrong:
        given["y"] = None
    with pytest.raises(dpfast.InvalidInput, match=said):
        selected(**given)
