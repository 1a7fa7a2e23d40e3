"""T12: numbers of a fit cost what is said, and their intervals cover."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import xlogy

import dpfast
from dpfast.curator.fit_errors import FitErrors, Line, losses, sizes
from dpfast.data.records import Records
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.inference.composition import composition_of, cost
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.regression import goodness_of_fit
from tests.watching import watched

HOSTILE = [-np.inf, -1e308, -3.0, 0.0, 1.0, 30.0, 1e160, np.nan]


def seeded(seed=0):
    return dpfast.SeededNoise(seed)


def logistic(t):
    return 1.0 / (1.0 + np.exp(-t))


LINES = {
    "least squares": Line(0.2, np.array([0.5, -0.3]), "number", lambda t: t),
    "labels": Line(0.2, np.array([0.5, -0.3]), "label", logistic),
    "counts": Line(0.2, np.array([0.5, -0.3]), "count", np.exp),
    "positive": Line(0.2, np.array([0.5, -0.3]), "positive", np.exp),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("second", [False, True])
def test_t12_no_replaced_record_moves_the_moments_by_more(name, second):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), (rng.random(30) < 0.5) * 1.0

    def asked():
        errors = FitErrors(Records(X, y, None), LINES[name], Ledger(GDP(99.0)), seeded())
        if second:
            errors.second(0.4, 0.6, (1.3, 0.9), 1.0)
        else:
            errors.first(0.7, 0.5, 0.5, 1.0)

    answers = []
    for X[0, 0], X[0, 1], y[0] in itertools.product(HOSTILE, repeat=3):
        with np.errstate(all="ignore"):
            (seen,) = watched(asked)
        answers.append(seen.value.ravel())
    found = np.array(answers)
    squares = (found**2).sum(axis=1)
    moved = np.sqrt((squares[:, None] + squares - 2.0 * found @ found.T).max())
    assert moved <= seen.l2_sensitivity * (1.0 + 1e-6)
    assert moved > 0.5 * seen.l2_sensitivity
    assert seen.l2_sensitivity == pytest.approx(2.0 * np.sqrt(2.0), rel=1e-6)
    assert seen.noise_scale >= 2.0 * np.sqrt(2.0)


@pytest.mark.parametrize("name", LINES)
def test_t12_a_row_is_a_function_of_its_record(name):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(50, 2)), (rng.random(50) < 0.5) * 1.0
    line = LINES[name]
    y = y + 0.5 if name == "positive" else y  # zero is no positive response: incomplete
    for make, arguments in ((sizes, (0.7, 0.5, 0.5)), (losses, (0.4, 0.6, (1.3, 0.9)))):
        before = make(line, *arguments, X, y)
        others_X, others_y = X.copy(), y.copy()
        others_X[4], others_y[5] = [np.nan, 1e308], np.inf
        after = make(line, *arguments, others_X, others_y)
        rest = np.delete(np.arange(50), [4, 5])
        assert before[rest].tobytes() == after[rest].tobytes()
        assert np.abs(before).max() <= 1.0


def population(n, seed, labels=False, errors="normal"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if labels:
        return X, (rng.random(n) < logistic(X @ [1.0, -0.5] - 1.0)) * 1.0
    drawn = rng.normal(size=n) if errors == "normal" else rng.standard_t(5, n)
    return X, 3.0 + X @ [1.0, -0.5] + drawn


def counted(n, seed, loss):
    """Counts whose means vary by more than a Poisson model says, or gamma responses."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    mean = np.exp(0.5 + X @ [0.5, -0.25])
    if loss == "poisson":
        return X, rng.poisson(mean * rng.gamma(4.0, 0.25, n)) * 1.0
    return X, mean * rng.gamma(2.0, 0.5, n)


def exact_deviance(params, X, y, loss):
    mean, null = np.exp(params[0] + X @ params[1:]), y.mean()

    def deviance(at):
        if loss == "poisson":
            return 2.0 * (xlogy(y, y / at) - y + at).mean()
        return 2.0 * (y / at - 1.0 - np.log(y / at)).mean()

    return 1.0 - deviance(mean) / deviance(null), np.abs(y - mean).mean()


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_intervals_of_counts_and_positive_responses_cover(loss, mu):
    """Of 30 runs at .95 fewer than 23 cover with a chance below 1e-4; noise is seeded."""
    covered, everyone = [], counted(400_000, 99, loss)
    for seed in range(30):
        X, y = counted(5000, seed, loss)
        fit = dpfast.fit(X, y, loss, privacy=1.0, noise=seeded(seed))
        found = goodness_of_fit(fit, X, y, privacy=mu, noise=seeded(100 + seed))
        truth = np.array(exact_deviance(np.asarray(fit.params), *everyone, loss))
        low, high = found.conf_int().T
        covered.append((low <= truth) & (truth <= high))
    assert found.names[0] == "deviance share"
    assert (np.sum(covered, axis=0) >= 23).all()


def exact(params, X, y, labels):
    t = params[0] + X @ params[1:]
    mean = logistic(t) if labels else t
    if not labels:
        return 1.0 - ((y - t) ** 2).mean() / y.var(), np.abs(y - t).mean()
    share = y.mean()
    loss = -2.0 * np.log(np.where(y == 1.0, mean, 1.0 - mean)).mean()
    null = -2.0 * (share * np.log(share) + (1.0 - share) * np.log(1.0 - share))
    return 1.0 - loss / null, np.abs(y - mean).mean()


@pytest.mark.parametrize("labels", [False, True])
def test_numbers_are_those_of_the_released_line(labels):
    X, y = population(40_000, 0, labels)
    fit = dpfast.fit(X, y, "logistic" if labels else "least-squares", privacy=5.0, noise=seeded())
    found = goodness_of_fit(fit, X, y, privacy=5.0, noise=seeded(1))
    wanted = exact(np.asarray(fit.params), X, y, labels)
    np.testing.assert_allclose(found.params, wanted, atol=0.01)
    assert found.names[0] == ("deviance share" if labels else "R squared")
    assert not found.warnings


@pytest.mark.parametrize(
    ("mu", "options"), [(1.0, {}), (0.5, {"errors": "t"}), (1.0, {"labels": True})]
)
def test_intervals_cover(mu, options):
    """Of 30 runs at .95 fewer than 23 cover with a chance below 1e-4; noise is seeded."""
    labels, covered = options.get("labels", False), []
    everyone = population(400_000, 99, **options)
    for seed in range(30):
        X, y = population(5000, seed, **options)
        loss = "logistic" if labels else "least-squares"
        fit = dpfast.fit(X, y, loss, privacy=1.0, noise=seeded(seed))
        found = goodness_of_fit(fit, X, y, privacy=mu, noise=seeded(100 + seed))
        truth = np.array(exact(np.asarray(fit.params), *everyone, labels))
        low, high = found.conf_int().T
        covered.append((low <= truth) & (truth <= high))
    assert (np.sum(covered, axis=0) >= 23).all()


def test_t12_receipts_add_up_to_the_total():
    X, y = population(5000, 3)
    fit, ledger = dpfast.fit(X, y, privacy=1.0, noise=seeded()), Ledger(3.0)
    found = goodness_of_fit(fit, X, y, privacy=0.7, ledger=ledger, noise=seeded())
    assert [entry.spend for entry in ledger.entries] == [GDP(0.7)]
    spent = sum(mu**2 for _, mu in found.privacy.entries)
    assert 0.49 - 1e-6 <= spent <= 0.49
    assert float(cost(composition_of(ledger), GDP)[0]) <= 0.7


def test_heavy_tails_are_told():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40_000, 2))
    y = X @ [0.5, 0.5] + np.exp(1.5 * rng.normal(size=40_000))
    fit = dpfast.fit(X, y, privacy=3.0, noise=seeded())
    found = goodness_of_fit(fit, X, y, privacy=3.0, noise=seeded())
    assert any("may be overstated" in said for said in found.warnings)
    few = goodness_of_fit(fit, X, y, privacy=0.3, noise=seeded())
    assert any("intervals may not cover" in said for said in few.warnings)


def test_other_columns_and_counts_without_intercept_are_refused_before_the_charge():
    X, y = population(3000, 5)
    ledger = Ledger(3.0)
    fit = dpfast.fit(X, y, privacy=1.0, noise=seeded())
    with pytest.raises(InvalidInput, match=r"Pass what was passed to dpfast\.fit"):
        goodness_of_fit(fit, X[:, :1], y, privacy=1.0, ledger=ledger)
    weighted = dpfast.records(X, y, sample_weight=np.ones(3000))
    with pytest.raises(InvalidInput, match="without weights"):
        goodness_of_fit(fit, weighted, privacy=1.0, ledger=ledger)
    schema = dpfast.Schema({"a": dpfast.Numeric(-4, 4), "y": dpfast.Numeric(-9, 9)})
    design = schema.encode({"a": X[:, 0], "y": y}, ["a"], "y")
    with pytest.raises(InvalidInput, match="coded units"):
        goodness_of_fit(fit, design, privacy=1.0, ledger=ledger)
    weak = dpfast.fit(X[:60], y[:60], privacy=1.0, noise=seeded())
    with pytest.raises(InvalidInput, match="no estimate"):
        goodness_of_fit(weak, X, y, privacy=1.0, ledger=ledger)
    objective = dpfast.models.Objective("poisson", fit_intercept=False)
    counts = dpfast.fit(X, np.floor(np.abs(y)), objective, privacy=1.0, noise=seeded())
    with pytest.raises(InvalidInput, match="fit of poisson without one"):
        goodness_of_fit(counts, X, y, privacy=1.0, ledger=ledger)
    assert not ledger.entries


def test_r_squared_of_a_fit_is_refused_with_its_price_and_f_is_free():
    X, y = population(10_000, 6)
    fit = dpfast.fit(X, y, privacy=1.0, noise=seeded())
    with pytest.raises(InferenceUnavailable, match=r"privacy=0\.75.*goodness_of_fit"):
        _ = fit.rsquared
    test = fit.wald_test(np.eye(3)[1:])
    assert fit.fvalue == pytest.approx(test.statistic / 2) and fit.f_pvalue == test.pvalue
    assert fit.fvalue > 1000.0
