"""What no estimator can prevent: each warning of the documentation, with the attack behind it.

All of these are exact: two data sets that differ in one record, and what becomes of the others.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.ensemble import BaggingRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    StratifiedKFold,
    check_cv,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpfast
from dpfast import Ledger, SeededNoise
from dpfast.errors import DpfastWarning
from dpfast.estimators import (
    DealtFolds,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from tests.estimators.attacks import attained
from tests.estimators.declared import ESTIMATORS, declared

RNG = np.random.default_rng(8)
X = RNG.normal(size=(200, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=200)
LABELS = (X[:, 0] > 0).astype(int)


def huber(**options):
    own = {"scale": 0.5, "weights": dpfast.Mallows(3.0**0.5)}
    return DPHuberRegressor(0.5, score_privacy=0.25, inference=False, **own, **options)


def parts(folds, y):
    """The fold in which each record is tested."""
    found = np.empty(len(y), dtype=int)
    for j, (_, test) in enumerate(folds.split(np.zeros((len(y), 1)), y)):
        found[test] = j
    return found


def test_an_integer_cv_moves_others_when_one_label_changes():
    """Stratified folds follow exact labels; dealt folds do not look at them."""
    changed = LABELS.copy()
    changed[0] = 1 - changed[0]
    stratified = check_cv(5, LABELS, classifier=True)
    moved = parts(stratified, LABELS) != parts(stratified, changed)
    assert np.sum(moved[1:]) >= 5
    first, second = (parts(DealtFolds(5, noise=SeededNoise(0)), y) for y in (LABELS, changed))
    assert (first == second).all()


def test_what_stratified_folds_give_away():
    """About twice what four fits and a score cost; folds that are dealt stay within it.

    The last label decides in which folds eight others are, whose covariates are large and
    alternate, so that a training set loses a record and gains its opposite; all others are NaN.
    """
    first, second = np.repeat([0.0, 1.0], 50), np.repeat([0.0, 1.0, 0.0], [50, 49, 1])
    moved = np.flatnonzero(parts(StratifiedKFold(5), first) != parts(StratifiedKFold(5), second))
    assert len(moved) == 8
    rows = np.full((100, 1), np.nan)
    rows[moved, 0] = 10.0 * np.tile([1.0, -1.0], 4)
    total = (4 * 0.2**2 + 0.25**2) ** 0.5
    pair = (rows, first), (rows, second)

    def scores(data, cv):
        model = DPLogisticRegression(
            0.2,
            score_privacy=0.25,
            inference=False,
            fit_intercept=False,
            standardize=False,
            noise=SeededNoise(0),
        )
        return cross_val_score(model, *data, cv=cv())

    assert attained(lambda data: scores(data, lambda: 5), *pair)[0] > 1.9 * total
    assert attained(lambda data: scores(data, partial(DealtFolds, 5)), *pair)[0] <= total


def test_a_bootstrap_copies_a_record_into_a_fit_that_pays_for_one():
    """Where it resamples rows; scikit-learn's bags count them by weights, which are held."""
    book = Ledger(5.0)
    bagged = huber(ledger=book, largest_weight=9.0)
    bags = BaggingRegressor(bagged, n_estimators=20, random_state=0).fit(X, Y)
    assert len(book.entries) == 20 and book.entries[0].charged.mu == 0.5
    copies = [np.bincount(sample, minlength=200) for sample in bags.estimators_samples_]
    assert np.max(copies) >= 5
    bag = int(np.argmax(np.max(copies, axis=1)))
    record = int(np.argmax(copies[bag]))

    def fit(data):  # that bag alone
        return huber().fit(*(part[bags.estimators_samples_[bag]] for part in data)).coef_

    def weighted(largest):
        model = huber(largest_weight=largest)
        return lambda data: model.fit(*data, sample_weight=copies[bag]).coef_

    others = np.full((200, 2), np.nan)
    others[record] = 1.0
    pair = (others, np.full(200, 1e6)), (others, np.full(200, -1e6))
    assert attained(fit, *pair)[0] > 5 * 0.5
    for largest in (1.0, 9.0):
        assert attained(weighted(largest), *pair)[0] <= 0.5
    assert attained(lambda data: huber().fit(*data).coef_, *pair)[0] <= 0.5


def test_a_bag_without_a_public_bound_on_copies_is_refused_for_free():
    book = Ledger(5.0)
    with pytest.raises(dpfast.errors.InvalidInput, match="sample_weight"):
        BaggingRegressor(huber(ledger=book), n_estimators=2, random_state=0).fit(X, Y)
    assert not book.entries


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_a_foreign_scorer_is_told_to_be_unpaid(scoring):
    """Once for each score, and never where the estimator's own score is taken."""
    own = huber()
    with pytest.warns(DpfastWarning, match="exact and unpaid"):
        cross_validate(own, X, Y, cv=2, scoring=scoring)
    cross_validate(own, X, Y, cv=2)  # warnings are errors here
    own.fit(X, Y).predict(X[:3])


@pytest.mark.filterwarnings("ignore::dpfast.errors.DpfastWarning")
def test_a_foreign_scorer_hands_out_an_exact_residual():
    """A record left out, and never paid for, is read off the released model and the score."""
    book = Ledger(5.0)
    alone = [(np.arange(1, 200), np.array([0]))]
    found = cross_validate(
        huber(ledger=book), X, Y, cv=alone, scoring="neg_mean_absolute_error", return_estimator=True
    )
    predicted = found["estimator"][0].predict(X[:1])[0]
    residual = -found["test_score"][0]
    assert min(abs(predicted - residual - Y[0]), abs(predicted + residual - Y[0])) < 1e-12
    assert [entry.label.split("(")[0] for entry in book.entries] == ["fit"]  # no score was paid


@pytest.mark.parametrize("step", [StandardScaler(), SimpleImputer()])
def test_a_scaler_or_imputer_moves_the_rows_of_others(step):
    """A fit behind it sees other rows changed, each of which its budget protects on its own."""
    holes = X.copy()
    holes[1::2, 0] = np.nan
    changed = holes.copy()
    changed[0] = 1e6
    moved = np.abs(step.fit_transform(holes) - step.fit_transform(changed)).max(axis=1)
    assert np.sum(moved[1:] > 0.1) >= 90
    make_pipeline(step, huber()).fit(holes, Y)  # and nothing refuses it


# ---- what can be prevented -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_nothing_that_scikit_learn_sets_voids_the_guarantee(kind):
    """Meta-estimators set every parameter that is called, or ends in, random_state."""
    assert not [name for name in kind().get_params() if name.endswith("random_state")]
    y = LABELS if kind is DPLogisticRegression else Y
    # at small budgets a slope may stay where it starts, at exactly zero in both
    model = declared(kind, 50.0, largest_weight=9.0)
    if kind is DPLinearRegression:
        model = DPLinearRegression(50.0, largest_weight=9.0)  # with bounds it has no weights
    bags = [BaggingRegressor(model, n_estimators=3, random_state=0).fit(X, y) for _ in range(2)]
    for bag in bags:
        assert {model.result_.privacy.guarantee for model in bag.estimators_} == {"GDP"}
    first, second = (np.ravel([model.coef_ for model in bag.estimators_]) for bag in bags)
    assert (first != second).all()


def test_clones_draw_from_one_source():
    """Copies of a seeded source would give every fold the same noise."""
    source = SeededNoise(0)
    bags = BaggingRegressor(
        huber(noise=source, largest_weight=1.0), n_estimators=3, random_state=0, bootstrap=False
    ).fit(X, Y)
    coefficients = [tuple(model.coef_) for model in bags.estimators_]
    assert len(set(coefficients)) == 3
    assert all(model.noise is source for model in bags.estimators_)
    assert {model.result_.privacy.guarantee for model in bags.estimators_} == {"none (simulation)"}


@pytest.mark.parametrize("noise", [3, np.random.RandomState(0), "entropy"])
def test_a_seed_is_not_a_source_of_noise(noise):
    with pytest.raises(dpfast.errors.InvalidInput, match="noise source"):
        huber(noise=noise).fit(X, Y)


# ---- what a search cost --------------------------------------------------------------------------


def test_a_search_reports_one_fit_and_what_its_ledger_spent():
    book = Ledger(3.0)
    search = GridSearchCV(huber(ledger=book), {"loss": ["huber", "log-cosh"]}, cv=KFold(3))
    best = search.fit(X, Y).best_estimator_
    assert best.result_.privacy.mu == 0.5
    assert book.spent.mu == pytest.approx((7 * 0.5**2 + 6 * 0.25**2) ** 0.5)
    assert f"this fit alone: its ledger has spent {book.spent!r} in all" in str(
        best.result_.privacy
    )
    alone = huber().fit(X, Y).result_.privacy
    assert "without others of a cross-validation" in str(alone)


def test_a_fit_that_is_paid_survives_the_loss_of_its_ledgers_file(tmp_path, monkeypatch):
    book = Ledger.open(tmp_path / "book", 2.0)
    charge = type(book).charge

    def charge_and_lose(self, spend, label):
        charge(self, spend, label)
        (tmp_path / "book").unlink()

    monkeypatch.setattr(type(book), "charge", charge_and_lose)
    result = huber(ledger=book).fit(X, Y).result_
    assert "cannot be read" in result.privacy.relation


def search_until_the_budget_ends(**options):
    """Pays for three fits with their scores, and for neither a fourth nor the refit."""
    book = Ledger((3 * (0.5**2 + 0.25**2)) ** 0.5 * (1 + 1e-12))
    search = GridSearchCV(huber(ledger=book), {"scale": [0.5, 1.0]}, cv=DealtFolds(2), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.simplefilter("ignore", UserWarning)  # scores that are not finite
        search.fit(X, Y)
    return search


def test_paid_scores_of_a_search_are_lost_where_the_budget_ends():
    for options in ({}, {"error_score": "raise"}):
        with pytest.raises(dpfast.BudgetExceeded):
            search_until_the_budget_ends(**options)


def test_paid_scores_of_a_search_without_refit_are_kept():
    results = search_until_the_budget_ends(refit=False).cv_results_
    scores = np.array([results["split0_test_score"], results["split1_test_score"]])
    assert np.sum(np.isfinite(scores)) == 3
