"""Studies: requests are read strictly, quoted without records, and paid for once, as quoted."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from dpfast.cli import main
from dpfast.errors import (
    BudgetExceeded,
    DpfastError,
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
)
from dpfast.studies.requests import ANALYSES, part_of, read_request
from tests.loops import each

N = 3000
SECRET = 4711.0815

SCHEMA = dpfast.Schema(
    {
        "sex": dpfast.Categorical(["F", "M"]),
        "t": dpfast.Binary(1, 0),
        "pay": dpfast.Numeric(-6, 6),
        "age": dpfast.Numeric(-4, 4),
    }
)


def table_of(n=N, seed=0):
    rng = np.random.default_rng(seed)
    age, z, u = rng.normal(size=(3, n))
    t = (rng.random(n) < 0.5).astype(float)
    x = z + u + rng.normal(size=n)
    found = {"age": age, "z": z, "x": x, "t": t, "sex": np.tile(["F", "M"], n // 2)}
    found |= {"pay": age + t + rng.normal(size=n), "y": 2.0 * x + 3.0 * u + rng.normal(size=n)}
    return found


TABLE = table_of()

#: One request of each kind.
REQUESTS = [
    {"analysis": "fit", "formula": "pay ~ age + C(sex)", "loss": "least-squares"},
    {"analysis": "effect", "treatment": "t", "response": "pay", "covariates": "age"},
    {"analysis": "two_stage", "formula": "y ~ x | z"},
    {"analysis": "absorbed", "formula": "pay ~ age | sex"},
    {"analysis": "cox", "formula": "age ~ x", "event": "t", "cuts": [20.0, 40.0, 90.0]},
    {"analysis": "counts", "by": ["sex", "t"]},
    {"analysis": "means", "columns": ["pay", "t"], "by": "sex"},
    {"analysis": "quantiles", "column": "pay", "by": "sex", "probabilities": [0.25, 0.75]},
    {"analysis": "fits", "formula": "y ~ x", "by": "sex"},
]


def study_of(data=TABLE, privacy=6.0, **options):
    options = {"schema": SCHEMA, "noise": dpfast.SeededNoise(0)} | options
    return dpfast.Study(data, privacy=privacy, **options)


pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")


def test_every_analysis_is_asked_here():
    assert {request["analysis"] for request in REQUESTS} == {*ANALYSES}


# ---- shares --------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    total=st.floats(1e-3, 1e3),
    parts=st.integers(1, 60),
    kind=st.sampled_from([dpfast.GDP, dpfast.ZCDP]),
)
def test_shares_never_add_up_to_more_and_waste_nothing(total, parts, kind):
    """``parts`` decimal shares of two digits that add up to 1, or to less, always fit."""
    share = math.floor(100 / parts) / 100 or 0.01
    ledger = dpfast.Ledger(kind(total))
    for _ in range(min(parts, round(1 / share))):
        ledger.charge(part_of(ledger.total, share), "one")
    (value,), power = part_of(ledger.total, share).values(), 2 if kind is dpfast.GDP else 1
    exact = Fraction(str(share)) * Fraction(repr(float(total))) ** power
    above = math.nextafter(value, math.inf)
    assert Fraction(repr(value)) ** power <= exact < Fraction(repr(above)) ** power


def test_ten_tenths_are_ten():
    for total in (dpfast.GDP(1.0), dpfast.GDP(0.7), dpfast.ZCDP(0.3)):
        schema = dpfast.Schema({"sex": SCHEMA["sex"]})
        study = dpfast.Study({"sex": ["F", "M"] * 50}, privacy=total, schema=schema)
        for k in range(10):
            study.counts("sex", share=0.1, name=str(k))
        with pytest.raises(BudgetExceeded):
            study.counts("sex", share=0.1, name="another")
        assert len(study.ledger.entries) == 10
        assert study.remaining.values()[0] < 1e-7 * total.values()[0]


def test_a_share_of_gaussian_privacy_is_one_of_its_square():
    assert part_of(dpfast.GDP(2.0), 0.25) == dpfast.GDP(1.0)
    assert part_of(dpfast.ZCDP(2.0), 0.25) == dpfast.ZCDP(0.5)
    assert dpfast.Study(None, privacy=dpfast.ApproxDP(1.0, 1e-6)).remaining == dpfast.GDP.within(
        dpfast.ApproxDP(1.0, 1e-6)
    )
    for total in (dpfast.PureDP(1.0),):
        with pytest.raises(DpfastError):
            dpfast.Study(None, privacy=total)


@pytest.mark.parametrize("apart", [None, (0.5, 2e-7)])
def test_a_ledger_in_epsilon_and_delta_pays_for_a_study(tmp_path, apart):
    """Shares are of what it pays in GDP (claim C87), which the first request fixes."""
    path, schema = str(tmp_path / "book"), dpfast.Schema({"sex": SCHEMA["sex"]})
    dpfast.Ledger.open(path, dpfast.ApproxDP(2.0, 1e-6), apart)
    table = {"sex": ["F", "M"] * 50}
    first = dpfast.Study(table, schema=schema, ledger=path)
    whole = first.remaining
    assert whole == dpfast.GDP.within((2.0, 1e-6) if apart is None else (1.5, 8e-7))
    quote = first.quote({"analysis": "counts", "by": "sex", "share": 0.1, "name": "0"})
    assert quote.payable and quote.spend == part_of(whole, 0.1)
    for k in range(10):
        # the total may be said again, as the ledger has it
        study = dpfast.Study(table, schema=schema, ledger=path, privacy=(2.0, 1e-6))
        study.counts("sex", share=0.1, name=str(k))
    with pytest.raises(BudgetExceeded):
        study.counts("sex", share=0.1, name="another")
    assert {entry.charged for entry in study.ledger.entries} == {quote.spend}
    assert study.remaining.mu < 1e-7
    assert not study.quote({"analysis": "counts", "by": "sex", "share": 0.1}).payable
    if apart is not None:
        study.ledger.charge(apart, "a release out of what is kept")
    with pytest.raises(BudgetExceeded):
        study.ledger.charge((0.1, 1e-8), "more than is kept")
    study.report(tmp_path / "page.html")
    assert dpfast.inference.verify_report(tmp_path / "page.html").passed
    with pytest.raises(InvalidInput, match="has the total"):
        dpfast.Study(table, schema=schema, ledger=path, privacy=(2.0, 1e-7))


def test_a_ledger_without_a_part_in_gaussian_privacy_is_refused():
    ledger = dpfast.Ledger((2.0, 1e-6), apart=(2.0, 1e-6))
    with pytest.raises(InvalidInput, match="left for Gaussian noise"):
        dpfast.Study(None, ledger=ledger)


def test_charges_before_the_first_request_leave_it_less():
    ledger = dpfast.Ledger((2.0, 1e-6))
    study = dpfast.Study({"sex": ["F", "M"] * 50}, schema=SCHEMA, ledger=ledger)
    ledger.charge((1.0, 5e-7), "a release")
    assert study.remaining == dpfast.GDP.within((1.0, 5e-7))
    study.counts("sex", share=1.0)
    assert study.remaining.mu < 1e-7


# ---- what is answered ----------------------------------------------------------------------------


def test_answers_are_those_of_the_functions_themselves():
    study, mu = study_of(), part_of(dpfast.GDP(6.0), 0.1)
    options = {"privacy": mu, "noise": dpfast.SeededNoise(0)}
    by_name = [
        study.fit("pay ~ age + C(sex)", "least-squares", share=0.1),
        study.effect("t", "pay", "age", share=0.1),
        study.two_stage("y ~ x | z", share=0.1),
        study.absorbed("pay ~ age | sex", share=0.1),
        study.cox("age ~ x", "t", [20.0, 40.0, 90.0], share=0.1),
        study.counts(["sex", "t"], share=0.1),
        study.means(["pay", "t"], "sex", share=0.1),
        study.quantiles("pay", "sex", [0.25, 0.75], share=0.1),
        study.fits("y ~ x", "sex", share=0.1),
    ]
    own = {**options, "noise": dpfast.SeededNoise(0)}
    design = SCHEMA.encode(TABLE, ["age"], "pay")
    expected = [
        lambda o: dpfast.fit("pay ~ age + C(sex)", TABLE, "least-squares", schema=SCHEMA,
                                     **o),
        lambda o: dpfast.effects.treatment_effect(design, TABLE["t"], **o),
        lambda o: dpfast.effects.two_stage("y ~ x | z", TABLE, **o),
        lambda o: dpfast.tables.absorbed("pay ~ age | sex", TABLE, schema=SCHEMA, **o),
        lambda o: dpfast.effects.cox("age ~ x", TABLE, event="t", cuts=[20.0, 40.0, 90.0], **o),
        lambda o: dpfast.tables.counts(TABLE, ["sex", "t"], schema=SCHEMA, **o),
        lambda o: dpfast.tables.means(TABLE, ["pay", "t"], "sex", schema=SCHEMA, **o),
        lambda o: dpfast.tables.quantiles(TABLE, "pay", "sex", [0.25, 0.75], schema=SCHEMA, **o),
        lambda o: dpfast.tables.fits("y ~ x", TABLE, "sex", schema=SCHEMA, **o),
    ]  # fmt: skip
    for found, call in zip(by_name, [call(own) for call in expected], strict=True):
        assert json.dumps(told(found)) == json.dumps(told(call))
    assert [entry.spend for entry in study.ledger.entries] == [mu] * len(expected)


@each("covariates", ["z", ["z", "x"]])
def test_a_declared_treatment_is_read_as_declared_whatever_is_declared_beside_it(covariates):
    table = TABLE | {"arm": np.where(TABLE["t"] == 1.0, "new", "old"), "two": TABLE["t"] + 1.0}
    arms = {"arm": dpfast.Binary("new", "old"), "two": dpfast.Binary(2, 1)}
    schema = dpfast.Schema(SCHEMA.columns | arms)
    right, *same = [
        told(study_of(table, schema=schema).effect(name, "y", covariates, share=0.1))
        for name in ("t", "arm", "two")
    ]
    assert [json.dumps(one) for one in same] == [json.dumps(right)] * 2 and not right["warnings"]


def told(result):
    """Everything that was released, with arrays as lists."""
    from dpfast.inference.rendering.arrays import plain

    return plain(result.to_dict())


def test_names_and_documents_are_one_request(tmp_path):
    study = study_of()
    first = study.fit("pay ~ age", dpfast.Quantile(0.75), share=0.2)
    request = {"analysis": "fit", "formula": "pay ~ age", "share": 0.2,
               "loss": {"name": "quantile", "tau": 0.75}}  # fmt: skip
    assert study.run(json.dumps(request)) is first and study.run(request) is first
    assert len(study.ledger.entries) == 1 and len(study.log) == 1
    assert study.run(request | {"name": "again"}) is not first
    assert len(study.ledger.entries) == 2
    assert (
        json.loads(json.dumps(study.answer(request), allow_nan=False))["request"]["level"] == 0.95
    )


def test_files_are_read_by_the_columns_that_a_request_names(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    bad = TABLE | {"secret": np.full(N, "patient 4711")}
    parquet.write_table(pyarrow.table(bad), tmp_path / "t.parquet")
    lines = zip(*(TABLE[name].tolist() for name in TABLE), strict=True)
    text = "\n".join([",".join(TABLE), *(",".join(map(str, line)) for line in lines)])
    (tmp_path / "t.csv").write_text(text + "\n")
    for name in ("t.parquet", "t.csv"):
        study, own = study_of(tmp_path / name), study_of()
        for request in REQUESTS:
            asked = request | {"share": 0.1}
            assert json.dumps(study.answer(asked)) == json.dumps(own.answer(asked)), (name, request)


# ---- quotes --------------------------------------------------------------------------------------


class Untouchable(dict):
    """A table whose values nobody may look at."""

    touched = 0

    def __getitem__(self, name):
        self.touched += 1
        return super().__getitem__(name)


def test_a_quote_touches_nothing():
    """Neither records (a file that is not there), nor the ledger (its bytes), nor noise."""
    study = dpfast.Study("absent.parquet", privacy=6.0, schema=SCHEMA, n=N)
    for request in REQUESTS:
        quote = study.quote(request | {"share": 0.1})
        assert quote.spend == part_of(dpfast.GDP(6.0), 0.1) and quote.payable
        assert quote.share == pytest.approx(0.1, rel=1e-12)
        assert json.loads(json.dumps(quote.to_dict()))["digest"] == quote.digest
        assert "the ledger can pay" in str(quote)
    assert study.ledger.entries == ()
    table = Untouchable(TABLE)
    study = study_of(table)
    before = table.touched  # the number of rows, of one column
    for request in REQUESTS:
        study.quote(request | {"share": 0.1})
    assert table.touched == before <= 1


def test_what_is_quoted_is_charged_and_what_is_expected_is_seen():
    """Of the public table that the private one is like: widths within a fifth of what they are."""
    study = study_of(like=table_of(1000, seed=1))
    for request in REQUESTS:
        asked = request | {"share": 0.11}
        quote = study.quote(asked)
        answer = study.answer(asked)
        assert study.ledger.entries[-1].spend == quote.spend
        assert study.ledger.entries[-1].label.endswith(quote.digest)
        ends = answer["conf_int"]
        for name, width in quote.widths.items():
            found = np.median(np.ptp(np.asarray(ends[name], dtype=float), axis=-1))
            assert found == pytest.approx(width, rel=0.2), (request, name)
        assert not study.quote(asked).payable  # it was paid for
        assert "or has paid" in str(study.quote(asked))


def test_a_quote_says_what_it_lacks():
    study = dpfast.Study(None, privacy=6.0, schema=SCHEMA)
    assert "pass n=" in study.quote(REQUESTS[0] | {"share": 0.1}).told
    assert study.quote(REQUESTS[1] | {"share": 0.1}).widths is None
    with pytest.raises(InvalidInput, match="has no table"):
        study.run(REQUESTS[0] | {"share": 0.1})
    assert not study.quote(REQUESTS[0] | {"mu": 6.5}).payable
    assert study.quote(REQUESTS[0] | {"mu": 6.0}).payable


# ---- plans ---------------------------------------------------------------------------------------


def planning(n=5000):
    return dpfast.Study("absent", privacy=2.0, schema=SCHEMA, n=n, like=table_of(4000, seed=1))


@pytest.mark.slow
def test_widths_prices_and_records_agree():
    """The number of records that is found of the widths of a plan is the plan's."""
    priced = [request | {"share": 0.11} for request in REQUESTS]
    first = planning().plan(priced)
    assert first.payable and first.needed.mu == pytest.approx(2.0 * math.sqrt(0.99), rel=1e-12)
    assert [row.spend for row in first.rows] == [part_of(dpfast.GDP(2.0), 0.11)] * len(REQUESTS)
    spent = sum(Fraction(repr(row.spend.mu)) ** 2 for row in first.rows)
    assert Fraction(repr(math.nextafter(first.needed.mu, 0.0))) ** 2 < spent
    assert spent <= Fraction(repr(first.needed.mu)) ** 2
    wanted = [r | {"width": 1.01 * row.width} for r, row in zip(priced, first.rows, strict=True)]
    both = [r for r in wanted if r["analysis"] in ("fit", "means")]
    found = planning(n=7).plan(both, records=True)
    assert found.n == pytest.approx(5000, rel=0.1)


def test_a_plan_says_what_does_not_fit_and_what_it_lacks():
    study = dpfast.Study(None, privacy=1.0, schema=SCHEMA, n=5000)
    counts = {"analysis": "counts", "by": "sex"}
    found = study.plan([counts | {"share": 0.6}, counts | {"share": 0.5}])
    assert not found.payable and "NOT ENOUGH" in str(found)
    half = study.plan([counts | {"share": 0.25}]).rows[0]
    width = 2.0 * 1.959964 * math.sqrt(2.0) / half.spend.mu  # claim T1
    assert half.width == pytest.approx(width, rel=2e-3)
    unknown = study.plan([REQUESTS[1] | {"share": 0.1}]).rows[0]
    assert math.isnan(unknown.width) and "like=" in unknown.told
    for requests in ([], "x", {}, [counts], [counts | {"width": -1.0}], [counts | {"width": 1e-9}],
                     [REQUESTS[1] | {"width": 1.0}], [counts | {"share": 0.1}] * 1001):  # fmt: skip
        with pytest.raises(DpfastError):
            study.plan(requests)
    with pytest.raises(InvalidInput, match="a price"):
        study.plan([counts | {"width": 1.0}], records=True)
    with pytest.raises(InvalidInput, match="pass n="):
        dpfast.Study(None, privacy=1.0, schema=SCHEMA).plan([counts | {"share": 0.1}])


# ---- hostile requests ----------------------------------------------------------------------------

FIT = {"analysis": "fit", "formula": "pay ~ age", "share": 0.1}
COUNTS = {"analysis": "counts", "by": "sex", "share": 0.1}

HOSTILE = [
    "", "{", "[]", "null", "7", '"fit"', "NaN", "{}", b"\xff\xfe", "[" * 10**5, "{" * 9,
    '{"analysis": "counts", "by": "sex", "share": 0.1, "share": 0.2}',
    '{"analysis": "counts", "by": "sex", "share": NaN}',
    '{"analysis": "counts", "by": "sex", "share": 1e999}',
    '{"analysis": "counts", "by": "sex", "share": ' + "9" * 5000 + "}",
    json.dumps(COUNTS) + " " * (1 << 16),
    {"analysis": "shell", "share": 0.1}, {"share": 0.1}, FIT | {"analysis": ["fit"]},
    FIT | {"noise": 0}, FIT | {"seed": 1}, FIT | {"data": "/etc/passwd"}, FIT | {"path": "x"},
    FIT | {"schema": None}, FIT | {"ledger": "x"}, FIT | {"privacy": 1.0}, FIT | {"width": 0.1},
    FIT | {"mu": 1.0}, {k: v for k, v in FIT.items() if k != "share"},
    *[FIT | {"share": value} for value in (0, -0.1, 1.1, True, "0.1", None, [0.1], {}, math.nan)],
    *[FIT | {"level": value} for value in (0.4, 1.0, "x", None, True)],
    *[FIT | {"loss": value} for value in ("os", 7, {"name": "quantile", "scale": 1}, {"tau": 0.5},
                                          {"name": "quantile", "tau": "x"}, ["log-cosh"])],
    *[FIT | {"name": value} for value in ("", "x" * 201, 7, "\x00", "\n")],
    *[FIT | {"formula": value} for value in (
        "", 7, ["pay ~ age"], "pay", "pay ~ 1", "pay ~ nobody", "pay ~ sex.upper()",
        "pay ~ __import__('os').system('touch hacked')", "pay ~ I(__import__('os'))",
        "pay ~ I(open('/etc/passwd').read())", "pay ~ I(age.__class__)", "pay ~ np.load('x')",
        "pay ~ I((lambda: age)())", "pay ~ I(eval('1'))", "pay ~ {__import__('os')}",
        "pay ~ `/etc/passwd`", "pay ~ (age + t)**9", "pay ~ (age + t):(age + sex)",
        "pay ~ age*t*sex*age*t*sex*age*t*sex*age", "pay ~ I(" + "-" * 900 + "age)",
        "pay ~ I(" + "(" * 100 + "age" + ")" * 100 + ")", "pay ~ I(age + " + "9" * 400 + ")",
        "pay ~ I(9**9**9**9 + age)", "pay ~ age + " + "t + " * 300 + "t", "pay ~ poly(age, 3)",
        "pay | age ~ t", "pay ~ age | t", "pay ~ .", "pay ~ age\n+ t",
    )],
    *[COUNTS | {"by": value} for value in (
        [], "pay", "nobody", 7, [7], ["sex", "sex"], ["sex", "t", "sex"], [["sex"]], {"sex": 1},
        "x" * 300, ["sex"] * 101, None,
    )],
    COUNTS | {"least": -1}, COUNTS | {"least": math.inf}, COUNTS | {"columns": "pay"},
    {"analysis": "means", "columns": "sex", "share": 0.1},
    {"analysis": "means", "columns": "../secret", "share": 0.1},
    *[{"analysis": "quantiles", "column": "pay", "probabilities": value, "share": 0.1}
      for value in ([], [0], [1.5], ["x"], 0.5, [0.5] * 101, [True])],
    {"analysis": "effect", "treatment": "t", "response": "pay", "covariates": "t", "share": 0.1},
    {"analysis": "effect", "treatment": "t", "response": "pay", "covariates": [], "share": 0.1},
    {"analysis": "effect", "treatment": "t", "response": "pay", "covariates": "age",
     "method": "os", "share": 0.1},
    *[{"analysis": "effect", "treatment": "t", "response": "pay", "covariates": "age",
       "share": 0.1} | wrong
      for wrong in ({"propensity": 1.0}, {"propensity": [0.5]}, {"average": "nobody"},
                    {"weights": "x"}, {"largest_weight": 2.0},
                    {"weights": "t", "largest_weight": 2},
                    {"weights": "x", "largest_weight": -1}, {"weights": "nobody",
                                                             "largest_weight": 2.0})],
    *[{"analysis": "absorbed", "formula": text, "share": 0.1}
      for text in ("pay ~ age", "pay ~ age | pay", "pay ~ age | nobody", "pay ~ nobody | sex",
                   "pay ~ age - 1 | sex", "pay ~ sex | sex")],
    *[{"analysis": "cox", "formula": "age ~ x", "event": "t", "cuts": [9.0], "share": 0.1} | wrong
      for wrong in ({"cuts": []}, {"cuts": [2, 1]}, {"cuts": ["x"]}, {"cuts": [1] * 99},
                    {"event": "nobody"}, {"event": "x"}, {"event": None},
                    {"formula": "age ~ x - 1"})],
    {"analysis": "two_stage", "formula": "y ~ x | nobody", "share": 0.1},
    {"analysis": "fits", "formula": "y ~ x", "by": "pay", "share": 0.1},
    {"analysis": "fits", "formula": "y ~ x + sex", "by": "sex", "share": 0.1},
    {"analysis": "fits", "formula": "pay ~ age + C(sex)", "by": "sex", "share": 0.1},
    {"analysis": "fits", "formula": "y ~ x + y", "by": "sex", "share": 0.1},
    *[FIT | {"formula": text} for text in ("pay ~ pay", "pay ~ I(pay ** 2)", "pay ~ age:pay")],
    {"analysis": "cox", "formula": "age ~ x + t", "event": "t", "cuts": [9.0], "share": 0.1},
    *[{k: v for k, v in asked.items() if k != "share"} | {"mu": 1e308} for asked in (FIT, COUNTS)],
    {"analysis": "fits", "formula": "y ~ x", "by": "sex", "loss": "cauchy", "share": 0.1},
]  # fmt: skip


@each("number", range(len(HOSTILE)))
def test_a_hostile_request_is_refused_before_the_charge(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir(tmp_path))
    study = study_of(TABLE | {"secret": np.full(N, SECRET)})
    with pytest.raises(DpfastError) as refused:
        study.run(HOSTILE[number])
    said = str(refused.value)
    assert said and len(said) < 3000 and "4711" not in said
    assert study.ledger.entries == () and study.log == []
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("total", [1.0, dpfast.ZCDP(1.0), (1.0, 1e-6), 1e99], ids=repr)
@pytest.mark.parametrize("price", [{"mu": 1e308}, {"mu": 1e99}, {"mu": 1e-308}, {"share": 1e-320}])
def test_any_price_is_quoted_or_refused_by_the_library(total, price):
    asked = [
        COUNTS, FIT, {"analysis": "means", "columns": "pay", "by": "sex"},
        {"analysis": "quantiles", "column": "pay"},
        {"analysis": "fits", "formula": "y ~ x", "by": "sex"},
    ]  # fmt: skip
    for like in (None, TABLE):
        study = dpfast.Study(None, privacy=total, schema=SCHEMA, n=1000, like=like)
        for one in asked:
            one = {k: v for k, v in one.items() if k != "share"} | price
            for ask in (study.quote, lambda one, study=study: study.plan([one])):
                with suppress(DpfastError):
                    told = ask(one)
                    assert str(told) and (ask is not study.quote or json.dumps(told.to_dict()))


def test_a_quote_says_what_a_run_refuses():
    """Which costs nothing there; a quote is asked in order to know."""
    for asked in (
        {"analysis": "fits", "formula": "y ~ x", "by": "sex", "mu": 1e-4},
        {"analysis": "quantiles", "column": "pay", "mu": 1e-7},
        {"analysis": "cox", "formula": "age ~ x", "event": "t", "cuts": [9.0], "mu": 1e-4},
    ):
        study = study_of(privacy=1.0, like=TABLE)
        quote = study.quote(asked)
        assert quote.widths is None and "would be refused: " in quote.told
        with pytest.raises(InvalidBudget) as refused:
            study.run(asked)
        assert str(refused.value) in quote.told and not study.ledger.entries


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["analysis", "formula", "by", "share", "x"]), inner)
        ),
        max_leaves=8,
    )
)
def test_any_document_is_read_or_refused(document):
    for given_document in (document, json.dumps(document)):
        with pytest.raises(DpfastError):
            read_request(given_document, SCHEMA, dpfast.GDP(1.0))


def test_values_never_speak(tmp_path):
    """Neither the ledger, nor its labels, nor quotes know what a cell says; messages are swept in
    ``tests/test_methods_show_no_data.py``."""
    bad = {name: np.array(column, dtype=object) for name, column in TABLE.items()}
    for name in ("sex", "t"):
        bad[name] = np.where(np.arange(N) == 5, "patient 4711", bad[name]).astype(object)
    for name in ("pay", "age", "x", "y", "z"):
        bad[name] = np.where(np.arange(N) == 5, SECRET, TABLE[name].astype(float))
    book = tmp_path / "study.ledger"
    study = study_of(bad, ledger=book)
    for request in REQUESTS:
        study.quote(request | {"share": 0.1})
        with suppress(InvalidInput):  # for a type of column, which is public
            study.run(request | {"share": 0.1})
    assert "patient" not in book.read_text() and len(study.log) >= 4


# ---- no more than was quoted, and once -----------------------------------------------------------


@pytest.mark.parametrize("first", [1.0, 1.0 + 1e-9])
def test_a_request_can_spend_what_it_was_quoted_and_no_more(monkeypatch, first):
    """Neither at once nor by and by."""
    study, quote = study_of(), study_of().quote(FIT)

    def greedy(request, table, schema, ledger=None, **options):
        ledger.charge(dpfast.GDP(first * request.spend.mu), "once")
        ledger.charge(dpfast.GDP(1e-6), "and a little more")

    monkeypatch.setattr("dpfast.studies.study.answered", greedy)
    with pytest.raises(BudgetExceeded):
        study.run(FIT)
    assert [entry.spend for entry in study.ledger.entries] == [quote.spend] * (first == 1.0)


def test_what_was_paid_for_is_not_paid_for_again_by_anybody(tmp_path):
    book = tmp_path / "study.ledger"
    study_of(ledger=book).run(FIT)
    other = study_of(privacy=None, ledger=book)
    with pytest.raises(BudgetExceeded, match="granted before"):
        other.run(FIT)
    assert len(other.ledger.entries) == 1
    other.run(FIT | {"name": "second look"})
    assert len(other.ledger.entries) == 2


def _race(book, start, found):
    start.wait()
    try:
        study_of(privacy=None, ledger=book).run(COUNTS)
        found.put(1)
    except BudgetExceeded:
        found.put(0)


@pytest.mark.serial
def test_of_several_processes_one_pays(tmp_path):
    book = tmp_path / "study.ledger"
    dpfast.Ledger.open(book, dpfast.GDP(6.0))
    context = multiprocessing.get_context("fork")
    start, found = context.Event(), context.Queue()
    racers = [context.Process(target=_race, args=(book, start, found)) for _ in range(4)]
    for racer in racers:
        racer.start()
    start.set()
    paid = [found.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert sorted(paid) == [0, 0, 0, 1] and len(dpfast.Ledger.open(book).entries) == 1


CRASH = """
import os, sys
import dpfast, dpfast.tables.estimates as estimates
from tests.study.test_study import COUNTS, study_of

estimates.Cells.counts = lambda *arguments: os._exit(9)  # between the charge and the answer
study_of(privacy=None, ledger=sys.argv[1]).run(COUNTS)
"""


def test_a_crash_between_charge_and_answer_leaves_the_ledger_honest(tmp_path):
    book = tmp_path / "study.ledger"
    dpfast.Ledger.open(book, dpfast.GDP(6.0))
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CRASH, str(book)], cwd=root, check=False)
    assert done.returncode == 9
    study = study_of(privacy=None, ledger=book)
    quote = study.quote(COUNTS)
    assert [entry.spend for entry in study.ledger.entries] == [quote.spend] and not quote.payable
    with pytest.raises(BudgetExceeded, match="granted before"):
        study.run(COUNTS)
    assert study.run(COUNTS | {"name": "after the crash"}).n_records == N


def asked_while_it_answers(monkeypatch, study, what):
    """Do something while a thread of this process is in the middle of an analysis."""
    answered, begun, go_on = dpfast.studies.study.answered, threading.Event(), threading.Event()

    def slow(*given, **named):
        begun.set()
        assert go_on.wait(60)
        return answered(*given, **named)

    monkeypatch.setattr("dpfast.studies.study.answered", slow)
    thread = threading.Thread(target=lambda: study.counts("sex", share=0.1), daemon=True)
    thread.start()
    assert begun.wait(60)
    monkeypatch.setattr("dpfast.studies.study.answered", answered)
    try:
        return what()
    finally:
        go_on.set()
        thread.join(60)


@pytest.mark.serial
@pytest.mark.parametrize("kept_in", ["file", "memory"])
def test_a_child_that_is_forked_during_an_analysis_waits_for_nobody(tmp_path, monkeypatch, kept_in):
    ledger = tmp_path / "ledger" if kept_in == "file" else None
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA, ledger=ledger)

    def asked(queue):
        try:
            queue.put(study.counts("sex", share=0.2).by)
        except DpfastError as error:
            queue.put(type(error))

    def forked():
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=asked, args=(queue,))
        child.start()
        child.join(60)
        waits = child.is_alive()
        child.kill()
        return None if waits else queue.get()

    found = asked_while_it_answers(monkeypatch, study, forked)
    assert found == (("sex",) if kept_in == "file" else LedgerClosed)
    assert len(study.log) == 1 and len(study.ledger.entries) == 1 + (kept_in == "file")


@pytest.mark.serial
def test_others_quote_and_report_while_a_thread_is_answered(tmp_path, monkeypatch):
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA)
    study.means("pay", "sex", share=0.1)
    found = asked_while_it_answers(
        monkeypatch,
        study,
        lambda: [len(study.log), study.report(tmp_path / "page.html"), study.remaining,
                 study.quote({"analysis": "counts", "by": "sex", "share": 0.2}).payable],
    )  # fmt: skip
    assert found[0] == 1 and found[3]
    assert len(study.log) == 2
    assert dpfast.inference.verify_report(tmp_path / "page.html").passed


@pytest.mark.parametrize("what", ["log", "report"])
def test_the_log_is_read_while_it_grows(tmp_path, monkeypatch, what):
    """What another thread does in between is done here, between two entries."""
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA)
    study.counts("sex", share=0.1)
    study.counts("t", share=0.1)
    kind, grows = type(read_request(REQUESTS[5] | {"share": 0.1}, SCHEMA, study.ledger.total)), []
    to_dict = kind.to_dict

    def growing(request):
        if not grows:
            grows.append(None)
            study.counts(["sex", "t"], share=0.1)
        return to_dict(request)

    monkeypatch.setattr(kind, "to_dict", growing)
    found = study.log if what == "log" else study.report(tmp_path / "page.html")
    assert len(study.log) == 3
    if what == "log":
        assert len(found) == 2
    else:
        assert dpfast.inference.verify_report(tmp_path / "page.html").passed


class Interrupting(dict):
    """The log of a study, with an interrupt as soon as something is entered."""

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        raise KeyboardInterrupt


def test_an_interrupt_after_an_analysis_loses_no_answer():
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA)
    study._answers = Interrupting()
    with pytest.raises(KeyboardInterrupt) as stopped:
        study.counts("sex", share=0.1)
    ((_, answer),) = study.log
    assert stopped.value.partial_result is answer
    assert study.counts("sex", share=0.1) is answer and len(study.ledger.entries) == 1


@each("number", range(len(REQUESTS)))
def test_an_interrupt_as_an_analysis_returns_keeps_what_it_released(number):
    """It is raised where nobody has the result yet: after its last question, in any frame."""
    study = dpfast.Study(TABLE, privacy=4.0, schema=SCHEMA)
    whole = dpfast.studies.study.answered

    def returning(*given, **named):
        whole(*given, **named)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpfast.studies.study.answered", returning)
        with pytest.raises(KeyboardInterrupt) as stopped:
            study.run(REQUESTS[number] | {"share": 0.5})
    found = stopped.value.partial_result
    assert found.privacy.total == study.ledger.spent
    assert found.to_dict() and "partial_result" in stopped.value.__notes__[0]


def test_an_analysis_in_an_analysis_of_the_same_thread_is_refused():
    """As a handler of signals would ask: it would wait for itself."""
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA)
    lock = study._locks.setdefault(dpfast.studies.study.this_process(), threading.RLock())
    with lock, pytest.raises(LedgerClosed, match="Ask after it returned"):
        study.counts("t", share=0.1)
    assert study.ledger.entries == () and study.counts("t", share=0.1).by == ("t",)


@each("copying", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_study_is_not_copied(copying):
    study = dpfast.Study(TABLE, privacy=1.0, schema=SCHEMA)
    with pytest.raises(LedgerClosed, match="give each process its own"):
        copying(study)


def test_a_mark_is_charged_once(tmp_path):
    for ledger in (dpfast.Ledger(1.0), dpfast.Ledger.open(tmp_path / "marks.ledger", 1.0)):
        ledger.charge(0.1, "a", once=" for one")
        with pytest.raises(BudgetExceeded, match="'for one'"):
            ledger.charge(0.1, "another label", once=" for one")
        ledger.charge(0.1, "a", once=" for two")
        ledger.charge(0.1, "a")
        with pytest.raises(InvalidInput):
            ledger.charge(0.1, "a", once=7)
        assert [entry.label for entry in ledger.entries] == ["a for one", "a for two", "a"]


def test_a_table_of_another_length_is_refused(tmp_path):
    study = study_of(n=N + 1)
    with pytest.raises(InvalidInput, match=f"{N} records"):
        study.run(FIT)
    assert study.ledger.entries == ()


# ---- reports -------------------------------------------------------------------------------------


def reported(tmp_path, **options):
    study = study_of(noise=None, **options)
    for request in REQUESTS:
        study.run(request | {"share": 0.1})
    return study, tmp_path / "study.html"


def test_a_report_is_recomputed(tmp_path, capsys):
    study, page = reported(tmp_path)
    digest = study.report(page)
    found = dpfast.inference.verify_report(page)
    assert found.passed and found.digest == digest and len(found.checks) == 8
    assert main(["verify", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert all(f"{k}. " in text for k in range(1, 8)) and "<script src" not in text
    assert str(SECRET) not in text and study.report(page) == digest


def test_a_study_in_zcdp_and_one_that_spent_little_are_recomputed(tmp_path):
    study, page = reported(tmp_path, privacy=dpfast.ZCDP(18.0))
    study.report(page)
    assert dpfast.inference.verify_report(page).passed
    study_of(privacy=1.0).report(page)
    assert dpfast.inference.verify_report(page).passed


def less_total(told):
    told["total"]["mu"] = 1.0


def cheaper_charge(told):
    told["charges"][0][1]["mu"] *= 0.5


def no_charge(told):
    del told["charges"][1]


def same_charge_for_two(told):
    told["answers"][1]["mark"] = told["answers"][0]["mark"]


def better_estimate(told):
    told["answers"][0]["bse"][0] = "0.1"


def smaller_promise(told):
    told["answers"][3]["statement"] = told["answers"][3]["statement"].replace("GDP", "XDP")


def more_spent_within(told):
    told["answers"][2]["privacy"]["entries"][0][1] = 99.0


def another_target(told):
    told["answers"][0]["target"] = "the truth"


@pytest.fixture(scope="module")
def once_reported(tmp_path_factory):
    study, page = reported(tmp_path_factory.mktemp("reported"))
    study.report(page)
    return study, page, page.read_text(encoding="utf-8")


@each(
    "change",
    [less_total, cheaper_charge, no_charge, same_charge_for_two, smaller_promise,
     more_spent_within, another_target, better_estimate],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_a_report_that_was_changed_is_noticed(once_reported, change):
    from dpfast.inference.rendering.study import study_page
    from dpfast.inference.rendering.transcript import BEGIN, END

    study, page, text = once_reported
    told = json.loads(text[text.index(BEGIN) + len(BEGIN) :].partition(END)[0])
    page.write_text(study_page(told), encoding="utf-8")
    assert dpfast.inference.verify_report(page).passed  # the maker of pages makes the same one
    change(told)
    page.write_text(study_page(told), encoding="utf-8")
    check = dpfast.inference.verify_report(page)
    if change is better_estimate:  # consistent, so only its digest tells
        assert check.passed and check.digest != study.report(page)
    else:
        assert not check.passed
    page.write_text(text.replace("</table>", "</table> ", 1), encoding="utf-8")
    assert not dpfast.inference.verify_report(page).passed


# ---- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [dpfast.GDP(3.0), dpfast.ApproxDP(20.0, 1e-6)], ids=repr)
def test_another_process_runs_a_request(tmp_path, monkeypatch, capsys, total):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    parquet.write_table(pyarrow.table(TABLE), "table.parquet")
    Path("schema.toml").write_text(SCHEMA.to_toml())
    Path("request.json").write_text(json.dumps(FIT | {"loss": "least-squares"}))
    ledger = ["--ledger", "study.ledger", "--schema", "schema.toml"]
    asked = ["run", "request.json", *ledger]
    names = ("--mu",) if type(total) is dpfast.GDP else ("--epsilon", "--delta")
    typed = [str(x) for pair in zip(names, total.values(), strict=True) for x in pair]
    assert main(["ledger", "create", "study.ledger", *typed]) == 0
    assert main([*asked, "--quote", "--n", str(N), "--data", "absent.parquet", "--json"]) == 0
    said = capsys.readouterr().out
    quote = json.loads(said[said.index("{") :])
    assert quote["spend"]["mu"] == part_of(dpfast.GDP.within(total), 0.1).mu and quote["payable"]
    typed = ["run", Path("request.json").read_text(), *ledger, "--n", str(N), "--quote", "--json"]
    assert main(typed) == 0 and json.loads(capsys.readouterr().out)["digest"] == quote["digest"]
    assert main([*asked, "--data", "table.parquet", "--out", "answer.json"]) == 0
    answer = json.loads(Path("answer.json").read_text())
    assert answer["digest"] == quote["digest"] and answer["answer"]["n_records"] == N
    (entry,) = dpfast.Ledger.open("study.ledger").entries
    assert entry.spend.mu == quote["spend"]["mu"] and entry.label.endswith(quote["digest"])
    assert main([*asked, "--data", "table.parquet"]) == 3
    assert main(asked) == 1 and main(["run", "absent.json", *ledger, "--quote"]) == 1
    assert main([*asked, "--data", "table.parquet", "--out", "request.json"]) == 1
    assert len(dpfast.Ledger.open("study.ledger").entries) == 1
