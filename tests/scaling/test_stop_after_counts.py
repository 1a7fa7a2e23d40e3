"""Counts come first: a call that makes no sense ends after them, and the rest is returned (C95)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.privacy import GDP, Ledger
from dpfast.scaling.budget import ScalingBudget
from dpfast.scaling.search import STOP_SDS
from tests.loops import each
from tests.stops import stopped


def table(n, q, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q))
    return X, X @ np.ones(q) + rng.normal(size=n)


def without_numbers(X, y):
    X[:, 0] = np.nan
    return X, y


def of_other_labels(X, y):
    return X, 3.0 + 2.0 * (y > 0)


SENSELESS = {
    "text": (8802, 5, "least-squares", without_numbers),
    "one column": (8802, 1, "least-squares", without_numbers),
    "a sample": (100_000, 10, "least-squares", without_numbers),
    "counts": (8802, 3, "poisson", without_numbers),
    "a quantile": (8802, 3, "quantile", without_numbers),
    "labels": (8802, 4, "logistic", of_other_labels),
}


@each("case", SENSELESS)
def test_a_senseless_call_ends_after_its_counts(case):
    n, q, loss, spoiled = SENSELESS[case]
    X, y = spoiled(*table(n, q))
    ledger, noise = Ledger((4.0, 1e-6)), dpfast.SeededNoise(3)
    fit = dpfast.fit(X, y, loss, privacy=GDP(0.5), ledger=ledger, noise=noise)
    (said,) = fit.warnings
    assert said.startswith("stopped after ")
    assert f"of {n:,} records have a number in" in said
    assert ("0 or 1 in the response" in said) == (loss == "logistic")
    assert np.isnan(fit.params).all()
    assert fit.params.shape == (q + 1,)
    (entry,) = ledger.entries
    labels = {label for label, _ in fit.privacy.entries}
    assert labels == {"counts"}
    assert entry.spend == GDP(0.5)
    assert entry.returned == fit.privacy.returned
    counted = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert entry.paid.mu**2 == pytest.approx(counted, rel=1e-9)
    assert counted < 0.03 * 0.25
    assert f"{100 * counted / 0.25:.2g}% of the budget" in said
    assert fit.privacy.total == GDP(0.5)
    assert ledger.spent.epsilon < 0.2 * GDP(0.5).epsilon(1e-6)
    shown = str(fit.summary()) + str(fit.privacy)
    assert "returned mu = 0.4" in shown
    assert dpfast.compare(fit, ledger=ledger).together == ledger.spent


LEVELS = dpfast.Schema({"g": dpfast.Categorical(["a", "b"])})


def of_groups(n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = table(n, 2, seed)
    treated = rng.integers(0, 2, n) * 1.0
    weeks = rng.exponential(np.exp(0.5 * treated))
    level = np.array(["a", "b"])[rng.integers(0, 2, n)]
    return {"y": y, "x": X[:, 0], "treated": treated, "weeks": weeks, "died": treated, "g": level}


def effect_of(data, **options):
    return dpfast.effects.treatment_effect("y ~ x", "treated", data, **options)


def hazards_of(data, **options):
    return dpfast.effects.cox("weeks ~ x", data, event="died", cuts=[0.5, 1.0, 2.0], **options)


def within_levels(data, **options):
    return dpfast.tables.absorbed("y ~ x | g", data, schema=LEVELS, **options)


def by_level(data, **options):
    return dpfast.tables.fits("y ~ x", data, "g", schema=LEVELS, **options)


SENSELESS_ELSEWHERE = {
    "effect, no numbers": (effect_of, "x", "of 8,802 records have a number in 'x'"),
    "effect, another coding": (effect_of, "treated", "0 or 1 as treatment"),
    "hazards, no numbers": (hazards_of, "x", "of 8,802 records have a number in 'x'"),
    "hazards, another coding": (hazards_of, "died", "0 or 1 as event"),
    "within levels, no numbers": (within_levels, "y", "of 8,802 records have a number in 'x'"),
    "within levels, other labels": (within_levels, "g", "a declared level in 'g'"),
    "by level, no numbers": (by_level, "x", "of 8,802 records have a number in 'x'"),
    "by level, other labels": (by_level, "g", "no declared level of 'g' has enough records"),
}


@each("case", SENSELESS_ELSEWHERE)
def test_other_senseless_calls_end_after_their_counts(case):
    call, column, words = SENSELESS_ELSEWHERE[case]
    data = of_groups(8802)
    other = {"treated": data["treated"] + 3.0, "died": data["died"] + 3.0}
    other["g"] = np.where(data["g"] == "a", "north", "south")
    data[column] = other.get(column, np.full(8802, np.nan))
    ledger = Ledger(1.0)
    result = call(data, privacy=GDP(0.5), ledger=ledger, noise=dpfast.SeededNoise(3))
    assert stopped(result, ledger)
    assert words in result.warnings[0]
    assert "stopped after" in str(result.summary())
    assert result.privacy.total == GDP(0.5)


def test_a_study_verifies_a_page_of_other_ended_calls(tmp_path):
    data = of_groups(8802)
    data["x"] = np.full(8802, np.nan)
    ledger = Ledger(1.0)
    ended = effect_of(data, privacy=0.9, ledger=ledger, noise=dpfast.SeededNoise(5))
    assert ledger.entries[0].returned.mu > 0.85
    effect_of(of_groups(8802), privacy=0.9, ledger=ledger, noise=dpfast.SeededNoise(6))
    ended.report(tmp_path / "page.html")
    assert dpfast.inference.verify_report(tmp_path / "page.html").passed


@pytest.mark.one_in(2)
@each("call", [effect_of, hazards_of, within_levels, by_level], ids=lambda call: call.__name__)
def test_other_calls_with_records_go_on(call):
    for seed in range(12):
        found = call(of_groups(900, seed), privacy=1.0, noise=dpfast.SeededNoise(seed))
        assert not stopped(found)


def test_without_a_ledger_the_rest_is_unspent_and_said():
    X, y = without_numbers(*table(8802, 5))
    fit = dpfast.fit(X, y, privacy=1.0, noise=dpfast.SeededNoise(3))
    assert fit.warnings[0].startswith("stopped after 0.0")
    assert fit.privacy.returned is None
    assert fit.privacy.unspent.mu > 0.999


@pytest.mark.one_in(2)
@each(
    ("n", "q", "mu", "loss"),
    [(3000, 2, 0.3, "least-squares"), (600, 1, 1.0, "least-squares"), (800, 2, 1.0, "logistic"),
     (1500, 4, 1.0, "logistic"), (400, 1, 1.0, "logistic")],
    ids=str,
)  # fmt: skip
def test_calls_with_records_go_on(n, q, mu, loss):
    """Down to the fewest records with which such a call is not refused or only a mean."""
    for seed in range(12):
        X, y = table(n, q, seed)
        y = (y > 0) * 1.0 if loss == "logistic" else y
        fit = dpfast.fit(X, y, loss, privacy=mu, noise=dpfast.SeededNoise(seed))
        assert not any(said.startswith("stopped") for said in fit.warnings)


def test_the_least_is_where_the_counts_hide_locations():
    for p in (1, 3, 12):
        for mu in (0.1, 1.0):
            least = ScalingBudget(1, p, mu).least_records()
            assert ScalingBudget(int(0.99 * least), p, mu).hidden()
            assert not ScalingBudget(int(1.01 * least) + 1, p, mu).hidden()
    assert STOP_SDS >= 4.0


@pytest.mark.one_in(2)
def test_calls_with_just_enough_records_are_not_ended_by_noise():
    """With as many complete records as the least, among many: at most one in a hundred ends."""
    ended = 0
    for seed in range(150):
        X, y = table(2000, 2, seed)
        least = ScalingBudget(2000, 3, 1.0).least_records()
        X[math.ceil(least) :, 0] = np.nan
        fit = dpfast.fit(X, y, privacy=1.0, noise=dpfast.SeededNoise(seed))
        ended += any(said.startswith("stopped") for said in fit.warnings)
    assert ended <= 3


def test_a_page_of_an_ended_call_is_verified(tmp_path):
    X, y = without_numbers(*table(8802, 2))
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y}
    study = dpfast.Study(columns, privacy=1.0, noise=dpfast.SeededNoise(5))
    request = {"analysis": "fit", "formula": "y ~ a + b", "share": 0.5}
    quoted = study.quote(request).spend
    study.run(request)
    (entry,) = study.ledger.entries
    assert entry.spend == quoted
    assert entry.paid.mu < 0.2 * quoted.mu  # charged is at most quoted
    study.run(
        {"analysis": "fit", "formula": "y ~ b", "share": 0.9}
    )  # what the return made room for
    study.report(tmp_path / "page.html")
    assert dpfast.inference.verify_report(tmp_path / "page.html").passed
    text = (tmp_path / "page.html").read_text()
    assert "returned by charge 1" in text
    lie = text.replace('"returned": {\n', '"returned ": {\n')
    assert lie != text
    (tmp_path / "lie.html").write_text(lie)
    assert not dpfast.inference.verify_report(tmp_path / "lie.html").passed


def test_a_saved_fit_keeps_what_was_returned(tmp_path):
    X, y = without_numbers(*table(8802, 2))
    ledger = Ledger(1.0)
    fit = dpfast.fit(X, y, privacy=0.9, ledger=ledger, noise=dpfast.SeededNoise(5))
    dpfast.saved.save(fit, tmp_path / "fit.json")
    again = dpfast.saved.load(tmp_path / "fit.json")
    assert again.privacy == fit.privacy
    assert again.privacy.returned == ledger.entries[0].returned
    fit.report(tmp_path / "fit.html")
    assert dpfast.inference.verify_report(tmp_path / "fit.html").passed
    text = (tmp_path / "fit.html").read_text()
    mu = repr(fit.privacy.returned.mu)
    (tmp_path / "lie.html").write_text(text.replace(mu, "0.9"))
    assert not dpfast.inference.verify_report(tmp_path / "lie.html").passed
