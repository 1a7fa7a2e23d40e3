"""One Newton step from a pilot: how far a record moves it, what it costs, and how near it ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.curator import noisy_release
from dpfast.curator.release.one_step import exact_product, newton_steps, step_rate, step_terms
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from dpfast.inference.composition import Prepaid, Sum
from dpfast.kernels.records import GRADIENT
from dpfast.models import Ball, Bounded, Box, LogCosh, Logistic
from dpfast.privacy.release.sensitivity import STEP_COUNT, step_grid, step_shift
from dpfast.release.request import ReleaseRequest
from dpfast.release.routes import MANY, route
from tests.release.neighbours import assert_told_apart_no_better

LOSS = LogCosh(2.0)
SCALED = dpfast.Objective(LOSS, scale=1.0)
PAIR = dpfast.ApproxDP(1.0, 1e-6)
BOX = Box(1.0, intercept=True)


def sample(n, p=3, seed=0, binary=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, p))
    t = X @ np.linspace(1.0, -1.0, p)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-t))) * 1.0 if binary else t + rng.laplace(size=n)
    return X, y


def requested(X, y, loss=LOSS, domain=BOX, noise=None):
    scale = None if isinstance(loss, Logistic) else 1.0
    records = dpfast.records(X, y, threads=1)
    return ReleaseRequest(
        records, None, dpfast.Objective(loss, scale=scale), domain=domain, noise=noise
    )


def computed(request, theta, a):
    """The number a step is about, and how far it may move."""
    curator = request.curator(dpfast.Ledger(dpfast.PureDP(1.0)))
    terms = step_terms(curator, request.domain, a[None], 1.0)
    return exact_product(a, curator._sums(theta, GRADIENT)[0]), terms


def counts(request, theta, a):
    value, terms = computed(request, theta, a)
    return math.floor(value / Fraction(terms.grids[0]))


@pytest.mark.parametrize("domain", [BOX, Box([-1.0, 0.5], [0.2, 3.0]), Ball(1.7)], ids=repr)
def test_r39_one_record_moves_a_step_by_its_bound_and_no_more(domain):
    """The farthest row of the domain with residuals of both signs: .999 of the cells at least."""
    a = np.array([0.3, -1.0, 2.0])[1 - domain.intercept :]
    fixed, slopes = (a[0], a[1:]) if domain.intercept else (0.0, a)
    if isinstance(domain, Ball):
        row = domain.radius * a / np.linalg.norm(a)
    else:
        lows, highs = domain.bind(2)._lows, domain.bind(2)._highs
        ends = [np.where(slopes > 0, one, other) for one, other in ((highs, lows), (lows, highs))]
        row = max(ends, key=lambda end: abs(fixed + end @ slopes))
    found = []
    for value in (-1e9, 1e9):
        X, y = sample(40, 2)
        X[0], y[0] = row, value
        found.append(counts(requested(X, y, LOSS, domain), np.zeros(len(a)), a))
    assert 0.999 * STEP_COUNT <= abs(found[0] - found[1]) <= STEP_COUNT


def test_r39_the_bound_is_attained_for_the_logistic_loss_too():
    """Along a both rows lie on one side, along theta on opposite ones."""
    a, theta, found = np.array([1.0, 0.0]), np.array([0.0, 1e4]), []
    for second, label in ((1.0, 0.0), (-1.0, 1.0)):
        X, y = sample(30, 2, binary=True)
        X[0], y[0] = [1.0, second], label
        found.append(counts(requested(X, y, Logistic(), Box(1.0)), theta, a))
    assert 0.999 * STEP_COUNT <= abs(found[0] - found[1]) <= STEP_COUNT


def test_r39_random_and_extreme_pairs_stay_within_the_bound():
    rng, most = np.random.default_rng(4), 0.0
    for trial in range(400):
        p, n = int(rng.integers(1, 5)), int(rng.integers(1, 60))
        loss = (LOSS, Logistic(), dpfast.Huber(1.3))[trial % 3]
        binary = isinstance(loss, Logistic)
        domain = (Box(1.0), BOX, Ball(1.3))[trial // 3 % 3]
        X, y = sample(n, p, trial, binary)
        X2, y2 = X.copy(), y.copy()
        for rows, values in ((X, y), (X2, y2)):
            rows[0] = rng.choice([-1.0, 1.0], p) * rng.choice([1.0, 1e200, 0.1, np.nan])
            values[0] = rng.integers(0, 2) if binary else rng.choice([-1e9, 1e9, 0.0, np.inf])
        dimension = p + int(domain.intercept)
        a = rng.normal(size=dimension) * 10.0 ** rng.uniform(-8, 8)
        theta = rng.normal(size=dimension) * 10.0 ** rng.uniform(-2, 6)
        moved = abs(
            counts(requested(X, y, loss, domain), theta, a)
            - counts(requested(X2, y2, loss, domain), theta, a)
        )
        assert moved <= STEP_COUNT
        most = max(most, moved / STEP_COUNT)
    assert most > 0.95


def test_r39_rounding_is_relative_to_the_length_and_not_to_the_reach():
    """Along a thin side of the domain scores cancel: what is left of them is mostly rounding."""
    thin = Box([1.0 - 1e-13, -1e-14], [1.0 + 1e-13, 1e-14])
    a = np.array([1e-14, 1.0])
    X = np.tile([1.0, 0.0], (200, 1))
    y = np.random.default_rng(2).normal(size=200)
    value, terms = computed(requested(X, y, domain=thin), np.zeros(2), a)
    reach, length = thin.support(a) * 2.0, 2.0 * float(np.linalg.norm(a)) * thin.radius
    assert reach < 1e-11 * length
    depth = requested(X, y).curator(dpfast.Ledger(1.0)).depth(GRADIENT)
    shift = step_shift(reach, length, 200, depth=depth)
    assert shift >= 2.0 / 200 * (reach + 3e-12 * length)
    assert terms.grids[0] == pytest.approx(shift / (STEP_COUNT - 1), rel=1e-9)
    assert step_shift(2.0 * reach, length, 200, depth=depth) > shift
    assert math.isfinite(float(value))


def test_r39_two_neighbours_are_told_apart_as_promised_and_no_less_would_do():
    """All half-lines of 5,000 steps each, at 1e-6; nine tenths of the budget would be exceeded."""
    epsilon, runs, found = 1.0, 5_000, []
    for extreme in (1e9, -1e9):
        X, y = np.ones((30, 2)), np.linspace(-1.0, 1.0, 30)
        y[0] = extreme
        request = requested(X, y, domain=Box(1.0), noise=dpfast.SeededNoise(int(extreme > 0)))
        curator = request.curator(dpfast.Ledger(dpfast.PureDP(2.0 * epsilon * runs)))
        terms = step_terms(curator, request.domain, np.eye(2)[:1], epsilon)
        assert terms.scales == pytest.approx(2.0 * 2.0 / 30 / epsilon, rel=1e-3)
        found.append([newton_steps(curator, np.zeros(2), terms)[0] for _ in range(runs)])
    on, off = (np.array(one) for one in sorted(found, key=np.mean, reverse=True))
    assert_told_apart_no_better(on, off, epsilon, 0.0)
    levels = np.quantile(off, np.linspace(0.3, 0.9, 21))
    assert any((on > t).mean() > math.exp(0.9 * epsilon) * (off > t).mean() for t in levels)


def test_r39_several_steps_share_epsilon():
    X, y = sample(50)
    request = requested(X, y)
    curator = request.curator(dpfast.Ledger(dpfast.PureDP(1.0)))
    one, three = (step_terms(curator, request.domain, np.eye(4)[:k], 1.0) for k in (1, 3))
    assert three.scales == pytest.approx(3.0 * one.scales[0] * np.ones(3), rel=1e-9)


def test_r39_what_is_charged_adds_up_to_the_total():
    """The pilot's pair and the step's epsilon are the total, exactly, whatever the share is."""
    X, y = sample(3000)
    for total in (PAIR, dpfast.ApproxDP(0.7310586, 1e-7), dpfast.ApproxDP(3.3, 3e-5)):
        for inference in (None, 0.3):
            ledger = dpfast.Ledger(total)
            found = dpfast.release_functional(
                X, y, SCALED, ["x1", "x2"], privacy=total, domain=BOX,
                ledger=ledger, method="one-shot", inference=inference, noise=dpfast.SeededNoise(1),
            )  # fmt: skip
            (entry,) = ledger.entries
            assert entry.charged == total and found.privacy.total == total
            whole = found.privacy.composition
            parts = whole.parts if inference is None else whole.parts[0].parts
            assert isinstance(whole, Sum) and isinstance(parts[0], Prepaid)
            one, two = parts[1].parts
            step = 2.0 * one.spend.epsilon
            assert one == two
            aside = (0.0, 0.0) if inference is None else whole.parts[1].spend.values()
            epsilons = parts[0].spend.epsilon, step, aside[0]
            spent = [sum(Fraction(repr(part)) for part in epsilons)]
            spent.append(Fraction(repr(parts[0].spend.delta)) + Fraction(repr(aside[1])))
            for whole, found_of_it in zip(map(repr, total.values()), spent, strict=True):
                exactly = Fraction(whole)  # numbers are the decimals that they are written as
                assert exactly * (1 - Fraction(2) ** -50) < found_of_it <= exactly
            assert type(one.spend) is dpfast.PureDP
            # what the pilot's answers cost together is the pilot's pair
            mu = math.hypot(*[charge.spend.mu for charge in parts[0].part.parts])
            assert mu <= dpfast.GDP.within(parts[0].spend).mu
            if inference is not None:  # and what buys standard errors the pair beside it
                bought = found.privacy.composition.parts[1]
                mu = math.hypot(*[charge.spend.mu for charge in bought.part.parts])
                assert mu <= dpfast.GDP.within(bought.spend).mu
                assert bought.spend.values() == pytest.approx([0.3 * x for x in total.values()])
            # and the integers the step's
            assert 2 * STEP_COUNT * Fraction(*step_rate(step, 2)) <= Fraction(step)
            laplace = found._scale_bounds
            assert (laplace > 0.0).all() and found.noise_law == "laplace"


def test_r39_a_record_that_is_not_finite_is_zero():
    X, y = sample(50)
    theta, a = np.array([0.1, 0.2, -0.3, 0.4]), np.array([1.0, -2.0, 0.5, 0.3])
    without = computed(requested(X[1:], y[1:]), theta, a)[0]
    for row, value in (([np.nan, 0, 0], 0.0), ([0, np.inf, 0], 0.0), ([0, 0, 0], np.nan)):
        X[0], y[0] = row, value
        found = computed(requested(X, y), theta, a)[0]
        assert float(found) == pytest.approx(float(without) * 49 / 50, rel=1e-12)


def test_a_step_is_charged_before_the_records_are_read():
    X, y = sample(50)
    request = requested(X, y)
    curator = request.curator(dpfast.Ledger(dpfast.PureDP(1.0)))
    terms = step_terms(curator, request.domain, np.eye(4)[:1], 0.7)
    newton_steps(curator, np.zeros(4), terms)
    assert curator.ledger.spent == dpfast.PureDP(0.7)
    curator._records = None  # which would raise
    with pytest.raises(BudgetExceeded):
        newton_steps(curator, np.zeros(4), terms)


def test_directions_beyond_floating_point_make_no_step():
    X, y = sample(50)
    request = requested(X, y)
    curator = request.curator(dpfast.Ledger(dpfast.PureDP(1.0)))
    for a in (np.zeros(4), np.full(4, 1e300), np.full(4, np.inf), np.full(4, np.nan)):
        assert step_terms(curator, request.domain, a[None], 1.0) is None
    assert step_grid(1.0) * (STEP_COUNT - 1) >= 1.0


@pytest.mark.parametrize(
    ("loss", "n"),
    [(LOSS, 3000), pytest.param(LOSS, 20_000, marks=pytest.mark.slow), (Logistic(), 20_000)],
)
def test_a_step_is_nearer_than_the_fit_and_its_intervals_cover(loss, n):
    binary = isinstance(loss, Logistic)
    X, y = sample(n, binary=binary)
    scale = None if binary else 1.0
    exact = dpfast.nonprivate_fit(
        X, y, dpfast.Objective(loss, weights=Bounded(2.5), scale=scale)
    ).params
    objective = dpfast.Objective(loss, scale=scale)
    options = {"privacy": PAIR, "domain": BOX}
    off, of_fit, covered = [], [], []
    for seed in range(20):
        noise = {"noise": dpfast.SeededNoise(seed)}
        found = dpfast.release_functional(X, y, objective, "x1", **options, **noise)
        assert "one Newton step" in found.method and not found.certified
        off.append(found.value - exact[1])
        low, high = found.noise_interval(0.9)[0]
        covered.append(low <= exact[1] <= high)
        fitted = dpfast.release_functional(X, y, objective, "x1", method="fit", **options, **noise)
        of_fit.append(fitted.value - exact[1])
    ratio = np.sqrt(np.mean(np.square(off)) / np.mean(np.square(of_fit)))
    assert ratio < 0.75
    assert np.mean(covered) >= 0.8  # 90%, 20 runs: false failure 4%, but seeds are fixed
    assert np.std(off) < 3.0 * found.noise_scale_bound[0]


def test_a_ridge_is_part_of_the_step():
    X, y = sample(20_000)
    exact = dpfast.nonprivate_fit(
        X, y, dpfast.Objective(LOSS, weights=Bounded(2.5), scale=1.0, ridge=0.5)
    ).params
    found = dpfast.release_functional(
        X, y, dpfast.Objective(LOSS, scale=1.0, ridge=0.5), [0.0, 2.0, 0.0, 0.0], domain=BOX,
        privacy=dpfast.ApproxDP(8.0, 1e-6), noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert found.value == pytest.approx(2.0 * exact[1], abs=5e-3)


def test_public_numbers_choose_the_method():
    def chosen(n, epsilon, count=1, loss=LOSS, p=3):
        request = requested(np.zeros((n, p)), np.zeros(n), loss)
        return route("auto", request, dpfast.ApproxDP(epsilon, 1e-6), count)

    assert chosen(50, 0.5).method == "objective-perturbation"
    assert chosen(180, 1.0).method == "fit"
    assert chosen(50, 0.5, loss=dpfast.Huber(1.3)).method == "fit"  # which cannot be perturbed
    assert chosen(20_000, 1.0).method == "one-shot"
    assert chosen(20_000, 1.0, count=MANY).method == "fit"
    shares = [chosen(n, 1.0).share for n in (600, 5_000, 100_000, 10_000_000)]
    assert shares == sorted(shares, reverse=True) and shares[0] < 0.8 and shares[-1] >= 0.15
    X, y = sample(60)
    for method in ("one-shot", "fit", "objective-perturbation"):
        found = dpfast.release_functional(
            X, y, SCALED, "x1", privacy=PAIR, domain=BOX, method=method
        )
        assert "as requested" in found.method or "perturbation" in found.method
        assert found.noise_interval().shape == (1, 2) and np.isfinite(found.value)


def test_an_unknown_method_or_budget_is_refused():
    X, y = sample(50)
    options = {"privacy": PAIR, "domain": BOX}
    with pytest.raises(InvalidInput, match="method"):
        dpfast.release_functional(X, y, SCALED, "x1", method="best", **options)
    tiny = options | {"privacy": dpfast.ApproxDP(1e-9, 1e-9), "method": "one-shot"}
    ledger = dpfast.Ledger(PAIR)
    with pytest.raises(InvalidBudget):
        dpfast.release_functional(X, y, SCALED, "x1", ledger=ledger, **tiny)
    assert not ledger.entries


def test_a_pilot_that_was_paid_for_arrives(monkeypatch):
    X, y = sample(2000)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(noisy_release, "release_integer", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        dpfast.release_functional(X, y, SCALED, "x1", privacy=PAIR, domain=BOX, inference=0.2)
    kept = stopped.value.partial_result
    assert isinstance(kept, dpfast.release.FunctionalRelease) and abs(kept.value - 1.0) < 1.0
    assert kept.privacy.total == PAIR and kept.noise_law == "gaussian"
    assert kept.privacy.unspent.epsilon > 0.1


def test_hidden_directions_are_said():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(4_000, 2))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    y = X[:, 0] + rng.laplace(size=4_000)
    options = {"privacy": dpfast.ApproxDP(1.0, 1e-6), "noise": dpfast.SeededNoise(0)}
    loss, box = dpfast.Objective("log-cosh", scale=1.0), dpfast.models.Box(1.0)
    for method in ("one-shot", "fit"):
        found = dpfast.release_functional(X, y, loss, "x1", domain=box, method=method, **options)
        assert any("too noisy in one direction of 2" in said for said in found.warnings)
        assert found.warnings[0] in " ".join(str(found).split())
        assert "nearest within it" in found.target
    X[:, 1] = rng.uniform(-1.0, 1.0, size=4_000)
    assert not dpfast.release_functional(X, y, loss, "x1", domain=box, **options).warnings


def test_a_penalty_is_named_in_the_target():
    X, y = np.zeros((60, 1)), np.zeros(60)
    loss = dpfast.Objective("log-cosh", scale=1.0)
    found = dpfast.release_functional(
        X, y, loss, "x1", privacy=dpfast.ApproxDP(1.0, 1e-6), domain=dpfast.models.Box(1.0),
        method="objective-perturbation", noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert "ridge penalty" in found.target
