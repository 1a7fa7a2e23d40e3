"""Attacks on claim C96: many fits of one design, and resamples in which a record occurs often."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.noisy_release import observed
from dpfast.inference.composition import adds_up, cost
from tests.loops import each

RNG = np.random.default_rng(5)
X = RNG.normal(size=(600, 2))
Y = 1.0 + X.sum(axis=1) + RNG.normal(size=600)
MU = 2.0


class Distance:
    """Observer that plays back recorded answers, and adds up how far exact values moved."""

    def __init__(self):
        self.answers, self.exact, self.squares, self.at = [], [], 0.0, None

    def release(self, question, release, draw):
        """Record an answer, or repeat it and compare the exact values behind it."""
        value = np.array(release.value, dtype=np.float64)
        if self.at is None:
            self.exact.append(value)
            self.answers.append(draw())
            return self.answers[-1]
        moved = (value - self.exact[self.at]) / release.noise_scale
        self.squares += float((moved**2).sum())
        self.at += 1
        return self.answers[self.at - 1]


def distance(rows, mu=MU):
    """Return how far the worst of some replacements of record 0 moves a fit, in its noise."""
    far = 0.0
    for x, y in ((1e3, 1e6), (0.0, 1e6), (0.0, np.nan), (5.0, -1e6)):
        observer = Distance()
        for replaced in (False, True):
            covariates, response = X.copy(), Y.copy()
            covariates[0], response[0] = (x, y) if replaced else (0.5, -1e6)
            with observed(observer), np.errstate(all="ignore"):
                dpfast.fit_many(
                    covariates, response, privacy_each=mu, resamples=[rows],
                    noise=dpfast.SeededNoise(3),
                )  # fmt: skip
            observer.at = 0
        assert len(observer.answers) == len(observer.exact)
        far = max(far, math.sqrt(observer.squares))
    return far


def repeated(m):
    """Return row numbers of 600 rows in which record 0 occurs m times."""
    return np.concatenate([np.zeros(m, dtype=int), np.arange(1, 601 - m)])


@pytest.mark.filterwarnings("ignore")
def test_c96_a_record_of_a_resample_moves_its_sums_as_often_as_it_occurs():
    """Within mu at every m; where it were priced as a record that occurs once, far beyond."""
    for m in (1, 3, 6):
        far = distance(repeated(m))
        assert far <= MU
        assert m == 1 or m * far > 1.2 * MU  # what mu instead of mu / m would have let it move


@pytest.mark.filterwarnings("ignore")
def test_c96_a_resample_pays_for_the_record_that_occurs_most():
    """Its draws are those of a fit of as many records at mu / m, rounded down."""

    def draws(call):
        seen = []

        class Scales:
            def release(self, question, release, draw):
                seen.append((release.mu, release.noise_scale))
                return draw()

        with observed(Scales()):
            call(dpfast.SeededNoise(3))
        return np.array(seen)

    for m in (1, 2, 5):
        rows = repeated(m)
        own = draws(
            lambda noise, rows=rows: dpfast.fit_many(
                X, Y, privacy_each=MU, resamples=[rows], noise=noise
            )
        )
        alone = draws(
            lambda noise, rows=rows, m=m: dpfast.fit(X[rows], Y[rows], privacy=MU / m, noise=noise)
        )
        assert own.shape == alone.shape
        np.testing.assert_allclose(own, alone, rtol=1e-3)  # a smaller mu could not hide in that


@pytest.mark.filterwarnings("ignore")
@each("budget", [dpfast.GDP(0.7), dpfast.ZCDP(0.3), dpfast.ApproxDP(1.0, 1e-6)])
def test_c96_receipts_of_every_fit_add_up_to_its_total(budget):
    """Exactly, also m times over; and the ledger has one line for each fit."""
    rows = [repeated(1), repeated(3), repeated(2)]
    count = len(rows)
    total = {
        dpfast.GDP: lambda: dpfast.GDP(0.7 * math.sqrt(count) * (1.0 + 1e-12)),
        dpfast.ZCDP: lambda: dpfast.ZCDP(0.3 * count * (1.0 + 1e-12)),
        dpfast.ApproxDP: lambda: dpfast.ApproxDP(count * 1.0, count * 1e-6),
    }[type(budget)]()
    ledger = dpfast.Ledger(total)
    fits = dpfast.fit_many(
        X, Y, privacy_each=budget, resamples=rows, ledger=ledger, noise=dpfast.SeededNoise(1)
    )
    within = dpfast.GDP.within(budget)
    for fit in fits:
        assert fit.privacy.total == within
        assert adds_up(within, fit.privacy.composition)
        (spent,) = cost(fit.privacy.composition, dpfast.GDP)
        assert spent > 0.9 * within.mu**2
    assert [entry.label.rpartition(", ")[2] for entry in ledger.entries] == [
        "1 of 3)", "2 of 3)", "3 of 3)",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_c96_what_a_ledger_cannot_pay_in_full_is_refused_before_the_first_fit():
    """At the threshold: exactly K charges fit, and K + 1 do not."""
    Z = np.column_stack([Y] * 4)
    enough, short = dpfast.Ledger(dpfast.GDP(1.0)), dpfast.Ledger(dpfast.GDP(1.0 - 1e-9))
    fits = dpfast.fit_many(X, Z, privacy_each=0.5, ledger=enough, noise=dpfast.SeededNoise(1))
    assert len(fits) == 4 and enough.remaining.mu == 0.0
    with pytest.raises(dpfast.BudgetExceeded, match="4 fits"):
        dpfast.fit_many(X, Z, privacy_each=0.5, ledger=short)
    assert not short.entries


class Answers:
    """Observer that notes what each query was about: exact values, prices and noise."""

    def __init__(self):
        self.seen = []

    def release(self, question, release, draw):
        """Note a question, and answer it."""
        self.seen.append((release.mu, release.noise_scale, np.array(release.value, np.float64)))
        return draw()


@pytest.mark.filterwarnings("ignore")
def test_c96_fits_of_one_plan_ask_and_pay_as_each_would_alone():
    """Also where one response has gaps: exact values, prices and receipts are those of the fit."""
    Z = np.column_stack([Y, Y, -3.0 * Y])
    Z[::3, 1] = np.nan
    together, noise = Answers(), [dpfast.SeededNoise(k) for k in range(3)]
    with observed(together):
        fits = dpfast.fit_many(X, Z, privacy_each=MU, noise=noise)
    seen = iter(together.seen)
    for k, fit in enumerate(fits):
        alone = Answers()
        with observed(alone):
            found = dpfast.fit(X, Z[:, k].copy(), privacy=MU, noise=dpfast.SeededNoise(k))
        for mu, scale, value in alone.seen:
            own_mu, own_scale, own_value = next(seen)
            assert (own_mu, own_scale) == pytest.approx((mu, scale), rel=1e-6)
            np.testing.assert_allclose(own_value, value, rtol=1e-6, atol=1e-6 * np.abs(value).max())
        assert fit.privacy.entries == found.privacy.entries
        assert adds_up(fit.privacy.total, fit.privacy.composition)
    assert next(seen, None) is None


@pytest.mark.filterwarnings("ignore")
def test_c96_a_design_that_changes_between_fits_is_read_as_it_is():
    """Plans keep nothing of the records: the second fit is that of the changed design."""
    changed = X.copy()

    class Changes(dpfast.SeededNoise):
        def normals(self, size, bits):
            changed[:] = 5.0 - 2.0 * X
            return super().normals(size, bits)

    noise = [Changes(1), dpfast.SeededNoise(2)]
    _, second = dpfast.fit_many(changed, Y, privacy_each=MU, noise=noise)
    alone = dpfast.fit(5.0 - 2.0 * X, Y, privacy=MU, noise=dpfast.SeededNoise(2))
    np.testing.assert_allclose(second.params, alone.params, rtol=1e-4, atol=1e-5)
