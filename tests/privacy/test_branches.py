"""The list of branches that no test takes: it names functions that exist, and its judge works."""

from __future__ import annotations

import re

from tests.loops import each
from tests.privacy.branches import EXPLAINED, explained, judged, missed
from tests.privacy.test_room import ROOT


@each(("path", "function"), explained())
def test_explained_functions_exist(path, function):
    text = (ROOT / path).read_text(encoding="utf-8")
    name = function.rpartition(".")[2]
    assert name == "(module)" or re.search(rf"\b(def|class) {name}\b", text)


def test_every_reason_is_a_sentence():
    assert len(explained()) == len(EXPLAINED.read_text(encoding="utf-8").splitlines()) - 1
    assert all(len(reason.split()) > 3 for reason in explained().values())


def test_what_is_missed_and_what_is_no_longer():
    part = {"missing_lines": [3], "missing_branches": [[2, 3]]}
    whole = {"missing_lines": [], "missing_branches": []}
    functions = {"f": part, "g": whole, "": whole}
    found = missed({"files": {"/x/dpfast/privacy/a.py": {"functions": functions}}})
    key = ("dpfast/privacy/a.py", "f")
    assert found == {key: "lines [3], branches 2 to 3"}
    assert judged(found, {key: "a platform that no machine here has"}) == []
    assert "no test, and no reason" in judged(found, {})[0]
    assert "is covered" in judged({}, {key: "a platform that no machine here has"})[0]
