"""Dask collections: summed where they are; the client sees sums only."""

import os
import signal
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.data import Records, as_records
from dpfast.errors import RecordsUnavailable
from dpfast.models import LogCosh, Mallows, Objective
from tests.loops import each

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

N, SIZES = 2000, (300, 1, 700, 999)
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, 0.0, -1.0] + RNG.normal(size=N)
X[5, 0], X[700], Y[1500] = np.nan, 1e300, np.inf
FRAME = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
SECRET = "the value of a record"

#: Dask of 2025 warns where a test asks for one process while a cluster is there.
OF_ONE_PROCESS = pytest.mark.filterwarnings(
    "ignore:Running on a single-machine scheduler:UserWarning"
)


class Parts(Records):
    """In memory, in the same partition."""

    def __init__(self, sizes=SIZES):
        super().__init__(X, Y, None)
        self.block_sizes = sizes

    def blocks(self):
        ends = np.cumsum(self.block_sizes)
        for size, end in zip(self.block_sizes, ends, strict=True):
            yield self.X[end - size : end], self.y[end - size : end]


def arrays(sizes=SIZES, columns=3):
    return da.from_array(X, chunks=(sizes, columns)), da.from_array(Y, chunks=(sizes,))


def curator(records, total=9.0):
    objective = Objective(LogCosh(), Mallows(2.0), 3, scale=1.0)
    return Curator(records, objective, dpfast.Ledger(total), dpfast.SeededNoise(0))


def assert_same(records, sizes=SIZES):
    """Noisy answers as in memory bit by bit, exact sums of one block to 1e-12."""
    theta = np.array([0.3, -0.2, 0.1, 0.4])
    budget = StepBudget(0.3, 0.2, 0.1)
    found, twin = curator(records), curator(Parts(sizes))
    assert repr(found.joint(theta, budget)) == repr(twin.joint(theta, budget))
    assert found.ledger.spent == twin.ledger.spent
    assert found.nonprivate_loss(theta) == twin.nonprivate_loss(theta)
    whole = curator(as_records(X, Y))
    for a, b in zip(found.nonprivate_sums(theta), whole.nonprivate_sums(theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())


def fit(x, y, **options):
    own = {"method": dpfast.optimize.Newton(steps=3), "noise": dpfast.SeededNoise(1)}
    loss = dpfast.Objective("log-cosh", scale=1.0)
    return dpfast.fit(x, y, **{"loss": loss, "privacy": 1.0} | own | options)


# ---- any scheduler -------------------------------------------------------------------------------


def test_arrays():
    records = as_records(*arrays())
    assert records.block_sizes == SIZES
    assert_same(records)
    many = (10,) * 200  # a tree of two levels
    assert_same(as_records(*arrays(many)), many)


def test_chunks_are_made_to_fit():
    x, y = arrays()
    assert as_records(x.rechunk((SIZES, 2)), y).block_sizes == SIZES
    assert as_records(x, y.rechunk(77)).block_sizes == SIZES
    empty = da.concatenate([x[:0], x, x[:0]])
    assert_same(as_records(empty, da.concatenate([y, y[:0]])))


def test_a_fit_is_that_of_the_same_partition_in_memory():
    found = fit(dpfast.records(*arrays(), names=["a", "b", "c"]), None)
    assert found.params.tobytes() == fit(Parts(), None).params.tobytes()
    assert found.names == ("intercept", "a", "b", "c")
    np.testing.assert_allclose(found.params, fit(X, Y).params, rtol=1e-8)  # noise of another depth
    assert found.bse.tobytes() == fit(Parts(), None).bse.tobytes()


def test_data_frames():
    frame = dd.from_pandas(FRAME, npartitions=4)
    by_name = as_records(frame, "y")
    assert by_name.names == ("a", "b", "c")
    assert_same(by_name, by_name.block_sizes)
    assert_same(as_records(frame[["a", "b", "c"]], frame["y"]), by_name.block_sizes)


def test_missing_values_of_data_frames():
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 3], "Int64"), "b": [True, False, True], "y": [1.0, 2.0, np.nan]}
    )
    part = dd.from_pandas(frame, npartitions=1)
    fit(part, "y", loss=dpfast.Objective("log-cosh", scale=1.0, ridge=0.1))
    objective = Objective(LogCosh(), Mallows(2.0), 2, scale=1.0)
    keeper = Curator(as_records(part, "y"), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    alone = as_records(np.array([[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]]), np.array([1, 2, np.nan]))
    twin = Curator(alone, objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    theta = np.array([0.1, 0.2, 0.3])
    assert keeper.nonprivate_loss(theta) == twin.nonprivate_loss(theta)


@each(
    ("x", "y", "message"),
    [
        (lambda x: x[x[:, 0] > 0], lambda y: y, r"X\.compute_chunk_sizes\(\)"),
        (lambda x: x, lambda y: y[y > 0], r"y\.compute_chunk_sizes\(\)"),
        (lambda x: x, lambda y: y[:5], "2000 rows and y has 5"),
        (lambda x: x, lambda y: Y, "dask.array like the other"),
        (lambda x: x[:, 0], lambda y: y, "2 dimensions"),
        (lambda x: x.astype("U5"), lambda y: y, "dtype"),
        (lambda x: x[:0], lambda y: y[:0], "no rows"),
        (lambda x: dd.from_pandas(FRAME, npartitions=2), lambda y: Y, "same partitions"),
        (lambda x: dd.from_pandas(FRAME, npartitions=2), lambda y: "z", "no column 'z'"),
        (
            lambda x: dd.from_pandas(FRAME[["a"]], npartitions=2),
            lambda y: dd.from_pandas(FRAME["y"], npartitions=3),
            "different partitions",
        ),
        (
            lambda x: dd.from_pandas(FRAME.assign(d=FRAME["a"].astype(str)), npartitions=2),
            lambda y: "y",
            "column 'd' has dtype",
        ),
    ],
)
def test_what_is_refused(x, y, message):
    first, second = arrays()
    with pytest.raises(dpfast.InvalidInput, match=message):
        as_records(x(first), y(second))


def test_records_are_not_read_one_by_one():
    with pytest.raises(dpfast.InvalidInput, match="never leave"):
        as_records(*arrays()).blocks()
    with pytest.raises(dpfast.InvalidInput, match="in memory"):
        fit(dpfast.records(*arrays(), group=np.arange(N), group_size=2), None)


def test_a_failing_task_says_nothing_and_stays_charged():
    def fail(block):
        raise ValueError(f"cannot parse {SECRET}")

    x, y = arrays()
    keeper = curator(as_records(x.map_blocks(fail, dtype=float, meta=np.empty((0, 0))), y))
    with pytest.raises(RecordsUnavailable, match="stays charged") as caught:
        keeper.joint(np.zeros(4), StepBudget(0.5))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert len(keeper.ledger.entries) == 1


def test_a_chunk_of_another_length_is_refused():
    x, y = arrays()
    short = x.map_blocks(lambda block: block[1:], dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(RecordsUnavailable):
        curator(as_records(short, y)).nonprivate_sums(np.zeros(4))


# ---- a real cluster ------------------------------------------------------------------------------


def made(block_info):
    """A chunk that exists on its worker only."""
    shape = block_info[None]["chunk-shape"]
    return np.random.default_rng(block_info[None]["array-location"][0][0]).normal(size=shape)


def made_on_workers(chunks=24):
    rows = (500,) * chunks
    x = da.map_blocks(made, chunks=(rows, (3,)), dtype=float, meta=np.empty((0, 0)))
    return x, da.map_blocks(made, chunks=(rows,), dtype=float, meta=np.empty(0))


#: A busy machine takes its time to start processes; what is tested is not how long it takes.
PATIENCE = {
    "distributed.comm.timeouts.connect": "120s",
    "distributed.comm.timeouts.tcp": "120s",
}
STARTS = 3


@contextmanager
def started(workers=2, **options):
    """The client of a cluster of processes that are up, whatever else the machine does.

    Without a dashboard there is a port for HTTP still, 8787, and a warning (here an error) if any
    other cluster of the machine has it: any free port will do.  A start is tried again, because
    Dask gives the thread of its event loop ten seconds to begin, which no setting changes; what
    the last one raised is seen.
    """
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    options |= {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    for attempt in range(STARTS):
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(PATIENCE))
            try:
                local = distributed.LocalCluster(n_workers=workers, **options)
                stack.enter_context(local)
                client = stack.enter_context(distributed.Client(local, timeout="120s"))
                if workers:
                    client.wait_for_workers(workers, timeout=120)
            except Exception:  # an AssertionError for the event loop
                if attempt + 1 == STARTS:
                    raise
                continue
            yield client
            return


@pytest.fixture(scope="module")
def cluster():
    with started() as client:
        yield client


def test_a_cluster_gives_the_answer_of_one_process(cluster):
    assert_same(as_records(*arrays()))
    assert fit(*arrays()).params.tobytes() == fit(Parts(), None).params.tobytes()


def test_what_travels_is_sums(cluster):
    """The transfer logs of all workers, which also hold what goes to the client."""
    x, y = made_on_workers()
    cluster.run(lambda dask_worker: dask_worker.transfer_outgoing_log.clear())
    fit(x, y)
    logs = cluster.run(
        lambda dask_worker: [
            size for entry in dask_worker.transfer_outgoing_log for size in entry["keys"].values()
        ]
    )
    sizes = [size for log in logs.values() for size in log]
    assert sizes  # the tree and its root
    p = 4
    assert max(sizes) < 2 * p * p * 8 + p * 8 + 400  # a chunk has 500 * 4 * 8 = 16000
    assert not any(cluster.has_what().values())  # nothing is left on the cluster


def of_a_sample(x, y):
    """A fit that asks about a secret sample, of a table that is too large to be kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpfast.data.files.cached.CACHE_BYTES", 0)
        patch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 100.0)
        return dpfast.fit(x, y, "log-cosh", privacy=40.0, noise=dpfast.SeededNoise(1))


@OF_ONE_PROCESS
def test_a_sample_stays_on_the_workers_and_goes_with_the_fit(cluster):
    """The same bits as in one process, and no piece that is left behind."""
    import dask

    found = of_a_sample(*arrays())
    with dask.config.set(scheduler="synchronous"):
        assert found.params.tobytes() == of_a_sample(*arrays()).params.tobytes()
    nothing_is_left(cluster)


def nothing_is_left(cluster):
    for _ in range(100):
        if not any(cluster.has_what().values()):
            return
        time.sleep(0.1)  # the scheduler hears of it a moment later
    raise AssertionError("records are left on the cluster")


@OF_ONE_PROCESS
def test_a_small_table_is_read_once_and_kept_by_the_workers_until_the_fit_ends(cluster):
    """Nothing declared: the same bits as in one process that reads it for every question."""
    import dask

    def private():
        noise = dpfast.SeededNoise(1)
        return dpfast.fit(*arrays(), "least-squares", privacy=3.0, noise=noise)

    found = private()
    with dask.config.set(scheduler="synchronous"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpfast.data.files.cached.CACHE_BYTES", 0)
        far = private()
    assert found.reads == 1 and far.reads > 5
    assert found.params.tobytes() == far.params.tobytes()
    nothing_is_left(cluster)


@pytest.mark.slow
def test_a_worker_killed_while_records_are_collected_changes_nothing(cluster, tmp_path):
    """Its chunks are dealt again from the same keys."""
    marker = tmp_path / "died"
    x, y = arrays()
    found = of_a_sample(x.map_blocks(dies_once, str(marker), dtype=float, meta=np.empty((0, 0))), y)
    assert marker.exists()
    assert found.params.tobytes() == of_a_sample(x, y).params.tobytes()


def dies_once(block, marker):
    """Kills its worker in the middle of a query, the first time that it runs there."""
    if block[0, 0] == X[301, 0] and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    marker = tmp_path / "died"
    x, y = arrays()
    x = x.map_blocks(dies_once, str(marker), dtype=float, meta=np.empty((0, 0)))
    keeper = curator(as_records(x, y))
    answer = keeper.joint(np.zeros(4), StepBudget(0.5, 0.5))
    assert marker.exists()
    twin = curator(Parts())
    assert repr(answer) == repr(twin.joint(np.zeros(4), StepBudget(0.5, 0.5)))
    assert keeper.ledger.entries == twin.ledger.entries


WITHOUT_DPFAST = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "dpfast":
            raise ModuleNotFoundError("No module named 'dpfast'", name="dpfast")

assert "dpfast" not in sys.modules
sys.meta_path.insert(0, Nowhere())  # wherever it is installed, perhaps beside Dask
"""


def test_workers_that_cannot_import_dpfast_are_refused_in_time(tmp_path):
    """Dask alone tries them for ever; nothing is charged, nothing is said about the records."""
    (tmp_path / "without_dpfast.py").write_text(WITHOUT_DPFAST)
    ledger = dpfast.Ledger(1.0)
    with (
        started(workers=1, preload=str(tmp_path / "without_dpfast.py")),
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(fit, *arrays(), ledger=ledger)
        with pytest.raises(dpfast.InvalidInput, match="cannot import dpfast: install") as caught:
            asked.result(timeout=120)
    assert not ledger.entries
    assert caught.value.__cause__ is None


def test_workers_with_another_version_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(dpfast, "__version__", "0.0.0")
    with pytest.raises(dpfast.InvalidInput, match=r"has dpfast .* and the client has 0\.0\.0"):
        as_records(*arrays())


@pytest.mark.slow
def test_the_first_worker_is_waited_for():
    """A cluster that adapts starts without any."""
    with started(workers=0) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(as_records, *arrays())
        client.cluster.scale(1)
        assert asked.result(timeout=120).n == N


def test_gradients_of_ones_own_are_refused_before_the_charge():
    """They are functions of rows in this process; the records never leave their workers."""
    ledger = dpfast.Ledger(dpfast.ZCDP(5.0))
    objective = dpfast.nonconvex.PerRecordObjective(
        lambda theta, x, y: (x @ theta - y) * x,
        dimension=3, lipschitz=1.0, smoothness=1.0,
    )  # fmt: skip
    with pytest.raises(dpfast.InvalidInput, match="never leave"):
        dpfast.minimize(*arrays(), objective, privacy=dpfast.ZCDP(0.5), ledger=ledger)
    assert not ledger.entries


FORMULA = "log(z) ~ a + I(a**2) + C(g, levels=['u', 'v'])"


def labelled():
    """The table of these tests with a positive column and labels, some of them undeclared."""
    labels = RNG.choice(["u", "v", "w"], N)
    return FRAME.assign(z=np.exp(FRAME["y"] / 4.0), g=labels, w=RNG.uniform(size=N))


def test_a_formula_is_evaluated_where_the_partitions_are(monkeypatch):
    """Bit by bit the fit of the same table in memory, of which no column is gathered."""
    pytest.importorskip("formulaic")
    table = labelled()
    parts = dd.from_pandas(table, npartitions=3)
    noise = dict(privacy=3.0, noise=dpfast.SeededNoise(0))  # noqa: C408
    expected = dpfast.fit(FORMULA, table, "least-squares", **noise)
    monkeypatch.setattr(dd.Series, "__array__", None)  # np.asarray of a column
    noise["noise"] = dpfast.SeededNoise(0)
    found = dpfast.fit(FORMULA, parts, "least-squares", **noise)
    assert found.names == expected.names and found.n_records == N
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-9)
    rows = {"a": [0.5, 1.0], "g": ["u", "v"]}
    np.testing.assert_allclose(found.predict(rows), expected.predict(rows), rtol=1e-9)


@pytest.mark.slow
def test_a_formula_takes_columns_beside_it_and_parts_of_objects():
    pytest.importorskip("formulaic")
    table = dd.from_pandas(labelled(), npartitions=2)
    weighed = dpfast.records(table, sample_weight="w", largest_weight=1.0)
    assert dpfast.fit("y ~ a", weighed, "log-cosh", privacy=1.0).n_records == N
    odd = table.map_partitions(lambda part: part.assign(a=part.a.astype(object)), meta=table._meta)
    assert dpfast.fit("y ~ a", odd, "log-cosh", privacy=1.0).names == ("intercept", "a")


def test_categories_that_dask_knows_are_no_levels():
    """Those of one partition, or of all of them, are labels that records have."""
    pytest.importorskip("formulaic")
    said = set()
    for last in ("v", "patient 4711"):
        table = labelled()
        table.loc[N - 1, "g"] = last
        known = dd.from_pandas(table.astype({"g": "category"}), npartitions=2)
        for given in (known, known.assign(g=known.g.cat.as_unknown())):
            for term in ("g", "C(g)"):
                with pytest.raises(dpfast.InvalidInput, match=r"C\(g, levels=") as refused:
                    dpfast.fit(f"y ~ {term}", given, "log-cosh", privacy=1.0)
                said.add((term, str(refused.value)))
        names = dpfast.fit(FORMULA, known, "least-squares", privacy=3.0).names
        assert names[-1] == "g[v]"
    assert len(said) == 2


@pytest.mark.parametrize("kind", ["str", "object", "category"])
def test_what_a_formula_cannot_read_of_partitions_is_refused_for_free(kind):
    pytest.importorskip("formulaic")
    table = dd.from_pandas(labelled(), npartitions=2).astype({"g": kind})
    ledger = dpfast.Ledger(1.0)
    others = ("y ~ C(g)", "y ~ absent") if kind == "str" else ()
    for formula in ("y ~ g", "g ~ a", *others):
        with pytest.raises(dpfast.InvalidInput):
            dpfast.fit(formula, table, privacy=1.0, ledger=ledger)
    with pytest.raises(dpfast.InvalidInput, match="data frame of Dask"):
        dpfast.fit("y ~ a", table[["a"]].to_dask_array(lengths=True), privacy=1.0, ledger=ledger)
    assert not ledger.entries
