"""Shapes and dtypes may raise; values neither raise nor warn, and no message quotes them."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone

from dpfast import Ledger, SeededNoise
from dpfast.bayesopt import sklearn_losses
from dpfast.data.classes import comparable, label_kind
from dpfast.errors import InvalidInput
from dpfast.estimators import (
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    cross_validate,
)

ESTIMATORS = (DPHuberRegressor, DPLinearRegression, DPLogisticRegression)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(50, 2))
Y = (X[:, 0] > 0).astype(float)
SIGNALLING = np.array([0x7FA00000], dtype=np.uint32).view(np.float32)[0]

SECRET = "patient 4711"
WITH_TEXT = X.astype(object)
WITH_TEXT[3, 1] = SECRET
LABELS_WITH_TEXT = Y.astype(object)
LABELS_WITH_TEXT[3] = SECRET
LIST_WITH_TEXT = X.tolist()
LIST_WITH_TEXT[3][1] = SECRET


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("target", [Y, Y.astype(np.float32)])
def test_a_signalling_nan_does_not_warn(kind, target):
    """Warnings are errors here; the record contributes zero like one with any other NaN."""
    noisy = X.astype(np.float32)
    noisy[3, 1] = SIGNALLING
    target = target.copy()
    if target.dtype == np.float32:
        target[4] = SIGNALLING
    quiet = np.where(np.isnan(noisy), np.float32(np.nan), noisy)
    found = []
    for features in (noisy, quiet):
        model = kind(1.0, score_privacy=1.0, noise=SeededNoise(0)).fit(features, target)
        scores = cross_validate(model, features, target, folds=3).scores
        found.append([*np.ravel(model.coef_), *model.predict(features)[:3], *scores])
        assert np.isfinite(model.score(features, target))
    np.testing.assert_array_equal(*found)


def assert_unquoted(call):
    """What is refused is refused without a value in the whole traceback; whether it was."""
    try:
        call()
    except InvalidInput as error:
        refusal = error
    else:
        return False
    assert "4711" not in "".join(traceback.format_exception(refusal))
    return True


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("features", "target"),
    [
        (X + 4711j, Y),
        (X, Y + 4711j),
        (np.full((50, 2), "4711"), Y),
        ([[4711.0], [1.0, 2.0]], Y[:2]),
        (X[:, 0] + 4711, Y),
        (X, X + 4711),
    ],
)
def test_refusals_quote_no_value(kind, features, target):
    book = Ledger(1.0)
    assert assert_unquoted(lambda: kind(ledger=book).fit(features, target))
    assert not book.entries


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("features", "target"),
    [
        (WITH_TEXT, Y),
        (LIST_WITH_TEXT, Y),
        (X, LABELS_WITH_TEXT),
        (X, [SECRET] * 50),
        (X, [*Y.tolist()[:-1], SECRET]),
    ],
)
def test_cells_that_hold_text_are_never_quoted(kind, features, target):
    assert_unquoted(lambda: kind().fit(features, target))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_refusals_of_tables_quote_no_value(kind):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "b": [SECRET, *["1.5"] * 49]})
    model = kind(score_privacy=1.0).fit(pandas.DataFrame(X, columns=["a", "b"]), Y)
    for call in (clone(model).fit, model.score):
        assert_unquoted(lambda call=call: call(table, Y))
    assert_unquoted(lambda: clone(model).fit(X, table["b"]))


def test_a_wrong_argument_is_not_quoted():
    with pytest.raises(InvalidInput) as refusal:
        DPLogisticRegression(classes=[SECRET] * 50).fit(X, Y)
    assert "4711" not in str(refusal.value)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["0", "1"])[Y.astype(int)], (0, 1)),
        (np.array(["no", "yes"])[Y.astype(int)].tolist(), (0, 1)),
        (np.array(["no", "yes"], dtype=object)[Y.astype(int)], (0, 1)),
        (np.array([b"no", b"yes"])[Y.astype(int)], ("no", "yes")),
        (Y, ("0", "1")),
        (Y.astype(bool), ("False", "True")),
        (Y.astype("datetime64[s]"), (0, 1)),
    ],
)
def test_labels_of_another_kind_than_the_classes_are_refused(labels, classes):
    """They would match nothing: every record would contribute zero, and nobody would know."""
    book = Ledger(1.0)
    model = DPLogisticRegression(classes=classes, ledger=book, score_privacy=0.1)
    with pytest.raises(InvalidInput, match="no label would be one of the classes"):
        model.fit(X, labels)
    with pytest.raises(InvalidInput, match="no label would be one of the classes"):
        cross_validate(model, X, labels)
    assert not book.entries


@pytest.mark.parametrize("container", ["Series", "Categorical", "string", "Int64", "polars"])
def test_labels_of_table_libraries(container):
    pandas = pytest.importorskip("pandas")
    words = np.array(["no", "yes"])[Y.astype(int)]
    if container == "polars":
        labels = pytest.importorskip("polars").Series(words.tolist())
    elif container == "Int64":
        labels = pandas.Series(Y.astype(int), dtype="Int64")
    else:
        labels = pandas.Series(words, dtype={"Categorical": "category"}.get(container))
        labels = labels.astype("string") if container == "string" else labels
    right, wrong = ("no", "yes"), (0, 1)
    if container == "Int64":
        right, wrong = wrong, right
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, Y)
    model = DPLogisticRegression(classes=right, noise=SeededNoise(0)).fit(X, labels)
    assert np.array_equal(model.coef_, plain.coef_)
    with pytest.raises(InvalidInput, match="no label would be"):
        DPLogisticRegression(classes=wrong).fit(X, labels)


class Awkward:
    """A label whose comparison raises."""

    def __eq__(self, other):
        raise RuntimeError(SECRET)

    __hash__ = None


@pytest.mark.parametrize("value", [None, np.nan, 7, np.ones(2), Awkward(), "NA"])
def test_a_label_that_is_no_class_contributes_zero_whatever_it_is(value):
    pandas = pytest.importorskip("pandas")
    words = np.array(["no", "yes"], dtype=object)[Y.astype(int)]
    words[4] = pandas.NA if isinstance(value, str) else value
    numbers = Y.copy()
    numbers[4] = np.nan
    model = DPLogisticRegression(classes=("no", "yes"), noise=SeededNoise(0)).fit(X, words)
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, numbers)
    assert np.array_equal(model.coef_, plain.coef_)


def test_a_missing_label_in_a_list_contributes_zero():
    labels = [None, *Y.astype(int).tolist()[1:]]
    model = DPLogisticRegression(noise=SeededNoise(0)).fit(X, labels)
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, [np.nan, *Y[1:]])
    assert np.array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("labels", [Y > 0, Y.astype(np.uint8), Y.astype(int).tolist()])
def test_numbers_of_any_type_are_compared_as_numbers(labels):
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, Y)
    for classes in ((0, 1), (False, True), (0.0, 1.0)):
        model = DPLogisticRegression(classes=classes, noise=SeededNoise(0)).fit(X, labels)
        assert np.array_equal(model.coef_, plain.coef_)


def test_kinds():
    assert label_kind(np.array([], dtype=object)) == "objects"
    assert label_kind([1, None]) == "anything"
    assert comparable("objects", "text") and not comparable("objects", "numbers")
    assert comparable("anything", "numbers")


def test_losses_of_labels_of_another_kind_are_refused():
    from sklearn.linear_model import LogisticRegression

    words = np.array(["0", "1"])[Y.astype(int)]
    with pytest.raises(InvalidInput, match="y_train"):
        sklearn_losses(
            LogisticRegression(), X, Y, X, words, {"C": (0.1, 1.0, "log")}, metric="zero_one"
        )
