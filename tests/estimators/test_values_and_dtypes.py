"""Shapes and dtypes may raise; values neither raise nor warn, and no message quotes them."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone

import dpfast
from dpfast import Ledger, SeededNoise
from dpfast.bayesopt import sklearn_losses
from dpfast.data.classes import comparable, encoded, label_kind
from dpfast.errors import InvalidInput
from dpfast.estimators import (
    DPHuberRegressor,
    DPLogisticRegression,
    cross_validate,
)
from tests.estimators.declared import ESTIMATORS, declared
from tests.loops import each

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


@each("kind", ESTIMATORS)
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
        model = declared(kind, 9.0, score_privacy=1.0, noise=SeededNoise(0)).fit(features, target)
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


@each("kind", ESTIMATORS)
@each(
    ("features", "target"),
    [
        (X + 4711j, Y),
        (X, Y + 4711j),
        (np.full((50, 2), "4711"), Y),
        ([[4711.0], [1.0, 2.0]], Y[:2]),
        (X[:, 0] + 4711, Y),
        (X, X + 4711),
        (X, np.ma.array(Y, mask=X[:, 0] > 1.0)),  # its mask would be lost
    ],
)
def test_refusals_quote_no_value(kind, features, target):
    book = Ledger(1.0)
    assert assert_unquoted(lambda: declared(kind, ledger=book).fit(features, target))
    assert not book.entries


@each("kind", ESTIMATORS)
@each(
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
    assert_unquoted(lambda: declared(kind).fit(features, target))


@each("kind", ESTIMATORS)
def test_refusals_of_tables_quote_no_value(kind):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "b": [SECRET, *["1.5"] * 49]})
    model = declared(kind, score_privacy=1.0).fit(pandas.DataFrame(X, columns=["a", "b"]), Y)
    for call in (clone(model).fit, model.score):
        assert_unquoted(lambda call=call: call(table, Y))
    assert_unquoted(lambda: clone(model).fit(X, table["b"]))


def test_a_wrong_argument_is_not_quoted():
    with pytest.raises(InvalidInput) as refusal:
        DPLogisticRegression(classes=[SECRET] * 50).fit(X, Y)
    assert "4711" not in str(refusal.value)


@each(
    ("labels", "classes"),
    [
        (np.array(["0", "1"])[Y.astype(int)], (0, 1)),
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


@each(
    "container",
    ["Series", "object", "Categorical", "string", "Int64", "polars", "Enum", "Arrow", "dictionary"],
)
def test_labels_of_table_libraries(container):
    pandas = pytest.importorskip("pandas")
    words = np.array(["no", "yes"])[Y.astype(int)]
    if container == "polars":
        labels = pytest.importorskip("polars").Series(words.tolist())
    elif container == "Enum":
        polars = pytest.importorskip("polars")
        labels = polars.Series(words.tolist(), dtype=polars.Enum(["no", "yes"]))
    elif container in ("Arrow", "dictionary"):
        labels = pytest.importorskip("pyarrow").array(words.tolist())
        labels = labels.dictionary_encode() if container == "dictionary" else labels
    elif container == "Int64":
        labels = pandas.Series(Y.astype(int), dtype="Int64")
    else:
        kinds = {"Categorical": "category", "object": object}
        labels = pandas.Series(words, dtype=kinds.get(container))
        labels = labels.astype("string") if container == "string" else labels
    right, wrong = ("no", "yes"), (0, 1)
    if container == "Int64":
        right, wrong = wrong, right
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, Y)
    model = DPLogisticRegression(classes=right, noise=SeededNoise(0)).fit(X, labels)
    assert np.array_equal(model.coef_, plain.coef_)
    mismatched = DPLogisticRegression(classes=wrong, noise=SeededNoise(0))
    with pytest.raises(InvalidInput, match=r"be (one|none) of the classes"):
        mismatched.fit(X, labels)


class Awkward:
    """A label whose comparison raises."""

    def __eq__(self, other):
        raise RuntimeError(SECRET)

    __hash__ = None


@each("value", [None, np.nan, 7, np.ones(2), Awkward(), "NA"])
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
    assert comparable("objects", "text") and not comparable("objects", "numbers")
    assert label_kind([1, None]) == "anything"
    assert label_kind(["a"]) == label_kind(("a",)) == label_kind([1]) == "anything"
    assert comparable("text", "text") and not comparable("text", "numbers")
    assert comparable("anything", "numbers")


def test_losses_of_labels_of_another_kind_are_refused():
    from sklearn.linear_model import LogisticRegression

    words = np.array(["0", "1"])[Y.astype(int)]
    with pytest.raises(InvalidInput, match="y_train"):
        sklearn_losses(
            LogisticRegression(), X, Y, X, words, {"C": (0.1, 1.0, "log")}, metric="zero_one"
        )


# ---- no cell changes how another is read ---------------------------------------------------------


@each("container", [list, tuple, lambda cells: np.array(cells, dtype=object)])
@each("cell", ["x", None, 2.5, 10**400, (1, 2), Awkward(), "a" * 10**6])
def test_one_label_changes_no_other(container, cell):
    found = encoded(container([cell, 0, 1, 0, 1]), 0, 1)
    np.testing.assert_array_equal(found, [np.nan, 0.0, 1.0, 0.0, 1.0])
    mixed = encoded(container([cell, "none", 1, "none", 1]), "none", 1)
    np.testing.assert_array_equal(mixed, [np.nan, 0.0, 1.0, 0.0, 1.0])


def test_a_cell_that_is_a_list_is_no_label():
    np.testing.assert_array_equal(encoded([[1], 1, np.ones(1), 0], 0, 1), [np.nan, 1, np.nan, 0])
    assert np.isnan(encoded([[1], [0]], 0, 1)).all()
    assert np.isnan(encoded([np.ones(2), np.ones(2)], 0, 1)).all()


def test_classes_of_two_types_stay_what_they_are():
    labels = ["none" if y == 0.0 else 1 for y in Y]
    plain = declared(DPLogisticRegression, noise=SeededNoise(0)).fit(X, Y)
    classes = ("none", 1)
    model = declared(DPLogisticRegression, classes=classes, noise=SeededNoise(0)).fit(X, labels)
    assert np.array_equal(model.coef_, plain.coef_)
    assert model.classes_.tolist() == ["none", 1]
    assert {type(label) for label in model.predict(X)} == {str, int}


@each("cells", [["no", "yes"], [0, 1], [1, 2], [-1, 1], ["no", 1], [None] * 2])
@each("container", ["list", "tuple", "object", "pandas object", "category"])
def test_what_cells_hold_refuses_no_fit(cells, container):
    """Numbers in a column of objects or categories are refused as text in it is, for its type."""
    labels = [cells[int(y)] for y in Y]
    if container == "tuple":
        labels = tuple(labels)
    elif container == "object":
        labels = np.array(labels, dtype=object)
    elif container == "pandas object":
        labels = pytest.importorskip("pandas").Series(labels, dtype=object)
    elif container == "category":
        labels = pytest.importorskip("pandas").Categorical(labels)
    for classes in ((0, 1), ("no", "yes"), (1, 2), (-1, 1)):
        book = Ledger(1.0)
        model = DPLogisticRegression(classes=classes, noise=SeededNoise(0), ledger=book)
        if container not in ("list", "tuple") and classes != ("no", "yes"):
            with pytest.raises(InvalidInput, match="text among them would be none of the classes"):
                model.fit(X, labels)
            with pytest.raises(InvalidInput, match="does not say"):
                dpfast.fit(X, labels, "logistic", privacy=1.0, ledger=book)
            assert not book.entries
            continue
        model.fit(X, labels)
        expected = [dict(zip(classes, (0.0, 1.0), strict=True)).get(x, np.nan) for x in labels]
        plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, np.array(expected))
        assert np.array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("kind", ["bool", "int64"])
def test_missing_entries_do_not_change_the_kind_of_arrows_columns(kind):
    arrow = pytest.importorskip("pyarrow")
    labels = [None, *Y.astype(int).astype(kind).tolist()[1:]]
    model = DPLogisticRegression(noise=SeededNoise(0)).fit(X, arrow.array(labels, kind))
    plain = DPLogisticRegression(noise=SeededNoise(0)).fit(X, [np.nan, *Y[1:]])
    assert np.array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("kind", ESTIMATORS)
@each("container", [list, tuple])
@each("cell", [SECRET, None, [1], "a" * 10**6, Awkward()])
def test_rows_and_responses_are_read_cell_by_cell(kind, container, cell):
    rows, target = X.tolist(), Y.tolist()
    rows[3][1], target[0] = cell, cell
    features, response = X.copy(), Y.copy()
    features[3, 1] = response[0] = np.nan
    rows = container(map(container, rows))
    model = declared(kind, noise=SeededNoise(0)).fit(rows, container(target))
    plain = declared(kind, noise=SeededNoise(0)).fit(features, response)
    assert np.array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict(rows), plain.predict(features))


def test_dealing_that_fails_is_not_paid_for():
    from dpfast.estimators import DealtFolds

    book, folds = Ledger(10.0), DealtFolds(3)
    folds.parts = lambda n: 1 / 0
    model = DPHuberRegressor(scale=1.0, score_privacy=1.0, ledger=book)
    with pytest.raises(ZeroDivisionError):
        cross_validate(model, X, Y, folds=folds)
    assert not book.entries


def test_a_ledger_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="ledger must be"):
        cross_validate(DPHuberRegressor(scale=1.0, score_privacy=1.0, ledger="x"), X, Y, folds=3)


@each("metric", ["squared_error", "absolute_error", "zero_one", "log_loss"])
@each("cell", [None, "x", [1], Awkward()])
def test_one_validation_label_changes_no_other_loss(metric, cell):
    from sklearn.linear_model import LogisticRegression

    labels, bounds = Y.astype(int).tolist(), {"C": (0.1, 1.0, "log")}
    plain = sklearn_losses(LogisticRegression(), X, Y, X, labels, bounds, metric)({"C": 1.0})
    changed = [cell, *labels[1:]]
    found = sklearn_losses(LogisticRegression(), X, Y, X, changed, bounds, metric)({"C": 1.0})
    np.testing.assert_array_equal(found[1:], plain[1:])
    assert not found[0] < 1.0


@each("value", [np.nan, np.inf, 1e300])
@each("as_list", [False, True])
def test_a_validation_record_that_scikit_learn_refuses_has_no_loss(value, as_list):
    from sklearn.linear_model import Ridge
    from sklearn.tree import DecisionTreeClassifier

    for model, name in ((Ridge(), "alpha"), (DecisionTreeClassifier(), "ccp_alpha")):
        features = X.copy()
        plain = sklearn_losses(model, X, Y, features, Y, {name: (0.1, 1.0)})({name: 0.1})
        features[2, 1] = value
        given = features.tolist() if as_list else features
        found = sklearn_losses(model, X, Y, given, Y, {name: (0.1, 1.0)})({name: 0.1})
        np.testing.assert_array_equal(np.delete(found, 2), np.delete(plain, 2))


@each("value", [None, np.nan, np.inf, 1e300])
@each("library", ["pandas", "polars"])
def test_a_record_of_a_frame_that_scikit_learn_refuses_has_no_loss(value, library):
    frames = pytest.importorskip(library)
    from sklearn.linear_model import Ridge

    def losses(cells):
        frame = frames.DataFrame({"a": cells, "b": X[:, 1]})
        return sklearn_losses(Ridge(), train, Y, frame, Y, {"alpha": (0.1, 1.0)})({"alpha": 0.1})

    train = frames.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    plain, cells = losses(X[:, 0].tolist()), X[:, 0].tolist()
    cells[2] = value
    found = losses(cells)
    np.testing.assert_array_equal(np.delete(found, 2), np.delete(plain, 2))
    assert np.isnan(found[2])


@each("metric", ["squared_error", "log_loss"])
def test_a_record_that_the_estimator_refuses_has_no_loss(metric):
    """The others have theirs; where all are refused the message is not shown."""
    frames = pytest.importorskip("pandas")
    from sklearn.linear_model import LogisticRegression

    def losses(*refused):
        frame = frames.DataFrame({"a": X[:, 0].astype(object), "b": X[:, 1]})
        frame.loc[[*refused], "a"] = SECRET
        made = sklearn_losses(LogisticRegression(), train, Y, frame, Y, {"C": (0.1, 1.0)}, metric)
        return made({"C": 0.5})

    train = frames.DataFrame({"a": X[:, 0], "b": X[:, 1]})

    found, plain = losses(3, 40), losses()
    assert np.isnan(found[[3, 40]]).all()
    np.testing.assert_array_equal(np.delete(found, [3, 40]), np.delete(plain, [3, 40]))
    with pytest.raises(InvalidInput, match="not shown") as refusal:
        losses(*range(len(Y)))
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


@each("kind", ["csr", "coo", "pyarrow", "boolean", "list"])
def test_a_missing_cell_of_any_container_costs_one_loss(kind):
    frames, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    from scipy import sparse
    from sklearn.linear_model import Ridge

    def given(missing):
        cells, flags = X[:, 0].copy(), frames.array(X[:, 1] > 0, dtype="boolean")
        if missing:
            cells[2], flags[2] = np.nan, frames.NA
        table = np.column_stack((cells, X[:, 1]))
        return {
            "csr": lambda: sparse.csr_matrix(table),
            "coo": lambda: sparse.coo_matrix(table),
            "pyarrow": lambda: arrow.table({"a": cells, "b": X[:, 1]}),
            "boolean": lambda: frames.DataFrame({"a": X[:, 0], "b": flags}),
            "list": lambda: table.tolist(),
        }[kind]()

    def losses(missing):
        room = {"alpha": (0.1, 1.0)}
        return sklearn_losses(Ridge(), given(False), Y, given(missing), Y, room)({"alpha": 0.1})

    found, plain = losses(True), losses(False)
    assert np.isnan(found[2])
    np.testing.assert_allclose(np.delete(found, 2), np.delete(plain, 2), rtol=1e-12)


@each("labels", [np.array(["a", "LONGSECRET"] * 25), ["a", "LONGSECRET"] * 25, Y > 0.5])
def test_metrics_of_numbers_take_no_text_and_show_none(labels):
    from sklearn.tree import DecisionTreeClassifier

    def losses():
        model, room = DecisionTreeClassifier(max_depth=1), {"ccp_alpha": (0.0, 1.0)}
        return sklearn_losses(model, X, labels, X, labels, room)({"ccp_alpha": 0.0})

    if isinstance(labels, np.ndarray) and labels.dtype == bool:
        assert set(losses()) <= {0.0, 1.0}
        return
    with pytest.raises(InvalidInput, match="labels are text") as refusal:
        losses()
    assert "10" not in str(refusal.value) and "SECRET" not in str(refusal.value)


def test_records_and_labels_of_other_numbers_are_refused_at_once():
    from sklearn.linear_model import Ridge

    with pytest.raises(InvalidInput, match="50 records and y_validation 49"):
        sklearn_losses(Ridge(), X, Y, X, Y[1:], {"alpha": (0.1, 1.0)})
