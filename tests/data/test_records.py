"""Shapes and dtypes may raise; values never."""

import pickle

import numpy as np
import pytest

import dpfast
from dpfast.data import as_records
from tests.loops import each

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6.0)


@each("layout", [X, np.asfortranarray(X), X[::-1], np.repeat(X, 2, 1)[:, ::2]])
def test_float64_is_never_copied(layout):
    records = as_records(layout, Y)
    assert records.X is layout and records.y is Y
    assert records.n == 6 and records.n_covariates == 2


@each("dtype", [np.int8, np.uint64, bool, np.float16, ">f8", ">f4"])
def test_numeric_dtypes_are_converted(dtype):
    records = as_records(X.astype(dtype), Y.astype(dtype))
    assert records.X.dtype == np.float64 and records.X.dtype.isnative


@pytest.mark.parametrize("layout", [X, np.asfortranarray(X), X[::-1]])
def test_float32_covariates_are_kept(layout):
    narrow = layout.astype(np.float32)
    records = as_records(narrow, Y.astype(np.float32))
    assert records.X is narrow and records.y.dtype == np.float64


def test_a_float32_memmap_is_used_in_place(tmp_path):
    X.astype(np.float32).tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", np.float32, "r", shape=X.shape)
    records = as_records(mapped, Y)
    assert records.X.base is not None and np.shares_memory(records.X, mapped)
    assert records.X.dtype == np.float32


@each("dtype", ["S5", "U5", complex, np.longdouble, "M8[s]", "m8[s]"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(dpfast.InvalidInput, match="dtype"):
        as_records(X.astype(int).astype(dtype), Y)


@each(
    ("covariates", "response", "message"),
    [
        (X[:, 0], Y, "2 dimensions"),
        (X[None], Y, "2 dimensions"),
        (X, Y[:, None], "1 dimension"),
        (X, Y[:5], "6 rows and y has 5"),
        (X[:0], Y[:0], "no rows"),
        ([[1.0, 2.0], [3.0]], [1.0, 2.0], "different lengths"),
        (np.ma.masked_invalid(X), Y, "masked"),
    ],
)
def test_shapes(covariates, response, message):
    with pytest.raises(dpfast.InvalidInput, match=message):
        as_records(covariates, response)


@pytest.mark.parametrize("names", [["a"], ["a", 1], []])
def test_names(names):
    with pytest.raises(dpfast.InvalidInput, match="names must be 2 strings"):
        as_records(X, Y, names)


def test_names_of_a_table_are_used():
    class Table:
        columns = ("u", "v")
        shape = (6, 2)

        def __array__(self, dtype=None, copy=None):
            return X

    assert as_records(Table(), Y).names == ("u", "v")


@each("value", [np.nan, np.inf, 1e308, 5e-324])
def test_values_never_raise(value):
    hostile = np.full((6, 2), value)
    as_records(hostile, hostile[:, 0])
    with np.errstate(all="ignore"):
        narrow = hostile.astype(np.float32)
    as_records(narrow, Y)


def test_records_do_not_pickle():
    with pytest.raises(TypeError, match="private data"):
        pickle.dumps(as_records(X, Y))
