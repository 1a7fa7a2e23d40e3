"""Files of tables: one line is one record, whatever is in it; samples; schemas as text."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from dpfast.data.files import read_numbers, read_table
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.errors import InvalidInput
from tests.loops import each
from tests.surface import without_paths

SCHEMA = Schema(
    {"age": Numeric(18, 90), "state": Categorical(["CA", "NY"]), "sick": Binary("yes", "no")}
)
LINES = [b"20,CA,yes", b"54,NY,no", b"90,CA,no", b"30,NY,yes", b"40,CA,yes", b"50,NY,no"]
CHANGED = 2

#: What one record may hold to change how others are read.
HOSTILE = {
    "empty": b"",
    "spaces": b"   ",
    "a quote": b'"54,NY,no',
    "a quote at the end": b'54,NY,"no',
    "a quoted line end that the next line would close": b'54,"NY',
    "a lone quote": b'"',
    "quotes": b'""",""",""',
    "a carriage return": b"54,NY\r30,CA,yes",
    "carriage returns": b"\r\r\r",
    "windows": b"54,NY,no\r",
    "a form feed": b"54\x0c,NY,no",
    "line ends of Unicode": "54,NY\x85,no\u2028\u2029".encode(),
    "separators of files": b"54,\x1c\x1d\x1e,no",
    "end of file": b"54,NY\x1a,no",
    "nul": b"5\x004,NY,no",
    "nuls": bytes(5000),
    "half a character": b"54,N\xe2\x82",
    "no text": bytes(range(128, 256)),
    "a byte-order mark": b"\xef\xbb\xbf54,NY,no",
    "another byte-order mark": b"\xff\xfe5\x004\x00",
    "delimiters": b"," * 3000,
    "another delimiter": b"54;NY;no",
    "tabs": b"54\tNY\tno",
    "text for a number": b"patient 4711,NY,no",
    "a huge number": b"1e999,NY,no",
    "many digits": b"9" * 6000 + b",NY,no",
    "not a number": b"nan,nan,nan",
    "a complex number": b"1j,NY,no",
    "true": b"True,True,True",
    "a level of nobody": b"54,TX,perhaps",
    "a comment": b"# 54,NY,no",
    "an escape": b"54\\,NY,no\\",
    "a header": b"age,state,sick",
    "a cell beyond the limit of the csv module": b"5" * 200_000 + b",NY,no",
    "a formula": b"=1+1,NY,no",
    "surrogates": b"54,\xed\xa0\x80,no",
}


def csv_file(path, lines, header=b"age,state,sick", end=b"\n"):
    content = end.join([header, *lines]) + end
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def coded(path):
    design = SCHEMA.encode(read_table(path, SCHEMA), response="sick")
    return np.column_stack([design.X, design.y])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@each("line", HOSTILE.values(), ids=HOSTILE)
@each("place", [0, CHANGED, len(LINES) - 1])
def test_one_line_is_one_record_and_decides_about_no_other(tmp_path, line, suffix, place):
    before = coded(csv_file(tmp_path / f"a{suffix}", LINES))
    lines = [*LINES]
    lines[place] = line
    after = coded(csv_file(tmp_path / f"b{suffix}", lines))
    assert after.shape == before.shape == (len(LINES), 3)
    others = np.arange(len(LINES)) != place
    np.testing.assert_array_equal(after[others], before[others])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(LINES) - 1))
def test_no_bytes_decide_about_another_line(tmp_path_factory, junk, place):
    folder = tmp_path_factory.mktemp("files")
    lines = [*LINES]
    lines[place] = junk.replace(b"\n", b"\r")
    before = coded(csv_file(folder / "a.csv", LINES))
    after = coded(csv_file(folder / "b.csv", lines))
    others = np.arange(len(LINES)) != place
    np.testing.assert_array_equal(after[others], before[others])


def test_a_fit_hears_nothing_of_the_line_that_was_changed(tmp_path):
    """The whole way: two files that differ in one line cost the same and say the same."""
    said = set()
    for line in HOSTILE.values():
        lines = [*LINES * 3]
        lines[CHANGED] = line
        table = read_table(csv_file(tmp_path / "x.csv", lines), SCHEMA)
        fit = dpfast.fit(
            SCHEMA.encode(table, response="sick"), None, "logistic", privacy=1.0,
            method=dpfast.optimize.Newton(steps=1), noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        said.add((fit.n_records, fit.names, fit.privacy.guarantee))
    assert len(said) == 1


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_delimiters_are_found_in_the_first_row_or_asked_for(tmp_path, delimiter, end):
    mark = delimiter.encode()
    lines = [line.replace(b",", mark) for line in LINES]
    header = mark.join([b"\xef\xbb\xbfage", b" state ", b'"sick"'])
    path = csv_file(tmp_path / "x.csv", lines, header, end)
    table = read_table(path, SCHEMA)
    assert list(table) == ["age", "state", "sick"]
    np.testing.assert_array_equal(coded(path), coded(csv_file(tmp_path / "y.csv", LINES)))
    assert read_table(path, SCHEMA, delimiter).keys() == table.keys()


@each(
    ("name", "mark"),
    [
        ("x.CSV", b","), ("x.CSV", b";"), ("x.tsv", b"\t"), ("X.TSV", b"\t"), ("x.txt", b";"),
        ("x.txt", b"\t"), ("x.Csv.GZ", b","), ("x.tsv.gz", b"\t"), ("x.TXT.gz", b"|"),
    ],
)  # fmt: skip
def test_files_of_text_have_many_names(tmp_path, name, mark):
    """`.CSV`, `.tsv` and `.txt` were of an unknown kind."""
    content = b"\n".join([b"age,state,sick", *LINES, b""]).replace(b",", mark)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    np.testing.assert_array_equal(coded(path), coded(csv_file(tmp_path / "y.csv", LINES)))


@each("name", ["x.PARQUET", "x.NPZ", "x.Feather"])
def test_ends_of_names_are_read_in_capitals(tmp_path, name):
    paths = in_every_file(tmp_path, "sick", ["yes", "no"])
    (same,) = (path for path in paths if path.suffix == Path(name).suffix.lower())
    (tmp_path / name).write_bytes(same.read_bytes())
    schema = Schema({"sick": Binary("yes", "no")})
    found = schema.encode(read_table(tmp_path / name, schema)).X[:, 0]
    np.testing.assert_array_equal(found, [1.0, 0.0])


#: Cells of a file with decimal commas, and the numbers that they are.
COMMAS = {
    "1,5": 1.5, "-0,25": -0.25, "3": 3.0, "1e3": 1000.0, "1,5e-1": 0.15, " 2,5 ": 2.5,
    "1.5": math.nan, "1.234,5": math.nan, "1,2,3": math.nan, "": math.nan, "nan": math.nan,
}  # fmt: skip


@pytest.mark.parametrize("first", ["", "sep=;\n", "sep=;\r\n"])
def test_decimal_commas_are_said_and_not_found(tmp_path, first):
    (path := tmp_path / "x.csv").write_text(
        "\ufeff" + first + "x;y\n" + "".join(f"{cell};1\n" for cell in COMMAS), newline=""
    )
    found = read_numbers(path, ["x", "y"], decimal=",")
    np.testing.assert_array_equal(found["x"], [*COMMAS.values()])
    np.testing.assert_array_equal(found["y"], 1.0)
    asked = read_numbers(path, ["x"], ";", decimal=",")["x"]
    np.testing.assert_array_equal(asked, found["x"])
    as_points = read_numbers(path, ["x"])["x"]  # nobody guesses from what cells hold
    assert math.isnan(as_points[0]) and as_points[6] == 1.5


def test_a_comma_is_no_delimiter_where_it_is_the_decimal_mark(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b;c\n1,5;2\n")  # a header that two marks divide alike
    with pytest.raises(InvalidInput, match="Say which is the delimiter"):
        read_numbers(path, ["c", "a"])
    assert read_numbers(path, ["a,b", "c"], decimal=",")["a,b"].tolist() == [1.5]


@each("decimal", [";", "", "..", None, 5])
def test_senseless_decimals(tmp_path, decimal):
    path = csv_file(tmp_path / "x.csv", LINES)
    with pytest.raises(InvalidInput, match="decimal"):
        read_table(path, SCHEMA, decimal=decimal)
    with pytest.raises(InvalidInput, match="decimal"):
        dpfast.Study(path, privacy=1.0, decimal=decimal)
    with pytest.raises(InvalidInput, match="not the delimiter"):
        read_table(path, SCHEMA, ",", decimal=",")


@each("line", HOSTILE.values(), ids=HOSTILE)
def test_one_line_with_decimal_commas_decides_about_no_other(tmp_path, line):
    lines = [one.replace(b",", b";") for one in LINES]
    found = []
    for some in (lines, [*lines[:CHANGED], line, *lines[CHANGED + 1 :]]):
        path = csv_file(tmp_path / "x.csv", some, b"age;state;sick")
        found.append(read_numbers(path, ["age"], decimal=",")["age"])
    others = np.arange(len(LINES)) != CHANGED
    np.testing.assert_array_equal(found[0][others], found[1][others])


@pytest.mark.parametrize(
    ("header", "named"),
    [
        (b"", "empty"),
        (b"a,b;c", "Say which is the delimiter"),
        (b"age,state,age", "2 columns named 'age'"),
        (b"age,state,age ", "2 columns named 'age'"),
        (b"\xff\xfea\x00g\x00e\x00", "UTF-8"),
        (b"a\x00g\x00e\x00", "UTF-8"),
        (b"gr\xf6\xdfe,age", "UTF-8"),
        (b"age,state\r54,NY", "line"),
    ],
)
def test_a_first_row_that_names_no_columns_is_refused_without_being_quoted(tmp_path, header, named):
    with pytest.raises(InvalidInput, match=named) as refusal:
        read_table(csv_file(tmp_path / "x.csv", LINES, header), SCHEMA)
    assert "54" not in without_paths(refusal.value, tmp_path) and refusal.value.__cause__ is None


def test_a_file_without_a_header_shows_no_record(tmp_path):
    path = csv_file(tmp_path / "x.csv", LINES[1:], b"4711,Secret,yes")
    with pytest.raises(InvalidInput) as refusal:
        SCHEMA.encode(read_table(path, SCHEMA), ["age"], response="sick")
    said = without_paths(refusal.value, tmp_path)
    assert "4711" not in said and "Secret" not in said


@pytest.mark.parametrize("suffix", ["csv.gz", "npz", "parquet", "feather", "arrow"])
@pytest.mark.parametrize("content", [b"", b"4711 is a secret", bytes(100), b"\x1f\x8b\x08broken"])
def test_damaged_files_are_refused_by_name(tmp_path, suffix, content):
    if suffix in ("parquet", "feather", "arrow"):
        pytest.importorskip("pyarrow")
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"x.{suffix}") as refusal:
        read_table(path, SCHEMA)
    assert "4711" not in without_paths(refusal.value, tmp_path)


def test_a_cut_gzip_is_damaged(tmp_path):
    path = csv_file(tmp_path / "x.csv.gz", LINES * 100)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InvalidInput, match="damaged"):
        read_table(path, SCHEMA)


@pytest.mark.parametrize("delimiter", ["", "ab", '"', "\n", "\r", "\0", " ", 1, b","])
def test_senseless_delimiters(tmp_path, delimiter):
    with pytest.raises(InvalidInput, match="single character"):
        read_table(csv_file(tmp_path / "x.csv", LINES), SCHEMA, delimiter)


def test_columns_twice_in_a_parquet_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table([[1.0], [2.0]], names=["age", "age"]), path)
    with pytest.raises(InvalidInput, match="2 columns named 'age'"):
        read_table(path, SCHEMA)


def test_progress_tells_bytes_and_ends(tmp_path):
    told = []
    path = csv_file(tmp_path / "x.csv", LINES * 20_000)
    read_table(path, SCHEMA, progress=lambda *both: told.append(both))
    size = path.stat().st_size
    assert len(told) == 4 and told[-1] == (size, size) and told == sorted(told)
    assert all(0 < done < total == size for done, total in told[:-1])


# ---- the same cells in every kind of file --------------------------------------------------------

CELLS = {
    "yes": 1.0, "no": 0.0, "YES": 1.0, " No ": 0.0, "": math.nan, "   ": math.nan, "y": math.nan,
}  # fmt: skip


def in_every_file(folder, name, cells):
    """The column as CSV, NPZ, Parquet and Feather; None is an empty cell where there is one."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    text = ["" if cell is None else str(cell) for cell in cells]
    rows = [f'"{cell}",1' for cell in text]
    (folder / "x.csv").write_text("\n".join([f"{name},one", *rows]) + "\n")
    np.savez(folder / "x.npz", **{name: np.array(text)})
    parquet.write_table(arrow.table({name: cells}), folder / "x.parquet")
    feather.write_feather(arrow.table({name: cells}), folder / "x.feather")
    return [folder / f"x.{suffix}" for suffix in ("csv", "npz", "parquet", "feather")]


def test_cells_stand_for_the_same_levels_in_every_kind_of_file(tmp_path):
    schema = Schema({"sick": Binary("yes", "no")})
    for path in in_every_file(tmp_path, "sick", [*CELLS, None]):
        found = schema.encode(read_table(path, schema)).X[:, 0]
        np.testing.assert_array_equal(found, [*CELLS.values(), math.nan], err_msg=path.suffix)


def test_an_empty_cell_is_the_same_whether_it_is_missing_or_not(tmp_path):
    for declared, missing in ((Binary("x", ""), 0.0), (Categorical(["", "x"]), 0.0)):
        schema = Schema({"flag": declared})
        for path in in_every_file(tmp_path, "flag", ["x", "", None, "X"]):
            found = schema.encode(read_table(path, schema)).X[:, 0]
            np.testing.assert_array_equal(found, [1.0, missing, missing, 1.0])
    assert Categorical(["", "x"]).codes([math.nan, None, "", "q"], "c").tolist() == [0, 0, 0, -1]
    pandas = pytest.importorskip("pandas")
    nullable = pandas.Series(["x", None], dtype="string")
    assert Categorical(["", "x"]).codes(nullable, "c").tolist() == [1, 0]


def test_booleans_are_the_same_in_text_and_as_themselves(tmp_path):
    schema = Schema({"b": Binary(True, False)})
    for path in in_every_file(tmp_path, "b", [True, False, True]):
        np.testing.assert_array_equal(schema.encode(read_table(path, schema)).X[:, 0], [1, 0, 1])


def test_spellings_that_leave_a_choice_are_read_as_they_are():
    cells = ["m", "M", " m", "M ", "F", "f"]
    assert Categorical(["m", "M", "f"]).codes(cells, "x").tolist() == [0, 1, 0, 1, 2, 2]
    cells = ["ab", "aB", "AB", " Ab", "c"]
    assert Categorical(["ab", "aB", "C"]).codes(cells, "x").tolist() == [0, 1, -1, -1, 2]


# ---- schemas as text -----------------------------------------------------------------------------

ODD = [
    "low = 'x'\nhigh = 1",
    "low = 1979-05-27\nhigh = 1",
    "low = nan\nhigh = 1",
    "low = 0\nhigh = inf",
    "low = 0\nhigh = 1" + "0" * 400,
    "low = -1e308\nhigh = 1.7e308",
    "low = 1.7e308\nhigh = 1.79e308",
    "low = 0\nhigh = 5e-324",
    "low = 0\nhigh = 1e10\nunit = 1e-320",
    "low = 0\nhigh = 1\nunits = 5",
    "low = 0\nhigh = 1\nsource = [1]",
    "low = true\nhigh = 2",
    "low = [0]\nhigh = {}",
]


@each("text", ODD)
def test_odd_numbers_in_a_schema_are_refused_with_the_column(text):
    with pytest.raises(InvalidInput, match="column 'x'"):
        Schema.from_toml(f"[columns.x]\nkind = 'numeric'\n{text}\n")


@each(
    "text",
    [
        "kind = ['numeric']", "kind = 1", "kind = {}",
        "kind = 'categorical'\nlevels = [[1], [2]]", "kind = 'categorical'\nlevels = [{}, {}]",
        "kind = 'categorical'\nlevels = [1.5, 2.5]", "kind = 'categorical'\nlevels = {}",
        "kind = 'categorical'\nlevels = ['a', 'b']\nother = [1]",
        "kind = 'categorical'\nlevels = ['a', 'b']\nreference = 1979-05-27",
        "kind = 'binary'\npositive = [1]\nnegative = 0",
        "kind = 'binary'\npositive = 1.5\nnegative = 0",
        "kind = 'binary'\npositive = 1\nnegative = true",
        "kind = 'binary'\npositive = 1\nnegative = 0\nsource = 1",
    ],
)  # fmt: skip
def test_odd_labels_in_a_schema_are_refused_with_the_column(text):
    with pytest.raises(InvalidInput, match="column 'x'"):
        Schema.from_toml(f"[columns.x]\n{text}\n")


@each(
    "text",
    [
        "\n", "columns = 1\n", "columns = []\n", "[columns]\nx = 1\n", "[[columns.x]]\nkind = 1\n",
        "a = " + "[" * 5000 + "]" * 5000 + "\n", "a = " + "9" * 9999 + "\n", "\0\n",
        "x = '\ud800'\n",
        "[columns.x]\n[columns.x]\n", 5, None, ["a"], b"x", "a\0b",
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(InvalidInput):
        Schema.from_toml(text)


def test_schema_files_that_are_no_text(tmp_path):
    path = tmp_path / "schema.toml"
    text = "[columns.'größe']\nkind = 'numeric'\nlow = 0\nhigh = 1\n"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(text, encoding=encoding)
        assert list(Schema.from_toml(path).columns) == ["größe"]
    for content in (text.encode("utf-16"), text.encode("latin-1"), b"\xff" * 9):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="not UTF-8"):
            Schema.from_toml(path)
    with pytest.raises(InvalidInput, match="no schema file"):
        Schema.from_toml(tmp_path)


@settings(max_examples=25, deadline=None)
@given(st.text(), st.text(), st.text(), st.text())
def test_every_name_survives_or_is_refused(name, label, units, source):
    schema = Schema(
        {
            name: Numeric(np.float64(0), 1, units=units, source=source),
            name + "x": Categorical([label, label + "x", 3, True], other=label, source=source),
        }
    )
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize("name", ["\ud800", "a\udcff"])
def test_names_that_do_not_survive_are_refused(name):
    for schema in (Schema({name: Numeric(0, 1)}), Schema({"x": Categorical(["a", name])})):
        with pytest.raises(InvalidInput, match="Unicode"):
            schema.to_toml()


def test_a_bound_says_who_declared_it():
    schema = Schema(
        {
            "age": Numeric(18, 90, source="the survey's design, A. Person, 2024"),
            "sick": Binary("yes", "no", source="questionnaire"),
        }
    )
    back = Schema.from_toml(schema.to_toml())
    assert back == schema and back["age"].source.startswith("the survey's design")
    assert back.with_scaling(age=(50, 10))["age"].source == back["age"].source


def test_a_path_with_an_odd_end_is_refused(tmp_path):
    for name in ("x", "x.doc", ".", "x.gz", "x.csv.doc", "x.tsvx"):
        if name != ".":
            Path(tmp_path / name).write_text("a\n1\n")
        with pytest.raises(InvalidInput):
            read_table(tmp_path / name, SCHEMA)
