"""What rivals must pay for: the errors of their searches, each of their steps, all of n."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from bench.rivals import literature
from bench.rivals.literature import (
    amplification,
    minimiser,
    selection,
    sensitivity,
    subsample,
    sums,
)
from bench.rivals.literature.amplification import CONVOLUTION_ERROR, RELATIVE_INTERVAL
from bench.rivals.literature.minimiser import ridge_minimiser
from bench.rivals.literature.random_search import _pure
from bench.rivals.literature.selection import best_of_random_trials
from bench.rivals.literature.subsample import SampledGradients, plan_sampling
from bench.rivals.literature.trials import number_of_trials
from dpfast import GDP, ApproxDP, BudgetExceeded, Ledger, PureDP, SeededNoise
from dpfast.curator import Curator
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.data import as_records
from dpfast.errors import InvalidBudget
from dpfast.kernels.records import GRADIENT
from dpfast.models import Clip, Objective
from tests.loops import each
from tests.privacy.test_errors_are_paid import (
    R,
    exactly,
    gamma,
    room as ridged,
    root_below,
    short_of,
)
from tests.privacy.test_mostly_missing import (
    FEW_X,
    FEW_Y,
    PLACES,
    THETA,
    USABLE,
    WHOLE_X,
    WHOLE_Y,
    N,
    X,
    Y,
    noted,
    room,
)  # fmt: skip
from tests.privacy.test_paid_before import POOR, SQUARES, Desk, Watched, watch


@pytest.mark.parametrize("fast_steps", [200, 0])
def test_the_search_for_a_ridge_minimiser_pays_for_its_error(monkeypatch, fast_steps):
    """Small steps towards the minimiser, with gradients that hide an eighth of the tolerance."""
    keeper, ridge = ridged(), 0.2
    first = float(np.linalg.norm(keeper._sums(np.zeros(2), 1)[0]))
    plan = minimiser.minimiser_search(keeper)
    tolerance = 0.4 * first / ridge
    search = plan._replace(
        tolerance=tolerance, error=ridge * tolerance / 8.0, smoothness=50.0, n_steps=100_000
    )
    exact = keeper._sums

    def hiding(theta: Any, want: int) -> Any:
        gradient, curvature, meat = exact(theta, want)
        if gradient is not None:
            whole = gradient + ridge * theta
            gradient = gradient + short_of(whole, search.error) - whole
        return gradient, curvature, meat

    def timid(matrix: Any, gradient: Any, floor: float) -> Any:
        return 0.01 * np.linalg.solve(matrix, gradient), None, 0

    monkeypatch.setattr(minimiser, "FAST_STEPS", fast_steps)
    monkeypatch.setattr(minimiser, "newton_direction", timid)
    monkeypatch.setattr(keeper, "_sums", hiding)
    theta = minimiser._minimise(keeper, search)
    left = float(np.linalg.norm(exact(theta, 1)[0] + ridge * theta))
    assert 0.8 * ridge * tolerance < left <= ridge * tolerance


def constants() -> Any:
    """Name, what the module says, and the exact formula."""
    for n, k in [(10, 0), (10**6, 1000)]:
        exact = Fraction(2) / 50 * (1 + R + 2 * gamma(k) * n * (1 + R))
        yield "sampled mean", sensitivity.sampled_mean(2.0, 50.0, n, depth=k), exact
    for d, ridge, n, t in [(2.0, 0.1, 1000, 1e-3), (3.5, 2.0, 10, 1e-14)]:
        D, r, T = exactly(d, ridge, t)
        found = sensitivity.ridge_minimiser(d, ridge, n, tolerance=t)
        yield "ridge minimiser", found, D * (1 + R) / (n * r) + 2 * T
    for a, b in [(1.0, 1.7), (1.0, 0.3), (2.0, 4.1), (0.3, 0.2)]:
        A, B = Fraction(a) ** 2, Fraction(b) ** 2
        squared = B if B >= 4 * A else A + B / 2 + B * B / (16 * A)
        yield "statistics", sensitivity.statistics_mu(a, b), root_below(squared)
    for trial in (0.1, 1.0 / 3.0, 7.3):
        yield "selection", sensitivity.selection_cost(trial), 3 * Fraction(trial)


@each(("name", "found", "exact"), list(constants()))
def test_constants_are_their_formulas_rounded_up(name, found, exact):
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**5)), name


@each("mu", [0.01, 0.3, 1.0, 4.0])
def test_the_pure_cost_of_a_gaussian_budget_is_covered_to_the_last_digit(mu):
    epsilon = _pure(mu)
    assert PureDP(epsilon).as_gdp().mu <= mu
    assert PureDP(epsilon * (1.0 + 1e-6)).as_gdp().mu > mu


def test_output_perturbation_pays_for_its_solver():
    """B4: both solutions may be a tolerance away from their minimisers, in opposite directions."""
    for diameter, ridge, n, tolerance in [(2.0, 0.1, 1000, 1e-3), (3.5, 2.0, 10, 1e-9)]:
        found = Fraction(sensitivity.ridge_minimiser(diameter, ridge, n, tolerance=tolerance))
        exact = Fraction(diameter) / (n * Fraction(ridge)) + 2 * Fraction(tolerance)
        assert exact <= found <= exact * (1 + Fraction(1, 10**9))


def test_a_minimiser_is_that_of_the_mean_over_n():
    """The ridge weighs eight times as much beside five of forty records."""
    (here,) = noted(lambda: ridge_minimiser(room(X, Y, ridge=0.05), 1.0))
    (alone,) = noted(lambda: ridge_minimiser(room(FEW_X, FEW_Y, ridge=0.05 * N / USABLE), 1.0))
    assert here.value == pytest.approx(alone.value, abs=1e-6)
    (whole,) = noted(lambda: ridge_minimiser(room(WHOLE_X, WHOLE_Y, ridge=0.05), 1.0))
    assert here[2:] == whole[2:]


def test_a_selection_makes_the_number_of_trials_it_drew(monkeypatch):
    """Not their mean, and no fewer or more: the number is what pays for looking at all of them."""
    mean, made = 6.0, []
    original = selection.trial_point
    monkeypatch.setattr(selection, "trial_point", lambda *given: made.append(1) or original(*given))
    counts = []
    for seed in range(60):
        made.clear()
        best_of_random_trials(
            lambda theta: Y, (np.zeros(1), np.ones(1)), (0.0, 1.0), n=N, epsilon=1.0,
            mean_trials=mean, ledger=Ledger(PureDP(1.0)), noise=SeededNoise(seed),
        )  # fmt: skip
        assert len(made) == number_of_trials(mean, SeededNoise(seed))
        counts.append(len(made))
    assert min(counts) == 1 and max(counts) > 2.0 * mean


def keeper_of_one(i: int) -> Any:
    """The clipped gradient of one record."""
    sums = room(WHOLE_X[i : i + 1], WHOLE_Y[i : i + 1], Clip(0.5))._sums(THETA, GRADIENT)
    return sums[0]


def test_every_step_has_a_sample_of_its_own(monkeypatch):
    """Sizes vary, as those of a Poisson sample, and no two samples are the same."""
    monkeypatch.setattr(subsample, "noise_multiplier", lambda *_: 5.0)
    samples: list[Any] = []
    original = subsample._sampled_gradient

    def spied(X: Any, y: Any, inside: Any, *rest: Any) -> Any:
        samples.append(inside.copy())
        return original(X, y, inside, *rest)

    monkeypatch.setattr(subsample, "_sampled_gradient", spied)
    keeper = room(WHOLE_X, WHOLE_Y, Clip(0.5))
    keeper.ledger = Ledger(ApproxDP(1.0, 1e-6))
    steps = 200
    plan = plan_sampling(keeper, ApproxDP(1.0, 1e-6), 0.4, steps)
    opened = SampledGradients(keeper, plan)
    seen = noted(lambda: [opened.gradient(THETA) for _ in range(steps)])
    each = np.array([keeper_of_one(i) for i in range(N)])
    drawn = np.array(samples)
    # sums over the sample, divided by its expected size
    assert np.allclose([found.value for found in seen], drawn @ each / (0.4 * N))
    assert len({tuple(row) for row in drawn}) > steps - 3
    # each record: 200 draws of rate .4, five standard errors of the mean of 8,000 either way
    assert abs(drawn.mean() - 0.4) < 5.0 * math.sqrt(0.24 / drawn.size)
    # sizes: variance 9.6 of 40 draws; a chi-square of 199 degrees lies in [112, 310] but for 1e-6
    assert 112 < 199 * drawn.sum(axis=1).var(ddof=1) / 9.6 < 310
    # of each record the number of steps, whose spread shows samples that were kept
    assert drawn.mean(axis=0).max() < 0.4 + 6.0 * math.sqrt(0.24 / steps)


def test_a_selection_over_missing_losses_counts_them_in_n():
    """Losses that are missing count as the middle of the range: the score is that of n records."""
    values = np.full(N, np.nan)
    values[PLACES] = 1.0
    plan = selection.plan_selection(RecordValues(N, Ledger(1.0), SeededNoise(0)), 0.0, 1.0, 30.0)
    found = best_of_random_trials(
        lambda theta: values, (np.zeros(1), np.ones(1)), (0.0, 1.0), n=N, epsilon=30.0,
        mean_trials=1.01, ledger=Ledger(PureDP(30.0)), noise=SeededNoise(3),
    )  # fmt: skip
    exact = 0.5 + 0.5 * USABLE / N
    assert abs(found.score - exact) < 30.0 * plan.noise_scale < 0.2
    assert plan.cost.epsilon <= GDP(100.0).mu


@pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting")
def test_sampled_steps_are_all_accounted_for():
    """The multiplier, read off the plan, by the library's own pessimistic convolution.

    At the smallest delta, of which what convolutions may lose is a visible part.
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    budget, rate, steps = ApproxDP(1.0, 1e-10), 0.3, 3
    plan = plan_sampling(ridged(), budget, rate, steps)
    losses = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=plan.multiplier, sensitivity=1.0, pessimistic_estimate=True,
        value_discretization_interval=RELATIVE_INTERVAL * budget.epsilon, sampling_prob=rate,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    ).self_compose(steps)  # fmt: skip
    assert losses.get_epsilon_for_delta(budget.delta - CONVOLUTION_ERROR) <= budget.epsilon
    assert losses.get_epsilon_for_delta(budget.delta) >= 0.999 * budget.epsilon
    assert plan.receipt.l2_sensitivity / 2.0 <= plan.receipt.noise_scale / plan.multiplier
    with pytest.raises(InvalidBudget):
        plan_sampling(ridged(), ApproxDP(1.0, 1e-11), rate, steps)


@pytest.mark.parametrize("factor", [0.3, 0.9999, 1.0, 1.0001, 1.0005, 1.02])
def test_a_multiplier_just_short_is_not_enough(monkeypatch, factor):
    """Whatever the search meets on its way: epsilons just above the budget, on the first try too.

    Epsilons are inverse to the multiplier here, and ``factor`` times the budget where it starts.
    """
    budget, rate, steps = ApproxDP(0.8, 1e-6), 0.2, 10
    start = 2.0 * math.sqrt(steps) / GDP.within(budget).mu

    def stub(multiplier: float, *_: Any, **__: Any) -> float:
        return factor * budget.epsilon * start / multiplier

    monkeypatch.setattr(amplification, "sampled_epsilon", stub)
    found = amplification.noise_multiplier.__wrapped__(budget, rate, steps)
    assert 0.99 * budget.epsilon <= stub(found) <= budget.epsilon


# ---- before anything is read ---------------------------------------------------------------------

ASKED = {
    "statistics": (GDP, lambda desk: sums.sufficient_statistics(desk.curator(SQUARES), 1.0, 1.0)),
    "smallest of gram": (GDP, lambda desk: sums.smallest_eigenvalue(desk.curator(SQUARES), 1.0)),
    "minimiser": (GDP, lambda desk: ridge_minimiser(desk.curator(), 1.0)),
    "selection": (PureDP, lambda desk: best_of_random_trials(
        lambda theta: Y, (np.zeros(1), np.ones(1)), (0.0, 1.0), n=N, epsilon=1.0, mean_trials=3.0,
        ledger=desk.ledger, noise=desk.noise,
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_paid_reads_and_draws_nothing(monkeypatch, name):
    currency, ask = ASKED[name]
    with watch(monkeypatch) as events:
        desk = Desk(Ledger(POOR[currency]), Watched(events), events)
        with pytest.raises(BudgetExceeded):
            ask(desk)
    assert [event.kind for event in events] == ["charge"]


@pytest.mark.parametrize("ask", [
    lambda curator: sums.sufficient_statistics(curator, 1.0, 1.0),
    lambda curator: sums.smallest_eigenvalue(curator, 1.0),
])  # fmt: skip
def test_n_divides_however_few_records_are_usable(ask):
    def squares(X: Any, y: Any) -> Curator:
        return Curator(as_records(X, y), SQUARES, Ledger(50.0), SeededNoise(0))

    pairs = zip(noted(ask, squares(X, Y)), noted(ask, squares(FEW_X, FEW_Y)), strict=True)
    for here, alone in pairs:
        assert here.value == pytest.approx(alone.value * USABLE / N, rel=1e-9, abs=1e-12)


def test_a_shared_ledger_is_charged_before_anything_is_drawn(monkeypatch):
    for name, more in (
        ("output_perturbation", {"loss": Objective("log-cosh", scale=0.8, ridge=0.5)}),
        ("adassp", {"x_bound": 1.5, "y_bound": 2.0}),
    ):
        function = getattr(literature, name)
        with watch(monkeypatch) as events:
            ledger = Ledger(2.0)
            function(WHOLE_X, WHOLE_Y, privacy=1.0, ledger=ledger, noise=Watched(events), **more)
        shared = next(i for i, e in enumerate(events) if e.kind == "charge" and e.ledger is ledger)
        assert all(event.kind == "charge" for event in events[:shared])
        assert "draw" in [event.kind for event in events]
