"""Powers and products of a formula are centred inside, and results are of the formula's terms."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.data.formula import terms_of
from dpfast.data.polynomials import polynomials
from dpfast.regression.centred_powers import basis_of_terms
from dpfast.solvers.pcn.result import Scores, left_inverse
from dpfast.solvers.pcn.scores import NoisyScore

N = 20_000


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    year = rng.integers(1990, 2021, n) * 1.0
    age = np.clip(rng.normal(45.0, 13.0, n), 18.0, 80.0)
    group = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    decade, z = (year - 2005.0) / 10.0, (age - 45.0) / 13.0
    y = 0.3 * decade + 0.1 * decade**2 - 0.2 * z**2 + 0.1 * z**3 + rng.normal(size=n)
    return {"year": year, "age": age, "group": group, "y": y}


def ordinary(X, y):
    """Least squares and its robust standard errors, computed in centred powers of unit size."""
    centre, size = X.mean(axis=0), X.std(axis=0)
    Z = np.column_stack([np.ones(len(X)), (X - centre) / size])
    rotation, triangle = np.linalg.qr(Z)
    beta = np.linalg.solve(triangle, rotation.T @ y)
    scores = rotation * (y - Z @ beta)[:, None]
    root = np.linalg.solve(triangle, scores.T @ scores)
    covariance = np.linalg.solve(triangle, root.T)
    back = np.diag(np.append(1.0, 1.0 / size))
    back[0, 1:] = -centre / size
    return back @ beta, np.sqrt((back @ covariance @ back.T).diagonal())


def basis(formula, used=None):
    records = table(n=4000)
    coding = terms_of(formula, table=records)[0]
    X = coding.design(records).X
    centres, spreads = X.mean(axis=0), X.std(axis=0)
    used = np.ones(X.shape[1], bool) if used is None else np.array(used)
    found = basis_of_terms(coding, centres, spreads, used)
    rows = np.column_stack([np.ones(len(X)), (X - centres) / spreads])
    return found, rows


LEVELS = 'C(group, levels=["a", "b", "c"])'


@pytest.mark.parametrize(
    "terms",
    [
        "year + I(year**2)",
        "age + I(age**2) + I(age**3)",
        "year * age",
        "age + I((age - 18)**2)",
        "I(year / 10) + I((year / 10)**2) + age + I(year * age)",
        "log(age) + I(log(age)**2)",
        f"{LEVELS} * year",
    ],
)
def test_centred_columns_are_far_from_collinear(terms):
    found, rows = basis(f"y ~ {terms}")
    assert found is not None
    centred = rows @ found
    assert np.linalg.eigvalsh(centred.T @ centred / len(rows))[0] > 0.05
    assert np.array_equal(found[:, 0], np.eye(len(found))[0])  # the intercept stays


@pytest.mark.parametrize(
    "terms",
    [
        "I(age**2)",
        "year:age",
        "year + year:age",
        "age + I(age**3)",
        "year + age",
        f"{LEVELS} + {LEVELS}:year",
        "age + exp(age)",
        "age + I(age**2 * year) + year",
    ],
)
def test_terms_that_do_not_span_lower_ones_stay(terms):
    assert basis(f"y ~ {terms}")[0] is None


def test_the_same_power_twice_is_centred_once():
    found, _ = basis("y ~ age + I(age**2) + I((age / 10)**2)")
    assert np.count_nonzero((found != np.eye(4)).any(axis=0)) == 1


def test_a_column_that_is_left_out_closes_nothing():
    assert basis("y ~ age + I(age**2)", used=[False, True])[0] is None
    assert basis("y ~ age + I(age**2) + year", used=[True, True, False])[0] is not None


def test_powers_of_large_numbers_without_digits_left_stay():
    found, _ = basis("y ~ year + " + " + ".join(f"I(year**{k})" for k in range(2, 7)))
    changed = (found != np.eye(7)).any(axis=0)
    assert changed.tolist() == [False, False, True, True, True, False, False]


def test_polynomials_are_multiplied_out():
    coding = terms_of("y ~ I(-2 * (year - age)**2 / 4)", table=table(n=10))[0]
    expected = {("year", "year"): -0.5, ("age", "year"): 1.0, ("age", "age"): -0.5}
    assert polynomials(coding) == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("terms", "columns"),
    [
        ("year + I(year**2)", lambda t: (t["year"], t["year"] ** 2)),
        ("age + I(age**2) + I(age**3)", lambda t: (t["age"], t["age"] ** 2, t["age"] ** 3)),
        ("year * age", lambda t: (t["year"], t["age"], t["year"] * t["age"])),
    ],
)
def test_estimates_are_near_ordinary_least_squares(terms, columns):
    """Seeded.  Uncentred, years are 10 errors off, and cubes have intervals 180 times as wide."""
    distances, widths = [], []
    for seed in range(5):
        records = table(seed)
        beta, errors = ordinary(np.column_stack(columns(records)), records["y"])
        fit = dpfast.fit(
            f"y ~ {terms}", records, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed)
        )
        assert fit.warnings == ()
        distances.append(np.abs((fit.params - beta) / errors).max())
        widths.append(np.median(fit.bse / errors))
    assert np.median(distances) < 0.5 and max(distances) < 1.5
    assert 0.98 < np.median(widths) < 1.1


def test_results_are_of_the_formulas_own_terms(tmp_path):
    records = table()
    fit = dpfast.fit(
        "y ~ year + I(year**2)",
        records,
        "least-squares",
        privacy=1.0,
        noise=dpfast.SeededNoise(1),
    )
    assert fit.names == ("intercept", "year", "I(year ** 2)")
    new = {"year": np.array([1995.0, 2010.0])}
    by_hand = np.column_stack([np.ones(2), new["year"], new["year"] ** 2]) @ fit.params
    assert fit.predict(new) == pytest.approx(by_hand, abs=1e-4)
    coded = fit.coded
    z = (np.column_stack([new["year"], new["year"] ** 2]) - fit.units.centres) / fit.units.spreads
    response = fit.units.response
    by_coded = response[0] + response[1] * (coded.params[0] + z @ coded.params[1:])
    assert by_coded == pytest.approx(by_hand, abs=1e-4)
    path = tmp_path / "fit.json"
    dpfast.saved.save(fit, path)
    loaded = dpfast.saved.load(path)
    assert np.array_equal(loaded.params, fit.params) and np.array_equal(loaded.bse, fit.bse)
    assert loaded.predict(new) == pytest.approx(fit.predict(new))


@pytest.mark.parametrize("loss", ["logistic", "log-cosh"])
def test_other_losses_centre_them_too(loss):
    records = table()
    records["y"] = 1.0 * (records["y"] > 0.0)
    fits = [
        dpfast.fit(f"y ~ {terms}", records, loss, privacy=10.0, noise=dpfast.SeededNoise(0))
        for terms in ("year + I(year**2)", "I(year - 2005) + I((year - 2005)**2)")
    ]
    years = {"year": np.linspace(1990.0, 2020.0, 7)}
    assert fits[0].predict(years) == pytest.approx(fits[1].predict(years), abs=0.02)
    assert fits[0].bse[2] == pytest.approx(fits[1].bse[2], rel=0.1)


def test_declared_ranges_far_from_zero_are_centred_inside():
    """Years from 0 to 2100 are coded between .89 and .92; coefficients are those of years.

    Twenty seeded fits.  A width varies by 9%, so their mean by 2%: the bound is three of
    these above the 1.03 of fits without a schema.
    """
    schema = dpfast.Schema({"year": dpfast.Numeric(0, 2100), "y": dpfast.Numeric(-10, 10)})
    distances, widths = [], []
    for seed in range(20):
        records = table(seed)
        beta, errors = ordinary(
            np.column_stack([records["year"], records["year"] ** 2]), records["y"]
        )
        fit = dpfast.fit(
            "y ~ year + I(year**2)",
            records,
            "least-squares",
            schema=schema,
            privacy=1.0,
            noise=dpfast.SeededNoise(seed),
        )
        distances.append(np.abs((fit.params - beta) / errors).max())
        widths.append(np.median(fit.bse / errors))
    assert max(distances) < 1.0
    assert 0.98 < np.mean(widths) < 1.09


def test_moments_and_scores_are_those_of_the_columns():
    """Released in a basis, they are mapped to what the columns themselves would have."""
    rng = np.random.default_rng(0)
    kept = np.array([True, True, False, True])
    maps = rng.normal(size=(4, 4))
    maps[~kept], maps[:, ~kept] = 0.0, 0.0
    among = maps[:, kept]
    assert left_inverse(among) @ among == pytest.approx(np.eye(3))
    rows, residuals = rng.normal(size=(50, 4)) * kept, rng.normal(size=50)
    mapped = rows @ among
    asked = NoisyScore(rng.normal(size=3), mapped.T @ residuals, 1.0)
    scores = Scores(mapped.T @ mapped, np.eye(3), np.eye(3), [asked])
    scores = scores.in_columns(among, left_inverse(among))
    assert scores.moments == pytest.approx(rows.T @ rows)
    assert scores.asked[0].score == pytest.approx(rows.T @ residuals)
    assert rows @ scores.asked[0].theta == pytest.approx(mapped @ asked.theta)
