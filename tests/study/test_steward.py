"""The steward's side of a study: rehearsals on public rows, parts, and a statement of charges."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.errors import BudgetExceeded, InvalidInput
from dpfast.inference.composition import lines_of
from tests.study.test_study import REQUESTS, TABLE, Untouchable, study_of, table_of

PUBLIC = table_of(600, seed=1)
COUNTS = {"analysis": "counts", "by": "sex"}

pytestmark = pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")


def shapes(value):
    """Names and array shapes of an answer's intervals."""
    return {name: np.shape(ends) for name, ends in value["conf_int"].items()}


def test_a_rehearsal_has_the_shape_of_the_answer_and_touches_nothing():
    table = Untouchable(TABLE)
    study = study_of(table)
    before = table.touched
    told = [study.rehearse(request | {"share": 0.1}, PUBLIC) for request in REQUESTS]
    assert table.touched == before and study.ledger.entries == () and study.log == []
    for request, rehearsed in zip(REQUESTS, told, strict=True):
        answer = study_of().answer(request | {"share": 0.1})
        assert {*rehearsed} == {*answer, "rehearsal", "spend", "warnings"}
        assert {*rehearsed["answer"]} == {*answer["answer"]}
        assert shapes(rehearsed) == shapes(answer)
        assert [rehearsed[key] for key in ("request", "digest")] == [
            answer[key] for key in ("request", "digest")
        ]
        assert rehearsed["spend"] == study.quote(request | {"share": 0.1}).to_dict()["spend"]
        assert json.loads(json.dumps(rehearsed)) == rehearsed


def test_a_rehearsal_says_that_it_is_none_of_the_study():
    told = study_of().rehearse(REQUESTS[0] | {"share": 0.1}, PUBLIC)
    for text in (told["rehearsal"], told["summary"]):
        assert text.startswith("REHEARSAL, not private")
    assert "guarantee: none" in told["summary"]


def test_a_rehearsal_does_not_depend_on_the_records():
    """Neither on their values nor on whether there are any."""
    others = {name: column[::-1] for name, column in table_of(seed=9).items()}
    request = REQUESTS[6] | {"share": 0.1}
    first = study_of().rehearse(request, PUBLIC)
    assert first == study_of(others).rehearse(request, PUBLIC)
    assert first == study_of(None, n=3000).rehearse(request, PUBLIC)
    assert first == study_of("absent.parquet", n=3000, like=PUBLIC).rehearse(request)


def test_warnings_of_the_answer_are_rehearsed():
    """Half of the times of hazards are negative, in the public rows, too."""
    request = REQUESTS[4] | {"share": 0.1}
    for told in (
        study_of().rehearse(request, PUBLIC)["warnings"],
        study_of().run(request).warnings,
    ):
        assert any("about 1,500 of 3,000 records" in message for message in told)


def test_a_rehearsal_needs_public_rows(tmp_path):
    request = COUNTS | {"share": 0.1}
    path = tmp_path / "table.csv"
    path.write_text("sex\n" + "F\nM\n" * 20)
    for study, like, said in (
        (study_of(), None, "needs public rows"),
        (study_of(), TABLE, "private table"),
        (study_of(like=TABLE), None, "private table"),
        (study_of(path, n=40), str(path), "private table"),
        (study_of(), {"sex": []}, "no rows"),
        (study_of(), {"age": [1.0]}, "lacks"),
    ):
        with pytest.raises(InvalidInput, match=said):
            study.rehearse(request, like)
        assert study.ledger.entries == ()


# ---- the statement -------------------------------------------------------------------------------


def rows_of(study):
    table = study.statement().table
    return list(zip(table.labels, table.cells, strict=True))


@pytest.mark.parametrize("total", [dpfast.GDP(2.0), dpfast.ZCDP(2.0)])
def test_the_statement_says_what_each_charge_left(total):
    study, left = study_of(privacy=total), []
    assert rows_of(study) == []
    for k, request in enumerate(REQUESTS[5:8]):
        study.run(request | {"share": 0.2, "name": f"Ana, look {k}"})
        left.append(repr(study.remaining))
    entries = study.ledger.entries
    assert rows_of(study) == [
        (f"{k + 1}. {entry.label}", (f"Ana, look {k}", repr(entry.spend), left[k]))
        for k, entry in enumerate(entries)
    ]
    facts = dict(study.statement().table.facts)
    assert facts == {"Total": repr(total), "Remaining": left[-1], "Charges": "3"}


def test_charges_of_others_are_in_the_statement_without_names(tmp_path):
    book = tmp_path / "study.ledger"
    study_of(ledger=book).run(COUNTS | {"share": 0.1, "name": "Ana"})
    other = study_of(privacy=None, ledger=book)
    other.ledger.charge(dpfast.GDP(1.0), "a press release")
    other.run(COUNTS | {"share": 0.1, "name": "Ben"})
    assert [cells[0] for _, cells in rows_of(other)] == ["-", "-", "Ben"]
    assert rows_of(other)[1][0] == "2. a press release"
    assert rows_of(other)[-1][1][2] == repr(other.remaining)


def test_what_was_returned_is_a_line_of_its_own():
    study = study_of()
    ledger = study.ledger
    mark = ledger._reserve(dpfast.GDP(1.0), "a run")
    ledger._give_back(mark, quanta(0.5))
    assert [line[1] for line in lines_of(ledger)] == [dpfast.GDP(1.0), dpfast.GDP(0.5)]
    (_, taken), (label, back) = rows_of(study)
    assert taken[1] == "GDP(mu=1.0)" and label == "2. returned by charge 1"
    assert back[1] == "-GDP(mu=0.5)" and back[2] == repr(study.remaining)


def quanta(mu):
    from dpfast.privacy.ledger.book import quanta_of

    return quanta_of(dpfast.GDP(mu))


def test_an_epsilon_and_delta_ledger_has_a_statement(tmp_path):
    ledger = dpfast.Ledger.open(
        tmp_path / "book", dpfast.ApproxDP(4.0, 1e-6), dpfast.ApproxDP(1.0, 1e-7)
    )
    ledger.charge(dpfast.PureDP(0.5), "a one-shot release")
    study = study_of(privacy=None, ledger=ledger)
    study.run(COUNTS | {"share": 0.5})
    assert len(rows_of(study)) == 2 and rows_of(study)[-1][1][2] == repr(study.remaining)


# ---- parts ---------------------------------------------------------------------------------------


def test_parts_of_analysts_are_charged_to_the_whole_and_end_alone():
    whole = dpfast.Ledger(1.0)
    explore, publish = whole.child(0.6, "explore"), whole.child(0.8, "publish")
    ana, board = (study_of(privacy=None, ledger=part) for part in (explore, publish))
    ana.run(COUNTS | {"share": 1.0})
    with pytest.raises(BudgetExceeded):
        ana.run(COUNTS | {"share": 0.01, "name": "again"})
    assert board.remaining == dpfast.GDP(0.8) and board.quote(COUNTS | {"share": 1.0}).payable
    with pytest.raises(BudgetExceeded):
        whole.child(0.01, "a third part")
    spent = sum(Fraction(repr(entry.charged.mu)) ** 2 for entry in whole.entries)
    assert spent == 1 and len(ana.ledger.entries) == 1


def test_a_part_in_a_file_is_charged_once(tmp_path):
    """As docs/study.md does it: first the charge, then the file."""
    whole = dpfast.Ledger.open(tmp_path / "whole.ledger", 1.0)
    whole.charge(0.6, "part", once=" of Ana")
    part = dpfast.Ledger.open(tmp_path / "ana.ledger", 0.6)
    study_of(privacy=None, ledger=part).run(COUNTS | {"share": 1.0})
    with pytest.raises(BudgetExceeded):
        whole.charge(0.6, "part", once=" of Ana")
    assert whole.remaining == dpfast.GDP(0.8)


# ---- approval ------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "approvals" / "approved").mkdir(parents=True)
    return tmp_path / "approvals"


def test_a_request_is_charged_for_only_after_its_approval(folder, tmp_path):
    request = COUNTS | {"share": 0.25, "name": "Ana"}
    table = Untouchable(TABLE)
    study = study_of(table, approvals=folder, ledger=tmp_path / "book")
    before = table.touched
    for ask in (study.run, study.answer, lambda request: study.counts("sex", share=0.25)):
        with pytest.raises(InvalidInput, match="was not approved, and nothing was charged"):
            ask(request)
    quote = study.submit(request)
    with pytest.raises(InvalidInput, match="was not approved"):
        study.run(request)
    assert study.ledger.entries == () and table.touched == before
    steward = study_of(approvals=folder, ledger=tmp_path / "book")  # after a restart
    [waits] = steward.waiting()
    assert waits.request == quote.request and waits.spend == quote.spend
    steward.approve(waits.request)
    assert steward.waiting() == [] and steward.ledger.entries == ()
    third = study_of(approvals=folder, ledger=tmp_path / "book")
    assert third.run(request) is third.run(json.dumps(request))
    assert third.submit(request).payable is False and third.waiting() == []
    assert [entry.spend for entry in third.ledger.entries] == [quote.spend]


@pytest.mark.parametrize(
    "change", [{"share": 0.5}, {"name": "Ben"}, {"level": 0.9}, {"least": 9.0}], ids=str
)
def test_an_approval_is_for_the_whole_document(folder, change):
    study, request = study_of(approvals=folder), COUNTS | {"share": 0.25, "name": "Ana"}
    study.approve(request)
    with pytest.raises(InvalidInput, match="was not approved"):
        study.run(request | change)
    # somebody finds another document with the same digest
    digest = study.quote(request).digest
    path = folder / "approved" / f"{digest}.json"
    path.write_text(json.dumps(study.quote(request | change).request, sort_keys=True))
    with pytest.raises(InvalidInput, match="was not approved"):
        study.run(request)
    assert study.ledger.entries == ()


def test_what_cannot_be_read_is_not_submitted_or_approved(folder):
    study = study_of(approvals=folder)
    for ask in (study.submit, study.approve):
        with pytest.raises(InvalidInput, match="has the fields"):
            ask(COUNTS | {"share": 0.1, "file": "secret.csv"})
    (folder / "notes.json").write_text("{}")  # no request's name
    assert study.waiting() == []
    (folder / f"{'0' * 24}.json").write_text("{")
    with pytest.raises(InvalidInput, match="JSON object"):
        study.waiting()
    with pytest.raises(InvalidInput, match="a folder 'approved'"):
        study_of(approvals=folder / "approved")
    with pytest.raises(InvalidInput, match="answers without approval"):
        study_of().submit(COUNTS | {"share": 0.1})


def test_the_statement_has_the_day_of_approval_from_the_file_system(folder):
    """In another process, too: the folder holds the names of the requests."""
    study, request = study_of(approvals=folder), COUNTS | {"share": 0.25, "name": "Ana"}
    study.approve(request)
    study.run(request)
    study.ledger.charge(dpfast.GDP(0.1), "a press release")
    path = folder / "approved" / f"{study.quote(request).digest}.json"
    os.utime(path, (86400.0 * 365, 86400.0 * 365))  # the first day of 1971
    study.approve(request)  # again: the date stays
    for asked in (study, study_of(approvals=folder, privacy=None, ledger=study.ledger)):
        (_, first), (_, second) = rows_of(asked)
        assert (first[0], first[-1]) == ("Ana", "1971-01-01")
        assert (second[0], second[-1]) == ("-", "-")


def test_the_shell_submits_and_approves(folder, tmp_path, capsys):
    schema, data = tmp_path / "s.toml", tmp_path / "t.csv"
    schema.write_text(dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])}).to_toml())
    data.write_text("sex\n" + "F\nM\n" * 500)
    assert main(["ledger", "create", str(tmp_path / "book"), "--mu", "1"]) == 0
    run = ["run", json.dumps(COUNTS | {"share": 0.25}), "--ledger", str(tmp_path / "book")]
    run += ["--schema", str(schema), "--approvals", str(folder)]
    asked = [*run, "--data", str(data)]
    assert main(asked) == 1 and "was not approved" in capsys.readouterr().err
    assert main([*run, "--submit"]) == 0 and len(list(folder.glob("*.json"))) == 1
    assert main(asked) == 1
    assert main([*run, "--approve"]) == 0 and not list(folder.glob("*.json"))
    assert main(asked) == 0 and "count" in capsys.readouterr().out
