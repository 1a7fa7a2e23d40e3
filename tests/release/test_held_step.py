"""Functionals of columns without a domain: held steps, what they cost, and how near they end."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries, RowClipping
from dpfast.curator.release.one_step import _sum_clipped, mean_along
from dpfast.data import as_records
from dpfast.data.scaling.maps import CHUNK, TransformedView
from dpfast.data.scaling.transformed import projections
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from dpfast.inference.composition import Prepaid, Sum
from dpfast.models import Huber, LeastSquares, Logistic, Mallows, Objective
from dpfast.privacy.release.sensitivity import HELD_CELLS
from dpfast.release.routes import part_of_step

PAIR = dpfast.ApproxDP(1.0, 1e-6)
DIRECTION, BOUND = np.array([0.5, -2.0, 1.0]), 1.5
MATRIX = np.array([[1.0, 0.2, 0.0], [0.0, 2.0, -1.0], [0.3, 0.0, 1.0]])


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 100.0] + [5.0, -3.0]
    return X, 1.0 + X @ [1.0, 0.01] + rng.laplace(size=n)


def summed(X, y, loss=None, held=None):
    at = Linearization(np.array([0.1, 0.2, -0.1]), LeastSquares() if loss is None else loss)
    view = TransformedView(MATRIX, True, "score", at, 0.0, RowClipping() if held is None else held)
    return int(_sum_clipped(X, y, DIRECTION, BOUND, view)[0])


@pytest.mark.parametrize(
    "held", [RowClipping(), RowClipping(max_score_bound=0.7)], ids=["free", "held"]
)
@pytest.mark.parametrize("loss", [LeastSquares(), Huber(1.3), Logistic()], ids=lambda x: x.name)
@pytest.mark.values
def test_r40_one_record_moves_the_sum_by_its_bound_and_no_more(loss, held):
    rng, most = np.random.default_rng(3), 0
    for _ in range(300):
        X, y = sample(int(rng.integers(1, 40)), int(rng.integers(99)))
        y = (y > 5.0) * 1.0 if isinstance(loss, Logistic) else y
        found = [summed(X, y, loss, held)]
        X[0] = rng.normal(size=2) * 10.0 ** rng.uniform(-3, 200)
        if not isinstance(loss, Logistic):
            y[0] = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-3, 200)
        found.append(summed(X, y, loss, held))
        most = max(most, abs(found[0] - found[1]))
    assert most <= 2 * HELD_CELLS
    if held == RowClipping():
        assert most >= 1.9 * HELD_CELLS


def test_r40_numbers_do_not_depend_on_where_a_record_stands():
    X, y = sample(3 * CHUNK // 2)
    at = Linearization(np.array([0.1, 0.2, -0.1]), Huber(1.3))
    view = TransformedView(MATRIX, True, "score", at)
    whole = projections(X, y, view, DIRECTION)
    order = np.random.default_rng(1).permutation(len(y))
    assert np.array_equal(projections(X[order], y[order], view, DIRECTION), whole[order])
    assert np.array_equal(projections(X[-7:], y[-7:], view, DIRECTION), whole[-7:])


def test_r40_a_record_that_is_not_finite_is_zero():
    X, y = sample(30)
    without = summed(X[1:], y[1:])
    for row, value in (([np.nan, 0.0], 0.0), ([0.0, np.inf], 0.0), ([0.0, 0.0], np.nan)):
        X[0], y[0] = row, value
        assert summed(X, y) == without


def test_r40_what_is_charged_adds_up_to_the_total():
    X, y = sample(5000)
    for total in (PAIR, dpfast.ApproxDP(2.7182818, 1e-5)):
        ledger = dpfast.Ledger(total)
        found = dpfast.release_functional(
            X, y, "huber", ["x1", "x2"], privacy=total, ledger=ledger, method="one-shot",
            noise=dpfast.SeededNoise(1),
        )  # fmt: skip
        (entry,) = ledger.entries
        whole = found.privacy.composition
        assert entry.charged == total == found.privacy.total and isinstance(whole, Sum)
        fit, steps = whole.parts
        assert isinstance(fit, Prepaid) and fit.spend.delta == total.delta
        assert len(steps.parts) == 2
        spent = sum(Fraction(step.spend.epsilon) for step in steps.parts)
        left = Fraction(total.epsilon) - Fraction(fit.spend.epsilon)
        assert 0.999999 * left < spent <= left
        mus = [charge.spend.mu for part in fit.part.parts for charge in part.parts]
        within = dpfast.GDP.within(fit.spend).mu
        assert 0.99 * within < math.hypot(*mus) <= within
        scale = found._scale_bounds
        assert (scale > 0.0).all() and found.noise_law == "laplace"


def test_a_held_step_is_charged_before_the_records_are_read():
    X, y = sample(50)
    objective = Objective(LeastSquares(), Mallows(1.0), 2)
    gdp, pure = dpfast.Ledger(1.0), dpfast.Ledger(dpfast.PureDP(1.0))
    rows = PreconditionedQueries(Curator(as_records(X, y), objective, gdp, dpfast.SeededNoise(0)))
    at = Linearization(np.zeros(3), LeastSquares())
    mean_along(rows, DIRECTION, BOUND, 0.7, pure, at)
    assert pure.spent == dpfast.PureDP(0.7) and gdp.spent.mu == 0.0
    rows._records = None  # which would raise
    with pytest.raises(BudgetExceeded):
        mean_along(rows, DIRECTION, BOUND, 0.7, pure, at)


def test_the_noise_of_a_held_step_is_that_of_its_bound():
    X, y = sample(50)
    objective = Objective(LeastSquares(), Mallows(1.0), 2)
    pure = dpfast.Ledger(dpfast.PureDP(1e4))
    curator = Curator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    at = Linearization(np.zeros(3), LeastSquares())
    found = [
        mean_along(PreconditionedQueries(curator), DIRECTION, BOUND, 1.0, pure, at)
        for _ in range(4000)
    ]
    assert np.std(found) == pytest.approx(math.sqrt(2.0) * 2.0 * BOUND / 50, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [
    "least-squares", *(pytest.param(k, marks=pytest.mark.slow) for k in ("log-cosh", "logistic"))
])  # fmt: skip
def test_steps_of_raw_columns_are_nearer_than_fits(loss):
    """Root mean squares over 60 seeds; over 100 the ratio is .72 for least squares."""
    X, y = sample(20_000)
    if loss == "logistic":
        y = (y > 6.0) * 1.0
    A = np.column_stack([np.ones(len(y)), X])
    if loss == "least-squares":
        exact = np.linalg.lstsq(A, y, rcond=None)[0][1]
    elif loss == "logistic":
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        whole = dpfast.nonprivate_fit(Z, y, dpfast.Objective(loss, weights=dpfast.Bounded(1e3)))
        exact = whole.params[1] / X[:, 0].std()
    else:
        exact = 1.0
    errors = {"one-shot": [], "fit": []}
    for seed in range(60):
        for method, off in errors.items():
            found = dpfast.release_functional(
                X, y, loss, "x1", privacy=PAIR, method=method, noise=dpfast.SeededNoise(seed)
            )
            off.append(found.value - exact)
    # the target of log-cosh has sampling error, too
    one, fit = (math.sqrt(np.mean(np.square(off))) for off in errors.values())
    assert one < (0.9 if loss != "log-cosh" else 1.1) * fit
    assert found.sampling_error[0] > 0.0 and found.conf_int().shape == (1, 2)
    told = dpfast.release_functional(X, y, loss, "x1", privacy=PAIR)
    assert "one Newton step" in told.method


def test_scores_of_labels_are_seen_before_they_are_held():
    """Those that are told wrong are all cut on one side, and a blind histogram cuts a twentieth.

    The mean of 60 values is off by .044, with an error of .012: by .103 with a chance of 1e-6; and
    with the old share and both sides by .157, with one of .016: below .103 with a chance of 1e-3.
    """
    values, covered = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8000, 2))
        y = (rng.random(8000) < 1.0 / (1.0 + np.exp(-0.3 - X @ [1.0, -0.7]))) * 1.0
        found = dpfast.release_functional(
            X, y, "logistic", "x1", privacy=dpfast.ApproxDP(0.3, 1e-6),
            noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        values.append(found.value)
        low, high = found.conf_int()[0]
        covered.append(low <= 1.0 <= high)
    assert abs(np.mean(values) - 1.0) < 0.103
    assert np.mean(covered) > 0.78  # of .95 with a chance of 1e-5 less; it was .58


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
def test_offsets_join_the_predictor_of_pilot_and_step(loss):
    """Twelve seeded releases: without its offset the slope of x1 would be 1.7 or .6, not 1."""
    values, errors = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8000, 2))
        offset = 0.7 * X[:, 0] + 1.5 * rng.normal(size=8000)
        eta = X @ [1.0, 0.5] + offset
        y = eta + rng.normal(size=8000)
        if loss == "logistic":
            y = 1.0 * (rng.random(8000) < 1.0 / (1.0 + np.exp(-eta)))
        found = dpfast.release_functional(
            dpfast.records(X, y, offset=offset), None, loss, "x1", privacy=PAIR,
            method="one-shot", noise=dpfast.SeededNoise(seed),
        )  # fmt: skip
        values.append(float(found.value))
        errors.append(values[-1] - 1.0)
    assert abs(np.mean(errors)) < 0.08


def test_r40_an_offset_moves_its_own_record_alone():
    X, y = sample(40)
    y = np.column_stack([(y > 5.0) * 1.0, np.ones(40), np.linspace(-1.0, 1.0, 40)])
    most, before = 0, summed(X, y, Logistic())
    for y[0, 2] in (-np.inf, -1e300, -30.0, 0.0, 30.0, 1e300, np.nan):
        for X[0, 0] in (-1e200, 0.0, 1e200):
            with np.errstate(all="ignore"):
                most = max(most, abs(summed(X, y, Logistic()) - before))
    assert 0 < most <= 2 * HELD_CELLS


def test_what_a_step_cannot_have_is_refused_before_the_charge():
    X, y = sample(5000)
    ledger = dpfast.Ledger(PAIR)
    for options in ({"sample_weight": np.ones(5000)}, {"group": np.arange(5000), "each": "person"}):
        with pytest.raises(InvalidInput, match="an interval for each coefficient"):
            dpfast.release_functional(
                dpfast.records(X, y, **options), None, "huber", "x1", privacy=PAIR, ledger=ledger
            )
    assert not ledger.entries


def test_what_needs_a_domain_is_refused_without_one():
    X, y = sample(500)
    ledger = dpfast.Ledger(PAIR)
    for more, match in (
        ({"method": "paper"}, "domain of the rows"),
        ({"method": "objective-perturbation"}, "domain of the rows"),
        ({"loss": Objective("huber", ridge=1.0)}, "ridge"),
        ({"inference": 0.3}, "pilot has standard errors"), ({"loss": "tukey"}, "domain"),
        ({"loss": Objective("huber", Mallows(1.0), scale=1.0)}, "domain"),
    ):  # fmt: skip
        options = {"loss": "huber", "direction": "x1", "privacy": PAIR, "ledger": ledger} | more
        with pytest.raises(InvalidInput, match=match):
            dpfast.release_functional(X, y, **options)
    with pytest.raises(InvalidBudget, match=r"domain=dpfast\.models\.Box"):
        dpfast.release_functional(X[:60], y[:60], "huber", "x1", privacy=PAIR, ledger=ledger)
    assert not ledger.entries


def test_a_column_of_which_no_spread_is_seen_has_no_bounded_interval():
    X, y = sample(5000)
    X[:, 1] = 7.0
    found = dpfast.release_functional(
        X, y, "least-squares", ["x1", "x2"], privacy=PAIR, noise=dpfast.SeededNoise(0)
    )
    assert np.isinf(found.beyond).tolist() == [False, True]
    assert np.isinf(found.noise_interval()[1]).all() and abs(found.value[0] - 1.0) < 0.5


@pytest.mark.parametrize("excess", [0.0, 0.7, 5.0])
@pytest.mark.one_in(2)
def test_the_part_of_a_step_is_the_one_with_the_least_error(excess):
    rng, p = np.random.default_rng(2), 8
    off, noise = 1.3, 0.4
    errors, draws = off * rng.normal(size=400_000), noise * rng.normal(size=400_000)
    curvatures = 1.0 + excess * (rng.random(400_000) < 1.0 / p)
    parts = np.linspace(0.0, 1.2, 61)
    left = [np.mean((errors - g * (curvatures * errors + draws)) ** 2) for g in parts]
    mean, square = 1.0 + excess / p, 1.0 + (2.0 * excess + excess**2) / p
    part, stays = part_of_step(np.array([off]), np.array([noise]), mean, square)
    assert abs(parts[int(np.argmin(left))] - part[0]) <= 0.03
    assert math.hypot(stays[0], part[0] * noise) == pytest.approx(min(left) ** 0.5, rel=0.01)


def test_a_part_of_a_step_is_a_number_whatever_was_released():
    off = np.array([0.0, np.inf, np.nan, 1.0, 1e200])
    noise = np.array([1.0, 1.0, 1.0, np.inf, 1e-200])
    for square in (1.0, np.inf):
        with np.errstate(all="ignore"):
            part, _ = part_of_step(off, noise, 1.0, square)
        assert np.isfinite(part).all() and (part >= 0.0).all() and (part <= 1.0).all()


def test_what_is_named_is_the_coefficient_with_held_scores():
    rng = np.random.default_rng(4)
    n, far = 20_000, 12
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + rng.normal(size=n)
    X[:far, 0], y[:far] = 30.0, -30.0  # no histogram shows so few
    plain = np.linalg.lstsq(np.column_stack([np.ones(n), X]), y, rcond=None)[0][1]
    found = dpfast.release_functional(
        X, y, "least-squares", "x1", privacy=PAIR, noise=dpfast.SeededNoise(3)
    )
    low, high = found.noise_interval(0.9)[0]
    assert not low <= plain <= high and "Extreme records have limited influence" in found.target
    # in twelve records of twenty thousand there is no more than a record counts for
    pull = float(found.method.rpartition(" ")[2])
    errors = 3.0 * found.sampling_error[0] + 0.5 * (high - low)  # of sampling, and of the noise
    assert pull > 0.0 and abs(found.value - 1.0) < errors + far * pull
    assert found.target in " ".join(str(found).split())


def test_auto_answers_by_a_fit_where_a_part_of_the_budget_shows_no_units():
    """Decided by n, p and the total: a pilot with its part would have been refused."""
    X, y = sample(700)
    options = {"privacy": PAIR, "noise": dpfast.SeededNoise(0)}
    answer = dpfast.release_functional(X, y, "least-squares", "x1", **options)
    assert "too small for a pilot" in answer.method
    slope = dpfast.fit(X, y, privacy=PAIR, noise=dpfast.SeededNoise(0)).params["x1"]
    assert math.isfinite(float(answer.value)) and math.isfinite(slope)
    with pytest.raises(InvalidBudget, match=r"dpfast\.fit\(\.\.\.\)\.t_test"):
        dpfast.release_functional(X, y, "least-squares", "x1", method="one-shot", **options)
    ledger = dpfast.Ledger(PAIR)
    for method in ("auto", "one-shot", "fit"):  # none advises what would be refused as well
        with pytest.raises(InvalidBudget, match="no slope") as refused:
            dpfast.release_functional(
                X[:150], y[:150], "least-squares", "x1", method=method, ledger=ledger, **options
            )
        assert "method=" not in str(refused.value)
    assert not ledger.entries


@pytest.mark.parametrize("n", [250, 400, 700])
def test_what_a_fit_answers_is_answered_without_a_domain(n):
    X, y = sample(n)
    for total in (dpfast.ApproxDP(0.5, 1e-6), PAIR, dpfast.ApproxDP(4.0, 1e-6)):
        for loss, response in (("least-squares", y), ("huber", y), ("logistic", (y > 6.0) * 1.0)):
            options = {"privacy": total, "noise": dpfast.SeededNoise(0)}
            slope = value = math.nan
            with contextlib.suppress(InvalidBudget):
                slope = dpfast.fit(X, response, loss, **options).params["x1"]
            with contextlib.suppress(InvalidBudget):
                value = dpfast.release_functional(X, response, loss, "x1", **options).value
            assert math.isfinite(value) == math.isfinite(slope)
