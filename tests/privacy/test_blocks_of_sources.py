"""Random blocks of records on disk, on a cluster and of persons: claim C55 of PROOFS.md."""

from __future__ import annotations

import gc
import math
import weakref
from unittest import mock

import numpy as np
import pytest
from scipy import sparse, stats

import dpfast
from dpfast.audit import neighbours, replay
from dpfast.curator import Curator, StepBudget, blocks
from dpfast.data import as_records, cluster, parts, streams
from dpfast.data.files import cached as kept_files
from dpfast.data.groups import grouped
from dpfast.data.reduction import additions
from dpfast.errors import RecordsUnavailable
from dpfast.models import Huber, Mallows, Objective
from dpfast.privacy.random_parts import (
    MANY_RECORDS,
    MANY_SLOTS,
    SLOTS,
    chunk_keys,
    number_of_slots,
    scatter,
    scatter_chunk,
)
from dpfast.privacy.sensitivity import mean_score
from dpfast.regression import default_fit
from tests.dealing import Dealing

N, Q = 2048, 2
BUDGET = StepBudget(0.2, 0.1, 0.1)
THETA = np.array([0.1, 0.9, -0.3])
WIDTHS = (16, 32, 3, 101, 104)  # together all slots


def table(seed=0):
    """Numbers of single precision, so that every source holds the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, Q)).astype(np.float32).astype(float)
    X[5, 0], X[900, 1] = np.nan, 2.0**100
    y = (np.nan_to_num(X) @ np.ones(Q) + rng.normal(size=N)).clip(-9, 9)
    return X, y


# ---- the kinds of source -------------------------------------------------------------------------


def of_columns(folder, X, y):
    return as_records(np.asfortranarray(X), y)


def of_memmap(folder, X, y):
    path = folder / f"{len(list(folder.iterdir()))}.raw"
    X.tofile(path)
    return as_records(np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape), y)


def of_single_precision(folder, X, y):
    return of_memmap(folder, X.astype(np.float32), y)


def of_converted_memmap(folder, X, y):
    return of_memmap(folder, X.astype(">f8"), y)


def of_compressed_rows(folder, X, y):
    return as_records(sparse.csr_matrix(X), y)


def of_parquet(folder, X, y):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    data = {f"x{j}": X[:, j] for j in range(Q)} | {"y": y}
    parquet.write_table(pyarrow.table(data), path, row_group_size=100)
    names = [f"x{j}" for j in range(Q)]
    return dpfast.open_parquet(path, covariates=names, response="y")


def of_chunks(folder, X, y, sizes=(300, 1, 347, 400, 500, 500)):
    da = pytest.importorskip("dask.array")
    return as_records(da.from_array(X, chunks=(sizes, Q)), da.from_array(y, chunks=(sizes,)))


HERE = (
    of_columns, of_memmap, of_single_precision, of_converted_memmap, of_compressed_rows,
    of_parquet,
)  # fmt: skip
EVERY = pytest.mark.parametrize("source", [*HERE, of_chunks], ids=lambda kind: kind.__name__)
SOURCES = pytest.mark.parametrize("source", HERE, ids=lambda kind: kind.__name__)

#: Bytes of records that are kept: all, those of some blocks, and of none.
ROOM = pytest.mark.parametrize("kept", [1 << 27, 15_000, 100], ids=["all", "some", "none"])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many blocks of every kind, in a table of 2,048 records."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 100 * 8 * (Q + 1))
    monkeypatch.setattr(parts, "GATHERED_BYTES", 64 * 8 * Q)
    monkeypatch.setattr(kept_files, "SEARCH_CHUNK", 333)
    monkeypatch.setattr(cluster, "PIECE_BYTES", 5_000)


def curator(records, total=1.0, seed=0):
    objective = Objective(Huber(), Mallows(1.5), Q, scale=1.0)
    return Curator(records, objective, dpfast.Ledger(total), dpfast.SeededNoise(seed))


def sums_of(records, seed=0, theta=THETA, widths=WIDTHS):
    """n and exact gradient, curvature and meat of blocks, as they are released."""
    dealing = Dealing(curator(records, total=1e6, seed=seed), 1.0)
    blocks = [dealing.block(width) for width in widths]
    return [(block.n, block._sums(theta, 7)) for block in blocks]


# ---- the same blocks -----------------------------------------------------------------------------


@SOURCES
@ROOM
def test_c55_the_same_bytes_give_the_same_answers_whatever_the_source(
    tmp_path, monkeypatch, source, kept
):
    """Bit by bit, receipts included: which rows, in which order, added how."""
    X, y = table()
    monkeypatch.setattr(parts, "CACHE_BYTES", kept)

    def answers(records):
        keeper = curator(records)
        dealing = Dealing(keeper, 0.9)
        found = []
        for width in WIDTHS:
            block = dealing.block(width)
            found.append([repr(block.joint(THETA, BUDGET)) for _ in range(2)])
        return found, keeper.ledger.entries

    found, entries = answers(source(tmp_path, X, y))
    expected, charged = answers(as_records(X, y))
    assert found == expected and entries == charged


@ROOM
@pytest.mark.parametrize(
    ("source", "n_slots"),
    [(of_chunks, SLOTS), (of_chunks, MANY_SLOTS), (of_parquet, MANY_SLOTS)],
)
@pytest.mark.one_in(2)
def test_c55_slots_of_keys_are_the_same_on_every_pass(monkeypatch, tmp_path, source, n_slots, kept):
    """As in memory with the slots that the keys say, up to the order of additions."""
    X, y = table()
    monkeypatch.setattr(parts, "CACHE_BYTES", kept)
    monkeypatch.setattr("dpfast.curator.blocks.number_of_slots", lambda n: n_slots)
    records = source(tmp_path, X, y)
    keys = chunk_keys(len(records.block_sizes), dpfast.SeededNoise(0))
    pairs = zip(keys, records.block_sizes, strict=True)
    slots = np.concatenate([scatter_chunk(key, size, n_slots) for key, size in pairs])
    widths, low = [width * n_slots // SLOTS for width in WIDTHS], 0
    found = sums_of(records, widths=widths)
    for (n, mine), width in zip(found, widths, strict=True):
        rows = parts.rows_in(slots, low, low + width)
        low += width
        assert n == N * width // n_slots
        alone = curator(as_records(X[rows], y[rows]))._sums(THETA, 7)
        for ours, theirs in zip(mine, alone, strict=True):
            np.testing.assert_allclose(ours, theirs * len(rows) / n, rtol=1e-11, atol=1e-13)


@EVERY
@ROOM
@pytest.mark.values
def test_c55_every_record_is_in_one_block(tmp_path, monkeypatch, source, kept):
    """Blocks of all slots add up to the table; a row that is read twice or left out shows."""
    X, y = table()
    monkeypatch.setattr(parts, "CACHE_BYTES", kept)
    records = source(tmp_path, X, y)
    whole = curator(records)._sums(THETA, 7)
    found = sums_of(records)
    for j in range(3):
        together = sum(n * sums[j] for n, sums in found)
        np.testing.assert_allclose(together, N * whole[j], rtol=1e-11, atol=1e-11)


@EVERY
@ROOM
@pytest.mark.values
def test_c55_a_record_of_any_source_moves_one_block_by_at_most_the_sensitivity(
    tmp_path, monkeypatch, source, kept
):
    """The worst pair: full weight, opposite scores; it attains the constant."""
    X, y = table()
    monkeypatch.setattr(parts, "CACHE_BYTES", kept)
    ends = (299, 300, 301, 1047, 1048)  # of chunks of the cluster
    for row in ends if source is of_chunks else ends[::4]:
        X[row] = [1.118033885955810547, 0.0]  # sqrt(1.25), less what single precision lacks
        found = []
        for end in (1e30, -1e30):
            y[row] = end
            found.append(sums_of(source(tmp_path, X, y), theta=np.zeros(3)))
        y[row] = 0.0
        moved = [np.linalg.norm(a[0] - b[0]) for (_, a), (_, b) in zip(*found, strict=True)]
        (which,) = np.flatnonzero(moved)
        bound = mean_score(curator(as_records(X, y)).objective.score_diameter, found[0][which][0])
        assert 0.99 * bound <= moved[which] <= bound


@EVERY
def test_c55_nothing_public_depends_on_how_many_records_a_block_has(tmp_path, monkeypatch, source):
    """All records in one slot, far beyond what is kept room for, or none: the same to see."""
    X, y = table()
    seen = []
    for all_of_them in (False, True):
        slot = 0 if all_of_them else 255

        def same(*arguments, slot=slot):
            n = next(value for value in arguments if isinstance(value, int))
            return np.full(n, slot, dtype=np.uint8)

        monkeypatch.setattr("dpfast.curator.blocks.scatter", same)
        monkeypatch.setattr("dpfast.curator.blocks.scatter_chunk", same)
        keeper = curator(source(tmp_path, X, y), total=1e6)
        block = Dealing(keeper, 1.0).block(1)
        answer = block.joint(THETA, BUDGET)
        seen.append(
            (block.n, block._layout, block.receipts(BUDGET), [part.receipt for part in answer[:3]])
        )
        total = block._sums(THETA, 1)[0] * block.n / N
        whole = keeper._sums(THETA, 1)[0] if all_of_them else np.zeros(3)
        np.testing.assert_allclose(total, whole, rtol=1e-11, atol=1e-15)
    assert seen[0] == seen[1]
    assert block._layout.excess == SLOTS


def test_c55_sums_of_parts_on_a_cluster_pass_through_no_more_additions_than_announced(
    tmp_path, monkeypatch
):
    """Of all records of the table in one task, and then of the tasks."""
    X, y = table()
    records = of_chunks(tmp_path, X, y, sizes=(64,) * 32)
    for kept, tasks in ((1 << 27, 8), (100, 32)):
        monkeypatch.setattr(parts, "CACHE_BYTES", kept)
        block = Dealing(curator(records), 0.5).block(256)._records
        inner = additions(N // 64)
        assert block.block_sizes == (64,) * (N // 64) and inner == 16
        assert block._n_tasks == tasks and block.additions == inner + additions(tasks)


# ---- the dealing ---------------------------------------------------------------------------------


def test_c55_slots_of_chunks_are_uniform_and_independent():
    """Within a chunk and between two: chi-squared, false failure 1e-6 each."""
    for source in (dpfast.privacy.EntropyNoise(), dpfast.SeededNoise(3)):
        keys = chunk_keys(2, source)
        assert len(np.unique([keys, chunk_keys(2, source)])) == 16  # secret: drawn each time
        a, b = (scatter_chunk(key, 500_000, SLOTS) for key in keys)
        assert np.array_equal(a, scatter_chunk(keys[0], 500_000, SLOTS))
        for pairs in ((a >> 4) * 16 + (b >> 4), (a[::2] >> 4) * 16 + (a[1::2] >> 4), a, b):
            assert stats.chisquare(np.bincount(pairs, minlength=256)).pvalue > 1e-6


def test_c55_many_records_have_slots_of_two_bytes():
    assert number_of_slots(MANY_RECORDS - 1) == SLOTS
    assert number_of_slots(MANY_RECORDS) == MANY_SLOTS == 65_536
    source = dpfast.SeededNoise(1)
    for slots in (
        scatter(1_000_003, source, MANY_SLOTS),
        scatter_chunk(chunk_keys(1, source)[0], 1_000_003, MANY_SLOTS),
    ):
        assert slots.shape == (1_000_003,)
        for part in (slots >> 8, slots & 255):
            assert stats.chisquare(np.bincount(part, minlength=256)).pvalue > 1e-6


@EVERY
@pytest.mark.one_in(2)
def test_c55_fine_slots(tmp_path, monkeypatch, source):
    """As of 2^24 records, here 2,048 of them."""
    X, y = table()
    monkeypatch.setattr("dpfast.curator.blocks.number_of_slots", lambda n: MANY_SLOTS)
    records = source(tmp_path, X, y)
    found = sums_of(records, widths=[width * 256 for width in WIDTHS])
    assert [n for n, _ in found] == [N * width // SLOTS for width in WIDTHS]
    together = sum(n * sums[0] for n, sums in found)
    np.testing.assert_allclose(together, N * curator(records)._sums(THETA, 1)[0], rtol=1e-11)


def test_c55_the_dealing_of_a_sorted_file_follows_no_position(tmp_path):
    """Of a file sorted by the response every block has the responses of all.

    The mean response of a block of 256 records is normal about that of the table; of five blocks
    one is further than 6 standard errors with probability 1e-8.  By chunks of the file, or by
    places in them, blocks of the lowest and of the highest responses are 20 and more away.
    """
    X, y = table()
    order = np.argsort(y)
    X, y = np.zeros((N, Q)), np.clip(y[order], -1.3, 1.3)  # within Huber's linear part
    for source in (of_parquet, of_chunks):
        found = sums_of(source(tmp_path, X, y), theta=np.zeros(3), widths=(32,) * 8, seed=7)
        sums = np.array([-n * sums[0][0] for n, sums in found])  # of responses
        spread = math.sqrt(N / 8 * np.mean(y**2))
        assert np.abs(sums - N / 8 * y.mean()).max() < 6.0 * spread


def test_c55_a_person_is_in_one_block():
    """All rows of one: a person moves one block, by as many records' sensitivities as they have."""
    rng = np.random.default_rng(3)
    persons, m = 512, 4
    labels = np.repeat(np.arange(persons), m)
    X, y = rng.normal(size=(persons * m, Q)), rng.normal(size=persons * m)
    rows = np.flatnonzero(labels == 77)
    X[rows] = [math.sqrt(1.25), 0.0]
    order = rng.permutation(len(y))
    found = []
    for end in (1e30, -1e30):
        y[rows] = end
        records = grouped(as_records(X[order], y[order]), labels[order], m)
        found.append(sums_of(records, theta=np.zeros(3)))
    moved = [np.linalg.norm(a[0] - b[0]) for (_, a), (_, b) in zip(*found, strict=True)]
    (which,) = np.flatnonzero(moved)
    bound = mean_score(curator(as_records(X, y)).objective.score_diameter, found[0][which][0])
    assert 0.99 * m * bound <= moved[which] <= m * bound


# ---- fits ----------------------------------------------------------------------------------------


def fit(records, y=None):
    """Most of which is asked about a sample."""
    with mock.patch.object(default_fit, "SUBSAMPLE_SIZE", 100.0):
        return dpfast.fit(records, y, "log-cosh", privacy=40.0, noise=dpfast.SeededNoise(3))


def test_a_changed_file_is_noticed_between_the_blocks_and_the_gradients(tmp_path):
    """What was charged stays charged; no answer is about two versions."""
    X, y = table()
    records = of_parquet(tmp_path, X, y)
    keeper = curator(records)
    dealing = Dealing(keeper, 0.5)
    block = dealing.block(20)
    block.joint(THETA, BUDGET)
    (path,) = tmp_path.glob("*.parquet")
    path.write_bytes(path.read_bytes() + b" ")
    block.joint(THETA, StepBudget(0.1))  # what was collected is of one version
    for ask in (lambda: dealing.block(20), lambda: keeper.joint(THETA, BUDGET)):
        with pytest.raises(RecordsUnavailable, match="What was charged stays charged"):
            ask()
    assert len(keeper.ledger.entries) == 2


@EVERY
@pytest.mark.one_in(3)
def test_nothing_is_kept_when_a_fit_is_over(tmp_path, source, monkeypatch):
    kept, kinds = (
        [],
        (parts.RandomPartition, kept_files.StreamedPartition, cluster.ClusterPartition),
    )
    for kind in kinds:
        original = kind.__init__

        def opened(self, *arguments, original=original):
            original(self, *arguments)
            kept.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", opened)
    records = source(tmp_path, *table())
    gc.disable()
    try:
        fit(records)
        assert kept and all(reference() is None for reference in kept)
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["antipodal", "huge", "nan"])
@pytest.mark.parametrize("source", [of_memmap, of_compressed_rows, of_parquet])
@pytest.mark.values
def test_replay_follows_blocks_of_every_source(tmp_path, source, kind):
    X, y = table()
    pair = neighbours(X[1000:1600], y[1000:1600], kind)
    with np.errstate(all="ignore"):
        report = replay(lambda data: fit(source(tmp_path, *data)), *pair, budget=40.0)
    report.raise_on_leak()
    assert report.mu <= 40.0


@pytest.mark.parametrize("kept", [1 << 27, 100])
def test_replay_follows_blocks_on_a_cluster(tmp_path, monkeypatch, kept):
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(parts, "CACHE_BYTES", kept)
    X, y = table()
    pair = neighbours(X[1000:1600], y[1000:1600], "antipodal")

    def call(data):
        keeper = curator(of_chunks(tmp_path, *data, sizes=(200, 150, 250)))
        dealing = Dealing(keeper, 0.6)
        blocks = [dealing.block(80) for _ in range(3)]
        asked = [*blocks, keeper, blocks[1]]
        return [who.joint(np.zeros(3), StepBudget(0.3)).gradient.value for who in asked]

    with dask.config.set(scheduler="synchronous"):
        report = replay(call, *pair, budget=0.6).raise_on_leak()
    assert report.mu == pytest.approx(math.sqrt(3) * 0.3, rel=1e-12)


def test_replay_finds_a_dealing_again_per_pass():
    """Slots that are made anew for every block: a record is in several."""
    X, y = table()

    pair = neighbours(X[1000:1600], y[1000:1600], "antipodal")

    def call(data, first):
        keeper = curator(as_records(sparse.csr_matrix(data[0]), data[1]))
        dealing = Dealing(keeper, 0.6)
        answers = []
        for seed in range(first, first + 3):
            slots = scatter(600, dpfast.SeededNoise(seed))
            dealing._dealt = blocks.random_partition(keeper._records, slots, SLOTS)
            answers.append(dealing.block(80).joint(np.zeros(3), StepBudget(0.2)).gradient.value)
        return answers

    reports = [replay(lambda data, k=k: call(data, k), *pair) for k in range(0, 30, 3)]
    assert any("blocks of one dealing" in leak for found in reports for leak in found.leaks)
