"""Files that a published version wrote are opened, and the promise names each format."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.bayesopt import state
from dpfast.errors import BudgetExceeded
from dpfast.inference.rendering import wording
from dpfast.lazy import stub_of
from tests.packaging.written import HERE, ROWS, TABLE, searching, step

VERSIONS = sorted(folder.name for folder in HERE.iterdir())
PROMISE = Path(__file__).resolve().parents[2] / "docs" / "stability.md"


def test_this_version_left_its_files():
    assert dpfast.__version__ in VERSIONS


@pytest.fixture(params=VERSIONS)
def files(request, tmp_path):
    """A copy that may be written to."""
    return Path(shutil.copytree(HERE / request.param, tmp_path / "files"))


def test_a_fit_predicts(files):
    """Without the table: the numbers of the file, in the units of the rows."""
    fit = dpfast.saved.load(files / "fit.json")
    told = json.loads((files / "fit.json").read_text())["fit"]["params"]["array"]
    assert fit.params.tolist() == told and fit.n_records == len(TABLE["wage"])
    educ, south = np.array(ROWS["educ"]), np.array(ROWS["region"]) == "south"
    expected = told[0] + told[1] * educ + told[2] * educ**2 + told[3] * south
    np.testing.assert_allclose(fit.predict(ROWS), expected, rtol=1e-9)
    assert fit.conf_int().shape == (4, 2)
    assert "Privacy: epsilon = 4.887 at delta = 1e-06 (1-GDP), one record" in fit.summary()


@pytest.mark.parametrize("page", ["report.html", "study.html"])
def test_a_page_is_recomputed(files, page):
    assert dpfast.inference.verify_report(files / page).passed


@pytest.mark.parametrize("page", ["report.html", "study.html"])
@pytest.mark.parametrize("lie", ["The coefficients that minimise", "equivalent to"])
def test_a_changed_page_of_an_old_format_is_noticed(files, page, lie):
    """Its words are recomputed as that version wrote them."""
    text = (files / page).read_text("utf-8")
    assert text.count(lie) >= 2
    (files / page).write_text(text.replace(lie, "another text"), "utf-8")
    assert not dpfast.inference.verify_report(files / page).passed


def test_a_ledger_goes_on_where_it_was(files):
    book = dpfast.Ledger.open(files / "ledger.json")
    assert book.total == dpfast.ApproxDP(2.0, 1e-6)
    assert [entry.label for entry in book.entries] == ["a pair", "a number"]
    before = book.spent
    assert before.epsilon > 0.5 and before.delta >= 1e-7
    book.charge((1.0, 1e-7), "another")  # 1.5 of what is apart
    with pytest.raises(BudgetExceeded):
        book.charge((1e-6, 1e-7), "too much")
    again = dpfast.Ledger.open(files / "ledger.json")
    assert len(again.entries) == 3 and again.spent.epsilon > before.epsilon + 0.999


def test_a_search_goes_on_where_it_was(files):
    before = json.loads((files / "search").read_text())
    search = searching(files / "search")
    assert search.steps_paid == 2
    while not search.done:
        step(search)
    found = search.result()
    assert len(found.gradients) == 4 and found.lost_steps == 0
    assert found.gradients[:2].tolist() == before["gradients"]


def test_another_result_is_the_same_test():
    files = HERE / dpfast.__version__
    fit, found = (dpfast.saved.load(files / name) for name in ("fit.json", "result.json"))
    assert str(found) == str(fit.t_test("region, educ = 0.1"))
    assert dpfast.inference.verify_report(files / "result.html").passed


def test_the_promise_names_every_format():
    told = re.findall(r"^\| .*`(dpfast [a-z]+) (\d+)`", PROMISE.read_text(), re.M)
    ledger = (HERE / dpfast.__version__ / "ledger.json").read_text()
    written = {
        dpfast.saved.FORMAT, dpfast.saved.RESULT, wording.FORMAT, wording.STUDY,
        f"dpfast search {state.FORMAT}",
        f"dpfast ledger {json.loads(ledger.splitlines()[0])['dpfast ledger']}",
    }  # fmt: skip
    assert {" ".join(pair) for pair in told} == written


def test_the_promise_names_every_room():
    """Each is either stable or said to be for research."""
    rooms = set(re.findall(r"`dpfast\.(\w+)`", PROMISE.read_text()))
    assert stub_of(dpfast.__file__).submodules <= rooms
