"""Files that are damaged in any place, and containers with one malformed record.

A damaged file is read, or refused in our words; it never ends the process.  So a second process
reads the corpus, and its last line says which file ended it.  A cell, a code or a row that stands
for nothing is a missing value of its own record.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.data import arrow_arrays
from dpfast.data.columns import labels
from dpfast.data.files import read_table
from tests.loops import each

N, BAD = 60, 7
RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=N).round(3), RNG.normal(size=N).round(3)
G = ["north" if i % 3 else "a place in the far south" for i in range(N)]
SCHEMA = dpfast.Schema(
    {
        "x": dpfast.Numeric(-3, 3),
        "g": dpfast.Categorical(["north", "a place in the far south"]),
        "d": dpfast.Categorical(["north", "a place in the far south"]),
        "y": dpfast.Numeric(-3, 3),
    }
)


def arrow():
    return pytest.importorskip("pyarrow")


def utf8(cells, kind="string"):
    """Arrow text from bytes that nobody checked."""
    pa = arrow()
    found = pa.array(cells, pa.large_binary() if kind == "large_string" else pa.binary())
    return pa.Array.from_buffers(pa.type_for_alias(kind), len(found), found.buffers())


def coded(codes, kind="int8"):
    pa = arrow()
    levels = pa.array(["north", "a place in the far south"])
    return pa.DictionaryArray.from_arrays(pa.array(codes, kind), levels, safe=False)


def views(cells, **changed):
    """Arrow text in views, of which one is changed: what it says of its place."""
    pa = arrow()
    made = pa.array(cells).cast("string_view")
    valid, stored, *rest = made.buffers()
    kind = [("size", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("start", "<i4")]
    places = np.frombuffer(stored, kind, len(cells)).copy()
    for name, value in changed.items():
        places[name][BAD] = value
    buffers = [valid, pa.py_buffer(places.tobytes()), *rest]
    return pa.Array.from_buffers(pa.string_view(), len(cells), buffers)


def table(g=None, d=None, x=None):
    codes = [int(len(one) > 5) for one in G]
    columns = {"x": X, "g": utf8([one.encode() for one in G]), "d": coded(codes), "y": Y}
    given = {"g": g, "d": d, "x": x}
    return arrow().table(columns | {k: v for k, v in given.items() if v is not None})


# ---- a corpus of damaged files -------------------------------------------------------------------


def csv(delimiter=","):
    rows = [f"{X[i]},{G[i]},{G[i]},{Y[i]}" for i in range(N)]
    return "\n".join(["x,g,d,y", *rows, ""]).replace(",", delimiter).encode()


def npz(save):
    file = io.BytesIO()
    save(file, x=X, g=np.array(G), d=np.array(G), y=Y)
    return file.getvalue()


def parquet(**options):
    pq = pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(table(), file, row_group_size=25, **options)
    return file.getvalue()


def feather(compression):
    writer = pytest.importorskip("pyarrow.feather")
    file = io.BytesIO()
    writer.write_feather(table(), file, compression=compression)
    return file.getvalue()


REQUEST = json.dumps({"analysis": "fit", "formula": "y ~ x", "share": 0.5}).encode()

FORMATS = {
    "plain.csv": csv,
    "packed.csv.gz": lambda: gzip.compress(csv()),
    "tabs.tsv": lambda: csv("\t"),
    "text.txt": lambda: csv(";"),
    "plain.npz": lambda: npz(np.savez),
    "packed.npz": lambda: npz(np.savez_compressed),
    "plain.parquet": lambda: parquet(compression="none"),
    "packed.parquet": lambda: parquet(compression="snappy", use_dictionary=False),
    "sums.parquet": lambda: parquet(write_page_checksum=True),
    "plain.feather": lambda: feather("uncompressed"),
    "packed.feather": lambda: feather("lz4"),
    "plain.arrow": lambda: feather("uncompressed"),
    "schema.toml": lambda: SCHEMA.to_toml().encode(),
    "request.json": lambda: REQUEST,
}


def damages(content, count):
    """The file with a bit turned, a stretch of other bytes, or an end that is cut or doubled."""
    rng = np.random.default_rng(len(content))
    for k in range(count):
        broken, at = bytearray(content), int(rng.integers(len(content)))
        if k % 4 < 2:
            broken[at] ^= 1 << int(rng.integers(8))
        elif k % 4 == 2:
            broken[at : at + 8] = rng.bytes(8)
        else:
            broken = broken[:at] if k % 8 < 4 else broken + broken[at:]
        yield bytes(broken)


READ = """
import sys, traceback, warnings
from pathlib import Path
import dpfast
from dpfast.data.files import read_labels, read_numbers, read_table

warnings.simplefilter("error")
folder = Path(sys.argv[1])
schema = dpfast.Schema.from_toml(folder / "schema")
study = dpfast.Study(None, privacy=1.0, n=60_000)

def opened(path):
    records = dpfast.open_parquet(path, response="y", schema=schema)
    return sum(len(y) for _, y in records.blocks())

def request(path):
    from dpfast.studies.requests import read_file
    return study.quote(read_file(str(path)))

def numbers(path):
    try:
        return [len(column) for column in read_numbers(path, ["x", "y"]).values()]
    finally:
        read_labels(path, "g")

of_tables = [lambda path: schema.encode(read_table(path, schema), response="y"), numbers]
CALLS = {".toml": [dpfast.Schema.from_toml], ".json": [request], ".parquet": [*of_tables, opened]}
for path in sorted(folder.glob("*-*")):
    print("reading", path.name, flush=True)
    for call in CALLS.get(path.suffix, of_tables):
        try:
            call(path)
        except dpfast.errors.DpfastError as error:
            print("refused", path.name)
            assert error.__cause__ is None or path.suffix in (".toml", ".json"), path.name
        except Exception:
            print("foreign", path.name, traceback.format_exc().splitlines()[-1])
        else:
            print("read", path.name)
"""


def read_in_another_process(folder):
    (folder / "schema").write_text(SCHEMA.to_toml())
    done = subprocess.run(
        [sys.executable, "-c", READ, str(folder)], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    ended = f"ended with {done.returncode} at {lines[-1:]}: {done.stderr[-300:]}"
    assert done.returncode == 0, ended
    return lines


def test_a_corpus_of_damaged_files_is_read_or_refused(tmp_path):
    """A turned bit of a Feather file ended the process, or an index beyond the levels was named."""
    arrow()
    for name, make in FORMATS.items():
        content = make()
        (tmp_path / f"whole-{name}").write_bytes(content)
        for k, broken in enumerate(damages(content, 24)):
            (tmp_path / f"{k}-{name}").write_bytes(broken)
    lines = read_in_another_process(tmp_path)
    assert [line for line in lines if line.startswith("foreign")] == []
    whole = [line for line in lines if "whole-" in line]
    assert [line for line in whole if line.startswith("refused")] == []
    assert len([line for line in whole if line.startswith("read ")]) >= len(FORMATS)
    refused = {line.rpartition("-")[2] for line in lines if line.startswith("refused")}
    assert refused >= {name for name in FORMATS if "csv" not in name and name[-3:] not in SAME}


SAME = ("tsv", "txt")  # a line of text is a record whatever it says


def test_pages_that_are_not_what_their_checksums_say(tmp_path):
    """Of 40 damaged files 40 were fitted without a word."""
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    pq.write_table(table(), path, compression="none", write_page_checksum=True, row_group_size=25)
    whole = path.read_bytes()
    chunk = pq.read_metadata(path).row_group(1).column(0)
    pages = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    broken = bytearray(whole)
    broken[(pages[0] + pages[1]) // 2] ^= 1
    ledger = dpfast.Ledger(1.0)
    path.write_bytes(broken)
    with pytest.raises(dpfast.InvalidInput, match=r"x\.parquet"):
        read_table(path, SCHEMA)
    records = dpfast.open_parquet(path, response="y", schema=SCHEMA)
    with pytest.raises(dpfast.errors.RecordsUnavailable, match="stays charged"):
        dpfast.fit(records, None, privacy=0.5, ledger=ledger)
    assert ledger.entries


def test_row_counts_of_a_footer_that_disagree(tmp_path, monkeypatch):
    from types import SimpleNamespace

    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(table(), path := tmp_path / "x.parquet")
    real = pq.read_metadata(path)
    for rows in (-N, N + 1):
        changed = SimpleNamespace(
            schema=real.schema, num_row_groups=1, num_rows=N,
            row_group=lambda k, rows=rows: SimpleNamespace(num_rows=rows),
        )  # fmt: skip
        monkeypatch.setattr(pq, "read_metadata", lambda file, changed=changed: changed)
        with pytest.raises(dpfast.InvalidInput, match="damaged"):
            dpfast.open_parquet(path, response="y", schema=SCHEMA)


# ---- one malformed record ------------------------------------------------------------------------

CODES = [int(len(one) > 5) for one in G]


def with_bad(cells, bad):
    return [*cells[:BAD], bad, *cells[BAD + 1 :]]


#: Columns of labels with one bad cell.
BAD_LABELS = {
    "bytes": lambda: utf8(with_bad([one.encode() for one in G], b"\xff\xfe")),
    "large bytes": lambda: utf8(with_bad([one.encode() for one in G], b"\xff"), "large_string"),
    "code": lambda: coded(with_bad(CODES, 2)),
    "far code": lambda: coded(with_bad(CODES, 2**31 - 1), "int32"),
    "code before": lambda: coded(with_bad(CODES, -5)),
    "wrapped code": lambda: coded(with_bad(CODES, 2**64 - 1), "uint64"),
    "view of no buffer": lambda: views(G, size=50, buffer=99),
    "view before": lambda: views(G, size=50, buffer=-1),
    "view beyond": lambda: views(G, size=2**31 - 1, buffer=0),
    "view from before": lambda: views(G, size=24, start=-34, buffer=0),
    "negative view": lambda: views(G, size=-4),
}


class ViewsOfArrow20:
    """An array of views, with the absent buffer that old versions have beside short texts."""

    def __init__(self, array):
        self.offset, self.is_valid, self._array = array.offset, array.is_valid, array

    def __len__(self):
        return len(self._array)

    def buffers(self):
        return [*self._array.buffers()[:2], None]


def test_views_beside_an_absent_buffer_are_read():
    """Valid columns were refused as damaged; a view that points there is a missing cell."""
    short = arrow().array(["ab", None, "short"]).cast("string_view")
    assert arrow_arrays._viewed(ViewsOfArrow20(short[1:])) == [None, b"short"]
    found = arrow_arrays._viewed(ViewsOfArrow20(views(["short"] * N, size=50, buffer=0)))
    assert found == [*[b"short"] * BAD, None, *[b"short"] * (N - BAD - 1)]


def assert_missing_alone(before, after):
    assert np.isnan(after[BAD]).all() and not np.isnan(before[BAD]).any()
    rest = np.arange(N) != BAD
    assert before[rest].tobytes() == after[rest].tobytes()


@each("make", BAD_LABELS.values(), ids=BAD_LABELS)
def test_a_bad_cell_of_arrow_is_missing(make):
    pa = arrow()
    column = make()
    before = SCHEMA.encode(table(), ["d"]).X
    for given in (column, pa.chunked_array([column.slice(0, BAD + 1), column.slice(BAD + 1)])):
        assert_missing_alone(before, SCHEMA.encode({"d": given}, ["d"]).X)


def test_a_bad_code_of_levels_that_are_numbers_is_missing():
    pa = arrow()
    for bad, kind in ((2, "int8"), (-5, "int8"), (2**64 - 1, "uint64")):
        codes = pa.array(with_bad(CODES, bad), kind)
        column = pa.DictionaryArray.from_arrays(codes, pa.array([10, 20]), safe=False)
        found, positions = labels(column, "x")
        assert found == [10, 20] and positions.tolist() == with_bad(CODES, -1)


@each("code", [2, 127, -2, -128])
def test_a_bad_code_of_pandas_is_missing(code):
    """A negative one counted from the end of the levels, a large one raised and named itself."""
    pandas = pytest.importorskip("pandas")
    made = pandas.Categorical.from_codes(CODES, ["a", "b"])
    made._ndarray[BAD] = code
    found, positions = labels(pandas.Series(made), "g")
    assert found == ["a", "b"] and positions.tolist() == with_bad(CODES, -1)


def offsets(kind, change):
    """A column of text whose offsets are changed."""
    pa = arrow()
    made = pa.array(G, kind)
    valid, ends, content = made.buffers()
    places = np.frombuffer(ends, "<i8" if kind.startswith("large") else "<i4").copy()
    change(places)
    buffers = [valid, pa.py_buffer(places.tobytes()), content]
    return pa.Array.from_buffers(made.type, N, buffers)


def beyond(places):
    places[BAD] = 2**31 - 1


def falling(places):
    places[BAD] = places[BAD - 2]


@each("kind", ["string", "large_string"])
@each("change", [beyond, falling])
def test_broken_buffers_are_refused_before_the_charge(tmp_path, kind, change):
    column = offsets(kind, change)
    ledger = dpfast.Ledger(1.0)
    zeros = arrow().array([0] * N)
    encoded = arrow().DictionaryArray.from_arrays(zeros, column, safe=False)
    for given in (column, encoded):
        with pytest.raises(dpfast.InvalidInput, match="column 'd' is damaged") as refusal:
            dpfast.fit("y ~ d", table(d=given), schema=SCHEMA, privacy=0.5, ledger=ledger)
        assert refusal.value.__cause__ is None and ledger.entries == ()
    feathered(tmp_path / "x.feather", d=column)
    with pytest.raises(dpfast.InvalidInput, match="damaged"):
        read_table(tmp_path / "x.feather", SCHEMA)


# ---- a replay pair with one bad row of every format ----------------------------------------------


def lines(bad=None):
    found = csv().split(b"\n")
    return b"\n".join(found if bad is None else [*found[: BAD + 1], bad, *found[BAD + 2 :]])


def feathered(path, **columns):
    writer = pytest.importorskip("pyarrow.feather")
    writer.write_feather(table(**columns), path, compression="uncompressed")


def npz_text(path, bad):
    cells = np.array(G)
    if bad:
        cells.view("u4").reshape(N, -1)[BAD, 0] = 0xFFFFFFFF  # no character
    np.savez(path, x=X, g=cells, d=np.array(G), y=Y)


def parquet_file(path, bad):
    pq = pytest.importorskip("pyarrow.parquet")
    cells = [one.encode() for one in G]
    pq.write_table(table(g=utf8(with_bad(cells, b"\xff") if bad else cells)), path)


#: What writes a file with a whole row and one with a bad row in its place.
PAIRS = {
    "x.csv": lambda path, bad: path.write_bytes(lines(b'"1,\xff,\x00' if bad else None)),
    "x.csv.gz": lambda path, bad: path.write_bytes(
        gzip.compress(lines(b"9" * 999 if bad else None))
    ),
    "x.npz": npz_text,
    "x.feather": lambda path, bad: feathered(path, d=coded(with_bad(CODES, 99) if bad else CODES)),
    "x.arrow": lambda path, bad: feathered(
        path, g=utf8(with_bad([one.encode() for one in G], b"\xff" if bad else b"north"))
    ),
    "x.parquet": parquet_file,
}


@each("name", PAIRS)
def test_replay_of_one_bad_row_of_every_format(tmp_path, name):
    write, designs = PAIRS[name], []
    for bad in (False, True):
        path = tmp_path / f"{bad}-{name}"
        write(path, bad)
        designs.append(SCHEMA.encode(read_table(path, SCHEMA), ["x", "g", "d"], "y"))
    whole, spoiled = [(design.X, design.y) for design in designs]
    assert np.isnan(spoiled[0][BAD]).any()
    rest = np.arange(N) != BAD
    assert whole[0][rest].tobytes() == spoiled[0][rest].tobytes()

    def fit(pair):
        chosen = designs[int(np.isnan(pair[0][BAD]).any())]
        options = {"privacy": 1.0, "noise": dpfast.SeededNoise(3)}
        loss = dpfast.Objective("log-cosh", scale=1.0)
        return dpfast.fit(chosen, None, loss, **options)

    replay(fit, whole, spoiled, budget=1.0).raise_on_leak()
    if name.endswith(".parquet"):  # read within the fit, row group by row group
        opened = [
            dpfast.open_parquet(tmp_path / f"{bad}-{name}", response="y", schema=SCHEMA)
            for bad in (False, True)
        ]

        def streamed(pair):
            chosen = opened[int(np.isnan(pair[0][BAD]).any())]
            options = {"privacy": 1.0, "noise": dpfast.SeededNoise(3)}
            return dpfast.fit(chosen, None, dpfast.Objective("log-cosh", scale=1.0), **options)

        replay(streamed, whole, spoiled, budget=1.0).raise_on_leak()
