"""T6: the same fit in every level costs one fit; and the rows are what they say."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import StepBudget
from dpfast.curator.curator import Curator
from dpfast.curator.noisy_release import observed
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data.records import Records
from dpfast.inference.composition import Maximum, Prepaid, cost
from dpfast.models import LeastSquares, LogCosh, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.sensitivity import joint_mu
from dpfast.solvers.pcn.plan import BudgetAllocation
from dpfast.tables import fits
from dpfast.tables.subgroups import LOSSES
from tests.loops import each

SCHEMA = dpfast.Schema({"g": dpfast.Categorical(["a", "b", "c"])})


def seeded(seed=0):
    return dpfast.SeededNoise(seed)


def population(n, rng=None, slopes=(1.0, 1.5, 2.0)):
    rng = np.random.default_rng(4) if rng is None else rng
    g, x = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.normal(size=n)
    y = 1.0 + np.array(slopes)[g] * x + rng.normal(size=n)
    return {"x": x, "y": y, "g": np.array(["a", "b", "c"])[g], "one": (y > 1.0) * 1.0}


class Tape:
    """Hands out the answers of another run, and keeps the exact values behind them."""

    def __init__(self, answers=None):
        self.answers, self.given, self.seen = answers, [], []

    def release(self, question, release, draw):
        self.seen.append(release)
        found = draw() if self.answers is None else self.answers[len(self.given)]
        self.given.append(found)
        return found


HOSTILE = [(0.3, 0.5), (-50.0, 50.0), (50.0, 50.0), (1e300, -1e300), (np.nan, 1.0), (0.0, np.inf)]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "weights and offsets"])
@pytest.mark.parametrize("loss", ["least-squares", "log-cosh", "logistic"])
@pytest.mark.pairs
def test_t6_no_replaced_record_costs_more_than_one_fit(loss, beside):
    """Whole calls with the same answers on both sides: squared moves, in noise, add up to mu^2."""
    table = population(400)
    table |= {"w": np.ones(400), "o": np.zeros(400)}
    response = "one" if loss == "logistic" else "y"
    options = {"sample_weight": "w", "offset": "o"} if beside else {}

    def run(tape):
        with observed(tape), np.errstate(all="ignore"):
            source = dpfast.records(table, **options)
            fits(f"{response} ~ x", source, "g", loss, schema=SCHEMA, privacy=9.0, noise=seeded())
        return tape

    first = run(Tape())
    worst = 0.0
    for level in ("a", "b", "c", "elsewhere"):
        for x, y in HOSTILE:
            table["g"][0], table["x"][0] = level, x
            table["w"][0], table["o"][0] = (1e9, 0.0) if y > 0.0 else (0.2, 30.0)
            table[response][0] = y if response == "y" else float(y > 0.0)
            second = run(Tape(first.given))
            assert len(second.seen) == len(first.seen)
            moves = [
                (np.linalg.norm(one.value - two.value) / one.noise_scale) ** 2
                for one, two in zip(first.seen, second.seen, strict=True)
            ]
            worst = max(worst, sum(moves))
    assert 0.01 * 81.0 < worst <= 81.0


#: Budgets of a moment beside a Gram, which cost 1 together.
EQUAL, DEARER = [
    StepBudget(*(part / joint_mu("independent", *parts) for part in parts))
    for parts in ((1.0, 1.0), (2.0, 0.5))
]

QUERIES = {
    "gram": lambda rows: rows.gram(1.5, 1.0),
    "curvature": lambda rows: rows.gram(
        1.5, 1.0, Linearization(np.array([0.1, 0.4, 0.2]), LogCosh())
    ),
    "moment": lambda rows: rows.moment(1.5, 2.0, 1.0),
    "gram and moment": lambda rows: rows.gram_and_moment(1.5, 2.0, EQUAL),
    "moment and gram": lambda rows: rows.gram_and_moment(1.5, 2.0, DEARER),
    "scores": lambda rows: rows.clipped(
        Linearization(np.array([0.1, 0.4, 0.2]), LeastSquares()), 2.0, 1.0
    ),
    "scores and products": lambda rows: rows.clipped(
        Linearization(np.array([0.1, 0.4, 0.2]), LeastSquares()), 2.0, 1.0, 0.5
    ),
    "lengths": lambda rows: rows.norm_histogram(np.array([0.5, 1.0, 2.0]), 1.0),
    "weights": lambda rows: rows.norm_histogram(np.array([0.0, 0.5, 1.0]), 1.0, what="weight"),
    "weighted gram": lambda rows: rows.weighed(3.0).gram(1.5, 1.0),
    "weighted scores": lambda rows: rows.weighed(3.0).clipped(
        Linearization(np.array([0.1, 0.4, 0.2]), LeastSquares()), 2.0, 1.0, 0.5
    ),
}


@each("n", [100, 1_000, 20_000, 10**7])
@each("p", [2, 8, 60])
def test_t6_the_shares_of_a_moment_and_its_gram_are_those_of_the_claim(n, p):
    """Within them rounding to a grid is covered: its factor is the root of 2/3 at both ends."""
    budgets = BudgetAllocation(n, p, 1.0).budgets((False, 0, False), 0)
    ratio = budgets.vector / budgets.matrix
    assert 0.4 <= ratio <= 2.0
    for mu in (0.4, ratio, 2.0):
        factor = (mu / 4.0 + 0.5) / np.sqrt(mu**2 / 4.0 + 0.5)
        assert np.sqrt(3.0) * factor >= np.sqrt(2.0) - 1e-12
        assert mu**2 / 4.0 + 0.5 <= 0.5 * joint_mu("independent", mu, 1.0) ** 2


def moves_of(query, records, n=30):
    """What the answers are with each of these records in the place of the first."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(n, 2)), np.ones((n, 3))
    y[:, 0], y[:, 2] = rng.normal(size=n), 0.0
    found = []
    for X[0, 0], X[0, 1], y[0, 0] in records:
        tape = Tape()
        objective = Objective(LeastSquares(), Mallows(1.0), 2)
        curator = Curator(Records(X, y, None), objective, Ledger(GDP(99.0)), seeded(), 1)
        with observed(tape), np.errstate(all="ignore"):
            query(PreconditionedQueries(curator))
        found.append(np.concatenate([r.value.ravel() / r.noise_scale for r in tape.seen]))
    return np.array(found)


def test_a_loss_is_known_by_its_class_not_by_a_name_it_gives_itself():
    ledger = dpfast.Ledger(1.0)
    own = dpfast.CustomLoss(
        np.square, np.tanh, np.cos, psi_bound=1.0, psi_prime_bound=1.0, name="huber"
    )
    with pytest.raises(dpfast.InvalidInput, match="loss must be one of"):
        fits("y ~ x", population(400), "g", own, schema=SCHEMA, privacy=1.0, ledger=ledger)
    assert not ledger.entries


@pytest.mark.parametrize("name", QUERIES)
def test_t6_next_to_zero_every_query_moves_by_the_root_of_one_half_at_most(name):
    """mu is 1; two records of which none is zero may be 1 apart.  Grams and counts attain it."""
    some = [0.0, 0.3, -1.0, 30.0, -30.0, 1e200]
    records = [(np.nan, 0.0, 0.0)] + [(a, b, c) for a in some for b in some for c in some]
    answers = moves_of(QUERIES[name], records)
    away = np.linalg.norm(answers[1:] - answers[0], axis=1)
    assert away.max() <= np.sqrt(0.5)
    if name in ("gram", "lengths", "weights", "weighted gram"):
        assert away.max() >= 0.99 * np.sqrt(0.5)


@each("loss", LOSSES)
def test_t6_fits_ask_nothing_that_the_claim_is_not_about(loss):
    """Units are bought once, before; fits of a level ask for means, shares and Grams only."""
    table, tape = population(6000), Tape()
    response = "one" if loss == "logistic" else "y"
    with observed(tape):
        found = fits(f"{response} ~ x", table, "g", loss, schema=SCHEMA, privacy=2.0)
    first = next(k for k, one in enumerate(tape.seen) if one.query in ("gradient", "hessian"))
    before = {one.query for one in tape.seen[:first]}
    assert before <= {"counts by cell", "counts", "histogram of distances"}
    after = tape.seen[first:]
    allowed = {"hessian", "gradient", "meat", "histogram of lengths"}
    assert {one.query for one in after} <= allowed
    assert all(one.mu > 2.0**-17 for one in after)
    # noise is for all n records, whatever a level has
    lengths = [one for one in after if one.query == "histogram of lengths"]
    assert all(one.l2_sensitivity < np.sqrt(2.0) / 6000 * (1.0 + 1e-9) for one in lengths)
    assert {one.n_records for one in found.fits} == {6000}


def test_t6_the_receipts_say_the_largest_and_add_up():
    ledger = dpfast.Ledger(3.0)
    found = fits(
        "y ~ x", population(6000), "g", schema=SCHEMA, privacy=1.0, ledger=ledger, noise=seeded()
    )
    assert [entry.spend for entry in ledger.entries] == [GDP(1.0)]
    composition = found.privacy.expression
    assert 1.0 - 1e-6 <= float(cost(composition, GDP)[0]) <= 1.0
    (side_by_side,) = [part for part in composition.parts if isinstance(part, Prepaid)]
    assert isinstance(side_by_side.part, Maximum) and len(side_by_side.part.parts) == 3


def test_every_row_is_the_fit_of_its_own_records():
    """At a budget where privacy noise is next to nothing."""
    table = population(8000)
    found = fits("y ~ x", table, "g", schema=SCHEMA, privacy=60.0, noise=seeded())
    for level, one in zip("abc", found.fits, strict=True):
        inside = table["g"] == level
        rows = np.column_stack([np.ones(inside.sum()), table["x"][inside]])
        own, rest, *_ = np.linalg.lstsq(rows, table["y"][inside], rcond=None)
        np.testing.assert_allclose(one.params, own, atol=0.25 * one.bse.max())
        errors = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)) * rest / inside.sum())
        np.testing.assert_allclose(one.bse, errors, rtol=0.25)
    np.testing.assert_allclose(found.counts, [(table["g"] == k).sum() for k in "abc"], atol=2.0)


@pytest.mark.slow
def test_intervals_cover_and_the_test_of_equality_has_its_level():
    """60 runs, 180 slopes: below .88 has a chance below 1e-4 if coverage is .95.  Of 60 tests at
    level .05 more than 10 reject by chance below 1e-4 of the time."""
    rng, covered, rejected, seen = np.random.default_rng(8), [], 0, 0
    for run in range(60):
        table = population(4000, rng, slopes=(1.0, 1.0, 1.0))
        found = fits("y ~ x", table, "g", schema=SCHEMA, privacy=1.0, noise=seeded(run))
        ends = found.conf_int("x")
        covered += ((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0)).tolist()
        rejected += found.equality()["x"][1] < 0.05
        if run < 10:
            table = population(4000, rng)
            other = fits("y ~ x", table, "g", schema=SCHEMA, privacy=1.0, noise=seeded(run))
            seen += other.equality()["x"][1] < 0.05
    assert np.mean(covered) > 0.88 and rejected <= 10 and seen == 10


def test_a_level_that_is_too_small_is_not_fitted():
    table = population(3000)
    schema = dpfast.Schema({"g": dpfast.Categorical(["a", "b", "c", "nobody"])})
    found = fits("y ~ x", table, "g", schema=schema, privacy=1.0, noise=seeded())
    assert [one is None for one in found.fits] == [False, False, False, True]
    assert np.isnan(found.params[3]).all() and np.isnan(found.conf_int("x")[3]).all()
    assert "too small" in found.summary() and len(found.summary().table.labels) == 8
    assert found.to_dict()["fits"][3] is None
    public = fits("y ~ x", table, "g", schema=schema, privacy=1.0, least=1000.0, noise=seeded())
    assert [one is None for one in public.fits] == [False, True, True, True]
    assert np.isnan(public.equality()["x"]).all()


def test_declared_columns_are_those_of_a_schema():
    pytest.importorskip("formulaic")
    table = population(6000)
    schema = dpfast.Schema(
        SCHEMA.columns | {"x": dpfast.Numeric(-5.0, 5.0), "y": dpfast.Numeric(-10.0, 10.0)}
    )
    found = fits("y ~ x + I(x**2)", table, "g", schema=schema, privacy=2.0, noise=seeded())
    assert found.names == ("intercept", "x", "I(x ** 2)")
    np.testing.assert_allclose(found.params[:, 1], [1.0, 1.5, 2.0], atol=0.2)


REFUSED = [
    ({"by": "x"}, "does not declare"),
    ({"by": ()}, "must name one grouping"),
    ({"loss": "poisson"}, "loss must be one of"),
    ({"loss": dpfast.Quantile(0.5)}, "loss must be one of"),
    ({"formula": "y ~ x:y"}, "one of the terms"),
    ({"formula": 7}, "must be a string"),
    ({"privacy": 1e-3}, "at least 0.01"),
    ({"privacy": 0.05}, "too few|coefficients of any level"),
    ({"least": float("nan")}, "least"),
    ({"schema": dpfast.Schema({"g": dpfast.Categorical(range(300))})}, "at most 200"),
    ({"formula": "y ~ absent"}, "absent"),
]


@each(("wrong", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_refusals_cost_nothing(wrong, named):
    ledger = dpfast.Ledger(5.0)
    right = {"formula": "y ~ x", "table": population(300), "by": "g", "schema": SCHEMA,
             "privacy": 4.0, "ledger": ledger}  # fmt: skip
    with pytest.raises((dpfast.DpfastError, KeyError), match=named):
        fits(**right | wrong)
    assert not ledger.entries


def test_fits_that_ended_arrive_with_an_interrupt():
    class Stop(Tape):
        def release(self, question, release, draw):
            if len(self.given) == self.most:
                raise KeyboardInterrupt
            return super().release(question, release, draw)

    whole = Tape()
    call = ["y ~ x", population(4000), "g"], {"schema": SCHEMA, "privacy": 2.0}
    with observed(whole):
        fits(*call[0], **call[1], noise=seeded())
    stop = Stop()
    stop.most = len(whole.given) - 1
    with observed(stop), pytest.raises(KeyboardInterrupt) as raised:
        fits(*call[0], **call[1], noise=seeded())
    found = raised.value.partial_result
    assert [one is None for one in found.fits] == [False, False, True]
    assert found.unfinished is not None and found.privacy.total == GDP(2.0)
    assert "too small" in found.summary()


@pytest.mark.parametrize("loss", ["least-squares", "logistic"])
def test_weights_and_offsets_are_those_of_each_level(loss):
    """At a budget where privacy noise is next to nothing; weights go with errors and slopes."""
    rng = np.random.default_rng(11)
    table = population(9000, rng)
    table |= {"w": rng.uniform(1.0, 5.0, 9000), "o": rng.normal(size=9000)}
    eta = table["y"] + 0.3 * (table["w"] - 3.0) * table["x"]
    table["y"] = eta + table["o"]
    if loss == "logistic":
        table["y"] = 1.0 * (rng.random(9000) < 1.0 / (1.0 + np.exp(-table["y"])))
    source = dpfast.records(table, sample_weight="w", offset="o")
    found = fits("y ~ x", source, "g", loss, schema=SCHEMA, privacy=60.0, noise=seeded())
    for level, one in zip("abc", found.fits, strict=True):
        inside = table["g"] == level
        columns = {name: values[inside] for name, values in table.items()}
        alone = dpfast.records(columns, sample_weight="w", offset="o")
        exact = dpfast.fit("y ~ x", alone, loss, privacy=500.0, noise=seeded())
        np.testing.assert_allclose(one.params, exact.params, atol=0.3 * exact.bse.max())
        np.testing.assert_allclose(one.bse, exact.bse, rtol=0.25)


def test_persons_are_refused_before_the_charge():
    ledger, table = dpfast.Ledger(3.0), population(4000)
    people = dpfast.records(table | {"who": np.arange(4000) // 2}, group="who", each="person")
    with pytest.raises(dpfast.InvalidInput, match="several fits"):
        fits("y ~ x", people, "g", schema=SCHEMA, privacy=1.0, ledger=ledger)
    assert not ledger.entries
