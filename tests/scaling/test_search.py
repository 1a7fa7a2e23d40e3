"""D4: the search for locations: what it costs, what it finds, and that it sees answers only."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.scaling.columns import Columns
from dpfast.data import as_records
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from dpfast.privacy.scaling.sensitivity import complete_weight
from dpfast.scaling.search import COUNTS, ScaleSearch
from tests.loops import each
from tests.twins.thresholds import _mass_below, _threshold, value_of

COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "age": lambda rng, n: rng.integers(18, 90, n),
    "year": lambda rng, n: rng.integers(1998, 2005, n),
    "longitude": lambda rng, n: -122.2 + 0.14 * rng.normal(size=n),
    "epoch": lambda rng, n: 1.4e9 + 1e7 * rng.normal(size=n),
    "day": lambda rng, n: 1.7e9 + 86400 * rng.random(n),
    "tiny": lambda rng, n: 1e-9 * rng.normal(size=n),
    "huge": lambda rng, n: 1e100 * rng.normal(size=n),
    "dummy": lambda rng, n: rng.random(n) < 0.3,
}


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([np.asarray(make(rng, n), dtype=float) for make in COLUMNS.values()])


def located(X, y, mu, seed):
    columns = Columns(as_records(X, y), dpfast.Ledger(mu), dpfast.SeededNoise(seed))
    found = ScaleSearch(columns, range(columns.n_columns), mu * (1 - 1e-12)).run(spend=False)
    return found, columns


@pytest.mark.parametrize(
    ("n", "mu", "low", "high", "off"),
    [
        (50_000, 0.26, 0.94, 1.08, 0.07),
        (10_000, 0.26, 0.9, 1.15, 0.1),
        (2_500, 0.4, 0.8, 1.3, 0.2),
    ],
)
def test_light_tails_have_their_scale_whatever_their_units(n, mu, low, high, off):
    """Seeded, three runs each; n mu of 13,000, 2,600 and 1,000."""
    X = table(n)
    y = X[:, 0] + 5.0
    for seed in range(3):
        found, _ = located(X, y, mu, seed)
        for column, location in zip(np.column_stack([X, y]).T, found, strict=True):
            sd = column.std()
            assert low < location.spread / sd < high
            assert abs(location.centre - column.mean()) < off * sd
        assert all(location.detected for location in found)


def test_a_column_is_the_same_however_it_is_coded():
    """A rare level under nine codings, mostly-zero money under three.  Seeded, eight runs."""
    rng = np.random.default_rng(1)
    n = 10_000
    rare = (rng.random(n) < 0.03) * 1.0
    money = np.where(rng.random(n) < 0.95, 0.0, np.exp(8.0 + 0.7 * rng.normal(size=n)))
    codings = [
        rare, 1.0 - rare, 2.0 * rare - 1.0, 100.0 * rare, (rare - rare.mean()) / rare.std(),
        1e-9 * rare, rare + 1e9, rare - rare.mean(), 3.7 - 0.17 * rare,
        money, -1e-3 * money + 5.0, (money - money.mean()) / money.std(),
    ]  # fmt: skip
    X = np.column_stack(codings)
    found = [located(X, rng.normal(size=n), 0.4, seed)[0][:-1] for seed in range(8)]
    assert all(location.detected for run in found for location in run)
    spreads = np.array([[location.spread for location in run] for run in found]) / X.std(axis=0)
    assert (np.abs(np.median(spreads[:, :9], axis=0) - 1.0) < 0.1).all()
    assert spreads.min() > 0.5 and spreads.max() < 1.7
    centres = np.array([[location.centre for location in run] for run in found])
    assert (np.abs(centres - X.mean(axis=0)) < 0.15 * X.std(axis=0)).all()


@each("value", [0.0, 1.0, -1.0, 37.0, 1e9, -0.03, 3.7, 1e-9, 2.0**-300])
def test_a_tie_is_found_where_it_is_and_has_no_spread(value):
    """To a part in 1e9, and exactly where its bits are few."""
    n = 20_000
    found, columns = located(np.full((n, 1), value), np.arange(n) / n, 0.5, 0)
    assert found[0].centre == pytest.approx(value, rel=2.0**-29)
    assert found[0].centre == value or value in (-0.03, 3.7, 1e-9)
    assert not found[0].detected and found[0].spread == 1.0
    assert found[1].detected and found[1].spread == pytest.approx(12**-0.5, rel=0.1)
    assert columns.ledger.spent.mu == pytest.approx(0.5, rel=1e-3)


def test_a_heavy_column_has_the_scale_of_what_is_seen():
    rng = np.random.default_rng(2)
    found, columns = located(rng.standard_cauchy((20_000, 1)), rng.normal(size=20_000), 0.5, 0)
    assert 1.0 < found[0].spread < 100.0 and found[0].low < -4.0 and found[0].high > 4.0
    assert columns.ledger.spent.mu < 0.5 * 0.87  # nobody looked twice


def test_what_is_not_seen_at_first_is_looked_for_once_more():
    """Seeded: a level of six records in a thousand among ten columns; in most of eight runs."""
    rng = np.random.default_rng(4)
    n, again = 10_000, []
    X = rng.normal(size=(n, 10))
    X[:, 3] = np.where(rng.random(n) < 0.006, 2.7, -0.31)
    for seed in range(8):
        found, columns = located(X, rng.normal(size=n), 0.35, seed)
        looks = [e for e in columns.ledger.entries if e.label == "histogram of distances"]
        assert len(looks) == 1 or not found[3].detected or columns.ledger.spent.mu > 0.34
        again.append(len(looks) == 2 and found[3].detected)
    assert sum(again) >= 5


def test_counts_that_noise_leads_astray_are_noticed():
    """120 seeded tables whose counts have noise of a tenth of the records, as much as may be.

    Of 480 spreads five were 1e-7 to 1e-261: counts went to zero, by halves of nothing, until the
    octaves of the histogram did not reach the records.
    """
    spreads = []
    for seed in range(120):
        X = np.random.default_rng(seed).normal(size=(1000, 3))
        y = np.random.default_rng([seed, 1]).normal(size=1000)
        spreads += [one.spread for one in located(X, y, 0.1, seed)[0] if one.detected]
    assert len(spreads) > 460 and min(spreads) > 0.1 and max(spreads) < 10.0


def test_a_centre_of_counts_in_doubt_has_every_octave():
    """Between two looks counts go to -2^-60: within 40 octaves of there is no record.

    Of 15,000 columns one had a spread of 5e-7 in this way, and its fit was 1e5 away.
    """
    high, low = int(value_of_key(-(2.0**-60))), int(value_of_key(-(2.0**-12)))

    class Astray(Columns):
        looks = 0

        def below(self, thresholds, mu, later=()):
            answer = super().below(thresholds, mu, later)
            answer.value[:-1] = [0.3 * n if key >= high else -0.3 * n for _, key in thresholds]
            return answer

        def distances(self, columns, centres, nearest, octaves, mu):
            answer = super().distances(columns, centres, nearest, octaves, mu)
            self.looks += 1
            return answer._replace(value=answer.value * (self.looks > 1))  # nothing at first

    class Doubtful(ScaleSearch):
        def ask_counts(self):
            self._complete, self._precision = n, 1.0
            self._quantiles[0].low, self._quantiles[0].high = low, 0

    n = 2000
    X = np.random.default_rng(0).normal(size=(n, 1))
    columns = Astray(as_records(X, X[:, 0]), dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    (found,) = Doubtful(columns, [0], 1.0 - 1e-12).run()
    assert columns.looks == 2 and found.detected
    assert 0.8 < found.spread < 1.3


def value_of_key(value):
    """The key of a negative power of two: minus the key of its size."""
    return -np.float64(-value).view(np.int64)


def test_missing_records_count_in_nothing():
    """A third of the records is incomplete; the others are found where they are."""
    rng = np.random.default_rng(3)
    n = 30_000
    X, y = 100.0 + rng.normal(size=(n, 2)), rng.normal(size=n)
    X[rng.random(n) < 0.2, 0] = np.nan
    y[rng.random(n) < 0.17] = np.inf
    X[np.isnan(X[:, 0]), 1] = 1e6  # of records that are left out
    found, _ = located(X, y, 0.5, 1)
    for location, centre in zip(found, (100.0, 100.0, 0.0), strict=True):
        assert abs(location.centre - centre) < 0.05
        assert 0.9 < location.spread < 1.1


class Scripted:
    """Answers of an adversary: any counts at all."""

    def __init__(self, n, seed, kind, ledger=None):
        self.n = n
        self.ledger = ledger or dpfast.Ledger(1.0)
        self._rng, self._kind = np.random.default_rng(seed), kind
        self.asked, self.asked_first = 0, None

    def _answer(self, m, mu):
        self.ledger.charge(dpfast.GDP(mu), "counts")
        self.asked += m
        counts = {
            "uniform": self._rng.uniform(-0.5, 0.5, m) * self.n,
            "low": np.full(m, -0.5 * self.n),
            "high": np.full(m, 0.5 * self.n),
            "middle": np.zeros(m),
            "wild": self._rng.standard_cauchy(m) * self.n,
        }[self._kind]
        value = np.append(counts, complete_weight(m) * self.n)
        return Answer(value, 1.0, Receipt("counts", "D2", mu, 1.0, 1.0))

    def below(self, asked, mu, later=()):
        assert all(key % (1 << 16) == 0 for _, key in asked)
        return self._answer(len(asked), mu)

    def distances(self, columns, centres, nearest, octaves, mu):
        self.ledger.charge(dpfast.GDP(mu), "distances")
        self.asked_first = self.asked if self.asked_first is None else self.asked_first
        assert np.isfinite(centres).all() and (nearest >= 2.0**-1022).all()
        assert np.isfinite(nearest).all()
        value = self._rng.standard_cauchy((len(columns), 2, 100)) ** 3
        for cells, last in zip(value, octaves, strict=True):
            cells[:, last:] = 0.0
        if self._kind == "middle":
            value[:] = 0.0
        return Answer(value, 0.1, Receipt("distances", "D6", mu, 1.0, 0.1))


@pytest.mark.parametrize("kind", ["uniform", "low", "high", "middle", "wild"])
@pytest.mark.parametrize("q", [1, 2, 7])
@pytest.mark.values
def test_every_path_stays_within_its_budget(kind, q):
    """Whatever is answered: no more counts than planned, no more than the total, all of it where a
    column was not seen or that was said, and the numbers that come out can be used."""
    for seed in range(20):
        answers, spend = Scripted(1000, seed, kind), seed % 2 == 1
        around_zero = range(1, q) if seed % 4 > 1 else ()
        search = ScaleSearch(answers, range(q), 1.0 - 2.0**-40, around_zero=around_zero)
        found = search.run(spend)
        assert answers.asked_first <= 2 * COUNTS * q
        assert answers.asked - answers.asked_first <= 2 * COUNTS * q
        assert answers.ledger.spent.mu <= 1.0
        if spend or not all(location.detected for location in found):
            assert answers.ledger.spent.mu > 0.999
        for location in found:
            assert np.isfinite(location.centre) and 0.0 < location.spread < np.inf
            assert location.low <= location.centre <= location.high
            assert np.isfinite([location.low, location.high]).all()


@pytest.mark.parametrize("kind", ["uniform", "low", "high", "middle", "wild"])
@pytest.mark.parametrize("q", [1, 2, 7])
@pytest.mark.values
def test_labels_and_all_records_stay_within_the_budget_of_a_search(kind, q):
    """Four counts more, and a second search of what a sample did not show: all of it is one total.

    Each part has what the claim says, so that no receipt of a later part is refused.
    """
    searched = 0
    for seed in range(20):
        few = Scripted(1000, seed, kind)
        every = Scripted(10_000, seed, kind, few.ledger)
        beside = (q, every) if seed % 4 < 2 else (None, every, (q, 0))  # or what no model has
        search = ScaleSearch(few, range(q), 1.0 - 2.0**-40, *beside)
        found = search.run(seed % 2 == 1)
        assert few.ledger.spent.mu <= 1.0
        if not all(location.detected for location in found):
            assert few.ledger.spent.mu > 0.999
        for label, asked in (
            ("counts", search.count_extremes()), ("distances", search.distance_extremes()),
        ):  # fmt: skip
            mus = [entry.spend.mu for entry in few.ledger.entries if entry.label == label]
            assert min(mu for _, mu in asked) <= min(mus, default=1.0) * (1.0 + 1e-9)
            assert max(mus, default=0.0) <= max(mu for _, mu in asked)
        paid = [(entry.label, entry.spend.mu**2) for entry in few.ledger.entries]
        first = [label for label, _ in paid].index("distances")
        assert sum(square for _, square in paid[:first]) < 0.52
        assert paid[first - 1][1] <= 0.4 * 4 / 14 * (1 + 1e-9)
        assert min(square for label, square in paid if label == "distances") > 0.15 * 0.25
        searched += every.asked > 0
    assert searched or kind != "middle"


@pytest.mark.parametrize("kind", ["uniform", "low", "high", "middle", "wild"])
@pytest.mark.parametrize("q", [1, 2, 7])
@pytest.mark.values
def test_counts_in_doubt_stay_within_the_budget_of_a_search(kind, q):
    """Once more for complete records, and for labels: the first histogram keeps its least."""
    again = 0
    for seed in range(20):
        few = Scripted(1000, seed, kind)
        beside = [(q, None), (None, None, (q, 0)), (None, None)][seed % 3]
        search = ScaleSearch(few, range(q), 1.0 - 2.0**-40, *beside)
        search.least = [1.0, 300.0, 990.0, 1e4, 1e9][seed % 5]
        search.ask_counts()
        spent = few.ledger.spent.mu**2
        assert spent <= 0.6
        assert spent == pytest.approx(search._spent, rel=1e-9)
        mus = [entry.spend.mu for entry in few.ledger.entries]
        asked = [mu for _, mu in search.count_extremes()]
        assert min(asked) <= min(mus) * (1.0 + 1e-9)
        assert max(mus) <= max(asked)
        again += spent > 0.52
        if not search.too_few:
            search.run()
            assert few.ledger.spent.mu <= 1.0
            paid = [entry.spend.mu**2 for entry in few.ledger.entries if entry.label == "distances"]
            assert paid[0] >= 0.15 * (1 - 1e-9)
            assert min(paid) > 0.15 * 0.25
    assert again or kind in ("uniform", "wild")


@pytest.mark.parametrize(
    "pair",
    [
        ([0.0, 1.0, -1.0], [1e300, np.nan, 0.0]),
        ([1.0, 1.0, 1.0], [np.nan, np.nan, np.nan]),
        ([np.inf, -1e308, 5e-324], [-1e308, 1e308, 1e308]),
    ],
    ids=str,
)
def test_a_search_passes_record_and_replay(pair):
    rng = np.random.default_rng(4)
    rest = rng.normal(size=(300, 3)) * [1.0, 1e-3, 1e3]
    a, b = (np.vstack([rest, side]) for side in pair)

    def call(rows):
        return dpfast.standardize(rows[:, :2], rows[:, 2], privacy=3.0)

    report = replay(call, a, b, budget=3.0).raise_on_leak()
    assert {name: found.ratio <= 1.0 for name, found in report.worst.items()} == {
        "counts": True, "histogram of distances": True
    }  # fmt: skip


def test_thresholds_halve_the_prior_and_then_the_keys():
    assert _threshold(-2047 << 52, 2047 << 52) in (0, 1 << 52)
    masses = [_mass_below(k) for k in range(-2047, 2048)]
    assert masses == sorted(masses) and 0.0 <= masses[0] < 0.01 and 0.99 < masses[-1] <= 1.0
    assert _threshold(1023 << 52, 1024 << 52) == (1023 << 52) + (1 << 51)
    assert value_of((1023 << 52) + (1 << 51)) == 1.5
    assert value_of(-(1023 << 52)) == -1.0
    assert value_of(2047 << 52) == 1e300


def test_too_few_records_are_refused_before_anything_is_spent():
    ledger = dpfast.Ledger(1.0)
    X, y = np.zeros((200, 4)), np.zeros(200)
    with pytest.raises(InvalidBudget, match="too few") as refused:
        dpfast.standardize(X, y, privacy=0.2, ledger=ledger)
    assert not ledger.entries
    needed = float(
        str(refused.value).split("mu of at least ")[1].split(".  ")[0].split(" ")[0][:-1]
    )
    dpfast.standardize(X, y, privacy=needed * 1.01)
    with pytest.raises(BudgetExceeded):
        dpfast.standardize(X, y, privacy=3.0, ledger=ledger)
    assert not ledger.entries


@each(
    ("options", "named"),
    [
        ({"X": np.zeros((500, 0))}, "column"),
        (
            {"X": dpfast.records(np.zeros((500, 2)), np.zeros(500), names=["a", "a"]), "y": None},
            "differ",
        ),
        ({"response": "yes"}, "response"),
        ({"X": np.array([["a", "b"]] * 500)}, "X"),
    ],
)
def test_refusals(options, named):
    given = {"X": np.zeros((500, 2)), "y": np.zeros(500), "privacy": 3.0, **options}
    with pytest.raises(InvalidInput, match=named):
        dpfast.standardize(**given)


@pytest.mark.parametrize("far", [2.0**30, 2.0**60, -(2.0**70)])
def test_records_beyond_the_first_octaves_are_measured_again(far):
    """Twenty percent of the records close together tell nothing of how far away others are."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    X[:, 1] = 1.0 + rng.normal(size=4000) * 1e-6
    X[:400, 1] *= far
    found, _ = located(X, rng.normal(size=4000), 2.0, 0)
    assert 0.9 < found[0].spread < 1.1
    assert 0.9 < found[1].spread / np.std(X[:, 1]) < 1.1
    assert 0.9 < found[1].centre / np.mean(X[:, 1]) < 1.1
