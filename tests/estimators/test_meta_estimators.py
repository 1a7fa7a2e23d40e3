"""Every meta-estimator of scikit-learn around an estimator that pays: what it does is replayed.

A replay hands a neighbouring data set the same answers: whatever differs then was not paid for.
"""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import AdaBoostRegressor, StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import KFold
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import all_estimators

from dpfast.audit import replay
from dpfast.estimators import DPHuberRegressor, DPLogisticRegression
from tests.loops import each

RNG = np.random.default_rng(0)
N, CHANGED = 120, 7
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=N)
LABELS = (Y > 0).astype(int)
PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"

#: What a meta-estimator calls the estimators that it is made of.
INSIDE = {"estimator", "estimators", "regressor", "steps", "transformers", "transformer_list"}
META = {
    name: kind
    for name, kind in all_estimators()
    if not INSIDE.isdisjoint(inspect.signature(kind).parameters) and name != "IterativeImputer"
}  # that is an imputer, and is named as such


def regressor():
    return DPHuberRegressor(0.5, scale=0.5, score_privacy=0.25, inference=False, largest_weight=3.0)


def classifier():
    options = {"score_privacy": 0.25, "inference": False, "largest_weight": 3.0}
    return DPLogisticRegression(0.5, standardize=False, **options)


def tanh():
    return FunctionTransformer(np.tanh)


#: What needs more than the estimator, and how it is made.
MADE = {
    "ColumnTransformer": lambda: make_pipeline(
        ColumnTransformer([("f", tanh(), [0, 1])]), regressor()
    ),
    "FeatureUnion": lambda: make_pipeline(FeatureUnion([("f", tanh())]), regressor()),
    "Pipeline": lambda: Pipeline([("f", tanh()), ("m", regressor())]),
    "TransformedTargetRegressor": lambda: TransformedTargetRegressor(
        regressor(), func=np.arcsinh, inverse_func=np.sinh
    ),
}
SETTINGS = {
    "GridSearchCV": {"param_grid": {"fit_intercept": [True, False]}},
    "HalvingGridSearchCV": {"param_grid": {"fit_intercept": [True, False]}, "min_resources": 60},
    "HalvingRandomSearchCV": {
        "param_distributions": {"fit_intercept": [True, False]}, "min_resources": 60,
    },
    "RANSACRegressor": {"min_samples": 50, "max_trials": 2},
    "RandomizedSearchCV": {"param_distributions": {"fit_intercept": [True, False]}, "n_iter": 2},
    "SequentialFeatureSelector": {"n_features_to_select": 1},
    "FixedThresholdClassifier": {"threshold": 0.3},
    "SelfTrainingClassifier": {"max_iter": 1},
}  # fmt: skip

#: Compute from exact residuals, labels or scores, and keep or follow what they found.
UNPAID = {
    "AdaBoostClassifier", "AdaBoostRegressor", "CalibratedClassifierCV", "RANSACRegressor", "RFECV",
    "SelfTrainingClassifier", "StackingClassifier", "StackingRegressor",
    "TunedThresholdClassifierCV",
}  # fmt: skip
#: Find the classes, or the number of records of each, in the labels of all records.
OF_LABELS = {
    "BaggingClassifier", "FixedThresholdClassifier", "OneVsOneClassifier", "OneVsRestClassifier",
    "OutputCodeClassifier", "VotingClassifier",
}  # fmt: skip
#: Refuse a record that is not finite, which an estimator of ours does not.
OF_FINITE = {"ClassifierChain", "RegressorChain"}
#: Only hand records to fits and scores that pay.
PAID = {
    "BaggingRegressor", "ColumnTransformer", "FeatureUnion", "FrozenEstimator", "GridSearchCV",
    "HalvingGridSearchCV", "HalvingRandomSearchCV", "MultiOutputClassifier", "MultiOutputRegressor",
    "Pipeline", "RFE", "RandomizedSearchCV", "SelectFromModel", "SequentialFeatureSelector",
    "TransformedTargetRegressor", "VotingRegressor",
}  # fmt: skip
SEVERAL = {"ClassifierChain", "MultiOutputClassifier", "MultiOutputRegressor", "RegressorChain"}


def of_classes(name):
    return "Classifier" in name


def made(name):
    """One around an estimator of ours, with folds that look at no label where it has folds."""
    if name in MADE:
        return MADE[name]()
    inside = classifier() if of_classes(name) else regressor()
    taken = inspect.signature(META[name]).parameters
    options = {key: value for key, value in {
        "estimator": inside, "estimators": [("a", inside)], "random_state": 0, "cv": KFold(2),
        "n_estimators": 3,
    }.items() if key in taken}  # fmt: skip
    return META[name](**options | SETTINGS.get(name, {}))


def fitted(name):
    """A call that fits it, and hands out what it keeps and predicts."""

    def call(data):
        model = made(name)
        if name == "FrozenEstimator":
            model = META[name](regressor().fit(*data))
        model.fit(*data)
        kept = {key: value for key, value in vars(model).items() if re.fullmatch("[a-z].*_", key)}
        kept.pop("refit_time_", None)
        found = kept.pop("cv_results_", {})
        answer = getattr(model, "predict", getattr(model, "transform", None))
        scores = {key: value for key, value in found.items() if not key.endswith("_time")}
        return kept, scores, answer(np.array([[0.0, 0.0], [1.0, 2.0]]))

    return call


#: What becomes of one record: covariates, and how its response changes.
CHANGES = {
    "far away": ([9.0, -9.0], "other"),
    "another class": (X[CHANGED], "new"),
    "not finite": ([np.nan, 1e9], "same"),
}


def neighbours(name, change):
    y = LABELS if of_classes(name) else Y
    if name in SEVERAL:
        y = np.column_stack([y, 1 - y])
    row, label = CHANGES[change]
    rows, responses = X.copy(), y.copy()
    rows[CHANGED] = row
    responses[CHANGED] = {"other": 1 - y[CHANGED], "new": 5, "same": y[CHANGED]}[label]
    return (X, y), (rows, responses)


def leaks(name, change):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replay(fitted(name), *neighbours(name, change)).leaks


def test_every_meta_estimator_of_this_version_has_a_verdict():
    verdicts = [UNPAID, OF_LABELS, OF_FINITE, PAID]
    assert sum(map(len, verdicts)) == len(set().union(*verdicts))
    assert set(META) <= set().union(*verdicts)
    assert len(META) > 25


#: Each with one change in turn, and each with all in the slow tests.
TURNS = [
    pytest.param(name, change, marks=[] if k % len(CHANGES) == turn else [pytest.mark.slow])
    for k, name in enumerate(sorted(PAID & set(META)))
    for turn, change in enumerate(CHANGES)
]


@pytest.mark.parametrize(("name", "change"), TURNS)
@pytest.mark.one_in(2)
def test_what_only_hands_records_on_is_paid_for(name, change):
    assert leaks(name, change) == ()


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == "TunedThresholdClassifierCV" else [])
    for name in sorted(UNPAID & set(META))
])  # fmt: skip
@pytest.mark.one_in(2)
def test_what_computes_from_exact_records_is_not_private(name):
    """The noise of a fit may hide it in one run, as where a label stays on its side."""
    assert any(leaks(name, change) for _ in range(10) for change in ("far away", "not finite"))


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == "BaggingClassifier" else [])
    for name in sorted(OF_LABELS & set(META))
])  # fmt: skip
def test_what_finds_classes_in_the_labels_hands_out_that_one_occurs(name):
    assert leaks(name, "another class")
    assert leaks(name, "far away") == () or name == "OneVsOneClassifier"


@pytest.mark.parametrize("name", sorted(OF_FINITE & set(META)))
def test_what_refuses_a_value_says_that_it_is_there(name):
    assert leaks(name, "not finite")
    assert leaks(name, "far away") == ()


@each("name", sorted(UNPAID | OF_LABELS | OF_FINITE))
def test_what_is_not_private_is_named_where_people_look(name):
    section = PAGE.read_text(encoding="utf-8").partition("## Inside scikit-learn")[2]
    assert f"`{name}`" in section.partition("\n## ")[0]
    if name in UNPAID:
        assert name in inspect.getdoc(DPHuberRegressor)


# ---- by hand: what a response was, to the last digits --------------------------------------------


def test_adaboost_keeps_an_exact_function_of_the_residuals():
    """Who knows the others reads the response of one off the error of the first round."""
    boosted = AdaBoostRegressor(regressor(), n_estimators=2, random_state=0).fit(X, Y)
    residuals = np.abs(Y - boosted.estimators_[0].predict(X))  # of a model that was paid for
    one = np.argsort(residuals)[N // 2]  # whoever has not the largest
    others = np.delete(residuals, one)
    found = boosted.estimator_errors_[0] * N * others.max() - others.sum()
    assert abs(found - residuals[one]) < 1e-9


def test_stacking_fits_exact_responses():
    """The mean of all responses stands in the coefficients of its last fit."""
    paid = regressor().fit(X, Y)
    stacked = StackingRegressor([("paid", paid)], cv="prefit").fit(X, Y)
    last = stacked.final_estimator_
    mean = last.intercept_ + last.coef_[0] * paid.predict(X).mean()
    assert abs(N * mean - np.delete(Y, CHANGED).sum() - Y[CHANGED]) < 1e-9


def test_stacking_with_a_last_fit_that_pays_is_paid_for():
    def call(data):
        stack = StackingRegressor([("a", regressor())], regressor(), cv=KFold(2)).fit(*data)
        return stack.final_estimator_.coef_, stack.predict(np.ones((2, 2)))

    for change in CHANGES:
        assert replay(call, *neighbours("StackingRegressor", change)).leaks == ()


def test_the_sweep_is_of_estimators_that_it_names():
    assert all(issubclass(kind, BaseEstimator) for kind in META.values())
    assert all(is_classifier(made(n)) for n in OF_LABELS & set(META))
