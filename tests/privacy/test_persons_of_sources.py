"""Persons whose rows come from files, in any order: claim C66 of PROOFS.md."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import dpfast
from dpfast.curator import Curator, StepBudget, persons as sums_of_persons
from dpfast.data import as_records
from dpfast.data.files.tables import read_table
from dpfast.data.persons import means
from dpfast.data.persons.means import person_means
from dpfast.data.persons.numbering import split_group
from dpfast.errors import InvalidInput, RecordsUnavailable
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordKernel, summation_depth
from dpfast.models import Bounded, LogCosh, Mallows, Objective
from dpfast.privacy.noise import SeededNoise

ALL = GRADIENT | HESSIAN | MEAT
BUDGET = StepBudget(0.5, 0.2, 0.1)
THETA = np.array([0.1, 0.5, -0.3])
BOUNDED = Objective("log-cosh", Bounded(1.8), scale=1.0)
OBJECTIVE = Objective(LogCosh(), Mallows(1.5), 2, scale=1.0)


def table(seed=0, persons=60, rows=1_500):
    """Rows of persons in any order, in numbers of single precision; some cells are missing."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.arange(persons), rng.integers(0, persons, rows - persons)])
    rng.shuffle(group)
    X = rng.normal(size=(rows, 2)).astype(np.float32).astype(float)
    y = rng.normal(size=rows)
    X[7, 0], X[11, 1], y[13] = np.nan, 2.0**100, np.nan
    return X, y, group


def curator(X, y, group):
    X, group = split_group(X, group)
    return Curator(
        person_means(as_records(X, y), group), OBJECTIVE, dpfast.Ledger(1e6), SeededNoise(0)
    )


def parquet(folder, X, y, group, size=400, **options):
    """A file of the three columns and the persons', in row groups of some size."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y, "person": group}
    files.write_table(pa.table(columns), path, row_group_size=size, **options)
    return path


def opened(path):
    return dpfast.open_parquet(path, covariates=["a", "b"], response="y")


# ---- the kinds of source -------------------------------------------------------------------------


def of_single_precision(folder, X, y, group):
    return X.astype(np.float32), y, group


def of_memmap(folder, X, y, group):
    X.astype(np.float32).tofile(folder / "x")
    return np.memmap(folder / "x", dtype=np.float32, mode="r", shape=X.shape), y, group


def of_converted_memmap(folder, X, y, group):
    y.tofile(folder / "y")
    X.astype(">f8").tofile(folder / "x")
    X = np.memmap(folder / "x", dtype=">f8", mode="r", shape=X.shape)
    return X, np.memmap(folder / "y", dtype=float, mode="r"), group


def of_sparse(folder, X, y, group):
    return sparse.csr_matrix(X), y, group


def of_frame(folder, X, y, group):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "person": group, "b": X[:, 1]})
    return frame, y, "person"


def of_polars(folder, X, y, group):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"person": group.astype(str), "a": X[:, 0], "b": X[:, 1]})
    return frame, y, "person"


def of_parquet(folder, X, y, group):
    return opened(parquet(folder, X, y, group)), None, "person"


def of_parquet_and_labels(folder, X, y, group):
    return opened(parquet(folder, X, y, group, size=29)), None, group.astype(str)


def of_encoded_text(folder, X, y, group):
    return opened(parquet(folder, X, y, group.astype(str), use_dictionary=True)), None, "person"


def of_csv(folder, X, y, group):
    lines = [
        f"{a!r},{b!r},{t!r},p{k}"
        for (a, b), t, k in zip(X.tolist(), y.tolist(), group, strict=True)
    ]
    (folder / "visits.csv").write_text("\n".join(["a,b,y,person", *lines]))
    low, high = -1e40, 1e40
    schema = dpfast.Schema(
        {
            name: dpfast.Numeric(low, high, centre=0.0, unit=1.0) for name in ("a", "b", "y")
        } | {"person": dpfast.Categorical([f"p{k}" for k in range(60)])}
    )  # fmt: skip
    found = read_table(folder / "visits.csv", schema)
    design = schema.encode(found, ["a", "b"], "y")
    return design.X, design.y, found["person"]


SOURCES = [
    of_single_precision, of_memmap, of_converted_memmap, of_sparse, of_frame, of_polars, of_parquet,
    of_parquet_and_labels, of_encoded_text, of_csv,
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("pieces", [1 << 16, 37])
@pytest.mark.values
def test_c66_the_same_sums_from_every_source(source, pieces, tmp_path, monkeypatch):
    """Bit for bit those of the same rows in memory, wherever blocks of the source end."""
    monkeypatch.setattr(means, "ROWS_AT_A_TIME", pieces)
    X, y, group = table()
    expected = curator(X, y, group)._sums(THETA, ALL)
    keeper = curator(*source(tmp_path, X, y, group))
    assert keeper.n == 60
    for value, found in zip(expected, keeper._sums(THETA, ALL), strict=True):
        assert (value == found).all()


def of_plain_parquet(folder, X, y, group):
    return opened(parquet(folder, X, y, group, use_dictionary=False)), None, "person"


def of_small_row_groups(folder, X, y, group):
    return opened(parquet(folder, X, y, group, size=29)), None, "person"


def of_numbers_in_parquet(folder, X, y, group):
    """As statistics packages write them: a float, NaN where there is none."""
    codes = np.array([np.nan if label is None else float(label) for label in group])
    return opened(parquet(folder, X, y, codes)), None, "person"


def of_nullable_integers(folder, X, y, group):
    pa = pytest.importorskip("pyarrow")
    codes = pa.array([None if label is None else int(label) for label in group], pa.int64())
    return opened(parquet(folder, X, y, codes)), None, "person"


def of_several_files(folder, X, y, group):
    for some in np.array_split(np.arange(len(y)), 4):
        parquet(folder, X[some], y[some], group[some], size=130)
    return opened(folder), None, "person"


@pytest.mark.parametrize(
    "source",
    [
        of_single_precision, of_frame, of_parquet, of_parquet_and_labels, of_plain_parquet,
        of_small_row_groups, of_numbers_in_parquet, of_nullable_integers, of_several_files,
    ],
)  # fmt: skip
@pytest.mark.parametrize("pieces", [1 << 16, 37])
@pytest.mark.values
def test_c47_c66_rows_without_a_label_are_one_person_in_all_blocks(
    source, pieces, tmp_path, monkeypatch
):
    """Of files with several row groups, and of several files: as if that person had a label.

    Were they a person in each block, somebody with rows in k of them would move k persons.
    """
    monkeypatch.setattr(means, "ROWS_AT_A_TIME", pieces)
    X, y, codes = table()
    labels = codes.astype(str).astype(object)
    labels[::11] = None
    known = np.where(labels == None, "nobody", labels).astype(str)  # noqa: E711 - entry by entry
    expected = curator(X, y, known)
    keeper = curator(*source(tmp_path, X, y, labels))
    assert keeper.n == expected.n == len(set(known.tolist()))
    assert keeper._records.counts.tolist() == expected._records.counts.tolist()
    for value, found in zip(expected._sums(THETA, ALL), keeper._sums(THETA, ALL), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-11, atol=1e-15)
    nobody = list(dict.fromkeys(known.tolist())).index("nobody")
    for records in (keeper._records, expected._records):
        whose = np.concatenate([persons for _, _, persons in records.usable_rows()])
        assert np.count_nonzero(whose == nobody) == records.counts[nobody] > 100


def test_c66_sums_are_those_of_loops_whatever_the_order(tmp_path):
    """Means and products by plain NumPy, of one person after the other."""
    X, y, group = table()
    usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
    design = np.column_stack([np.ones(len(X)), X])
    with np.errstate(all="ignore"):
        length = np.sqrt(np.square(design).sum(axis=1))
        weight = np.minimum(1.0, (1.5 / length) ** 2)
        scores = (-np.tanh((y - design @ THETA) / OBJECTIVE.loss.c) * weight * OBJECTIVE.loss.c)[
            :, None
        ] * design
    of_persons = [scores[(group == j) & usable].mean(axis=0) for j in range(60)]
    for rows in ((X, y, group), (opened(parquet(tmp_path, X, y, group, 100)), None, "person")):
        gradient, _, meat = curator(*rows)._sums(THETA, ALL)
        np.testing.assert_allclose(gradient, np.mean(of_persons, axis=0), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            meat, np.mean([np.outer(s, s) for s in of_persons], axis=0), rtol=1e-9, atol=1e-12
        )


def test_c66_a_score_from_many_pieces_is_as_exact_as_from_one(monkeypatch):
    """One person's equal rows in 2^14 pieces, which one by one would round in one direction.

    The error stays below what the depth allows for, which a plain sum exceeds 3 times.
    """
    monkeypatch.setattr(means, "ROWS_AT_A_TIME", 1)
    m = 1 << 14
    x, far = np.full((m, 1), 0.37), np.full(m, 1e3)
    model = Objective(LogCosh(), Bounded(1.3), 1, scale=1.0)
    kernel = RecordKernel(*model.kernel_arguments())
    records = person_means(as_records(x, far), np.zeros(m, dtype=int))
    found = sums_of_persons._scores(records, kernel, np.zeros(2), 0, 1)[0]
    X, beside = next(records.blocks())
    row = kernel.sums(X, beside, np.zeros(2), GRADIENT, 1.0)[0]
    allowed = (summation_depth(1, 2, GRADIENT) + 8) * 2.0**-53
    assert 2.0 * allowed <= sums_of_persons.depth_of_products(2) * 2.0**-53
    for j in range(2):
        exact, plain = m * Fraction(float(row[j])), 0.0
        for _ in range(m):
            plain += float(row[j])
        assert abs(Fraction(float(found[j])) - exact) <= allowed * abs(exact)
        assert abs(Fraction(plain) - exact) > 3.0 * allowed * abs(exact)


def test_c66_a_person_cannot_have_more_than_their_weight_when_rows_change():
    """Rows that were missing when they were counted stay so, whatever is written there later."""
    X, y, group = table()
    X[group == 5, 0] = np.nan
    X[np.flatnonzero(group == 5)[0], 0] = 0.5  # of 20 rows the only one that counts
    keeper = curator(X, y, group)
    before = keeper._sums(THETA, ALL)
    X[group == 5] = [0.5, 1e9]
    after = keeper._sums(THETA, ALL)
    weights = np.zeros(keeper.n)
    for _, beside, persons in keeper._records.pieces():
        np.add.at(weights, persons[persons >= 0], beside[persons >= 0, 1])
    assert 0.999 < weights.max() < 1.0 + 1e-12
    receipts = keeper.receipts(BUDGET)
    for first, second, receipt in zip(before, after, receipts, strict=True):
        assert 0.0 < np.linalg.norm(first - second) <= receipt.l2_sensitivity


def test_c66_replaced_persons_of_a_file_move_no_answer_by_more_than_announced(tmp_path):
    """3 rows become 3,000 that lie among those of all others: worst rows, gradient attained."""
    X, y, group = table()
    X, y = np.nan_to_num(X).clip(-1.0, 1.0), np.nan_to_num(y)
    edge = np.array([np.sqrt(1.25), 0.0])
    kept = np.flatnonzero(group != 0)
    found = []
    for sign, m in ((1.0, 3), (-1.0, 3_000)):
        rows = np.concatenate([X[kept], np.repeat(edge[None], m, axis=0)])
        response = np.concatenate([y[kept], np.full(m, sign * 1e30)])
        labels = np.concatenate([group[kept], np.zeros(m, dtype=int)])
        order = np.random.default_rng(m).permutation(len(labels))
        source = opened(parquet(tmp_path, rows[order], response[order], labels[order], 97))
        found.append(curator(source, None, "person"))
    receipts = found[0].receipts(BUDGET)
    assert repr(receipts) == repr(found[1].receipts(BUDGET))
    ratios = [
        np.linalg.norm(first - second) / receipt.l2_sensitivity
        for first, second, receipt in zip(
            *[keeper._sums(THETA, ALL) for keeper in found], receipts, strict=True
        )
    ]
    assert max(ratios) <= 1.0 and ratios[0] >= 0.99


def test_c66_nothing_public_follows_the_number_of_rows_of_a_file(tmp_path):
    told = []
    for rows, size in ((200, 50), (9_000, 700)):
        X, y, group = table(rows=rows)
        keeper = curator(opened(parquet(tmp_path, X, y, group, size)), None, "person")
        depths = [keeper.depth(want) for want in (GRADIENT, HESSIAN, MEAT, ALL)]
        records = keeper._records
        told.append(
            (keeper.n, depths, repr(keeper.receipts(BUDGET)), repr(records), records.block_sizes,
             records.additions)
        )  # fmt: skip
    assert told[0] == told[1] and told[0][0] == 60


def test_c66_scores_that_do_not_fit_are_summed_in_several_passes(monkeypatch):
    """As many as n and p ask for; the sums have the same bits."""
    passes = []
    plain = means.PersonMeans.pieces
    monkeypatch.setattr(
        means.PersonMeans, "pieces", lambda self: passes.append(1) or plain(self)
    )  # fmt: skip
    found = []
    for rows in (1_500, 6_000):
        keeper = curator(*table(persons=700, rows=rows))
        for kept in (1 << 28, 16 * 3 * 128, 16 * 3 * 300):
            monkeypatch.setattr(sums_of_persons, "SCORE_BYTES", kept)
            passes.clear()
            found.append((len(passes), keeper._sums(THETA, MEAT)[2], len(passes)))
    assert [count for _, _, count in found] == [1, 6, 3, 1, 6, 3]
    for _, meat, _ in found[1:3]:
        assert (meat == found[0][1]).all()


def test_memory_is_that_of_persons_and_of_a_block(tmp_path, monkeypatch):
    """Four times the rows of the same persons in row groups of the same size."""
    monkeypatch.setattr(means, "ROWS_AT_A_TIME", 1 << 13)
    peaks = []
    for rows in (20_000, 80_000):
        path = parquet(tmp_path, *table(rows=rows), size=2_500)
        tracemalloc.start()
        keeper = curator(opened(path), None, "person")
        keeper._sums(THETA, ALL)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_a_fit_of_a_file_is_that_of_the_same_rows_in_memory(tmp_path):
    X, y, group = table(rows=8_000, persons=3_000)
    memory = dpfast.fit(
        dpfast.records(X, y, names=["a", "b"], group=group, each="person"), None, BOUNDED,
        noise=SeededNoise(3), privacy=1.0,
    )  # fmt: skip
    rows = opened(parquet(tmp_path, X, y, group))
    found = dpfast.fit(
        dpfast.records(rows, group="person", each="person"),
        None,
        BOUNDED,
        noise=SeededNoise(3),
        privacy=1.0,
    )
    assert (found.params == memory.params).all() and (found.bse == memory.bse).all()
    assert found.to_dict() == memory.to_dict() and found.n_records == 3_000
    assert (found.predict(X[20:24]) == memory.predict(X[20:24])).all()


def test_a_frame_keeps_its_persons_out_of_predictions():
    pd = pytest.importorskip("pandas")
    X, y, group = table(rows=8_000, persons=3_000)
    frame = pd.DataFrame({"a": X[:, 0], "person": group, "b": X[:, 1]})
    rows = dpfast.records(frame, y, group="person", each="person")
    found = dpfast.fit(rows, None, BOUNDED, noise=SeededNoise(3), privacy=1.0)
    assert found.names == ("intercept", "a", "b")
    np.testing.assert_array_equal(
        found.predict(frame.iloc[20:24]), found.predict(frame[["a", "b"]].iloc[20:24])
    )


def test_offsets_of_a_file_stand_beside_persons(tmp_path):
    X, y, group = table(rows=4_000, persons=1_000)
    shift = np.random.default_rng(9).normal(size=len(y))
    B = (y > 0.0) * 1.0
    loss, beside = Objective("logistic", Bounded(1.8)), {"offset": shift, "each": "person"}
    found = []
    for source in (opened(parquet(tmp_path, X, B, group)), None):
        if source is None:
            rows = dpfast.records(X, B, group=group, **beside)
        else:
            rows = dpfast.records(source, group="person", **beside)
        result = dpfast.fit(rows, None, loss, privacy=1.0, noise=SeededNoise(3))
        found.append(result.params)
    assert (found[0] == found[1]).all()


# ---- refusals ------------------------------------------------------------------------------------


def test_records_of_dask_are_refused_by_name():
    array = pytest.importorskip("dask.array")
    X, y, group = table()
    ledger = dpfast.Ledger(1.0)
    for group_of in (group, "person"):
        with pytest.raises(InvalidInput, match=r"Dask.*open_parquet") as refused:
            dpfast.fit(
                dpfast.records(array.from_array(X, chunks=300), array.from_array(y, chunks=300),
                group=group_of, each="person"),
                None, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, ledger=ledger,
            )  # fmt: skip
        assert "1500" not in str(refused.value)
    assert not ledger.entries


@pytest.mark.parametrize("name", ["nobody", "a b", ""])
def test_columns_that_are_not_there_are_refused(name, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y, group = table()
    frame = pd.DataFrame({"a": X[:, 0], "person": group})
    file = opened(parquet(tmp_path, X, y, group))
    for source, response in ((frame, y), (X, y), (sparse.csr_matrix(X), y), (file, None)):
        with pytest.raises(InvalidInput) as refused:
            dpfast.fit(
                dpfast.records(source, response, group=name, each="person"),
                None,
                BOUNDED,
                privacy=1.0,
            )
        assert "1500" not in str(refused.value)


def test_refusals_say_nothing_about_the_number_of_rows():
    """Shapes are shown of tables whose rows are the records, and not of rows of persons."""
    X, y, group = table()
    wrong = [
        (y, y, group), (X, X, group), (X, y, X), (np.ma.masked_array(X), y, group),
        (X.astype(complex), y, group), (X.tolist(), [*y, 1.0], group), (X, y, list(group[1:])),
        (X[:, :, None], y, group), (X, y, [[1]] * len(y)),
    ]  # fmt: skip
    for rows, response, labels in wrong:
        with pytest.raises(InvalidInput) as refused:
            dpfast.fit(
                dpfast.records(rows, response, group=labels, each="person"),
                None,
                dpfast.Objective("log-cosh", scale=1.0),
                privacy=1.0,
            )
        assert not any(number in str(refused.value) for number in ("1500", "1499", "1501"))


def test_labels_of_a_file_must_be_labels(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    X, y, group = table()
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y, "person": [[int(k)] for k in group]}
    files.write_table(pa.table(columns), tmp_path / "lists.parquet")
    with pytest.raises(InvalidInput, match="labels"):
        dpfast.fit(
            dpfast.records(opened(tmp_path / "lists.parquet"), group="person", each="person"),
            None, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0,
        )  # fmt: skip


def test_a_file_that_changes_is_no_longer_read(tmp_path):
    X, y, group = table()
    path = parquet(tmp_path, X, y, group)
    keeper = curator(opened(path), None, "person")
    keeper._sums(THETA, ALL)
    parquet(tmp_path, X, y, group + 1).replace(path)
    with pytest.raises(RecordsUnavailable, match="changed"):
        keeper._sums(THETA, ALL)


def test_nobody_is_new_after_the_first_pass():
    """A source that cannot tell that it was changed: who was not counted has no weight."""
    X, y, group = table()
    records = as_records(X, y)
    labels = [list(group), np.arange(len(group))]
    keeper = person_means(records, lambda k: [tuple(labels)])
    labels[0] = list(group + 1)
    with pytest.raises(RecordsUnavailable, match="changed since"):
        list(keeper.blocks())
