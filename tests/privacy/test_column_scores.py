"""Attacks on claim C106: choices of columns by their scores."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

import dpfast
from dpfast.curator.column_scores import (
    BLOCK,
    COLUMN_CLIP,
    ColumnScores,
    Model,
    choice_receipt,
    to_steps,
)
from dpfast.data.scaling.units import ReleasedScales
from dpfast.data.source import as_records
from dpfast.models import LeastSquares
from dpfast.privacy import EntropyNoise
from dpfast.privacy.blackbox.sensitivity import SCORE_STEPS, choice_exponent, score_steps
from dpfast.regression import fit_sparse
from tests.loops import each

NULL = Model(None, (), LeastSquares(), np.zeros(1))
HOSTILE = (0.0, 1e300, -1e300, np.nan, np.inf, -np.inf, COLUMN_CLIP, -COLUMN_CLIP, 5e-324)


def scores_of(X, y, noise=None, mu=1.0):
    q = X.shape[1]
    units = ReleasedScales(np.zeros(q), np.ones(q), (0.0, 1.0))
    noise = dpfast.SeededNoise(0) if noise is None else noise
    return ColumnScores(as_records(X, y), units, dpfast.Ledger(dpfast.GDP(mu)), noise)


def sizes_of(X, y, model=NULL, bound=1.0):
    scores = scores_of(X, y)
    return np.abs(scores._scores(scores._residuals(model), bound))


def test_c106_no_record_moves_a_score_by_more_than_its_steps():
    rng = np.random.default_rng(0)
    model = Model(None, (0, 2), LeastSquares(), np.array([0.3, -2.0, 1e10]))
    X, y = 3.0 * rng.normal(size=(40, 6)), rng.normal(size=40)
    before = sizes_of(X, y), sizes_of(X, y, model)
    for _ in range(150):
        X[0], y[0] = rng.choice(HOSTILE, 6), rng.choice(HOSTILE)
        after = sizes_of(X, y), sizes_of(X, y, model)
        for one, other in zip(before, after, strict=True):
            assert np.abs(one - other).max() <= score_steps()
        before = after


def test_c106_the_steps_are_attained():
    X, y = np.full((2, 1), 9.0), np.array([5.0, 5.0])
    both = sizes_of(X, y)
    y[0] = -5.0
    assert both - sizes_of(X, y) == score_steps()


@each("values", [[np.nan, 0.0, np.inf, -np.inf], [1e300, -1e300, 3.0, 0.5]])
def test_c106_numbers_of_a_record_stay_in_their_range(values):
    steps = to_steps(np.array(values), 1.0)
    assert np.abs(steps.astype(int)).max() <= SCORE_STEPS
    assert (steps[~np.isfinite(values)] == 0).all()


def test_c106_sums_are_exact_in_any_order():
    """Products of odd numbers at the ends: float32 would round sums of more than a block."""
    rng = np.random.default_rng(1)
    n = 5 * BLOCK + 17
    X = np.where(rng.random((n, 3)) < 0.9, 1.0, 126.0 / 127.0) * COLUMN_CLIP
    y = np.where(rng.random(n) < 0.9, 1.0, 125.0 / 127.0)
    exact = to_steps(X, COLUMN_CLIP).astype(np.int64).T @ to_steps(y, 1.0).astype(np.int64)
    order = rng.permutation(n)
    assert (sizes_of(X, y) == exact).all()
    assert (sizes_of(X[order], y[order]) == exact).all()
    assert (sizes_of(np.asfortranarray(X), y) == exact).all()


def test_c106_a_column_is_drawn_with_its_law():
    """Chi-square, false failures 1e-6; twice the rate fails with probability above 0.99."""
    X = np.zeros((6, 4))
    X[:, 1], X[:3, 2], X[0, 3] = 2.0, -2.0, 2.0
    mu, n = 0.9, 4000
    scores = scores_of(X, np.ones(6), EntropyNoise(), 1e3)
    draws = [scores.choose(NULL, 1.0, np.arange(4), mu)[0] for _ in range(n)]
    sizes = np.array([0, 6, 3, 1]) * SCORE_STEPS**2
    weights = np.exp(sizes * choice_exponent(mu) / score_steps())
    counts = np.bincount(draws, minlength=4)
    assert chisquare(counts, n * weights / weights.sum()).pvalue > 1e-6
    wrong = weights**2
    assert chisquare(counts, n * wrong / wrong.sum()).pvalue < 1e-6


def test_c106_every_choice_is_charged():
    rng = np.random.default_rng(2)
    scores = scores_of(rng.normal(size=(50, 9)), rng.normal(size=50), mu=1.0)
    chosen = scores.choose(NULL, 1.0, np.arange(9), 0.5, 4)
    assert len(set(chosen)) == 4
    entries = scores._ledger.entries
    assert [entry.spend.mu for entry in entries] == [0.5] * 4
    with pytest.raises(dpfast.DpfastError):
        scores.choose(NULL, 1.0, np.arange(9), 0.5)


@each("mu", [1e-3, 0.3, 4.0])
def test_c106_the_rate_is_what_mu_pays_for(mu):
    receipt, (numerator, denominator) = choice_receipt(mu)
    exponent = Fraction(numerator, denominator) * score_steps()
    assert 0.999 * choice_exponent(mu) <= exponent <= choice_exponent(mu)
    assert (receipt.claim, receipt.mu, receipt.l2_sensitivity) == ("C106", mu, score_steps())


def test_receipts_of_a_call_add_up_to_its_total():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 20))
    y = X[:, 4] + rng.normal(size=3000)
    fit = fit_sparse(
        X, y, privacy=2.0, n_nonzero_coefs=2, of_interest=["x1"], noise=dpfast.SeededNoise(3)
    )
    spent = math.sqrt(math.fsum([mu**2 for _, mu in fit.privacy.entries]))
    assert 2.0 * (1.0 - 1e-6) <= spent <= 2.0
