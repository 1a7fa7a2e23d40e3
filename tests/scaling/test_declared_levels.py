"""Columns of declared levels: 0 or 1 by declaration, never taken to be constant."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.data.indicators import DeclaredLevels, contrasts, declared_levels
from dpfast.scaling.search import COUNTS, ScaleSearch
from tests.scaling.test_search import Scripted


def table(n, shares, seed, effect=0.5):
    """A number, a factor and a response with normal errors; the true coefficients."""
    rng = np.random.default_rng(seed)
    k = len(shares)
    g, x = rng.choice(k, n, p=np.array(shares) / sum(shares)), rng.normal(size=n)
    effects = np.append(0.0, effect * rng.normal(size=k - 1))
    y = 0.5 * x + effects[g] + rng.normal(size=n)
    levels = [f"k{j:02d}" for j in range(k)]
    data = {"y": y, "x": x, "g": np.array(levels)[g]}
    return data, levels, np.concatenate([[0.0, 0.5], effects[1:]])


def exact_errors(data, levels):
    """Standard errors of ordinary least squares."""
    indicators = [data["g"] == level for level in levels[1:]]
    X = np.column_stack([np.ones(len(data["y"])), data["x"], *indicators]).astype(float)
    residuals = data["y"] - X @ np.linalg.lstsq(X, data["y"], rcond=None)[0]
    inverse = np.linalg.inv(X.T @ X)
    return np.sqrt(inverse.diagonal() * (residuals @ residuals) / (len(X) - X.shape[1]))


def formula(levels):
    return f"y ~ x + C(g, levels={levels!r})"


@pytest.mark.parametrize("k", [3, 7, 50])
def test_contrasts_are_uncorrelated_at_the_assumed_shares(k):
    shares = DeclaredLevels(range(k - 1), k).assumed(
        np.random.default_rng(k).random(k - 1) / k, 0.01
    )
    reference = 1.0 - shares.sum()
    assert (shares > 0.0).all() and reference > 0.0
    rows = (np.vstack([np.zeros(k - 1), np.eye(k - 1)]) - shares) / np.sqrt(shares * (1.0 - shares))
    mapped, weights = rows @ contrasts(shares), np.append(reference, shares)
    assert np.abs(weights @ mapped).max() < 1e-12
    assert np.allclose(mapped.T * weights @ mapped, np.eye(k - 1))


@pytest.mark.parametrize("noisy", [-1e300, -1.0, 0.0, 1e-300, 0.2, 1.0, 40.0, 1e300])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_any_released_shares_give_scales_that_can_be_used(noisy, columns):
    """Of all levels but one, and of fewer columns, as products have."""
    for levels in (columns + 1, columns + 3):
        shares = DeclaredLevels(range(columns), levels).assumed(np.full(columns, noisy), 0.0)
        assert (shares > 0.0).all() and (shares < 1.0).all()
        assert levels > columns + 1 or np.isfinite(contrasts(shares)).all()


def test_which_columns_are_indicators():
    """Main effects and products of factors; no product with a number."""
    schema = dpfast.Schema({
        "x": dpfast.Numeric(-1, 1), "g": dpfast.Categorical(["a", "b", "c"]),
        "m": dpfast.Binary("yes", "no"),
    })  # fmt: skip
    data = {"x": [0.0, 1.0], "g": ["a", "b"], "m": ["yes", "no"], "y": [0.0, 1.0]}
    schema = dpfast.Schema({**schema.columns, "y": dpfast.Numeric(-1, 1)})
    from dpfast.data.formula import terms_of

    coding = terms_of("y ~ x + g + m + g:m + g:x", schema, data).coding
    assert declared_levels(coding) == (
        [DeclaredLevels(range(1, 3), 3), DeclaredLevels(range(3, 4), 2),
         DeclaredLevels(range(4, 6), 6)], 8,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["uniform", "low", "high", "middle", "wild"])
@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.values
def test_indicators_stay_within_the_budget_of_a_search(kind, q):
    """No count is asked of them; they are columns of the first histogram (D4, D6)."""
    for seed in range(20):
        # of few records, counts cost all that they may
        answers = Scripted(30 if seed < 4 else 1000, seed, kind)
        indicators = range(q + 1, q + 6)
        search = ScaleSearch(answers, range(q), 1.0 - 2.0**-40, q, indicators=indicators)
        search.run(seed % 2 == 1)
        assert answers.asked_first <= 2 * COUNTS * q + 4
        assert answers.ledger.spent.mu <= 1.0
        assert len(search.shares) == 5
        assert max(m for m, _ in search.distance_extremes()) == q + 5


def test_no_level_of_fifty_is_left_out():
    """10,000 records, mu = 1, a reference of a fifth; eight seeded runs.

    Of 400 intervals at .95, 365 are covered by chance in all but one case of 1e3.
    """
    covered, widths, off = 0, [], []
    shares = np.append(0.2, np.full(49, 0.8 / 49))
    for seed in range(8):
        data, levels, truth = table(10_000, shares, seed)
        fit = dpfast.fit(
            formula(levels), data, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed)
        )
        assert np.isfinite(fit.bse).all()
        low, high = np.asarray(fit.conf_int()).T
        covered += int(((low <= truth) & (truth <= high))[1:].sum())
        exact = exact_errors(data, levels)
        widths.append(np.median(fit.bse / exact))
        off.append(np.sqrt(np.mean(((fit.params - truth) / exact) ** 2)))
    assert covered >= 365
    assert np.median(widths) < 1.5 and np.median(off) < 1.5


def test_an_empty_level_has_no_narrow_interval_and_is_named():
    """Five seeded runs: nineteen levels have a thousand records each, the last has none."""
    for seed in range(5):
        data, levels, _ = table(20_000, [1.0] * 19 + [0.0], seed)
        fit = dpfast.fit(
            formula(levels), data, "least-squares", privacy=1.0, noise=dpfast.SeededNoise(seed)
        )
        others = np.nanmedian(np.asarray(fit.bse)[2:-1])
        assert not np.asarray(fit.bse)[-1] < 30.0 * others
        assert any("g[k19]" in warning for warning in fit.warnings)


def test_a_level_means_the_same_by_a_schema_and_by_a_formula():
    """Same shares are released, up to noise, and the same coefficients in the table's units."""
    data, levels, _ = table(20_000, [0.5, 0.3, 0.2], 1)
    schema = dpfast.Schema({
        "x": dpfast.Numeric(-4, 4), "y": dpfast.Numeric(-6, 6), "g": dpfast.Categorical(levels),
    })  # fmt: skip
    options = {"privacy": 4.0, "noise": dpfast.SeededNoise(1)}
    by_formula = dpfast.fit(formula(levels), data, "least-squares", **options)
    declared = dpfast.fit("y ~ x + g", data, "least-squares", schema=schema, **options)
    difference = np.asarray(by_formula.params) - np.asarray(declared.params)
    assert np.abs(difference / np.asarray(by_formula.bse)).max() < 1.0


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
def test_a_fit_of_levels_passes_record_and_replay(loss):
    """A record changes its level, or loses it; of one loss nothing but levels is there."""
    rng = np.random.default_rng(4)
    rest = np.column_stack([rng.integers(0, 3, 600), rng.integers(0, 2, 600)]).astype(float)
    names = np.array(["a", "b", "c", "other"])

    def call(rows):
        data = {"g": names[rows[:, 0].astype(int)], "y": rows[:, 1]}
        return dpfast.fit("y ~ C(g, levels=['a', 'b', 'c'])", data, loss, privacy=8.0)

    for last in ([2.0, 1.0], [3.0, 0.0]):
        a, b = np.vstack([rest, [0.0, 1.0]]), np.vstack([rest, last])
        report = replay(call, a, b, budget=8.0).raise_on_leak()
        assert report.worst["histogram of distances"].ratio <= 1.0
