"""``regression.like``: units, whitening and start of a public table, which costs nothing."""

import copy
import math
import warnings

import numpy as np
import pytest

import dpfast
from dpfast import regression
from dpfast.audit import replay
from dpfast.errors import InvalidBudget, InvalidInput

SLOPES = np.array([1.0, 0.0, -2.0])


def rows(seed, n, loss="least-squares"):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(50.0, 10.0, n), rng.lognormal(8.0, 0.5, n), rng.normal(size=n)])
    X[:, 2] += 0.05 * X[:, 0]
    signal = (X - [50.0, 3400.0, 2.5]) / [10.0, 1800.0, 1.0] @ SLOPES
    if loss == "logistic":
        return X, (signal + rng.logistic(size=n) > 0.0).astype(float)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * signal)).astype(float)
    return X, signal + rng.normal(size=n)


def fitted(X, y, loss="least-squares", like=None, mu=1.0, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpfast.fit(
            X, y, loss, privacy=mu, standardize=like, noise=dpfast.SeededNoise(seed), **options
        )


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh", "logistic", "poisson"])
def test_all_but_one_histogram_is_spent_on_scores(loss):
    like = regression.like(*rows(0, 3000, loss))
    X, y = rows(1, 5000, loss)
    entries = fitted(X, y, loss, like).privacy.entries
    assert [query for query, _ in entries][:2] == ["histogram of lengths", "gradient"]
    assert {query for query, _ in entries[2:]} == {"gradient + meat"}
    assert 1.0 - 1e-6 < math.fsum(mu**2 for _, mu in entries) <= 1.0 + 1e-12
    assert entries[0][1] ** 2 < 0.025


@pytest.mark.parametrize("released", [False, True], ids=["public", "released before"])
def test_texts_say_where_centres_and_scales_are_from(released, tmp_path):
    X, y = rows(1, 4000)
    units = dpfast.standardize(X, y, privacy=1.0, noise=dpfast.SeededNoise(0))
    fit = fitted(X, y, like=units if released else regression.like(*rows(0, 3000)))
    fit.save(tmp_path / "fit.json")
    origin = "released before" if released else "taken from a public table"
    for one in (fit, fit.coded, dpfast.saved.load(tmp_path / "fit.json")):
        assert f"x1, x2, x3, y were {origin}; no bound" in one.methods_text()
        assert f"({origin})" in " ".join(str(one.explain()).split())
        assert "part of the" not in f"{one.methods_text()} {one.explain()}"
    assert "privately standardised" not in fit.model
    assert "part of the same budget" in fitted(X, y).methods_text()


def test_the_start_is_of_the_public_rows_alone():
    """The same public table and two private ones: the first point, to the last bit, is one."""
    like = regression.like(*rows(0, 3000))
    starts = [fitted(*rows(seed, 4000), like=like, seed=seed).iterates[0] for seed in (1, 2)]
    assert np.isfinite(starts).all()
    np.testing.assert_array_equal(*starts)
    other = fitted(*rows(1, 4000), like=regression.like(*rows(5, 3000)), seed=1).iterates[0]
    assert not np.array_equal(starts[0], other)


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
@pytest.mark.parametrize("row", [(1e300, -1e300, 0.0, 1.0), (np.nan, 0.0, 0.0, 0.0)])
def test_a_fit_with_a_public_table_passes_record_and_replay(loss, row):
    like = regression.like(*rows(0, 1000, loss))
    data = np.column_stack(rows(1, 400, loss))
    other = data.copy()
    other[7] = row

    def call(data):
        return dpfast.fit(data[:, :3], data[:, 3], loss, privacy=3.0, standardize=like).params

    replay(call, data, other, budget=3.0).raise_on_leak()


def test_errors_are_smaller_at_half_of_n_mu():
    """Twelve seeded pairs: a public table at n mu = 20 p^1.5 beats a fit without at twice that."""
    like, sizes = regression.like(*rows(0, 4000)), (160, 320)
    errors = {True: [], False: []}
    for seed in range(12):
        for of_public, n in zip((True, False), sizes, strict=True):
            X, y = rows(seed + 10, n)
            exact = dpfast.nonprivate_fit(X, y)
            found = fitted(X, y, like=like if of_public else None, seed=seed)
            errors[of_public].append(np.mean(np.square((found.params - exact.params) / exact.bse)))
    assert np.median(errors[True]) < 0.5 * np.median(errors[False])


def test_intervals_cover_what_they_name():
    """Forty seeded fits of four coefficients, whose population is known: 160 intervals."""
    like, held = regression.like(*rows(0, 4000)), []
    truth = dpfast.nonprivate_fit(*rows(99, 400_000)).params
    for seed in range(40):
        found = fitted(*rows(seed + 100, 1500), like=like, seed=seed, mu=0.5)
        held += [*(np.abs(found.params - truth) <= 1.96 * found.bse)]
    assert np.mean(held) > 0.88


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_other_units_stop_the_fit_with_most_of_the_budget_left(factor):
    ledger = dpfast.Ledger(1.0)
    X, y = rows(1, 4000)
    found = fitted(X * factor, y, like=regression.like(*rows(0, 3000)), ledger=ledger)
    assert np.isnan(found.params).all() and np.isnan(found.bse).all()
    assert any("is not like this one" in warning for warning in found.warnings)
    assert ledger.spent.mu**2 < 0.05


def test_missing_rows_stop_the_fit():
    X, y = rows(1, 4000)
    X[::2] = np.nan
    found = fitted(X, y, like=regression.like(*rows(0, 3000)))
    assert np.isnan(found.params).all()
    assert any("as many complete rows" in warning for warning in found.warnings)


def test_a_column_that_varies_otherwise_is_named():
    like = regression.like(*rows(0, 3000))
    X, y = rows(1, 20_000)
    assert not any("regression.like" in warning for warning in fitted(X, y, like=like).warnings)
    X[:, 0] = 50.0 + 0.4 * (X[:, 0] - 50.0)
    (told,) = (w for w in fitted(X, y, like=like).warnings if "regression.like" in w)
    assert "x1" in told
    # in other units Newton steps do not arrive
    X[:, 0] = 50.0 + 0.03 * (X[:, 0] - 50.0)
    (told,) = (w for w in fitted(X, y, like=like).warnings if "regression.like" in w)
    assert "coefficients there" in told and "may be far off" in told


def test_a_formula_reads_both_tables():
    X, y = rows(0, 6000)
    table = dict(zip("abcy", (*X.T, y), strict=True))
    names = np.array(["u", "v"])[np.random.default_rng(0).integers(0, 2, 6000)]
    table["g"] = names
    public, private = (
        {k: v[part] for k, v in table.items()} for part in (slice(2000), slice(2000, None))
    )
    formula = "y ~ a + I(b / 1000) + c + C(g, levels=['u', 'v'])"
    found = fitted(formula, private, like=regression.like(public), mu=2.0)
    exact = dpfast.nonprivate_fit(formula, private)
    assert (np.abs(found.params - exact.params) < 5.0 * found.bse).all()
    schema = dpfast.Schema(
        {"a": dpfast.Numeric(0, 100), "c": dpfast.Numeric(-5, 10), "y": dpfast.Numeric(-20, 20)}
    )
    of_schema = fitted("y ~ a + c", private, like=regression.like(public), mu=2.0, schema=schema)
    assert (
        np.abs(of_schema.params - dpfast.nonprivate_fit("y ~ a + c", private).params) < 0.2
    ).all()


X0, Y0 = rows(0, 300)
REFUSED = {
    "a method": ({"loss": "log-cosh", "method": "newton"}, "default fits"),
    "other columns": ({"X": X0[:, :2]}, "the public table has the columns"),
    "offsets": ({"X": dpfast.records(X0, Y0, offset=Y0), "y": None}, "none elsewhere"),
    "persons": (
        {"X": dpfast.records(X0, Y0, group=np.arange(300) // 2, each="person"), "y": None},
        "has none of them, and the private one persons",
    ),
    "weights": ({"X": dpfast.records(X0, Y0, sample_weight=Y0), "y": None}, "one weights"),
    "a constant": ({"standardize": regression.like(X0 * 0.0, Y0)}, "looks? constant"),
    "a constant response": (
        {"standardize": regression.like(X0, Y0 * 0.0)},
        "response looks constant",
    ),
    "nothing": ({"standardize": regression.like(X0 * np.nan, Y0)}, "almost no row"),
    "no response": (
        {"standardize": regression.like(X0)},
        "in the public table of regression.like",
    ),
    "few rows": ({"standardize": regression.like(X0[:3], Y0[:3])}, "in the public table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_public_table_cannot_be_is_refused_before_the_charge(case):
    options, message = REFUSED[case]
    ledger = dpfast.Ledger(1.0)
    call = {
        "X": X0,
        "y": Y0,
        "privacy": 1.0,
        "standardize": regression.like(X0, Y0),
        "ledger": ledger,
    }
    with pytest.raises(InvalidInput, match=message):
        dpfast.fit(**(call | options))
    assert ledger.spent.mu == 0.0


def of_kind(kind, seed, n, loss="least-squares", factor=1.0):
    """Rows with weights whose mean is 100, with offsets, or of persons with three on average."""
    X, y = rows(seed, n, loss)
    rng = np.random.default_rng(seed + 1)
    if kind == "weights":
        return dpfast.records(X, y, sample_weight=factor * rng.gamma(2.0, 50.0, n))
    if kind == "offsets":
        offset = rng.normal(size=n)
        return dpfast.records(X, y + offset, offset=offset)
    return dpfast.records(X, y, group=np.sort(rng.integers(0, n // 3, n)), each="person")


@pytest.mark.parametrize("kind", ["weights", "offsets", "persons"])
def test_c107_all_but_one_histogram_is_spent_on_scores_of_weights_and_persons(kind):
    like = regression.like(of_kind(kind, 0, 3000))
    entries = fitted(of_kind(kind, 1, 5000), None, like=like).privacy.entries
    assert [query for query, _ in entries][:2] == ["histogram of lengths", "gradient"]
    assert {query for query, _ in entries[2:]} == {"gradient + meat"}
    assert 1.0 - 1e-6 < math.fsum(mu**2 for _, mu in entries) <= 1.0 + 1e-12


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
@pytest.mark.parametrize("row", [(1e300, -1e300, 0.0, 1.0, 1e300), (1.0, 1.0, 1.0, 1.0, np.nan)])
def test_c107_weights_and_persons_pass_record_and_replay(loss, row):
    """The replaced record has another weight, too, and another person's number."""
    weights = np.random.default_rng(0).gamma(2.0, 50.0, 1400)
    data = np.column_stack([*rows(1, 400, loss), weights[1000:]])
    other = data.copy()
    other[7] = row

    def of_weights(data):
        private = dpfast.records(data[:, :3], data[:, 3], sample_weight=data[:, 4])
        return dpfast.fit(private, None, loss, privacy=3.0, standardize=weighted).params

    def of_persons(data):
        private = dpfast.records(data[:, :3], data[:, 3], group=persons, each="person")
        return dpfast.fit(private, None, loss, privacy=3.0, standardize=grouped).params

    X, y = rows(0, 1000, loss)
    weighted = regression.like(dpfast.records(X, y, sample_weight=weights[:1000]))
    replay(of_weights, data, other, budget=3.0).raise_on_leak()
    grouped = regression.like(dpfast.records(X, y, group=np.arange(1000) // 3, each="person"))
    persons = np.arange(400) // 3
    replay(of_persons, data, other, budget=3.0).raise_on_leak()


def test_c107_the_unit_of_weights_is_that_of_the_public_table():
    """Weights twice as large start at one point; 40 times as large they stop the fit."""
    like = regression.like(of_kind("weights", 0, 3000))
    fits = [fitted(of_kind("weights", 1, 4000, factor=k), None, like=like) for k in (1.0, 2.0)]
    np.testing.assert_array_equal(fits[0].iterates[0], fits[1].iterates[0])
    assert np.isfinite(fits[0].params).all()
    stopped = fitted(of_kind("weights", 1, 4000, factor=40.0), None, like=like)
    assert np.isnan(stopped.params).all()
    (told,) = (text for text in stopped.warnings if "is not like this one" in text)
    ratio = float(told.partition("Scores are ")[2].partition(" ")[0])
    assert 30.0 < ratio < 53.0


@pytest.mark.parametrize("kind", ["weights", "offsets", "persons"])
def test_intervals_of_weights_offsets_and_persons_cover(kind):
    """Twelve seeded fits of four coefficients, whose population is known: 48 intervals."""
    like, held = regression.like(of_kind(kind, 0, 5000)), []
    truth = dpfast.nonprivate_fit(*rows(99, 400_000)).params
    for seed in range(12):
        found = fitted(of_kind(kind, seed + 100, 5000), None, like=like, seed=seed, mu=0.7)
        held += [*(np.abs(found.params - truth) <= 1.96 * found.bse)]
    assert np.mean(held) > 0.8


def test_many_fits_and_effects_are_refused():
    like = regression.like(X0, Y0)
    with pytest.raises(InvalidInput, match="many fits"):
        dpfast.fit_many(X0, Y0, privacy_each=1.0, standardize=like)
    with pytest.raises(InvalidInput, match="has no effects"):
        regression.like(dpfast.records(X0, Y0, group=Y0, each="person", effects="person"))
    with pytest.raises((InvalidBudget, InvalidInput)):
        dpfast.fit(X0, Y0, privacy=1e-12, standardize=like)


def test_quantiles_share_a_public_table_and_estimators_are_cloned():
    like = regression.like(*rows(0, 3000))
    X, y = rows(1, 4000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dpfast.fit_quantiles(
            X, y, [0.25, 0.5], privacy=2.0, standardize=like, noise=dpfast.SeededNoise(1)
        )
    assert found.fits[0].params[0] < found.fits[1].params[0]
    assert 4.0 - 1e-6 < math.fsum(mu**2 for _, mu in found.privacy.entries) <= 4.0 + 1e-12
    assert copy.deepcopy(like) is like and repr(like) == "<Like: public table>"
