"""``plan_release``: a forecast from public rows, which agrees with what releases then do."""

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidBudget, InvalidInput
from tests.loops import each

PAIR = dpfast.ApproxDP(1.0, 1e-6)
LOG_COSH = dpfast.Objective("log-cosh", scale=1.0)
BOX = dpfast.models.Box(1.0, intercept=True)


def planned(n, **options):
    given = {"loss": LOG_COSH, "privacy": PAIR, "domain": BOX, "runs": 8} | options
    return dpfast.release.plan_release(n, given.pop("p", 2), **given)


def test_the_method_is_named_and_its_error_forecast():
    few, some, many = planned(20), planned(110), planned(20_000)
    methods = [plan.method for plan in (few, some, many)]
    assert methods == ["objective-perturbation", "fit", "one-shot"]
    assert many.error < 0.6 * many.fit_error and many.announced < few.announced
    assert some.error == some.fit_error
    for plan in (few, some, many):
        low, high = plan.error_range
        assert 0.0 < low < plan.error < high
        assert f"Method: '{plan.method}'" in str(plan)


@pytest.mark.slow
def test_beyond_the_rows_that_are_simulated_noise_falls_with_n(monkeypatch):
    monkeypatch.setattr("dpfast.release.forecast.MOST_ROWS", 20_000)
    small, large = planned(20_000), planned(200_000)
    assert large.error == pytest.approx(small.error / 10.0)
    assert large.fit_error == pytest.approx(small.fit_error / 10.0)
    assert large.sampling_error == pytest.approx(small.sampling_error / np.sqrt(10.0))


def test_a_forecast_names_the_method_and_the_noise_of_releases_of_other_rows_like_it():
    rng = np.random.default_rng(5)
    X = rng.choice([-1.0, 1.0], (20_000, 2)) * (rng.random((20_000, 1)) < 0.09)
    y = rng.normal(size=20_000)
    found = dpfast.release_functional(
        X,
        y,
        dpfast.Objective("log-cosh", scale=1.0),
        "x1",
        privacy=PAIR,
        domain=BOX,
        noise=dpfast.SeededNoise(0),
    )
    plan = planned(20_000)
    assert "one Newton step" in found.method and plan.method == "one-shot"
    assert plan.announced == pytest.approx(found.noise_scale_bound[0], rel=0.15)


@pytest.mark.parametrize(
    "domain",
    [
        dpfast.models.Ball(1.5, intercept=True),
        dpfast.models.Product(
            [dpfast.models.Interval(0.0, 1.0), dpfast.models.OneHot(3, reference=True)]
        ),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_every_domain_has_rows(domain):
    found = planned(5_000, p=domain.n_covariates or 3, domain=domain, loss="logistic")
    assert 0.0 < found.error < np.inf and found.sampling_error > 0.0


@pytest.mark.slow
def test_the_range_ends_where_columns_vary_with_all_and_a_tenth_of_the_width():
    """Its ends agree with calls on such columns."""
    n, runs = 30_000, 40
    ends = planned(n, privacy=dpfast.ApproxDP(4.0, 1e-6), runs=runs).error_range
    signs = np.random.default_rng(7).choice([-1.0, 1.0], (n, 2))
    y = np.random.default_rng(8).normal(size=n)
    for width, end in zip((1.0, 0.1), ends, strict=True):
        pilot = (signs * (np.arange(n) % 100 < round(100 * width**2))[:, None], y)
        found = planned(n, privacy=dpfast.ApproxDP(4.0, 1e-6), runs=runs, pilot=pilot)
        assert found.error_range[0] < found.error < found.error_range[1] < 2.0 * found.error
        assert end == pytest.approx(found.error, rel=0.3)


def test_a_public_pilot_takes_the_place_of_synthetic_rows():
    rng = np.random.default_rng(6)
    X = 0.03 * rng.uniform(-1, 1, (500, 2))  # fill little of the domain
    thin = planned(5_000, pilot=(X, rng.normal(size=500)))
    assert "pilot of 500" in thin.source
    assert thin.method == "one-shot" and thin.sampling_error > 2.0 * planned(5_000).sampling_error


@pytest.mark.parametrize("n", [5, 200])
def test_rows_that_separate_the_classes_have_a_forecast(n):
    found = planned(n, p=3, loss="logistic", rate=0.1, runs=2)
    assert 0.0 < found.error < np.inf and found.error_range[0] <= found.error


@each(
    ("wrong", "named"),
    [
        ({"p": None}, "p must"),
        ({"domain": "box"}, "domain must be"),
        ({"pilot": (np.ones(3), np.ones(3))}, "pilot must be"),
        ({"pilot": np.ones((3, 2))}, "pilot must be"),
        ({"runs": 0}, "runs"),
    ],
)
def test_refusals_say_what_to_do(wrong, named):
    with pytest.raises(InvalidInput, match=named):
        planned(1_000, **wrong)


@pytest.mark.parametrize("budget", [dpfast.GDP(1.0), dpfast.ZCDP(0.5)], ids=["GDP", "zCDP"])
def test_other_budgets_are_refused_with_the_pair_to_pass(budget):
    with pytest.raises(InvalidBudget) as refused:
        planned(1_000, privacy=budget)
    assert repr(budget.as_approx(1e-6)) in str(refused.value)
    assert "may fail" in str(refused.value)
