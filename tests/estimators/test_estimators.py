"""scikit-learn estimators: the interface of the library, the privacy of this one."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import dpfast
from dpfast import SeededNoise
from dpfast.audit import neighbours, replay
from dpfast.errors import InvalidInput
from dpfast.estimators import (
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from dpfast.privacy.noise import NoiseSource
from tests.estimators.declared import ESTIMATORS, declared
from tests.loops import each

#: Checks of scikit-learn that contradict a promise of this library, and which.
VALUES = "values never raise: a record that is not finite contributes zero and is still counted"
DECLARED = "classes are declared, never taken from y: undeclared labels contribute zero"
NOISE = "ten records: the noise decides, as it should"
FEW = "more coefficients than records are refused: n and p are public"
OBJECTS = "an array of objects is refused for its type, whatever its cells hold"
EXPECTED = {
    "check_supervised_y_no_nan": VALUES,
    "check_classifiers_classes": DECLARED,
    "check_classifiers_regression_target": DECLARED,
    "check_classifier_not_supporting_multiclass": DECLARED,
    "check_fit2d_1sample": FEW,
    "check_dtype_object": OBJECTS,
    "check_all_zero_sample_weights_error": VALUES,
    "check_sample_weight_equivalence_on_dense_data": FEW,
    "check_classifiers_one_label_sample_weights": NOISE,
}

#: scikit-learn 1.6 asks it of every estimator, later versions of those that take sparse data.
OF_SPARSE_DATA = "check_sample_weight_equivalence_on_sparse_data"

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3000, 3))
Y = 1.0 + X @ [1.0, -0.5, 0.0] + 0.5 * RNG.normal(size=3000)
LABELS = np.where(X @ [2.0, -1.0, 0.0] + RNG.logistic(size=3000) > 0.0, "sick", "well")


class Repeating(NoiseSource):
    """The same noise in every fit, which scikit-learn's checks expect of what they compare."""

    def normals(self, size, bits):
        return SeededNoise(0).normals(size, bits)

    def discrete_laplace(self, size, numerator, denominator):
        return SeededNoise(0).discrete_laplace(size, numerator, denominator)


def failures(kind, **options):
    """Checks of scikit-learn that failed, and how many there were."""
    estimator = declared(kind, 20.0, score_privacy=1.0, noise=Repeating(), largest_weight=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # optional parts of scikit-learn itself
        results = check_estimator(estimator, on_fail=None, **options)
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    failed.pop(OF_SPARSE_DATA, None)
    return failed, len(results)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.one_in(4)
def test_scikit_learn_finds_nothing_it_did_not_expect(kind):
    failed, checks = failures(kind, expected_failed_checks=EXPECTED)
    assert failed == {}
    assert checks > 40


@pytest.mark.slow
def test_no_expected_failure_is_stale():
    """A check that passes for all estimators needs no excuse."""
    needed = [failures(kind)[0] for kind in ESTIMATORS]
    assert set().union(*needed) == set(EXPECTED)


def test_a_regressor_is_the_fit_it_wraps():
    estimator = DPHuberRegressor(2.0, scale=0.5, noise=SeededNoise(3)).fit(X, Y)
    fit = dpfast.fit(
        X, Y, dpfast.Objective("log-cosh", scale=0.5), privacy=2.0, noise=dpfast.SeededNoise(3)
    )
    assert estimator.intercept_ == fit.params[0]
    assert np.array_equal(estimator.coef_, fit.params[1:])
    np.testing.assert_allclose(estimator.predict(X[:5]), fit.predict(X[:5]))
    assert np.array_equal(estimator.result_.conf_int(), fit.conf_int())


def test_a_regressor_of_counts_is_the_fit_it_wraps():
    counts = np.round(np.exp(np.clip(Y, -2.0, 1.0)))
    caps = {"largest_mean": 4.0, "largest_residual": 9.0}
    estimator = DPPoissonRegressor(2.0, loss=dpfast.Poisson(**caps), noise=SeededNoise(3)).fit(
        X, counts
    )
    fit = dpfast.fit(X, counts, dpfast.Poisson(**caps), privacy=2.0, noise=dpfast.SeededNoise(3))
    assert estimator.intercept_ == fit.params[0]
    np.testing.assert_allclose(estimator.predict(X[:5]), fit.predict(X[:5]))
    assert estimator.predict(1e6 * X[:5]) == pytest.approx(fit.predict(1e6 * X[:5]))
    free = DPPoissonRegressor(2.0, noise=SeededNoise(3)).fit(X, counts)
    plain = dpfast.fit(X, counts, "poisson", privacy=2.0, noise=dpfast.SeededNoise(3))
    assert free.intercept_ == plain.params[0]


def test_a_quantile_regressor_is_the_fit_it_wraps():
    noise = {"noise": SeededNoise(3)}
    estimator = DPQuantileRegressor(2.0, quantile=0.8, scale=0.5, score_privacy=50.0, **noise)
    estimator.fit(X, Y)
    fit = dpfast.fit(
        X,
        Y,
        dpfast.Objective(dpfast.Quantile(0.8), scale=0.5),
        privacy=2.0,
        noise=dpfast.SeededNoise(3),
    )
    assert np.array_equal(np.r_[estimator.intercept_, estimator.coef_], fit.params)
    assert 0.76 < np.mean(estimator.predict(X) > Y) < 0.84
    apart = Y - estimator.predict(X)
    pinball = np.where(apart > 0.0, 0.8 * apart, -0.2 * apart)
    assert estimator.score(X, Y) == pytest.approx(1.0 - pinball.mean() / 2.5, abs=1e-4)
    narrow = DPQuantileRegressor(2.0, quantile=0.8, bandwidth=0.07, scale=0.5, **noise).fit(X, Y)
    assert "bandwidth 0.07 scales" in narrow.result_.model
    for wrong in ({"quantile": 1.0}, {"bandwidth": -1.0}, {"scale": None, "weights": object()}):
        ledger = dpfast.Ledger(5.0)
        with pytest.raises(InvalidInput):
            DPQuantileRegressor(**{"scale": 0.5, "ledger": ledger, **wrong}).fit(X, Y)
        assert not ledger.entries


def test_labels_are_declared():
    estimator = DPLogisticRegression(2.0, classes=("well", "sick"), noise=SeededNoise(0))
    estimator.fit(X, LABELS)
    assert estimator.classes_.tolist() == ["well", "sick"]
    assert estimator.nonprivate_score(X, LABELS) > 0.7
    probabilities = estimator.predict_proba(X[:9])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    picked = np.where(probabilities[:, 1] > 0.5, "sick", "well")
    assert (estimator.predict(X[:9]) == picked).all()
    one_class = DPLogisticRegression(classes=("well", "sick"), noise=SeededNoise(0))
    one_class.fit(X, np.full(3000, "well"))  # says nothing about which labels there are
    assert one_class.classes_.tolist() == ["well", "sick"]
    for classes in ((1, 1), (np.nan, 1)):  # no label is equal to nan
        with pytest.raises(InvalidInput, match="two different labels"):
            DPLogisticRegression(classes=classes).fit(X, LABELS)


@each(
    ("estimator", "y"),
    [
        (DPHuberRegressor(score_privacy=1.0, scale=0.5, noise=SeededNoise(0)), Y),
        (
            DPLogisticRegression(score_privacy=1.0, classes=("well", "sick"), noise=SeededNoise(0)),
            LABELS,
        ),
        (DPQuantileRegressor(score_privacy=1.0, scale=0.5, noise=SeededNoise(0)), Y),
        (DPPoissonRegressor(score_privacy=1.0, loss=dpfast.Poisson(4.0), noise=SeededNoise(0)), Y),
        (DPLinearRegression(score_privacy=1.0, noise=SeededNoise(0)), Y),
    ],
)
def test_scores_are_noisy_and_close(estimator, y):
    """Noise of a mean of n = 3000 at mu = 1 has standard deviation 1/3000: 6 of them are 0.002."""
    estimator.fit(X, y)
    if isinstance(estimator, DPLogisticRegression):
        exact = estimator.nonprivate_score(X, y)
    else:
        bound = estimator._loss_bound()
        apart = np.abs(y - estimator.predict(X))
        if isinstance(estimator, DPQuantileRegressor):
            apart /= 2.0  # the check loss of the median
        exact = 1.0 - np.minimum(apart, bound).mean() / bound
    found = estimator.score(X, y)
    assert found != exact and abs(found - exact) < 0.002


def test_a_score_without_a_price_is_refused():
    estimator = DPHuberRegressor(scale=1.0, noise=SeededNoise(0)).fit(X, Y)
    with pytest.raises(InvalidInput, match="score_privacy"):
        estimator.score(X, Y)


def test_folds_share_one_ledger_and_are_refused_when_it_is_exhausted():
    ledger = dpfast.Ledger(2.0)
    estimator = DPHuberRegressor(
        0.8, scale=0.5, score_privacy=0.1, ledger=ledger, noise=SeededNoise(0), inference=False
    )
    scores = cross_val_score(estimator, X, Y, cv=5, error_score="raise")
    assert scores.shape == (5,)
    labels = [entry.label.split("(")[0] for entry in ledger.entries]
    assert labels.count("fit") == 5 and labels.count("DPHuberRegressor.score") == 5
    assert ledger.spent.mu == pytest.approx((5 * (0.8**2 + 0.1**2)) ** 0.5)
    assert clone(estimator).ledger is ledger
    with pytest.raises(dpfast.BudgetExceeded):
        cross_val_score(estimator, X, Y, cv=5, error_score="raise")


def test_grid_search_pays_for_every_candidate():
    ledger = dpfast.Ledger(5.0)
    base = DPHuberRegressor(
        0.5, scale=0.5, score_privacy=0.2, ledger=ledger, noise=SeededNoise(0), inference=False
    )
    search = GridSearchCV(base, {"loss": ["huber", "log-cosh"]}, cv=2, error_score="raise")
    search.fit(X, Y)
    fits = [entry for entry in ledger.entries if entry.label.startswith("fit(")]
    assert len(fits) == 2 * 2 + 1  # and the refit of the winner


def test_names_and_parameters_survive_a_pipeline():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    public = FunctionTransformer(lambda x: x / 2.0, feature_names_out="one-to-one")
    pipe = make_pipeline(public, DPHuberRegressor(scale=0.5, noise=SeededNoise(0))).fit(frame, Y)
    final = pipe[-1]
    assert final.feature_names_in_.tolist() == ["a", "b", "c"]
    assert final.result_.names == ("intercept", "a", "b", "c")
    pipe.set_params(dphuberregressor__privacy=dpfast.ApproxDP(1.0, 1e-6))
    assert pipe.fit(frame, Y)[-1].result_.privacy.mu < 1.0
    again = pickle.loads(pickle.dumps(pipe[-1]))
    assert np.array_equal(again.predict(frame), pipe[-1].predict(frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.one_in(2)
def test_a_fit_and_a_score_pass_record_and_replay(kind):
    """Whatever is published differs through noisy answers only."""
    rng = np.random.default_rng(12)
    small = rng.normal(size=(20, 2))
    binary = kind is DPLogisticRegression
    y = (small[:, 0] > 0).astype(float) if binary else small[:, 0] + rng.normal(size=20)

    def call(data):
        estimator = declared(kind, 1.0, score_privacy=0.5).fit(*data)
        rows = [[0.1, 0.2], [1e3, -1e3]]
        return estimator.coef_, estimator.predict(rows), estimator.score(*data)

    for pair in [*neighbours(small, y).values()][::2]:
        replay(call, *pair, budget=1.25**0.5 * (1 + 1e-9)).raise_on_leak()
