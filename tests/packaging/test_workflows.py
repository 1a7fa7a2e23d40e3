"""Continuous integration: what the workflow files may rely on."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit(path):
    text = path.read_text()
    used = re.findall(r"uses: *(.+)", text)
    assert used
    for action in used:  # the comment names the tag that has the commit
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert "permissions:" in text


SCRIPTS = sorted(path for path in (ROOT / ".ci").iterdir() if path.suffix != ".py")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_script_of_ci_can_be_run(path):
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def commands(path: Path) -> list[str]:
    """What a workflow runs; the scheduled one has it in its matrix."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"\brun: (?![|>$])([^}\n]+)", text)
    for block in re.findall(r"run: [|>]-?\n((?: {8,}.*\n)+)", text):
        found.extend(line.strip() for line in block.splitlines())
    return [command.strip() for command in found]


def test_pages_are_opened_before_they_are_deployed():
    for name in ("test.yml", "pages.yml"):
        assert "make docs-check" in (ROOT / ".github" / "workflows" / name).read_text("utf-8")
    text = (ROOT / ".github" / "workflows" / "pages.yml").read_text("utf-8")
    assert "needs: build" in text and "path: docs/_build/html" in text


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_runs_exists(path):
    """Scripts of .ci, targets of make, modules of this tree; pip and cibuildwheel are others'."""
    targets = set(re.findall(r"^([\w()$./-]+):", (ROOT / "Makefile").read_text(), re.M))
    targets |= {target.replace("$(VENV)", ".venv") for target in targets}
    assert commands(path)
    for command in commands(path):
        program, *arguments = command.split()
        if program == "make":
            assert arguments[0] in targets, command
        elif program.startswith(".ci/"):
            assert ROOT / program in SCRIPTS, command
        elif program == ".venv/bin/python":
            assert arguments[0] == "-m"
            assert (ROOT / (arguments[1].replace(".", "/") + ".py")).exists(), command
        else:
            assert command.startswith(("python -m pip install", "python -m cibuildwheel")), command


def test_the_scheduled_jobs():
    text = (ROOT / ".github" / "workflows" / "scheduled.yml").read_text(encoding="utf-8")
    wanted = {"oldest declared versions", "pre-releases", "free-threaded interpreter",
              "sanitizers", "slow tests", "planted bugs", "reproducible wheel",
              "stale figures", "fuzzing"}  # fmt: skip
    assert set(re.findall(r"\{ name: ([^,]+),", text)) == wanted


def test_a_pull_request_meets_the_gate_of_the_benchmarks():
    assert "python -m bench.compare" in (ROOT / ".github/workflows/bench.yml").read_text()


def test_the_oldest_versions_are_those_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "oldest.py"), "test"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    pins = done.stdout.split()
    assert all(declared.replace(">=", "==") in pins for declared in project["dependencies"])
    assert not [pin for pin in pins if ">=" in pin]


def test_hooks_run_the_tools_of_the_lint_extra():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lint = {re.match(r"[\w-]+", r)[0] for r in project["optional-dependencies"]["lint"]}
    assert lint == {"ruff", "mypy", "cython-lint", "clang-format", "pre-commit"}
    hooks = set(re.findall(r"- id: ([\w-]+)", text))
    assert hooks == {"ruff", "ruff-format", "mypy", "cython-lint", "clang-format"}
    assert all(".venv/bin/" in entry for entry in re.findall(r"entry: (.*)", text))


def test_ci_runs_the_command_of_the_readme():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test" and "make test " in (ROOT / "README.md").read_text()


#: Extras for who works on dpfast, and what the benchmarks compare with: gigabytes.
NOT_FOR_USERS = {"test", "lint", "bench", "docs", "peers", "rivals"}


def test_all_is_every_extra_a_user_has_use_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    listed = set(everything.removeprefix("dpfast[").rstrip("]").split(","))
    assert listed == set(extras) - {"all"} - NOT_FOR_USERS
    tools = ("ruff", "mypy", "pytest", "sphinx", "hypothesis", "torch")
    assert not [r for name in listed for r in extras[name] if r.startswith(tools)]
