"""Histograms of lengths: what is told of cells that do not stand out counts, too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi, t

import dpfast
from dpfast.solvers.pcn.clipping import choose_clipping_norm
from dpfast.solvers.pcn.histogram import FINE, N_FINE_BINS, NormHistogram, bin_edges
from dpfast.solvers.pcn.weights import choose_weight_exponent
from tests.loops import each

N, NOISE = 30_000, 35.0 / 30_000
TOPS = bin_edges(1)
LONGER = np.geomspace(1.1, 3.0, 40)


def shares_of(spread: float) -> np.ndarray:
    """Of lengths of normal vectors in three dimensions."""
    below = chi.cdf(TOPS / spread, 3)
    return np.diff(below, prepend=0.0)


@pytest.mark.parametrize("spread", [2.25, 2.3, 4.5])
def test_a_cell_that_is_missed_by_chance_does_not_widen_the_bound(spread):
    """200 histograms with noise, seeded: the last octave holds about as many of 30,000 records as
    show, 192, so that some miss it; without what was told of it bounds are to 1.5 times wider."""
    rng, shares = np.random.default_rng(3), shares_of(spread)
    exact = choose_clipping_norm(NormHistogram.from_noisy_shares(shares, 0.0, 1), 2e-4, 3)[0]
    longest, bounds = set(), []
    for _ in range(200):
        found = NormHistogram.from_noisy_shares(
            shares + NOISE * rng.standard_normal(len(shares)), NOISE, 1
        )
        longest.add(found.longest)
        bounds.append(choose_clipping_norm(found, 2e-4, 3)[0])
    assert len(longest) == 2
    assert max(bounds) <= 1.3 * exact


def test_without_noise_a_tail_ends_where_records_do():
    lengths = NormHistogram.from_noisy_shares(shares_of(1.0), 0.0, 1)
    assert lengths.tail(np.array([lengths.longest]))[0] < 1e-9


def histogram_of(octaves, noise=0.0):
    """Of three detected octaves up to 8, and what is beyond."""
    tops, shares = TOPS[7:10], np.array([0.8, *octaves[:2]])
    return NormHistogram(shares, tops, tops * 2.0**-0.5, 0.0, np.array(octaves), noise, False)


def test_tails_without_noise_are_what_is_beyond():
    octaves = np.array([0.16, 0.032, 0.0064, 0.00128, 0.0, 0.0, 0.0, 0.0])
    norms, shares, deviations = histogram_of(octaves).extrapolate_tail()
    beyond = shares.reshape(-1, 8).sum(axis=1)[-6:]
    np.testing.assert_allclose(beyond, octaves[2:], atol=1e-9)
    assert (np.diff(norms) > 0.0).all() and deviations.max() < 1e-9


def test_tails_that_noise_hides_fall_as_what_is_seen():
    """Slowly where the last octaves do; noise beyond them of the size of a share tells little."""
    hidden = np.zeros(6)
    slow = histogram_of([0.1, 0.05, *hidden], 0.02).tail(np.array([4.0]))[0]
    fast = histogram_of([0.4, 0.05, *hidden], 0.02).tail(np.array([4.0]))[0]
    assert slow > 1.5 * fast
    doubt = histogram_of([0.1, 0.05, *hidden], 0.02).extrapolate_tail()[2].sum()
    assert doubt > 3.0 * histogram_of([0.1, 0.05, *hidden], 0.002).extrapolate_tail()[2].sum()


@each("index", [1.5, 3.0])
def test_the_expected_tail_is_that_of_heavy_tailed_norms(index):
    """400 histograms with noise, seeded: Pareto norms, of which the noise hides what is beyond 8.

    The expected excess over the last detected octave is a third of the true one, in the median:
    tails that end sooner are as likely before.
    """
    rng, ratios = np.random.default_rng(5), []
    shares = np.diff(np.where(TOPS > 1.0, 1.0 - np.maximum(TOPS, 1.0) ** -index, 0.0), prepend=0.0)
    for _ in range(400):
        noisy = shares + NOISE * rng.standard_normal(len(shares))
        seen = NormHistogram.from_noisy_shares(noisy, NOISE, 1)
        true = seen.longest ** (1.0 - index) / (index - 1.0)
        ratios.append(seen.tail(np.array([seen.longest]), N)[0] / true)
    assert 0.25 < np.median(ratios) < 1.2


@each("mu", [1.0, 4.0, 100.0])
def test_a_last_bound_is_the_best_for_scores_that_nobody_saw(mu):
    """With a third moment half as large as that of others, at the worst place, and .4 of them bias:
    its noise is a part of sampling that falls with the budget and with the records."""
    parts = []
    for n in (10_000, 1_000_000):
        per_bound, seen = (
            2.0 / (n * mu),
            NormHistogram.from_noisy_shares(shares_of(1.0), 1.0 / n, 1),
        )
        third = 0.5 * float(seen.shares @ seen.midpoints**3)

        def error(bound, per_bound=per_bound, third=third):
            worst = max(third * (length - bound) / length**3 for length in bound * LONGER)
            return 3.0 * (bound * per_bound) ** 2 + (0.4 * worst) ** 2

        bounds = np.geomspace(1.0, 1e4, 4000)
        best = bounds[np.argmin([error(bound) for bound in bounds])]
        bound = choose_clipping_norm(seen, per_bound, 3, n=n)[0]
        usual = choose_clipping_norm(seen, per_bound, 3)[0]
        assert bound == pytest.approx(max(best, usual), rel=0.01)
        parts.append(3.0 * (bound * per_bound) ** 2 / (seen.mean_square(np.inf) / n))
    assert parts[1] < 0.5 * parts[0] and parts[0] < 0.15 / mu


def test_the_bias_of_a_bound_is_the_expected_excess_and_half_of_its_doubt():
    lengths = histogram_of([0.1, 0.05, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0], 0.01)
    bound, bias = choose_clipping_norm(lengths, 0.02, 2)
    norms, shares, deviations = lengths.extrapolate_tail()
    excess, doubt = (np.maximum(norms - bound, 0.0) @ part for part in (shares, deviations))
    assert bias == pytest.approx(np.hypot(excess, 0.5 * doubt), rel=1e-9)
    assert doubt > 0.5 * excess


def test_how_far_a_loss_bends_is_told_by_what_squares_are_of_not_by_the_longest():
    """Of normal rows their usual length; of few long ones as much more as these tell of a step."""
    rows = np.linalg.norm(np.random.default_rng(0).normal(size=(10_000, 9)), axis=1)
    cells = np.searchsorted(TOPS[:-1], rows)
    usual = NormHistogram.from_noisy_shares(
        np.bincount(cells, minlength=len(TOPS)) / 10_000, 1e-4, 1
    )
    exact = (rows**3).mean() / (rows**2).mean()
    assert abs(usual.mean_of_squares() / exact - 1.0) < 0.15
    middles = np.array([1.0, 100.0])
    few = NormHistogram(np.array([0.99, 0.01]), middles, middles, 0.0)
    assert few.mean_of_squares() == pytest.approx((0.99 + 1e4) / (0.99 + 100.0))


def test_scores_of_so_few_rows_that_all_may_be_hidden_are_not_taken_to_be_short():
    """100 of 100,000 rows may have scores of 64, and none longer than 8 is seen.

    Where noise would hide half of them in an octave the bound is 41 (35 if they were taken to be
    short ones anyway), and where it would hide a tenth 33.
    """
    tops, n, bounds = bin_edges(1), 100_000.0, []
    shares = np.where(tops == 4.0, 0.9, np.where(tops == 8.0, 0.1, 0.0))
    for hidden in (50.0, 10.0):
        scores = NormHistogram.from_noisy_shares(shares, hidden / 5.5 / n, 1)
        rows = NormHistogram.from_noisy_shares(
            shares + np.where(tops == 64.0, 100.0 / n, 0.0), 1e-6, 1
        )
        bounds.append(choose_clipping_norm(scores, 2e-5, 5, foreseen=rows, n=n)[0])
    assert bounds[0] > 38.0 and bounds[1] < 35.0


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.6])
def test_a_window_is_as_dense_as_a_narrow_one_tells_it(ratio):
    """A quarter as wide; noise of which nothing is told leaves it as dense as around it."""
    broad = NormHistogram.from_noisy_shares(shares_of(1.0), 0.0, 1)
    others = ratio * shares_of(1.0) / 4.0
    assert broad.density_ratio(others, 0.0, 1, 4.0) == pytest.approx(ratio)
    part = broad.density_ratio(others, 1e-3, 1, 4.0)
    assert min(1.0, ratio) < part < max(1.0, ratio)
    assert broad.density_ratio(others, 1e3, 1, 4.0) == pytest.approx(1.0)


def test_no_window_is_denser_than_all_around_it():
    broad, none = NormHistogram.from_noisy_shares(shares_of(1.0), 0.0, 1), np.zeros(len(TOPS))
    assert broad.density_ratio(none, 0.0, 1, 4.0) == 0.25
    assert broad.density_ratio(shares_of(1e3), 0.0, 1, 4.0) == 0.25  # longer ones are not counted
    assert broad.density_ratio(9.0 * shares_of(1.0), 0.0, 1, 4.0) == 4.0


def test_windows_of_which_nothing_is_seen_are_as_dense_as_any():
    """What was paid for arrives: of nothing but noise below zero, and of lengths of any size."""
    nothing = NormHistogram.from_noisy_shares(np.full(len(TOPS), -1e-3), 1e-3, 1)
    far = NormHistogram.from_noisy_shares(np.eye(len(TOPS))[-1], 0.0, 1)
    for shares in (np.full(len(TOPS), -1e-3), np.zeros(len(TOPS)), np.full(len(TOPS), 1e300)):
        for seen in (nothing, far):
            for noise in (0.0, 1e-300, 1e-3, 1e200):
                for times in (1.0, 1.5, 1e60):
                    with np.errstate(all="ignore"):
                        found = seen.density_ratio(shares, noise, 1, times)
                    assert 1.0 / times <= found <= times * (1.0 + 1e-12)


def test_errors_of_a_far_quantile_are_those_of_the_density_there():
    """Seeded: twelve fits of level .9 and t(3) errors are 1.00 times the asymptotic ones, each with
    a noise of 11%; .77 where the density is that of a window three times as broad."""
    n, errors, found = 20_000, t(3), []
    exact = (3.0 * 0.09 / n) ** 0.5 / errors.pdf(errors.ppf(0.9))
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1.0, 1.0, size=(n, 2))
        y = X @ [1.0, -0.5] + errors.rvs(size=n, random_state=rng)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(X, y, dpfast.Quantile(0.9), privacy=1.0, noise=noise)
        found.append(fit.bse[1:] / exact)
    assert 0.88 < np.mean(found) < 1.2


@pytest.mark.parametrize(("p", "exponent"), [(100, 0.0), (101, 1.0)])
def test_rows_of_many_normal_columns_keep_their_weight(p, exponent):
    """Rows about as long as the radius do; a tenth of them, four times as long, do not."""
    norms = np.sqrt(np.random.default_rng(0).chisquare(p, 20_000))
    norms[: 2_000 * (exponent > 0.0)] *= 4.0
    counts = np.bincount(np.searchsorted(bin_edges(FINE)[:-1], norms), minlength=N_FINE_BINS)
    histogram = NormHistogram.from_noisy_shares(counts / len(norms), 1e-6, FINE)
    radius = 1.1 * p**0.5
    assert histogram.mean_excess(radius, 0.0) > 1.0
    assert choose_weight_exponent(histogram, radius, 1.0) == exponent
