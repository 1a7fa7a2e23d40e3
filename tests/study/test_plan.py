"""Forecasts of interval widths: against fits, against each other, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.regression.forecast import PILOT_RECORDS, _synthetic
from tests.loops import each


def test_the_forecast_is_what_fits_deliver():
    """Mean widths of 120 seeded fits on other data of the same kind, which vary by 6%/sqrt(120) =
    .6%.  A forecast has medians of 25 simulated fits, which vary by 1.6%; of 200, by .6%; means are
    1% above them.  So each is within 3.5% of 200 and 6% of 25, and the mean of all four, which are
    alike here, within 4%.  The median of the widest, to 5%."""
    rng = np.random.default_rng(5)
    expected = dpfast.plan(n=2000, p=4, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=2.0))
    widths = []
    for seed in range(120):
        X, y = rng.normal(size=(2000, 3)), 2.0 * rng.normal(size=2000)
        noise = dpfast.SeededNoise(seed)
        found = dpfast.fit(X, y, dpfast.Objective("log-cosh", scale=2.0), privacy=1.0, noise=noise)
        widths.append(np.ptp(found.conf_int(), axis=1))
    delivered = np.mean(widths, axis=0)
    simulated = expected._forecast.expected(2000, 1.0, (200,)).widths
    assert delivered == pytest.approx(simulated, rel=0.035)
    assert delivered == pytest.approx(expected.widths, rel=0.06)
    assert delivered.mean() == pytest.approx(expected.widths.mean(), rel=0.04)
    widest = np.median(np.max(np.array(widths)[:, 1:], axis=1))
    assert widest == pytest.approx(expected.width, rel=0.05)


@pytest.mark.slow
def test_how_well_standard_errors_are_known_is_a_part_of_the_forecast():
    """Few records for a budget, half as wide again as without privacy; bounds that are bought of
    noisy histograms are an eighth longer than the forecast's.  The median of 60 fits varies by
    1.5%; seeded."""
    rng = np.random.default_rng(6)
    expected = dpfast.plan(n=500, p=10, privacy=1.85, loss=dpfast.Objective("log-cosh", scale=1.0))
    widest = []
    for seed in range(60):
        X, y = rng.normal(size=(500, 9)), rng.normal(size=500)
        found = dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=1.85,
            noise=dpfast.SeededNoise(seed),
        )
        widest.append(np.ptp(found.conf_int(), axis=1)[1:].max())
    assert np.median(widest) == pytest.approx(expected.width, rel=0.15)
    assert expected.width > 1.25 * max(expected.sampling_widths[1:])
    assert expected.width > 1.05 * max(expected.widths[1:])


@pytest.mark.parametrize(
    ("loss", "n", "p", "mu"),
    [
        ("least-squares", 2000, 4, 1.0), ("least-squares", 20_000, 8, 0.3),
        ("log-cosh", 5000, 6, 0.5), ("logistic", 2000, 4, 1.0), ("poisson", 5000, 4, 1.0),
        ("quantile", 4000, 3, 1.0),
    ],
)  # fmt: skip
@pytest.mark.one_in(3)
def test_nothing_declared_is_forecast_for_every_loss(loss, n, p, mu):
    """The median of 15 fits, which varies by about 2%, to 10%; seeded."""
    expected, widest = dpfast.plan(n, p, loss, privacy=mu), []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = 5.0 + 3.0 * rng.normal(size=(n, p - 1))
        y = {"logistic": (rng.random(n) < 0.5) * 1.0, "poisson": rng.poisson(1.0, n) * 1.0}.get(
            loss, rng.normal(size=n)
        )
        found = dpfast.fit(X, y, loss, privacy=mu, noise=dpfast.SeededNoise(seed))
        widest.append(3.0 * np.ptp(found.conf_int(), axis=1)[1:].max())
    assert np.median(widest) == pytest.approx(expected.width, rel=0.1)
    assert not expected.remarks and (expected.widths > 0.85 * expected.sampling_widths).all()


def test_sampling_weights_are_forecast_by_their_design_effect():
    """As the page on weights says; the median of 12 fits varies by 1%; seeded."""
    n, largest, widest = 20_000, 5.0, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, weight = rng.normal(size=(n, 3)), rng.choice([1.0, 2.0, 5.0], size=n)
        y = rng.normal(size=n)
        records = dpfast.records(X, y, sample_weight=weight, largest_weight=largest)
        loss = dpfast.Objective("log-cosh", scale=1.0)
        found = dpfast.fit(records, None, loss, privacy=0.3, noise=dpfast.SeededNoise(seed))
        widest.append(np.ptp(found.conf_int(), axis=1)[1:].max())
    mean, effect = 8 / 3, 10 / (8 / 3) ** 2
    expected = dpfast.plan(
        int(n / effect),
        4,
        privacy=0.3 * effect * mean / largest,
        loss=dpfast.Objective("log-cosh", scale=1.0),
    )
    assert np.median(widest) == pytest.approx(expected.width, rel=0.1)


def test_of_one_slope_the_widest_is_its_own_width():
    found = dpfast.plan(n=2000, p=2, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
    assert found.width == found.widths[1]


@pytest.mark.parametrize("loss", ["log-cosh", "logistic", "huber"])
@pytest.mark.one_in(3)
def test_the_three_questions_agree(loss):
    loss = loss if loss == "logistic" else dpfast.Objective(loss, scale=1.0)
    first = dpfast.plan(n=3000, p=3, loss=loss, privacy=0.7)
    budget = dpfast.plan(n=3000, p=3, loss=loss, width=first.width)
    records = dpfast.plan(p=3, loss=loss, privacy=0.7, width=first.width)
    # widths stay the same where a further round begins: it costs what the budget gains
    assert budget.mu == pytest.approx(0.7, rel=2e-3)
    assert records.n == pytest.approx(3000, rel=2e-3)
    assert budget.width <= first.width * (1 + 1e-12) and records.width <= first.width * (1 + 1e-12)


def test_more_budget_and_more_records_are_never_worse():
    found = dpfast.plan(n=2000, p=5, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
    assert (np.diff(found.curve(mu=np.array([0.3, 0.5, 1.0, 2.0, 10.0]))) <= 0).all()
    assert (np.diff(found.curve(n=[500, 1000, 5000, 10**6])) <= 0).all()
    assert (found.widths > found.sampling_widths).all()
    assert found.curve(mu=[1.0])[0] == found.width


def test_a_public_pilot_takes_the_place_of_the_synthetic_one():
    rng = np.random.default_rng(0)
    X, y = 3.0 * rng.normal(size=(500, 2)), rng.normal(size=500)
    found = dpfast.plan(
        n=1000,
        privacy=1.0,
        pilot=(X, y),
        loss=dpfast.Objective("log-cosh", weights=dpfast.Mallows(8.0), scale=1.0),
    )
    assert len(found.widths) == 3 and found.widths[0] > 2 * found.widths[1]
    assert "public pilot of 500 records" in str(found)


def test_a_plan_says_when_it_is_optimistic():
    assert (
        dpfast.plan(
            n=20_000, p=4, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0)
        ).remarks
        == ()
    )
    text = str(dpfast.plan(n=500, p=10, privacy=0.2, loss=dpfast.Objective("log-cosh", scale=1.0)))
    assert "beware" in text and "mostly noise" in text


def test_a_plan_says_its_budget_as_mu_and_as_epsilon():
    found = dpfast.plan(n=500, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
    for text in (str(found), found._repr_html_()):
        assert "mu = 1 (epsilon = 4.89 at delta = 1e-6)" in text
    assert "epsilon" not in str(
        dpfast.plan(n=500, p=3, privacy=1e5, loss=dpfast.Objective("log-cosh", scale=1.0))
    )


KNOWN = {"loss": dpfast.Objective("log-cosh", scale=1.0)}


@each(
    ("arguments", "named"),
    [
        ({"n": 100, "p": 3}, "two of n, privacy and width"),
        ({"n": 100, "p": 3, "privacy": 1.0, "width": 1.0}, "two of n, privacy and width"),
        ({"n": 100, "privacy": 1.0} | KNOWN, "p must be"),
        ({"n": 100, "p": 3, "privacy": 1.0}, "too small to estimate 2 slopes"),
        (
            {"n": 100, "p": 3, "privacy": 1.0}
            | {"loss": dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0))},
            "public or estimated",
        ),
        ({"n": 100, "p": 3, "width": 1e-3} | KNOWN, "sampling error alone"),
        ({"p": 3, "privacy": 1.0, "width": 1e-9} | KNOWN, "out of reach"),
        ({"n": -1, "p": 3, "privacy": 1.0} | KNOWN, "n must be"),
        ({"n": 9, "p": 3, "width": -1.0} | KNOWN, "width must be"),
        ({"n": 9, "p": 3, "privacy": 1.0, "loss": "logistic", "rate": 1.0}, "rate"),
        ({"n": 9, "p": 3, "privacy": 1.0} | KNOWN | {"level": 95}, "level"),
        (
            {"n": 9, "p": 3, "privacy": 1.0}
            | {"loss": dpfast.Objective("log-cosh", dpfast.models.Clip(1.0), scale=1.0)},
            "Hessian",
        ),
    ],
)
def test_refusals_name_the_argument(arguments, named):
    with pytest.raises(InvalidInput, match=named):
        dpfast.plan(**arguments)


def test_the_synthetic_pilot_is_close_to_independent_normal():
    X, last = _synthetic(6, dpfast.LogCosh(), 2.0, 0.5)
    points = np.column_stack([X, last / 2.0])
    assert len(points) == PILOT_RECORDS
    assert np.abs(points.mean(axis=0)).max() < 0.01
    assert np.abs(np.cov(points.T) - np.eye(7)).max() < 0.05
    _, ones = _synthetic(2, dpfast.Logistic(), None, 0.1)
    assert ones.mean() == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("kind", ["two modes", "zeros"])
def test_widths_of_quantiles_are_forecast_from_public_rows(kind):
    """The median of 15 answers about other tables, which varies by 3%, to 15%; seeded.  A public
    table of 3,000 rows in 4 cells shows a density to some 8%; the widths are medians over cells."""
    draw = {
        "two modes": lambda rng, n: rng.choice([30.0, 70.0], n, p=[0.4, 0.6]) + rng.normal(0, 5, n),
        "zeros": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(3.0, 0.8, n)),
    }[kind]
    schema = dpfast.Schema({"g": dpfast.Categorical(range(4)), "v": dpfast.Numeric(0.0, 200.0)})

    def table(rows, seed):
        rng = np.random.default_rng(seed)
        return {"g": rng.integers(0, 4, rows), "v": draw(rng, rows)}

    request = {"analysis": "quantiles", "column": "v", "by": "g", "mu": 0.5}
    study = dpfast.Study(None, privacy=9.0, schema=schema, n=8000, like=table(3000, 10**6))
    widths = []
    for seed in range(15):
        found = dpfast.tables.quantiles(
            table(8000, seed), "v", "g", schema=schema, privacy=0.5, noise=dpfast.SeededNoise(seed)
        )
        widths.append(np.median(found.high - found.low))
    expected = study.quote(request).widths["v"]
    assert np.median(widths) == pytest.approx(expected, rel=0.15)
