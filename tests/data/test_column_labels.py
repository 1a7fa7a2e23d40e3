"""Labels of pandas that look the same as text: columns are told apart by type, or refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dpfast
from tests.loops import each

pandas = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=300)
STAMP = pandas.Timestamp("2020-01-01")

#: Two labels with one text.
TWINS = [("0", 0), (1, "1"), (True, "True"), (1.0, "1.0"), (STAMP, str(STAMP)), (None, "None")]


def table(*labels, of=X):
    found = pandas.DataFrame(of)
    found.columns = pandas.Index(labels, dtype=object)
    return found


def fitted(*labels):
    return dpfast.fit(
        table(*labels), Y, dpfast.Objective("log-cosh", scale=1.0), privacy=1e4, standardize=False
    )


@each("twins", TWINS, ids=str)
def test_labels_with_one_text_are_told_apart_by_type(twins):
    fit = fitted(*twins)
    for found in (fit, pickle.loads(pickle.dumps(fit))):
        right = found.predict(X[:5])
        np.testing.assert_array_equal(found.predict(table(*twins, of=X[:5])), right)
        swapped = table(*twins[::-1], of=X[:5, ::-1])
        np.testing.assert_array_equal(found.predict(swapped), right)
        for other in ((twins[0], twins[0]), (twins[1], twins[1])):
            with pytest.raises(dpfast.InvalidInput, match="of the same types"):
                found.predict(table(*other, of=X[:5]))


def test_labels_that_no_text_confuses_need_not_have_the_same_type():
    """As after a round through CSV; the values 1, 1.0 and True are different labels."""
    fit = fitted(0, 1)
    np.testing.assert_array_equal(fit.predict(table("1", "0", of=X[:5, ::-1])), fit.predict(X[:5]))
    for other in [(0, True), (0, 1.0), (0.0, 1.0), (0, "one")]:
        with pytest.raises(dpfast.InvalidInput, match="must have the columns of the fit"):
            fit.predict(table(*other, of=X[:5]))


def test_a_schema_finds_a_column_whose_label_is_no_text():
    schema = dpfast.Schema({"0": dpfast.Numeric(-3, 3), "1": dpfast.Numeric(-3, 3)})
    with_text = schema.encode(table("0", "1")).X
    for other in (table(0, 1), table(np.int64(0), np.int8(1)), {0: X[:, 0], 1: X[:, 1]}):
        np.testing.assert_array_equal(schema.encode(other).X, with_text)
    with pytest.raises(dpfast.InvalidInput, match="2 columns named '0'"):
        schema.encode(table(0, "0"), ["0"])


@each("labels", [(0, 1), ("0", 0), (1.5, STAMP), ("a", 0)], ids=str)
def test_a_fit_that_buys_its_units_predicts_for_the_table_it_was_made_from(labels, tmp_path):
    many = np.tile(X, (10, 1))
    plain, fit = [
        dpfast.fit(rows, np.tile(Y, 10), privacy=2.0, noise=dpfast.SeededNoise(0))
        for rows in (many, table(*labels, of=many))
    ]
    path = tmp_path / "fit.json"
    dpfast.saved.save(fit, path)
    for found in (fit, pickle.loads(pickle.dumps(fit)), dpfast.saved.load(path)):
        told = found.predict(table(*labels, of=X[:5]))
        np.testing.assert_array_equal(told, plain.predict(X[:5]))
        np.testing.assert_array_equal(found.predict(table(*labels[::-1], of=X[:5, ::-1])), told)
    with pytest.raises(dpfast.InvalidInput, match="must have the columns of the fit"):
        fit.predict(table("x", "y"))
    with pytest.raises(dpfast.InvalidInput, match="reads columns by their names"):
        fit.predict(X[:5])
