"""Random blocks of the records: claim C55 of PROOFS.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast.audit import neighbours, replay
from dpfast.curator import Curator, StepBudget, blocks as blocks_module
from dpfast.data import as_records, parts
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.models import Clip, Huber, LogCosh, Logistic, Mallows, Objective
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import SLOTS, scatter
from dpfast.privacy.sensitivity import joint_mu, mean_rank_one, mean_score
from tests.dealing import Dealing
from tests.loops import each

GRADIENT = StepBudget(0.1)


class Fixed(NoiseSource):
    """The slots that a test chose; seeded noise otherwise."""

    def __init__(self, slots, seed=0):
        padded = np.zeros(-(-len(slots) // 8) * 8, dtype=np.uint8)
        padded[: len(slots)] = slots
        self._words = padded.view(np.uint64)
        self._seeded = dpfast.SeededNoise(seed)

    def words(self, size):
        return self._words[:size]

    def normals(self, size, bits):
        return self._seeded.normals(size, bits)


def table(n=2048, q=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q))
    return X, X @ np.ones(q) + rng.normal(size=n)


def curator(X, y, noise=None, total=1.0, loss=None, weighting=None):
    loss = Huber() if loss is None else loss
    scale = None if isinstance(loss, Logistic) else 1.0
    objective = Objective(loss, weighting or Mallows(1.5), X.shape[1], scale=scale)
    return Curator(
        as_records(X, y), objective, dpfast.Ledger(total), noise or dpfast.SeededNoise(0)
    )


def test_c55_slots_are_uniform_and_independent():
    """Chi-squared over slots and over pairs of neighbours, 1e6 records: false failure 1e-6 each.

    A slot that comes up 10% too often is found with probability above .99.
    """
    for source in (dpfast.privacy.EntropyNoise(), dpfast.SeededNoise(3)):
        slots = scatter(1_000_001, source)
        assert len(slots) == 1_000_001
        counts = np.bincount(slots, minlength=SLOTS)
        assert len(counts) == SLOTS and stats.chisquare(counts).pvalue > 1e-6
        pairs = (slots[:-1:2] >> 4) * 16 + (slots[1::2] >> 4)
        assert stats.chisquare(np.bincount(pairs, minlength=256)).pvalue > 1e-6


def sums_of(X, y, slots, widths, theta, **options):
    """Exact gradients of blocks, divided as released."""
    keeper = curator(X, y, Fixed(slots), total=1e6, **options)
    dealing = Dealing(keeper, 1.0)
    return [
        (block.n, block._sums(theta, 1)[0]) for block in (dealing.block(width) for width in widths)
    ]


def test_c55_a_record_moves_one_block_and_by_no_more_than_the_sensitivity():
    """The worst pair attains the constant: equal covariates of full weight, opposite scores."""
    X, y = table()
    slots = scatter(len(y), dpfast.SeededNoise(1))
    widths = (16, 32, 200)
    other, answer = X.copy(), y.copy()
    X[7] = other[7] = [math.sqrt(1.25), 0.0]  # of norm 1.5 beside the intercept
    y[7], answer[7] = 1e30, -1e30
    for slot, block in ((3, 0), (40, 1), (250, None)):
        slots[7] = slot
        before = sums_of(X, y, slots, widths, np.zeros(3))
        after = sums_of(other, answer, slots, widths, np.zeros(3))
        moved = [
            np.linalg.norm(first - second)
            for (_, first), (_, second) in zip(before, after, strict=True)
        ]
        for j, ((n, _), distance) in enumerate(zip(before, moved, strict=True)):
            if j != block:
                assert distance == 0.0
                continue
            bound = mean_score(curator(X, y).objective.score_diameter, n)
            assert 0.99 * bound <= distance <= bound


def test_c55_public_blocks_of_a_sorted_table_break_the_claim():
    """One record of a table sorted by the response gets the largest instead of the smallest.

    With the slots of the rows, which a public dealing would use for both, all blocks change, one
    by 20 times the sensitivity; with slots that go along with the rows, one block by one record.
    """
    X, y = table(seed=5)
    order = np.argsort(y)
    X, y = X[order], y[order]
    slots = np.repeat(np.arange(SLOTS, dtype=np.uint8), len(y) // SLOTS)  # chunks by position
    moved_X, moved_y = np.roll(X, -1, axis=0), np.roll(y, -1)
    moved_y[-1] = 1e9
    widths = (16, 32, 64, 128)
    before = sums_of(X, y, slots, widths, np.zeros(3))
    bounds = [mean_score(curator(X, y).objective.score_diameter, n) for n, _ in before]
    for with_rows in (False, True):
        after = sums_of(
            moved_X, moved_y, np.roll(slots, -1) if with_rows else slots, widths, np.zeros(3)
        )
        ratios = [
            np.linalg.norm(first - second) / bound
            for (_, first), (_, second), bound in zip(before, after, bounds, strict=True)
        ]
        if with_rows:
            assert max(ratios) <= 1.0 and sum(ratio > 1e-9 for ratio in ratios) == 1
        else:
            assert sum(ratio > 1e-6 for ratio in ratios) == len(widths)


def test_c55_adaptive_charges_attain_the_total_and_no_more():
    """A tester who knows the slots, and chooses what to ask by what was released.

    The loss of an answer is normal; its sum tells two tables that differ in one row apart as well
    as G_mu allows.  1,200 runs of either: an error of .15 in the mean of the loss (5.2 standard
    deviations), or of .1 in a power (4.9 of .02), occurs by chance with probability below 1e-6; a
    total that is exceeded by a fifth is found nearly always.
    """
    X, y = np.full((512, 1), 1e9), np.zeros(512)
    tables = []
    for end in (1e30, -1e30):
        y[100] = end
        tables.append(y.copy())
    slots = scatter(512, dpfast.SeededNoise(2))
    slots[100] = 5  # in the first block
    mu, share = 1.0, 0.6
    losses = []
    for target in tables:
        found = []
        for run in range(1_200):
            keeper = curator(X, target, Fixed(slots, run), total=mu, weighting=Clip(1.0))
            dealing = Dealing(keeper, share)
            first, second = dealing.block(64), dealing.block(64)
            left, total = 1.0 - share**2, 0.0
            asked = []
            for step in range(4):
                spent = left * (0.9 if total > 0.0 else 0.3) if step < 3 else left
                left -= spent
                asked.append((keeper, math.sqrt(spent) * (1 - 1e-9)))
                asked.append((second, share / 4.0))
                if step == 1:
                    asked.append((first, share * (1 - 1e-12)))
                for who, budget in asked[-3 if step == 1 else -2 :]:
                    answer = who.joint(np.zeros(2), StepBudget(budget)).gradient
                    if who is second:
                        continue
                    low, high = [sums_exact(X, end, slots, who is first) for end in tables]
                    towards, middle = high - low, 0.5 * (high + low)
                    total += towards @ (answer.value - middle) / answer.noise_scale**2
            found.append(total)
        losses.append(np.array(found))
    assert abs(losses[1].mean() - 0.5 * mu**2) < 0.15
    assert abs(losses[0].mean() + 0.5 * mu**2) < 0.15
    for level in (0.05, 0.2, 0.5):
        power = (losses[1] > np.quantile(losses[0], 1 - level)).mean()
        assert abs(power - stats.norm.cdf(stats.norm.ppf(level) + mu)) < 0.1


_SUMS = {}


def sums_exact(X, y, slots, block):
    key = (y[100], block)
    if key not in _SUMS:
        if block:
            _SUMS[key] = sums_of(X, y, slots, (64,), np.zeros(2), weighting=Clip(1.0))[0][1]
        else:
            _SUMS[key] = curator(X, y, weighting=Clip(1.0))._sums(np.zeros(2), 1)[0]
    return _SUMS[key]


def test_c55_rounding_of_a_block_that_holds_all_records():
    """All bytes are equal: n records in a block that divides by n/256."""
    X, y = table()
    keeper = curator(X, y, Fixed(np.zeros(len(y), dtype=np.uint8)), total=1e6)
    block = Dealing(keeper, 1e5).block(1)
    assert block.n == len(y) // SLOTS
    whole, _, _ = keeper._sums(np.zeros(3), 1)
    part, _, _ = block._sums(np.zeros(3), 1)
    assert part == pytest.approx(SLOTS * whole, rel=1e-12)
    # and its plan allows for it: 256 times the roundings, relative to 256 times fewer records
    mine, theirs = (who._layout for who in (block, keeper))
    assert mine.excess == SLOTS and mine.depth(1) >= SLOTS * theirs.depth(1)
    sensitivity = block.receipts(GRADIENT)[0].l2_sensitivity
    assert sensitivity == mean_score(block.objective.score_diameter, block.n, depth=mine.depth(1))


@each("query", [StepBudget(0.0, 0.3), StepBudget(0.0, 0.3, 0.2), GRADIENT])
@each("loss", [LogCosh(), Logistic(), Huber()], ids=repr)
def test_a_block_charges_its_own_ledger_and_the_dealing_the_shared_one(query, loss):
    X, y = table()
    keeper = curator(X, (y > 0).astype(float), total=0.5, loss=loss)
    dealing = Dealing(keeper, 0.4)
    assert [(entry.label, entry.spend.mu) for entry in keeper.ledger.entries] == [
        ("random blocks", 0.4)
    ]
    block = dealing.block(64)
    answer = block.joint(np.zeros(3), query)
    assert block.ledger.spent.mu == answer.mu == joint_mu(keeper.objective.coupling, *query[:3])
    for name, mu in zip(("gradient", "hessian", "meat"), query[:3], strict=True):
        receipt = getattr(answer, name).receipt
        assert receipt.mu == mu
        if mu and name != "gradient":
            bound = getattr(
                keeper.objective, {"hessian": "curvature", "meat": "meat"}[name] + "_bound"
            )
            assert receipt.l2_sensitivity >= mean_rank_one(bound, 512, 3)
    with pytest.raises(BudgetExceeded):
        block.joint(np.zeros(3), StepBudget(0.39))
    with pytest.raises(BudgetExceeded):
        keeper.joint(np.zeros(3), StepBudget(0.31))
    with pytest.raises(BudgetExceeded):
        Dealing(keeper, 0.31)
    assert len(keeper.ledger.entries) == 1


def test_c55_the_grid_of_a_block_has_room_for_all_records():
    """8 records of 8, and 8 to be expected of 2,048: of the latter the sums can be larger."""
    X, y = table()
    few = curator(X[:8], y[:8], total=1e9)
    block = Dealing(curator(X, y, total=1e9), 1e8).block(1)
    assert few.n == block.n
    assert few.plan(StepBudget(1e8)).receipts[0].mu == 1e8
    with pytest.raises(dpfast.errors.InvalidBudget, match="for values up to 516"):
        block.plan(StepBudget(1e8))


def test_nothing_is_asked_for_nothing():
    """An answer of no quantity has no budget."""
    with pytest.raises(dpfast.errors.InvalidBudget):
        curator(*table()).joint(np.zeros(3), StepBudget(0.0))


def test_no_slot_is_in_two_blocks():
    X, y = table()
    slots = scatter(len(y), dpfast.SeededNoise(4))
    dealing = Dealing(curator(X, y, Fixed(slots)), 0.5)
    rows = [dealing.block(width)._records._rows for width in (1, 99, 156)]
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(y)))
    assert dealing.left == 0


def test_about_a_block_there_are_joint_answers_only():
    """Other queries divide by n and know nothing of a number of records that is secret."""
    block = Dealing(curator(*table(), loss=LogCosh()), 0.5).block(64)
    for ask in (
        lambda: block.loss_difference(np.ones(3), np.zeros(3), 0.1),
        lambda: block.extreme_eigenvalue(np.zeros(3), 0.1, largest=True),
        lambda: block.largest_curvature(0.1),
    ):
        with pytest.raises(InvalidInput, match="joint answers only"):
            ask()
    assert not block.ledger.entries


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["C", "F", "strided"])
def test_a_block_is_its_rows(dtype, layout, monkeypatch):
    """However they are stored, and however many are gathered at a time."""
    X, y = table()
    X = X.astype(dtype)
    stored = {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}[layout]
    found = []
    for size in (1 << 20, 4096):
        monkeypatch.setattr(parts, "GATHERED_BYTES", size)
        keeper = curator(stored, y)
        block = Dealing(keeper, 0.5).block(64)
        rows = block._records._rows
        assert abs(len(rows) - 512) < 100  # five standard deviations
        alone = curator(X[rows].astype(float), y[rows])
        expected = [part * (len(rows) / block.n) for part in alone._sums(np.ones(3), 7)]
        found.append(block._sums(np.ones(3), 7))
        for mine, theirs in zip(found[-1], expected, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("huge", [1e308, -1e308])
def test_whether_a_record_counts_without_its_covariates_is_its_own_affair(huge):
    """Finite covariates count however long, whatever the others' are; others do not at all."""
    X, y = table()
    for row in ([huge, huge], [huge, -huge]):
        X[:2, :2] = row  # some sums of both are not finite, some are
        for bad in (0.0, np.nan, np.inf):
            X[3, 0] = bad
            ((none, found),) = parts.without_covariates(as_records(X, y)).blocks()
            assert none.shape == (len(y), 0)
            assert np.array_equal(np.isnan(found), (np.arange(len(y)) == 3) & (bad != 0.0))


def test_an_audit_counts_the_dearest_block_once_and_sees_records_in_two(monkeypatch):
    """Three blocks of one charge; where slots are handed out twice, a record is in two of them."""
    X, y = table(512)

    def call(data):
        keeper = curator(*data, total=0.5)
        dealing = Dealing(keeper, 0.4)
        answers = [dealing.block(80).joint(np.zeros(3), GRADIENT) for _ in range(3)]
        return [answer.gradient.value for answer in (*answers, keeper.joint(np.zeros(3), GRADIENT))]

    pair = neighbours(X, y)["antipodal"]
    report = replay(call, *pair, budget=0.15).raise_on_leak()
    assert report.mu == pytest.approx(math.hypot(0.1, 0.1), rel=1e-12)
    monkeypatch.setattr(
        blocks_module, "scatter", lambda n, source, n_slots: np.zeros(n, dtype=np.uint8)
    )
    monkeypatch.setattr(Dealing, "_take", lambda self, width: SLOTS - width)
    leaks = replay(call, *pair, budget=0.15).leaks
    assert any("blocks of one dealing" in leak for leak in leaks)


def test_two_dealings_of_one_curator_compose():
    """Blocks of different dealings share records: an audit adds them up."""
    X, y = table(512)

    def call(data):
        keeper = curator(*data)
        return [
            Dealing(keeper, 0.7).block(256).joint(np.zeros(3), StepBudget(0.69)).gradient.value
            for _ in range(2)
        ]

    report = replay(call, *neighbours(X, y)["antipodal"], budget=1.0).raise_on_leak()
    assert report.mu == pytest.approx(0.69 * math.sqrt(2.0), rel=1e-9)
