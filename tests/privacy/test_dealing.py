"""Records dealt at random: claims C53 and C54 of PROOFS.md."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpfast.errors import EntropyFailure, InvalidInput, UnsupportedConversion
from dpfast.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    EntropyNoise,
    PureDP,
    SeededNoise,
    random_parts as parts,
)
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import cross_validation_cost, part_sizes, random_parts
from tests.loops import each


class Scripted(NoiseSource):
    """Words that a test chose."""

    def __init__(self, *scripts):
        self.scripts = list(scripts)

    def words(self, size):
        return np.array(self.scripts.pop(0), dtype=np.uint64)


@pytest.mark.parametrize("source", [EntropyNoise(), SeededNoise(0)])
def test_every_dealing_is_as_likely_as_any_other(source):
    """5 records into parts of 3 and 2: all 10 dealings, chi-squared, false failure 1e-6.

    With 10,000 dealings, one that comes up 25% more often than it should is found with
    probability .98.
    """
    found = Counter(tuple(random_parts(5, 2, source).tolist()) for _ in range(10_000))
    assert len(found) == 10
    assert all(parts.count(0) == 3 for parts in found)
    assert stats.chisquare(list(found.values())).pvalue > 1e-6


@each(("n", "n_parts"), [(1, 1), (7, 7), (12, 5), (10_001, 10)])
def test_sizes_are_functions_of_n(n, n_parts):
    sizes = part_sizes(n, n_parts)
    assert sum(sizes) == n and max(sizes) - min(sizes) <= 1
    for seed in range(5):
        parts = random_parts(n, n_parts, SeededNoise(seed))
        assert np.bincount(parts, minlength=n_parts).tolist() == sizes


def test_ties_are_drawn_again():
    """Records with equal words would be dealt in the order of the table."""
    parts = random_parts(3, 3, Scripted([5, 5, 1], [9, 2, 4]))
    assert parts.tolist() == [2, 0, 1]
    with pytest.raises(EntropyFailure, match="not random"):
        random_parts(3, 3, Scripted(*[[7, 7, 7]] * 64))


@pytest.mark.parametrize(("n", "n_parts"), [(4, 5), (4, 0)])
def test_impossible_dealings_are_refused(n, n_parts):
    with pytest.raises(InvalidInput, match="cannot be split"):
        random_parts(n, n_parts, SeededNoise(0))


@each("k", [2, 5, 31])
@each(("fit", "score"), [(0.4, 0.3), (0.1, 1.7), (1e-3, 1e-9), (3.3, 0.1)])
def test_the_cost_is_that_of_one_record(k, fit, score):
    """k - 1 fits and one score, compared with exact fractions; rounded up, by an ulp at most."""
    exact = (k - 1) * Fraction(repr(fit)) ** 2 + Fraction(repr(score)) ** 2
    mu = cross_validation_cost(GDP(fit), GDP(score), k).mu
    assert exact <= Fraction(repr(mu)) ** 2
    assert Fraction(repr(math.nextafter(mu, 0.0))) ** 2 < exact


def test_other_currencies_add_up_by_the_ledgers_rule():
    rho = cross_validation_cost(ZCDP(0.125), ZCDP(0.5), 5, ZCDP)
    assert rho == ZCDP(1.0)
    assert cross_validation_cost(GDP(0.5), GDP(1.0), 5, ZCDP) == ZCDP(1.0)
    approximate = cross_validation_cost(ApproxDP(0.25, 2**-20), ApproxDP(0.5, 2**-22), 5, ApproxDP)
    assert approximate == ApproxDP(1.5, 17 * 2**-22)
    assert cross_validation_cost(PureDP(0.25), PureDP(0.5), 5, PureDP) == PureDP(1.5)


@pytest.mark.parametrize("currency", [ApproxDP, PureDP])
def test_what_cannot_be_proved_is_refused(currency):
    with pytest.raises(UnsupportedConversion):
        cross_validation_cost(GDP(0.5), GDP(0.5), 5, currency)


def test_slots_are_as_many_as_their_bytes_tell_apart():
    assert parts.SLOTS == 1 << 8 and parts.MANY_SLOTS == 1 << 16
    most = parts.MANY_RECORDS
    assert [parts.number_of_slots(n) for n in (1, most - 1, most, 2 * most)] == [
        parts.SLOTS, parts.SLOTS, parts.MANY_SLOTS, parts.MANY_SLOTS,
    ]  # fmt: skip


def test_every_chunk_has_a_key_and_every_record_of_it_a_slot():
    keys = parts.chunk_keys(3, SeededNoise(0))
    assert keys.shape == (3, parts.KEY_WORDS) and len(np.unique(keys)) == keys.size
    for n_slots, kind in ((parts.SLOTS, np.uint8), (parts.MANY_SLOTS, np.uint16)):
        slots = parts.scatter_chunk(keys[0], 1000, n_slots)
        assert slots.shape == (1000,) and slots.dtype == kind
        assert slots.max() > 0.9 * n_slots and slots.min() < 0.1 * n_slots


def test_choices_fill_the_numbers_from_zero_to_one():
    found = parts.secret_choices(4000, SeededNoise(0))
    assert 0.0 <= found.min() < 0.01 and 0.99 < found.max() < 1.0
    assert (found * 2.0**53 == np.floor(found * 2.0**53)).all()
