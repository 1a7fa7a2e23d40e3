"""Choices by value: what they cost (claim G7), and searches that make them."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.optimize import differential_evolution
from scipy.special import expit, ndtri

import dpfast
from dpfast.bayesopt import Integer, SearchSettings, Tuner, private_choice
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.noisy_release import observed
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.privacy.blackbox.sensitivity import choice_exponent, loss_steps
from dpfast.privacy.budget import PureDP
from tests.loops import each

RANGE = (0.0, 1.0)
N = 2000
CHANCE = np.random.default_rng(0).uniform(size=N)
BOUNDS = {"depth": Integer(1, 12), "rate": (0.001, 1.0, "log")}


def wrong(parameters):
    """A record is judged wrong by less than .1 at depth 4."""
    return 0.1 + 0.03 * abs(parameters["depth"] - 4) + 0.1 * abs(parameters["rate"] - 0.05) > CHANCE


class Seen:
    """The scores of the last choice."""

    def release(self, question, release, draw):
        self.scores = release.value
        return draw()


def scores_and_rate(values, mu):
    """What a choice among the values of each point, shape (points, n), would be made by."""
    room, seen = RecordValues(len(values[0]), dpfast.Ledger(mu), dpfast.SeededNoise(0)), Seen()
    with observed(seen):
        room = RecordValues(room.n, room.ledger, dpfast.SeededNoise(0))
        room.append(np.array(values, dtype=float), len(values))
        room.choice(0, *RANGE, mu)
    assert [entry.spend for entry in room.ledger.entries] == [dpfast.GDP(mu)]
    numerator, denominator = room.choice_receipt(*RANGE, mu)[1]
    return seen.scores, numerator / denominator


def law(scores, rate):
    weights = np.exp(-rate * (scores - scores.min()))
    return weights / weights.sum()


def told_apart(one, other):
    """Largest mu at which some set of outcomes tells two laws apart."""
    order = np.argsort(one / other)[::-1]
    p, q = np.cumsum(one[order])[:-1], np.cumsum(other[order])[:-1]
    return float((ndtri(p) - ndtri(q)).max())


@pytest.mark.parametrize("mu", [0.05, 0.7, 1.0, 3.0])
@pytest.mark.one_in(2)
def test_g7_no_pair_of_scores_tells_more_and_two_records_tell_as_much(mu):
    ends = [scores_and_rate([[low], [1.0 - low]], mu) for low in RANGE]
    (one, rate), (other, _) = ends
    found = told_apart(law(one, rate), law(other, rate))
    assert 0.99 * mu <= found <= mu  # 1,024 of the 1,025 steps that are charged

    def attack(x):
        scores, moves = 10.0 * x[:5] / rate, 1025.0 * x[5:]
        return -told_apart(law(scores, rate), law(scores + moves, rate))

    limits = [(0.0, 1.0)] * 5 + [(-1.0, 1.0)] * 5
    worst = differential_evolution(attack, limits, seed=0, maxiter=60, popsize=8, polish=False)
    assert -worst.fun <= mu * (1.0 + 1e-9)


@each("mu", [1e-6, 1e-3, 0.3, 0.999999, 1.0, 2.5, 8.0])
def test_g7_the_exponent_is_that_of_its_mu(mu):
    """Of its pure epsilon, half of the range of log ratios, the conversion C5 gives mu back."""
    exponent = choice_exponent(mu)
    assert PureDP(exponent).as_gdp().mu <= mu * (1.0 + 2e-11)
    assert 2.0 * ndtri(expit(exponent)) == pytest.approx(mu, rel=1e-9)
    for bad in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput):
            choice_exponent(bad)


@each("mu", [1e-6, 0.01, 0.3, 0.999999, 1.0, 2.5, 8.0, 30.0])
def test_g7_the_exponent_is_rounded_down(mu):
    """Its margin is more than the roundings of its functions, and not a rounding up."""
    with mpmath.workdps(60):
        half = mpmath.mpf(mu) / 2
        exact = mpmath.log(mpmath.ncdf(half) / mpmath.ncdf(-half))
        assert exact * (1 - mpmath.mpf(10) ** -12) <= choice_exponent(mu) <= exact


@pytest.mark.parametrize("n", [1, 9, 5000])
def test_g7_scores_of_hostile_values_move_by_their_steps(n):
    rng = np.random.default_rng(n)
    others = rng.uniform(size=(3, n))
    seen = []
    for value in (-5.0, 0.0, 0.5, 1.0, 7.0, np.nan, np.inf, -np.inf):
        others[:, 0] = value
        seen.append(scores_and_rate(others, 1.0)[0])
    allowed = RecordValues(n, dpfast.Ledger(1.0), dpfast.SeededNoise(0)).loss_grid(*RANGE)[1]
    assert 1023 <= np.ptp(seen, axis=0).max() <= allowed == 1025


@pytest.mark.parametrize("ends", [(-8e307, 8e307), (0.0, 9.0190577e-317), (1.0, 1.0)])
def test_g7_ranges_whose_steps_would_not_be_numbers_are_refused_for_free(ends):
    ledger = dpfast.Ledger(1.0)
    values = RecordValues(1529, ledger, dpfast.SeededNoise(0))
    values.append(np.zeros(1529))
    with pytest.raises(dpfast.InvalidInput, match="range of the losses"):
        values.choice(0, *ends, 0.5)
    assert not ledger.entries


def test_losses_of_right_and_wrong_are_compared_by_value():
    """Depth 4 is .03 better than its neighbours: the odds of a choice are exp(69) to 1."""
    calls = []
    found = dpfast.tune(
        wrong, BOUNDS, privacy=2.0, n_records=N, noise=dpfast.SeededNoise(0),
        progress=lambda *done: calls.append(done),
    )  # fmt: skip
    assert found.best_params["depth"] == 4
    assert calls == [(0, 25), (6, 25), (12, 25), (18, 25), (25, 25)] and found.n_evaluations <= 75
    assert sum(mu**2 for _, mu in found.privacy.entries) == pytest.approx(4.0, rel=1e-8)
    assert found.history["evaluations"].sum() == found.n_evaluations
    assert "choice by value" in found.summary() and found.warnings == ()
    same = dpfast.tune(
        lambda p: wrong(p) * 1.0, BOUNDS, privacy=2.0, n_records=N, noise=dpfast.SeededNoise(0),
        search=SearchSettings(loss_range=RANGE),
    )  # fmt: skip
    assert same.best_params == found.best_params and same.method == found.method


def test_a_search_by_value_with_a_path_resumes(tmp_path):
    what = {"privacy": 2.0, "n_records": N, "path": tmp_path / "search"}
    with pytest.raises(InvalidInput, match="loss_range"):
        dpfast.tune(wrong, BOUNDS, **what)
    what["search"] = SearchSettings(loss_range=RANGE)
    first = Tuner(BOUNDS, noise=dpfast.SeededNoise(0), **what)
    first.tell(np.array([wrong(p) for p in first.ask()], dtype=float))
    assert first.steps_paid == 1
    found = dpfast.tune(wrong, BOUNDS, noise=dpfast.SeededNoise(1), **what)
    assert found.best_params["depth"] == 4
    assert len(found.iterates) == 5 and found.lost_steps == 0
    with pytest.raises(BudgetExceeded):
        Tuner(BOUNDS, **what).ask()


def test_where_training_failed_no_point_is_chosen():
    """A region without a loss counts as wrong throughout."""
    failing = lambda p: np.full(N, np.nan) if p["depth"] < 9 else CHANCE < 0.3  # noqa: E731
    found = dpfast.tune(
        lambda p: np.asarray(failing(p), dtype=float), BOUNDS, privacy=1.0, n_records=N,
        search=SearchSettings(loss_range=RANGE), noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert found.best_params["depth"] >= 9
    losses = [np.full(N, np.nan), np.full(N, 0.9)]
    assert private_choice(lambda k: losses[k], [0, 1], loss_range=RANGE, privacy=1.0, n_records=N)


def test_a_hundred_candidates_cost_what_two_do():
    """One of a hundred is .02 better: the odds are exp(32) to 99."""
    losses = lambda k: 0.30 + 0.02 * (k != 37) > CHANCE  # noqa: E731
    what = {"loss_range": RANGE, "privacy": 1.0, "n_records": N}
    hits = sum(
        private_choice(losses, list(range(100)), noise=dpfast.SeededNoise(seed), **what) == 37
        for seed in range(10)
    )
    assert hits == 10


@pytest.mark.parametrize("n", [1, 7, 100])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.5, 4.0)])
def test_g5_steps_of_a_rounded_mean(n, low, high):
    """Largest change of the rounded mean over pairs of records, by trying phases of the grid."""
    rng = np.random.default_rng(n)
    room = RecordValues(n, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    grid = (high - low) / (n * 8.0)
    allowed = loss_steps(low, high, n, grid, depth=room.depth())
    worst = 0
    for _ in range(300):
        others = rng.uniform(low, high, size=n)
        found = []
        for value in (low - 1.0, high + 1.0):
            others[0] = value
            told = RecordValues(n, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
            told.append(others)
            found.append(round(told._mean_loss(0, middle, half) / grid))
        worst = max(worst, abs(found[0] - found[1]))
    assert allowed - 1 <= worst <= allowed == 9
