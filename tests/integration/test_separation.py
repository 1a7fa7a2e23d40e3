"""Levels without a response, or with nothing but responses: a fit says that no estimate may be."""

import numpy as np
import pytest

import dpfast

WORDS = "a finite estimate may not exist"


def table(seed, successes, loss="logistic", n=20_000, share=0.05):
    """A label of this share, with so many expected responses."""
    rng = np.random.default_rng(seed)
    label, x = 1.0 * (rng.random(n) < share), rng.normal(size=n)
    rate = successes / (n * share)
    if loss == "poisson":
        y = rng.poisson(np.where(label == 1.0, rate, np.exp(0.5 + 0.3 * x)))
    else:
        y = rng.random(n) < np.where(label == 1.0, rate, 1.0 / (1.0 + np.exp(0.5 - 0.5 * x)))
    return np.column_stack([x, label]), 1.0 * y


def told(X, y, loss="logistic", mu=1.0, seed=0):
    fit = dpfast.fit(X, y, loss, privacy=mu, noise=dpfast.SeededNoise(seed))
    return [said for said in fit.warnings if WORDS in said]


@pytest.mark.parametrize("loss", ["logistic", "probit", "poisson"])
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_level_without_a_response_is_named(loss, share):
    """Said in .83 to .9 of such fits; of 24 fewer than 15 with probability below 1e-3."""
    found = [told(*table(seed, 0.0, loss, share=share), loss, seed=seed) for seed in range(6)]
    assert sum(map(bool, found)) >= 4
    assert all(len(one) <= 1 and "1 in 'x2' are 0" in one[0] for one in found if one)


@pytest.mark.parametrize("loss", ["logistic", "probit", "poisson"])
def test_a_level_with_twenty_responses_is_not(loss):
    """Of 960 fits of levels with 20/mu of them 1 said so; two of 6 with probability 2e-5."""
    assert sum(bool(told(*table(seed, 20.0, loss), loss, seed=seed)) for seed in range(6)) <= 1


def test_a_level_of_nothing_but_responses_and_one_of_all_others():
    X, y = table(0, 0.0)
    assert "1 in 'x2' are 1" in told(X, 1.0 - y)[0]
    X[:, 1] = 1.0 - X[:, 1]
    assert "0 in 'x2' are 0" in told(X, y)[0]


def test_levels_of_a_formula_and_declared_ones_are_named_as_well():
    """Said in .83 to .9 of such fits; of 24 fewer than 15 with probability below 1e-3."""
    formula = 'y ~ x + C(g, levels=["other", "rare"])'
    schema = dpfast.Schema(
        {"x": dpfast.Numeric(-4, 4), "g": dpfast.Categorical(["other", "rare"]),
         "y": dpfast.Binary(1, 0)}
    )  # fmt: skip
    named = np.zeros(2, dtype=int)
    for seed in range(24):
        X, y = table(seed, 0.0)
        rows = {"y": y, "x": X[:, 0], "g": np.where(X[:, 1] == 1.0, "rare", "other")}
        design = schema.encode(rows, response="y")
        for k, records in enumerate([(formula, rows), (design, None)]):
            noise = dpfast.SeededNoise(seed)
            fit = dpfast.fit(*records, "logistic", privacy=1.0, noise=noise)
            named[k] += any(WORDS in said and "rare" in said for said in fit.warnings)
    assert (named >= 15).all()


def test_rare_responses_everywhere_are_no_separation():
    """100 responses of 20,000: a level of 5% has 5 of them, or none."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=20_000), 1.0 * (rng.random(20_000) < 0.05)])
    for seed in range(3):
        assert not told(X, 1.0 * (rng.random(20_000) < 0.005), seed=seed)


def test_splines_of_a_schema_and_offsets_of_any_size_end_no_fit():
    X, y = table(0, 0.0, n=4000)
    rows = {"y": y, "x": X[:, 0], "g": X[:, 1]}
    schema = dpfast.Schema(
        {"x": dpfast.Numeric(-4, 4), "g": dpfast.Binary(1, 0), "y": dpfast.Binary(1, 0)}
    )
    formula = "y ~ bs(x, knots=[0]) + g"
    noise = dpfast.SeededNoise(0)
    fit = dpfast.fit(formula, rows, "logistic", schema=schema, privacy=3.0, noise=noise)
    assert np.isfinite(fit.params).all()
    for size in (1e300, -1e300, 1e-300):
        records = dpfast.records(X, y, offset=np.full(len(y), size))
        for loss in ("logistic", "poisson"):
            assert dpfast.fit(records, None, loss, privacy=3.0, noise=noise).names


def test_a_share_between_0_and_1_is_no_level():
    """Ratios about .74, as loans over values: none of 8 seeded fits names a level of it."""
    for seed in range(8):
        rng = np.random.default_rng([5, seed])
        ratio = np.clip(rng.normal(0.74, 0.19, 2400), 0.05, 1.9)
        y = (rng.random(2400) < 1.0 / (1.0 + np.exp(2.0 - 1.5 * (ratio - 0.74)))) * 1.0
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(ratio[:, None], y, "logistic", privacy=1.0, noise=noise)
        assert not any("all responses" in text for text in fit.warnings)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_level_that_should_have_forty_responses_and_has_none_is_named(loss):
    """8% of 10,000 records where 5% have the response: of 20 seeded fits one may miss it."""
    named = 0
    for seed in range(20):
        rng = np.random.default_rng([6, seed])
        x, level = rng.normal(size=10_000), rng.random(10_000) < 0.08
        rate = np.exp(-3.0 + 0.5 * x)
        y = (rng.random(10_000) < rate / (1.0 + rate)) * (1.0 - level)
        X, noise = np.column_stack([x, level]), dpfast.SeededNoise(seed)
        fit = dpfast.fit(X, y, loss, privacy=1.0, noise=noise)
        named += any("all responses" in text for text in fit.warnings)
    assert named >= 19
