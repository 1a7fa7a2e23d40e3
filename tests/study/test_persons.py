"""Persons of a study and weights of its requests; and what of them a quote may know."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.errors import InvalidInput
from tests.loops import each
from tests.study.test_study import Untouchable

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")

SCHEMA = dpfast.Schema({"g": dpfast.Categorical([0, 1]), "v": dpfast.Numeric(-8.0, 8.0)})
MEANS = {"analysis": "means", "columns": "v", "by": "g", "mu": 1.0}
FIT = {"analysis": "fit", "formula": "y ~ x", "mu": 1.0}
WITH = [
    FIT,
    {"analysis": "cox", "formula": "t ~ x", "event": "d", "cuts": [0.5, 1, 3], "mu": 1.0},
    {"analysis": "two_stage", "formula": "y ~ x | z", "mu": 1.0},
    {"analysis": "counts", "by": "g", "mu": 1.0},
    MEANS,
    {"analysis": "quantiles", "column": "v", "by": "g", "mu": 1.0},
]
EFFECT = {"analysis": "effect", "treatment": "d", "response": "y", "covariates": "x", "mu": 1.0}
WITHOUT = [
    {"analysis": "fits", "formula": "y ~ x", "by": "g", "mu": 1.0},
    {"analysis": "absorbed", "formula": "y ~ x | g", "mu": 1.0},
]
ONCE, TWO_ROWS = {"group": "id", "each": "person"}, {"group": "id", "group_size": 2}


def table_of(persons=2500, seed=0):
    """Persons of 1 to 3 rows, whose residuals go together."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rng.integers(1, 4, persons))
    n = len(person)
    table = {"id": person, "x": rng.normal(size=n), "g": rng.integers(0, 2, n)}
    table["z"] = table["x"] + rng.normal(size=n)
    table["y"] = table["x"] + rng.normal(size=n) + rng.normal(size=persons)[person]
    table |= {"v": table["y"], "t": rng.exponential(size=n), "w": rng.uniform(1.0, 3.0, n)}
    return table | {"d": (rng.random(n) < 0.5) * 1.0}


def study_of(data=None, **options):
    data = table_of() if data is None else data
    options = {"privacy": 50.0, "schema": SCHEMA, "noise": dpfast.SeededNoise(900)} | options
    return dpfast.Study(data, **options)


@each("request", [*WITH, EFFECT], ids=lambda request: request["analysis"])
def test_requests_of_a_study_of_persons_protect_persons(request):
    answer = study_of(**ONCE).run(request)
    assert "one person with all their rows" in answer.privacy.relation
    assert answer.n_records == 2500 and answer.privacy.total == dpfast.GDP(1.0)


@each("request", WITH, ids=lambda request: request["analysis"])
def test_persons_may_have_at_most_so_many_rows(request):
    assert "up to 2 rows" in study_of(**TWO_ROWS).run(request).privacy.relation


@each("request", [*WITHOUT, EFFECT], ids=lambda request: request["analysis"])
def test_what_knows_no_persons_is_refused_before_the_charge(request):
    study = study_of(**TWO_ROWS)
    with pytest.raises(InvalidInput):
        study.run(request)
    assert study.ledger.entries == ()


def test_a_study_answers_as_its_function_does():
    """With persons and weights alike: the same bits."""
    table, noise = table_of(), dpfast.SeededNoise(900)
    rows = dpfast.records(table, sample_weight="w", largest_weight=3.0, **ONCE)
    direct = dpfast.tables.means(rows, "v", "g", schema=SCHEMA, privacy=1.0, noise=noise)
    asked = study_of(table, **ONCE).run(MEANS | {"weights": "w", "largest_weight": 3.0})
    assert asked.mean.tolist() == direct.mean.tolist()
    rows = dpfast.records(table, sample_weight="w")
    direct = dpfast.fit("y ~ x", rows, privacy=1.0, noise=dpfast.SeededNoise(900))
    asked = study_of(table).fit("y ~ x", weights="w", mu=1.0)
    assert np.array_equal(asked.params, direct.params)


def test_the_number_of_rows_is_private_where_persons_count_once():
    """Neighbours with other numbers of rows: alike in all that a study says without a charge."""
    table = table_of()
    longer = {name: np.append(column, column[-1:]) for name, column in table.items()}
    said = []
    for data in (table, longer):
        study = study_of(data, **ONCE, like=table_of(300, seed=1))
        quote = study.quote(MEANS)
        said.append((repr(study), study.n, quote.told, quote.widths))
        assert study.n is None and "pass n=" in quote.told
        declared = study_of(data, **ONCE, n=2500)
        said[-1] += (repr(declared), declared.run(MEANS).n_records)
        ragged = study_of(data | {"x": data["x"][:-1]}, **ONCE)
        with pytest.raises(InvalidInput) as refused:
            ragged.run(FIT)
        said[-1] += (str(refused.value),)
    assert said[0] == said[1]


@pytest.mark.parametrize("beside", [{}, {"weights": "w", "largest_weight": 3.0}], ids=["", "w"])
@pytest.mark.parametrize("persons", [{}, ONCE, TWO_ROWS], ids=["rows", "once", "two"])
def test_widths_with_persons_and_weights_are_forecast(persons, beside):
    """From other persons of the same kind: medians of three answers with seeded noise.  A width of
    a mean varies by some 3% from table to table, that of a slope by 8%; 30% is allowed."""
    table = table_of()
    n = 2500 if persons.get("each") else len(table["id"])
    study = study_of(table, n=n, like=table_of(500, seed=1), **persons)
    for request in (MEANS, FIT):
        if request is FIT and persons.get("each") and beside:
            continue  # means of a person's rows have no weights
        asked = [request | beside | {"name": str(k)} for k in range(3)]
        told = [study.answer(one)["conf_int"] for one in asked]
        for name, width in study.quote(asked[0]).widths.items():
            widths = [np.median(np.ptp(np.asarray(one[name], float), axis=-1)) for one in told]
            assert np.median(widths) == pytest.approx(width, rel=0.3), name
    [row] = study.plan([MEANS | beside]).rows
    assert row.width == pytest.approx(max(study.quote(MEANS | beside).widths.values()))


def test_quotes_and_plans_touch_no_record():
    table = Untouchable(table_of())
    study = study_of(table, n=2500, like=table_of(300, seed=1), **ONCE)
    before = table.touched
    study.quote(MEANS)
    study.plan([FIT])
    study.rehearse(MEANS)
    assert table.touched == before and study.ledger.entries == ()


def test_documents_without_weights_are_what_they_were():
    """A ledger that paid for one before the field existed knows its digest."""
    digest = study_of().quote({"analysis": "fit", "formula": "y ~ x", "share": 0.25}).digest
    assert digest == "ad5f0fd0e9f81db48d48d576"
    same = {"analysis": "fit", "formula": "y ~ x", "share": 0.25, "weights": None}
    assert study_of().quote(same).digest == digest


@each(
    "wrong",
    [{"group": "id"}, {"each": "person"}, {"group_size": 2}, {"group": ["id"], "each": "person"},
     {"group": "id", "each": "rows"}, {"group": "id", "group_size": 0},
     {"group": "id", "group_size": 2, "each": "person"}],
    ids=str,
)  # fmt: skip
def test_persons_are_stated_in_full(wrong):
    with pytest.raises(InvalidInput):
        study_of(**wrong)


def test_a_request_of_the_shell_protects_persons(tmp_path):
    table = table_of(600)
    rows = zip(table["id"], table["g"], strict=True)
    (tmp_path / "t.csv").write_text("id,g\n" + "".join(f"p{i},{g}\n" for i, g in rows))
    (tmp_path / "s.toml").write_text(dpfast.Schema({"g": SCHEMA["g"]}).to_toml())
    book, out = str(tmp_path / "book"), tmp_path / "out.json"
    assert main(["ledger", "create", book, "--mu", "1"]) == 0
    run = ["run", json.dumps(WITH[3]), "--ledger", book, "--schema", str(tmp_path / "s.toml")]
    run += ["--data", str(tmp_path / "t.csv"), "--group", "id", "--each", "person"]
    assert main([*run, "--out", str(out)]) == 0
    told = json.loads(out.read_text())["answer"]
    assert "one person with all their rows" in json.dumps(told) and told["n_records"] == 600
