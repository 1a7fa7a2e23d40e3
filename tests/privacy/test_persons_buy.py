"""What is bought where persons count with the mean of their rows: claim C67 of PROOFS.md."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import dpfast
from dpfast.audit import replay
from dpfast.curator.persons import one_row_per_person
from dpfast.curator.scaling.columns import _counts_receipt
from dpfast.data import as_records
from dpfast.data.persons.chosen import chosen_rows
from dpfast.data.persons.means import PersonMeans, person_means
from dpfast.data.records import Records, Wrapped
from dpfast.data.scaling.units import ReleasedScales, released_coding
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.privacy.noise import SeededNoise
from dpfast.privacy.random_parts import secret_choices
from tests.scaling.test_columns import exact

PERSONS, COEFFICIENTS = 3_000, np.array([3e3, 0.2, 500.0])


def visits(seed=0, persons=PERSONS):
    """Rows in units of their own, of persons whose number of rows follows their effect."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=persons)
    group = np.repeat(np.arange(persons), rng.poisson(np.exp(1.0 + 0.4 * own)) + 1)
    rng.shuffle(group)
    X = np.column_stack([1e5 + 2e4 * rng.normal(size=len(group)), rng.integers(0, 9, len(group))])
    y = COEFFICIENTS[0] + X @ COEFFICIENTS[1:] + 3e3 * rng.normal(size=len(group))
    return X, y + 2e3 * own[group], group


def chosen(X, y, group, numbers):
    persons = person_means(as_records(X, y), group)
    return next(chosen_rows(persons, lambda n: numbers[:n]).blocks())


# ---- the choice ----------------------------------------------------------------------------------


def test_c67_a_replaced_person_is_one_replaced_record():
    """Whatever rows they get, and wherever these stand among those of the others."""
    X, y, group = visits(persons=80)
    numbers = secret_choices(80, SeededNoise(5))
    before = chosen(X, y, group, numbers)
    rng = np.random.default_rng(1)
    for k, m in ((3, 1), (3, 2_000), (79, 50)):
        others = group != k
        later = np.flatnonzero(others)[-40:]
        places = np.sort(rng.choice(later, m))
        rows, response = rng.normal(size=(m, 2)), rng.normal(size=m)
        rows[rng.random(m) < 0.3] = np.nan
        kept = np.flatnonzero(others)
        where = np.searchsorted(kept, places)
        table = (
            np.insert(X[kept], where, rows, axis=0),
            np.insert(y[kept], where, response),
            np.insert(group[kept], where, k),
        )
        first, then = _of_first_appearance(group), _of_first_appearance(table[2])
        after = chosen(*table, numbers[[first.index(person) for person in then]])
        assert len(after[1]) == len(before[1]) == 80
        for j, person in enumerate(first):
            if person != k:
                assert (before[0][j] == after[0][then.index(person)]).all()
                assert before[1][j] == after[1][then.index(person)]


def _of_first_appearance(group):
    return list(dict.fromkeys(group.tolist()))


def test_c67_every_usable_row_is_as_likely_as_any_other():
    """Chi-squared over the rows of persons with 1 to 6; false failure 1e-6.

    A choice that never takes the last row is found with probability above .999999.
    """
    group = np.repeat(np.arange(6), np.arange(1, 7))
    rng = np.random.default_rng(2)
    rng.shuffle(group)
    X, y = np.arange(21.0)[:, None], np.zeros(21)
    X = np.concatenate([X, np.full((6, 1), np.nan)])  # which count for nothing
    y, group = np.zeros(27), np.concatenate([group, np.arange(6)])
    runs, found = 2_000, np.zeros(21)
    persons = person_means(as_records(X, y), group)
    for run in range(runs):
        rows = next(one_row_per_person(persons, SeededNoise(run)).blocks())[0][:, 0]
        found[rows.astype(int)] += 1
    expected = runs / np.bincount(group[:21])[group[:21]]
    random = expected < runs
    assert (found[~random] == runs).all()
    statistic = np.sum((found - expected)[random] ** 2 / expected[random])
    assert stats.chi2.sf(statistic, 20 - 5) > 1e-6


def test_c67_the_largest_number_takes_the_last_row_and_nobody_else_s():
    X, y, group = np.arange(12.0)[:, None], np.zeros(12), np.arange(12) % 3
    for number, first in ((1.0 - 2.0**-53, 9.0), (0.0, 0.0)):
        rows = chosen(X, y, group, np.full(3, number))[0][:, 0]
        assert rows.tolist() == [first, first + 1.0, first + 2.0]


def test_c67_the_row_of_a_person_stays_the_same():
    """Also where the source of numbers, asked again, would say others."""
    X, y, group = np.arange(3_000.0)[:, None], np.zeros(3_000), np.arange(3_000) % 3
    records = one_row_per_person(person_means(as_records(X, y), group), SeededNoise(0))
    first, second = [next(records.blocks())[0].tolist() for _ in range(2)]
    assert first == second


def test_c67_a_person_without_usable_rows_is_a_record_without_a_response():
    X, y, group = np.ones((6, 1)), np.full(6, np.nan), np.arange(6) // 2
    y[:2] = 1.0
    found = chosen(X, y, group, np.zeros(3))
    assert found[1][0] == 1.0 and np.isnan(found[1][1:]).all() and len(found[1]) == 3


def test_c67_counts_of_persons_attain_the_sensitivity_of_records():
    """A person whose rows lie below all thresholds gets 900 above them all."""
    X, y, group = visits(persons=80)
    asked = [(0, 0), (1, 0), (0, 1 << 62)]
    table = (np.concatenate([X[group != 0], np.full((900, 2), 1e300)]),
             np.concatenate([y[group != 0], np.full(900, 1e300)]),
             np.concatenate([group[group != 0], np.zeros(900, dtype=int)]))  # fmt: skip
    X[group == 0], y[group == 0] = -1e300, -1e300
    values = []
    for data in ((X, y, group), table):
        records = one_row_per_person(person_means(as_records(*data[:2]), data[2]), SeededNoise(0))
        values.append(exact(records, lambda columns: columns.below(asked, 1.0)))
    receipt, _ = _counts_receipt(float(records.n), 3, 1.0)
    moved = np.linalg.norm(values[0] - values[1]) / receipt.l2_sensitivity
    assert 0.99 <= moved <= 1.0


def test_units_are_those_of_the_fit_and_of_what_bought_them():
    """Persons and their chosen rows are put into the same units, row by row."""
    X, y, group = visits(persons=80)
    persons = person_means(as_records(X, y), group)
    units = ReleasedScales(np.array([1e5, 4.0]), np.array([2e4, 3.0]), (2e4, 5e3))
    coding = released_coding(
        units, np.full((2, 2), [-1e9, 1e9]), ("a", "b"), by_name=False, fit_intercept=True
    )
    coded = persons._in_units(units, coding)
    assert type(coded) is type(persons) and coded.n == 80 and coded.coding is coding
    plain = person_means(as_records((X - units.centres) / units.spreads, (y - 2e4) / 5e3), group)
    for first, second in zip(coded.blocks(), plain.blocks(), strict=True):
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)


# ---- whole fits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log-cosh", "huber", "pseudo-huber", dpfast.Quantile(0.5)])
@pytest.mark.one_in(2)
def test_a_fit_needs_nothing_but_the_persons(loss):
    """Coefficients in units of their own within five standard errors; false failure 1e-5."""
    X, y, group = visits()
    ledger = dpfast.Ledger(1.0)
    found = dpfast.fit(
        dpfast.records(X, y, group=group, each="person"),
        None,
        loss,
        privacy=1.0,
        ledger=ledger,
        noise=SeededNoise(4),
    )
    assert (np.abs(found.params - COEFFICIENTS) < 5.0 * found.bse).all()
    assert (found.bse[1:] < 0.1 * COEFFICIENTS[1:]).all()
    assert len(ledger.entries) == 1 and found.privacy.spent_share()[0] <= 1
    assert found.n_records == PERSONS and found.names == ("intercept", "x1", "x2")


def copula(seed, kind, persons):
    """Rows of which each alone is exactly as the model says, and those of one person alike."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(persons), rng.geometric(0.4, persons))
    rng.shuffle(group)
    X = np.column_stack([1e5 + 2e4 * rng.normal(size=len(group)), rng.integers(0, 9, len(group))])
    hidden = (rng.normal(size=persons)[group] + rng.normal(size=len(group))) / np.sqrt(2.0)
    predictor, u = LINKED[kind][0] + X @ LINKED[kind][1:], stats.norm.cdf(hidden)
    if kind == "logistic":
        return X, (u < 1.0 / (1.0 + np.exp(-predictor))) * 1.0, group
    return X, stats.poisson.ppf(u, np.exp(predictor)), group


LINKED = {"logistic": np.array([-3.6, 3.5e-5, -0.1]), "counts": np.array([-1.2, 1.5e-5, -0.05])}
KINDS = {"logistic": "logistic", "counts": dpfast.Poisson(6.0)}


@pytest.mark.parametrize("kind", LINKED)
def test_ones_and_counts_of_raw_columns_need_nothing_but_the_persons(kind):
    """Within five standard errors, which are those of declared units to a third; seeded.

    Fitted in the units they came in, columns as these have intervals 50 to 1,000 times as wide.
    """
    X, y, group = copula(0, kind, 4_000)
    persons = {"group": group, "each": "person"}
    given = {"privacy": 1.0, "noise": SeededNoise(4)}
    found = dpfast.fit(dpfast.records(X, y, **persons), None, KINDS[kind], **given)
    spreads = np.array([2e4, 2.6])
    coded = (X - [1e5, 4.0]) / spreads
    weighted = dpfast.Objective(KINDS[kind], dpfast.Mallows(2.0))
    told = dpfast.fit(dpfast.records(coded, y, **persons), None, weighted, **given)
    assert (np.abs(found.params - LINKED[kind]) < 5.0 * found.bse).all()
    np.testing.assert_allclose(found.bse[1:] * spreads, told.bse[1:], rtol=1.0 / 3.0)


def test_few_persons_get_the_mean_of_one_row_each_or_a_refusal():
    X, y, group = visits(persons=400)
    found = dpfast.fit(
        dpfast.records(X, y, group=group, each="person"), None, "log-cosh", privacy=0.15,
        noise=SeededNoise(1),
    )  # fmt: skip
    assert np.isnan(found.params[1:]).all() and "mean of the response" in found.model
    assert len(found.params) == 3
    with pytest.raises(InvalidBudget):
        dpfast.fit(
            dpfast.records(X[:40], y[:40], group=group[:40], each="person"),
            None,
            "log-cosh",
            privacy=0.1,
        )


def test_the_number_of_rows_changes_nothing_public():
    """Persons with one row, the same with 64 times that row: one fit, to the last digit shown.

    Means of equal rows differ in the last bits only, far below the grid of any release, of which an
    answer may be one step apart: 6e-5 of an intercept of 3,000, seen here.
    """
    X, y, group = visits(persons=1_500)
    first = np.unique(group, return_index=True)[1]
    found = []
    for rows in (first, np.repeat(first, 64)):
        told = []
        result = dpfast.fit(
            dpfast.records(X[rows], y[rows], group=group[rows], each="person"), None, "log-cosh",
            privacy=1.0, noise=SeededNoise(2),
            progress=lambda *step, told=told: told.append(step),
        )  # fmt: skip
        found.append((result, told))
    (one, steps), (many, more) = found
    assert one.summary() == many.summary() and steps == more
    np.testing.assert_allclose(one.params, many.params, rtol=1e-7)
    np.testing.assert_allclose(one.bse, many.bse, rtol=1e-7)
    assert str(one.privacy) == str(many.privacy) and one.names == many.names


@pytest.mark.parametrize(("loss", "mu"), [("log-cosh", 8.0), ("logistic", 8.0), ("logistic", 64.0)])
def test_what_is_bought_of_persons_is_asked_of_single_rows(loss, mu, monkeypatch):
    """Before the first answer about persons, whatever asks has n records and no means."""
    X, y, group = visits(persons=1_000)
    y = (y > np.median(y)) * 1.0 if loss == "logistic" else y
    asked = []
    plain = Records.total

    def total(self, *arguments, **options):
        kind = "scores" if isinstance(self, Wrapped) and not self._keeps else "chosen rows"
        asked.append("persons" if type(self) is PersonMeans else kind)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(Records, "total", total)
    dpfast.fit(
        dpfast.records(X, y, group=group, each="person"), None, loss, privacy=mu, standardize=True
    )
    first = asked.index("persons")
    assert set(asked[first:]) == {"persons", "scores"}
    assert set(asked[:first]) == {"chosen rows"}
    assert first > 1


@pytest.mark.parametrize("loss", ["log-cosh", "logistic"])
def test_whole_fits_that_buy_are_told_apart_no_better_than_paid(loss):
    """One person of 60 gets 200 rows for 2; secret choices are held fixed, as a sample is."""
    rng = np.random.default_rng(6)
    group = np.arange(120) // 2
    X, y = 1e3 + rng.normal(size=(120, 2)), rng.normal(size=120)
    more, response = rng.normal(size=(200, 2)) * 1e20, rng.normal(size=200) * 1e20
    if loss == "logistic":
        y, response = (y > 0.0) * 1.0, (response > 0.0) * 1.0
    kept = group != 59  # the last, so that nobody else's number moves
    tables = (
        (X, y, group),
        (
            np.concatenate([X[kept], more]),
            np.concatenate([y[kept], response]),
            np.concatenate([group[kept], np.full(200, 59)]),
        ),
    )

    def call(number):
        covariates, responses, persons = tables[int(number[0][0])]
        found = dpfast.fit(
            dpfast.records(covariates, responses, group=persons, each="person"), None, loss,
            privacy=40.0, standardize=True,
        )  # fmt: skip
        return found, found.to_dict(), found.summary()

    report = replay(call, (np.array([0.0]),), (np.array([1.0]),), budget=dpfast.GDP(40.0))
    assert report.n_answers > 10 and not report.leaks


def test_what_is_not_proved_of_persons_is_refused_with_what_to_do():
    loss = dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0))
    X, y, group = visits(persons=80)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput, match=r"single rows.*Leave scale out"):
        dpfast.fit(
            dpfast.records(X, y, group=group, each="person"), None, loss, privacy=1.0, ledger=ledger
        )
    assert not ledger.entries


@pytest.mark.slow
def test_coverage_in_bought_units():
    """Intervals cover the person-weighted target, 300 fits at 95%; false failure 1e-6 each.

    The binomial bound is .88; intervals that are a quarter too short are below it
    with probability .9.
    """
    inside = np.zeros(3)
    for run in range(300):
        X, y, group = visits(run, 2_000)
        low, high = dpfast.fit(
            dpfast.records(X, y, group=group, each="person"), None, "log-cosh", privacy=1.0,
            noise=SeededNoise(run),
        ).conf_int().T  # fmt: skip
        inside += (low <= COEFFICIENTS) & (high >= COEFFICIENTS)
    assert (inside / 300 >= 0.88).all(), inside / 300


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINKED)
def test_coverage_of_ones_and_counts_in_bought_units(kind):
    """Of the true coefficients, 200 fits at 95%; false failure 1e-6 each.

    The binomial bound is .87; intervals that are a third too short are below it with probability
    .97, and those of units nobody bought are wider than these on average by far.
    """
    inside, wide = np.zeros(3), []
    for run in range(200):
        X, y, group = copula(run, kind, 2_000)
        found = dpfast.fit(
            dpfast.records(X, y, group=group, each="person"),
            None,
            KINDS[kind],
            privacy=1.0,
            noise=SeededNoise(run),
        )
        low, high = found.conf_int().T
        inside += (low <= LINKED[kind]) & (high >= LINKED[kind])
        wide.append(found.bse[1:])
    assert (inside / 200 >= 0.87).all(), inside / 200
    assert (np.median(wide, axis=0) < 0.25 * np.abs(LINKED[kind][1:])).all()
