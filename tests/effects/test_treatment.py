"""Treatment effects: what is estimated, what is refused before anything is spent, what is told."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import dpfast
from bench.effects import doubly_robust
from dpfast.effects import nuisances, treatment, treatment_effect
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from tests.flat import flat
from tests.loops import each

QUIET = dpfast.SeededNoise


def study(n=4000, seed=0, effect=2.0, slope=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    T = (rng.random(n) < 1.0 / (1.0 + np.exp(-slope * X[:, 0]))).astype(float)
    return X, T, X @ [1.0, -0.5] + effect * T + rng.normal(size=n)


def test_at_a_large_budget_it_is_the_estimator_without_privacy():
    X, T, y = study(20_000)
    found = treatment_effect(X, T, y, privacy=200.0, noise=QUIET(0))
    estimate, error = doubly_robust(X, T, y)
    assert abs(found.estimate - estimate) < 0.3 * error  # other folds
    assert found.bse == pytest.approx(error, rel=0.03)
    assert not found.warnings
    assert found.degrees_of_freedom > 1e4


@pytest.mark.parametrize("units", [(1.0, 0.0, 1.0), (1e-3, 50.0, 1e5), (1e6, -2e7, 1e-4)])
def test_it_follows_the_units_of_the_columns(units):
    spread, shift, outcome = units
    X, T, y = study()
    plain = treatment_effect(X, T, y, privacy=2.0, noise=QUIET(1))
    other = treatment_effect(
        shift + spread * X, T, 7.0 * outcome + outcome * y, privacy=2.0, noise=QUIET(1)
    )
    assert other.estimate / outcome == pytest.approx(plain.estimate, abs=1.5 * plain.bse)
    assert other.bse / outcome == pytest.approx(plain.bse, rel=0.15)
    low, high = other.conf_int(0.999)
    assert low < 2.0 * outcome < high


@pytest.mark.parametrize("method", ["aipw", "regression", "difference"])
def test_randomised_treatment_every_method(method):
    X, T, y = study(slope=0.0)
    found = treatment_effect(X, T, y, privacy=2.0, method=method, noise=QUIET(0))
    assert abs(found.estimate - 2.0) < 4.0 * found.bse
    errors = {"aipw": 0.035, "regression": 0.035, "difference": 0.05}
    assert found.bse == pytest.approx(errors[method], rel=0.15)
    assert method != "difference" or "randomised" in found.method


def test_a_schema_declares_the_units():
    X, T, y = study()
    schema = dpfast.Schema({
        "a": dpfast.Numeric(-4, 4, unit=1), "b": dpfast.Numeric(-4, 4, unit=1),
        "y": dpfast.Numeric(-10, 10, centre=1, unit=1.7),
    })  # fmt: skip
    design = schema.encode({"a": X[:, 0], "b": X[:, 1], "y": y}, response="y")
    found = treatment_effect(design, T, None, privacy=1.0, noise=QUIET(0))
    assert abs(found.estimate - 2.0) < 4.0 * found.bse
    assert not any("counts" in label for label, _ in found.privacy.entries)  # nothing bought
    with pytest.raises(InvalidInput, match="nothing to standardise"):
        treatment_effect(design, T, None, privacy=1.0, standardize=True)


def test_tables_and_lists():
    pandas = pytest.importorskip("pandas")
    X, T, y = study(1500)
    table = pandas.DataFrame(X, columns=["a", "b"])
    plain = treatment_effect(X, T, y, privacy=2.0, noise=QUIET(0))
    for kind in (T.tolist(), T.astype(bool), pandas.Series(T), T.astype(np.int8)):
        same = treatment_effect(table, kind, pandas.Series(y), privacy=2.0, noise=QUIET(0))
        assert same.estimate == pytest.approx(plain.estimate, rel=1e-9)
    with pytest.raises(InvalidInput, match="index"):
        treatment_effect(table, pandas.Series(T, index=np.arange(1, 1501)), y, privacy=2.0)


def test_missing_records_are_left_out_of_the_mean_and_of_the_interval():
    X, T, y = study(8000)
    rng = np.random.default_rng(5)
    whole = treatment_effect(X, T, y, privacy=5.0, noise=QUIET(0))
    y = np.where(rng.random(8000) < 0.5, np.nan, y)
    half = treatment_effect(X, T, y, privacy=5.0, noise=QUIET(0))
    assert abs(half.estimate - 2.0) < 4.0 * half.bse
    assert half.bse == pytest.approx(2.0**0.5 * whole.bse, rel=0.1)
    assert sum(half.overlap) == pytest.approx(0.5, abs=0.03)


@each(
    "wrong",
    [
        {"method": "ipw"}, {"method": None}, {"overlap": 0.0}, {"overlap": 0.5}, {"overlap": "a"},
        {"clip": 0.0}, {"clip": -1.0}, {"clip": np.inf}, {"standardize": "no"}, {"privacy": -1.0},
        {"treatment": np.zeros(5)}, {"treatment": np.zeros((400, 1))}, {"treatment": None},
        {"treatment": "T"}, {"threads": 0}, {"y": np.zeros(3)}, {"noise": 3}, {"ledger": 1.0},
        {"privacy": 1e-12}, {"privacy": 1e-3}, {"privacy": 1e200},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_refused_is_refused_before_the_charge(wrong):
    X, T, y = study(400)
    ledger = dpfast.Ledger(1e250)
    given = {"X": X, "treatment": T, "y": y, "privacy": 1.0, "ledger": ledger} | wrong
    with pytest.raises((InvalidInput, InvalidBudget)):
        flat(treatment_effect)(**given)
    assert ledger.spent.mu == 0.0


def test_a_ledger_that_cannot_pay_refuses_first():
    X, T, y = study(400)
    ledger = dpfast.Ledger(0.5)
    with pytest.raises(BudgetExceeded):
        treatment_effect(X, T, y, privacy=1.0, ledger=ledger)
    assert ledger.spent.mu == 0.0


def test_records_on_disk_are_refused_by_name(tmp_path):
    path = str(tmp_path / "t.parquet")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table
    X, T, y = study(50)
    parquet.write_table(table({"a": X[:, 0], "y": y}), path)
    records = dpfast.open_parquet(path, covariates=["a"], response="y")
    with pytest.raises(InvalidInput, match="in memory"):
        treatment_effect(records, T, None, privacy=1.0)


def test_poor_overlap_and_a_clip_that_bites_are_told():
    X, T, y = study(20_000, slope=3.0)
    found = treatment_effect(X, T, y, privacy=2.0, noise=QUIET(0))
    assert any("overlap is poor" in told for told in found.warnings)
    X, T, y = study(20_000)
    found = treatment_effect(X, T, y, privacy=2.0, clip=2.0, noise=QUIET(0))
    assert any("clipped often" in told for told in found.warnings)
    assert found.clip == pytest.approx(2.0)
    assert "Warning: " in found.summary()
    fine = treatment_effect(X, T, y, privacy=2.0, noise=QUIET(0))
    assert not fine.warnings
    assert "too small" in fine.summary()


def test_the_result_is_public_and_small():
    X, T, y = study()
    found = treatment_effect(X, T, y, privacy=1.0, noise=QUIET(0))
    assert json.loads(json.dumps(found.to_dict()))["n_records"] == 4000
    again = pickle.loads(pickle.dumps(found))
    assert again.summary() == found.summary()
    assert len(pickle.dumps(found)) < 8000
    assert found.zvalue == pytest.approx(found.estimate / found.bse)
    assert found.pvalue < 1e-6
    low, high = found.conf_int(0.9)
    wide = found.conf_int(alpha=0.01)
    assert wide[0] < low < found.estimate < high < wide[1]
    assert found.noise < found.bse
    assert max(map(len, found.summary().splitlines())) <= 79


def test_threads_change_nothing():
    X, T, y = study(3000)
    one, two = (
        treatment_effect(
            dpfast.records(X, y, threads=k), T, None, privacy=1.0, noise=QUIET(7)
        ).estimate
        for k in (1, 2)
    )
    assert one == two


def covering(n, runs, mu, **options):
    """Shares of covering intervals, and the mean width over that without privacy."""
    covered, widths = [], []
    for seed in range(runs):
        X, T, y = study(n, seed, effect=1.0)
        found = flat(treatment_effect)(X, T, y, privacy=mu, noise=QUIET(seed), **options)
        low, high = found.conf_int()
        covered.append(low <= 1.0 <= high)
        widths.append((high - low) / (2.0 * 1.96 * doubly_robust(X, T, y)[1]))
    return np.mean(covered), np.mean(widths)


@pytest.mark.slow
def test_intervals_cover_and_are_hardly_wider_than_without_privacy():
    """The sentinel of ``python -m bench.effects``: 300 runs; 93 to 97% up to their own noise."""
    share, width = covering(5000, 300, 1.0)
    assert 0.905 <= share <= 0.985
    assert width <= 1.1


def test_the_variance_of_both_nuisances_errors_together_is_what_they_leave(monkeypatch):
    """In the mean of the other fold, over 80 folds, three in ten treated; units are declared.

    The mean square is .78 of what is allowed for, with a standard error of .2: 1.7 is exceeded with
    a probability of about 1e-6.  At propensities of one half, of rows held to a radius, it was 2.4,
    with one of .5.
    """
    seen = []

    def recorded(*arguments):
        seen.append(nuisances.fold_nuisance(*arguments))
        return seen[-1]

    monkeypatch.setattr(treatment, "fold_nuisance", recorded)
    X = np.random.default_rng(9).normal(size=(4000, 2))
    Z = np.column_stack([np.ones(4000), X])
    e = 1.0 / (1.0 + np.exp(0.85 - 0.3 * X[:, 0]))
    control = X @ [0.4, 0.4]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        own = rng.normal(size=(2000, 2))
        T = (rng.random(2000) < 1.0 / (1.0 + np.exp(0.85 - 0.3 * own[:, 0]))).astype(float)
        y = own @ [0.4, 0.4] + 0.8 * T + 0.8 * rng.normal(size=2000)
        treatment_effect(own, T, y, privacy=0.6, standardize=False, noise=QUIET(seed))
    left, allowed = [], []
    for nuisance, product in seen:
        found = np.clip(1.0 / (1.0 + np.exp(-Z @ nuisance.propensity)), 0.05, 0.95)
        m0, m1 = Z @ nuisance.arms.T[:, 0], Z @ nuisance.arms.T[:, 1]
        treated = m1 + e / found * (control + 0.8 - m1)
        left.append(np.mean(treated - m0 - (1.0 - e) / (1.0 - found) * (control - m0)) - 0.8)
        allowed.append(product)
    ratio = np.mean(np.square(left)) / np.mean(allowed)
    assert 0.2 < ratio < 1.7
