"""Folds that look at nothing, and a cross-validation with one charge up front (claim C54)."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.ensemble import VotingRegressor
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dpfast
from dpfast import GDP, ZCDP, ApproxDP, Ledger, PureDP, SeededNoise
from dpfast.audit import neighbours, replay
from dpfast.audit.pairs import KINDS as PAIRS
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.noisy_release import observed
from dpfast.errors import InvalidBudget, InvalidInput, UnsupportedConversion
from dpfast.estimators import (
    DealtFolds,
    DPHuberRegressor,
    DPLogisticRegression,
    cross_validate,
)
from dpfast.estimators.regressors import PrivateRegressor
from dpfast.fit_requests.request import Account
from dpfast.inference.rendering.arrays import plain
from tests.estimators.attacks import attained
from tests.loops import each

RNG = np.random.default_rng(5)
X = RNG.normal(size=(600, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=600)
TOTAL = math.sqrt(4 * 0.5**2 + 0.25**2)


def huber(**options):
    return DPHuberRegressor(0.5, scale=0.5, score_privacy=0.25, inference=False, **options)


# ---- scores of scikit-learn ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("price", "named"), [(None, "score_privacy"), ("x", "a budget must be"), (1e-9, "too small")]
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_fit_is_not_paid_for_where_its_score_has_no_price(price, named, wrapped):
    """scikit-learn turns what a score raises into NaN, after every fit was paid for."""
    ledger = Ledger(9.0)
    model = huber(ledger=ledger).set_params(score_privacy=price)
    asked = make_pipeline(StandardScaler(), model) if wrapped else model
    with pytest.raises(ValueError, match=named):
        cross_val_score(asked, X, Y, cv=3)
    with pytest.raises(ValueError, match=named):
        GridSearchCV(model, {"ridge": [0.0, 1.0]}, cv=3, scoring=None).fit(X, Y)
    assert not ledger.entries
    if price is None:  # what is scored by something else needs no price
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpfast.errors.DpfastWarning)  # such scores are unpaid
            found = cross_val_score(asked, X, Y, cv=3, scoring="r2")
            voted = cross_val_score(VotingRegressor([("one", model)]), X, Y, cv=3)
        assert np.isfinite([*found, *voted]).all() and len(ledger.entries) == 6


def test_a_price_that_a_search_sets_is_seen():
    ledger = Ledger(99.0)
    model = DPHuberRegressor(0.5, scale=0.5, inference=False, ledger=ledger)
    found = GridSearchCV(model, {"score_privacy": [0.2, 0.3]}, cv=2).fit(X, Y)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("after", [0, 1, 9, 40])
def test_folds_that_ended_can_be_written_down(after):
    class Stop:
        left = after

        def release(self, question, release, draw):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return draw()

    with observed(Stop()), pytest.raises(KeyboardInterrupt) as stopped:
        cross_validate(huber(noise=SeededNoise(0)), X, Y, folds=3)
    found = getattr(stopped.value, "partial_result", None)
    assert found is not None or after == 0
    if found is not None:
        told = json.dumps(plain(found.to_dict()))
        assert json.loads(told)["privacy"]["total"]["type"] == "GDP" and str(found)


# ---- the splitter --------------------------------------------------------------------------------


def test_folds_look_at_the_number_of_records_only():
    folds = [
        [test.tolist() for _, test in DealtFolds(4, noise=SeededNoise(1)).split(*data)]
        for data in ((X, Y), (X[::-1] * np.nan, Y > 0), (np.zeros((600, 0)), None))
    ]
    assert folds[0] == folds[1] == folds[2]
    assert sorted(np.concatenate(folds[0])) == list(range(600))
    for train, test in DealtFolds(4).split(X):
        assert sorted([*train, *test]) == list(range(600)) and len(test) == 150


def test_folds_are_dealt_anew_and_by_genuine_noise():
    folds = DealtFolds(5)
    first, second = ([test.tolist() for _, test in folds.split(X)] for _ in range(2))
    assert first != second
    assert folds.noise.guarantee == "GDP"
    assert pickle.loads(pickle.dumps(folds)).get_n_splits() == 5


@each(
    ("options", "named"),
    [
        ({"n_splits": 1}, "n_splits"),
        ({"n_splits": True}, "n_splits"),
        ({"n_splits": 2.0}, "n_splits"),
        ({"noise": 3}, "noise"),
    ],
)
def test_settings_of_the_splitter(options, named):
    with pytest.raises(InvalidInput, match=named):
        DealtFolds(**options)


def test_persons_are_not_silently_torn_apart():
    with pytest.raises(InvalidInput, match="one person"):
        DealtFolds(5).split(X, Y, groups=np.arange(600) // 2)


def test_scikit_learn_takes_the_splitter():
    book = Ledger(3.0)
    model = huber(ledger=book, noise=SeededNoise(0))
    folds = DealtFolds(3, noise=SeededNoise(1))
    assert cross_val_score(model, X, Y, cv=folds, error_score="raise").shape == (3,)
    search = GridSearchCV(model, {"loss": ["huber", "log-cosh"]}, cv=folds, error_score="raise")
    search.fit(X, Y)
    assert search.n_splits_ == 3
    assert len(book.entries) == 2 * 3 + 2 * (2 * 3) + 1


# ---- what it costs -------------------------------------------------------------------------------


def test_one_charge_up_front_and_receipts_that_add_up():
    book = Ledger(1.1)
    found = cross_validate(huber(ledger=book), X, Y, folds=5)
    (entry,) = book.entries
    assert entry.label == "cross_validate(DPHuberRegressor, n=600, 5 folds)"
    assert found.privacy.mu == entry.charged.mu == pytest.approx(TOTAL)
    spent = sum(Fraction(mu) ** 2 for _, mu in found.privacy.entries)
    assert spent == 4 * Fraction(0.5) ** 2 + Fraction(0.25) ** 2
    assert Fraction(repr(math.nextafter(found.privacy.mu, 0))) ** 2 < spent
    assert spent <= Fraction(repr(found.privacy.mu)) ** 2
    assert [fit.privacy.mu for fit in found.fits] == [0.5] * 5
    assert found.privacy.guarantee == "GDP"
    assert "4 of the 5 fits" in str(found)
    with pytest.raises(dpfast.BudgetExceeded):
        cross_validate(huber(ledger=book), X, Y, folds=5)
    assert len(book.entries) == 1


def test_scores_are_those_of_models_that_have_not_seen_the_fold():
    """At mu = 1e4 noise vanishes: the exact score of an exact fit on the other folds."""
    seed = SeededNoise(7)
    model = DPHuberRegressor(1e4, scale=0.5, score_privacy=1e4, inference=False, noise=seed)
    found = cross_validate(model, X, Y, folds=DealtFolds(4, noise=SeededNoise(3)))
    assert found.privacy.guarantee == "none (simulation)"
    for j, (train, test) in enumerate(DealtFolds(4, noise=SeededNoise(3)).split(X)):
        apart = DPHuberRegressor(1e4, scale=0.5, inference=False, noise=SeededNoise(9))
        error = np.abs(Y[test] - apart.fit(X[train], Y[train]).predict(X[test]))
        assert found.scores[j] == pytest.approx(1.0 - error.mean() / 2.5, abs=1e-3)
        np.testing.assert_allclose(found.fits[j].params[1:], apart.coef_, atol=1e-3)
    assert found.mean == pytest.approx(found.scores.mean())


def test_results_hold_no_records():
    small, large = (
        cross_validate(huber(), np.tile(X, (times, 1)), np.tile(Y, times)) for times in (1, 20)
    )
    assert abs(len(pickle.dumps(large)) - len(pickle.dumps(small))) < 2000  # paths differ in length


def test_the_noise_of_scores_is_reported():
    found = cross_validate(huber(), X, Y, folds=5)
    assert found.noise_scales == pytest.approx(np.full(5, 1 / (120 * 0.25)), rel=1e-3)
    assert found.noise_scale == pytest.approx(1 / (120 * 0.25) / math.sqrt(5), rel=1e-3)


@pytest.mark.parametrize(
    ("folds", "noise"), [(DealtFolds(3, noise=SeededNoise(0)), None), (3, SeededNoise(0))]
)
def test_one_seeded_source_voids_the_guarantee(folds, noise):
    assert cross_validate(huber(noise=noise), X, Y, folds=folds).privacy.guarantee != "GDP"


@pytest.mark.parametrize(
    ("price", "score", "total", "spent"),
    [
        (ZCDP(0.125), ZCDP(0.5), ZCDP(1.0), ZCDP(1.0)),
        (0.5, 1.0, ZCDP(1.0), ZCDP(1.0)),
        # pairs are spent as Gaussian noise, whose squares add up
        (ApproxDP(1.0, 2**-20), ApproxDP(2.0, 2**-20), ApproxDP(6.0, 2**-20), None),
    ],
)
def test_other_currencies(price, score, total, spent):
    book = Ledger(total)
    model = DPHuberRegressor(price, scale=0.5, score_privacy=score, inference=False, ledger=book)
    cross_validate(model, X, Y, folds=5)
    if spent is None:
        mus = [*[GDP.within(price).mu] * 4, GDP.within(score).mu]
        spent = GDP(math.hypot(*mus)).as_approx(2**-20)
        assert spent.epsilon < 3.2
        assert book.spent.epsilon == pytest.approx(spent.epsilon)
    else:
        assert book.spent == spent


def test_a_ledger_that_cannot_pay_for_gaussian_noise_refuses():
    book = Ledger(PureDP(100.0))
    with pytest.raises(UnsupportedConversion):
        cross_validate(huber(ledger=book), X, Y)
    assert not book.entries


# ---- refused before the charge -------------------------------------------------------------------


@each(
    ("options", "folds", "error"),
    [
        ({"loss": "no such loss"}, 5, InvalidInput),
        ({"ridge": -1.0}, 5, InvalidInput),
        ({"score_privacy": None}, 5, InvalidInput),
        ({"score_privacy": 1e200}, 5, InvalidBudget),
        ({"privacy": -1.0}, 5, InvalidBudget),
        ({"noise": 3}, 5, InvalidInput),
        ({}, 601, InvalidInput),
        ({}, 1, InvalidInput),
        ({}, KFold(5), InvalidInput),
        ({}, StratifiedKFold(5), InvalidInput),
        ({}, list(KFold(5).split(X)), InvalidInput),
    ],
)
def test_what_is_wrong_for_public_reasons_costs_nothing(options, folds, error):
    book = Ledger(1e6)
    with pytest.raises(error):
        cross_validate(huber(ledger=book).set_params(**options), X, Y, folds=folds)
    assert not book.entries


def test_too_few_records_for_the_coefficients_of_the_smallest_training_set():
    book = Ledger(10.0)
    with pytest.raises(InvalidInput):
        cross_validate(huber(ledger=book), np.ones((5, 4)), np.ones(5), folds=3)
    assert not book.entries


@pytest.mark.parametrize("estimator", [make_pipeline(StandardScaler(), huber()), StandardScaler()])
def test_other_steps_would_see_records_without_paying(estimator):
    with pytest.raises(InvalidInput, match="without paying"):
        cross_validate(estimator, X, Y)


def test_the_estimator_is_not_changed():
    model = huber(ledger=Ledger(2.0))
    before = dict(vars(model))
    cross_validate(model, X, Y)
    assert vars(model) == before


# ---- the attack on claim C54 ---------------------------------------------------------------------


class Mean(PrivateRegressor):
    """Predicts a private mean of the responses in [0, 1]: its worst record attains its price."""

    def __init__(self, privacy=0.5, *, score_privacy=0.25, ledger=None, noise=None):
        self.privacy, self.score_privacy = privacy, score_privacy
        self.ledger, self.noise = ledger, noise

    def _fit_records(self, X, y):
        total = GDP.within(self.privacy)
        values = RecordValues(len(y), Ledger(total), self._noise())
        Account(self.privacy, self.ledger).charge("mean")
        values.append(y)
        self.intercept_ = float(values.mean_loss(0, 0.0, 1.0, total.mu).value[0])
        self.coef_ = np.zeros(X.shape[1])
        self.result_ = None
        return self

    def _loss_bound(self):
        return 1e4  # predictions are tiny beside it


@each("k", [2, 3, 5, 8])
def test_the_worst_record_attains_the_total_and_no_more(k):
    """k - 1 fits and one score move by their whole sensitivity, its own fold's fit not at all."""
    zeros = np.zeros(40)
    worst = zeros.copy()
    worst[11] = 1e9
    X = np.zeros((40, 1))

    def call(data):
        return cross_validate(Mean(), *data, folds=k).scores

    for pair in (((X, zeros), (X, worst)), ((X, worst), (X, zeros))):
        mu, moved = attained(call, *pair)
        total = math.sqrt((k - 1) * 0.5**2 + 0.25**2)
        assert 0.99 * total <= mu <= total
        assert sum(distance == 0.0 for distance in moved) == 1 + (k - 1)


QUICK = ["nan"]
KINDS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in PAIRS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "estimator",
    [
        huber(),
        DPLogisticRegression(0.5, score_privacy=0.25, inference=False),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_nothing_else_depends_on_a_record(estimator, kind):
    """Record and replay: folds, order of questions, warnings, results; and the total holds."""
    small = np.random.default_rng(6).normal(size=(60, 2))
    binary = isinstance(estimator, DPLogisticRegression)
    y = (small[:, 0] > 0).astype(float) if binary else np.sort(small[:, 0])

    def call(data):
        return cross_validate(estimator, *data, folds=5)

    pair = neighbours(small, y, kind)
    replay(call, *pair).raise_on_leak()
    assert attained(call, *pair)[0] <= TOTAL
