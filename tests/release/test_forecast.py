"""``plan_release``: a forecast from public rows, which agrees with what releases then do."""

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidBudget, InvalidInput
from tests.loops import each

PAIR = dpfast.ApproxDP(1.0, 1e-6)
LOG_COSH = dpfast.Objective("log-cosh", scale=1.0)
BOX = dpfast.models.Box(1.0, intercept=True)


def rows(n, p=2, seed=5, loss="log-cosh", kind="even"):
    """Draw rows of a kind within the box, and their responses."""
    rng = np.random.default_rng(seed)
    X = {
        "even": lambda: rng.uniform(-1.0, 1.0, (n, p)),
        "thin": lambda: np.clip(0.3 * rng.normal(size=(n, p)), -1.0, 1.0),
        "binary": lambda: np.where(rng.random((n, p)) < 0.3, 1.0, -1.0),
        "correlated": lambda: rng.uniform(-1.0, 1.0, (n, p + 1)) @ np.eye(p + 1, p, -1) / 2.0,
    }[kind]()
    if kind == "correlated":
        X += 0.5 * rng.uniform(-1.0, 1.0, (n, 1))
    t = X @ np.linspace(1.0, -1.0, p)
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))) * 1.0
    return X, t + rng.laplace(size=n)


def planned(n, **options):
    given = {"pilot": rows(500), "loss": LOG_COSH, "privacy": PAIR, "domain": BOX, "runs": 8}
    return dpfast.release.plan_release(n, **(given | options))


def ratio(n, kind, loss, domain, runs=12):
    """Return the forecast from 500 other records over the error of releases."""
    objective = dpfast.Objective(loss, scale=None if loss == "logistic" else 1.0)
    total = dpfast.ApproxDP(4.0 if n < 10_000 else 1.0, 1e-6)
    X, y = rows(n + 500, 4, 1, loss, kind)
    plan = planned(n, pilot=(X[n:], y[n:]), loss=objective, privacy=total, domain=domain, runs=runs)
    X, y = X[:n], y[:n]
    exact = dpfast.nonprivate_fit(X, y, objective).params[1]
    errors = [
        dpfast.release_functional(
            X,
            y,
            objective,
            "x1",
            privacy=total,
            domain=domain,
            noise=dpfast.SeededNoise(100 + seed),
        ).value
        - exact
        for seed in range(runs)
    ]
    return plan.error / np.sqrt(np.mean(np.square(errors)))


@pytest.mark.filterwarnings("ignore::dpfast.errors.ResultWarning")
@pytest.mark.parametrize(
    ("domain", "sizes", "factor"),
    [(BOX, (2_000, 20_000), 1.5), (None, (2_000,), 2.5)],
    ids=["domain", "none"],
)
def test_a_forecast_from_other_rows_is_close_to_the_error(domain, sizes, factor):
    """Without a domain the bias of clipping is part of the error, and depends on the rows."""
    ratios = [
        ratio(n, kind, loss, domain)
        for kind in ("even", "thin", "binary", "correlated")
        for loss in ("logistic", "log-cosh")
        for n in sizes
    ]
    assert np.mean(np.abs(np.log(ratios)) < np.log(factor)) >= 0.7, ratios
    assert 0.67 < np.median(ratios) < 1.5, ratios


def test_the_method_is_named_and_its_error_forecast():
    few, some, many = planned(20), planned(110), planned(20_000)
    methods = [plan.method for plan in (few, some, many)]
    assert methods == ["objective-perturbation", "fit", "one-shot"]
    assert many.error < 0.1 * some.error and many.announced < few.announced
    for plan in (few, some, many):
        low, high = plan.error_range
        assert 0.0 < low < plan.error < high
        assert f"Method: '{plan.method}'" in str(plan)


@pytest.mark.slow
def test_beyond_the_rows_that_are_simulated_noise_falls_with_n(monkeypatch):
    monkeypatch.setattr("dpfast.release.forecast.MOST_ROWS", 20_000)
    small, large = planned(20_000), planned(200_000)
    assert large.error == pytest.approx(small.error / 10.0)
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
    plan = planned(20_000, pilot=(X[:5_000], y[:5_000]))
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
def test_every_domain_has_a_forecast(domain):
    pilot = rows(500, domain.n_covariates or 3, loss="logistic")
    found = planned(5_000, pilot=pilot, domain=domain, loss="logistic")
    assert 0.0 < found.error < np.inf and found.sampling_error > 0.0


def test_thin_columns_have_a_larger_sampling_error():
    rng = np.random.default_rng(6)
    X = 0.03 * rng.uniform(-1, 1, (500, 2))  # fill little of the domain
    thin = planned(5_000, pilot=(X, rng.normal(size=500)))
    assert "pilot of 500" in thin.source
    assert thin.method == "one-shot" and thin.sampling_error > 2.0 * planned(5_000).sampling_error


@pytest.mark.parametrize("n", [5, 200])
def test_rows_that_separate_the_classes_have_a_forecast(n):
    X = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
    found = planned(n, pilot=(X, X[:, 0] > 0.0), loss="logistic", runs=2)
    assert 0.0 < found.error < np.inf and found.error_range[0] <= found.error


@each(
    ("wrong", "named"),
    [
        ({"pilot": 3}, "pilot must be"),
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
