"""Coefficients by name: what statsmodels' users write, beside positions as NumPy has them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from tests.inference.test_summary import fit_of
from tests.loops import each


@pytest.fixture(scope="module")
def fit():
    return fit_of(["age", "educ"])


def test_every_released_number_can_be_asked_for_by_name(fit):
    assert fit.names == ("intercept", "age", "educ")
    for read in ("params", "bse", "zvalues", "tvalues", "pvalues"):
        found = getattr(fit, read)
        for k, name in enumerate(fit.names):
            assert found[name] == found[k] and type(found[name]) is np.float64
        np.testing.assert_array_equal(found[["educ", "age"]], found[[2, 1]])
    low, high = fit.conf_int(0.9)["educ"]
    assert low == fit.conf_int(0.9)[2, 0] and high == fit.conf_int(0.9)["educ", 1]
    covariance = fit.cov_params()
    assert covariance["age", "educ"] == covariance[1, 2]
    np.testing.assert_array_equal(covariance["age"], covariance[1])
    assert covariance[["age", "educ"]].shape == (2, 3)


def test_positions_mean_what_they_do_in_numpy(fit):
    params = fit.params
    plain = np.array(params.tolist())
    assert isinstance(params, np.ndarray)
    for key in (0, -1, slice(1, None), [0, 2], np.array([True, False, True]), ..., None, (0,)):
        np.testing.assert_array_equal(params[key], plain[key])
        assert type(params[key]) in (np.ndarray, np.float64)
    assert list(params) == list(plain)
    assert plain[0] in params and plain[0] + 1.0 not in params


@each(
    "made",
    [
        lambda p: p + 1.0, lambda p: -p, np.exp, lambda p: p @ np.ones((3, 3)), lambda p: p[:2],
        lambda p: np.concatenate([p, p]), np.copy, np.sort,
        lambda p: p.reshape(3, 1), lambda p: p.copy(), copy.deepcopy,
        lambda p: p.astype(np.float32),
    ],
)  # fmt: skip
def test_what_is_computed_has_no_names(fit, made):
    """Its rows may be others: a name would point to the wrong one."""
    found = made(fit.params)
    with pytest.raises(IndexError, match="only integers"):
        found["age"]


def test_transposed_intervals_have_no_names(fit):
    with pytest.raises(IndexError):
        fit.conf_int()[1:].T["age"]
    assert type(fit.params.sum()) is np.float64 and type(fit.params @ fit.params) is np.float64


def test_a_name_that_is_not_there_is_refused_with_those_that_are(fit):
    with pytest.raises(InvalidInput, match=r"\['intercept', 'age', 'educ'\] or its position"):
        fit.params["wage"]
    assert "educ" in fit.params and "wage" not in fit.params


def test_fits_keep_their_names_through_a_pickle_and_other_units(fit):
    again = pickle.loads(pickle.dumps(fit))
    assert again.params["educ"] == fit.params["educ"]
    for found in (fit.params, fit.conf_int(), fit.ratios()):  # whose rows stay where they are
        again = pickle.loads(pickle.dumps(found))
        assert type(again) is type(found) and repr(again) == repr(found)
    again = pickle.loads(pickle.dumps(fit))
    assert type(vars(again)["params"]) is np.ndarray
    x = np.linspace(1e6, 2e6, 4000)[:, None]
    bought = dpfast.fit(x, np.linspace(-1.0, 1.0, 4000), "log-cosh", privacy=2.0)
    assert bought.params["x1"] == bought.params[1]
    assert bought.coded.params["x1"] == bought.coded.params[1]


def test_minima_have_names_too():
    x = np.linspace(-1.0, 1.0, 300)[:, None]
    found = dpfast.minimize(
        dpfast.records(x, 0.5 * x[:, 0], names=["dose"]),
        None,
        dpfast.Objective("cauchy", scale=1.0),
        privacy=1.0,
    )
    assert found.params["dose"] == found.params[found.names.index("dose")]


def test_what_is_shown_has_its_names(fit):
    for shown in (repr(fit.params), str(fit.params), repr(fit.params.round(3))):
        lines = [line.split() for line in shown.splitlines()]
        assert [name for name, _ in lines] == list(fit.names)
        np.testing.assert_allclose([float(v) for _, v in lines], fit.params, atol=6e-4)
    lines = [line.split() for line in repr(fit.conf_int()).splitlines()]
    assert [name for name, *_ in lines] == list(fit.names)
    np.testing.assert_allclose([[float(v) for v in some] for _, *some in lines], fit.conf_int(),
                               rtol=1e-5)  # fmt: skip
    assert repr(fit.params[1:]) == repr(np.array(fit.params[1:]))
    assert "\n" not in repr(dpfast.inference.named.named([1.0], ("two\nlines",)))


def test_rounded_numbers_keep_their_names(fit):
    rounded = fit.conf_int().round(1)
    np.testing.assert_array_equal(rounded["educ"], np.round(np.array(fit.conf_int()[2]), 1))
    out = np.empty(3)
    assert fit.params.round(1, out)["age"] == out[1]


def test_pandas_gets_the_names(fit):
    pytest.importorskip("pandas")
    assert fit.params.to_pandas().to_dict() == dict(zip(fit.names, fit.params, strict=True))
    ends = fit.conf_int().to_pandas()
    assert (ends.loc["educ", "low"], ends.loc["educ", "high"]) == tuple(fit.conf_int()["educ"])
    assert list(fit.conf_int().round(1).to_pandas().columns) == ["low", "high"]
    assert fit.cov_params().to_pandas().loc["age", "educ"] == fit.cov_params()["age", "educ"]
