"""Claim R36: noise of a count that never exceeds its cap, so that a certificate never fails."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.release.terms import Terms
from dpfast.errors import InvalidInput
from dpfast.privacy.mechanisms import laplace_rate, release_integer
from dpfast.privacy.release.capped import capped_tail
from dpfast.privacy.release.sensitivity import lower_bound_from_release, tail_count
from tests.loops import each

M = 1024
GRID = [(e, d) for e in (0.05, 0.25, 0.5, 3.0) for d in (1e-10, 5e-7, 1e-3, 0.2)]


def law(epsilon1: float, k: int, size: int = M) -> tuple[np.ndarray, np.ndarray]:
    """Integers and probabilities of the capped noise, down to where nothing is left."""
    numerator, denominator = laplace_rate(size, epsilon1)
    a = numerator / denominator
    j = np.arange(-max(k, size) - int(40.0 / a), k + 1)
    p = np.exp(-a * np.abs(j))
    return j, p / p.sum()


def delta(epsilon1: float, k: int, shift: int, size: int = M) -> float:
    """sup_S P(S) - exp(epsilon1) P'(S) for counts that differ by a shift, integer by integer."""
    _, p = law(epsilon1, k, size)
    other = np.zeros_like(p)  # of the neighbour, at the same outputs
    if shift >= 0:
        other[: len(p) - shift] = p[shift:]
    else:
        other[-shift:] = p[:shift]
    # the ratio of the largest neighbours is exp(epsilon1) itself: leave its rounding
    return float(np.maximum(p - math.exp(epsilon1) * (1.0 + 1e-9) * other, 0.0).sum())


@each(("epsilon1", "delta1"), GRID)
def test_r36_neighbours_are_told_apart_as_charged_and_less_is_not_enough(epsilon1, delta1):
    size = 64  # as well as 1024, and faster
    k = capped_tail(epsilon1, delta1, size)
    worst = max(delta(epsilon1, k, shift, size) for shift in (size, -size, size // 2, -1))
    assert worst <= delta1
    assert k == size or delta(epsilon1, k - 1, size, size) > delta1
    if k > size:
        assert worst >= delta1 * math.exp(-2.0 * epsilon1 / size)  # a grid step


def test_r36_at_the_sensitivity_in_use():
    for epsilon1, delta1 in ((0.125, 5e-7), (0.25, 5e-7), (0.5, 5e-10)):
        k = capped_tail(epsilon1, delta1)
        assert 0.999 * delta1 <= delta(epsilon1, k, M) <= delta1
        assert delta(epsilon1, k, -M) <= 1e-12 * delta1  # nothing is out of reach from below


class Scripted(dpfast.SeededNoise):
    """Discrete Laplace draws from a list."""

    def __init__(self, draws: list[int]) -> None:
        super().__init__(0)
        self.draws = draws

    def discrete_laplace(self, size, numerator, denominator):
        return np.array([self.draws.pop(0)], dtype=np.int64)


def test_r36_noise_above_the_cap_is_drawn_again():
    rate = laplace_rate(M, 0.25)
    source = Scripted([701, 5_000, 700, 3])
    assert release_integer(10, rate, source, 700) == 710
    assert source.draws == [3]
    assert release_integer(10, rate, Scripted([-9_000]), 700) == -8_990
    assert release_integer(10, rate, Scripted([701])) == 711  # without a cap


def test_r36_a_capped_certificate_never_fails():
    """The largest noise there is leaves the bound below the truth, by a grid step."""
    s, eta, true = 0.1, 1e-9, 3.0
    terms = Terms("functional", 1.0, 1e-6, 0.25, 5e-7)
    cap = terms.cap
    assert cap == terms.tail() == capped_tail(0.25, 5e-7) < tail_count(0.25, 5e-7)
    assert terms.failure == 0.0
    count = int(M * (true - s) / (s + 2 * eta))
    source = Scripted([cap + 1, cap])
    noisy = release_integer(count, laplace_rate(M, 0.25), source, cap)
    assert true - 2.0 * s / M <= lower_bound_from_release(noisy, terms.tail(), s, eta) <= true


def test_r36_where_counts_are_capped():
    """Where that asks for less, of functionals only: nothing else is calibrated for it."""
    assert Terms("functional", 8.0, 1e-6, 2.0, 5e-7).cap is None  # above log 2 a tail is shorter
    assert Terms("functional", 8.0, 1e-6, 2.0, 5e-7).failure == 5e-7
    for what in ("parameter", "nothing"):
        assert Terms(what, 1.0, 1e-6, 0.25, 5e-7).cap is None
    two = Terms("functional", 1.0, 1e-6, 0.5, 5e-7, certificates=2)
    assert two.cap == capped_tail(0.25, 2.5e-7)
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidInput, match="delta1"):
            capped_tail(0.25, wrong)


def test_r36_no_certificate_of_this_cost_begins_earlier():
    """By group privacy; the median of the capped count is within a grid step of that bound.

    With ``p(0)`` the probability of a false claim at data that cannot be certified, what is
    ``(e, d)``-DP claims something at data m steps away with probability at most
    ``exp(e m) p(0) + d (exp(e m) - 1)/(exp(e) - 1)``; all of delta1 in either is the best there is.
    """
    for epsilon1 in (0.125, 0.25, 0.5, 1.0):
        delta1 = 5e-7
        best = min(
            math.log(0.5 / delta1) / epsilon1,
            math.log1p(0.5 * math.expm1(epsilon1) / delta1) / epsilon1,
        )
        here = min(tail_count(epsilon1, delta1), capped_tail(epsilon1, delta1)) / M
        assert best <= here + 1.0 / M and here <= best + 2.0 / M
