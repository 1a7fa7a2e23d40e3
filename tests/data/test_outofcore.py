"""Memmaps, compressed rows and Parquet: the same sums as in memory, a block at a time."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast.audit import neighbours, replay
from dpfast.curator import Curator, StepBudget
from dpfast.data import Records, as_records, streams
from dpfast.data.reduction import FAN_IN, additions, fold, tree_sum
from dpfast.models import LogCosh, Mallows, Objective
from tests import sources
from tests.loops import each

RNG = np.random.default_rng(5)
N = 1000
X = RNG.normal(size=(N, 3))
X[RNG.random(X.shape) < 0.5] = 0.0
Y = X @ [1.0, -0.5, 0.2] + RNG.normal(size=N)
X[7, 1], Y[11] = np.nan, np.inf


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64 * 8 * 4)  # 64 rows


def fit(data, y=None, **options):
    options = {"privacy": 1.0, "method": dpfast.optimize.Newton(steps=3)} | options
    loss = dpfast.Objective("log-cosh", scale=1.0)
    return dpfast.fit(data, y, loss, noise=dpfast.SeededNoise(3), **options)


def curator(records):
    objective = Objective(LogCosh(), Mallows(2.0), 3, scale=1.0)
    return Curator(records, objective, dpfast.Ledger(9.0), dpfast.SeededNoise(0))


def assert_same_sums(records, X=X, y=Y):
    """Equal to the sums over the same partition in memory bit by bit, to one block's to 1e-12."""
    theta = np.array([0.3, -0.2, 0.1, 0.4])
    found = curator(records).nonprivate_sums(theta)

    class Parts(Records):
        def blocks(self):
            ends = np.cumsum(records.block_sizes)
            for size, end in zip(records.block_sizes, ends, strict=True):
                yield self.X[end - size : end], self.y[end - size : end]

    parts = Parts(X, y, None)
    parts.block_sizes = records.block_sizes
    whole = curator(Records(X, y, None)).nonprivate_sums(theta)
    for a, b, c in zip(found, curator(parts).nonprivate_sums(theta), whole, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, c, rtol=0, atol=1e-12 * np.abs(c).max())


def mapped(folder, values, name="x"):
    path = folder / f"{name}-{len(list(folder.iterdir()))}.raw"
    values.tofile(path)
    return np.memmap(path, dtype=values.dtype, mode="r", shape=values.shape)


# ---- the order of additions ----------------------------------------------------------------------


@each("count", [1, 2, FAN_IN - 1, FAN_IN, FAN_IN + 1, FAN_IN**2, 777, 4097])
def test_parts_are_added_in_groups_of_groups(count):
    rng = np.random.default_rng(count)
    parts = [(float(x), None) for x in rng.normal(size=count) * 10.0 ** rng.integers(-9, 9, count)]
    level = parts
    while len(level) > 1:
        level = [fold(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    assert tree_sum(iter(parts)) == level[0]


@each("count", [1, 2, 15, 16, 17, 200, 256, 257, 1000])
def test_no_part_passes_through_more_additions_than_announced(count):
    class Part:
        def __init__(self, depth):
            self.depth = depth

        def __add__(self, other):
            return Part(max(self.depth, other.depth) + 1)

    assert tree_sum([Part(0) for _ in range(count)]).depth == additions(count) <= max(0, count - 1)


def test_the_curator_allows_for_the_tree_of_blocks():
    records = Records(X, Y, None)
    records.block_sizes = (1,)
    alone = curator(records).depth(1)
    records.block_sizes = (1,) * N
    assert curator(records).depth(1) == alone + additions(N) == alone + 15 + 15 + 3


def test_only_total_adds_what_blocks_contribute():
    """A loop of its own would pass through more roundings than Curator.depth allows for."""
    import ast
    from pathlib import Path

    # two count the roundings of their own loops, the others gather or map rows and add nothing
    accounted = {
        "recordwise.py", "projection.py", "effects.py", "preconditioned.py", "blocks.py",
        "hazards.py",
    }  # fmt: skip
    for path in Path(dpfast.__file__).parent.joinpath("curator").glob("*.py"):
        called = {
            node.func.attr
            for node in ast.walk(sources.tree(path))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert "blocks" not in called or path.name in accounted, path.name


# ---- memmap and compressed rows ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f2", ">f8", "i2", "u1"])
def test_memmaps_are_converted_block_by_block(tmp_path, small_blocks, dtype):
    with np.errstate(all="ignore"):
        x, y = X.astype(dtype), Y.astype(dtype)
    records = as_records(mapped(tmp_path, x), mapped(tmp_path, y))
    assert len(records.block_sizes) == 16 and sum(records.block_sizes) == N
    assert_same_sums(records, x.astype(float), y.astype(float))


def test_a_memmap_of_float64_is_used_in_place(tmp_path):
    x = mapped(tmp_path, X)
    records = as_records(x, Y)
    assert type(records) is Records and np.shares_memory(records.X, x)


def test_a_memmap_of_the_response_alone(tmp_path, small_blocks):
    y = mapped(tmp_path, Y.astype("f4"))
    assert_same_sums(as_records(X, y), X, Y.astype("f4").astype(float))


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_compressed_rows(small_blocks, kind, dtype):
    x = np.nan_to_num(X).astype(dtype)
    assert_same_sums(as_records(kind(x), Y), x.astype(float))
    y = Y[:, None].T
    with pytest.raises(dpfast.InvalidInput, match="1 dimension"):
        as_records(kind(x), y)


def test_extreme_entries_of_compressed_rows(small_blocks):
    x = X.copy()
    x[3], x[4, 0], x[5, 1] = 1e308, np.inf, 5e-324
    assert_same_sums(as_records(sparse.csr_matrix(x), Y), x)


def test_other_sparse_formats_and_types_are_refused():
    with pytest.raises(dpfast.InvalidInput, match=r"X\.tocsr\(\)"):
        as_records(sparse.csc_matrix(X), Y)
    with pytest.raises(dpfast.InvalidInput, match="dtype complex128"):
        as_records(sparse.csr_matrix(X).astype(complex), Y)
    with pytest.raises(dpfast.InvalidInput, match="sparse"):
        as_records(X, sparse.csr_matrix(Y))


def raw_rows(kind, rows, columns=3, indices="i4", dtype="f8"):
    """Compressed rows from lists of (column, number) as they are, which nobody checked."""
    found = kind((len(rows), columns), dtype=dtype)
    found.indptr = np.cumsum([0, *map(len, rows)]).astype(indices)
    found.indices = np.array([j for row in rows for j, _ in row]).astype(indices)
    found.data = np.array([v for row in rows for _, v in row], dtype=dtype)
    return found


def as_lists(x):
    return [[(j, row[j]) for j in np.flatnonzero(row)] for row in x]


MALFORMED = {
    "beyond the last column": [(3, 9.0)],
    "in the columns of other rows": [(3 + j, 9.0) for j in range(300)],
    "far out": [(2**31 - 1, 9.0)] * 50,
    "before the first": [(0, 1.0), (-1, 9.0)],
    "far before": [(-(2**31), 9.0)],
    "among others": [(0, 1.0), (1, 2.0), (77, 3.0)],
}


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
@each("row", MALFORMED.values(), ids=MALFORMED)
@each("place", [0, 500, N - 1])
def test_a_malformed_row_is_an_incomplete_record(small_blocks, kind, row, place):
    """Entries in columns that are not there were numbers of other rows, or ended the process."""
    x = np.nan_to_num(X)
    rows = as_lists(x)
    rows[place] = row
    x[place] = np.nan
    assert_same_sums(as_records(raw_rows(kind, rows), Y), x)


@each("indices", ["i4", "i8", "u4", "u8", "i2", ">i4"])
@each("dtype", ["f8", "f4", "f2", "i1", "u1", "?", ">f8"])
def test_entries_of_any_type(small_blocks, indices, dtype):
    x = np.nan_to_num(X).astype(dtype)
    made = raw_rows(sparse.csr_matrix, as_lists(x.astype(float)), 3, indices)
    made.data = made.data.astype(dtype)
    assert_same_sums(as_records(made, Y), x.astype(float))


def test_entries_that_stand_twice_are_added(small_blocks):
    x = np.nan_to_num(X)
    rows = as_lists(x)
    rows[7] = [(2, 1.0), (0, 3.0), (2, 0.5)]
    x[7] = 3.0, 0.0, 1.5
    assert_same_sums(as_records(raw_rows(sparse.csr_matrix, rows), Y), x)


def broken(**changed):
    found = sparse.csr_matrix(np.nan_to_num(X))
    for name, change in changed.items():
        setattr(found, name, change(getattr(found, name)))
    return found


def with_entry(place, value):
    def change(array):
        array = array.copy()
        array[place] = value
        return array

    return change


@each(
    "changed",
    [
        {"indptr": with_entry(500, 0)},
        {"indptr": with_entry(0, 1)},
        {"indptr": with_entry(0, -1)},
        {"indptr": with_entry(-1, 2**31 - 1)},
        {"indptr": lambda a: a[:-1]},
        {"indptr": lambda a: np.append(a, a[-1])},
        {"indptr": lambda a: a.astype(float)},
        {"indptr": lambda a: a[:, None]},
        {"indptr": lambda a: a.tolist()},
        {"indices": lambda a: a[:-1]},
        {"indices": lambda a: a.astype(float)},
        {"data": lambda a: a[:-1]},
        {"data": lambda a: a[:, None]},
    ],
)
def test_a_broken_container_of_compressed_rows_is_refused(changed):
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(dpfast.InvalidInput, match="compressed rows"):
        fit(broken(**changed), Y, privacy=0.5, ledger=ledger)
    assert ledger.entries == ()


def test_pointers_that_change_after_the_opening_reach_nothing(small_blocks):
    x = sparse.csr_matrix(np.nan_to_num(X))
    records = as_records(x, Y)
    x.indptr[:] = 2**31 - 1
    assert_same_sums(records, np.nan_to_num(X))


def test_groups_need_memory(small_blocks):
    with pytest.raises(dpfast.InvalidInput, match="in memory"):
        fit(dpfast.records(sparse.csr_matrix(X), Y, group=np.arange(N), group_size=2))


# ---- Parquet -------------------------------------------------------------------------------------


def write(path, x=X, y=Y, rows=128, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    data = {f"x{j}": x[:, j] for j in range(x.shape[1])} | {"y": y} | columns
    parquet.write_table(pyarrow.table(data), path, row_group_size=rows)
    return path


def opened(path, **options):
    options = {"covariates": ["x0", "x1", "x2"], "response": "y"} | options
    return dpfast.open_parquet(path, **options)


def test_row_groups_are_blocks(tmp_path):
    records = opened(write(tmp_path / "d.parquet"))
    assert records.block_sizes == (128,) * 7 + (104,)
    assert records.names == ("x0", "x1", "x2")
    assert repr(records) == "StreamedRecords(n=1000, n_covariates=3)"
    assert_same_sums(records)
    assert fit(records).params.tolist() == fit(records).params.tolist()


def test_a_footer_is_parsed_once_however_many_row_groups_there_are(tmp_path, monkeypatch):
    """Parsing it again for each of 1,600 groups took 68 s in place of 3 s."""
    from pyarrow import parquet

    records = opened(write(tmp_path / "d.parquet", rows=10))
    given = []

    class Counted(parquet.ParquetFile):
        def __init__(self, *arguments, metadata=None, **options):
            given.append(metadata)
            super().__init__(*arguments, metadata=metadata, **options)

    monkeypatch.setattr(parquet, "ParquetFile", Counted)
    assert sum(len(y) for _, y in records.blocks()) == N
    assert len(given) == len(records.block_sizes) == N // 10
    assert given[0] is not None and all(footer is given[0] for footer in given)


def test_a_folder_is_one_table(tmp_path):
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "1.parquet", X[600:], Y[600:])
    write(tmp_path / "a.parquet", X[:600], Y[:600])
    (tmp_path / "notes.txt").write_text("not data")
    assert_same_sums(opened(tmp_path))


def test_nulls_and_narrow_types_are_numbers(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(
        {
            "a": pyarrow.array([1, None, 3], pyarrow.int64()),
            "b": pyarrow.array([True, None, False]),
            "c": pyarrow.array([2**63, 1, None], pyarrow.uint64()),
            "y": pyarrow.array([1.5, 2.0, None], pyarrow.float32()),
        }
    )
    parquet.write_table(table, tmp_path / "d.parquet")
    records = opened(tmp_path, covariates=["a", "b", "c"])
    ((x, y),) = records.blocks()
    nan = np.nan
    np.testing.assert_array_equal(x, [[1, 1, 2.0**63], [nan, nan, 1], [3, 0, nan]])
    np.testing.assert_array_equal(y, [1.5, 2.0, nan])


def test_a_schema_encodes_block_by_block(tmp_path):
    codes = np.random.default_rng(6).integers(0, 4, N)
    sex = np.array(["F", "M", "?", None], dtype=object)[codes]
    path = write(tmp_path / "d.parquet", sex=sex)
    schema = dpfast.Schema(
        {
            "x0": dpfast.Numeric(-1.0, 1.0),
            "sex": dpfast.Categorical(["F", "M"]),
            "x2": dpfast.Numeric(-2.0, 2.0),
            "y": dpfast.Numeric(-3.0, 3.0),
        }
    )
    records = opened(path, covariates=None, schema=schema)
    assert records.names == ("x0", "sex[M]", "x2")
    table = {"x0": X[:, 0], "sex": sex, "x2": X[:, 2], "y": Y}
    whole = schema.encode(table, ["x0", "sex", "x2"], "y")
    assert np.isnan(whole.X).any()
    assert_same_sums(records, whole.X, whole.y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariates": ["x0", "z"]}, "names no single column"),
        ({"covariates": None}, "needed without a schema"),
        ({"covariates": ["label"]}, "has type string"),
        ({"response": "label"}, "has type string"),
        ({"schema": dpfast.Schema({"x0": dpfast.Numeric(0, 1)})}, "does not declare"),
    ],
)
def test_what_is_refused_when_opening(tmp_path, options, message):
    path = write(tmp_path / "d.parquet", label=["a"] * N)
    with pytest.raises(dpfast.InvalidInput, match=message):
        opened(path, **options)


def test_no_files_and_no_rows(tmp_path):
    with pytest.raises(dpfast.InvalidInput, match="no Parquet file"):
        opened(tmp_path)
    with pytest.raises(dpfast.InvalidInput, match="no rows"):
        opened(write(tmp_path / "d.parquet", X[:0], Y[:0]))


def test_opened_records_hold_their_response_and_names(tmp_path):
    records = opened(write(tmp_path / "d.parquet"))
    with pytest.raises(dpfast.InvalidInput, match="y=None"):
        fit(records, Y)
    with pytest.raises(dpfast.InvalidInput, match="y=None"):
        fit(dpfast.records(records, names=["a", "b", "c"]))


def test_a_changed_file_is_noticed_and_the_charge_stays(tmp_path):
    keeper = curator(opened(write(tmp_path / "d.parquet")))
    keeper.joint(np.zeros(4), StepBudget(0.5))
    write(tmp_path / "d.parquet", X[:999], Y[:999])
    with pytest.raises(dpfast.errors.RecordsUnavailable, match="stays charged"):
        keeper.joint(np.zeros(4), StepBudget(0.5))
    assert len(keeper.ledger.entries) == 2


def test_a_source_of_another_length_is_noticed():
    records = streams.StreamedRecords(lambda k: (X[:5], Y[:5]), [5, 6], 3, None)
    with pytest.raises(dpfast.errors.RecordsUnavailable, match="block 1"):
        curator(records).nonprivate_sums(np.zeros(4))


# ---- privacy and memory --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_persons_with_weights_are_those_of_memory(tmp_path, small_blocks, dtype):
    """Slots of a mapped file are filled block by block, with weights and offsets as they come."""
    values = X.astype(dtype)
    persons = np.arange(len(Y)) % (len(Y) // 3)
    columns = {
        "sample_weight": np.linspace(-0.1, 1.2, len(Y)), "largest_weight": 1.0,
        "offset": np.linspace(0.0, 1.0, len(Y)),
    }  # fmt: skip
    for given in (["sample_weight", "largest_weight"], ["offset"], list(columns)):
        beside = {name: columns[name] for name in given}
        found = [
            dpfast.fit(
                dpfast.records(some, Y, group=persons, group_size=2, **beside), None,
                dpfast.Objective("huber", scale=1.0), privacy=4.0, noise=dpfast.SeededNoise(1),
            )
            for some in (values, mapped(tmp_path, values))
        ]  # fmt: skip
        assert found[0].params.tobytes() == found[1].params.tobytes()


def as_memmap(folder, data):
    return mapped(folder, data[0].astype("f4")), data[1]


def as_csr(folder, data):
    return sparse.csr_matrix(data[0]), data[1]


def as_parquet(folder, data):
    path = write(folder / "d.parquet", *data, rows=8)
    return opened(path, covariates=["x0", "x1"]), None


@pytest.mark.parametrize("stored", [as_memmap, as_csr, as_parquet])
@pytest.mark.parametrize("kind", ["antipodal", "huge", "nan"])
def test_replay(tmp_path, monkeypatch, stored, kind):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 8 * 8 * 3)
    pair = neighbours(X[20:50, :2], Y[20:50], kind)
    with np.errstate(all="ignore"):
        replay(lambda data: fit(*stored(tmp_path, data)), *pair, budget=1.0).raise_on_leak()


@each("row", MALFORMED.values(), ids=MALFORMED)
def test_replay_of_a_malformed_row(monkeypatch, row):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 8 * 8 * 3)
    x = np.nan_to_num(X[20:50])
    rows, other = as_lists(x), x.copy()
    other[4] = np.nan  # stands for the malformed row
    stored = [raw_rows(sparse.csr_matrix, some) for some in (rows, [*rows[:4], row, *rows[5:]])]
    pair = (x, Y[20:50]), (other, Y[20:50])
    replay(
        lambda d: fit(stored[int(np.isnan(d[0][4, 0]))], d[1]), *pair, budget=1.0
    ).raise_on_leak()


PEAK = """
import resource, sys
import dpfast
covariates = [f"x{j}" for j in range(11)]
records = dpfast.open_parquet(sys.argv[1], covariates=covariates, response="y")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
method = dpfast.optimize.Newton(steps=2)
dpfast.fit(records, None, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, method=method)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_peak_memory_is_that_of_a_few_blocks(tmp_path):
    """2M records of 12 numbers: 201 MB as float64, of which less than 100 may be in memory."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values = np.random.default_rng(7).integers(0, 50, size=1 << 17).astype(float)
    group = pyarrow.table({f"x{j}": values for j in range(11)} | {"y": values})
    path = tmp_path / "d.parquet"
    with parquet.ParquetWriter(path, group.schema) as writer:
        for _ in range(16):
            writer.write_table(group, row_group_size=1 << 17)
    found = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(found.stdout) < 100_000  # kilobytes


def test_a_declared_domain_is_projected_on_block_by_block(small_blocks):
    from dpfast.curator.release.projection import projected
    from dpfast.models import Ball

    x = np.nan_to_num(X)
    domain = Ball(0.5)
    assert_same_sums(projected(as_records(sparse.csr_matrix(x), Y), domain), domain.project(x))
