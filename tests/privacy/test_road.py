"""The road's budget adds up, nothing ends it after its charge, and files are as arrays."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import dpfast
from dpfast.curator import Answer, JointAnswer, Receipt
from dpfast.errors import InvalidInput
from dpfast.models import Clip, Gamma, Huber, LeastSquares, Mallows, Probit
from dpfast.privacy.sensitivity import joint_mu
from dpfast.solvers.pcn.engine import fit_pcn
from dpfast.solvers.pcn.initial import initial_estimate
from dpfast.solvers.pcn.plan import BudgetAllocation, Setting
from tests.loops import each
from tests.stops import stopped

LOSSES = {
    "least-squares": LeastSquares(),
    "log-cosh": dpfast.LogCosh(),
    "huber": dpfast.Huber(),
    "quantile": dpfast.Quantile(0.9, 0.01),
    "logistic": dpfast.Logistic(),
    "poisson": dpfast.Poisson(),
    "gamma": Gamma(),
    "probit": Probit(),
    "poisson of small means": dpfast.Poisson(4.0),
}


class Rows:
    """Answers of any kind that released numbers may be, and what they cost."""

    def __init__(self, n, p, rng, noise):
        self.n, self.dimension, self._rng, self._noise, self.spent = n, p, rng, noise, []

    def _answer(self, value, sensitivity, mu):
        scale = sensitivity / self.n / mu
        if value.ndim == 2:
            value = value + np.tril(value, -1).T - np.triu(value, 1)  # symmetric
        noisy = value + self._noise * scale * self._rng.normal(size=value.shape)
        noisy = 0.5 * (noisy + noisy.T) if value.ndim == 2 else noisy
        return Answer(noisy, scale, Receipt("", "C80", mu, sensitivity, scale))

    def _known(self, at):
        if at is not None:
            assert np.isfinite(at.theta).all() and np.isfinite(at.scale)

    def mapped(self, matrix):
        assert np.isfinite(matrix).all()
        return self

    def subsample(self):
        return self

    def gram(self, radius, mu, at=None):
        Mallows(radius)
        self._known(at)
        self.spent.append(mu)
        half = self._rng.normal(size=(self.dimension,) * 2)
        size = self._rng.choice([0.0, self._rng.random() * radius**2, 1.0, 1e-8 * radius**2])
        size = min(size, radius**2)
        gram = half @ half.T / np.trace(half @ half.T) * size
        return self._answer(gram, 2.0**0.5 * radius**2, mu)

    def gram_and_moment(self, radius, cap, budget, at=None, shift=0.0):
        answers = (
            self.gram(radius, budget.hessian),
            self.moment(radius, cap, budget.gradient, at, shift=shift),
        )
        del self.spent[-2:]
        self.spent.append(joint_mu("independent", budget.gradient, budget.hessian))
        return answers

    def moment(self, radius, cap, mu, at=None, what="response", shift=0.0):
        Mallows(radius), Huber(cap)
        self._known(at)
        self.spent.append(mu)
        unit = self._rng.normal(size=self.dimension)
        size = self._rng.choice([0.0, 1.0, -1.0]) * radius * cap / np.linalg.norm(unit)
        return self._answer(size * unit, 2.0 * radius * cap, mu)

    def norm_histogram(self, edges, mu, at, what, row_clipping=None, direction=None):
        self._known(at)
        self.spent.append(mu)
        shares = np.zeros(len(edges) + 1)
        shares[self._rng.choice([0, -1, self._rng.integers(len(shares))])] = 1.0
        if self._rng.random() < 0.3:
            shares = self._rng.dirichlet(np.ones(len(shares)))
        return self._answer(shares, 2.0**0.5, mu)

    def clipped(self, at, radius, mu, mu_meat=0.0, row_clipping=None):
        Clip(radius)
        self._known(at)
        cost = joint_mu("independent", mu, 0.0, mu_meat) if mu_meat else mu
        self.spent.append(cost)
        unit = self._rng.normal(size=self.dimension)
        score = self._rng.choice([0.0, 0.01, 1.0, 1.0]) * radius / np.linalg.norm(unit) * unit
        gradient = self._answer(score, 2.0 * radius, mu)
        meat = self._answer(np.outer(score, score), 2.0**0.5 * radius**2, mu_meat or mu)
        return JointAnswer(gradient, Answer(np.zeros(0), 0.0, meat.receipt), meat, cost)


def spent(rows):
    return math.fsum(mu**2 for mu in rows.spent)


def leaves(value):
    """Whatever stands in tuples and lists of tuples."""
    if isinstance(value, tuple | list):
        return [leaf for one in value for leaf in leaves(one)]
    return [value]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(2)
def test_whatever_is_released_a_run_ends_with_numbers_and_spends_its_budget(name):
    """40 runs about answers of any kind, in units of any size."""
    loss = LOSSES[name]
    for seed in range(40):
        rng = np.random.default_rng([seed, len(name)])
        n, p = int(10.0 ** rng.uniform(1, 6)), int(rng.choice([1, 2, 3, 5, 9]))
        mu = 10.0 ** rng.uniform(-8, 2)
        scale = rng.choice([None, 1.0, 1e-30, 1e30]) if loss.needs_scale else None
        size = rng.choice([1.0, 1e-300, 30.0, 1e30, 1e300, np.inf])
        setting = Setting(loss, scale, bool(rng.random() < 0.7), float(size))
        rows = Rows(n, p, rng, float(rng.choice([0.0, 1.0, 3.0])))
        iterates = []
        with np.errstate(all="ignore"):
            found = fit_pcn(
                rows, setting, BudgetAllocation(n, p, mu), bool(rng.random() < 0.7), iterates
            )
        numbers = leaves(tuple([value for value in found if value is not found.row_clipping]))
        for value in (*numbers, *iterates):
            assert value is None or np.isfinite(value).all()
        assert 0.9 * mu**2 < spent(rows) <= mu**2


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(2)
def test_several_losses_share_a_beginning_and_no_more(name):
    setting = Setting(LOSSES[name], None, True)
    for seed in range(7):
        rng = np.random.default_rng(seed)
        rows = Rows(20_000, 4, rng, 1.0)
        begun = initial_estimate(
            rows, setting, BudgetAllocation(20_000, 4, 1.0).budgets(setting.query_counts, 1)
        )
        each = math.sqrt((1.0 - spent(rows)) / 3.0)
        for _ in range(3):
            before = spent(rows)
            allocation = BudgetAllocation(20_000, 4, each)
            fit_pcn(rows, setting, allocation, True, [], initial=begun)
            assert 0.9 * each**2 < spent(rows) - before <= each**2
        assert 0.9 < spent(rows) <= 1.0


def table(n=4000):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(50.0, 9.0, n), np.exp(rng.normal(size=n))])
    fitted = 0.04 * (X[:, 0] - 50.0) - 0.1 * X[:, 1]
    return X, rng.poisson(np.exp(np.minimum(fitted, 3.0))).astype(float), rng.normal(size=n)


def response(name, y):
    return np.minimum(y, 1.0) if name in ("logistic", "probit") else y


PERSONS = {"group": np.arange(4000) // 2, "each": "person"}


@pytest.mark.pairs
@pytest.mark.parametrize("given", ["rows", "no inference", "no intercept", "persons"])
@pytest.mark.parametrize("mu", [0.5, 8.0])
@pytest.mark.parametrize("name", LOSSES)
def test_the_total_pays_for_units_and_fit(name, given, mu):
    X, y, _ = table()
    loss = "least-squares" if name == "least-squares" else LOSSES[name]
    if given == "no intercept":
        loss = dpfast.Objective(loss, fit_intercept=False)
    ledger, persons = dpfast.Ledger(mu), PERSONS if given == "persons" else {}
    fit = dpfast.fit(
        dpfast.records(X, response(name, y), **persons), None, loss, privacy=mu, standardize=True,
        ledger=ledger, noise=dpfast.SeededNoise(2), inference=given != "no inference",
    )  # fmt: skip
    assert [entry.spend.mu for entry in ledger.entries] == [mu]
    asked = [label for label, _ in fit.privacy.entries]
    assert "histogram of distances" in asked and "histogram of lengths" in asked
    part = math.fsum(cost**2 for _, cost in fit.privacy.entries) / mu**2
    assert 0.98 < part <= 1.0
    assert np.isfinite(fit.params).all()


@pytest.mark.parametrize(
    ("loss", "terms", "method"),
    [
        ("logistic", {"ridge": 0.01}, "auto"),
        ("huber", {"weights": dpfast.Mallows(3.0)}, "auto"),
        ("logistic", {}, dpfast.optimize.Newton()),
    ],
)
def test_the_total_pays_for_units_and_a_fit_beside_the_road(loss, terms, method):
    X, y, _ = table()
    ledger = dpfast.Ledger(4.0)
    y = np.minimum(y, 1.0) if loss == "logistic" else y
    fit = dpfast.fit(
        X, y, dpfast.Objective(loss, **terms), privacy=4.0, ledger=ledger, method=method,
        standardize=True, noise=dpfast.SeededNoise(7),
    )  # fmt: skip
    assert [entry.spend.mu for entry in ledger.entries] == [4.0]
    asked = [label for label, _ in fit.privacy.entries]
    assert "histogram of distances" in asked and "histogram of lengths" not in asked
    part = math.fsum(cost**2 for _, cost in fit.privacy.entries) / 16.0
    assert 0.999 < part <= 1.0


@pytest.mark.parametrize("mu", [1.0, 8.0])
def test_the_total_pays_for_all_levels(mu):
    X, y, _ = table()
    ledger = dpfast.Ledger(mu)
    found = dpfast.fit_quantiles(
        X, y, [0.25, 0.5, 0.9], privacy=mu, ledger=ledger, noise=dpfast.SeededNoise(3)
    )
    assert [entry.spend.mu for entry in ledger.entries] == [mu]
    part = math.fsum(cost**2 for _, cost in found.privacy.entries) / mu**2
    assert 0.98 < part <= 1.0


def test_rows_of_a_person_are_paid_for_together():
    X, y, _ = table(6000)
    fit = dpfast.fit(
        dpfast.records(X, y, group=np.arange(6000) // 2, group_size=2), None, "log-cosh",
        privacy=3.0, noise=dpfast.SeededNoise(4),
    )  # fmt: skip
    part = math.fsum(cost**2 for _, cost in fit.privacy.entries) / 9.0
    assert 0.98 < part <= 1.0


@each("scale", [-1.0, 0.0, math.nan, math.inf, 1e300, "1", True])
@each("call", [dpfast.fit, dpfast.fit_quantiles])
def test_a_scale_that_is_none_is_refused_before_the_charge(call, scale):
    X, y, _ = table(2000)
    ledger = dpfast.Ledger(5.0)
    name = "quantile" if call is dpfast.fit_quantiles else "huber"
    with pytest.raises(InvalidInput, match="scale must"):
        call(
            X, y, loss=dpfast.Objective(name, scale=scale), privacy=2.0, standardize=True,
            ledger=ledger,
        )  # fmt: skip
    assert not ledger.entries


@pytest.mark.parametrize("name", ["logistic", "poisson", "log-cosh", "least-squares"])
def test_weights_and_offsets_of_arrays_are_those_of_files(name):
    """The offset's own coefficient is 1: without it the slopes would be others."""
    sparse = pytest.importorskip("scipy.sparse")
    X, y, offset = table()
    loss = "least-squares" if name == "least-squares" else LOSSES[name]
    found = []
    for rows in (X, sparse.csr_matrix(X)):
        for given in (offset, 0.0 * offset):
            fit = dpfast.fit(
                dpfast.records(rows, response(name, y), offset=given, sample_weight=1.0 + (X[:,
                0] > 50.0), largest_weight=2.0),
                None, loss, privacy=8.0, noise=dpfast.SeededNoise(5),
            )  # fmt: skip
            found.append(fit.params)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found[1], found[3], rtol=1e-6, atol=1e-9)
    assert np.abs(found[0] - found[1]).max() > 1e-3


@pytest.mark.parametrize("cell", [np.nan, np.inf, 1e308, -1e308, 5e-324, 0.0, 1.0])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.one_in(3)
def test_no_value_ends_a_fit(name, cell):
    """All cells of a column or of the response, at a small budget and at a large one.

    A fit ends after its counts exactly where no record can be used: without numbers or labels.
    """
    loss = "least-squares" if name == "least-squares" else LOSSES[name]
    X, y, _ = table(1000)
    y = response(name, y)
    for mu in (1.0, 20.0):
        for where in (0, 1):
            Z, z = X.copy(), y.copy()
            if where:
                z[:] = cell
            else:
                Z[:, 0] = cell
            ledger = dpfast.Ledger(mu)
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                fit = dpfast.fit(
                    Z, z, loss, privacy=mu, ledger=ledger, standardize=True,
                    noise=dpfast.SeededNoise(6),
                )  # fmt: skip
            labels = name in ("logistic", "probit")
            usable = np.isfinite(cell) and not (where and labels and abs(cell) > 1.0)
            assert stopped(fit, ledger) == (not usable)
            assert np.isnan(fit.params).any() == (not usable)
