"""A fit as a model of marginaleffects has the slopes, contrasts and predictions of the fit."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import dpfast
from tests.loops import each

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

N = 4000
RNG = np.random.default_rng(0)
TABLE = pandas.DataFrame(
    {
        "age": RNG.uniform(20.0, 60.0, N),
        "female": RNG.integers(0, 2, N).astype(float),
        "region": RNG.choice(["n", "s"], N),
    }
)
TABLE["pay"] = 0.1 * TABLE.age + TABLE.female + (TABLE.region == "s") + RNG.normal(size=N)
TABLE["high"] = (TABLE.pay > 5.5).astype(int)
ROWS = {"age": [30.0, 40.0, 50.0], "female": [0.0, 1.0, 0.0], "region": ["n", "s", "s"]}
FORMULA = "{} ~ age + I(age**2) + female + C(region, levels=['n', 's'])"


def seeded():
    """The same noise in every call: a shared source would go on from test to test."""
    return {"privacy": 4.0, "noise": dpfast.SeededNoise(0)}


FITS = {
    "logistic": lambda: dpfast.fit(FORMULA.format("high"), TABLE, "logistic", **seeded()),
    "least-squares": lambda: dpfast.fit(FORMULA.format("pay"), TABLE, "least-squares", **seeded()),
}


@pytest.fixture
def package():
    """The package, with a polars that it works with: 0.6 does not with polars 2."""
    found = pytest.importorskip("marginaleffects")
    polars = importlib.import_module("polars")
    if int(polars.__version__.partition(".")[0]) >= 2:
        pytest.skip("marginaleffects 0.6 needs polars below 2")
    return found


@each("loss", FITS)
def test_slopes_contrasts_and_predictions_agree(loss, package):
    fit = FITS[loss]()
    model = dpfast.inference.marginaleffects_model(fit, ROWS)
    ours = fit.marginal_effects(ROWS)
    step = 0.01  # of the numbers' own size: smaller steps differ by rounding
    slopes = package.slopes(model, variables="age", eps=step).to_pandas()
    np.testing.assert_allclose(slopes.estimate, ours.estimate[:, 0], rtol=1e-3)
    np.testing.assert_allclose(slopes.std_error, ours.bse[:, 0], rtol=0.02)
    average = fit.marginal_effects(ROWS, average=True, contrasts="female")
    found = package.avg_slopes(model, eps=step).to_pandas().set_index("term")
    np.testing.assert_allclose(
        found.estimate[["age", "female", "region"]], average.estimate[0], rtol=1e-3
    )
    np.testing.assert_allclose(
        found.std_error[["age", "female", "region"]], average.bse[0], rtol=0.02
    )
    predicted = package.predictions(model).to_pandas()
    np.testing.assert_allclose(predicted.estimate, fit.predict(ROWS), rtol=1e-9)


def test_without_the_package_it_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "marginaleffects.classes", None)
    with pytest.raises(ImportError, match=r"fit\.marginal_effects\(rows, average=True\)"):
        dpfast.inference.marginaleffects_model(FITS["logistic"](), ROWS)
    with pytest.raises(dpfast.InvalidInput, match="fit must be a fit"):
        dpfast.inference.marginaleffects_model(1.0, ROWS)


def test_averages_over_public_rows_are_means_of_effects():
    fit = FITS["logistic"]()
    each_row, average = fit.marginal_effects(ROWS), fit.marginal_effects(ROWS, average=True)
    np.testing.assert_allclose(average.estimate, each_row.estimate.mean(axis=0, keepdims=True))
    assert (average.bse <= each_row.bse.max(axis=0) * (1 + 1e-9)).all() and average.averaged == 3
    assert "the average over 3 public rows" in str(average)
    moved = {name: list(values) for name, values in ROWS.items()}
    h = 1e-4
    moved["age"] = [age + h for age in moved["age"]]
    slope = (fit.predict(moved) - fit.predict(ROWS)).mean() / h
    assert average.estimate[0, 0] == pytest.approx(slope, rel=1e-3)


def test_a_contrast_is_the_difference_of_predictions():
    for fit, name in (
        (FITS["logistic"](), "female"),
        (dpfast.fit(TABLE[["age", "female"]], TABLE.high, "logistic", **seeded()), "female"),
        (dpfast.fit(TABLE[["age", "female"]].to_numpy(), TABLE.high, "logistic", **seeded()), "x2"),
    ):
        if fit.names[-1] == "x2":
            rows = np.column_stack([ROWS["age"], ROWS["female"]])
            at = [np.column_stack([ROWS["age"], np.full(3, end)]) for end in (0.0, 1.0)]
        else:
            rows = ROWS
            at = [ROWS | {"female": [end] * 3} for end in (0.0, 1.0)]
        found = fit.marginal_effects(rows, contrasts=name)
        difference = fit.predict(at[1]) - fit.predict(at[0])
        np.testing.assert_allclose(found.estimate[:, found.names.index(name)], difference)
    with pytest.raises(dpfast.InvalidInput, match=r"did you mean 'female'\?"):
        FITS["logistic"]().marginal_effects(ROWS, contrasts="femal")
