"""Rounding of sums and formulas: claims C11 and C65 of PROOFS.md, against exact rational sums.

The summation is modelled as the kernels do it: rows of a block in order, then the partial sums of
the blocks in order, then one division.  Its depth is rows per block + blocks + 1.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpfast.optimize.schedules import Geometric, Uniform
from dpfast.privacy.rounding import (
    ROUNDING_ELEMENTARY,
    ROUNDING_FORMULA,
    ROUNDING_PRODUCT,
    ROUNDING_SHARES,
    ROUNDING_SUM,
    UNIT_ROUNDOFF,
)
from dpfast.privacy.sensitivity import JOINT_MARGIN, RECORD_ERROR, mean_rank_one, mean_score
from tests.loops import each


def block_mean(contributions, rows):
    """Mean over the first axis in float64, by blocks of ``rows``, and its depth."""
    n = len(contributions)
    total = np.zeros(contributions.shape[1:])
    for start in range(0, n, rows):
        part = np.zeros_like(total)
        for contribution in contributions[start : start + rows]:
            part = part + contribution
        total = total + part
    return total / n, rows + -(-n // rows) + 1


def exact_mean(contributions):
    flat = contributions.reshape(len(contributions), -1)
    return [sum(map(Fraction, column)) / len(flat) for column in flat.T.tolist()]


def gamma(depth):
    u = Fraction(1, 2**53)
    return depth * u / (1 - depth * u)


def error_norm(found, exact):
    return math.sqrt(
        sum(float(Fraction(f) - e) ** 2 for f, e in zip(found.ravel().tolist(), exact, strict=True))
    )


def magnitudes(kind, n, p, rng):
    """Contributions of norm at most 1, arranged to round badly."""
    if kind == "random":
        v = rng.normal(size=(n, p))
    elif kind == "cancelling":
        v = rng.normal(size=(n, p))
        v[1::2] = -v[0::2][: len(v[1::2])] * (1 + 1e-9)
    elif kind == "spread":
        exponent = np.where(rng.random((n, 1)) < 0.5, -300.0, -17.0)
        v = rng.normal(size=(n, p)) * 10.0 ** (exponent * rng.random((n, 1)))
    elif kind == "tiny after large":
        v = np.full((n, p), 1.25 * 2.0**-53)
        v[0] = 1.0
    elif kind == "alternating scales":
        v = np.where(np.arange(n)[:, None] % 2 == 0, 1.0, -1.0 + 2.0**-30) * np.ones((1, p))
    else:
        raise AssertionError(kind)
    length = np.linalg.norm(v, axis=1, keepdims=True)
    return np.where(length > 1, v / np.maximum(length, 1), v) * (1 - 1e-15)


KINDS = ["random", "cancelling", "spread", "tiny after large", "alternating scales"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 7, 64, 600])
@pytest.mark.values
def test_the_error_of_a_mean_is_at_most_gamma_times_the_bound(kind, rows):
    rng = np.random.default_rng(rows)
    contributions = magnitudes(kind, 600, 3, rng)
    found, depth = block_mean(contributions, rows)
    assert error_norm(found, exact_mean(contributions)) <= float(gamma(depth)) * 1.0
    matrices = contributions[:, :, None] * contributions[:, None, :]
    found, depth = block_mean(matrices, rows)
    assert error_norm(found, exact_mean(matrices)) <= float(gamma(depth)) * 1.0


def test_the_bound_is_not_vacuous():
    """A chain of additions that all round the same way reaches a third of gamma."""
    n = 2000
    contributions = np.full((n, 1), 1.25 * 2.0**-53)
    contributions[0] = 1.0
    found, depth = block_mean(contributions, n)
    error = error_norm(found, exact_mean(contributions)) * n  # of the sum, relative to about 1
    assert error > float(gamma(depth)) / 3


def test_one_record_can_change_the_rounding_of_all_the_others():
    """Why the slack is needed: computed means of neighbours differ by more than 2 B/n."""
    n = 4096
    shared = np.full((n, 1), 1.25 * 2.0**-53)
    first, second = shared.copy(), shared.copy()
    first[0], second[0] = 1.0, -1.0
    (a, depth), (b, _) = block_mean(first, n), block_mean(second, n)
    moved = Fraction(float(a[0])) - Fraction(float(b[0]))
    assert moved > Fraction(2, n)  # beyond the ideal sensitivity
    assert moved <= Fraction(mean_score(2.0, n, depth=depth))
    # without the slack for depth, and with RECORD_ERROR only as large as it needs to be for one
    # record, the constant would have been exceeded
    ideal = Fraction(2, n) * (1 + Fraction(1, 10**13))
    assert moved > ideal


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_in(2)
def test_neighbours_stay_within_the_padded_sensitivity(kind):
    rng = np.random.default_rng(5)
    n, p = 300, 3
    for rows in (1, 16, 300):
        base = magnitudes(kind, n, p, rng)
        for position in (0, n // 2, n - 1):
            for record in ([1.0, 0, 0], [0, -1.0, 0], [0, 0, 0], [1e-300, 5e-324, 0]):
                one, two = base.copy(), base.copy()
                one[position] = record
                two[position] = [-1.0, 0, 0]
                (a, depth), (b, _) = block_mean(one, rows), block_mean(two, rows)
                assert np.linalg.norm(a - b) <= mean_score(2.0, n, depth=depth)
                outer_one, outer_two = (v[:, :, None] * v[:, None, :] for v in (one, two))
                (a, depth), (b, _) = block_mean(outer_one, rows), block_mean(outer_two, rows)
                assert np.linalg.norm(a - b) <= mean_rank_one(1.0, n, p, depth=depth)


def test_the_slack_is_what_the_proof_says_and_small():
    n, depth = 10**6, 3000
    relative = mean_score(2.0, n, depth=depth) / (2.0 / n) - 1
    needed = JOINT_MARGIN * (RECORD_ERROR + float(gamma(depth)) * n)
    assert needed <= relative <= needed * 1.01 + 1e-14
    assert relative < 1.1e-6
    assert UNIT_ROUNDOFF == 2.0**-53
    assert mean_score(1.0, 10) < mean_score(1.0, 10, depth=10**9)


@pytest.mark.parametrize("depth", [-1, 2**50, math.nan])
def test_impossible_depths_are_refused(depth):
    with pytest.raises(ValueError, match="depth"):
        mean_score(1.0, 10, depth=depth)


def test_claim_c19_grid_and_slack_together_stay_within_the_joint_cost():
    """The chain of inequalities of the proof, in exact arithmetic, over many budgets.

    ``J`` stands for any cost that is homogeneous and at least each of its parts; its two extremes,
    the maximum and the Euclidean norm, are tried.
    """
    rng = np.random.default_rng(6)
    grid = Fraction(3) * (Fraction(1, 2**20) * (1 + Fraction(1, 2**52))) ** 2
    from dpfast.privacy.mechanisms import GRID_COST

    cost = Fraction(GRID_COST)
    assert cost**2 >= grid
    for _ in range(300):
        n = int(10 ** rng.uniform(0, 8))
        depth = int(10 ** rng.uniform(0, 6))
        mus = [Fraction(float(m)) for m in 10 ** rng.uniform(-4, 1, 3)]
        base = Fraction(1, n)  # any of 2B/n, sqrt2 Bbar/n, sqrt2 B^2/n
        padded = Fraction(mean_score(1.0, n, depth=depth))
        error = Fraction(RECORD_ERROR) + gamma(depth) * n * (1 + Fraction(RECORD_ERROR))
        scales = [padded / (mu - cost) for mu in mus]
        ideal = [base / s for s in scales]
        slack = [Fraction(1415, 1000) * error * base / s for s in scales]
        for norm in (max, lambda v: Fraction(math.sqrt(float(sum(x * x for x in v))))):
            total = norm(ideal) + Fraction(math.sqrt(float(sum(x * x for x in slack)))) + cost
            assert total <= norm(mus) * (1 + Fraction(1, 10**14))


MARGINS = {6: ROUNDING_PRODUCT, 30: ROUNDING_FORMULA, 500: ROUNDING_ELEMENTARY, 8000: ROUNDING_SUM}


@pytest.mark.parametrize(("count", "margin"), [
    pytest.param(count, margin, marks=[pytest.mark.slow] if count == 8000 else [])
    for count, margin in MARGINS.items()
])  # fmt: skip
def test_a_margin_covers_the_roundings_in_its_name(count, margin):
    """Every rounding the wrong way, the one of the margin itself included; then real products."""
    unit, share = Fraction(UNIT_ROUNDOFF), Fraction(margin)
    assert (1 - unit) ** (count + 1) * (1 + share) >= 1
    assert (1 + unit) ** (count + 1) * (1 - share) <= 1
    assert 1.0 - margin < 1.0 < 1.0 + margin
    rng = np.random.default_rng(count)
    products = 20 if count < 1000 else 2  # of fractions of half a million digits
    for factors in np.exp(rng.uniform(-0.1, 0.1, (products, count + 1))).tolist():
        product, exact = factors[0], Fraction(factors[0])
        for factor in factors[1:]:
            product, exact = product * factor, exact * Fraction(factor)
        assert Fraction(product * (1.0 + margin)) >= exact
        assert Fraction(product * (1.0 - margin)) <= exact


@each(("count", "margin"), MARGINS.items())
def test_no_margin_covers_twice_as_many(count, margin):
    assert (1 - Fraction(UNIT_ROUNDOFF)) ** (2 * count + 2) * (1 + Fraction(margin)) < 1


@pytest.mark.parametrize(
    "n_steps", [1, 2, 3, 7, 100, 4099, pytest.param(30_011, marks=pytest.mark.slow)]
)
def test_shares_of_a_budget_add_up_to_no_more_than_the_budget(n_steps):
    for mu in (1.0, 0.1, math.pi, 1e-5):
        for schedule in (Uniform(), Geometric(1.0001, 0.3), Geometric(3.0, 1e-3)):
            if isinstance(schedule, Geometric) and schedule.ratio == 3.0 and n_steps > 100:
                continue  # too steep for as many steps
            spent = sum(Fraction(step) ** 2 for step in schedule.step_mus(mu, n_steps))
            assert spent <= Fraction(mu) ** 2
            assert spent >= Fraction(mu) ** 2 * (1 - 3 * Fraction(ROUNDING_SHARES))
