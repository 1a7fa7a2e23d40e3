"""Waves: claims C108 and C109, what is spent, and intervals of each wave and of all of them."""

import math
import pickle
import warnings

import numpy as np
import pytest
from scipy.special import ndtri

import dpfast
from dpfast import tables
from dpfast.audit import replay
from dpfast.curator.preconditioned import NO_CLIPPING, Linearization
from dpfast.curator.waves import ScoreWaves
from dpfast.errors import InvalidBudget, InvalidInput
from dpfast.fit_requests.request import Account, FitRequest
from dpfast.models import LeastSquares
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.tables.prefix_sums import UNIT, column_norm, lag_mu, root_coefficients
from dpfast.regression.default_fit import preconditioned_rows
from dpfast.tables.over_waves import error_levels, spent_by
from tests.watching import watched

N, BOUND, WAVES = 40, 1.5, 5
SLOPES = np.array([1.0, -0.5])


def table(seed, n, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 4.0] + [0.0, 20.0]
    return X, shift + X @ SLOPES + rng.normal(size=n)


def released(waves, mu=1.0, points=None):
    """Releases of scores of these waves, at points that do not depend on them."""
    sums, values = ScoreWaves(WAVES, mu, BOUND), []
    for t, (X, y) in enumerate(waves):
        request = FitRequest(
            X, y, Account(GDP(mu)), fit_intercept=True, noise=dpfast.SeededNoise(0)
        )
        at = Linearization(np.zeros(3) if points is None else points[t], LeastSquares())
        rows = preconditioned_rows(request)
        values += watched(lambda rows=rows, at=at: sums.release(rows, at, NO_CLIPPING))
    return values


def test_c108_no_record_beats_the_sensitivity_of_any_release():
    """Each record of each wave in turn, also one that is no record, at any place and threshold."""
    waves = [table(seed, N) for seed in range(WAVES)]
    base, weights = released(waves), root_coefficients(WAVES) / UNIT
    for j in range(WAVES):
        for row in ([1e300, -1e300, 1e300], [0.0, 0.0, -1e9], [np.nan, 0.0, 0.0], [0.0, 0.0, 1.5]):
            X, y = (part.copy() for part in waves[j])
            X[7], y[7] = row[:2], row[2]
            other = released([*waves[:j], (X, y), *waves[j + 1 :]])
            for t, (one, two) in enumerate(zip(base, other, strict=True)):
                moved = np.linalg.norm(one.value - two.value)
                assert moved <= (weights[t - j] * one.l2_sensitivity if t >= j else 0.0)
                assert one.noise_scale >= one.l2_sensitivity / lag_mu(1.0, WAVES)


def test_c108_the_worst_record_attains_the_norm_of_a_column():
    """A score of length B replaced by its opposite: all releases in their noise move by mu."""
    waves = [table(seed, N) for seed in range(WAVES)]
    pair = []
    for y in (1e9, -1e9):
        X, responses = (part.copy() for part in waves[0])
        X[3], responses[3] = 0.0, y
        pair.append(released([(X, responses), *waves[1:]]))
    moved = [
        np.linalg.norm(one.value - two.value) / one.noise_scale
        for one, two in zip(*pair, strict=True)
    ]
    assert 0.999 < math.hypot(*moved) <= 1.0
    assert math.isclose(lag_mu(1.0, WAVES) * column_norm(WAVES), 1.0, rel_tol=1e-3)


def updated(parts, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        series = tables.Waves(
            **({"privacy": 1.0, "waves": WAVES, "noise": dpfast.SeededNoise(seed)} | options)
        )
        for X, y in parts:
            series.update(X, y)
    return series


@pytest.mark.parametrize("wave", [0, 1, 2])
@pytest.mark.parametrize("row", [(1e300, 0.0, -1e300), (np.nan, 0.0, 0.0)])
def test_waves_pass_record_and_replay(wave, row):
    """A record of any wave is replaced: what is asked later is the same, given the answers."""
    data = np.array([np.column_stack(table(seed, 400)) for seed in range(3)])
    other = data.copy()
    other[wave, 7] = row

    def call(data):
        return updated([(X[:, :2], X[:, 2]) for X in data], privacy=3.0, noise=None).results[-1]

    # the sum of all charges, of which a record pays those of its own wave
    replay(call, data, other, budget=3.0 * math.sqrt(3.0)).raise_on_leak()


def test_each_wave_is_charged_its_budget_and_no_more():
    ledgers = []
    waves = [table(seed, 2000) for seed in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        opened = Account.open_ledger
        patch.setattr(Account, "open_ledger", lambda *a: ledgers.append(opened(*a)) or ledgers[-1])
        shared = dpfast.Ledger(2.0)
        updated(waves, ledger=shared)
    assert [entry.paid.mu for entry in shared.entries] == [1.0]
    for ledger in ledgers:
        assert 1.0 - 1e-6 < ledger.spent.mu <= 1.0
    assert {e.label for e in ledgers[-1].entries} == {
        "scores of waves", "meat", "histogram of lengths"
    }  # fmt: skip


def test_a_person_in_several_waves_costs_as_many():
    waves = [table(seed, 4000) for seed in range(2)]
    one, two = (updated(waves, most=most) for most in (1, 2))
    assert math.isclose(two._mu, 0.5, rel_tol=1e-9) and two._mu <= 0.5
    noise = [series._answers[0].noise_scale / series._sums._bound for series in (one, two)]
    assert math.isclose(noise[1], 2.0 * noise[0], rel_tol=1e-3)
    assert "in each of 2 waves" in two.results[-1].pooled.privacy.relation
    assert two.results[-1].pooled.privacy.total == dpfast.GDP(1.0)


def held(runs, n, loss="least-squares"):
    """Shares of intervals that hold, of single waves and of all, where coefficients drift."""
    alone, pooled = [], []
    for seed in range(runs):
        waves, truths = [], []
        for t in range(WAVES):
            waves.append(table(1000 * seed + t, n, 0.1 * t))
            truths.append([0.1 * t, *SLOPES])
        for t, found in enumerate(updated(waves, seed, loss=loss).results):
            mean = np.mean(truths[: t + 1], axis=0)
            alone.append(np.abs(found.wave.params - truths[t]) <= 1.96 * found.wave.bse)
            pooled.append(np.abs(found.pooled.params - mean) <= 1.96 * found.pooled.bse)
    return np.mean(alone), np.mean(pooled)


def test_intervals_of_waves_and_of_all_hold():
    """Fifteen seeded series of five waves: 225 intervals each."""
    assert min(held(15, 2000)) > 0.88


@pytest.mark.slow
@pytest.mark.parametrize("n", [1500, 4000])
def test_intervals_hold_over_two_hundred_series(n):
    alone, pooled = held(200, n)
    assert 0.92 < alone < 0.98 and 0.92 < pooled < 0.98


def all_held(runs, n, waves=WAVES):
    """Share of coefficients in all their intervals: of all waves, and each on its own."""
    together, alone = [], []
    for seed in range(runs):
        series = updated([table(1000 * seed + t, n) for t in range(waves)], seed, waves=waves)
        truth = np.array([0.0, *SLOPES])[:, None]
        for found, ends in (
            (together, series.conf_int()),
            (alone, [found.pooled.conf_int() for found in series.results]),
        ):
            ends = np.array(ends)
            found.append(((ends[..., :1] <= truth) & (truth <= ends[..., 1:])).all(axis=0))
    return np.mean(together), np.mean(alone)


def test_intervals_of_all_waves_hold_together():
    """Eight seeded series: 24 coefficients, of which .95 are to hold."""
    together, alone = all_held(8, 2000)
    assert together > 0.8 and alone < together


@pytest.mark.slow
def test_intervals_of_all_waves_hold_together_in_two_hundred_series():
    together, alone = all_held(200, 1500, 8)
    assert 0.92 < together < 0.985 and alone < 0.9


def test_intervals_of_all_waves_are_shorter_than_those_of_a_part_of_alpha():
    series = updated([table(seed, 3000) for seed in range(WAVES)])
    ends = series.conf_int(alpha=0.1)
    for found, now in zip(series.results, ends, strict=True):
        assert (np.ptp(now, axis=1) < np.ptp(found.pooled.conf_int(alpha=0.02), axis=1)).all()
        assert (np.ptp(now, axis=1) > np.ptp(found.pooled.conf_int(alpha=0.1), axis=1)).all()
    earlier = updated([table(seed, 3000) for seed in range(3)], waves=WAVES).conf_int(alpha=0.1)
    assert np.allclose(earlier, ends[:3], rtol=1e-5)  # later waves change none


@pytest.mark.parametrize("waves", [1, 2, 7, 20])
def test_a_first_miss_has_the_probability_that_is_spent(waves):
    """Beside a simulation of 200,000 paths, whose standard error is .0005 at most."""
    rng, sizes = np.random.default_rng(waves), np.arange(1.0, waves + 1.0)
    moves = np.cumsum(rng.normal(size=(200_000, waves)), axis=1)
    values = (moves + rng.normal(size=moves.shape)) / np.sqrt(sizes + 1.0)
    shared = np.minimum.outer(sizes, sizes) + np.eye(waves)
    correlation = shared / np.sqrt(np.outer(sizes + 1.0, sizes + 1.0))
    spent = spent_by(0.95, waves)
    assert math.isclose(spent.sum(), 0.05, rel_tol=1e-12)
    ends = -ndtri(0.5 * error_levels(correlation, spent))
    assert math.isclose(np.mean((np.abs(values) > ends).any(axis=1)), 0.05, abs_tol=0.003)
    single = error_levels(np.eye(waves), spent)
    assert np.allclose(1.0 - np.cumprod(1.0 - single), np.cumsum(spent), atol=2e-4)


def test_incomplete_rows_of_a_later_wave_are_told_and_do_not_shrink_its_step():
    """40% of the rows of a wave whose response is 1 higher are incomplete."""
    waves = [table(seed, 4000) for seed in range(2)]
    X, y = table(2, 4000, 1.0)
    X[np.random.default_rng(0).random(4000) < 0.4, 1] = np.nan
    found = updated([*waves, (X, y)]).results
    assert not found[1].wave.warnings
    for fit in (found[2].wave, found[2].pooled):
        (told,) = [text for text in fit.warnings if "have a number" in text]
        assert told.startswith("wave 3: about 2,") and "of 4,000 records" in told
    middle = found[2].wave.predict(np.array([[0.0, 20.0]]))[0]  # exact: 1 + 20 times -.5
    assert abs(middle + 9.0) < 0.15  # by full numbers of rows it is .4 below
    together = 1.0 * 2400 / (8000 + 2400)
    assert abs(found[2].pooled.predict(np.array([[0.0, 20.0]]))[0] + 10.0 - together) < 0.1


def test_pooled_errors_of_persons_in_several_waves_allow_for_them():
    """The same rows again and again tell no more than once."""
    X, y = table(0, 6000)
    one, two = (updated([(X, y)] * 4, privacy=2.0 * most, most=most).results[-1] for most in (1, 4))
    assert (two.pooled.bse > 1.7 * one.pooled.bse).all()
    assert (two.pooled.bse > 0.9 * two.wave.bse).all()


def test_pooled_estimates_are_more_precise_than_any_wave():
    series = updated([table(seed, 4000) for seed in range(WAVES)])
    last = series.results[-1]
    assert (last.pooled.bse < 0.7 * series.results[0].pooled.bse).all()
    assert last.number == WAVES and last.pooled.n_records == WAVES * 4000


X0, Y0 = table(0, 2000)
REFUSED = {
    "one wave": (lambda: tables.Waves(1.0, waves=1), "waves"),
    "more than waves": (lambda: tables.Waves(1.0, waves=3, most=4), "most at most waves"),
    "no default fit": (lambda: tables.Waves(1.0, 3, "tukey"), "default fit"),
    "too few": (
        lambda: tables.Waves(0.01, 3).update(X0[:300], Y0[:300]),
        "too small for slopes",
    ),
    "persons": (
        lambda: tables.Waves(1.0, 3).update(dpfast.records(X0, Y0, group=Y0)),
        "group",
    ),
    "too many waves": (lambda: updated([(X0, Y0)] * 3, waves=2), "all 2 waves"),
    "other columns": (lambda: updated([(X0, Y0), (X0[:, :1], Y0)]), "columns of the first"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_waves_cannot_be_is_refused(case):
    call, message = REFUSED[case]
    with pytest.raises((InvalidInput, InvalidBudget), match=message):
        call()


def test_an_update_that_was_stopped_is_not_repeated(monkeypatch):
    """Its records may have been asked; what was released before stays."""
    ledger = Ledger(9.0)
    series = tables.Waves(3.0, waves=3, ledger=ledger, noise=dpfast.SeededNoise(0))
    series.update(*table(0, 3000))
    with monkeypatch.context() as patch:
        patch.setattr(ScoreWaves, "release", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            series.update(*table(1, 3000))
    with pytest.raises(InvalidInput, match="may not be asked for again"):
        series.update(*table(1, 3000))
    assert len(series.results) == 1 and len(ledger.entries) == 1


@pytest.mark.parametrize("stopped", ["_complete", "_fit"])
def test_intervals_of_all_waves_arrive_after_one_that_was_stopped(stopped, monkeypatch):
    series = updated([table(0, 3000), table(1, 3000)])
    before = [np.asarray(wave) for wave in series.conf_int()]
    with monkeypatch.context() as patch:
        patch.setattr(series, stopped, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            series.update(*table(2, 3000))
    after = series.conf_int()
    assert len(after) == len(series.results) == 2
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_later_error_that_fits_no_law_changes_no_earlier_level():
    spent, law = spent_by(0.95, 4), np.array([[1.0, 0.6, 0.5], [0.6, 1.0, 0.7], [0.5, 0.7, 1.0]])
    levels = error_levels(law[:2, :2], spent[:2])
    for later in (2.0, np.nan):
        broken = law.copy()
        broken[2, :2] = broken[:2, 2] = later
        np.testing.assert_array_equal(error_levels(broken, spent[:3]), [*levels, spent[2]])


def test_a_first_wave_that_was_stopped_keeps_what_it_paid_for(monkeypatch):
    ledger = Ledger(9.0)
    series = tables.Waves(3.0, waves=3, ledger=ledger, noise=dpfast.SeededNoise(0))
    monkeypatch.setattr(
        "dpfast.tables.waves._FirstWave.solve", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt) as stopped:
        series.update(*table(0, 3000))
    assert stopped.value.partial_result is not None and len(ledger.entries) == 1
    with pytest.raises(InvalidInput, match="may not be asked for again"):
        series.update(*table(0, 3000))


def test_waves_after_a_first_one_that_told_nothing_are_refused_for_free():
    series = updated([(np.full((4000, 2), np.nan), np.zeros(4000))])
    assert np.isnan(series.results[0].pooled.params).all()
    with pytest.raises(InvalidInput, match="the first wave told no coefficients"):
        series.update(X0, Y0)
    with pytest.raises(TypeError, match="not picklable"):
        pickle.dumps(series)
    assert Ledger(1.0).spent.mu == 0.0
