"""Bytes and words that nobody thought of: what is read is read, the rest is refused in our words.

Files of records must not raise by what a cell holds; a file that is damaged as a whole may be
refused, by an error of ours or of the system, and never with a traceback of a library.  Every CI
run repeats the same examples; the scheduled job draws others (``.ci/fuzz``).
"""

from __future__ import annotations

import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import dpfast
from dpfast.data.files import read_numbers, read_table
from dpfast.data.formula import terms_of
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.errors import DpfastError
from dpfast.inference.rendering.page import page
from dpfast.inference.rendering.transcript import transcript

SCHEMA = Schema({"age": Numeric(18, 90), "state": Categorical(["CA", "NY"]), "sick": Binary(1, 0)})
LOG_COSH = dpfast.Objective("log-cosh", scale=1.0)
FEW = settings(max_examples=40)

#: A damaged place of a file: where (as a share of its length), how many bytes go, what comes.
damages = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.integers(0, 40), st.binary(max_size=12)),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, places) -> bytes:
    for share, gone, junk in places:
        at = int(share * len(content))
        content = content[:at] + junk + content[at + gone :]
    return content


def ours(call) -> bool:
    """Whether a call returned; what it raises must be ours or the system's."""
    with suppress(DpfastError, OSError):
        call()
        return True
    return False


def parquet() -> bytes:
    arrow = pytest.importorskip("pyarrow")
    writer = pytest.importorskip("pyarrow.parquet")
    table = arrow.table(
        {"age": np.linspace(18.0, 90.0, 40), "state": ["CA", "NY"] * 20, "sick": [0, 1] * 20}
    )
    buffer = io.BytesIO()
    writer.write_table(table, buffer, row_group_size=16)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@FEW
@given(places=damages)
def test_damaged_parquet_files(folder, places):
    path = folder / "data.parquet"
    path.write_bytes(damaged(parquet(), places))
    ours(lambda: read_table(path, SCHEMA))
    ours(lambda: read_numbers(path, ["age", "sick"], None, None))

    def fit():
        records = dpfast.open_parquet(path, response="sick", covariates=["age"], schema=SCHEMA)
        dpfast.fit(records, None, "logistic", privacy=1.0, inference=False)

    ours(fit)


def test_what_is_not_damaged_is_read(folder):
    """Or the tests here would show nothing."""
    path = folder / "whole.parquet"
    path.write_bytes(parquet())
    assert ours(lambda: read_table(path, SCHEMA))
    assert ours(lambda: read_numbers(path, ["age", "sick"], None, None))
    options = {"response": "sick", "covariates": ["age"], "schema": SCHEMA}
    records = dpfast.open_parquet(path, **options)
    assert ours(lambda: dpfast.fit(records, None, "logistic", privacy=1.0, inference=False))
    path = folder / "whole.csv"
    path.write_bytes(CSV)
    assert ours(lambda: read_table(path, SCHEMA))
    assert ours(lambda: read_numbers(path, ["age", "sick"], None, None))
    assert ours(lambda: terms_of("sick ~ age"))


CSV = b"age,state,sick\n" + b"".join(b"%d,CA,%d\n" % (18 + k, k % 2) for k in range(40))


@FEW
@given(places=damages, packed=st.booleans())
def test_damaged_files_of_text(folder, places, packed):
    import gzip

    path = folder / ("data.csv.gz" if packed else "data.csv")
    path.write_bytes(damaged(gzip.compress(CSV) if packed else CSV, places))
    ours(lambda: read_table(path, SCHEMA))
    ours(lambda: read_numbers(path, ["age", "sick"], None, None))


@FEW
@given(st.binary(max_size=400))
def test_any_bytes_are_no_parquet_file(folder, content):
    path = folder / "any.parquet"
    path.write_bytes(content)
    assert not ours(lambda: dpfast.open_parquet(path, response="age"))
    assert not ours(lambda: read_table(path, SCHEMA))


#: What columns of a frame can be made of.
cells = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.complex_numbers(),
    st.binary(max_size=3), st.dates(), st.datetimes(), st.timedeltas(), st.decimals(),
)  # fmt: skip


@FEW
@given(st.lists(cells, min_size=12, max_size=12), st.lists(st.floats(), min_size=12, max_size=12))
def test_columns_of_any_cells(odd, numbers):
    pandas = pytest.importorskip("pandas")
    table = {"age": odd, "sick": numbers, "state": ["CA"] * 12}
    ours(lambda: SCHEMA.encode(table, ["age", "state"], "sick"))
    frame = pandas.DataFrame({"age": pandas.Series(odd, dtype=object), "sick": numbers})
    found = []

    def fit():
        X, y = frame[["age"]], frame["sick"]
        options = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
        found.append(dpfast.fit(X, y, LOG_COSH, standardize=False, **options))

    ours(fit)


TYPES = ["int8", "uint64", "float16", "Int64", "boolean", "string", "category", "datetime64[ns]",
         "timedelta64[ns]", "complex128", "object", "float32"]  # fmt: skip


@FEW
@given(st.sampled_from(TYPES), st.lists(st.integers(0, 1), min_size=12, max_size=12))
def test_columns_of_any_type(dtype, numbers):
    pandas = pytest.importorskip("pandas")
    try:
        odd = pandas.Series(numbers).astype(dtype)
    except (TypeError, ValueError):
        return
    frame = pandas.DataFrame({"a": odd, "b": np.linspace(0.0, 1.0, 12)})
    ours(
        lambda: dpfast.fit(
            frame, np.arange(12.0), dpfast.Objective("log-cosh", scale=9.0), privacy=1.0
        )
    )
    ours(
        lambda: dpfast.fit(
            "b ~ a", frame, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=9.0)
        )
    )


# ---- ledgers, schemas, formulas, pages -----------------------------------------------------------


@FEW
@given(places=damages)
def test_damaged_ledgers_grant_no_more_than_their_total(folder, places):
    path = folder / "budget"
    path.unlink(missing_ok=True)
    ledger = dpfast.Ledger.open(path, dpfast.GDP(2.0))
    for label in ("a mean", "another"):
        ledger.charge(dpfast.GDP(0.5), label)
    path.write_bytes(damaged(path.read_bytes(), places))

    def spend():
        found = dpfast.Ledger.open(path)
        assert found.spent is None or found.remaining is not None or found.entries
        for _ in range(3):
            found.charge(dpfast.GDP(1.9), "all that may be left")
        raise AssertionError("three times the total was granted")

    with suppress(dpfast.BudgetExceeded):
        ours(spend)


@FEW
@given(st.text(max_size=80), damages)
def test_schemas_from_any_text(text, places):
    ours(lambda: Schema.from_toml(text + "\n"))
    broken = damaged(SCHEMA.to_toml().encode(), places).decode("utf-8", "replace")
    ours(lambda: Schema.from_toml(broken))


PIECES = st.sampled_from(
    ["age", "state", "sick", "C(state)", "I(age**2)", "~", "+", "-", "*", ":", "/", "(", ")", "1",
     "0", "**", "%in%", "log(age)", "`age`", "poly(age, 2)", "np.exp(age)", "[", "{age}", " ", "|",
     "__import__('os')", "lag(age)", "'", '"', "\\", "\n", "age.mean()", "bs(age)"]
)  # fmt: skip


@settings(max_examples=150)
@given(st.lists(PIECES, max_size=9).map("".join) | st.text(max_size=20))
@example("0|")
def test_formulas_of_any_words(formula):
    pytest.importorskip("formulaic")
    table = {"age": np.linspace(18, 90, 12), "state": ["CA", "NY"] * 6, "sick": [0.0, 1.0] * 6}
    ours(lambda: terms_of(formula))
    options = {"privacy": 1.0, "noise": dpfast.SeededNoise(0), "inference": False}
    ours(lambda: dpfast.fit(formula, table, "logistic", schema=SCHEMA, **options))


@FEW
@given(places=damages)
def test_a_damaged_page_does_not_pass(folder, places):
    X = np.linspace(-1.0, 1.0, 100)[:, None]
    options = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    content = page(transcript(dpfast.fit(X, X[:, 0], LOG_COSH, **options), 0.95)).encode()
    broken = damaged(content, places)
    path = folder / "fit.html"
    path.write_bytes(broken)
    found = []
    ours(lambda: found.append(dpfast.inference.verify_report(path).passed))
    assert found in ([], [broken == content])
