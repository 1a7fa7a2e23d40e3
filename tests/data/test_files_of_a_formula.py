"""A formula of a file, of several, and of tables that are evaluated when they are read."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dpfast
from tests.loops import each

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
pytest.importorskip("pyarrow")

N = 6000
SCHEMA = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "age": dpfast.Numeric(16, 80)})
FORMULA = "log(pay) ~ age + I(age**2) + C(sex)"


def frame():
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({
        "age": rng.uniform(16, 80, N), "sex": rng.choice(["F", "M"], N), "unread": "x",
        "who": np.arange(N) // 2, "weight": rng.uniform(1, 3, N),
    })  # fmt: skip
    table["pay"] = np.exp(1.0 + 0.02 * table["age"] + 0.3 * rng.normal(size=N))
    return table


TABLE = frame()


def fitted(data, formula=FORMULA, **options):
    options = {"privacy": 2.0, "noise": dpfast.SeededNoise(1), "schema": SCHEMA} | options
    return dpfast.fit(formula, data, **options)


@pytest.fixture(scope="module")
def expected():
    return fitted(TABLE)


def written(folder):
    """Write the table as one file of each kind, and in parts."""
    TABLE.to_csv(folder / "one.csv", index=False)
    TABLE.to_csv(folder / "one.TSV", index=False, sep="\t")
    TABLE.to_csv(folder / "one.csv.gz", index=False, sep=";")
    TABLE.to_feather(folder / "one.feather")
    TABLE.to_parquet(folder / "one.parquet")
    (folder / "parts").mkdir()
    for k in range(3):
        TABLE[2000 * k : 2000 * (k + 1)].to_parquet(folder / "parts" / f"{k}.parquet")


def test_files_by_their_paths(tmp_path, expected):
    """The same fit, up to the order of sums of blocks."""
    written(tmp_path)
    names = ["one.csv", "one.TSV", "one.csv.gz", "one.feather", "one.parquet", "parts"]
    paths = [*(tmp_path / name for name in names), str(tmp_path / "parts" / "*.parquet")]
    paths += [str(tmp_path / "**" / "[0-9].parquet")]
    paths += [[tmp_path / "parts" / f"{k}.parquet" for k in range(3)]]
    for path in paths:
        found = fitted(path)
        np.testing.assert_allclose(found.params, expected.params, rtol=1e-7, err_msg=str(path))
        assert found.n_records == N and found.predict(TABLE[:3]).shape == (3,)


def test_tables_that_are_evaluated_when_they_are_read(tmp_path, expected):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import dataset

    written(tmp_path)
    whole = arrow.Table.from_pandas(TABLE)

    class Relation:
        """As those of DuckDB: names of columns, and a stream of batches."""

        columns = tuple(TABLE)

        def __arrow_c_stream__(self, requested_schema=None):
            return whole.to_reader(1000).__arrow_c_stream__(requested_schema)

    lazy = [dataset.dataset(tmp_path / "parts"), whole.to_reader(700), Relation()]
    lazy += [dataset.dataset(tmp_path / "parts").filter(dataset.field("age") > 0.0)]
    polars = pytest.importorskip("polars")
    lazy += [polars.from_pandas(TABLE).lazy(), polars.scan_parquet(tmp_path / "parts")]
    lazy += [polars.scan_csv(tmp_path / "one.csv")]
    for table in lazy:
        np.testing.assert_array_equal(fitted(table).params, expected.params)


@each("kind", ["csv", "parquet", "lazy", "dataset"])
def test_weights_and_persons_are_columns_of_them(kind, tmp_path):
    from pyarrow import dataset

    path = tmp_path / f"of-{kind}"
    path.mkdir()
    TABLE.to_csv(path / "a.csv", index=False)
    TABLE.to_parquet(path / "a.parquet")
    data = {
        "csv": lambda: path / "a.csv", "parquet": lambda: path / "a.parquet",
        "dataset": lambda: dataset.dataset(path / "a.parquet"),
        "lazy": lambda: pytest.importorskip("polars").from_pandas(TABLE).lazy(),
    }[kind]  # fmt: skip
    for options in ({"sample_weight": "weight"}, {"group": "who", "each": "person"}):
        found, same = (fitted(dpfast.records(d, **options)) for d in (data(), TABLE))
        np.testing.assert_allclose(found.params, same.params, rtol=1e-6)
        assert found.privacy.relation == same.privacy.relation


def test_what_is_refused_costs_nothing_and_shows_no_value(tmp_path):
    """A header that leaves the delimiter open, a file twice, a query that fails, no rows."""
    polars = pytest.importorskip("polars")
    written(tmp_path)
    (tmp_path / "two.csv").write_text("pay,age;sex\n8154,2;3\n")
    os.link(tmp_path / "one.parquet", tmp_path / "again.parquet")
    secret = polars.LazyFrame({"pay": ["secret-8154"] * 9, "age": [1.0] * 9})
    ledger = dpfast.Ledger(9.0)
    for data in (
        tmp_path / "two.csv", tmp_path / "absent.csv", tmp_path / "*.none", [],
        [tmp_path / "one.parquet"] * 2, [tmp_path / "one.parquet", tmp_path / "again.parquet"],
        secret.with_columns(polars.col("pay").cast(polars.Float64)),
        secret, polars.from_pandas(TABLE).lazy().head(0),
    ):  # fmt: skip
        with pytest.raises(dpfast.InvalidInput) as refused:
            fitted(data, "pay ~ age", ledger=ledger, schema=None)
        assert "8154" not in str(refused.value) and refused.value.__context__ is None
    assert not ledger.entries


@each("kind", ["csv", "csv.gz", "feather", "parquet", "frame"])
def test_a_schema_is_drafted_from_names_and_types(kind, tmp_path):
    """Two tables of other values have one draft; filled in, it is the schema."""
    drafts = []
    for k, table in enumerate((TABLE, TABLE.assign(age=TABLE["age"] + 1e6, sex="secret"))):
        path = tmp_path / f"{k}.{kind}"
        if kind == "frame":
            drafts.append(dpfast.Schema.draft(table, SCHEMA))
            continue
        write = getattr(table, f"to_{kind.partition('.')[0]}")
        write(path, **({} if kind == "feather" else {"index": False}))
        drafts.append(dpfast.Schema.draft(path, SCHEMA))
    assert drafts[0] == drafts[1] and "secret" not in drafts[0]
    with pytest.raises(dpfast.InvalidInput, match="TOML"):
        dpfast.Schema.from_toml(drafts[0])
    filled, numbers = drafts[0], 0
    while "low = " in filled.replace("low = 1", ""):
        start = filled.index("low =  ")
        end = filled.index("high =\n", start) + len("high =\n")
        filled = filled[:start] + "low = 0\nhigh = 9\n" + filled[end:]
        filled, numbers = filled.replace("low = 0", "low=0"), numbers + 1
    found = dpfast.Schema.from_toml(filled.replace("levels = []", "levels = ['x', 'y']"))
    assert found.columns["age"] == SCHEMA["age"] and found.columns["sex"] == SCHEMA["sex"]
    assert set(found.columns) == set(TABLE) and numbers >= 3
