"""Continuous integration: what the workflow files may rely on."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.loops import each

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@each("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit(path):
    text = path.read_text()
    used = re.findall(r"uses: *(.+)", text)
    assert used
    for action in used:  # the comment names the tag that has the commit
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert "permissions:" in text


SCRIPTS = sorted(path for path in (ROOT / ".ci").iterdir() if path.suffix != ".py")


@each("path", SCRIPTS, ids=lambda path: path.name)
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


@each("path", WORKFLOWS, ids=lambda path: path.name)
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
        elif program == "python" and arguments[0].startswith(".ci/"):
            assert (ROOT / arguments[0]).exists(), command
        elif program == ".venv/bin/python":
            assert arguments[0] == "-m"
            assert (ROOT / (arguments[1].replace(".", "/") + ".py")).exists(), command
        else:
            assert command.startswith(("python -m pip install", "python -m cibuildwheel")), command


def test_the_scheduled_jobs():
    text = (ROOT / ".github" / "workflows" / "scheduled.yml").read_text(encoding="utf-8")
    nightly, weekly = text.split("  weekly:\n")
    assert set(re.findall(r"run: \.ci/nightly (\w+) ", nightly)) == set(NIGHTLY["PARTS"])
    wanted = {"free-threaded interpreter", "planted bugs", "reproducible wheel"}
    assert set(re.findall(r"\{ name: ([^,]+),", weekly)) == wanted


NIGHTLY = runpy.run_path(str(ROOT / ".ci" / "nightly.py"))


def test_the_parts_of_a_night(monkeypatch, tmp_path, capsys):
    """Each has a budget; what fails or takes longer is said, and the others still run."""
    part, main = NIGHTLY["Part"], NIGHTLY["main"]
    parts = {
        "long": part(0.005, ("sleep 60 & sleep 60", "echo never")),
        "bad": part(1.0, ("exit 3", "echo this as well")),
        "slow": part(1.0, ("echo sixth {sixth}",)),
    }
    monkeypatch.setitem(main.__globals__, "PARTS", parts)
    log = tmp_path / "build" / "log"
    assert main(["--log", str(log), "--sixth", "4"]) == 1
    said, kept = capsys.readouterr().out.splitlines(), log.read_text("utf-8")
    assert "sleep 60: not done within the budget; echo never: not begun" in said[0]
    assert "exit 3: exit code 3" in said[1] and said[2].endswith("passed")
    assert all(line in kept for line in said) and "this as well\n" in kept
    assert "\nsixth 4\n" in kept and main(["--log", str(log), "slow"]) == 0
    with pytest.raises(SystemExit):
        main(["none"])
    assert "there are long, bad, slow" in capsys.readouterr().err


def test_the_parts_of_a_night_are_scripts_and_every_suite_of_benchmarks():
    commands = [command for part in NIGHTLY["PARTS"].values() for command in part.commands]
    assert {ROOT / c.split()[0] for c in commands if c.startswith(".ci/")} <= set(SCRIPTS)
    suites = {path.parent.name for path in ROOT.glob("bench/*/test_*_bench.py")}
    assert {f".venv/bin/python -m bench {suite} --quick" for suite in suites} < set(commands)
    assert any("-m slow" in command and "--sixth {sixth}" in command for command in commands)


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


def test_hooks_run_the_tools_of_the_lint_group():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    lint = {re.match(r"[\w-]+", r)[0] for r in groups["lint"]}
    assert lint == {"ruff", "mypy", "cython-lint", "clang-format", "pre-commit", "codespell"}
    hooks = set(re.findall(r"- id: ([\w-]+)", text))
    assert hooks == {"ruff", "ruff-format", "mypy", "cython-lint", "clang-format", "codespell"}
    assert all(".venv/bin/" in entry for entry in re.findall(r"entry: (.*)", text))


def test_ci_runs_the_command_of_the_readme():
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "make test" and "make test " in (ROOT / "README.md").read_text()


def test_settings_of_threads_do_not_reach_the_tests():
    """Whether a test passed hung on variables of the BLAS that happened to be set."""
    told = {"OPENBLAS_CORETYPE": "Nehalem", "OMP_NUM_THREADS": "7", "DPFAST_NUM_THREADS": "many"}
    program = "import os; import tests.conftest; print(*sorted(os.environ.items()), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | told,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert "OPENBLAS_CORETYPE" not in done.stdout and "DPFAST_" not in done.stdout
    assert "('OMP_NUM_THREADS', '1')\n('OPENBLAS_NUM_THREADS', '1')\n" in done.stdout


def test_every_extra_is_for_users_and_groups_are_for_developers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(everything.removeprefix("dpfast[").rstrip("]").split(",")) == set(extras) - {"all"}
    tools = ("ruff", "mypy", "pytest", "sphinx", "hypothesis", "torch")
    assert not [r for listed in extras.values() for r in listed if r.startswith(tools)]
    groups = settings["dependency-groups"]
    tried = {"test", "lint", "coverage", "operators", "bench", "docs"}
    assert set(groups) == tried | {"peers", "rivals"}
    # from an index, where the name may be anybody's, while the checkout is what is worked on
    assert not [r for listed in groups.values() for r in listed if r.startswith("dpfast")]


def test_only_the_first_target_compiles():
    recipes = re.findall(r"\tpip install.*|.*-m pip install.*", (ROOT / "Makefile").read_text())
    assert len(recipes) == 7 and sum("--editable ." in line for line in recipes) == 1
    groups = [line.split("--group ")[1] for line in recipes[2:]]
    assert groups == ["bench", "lint", "coverage", "operators", "docs"]


def test_a_release_says_where_the_project_lives():
    address = runpy.run_path(str(ROOT / ".ci" / "address.py"))
    here, tag = "https://example.org/someone/dpfast", "v1.0.0"
    settings = (ROOT / "pyproject.toml").read_text()
    assert "urls" not in tomllib.loads(settings)["project"]
    written = tomllib.loads(address["with_urls"](settings, here, tag))["project"]
    assert set(written["urls"]) >= {"Source", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(here) for url in written["urls"].values())
    assert {k: v for k, v in written.items() if k != "urls"} == tomllib.loads(settings)["project"]
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", address["with_links"](readme, here, tag))
    assert len(links) > 5 and all(link.startswith(f"{here}/blob/{tag}/") for link in links)
    assert all((ROOT / link.removeprefix(f"{here}/blob/{tag}/")).exists() for link in links)
    publish = (ROOT / ".github/workflows/publish.yml").read_text()
    assert publish.count("python .ci/address.py") == 2  # wheels and sdist
