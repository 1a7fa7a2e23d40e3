"""What KL-Spider and the proximal point do when the constants they are given are not right."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import dpfast
from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.data import as_records
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.nonconvex import KL
from dpfast.optimize import Adaptive
from dpfast.papers import Proximal, Spider

RNG = np.random.default_rng(5)
N, D = 2000, 4
X = RNG.normal(size=(N, D)) / 2.0
START = [0.7, -0.4, 0.2, 0.3]
BEST = X.mean(axis=0)


def gradients(theta, X, y):
    return theta - X


#: ``||w - x||^2/2``: gamma = 1/sqrt(2), kappa = 2; no record is clipped within reach.
BOWL = PerRecordObjective(gradients, dimension=D, lipschitz=5.0, smoothness=1.0, vectorized=True)
RIGHT = KL(0.5**0.5, 2.0)


def excess(result):
    return 0.5 * float(np.sum((result.params - BEST) ** 2))


def run(seed=0, **options):
    options = {"privacy": dpfast.ZCDP(0.5), "start": START} | options
    return dpfast.minimize(X, np.zeros(N), BOWL, noise=dpfast.SeededNoise(seed), **options)


@pytest.mark.parametrize("kl", [RIGHT, KL(1e-4, 1.2), KL(1e4, 2.0), KL(1.0, 2.02), KL(1.0, 5.0)])
@pytest.mark.one_in(5)
def test_auto_does_the_same_whatever_it_is_told(kl):
    """Bit by bit: told more, it cannot get worse."""
    told, untold = run(kl=kl), run()
    np.testing.assert_array_equal(told.params, untold.params)
    assert told.method == untold.method
    assert told.warnings == untold.warnings == ()


def test_with_the_right_constants_nothing_is_handed_over():
    """20 seeds; none may leave the plan, or the guard would cost what it protects."""
    for seed in range(20):
        result = run(seed, kl=RIGHT, method="spider")
        assert result.warnings == ()
        assert all("target" in record for record in result.rounds)


@cache
def excesses_of_half():
    plain = {"privacy": dpfast.ZCDP(0.25), "method": Adaptive(clip=None, last_share=0.002)}
    return [excess(run(s, **plain)) for s in range(2)]


@pytest.mark.parametrize("method", [Spider(guard=True), Proximal(guard=True)])
@pytest.mark.parametrize(
    "kl",
    [
        KL(1e-3, 2.0),
        pytest.param(KL(30.0, 2.0), marks=pytest.mark.slow),
        pytest.param(KL(0.7, 1.1), marks=pytest.mark.slow),
        pytest.param(KL(30.0, 4.0), marks=pytest.mark.slow),
    ],
)
@pytest.mark.one_in(2)
def test_wrong_constants_cost_no_more_than_half_of_the_budget(method, kl):
    """Mean over 2 seeds against adaptive descent with half the budget, and far below the start's.

    The factor is 4 and not 1 because a plan that fails late has little left to hand over.
    """
    half = np.mean(excesses_of_half())
    found = [run(s, kl=kl, method=method) for s in range(2)]
    assert np.mean([excess(result) for result in found]) < 4.0 * half
    for result in found:
        if result.warnings:
            late = "the budget is spent" in result.warnings[0]
            assert late or result.rounds[-1]["method"] == "adaptive"
            assert late or "adaptive descent had the remaining budget" in result.warnings[0]
            assert "KL" in result.summary() or "proximal" in result.summary()


@pytest.mark.parametrize("name", ["spider", "proximal"])
@pytest.mark.parametrize("kl", [RIGHT, KL(1e-3, 2.0), KL(30.0, 2.0)])
def test_a_method_by_its_name_runs_to_its_end_and_warns(name, kl):
    """As published: no other method has any of the budget."""
    result = run(kl=kl, method=name)
    assert not any(record.get("method") == "adaptive" for record in result.rounds)
    assert len(result.rounds) > 1
    if kl is not RIGHT and name == "spider" and kl.gamma < 1.0:
        assert "as short as planned" in result.warnings[0]
        assert "Spider(guard=True)" in result.warnings[0]


def test_spider_stays_in_the_ball_of_its_schedule():
    """Lemma 1's radius is the sum of the schedule's steps; a run cannot be farther away."""
    ledger = dpfast.Ledger(dpfast.ZCDP(0.5))
    records = as_records(X, np.zeros(N))
    curator = GradientCurator(records, BOWL, ledger, dpfast.SeededNoise(0))
    for kl in (RIGHT, KL(0.2, 1.5)):
        ball = Spider(guard=True).ball(curator, kl)
        assert not ledger.entries
        result = run(3, kl=kl, method=Spider(guard=True))
        planned = sum("target" in record for record in result.rounds)
        moved = np.linalg.norm(result.iterates - np.array(START), axis=1)
        assert planned >= 1
        assert moved[: sum(r["n_steps"] for r in result.rounds[:planned])].max() <= ball


@pytest.mark.parametrize("kappa", [1.25, 2.0, 3.0])
def test_growth_and_kl_conditions_imply_each_other(kappa):
    """Appendix A on ``(a r)^tau``, which has both with known constants; and not twice."""
    tau, a = kappa / (kappa - 1.0), 1.7
    kl = KL.from_growth(a, tau)
    assert kl.kappa == pytest.approx(kappa)
    r = np.geomspace(1e-3, 1e3, 50)
    value, slope = (a * r) ** tau, tau * a * (a * r) ** (tau - 1.0)
    assert (value <= (kl.gamma * slope) ** kl.kappa * (1 + 1e-9)).all()
    exact = KL(1.0 / (a * tau), kappa)  # lemma 6 loses the factor tau, lemma 7 gives it back
    rate, exponent = exact.growth()
    assert (rate, exponent) == pytest.approx((a, tau))
    for refused in (lambda: KL.from_growth(1.0, 1.0), KL(1.0, 1.0).growth):
        with pytest.raises(dpfast.InvalidInput, match="exceed 1"):
            refused()


def test_a_step_out_of_the_ball_ends_the_plan(monkeypatch):
    monkeypatch.setattr(Spider, "ball", lambda self, curator, kl: 1e-3)
    result = run(kl=RIGHT, method=Spider(guard=True))
    assert "leave the ball" in result.warnings[0]
    assert excess(result) < 1e-3


def test_what_an_inner_optimiser_answers_is_held_to_its_ball():
    class Wild:
        def solve(self, curator, centre, convexity, rho):
            curator.gradient(centre, rho)
            return centre + 1e6, rho

    result = run(method=Proximal(rounds=2, inner=Wild(), convexity=2.0))
    moves = np.linalg.norm(np.diff(result.iterates, axis=0), axis=1)
    np.testing.assert_allclose(moves, BOWL.lipschitz / 4.0)
