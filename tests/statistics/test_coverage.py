"""Intervals at a total budget of mu = 1 cover, and are not much wider than without privacy.

Design of paper 1, section 3.2.1, sigma known: 10,000 simulated fits in the slow suite, so that the
standard error of a coverage near 0.945 is 0.0023.  The bands are wide enough that, with the
coverage measured in ``bench/results/coverage.md`` (0.944 to 0.950), each assertion fails by chance
with probability below 1e-6 (more than five standard errors); a coverage of 0.915, which dropping
the privacy noise from the standard errors would give or undercut, is caught with probability above
1 - 1e-6.  The first 250 of them, seeded alike, say whether that noise is in the standard errors,
which vary little, and whether they are as wide as the paper's.
"""

import numpy as np
import pytest

import dpfast
from dpfast.models import Mallows, Objective, resolve_loss

TRUTH = np.ones(4)
LOSS = dpfast.Objective("log-cosh", dpfast.Mallows(2**0.5), scale=2.0)


def draw(seed, n=1000):
    rng = np.random.default_rng([seed, 7])
    X = 2.0 * rng.normal(size=(n, 3))
    return X, 1.0 + X.sum(axis=1) + 2.0 * rng.normal(size=n)


def simulated(count):
    """Errors and standard errors of so many fits."""
    rows = []
    for seed in range(count):
        X, y = draw(seed)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(dpfast.records(X, y, threads=1), None, LOSS, privacy=1.0, noise=noise)
        rows.append(np.concatenate([fit.params - TRUTH, fit.bse]))
    return np.split(np.array(rows), 2, axis=1)


@pytest.fixture(scope="module")
def few():
    return simulated(250)


@pytest.fixture(scope="module")
def fits():
    return simulated(10_000)


@pytest.mark.slow
def test_coverage_of_every_coefficient(fits):
    error, bse = fits
    assert np.linalg.norm(error, axis=1).max() < np.linalg.norm(TRUTH)
    coverage = (np.abs(error) <= 1.959964 * bse).mean(axis=0)
    assert (coverage >= 0.93).all() and (coverage <= 0.97).all(), coverage


@pytest.mark.slow
def test_standard_errors_match_the_spread(fits):
    """Mean squared standard error within 8% of the variance (its own error: 1.4%)."""
    error, bse = fits
    ratio = (bse**2).mean(axis=0) / (error**2).mean(axis=0)
    assert (np.abs(ratio - 1.0) <= 0.10).all(), ratio


def test_privacy_noise_is_a_visible_part_of_the_standard_error(few):
    """The check above would catch a missing noise term: it is over 10% of it."""
    objective = Objective(resolve_loss("log-cosh"), Mallows(2**0.5), 3, scale=2.0)
    X, y = draw(0)
    plain = dpfast.nonprivate_fit(X, y, LOSS)
    private_variance = (few[1] ** 2).mean(axis=0)
    assert (private_variance >= 1.1 * plain.bse**2).all()
    assert objective.score_bound == pytest.approx(1.345 * 2**0.5)


def test_width_is_at_most_1_3_times_the_nonprivate(few):
    plain = [dpfast.nonprivate_fit(*draw(seed), LOSS).bse for seed in range(60)]
    assert (few[1].mean(axis=0) <= 1.3 * np.mean(plain, axis=0)).all()


def test_no_fit_ends_further_from_the_truth_than_it_started(few):
    assert np.linalg.norm(few[0], axis=1).max() < np.linalg.norm(TRUTH)
