"""The page on releases does what it says."""

from __future__ import annotations

import re

import dpfast


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
    options = dpfast.release_functional.__kwdefaults__ | dpfast.certify.__kwdefaults__
    for option in re.findall(r"`(\w+)=", page):
        assert option in options, option
