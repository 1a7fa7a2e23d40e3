"""Pairs of tables that differ in one cell: same outcome, same message, same warnings (none).

Whatever a cell holds, its own record is missing or read and the others are the same bits.
"""

from __future__ import annotations

import collections
import datetime
import gzip
import warnings
from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast.data import as_records
from dpfast.data.columns import cell_numbers, labels, numbers
from dpfast.data.files import read_table
from dpfast.data.groups import grouped
from dpfast.errors import ResultWarning
from tests.loops import each

N, CHANGED = 6, 2


class Awkward:
    """A cell whose every method says what it holds."""

    def speak(self, *_):
        raise ValueError("patient 4711")

    __float__ = __int__ = __index__ = __bool__ = __eq__ = __hash__ = __len__ = __array__ = speak
    __repr__ = __str__ = speak


def heard(call):
    """What can be seen from outside without paying: an exception or the value, and warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            outcome, value = "returned", call()
        except Exception as error:
            outcome, value = f"{type(error).__name__}: {error}", None
    # those of released numbers are in the result, noise included
    messages = [str(w.message) for w in said if not issubclass(w.category, ResultWarning)]
    return (outcome, messages), value


def assert_only_one_record_differs(a, b):
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    rest = np.arange(len(a)) != CHANGED
    assert np.ascontiguousarray(a[rest]).tobytes() == np.ascontiguousarray(b[rest]).tobytes()


def pair(make, good, bad):
    changed = list(good)
    changed[CHANGED] = bad
    return make(good), make(changed)


# ---- kinds of columns and of cells ---------------------------------------------------------------


def pandas():
    return pytest.importorskip("pandas")


def polars():
    return pytest.importorskip("polars")


def arrow():
    return pytest.importorskip("pyarrow")


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def arrow_utf8(cells, kind="string"):
    """Arrow text from bytes that nobody checked."""
    pa = arrow()
    binary = pa.array([c.encode() if isinstance(c, str) else c for c in cells], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers()).cast(kind)


FLOATS = [0.5, 1.0, -2.0, 3.0, 0.0, 1.5]
BOOLS = [True, False, True, True, False, True]
INTS = [1, 0, 2, 3, 1, 5]

ANYTHING = {
    "None": lambda: None,
    "NaN": lambda: float("nan"),
    "text": lambda: "patient 4711",
    "number as text": lambda: "3.5",
    "bytes": lambda: b"\xff",
    "huge integer": lambda: 10**400,
    "2^64": lambda: 2**64,
    "complex": lambda: 1 + 2j,
    "decimal": lambda: Decimal("4711.0815"),
    "signalling decimal": lambda: Decimal("sNaN"),
    "list": lambda: [1.0],
    "array": lambda: np.ones(2),
    "0-d array": lambda: np.array(1.0),
    "dict": lambda: {"patient": 4711},
    "awkward": Awkward,
    "far time": lambda: np.datetime64("300000-01-01"),
    "time span": lambda: np.timedelta64(3),
    "date": lambda: datetime.date(9999, 1, 1),
    "longdouble": lambda: np.longdouble("1e400"),
    "NA": lambda: pandas().NA,
    "NaT": lambda: pandas().NaT,
    "bool": lambda: True,
}

#: Each cell of a type of its own.
OF_CELLS = {"list": list, "tuple": tuple}

#: Columns whose type does not say what their cells are: labels, and never numbers.
UNTYPED = {
    "array of objects": objects,
    "pandas objects": lambda cells: pandas().Series(objects(cells), dtype=object),
    "pandas categories": lambda cells: pandas().Series(
        pandas().Categorical.from_codes(
            [*range(3), 0, 1, 2],
            pandas().Index(objects([cells[0], cells[1], 17.0]), dtype=object),
        )
    ),
    "pandas array": lambda cells: pandas().array(objects(cells), dtype=object),
    "polars objects": lambda cells: polars().Series(cells, dtype=polars().Object),
}
OF_OBJECTS = OF_CELLS | UNTYPED

#: What makes a column, its good cells, and what may stand in one of them.
TYPED = {
    "float64": (np.array, FLOATS, [np.nan, np.inf, 1e308, 5e-324]),
    "float32": (lambda c: np.array(c, "f4"), FLOATS, [np.nan, -np.inf]),
    "float16": (lambda c: np.array(c, "f2"), FLOATS, [np.nan]),
    "big-endian": (lambda c: np.array(c, ">f8"), FLOATS, [np.nan]),
    "pandas float": (lambda c: pandas().Series(c), FLOATS, [None, np.inf]),
    "pandas boolean": (lambda c: pandas().Series(c, dtype="boolean"), BOOLS, [None]),
    "pandas Int8": (lambda c: pandas().Series(c, dtype="Int8"), INTS, [None, 127]),
    "pandas Float32": (lambda c: pandas().Series(c, dtype="Float32"), FLOATS, [None]),
    "pandas Arrow bool": (lambda c: pandas().Series(c, dtype="bool[pyarrow]"), BOOLS, [None]),
    "pandas Arrow int": (lambda c: pandas().Series(c, dtype="int64[pyarrow]"), INTS, [None]),
    "pandas Arrow float": (lambda c: pandas().Series(c, dtype="float[pyarrow]"), FLOATS, [None]),
    "pandas sparse": (
        lambda c: pandas().Series(c).astype(pandas().SparseDtype(float)), FLOATS, [None, 0.0],
    ),
    "pandas array": (lambda c: pandas().array(c, dtype="boolean"), BOOLS, [None]),
    "polars float": (lambda c: polars().Series(c), FLOATS, [None, np.nan]),
    "polars bool": (lambda c: polars().Series(c, dtype=polars().Boolean), BOOLS, [None]),
    "polars int": (lambda c: polars().Series(c), INTS, [None]),
    "polars decimal": (
        lambda c: polars().Series(map_(Decimal, c), dtype=polars().Decimal(38, 2)), INTS,
        [None, 10**30],
    ),
    "Arrow float": (lambda c: arrow().array(c), FLOATS, [None, np.nan]),
    "Arrow half": (  # of Python's floats pyarrow 20 makes none
        lambda c: arrow().array([x if x is None else np.float16(x) for x in c], arrow().float16()),
        FLOATS,
        [None],
    ),
    "Arrow bool": (lambda c: arrow().array(c), BOOLS, [None]),
    "Arrow uint64": (lambda c: arrow().array(c, "uint64"), INTS, [None, 2**64 - 1]),
    "Arrow decimal": (
        lambda c: arrow().array(map_(Decimal, c), arrow().decimal256(76, 2)), INTS,
        [None, Decimal(10) ** 70],
    ),
    "Arrow chunks": (
        lambda c: arrow().chunked_array([c[:2], c[2:3], c[3:]], arrow().bool_()), BOOLS, [None],
    ),
}  # fmt: skip


def map_(function, cells):
    return [None if cell is None else function(cell) for cell in cells]


def cases():
    for kind, make in OF_CELLS.items():
        for name, cell in ANYTHING.items():
            yield pytest.param(make, FLOATS, cell, id=f"{kind}-{name}")
    for kind, (make, good, bad) in TYPED.items():
        for cell in bad:
            yield pytest.param(make, good, lambda cell=cell: cell, id=f"{kind}-{str(cell)[:9]}")


USES = {
    "column": lambda c: numbers(c, "x"),
    "response": lambda c: as_records(np.ones((N, 1)), c).y,
    "schema": lambda c: dpfast.Schema({"x": dpfast.Numeric(-3, 3)}).encode({"x": c}).X,
}


@pytest.mark.parametrize("use", [*USES.values()], ids=[*USES])
@each(("make", "good", "cell"), [*cases()])
def test_a_cell_of_numbers(make, good, cell, use):
    before, after = pair(make, good, cell())
    (first, a), (second, b) = heard(lambda: use(before)), heard(lambda: use(after))
    assert first == second == ("returned", [])
    assert_only_one_record_differs(a, b)


#: A data frame of several columns, one of them of the kind above.
FRAMES = {
    "pandas": lambda c: pandas().DataFrame({"a": FLOATS, "b": c, "c": BOOLS}),
    "polars": lambda c: polars().DataFrame({"a": FLOATS, "b": c, "c": BOOLS}),
    "Arrow": lambda c: arrow().table({"a": FLOATS, "b": c, "c": BOOLS}),
}


def frames():
    for kind, (make, good, bad) in TYPED.items():
        library = kind.partition(" ")[0]
        if library in FRAMES:
            for cell in bad:
                whole = lambda c, make=make, library=library: FRAMES[library](make(c))  # noqa: E731
                yield pytest.param(whole, good, cell, id=f"{kind}-{str(type(cell))[8:-2]}")
    for name, cell in ANYTHING.items():
        yield pytest.param(
            lambda c: list(zip(FLOATS, c, strict=True)), FLOATS, cell, id=f"rows-{name}"
        )


def seen_of_a_fit(X, y=None, opened=False, **options):
    fit = dpfast.fit(
        X, np.arange(N) if y is None and not opened else y,
        dpfast.Objective("log-cosh", scale=1.0), privacy=1.0,
        method=dpfast.optimize.Newton(steps=2), noise=dpfast.SeededNoise(0), **options,
    )  # fmt: skip
    return fit.names, fit.params.shape, fit.n_records, fit.privacy.entries, fit.method


@each(("make", "good", "cell"), [*frames()])
def test_a_cell_of_a_frame(make, good, cell):
    before, after = pair(make, good, cell() if callable(cell) else cell)
    (first, a), (second, b) = [heard(lambda t=t: as_records(t, FLOATS)) for t in (before, after)]
    assert first == second == ("returned", [])
    assert a.names == b.names and (a.n, a.block_sizes) == (b.n, b.block_sizes)
    assert_only_one_record_differs(np.asarray(a.X), np.asarray(b.X))
    (first, a), (second, b) = [heard(lambda t=t: seen_of_a_fit(t)) for t in (before, after)]
    assert first == second == ("returned", []) and a == b


def test_dummies_go_with_floats():
    pd = pandas()
    table = pd.DataFrame({"x": FLOATS, "g": ["a", "b", "c", "a", None, "b"]})
    dummies = pd.get_dummies(table)
    assert set(map(str, dummies.dtypes)) == {"float64", "bool"}
    records = as_records(dummies, FLOATS)
    assert records.names == ("x", "g_a", "g_b", "g_c")
    np.testing.assert_array_equal(records.X[:, 1:3].T, [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 1]])


def test_quantiles_hear_nothing():
    for make in OF_CELLS.values():
        for name, cell in ANYTHING.items():
            results = [
                heard(
                    lambda c=c: (
                        dpfast.private_quantiles(
                            c,
                            [0.5],
                            low=-3,
                            high=3,
                            privacy=1.0,
                            steps=2,
                            noise=dpfast.SeededNoise(0),
                        ).shape
                    )
                )
                for c in pair(make, FLOATS, cell())
            ]
            assert results[0] == results[1] == (("returned", []), (1,)), name


ODD = {
    "text": "patient 4711",
    "time": datetime.datetime(2020, 1, 1),
    "complex": 1j,
    "number": 0.5,
}


@each("others", [*ODD.values()], ids=[*ODD])
@each("cell", [*ODD.values()], ids=[*ODD])
def test_categories_of_pandas_are_read_as_objects_are(others, cell):
    """pandas infers the type of the categories from the cells, so it decides about nothing."""
    cells = pandas().Series([others, others, cell, None], dtype=object)
    levels = dpfast.Categorical(["patient 4711", "a"])
    said, found = heard(lambda: cell_numbers(cells.astype("category"), "x"))
    coded, codes = heard(lambda: levels.codes(cells.astype("category"), "x"))
    assert said == coded == ("returned", [])
    np.testing.assert_array_equal(found, numbers(cells.tolist(), "x"))
    np.testing.assert_array_equal(codes, levels.codes(cells, "x"))
    (refused, _), _ = heard(lambda: numbers(cells.astype("category"), "x"))
    assert refused.startswith("InvalidInput: column 'x'") and "4711" not in refused


@pytest.mark.parametrize("kind", [collections.deque, collections.UserList])
def test_other_sequences_are_read_as_lists_are(kind):
    cells = [2**53 + 1, 0.5, "patient 4711", None, [1.0]]
    for column in (numbers(kind(cells), "x"), as_records(np.ones((5, 1)), kind(cells)).y):
        np.testing.assert_array_equal(column, numbers(cells, "x"))
    assert labels(kind(cells), "g")[0] == cells
    rows = kind([kind([1.0, "a"]), kind([None, 2])])
    np.testing.assert_array_equal(as_records(rows, [0, 1]).X, [[1.0, np.nan], [np.nan, 2.0]])


def test_signalling_nans_say_nothing():
    narrow = np.array(FLOATS, "f4")
    narrow.view("u4")[CHANGED] = 0x7FA00000
    wide = np.array(FLOATS)
    wide.view("u8")[CHANGED] = 0x7FF4000000000000
    for column in (narrow, wide, [*narrow], pandas().Series(narrow), polars().Series(narrow),
                   arrow().array(narrow)):  # fmt: skip
        for use in USES.values():
            said, found = heard(lambda use=use, column=column: use(column))
            assert said == ("returned", []) and np.isnan(found.ravel()[CHANGED])


# ---- types, which are public, are refused for every value ----------------------------------------


REFUSED = {
    "text": lambda: np.array(["a"] * N),
    "bytes": lambda: np.array([b"a"] * N),
    "complex": lambda: np.ones(N) * 1j,
    "longdouble": lambda: np.ones(N, np.longdouble),
    "times": lambda: np.array(["300000-01-01"] * N, "M8[s]"),
    "masked": lambda: np.ma.masked_invalid(FLOATS),
    "records": lambda: np.zeros(N, [("patient", "f8")]),
    "pandas text": lambda: pandas().Series(["1"] * N, dtype="str"),
    "pandas times": lambda: pandas().Series(np.full(N, 2**40, "M8[s]")),
    "polars text": lambda: polars().Series(["1"] * N),
    "polars far days": lambda: (
        polars().Series([2**31 - 1] * N, dtype=polars().Int32).cast(polars().Date)
    ),
    "polars levels": lambda: polars().Series(
        ["patient 4711"] * N, dtype=polars().Enum(["patient 4711"])
    ),
    "Arrow far times": lambda: arrow().array([2**62] * N, arrow().timestamp("s")),
    "Arrow text": lambda: arrow_utf8([b"\xff"] * N),
    "Arrow view": lambda: arrow_utf8([b"\xff"] * N, "string_view"),
    "Arrow lists": lambda: arrow().array([[1.0]] * N),
}


@each("use", [*USES.values()], ids=[*USES])
@each("make", [*REFUSED.values()], ids=[*REFUSED])
def test_types_are_refused_without_a_look(make, use):
    column = make()
    (outcome, said), _ = heard(lambda: use(column))
    assert outcome.startswith("InvalidInput") and said == []
    assert "4711" not in outcome and "300000" not in outcome


def framed(column):
    """A table of two columns.

    Where pandas 2 makes one of its own array, it asks each cell whether it is missing, and a
    signalling decimal raises before there is a table: the cells go in as an array of NumPy.
    """
    own = isinstance(column, pandas().api.extensions.ExtensionArray)
    if own and str(column.dtype) == "object":
        column = np.asarray(column, dtype=object)
    return pandas().DataFrame({"a": FLOATS, "x": column})


@each("make", [*UNTYPED.values()], ids=[*UNTYPED])
def test_objects_and_categories_are_no_numbers_whatever_they_hold(make):
    """Each was read cell by cell: text was missing, and a budget paid for noise."""
    uses = USES | {
        "covariate": lambda c: as_records(framed(c), FLOATS),
        "quantiles": lambda c: dpfast.private_quantiles(c, [0.5], low=-3, high=3, privacy=1.0),
    }
    for name, use in uses.items():
        found = set()
        for cell in ANYTHING.values():
            for column in pair(make, FLOATS, cell()):
                (outcome, said), _ = heard(lambda use=use, column=column: use(column))
                assert said == []
                found.add(outcome)
        (outcome,) = found  # the same words for every cell
        assert outcome.startswith("InvalidInput"), name
        assert "type object" in outcome.lower() or "categor" in outcome or "Sparse" in outcome
        assert "does not say" in outcome and "4711" not in outcome


def test_a_lazy_frame_is_not_collected():
    pl = polars()
    lazy = pl.LazyFrame({"a": ["patient 4711"]}).with_columns(pl.col("a").cast(float))
    for call in (
        lambda: as_records(lazy, [1.0]),
        lambda: dpfast.Schema({"a": dpfast.Numeric(0, 1)}).encode(lazy),
    ):
        (outcome, said), _ = heard(call)
        assert outcome.startswith("InvalidInput") and "collect" in outcome and said == []


def test_a_column_of_nothing_is_answered():
    """Libraries give it the type null because of its cells; one number gives it another type."""
    pa, pl = arrow(), polars()
    nothing = [None] * N
    one = [*nothing[:CHANGED], 1.0, *nothing[CHANGED + 1 :]]
    for make in (pa.table, pl.DataFrame):
        said = []
        for cells in (nothing, one):
            X = make({"x": cells})
            assert np.isfinite(numbers(X["x"], "x")).sum() == N - cells.count(None)
            said.append(heard(lambda X=X: seen_of_a_fit(X)))
        assert said[0] == said[1] and said[0][0] == ("returned", [])


# ---- labels --------------------------------------------------------------------------------------

WORDS = ["a", "b", "a", "c", "b", "a"]
MANY = [f"level {i}" for i in range(128)]


def dictionary(cells, index="int8"):
    pa = arrow()
    listed = sorted(dict.fromkeys(c for c in cells if c is not None), key=str)
    codes = pa.array([None if c is None else listed.index(c) for c in cells], index)
    return pa.DictionaryArray.from_arrays(codes, arrow_utf8(listed))


LABELS = {
    "NumPy text": (np.array, WORDS, ["x" * 50]),
    "Arrow": (arrow_utf8, WORDS, [None, b"\xff", "x" * 200_000]),
    "Arrow large": (lambda c: arrow_utf8(c, "large_string"), WORDS, [None, b"a\xff"]),
    "Arrow view": (lambda c: arrow_utf8(c, "string_view"), WORDS, [None, b"\xc3"]),
    "Arrow chunks": (
        lambda c: arrow().chunked_array([dictionary(c[:3]), dictionary(c[3:])]), WORDS, [None, "z"],
    ),
    "Arrow dictionary": (dictionary, WORDS, [None, b"\xff"]),
    "Arrow 128 levels": (dictionary, MANY, [None, "level 7"]),
    "Arrow nulls": (lambda c: arrow().nulls(len(c)), WORDS, [None]),
    "Arrow bytes": (lambda c: arrow().array(c, arrow().binary()), WORDS, [None, b"\xff"]),
    "pandas": (lambda c: pandas().Series(c), WORDS, [None, 1.0]),
    "pandas Arrow": (
        lambda c: pandas().Series(
            pandas().arrays.ArrowExtensionArray(arrow().chunked_array([arrow_utf8(c)]))
        ), WORDS, [None, b"\xff"],
    ),
    "pandas category": (lambda c: pandas().Series(c).astype("category"), WORDS, [None, "z"]),
    "pandas 128 levels": (
        lambda c: pandas().Series(c, dtype=pandas().CategoricalDtype(MANY)), MANY, [None],
    ),
    "polars": (lambda c: polars().Series(c), WORDS, [None, "?"]),
    "polars Arrow": (
        lambda c: polars().Series(polars().from_arrow(arrow_utf8(c))), WORDS, [b"\xff"],
    ),
    "polars category": (lambda c: polars().Series(c, dtype=polars().Categorical), WORDS, [None]),
    "polars enum": (
        lambda c: polars().Series(c, dtype=polars().Enum(["a", "b", "c"])), WORDS, [None],
    ),
}  # fmt: skip


def label_cases():
    for kind, make in OF_OBJECTS.items():
        for name, cell in ANYTHING.items():
            yield pytest.param(make, WORDS, cell, id=f"{kind}-{name}")
    for kind, (make, good, bad) in LABELS.items():
        for cell in bad:
            yield pytest.param(make, good, lambda cell=cell: cell, id=f"{kind}-{str(cell)[:9]}")


@pytest.mark.parametrize("other", [None, "b"])
@each(("make", "good", "cell"), [*label_cases()])
def test_a_cell_of_labels(make, good, cell, other):
    before, after = pair(make, good, cell())
    schema = dpfast.Schema({"g": dpfast.Categorical(["b", "a", "c", *MANY], other=other)})
    (first, a), (second, b) = [
        heard(lambda c=c: schema.encode({"g": c}).X) for c in (before, after)
    ]
    assert first == second == ("returned", [])
    assert_only_one_record_differs(a, b)
    binary = dpfast.Schema({"g": dpfast.Binary("a", "b"), "x": dpfast.Numeric(0.0, 1.0)})
    x = np.zeros(len(before))
    (first, a), (second, b) = [
        heard(lambda c=c: binary.encode({"g": c, "x": x}, ["x"], "g").y) for c in (before, after)
    ]
    assert first == second == ("returned", [])
    assert_only_one_record_differs(a, b)


def test_text_that_is_no_unicode():
    column = np.array(WORDS, "U2")
    column.view("u4")[2 * CHANGED] = 0xFFFFFFFF
    found, positions = labels(column, "g")
    assert [found[i] for i in positions] == ["a", "b", None, "c", "b", "a"]


def test_128_levels_are_told_apart():
    schema = dpfast.Schema({"g": dpfast.Categorical(MANY)})
    for column in (dictionary(MANY), LABELS["pandas 128 levels"][0](MANY)):
        np.testing.assert_array_equal(schema.encode({"g": column}).X, np.eye(128)[:, 1:])


# ---- who a row belongs to ------------------------------------------------------------------------


@each(("make", "good", "cell"), [*label_cases()])
def test_a_label_of_a_group(make, good, cell):
    """A row that changes hands moves the slots of the two persons, and no others."""
    records = as_records(np.arange(len(good))[:, None], np.arange(len(good)))
    results = []
    for group in pair(make, good, cell()):
        said, found = heard(lambda group=group: grouped(records, group, 2))
        assert said == ("returned", [])
        results.append(found)
    held = [
        {row for row in r.y.reshape(-1, 2).tolist() for row in row if row == row} for r in results
    ]
    assert all(len(r.y) % 2 == 0 for r in results)
    assert len(held[0] - held[1]) <= 2 and len(held[1] - held[0]) <= 2
    rows = np.ones((len(good), 1)), np.ones(len(good))
    (first, _), (second, _) = [
        heard(
            lambda g=g: seen_of_a_fit(
                dpfast.records(*rows, group=g, group_size=2, names=["x"]), opened=True
            )
        )
        for g in pair(make, good, cell())
    ]
    assert first == second == ("returned", [])


# ---- files ---------------------------------------------------------------------------------------

SCHEMA = dpfast.Schema(
    {"x": dpfast.Numeric(0, 10), "g": dpfast.Categorical(["a", "b"]), "y": dpfast.Numeric(-9, 9)}
)
LINES = [f"{i},{'ab'[i % 2]},{-i}".encode() for i in range(N)]
BAD_LINES = {
    "open quote": b'"2,a,-2',
    "open quote in the middle": b'2,"a,-2',
    "open quote at the end": b'2,a,-2"',
    "long cell": b"2," + b"x" * 200_000 + b",-2",
    "long number": b"2" * 200_000 + b",a,-2",
    "long cell that nobody wants": b"2,a,-2," + b"x" * 200_000,
    "no UTF-8": b"\xff,a\xe2\x82,-2\xf0",
    "NUL": b"2,a\x00,-2",
    "carriage return": b"2,a\rb,-2",
    "line separators": "2,a\u2028\x0b\x0c\x85,-2".encode(),
    "no cells": b"",
    "few cells": b"2",
    "many cells": b"2,a,-2,,,,,,,,",
    "number with words": b"patient 4711,a,1e999",
    "digits": "٣,a,1_0".encode(),
}


def csv_file(folder, suffix, lines):
    path = folder / f"{len(list(folder.iterdir()))}{suffix}"
    content = b"x,g,y\n" + b"\n".join(lines) + b"\n"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("line", [*BAD_LINES.values()], ids=[*BAD_LINES])
def test_a_line_is_a_record(tmp_path, line, suffix):
    designs = []
    for lines in pair(lambda lines: csv_file(tmp_path, suffix, lines), LINES, line):
        said, design = heard(
            lambda path=lines: SCHEMA.encode(read_table(path, SCHEMA), response="y")
        )
        assert said == ("returned", [])
        designs.append(np.column_stack([design.X, design.y]))
    assert_only_one_record_differs(*designs)


def test_lines_end_in_either_way(tmp_path):
    tables = []
    for end in ("\n", "\r\n"):
        path = tmp_path / f"{len(end)}.csv"
        path.write_bytes(end.join(["x,g,y", '1,"a",2', "3,b,4"]).encode())
        tables.append(SCHEMA.encode(read_table(path, SCHEMA), response="y"))
    np.testing.assert_array_equal(tables[0].X, tables[1].X)
    np.testing.assert_array_equal(tables[0].y, tables[1].y)
    assert np.isfinite(tables[0].X).all()


def parquet_columns():
    pa = arrow()
    yield (
        "missing",
        pa.array(INTS, pa.int64()),
        pa.array([1, 0, None, 3, 1, 5]),
        dpfast.Numeric(0, 9),
    )
    yield "bool", pa.array(BOOLS), pa.array([True, False, None, *BOOLS[3:]]), dpfast.Numeric(0, 1)
    levels = dpfast.Categorical(["a", "b", "c"])
    for kind in ("string", "large_string"):
        yield kind, *pair(lambda c, kind=kind: arrow_utf8(c, kind), WORDS, b"\xff"), levels
    yield "dictionary", *pair(dictionary, WORDS, b"\xff"), levels


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_cell_of_a_file(tmp_path, suffix):
    pa = arrow()
    from pyarrow import feather, parquet

    write = parquet.write_table if suffix == ".parquet" else feather.write_feather
    for name, before, after, declared in parquet_columns():
        schema = dpfast.Schema({"c": declared, "y": dpfast.Numeric(-9, 9)})
        found, fits = [], []
        for column in (before, after):
            path = tmp_path / f"{name}{suffix}"
            write(pa.table({"c": column, "y": FLOATS}), path)
            said, design = heard(lambda p=path, s=schema: s.encode(read_table(p, s), response="y"))
            assert said == ("returned", []), name
            found.append(design.X)
            if suffix == ".parquet":
                ledger = dpfast.Ledger(1.0)
                records = dpfast.open_parquet(path, response="y", schema=schema)
                fits.append(
                    heard(lambda r=records, b=ledger: seen_of_a_fit(r, opened=True, ledger=b))
                )
                assert fits[-1][0] == ("returned", []), name
        assert_only_one_record_differs(*found)
        assert fits == [] or fits[0] == fits[1]


@pytest.mark.parametrize("missing", [None, True])
def test_a_cell_of_a_formula(missing):
    pytest.importorskip("formulaic")
    pd = pandas()
    schema = dpfast.Schema({"b": dpfast.Numeric(0, 1), "g": dpfast.Categorical(["a", "b", "c"]),
                            "y": dpfast.Numeric(-9, 9)})  # fmt: skip
    table = pd.DataFrame(
        {"b": pd.array([True, False, missing, True, False, True], dtype="boolean"),
         "g": ["a", "b", None if missing is None else "a", "c", "b", "a"], "y": FLOATS}
    )  # fmt: skip
    said, fit = heard(
        lambda: dpfast.fit(
            "y ~ b + I(b**2) + C(g)", table, schema=schema, privacy=1.0,
            method=dpfast.optimize.Newton(steps=2), noise=dpfast.SeededNoise(0),
            loss=dpfast.Objective("log-cosh", scale=1.0),
        )
    )  # fmt: skip
    assert said == ("returned", []) and fit.n_records == N
    assert fit.names == ("intercept", "b", "b ** 2", "g[b]", "g[c]") or len(fit.names) == 5


def test_a_cell_on_a_cluster():
    pytest.importorskip("dask")
    array = pytest.importorskip("dask.array")
    frame = pytest.importorskip("dask.dataframe")
    for cell in (None, "patient 4711", Awkward()):
        tables = pair(lambda c: objects(c)[:, None], FLOATS, cell)
        y = array.from_array(np.arange(6.0), chunks=3)
        given = [array.from_array(table, chunks=(3, 1)) for table in tables]
        said = [heard(lambda X=X, y=y: seen_of_a_fit(X, y)) for X in given]
        assert said[0] == said[1] and "dtype object" in said[0][0][0]
        # chunks of another type than was declared, which nobody sees before they are read
        declared = [X.map_blocks(np.asarray, dtype=float) for X in given]
        said = [heard(lambda X=X, y=y: seen_of_a_fit(X, y)) for X in declared]
        assert said[0] == said[1] and said[0][0] == ("returned", [])
        frames = [
            frame.from_pandas(pandas().DataFrame({"b": FLOATS, "y": FLOATS}), npartitions=2)
            .map_partitions(lambda d, cell=cell: d.assign(b=objects([cell, *d["b"][1:]])),
                            meta={"b": float, "y": float})
            for cell in (0.5, cell)
        ]  # fmt: skip
        said = [heard(lambda t=t: seen_of_a_fit(t, "y")) for t in frames]
        assert said[0] == said[1] and said[0][0] == ("returned", [])
    pd = pandas()
    for cells in (BOOLS, [True, False, None, *BOOLS[3:]]):
        table = pd.DataFrame({"b": pd.array(cells, dtype="boolean"), "y": FLOATS})
        said, _ = heard(lambda t=table: seen_of_a_fit(frame.from_pandas(t, npartitions=2), "y"))
        assert said == ("returned", [])


def test_a_cell_of_a_sparse_matrix_and_of_a_memmap(tmp_path):
    dense = np.column_stack([FLOATS, INTS]).astype(float)
    for cell in (np.nan, np.inf, 1e308, 0.0):
        other = dense.copy()
        other[CHANGED, 1] = cell
        for make in (sparse.csr_matrix, sparse.csr_array, lambda x: mapped(tmp_path, x)):
            tables = [make(x) for x in (dense, other)]
            said = [heard(lambda t=t: seen_of_a_fit(t)) for t in tables]
            assert said[0] == said[1] and said[0][0] == ("returned", [])


def mapped(folder, values):
    path = folder / f"{len(list(folder.iterdir()))}.raw"
    with np.errstate(all="ignore"):
        values.astype("f2").tofile(path)
    return np.memmap(path, "f2", "r", shape=values.shape)
