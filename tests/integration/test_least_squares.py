"""``fit(..., "least-squares")``: near ordinary least squares, with intervals that cover or warn."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from tests.loops import each
from tests.stops import stopped


def records(n, seed, p=4, degrees=5):
    """Correlated covariates of scale 1, residuals of Student's law: R^2 about a half."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    X = (common + rng.normal(size=(n, p))) / np.sqrt(2.0)
    beta = np.linspace(-0.4, 0.5, p)
    noise = rng.standard_t(degrees, size=n) * np.sqrt(0.5 * (degrees - 2) / degrees)
    return X, 0.1 + X @ beta + noise, np.append(0.1, beta)


def ordinary(X, y):
    """Least squares and its robust (HC1) standard errors."""
    Z = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv(Z.T @ Z)
    beta = inverse @ (Z.T @ y)
    scores = Z * (y - Z @ beta)[:, None]
    covariance = inverse @ (scores.T @ scores) @ inverse * len(y) / (len(y) - Z.shape[1])
    return beta, np.sqrt(covariance.diagonal())


def private(X, y, seed=0, privacy=1.0, **options):
    noise = dpfast.SeededNoise(seed)
    return dpfast.fit(X, y, "least-squares", privacy=privacy, noise=noise, **options)


def test_it_is_near_ordinary_least_squares():
    """Seeded.  Of 20 tables of 20,000 records the median distance is .20 standard errors, the
    largest .47."""
    distances, widths = [], []
    for seed in range(20):
        X, y, _ = records(20_000, seed)
        beta, errors = ordinary(X, y)
        fit = private(X, y, seed)
        assert fit.warnings == ()
        distances.append(np.sqrt(np.mean(((fit.params - beta) / errors) ** 2)))
        widths.append(np.median(fit.bse / errors))
    assert np.median(distances) < 0.6 and max(distances) < 1.5
    assert 0.98 < np.median(widths) < 1.2


@pytest.mark.parametrize(
    ("mu", "tables", "least"),
    [
        (0.5, 120, 0.902),
        pytest.param(0.5, 300, 0.92, marks=pytest.mark.slow),
        pytest.param(2.0, 300, 0.92, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover(mu, tables, least):
    """120 tables, 600 intervals at 95%: above .902 unless coverage is below .945 (one table's
    five are nearly independent; 1e-6: 4.75 standard deviations of .009); .86 would fail it by as
    much, and .88 the 300 tables of the slow cases."""
    covered = []
    for seed in range(tables):
        X, y, truth = records(3000, seed)
        interval = private(X, y, seed, mu).conf_int()
        covered.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    assert np.mean(covered) > least


@each("inference", [True, False])
@each("budget", [1.0, dpfast.ZCDP(0.1), dpfast.ApproxDP(1.0, 1e-6)])
@each("standardize", [None, False])
def test_the_total_is_spent(inference, budget, standardize):
    X, y, _ = records(500 if standardize is False else 5000, 1)
    ledger = dpfast.Ledger(budget if not isinstance(budget, float) else dpfast.GDP(budget))
    fit = private(X, y, 3, budget, inference=inference, ledger=ledger, standardize=standardize)
    spent = sum(part.mu**2 for _, part in _charges(fit)) ** 0.5
    total = dpfast.GDP.within(budget).mu
    assert total * (1 - 1e-6) <= spent <= total
    with pytest.raises(BudgetExceeded):
        private(X, y, 3, budget, ledger=ledger, standardize=standardize)


def _charges(fit):
    return [(label, dpfast.GDP(mu)) for label, mu in fit.privacy.entries]


@each(
    "option",
    [
        {"method": "newton"},
        {"method": dpfast.optimize.GradientDescent()},
    ],
)
def test_options_it_has_no_use_for_are_refused_before_the_charge(option):
    X, y, _ = records(200, 1)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput, match=r"least.squares"):
        private(X, y, ledger=ledger, **option)
    assert not ledger.entries


@each(
    "terms",
    [
        {"scale": 1.0},
        {"scale": dpfast.FreeScale(0.1, 1.0)},
        {"weights": dpfast.Mallows(2.0)},
        {"ridge": 0.1},
    ],
)
def test_terms_it_has_no_use_for_are_refused_before_the_charge(terms):
    X, y, _ = records(200, 1)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput, match=r"least.squares"):
        dpfast.fit(X, y, dpfast.Objective("least-squares", **terms), privacy=1.0, ledger=ledger)
    assert not ledger.entries


def test_budgets_and_shapes_it_cannot_use_are_refused_before_the_charge():
    X, y, _ = records(200, 1)
    ledger = dpfast.Ledger(1e9)
    for budget in (1e-13, 1e8):
        with pytest.raises(InvalidBudget):
            private(X, y, privacy=budget, ledger=ledger)
    with pytest.raises(InvalidInput, match="more than n"):
        private(X[:5], y[:5], ledger=ledger)
    assert not ledger.entries


def test_other_functions_say_that_they_do_not_take_it():
    X, y, _ = records(200, 1)
    with pytest.raises(InvalidInput, match="least squares has no bound"):
        dpfast.minimize(X, y, "least-squares", privacy=1.0)


def test_raw_columns_are_bought_and_answered_in_their_own_units():
    """Seeded; units from 1e-6 to 1e9, means of 140 and 2,000 standard deviations."""
    X, y, _ = records(20_000, 3)
    raw = X * [1e-6, 10.0, 1e9, 0.01] + [3.0, 1400.0, 0.0, -20.0]
    wages = 50_000.0 + 20_000.0 * y
    beta, errors = ordinary(raw, wages)
    fit = private(dpfast.records(raw, wages, names=["a", "b", "c", "d"]), None)
    assert np.sqrt(np.mean(((fit.params - beta) / errors) ** 2)) < 1.0
    assert 0.98 < np.median(fit.bse / errors) < 1.25
    coded = private(X, y, standardize=False)
    slopes = coded.params[1:] * 20_000.0 / [1e-6, 10.0, 1e9, 0.01]
    assert np.all(np.abs(slopes - fit.params[1:]) < 4.0 * fit.bse[1:])
    line = fit.params[0] + raw[:5] @ fit.params[1:]
    np.testing.assert_allclose(fit.predict(raw[:5]), line, rtol=1e-6)
    assert fit.names == ("intercept", "a", "b", "c", "d")


def test_degrees_of_freedom_do_not_depend_on_the_units():
    """A slope is one number in all units, so the noise of its variance is, too; few records, so
    that there are not many degrees."""
    X, y, _ = records(3000, 4)
    natural = private(X * [10.0, 0.1, 3.0, 1.0] + 5.0, 7.0 * y, privacy=0.3)
    coded = natural.coded
    assert coded is not natural and (coded.degrees_of_freedom[1:] < 1e4).any()
    np.testing.assert_allclose(
        natural.degrees_of_freedom[1:], coded.degrees_of_freedom[1:], rtol=1e-6
    )


def test_nothing_can_be_bought_of_too_few_records_and_nothing_is_charged():
    X, y, _ = records(40, 1)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidBudget, match="too few to find the scales"):
        private(X, y, ledger=ledger)
    with pytest.raises(InvalidInput, match="standardize"):
        private(X, y, ledger=ledger, standardize="yes")
    with pytest.raises(InvalidBudget, match="too few to find the scales"):
        dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=1.0,
            standardize=True,
            ledger=ledger,
        )
    assert not ledger.entries


HOSTILE = {
    "constant column": lambda X, y: X.__setitem__((slice(None), 0), 1.0),
    "zero column": lambda X, y: X.__setitem__((slice(None), 1), 0.0),
    "twins": lambda X, y: X.__setitem__((slice(None), 0), X[:, 1]),
    "no response": lambda X, y: y.__setitem__(slice(None), np.nan),
    "constant response": lambda X, y: y.__setitem__(slice(None), 3.0),
    "one far row": lambda X, y: X.__setitem__(0, 1e300),
    "far rows": lambda X, y: X.__setitem__(slice(0, 100), 1e6),
    "far responses": lambda X, y: y.__setitem__(slice(0, 100), -1e200),
    "all far": lambda X, y: X.__imul__(1e150),
    "all near": lambda X, y: X.__imul__(1e-150),
    "missing": lambda X, y: X.__setitem__((slice(0, None, 2), 2), np.inf),
}


@each("kind", HOSTILE)
@each(("n", "standardize"), [(30, False), (2000, False), (2000, None)])
def test_whatever_the_records_are_a_result_arrives(kind, n, standardize):
    X, y, _ = records(n, 1)
    HOSTILE[kind](X, y)
    fit = private(X, y, standardize=standardize)
    out = np.isnan(fit.bse)  # columns without a spread are left out
    if any("no more records count than noise explains" in said for said in fit.warnings):
        assert out.all() and (n == 30 or kind == "no response") and isinstance(fit.summary(), str)
        return
    if stopped(fit):
        assert out.all() and n > 30 and kind == "no response" and isinstance(fit.summary(), str)
        return
    assert kind != "no response"
    assert np.isfinite(fit.params).all() and not fit.params[out].any()
    assert np.isfinite(fit.cov_params()[~out][:, ~out]).all() and (
        standardize is None or not out.any()
    )
    assert (fit.bse[~out] > 0.0).all() and isinstance(fit.summary(), str)


def test_what_was_paid_for_travels_with_an_interrupt():
    X, y, _ = records(2000, 1)

    def stop(step, n_steps):
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        private(X, y, progress=stop)
    found = caught.value.partial_result
    assert np.isfinite(found.params).all() and len(found.iterates) == 4
    assert "ended early" in found.warnings[0]


def test_the_exact_fit_is_ordinary_least_squares():
    X, y, _ = records(2000, 1)
    X = X * [0.1, 10.0, 100.0, 0.01] + [3.0, 140.0, 0.0, -2.0]
    beta, errors = ordinary(X, y)
    exact = dpfast.nonprivate_fit(X, y, "least-squares")
    np.testing.assert_allclose(exact.params, beta, rtol=1e-6)
    np.testing.assert_allclose(exact.bse, errors, rtol=5e-3)  # HC0 beside HC1
    for option in ({"scale": 1.0}, {"weights": dpfast.Mallows(2.0)}):
        with pytest.raises(InvalidInput, match="scale"):
            dpfast.nonprivate_fit(X, y, dpfast.Objective("least-squares", **option))


def test_rows_far_from_the_others_are_discounted_or_told():
    """A hundredth of the rows 30 times as long, off the line: what least squares makes of them is
    not what it makes of the others, and what is released lies between, with a warning."""
    X, y, _ = records(20_000, 2)
    X[:200] *= 30.0
    fit = private(X, y)
    beta, _ = ordinary(X, y)
    away = np.abs(fit.params - beta) / fit.bse
    assert (away < 4.0).all() or fit.warnings


def test_csr_rows_and_persons():
    sparse = pytest.importorskip("scipy.sparse")
    X, y, truth = records(4000, 5)
    dense, rows = private(X, y, 7), private(sparse.csr_matrix(X), y, 7)
    np.testing.assert_allclose(dense.params, rows.params, atol=1e-6)
    grouped = dpfast.records(X, y, group=np.arange(4000) // 2, group_size=2)
    persons = [private(grouped, None, k) for k in range(7, 12)]
    assert all(np.all(np.abs(fit.params - truth) < 6.0 * fit.bse) for fit in persons)
    # rows do not go together, so only noise differs; one draw varies by .06
    widths = [np.median(fit.bse / private(X, y, k).bse) for k, fit in enumerate(persons, 7)]
    assert 0.93 < np.mean(widths) < 1.15


def test_a_schema_keeps_its_units():
    X, y, _ = records(4000, 6, p=1)
    table = {"x": 50.0 + 10.0 * X[:, 0], "y": 1000.0 + 100.0 * y}
    schema = dpfast.Schema({"x": dpfast.Numeric(20.0, 80.0), "y": dpfast.Numeric(700.0, 1300.0)})
    fit = private(schema.encode(table, response="y"), None)
    slope = np.diff(fit.predict({"x": [50.0, 60.0]}))[0] / 10.0
    assert slope == pytest.approx(np.polyfit(table["x"], table["y"], 1)[0], rel=0.1)
