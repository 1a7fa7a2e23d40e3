"""The privacy unit is a person with several rows."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.data import as_records
from dpfast.data.groups import grouped
from dpfast.data.persons.means import person_means
from dpfast.data.scaling.maps import TransformedView
from dpfast.errors import InvalidInput
from dpfast.inference.composition import Rows, Sum
from dpfast.inference.guarantees import is_stated
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT
from dpfast.models import LogCosh, Mallows, Objective
from tests.loops import each
from tests.twins.seen import seen


def test_rows_fill_the_slots_of_their_person():
    X = np.arange(12.0).reshape(6, 2)
    records = grouped(as_records(X, X[:, 0]), ["b", "a", "b", "b", "c", "a"], 2)
    assert records.n == 6
    nan = np.nan
    np.testing.assert_array_equal(records.y, [0, 4, 2, 10, 8, nan])  # b's third row is left out
    np.testing.assert_array_equal(records.X[:, 1], [1, 5, 3, 11, 9, nan])


def test_any_label_is_a_person():
    """What a label is makes no difference: none raises, and equal ones are one person."""
    labels = np.array([float("nan"), None, "x", 3, 3.0, float("nan"), -np.inf], dtype=object)
    records = grouped(as_records(np.ones((7, 1)), np.ones(7)), labels, 2)
    assert records.n == 2 * 4  # nan and None are one, 3 and 3.0 are one


class Awkward:
    """A label that cannot be compared."""

    def __eq__(self, other):
        raise ValueError("patient 4711")

    __hash__ = object.__hash__


@pytest.mark.parametrize("m", [1, 2, 3])
def test_rows_without_a_label_are_one_person(m):
    """C47: whatever a person without usable labels has in their rows, m records move."""
    pandas = pytest.importorskip("pandas")
    nobody = [None, float("nan"), pandas.NA, pandas.NaT, [4711], Awkward(), {}, np.ones(2)]
    people = [f"person {i // 2}" for i in range(20)]
    group = [*people, *nobody]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(len(group), 1))
    other = X.copy()
    other[20:] = 100.0 + np.arange(len(nobody))[:, None]
    found = [grouped(as_records(x, x[:, 0]), group, m) for x in (X, other)]
    assert found[0].n == found[1].n == 11 * m
    moved = ~((found[0].y == found[1].y) | (np.isnan(found[0].y) & np.isnan(found[1].y)))
    assert moved.sum() == m
    shuffled = [*people, *reversed(nobody)]
    assert grouped(as_records(X, X[:, 0]), shuffled, m).n == 11 * m


@each("m", [1, 3])
@each("want", [GRADIENT, HESSIAN, MEAT])
def test_a_person_attains_the_sensitivity_of_a_group(m, want):
    """C47: replacing one person's m rows by the worst others moves a mean by m sensitivities."""
    objective = Objective(LogCosh(), Mallows(2.0), 2, fit_intercept=False, scale=1.0)
    persons = 50
    ids = np.repeat(np.arange(persons), m)
    rng = np.random.default_rng(5)
    rest, response = rng.normal(size=(persons * m, 2)), rng.normal(size=persons * m)
    means, receipts = [], None
    for row, y in (([2.0, 0.0], 0.0), ([0.0, 2.0], 0.0)) if want == HESSIAN else (
        ([2.0, 0.0], 1e6), (([2.0, 0.0], -1e6) if want == GRADIENT else ([0.0, 2.0], 1e6))
    ):  # fmt: skip
        X, responses = rest.copy(), response.copy()
        X[ids == 7], responses[ids == 7] = row, y
        keeper = Curator(
            grouped(as_records(X, responses), ids, m), objective, dpfast.Ledger(9.0),
            dpfast.SeededNoise(0),
        )  # fmt: skip
        means.append(next(part for part in keeper._sums(np.zeros(2), want) if part is not None))
        receipts = {r.query: r for r in keeper.receipts(StepBudget(1.0, 1.0, 1.0))}
    query = {GRADIENT: "gradient", HESSIAN: "hessian", MEAT: "meat"}[want]
    distance = np.linalg.norm(means[0] - means[1])
    assert 0.99 * m * receipts[query].l2_sensitivity <= distance
    assert distance <= m * receipts[query].l2_sensitivity


def test_a_fit_charges_the_person_and_says_so():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(4000, 2)), rng.normal(size=4000)
    ids = np.arange(4000) // 2
    ledger = dpfast.Ledger(2.0)
    loss = dpfast.Objective("log-cosh", scale=1.0)
    options = {"noise": dpfast.SeededNoise(0), "method": "newton"}
    fit = dpfast.fit(
        dpfast.records(X, y, group=ids, group_size=2),
        None,
        loss,
        privacy=2.0,
        ledger=ledger,
        **options,
    )
    assert ledger.spent == dpfast.GDP(2.0) and fit.privacy.mu == 2.0
    assert fit.privacy.n == 2000 and "one person with up to 2 rows" in fit.privacy.relation
    spent = np.sqrt(sum(mu**2 for _, mu in fit.privacy.entries))
    assert 1.99 < spent <= 2.0
    single = dpfast.fit(X, y, loss, privacy=1.0, **options)
    halves = [mu / 2.0 for _, mu in fit.privacy.entries]
    assert halves == pytest.approx([mu for _, mu in single.privacy.entries])


def test_a_default_fit_charges_the_person_once_and_says_so():
    """The rows are one contribution with a public weight: no row is charged on its own (C81)."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(4000, 2)), rng.normal(size=4000)
    ids, ledger, labels = np.arange(4000) // 2, dpfast.Ledger(4.0), []
    for options in ({"group_size": 2}, {"each": "person"}):
        fit = dpfast.fit(
            dpfast.records(X, y, group=ids, **options), None, "log-cosh", privacy=2.0,
            ledger=ledger, noise=dpfast.SeededNoise(0),
        )  # fmt: skip
        spent = np.sqrt(sum(mu**2 for _, mu in fit.privacy.entries))
        assert 1.99 < spent <= 2.0 and fit.privacy.n == fit.n_records == 2000
        labels.append(fit.privacy.relation)
    assert "one person with up to 2 rows" in labels[0] and "however many" in labels[1]
    assert is_stated(labels[0], None) and not is_stated(labels[0], Rows(3, Sum(())))
    assert [entry.spend.mu for entry in ledger.entries] == [2.0, 2.0]


@pytest.mark.slow
def test_standard_errors_of_a_default_fit_are_those_of_clusters():
    """Seeded, 60 fits: five rows that go together or not, and a column that is the person's."""
    ratios, errors, widths = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 6, 2000)
        ids = np.repeat(np.arange(2000), sizes)
        X = np.column_stack([rng.normal(size=2000)[ids], rng.normal(size=len(ids))])
        y = X @ [0.5, -0.4] + 0.5 * rng.normal(size=2000)[ids] + rng.normal(size=len(ids))
        fit = dpfast.fit(
            dpfast.records(X, y, group=ids, group_size=5), None, "least-squares", privacy=8.0,
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        Z = np.column_stack([np.ones(len(y)), X])
        inverse = np.linalg.inv(Z.T @ Z)
        scores = np.zeros((2000, 3))
        np.add.at(scores, ids, (y - Z @ (inverse @ Z.T @ y))[:, None] * Z)
        clustered = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
        ratios.append(fit.bse / clustered)
        widths.append(fit.bse)
        errors.append(fit.params - [0.0, 0.5, -0.4])
    assert (np.abs(np.median(ratios, axis=0) - 1.05) < 0.07).all()
    found = np.sqrt(np.mean(np.square(widths), axis=0) / np.mean(np.square(errors), axis=0))
    assert ((found > 0.75) & (found < 1.35)).all()  # four standard deviations of 60 runs


@pytest.mark.slow
def test_intervals_allow_for_rows_that_go_together():
    """Persons with random effects, four rows each, covariates of the person: the worst case.

    300 fits, nominal 95%: the number of intervals that cover is below 265 with probability below
    1e-6 if the coverage is at least .95; intervals for independent rows cover about 67%, and
    would fail with probability above .999999.
    """
    covered = 0
    persons, m = 1500, 4
    ids = np.repeat(np.arange(persons), m)
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = np.repeat(rng.normal(size=persons), m)[:, None]
        y = x[:, 0] + np.repeat(rng.normal(size=persons), m) + 0.3 * rng.normal(size=persons * m)
        fit = dpfast.fit(
            dpfast.records(x, y, group=ids, group_size=m), None,
            dpfast.Objective("log-cosh", scale=1.0), privacy=4.0,
            method=dpfast.optimize.Newton(steps=5), noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        low, high = fit.conf_int()[1]
        covered += low <= 1.0 <= high
    assert covered >= 265


@each(
    ("options", "named"),
    [
        ({"group": [1, 2]}, 'go together.*each="person"'),
        ({"group_size": 2}, "go together"),
        ({"group": [1, 2], "group_size": 0}, "group_size"),
        ({"group": [1, 2], "group_size": 2.5}, "group_size"),
        ({"group": [1, 2, 3], "group_size": 2}, "one label for each"),
    ],
)
def test_refusals(options, named):
    with pytest.raises(InvalidInput, match=named):
        dpfast.fit(
            dpfast.records([[1.0], [2.0]], [1.0, 2.0], **options), None,
            dpfast.Objective("log-cosh", scale=1.0), privacy=1.0,
        )  # fmt: skip


def test_labels_of_different_types_never_meet():
    """A dictionary compares labels of the same hash: no pair of them raises or warns."""
    time = datetime.datetime(2020, 1, 1)
    labels = [Decimal(1), np.int64(1), np.float32(1.0), True, 1]  # one person
    labels += [b"a", np.bytes_(b"a")], "a", np.str_("a"), time, np.datetime64(time), time.date()
    labels = [*labels[:5], *labels[5], *labels[6:]]
    nobody = [Decimal("NaN"), Decimal("sNaN"), 1j, (1, 2), np.datetime64("NaT"), object()]
    X = np.ones((len(labels) + len(nobody), 1))
    for group in ([*labels, *nobody], [*nobody, *reversed(labels)]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert grouped(as_records(X, X[:, 0]), group, 1).n == 6


def test_a_decimal_and_an_integer_of_numpy():
    group = [Decimal(i) for i in range(5)] + [np.int64(i) for i in range(5)]
    assert grouped(as_records(np.ones((10, 1)), np.ones(10)), group, 2).n == 10


@each("each", ["row", "person"])
@each("persons", [3, 40, 2_731])
def test_c47_who_moves_to_another_slot_is_the_same_record_under_a_released_map(each, persons):
    """The first person is replaced by one who appears last, so everybody else moves up.

    Rows are so long that one that is rounded otherwise is another record.  Of 2,731 persons with
    three rows each the last row is alone in its piece, and moves to another.
    """
    rng = np.random.default_rng(persons)
    group = np.repeat(np.arange(persons), 3)
    X, y = 1e16 * rng.normal(size=(3 * persons, 5)), rng.normal(size=3 * persons)
    view = TransformedView(rng.normal(size=(6, 5)), True)

    def rows_of(X, y, group):
        records = as_records(X, y)
        joined = grouped(records, group, 3) if each == "row" else person_means(records, group)
        blocks = [seen(X, y, view) for X, y in joined.blocks()]
        return {(x.tobytes(), a.tobytes()) for X, y in blocks for x, a in zip(X, y, strict=True)}

    later = np.concatenate([np.arange(3, 3 * persons), [0, 1, 2]])
    other = X.copy()
    other[:3] = 7.0
    before, after = rows_of(X, y, group), rows_of(other[later], y[later], group[later])
    assert len(before) == len(after) == 3 * persons
    assert len(before - after) == len(after - before) == 3


def test_c47_nothing_public_follows_the_number_of_rows():
    """A person with one row, with two and with a thousand: the same charges, noise and words."""
    rng = np.random.default_rng(8)
    public = []
    for rows in (1, 2, 1_000):
        group = np.concatenate([np.repeat(np.arange(400), 2), np.full(rows, 400)])
        X, y = rng.normal(size=(len(group), 2)), rng.normal(size=len(group))
        found = dpfast.fit(
            dpfast.records(X, y, group=group, group_size=2), None,
            dpfast.Objective("log-cosh", scale=1.0), privacy=2.0, noise=dpfast.SeededNoise(0),
            method="newton",
        )  # fmt: skip
        told = (found.n_records, found.names, found.model, found.method, found.privacy.to_dict())
        public.append((*told, str(found.privacy), len(found.iterates)))
        assert found.privacy.n == 401
    assert public[0] == public[1] == public[2]
