"""C78 and C79: cross-fitting over dealt folds, and the square that is free beside the location."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dpfast
from dpfast.curator.effects import (
    Aim,
    Nuisance,
    PseudoOutcomes,
    Trial,
)
from dpfast.data import Records, as_records
from dpfast.effects.treatment import treatment_effect
from dpfast.inference.composition import Maximum, Prepaid, cost
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.sensitivity import SQUARE_MU, mean_score, mean_square
from tests.watching import watched

HOSTILE = [-np.inf, -1e308, -3.0, -1e-300, 0.0, 1.0, 1e160, 1e308, np.nan]
NUISANCES = [
    Nuisance(np.array([0.2, 0.5]), np.array([[0.1, 1.0], [0.7, -1.0]])),
    Nuisance(np.array([-0.1, 0.4]), np.array([[0.0, 0.9], [1.2, -0.8]])),
]


def table(n=40, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return X, (rng.random(n) < 0.5).astype(float), X[:, 0] + rng.normal(size=n)


def trial(X, T, y, folds, **aim):
    return Trial.of(as_records(X, y), T, folds, dpfast.SeededNoise(0), 1, Aim(True, True, **aim))


def pseudo(X, T, y, folds):
    return trial(X, T, y, folds).pseudo_outcomes(NUISANCES, 0.1, Ledger(GDP(1e9)))


def hostile_records():
    """One record of whatever kind: covariate, treatment, outcome."""
    return itertools.product(HOSTILE, [0.0, 1.0, 0.5, -1e300, np.nan], [-1e308, 0.3, 1e308, np.inf])


@pytest.mark.parametrize("i", [0, 1])
def test_c78_a_record_moves_one_fold_and_the_pooled_queries(i):
    X, T, y = table()
    folds = np.arange(40) % 2

    def asked():
        found = trial(X, T, y, folds)
        ledger = Ledger(GDP(1e9))
        for fold in (0, 1):
            for rows in (found.treatments(fold, ledger), found.outcomes(fold, ledger)):
                rows.gram(1.0, 0.5)
                rows.moment(1.0, 2.0, 0.5)
        outcomes = found.pseudo_outcomes(NUISANCES, 0.1, ledger)
        outcomes.overlap(np.array([0.1, 0.9]), 0.5)
        outcomes.location(0.4, 3.0, 0.5, square=True)

    before = watched(asked)
    largest = np.zeros(len(before))
    for X[i, 0], T[i], y[i] in hostile_records():
        after = watched(asked)
        for k, (a, b) in enumerate(zip(before, after, strict=True)):
            largest[k] = max(largest[k], np.linalg.norm(a.value - b.value) / a.l2_sensitivity)
    other = slice(4, 8) if i == 0 else slice(0, 4)
    assert (largest[other] == 0.0).all()
    largest[other] = 0.5
    assert (largest > 0.02).all()
    assert (largest <= 1.0).all()


def test_c78_the_location_attains_its_sensitivity_and_no_more():
    X, T, y = table()
    folds, n, clip = np.arange(40) % 2, 40, 3.0
    means, squares = [], []
    for X[0, 0], T[0], y[0] in hostile_records():
        outcomes = pseudo(X, T, y, folds)
        location, square = watched(lambda o=outcomes: o.location(0.4, clip, 0.5, square=True))
        assert location.l2_sensitivity >= mean_score(2.0 * clip, n)
        means.append(location.value[0])
        squares.append(square.value[0])
        assert location.noise_scale * 0.5 >= location.l2_sensitivity
    move = np.ptp(means)
    assert 0.999 * 2.0 * clip / n <= move <= location.l2_sensitivity
    assert location.l2_sensitivity < 2.0 * clip / n * (1.0 + 1e-6)
    assert 0.99 * clip**2 / n <= np.ptp(squares) <= square.l2_sensitivity


def test_c79_the_square_is_free_up_to_the_constant_and_no_further():
    """Squared distances in units of noise, on a grid that holds the worst pairs."""
    u = np.linspace(0.0, 2.0, 200_001)

    def worst(share):
        return np.max(u**2 * (0.25 + share**2 * (2.0 - u) ** 2))

    golden = (1.0 + 5.0**0.5) / 2.0
    assert golden**5 / 16.0 == pytest.approx(0.8325476691963903**2)
    assert worst(SQUARE_MU) <= 1.0 + 1e-12
    assert worst(SQUARE_MU + 1e-4) > 1.0 + 1e-7
    rng = np.random.default_rng(0)
    s, t = rng.uniform(-1.0, 1.0, (2, 1_000_000))
    s[:500_000] = 1.0
    moves = (s - t) ** 2 / 4.0 + SQUARE_MU**2 * (s**2 - t**2) ** 2
    assert 0.999 < moves.max() <= 1.0 + 1e-12


def test_c79_computed_squares_attain_their_sensitivity():
    """The released pair, whatever the record: its distance in units of noise is at most mu."""
    X, T, y = table()
    folds, mu = np.arange(40) % 2, 0.5
    found = []
    for y[0] in np.concatenate([np.linspace(-40.0, 40.0, 300), [np.nan, 1e308, -1e308]]):
        outcomes = pseudo(X, T, y, folds)
        both = watched(lambda o=outcomes: o.location(0.4, 3.0, mu, square=True))
        found.append([r.value[0] / r.noise_scale for r in both])
    found = np.array(found)
    distances = np.linalg.norm(found[:, None] - found[None], axis=2)
    assert 0.999 * mu <= distances.max() <= mu
    assert both[1].l2_sensitivity >= mean_square(3.0, 40)


def test_c78_receipts_add_up_to_the_total():
    X, T, y = table(400)
    ledger = dpfast.Ledger(2.0)
    effect = treatment_effect(
        X, T, y, privacy=1.0, standardize=False, ledger=ledger, noise=dpfast.SeededNoise(0)
    )
    assert [entry.spend for entry in ledger.entries] == [GDP(1.0)]
    composition = effect.privacy.expression
    spent = float(cost(composition, GDP)[0])
    assert 1.0 - 1e-6 <= spent <= 1.0
    assert spent == pytest.approx(sum(mu**2 for _, mu in effect.privacy.entries), rel=1e-12)
    (nuisances,) = [part for part in composition.parts if isinstance(part, Prepaid)]
    assert isinstance(nuisances.part, Maximum)
    assert len(nuisances.part.parts) == 2
    each = [float(cost(fold, GDP)[0]) for fold in nuisances.part.parts]
    assert max(each) <= nuisances.spend.mu**2
    assert min(each) >= 0.999 * nuisances.spend.mu**2
    pooled = [part for part in composition.parts if part is not nuisances]
    assert len(pooled) == 4  # propensities, deviations, two locations: of all records, added
    outside = sum(float(cost(part, GDP)[0]) for part in pooled)
    assert outside + nuisances.spend.mu**2 == pytest.approx(spent, rel=1e-12)


def test_c78_each_record_is_given_the_nuisances_of_the_other_fold():
    X, T, y = table()
    folds = (np.arange(40) < 20).astype(int)
    outcomes = pseudo(X, T, y, folds)._outcomes
    for i in range(40):
        other = NUISANCES[1 - folds[i]]
        row = np.array([1.0, X[i, 0]])
        e = np.clip(1.0 / (1.0 + np.exp(-row @ other.propensity)), 0.1, 0.9)
        m0, m1 = other.arms @ row
        weighted = (y[i] - m1) / e if T[i] else -(y[i] - m0) / (1.0 - e)
        assert outcomes[i] == pytest.approx(m1 - m0 + weighted, rel=1e-12)


def test_c78_folds_do_not_depend_on_the_records():
    folds = Trial.folds(41, dpfast.SeededNoise(3))
    assert sorted(np.bincount(folds)) == [20, 21]
    assert (folds == Trial.folds(41, dpfast.SeededNoise(3))).all()
    assert (folds != Trial.folds(41, dpfast.SeededNoise(4))).any()


@pytest.mark.parametrize("treated", [0.5, 0.0, 1.0])
def test_outcomes_have_a_model_of_their_own_in_either_arm(treated):
    """With nearly no noise: an arm may be empty, and a record of neither counts in n."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    T = (rng.random(60) < treated).astype(float)
    T[[7, 31]], y[8] = np.nan, np.inf
    fold = np.arange(60) % 2 == 0
    found = trial(X, T, y, np.where(fold, 0, 1))
    usable = fold & np.isfinite(T) & np.isfinite(y)
    design = np.column_stack([np.ones(60), X])
    rows = found.outcomes(0, Ledger(GDP(1e9)))
    treated_rows = np.where(T == 1.0, 1.0, 0.0)[:, None] * design
    own = np.hstack([design, treated_rows])[usable]
    held = np.minimum(1.0, 1.5**2 / (own**2).sum(axis=1))[:, None] * own
    gram, moment = own.T @ held / 30, held.T @ np.clip(y[usable], -1, 1) / 30
    assert rows.gram(1.5, 1e6).value == pytest.approx(gram, abs=1e-5)
    assert rows.moment(1.5, 1.0, 1e6).value == pytest.approx(moment, abs=1e-5)


def test_c60_shares_by_arm_have_one_cell_for_each_record():
    """Propensities of treated records lie in cells of their own: a record moves one cell to one."""
    X, T, y = table()
    folds, edges = np.arange(40) % 2, np.array([0.1, 0.9])

    def asked():
        found = pseudo(X, T, y, folds)
        return watched(lambda: found.overlap(edges, 0.5, by_arm=True))[0]

    before, most = asked(), 0.0
    assert before.value.sum() == pytest.approx(1.0)
    assert before.value[3:].sum() == pytest.approx(T.mean())
    for X[0, 0], T[0], y[0] in hostile_records():
        after = asked()
        most = max(most, np.linalg.norm(after.value - before.value) / after.l2_sensitivity)
    assert 0.999 < most <= 1.0


def test_what_is_missing_contributes_zero():
    X, T, y = table()
    folds = np.arange(40) % 2
    y[3], X[4], T[5] = np.nan, np.inf, 2.0
    found = pseudo(X, T, y, folds)
    assert isinstance(found, PseudoOutcomes)
    values = found._curator_of_values(found._deviations(0.3), Ledger(GDP(1.0)))._records
    assert isinstance(values, Records)
    assert np.flatnonzero(~np.isfinite(values.y)).tolist() == [3, 4, 5]
    (shares,) = watched(lambda: found.overlap(np.array([0.1, 0.9]), 0.5))
    assert shares.value.sum() == pytest.approx(37 / 40)


@pytest.mark.parametrize("treated", [False, True])
def test_c78_a_person_moves_nuisances_as_one_row_and_the_mean_as_one_number(treated):
    """Twenty persons; rows of the first are replaced by up to 40 hostile ones, which are alike."""
    folds, aim = np.arange(20) % 2, Aim(True, True, treated)
    X, T, y = table(60)

    def asked(rows, repeats):
        own = [np.repeat([one], repeats, axis=0) for one in rows]
        A, t, b = [np.concatenate(both) for both in zip(own, (X, T, y), strict=True)]
        group = np.append(np.zeros(repeats, int), np.arange(60) % 19 + 1)
        noise = dpfast.SeededNoise(0)  # chooses alike, whoever has how many rows
        people = Trial(A, b, t, folds, noise, 1, aim, persons=group)
        ledger = Ledger(GDP(1e9))
        for rows in (people.treatments(0, ledger), people.outcomes(0, ledger)):
            rows.gram(1.0, 0.5)
            rows.moment(1.0, 1.0, 0.5)
        outcomes = people.pseudo_outcomes(NUISANCES, 0.1, ledger)
        outcomes.share(0.5)
        outcomes.location(0.4, 3.0, 0.5, square=True)

    seen = [
        watched(lambda r=rows, k=repeats: asked(r, k))
        for rows in hostile_records_of_persons()
        for repeats in (1, 40)
    ]
    for answers in zip(*seen, strict=True):
        values = np.array([one.value.ravel() for one in answers])
        moved = np.linalg.norm(values[:, None] - values[None], axis=2).max()
        assert 0.3 * answers[0].l2_sensitivity < moved <= answers[0].l2_sensitivity


def hostile_records_of_persons():
    for x in (-1e308, -2.0, 0.0, 3.0, np.nan):
        for t in (0.0, 1.0):
            for y in (-1e300, -5.0, 5.0, 1e300):
                yield np.array([x]), t, y


def test_c78_how_much_records_count_attains_its_sensitivity():
    """A treated record counts, one that is not or is missing does not: 1/n apart."""
    X, T, y = table()
    folds, found = np.arange(40) % 2, []
    for T[0] in (0.0, 1.0, np.nan):
        outcomes = trial(X, T, y, folds, treated=True).pseudo_outcomes(
            NUISANCES, 0.1, Ledger(GDP(1e9))
        )
        (share,) = watched(lambda o=outcomes: o.share(0.5))
        found.append(share.value[0])
    assert found[0] == found[2]
    assert 0.999 / 40 <= found[1] - found[0] <= share.l2_sensitivity < 1.0001 / 40


def test_a_row_of_a_person_is_chosen_at_random_among_the_usable_ones():
    """40 persons of three rows, of which one is missing: of 585 draws half, up to 5 sd."""
    X, T, y = table(120)
    group = np.arange(120) % 40
    y[group == 7] = np.nan  # nobody of these is usable
    T[40:80] = np.nan
    counts = np.zeros(3)
    for seed in range(15):
        people = Trial(
            X, y, T, np.arange(40) % 2, dpfast.SeededNoise(seed), 1, Aim(True, True), persons=group
        )
        assert people._row_of_record[7] == 120
        counts += np.bincount(np.delete(people._row_of_record, 7) // 40, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 292.5) < 5 * (585 / 4) ** 0.5
