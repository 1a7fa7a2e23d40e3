"""The page on releases does what it says."""

from __future__ import annotations

import re

import pytest

import dpfast


@pytest.mark.usefixtures("repeated")
def test_every_block_of_code_runs(repository, capsys):
    page = (repository / "docs" / "releases.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.M | re.S)
    assert len(blocks) == page.count("```python") == 9
    names = {"__name__": "page"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/releases.md, block {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert "95% with sampling error" not in printed.split("Not certified")[0].split("[[")[0]
    assert "Not certified" in printed
    assert 0.03 < names["result"].value < 0.2
    assert names["smooth"].certified
    options = dpfast.release_functional.__kwdefaults__ | dpfast.release.certify.__kwdefaults__
    options |= dict.fromkeys(dpfast.release.Certified._fields)
    for option in re.findall(r"`(\w+)=", page):
        assert option in options, option


def test_its_figures_are_those_that_are_stored(repository):
    """Rows and remarks about methods are those of the stored result, letter by letter."""
    page = (repository / "docs" / "releases.md").read_text(encoding="utf-8")
    stored = (repository / "bench" / "results" / "release_defaults.md").read_text("utf-8")
    told = page.split("## Which method?")[1].split("## Test and release")[0].splitlines()
    rows = [line for line in told if re.match(r"\| .* \| (one-shot|fit|objective-pert)", line)]
    remarks = [line for line in told if re.match(r"\* .*\d", line)]
    assert len(rows) > 10 and len(remarks) > 5
    for line in rows[1:] + remarks:
        assert f"\n{line}" in stored, line
