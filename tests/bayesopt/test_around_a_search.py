"""A clip that is bought, and a choice between searches: paid once, refused before the charge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import RBF, SearchSettings, private_choice, private_clip
from dpfast.bayesopt.search import Search
from dpfast.bayesopt.settings import resolve_settings
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.errors import BudgetExceeded, DpfastWarning, InvalidInput
from tests.loops import each

N, BOX = 2000, [(-1.0, 1.0)] * 3
X = np.random.default_rng(0).normal(0.3, 0.2, size=(N, 3))


def losses(theta):
    return ((X - theta) ** 2).sum(axis=1)


def lengths(function):
    """Norms of the gradients that the first step of a search would clip."""
    settings = resolve_settings(BOX, 1.0, 1, None)
    first = Search(settings)
    points = first.batch()
    told = np.array([function(point) for point in settings.box.from_unit(points)])
    first.add(points)
    return np.linalg.norm(first.weights().T @ told, axis=0)


@each("factor", [1e-4, 1.0, 1e4])
@each("share", [0.5, 0.8])
def test_it_is_that_quantile_of_the_first_gradients(factor, share):
    """A share's noise is sqrt(10)/(2000 mu) = 4e-4 at mu = 4: five of them, in either direction,
    fail with probability 1e-6 in ten halvings."""

    def scaled(theta):
        return factor * losses(theta)

    noise = dpfast.SeededNoise(1)
    clip = private_clip(scaled, BOX, privacy=4.0, n_records=N, share=share, noise=noise)
    low, high = np.quantile(lengths(scaled), [share - 0.002, share + 0.002])
    grid = 10.0 ** (12.0 / 2**10)
    assert low / grid <= clip <= high * grid


@pytest.mark.slow
def test_a_search_with_it_is_nearly_as_good_as_with_the_best_and_ten_times_better_than_without():
    """Mean squared distance from the minimum over 20 seeds at mu = 0.2; a clip that is ten times
    the median is 40 times worse in the long run (bench of the documentation)."""
    best, bought, long = [], [], []
    median = float(np.median(lengths(losses)))
    for seed in range(20):
        noise = dpfast.SeededNoise(seed)
        ledger = dpfast.Ledger(dpfast.GDP(0.2))
        clip = private_clip(losses, BOX, privacy=0.05, n_records=N, ledger=ledger, noise=noise)
        options = {"n_records": N, "steps": 10, "noise": noise}
        for found, length, budget in (
            (bought, clip, ledger.remaining),
            (best, median, 0.2),
            (long, 10.0 * median, 0.2),
        ):
            theta = dpfast.tune(losses, BOX, privacy=budget, clip=length, **options).theta
            found.append(np.sum((theta - X.mean(axis=0)) ** 2))
    assert np.mean(bought) < 3.0 * np.mean(best)
    assert np.mean(bought) < 0.1 * np.mean(long)


def test_a_clip_of_flat_losses_is_not_returned_in_silence():
    """A share of one beside .5 with noise of .002 in ten halvings: certain."""
    flat = np.full(N, 0.5)
    with pytest.warns(DpfastWarning, match="loss_range"):
        clip = private_clip(lambda theta: flat, BOX, privacy=1.0, n_records=N, share=0.5)
    assert clip < 1.02e-6


@pytest.mark.parametrize(
    ("word", "told"), [("maximize", "minus"), ("n_trials", "steps=25"), ("callbacks", "progress=")]
)
def test_words_of_other_searches_are_answered(word, told):
    with pytest.raises(TypeError, match=f"has no argument '{word}'. Write .*{told}"):
        dpfast.tune(losses, BOX, privacy=1.0, n_records=N, **{word: 3})


def test_one_charge_pays_for_it_and_the_rest_is_left():
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    private_clip(losses, BOX, privacy=0.6, n_records=N, ledger=ledger)
    assert [entry.label for entry in ledger.entries] == ["private_clip(n=2000, share=0.95)"]
    assert ledger.remaining.mu == pytest.approx(0.8)


def test_nothing_is_spent_on_what_is_refused():
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    options = {"privacy": 0.5, "n_records": N, "ledger": ledger}
    for wrong in ({"share": 1.0}, {"share": math.nan}, {"n_records": 7}, {"search": 3}):
        with pytest.raises(InvalidInput):
            private_clip(losses, BOX, **options | wrong)
    with pytest.raises(InvalidInput):
        private_clip(lambda theta: 1.0, BOX, **options)
    with pytest.raises(InvalidInput):
        private_clip(None, BOX, **options)
    with pytest.raises(BudgetExceeded):
        private_clip(losses, BOX, **options | {"privacy": 2.0})
    assert ledger.entries == ()


@pytest.mark.filterwarnings("ignore:private_clip returned")
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e308, -1e308, 0.0])
def test_any_losses_have_a_clip(value):
    found = private_clip(lambda theta: np.full(N, value), BOX, privacy=1.0, n_records=N)
    assert 1e-6 <= found <= 1e6


def test_c46_one_record_moves_a_share_of_lengths_by_one_of_n_and_no_more():
    """Attack: one record's losses become anything; both shares without noise."""
    rng = np.random.default_rng(2)
    n, largest = 20, 0.0
    for _ in range(200):
        told = rng.normal(size=(4, n)) * 10.0 ** rng.uniform(-3, 3, size=n)
        other = told.copy()
        other[:, 3] = rng.choice([0.0, 1.0, 1e300, np.nan, np.inf], 4) * rng.normal(size=4)
        weights = rng.normal(size=(4, 3))
        threshold = 10.0 ** rng.uniform(-3, 3)
        shares = []
        for values in (told, other):
            room = RecordValues(n, dpfast.Ledger(dpfast.GDP(1.0)), dpfast.SeededNoise(0))
            room.append(values, 4)
            found = room.norms(weights)
            below = np.count_nonzero(found._values <= threshold)
            counted = n - np.count_nonzero(np.isnan(found._values))
            shares.append((below - 0.5 * counted) / n)
        largest = max(largest, abs(shares[0] - shares[1]))
    assert 0.99 / n <= largest <= found.receipt(0.5).l2_sensitivity


def test_settings_of_the_search_decide_the_units():
    """A side of the box is one unit by default; without, gradients are per unit of theta."""
    options = {"privacy": 9.0, "n_records": N, "noise": dpfast.SeededNoise(0)}
    in_theta = SearchSettings(units="theta", covariance=RBF(0.5))
    box = private_clip(losses, BOX, **options)
    theta = private_clip(losses, BOX, **options, search=in_theta)
    assert box == pytest.approx(2.0 * theta, rel=0.2)


# ---- a choice between searches -------------------------------------------------------------------

WHAT = {"loss_range": (0.0, 4.0), "n_records": N}


def test_the_best_is_chosen_where_the_noise_allows_it():
    """Means .12, .36 and .75 apart by 13 deviations of the noise at mu = 1 and more."""
    places = [np.full(3, 0.8), np.full(3, 0.3), np.full(3, 0.0)]
    assert private_choice(losses, places, privacy=1.0, **WHAT) == 1


def test_no_candidate_is_preferred_by_its_place():
    """300 choices between three alike: each is chosen 100 times, +- 41 at a false failure of 1e-6
    (five standard deviations); power above .999 for one that has a chance of .6."""
    places = [np.full(3, 0.3)] * 3
    found = [
        private_choice(losses, places, privacy=0.1, **WHAT, noise=dpfast.SeededNoise(seed))
        for seed in range(300)
    ]
    assert (np.abs(np.bincount(found, minlength=3) - 100) <= 41).all()


def test_a_choice_is_one_charge_and_refused_before_it():
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    options = {"privacy": 0.5, "ledger": ledger} | WHAT
    places = [np.zeros(3), np.ones(3)]
    for wrong in ({"loss_range": (1.0, 0.0)}, {"loss_range": 3}, {"n_records": 7}, {"privacy": 2}):
        with pytest.raises((InvalidInput, BudgetExceeded)):
            private_choice(losses, places, **options | wrong)
    for nothing in ([], 7, None):
        with pytest.raises(InvalidInput, match="candidates"):
            private_choice(losses, nothing, **options)
    for i, wrong in enumerate((["a", "a"], [np.zeros(3), "a"], [np.zeros(3), np.zeros(3), None])):
        with pytest.raises(InvalidInput, match=rf"losses raised \w+ for candidates\[{i}\]"):
            private_choice(losses, wrong, **options)
    with pytest.raises(InvalidInput, match="one value per validation record"):
        private_choice(lambda n: np.zeros(n), [2000, 7], **options)
    assert ledger.entries == ()
    private_choice(losses, places, **options)
    assert [entry.label for entry in ledger.entries] == ["private_choice(n=2000, of 2)"]


def test_a_result_has_its_history_and_says_when_noise_led():
    x = np.random.default_rng(0).normal(1.0, 0.3, size=(2000, 3))

    def losses(theta):
        return np.sum((x - theta) ** 2, axis=1)

    told = {"privacy": 1.0, "n_records": 2000, "steps": 9, "noise": dpfast.SeededNoise(0)}
    found = dpfast.tune(losses, [(-2.0, 2.0)] * 3, clip=20.0, **told)
    assert found.warnings == () and found.best_params is found.parameters
    history = found.history
    assert {len(column) for column in history.values()} == {9}
    np.testing.assert_array_equal(history["theta2"], found.iterates[1:, 1])
    np.testing.assert_allclose(history["gradient"], np.linalg.norm(found.gradients, axis=1))
    lost = dpfast.tune(losses, [(-2.0, 2.0)] * 3, clip=1e4, **told)
    assert any("none of the first 3" in text for text in lost.warnings)
    assert "none of the first 3" in lost.summary()
    crashed = found._replace(lost_steps=2)
    assert any("2 steps were paid for" in text for text in crashed.warnings)


@pytest.mark.parametrize("edge", [0.1, np.inf], ids=["a part fails", "none fails"])
def test_what_share_of_the_losses_failed_is_said(edge):
    x = np.random.default_rng(0).normal(-0.2, 0.1, size=(2_000, 2))

    def losses(theta):
        return np.where(theta[0] > edge, np.nan, np.sum((x - theta) ** 2, axis=1))

    found = dpfast.tune(
        losses, [(-1.0, 1.0)] * 2, privacy=2.0, n_records=2_000, clip=4.0,
        search=SearchSettings(start=np.array([0.05, 0.5])), noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    share = np.mean(found.points[:, 0] > edge)
    told, noise = found.failed
    assert abs(told - share) < 4.0 * noise < 0.03
    assert any("% of the losses were not" in said for said in found.warnings) == (edge < np.inf)
    assert np.abs(found.theta - x.mean(axis=0)).max() < 0.2
    assert found.privacy.entries[-1][0] == "share that failed"
    assert sum(mu**2 for _, mu in found.privacy.entries) <= 4.0
