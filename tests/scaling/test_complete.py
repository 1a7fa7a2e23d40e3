"""How many records count is released beside the counts (claim D2), and said where it is few."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.curator.answers import Answer, Receipt
from dpfast.privacy.scaling.sensitivity import complete_weight
from dpfast.scaling.remarks import complete_remarks
from dpfast.scaling.search import ScaleSearch
from tests.loops import each

RNG = np.random.default_rng(0)
N = 6000
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=N)
LABELS = (Y > 0.0).astype(float)
COUNTED = np.floor(np.exp(np.clip(0.5 * X[:, 0], -2.0, 1.0)))


def fit(X, y, loss, **options):
    return dpfast.fit(X, y, loss, privacy=2.0, noise=dpfast.SeededNoise(0), **options)


#: Everything that buys where columns lie, and a response for it.
BUY = {
    "log-cosh": (lambda X, y: fit(X, y, "log-cosh"), Y),
    "log-cosh alone": (lambda X, y: fit(X, y, "log-cosh", inference=False), Y),
    "huber": (lambda X, y: fit(
        X, y, dpfast.Objective("huber", scale=1.0), standardize=True
    ), Y),
    "least-squares": (lambda X, y: fit(X, y, "least-squares"), Y),
    "least-squares alone": (lambda X, y: fit(X, y, "least-squares", inference=False), Y),
    "logistic": (lambda X, y: fit(X, y, "logistic"), LABELS),
    "quantile": (lambda X, y: fit(X, y, dpfast.Quantile(0.7)), Y),
    "quantiles": (
        lambda X, y: dpfast.fit_quantiles(
            X, y, taus=[0.3, 0.6], privacy=2.0, noise=dpfast.SeededNoise(0)
        ), Y,
    ),
    "counts": (lambda X, y: fit(X, y, dpfast.Poisson(4.0)), COUNTED),
    "persons": (
        lambda X, y: fit(
            dpfast.records(X, y, group=np.arange(N), group_size=2), None, "log-cosh"
        ), Y,
    ),
    "means of persons": (
        lambda X, y: fit(
            dpfast.records(X, y, group=np.arange(N), each="person"), None, "log-cosh"
        ), Y,
    ),
    "effect": (
        lambda X, y: dpfast.effects.treatment_effect(
            X, LABELS, y, privacy=4.0, noise=dpfast.SeededNoise(0)
        ), Y,
    ),
    "standardize": (
        lambda X, y: dpfast.standardize(X, y, privacy=1.0, noise=dpfast.SeededNoise(0)), Y,
    ),
    "mean alone": (
        lambda X, y: dpfast.fit(
            X[:300], y[:300], "log-cosh", privacy=0.3, noise=dpfast.SeededNoise(0)
        ), Y,
    ),
}  # fmt: skip


def said(result):
    """The number of records that count, and of records, where that is said; once."""
    number = re.compile(
        "(?:stopped after [0-9.]+% of the budget: )?about ([0-9,]+) of ([0-9,]+) records have a"
    )
    found = [number.match(told) for told in result.warnings]
    found = [one for one in found if one]
    assert len(found) < 2
    return tuple(int(part.replace(",", "")) for part in found[0].groups()) if found else None


@each("name", BUY)
def test_nothing_is_said_where_all_records_count(name):
    function, y = BUY[name]
    assert said(function(X, y)) is None


@each("name", BUY)
def test_a_column_without_numbers_is_said(name):
    """As a column of text in a CSV file is: the whole budget was paid for noise, without a word."""
    function, y = BUY[name]
    empty = X.copy()
    empty[:, 1] = np.nan
    found, records = said(function(empty, y))
    assert records == (300 if name == "mean alone" else N)
    assert found <= 0.2 * records


@each("name", [name for name in BUY if name != "mean alone"])
def test_so_is_about_how_many_are_left(name):
    function, y = BUY[name]
    part = X.copy()
    part[: N // 2, 0] = np.inf
    found, records = said(function(part, y))
    assert abs(found - 0.5 * N) < 0.1 * N and records == N


@pytest.mark.parametrize(("labels", "left"), [(LABELS + 1.0, 0.5), (2.0 * LABELS - 1.0, 0.5),
                                             (LABELS + 7.0, 0.0)])  # fmt: skip
def test_labels_that_are_not_0_and_1_count_for_nothing_and_that_is_said(labels, left):
    fitted = fit(X, labels, "logistic")
    found, records = said(fitted)
    assert abs(found - left * N) < 0.1 * N and records == N
    assert "and 0 or 1 in the response" in fitted.warnings[0]
    assert "pass response == 2, or classes=(1, 2) to a classifier, or" in fitted.warnings[0]


def test_weights_that_are_not_positive_are_said():
    weight = np.where(np.arange(N) % 2, 1.0, -1.0)
    fitted = dpfast.fit(dpfast.records(X, Y, sample_weight=weight), privacy=2.0)
    assert (
        "empty cells, infinities, weights that are not positive and finite)" in fitted.warnings[0]
    )


def test_text_in_a_csv_file_is_said(tmp_path, capsys):
    path = tmp_path / "t.csv"
    lines = [f"{a:.3f},{'FM'[int(b > 0)]},{y:.3f}" for (a, b), y in zip(X, Y, strict=True)]
    path.write_text("\n".join(["age,sex,pay", *lines]) + "\n")
    command = ["fit", str(path), "--formula", "pay ~ age + sex", "--mu", "2", "--seed", "1"]
    assert main(command) == 5
    told = " ".join(capsys.readouterr().out.split())
    assert "about 0 of 6,000 records have a number in each of ['age', 'sex']" in told


# ---- the number itself ---------------------------------------------------------------------------


class Fake:
    """Answers about records of which some are complete, with noise of the announced size."""

    def __init__(self, n, complete, others, noise):
        self.n, self._complete, self._others, self._noise = n, complete, others, noise

    def _answer(self, values, mu):
        m = len(values)
        value = np.array([*values, complete_weight(m) * self._complete])
        scale = np.sqrt(m) / mu
        noisy = value + scale * self._noise.normal(size=m + 1)
        return Answer(noisy, scale, Receipt("counts", "D2", mu, np.sqrt(m), scale))

    def below(self, asked, mu, later=()):
        if asked[0][0] == 2:  # responses: half of the labels are 0, and the others are beyond 1
            labels = self._complete - self._others
            values = [0.0, 0.5 * labels, 0.5 * labels, labels]
            return self._answer([value - 0.5 * self._complete for value in values], mu)
        shares = [1.0 / (1.0 + np.exp(-1e-16 * key)) - 0.5 for _, key in asked]
        return self._answer([share * self._complete for share in shares], mu)

    def distances(self, columns, centres, nearest, octaves, mu):
        value = np.zeros((len(columns), 2, 100))
        value[:, :, 3] = 0.4 * self._complete
        return Answer(value, 1e-3, Receipt("histogram of distances", "D6", mu, 1.0, 1e-3))


@pytest.mark.parametrize("labels", [None, 2])
def test_the_noise_of_the_number_is_what_is_said(labels):
    ratios = []
    for seed in range(400):
        others = 9_000.0 if labels is None else 2_000.0
        answers = Fake(10_000, 9_000.0, others, np.random.default_rng(seed))
        search = ScaleSearch(answers, [0, 1], 0.3, labels)
        search.run()
        found, noise = search.counted
        ratios.append((found - (9_000.0 if labels is None else 7_000.0)) / noise)
    assert abs(np.mean(ratios)) < 0.2
    assert 0.85 < np.std(ratios) < 1.15


def test_the_mu_of_all_counts_is_planned():
    labelled = ScaleSearch(Fake(10_000, 9_000.0, 0.0, RNG), [0, 1], 0.3, 2)
    asked = labelled.count_extremes()
    others = ScaleSearch(Fake(10_000, 9_000.0, 0.0, RNG), [0, 1], 0.3).count_extremes()
    both = [(2, mu) for mu in (min(mu for _, mu in others), 0.3)]  # of valid labels, once more
    assert asked == [*others, (4, labelled._price_of_labels()), *both]


@each(("found", "noise", "words"), [
    (950.0, 10.0, None), (880.0, 10.0, None), (860.0, 10.0, "about 860 of 1,000"),
    (-40.0, 20.0, "about 0 of 1,000"), (37.0, 0.1, "about 37 of 1,000"), (37.0, 9.0, "about 40 of"),
])  # fmt: skip
def test_it_is_said_where_the_noise_lets_it_be_seen(found, noise, words):
    remarks = complete_remarks((found, noise), 1000, ("a",))
    assert [words in told for told in remarks] == ([] if words is None else [True])
    assert len(str(complete_remarks((0.0, 1.0), 1000, [f"a{i}" for i in range(10_000)]))) < 400
