"""dpfast.minimize as a user meets it."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import dpfast
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.nonconvex import KL
from dpfast.optimize import Adaptive
from dpfast.papers import NoisyDescent, Proximal, Spider
from dpfast.regression.nonprivate import nonprivate_curator
from tests.loops import each

RNG = np.random.default_rng(1)
N = 20_000
X = RNG.normal(size=(N, 3))
TRUTH = np.array([1.0, 2.0, -1.0, 0.5])
Y = TRUTH[0] + X @ TRUTH[1:] + 0.5 * RNG.normal(size=N)
Y[: N // 5] = 40.0 + RNG.normal(size=N // 5)  # gross outliers
TUKEY = dpfast.Objective("tukey", scale=1.0)
CLIPPED = dpfast.Objective("tukey", dpfast.models.Clip(1.0), scale=1.0)


def quiet():
    """Noise from the same seed for every test: none depends on which ran before."""
    return dpfast.SeededNoise(3)


@pytest.mark.parametrize("loss", ["tukey", "geman-mcclure", "welsch", "cauchy"])
@pytest.mark.parametrize("privacy", [dpfast.ZCDP(0.5), dpfast.GDP(1.0), dpfast.ApproxDP(2.0, 1e-6)])
@pytest.mark.values
def test_adaptive_descent_ignores_gross_outliers(loss, privacy):
    """Seeded; the tolerance is six times the largest error seen over 50 seeds."""
    result = dpfast.minimize(
        X, Y, dpfast.Objective(loss, scale=1.0), privacy=privacy, noise=quiet()
    )
    assert np.abs(result.params - TRUTH).max() < 0.3
    assert result.iterates.shape[1] == 4
    assert result.gradient_norms.shape == (len(result.iterates),)
    assert "adaptive" in result.method.lower()
    assert str(result.privacy) in str(pickle.loads(pickle.dumps(result)).privacy)
    assert result.predict(X[:5]).shape == (5,)
    with pytest.raises(AttributeError):
        _ = result.bse
    assert "none (simulation)" in result.summary()


def test_spider_follows_its_plan():
    """Steps of fixed length leave this loss's basin under a third of 60 seeds."""
    exact = dpfast.nonconvex.nonprivate_minimize(X, Y, TUKEY)
    options = {
        "privacy": dpfast.ZCDP(0.5),
        "kl": KL(1.2, 2.0),
        "method": Spider(guard=True),
    }
    errors = []
    for seed in range(6):
        result = dpfast.minimize(X, Y, TUKEY, noise=dpfast.SeededNoise(seed), **options)
        assert result.method.startswith("Spider")
        # a round that did not end as planned is the last one; then adaptive descent goes on
        planned = [record for record in result.rounds if "target" in record]
        assert len(result.rounds) - len(planned) == len(result.warnings)
        targets = [record["target"] for record in planned]
        assert all(b <= a for a, b in itertools.pairwise(targets))
        for record in planned:
            assert record["n_steps"] >= 1
        errors.append(np.abs(result.params - exact.params).max())
        if result.warnings:
            continue
        steps = np.linalg.norm(np.diff(result.iterates, axis=0), axis=1)
        allowed = [record["step"] for record in planned]
        assert np.abs(steps[:, None] - np.array(allowed)[None]).min(axis=1).max() < 1e-12
    assert len(errors) >= 3
    assert np.max(errors) < 0.02


def test_proximal_point_with_an_inner_optimiser_of_ones_own():
    class Lazy:
        def solve(self, curator, centre, convexity, rho):
            curator.gradient(centre, rho / 2)
            return centre + 0.1, rho / 2

    options = {"privacy": dpfast.ZCDP(0.2), "noise": quiet()}
    result = dpfast.minimize(X, Y, TUKEY, method=Proximal(rounds=3, inner=Lazy()), **options)
    np.testing.assert_allclose(result.params, 0.3)
    # what the first rounds left was used by the last: 1/7, then 2/6 and all of the rest, halved;
    # a hundredth is kept for the comparison with the start
    shares = [record["rho"] / (0.99 * 0.2) for record in result.rounds]
    assert shares == pytest.approx(
        [0.5 / 7, 13 / 14 / 3 * 0.5, 13 / 14 * (1 - 1 / 6) * 0.5], rel=1e-6
    )
    method = Proximal(rounds=12, convexity=0.3, inner=NoisyDescent(steps=40))
    result = dpfast.minimize(
        X, Y, dpfast.Objective("cauchy", scale=1.0), method=method, **(options | {"privacy": 2.0})
    )
    assert np.abs(result.params - TRUTH).max() < 0.5


def test_the_method_follows_from_what_is_known():
    def chosen(**options):
        options = {"privacy": dpfast.ZCDP(0.1), "noise": quiet()} | options
        return dpfast.minimize(X[:200], Y[:200], TUKEY, **options).method

    assert chosen().startswith("Adaptive")
    assert chosen(kl=(1.0, 1.5), method="spider").startswith("Spider")
    assert chosen(kl=(1.0, 2.0), method="adaptive").startswith("Adaptive")
    assert chosen(kl=KL(1.0, 3.0), method="proximal").startswith("Proximal")


@each(
    ("options", "message"),
    [
        ({"method": "spider"}, "needs kl"),
        ({"method": "newton"}, "method must be"),
        ({"select": "best"}, "select must be"),
        ({"kl": (1.0, 0.5)}, "kappa"),
        ({"kl": (0.0, 2.0)}, "gamma"),
        ({"privacy": dpfast.PureDP(1.0)}, "Gaussian noise"),
        ({"start": [1.0]}, "start"),
        ({"objective": CLIPPED}, "no smoothness"),
        ({"objective": CLIPPED, "kl": (1.0, 2.0), "method": "spider"}, "no smoothness"),
        ({"objective": CLIPPED, "kl": (1.0, 3.0), "method": "proximal"}, "no smoothness"),
        ({"privacy": dpfast.ZCDP(1e-14)}, "too small"),
    ],
)
def test_refusals_come_before_anything_is_spent(options, message):
    ledger = dpfast.Ledger(dpfast.ZCDP(10.0))
    options = {"objective": TUKEY, "privacy": dpfast.ZCDP(0.1), "ledger": ledger} | options
    with pytest.raises(dpfast.DpfastError, match=message):
        dpfast.minimize(X[:50], Y[:50], **options)
    assert not ledger.entries


def test_settings_are_checked():
    for wrong in (
        lambda: Adaptive(step_size=0.0),
        lambda: Adaptive(average=1.0),
        lambda: Adaptive(max_steps=0),
        lambda: Spider(decay=1.0),
        lambda: Spider(step=2.0, threshold=0.5),
        lambda: Proximal(rounds=0),
        lambda: NoisyDescent(steps=2.5),
    ):
        with pytest.raises(dpfast.InvalidInput):
            wrong()


def test_a_clipped_objective_works_with_a_step_size():
    result = dpfast.minimize(
        X, Y, dpfast.Objective("tukey", weights=dpfast.models.Clip(2.0), scale=1.0), privacy=2.0,
        noise=quiet(), method=Adaptive(step_size=0.3),
    )  # fmt: skip
    assert np.abs(result.params - TRUTH).max() < 0.4


def test_the_choice_among_iterates():
    options = {"privacy": dpfast.ZCDP(0.5), "noise": quiet()}
    free = dpfast.minimize(X, Y, TUKEY, select="shortest gradient", **options)
    norms = np.where(np.isnan(free.gradient_norms), np.inf, free.gradient_norms)
    np.testing.assert_array_equal(free.params, free.iterates[norms.argmin()])
    assert np.abs(free.params - TRUTH).max() < 0.4
    drawn = dpfast.minimize(X, Y, TUKEY, select="exponential", **options)
    assert np.abs(drawn.params - TRUTH).max() < 0.4


@pytest.mark.slow
def test_a_per_record_objective_has_names_and_no_prediction():
    def gradients(theta, X, y):
        return (X @ theta - y)[:, None] * X

    target = PerRecordObjective(gradients, dimension=3, lipschitz=3.0, smoothness=9.0)
    few = X[:500]
    result = dpfast.minimize(few, few @ [1.0, 2.0, 3.0], target, privacy=8.0, noise=quiet())
    assert result.names == ("w1", "w2", "w3")
    assert np.abs(result.params - [1.0, 2.0, 3.0]).max() < 0.1
    with pytest.raises(dpfast.InvalidInput, match="regression"):
        result.predict(X)
    with pytest.raises(dpfast.InvalidInput, match="names"):
        dpfast.minimize(dpfast.records(X, Y, names=["a"]), None, target, privacy=2.0)
    with pytest.raises(dpfast.InvalidInput, match="loss must be"):
        dpfast.Objective(target, scale=1.0)


@pytest.mark.parametrize("tau", [4.0, 3.0, 2.0, 1.5])
@pytest.mark.one_in(4)
def test_kl_constants_are_found_on_public_data(tau):
    """``||w - 1||^tau / tau`` has kappa = tau/(tau - 1) and gamma = tau^(-1/kappa)."""

    def gradients(theta, X, y):
        step = theta - 1.0
        return np.tile(step * np.linalg.norm(step) ** (tau - 2.0), (len(y), 1))

    def losses(theta, X, y):
        return np.full(len(y), np.linalg.norm(theta - 1.0) ** tau / tau)

    target = PerRecordObjective(
        gradients, dimension=2, lipschitz=9.0, smoothness=9.0, losses=losses
    )
    found = dpfast.nonconvex.estimate_kl(np.zeros((4, 1)), np.zeros(4), target, start=[0.2, 0.3])
    kappa = tau / (tau - 1.0)
    assert found.kl.kappa == pytest.approx(kappa, rel=0.05)
    assert found.kl.gamma == pytest.approx(tau ** (-1.0 / kappa), rel=0.15)
    low, high = found.kappa_interval
    assert low - 1e-3 <= kappa <= high + 1e-3
    assert high - low < 0.5
    assert (found.excesses <= [found.kl.excess(g) * (1 + 1e-9) for g in found.norms]).all()
    fixed = dpfast.nonconvex.estimate_kl(
        np.zeros((4, 1)), np.zeros(4), target, start=[0.2, 0.3], kappa=kappa
    )
    assert fixed.kl.kappa == kappa
    assert fixed.kappa_interval == (kappa, kappa)


def test_kl_constants_of_a_redescending_regression_are_plausible():
    found = dpfast.nonconvex.estimate_kl(X[3000:8000], Y[3000:8000], TUKEY)
    # not degenerate at its minimiser, so kappa is 2: the interval knows, the slope does not
    low, high = found.kappa_interval
    assert low <= 2.0 <= high
    assert low <= found.kl.kappa <= high
    assert len(found.norms) > 100
    with pytest.raises(dpfast.InvalidInput, match="start is the minimiser"):
        dpfast.nonconvex.estimate_kl(np.zeros((5, 1)), np.zeros(5), TUKEY)


def fair(r):
    return np.log1p(r * r / 4.0)


def fair_psi(r):
    return 0.5 * r / (1.0 + r * r / 4.0) if abs(r) < 1e100 else 0.0


def fair_slope(r):
    return 0.5 * (1.0 - r * r / 4.0) / (1.0 + r * r / 4.0) ** 2 if abs(r) < 1e70 else 0.0


def test_a_scalar_loss_of_ones_own_that_is_not_convex():
    pytest.importorskip("numba")
    loss = dpfast.CustomLoss(
        fair, fair_psi, fair_slope, psi_bound=0.5, psi_prime_bound=0.5, convex=False
    )
    options = {"privacy": dpfast.ZCDP(0.5), "noise": quiet()}
    objective = dpfast.Objective(loss, scale=1.0)
    result = dpfast.minimize(X, Y, objective, **options)
    assert np.abs(result.params - TRUTH).max() < 0.3
    spider = dpfast.minimize(X, Y, objective, kl=(3.0, 2.0), method="spider", **options)
    assert len(spider.rounds) >= 1
    assert loss.lowest_slope is None  # nothing is assumed about the form of its changes


@pytest.mark.parametrize(
    ("method", "kl"),
    [
        (Adaptive(), None),
        (Adaptive(norm_queries=True), None),
        (Spider(), (1.0, 2.0)),
        (Spider(), (1.0, 1.2)),
        (Proximal(), (1.0, 3.0)),
        (Proximal(rounds=40), (1.0, 3.0)),
        (Proximal(rounds=40, inner=Adaptive(last_share=0.1)), (1.0, 3.0)),
    ],
)
@pytest.mark.parametrize("rho", [1e-9, 1e-6, 1e-3, 50.0])
@pytest.mark.values
def test_no_budget_ends_a_run_early(method, kl, rho):
    """Amounts too small for a release are not asked for."""
    result = dpfast.minimize(
        X[:300], Y[:300], TUKEY, privacy=dpfast.ZCDP(rho),
        noise=quiet(), kl=kl, method=method,
    )  # fmt: skip
    assert np.isfinite(result.params).all()
    assert result.privacy.entries


def test_a_logistic_minimum_predicts_probabilities():
    y = np.where(X[:, 0] > 0.5, 1.0, 0.0)
    private = dpfast.minimize(X, y, "logistic", privacy=20.0, noise=quiet())
    for result in (
        private,
        dpfast.nonconvex.nonprivate_minimize(X, y, dpfast.Objective("logistic", ridge=0.01)),
    ):
        found = result.predict(X[:50])
        t = result.params[0] + X[:50] @ result.params[1:]
        np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-t)))
    schema = dpfast.Schema({"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(0, 1)})
    design = schema.encode({"x": X[:, 0], "y": y}, ["x"], "y")
    with pytest.raises(dpfast.InvalidInput, match="response of 0 and 1"):
        dpfast.nonconvex.nonprivate_minimize(design, None, "logistic")


def test_algorithm_4_alone_is_one_round_about_the_start():
    """Of the mean loss plus L ||w - start||^2, whose exact minimiser is known here."""
    start, budget = [1.0, 1.5, -0.5, 0.0], dpfast.ZCDP(200.0)
    found = dpfast.minimize(
        X,
        Y,
        dpfast.Objective("cauchy", scale=1.0),
        privacy=budget,
        method=NoisyDescent(),
        start=start,
        noise=quiet(),
    )
    assert len(found.rounds) == 1 and "one round" in found.method
    curator, theta = nonprivate_curator(X, Y, dpfast.Objective("cauchy", scale=1.0), start=start)
    convexity = curator.smoothness
    for _ in range(300):
        pull = 2.0 * convexity * (theta - start)
        theta = theta - 0.25 / convexity * (curator.nonprivate_gradient(theta) + pull)
    assert np.abs(theta - start).max() > 0.02
    assert np.abs(found.params - theta).max() < 0.005
