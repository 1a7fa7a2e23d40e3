"""C85: what is bought of a few records that are secret, and charged as of so many."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.curator.blocks import sample
from dpfast.curator.joint import Layout
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.curator.scaling.columns import Columns
from dpfast.data import Records, as_records
from dpfast.data.reduction import additions
from dpfast.data.scaling.units import ReleasedScales, coded_blocks, released_coding
from dpfast.data.streams import StreamedRecords
from dpfast.kernels.records import GRADIENT, VIEW, summation_depth
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.sensitivity import histogram
from dpfast.solvers.pcn.histogram import SINGLE_BIN_SDS, bin_edges
from dpfast.solvers.pcn.plan import (
    CHECK,
    MAX_WHITENINGS,
    SHARES,
    WHITENING,
    BudgetAllocation,
    prices,
)
from tests.loops import each
from tests.privacy.test_whitened import observed_value

N, WANTED = 2048, 128

ROWS = [
    (1e5, 0.0),
    (-1e5, 0.0),
    (0.0, 1e5),
    (0.0, -1e5),
    (3.0, 4.0),
    (np.nan, 0.0),
    (1e200, 1.0),
    (3.0**0.5, 0.0),
]


def sampled(X, y, seed):
    """A few of these records, the same ones for the same seed."""
    records = as_records(X, y)
    few = sample(records, dpfast.SeededNoise(seed), WANTED)
    objective = Objective(LeastSquares(), Mallows(1.0), 2)
    curators = [
        Curator(one, objective, Ledger(dpfast.GDP(1e9)), dpfast.SeededNoise(0))
        for one in (records, few)
    ]
    return PreconditionedQueries(curators[0], subsample=curators[1]).subsample()


def indices(n, seed):
    """Which records are in the sample."""
    records = as_records(np.arange(n * 1.0)[:, None], np.zeros(n))
    few = sample(records, dpfast.SeededNoise(seed), n / 16)
    return np.concatenate([X[:, 0] for X, _ in few.blocks()]).astype(int)


ASKED = {
    "gram": (lambda rows: rows.gram(1.7, 0.1), lambda m: 2.0**0.5 * 1.7**2 / m),
    "moment": (lambda rows: rows.moment(2.0, 0.5, 0.1), lambda m: 2.0 / m),
    "moment beside a gram": (
        lambda rows: rows.gram_and_moment(2.0, 0.5, StepBudget(0.1, 0.2))[1],
        lambda m: 2.0 / m,
    ),
    "clipped": (
        lambda rows: rows.clipped(Linearization(np.zeros(3), LeastSquares()), 1.7, 0.1),
        lambda m: 3.4 / m,
    ),
    "lengths": (lambda rows: rows.norm_histogram(bin_edges(1)[:-1], 0.1), lambda m: 2.0**0.5 / m),
}


@each("name", ASKED)
def test_c85_a_record_moves_an_answer_by_what_m_records_allow(name):
    """One that is in the sample; one that is not moves nothing."""
    ask, bound = ASKED[name]
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    inside = indices(N, 3)
    outside = np.setdiff1d(np.arange(N), inside)
    for at, moves_by in ((inside[0], bound(WANTED)), (outside[0], 0.0)):
        found = []
        for row in ROWS:
            for response in (-1e9, 1e9):
                X[at], y[at] = row, response
                rows = sampled(X.copy(), y.copy(), 3)
                assert rows.n == WANTED
                found.append(observed_value(lambda rows=rows: ask(rows)))
        flat = np.array(found).reshape(len(found), -1)
        move = np.sqrt(((flat[:, None] - flat) ** 2).sum(axis=2)).max()
        assert 0.97 * moves_by <= move <= moves_by * (1.0 + 1e-9)
    receipt = ask(rows)
    receipt = receipt.gradient.receipt if name == "clipped" else receipt.receipt
    assert receipt.l2_sensitivity == pytest.approx(bound(WANTED), rel=1e-6)


def test_c85_a_record_moves_counts_and_distances_of_a_sample_by_one():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    at, counts, cells = indices(N, 3)[0], [], []
    for row in ((-9.0, -9.0), (9.0, 9.0), (np.nan, 0.0)):
        X[at], y[at] = row, row[0]
        few = sample(as_records(X.copy(), y.copy()), dpfast.SeededNoise(3), WANTED)
        columns = Columns(few, Ledger(dpfast.GDP(1e9)), dpfast.SeededNoise(0))
        assert columns.n == WANTED
        asked = [(0, 0), (1, 0), (2, 0)]
        counts.append(observed_value(lambda c=columns, asked=asked: c.below(asked, 0.1)))
        far = np.zeros(3), np.full(3, 0.5), [40, 3, 100]
        cells.append(observed_value(lambda c=columns, far=far: c.distances([0, 1, 2], *far, 0.1)))
    for found, bound in ((counts, 3.0**0.5), (cells, 6.0**0.5)):
        flat = np.array(found).reshape(3, -1)
        move = np.sqrt(((flat[:, None] - flat) ** 2).sum(axis=2)).max()
        assert 0.99 * bound <= move <= bound * (1.0 + 1e-12)
    with pytest.raises(dpfast.InvalidInput):
        columns.moments_receipt(1, 0.1)


def test_c85_a_sample_follows_no_position():
    """400 samples of 1,024 records: each is in 25 on average (sd 4.9), neighbours no more often
    together than others."""
    inside = np.zeros((400, 1024))
    for seed in range(400):
        inside[seed, indices(1024, seed)] = 1.0
    times = inside.sum(axis=0)
    assert times.min() >= 5 and times.max() <= 52  # six deviations about 25
    assert abs(times.mean() - 25.0) < 1.0
    halves = inside[:, :512].sum(), inside[:, 512:].sum()
    assert abs(halves[0] - halves[1]) < 6.0 * 160.0
    together = (inside[:, 1:] * inside[:, :-1]).sum()  # 1,598 on average, sd 40
    assert abs(together - 400 * 1023 / 256) < 240


def layout_of_seen(records):
    """Of rows under a map."""
    q = records.n_covariates
    objective = Objective(LeastSquares(), Mallows(1.0), q, fit_intercept=False)
    curator = Curator(records, objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    return PreconditionedQueries(curator, np.eye(q))._layout


def test_c85_depth_and_shares_cover_a_sample_of_all_records():
    """How many there are is secret, and may be all."""
    rng = np.random.default_rng(0)
    records = as_records(rng.normal(size=(N, 20)), rng.normal(size=N))
    few = sample(records, dpfast.SeededNoise(1), WANTED)
    layout, excess = layout_of_seen(few), N // WANTED
    assert (few.n, few.excess, layout.excess) == (WANTED, excess, excess)
    assert sum(few.block_sizes) >= N
    one_piece = summation_depth(max(few.block_sizes), 20, GRADIENT | VIEW)
    assert layout.depth(GRADIENT) == (one_piece + few.additions) * excess
    assert histogram(WANTED, excess) >= 2.0**0.5 / WANTED + 4.0 * 2.0**-53 * excess
    plain = layout_of_seen(Records(np.ones((10**6, 20)), np.ones(10**6), None))
    assert plain.depth(GRADIENT) == summation_depth(10**6, 20, GRADIENT | VIEW)
    assert summation_depth(10**6, 20, GRADIENT | VIEW) != summation_depth(10**6, 20, GRADIENT)


def test_of_small_tables_there_is_no_sample():
    records = as_records(np.ones((400, 1)), np.ones(400))
    assert sample(records, dpfast.SeededNoise(0), 210) is None
    assert sample(records, dpfast.SeededNoise(0), 200) is not None


LOSSES = ["least-squares", "log-cosh", "logistic", "poisson", dpfast.Quantile(0.5)]


@pytest.fixture
def soon(monkeypatch):
    """Samples where 3,000 records with three coefficients are enough."""
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 5_000.0)


def table(n, rng, loss="log-cosh"):
    X = rng.normal(size=(n, 2)) * [1.0, 1e6] + [0.0, 1e9]
    X = np.column_stack([X, rng.random(n) < 0.004])
    eta = 0.5 * X[:, 0] + 1.0 * X[:, 2]
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 + eta)) * 1.0
    return X, eta + rng.normal(size=n)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_fits_of_a_sample_spend_their_total_and_find_rare_columns(loss, soon):
    """.4% ones, of which the sample has some 12: looked for in all records, and kept."""
    X, y = table(60_000, np.random.default_rng(7), loss)
    noise = dpfast.SeededNoise(1)
    fit = dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=1.0, noise=noise)
    spent = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert spent <= 1.0 and spent > 0.999
    assert not fit.units.unseen
    assert np.isfinite(np.asarray(fit.cov_params())).all()
    assert abs(fit.params[1] - 0.5) < 6.0 * np.asarray(fit.bse)[1]
    assert abs(fit.params[3] - 1.0) < 6.0 * np.asarray(fit.bse)[3] + 0.3


@each("asks", [(bends, more, bends) for bends in (False, True) for more in (0, 1, 2)])
def test_whatever_a_sample_tells_is_paid_with_what_was_refused_first(asks):
    """Also where it is given up before it is asked: only prices at the ends could be refused."""
    for n, mu in ((70_000, 1.0), (70_000, 12_178.1662), (10**6, 0.01)):
        planned = prices(n, 4, (mu,), 1.0, (asks,), sampled=True)
        ends = [(min(some), max(some)) for some in planned]
        purse = BudgetAllocation(n, 4, mu)
        most = purse.max_rounds(asks[0])
        for rounds, told, n_more in product(
            range(min(1, most), most + 1), (True, False, None), range(MAX_WHITENINGS + 1)
        ):
            for again in {True, asks[0]}:
                asked = purse.budgets(
                    asks,
                    rounds,
                    sampled=told,
                    later=n_more * WHITENING + CHECK * (n_more > 0),
                    again=again,
                )
                grams = asked.matrix, asked.whitening, asked.check
                last = math.hypot(*asked.steps[1:])
                for some, (low, high) in zip(
                    (grams, asked[1:2], asked[2:3], (*asked.steps, last)), ends, strict=True
                ):
                    assert low <= min(some) and max(some) <= high, (n, mu, told)


def test_a_fit_draws_a_sample_once_and_reads_all_records_for_scores(monkeypatch):
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 12_000.0)
    X, y = table(60_000, np.random.default_rng(7))
    X = X[:, :2]
    reads = []
    total = Records.total

    def counted(self, *arguments, **options):
        reads.append(type(self).__name__)
        return total(self, *arguments, **options)

    monkeypatch.setattr("dpfast.data.records.Records.total", counted)
    fit = dpfast.fit(
        dpfast.records(X, y, threads=1), None, "log-cosh", privacy=4.0, noise=dpfast.SeededNoise(1)
    )
    assert reads.count("Records") == steps_of(fit) <= 3  # the scores' lengths with the first
    assert reads.count("Sample") >= 8


@pytest.mark.parametrize("loss", ["log-cosh", "logistic"])
@pytest.mark.parametrize(("enough", "told_by"), [(9_000.0, 11_250), (3_000.0, 15_000)])
def test_a_level_of_one_in_eighty_is_told_by_a_sample(loss, enough, told_by, monkeypatch):
    """Whose Gram counts its rows, or by a larger one where that of the first does not: all records
    are read for steps, not for rounds.
    """
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", enough)
    rng, reads, total = np.random.default_rng(7), [], Records.total
    X = rng.normal(size=(60_000, 2))
    X[:, 0] = rng.random(60_000) < 1.0 / 80.0
    y = X.sum(axis=1) + rng.logistic(size=60_000)

    def counted(self, *arguments, **options):
        reads.append(self.n)
        return total(self, *arguments, **options)

    monkeypatch.setattr("dpfast.data.records.Records.total", counted)
    y = (y > 0.0) * 1.0 if loss == "logistic" else y
    noise = dpfast.SeededNoise(1)
    fit = dpfast.fit(dpfast.records(X, y, threads=1), None, loss, privacy=1.0, noise=noise)
    looked = 2 * (enough < 9_000.0)  # for the level itself, of which the first shows hardly any
    assert reads.count(60_000) <= 9 + looked and reads.count(told_by) >= 8
    assert abs(fit.params[1] - 1.0) < 6.0 * np.asarray(fit.bse)[1]


def test_lengths_of_scores_are_those_of_all_records(monkeypatch):
    """What a fit says of scores that may be unseen is of a histogram of all."""
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 9_000.0)
    X, y = table(60_000, np.random.default_rng(7))
    noise = dpfast.SeededNoise(1)
    fit = dpfast.fit(
        dpfast.records(X[:, :2], y, threads=1), None, "log-cosh", privacy=4.0, noise=noise
    )
    unseen = float(re.search(r"Up to (\d+) more clipped records", fit.method)[1])
    assert unseen <= SINGLE_BIN_SDS * math.sqrt(2.0) / (4.0 * math.sqrt(SHARES["histogram"])) + 1.0


def test_long_rows_are_looked_for_in_all_records(monkeypatch):
    """Where a sample shows some that are too long for what it allows, and paid for once more."""
    rng, asked = np.random.default_rng(7), []
    X, y = rng.normal(size=(60_000, 8)), rng.normal(size=60_000)
    X[rng.random(60_000) < 0.06] *= 1000.0
    lengths = PreconditionedQueries.norm_histogram

    def counted(self, edges, mu, at=None, what="response", *others):
        asked.append((what, self.n))
        return lengths(self, edges, mu, at, what, *others)

    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 2_000.0)
    monkeypatch.setattr("dpfast.solvers.pcn.initial.SIGNAL_SDS", 0.0)
    monkeypatch.setattr(PreconditionedQueries, "norm_histogram", counted)
    fit = dpfast.fit(
        dpfast.records(X, y, threads=1),
        None,
        "least-squares",
        privacy=1.0,
        noise=dpfast.SeededNoise(1),
    )
    assert [n < 60_000 for what, n in asked if what == "curvature"] == [True, False]
    spent = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert 0.999 < spent <= 1.0


def test_two_fits_of_a_seed_are_the_same_on_any_number_of_threads(soon):
    X, y = table(60_000, np.random.default_rng(7))
    fits = [
        dpfast.fit(
            dpfast.records(X, y, threads=threads),
            None,
            "huber",
            privacy=1.0,
            noise=dpfast.SeededNoise(4),
        )
        for threads in (1, 2)
    ]
    assert np.array_equal(fits[0].params, fits[1].params)
    assert np.array_equal(*(np.asarray(fit.cov_params()) for fit in fits))


def steps_of(fit):
    return int(re.search(r"(\d+) noisy Newton steps", fit.method)[1])


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
def test_a_result_says_how_often_its_records_were_read(loss, monkeypatch):
    """Once for the sample, which is kept; then for steps, at whose first lengths are counted."""
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 12_000.0)
    monkeypatch.setattr("dpfast.data.files.cached.CACHE_BYTES", 0)
    X, y = table(60_000, np.random.default_rng(7), loss)
    X, decoded = X[:, :2], []

    def decode(k):
        decoded.append(k)
        some = slice(15_000 * k, 15_000 * (k + 1))
        return X[some], y[some]

    records = StreamedRecords(decode, [15_000] * 4, 2, ("a", "b"))
    fit = dpfast.fit(records, None, loss, privacy=4.0, noise=dpfast.SeededNoise(1))
    reads = 1 + steps_of(fit)
    assert fit.reads == fit.coded.reads == reads <= 4
    assert len(decoded) == 4 * reads
    again = dpfast.fit(records, None, loss, privacy=4.0, noise=dpfast.SeededNoise(1))
    assert again.reads == reads
    arrays = dpfast.fit(X, y, loss, privacy=4.0, noise=dpfast.SeededNoise(1))
    assert arrays.reads is None
    np.testing.assert_allclose(fit.params, arrays.params, rtol=1e-6, atol=1e-8)
    monkeypatch.setattr("dpfast.data.files.cached.CACHE_BYTES", 24 * 60_000)
    near = dpfast.fit(records, None, loss, privacy=4.0, noise=dpfast.SeededNoise(1))
    assert near.reads == 1 and len(decoded) == 4 * (2 * reads + 1)
    assert near.params.tobytes() == fit.params.tobytes()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.one_in(2)
def test_records_on_a_cluster_are_read_for_their_sample_and_for_steps(loss, monkeypatch):
    """Once, if they are few enough to be kept there; either way with the same bits."""
    dask = pytest.importorskip("dask.array")
    monkeypatch.setattr("dpfast.regression.default_fit.SUBSAMPLE_SIZE", 12_000.0)
    X, y = table(60_000, np.random.default_rng(7), loss)
    there = dask.from_array(X[:, :2], chunks=(15_000, 2)), dask.from_array(y, chunks=15_000)
    fits = []
    for kept in (0, 24 * 60_000):
        monkeypatch.setattr("dpfast.data.files.cached.CACHE_BYTES", kept)
        noise = dpfast.SeededNoise(1)
        fits.append(dpfast.fit(*there, loss, privacy=4.0, noise=noise))
    far, near = fits
    sharp = isinstance(loss, dpfast.Quantile)  # whose curvature hardly any of the sample tell
    assert far.reads <= 1 + steps_of(far) + 3 * sharp <= 4 + 3 * sharp and near.reads == 1
    assert far.params.tobytes() == near.params.tobytes()
    assert np.asarray(far.cov_params()).tobytes() == np.asarray(near.cov_params()).tobytes()
    here = dpfast.fit(X[:, :2], y, loss, privacy=4.0, noise=dpfast.SeededNoise(1))
    assert 15.99 < math.fsum(mu**2 for _, mu in far.privacy.entries) <= 16.0
    assert (np.abs(far.params - here.params) < np.asarray(here.bse)).all()


def test_c85_a_sample_on_a_cluster_allows_for_the_additions_of_its_pieces(monkeypatch):
    """However they are put together, in units or seen through a map."""
    dask = pytest.importorskip("dask.array")
    monkeypatch.setattr("dpfast.data.cluster.PIECE_BYTES", 256)
    X, y = np.random.default_rng(0).normal(size=(N, 2)), np.zeros(N)
    there = as_records(dask.from_array(X, chunks=(100, 2)), dask.from_array(y, chunks=100))
    few = sample(there, dpfast.SeededNoise(1), WANTED)
    units = ReleasedScales(np.zeros(2), np.ones(2), (0.0, 1.0))
    ranges = np.full((2, 2), np.inf)
    coding = released_coding(units, ranges, "ab", by_name=False, fit_intercept=True)
    coded = coded_blocks(few, units, coding)
    own = sample(as_records(X, y), dpfast.SeededNoise(1), WANTED).additions
    for one in (few, coded):
        assert one.additions >= own + additions(few._draw()._n_tasks) > own
        assert Layout(*one._summed(2)).additions == layout_of_seen(one).additions == one.additions
