"""``fit_many``: the fits are those of ``fit``, and what all share is checked once, beforehand."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from tests.loops import each

RNG = np.random.default_rng(8)
N = 2000
X = RNG.normal(size=(N, 2))
Y = 1.0 + X @ RNG.normal(size=(2, 3)) + RNG.normal(size=(N, 3))
TABLE = {"a": X[:, 0], "b": X[:, 1], "wage": np.exp(Y[:, 0]), "hours": Y[:, 1]}


def seeds(count):
    """Return a seeded source for each fit."""
    return [dpfast.SeededNoise(k) for k in range(count)]


def same(one, other):
    """Say that two fits released the same numbers, but for last bits that alignment changes."""
    np.testing.assert_allclose(one.params, other.params, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one.bse, other.bse, rtol=1e-4)
    assert one.names == other.names
    assert one.privacy.total == other.privacy.total
    assert one.privacy.entries == other.privacy.entries


def test_every_fit_is_that_of_fit():
    """Of responses, of noises, of resamples, of float32 and of a data frame."""
    pandas = pytest.importorskip("pandas")
    for k, fit in enumerate(dpfast.fit_many(X, Y, privacy_each=1.0, noise=seeds(3))):
        same(fit, dpfast.fit(X, Y[:, k].copy(), privacy=1.0, noise=dpfast.SeededNoise(k)))
    frame, names = pandas.DataFrame(X, columns=["a", "b"]), ["p", "q", "r"]
    of_frame = dpfast.fit_many(
        frame, pandas.DataFrame(Y, columns=names), privacy_each=1.0, noise=seeds(3)
    )
    for k, fit in enumerate(of_frame):
        same(fit, dpfast.fit(frame, Y[:, k].copy(), privacy=1.0, noise=dpfast.SeededNoise(k)))
    for k, fit in enumerate(dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, noise=seeds(2))):
        same(fit, dpfast.fit(X, Y[:, 0].copy(), privacy=1.0, noise=dpfast.SeededNoise(k)))
    rows = [np.arange(0, N, 2), np.arange(1, N, 2)]
    halves = dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, resamples=rows, noise=seeds(2))
    for k, fit in enumerate(halves):
        same(fit, dpfast.fit(X[k::2], Y[k::2, 0].copy(), privacy=1.0, noise=seeds(2)[k]))
        assert fit.privacy.n == N and fit.n_records == N // 2
        assert "without looking" in fit.privacy.vouched[0]
    single = X.astype(np.float32)
    for k, fit in enumerate(dpfast.fit_many(single, Y, privacy_each=1.0, noise=seeds(3))):
        same(fit, dpfast.fit(single, Y[:, k].copy(), privacy=1.0, noise=dpfast.SeededNoise(k)))


def test_fits_of_several_sizes_are_those_of_each_alone():
    """A plan serves fits of its own size, and of the occurrences of a record that it pays for."""
    rows = [np.arange(N), np.repeat(np.arange(N // 2), 2), np.arange(0, N, 2), np.arange(N)]
    together = dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, resamples=rows, noise=seeds(4))
    for k, fit in enumerate(together):
        arguments = {"resamples": rows[k : k + 1], "noise": seeds(4)[k : k + 1]}
        same(fit, dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, **arguments)[0])
    once, twice = [fit.privacy.spent_share() for fit in together[:2]]
    assert 0.9 < float(once[0]) <= 1.0 and 0.9 < float(twice[0]) <= 1.0


def test_a_formula_with_several_responses():
    """Its design is evaluated once; each fit predicts for rows of the table."""
    pytest.importorskip("formulaic")
    fits = dpfast.fit_many(
        "cbind(log(wage), hours) ~ a + I(b**2)", TABLE, privacy_each=2.0, noise=seeds(2)
    )
    for k, left in enumerate(("log(wage)", "hours")):
        alone = dpfast.fit(f"{left} ~ a + I(b**2)", TABLE, privacy=2.0, noise=seeds(2)[k])
        same(fits[k], alone)
        np.testing.assert_allclose(
            fits[k].predict(TABLE), alone.predict(TABLE), rtol=1e-3, atol=1e-4
        )
    for formula in ("cbind() ~ a", "cbind(a ~ b", "cbind(wage, ~ a"):
        with pytest.raises(InvalidInput, match=r"left side|could not be read"):
            dpfast.fit_many(formula, TABLE, privacy_each=1.0)


def test_units_that_were_paid_for_once():
    """Released units of the design cost the fits nothing more."""
    units = dpfast.standardize(X, Y[:, 0], privacy=0.5, noise=dpfast.SeededNoise(1))
    fits = dpfast.fit_many(X, Y[:, 0], privacy_each=1.0, standardize=units, noise=seeds(2))
    for fit in fits:
        assert not any("below" in label for label, _ in fit.privacy.entries)


@pytest.mark.filterwarnings("ignore")
def test_resamples_vary_as_estimates_do():
    """The spread of a bootstrap's estimates covers the sampling error and the noise."""
    size = 4000
    x = RNG.normal(size=(size, 1))
    y = x[:, 0] + RNG.normal(size=size)
    rows = RNG.integers(0, size, (30, size))
    fits = dpfast.fit_many(x, y, privacy_each=20.0, resamples=rows, noise=seeds(30))
    slopes = np.array([fit.params[1] for fit in fits])
    errors = np.array([fit.bse[1] for fit in fits])
    assert 0.5 < slopes.std() / errors.mean() < 2.0  # a ratio of standard deviations, 29 degrees
    assert abs(slopes.mean() - 1.0) < 6.0 * errors.mean()


REFUSED = {
    "rows of text": ({"resamples": [["a"]]}, "row numbers"),
    "rows out of range": ({"resamples": [[0, N]]}, "row numbers"),
    "negative rows": ({"resamples": [[-1]]}, "row numbers"),
    "no rows": ({"resamples": [[]]}, "row numbers"),
    "no resamples": ({"resamples": []}, "must be a list"),
    "a number": ({"resamples": 3}, "must be a list"),
    "few rows": ({"resamples": [[0, 1]]}, "more than n"),
    "another number": ({"noise": seeds(2)}, "one for each"),
    "no noise": ({"noise": [1, 2, 3]}, "noise"),
    "weights": ({"loss": dpfast.Objective("log-cosh", weights=dpfast.Mallows(1.0))}, "fit_many"),
    "a response too long": ({"y": Y[:-1]}, "rows"),
    "a cube": ({"y": Y[:, :, None]}, "y"),
    "persons": ({"X": dpfast.records(X, group=np.arange(N), each="person")}, "memory"),
    "opened": ({"X": dpfast.records(X, Y[:, 0])}, "responses"),
    "a tiny budget": ({"privacy_each": 1e-9}, "too few"),
    "too many occurrences": ({"resamples": [np.zeros(N, int)], "privacy_each": 1e-3}, "too few"),
}


def test_records_and_designs_are_taken_as_fit_takes_them():
    named = dpfast.records(X, names=[f"c{k}" for k in range(X.shape[1])])
    by_name = dpfast.fit_many(named, Y, privacy_each=9.0, noise=dpfast.SeededNoise(3))
    plain = dpfast.fit_many(X, Y, privacy_each=9.0, noise=dpfast.SeededNoise(3))
    np.testing.assert_array_equal(by_name.params, plain.params)
    assert by_name[1].names[1] == "c0"
    schema = dpfast.Schema({"a": dpfast.Numeric(-9, 9), "y": dpfast.Numeric(-99, 99)})
    design = schema.encode({"a": X[:, 0], "y": Y[:, 0]}, ["a"], "y")
    (found,) = dpfast.fit_many(design, None, privacy_each=9.0, noise=dpfast.SeededNoise(3))
    alone = dpfast.fit(design, privacy=9.0, noise=dpfast.SeededNoise(3))
    np.testing.assert_array_equal(found.params, alone.params)
    assert found.names == alone.names == ("intercept", "a")


@pytest.mark.filterwarnings("ignore")
@each("name", sorted(REFUSED))
def test_what_is_public_is_refused_before_the_first_charge(name):
    changed, match = REFUSED[name]
    ledger = dpfast.Ledger(100.0)
    call = {"X": X, "y": Y, "privacy_each": 1.0, "ledger": ledger} | changed
    with pytest.raises(dpfast.DpfastError, match=match):
        dpfast.fit_many(**call)
    assert not ledger.entries


def test_an_interrupted_call_has_the_finished_fits():
    """And what the last one had released; nothing is lost that was paid for."""

    class Stops(dpfast.SeededNoise):
        def normals(self, size, bits):
            raise KeyboardInterrupt

    noise = [dpfast.SeededNoise(0), dpfast.SeededNoise(1), Stops(2)]
    ledger = dpfast.Ledger(3.0)
    with pytest.raises(KeyboardInterrupt) as stopped:
        dpfast.fit_many(X, Y, privacy_each=1.0, noise=noise, ledger=ledger)
    partial = stopped.value.partial_result
    assert len(partial) == 2 and partial.privacy.total.mu == pytest.approx(2.0**0.5)
    same(partial[1], dpfast.fit(X, Y[:, 1].copy(), privacy=1.0, noise=dpfast.SeededNoise(1)))
    assert len(ledger.entries) == 3


def test_one_warning_for_all_fits():
    """It counts those that have any, and quotes the first."""
    few = X[:60], Y[:60]
    with pytest.warns(dpfast.errors.ResultWarning) as warned:
        fits = dpfast.fit_many(*few, privacy_each=2.0, noise=seeds(3))
    assert len(warned) == 1
    noted = sum(bool(fit.warnings) for fit in fits)
    assert str(warned[0].message).startswith(f"{noted} of 3 fits have warnings")
