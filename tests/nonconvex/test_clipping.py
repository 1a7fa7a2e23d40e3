"""Claim K7: gradients clipped at a length that was chosen by released shares."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.nonconvex import PerRecordObjective
from dpfast.optimize import Adaptive
from dpfast.optimize.nonconvex.clip import LENGTHS_SHARE, WARN_NOISES, PrivateClip
from dpfast.privacy.nonconvex.sensitivity import mean_gradient
from dpfast.privacy.sensitivity import histogram

RNG = np.random.default_rng(2)
EDGES = np.array([0.01, 0.1, 0.3, 0.6, 1.0])
HOSTILE = [0.0, 5e-324, 1e-160, 0.05, 0.1, 0.29999, 0.3, 0.7, 1.0, 5.0, 1e308, np.inf, np.nan]


def own(function=None, lipschitz=1.0, **options):
    def record(theta, X, y):
        return theta - X

    options = {"dimension": 2, "lipschitz": lipschitz, "smoothness": 1.0} | options
    return PerRecordObjective(function or record, **options)


def curator(X, objective=None, rho=50.0, seed=0):
    records = as_records(np.array(X, dtype=float), np.zeros(len(X)))
    ledger = dpfast.Ledger(dpfast.ZCDP(rho))
    return GradientCurator(records, objective or own(), ledger, dpfast.SeededNoise(seed))


def neighbours():
    """Two records in one place, of every hostile length and three directions."""
    rows = [
        np.array([s * length, 0.0]) for length in HOSTILE for s in (1.0, -1.0)
    ]  # inf * 0 is not taken: the second entry is a number
    rows += [np.array([0.6, 0.8]) * length for length in HOSTILE]
    return rows


@pytest.mark.parametrize("clip", [1.0, 0.3, 1e-3, 1e-12])
@pytest.mark.parametrize("n", [1, 5])
def test_k7_a_clipped_mean_moves_by_the_clip_and_no_less(clip, n):
    """All pairs of records with lengths from 0 to infinity, on both sides of clip and bound."""
    rest = np.full((n - 1, 2), 0.4)
    with np.errstate(all="ignore"):
        values = [
            curator(np.vstack([rest, row]))._gradient(np.zeros(2), clip) for row in neighbours()
        ]
    found = max(np.linalg.norm(a - b) for a, b in itertools.combinations(values, 2))
    claimed = mean_gradient(clip, n, depth=100)
    assert 0.99 * claimed <= found <= claimed


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("n", [1, 7])
def test_k7_lengths_move_by_one_record_and_no_less(n, vectorized):
    """A record in one cell, be its gradient zero: the shares add up to one, as the clip expects."""

    def moody(theta, X, y):
        if (X > 4.0).any():
            raise ValueError("a record it does not like")
        return theta - X

    objective = own(moody, vectorized=vectorized)
    rest = np.full((n - 1, 2), 0.2)
    with np.errstate(all="ignore"):
        rooms = [curator(np.vstack([rest, row]), objective) for row in neighbours()]
        counts = [room._rows.norm_histogram(np.zeros(2), EDGES) for room in rooms]
    assert all(count.sum() == n and (count >= 0).all() for count in counts)
    values = [count / n for count in counts]
    found = max(np.linalg.norm(a - b) for a, b in itertools.combinations(values, 2))
    assert 0.99 * histogram(n) <= found <= histogram(n)


def test_k7_lengths_count_what_they_say():
    """Noise of standard deviation 1.4e-7: shares are exact to 1e-5, ten thousand of them apart."""
    lengths = np.array([0.005, 0.05, 0.2, 0.5, 0.9, 3.0])
    rows = np.outer(np.repeat(lengths, 1000), [0.6, 0.8])
    room = curator(rows, own(vectorized=True), rho=1e6)
    found = room.gradient_norm_histogram(np.zeros(2), EDGES, 1e5)
    np.testing.assert_allclose(found.value, [1 / 6, 1 / 6, 1 / 6, 1 / 6, 2 / 6], atol=1e-5)
    assert found.receipt.l2_sensitivity == histogram(len(rows))
    mean = room.gradient(np.zeros(2), 1e5, 0.3)
    assert mean.receipt.l2_sensitivity == pytest.approx(0.6 / len(rows), rel=1e-6)
    expected = np.minimum(np.minimum(lengths, 1.0), 0.3).mean()
    assert np.linalg.norm(mean.value) == pytest.approx(expected, abs=1e-4)


def test_k7_what_cannot_be_clipped_is_refused_before_the_charge():
    X = RNG.normal(size=(40, 2))
    built_in = dpfast.Objective("tukey", dpfast.Mallows(1.5), scale=1.0).bind(2)
    ledger = dpfast.Ledger(dpfast.ZCDP(1.0))
    records = as_records(X, X[:, 0])
    room = GradientCurator(records, built_in, ledger, dpfast.SeededNoise(0))
    theta = np.zeros(built_in.dimension)
    with pytest.raises(dpfast.InvalidInput, match="weights' bound"):
        room.gradient(theta, 0.1, 0.1)
    with pytest.raises(dpfast.InvalidInput, match="weights' bound"):
        room.gradient_norm_histogram(theta, EDGES, 0.1)
    own_room = curator(X)
    for clip in (0.0, -1.0):
        with pytest.raises(dpfast.InvalidInput, match="positive"):
            own_room.gradient(np.zeros(2), 0.1, clip)
    assert not ledger.entries
    assert not own_room.ledger.entries


@pytest.mark.parametrize("privacy", [dpfast.ZCDP(0.1), dpfast.GDP(0.7), dpfast.ApproxDP(1.0, 1e-5)])
@pytest.mark.one_in(2)
def test_k7_a_run_costs_its_gradients_and_its_lengths(privacy):
    """Exactly, in rational arithmetic on the decimals that were charged."""
    X = 0.1 * RNG.normal(size=(2000, 2))
    result = dpfast.minimize(
        X, np.zeros(2000), own(vectorized=True), privacy=privacy, start=[0.5, 0.5],
        noise=dpfast.SeededNoise(1),
    )  # fmt: skip
    labels = [label for label, _ in result.privacy.entries]
    clips = result.rounds[-1]["clips"]
    assert labels.count("gradient lengths") == len(clips) >= 3
    assert labels.count("gradient") == result.rounds[-1]["steps"]
    spent = sum(Fraction(repr(mu)) ** 2 for _, mu in result.privacy.entries)
    total = result.privacy.total
    limit = (
        2 * Fraction(repr(total.rho)) if hasattr(total, "rho") else Fraction(repr(total.mu)) ** 2
    )
    assert Fraction(1 - 1e-6) * limit <= spent <= limit
    on_lengths = sum(
        Fraction(repr(mu)) ** 2
        for label, mu in result.privacy.entries
        if label == "gradient lengths"
    )
    assert on_lengths <= Fraction(LENGTHS_SHARE + 1e-4) * limit


def clip_of(shares, budget, previous=(), n=1000):
    """The clip that is chosen by exact shares, after others."""
    clip = PrivateClip(curator(np.zeros((n, 2)), own(vectorized=True), rho=budget), budget, True)
    for lengths in (*previous, shares):
        cells = np.zeros(len(clip._edges))
        for length, share in lengths.items():
            cells[np.searchsorted(clip._edges, length)] += share
        clip._choose(cells)
        clip.path.append((0.0, clip.value))
    return clip.value


def test_a_clip_is_where_it_costs_least():
    """Of nine short gradients in ten: with the budget, ever less is taken from the longest."""
    lengths = {0.02: 0.9, 0.9: 0.1}
    found = [clip_of(lengths, budget) for budget in (0.3, 1.0, 10.0)]
    assert found == sorted(found)
    assert found[0] < 0.95
    assert found[-1] == pytest.approx(1.0, abs=0.01)
    # so few that they are not seen: the noise of a clip for them would cost more
    assert clip_of(lengths, 0.1) < 0.05
    assert clip_of({0.02: 1.0}, 100.0) < 0.05


@pytest.mark.parametrize("empty", [0.0, 0.5])
def test_a_clip_is_not_below_a_quantile_of_lengths_however_noisy(empty):
    """Long tails of 20 parameters at n mu = 270: the median clip is near the 80% quantile.

    Of 40 seeded histograms; by noise and bias alone it is .7 of that.  Gradients of
    zero do not count.
    """

    def room(n):
        return curator(np.zeros((n, 20)), own(vectorized=True, dimension=20))

    rng = np.random.default_rng(3)
    lengths = np.exp(-4.0 + rng.normal(size=100_000))
    target = float(np.quantile(lengths, 0.8))
    rich = PrivateClip(room(100_000), 4.0, True)
    cells = np.searchsorted(rich._edges[:-1], lengths)
    shares = np.bincount(cells, minlength=32) / 100_000 * (1.0 - empty)
    shares[0] += empty
    clips, decided = [], 0
    for noise in rng.normal(size=(40, 32)):
        clip = PrivateClip(room(915), 0.045, True)
        clip._choose(shares + clip._noise * noise)
        clips.append(clip.value / target)
        decided += any("is rough" in remark for remark in clip.remarks())
    assert (0.3 if empty else 0.85) < np.median(clips) < 3.0
    assert decided > 15
    rich._choose(shares)
    assert rich.value > 3.0 * target
    assert rich.remarks() == []


@pytest.mark.parametrize(
    ("lengths", "warns"),
    [({0.02: 0.96, 0.9: 0.04}, True), ({0.02: 0.7, 0.9: 0.3}, False), ({0.2: 1.0}, False)],
    ids=["few are long", "many are long", "alike"],
)
def test_a_run_warns_where_the_bias_of_a_clip_may_exceed_its_noise(lengths, warns):
    """Exact shares of 64 parameters, n mu = 3,200: the clip takes half of few long gradients.

    Where many are long it stays with the longest, and where none is there is no bias.
    """
    target = own(vectorized=True, dimension=64)
    clip = PrivateClip(curator(np.zeros((10_000, 64)), target, rho=0.05), 0.05, True)
    cells = np.zeros(len(clip._edges))
    for length, share in lengths.items():
        cells[np.searchsorted(clip._edges, length)] += share
    clip._choose(cells)
    assert bool(clip.remarks()) == warns
    ratio = clip.bias / clip.noise
    assert ratio > WARN_NOISES + 1.0 if warns else ratio < WARN_NOISES - 1.0
    if warns:
        assert f"about {clip.bias:.2g} if" in clip.remarks()[0]
        assert clip.bias == pytest.approx(0.04 * (clip.longest - clip.value), rel=0.1)


def test_a_clip_remembers_the_longest_gradients():
    """Where they are gone, too few to be seen may be as long as they were."""
    short, long = {0.02: 1.0}, {0.9: 1.0}
    alone, after = clip_of(short, 1.0), clip_of(short, 1.0, (long,))
    assert 2.0 * alone < after < 0.9


def test_a_clip_does_not_rise_where_lengths_become_too_short_to_be_seen():
    """The sum of 32 cells is mostly noise, but it is known: every gradient is in one of them."""
    room, rose = curator(np.zeros((2000, 2)), own(vectorized=True), rho=0.02), 0
    for noises in RNG.normal(size=(50, 8, 32)):
        clip = PrivateClip(room, 0.02, True)
        for cell, noise in zip((22, 20, 15, 10, 5, 3, 2, 1), noises, strict=True):
            clip._choose((np.arange(32) == cell) + clip._noise * noise)
            clip.path.append((0.0, clip.value))
        rose += clip.longest > clip._edges[22]
    assert rose <= 1


def test_lengths_are_released_when_it_is_time():
    room = curator(0.1 * RNG.normal(size=(1000, 2)), own(vectorized=True), rho=1.0)
    clip = PrivateClip(room, 1.0, True)
    assert clip.value == 1.0
    assert clip.renew(np.zeros(2), 0.0) > 0.0
    assert clip.value < 0.6
    assert clip.renew(np.zeros(2), 0.0) == 0.0
    assert clip.renew(np.zeros(2), 0.5) > 0.0


@pytest.mark.parametrize("part", [0.9, 1.1])
def test_nothing_is_asked_where_nothing_could_be_read(part):
    """On both sides of the noise by which all gradients, in the middle cell, would be 4 sds."""
    rho = part * 8.0 * 16.0 / (0.02 * 50**2)  # with few records a release is dear
    room = curator(RNG.normal(size=(50, 2)), own(vectorized=True), rho=rho)
    clip = PrivateClip(room, rho, True)
    asked = clip.renew(np.zeros(2), 0.0)
    assert asked == (0.0 if part < 1.0 else pytest.approx(0.02 * rho))
    assert len(room.ledger.entries) == (asked > 0.0)
    assert clip.value == 1.0 or asked


@pytest.mark.slow
def test_a_private_clip_beats_a_bound_that_is_far_too_large_and_says_so():
    """Means over 3 seeds; without a clip the noise is 2,000 times as long."""
    X = np.array([0.3, -0.2]) + 0.2 * RNG.normal(size=(3000, 2))
    best = X.mean(axis=0)

    def mean_error(lipschitz, **options):
        options = {"privacy": dpfast.ZCDP(0.1), "method": Adaptive(**options)}
        target = own(vectorized=True, lipschitz=lipschitz)
        results = [
            dpfast.minimize(X, X[:, 0], target, noise=dpfast.SeededNoise(s), **options)
            for s in range(3)
        ]
        return np.mean([np.linalg.norm(r.params - best) for r in results]), results[0].warnings

    honest, silent = mean_error(1.0)
    loose, warned = mean_error(2000.0)
    unclipped, _ = mean_error(2000.0, clip=None)
    assert loose < 3.0 * honest + 0.01
    assert unclipped > 10.0 * loose
    assert silent == ()
    assert "times too large" in warned[0]


def test_clips_are_checked_and_may_be_public():
    for wrong in ("quantile", 0.0, -1.0, float("nan"), True):
        with pytest.raises(dpfast.InvalidInput):
            Adaptive(clip=wrong)
    X = 0.1 * RNG.normal(size=(500, 2))
    options = {"privacy": dpfast.ZCDP(0.1), "noise": dpfast.SeededNoise(0)}
    fixed = dpfast.minimize(X, X[:, 0], own(vectorized=True), method=Adaptive(clip=0.2), **options)
    assert "gradient lengths" not in [label for label, _ in fixed.privacy.entries]
    assert "clips" not in fixed.rounds[-1]
    assert "clip=0.2" in fixed.method
