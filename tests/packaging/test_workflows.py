"""Continuous integration: what the workflow files may rely on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit(path):
    text = path.read_text()
    used = re.findall(r"uses: *(\S+)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
    assert "permissions:" in text


def test_ci_runs_the_command_of_the_readme():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test" and "make test " in (ROOT / "README.md").read_text()


#: Extras for who works on dpfast, and what the benchmarks compare with: gigabytes.
NOT_FOR_USERS = {"test", "lint", "bench", "docs", "peers"}


def test_all_is_every_extra_a_user_has_use_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    listed = set(everything.removeprefix("dpfast[").rstrip("]").split(","))
    assert listed == set(extras) - {"all"} - NOT_FOR_USERS
    tools = ("ruff", "mypy", "pytest", "sphinx", "hypothesis", "torch")
    assert not [r for name in listed for r in extras[name] if r.startswith(tools)]
