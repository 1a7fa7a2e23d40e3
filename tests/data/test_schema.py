"""Schemas: public facts in, encoded records out, and never a look at the data."""

from __future__ import annotations

import gzip
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

import dpfast
from dpfast.data.files import read_table
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.errors import InvalidInput
from tests.loops import each

SCHEMA = Schema(
    {
        "wage": Numeric(0, 20, centre=10, unit=5, units="dollars an hour"),
        "age": Numeric(18, 90),
        "state": Categorical(["CA", "NY", "else"], other="else"),
        "size": Categorical([1, 2, 3]),
        "sick": Binary("yes", "no"),
    }
)
TABLE = {
    "wage": [10.0, 25.0, math.nan],
    "age": [54, 17, 90],
    "state": ["NY", "TX", None],
    "size": [3, 7, 1],
    "sick": ["yes", "no", "perhaps"],
}


def as_is(table):
    return table


def pandas_table(table):
    return pytest.importorskip("pandas").DataFrame(table)


def polars_table(table):
    table = {name: [None if v != v else v for v in values] for name, values in table.items()}
    return pytest.importorskip("polars").DataFrame(table)


def arrow_table(table):
    return pytest.importorskip("pyarrow").table(table)


@each("kind", [as_is, pandas_table, polars_table, arrow_table])
def test_a_table_is_encoded_by_what_was_declared(kind):
    design = SCHEMA.encode(kind(TABLE), response="sick")
    assert design.names == ("wage", "age", "state[NY]", "state[else]", "size[2]", "size[3]")
    nan = math.nan
    expected = [
        [0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
        [2.0, -1.0, 0.0, 1.0, nan, nan],  # clipped; level 7 does not exist
        [nan, 1.0, 0.0, 1.0, 0.0, 0.0],
    ]
    np.testing.assert_array_equal(design.X, expected)
    np.testing.assert_array_equal(design.y, [1.0, 0.0, nan])
    assert design.bounds.tolist() == [[-2, 2], [-1, 1], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert design.radius == pytest.approx(math.sqrt(1 + 4 + 1 + 4))


def test_nullable_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"age": pandas.array([54, None], dtype="Int64")})
    np.testing.assert_array_equal(SCHEMA.encode(table).X, [[0.0], [math.nan]])


TEXT, NUMBERS, FLOATS = ["1", "3", "1", "x"], [1, 3, 1, 7], [1.0, 3.0, 1.0, math.nan]
POINTS = ["1.0", "3.0", "1.0", ""]


@each(
    ("levels", "cells"),
    [*product([(1, 2, 3), ("1", "2", "3")], [TEXT, NUMBERS, FLOATS]), ((1, 2, 3), POINTS)],
)
@pytest.mark.parametrize("kind", [as_is, pandas_table, polars_table, arrow_table])
def test_a_whole_number_is_the_same_label_as_its_text(levels, cells, kind):
    """Labels read as text where numbers were declared, or the reverse, are those labels."""
    table = kind({"size": cells})
    codes = Schema({"size": Categorical(levels)})["size"].codes(table["size"], "size")
    assert codes.tolist() == [0, 2, 0, -1]
    y = Binary(levels[0], levels[2]).encode(table["size"], "size")[0][:, 0]
    np.testing.assert_array_equal(y, [1.0, 0.0, 1.0, math.nan])


PAIRS = {
    "whole, of a column with a missing cell": ("1", ["1.0", "2.0", "nan"], [0, 1, -1]),
    "points declared": ("1.0", ["1", "2", "1.00"], [0, 1, -1]),
    "points, and numbers in the file": ("1.0", np.array([1, 2, 3]), [0, 1, -1]),
    "codes that were read as numbers": ("01", np.array([1, 2, 3]), [0, 1, -1]),
    "codes with a missing cell": ("01", np.array([1.0, 2.0, np.nan]), [0, 1, -1]),
    "codes as text": ("01", ["01", "1", "2.0"], [0, -1, -1]),
    "a decimal": ("0.5", np.array([0.5, 2.0, 1.0]), [0, 1, -1]),
    "a sign": ("-1", ["-1.0", "2", "+1"], [0, 1, -1]),
    "booleans": ("1", np.array([True, False, True]), [0, -1, 0]),
}


@each("case", PAIRS)
def test_a_level_that_writes_a_number_is_that_number(case):
    """Text is compared with text, and a number with what text writes: nothing matched, unsaid."""
    first, cells, codes = PAIRS[case]
    second = "02" if first == "01" else "2"
    assert Categorical([first, second]).codes(cells, "x").tolist() == codes
    if second == "2" and isinstance(cells, list):
        declared = Binary(second, first).encode(cells, "x")[0][:, 0]
        np.testing.assert_array_equal(np.isnan(declared), np.array(codes) < 0)


def test_a_number_that_two_levels_write_is_neither():
    """That leaves a choice; the one that writes it as Python does is the first to be asked."""
    assert Categorical(["01", "1.00", "2"]).codes([1, 2, "01"], "x").tolist() == [-1, 2, 0]
    assert Categorical(["01", "1", "2"]).codes([1, 1.0, "1.0"], "x").tolist() == [1, 1, 1]
    diagnoses = Categorical(["250.0", "250.00", "250.1"])
    assert diagnoses.codes(["250.00", "250.0", "250.10"], "x").tolist() == [1, 0, -1]


def test_exact_labels_come_before_their_text():
    both = Categorical(["1", 1, "01"])
    assert both.codes(["1", 1, "01", 1.0], "x").tolist() == [0, 1, 2, 1]
    assert Categorical([True, False]).codes(["True", True, "1"], "x").tolist() == [0, 0, -1]


def test_types_that_no_level_can_be_of_are_refused():
    """A column of numbers for labels of text: nothing could ever match."""
    numbers = [np.array([1, 2]), np.array([0.5, math.nan]), np.array([True, False])]
    for module, make in (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "array")):
        library = pytest.importorskip(module)
        numbers += [getattr(library, make)([1, 2]), getattr(library, make)([0.5, 1.5])]
    for column in numbers:
        for declared in (Categorical(["CA", "NY"], other="NY"), Binary("yes", "no")):
            with pytest.raises(InvalidInput, match="holds numbers"):
                declared.encode(column, "state")


def test_bytes_stand_for_the_text_they_encode():
    cells = [b"CA", b"\xff", b"NY"]
    for column in (np.array(cells), cells, pytest.importorskip("pyarrow").array(cells)):
        assert Categorical(["CA", "NY"]).codes(column, "state").tolist() == [0, -1, 1]


@given(st.lists(st.floats(), min_size=1, max_size=8), st.lists(st.text(), min_size=1, max_size=8))
def test_no_value_raises_and_none_escapes_its_bounds(numbers, words):
    size = min(len(numbers), len(words))
    table = {"wage": numbers[:size], "state": words[:size], "sick": words[:size]}
    design = SCHEMA.encode(table)
    X = design.X[np.isfinite(design.X).all(axis=1)]
    assert ((design.bounds[:, 0] <= X) & (design.bounds[:, 1] >= X)).all()
    assert (np.isfinite(design.X[:, 0]) == np.isfinite(numbers[:size])).all()


@given(st.lists(st.sampled_from(["CA", "NY", "TX", "", "ca"]), min_size=2, max_size=6))
def test_a_record_is_encoded_the_same_whatever_the_others_are(values):
    """The encoding of a record is a function of that record: what differs stays in its row."""
    table = {"state": values, "age": list(range(20, 20 + len(values)))}
    whole = SCHEMA.encode(table).X
    for i in range(len(values)):
        alone = SCHEMA.encode({name: column[i : i + 1] for name, column in table.items()})
        np.testing.assert_array_equal(alone.X[0], whole[i])


@each(
    ("make", "named"),
    [
        (lambda: Numeric(1, 1), "below"),
        (lambda: Numeric(0, math.inf), "finite"),
        (lambda: Numeric(0, 1, unit=-1.0), "unit"),
        (lambda: Numeric("0", 1), "number"),
        (lambda: Categorical(["a"]), "two different"),
        (lambda: Categorical(["a", "a"]), "two different"),
        (lambda: Categorical("ab"), "list of labels"),
        (lambda: Categorical(["a", "b"], other="c"), "other"),
        (lambda: Categorical(["a", 1.5]), "strings or integers"),
        (lambda: Binary("a", "a"), "differ"),
        (lambda: Schema({"a": "numeric"}), "Numeric"),
        (lambda: SCHEMA["nothing"], "does not declare"),
        (lambda: SCHEMA.encode({"x": [1]}), "no covariate"),
        (lambda: SCHEMA.encode({"age": [1], "wage": [1, 2]}), "different lengths"),
        (lambda: SCHEMA.encode({"age": np.array(["old"])}), "must be numbers"),
        (lambda: SCHEMA.encode(TABLE, ["age"], response="state"), "Binary"),
        (lambda: SCHEMA.encode({"age": np.array([[1]])}), "one dimension"),
        (lambda: SCHEMA.encode([1, 2]), "mapping"),
        (lambda: SCHEMA.encode(TABLE, ["hair"]), "does not declare"),
        (lambda: SCHEMA.encode({"wage": [1]}, ["age"]), "no column 'age'"),
        (lambda: SCHEMA.with_scaling(state=(0, 1)), "only numbers"),
    ],
)
def test_refusals_say_what_is_wrong(make, named):
    with pytest.raises(InvalidInput, match=named):
        make()


def test_toml_there_and_back(tmp_path):
    text = SCHEMA.to_toml()
    assert Schema.from_toml(text) == SCHEMA
    path = tmp_path / "schema.toml"
    path.write_text(text)
    assert Schema.from_toml(path) == Schema.from_toml(str(path)) == SCHEMA
    odd = Schema({'a "b" ü': Categorical(["\n", "é", "[x]"]), "c": Numeric(-1e-300, 1e300)})
    assert Schema.from_toml(odd.to_toml()) == odd


@each(
    ("text", "named"),
    [
        ("columns = \n", "valid TOML"),
        ("[tables.x]\nkind = 'numeric'", "one table per column"),
        ("[columns.x]\nkind = 'text'", "kind must be"),
        ("[columns.x]\nkind = 'numeric'\nlow = 1", "needs"),
        ("[columns.x]\nkind = 'numeric'\nlow = 1\nhigh = 2\nhihg = 3", "may have"),
        ("no-such-file.toml", "no schema file"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(text, named):
    with pytest.raises(InvalidInput, match=named):
        Schema.from_toml(text)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".npz", ".parquet", ".feather"])
def test_files_are_read_as_declared(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    text = "wage,ignored,state,size,sick\n10,x,NY,3,yes\noops,y,TX,2,no\n25,z\n"
    if suffix == ".csv":
        path.write_text(text)
    elif suffix == ".csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        columns = {
            "wage": [10.0, math.nan, 25.0],
            "state": ["NY", "TX", ""],
            "size": [3, 2, 0],
            "sick": ["yes", "no", ""],
        }
        if suffix == ".npz":
            np.savez(path, **{name: np.array(column) for name, column in columns.items()})
        else:
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import feather, parquet

            write = parquet.write_table if suffix == ".parquet" else feather.write_feather
            write(arrow.table({**columns, "ignored": ["x", "y", "z"]}), path)
    design = SCHEMA.encode(read_table(path, SCHEMA), response="sick")
    nan = math.nan
    np.testing.assert_array_equal(
        design.X, [[0, 1, 0, 0, 1], [nan, 0, 1, 1, 0], [2, 0, 1, nan, nan]]
    )
    np.testing.assert_array_equal(design.y, [1, 0, nan])


@pytest.mark.parametrize(("name", "named"), [("x.xlsx", "unknown kind"), ("x.csv", "is empty")])
def test_files_that_cannot_be_read(tmp_path, name, named):
    (tmp_path / name).write_text("")
    with pytest.raises(InvalidInput, match=named):
        read_table(tmp_path / name, SCHEMA)
    with pytest.raises(InvalidInput, match="no data file"):
        read_table(tmp_path / "absent.csv", SCHEMA)


def test_a_declared_radius_bounds_every_row():
    """A ball of the design's radius projects nothing."""
    table = {"age": [18, 90, 54.0], "state": ["CA", "NY", "TX"], "wage": [0.0, 20.0, 5.0]}
    design = SCHEMA.encode(table, response="wage")
    rows = np.column_stack([np.ones(3), design.X])
    assert (np.linalg.norm(rows, axis=1) <= design.radius).all()
    fit = dpfast.fit(
        dpfast.records(design.X, design.y, names=design.names), None,
        dpfast.Objective("log-cosh", weights=dpfast.Bounded(design.radius), scale=1.0, ridge=1.0),
        privacy=1.0, inference=False, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert fit.names == ("intercept", "age", "state[NY]", "state[else]")


def test_whole_numbers_of_numpy_are_numbers():
    declared = Numeric(np.int64(0), np.int32(9), np.uint8(4))
    assert declared == Numeric(0, 9, 4) and type(declared.low) is int
    with pytest.raises(InvalidInput, match="low must be a number"):
        Numeric(np.bool_(False), 9)
