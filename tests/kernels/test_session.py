"""The compiled accountant grants what ``Ledger.charge`` grants, and refuses as it does."""

from __future__ import annotations

import copy
import os
import threading

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import NOTHING, Receipt, StepBudget
from dpfast.curator.curator import Curator
from dpfast.curator.joint import Layout, Plan
from dpfast.curator.noisy_release import charge, observed, release_with_noise
from dpfast.curator.preconditioned import (
    LeverageWeights,
    Linearization,
    PreconditionedQueries,
    RowClipping,
    _histogram_receipt,
    _kernel_and_plan,
    row_plans,
)
from dpfast.curator.scaling.columns import MAX_TURNED, Columns
from dpfast.data import Records
from dpfast.data.records import Mapped
from dpfast.data.scaling.units import ReleasedScales
from dpfast.errors import BudgetExceeded, DpfastError, LedgerClosed
from dpfast.kernels.keys import CELLS
from dpfast.kernels.sampler import ExactSampler
from dpfast.kernels.session import histogram_plan, quanta
from dpfast.models import Clip, LeastSquares, LogCosh, Logistic, Mallows, Objective
from dpfast.privacy import EntropyNoise
from dpfast.privacy.ledger.book import cost_in_quanta
from dpfast.privacy.ledger.process import HERE
from dpfast.privacy.mechanisms import GRID_COST, joint_grids, release_together
from tests.curator.test_door import Watcher
from tests.loops import each


def state(ledger):
    return ledger._spent, ledger.entries, ledger.remaining


@each("seed", [0, 1, 2])
def test_charges_add_up_as_those_of_the_ledger(seed):
    """Both grant and refuse the same of 300 charges of many magnitudes, to the last quantum."""
    rng = np.random.default_rng(seed)
    compiled, ours = dpfast.Ledger(1.0), dpfast.Ledger(1.0)
    for k, exponent in enumerate(rng.uniform(-9.0, 0.5, 300)):
        cost, outcomes = dpfast.GDP(10.0**exponent), []
        for ledger, spend in ((compiled, charge), (ours, dpfast.Ledger.charge)):
            try:
                spend(ledger, cost, f"query {k}")
                outcomes.append("")
            except BudgetExceeded as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        assert state(compiled) == state(ours)
    assert 0.0 < compiled.spent.mu <= 1.0


def test_charges_cost_their_quanta():
    """Compiled prices are those of ``cost_in_quanta``, of any double (claim C86)."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(1, 0x7FF0 << 48, 3000).view(np.float64).tolist()  # of any exponent
    numbers += (10.0 ** rng.uniform(-9.0, 1.0, 3000)).tolist()
    numbers += np.round(rng.uniform(0.0, 3.0, 300), 3).clip(1e-3).tolist()
    numbers += [
        5e-324,
        2.2250738585072014e-308,
        1e-5,
        1e-4,
        0.1,
        0.1 + 0.2,
        1.0,
        9007199254740993.0,
    ]
    numbers += [9999999999999998.0, 1e16, 1e17, 1e22, 1.7976931348623157e308]
    exact = cost_in_quanta.__wrapped__
    assert [mu for mu in numbers if quanta(mu) != exact(2, mu)[0]] == []


def test_charges_next_to_one_another_cost_each_their_own():
    ledger = dpfast.Ledger(1.0)
    for mu in (0.1, np.nextafter(0.1, 1.0), 0.1 + 1e-9, 0.1):
        before = ledger._spent[0]
        charge(ledger, dpfast.GDP(mu), "a")
        assert ledger._spent[0] - before == cost_in_quanta(2, float(mu))[0]


def test_a_total_is_spent_to_the_last_bit_and_no_further():
    ledger = dpfast.Ledger(1.0)
    charge(ledger, dpfast.GDP(0.6), "a")
    with pytest.raises(BudgetExceeded, match="'c' does not fit"):
        charge(ledger, dpfast.GDP(np.nextafter(0.8, 1.0)), "c")
    charge(ledger, dpfast.GDP(0.8), "b")  # 0.36 + 0.64, as they are written
    assert ledger.spent.mu == 1.0
    with pytest.raises(BudgetExceeded):
        charge(ledger, dpfast.GDP(1e-150), "d")
    assert [entry.label for entry in ledger.entries] == ["a", "b"]


@each("total", [dpfast.ZCDP(0.5), dpfast.ApproxDP(3.0, 1e-6)])
def test_ledgers_in_other_currencies_convert(total):
    compiled, ours = dpfast.Ledger(total), dpfast.Ledger(total)
    for ledger, spend in ((compiled, charge), (ours, dpfast.Ledger.charge)):
        spend(ledger, dpfast.GDP(0.3), "a")
        with pytest.raises(BudgetExceeded):
            spend(ledger, dpfast.GDP(3.0), "b")
    assert state(compiled) == state(ours)


def test_a_ledger_in_a_file_is_charged_in_its_file(tmp_path):
    path = tmp_path / "a.ledger"
    charge(dpfast.Ledger.open(path, 1.0), dpfast.GDP(0.6), "a")
    assert dpfast.Ledger.open(path).remaining == dpfast.GDP(0.8)


def test_copies_and_closed_ledgers_refuse():
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(LedgerClosed, match="copy"):
        charge(copy.copy(ledger), dpfast.GDP(0.1), "a")
    ledger._close()
    with pytest.raises(LedgerClosed, match="ended"):
        charge(ledger, dpfast.GDP(0.1), "a")
    assert ledger.entries == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forks_refuse():
    ledger = dpfast.Ledger(1.0)
    child = os.fork()
    if not child:
        try:
            charge(ledger, dpfast.GDP(0.1), "a")
        except LedgerClosed:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fork_that_python_did_not_notice_refuses(monkeypatch):
    ledger = dpfast.Ledger(1.0)
    for name in ("number", "token"):  # both are put back
        monkeypatch.setattr(HERE, name, getattr(HERE, name))
    HERE.number = -1
    with pytest.raises(LedgerClosed, match="copy"):
        charge(ledger, dpfast.GDP(0.1), "a")


def test_what_interrupts_a_charge_of_the_same_thread_is_refused():
    """Where a signal handler runs in the middle of a charge, its thread has the lock."""
    ledger = dpfast.Ledger(1.0)
    with ledger._lock, pytest.raises(LedgerClosed, match="signal handler"):
        charge(ledger, dpfast.GDP(0.1), "a")
    assert ledger.entries == ()
    charge(ledger, dpfast.GDP(0.1), "a")


def test_a_charge_waits_for_one_of_another_thread():
    ledger = dpfast.Ledger(1.0)
    thread = threading.Thread(target=charge, args=(ledger, dpfast.GDP(0.1), "a"))
    with ledger._lock:
        thread.start()
        thread.join(0.05)
        assert ledger._spent == (0,)
    thread.join()
    assert len(ledger.entries) == 1


def test_charges_of_threads_add_up():
    ledger = dpfast.Ledger(1.0)

    def spend(by):
        for _ in range(200):
            by(ledger, dpfast.GDP(1e-3), "a")

    ways = (charge, dpfast.Ledger.charge, charge, dpfast.Ledger.charge)
    threads = [threading.Thread(target=spend, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 800
    assert ledger.spent.mu == pytest.approx(0.8**0.5 / 1e3**0.5, rel=1e-12)


def test_observed_charges_are_seen(monkeypatch):
    """The audit puts its own function in the place of ``Ledger.charge``."""
    seen, original = [], dpfast.Ledger.charge

    def watched(self, spend, label, *, once=""):
        seen.append(label)
        return original(self, spend, label, once=once)

    monkeypatch.setattr(dpfast.Ledger, "charge", watched)
    charge(dpfast.Ledger(1.0), dpfast.GDP(0.1), "a")
    assert seen == ["a"]


def test_nothing_is_drawn_or_read_after_a_refusal():
    """A default fit whose ledger has nothing left stops before a release."""
    watcher = Watcher()
    ledger = dpfast.Ledger(0.5)
    with observed(watcher), pytest.raises(BudgetExceeded):
        dpfast.fit(np.eye(50, 2), np.arange(50.0), privacy=1.0, ledger=ledger)
    assert watcher.seen == []


def test_a_mean_has_the_noise_of_its_receipt():
    """20,000 seeded draws tell a scale to half a percent."""
    receipt = Receipt("mean", "C13", 1.0, 3.0, 3.0)
    answer = release_with_noise(dpfast.SeededNoise(0), ("mean", 1.0), receipt, np.zeros(20_000))
    assert answer.value.std() == pytest.approx(3.0, rel=0.03)
    assert answer[1:] == (3.0, receipt)


@each("size", [1, 2, 3, 4, 5, 8, 9, 16, 17, 64, 65, 1000, 1025])
def test_vectors_lie_on_the_grid_of_the_mechanism(size):
    """Of every length and scale a compiled release is that of ``release_together``."""
    for scale in (1e-240, 1e-7, 3.0, 1e240):
        value = scale * np.linspace(-3.0, 3.0, size)
        receipt = Receipt("mean", "C13", 1.0, 1.0, scale)
        found = release_with_noise(dpfast.SeededNoise(1), ("mean", 1.0), receipt, value)
        grids = joint_grids(((size,),), (scale,))
        expected = release_together([value], grids, dpfast.SeededNoise(1))[0]
        assert found.value.tobytes() == expected.tobytes()
    with pytest.raises(dpfast.errors.InvalidInput, match="noise scale"):
        release_with_noise(
            dpfast.SeededNoise(1), ("q", 1.0), Receipt("q", "c", 1.0, 1.0, 1e-260), np.zeros(2)
        )


def test_the_private_source_draws_from_its_own_sampler():
    """Of a supplier of bytes a compiled release has the normals of ``EntropyNoise.normals``."""
    receipt = Receipt("mean", "C13", 1.0, 1.0, 2.0)
    released = []
    for k in range(3):
        noise = EntropyNoise()
        noise._sampler = ExactSampler(np.random.default_rng(k // 2).bytes)
        if k == 1:
            grids = joint_grids(((300,),), (2.0,))
            released.append(release_together([np.ones(300)], grids, noise)[0])
        else:
            released.append(release_with_noise(noise, ("m", 1.0), receipt, np.ones(300)).value)
    assert released[0].tobytes() == released[1].tobytes()
    assert (released[0] != released[2]).all()
    assert released[0].std() == pytest.approx(2.0, rel=0.2)


class Strange(dpfast.SeededNoise):
    """A source whose normals are not what they should be."""

    drawn: object

    def normals(self, size, bits):
        return self.drawn


@each("drawn", [np.zeros(3), np.zeros(2, int), np.zeros((4, 2), int)[:, 0], [0, 0, 0], None],
      ids=["doubles", "too few", "strided", "list", "none"])  # fmt: skip
def test_normals_of_a_wrong_kind_are_refused(drawn):
    noise = Strange(0)
    noise.drawn = drawn
    with pytest.raises(dpfast.errors.InvalidInput, match="noise"):
        release_with_noise(noise, ("m", 1.0), Receipt("m", "c", 1.0, 1.0, 1.0), np.ones(3))


LAYOUTS = (
    Layout(1000, 5, 1000, 1, mapped=True), Layout(40, 1, 40, 1), Layout(3, 2, 3, 1, mapped=True),
    Layout(10**6, 21, 4096, 300, excess=3, mapped=True), Layout(500, 4, 500, 9, means=True),
    Layout(10**10, 3, 4096, 40),
)  # fmt: skip


@each("seed", range(6))
def test_compiled_plans_are_those_of_make_plan(seed):
    """The same kernel, price, receipts and grids to the bit, and the same refusals."""
    rng = np.random.default_rng(seed)
    for k in range(400):
        weights, layout = (Clip, Mallows)[k % 2], LAYOUTS[k % len(LAYOUTS)]
        cap = 10.0 ** rng.uniform(-33.0, 33.0) * (weights is Mallows and rng.random() < 0.5)
        norm = 10.0 ** rng.uniform(-33.0, 33.0)
        gradient, hessian, meat = (10.0 ** rng.uniform(-7.0, 1.0, 3)).tolist()
        if weights is Clip:
            mus = gradient, 0.0, meat * (rng.random() < 0.5)
        else:
            mus = gradient * (cap > 0.0), hessian, 0.0
        if k % 50 == 0:
            mus = tuple(1e-9 * mu for mu in mus)  # too small for a grid
        outcomes = []
        for plan in (compiled_plan, _kernel_and_plan):
            try:
                kernel, planned = plan(weights, norm, cap, layout, *mus)
                outcomes.append((kernel.__reduce__(), planned))
            except DpfastError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        if type(outcomes[0]) is tuple:
            assert type(outcomes[0][1]) is Plan
            assert [*map(type, outcomes[0][1])] == [*map(type, outcomes[1][1])]


@each("capped", [False, True])
@each("wanted", [(1, 0, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (1, 1, 1)])
def test_means_with_other_bounds_are_planned_in_python(capped, wanted):
    """Without a cap nothing bounds a residual; with one its square bounds a meat."""
    cap, mus = 3.0 * capped, tuple([0.3 * mean for mean in wanted])
    for layout in LAYOUTS:
        outcomes = []
        for plan in (compiled_plan, _kernel_and_plan):
            try:
                outcomes.append(plan(Mallows, 2.0, cap, layout, *mus)[1])
            except DpfastError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
    plans = row_plans(Mallows, capped, LAYOUTS[0], *[mean > 0 for mean in wanted])
    assert plans.usual is bool(capped and not wanted[2])
    assert row_plans(Clip, False, LAYOUTS[0], True, False, True).usual


def everything(found):
    """All of a result, to the last bit."""
    if isinstance(found, (tuple, list)):
        return [everything(part) for part in found]
    return (found.shape, found.tobytes()) if isinstance(found, np.ndarray) else found


def compiled_plan(weights, norm, cap, layout, *mus):
    wanted = [mu > 0.0 for mu in mus]
    return row_plans(weights, cap > 0.0, layout, *wanted).at(norm, cap, *mus)


@pytest.mark.parametrize("n", [4000, 9999])
def test_few_records_are_counted_as_many_are(n):
    """Turned records and blocks are the same answers to the same questions."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    X[::7, 1], y[::11] = np.nan, np.inf
    thresholds = [(0, 0), (1, 1023 << 52), (2, -(1020 << 52) + (1 << 40))]
    places = [2, 0], np.array([0.3, -0.1]), np.array([2.0**-8, 2.0**-3]), [9, 40]
    answers = []
    for few in (True, False):
        ledger = dpfast.Ledger(1.0)
        columns = Columns(Records(X, y, None), ledger, dpfast.SeededNoise(3))
        assert columns._few
        columns._few = few
        answers.append([columns.below(thresholds, 0.3), columns.below(thresholds[:1], 0.2)])
        answers[-1] += [columns.distances(*places, 0.4), columns.distances(*places, 0.1)]
        assert (len(columns._windows) == 0) is few
        assert ledger.spent.mu == pytest.approx(0.3**0.5, rel=1e-12)
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one.value, other.value)
        assert one[1:] == other[1:]
    again = answers[0][3].value - answers[0][2].value  # the same cells with other noise
    assert 0.0 < np.abs(again).max() < 200.0 and (again[0, :, 9:] == 0.0).all()


def test_many_records_and_those_of_files_are_counted_in_windows():
    for n, q, few in (
        (CELLS - 1, 99, True),
        (MAX_TURNED // 4, 3, True),
        (MAX_TURNED // 4 + 1, 3, False),
    ):
        records = Records(np.zeros((n, q)), np.zeros(n), None)
        columns = Columns(records, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
        assert columns._few is few


POWERS = [1.0, 0.7, 0.0]


def questions(rows, map_of, seed):
    """Ask each kind of question, at parameters and constants that follow from a seed."""
    rng = np.random.default_rng(seed)
    p = rows.dimension
    at = Linearization(rng.normal(size=p), [LeastSquares(), Logistic()][seed % 2], 1.5)
    far = Linearization(rng.normal(size=p), LogCosh(), 0.8)
    weights = LeverageWeights(far, 0.9, POWERS[seed % 3], np.linalg.qr(rng.normal(size=(p, p)))[0])
    clipping = RowClipping(weights, 2.0)
    edges = np.sort(rng.uniform(0.0, 3.0, 7))
    yield rows.gram(1.2, 0.3)
    yield rows.gram(1.2, 0.3, at)
    yield rows.moment(1.1, 2.0, 0.2, at if seed % 2 else None, "response", 0.1)
    yield rows.gram_and_moment(1.3, 1.7, StepBudget(0.2, 0.4), None, -0.2)
    yield rows.clipped(at, 0.8, 0.5, 0.2)
    yield rows.clipped(at, 0.8, 0.5, 0.25, clipping)
    yield rows.clipped(far, 1.4, 0.5)
    yield rows.norm_histogram(edges, 0.3, at, "score")
    yield rows.norm_histogram(edges, 0.3, at, "score", clipping)
    yield rows.norm_histogram(edges[:3], 0.4)
    yield rows.norm_histogram(edges, 0.35, far, "residual")
    if map_of is not None:
        mapped = rows.mapped(map_of)
        yield mapped.clipped(Linearization(rng.normal(size=p), LogCosh(), 0.4), 0.7, 0.3, 0.1)
        yield from questions(mapped, None, seed + 1)
        yield rows.gram(1.5, 0.25)  # of the first map again


def all_answers(seed, X, y, units, intercept, weigh=0.0):
    records = Records(X, y, None)
    if units is not None:
        records = Mapped(records, units.coded, units=units)
    objective = Objective(LeastSquares(), Mallows(1.0), X.shape[1], fit_intercept=intercept)
    ledger = dpfast.Ledger(100.0)
    curator = Curator(records, objective, ledger, dpfast.SeededNoise(seed))
    rng = np.random.default_rng(seed + 50)
    p = X.shape[1] + intercept
    rows = PreconditionedQueries(
        curator, rng.normal(size=(p, p)) if seed % 2 else None, weigh=weigh
    )
    return list(questions(rows, rng.normal(size=(p, p)), seed)), ledger


@pytest.mark.parametrize("seed", range(6))
def test_questions_about_arrays_are_those_of_their_blocks(seed, monkeypatch):
    """The compiled road and the one of files answer the same, receipts and charges included."""
    rng = np.random.default_rng(seed)
    n, q = [1, 3, 40, 257][seed % 4], 1 + seed % 3
    X, y = rng.normal(size=(n, q)), 1.0 * (rng.random(n) < 0.5)
    X[rng.random(X.shape) < 0.03], y[rng.random(n) < 0.03] = np.nan, np.inf
    X = [X, np.asfortranarray(X), X.astype(np.float32), np.repeat(X, 2, axis=0)[::2]][seed % 4]
    units = None
    if seed % 3:
        units = ReleasedScales(rng.normal(size=q), np.exp(rng.normal(size=q)), (0.2, 1.3))
    if seed == 5:  # with weights and offsets
        y = np.column_stack([y, rng.random(n), rng.normal(size=n)])
    arguments = X, y, units, bool(seed % 2), 0.5 * (seed == 5)
    compiled, ledger = all_answers(seed, *arguments)
    total = Records.total
    monkeypatch.setattr(Records, "total", lambda *call: total(*call))  # then every read calls it
    others, other_ledger = all_answers(seed, *arguments)
    assert len(compiled) == len(others) > 20
    assert everything(compiled) == everything(others)
    assert ledger._entries == other_ledger._entries and ledger._spent == other_ledger._spent
    spent = sum(cost_in_quanta(2, entry.spend.mu)[0] for entry in ledger.entries)
    assert ledger._spent == (spent,)


@each("seed", range(4))
def test_means_of_a_question_have_the_noise_of_make_plan(seed):
    """Each mean of each question has its own grid: the same noise on the same exact sums."""
    rng = np.random.default_rng(seed)
    p, at = 3, Linearization(rng.normal(size=3), Logistic())
    records = Records(rng.normal(size=(50, 2)), 1.0 * (rng.random(50) < 0.5), None)
    objective = Objective(LeastSquares(), Mallows(1.0), 2)

    def fresh():
        curator = Curator(records, objective, dpfast.Ledger(9.0), dpfast.SeededNoise(seed))
        return PreconditionedQueries(curator, np.eye(p) + 0.1)

    for weights, norm, cap, mus, view, ask in (
        (Clip, 0.8, 0.0, (0.5, 0.0, 0.2), ("score", at),
         lambda rows: rows.clipped(at, 0.8, 0.5, 0.2)),
        (Clip, 2.0, 0.0, (0.1, 0.0, 0.9), ("score", at),
         lambda rows: rows.clipped(at, 2.0, 0.1, 0.9)),
        (Mallows, 1.3, 1.7, (0.2, 0.6, 0.0), ("response", None, 0.3),
         lambda rows: rows.gram_and_moment(1.3, 1.7, StepBudget(0.2, 0.6), None, 0.3)),
        (Mallows, 1.3, 0.0, (0.0, 0.6, 0.0), ("curvature", at),
         lambda rows: rows.gram(1.3, 0.6, at)),
    ):  # fmt: skip
        rows = fresh()
        kernel, plan = _kernel_and_plan(weights, norm, cap, rows._layout, *mus)
        sums = rows._sums(rows._view(*view), kernel, plan.want, norm if weights is Clip else None)
        noisy = release_together(sums, plan.grids, dpfast.SeededNoise(seed))
        found = ask(rows)
        if cap:
            found = found[1], found[0]
        elif weights is Mallows:
            found = NOTHING, found
        for i, (answer, value) in enumerate(zip(found[:3], noisy, strict=False)):
            if value is not None:
                np.testing.assert_array_equal(answer.value, value if i else -value)
                assert answer.receipt == plan.receipts[i]
        assert rows._curator.ledger.entries[0][:2] == (plan.label, plan.cost)


def test_a_question_is_about_the_map_that_its_rows_have():
    """A compiled view is made again where the map, or the units, are others."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    objective = Objective(LeastSquares(), Mallows(1.0), 2, fit_intercept=False)

    def asked(first, then, units=None):
        curator = Curator(Records(X, y, None), objective, dpfast.Ledger(9.0), dpfast.SeededNoise(0))
        rows = PreconditionedQueries(curator, first)
        rows.gram(1.0, 1.0)
        rows._matrix, rows._units = then, units
        return rows.gram(1.0, 1.0).value.tobytes()

    one, two = np.eye(2) * 0.5, rng.normal(size=(2, 2))
    scales = ReleasedScales(np.ones(2), np.full(2, 3.0), (0.0, 1.0))
    assert asked(one, two) == asked(two, two) != asked(one, one)
    assert asked(one, one, scales) == asked(two, one, scales) != asked(one, one)


@each("cells", [1, 2, 5, 102, 4097])
def test_compiled_histograms_have_the_receipts_of_the_claim(cells):
    """Any number of records, any mu, in any order: as ``_histogram_receipt``, to the bit."""
    rng = np.random.default_rng(cells)
    for n, excess in ((1, 1), (1000, 1), (10**9, 1), (500, 8), (1000, 1)):
        mus = [*(10.0 ** rng.uniform(-7.0, 2.0, 30)).tolist(), 1e-9, GRID_COST, 1e30, 0.1]
        for mu in mus:
            outcomes = []
            for plan in (histogram_plan, _histogram_receipt.__wrapped__):
                try:
                    outcomes.append(plan(n, excess, cells, mu))
                except DpfastError as error:
                    outcomes.append(str(error))
            assert outcomes[0] == outcomes[1]


@each("of", ["a map that is no matrix", "a parameter that is too short"])
def test_public_arrays_of_a_wrong_shape_are_refused(of):
    curator = Curator(
        Records(np.ones((9, 2)), np.ones(9), None), Objective(LeastSquares(), Mallows(1.0), 2),
        dpfast.Ledger(9.0), dpfast.SeededNoise(0),
    )  # fmt: skip
    rows = PreconditionedQueries(curator)
    if of == "a map that is no matrix":
        rows._matrix = np.ones(3)
        with pytest.raises((TypeError, ValueError)):
            rows.gram(1.0, 0.1)
    else:
        with pytest.raises(ValueError, match="entries a side"):
            rows.clipped(Linearization(np.ones(2), LeastSquares()), 1.0, 0.1)
