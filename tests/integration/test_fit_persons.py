"""``fit(group=..., each="person")``: a person counts with the mean of their rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.data import as_records
from dpfast.data.persons.means import person_means
from dpfast.errors import InvalidInput
from dpfast.models import Bounded, Logistic, Objective
from dpfast.optimize.budgets import _scaled
from tests.loops import each

N = 3_000


def visits(seed=0, longest=10):
    """Logistic rows of persons who come once to ``longest`` times, with an effect of their own."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(N), rng.integers(1, longest + 1, N))
    rng.shuffle(group)
    X = rng.uniform(-1.0, 1.0, (len(group), 2))
    own = 0.7 * rng.normal(size=N)
    eta = -0.3 + X @ [1.0, -0.5] + own[group]
    return X, (rng.random(len(group)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0, group


def fitted(X, y, group, **options):
    given = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)} | options
    records = dpfast.records(X, y, group=group, each="person")
    return dpfast.fit(records, None, dpfast.Objective("logistic", Bounded(1.8)), **given)


def test_sandwich_is_that_of_statsmodels_with_clusters():
    """Weights one over the number of rows, covariance clustered by person, no correction."""
    sm = pytest.importorskip("statsmodels.api")
    X, y, group = visits()
    counts = np.bincount(group)
    model = sm.GLM(y, sm.add_constant(X), sm.families.Binomial(), var_weights=1.0 / counts[group])
    clusters = {"groups": group, "use_correction": False, "df_correction": False}
    with pytest.warns(Warning, match="var_weights"):  # whose agreement is what is tested here
        expected = model.fit(cov_type="cluster", cov_kwds=clusters, tol=1e-12)
    objective = Objective(Logistic(), Bounded(1.8), 2)
    keeper = Curator(
        person_means(as_records(X, y), group), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0)
    )
    gradient, hessian, meat = keeper.nonprivate_sums(expected.params)
    assert np.abs(gradient).max() < 1e-9
    bread = np.linalg.inv(hessian)
    np.testing.assert_allclose(bread @ meat @ bread / N, expected.cov_params(), rtol=1e-7)
    private = fitted(X, y, group, privacy=200.0)
    np.testing.assert_allclose(private.params, expected.params, atol=0.05 * expected.bse.max())
    np.testing.assert_allclose(private.bse, expected.bse, rtol=0.05)


def test_the_noise_is_that_of_one_row_a_person():
    """Whatever their number: a part in a million more, for the rounding of the longer sums."""
    X, y, group = visits()
    first = np.unique(group, return_index=True)[1]
    objective, plan = Objective(Logistic(), Bounded(1.8), 2), StepBudget(0.9, 0.4, 0.3)
    rows, persons = [
        Curator(records, objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0)).plan(plan)
        for records in (as_records(X[first], y[first]), person_means(as_records(X, y), group))
    ]
    assert rows.cost == persons.cost
    for of_row, of_person in zip(rows.receipts, persons.receipts, strict=True):
        assert 1.0 <= of_person.noise_scale / of_row.noise_scale < 1.0 + 1e-6
    found = fitted(X, y, group)
    assert found.privacy.n == N and found.n_records == N


def test_the_result_says_what_counts_and_what_is_private():
    X, y, group = visits()
    found = fitted(X, y, group)
    assert "each person's rows averaged" in found.model
    told = str(found.privacy)
    assert "however many" in told and "that of rows is not" in told
    assert str(len(y)) not in found.summary() + told + repr(found.to_dict())


def test_one_row_a_person_is_the_fit_without_groups():
    X, y, group = visits(longest=1)
    order = np.argsort(group, kind="stable")
    alone = dpfast.fit(
        X, y, dpfast.Objective("logistic", weights=Bounded(1.8)), privacy=1.0,
        noise=dpfast.SeededNoise(0), method=dpfast.optimize.Newton(steps=6),
    )  # fmt: skip
    means = fitted(X[order], y[order], group[order], method=dpfast.optimize.Newton(steps=6))
    np.testing.assert_allclose(means.params, alone.params, rtol=1e-2, atol=1e-3)


METHODS = ["newton", "gradient-descent", "auto"]


@pytest.mark.parametrize("method", METHODS)
@each("loss", ["logistic", "huber", "log-cosh", "pseudo-huber", "poisson"])
@pytest.mark.parametrize("mu", [0.2, 5.0])
@pytest.mark.values
def test_every_method_spends_its_total_and_no_more(method, loss, mu):
    X, y, group = visits()
    ledger = dpfast.Ledger(mu)
    known = None if loss in ("logistic", "poisson") else 1.0
    records = dpfast.records(X, y, group=group, each="person")
    chosen = dpfast.Poisson(5.0) if loss == "poisson" else loss
    found = dpfast.fit(
        records, None, dpfast.Objective(chosen, Bounded(1.8), scale=known), privacy=mu,
        method=method, ledger=ledger, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert np.isfinite(found.params).all() and len(ledger.entries) == 1
    (share,) = found.privacy.spent_share()
    assert 1.0 - 1e-6 < share <= 1
    if loss == "logistic" and mu == 5.0:
        np.testing.assert_allclose(found.params, [-0.28, 0.9, -0.45], atol=0.4)


@each("curvature", [None, "hessian", "majorizer"])
@pytest.mark.parametrize("loss", ["logistic", "huber", "log-cosh", "pseudo-huber", "poisson"])
def test_a_step_is_divided_by_what_it_costs_persons(loss, curvature):
    """With a meat beside the gradient some losses cost persons more than rows (claim C72)."""
    chosen = dpfast.Poisson(5.0) if loss == "poisson" else loss
    known = None if loss in ("logistic", "poisson") else 1.0
    objective = Objective(chosen, Bounded(1.8), 2, scale=known)
    dearer = False
    for gradient, meat in ((1.0, 0.0), (1.0, 0.3), (1.0, 3.0), (0.0, 1.0)):
        if curvature is None and not gradient:
            continue
        for means in (True, False):
            objective.means = means
            budget = _scaled(objective, 0.7 * (1.0 - 1e-10), curvature, gradient, meat)
            assert 0.7 * (1.0 - 1e-9) < joint_cost(objective, budget, means) <= 0.7
        dearer |= joint_cost(objective, budget, True) > 0.7 * (1.0 + 1e-9)
    relation = objective.majorizer_coupling if curvature == "majorizer" else objective.coupling
    if curvature is not None and relation == "independent":
        assert dearer


def test_labels_of_every_kind_and_missing_cells():
    X, y, group = visits()
    X[5, 0], y[9] = np.nan, np.nan
    text = [f"person {label}" for label in group]
    first, second = fitted(X, y, group), fitted(X, y, np.array(text, dtype=object))
    assert (first.params == second.params).all()


@each(
    ("wrong", "named"),
    [
        ({"group_size": 3}, "group_size"),
        ({"group": None}, "needs group"),
        ({"each": "people"}, "each"),
        (dpfast.Objective("log-cosh", Bounded(1.8)), "scale"),
        (dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0)), "free scale"),
    ],
)
def test_refused_by_name_before_the_charge(wrong, named):
    X, y, group = visits()
    ledger = dpfast.Ledger(1.0)
    persons, loss = {"group": group, "each": "person"}, "logistic"
    if isinstance(wrong, dict):
        persons |= wrong
    else:
        loss = wrong
    with pytest.raises(InvalidInput, match=named):
        dpfast.fit(dpfast.records(X, y, **persons), None, loss, privacy=1.0, ledger=ledger)
    assert not ledger.entries


def test_lengths_that_differ_are_refused_without_a_number():
    X, y, group = visits()
    for wrong in ((X[:-1], y, group), (X, y[:-1], group), (X, y, group[:-1])):
        with pytest.raises(InvalidInput) as refused:
            fitted(*wrong)
        message = str(refused.value)
        assert str(len(y)) not in message and str(len(y) - 1) not in message


@pytest.mark.slow
def test_coverage_over_persons_with_informative_numbers_of_rows():
    """Intervals cover the person-weighted target: 95%, 400 fits; false failure 1e-6 each.

    The binomial bound at .95 is .905; with the rows' own standard errors, which ignore persons,
    coverage of the intercept is below .8, which is found with probability above .999.
    """
    rng = np.random.default_rng(7)
    truth = None
    inside = np.zeros(3)
    for run in range(401):
        persons = 200_000 if run == 0 else 2_000
        own = rng.normal(size=persons)
        m = rng.poisson(np.exp(1.2 + 0.4 * own)) + 1
        group = np.repeat(np.arange(persons), m)
        X = rng.uniform(-1.0, 1.0, (len(group), 2))
        eta = -0.3 + X @ [1.0, -0.5] + 0.8 * own[group]
        y = (rng.random(len(group)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0
        if run == 0:
            truth = dpfast.fit(
                dpfast.records(X, y, group=group, each="person"),
                None,
                dpfast.Objective("logistic", weights=Bounded(1.8)),
                privacy=300.0,
            ).params
            continue
        low, high = fitted(X, y, group, noise=dpfast.SeededNoise(run)).conf_int().T
        inside += (low <= truth) & (truth <= high)
    assert (inside / 400 >= 0.905).all(), inside / 400


@pytest.mark.slow
def test_coverage_of_counts_of_persons():
    """Rates that depend on how often persons come: 95%, 200 fits; false failure 1e-6 each.

    The binomial bound at .95 is .87; with errors of rows coverage of the intercept is below .7.
    """
    rng = np.random.default_rng(8)
    loss, truth, inside = Objective(dpfast.Poisson(12.0), Bounded(1.8)), None, np.zeros(3)
    for run in range(201):
        persons = 200_000 if run == 0 else 4_000
        own = rng.normal(size=persons)
        group = np.repeat(np.arange(persons), rng.poisson(np.exp(0.8 + 0.4 * own)) + 1)
        X = rng.uniform(-1.0, 1.0, (len(group), 2))
        y = rng.poisson(np.exp(0.5 + X @ [0.3, -0.2] + 0.4 * own[group])) * 1.0
        rows = dpfast.records(X, y, group=group, each="person")
        if run == 0:
            truth = dpfast.fit(rows, None, loss, privacy=300.0, method="newton").params
            continue
        noise = dpfast.SeededNoise(run)
        found = dpfast.fit(rows, None, loss, privacy=1.0, method="newton", noise=noise)
        low, high = found.conf_int().T
        inside += (low <= truth) & (truth <= high)
    assert (inside / 200 >= 0.87).all(), inside / 200


def slopes_of_the_tutorial():
    """Return the function that a tutorial shows."""
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "difference-in-differences.md"
    code = re.search(r"^def slopes.*?\n(?=\n)", page.read_text(), re.MULTILINE | re.DOTALL)
    names = {"np": np}
    exec(code.group(), names)
    return names["slopes"]


def own_slopes(rng, n, rows=12):
    """Slopes differ, covariates vary more where they are steep, errors are autocorrelated."""
    own = 1.0 + 0.3 * rng.normal(size=n)
    x = rng.normal(size=(n, rows)) * np.exp(own - 1.0)[:, None]
    errors = rng.normal(size=(n, rows))
    for t in range(1, rows):
        errors[:, t] = 0.7 * errors[:, t - 1] + 0.51**0.5 * errors[:, t]
    return np.repeat(np.arange(n), rows), x.ravel(), (own[:, None] * x + errors).ravel()


def test_a_person_moves_their_own_slope_only():
    slopes, rng = slopes_of_the_tutorial(), np.random.default_rng(0)
    who, x, y = own_slopes(rng, 200)
    before = slopes(who, x, y, 200)
    for hostile in (0.0, np.nan, 1e308, -np.inf):
        x[who == 7], y[who == 8] = hostile, hostile
        after = slopes(who, x, y, 200)
        others = np.delete(np.arange(200), [7, 8])
        assert before[others].tobytes() == after[others].tobytes()
    fewer = slopes(who[who != 7], x[who != 7], y[who != 7], 200)
    assert np.isnan(fewer[7]) and fewer[others].tobytes() == before[others].tobytes()


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_the_mean_of_own_slopes_is_covered_where_slopes_and_covariates_are_related(mu):
    """Of 40 intervals at .95 fewer than 31 cover with a chance below 1e-4; noise is seeded."""
    slopes, covered = slopes_of_the_tutorial(), 0
    for seed in range(40):
        found = slopes(*own_slopes(np.random.default_rng(seed), 2000), 2000)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(np.empty((2000, 0)), found, privacy=mu, noise=noise)
        ((low, high),) = fit.conf_int()
        covered += low <= 1.0 <= high
    assert covered >= 31
